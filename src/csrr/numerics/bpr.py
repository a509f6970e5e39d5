"""Bayesian personalised ranking: one epoch of stochastic steps, parallel and yet the same on any number of threads.

An epoch cuts the users and the items at random into as many strata each. In round r, block s holds the pairs with the
user in stratum s and the item in stratum s + r: the blocks of a round share no user and no item, so that they may run
side by side in any order. A negative comes from the stratum of the positive, which as the cut is new every epoch
makes each item that the user does not have equally likely.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from csrr._base.arrays import AnyArray, Float32Array, Int32Array
from csrr._base.lazy_jit import compile_loop, compile_part
from csrr._base.threads import map_ranges
from csrr.numerics.factored import Factors
from csrr.numerics.problem import Pattern

MOST_STRATA, LEAST_IN_STRATUM = 8, 8
WORTH_A_THREAD = 2**14
"""Number of pairs below which handing out the blocks of a round takes longer than doing them."""

TRIES = 32
"""Number of draws until a negative is picked from a list of those there are instead."""

_TOGETHER = 16
"""Number of users who are folded in at a time."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Rates(NamedTuple):
    """The length of a step and the strengths of the penalties on p_u and q_i, on q_j, and on the biases."""

    step: np.float32
    reg: np.float32
    reg_negative: np.float32
    reg_bias: np.float32

    @classmethod
    def of(cls, step: float, reg: float, reg_negative: float, reg_bias: float) -> Rates:
        return cls(np.float32(step), np.float32(reg), np.float32(reg_negative), np.float32(reg_bias))


@compile_part(fastmath=True)
def _draw_below(state, n):  # type: ignore[no-untyped-def]
    # A whole number in [0, n), n < 2^32, from the splitmix64 output at this state; the bias is below n / 2^32
    z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return np.int64(((z >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@compile_part(fastmath=True)
def _has(indices, low, high, item):  # type: ignore[no-untyped-def]
    # Whether item is in indices[low:high], which is sorted
    while high - low > 0:
        middle = (low + high) >> 1
        if indices[middle] < item:
            low = middle + 1
        elif indices[middle] > item:
            high = middle
        else:
            return True
    return False


@compile_loop(fastmath=True)
def draw_negative(state, indices, low, high, stratum):  # type: ignore[no-untyped-def]
    # The next state, and an item of the stratum that is not in indices[low:high], each equally likely; -1 for none
    for _ in range(TRIES):
        state += _GOLDEN
        item = stratum[_draw_below(state, len(stratum))]
        if not _has(indices, low, high, item):
            return state, item
    free = 0
    for item in stratum:
        free += not _has(indices, low, high, item)
    if free == 0:
        return state, -1
    state += _GOLDEN
    left = _draw_below(state, free)
    for item in stratum:
        if not _has(indices, low, high, item):
            if left == 0:
                return state, item
            left -= 1
    return state, -1


# Once a step too long has made a NaN, division must not raise: `fit` has more to say about it.
@compile_loop(fastmath=True, error_model="numpy")
def ascend(p, positive, negative, rates):  # type: ignore[no-untyped-def]
    # One step along the gradient of
    #     ln s(x) - reg/2*(|p|^2 + |q_i|^2) - reg_negative/2*|q_j|^2 - reg_bias/2*(b_i^2 + b_j^2),
    # x = b_i - b_j + p.(q_i - q_j), s the logistic function; returns ln s(x), x from before the step
    rank = len(p) - 1
    x = positive[rank] - negative[rank]
    for c in range(rank):
        x += p[c] * (positive[c] - negative[c])
    # Beyond 30 in size, e^x leaves float32
    x = min(max(x, np.float32(-30)), np.float32(30))
    odds = np.exp(-x)
    pull = rates.step * odds / (np.float32(1) + odds)
    keep = np.float32(1) - rates.step * rates.reg
    keep_negative = np.float32(1) - rates.step * rates.reg_negative
    keep_bias = np.float32(1) - rates.step * rates.reg_bias
    for c in range(rank):
        a, b, d = p[c], positive[c], negative[c]
        p[c] = keep * a + pull * (b - d)
        positive[c] = keep * b + pull * a
        negative[c] = keep_negative * d - pull * a
    positive[rank] = keep_bias * positive[rank] + pull
    negative[rank] = keep_bias * negative[rank] - pull
    return -np.log1p(odds)


@compile_loop(fastmath=True)
def _arrange(indptr, indices, user_strata, item_strata, n_strata, n_items):  # type: ignore[no-untyped-def]
    # The pairs block by block, as users and items, and where each block begins; without those of users who have it all
    starts = np.zeros(n_strata * n_strata + 1, np.int64)
    for u in range(len(user_strata)):
        if indptr[u + 1] - indptr[u] < n_items:
            for at in range(indptr[u], indptr[u + 1]):
                starts[user_strata[u] * n_strata + item_strata[indices[at]] + 1] += 1
    starts = np.cumsum(starts)
    users, items, ends = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.int32), starts[:-1].copy()
    for u in range(len(user_strata)):
        if indptr[u + 1] - indptr[u] < n_items:
            for at in range(indptr[u], indptr[u + 1]):
                block = user_strata[u] * n_strata + item_strata[indices[at]]
                users[ends[block]], items[ends[block]] = u, indices[at]
                ends[block] += 1
    return users, items, starts


@compile_loop(fastmath=True)
def _climb_block(state, users, items, stratum, indptr, indices, P, Q, rates):  # type: ignore[no-untyped-def]
    # One step for each of these pairs, in random order, in rows of P and Q. Returns the sum of ln s over them, and,
    # left out of it, the users and items of the pairs without a negative in the stratum
    users, items = users.copy(), items.copy()
    total, left = 0.0, 0
    for last in range(len(users) - 1, 0, -1):
        state += _GOLDEN
        other = _draw_below(state, last + 1)
        users[last], users[other] = users[other], users[last]
        items[last], items[other] = items[other], items[last]
    for at in range(len(users)):
        u, i = users[at], items[at]
        state, j = draw_negative(state, indices, indptr[u], indptr[u + 1], stratum)
        if j < 0:
            users[left], items[left] = u, i
            left += 1
        else:
            total += ascend(P[u], Q[i], Q[j], rates)
    return total, users[:left].copy(), items[:left].copy()


def count_strata(shape: tuple[int, int]) -> int:
    """Return the number of strata that users and items are cut into."""
    return max(1, min(MOST_STRATA, min(shape) // LEAST_IN_STRATUM))


def _cut_strata(pattern: Pattern, n_strata: int, rng: np.random.Generator) -> tuple[AnyArray, ...]:
    """Return users and items cut at random into as many strata each.

    They are the users and the items of the pairs, (pairs,) each, block by block, and where blocks begin, (blocks + 1,);
    and the items, (m,), stratum by stratum, and where these begin, (strata + 1,).
    """
    n_users, n_items = pattern.shape
    user_strata = (rng.permutation(n_users) % n_strata).astype(np.int32)
    order = rng.permutation(n_items).astype(np.int32)
    cuts = np.linspace(0, n_items, n_strata + 1).astype(np.int64)
    item_strata = np.empty(n_items, np.int32)
    item_strata[order] = np.repeat(np.arange(n_strata, dtype=np.int32), np.diff(cuts))
    users, items, starts = _arrange(pattern.indptr, pattern.indices, user_strata, item_strata, n_strata, n_items)
    return users, items, starts, order, cuts


def run_epoch(pattern: Pattern, factors: Factors, rates: Rates, rng: np.random.Generator) -> float:
    """Change the factors by one step up for each observed pair; return the mean ln s(x_ui - x_uj) met on the way.

    P, (n_users, rank + 1), has ones in the last column; Q, (n_items, rank + 1), the biases b. A step is along the
    gradient of

        ln s(x_ui - x_uj) - reg/2*(|p_u|^2 + |q_i|^2) - reg_negative/2*|q_j|^2 - reg_bias/2*(b_i^2 + b_j^2)

    where x_ui = b_i + p_u.q_i, s is the logistic function and j one of the items that u does not have, each equally
    likely. Users who have all items take part in none; without any pair the value is 0. The result depends on `rng`
    alone, not on the number of threads.

    Every step begins where the one before ended, so that this is for one machine, whatever the pattern's engine: the
    blocks of a round change rows of P and Q in place, each its own.
    """
    n_strata = count_strata(pattern.shape)
    fixed = (pattern.indptr, pattern.indices, factors.users, factors.items, rates)
    users, items, starts, order, cuts = _cut_strata(pattern, n_strata, rng)
    states = rng.integers(2**64, size=n_strata**2 + 1, dtype=np.uint64)
    n_pairs = len(users)
    bounds = list(range(n_strata + 1)) if n_pairs >= WORTH_A_THREAD else [0, n_strata]

    def climb(s: int, shift: int) -> tuple[int, float, Int32Array, Int32Array]:
        of_items = (s + shift) % n_strata
        block, stratum = s * n_strata + of_items, order[cuts[of_items] : cuts[of_items + 1]]
        mine = slice(starts[block], starts[block + 1])
        return block, *_climb_block(states[block], users[mine], items[mine], stratum, *fixed)

    def run_round(shift: int) -> list[list[tuple[int, float, Int32Array, Int32Array]]]:
        return map_ranges(lambda a, b: [climb(s, shift) for s in range(a, b)], bounds)

    done = [block for shift in range(n_strata) for part in run_round(shift) for block in part]
    _, totals, *left = zip(*sorted(done, key=lambda block: block[0]), strict=True)
    total = np.sum(totals)
    users_left, items_left = (np.concatenate(each) for each in left)
    if len(users_left):
        # Users with nearly everything: their negatives may lie in any stratum
        total += _climb_block(states[-1], users_left, items_left, order, *fixed)[0]
    return float(total / max(n_pairs, 1))


# Inlined here: left to the optimizer, a first run, which compiles, and later ones, from the cache, differ in last bits.
@compile_part(fastmath=True, error_model="numpy", inline="always")
def _fold_row(low, high, indices, items, order, reg, longest, n_steps, out):  # type: ignore[no-untyped-def]
    # out[:rank] = the mean of the second half of the steps of a person who has indices[low:high]
    rank, half = items.shape[1] - 1, n_steps // 2
    p, gap = np.zeros(rank, np.float32), np.empty(rank, np.float32)
    state = _GOLDEN
    for step in range(n_steps):
        state += _GOLDEN
        i = indices[low + _draw_below(state, high - low)]
        state, j = draw_negative(state, indices, low, high, order)
        for c in range(rank):
            gap[c] = items[i, c] - items[j, c]
        # A loop of its own: with stores in it, the order of the sum depends on how near to each other the arrays lie.
        x = items[i, rank] - items[j, rank]
        for c in range(rank):
            x += p[c] * gap[c]
        length = longest / np.sqrt(np.float32(1) + np.float32(0.1) * np.float32(step))
        pull = length / (np.float32(1) + np.exp(min(max(x, np.float32(-30)), np.float32(30))))
        keep = np.float32(1) - length * reg
        for c in range(rank):
            p[c] = keep * p[c] + pull * gap[c]
        if step >= half:
            for c in range(rank):
                out[c] += p[c] / np.float32(n_steps - half)


@compile_loop(fastmath=True, error_model="numpy")
def _fold_rows(first, last, indptr, indices, items, order, reg, longest, n_steps):  # type: ignore[no-untyped-def]
    out = np.zeros((last - first, items.shape[1]), np.float32)
    out[:, -1] = 1
    for u in range(first, last):
        low, high = indptr[u], indptr[u + 1]
        if 0 < high - low < len(items):
            _fold_row(low, high, indices, items, order, reg, longest, n_steps, out[u - first])
    return out


def fold_in(pattern: Pattern, items: Float32Array, reg: float, *, n_steps: int = 8192) -> Float32Array:
    """Return users P, (n, rank + 1), ones in the last column, that nearly maximize, Q, (m, rank + 1), fixed,

        mean_(i,j) ln s(x_ui - x_uj) - reg/2*|p_u|^2

    over the items i that u has and j that they do not: the mean over the second half of `n_steps` stochastic steps of
    falling length. A row depends on that user's items alone. Without any item, or with all, its factors are 0.
    """
    # A pair's curvature is at most |q_i - q_j|^2 / 4, on average about half the mean of |q|^2
    curvature = np.einsum("ik,ik->", items[:, :-1], items[:, :-1]) / (2 * len(items))
    longest = np.float32(1 / max(float(curvature) + reg, 1e-6))
    order = np.arange(len(items), dtype=np.int32)
    fixed = (np.ascontiguousarray(items), order, np.float32(reg), longest, n_steps)
    bounds = [0, *range(_TOGETHER, pattern.shape[0], _TOGETHER), pattern.shape[0]]
    cells = pattern.indptr, pattern.indices
    return np.concatenate(map_ranges(lambda a, b: _fold_rows(a, b, *cells, *fixed), bounds))
