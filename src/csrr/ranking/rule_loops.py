"""Compiled loops of the rules for lists. Each releases the interpreter lock and works on a range of rows."""

from __future__ import annotations

import numpy as np

from csrr.compiled import compile_loop, compile_part


@compile_loop()
def add_bonus_rows(start, stop, scores, spread, bonus, out):  # type: ignore[no-untyped-def]
    # out[i] = scores[i] + spread[i] * bonus; -inf stays
    for i in range(start, stop):
        for j in range(scores.shape[1]):
            out[i, j] = scores[i, j] + spread[i] * bonus[j]


@compile_part(fastmath={"reassoc", "contract"})
def multiply(a, b):  # type: ignore[no-untyped-def]
    total = np.float32(0)
    for d in range(a.size):
        total += a[d] * b[d]
    return total


@compile_part()
def may_enter(item, indptr, indices, counts, most):  # type: ignore[no-untyped-def]
    # Whether none of the item's groups is full.
    for p in range(indptr[item], indptr[item + 1]):  # noqa: SIM110
        if counts[indices[p]] >= most[indices[p]]:
            return False
    return True


@compile_part()
def serves(item, indptr, indices, counts, least):  # type: ignore[no-untyped-def]
    # Whether one of the item's groups lacks some.
    for p in range(indptr[item], indptr[item + 1]):  # noqa: SIM110
        if counts[indices[p]] < least[indices[p]]:
            return True
    return False


@compile_loop()
def choose_rows(start, stop, pool, values, n_scale, diversity, vectors, indptr, indices, most, least, chosen):  # type: ignore[no-untyped-def]
    # Of each row of the pool, best first, ended by -1: chosen[i, r] = the place in it of the item for place r, or -1.
    # The item is the best, by (1 - diversity) * relevance - diversity * its largest likeness to what is chosen, of
    # those whose groups are not full; once all places left are needed for groups that lack some, of those that serve
    # one.
    # Relevance is the value on a scale from 0, the pool's entry n_scale - 1, to 1, its best.
    size, k = pool.shape[1], chosen.shape[1]
    counts = np.zeros(len(most), np.int64)
    needed_by_all = least.sum()
    near, used = np.empty(size), np.empty(size, np.bool_)
    for i in range(start, stop):
        n = 0
        while n < size and pool[i, n] >= 0:
            used[n], near[n] = False, 0.0
            n += 1
        low = values[i, min(n, n_scale) - 1] if n else 0.0
        width = values[i, 0] - low if n else 0.0
        needed = needed_by_all
        n_chosen = 0
        for r in range(k):
            best = -1
            for must in range(1, -1, -1):
                if must == 1 and (needed == 0 or needed < k - r):
                    continue
                largest = -np.inf
                for c in range(n):
                    item = pool[i, c]
                    if used[c]:
                        continue
                    if not may_enter(item, indptr, indices, counts, most):
                        used[c] = True  # a full group stays full
                        continue
                    if must == 1 and not serves(item, indptr, indices, counts, least):
                        continue
                    if diversity == 0.0:
                        best = c
                        break
                    relevance = (values[i, c] - low) / width if width > 0 else 0.0
                    gain = (1 - diversity) * relevance - diversity * near[c]
                    if gain > largest:
                        best, largest = c, gain
                if best >= 0:
                    break
            if best < 0:
                break
            chosen[i, r], used[best] = best, True
            n_chosen += 1
            item = pool[i, best]
            for p in range(indptr[item], indptr[item + 1]):
                group = indices[p]
                if counts[group] < least[group]:
                    needed -= 1
                counts[group] += 1
            if diversity > 0.0 and r + 1 < k:
                for c in range(n):
                    if not used[c]:
                        near[c] = max(near[c], multiply(vectors[item], vectors[pool[i, c]]))
        for r in range(n_chosen):
            item = pool[i, chosen[i, r]]
            for p in range(indptr[item], indptr[item + 1]):
                counts[indices[p]] = 0


@compile_loop()
def measure_likeness_rows(start, stop, items, indptr, indices, n_columns, out):  # type: ignore[no-untyped-def]
    # out[i] = the mean, over pairs of different places of list i, of the cosine of their rows of a csr pattern:
    # (|sum of the rows of length 1|^2 - sum of their squares) / (n (n - 1)); NaN with fewer than two items
    sums = np.zeros(n_columns)
    for i in range(start, stop):
        n, own = 0, 0
        for item in items[i]:
            if item < 0:
                continue
            n += 1
            length = indptr[item + 1] - indptr[item]
            own += 1 if length else 0
            for p in range(indptr[item], indptr[item + 1]):
                sums[indices[p]] += 1 / np.sqrt(length)
        total = 0.0
        for item in items[i]:
            if item < 0:
                continue
            for p in range(indptr[item], indptr[item + 1]):
                total += sums[indices[p]] ** 2
                sums[indices[p]] = 0.0
        out[i] = (total - own) / (n * (n - 1)) if n > 1 else np.nan
