"""Heaps of the k best (score, item) pairs, for compiled loops: the worst is at the root."""

from __future__ import annotations

from csrr._base.lazy_jit import compile_part


@compile_part()
def is_below(score, item, other_score, other_item):  # type: ignore[no-untyped-def]
    # (score, item) ranks below (other_score, other_item)
    return score < other_score or (score == other_score and item > other_item)


@compile_part()
def replace_worst(scores, items, size, score, item):  # type: ignore[no-untyped-def]
    # Replaces the root, the worst of the heap (scores[:size], items[:size]), by (score, item).
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        right = child + 1
        if right < size and is_below(scores[right], items[right], scores[child], items[child]):
            child = right
        if not is_below(scores[child], items[child], score, item):
            break
        scores[hole], items[hole] = scores[child], items[child]
        hole = child
    scores[hole], items[hole] = score, item


@compile_part()
def add_to_heap(scores, items, hole, score, item):  # type: ignore[no-untyped-def]
    # Adds (score, item) to the heap (scores[:hole], items[:hole]).
    while hole > 0:
        parent = (hole - 1) // 2
        if not is_below(score, item, scores[parent], items[parent]):
            break
        scores[hole], items[hole] = scores[parent], items[parent]
        hole = parent
    scores[hole], items[hole] = score, item


@compile_part()
def sort_heap(scores, items, size):  # type: ignore[no-untyped-def]
    # The worst goes to the end, again and again: best first.
    for end in range(size - 1, 0, -1):
        score, item = scores[end], items[end]
        scores[end], items[end] = scores[0], items[0]
        replace_worst(scores, items, end, score, item)
