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
    return {"precision": precision, "recall": recall, "f1": f1, "ndcg": gain / ideal, "list_ndcg": list_ndcg}
