"""Rankings and metrics as plain loops: the readable specification."""

from math import log2


def best_items(scores, k, left_out=()):
    """Return the k items with the largest scores above -inf, best first, ties by item; perhaps fewer."""
    left = [item for item in range(len(scores)) if scores[item] > float("-inf") and item not in left_out]
    return sorted(left, key=lambda item: (-scores[item], item))[:k]


def metrics(ranked, relevant, k):
    """Return the metrics at k of one list of items, for a user with at least one relevant item."""
    hits = [item in relevant for item in ranked[:k]]
    precision = sum(hits) / k
    recall = sum(hits) / len(relevant)
    f1 = 2 * precision * recall / (precision + recall) if sum(hits) else 0.0
    gain = sum(1 / log2(place + 2) for place, hit in enumerate(hits) if hit)
    ideal = sum(1 / log2(place + 2) for place in range(min(k, len(relevant))))
    ideal_of_hits = sum(1 / log2(place + 2) for place in range(sum(hits)))
    list_ndcg = gain / ideal_of_hits if sum(hits) else 0.0
    average_precision = sum(sum(hits[: place + 1]) / (place + 1) for place, hit in enumerate(hits) if hit)
    return {
        "precision": precision,
        "recall": recall,
        "f1": f1,
        "ndcg": gain / ideal,
        "list_ndcg": list_ndcg,
        "map": average_precision / min(k, len(relevant)),
        "mrr": 1 / (hits.index(True) + 1) if any(hits) else 0.0,
        "hit_rate": float(any(hits)),
    }


def novelty(ranked, k, histories):
    """Return the mean surprise, in bits, of one list, by the histories (sets of items) of those who have one."""
    owners = [max(1, sum(item in history for history in histories)) for item in ranked[:k]]
    return sum(-log2(n / sum(map(bool, histories))) for n in owners) / len(owners)


def coverage(lists, k, n_items):
    """Return the share of the items that are in at least one list."""
    return len({item for ranked in lists for item in ranked[:k]}) / n_items


def auc(scores, relevant, seen):
    """Return how often a relevant item of one user scores above one neither relevant nor seen, ties half."""
    others = [item for item in range(len(scores)) if item not in relevant | seen]
    wins = sum((scores[p] > scores[n]) + (scores[p] == scores[n]) / 2 for p in relevant for n in others)
    return wins / (len(relevant) * len(others)) if relevant and others else float("nan")


def cells(scores, relevant, seen, threshold):
    """Return the positives, those missed, the negatives and the false alarms of one user."""
    negatives = [item for item in range(len(scores)) if item not in relevant | seen]
    missed = sum(scores[item] <= threshold for item in relevant)
    return len(relevant), missed, len(negatives), sum(scores[item] > threshold for item in negatives)
