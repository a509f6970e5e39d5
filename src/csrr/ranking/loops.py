"""Compiled loops over rows of scores, lists and cells. Each releases the interpreter lock and works on some rows."""

from __future__ import annotations

import numpy as np

from csrr._base.heap import add_to_heap, is_below, replace_worst, sort_heap
from csrr._base.lazy_jit import compile_loop, compile_part

CHUNK = 64
MANY = 8
DENSE = 8
"""With weights for one of so many items or more, a user's items are looked at in the order of norms alone."""
LOWEST, TINY = np.finfo(np.float32).min, np.finfo(np.float32).tiny


@compile_part()
def count_not_below(values, bound):  # type: ignore[no-untyped-def]
    # (~(values < bound)).sum(), NaN among it: 32 bits vectorize twice as wide as 64.
    n = np.int32(0)
    for j in range(values.size):
        n = np.int32(n + np.int32(not (values[j] < bound)))
    return n


@compile_part()
def count_not_after(values, places, bound, last):  # type: ignore[no-untyped-def]
    # The same, less what is equal and has a place after the last.
    n = np.int32(0)
    for j in range(values.size):
        n = np.int32(n + np.int32(not ((values[j] < bound) | ((values[j] == bound) & (places[j] > last)))))
    return n


@compile_loop()
def find_top_k_rows(start, stop, block, allowed, places, by_place, top_scores, top_items, not_a_number):  # type: ignore[no-untyped-def]
    # Of the items that are allowed. Equal scores go by the items' places in an order, by_place[places[j]] == j: heaps
    # hold places, not items.
    n_items, k = block.shape[1], top_items.shape[1]
    for i in range(start, stop):
        row, scores, items = block[i], top_scores[i], top_items[i]
        size = np.int64(0)
        # The worst kept; before there are k, only -inf is below it.
        worst, last = LOWEST, np.int32(n_items)
        for first in range(0, n_items, CHUNK):
            end = min(first + CHUNK, n_items)
            # Most chunks end here. Where many may enter, most of them only tie.
            n_entering = count_not_below(row[first:end], worst)
            if n_entering > MANY:
                n_entering = count_not_after(row[first:end], places[first:end], worst, last)
            if n_entering == 0:
                continue
            for j in range(first, end):
                score, place = row[j], places[j]
                if score < worst or (score == worst and place > last) or not allowed[j]:
                    continue
                if np.isnan(score):
                    not_a_number[i] = True
                elif size < k:
                    add_to_heap(scores, items, size, score, place)
                    size += 1
                else:
                    replace_worst(scores, items, k, score, place)
                if size == k:
                    worst, last = scores[0], items[0]
        sort_heap(scores, items, size)
        for r in range(size):
            items[r] = by_place[items[r]]


@compile_loop()
def mask_rows(start, stop, block, indptr, indices, rows):  # type: ignore[no-untyped-def]
    # block[i, indices of row rows[i]] = -inf
    for i in range(start, stop):
        for p in range(indptr[rows[i]], indptr[rows[i] + 1]):
            block[i, indices[p]] = -np.inf


@compile_loop()
def keep_cells(start, stop, block, indptr, indices, rows):  # type: ignore[no-untyped-def]
    # block[i] = -inf but for the sorted indices of row rows[i]
    for i in range(start, stop):
        row, first = block[i], 0
        for p in range(indptr[rows[i]], indptr[rows[i] + 1]):
            row[first : indices[p]] = -np.inf
            first = indices[p] + 1
        row[first:] = -np.inf


@compile_loop()
def hit_rows(start, stop, items, indptr, indices, rows, hits):  # type: ignore[no-untyped-def]
    # hits[i, r] = items[i, r] is among the sorted indices of row rows[i]
    for i in range(start, stop):
        relevant = indices[indptr[rows[i]] : indptr[rows[i] + 1]]
        for r in range(items.shape[1]):
            place = np.searchsorted(relevant, items[i, r])
            hits[i, r] = place < len(relevant) and relevant[place] == items[i, r]


@compile_part()
def count_above(values, bound):  # type: ignore[no-untyped-def]
    # (values > bound).sum(): 32 bits vectorize twice as wide as 64.
    n = np.int32(0)
    for j in range(values.size):
        n = np.int32(n + np.int32(values[j] > bound))
    return n


@compile_part()
def count_twice_above(values, bound):  # type: ignore[no-untyped-def]
    # (values > bound).sum() + (values >= bound).sum(): what is above counts 2, what is equal 1.
    n = np.int32(0)
    for j in range(values.size):
        n = np.int32(n + np.int32(values[j] > bound) + np.int32(values[j] >= bound))
    return n


@compile_loop()
def count_cell_rows(start, stop, block, indptr, indices, rows, n_seen, thresholds, missed, false_alarms, beaten, best):  # type: ignore[no-untyped-def]
    # Of row i, whose n_seen[i] seen cells are -inf, P the cells that CSR row rows[i] stores, N the other unseen ones:
    # missed[i, q] = #(P <= thresholds[q]), false_alarms[i, q] = #(N > thresholds[q]),
    # beaten[i] = sum over p in P of 2 #(N > p) + #(N == p), best[i] = the least of these terms;
    # nothing in `beaten`, no such counts.
    for i in range(start, stop):
        row, mine = block[i], indices[indptr[rows[i]] : indptr[rows[i] + 1]]
        positives = row[mine]
        for q in range(thresholds.size):
            found = count_above(positives, thresholds[q])
            missed[i, q] = positives.size - found
            false_alarms[i, q] = count_above(row, thresholds[q]) - found
        if beaten.size == 0:
            continue
        total, least = np.int64(0), np.int64(2 * row.size)
        for score in positives:
            found = np.int64(count_twice_above(row, score)) - count_twice_above(positives, score)
            if score == -np.inf:
                found -= n_seen[i]
            total += found
            least = min(least, found)
        beaten[i], best[i] = total, least


@compile_loop(fastmath=True)
def add_sparse_product(start, stop, rows, scale, indptr, indices, amounts, w_indptr, w_indices, w_data, out):  # type: ignore[no-untyped-def]
    # out[i] += scale[rows[i]] * A[rows[i]] @ W, A and W csr, A with the data `amounts` (None: ones)
    for i in range(start, stop):
        row = out[i]
        for p in range(indptr[rows[i]], indptr[rows[i] + 1]):
            item = indices[p]
            value = scale[rows[i]] if amounts is None else scale[rows[i]] * amounts[p]
            for q in range(w_indptr[item], w_indptr[item + 1]):
                row[w_indices[q]] += value * w_data[q]


@compile_loop(fastmath=True)
def multiply_sparse_pairs(  # type: ignore[no-untyped-def]
    start, stop, rows, columns, scale, indptr, indices, amounts, w_indptr, w_indices, w_data, out
):
    # out[n] = scale[rows[n]] * (A[rows[n]] @ W)[columns[n]]; the indices of a row of W are sorted
    for n in range(start, stop):
        total = out.dtype.type(0)
        for p in range(indptr[rows[n]], indptr[rows[n] + 1]):
            first, end = w_indptr[indices[p]], w_indptr[indices[p] + 1]
            place = first + np.searchsorted(w_indices[first:end], columns[n])
            if place < end and w_indices[place] == columns[n]:
                total += w_data[place] if amounts is None else w_data[place] * amounts[p]
        out[n] = scale[rows[n]] * total


@compile_loop(fastmath=True)
def multiply_sparse_own(start, stop, scale, indptr, indices, amounts, w_indptr, w_indices, w_data, sums, out):  # type: ignore[no-untyped-def]
    # out[p] = scale[i] * (A[i] @ W)[indices[p]] for every entry p of row i of A; `sums` is there to work in, (m,)
    for i in range(start, stop):
        for p in range(indptr[i], indptr[i + 1]):
            sums[indices[p]] = 0
        for p in range(indptr[i], indptr[i + 1]):
            item = indices[p]
            for q in range(w_indptr[item], w_indptr[item + 1]):
                sums[w_indices[q]] += w_data[q] if amounts is None else w_data[q] * amounts[p]
        for p in range(indptr[i], indptr[i + 1]):
            out[p] = scale[i] * sums[indices[p]]


@compile_loop()
def rank_rows(start, stop, base, rows, clicks, amounts, parts, weights, heldout, scores, ranks):  # type: ignore[no-untyped-def]
    # ranks[w, p] = 1 + the number of unseen items above held[p], ties counted half, for the scores
    # base[i] + scale[rows[i]] * A[rows[i]] @ W, A csr with the data `amounts` (None: ones), W with weights[w];
    # p in held_indptr[rows[i]:rows[i] + 1].
    # `scores` is there to work in, (m,).
    scale, indptr, indices = clicks
    (w_indptr, w_indices), (held_indptr, held) = parts, heldout
    for i in range(start, stop):
        u = rows[i]
        for w in range(len(weights)):
            for j in range(scores.size):
                scores[j] = base[i, j]
            if len(w_indices):
                for p in range(indptr[u], indptr[u + 1]):
                    item = indices[p]
                    value = scale[u] if amounts is None else scale[u] * amounts[p]
                    for q in range(w_indptr[item], w_indptr[item + 1]):
                        scores[w_indices[q]] += value * weights[w, q]
            for p in range(indptr[u], indptr[u + 1]):
                scores[indices[p]] = -np.inf
            for p in range(held_indptr[u], held_indptr[u + 1]):
                # Twice what is above and once what is equal, the item itself among it.
                ranks[w, p] = 1 + (count_twice_above(scores, scores[held[p]]) - 1) / 2


@compile_loop()
def add_bonus_rows(start, stop, scores, spread, bonus, out):  # type: ignore[no-untyped-def]
    # out[i] = scores[i] + spread[i] * bonus; -inf stays
    for i in range(start, stop):
        for j in range(scores.shape[1]):
            out[i, j] = scores[i, j] + spread[i] * bonus[j]


@compile_part(fastmath={"reassoc", "contract"}, _nrt=False)
def multiply(a, b):  # type: ignore[no-untyped-def]
    total = np.float32(0)
    for d in range(a.size):
        total += a[d] * b[d]
    return total


@compile_loop()
def measure_norms(start, stop, factors, stages, norms):  # type: ignore[no-untyped-def]
    # norms[j, s] = |factors[j, stages[s]:]|
    for j in range(start, stop):
        square = 0.0
        for s in range(len(stages) - 2, -1, -1):
            for c in range(stages[s], stages[s + 1]):
                square += np.float64(factors[j, c]) ** 2
            norms[j, s] = np.sqrt(square)


# The search for the best items of n users among the items by_norm[p], (m,), the longest factors first; at[j] is
# the place p of item j, or -1. norms[p, s] = |items[by_norm[p], stages[s]:]|, where stages cut the columns of factors,
# and lengths[i, s] is the same of user i. sums[i, p] is what weights add to a score, and -inf where the item is in no
# list of the user, or is done with. The heap (scores[i], found[i]) holds the best so far, sizes[i] of them, by their
# places in the order of ties.


@compile_part(_nrt=False)
def multiply_columns(a, i, b, j, start, stop):  # type: ignore[no-untyped-def]
    # a[i, start:stop] . b[j, start:stop]
    return multiply(a[i][start:stop], b[j][start:stop])


@compile_part(_nrt=False)
def consider(i, row, queue, first, stop, least, marks, search, lists):  # type: ignore[no-untyped-def]
    # Puts the items at the places queue[first:stop] into the heap of user i, as far as they are among the best and have
    # a sum of at least `least`; `marks` says that they may come again. A score is multiplied stage by stage, as long as
    # its bound, by Cauchy and Schwarz and with the rounding of 32 bits, is not below the worst kept.
    users, items, by_norm, norms, stages, places = search
    sums, lengths, scores, found, sizes, not_a_number = lists
    k, slack = scores.shape[1], (users.shape[1] + 16) * 2.0**-23
    for t in range(first, stop):
        p = queue[t]
        j, added = by_norm[p], sums[i, p]
        if added == -np.inf or added < least:
            continue
        if marks:
            sums[i, p] = -np.inf
        worst = scores[i, 0] if sizes[i] == k else LOWEST
        error = slack * (lengths[i, 0] * norms[p, 0] + abs(added))
        product, is_open = np.float32(0), True
        for s in range(len(stages) - 1):
            is_open = is_open and not product + lengths[i, s] * norms[p, s] + added + error < worst
            if is_open:
                product += multiply_columns(users, row, items, j, stages[s], stages[s + 1])
        score, place = product + added, places[j]
        is_open = is_open and score != -np.inf
        if is_open and np.isnan(score):
            not_a_number[i] = True
        elif is_open and sizes[i] < k:
            add_to_heap(scores[i], found[i], sizes[i], score, place)
            sizes[i] += 1
        elif is_open and is_below(worst, found[i, 0], score, place):
            replace_worst(scores[i], found[i], k, score, place)


@compile_loop(_nrt=False)
def begin_rows(rows, first, at, clicks, amounts, weights, left_out, kept, rest, queue, search, lists):  # type: ignore[no-untyped-def]
    # Sets sums[i] and lengths[i] of the users rows[i], -1 for an unknown user, whose cells are rows first + i of
    # `left_out` and `kept`, and considers the first items and those with a sum. Where these are many, they are left to
    # `scan_rows`: no sum that is left is above rest[i].
    scale, indptr, indices = clicks
    w_indptr, w_indices, w_data = weights
    users, _, by_norm, _, stages, _ = search
    sums, lengths, _, _, _, _ = lists
    for i in range(len(rows)):
        row = rows[i]
        if kept is not None:
            sums[i] = -np.inf
            for p in range(kept[0][first + i], kept[0][first + i + 1]):
                if at[kept[1][p]] >= 0:
                    sums[i, at[kept[1][p]]] = 0
        if left_out is not None:
            for p in range(left_out[0][first + i], left_out[0][first + i + 1]):
                if at[left_out[1][p]] >= 0:
                    sums[i, at[left_out[1][p]]] = -np.inf
        rest[i] = 0
        for s in range(len(stages) - 1):
            lengths[i, s] = 0
        if row < 0:
            continue
        square = 0.0
        for s in range(len(stages) - 2, -1, -1):
            for c in range(stages[s], stages[s + 1]):
                square += np.float64(users[row, c]) ** 2
            lengths[i, s] = np.sqrt(square)
        # The places of sums, and after them the first ones
        n_sums, n_cells, highest = 0, 0, np.float32(0)
        for p in range(indptr[row], indptr[row + 1]):
            n_cells += w_indptr[indices[p] + 1] - w_indptr[indices[p]]
        is_dense = n_cells * DENSE > len(by_norm) and square > 0
        for p in range(indptr[row], indptr[row + 1]):
            had = indices[p]
            value = scale[row] if amounts is None else scale[row] * amounts[p]
            for q in range(w_indptr[had], w_indptr[had + 1]):
                place, added = at[w_indices[q]], value * w_data[q]
                if place >= 0 and (is_dense or added != 0):
                    # Once more where sums had come to 0 again.
                    if not is_dense and sums[i, place] == 0 and n_sums < len(queue) - CHUNK:
                        queue[n_sums] = place
                        n_sums += 1
                    sums[i, place] += added
        if is_dense:
            highest = TINY
            for p in range(len(by_norm)):
                highest = max(highest, sums[i, p])
            rest[i] = highest
        for t in range(n_sums):
            highest = max(highest, sums[i, queue[t]])
        n_queued = n_sums
        for place in range(min(CHUNK, len(by_norm)) if square > 0 else 0):
            queue[n_queued] = place
            n_queued += 1
        # The largest come first: then most of the others are below what is kept.
        for turn in range(1 if is_dense else 0, 2 if is_dense else 3):
            start, stop = (n_sums, n_queued) if turn == 1 else (0, n_sums)
            least = np.float32(highest / 2) if turn == 0 else LOWEST
            consider(i, row, queue, start, stop, least, True, search, lists)


@compile_part(_nrt=False)
def count_sums_not_below(some, first, others, start, n, bound):  # type: ignore[no-untyped-def]
    # (~(some[first : first + n] + others[start : start + n] < bound)).sum()
    mine, added = some[first : first + n], others[start : start + n]
    count = np.int32(0)
    for c in range(mine.size):
        count = np.int32(count + np.int32(not (mine[c] + added[c] < bound)))
    return count


@compile_loop(_nrt=False)
def scan_rows(rows, left, first, stop, product, is_done, rest, queue, search, lists):  # type: ignore[no-untyped-def]
    # Considers the items at the places from `first` to `stop` for the users `left`, as far as they may be among the
    # best; is_done[i] says that none of those that follow may. `product`, if it is there, are the products of these
    # users and items, rounded in some way: they tell which items may be.
    _, items, _, norms, _, _ = search
    sums, lengths, scores, _, sizes, _ = lists
    slack = (items.shape[1] + 16) * 2.0**-23
    for n in range(len(left)):
        i, p = left[n], first
        while p < stop:
            worst = scores[i, 0] if sizes[i] == scores.shape[1] else LOWEST
            most, end = lengths[i, 0] * norms[p, 0] + rest[i], min(p + CHUNK, stop)
            error = 2 * slack * (most + abs(worst))
            if most + error < worst:
                is_done[i] = True
                break
            bound, n_queued = np.float32(worst - error), 0
            if product is None or count_sums_not_below(product[n], p - first, sums[i], p, end - p, bound) > 0:
                for place in range(p, end):
                    if product is None or not product[n, place - first] + sums[i, place] < bound:
                        queue[n_queued] = place
                        n_queued += 1
            if n_queued > 0:
                consider(i, rows[i], queue, 0, n_queued, LOWEST, False, search, lists)
            p = end


@compile_loop(_nrt=False)
def end_rows(rows, first, at, places, by_place, clicks, weights, left_out, kept, rest, lists):  # type: ignore[no-untyped-def]
    # Makes lists of the heaps, and sets the sums to 0.
    _, indptr, indices = clicks
    w_indptr, w_indices, _ = weights
    sums, lengths, scores, found, sizes, _ = lists
    k = scores.shape[1]
    for i in range(len(rows)):
        if lengths[i, 0] == 0:
            # The scores left are all 0.
            for j in by_place:
                if sizes[i] == k and not is_below(scores[i, 0], found[i, 0], np.float32(0), places[j]):
                    break
                if at[j] >= 0 and sums[i, at[j]] == 0:
                    if sizes[i] < k:
                        add_to_heap(scores[i], found[i], sizes[i], np.float32(0), places[j])
                        sizes[i] += 1
                    else:
                        replace_worst(scores[i], found[i], k, np.float32(0), places[j])
        sort_heap(scores[i], found[i], sizes[i])
        for r in range(sizes[i]):
            found[i, r] = by_place[found[i, r]]
        sums[i, : sums.shape[1] if kept is not None or rest[i] > 0 else CHUNK] = 0
        if left_out is not None:
            for p in range(left_out[0][first + i], left_out[0][first + i + 1]):
                if at[left_out[1][p]] >= 0:
                    sums[i, at[left_out[1][p]]] = 0
        if rows[i] >= 0 and rest[i] == 0:
            for p in range(indptr[rows[i]], indptr[rows[i] + 1]):
                for q in range(w_indptr[indices[p]], w_indptr[indices[p] + 1]):
                    if at[w_indices[q]] >= 0:
                        sums[i, at[w_indices[q]]] = 0


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
