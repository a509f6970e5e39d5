"""Compiled loops of the neighbor systems: a range of items, from `start` to `stop`, and new arrays for it."""

from __future__ import annotations

import numpy as np

from csrr.compiled import compile_loop, compile_part


@compile_part(fastmath=True)
def add_users(j, item_indptr, item_users, user_indptr, user_items, amounts, per_cell, per_user, sums):  # type: ignore[no-untyped-def]
    # sums[i] += sum of per_cell[p] * per_user[u] * amounts[q] over the users u of both i and j, p the cell of u and j,
    # q that of u and i; amounts None: all 1
    for p in range(item_indptr[j], item_indptr[j + 1]):
        u = item_users[p]
        value = per_cell[p] * per_user[u]
        for q in range(user_indptr[u], user_indptr[u + 1]):
            sums[user_items[q]] += value if amounts is None else value * amounts[q]


@compile_loop(fastmath=True)
def cross_targets(  # type: ignore[no-untyped-def]
    start, stop, item_indptr, item_users, user_indptr, user_items, amounts, targets, user, item, support, sums, out
):
    # out[j - start, p] = (X'T)[support[j, p], j]; `sums` is there to work in, (m,)
    width = support.shape[1]
    for j in range(start, stop):
        for p in range(width):
            if support[j, p] >= 0:
                sums[support[j, p]] = 0
        add_users(j, item_indptr, item_users, user_indptr, user_items, amounts, targets, user, sums)
        for p in range(width):
            i = support[j, p]
            out[j - start, p] = sums[i] * item[i] if i >= 0 else 0.0


@compile_loop(fastmath=True)
def cross_low_rank(start, stop, image, right, support, targets_along, out):  # type: ignore[no-untyped-def]
    # out[j - start, p] = targets_along[j, p] - image[support[j, p]] . right[j]
    width, rank = support.shape[1], right.shape[1]
    for j in range(start, stop):
        mine = right[j]
        for p in range(width):
            i = support[j, p]
            if i < 0:
                out[j - start, p] = 0
                continue
            other = image[i]
            total = right.dtype.type(0)
            for c in range(rank):
                total += other[c] * mine[c]
            out[j - start, p] = targets_along[j, p] - total


@compile_loop(fastmath=True)
def gather_grams(  # type: ignore[no-untyped-def]
    start,
    stop,
    rows,
    firsts,
    at,
    item_indptr,
    item_users,
    user_indptr,
    user_items,
    amounts,
    item_of_cell,
    weights,
    item,
    support,
    sums,
    out,
):
    # One after the other for all places at[firsts[start]:firsts[stop]], (j, p) each:
    # (X'X)[support[j, p], support[j, q]] for q = 0 to p. The row of X'X of the item rows[t] serves
    # all places at[firsts[t]:firsts[t + 1]]. `sums` is there to work in, (m,).
    width, end = support.shape[1], 0
    for t in range(start, stop):
        for place in range(firsts[t], firsts[t + 1]):
            j, p = at[place] // width, at[place] % width
            for q in range(p + 1):
                sums[support[j, q]] = 0
        add_users(rows[t], item_indptr, item_users, user_indptr, user_items, amounts, item_of_cell, weights, sums)
        for place in range(firsts[t], firsts[t + 1]):
            j, p = at[place] // width, at[place] % width
            for q in range(p + 1):
                other = support[j, q]
                out[end] = sums[other] * item[other]
                end += 1


@compile_loop(fastmath=True)
def place_grams(part, at, width, grams):  # type: ignore[no-untyped-def]
    # grams[j, p*(p + 1)/2 + q] = (X'X)[support[j, p], support[j, q]], which `gather_grams` found for the places `at`
    first = 0
    for place in at:
        j, p = place // width, place % width
        row = grams[j, p * (p + 1) // 2 : (p + 1) * (p + 2) // 2]
        for q in range(p + 1):
            row[q] = part[first + q]
        first += p + 1


@compile_part(fastmath=True)
def factorize(gram, k, rho, lower):  # type: ignore[no-untyped-def]
    # lower @ lower.T = the first k rows and columns of X'X, given as a lower triangle, + rho*I; whether it is regular
    is_regular = True
    for a in range(k):
        row = gram[a * (a + 1) // 2 : (a + 1) * (a + 2) // 2]
        for b in range(a + 1):
            total = np.float64(row[b])
            for c in range(b):
                total -= lower[a, c] * lower[b, c]
            if b < a:
                lower[a, b] = total / lower[b, b]
            else:
                total += rho
                if not total > 1e-6 * (row[a] + rho):
                    is_regular = False
                    total = np.float64(1)
                lower[a, a] = np.sqrt(total)
    return is_regular


@compile_loop(fastmath=True)
def solve_items(start, stop, first, support, grams, asked, ks, rhos, lower, x, out):  # type: ignore[no-untyped-def]
    # out[v, r, j - start] = (grams[j] + rhos[r]*I)^-1 asked[v, first + j], of the first ks[r] neighbors, by Cholesky,
    # where out is 0; returns the first item whose system is singular, -1 if none is.
    # `lower`, (K, K), and `x`, (K,), are there to work in.
    width, singular = support.shape[1], -1
    for j in range(start, stop):
        there = 0
        while there < width and support[j, there] >= 0:
            there += 1
        for r in range(len(ks)):
            k = min(there, ks[r])
            if not factorize(grams[j], k, rhos[r], lower) and singular < 0:
                singular = j
            for v in range(len(asked)):
                for a in range(k):
                    total = np.float64(asked[v, first + j, a])
                    for c in range(a):
                        total -= lower[a, c] * x[c]
                    x[a] = total / lower[a, a]
                for a in range(k - 1, -1, -1):
                    total = x[a]
                    for c in range(a + 1, k):
                        total -= lower[c, a] * x[c]
                    x[a] = total / lower[a, a]
                    out[v, r, j - start, a] = x[a]
    return singular
