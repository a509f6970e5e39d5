"""Compiled loops over rows of a block. Each releases the interpreter lock and works on a range of rows."""

from __future__ import annotations

import numpy as np
from numba import njit

CHUNK = 64


@njit(nogil=True, cache=True)
def is_below(score, item, other_score, other_item):  # type: ignore[no-untyped-def]
    # (score, item) ranks below (other_score, other_item)
    return score < other_score or (score == other_score and item > other_item)


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
def add_to_heap(scores, items, hole, score, item):  # type: ignore[no-untyped-def]
    # Adds (score, item) to the heap (scores[:hole], items[:hole]).
    while hole > 0:
        parent = (hole - 1) // 2
        if not is_below(score, item, scores[parent], items[parent]):
            break
        scores[hole], items[hole] = scores[parent], items[parent]
        hole = parent
    scores[hole], items[hole] = score, item


@njit(nogil=True, cache=True)
def sort_heap(scores, items, size):  # type: ignore[no-untyped-def]
    # The worst goes to the end, again and again: best first.
    for end in range(size - 1, 0, -1):
        score, item = scores[end], items[end]
        scores[end], items[end] = scores[0], items[0]
        replace_worst(scores, items, end, score, item)


@njit(nogil=True, cache=True)
def top_k_rows(start, stop, block, top_scores, top_items, not_a_number):  # type: ignore[no-untyped-def]
    # Items come in ascending order, so one that only ties with the worst kept never enters.
    n_items, k = block.shape[1], top_items.shape[1]
    for i in range(start, stop):
        row, scores, items = block[i], top_scores[i], top_items[i]
        size = 0
        worst = np.float32(-np.inf)
        for first in range(0, n_items, CHUNK):
            end = min(first + CHUNK, n_items)
            # `not <=` is true of NaN too, and a plain count vectorises.
            n_entering = 0
            for j in range(first, end):
                n_entering += not (row[j] <= worst)
            if n_entering == 0:
                continue
            for j in range(first, end):
                score = row[j]
                if score <= worst:
                    continue
                if np.isnan(score):
                    not_a_number[i] = True
                elif size < k:
                    add_to_heap(scores, items, size, score, j)
                    size += 1
                else:
                    replace_worst(scores, items, k, score, j)
                if size == k:
                    worst = scores[0]
        sort_heap(scores, items, size)


@njit(nogil=True, cache=True)
def mask_rows(start, stop, block, indptr, indices, rows):  # type: ignore[no-untyped-def]
    # block[i, indices of row rows[i]] = -inf
    for i in range(start, stop):
        for p in range(indptr[rows[i]], indptr[rows[i] + 1]):
            block[i, indices[p]] = -np.inf


@njit(nogil=True, cache=True)
def hit_rows(start, stop, items, indptr, indices, rows, hits):  # type: ignore[no-untyped-def]
    # hits[i, r] = items[i, r] is among the sorted indices of row rows[i]
    for i in range(start, stop):
        relevant = indices[indptr[rows[i]] : indptr[rows[i] + 1]]
        for r in range(items.shape[1]):
            place = np.searchsorted(relevant, items[i, r])
            hits[i, r] = place < len(relevant) and relevant[place] == items[i, r]


@njit(nogil=True, cache=True)
def count_above(values, bound):  # type: ignore[no-untyped-def]
    # (values > bound).sum(): 32 bits vectorise twice as wide as 64.
    n = np.int32(0)
    for j in range(values.size):
        n = np.int32(n + np.int32(values[j] > bound))
    return n


@njit(nogil=True, cache=True)
def count_twice_above(values, bound):  # type: ignore[no-untyped-def]
    # (values > bound).sum() + (values >= bound).sum(): what is above counts 2, what is equal 1.
    n = np.int32(0)
    for j in range(values.size):
        n = np.int32(n + np.int32(values[j] > bound) + np.int32(values[j] >= bound))
    return n


@njit(nogil=True, cache=True)
def count_cell_rows(start, stop, block, indptr, indices, rows, n_seen, thresholds, missed, false_alarms, beaten):  # type: ignore[no-untyped-def]
    # Of row i, whose n_seen[i] seen cells are -inf, P the cells that CSR row rows[i] stores, N the other unseen ones:
    # missed[i, q] = #(P <= thresholds[q]), false_alarms[i, q] = #(N > thresholds[q]),
    # beaten[i] = sum over p in P of 2 #(N > p) + #(N == p); no column of `beaten`, no such count.
    for i in range(start, stop):
        row, mine = block[i], indices[indptr[rows[i]] : indptr[rows[i] + 1]]
        positives = row[mine]
        for q in range(thresholds.size):
            found = count_above(positives, thresholds[q])
            missed[i, q] = positives.size - found
            false_alarms[i, q] = count_above(row, thresholds[q]) - found
        if beaten.size == 0:
            continue
        # Among P itself every pair counts 2 and every cell 1, ties or not: their square.
        total = -positives.size * positives.size
        for score in positives:
            total += count_twice_above(row, score)
            if score == -np.inf:
                total -= n_seen[i]
        beaten[i] = total
