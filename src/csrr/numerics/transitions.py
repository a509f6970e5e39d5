"""Weights from the items that a user had, newest first, to the next one: a ridge regression over all positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from csrr._base.arrays import Float32Array, Float64Array, FloatArray, Int32Array, Int64Array
from csrr._base.heap import add_to_heap, is_below, replace_worst, sort_heap
from csrr._base.lazy_jit import compile_loop
from csrr._base.threads import map_ranges, run_ranges
from csrr.numerics.neighbors import SingularError, SupportIndex, factorize, group_places, substitute

WINDOW_SHARE, MOST_WINDOW = 0.01, 200
"""Events further back than where a weight falls below this share, or than this number, are no predictors of a fit."""
_LONGEST_TAIL = 4096
"""Sums of powers of a decay hardly grow beyond so many terms."""
_PANEL = 16
"""The number of columns of the low rank that go through the sequences at once."""
_GRAM_BYTES, _LEAST_ITEMS, _RANGES = 2**28, 256, 256


@dataclass(frozen=True, eq=False)
class Sequences:
    """The items of each user, oldest first: those of user u are items[starts[u]:starts[u + 1]].

    `starts` is (n + 1,), `items` (n_events,).
    """

    starts: Int64Array
    items: Int32Array
    n_items: int

    @classmethod
    def of(cls, counts: Int64Array, items: Int32Array, n_items: int) -> Sequences:
        """Return the sequences of users with so many events each, (n,), of all their items in order, (n_events,)."""
        return cls(np.concatenate(([0], np.cumsum(counts))), items, n_items)

    @cached_property
    def users(self) -> Int32Array:
        """The user of each event, (n_events,)."""
        return np.repeat(np.arange(len(self.starts) - 1, dtype=np.int32), np.diff(self.starts))

    @cached_property
    def by_item(self) -> tuple[Int64Array, Int64Array]:
        """The events of each item, in order: where each item's begin, (m + 1,), and their places, (n_events,)."""
        starts = np.concatenate(([0], np.cumsum(np.bincount(self.items, minlength=self.n_items))))
        return starts, np.argsort(self.items, kind="stable")

    @cached_property
    def ages(self) -> Int32Array:
        """The number of later events of the same user, for each event, (n_events,)."""
        ends = np.repeat(self.starts[1:], np.diff(self.starts))
        return (ends - 1 - np.arange(len(self.items))).astype(np.int32)


class Fading(NamedTuple):
    """How histories fade: x_t = sum over events s before t of d^(t - 1 - s) * e(i_s), for each decay d.

    `decays` is (C,), `windows`, (C,), how far each looks back in a fit, `powers`, (C, longest window + 1), and
    tails[c, e, k] = the sum of (d_c*d_e)^p over p < k, (C, C, terms).
    """

    decays: Float64Array
    windows: Int64Array
    powers: Float64Array
    tails: Float64Array

    @classmethod
    def of(cls, decays: Sequence[float], longest: int) -> Fading:
        """The fading of decays in (0, 1), for sequences of at most `longest` events."""
        d = np.asarray(decays, np.float64)
        windows = np.minimum(np.ceil(np.log(WINDOW_SHARE) / np.log(d)), min(MOST_WINDOW, max(longest, 1)))
        powers = d[:, None] ** np.arange(int(windows.max()) + 1)
        both = d[:, None, None] * d[None, :, None]
        tails = (1 - both ** np.arange(min(longest, _LONGEST_TAIL) + 1)) / (1 - both)
        return cls(d, windows.astype(np.int64), powers, tails)


@compile_loop(fastmath=True)
def find_before(  # type: ignore[no-untyped-def]
    start, stop, item_starts, places, items, users, starts, windows, powers, norms, sums, touched, support, crossed
):
    # support[j, c*k + r] = c*m + i for the k items i with the largest crossed[j, c*k + r] = C_ij / norms[c, i], where
    # C_ij is the sum of x_ti over the events t of j. `sums`, zeros, and `touched` are there to work in, (m,) both.
    n_decays, m = norms.shape
    k = support.shape[1] // n_decays
    for j in range(start, stop):
        for c in range(n_decays):
            n_touched = 0
            for at in range(item_starts[j], item_starts[j + 1]):
                t = places[at]
                first = max(starts[users[t]], t - windows[c])
                for s in range(first, t):
                    i = items[s]
                    if sums[i] == 0:
                        touched[n_touched] = i
                        n_touched += 1
                    sums[i] += powers[c, t - 1 - s]
            values, chosen = crossed[j, c * k : (c + 1) * k], support[j, c * k : (c + 1) * k]
            size = np.int64(0)
            for at in range(n_touched):
                i = touched[at]
                value = np.float32(sums[i] / norms[c, i])
                if i == j:
                    continue
                if size < k:
                    add_to_heap(values, chosen, size, value, i)
                    size += 1
                elif is_below(values[0], chosen[0], value, i):
                    replace_worst(values, chosen, k, value, i)
            sort_heap(values, chosen, size)
            for r in range(size):
                # Sums in double precision, not what the rounded likeness gives back.
                values[r] = sums[chosen[r]]
                chosen[r] += c * m
            for at in range(n_touched):
                sums[touched[at]] = 0


@compile_loop(fastmath=True)
def fill_grams(  # type: ignore[no-untyped-def]
    start,
    stop,
    rows,
    firsts,
    at,
    item_starts,
    places,
    items,
    users,
    starts,
    windows,
    powers,
    tails,
    support,
    sums,
    grams,
):
    # grams[j, p*(p + 1)/2 + q] = G[support[j, p], support[j, q]] for q <= p, at the places (j, p) of
    # at[firsts[start]:firsts[stop]], where G_ab is the sum over all t of x_ta * x_tb. The row of G of the predictor
    # rows[t] serves the places at[firsts[t]:firsts[t + 1]]. `sums` is there to work in, (C*m,).
    width, n_decays = support.shape[1], len(windows)
    m = len(item_starts) - 1
    last_tail = tails.shape[2] - 1
    for t in range(start, stop):
        for place in range(firsts[t], firsts[t + 1]):
            j, p = at[place] // width, at[place] % width
            for q in range(p + 1):
                sums[support[j, q]] = 0
        c, i = rows[t] // m, rows[t] % m
        for event in range(item_starts[i], item_starts[i + 1]):
            s = places[event]
            begin, end = starts[users[s]], starts[users[s] + 1]
            for other in range(s, min(end, s + windows[c] + 1)):
                left = min(end - 1 - other, last_tail)
                for e in range(n_decays):
                    sums[e * m + items[other]] += powers[c, other - s] * tails[c, e, left]
            left = min(end - 1 - s, last_tail)
            for e in range(n_decays):
                for other in range(max(begin, s - windows[e]), s):
                    sums[e * m + items[other]] += powers[e, s - other] * tails[c, e, left]
        for place in range(firsts[t], firsts[t + 1]):
            j, p = at[place] // width, at[place] % width
            first = p * (p + 1) // 2
            for q in range(p + 1):
                grams[j, first + q] = sums[support[j, q]]


@compile_loop(fastmath=True)
def add_moments(  # type: ignore[no-untyped-def]
    first, last, items, starts, decays, left, right, now, squares, matched
):
    # squares[c, e] += the sum over all t of z_t (decay c) . z_t (decay e), z_t = x_t @ left, for e <= c, and
    # matched[c] += that of z_t . right[i_t], both in the columns first to last alone. `now`, (C, columns), is there to
    # work in.
    n_decays, width = len(decays), last - first
    for u in range(len(starts) - 1):
        now[:] = 0
        for t in range(starts[u] + 1, starts[u + 1]):
            new, target = left[items[t - 1], first:last], right[items[t], first:last]
            for c in range(n_decays):
                total = 0.0
                for k in range(width):
                    now[c, k] = decays[c] * now[c, k] + new[k]
                    total += now[c, k] * target[k]
                matched[c] += total
                for e in range(c + 1):
                    total = 0.0
                    for k in range(width):
                        total += now[c, k] * now[e, k]
                    squares[c, e] += total


@compile_loop(fastmath=True)
def add_images(  # type: ignore[no-untyped-def]
    first, last, items, starts, decays, shares, left, forward, now, image
):
    # image[c*m + i] += the sum over all t of x_ti (decay c) times z_t, z_t = the sum of shares[e] * x_t @ left over the
    # decays e, in the columns first to last alone. `forward`, (longest, columns), and `now`, (columns,), are there to
    # work in.
    n_decays, width, m = len(decays), last - first, len(left)
    for u in range(len(starts) - 1):
        begin, length = starts[u], starts[u + 1] - starts[u]
        if length < 2:
            continue
        # forward[t] = z_t
        for t in range(length):
            for k in range(width):
                forward[t, k] = 0
        for e in range(n_decays):
            for k in range(width):
                now[k] = 0
            for t in range(1, length):
                mine, new = forward[t], left[items[begin + t - 1], first:last]
                for k in range(width):
                    now[k] = decays[e] * now[k] + new[k]
                    mine[k] += shares[e] * now[k]
        for c in range(n_decays):
            # now = the sum over t > s of d_c^(t - 1 - s) * z_t
            for k in range(width):
                now[k] = 0
            for s in range(length - 2, -1, -1):
                later, out = forward[s + 1], image[c * m + items[begin + s], first:last]
                for k in range(width):
                    now[k] = decays[c] * now[k] + later[k]
                    out[k] += now[k]


@compile_loop(fastmath=True)
def solve_next(  # type: ignore[no-untyped-def]
    start, stop, first, support, grams, crossed, image, right, scale, rhos, scaled, asked, lower, x, out
):
    # out[r, j - start] = D (D G D + rhos[r]*I)^-1 D (crossed - image @ right[j]) on the predictors of item first + j,
    # D = diag(scale); returns the first item whose system is singular, -1 if none is.
    # `scaled`, (P*(P + 1)/2,), `asked`, (P,), `lower`, (P, P), and `x`, (P,), are there to work in.
    width, rank, singular = support.shape[1], right.shape[1], -1
    for j in range(start, stop):
        predictors, mine, taken = support[first + j], right[first + j], 0
        while taken < width and predictors[taken] >= 0:
            other = image[predictors[taken]]
            total = np.float64(crossed[first + j, taken])
            for k in range(rank):
                total -= other[k] * mine[k]
            asked[taken] = total * scale[predictors[taken]]
            taken += 1
        for a in range(taken):
            for b in range(a + 1):
                place = a * (a + 1) // 2 + b
                scaled[place] = grams[j, place] * scale[predictors[a]] * scale[predictors[b]]
        for r in range(len(rhos)):
            if not factorize(scaled, taken, rhos[r], lower) and singular < 0:
                singular = first + j
            x[:taken] = asked[:taken]
            substitute(lower, taken, x)
            for a in range(taken):
                out[r, j - start, a] = x[a] * scale[predictors[a]]
    return singular


class Taste(NamedTuple):
    """What common taste says about the next item: z_t @ right.T, z_t = the sum over decays of shares[c] * x_t @ left.

    `shares` is (C,), `image`, (C*m, r), the sum over all t of x_t, of all decays side by side, times z_t.
    """

    left: FloatArray
    right: FloatArray
    shares: Float64Array
    image: Float32Array


@dataclass(frozen=True, eq=False)
class NextItems:
    """
    minimize  rho/2*||D^-1 S||_F^2 + 1/2 * sum over users and t of ||e(i_t) - R z_t - S' x_t||^2

    over S of (C*m, m), zero but for some predictors of each item j in column j: those of the `width` items (or all,
    if there are fewer) of each decay c with the largest C_ij/sqrt(G_ii), where C is the sum of x_t e(i_t)' and G that
    of x_t x_t'. x_t, (C*m,), is the faded history before the event t, z_t what common taste makes of it (`Taste`), and
    D = diag(counts^-power).
    """

    sequences: Sequences
    decays: tuple[float, ...]
    width: int

    @cached_property
    def fading(self) -> Fading:
        """The decays, with their windows."""
        return Fading.of(self.decays, int(np.diff(self.sequences.starts).max(initial=1)))

    @cached_property
    def diagonal(self) -> Float64Array:
        """The diagonal of G, (C*m,)."""
        ages = np.minimum(self.sequences.ages, self.fading.tails.shape[2] - 1)
        sums = [
            np.bincount(self.sequences.items, tails[ages], self.sequences.n_items)
            for tails in np.diagonal(self.fading.tails).T
        ]
        return np.concatenate(sums)

    @cached_property
    def _found(self) -> tuple[Int32Array, Float32Array]:
        """The predictors of each item, -1 after the last, and C at them, (m, C*width) both."""
        own, m = self.sequences, self.sequences.n_items
        support = np.full((m, len(self.decays) * min(self.width, m)), -1, np.int32)
        crossed = np.zeros(support.shape, np.float32)
        if not self.width:
            return support, crossed
        norms = np.sqrt(np.maximum(self.diagonal, np.finfo(np.float64).tiny)).reshape(-1, m)
        given = *own.by_item, own.items, own.users, own.starts, self.fading.windows, self.fading.powers, norms

        def find(start: int, stop: int) -> None:
            find_before(start, stop, *given, np.zeros(m), np.empty(m, np.int32), support, crossed)

        run_ranges(find, _cut(m))
        order = np.argsort(support < 0, axis=1, kind="stable")
        return np.take_along_axis(support, order, 1), np.take_along_axis(crossed, order, 1)

    @property
    def support(self) -> Int32Array:
        """The predictors of each item, (m, C*width): c*m + i for item i at decay c, -1 after the last."""
        return self._found[0]

    @property
    def crossed(self) -> Float32Array:
        """C, the decayed transitions, from the predictors of each item to it, (m, C*width); zero after the last."""
        return self._found[1]

    def compute_mean_diagonal(self, power: float) -> float:
        """Return the mean of the diagonal of DGD over the items with events: the unit of rho."""
        diagonal = self.diagonal * self.scale(power) ** 2
        return float(diagonal[diagonal > 0].mean()) if (diagonal > 0).any() else 1.0

    def scale(self, power: float) -> Float64Array:
        """Return the diagonal of D, (C*m,): the items' numbers of events to the power -`power`."""
        counts = np.maximum(np.bincount(self.sequences.items, minlength=self.sequences.n_items), 1)
        return np.tile(counts ** -float(power), len(self.decays))

    def find_taste(self, left: FloatArray, right: FloatArray) -> Taste:
        """Return common taste by x_t @ left @ right.T, each decay with the share that least squares give.

        `left` and `right` are (m, r); those of the result have the same product, and columns of `right` are
        orthonormal.
        """
        own, n_decays = self.sequences, len(self.decays)
        right, turn = np.linalg.qr(right.astype(np.float64))
        left, right = (left @ turn.T).astype(np.float32), right.astype(np.float32)
        m, rank = left.shape
        longest, bounds = int(np.diff(own.starts).max(initial=1)), [*range(0, rank, _PANEL), rank]
        decays, shares = self.fading.decays.astype(np.float32), np.zeros(n_decays)
        events = own.items, own.starts, decays

        def add(first: int, last: int) -> tuple[Float64Array, Float64Array]:
            squares, matched = np.zeros((n_decays, n_decays)), np.zeros(n_decays)
            now = np.empty((n_decays, last - first), np.float32)
            add_moments(first, last, *events, left, right, now, squares, matched)
            return squares, matched

        if rank:
            squares, matched = (sum(each) for each in zip(*map_ranges(add, bounds), strict=True))
            squares += np.tril(squares, -1).T
            shares = np.linalg.lstsq(squares, matched, rcond=1e-9)[0]
        image = np.zeros((n_decays * m, rank), np.float32)

        def project(first: int, last: int) -> None:
            work = np.empty((longest, last - first), np.float32), np.empty(last - first, np.float32)
            add_images(first, last, *events, shares.astype(np.float32), left, *work, image)

        run_ranges(project, bounds)
        return Taste(left, right, shares, image)

    def solve(self, taste: Taste, power: float, rhos: Sequence[float]) -> Float32Array:
        """Return S on the support for each rho, (len(rhos), m, C*width); a singular system raises SingularError."""
        support, crossed = self._found
        (m, width), strengths = support.shape, np.asarray(rhos, np.float64)
        found = np.zeros((len(strengths), m, width), np.float32)
        scale, right, image = self.scale(power), np.ascontiguousarray(taste.right), taste.image
        singular = []
        for first, grams in self._list_grams():

            def solve(start: int, stop: int, first: int = first, grams: Float32Array = grams) -> int:
                out = np.zeros((len(strengths), stop - start, width), np.float32)
                work = np.empty(width * (width + 1) // 2), np.empty(width), np.empty((width, width)), np.empty(width)
                given = first, support, grams, crossed, image, right, scale, strengths
                bad = int(solve_next(start, stop, *given, *work, out))
                found[:, first + start : first + stop] = out
                return bad

            singular += [bad for bad in map_ranges(solve, _cut(len(grams))) if bad >= 0]
        if singular:
            raise SingularError(f"the predictors of item row {singular[0]} are linearly dependent")
        return found

    def _list_grams(self) -> Any:
        """The first item and the Gram matrices, (items, P*(P + 1)/2), of ranges of items, or of all where they fit."""
        m, width = self.support.shape
        if 2 * m * width * (width + 1) <= _GRAM_BYTES:
            yield 0, self._all_grams
            return
        size = max(_LEAST_ITEMS, _GRAM_BYTES // (2 * max(width, 1) * (width + 1)))
        for first in range(0, m, size):
            yield first, self._fill_grams(self.support[first : first + size])

    @cached_property
    def _all_grams(self) -> Float32Array:
        return self._fill_grams(self.support)

    def _fill_grams(self, support: Int32Array) -> Float32Array:
        """G among the predictors of some items, (items, P*(P + 1)/2): lower triangles, row by row."""
        own, width = self.sequences, support.shape[1]
        grams = np.empty((len(support), width * (width + 1) // 2), np.float32)
        rows, firsts, at = group_places(support)
        fading, n_sums = self.fading, len(self.decays) * own.n_items
        events = *own.by_item, own.items, own.users, own.starts
        given = rows, firsts, at, *events, fading.windows, fading.powers, fading.tails, support
        run_ranges(lambda start, stop: fill_grams(start, stop, *given, np.zeros(n_sums), grams), _cut(len(rows)))
        return grams

    @cached_property
    def by_predictor(self) -> SupportIndex:
        """Where the places of the support stand in a csr array of shape (C*m, m), columns as in S."""
        return SupportIndex.of(self.support, len(self.decays) * self.sequences.n_items)


def fade_histories(histories: Any, ages: Int32Array, decays: Sequence[float]) -> Any:
    """Return faded histories, csr of (n, C*m), all decays side by side, of histories, csr of (n, m), and their ages."""
    n, m = histories.shape
    values = [float(decay) ** ages for decay in decays]
    parts = [sparse.csr_array((each, histories.indices, histories.indptr), shape=(n, m)) for each in values]
    if len(parts) == 1:
        return parts[0].astype(np.float32)
    return sparse.hstack(parts, format="csr", dtype=np.float32)


@compile_loop()
def rank_next(  # type: ignore[no-untyped-def]
    start,
    stop,
    base,
    indptr,
    indices,
    values,
    s_indptr,
    s_indices,
    s_values,
    bonus,
    seen_indptr,
    seen,
    next_item,
    ranks,
):
    # ranks[v, w, u] = the rank, from 1, of the item next_item[u] among the unseen ones by their scores times bonus[w],
    # for the scores base[u - start] + x_u S_v; x_u is row u of a csr matrix, S_v has its values in s_values[v].
    # Of equal scores half rank before.
    n_variants, n_bonus, m = s_values.shape[0], bonus.shape[0], base.shape[1]
    scores = np.empty(m, np.float32)
    for u in range(start, stop):
        for v in range(n_variants):
            scores[:] = base[u - start]
            for p in range(indptr[u], indptr[u + 1]):
                value = values[p]
                for q in range(s_indptr[indices[p]], s_indptr[indices[p] + 1]):
                    scores[s_indices[q]] += value * s_values[v, q]
            for p in range(seen_indptr[u], seen_indptr[u + 1]):
                scores[seen[p]] = -np.inf
            for w in range(n_bonus):
                mine, above, equal = scores[next_item[u]] * bonus[w, next_item[u]], 0, 0
                for i in range(m):
                    other = scores[i] * bonus[w, i]
                    above += other > mine
                    equal += other == mine
                ranks[v, w, u] = 1 + above + (equal - 1) / 2


def _cut(items: int) -> list[int]:
    """Bounds of ranges of items; they depend on the number of items alone."""
    ranges = max(1, min(_RANGES, items))
    return [items * i // ranges for i in range(ranges + 1)]
