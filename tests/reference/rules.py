"""Lists by rules, slowly: the readable specification of `csrr.ranking.rules`."""

import numpy as np


def spread_of(scores, allowed):
    """Return the standard deviation of the 100 best scores that may be in a list."""
    best = np.sort(scores[allowed & np.isfinite(scores)].astype(np.float64))[::-1][:100]
    return best.std() if len(best) else 0.0


def list_by_rules(scores, k, *, allowed, bonus, diversity, cosines, groups, most, least, places):
    """Return one user's list, item by item: scores and bonus of shape (m,), cosines (m, m), groups (m, g) of bools."""
    values = (scores + np.float32(spread_of(scores, allowed)) * bonus).astype(np.float32)
    left = [item for item in np.lexsort((places, -values)) if allowed[item] and np.isfinite(scores[item])]
    if not left:
        return []
    low, high = values[left[min(len(left), max(50, 5 * k)) - 1]], values[left[0]]
    chosen = []
    while len(chosen) < k:
        counts = groups[chosen].sum(axis=0)
        lacking = np.maximum(least - counts, 0)
        may_enter = [item for item in left if (counts[groups[item]] < most[groups[item]]).all()]
        if 0 < lacking.sum() >= k - len(chosen):
            may_enter = [item for item in may_enter if lacking[groups[item]].any()] or may_enter
        if not may_enter:
            break

        def gain(item):
            relevance = (values[item] - low) / (high - low) if high > low else 0.0
            alike = max([0.0, *cosines[item, chosen]])
            return (1 - diversity) * relevance - diversity * alike

        best = max(may_enter, key=gain) if diversity else may_enter[0]
        chosen.append(best)
        left.remove(best)
    return chosen
