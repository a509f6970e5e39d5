"""Weights from the items that a user had, newest first, to the next one: a ridge regression over all positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
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
TASTE_RIDGE = 0.01
"""The penalty that draws common taste to what it is without order, in units of the mean square of a direction."""


@dataclass(frozen=True, eq=False)
class Sequences:
    """The items of each user, oldest first: those of user u are items[starts[u]:starts[u + 1]].

    `starts` is (n + 1,), `items` (n_events,). What is computed of them is a map over ranges of users, of items or of
    columns: here all at once, where the sequences are with other processes (`DaskSequences`) a range for each.
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
    def counts(self) -> Int64Array:
        """The number of events of each item, (m,)."""
        return np.bincount(self.items, minlength=self.n_items)

    @cached_property
    def by_item(self) -> tuple[Int64Array, Int64Array, Int32Array]:
        """The events of each item, in order: where each item's begin, (m + 1,), their places and users, (n_events,)."""
        places = np.argsort(self.items, kind="stable")
        return np.concatenate(([0], np.cumsum(self.counts))), places, self.users[places]

    def find_ages(self, start: int, stop: int) -> Int32Array:
        """Return the number of later events of the same user, for each event of some users, (events,)."""
        ends = np.repeat(self.starts[start + 1 : stop + 1], np.diff(self.starts[start : stop + 1]))
        return (ends - 1 - np.arange(self.starts[start], self.starts[stop])).astype(np.int32)

    @property
    def ages(self) -> Int32Array:
        """The number of later events of the same user, for each event, (n_events,)."""
        return self.find_ages(0, len(self.starts) - 1)

    def cut(self, length: int, most: int | None = None) -> list[int]:
        """Return bounds of ranges of `length` things, of which `most` may be computed at once; None: all."""
        return [*range(0, length, max(most or length, 1)), length]

    def cut_users(self) -> list[int]:
        """Return bounds of ranges of users, which depend on nothing but the events."""
        return [0, len(self.starts) - 1]

    def cut_sum(self, length: int) -> list[int]:
        """Return bounds of ranges of things that are added up, which depend on nothing but their number."""
        return [0, length]

    def map(self, work: Callable[..., Any], bounds: Sequence[int], *args: Any) -> list[Any]:
        """Return what `work(start, stop, *args)`, a method of `NextItems` or its images, returns for each range."""
        return [work(start, stop, *args) for start, stop in pairwise(bounds)]


class Fading(NamedTuple):
    """How histories fade: x_t = sum over events s before t of d^(t - 1 - s) * e(i_s), for each decay d.

    And how far ahead a fit looks: y_t = (1 - g) * sum over events s from t on of g^(s - t) * e(i_s), for the horizon g.

    `decays` is (C,), `windows`, (C,), how far each looks back in a fit, `powers`, (C, longest window + 1), and
    tails[c, e, k] = the sum of (d_c*d_e)^p over p < k, (C, C, terms). An event counts in x_t y_t' of all t together, by
    the number n of events between it and a later one, crosses[c, n] = (1 - g) * sum of d_c^p * g^(n - p) over p <= n,
    (C, longest reach), which matters up to `reaches`, (C,).
    """

    decays: Float64Array
    windows: Int64Array
    powers: Float64Array
    tails: Float64Array
    reaches: Int64Array
    crosses: Float64Array

    @classmethod
    def of(cls, decays: Sequence[float], longest: int, horizon: float = 0.0) -> Fading:
        """The fading of decays in (0, 1), for sequences of at most `longest` events, and a horizon in [0, 1)."""
        d, most = np.asarray(decays, np.float64), min(MOST_WINDOW, max(longest, 1))
        windows = np.minimum(np.ceil(np.log(WINDOW_SHARE) / np.log(d)), most)
        powers = d[:, None] ** np.arange(int(windows.max()) + 1)
        both = d[:, None, None] * d[None, :, None]
        tails = (1 - both ** np.arange(min(longest, _LONGEST_TAIL) + 1)) / (1 - both)
        if not horizon:
            return cls(d, windows.astype(np.int64), powers, tails, windows.astype(np.int64), powers)
        crosses = np.full((len(d), most), 1 - horizon)
        for n in range(1, most):
            crosses[:, n] = d * crosses[:, n - 1] + (1 - horizon) * horizon**n
        reaches = (crosses >= WINDOW_SHARE * crosses.max(axis=1, keepdims=True)).sum(axis=1)
        return cls(d, windows.astype(np.int64), powers, tails, reaches, crosses)


@compile_loop(fastmath=True)
def find_before(  # type: ignore[no-untyped-def]
    start,
    stop,
    item_starts,
    places,
    users,
    items,
    starts,
    reaches,
    crosses,
    norms,
    sums,
    touched,
    base,
    support,
    crossed,
):
    # support[j - base, c*k + r] = c*m + i for the k items i with the largest C_ij / norms[c, i], and C_ij at the same
    # place of `crossed`, the sum over all t of x_ti * y_tj. `sums`, zeros, and `touched` are there to work in, (m,)
    # both.
    n_decays, m = norms.shape
    k = support.shape[1] // n_decays
    for j in range(start, stop):
        for c in range(n_decays):
            n_touched = 0
            for at in range(item_starts[j], item_starts[j + 1]):
                t = places[at]
                first = max(starts[users[at]], t - reaches[c])
                for s in range(first, t):
                    i = items[s]
                    if sums[i] == 0:
                        touched[n_touched] = i
                        n_touched += 1
                    sums[i] += crosses[c, t - 1 - s]
            values, chosen = crossed[j - base, c * k : (c + 1) * k], support[j - base, c * k : (c + 1) * k]
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
    users,
    items,
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
            begin, end = starts[users[event]], starts[users[event] + 1]
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
def add_reached(first, last, items, starts, decays, horizon, left, now, ahead, reached):  # type: ignore[no-untyped-def]
    # reached[j, c*r + k] += the sum over all t of y_tj * z_tk (decay c), z_t = x_t @ left, in the columns k from first
    # to last alone. `now` and `ahead`, (C, columns) both, are there to work in.
    width, rank = last - first, left.shape[1]
    for u in range(len(starts) - 1):
        now[:] = 0
        ahead[:] = 0
        for t in range(starts[u] + 1, starts[u + 1]):
            new, out = left[items[t - 1], first:last], reached[items[t]]
            for c in range(len(decays)):
                for k in range(width):
                    now[c, k] = decays[c] * now[c, k] + new[k]
                    # The sum over p of horizon^p * z_(t - p).
                    ahead[c, k] = horizon * ahead[c, k] + now[c, k]
                    out[c * rank + first + k] += (1 - horizon) * ahead[c, k]


@compile_loop(fastmath=True)
def add_images(first, last, own, items, starts, decays, left, forward, now, image):  # type: ignore[no-untyped-def]
    # image[c*m + i, k - first] += the sum over all t of x_ti (decay c) times z_tk (decay `own`), z_t = x_t @ left, in
    # the columns k from first to last alone. `forward`, (longest, columns), and `now`, (columns,), are there to work
    # in.
    width, m = last - first, len(left)
    for u in range(len(starts) - 1):
        begin, length = starts[u], starts[u + 1] - starts[u]
        # forward[t] = z_t
        for k in range(width):
            forward[0, k] = 0
        for t in range(1, length):
            new = left[items[begin + t - 1], first:last]
            for k in range(width):
                forward[t, k] = decays[own] * forward[t - 1, k] + new[k]
        for c in range(len(decays)):
            # now = the sum over t > s of d_c^(t - 1 - s) * z_t
            for k in range(width):
                now[k] = 0
            for s in range(length - 2, -1, -1):
                out = image[c * m + items[begin + s]]
                for k in range(width):
                    now[k] = decays[c] * now[k] + forward[s + 1, k]
                    out[k] += now[k]


@compile_loop(fastmath=True)
def add_explained(start, stop, support, image, right, explained):  # type: ignore[no-untyped-def]
    # explained[j, p] += image[support[j, p]] . right[j]
    for j in range(start, stop):
        for p in range(support.shape[1]):
            if support[j, p] < 0:
                break
            total = np.float32(0)
            for k in range(right.shape[1]):
                total += image[support[j, p], k] * right[j, k]
            explained[j, p] += total


@compile_loop(fastmath=True)
def solve_next(  # type: ignore[no-untyped-def]
    start, stop, support, grams, crossed, explained, scale, rhos, scaled, asked, lower, x, out
):
    # out[r, j - start] = D (D G D + rhos[r]*I)^-1 D (crossed - explained) on the predictors of item j,
    # D = diag(scale); returns the first item whose system is singular, -1 if none is.
    # `scaled`, (P*(P + 1)/2,), `asked`, (P,), `lower`, (P, P), and `x`, (P,), are there to work in.
    width, singular = support.shape[1], -1
    for j in range(start, stop):
        predictors, taken = support[j], 0
        while taken < width and predictors[taken] >= 0:
            left_over = np.float64(crossed[j, taken]) - explained[j, taken]
            asked[taken] = left_over * scale[predictors[taken]]
            taken += 1
        for a in range(taken):
            for b in range(a + 1):
                place = a * (a + 1) // 2 + b
                scaled[place] = grams[j, place] * scale[predictors[a]] * scale[predictors[b]]
        for r in range(len(rhos)):
            if not factorize(scaled, taken, rhos[r], lower) and singular < 0:
                singular = j
            x[:taken] = asked[:taken]
            substitute(lower, taken, x)
            for a in range(taken):
                out[r, j - start, a] = x[a] * scale[predictors[a]]
    return singular


class Taste(NamedTuple):
    """What common taste says about the next item: z_t @ right.T, z_t = [x_t @ left of each decay], `left` (m, r).

    `right`, (m, C*r), is `shares`, (C,), of what was given, turned to what comes next. `explained`, (m, C*width), is
    what of C this explains, the sum over all t of x_t (z_t @ right.T), where there are predictors.
    """

    right: Float32Array
    shares: Float64Array
    explained: Float32Array


@dataclass(frozen=True, eq=False)
class NextItems:
    """
    minimize  rho/2*||D^-1 S||_F^2 + 1/2 * sum over users and t of ||y_t - R z_t - S' x_t||^2

    over S of (C*m, m), zero but for some predictors of each item j in column j: those of the `width` items (or all,
    if there are fewer) of each decay c with the largest C_ij/sqrt(G_ii), where C is the sum of x_t y_t' and G that
    of x_t x_t'. x_t, (C*m,), is the faded history before the event t, y_t, (m,), the faded future from it on (without a
    `horizon` the event alone), z_t what common taste makes of x_t (`Taste`), and D = diag(counts^-power).
    """

    sequences: Sequences
    decays: tuple[float, ...]
    width: int
    horizon: float = 0.0

    @cached_property
    def fading(self) -> Fading:
        """The decays, with their windows."""
        return Fading.of(self.decays, int(np.diff(self.sequences.starts).max(initial=1)), self.horizon)

    @property
    def key(self) -> tuple[Any, ...]:
        """What it is made of besides the sequences."""
        return self.decays, self.width, self.horizon

    @cached_property
    def diagonal(self) -> Float64Array:
        """The diagonal of G, (C*m,)."""
        parts: list[Float64Array] = self.sequences.map(self.sum_squares, self.sequences.cut_users())
        return sum(parts[1:], parts[0])

    def sum_squares(self, start: int, stop: int) -> Float64Array:
        """Return what some users add to the diagonal of G, (C*m,)."""
        own, last = self.sequences, self.fading.tails.shape[2] - 1
        ages = np.minimum(own.find_ages(start, stop), last)
        items = own.items[own.starts[start] : own.starts[stop]]
        return np.concatenate(
            [np.bincount(items, each[ages], own.n_items) for each in np.diagonal(self.fading.tails).T]
        )

    @cached_property
    def _found(self) -> tuple[Int32Array, Float32Array]:
        """The predictors of each item, -1 after the last, and C at them, (m, C*width) both."""
        own = self.sequences
        norms = np.empty(0) if not self.width else np.sqrt(np.maximum(self.diagonal, np.finfo(np.float64).tiny))
        support, crossed = zip(*own.map(self.find_predictors, own.cut(own.n_items), norms), strict=True)
        return _join(support, 0), _join(crossed, 0)

    def find_predictors(self, first: int, last: int, norms: Float64Array) -> tuple[Int32Array, Float32Array]:
        """Return the predictors of some items, and C at them, (items, C*width) both."""
        own, m = self.sequences, self.sequences.n_items
        support = np.full((last - first, len(self.decays) * min(self.width, m)), -1, np.int32)
        crossed = np.zeros(support.shape, np.float32)
        if not self.width:
            return support, crossed
        events = *own.by_item, own.items, own.starts
        given = *events, self.fading.reaches, self.fading.crosses, norms.reshape(-1, m)

        def find(start: int, stop: int) -> None:
            work = np.zeros(m), np.empty(m, np.int32)
            find_before(first + start, first + stop, *given, *work, first, support, crossed)

        run_ranges(find, _cut(last - first))
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
        return np.tile(np.maximum(self.sequences.counts, 1) ** -float(power), len(self.decays))

    def find_taste(self, left: FloatArray, right: FloatArray) -> Taste:
        """Return common taste x_t @ left @ right.T, `left` and `right` (m, r), turned to what comes next.

        Each decay first has a share by least squares. A ridge regression of y_t on z_t is then drawn to that:

            minimize  w/2*||R - [shares[c]*right of each decay]||_F^2 + 1/2 * sum over users and t of ||y_t - R z_t||^2

        for w = TASTE_RIDGE times the mean diagonal of A = sum of z_t z_t', where columns of `right` are orthonormal.
        """
        right, turn = np.linalg.qr(right.astype(np.float64))
        left = np.ascontiguousarray(left @ turn.T, np.float32)
        n_decays, rank = len(self.decays), left.shape[1]
        if not rank:
            return Taste(right.astype(np.float32), np.zeros(n_decays), np.zeros_like(self.crossed))
        own, images = self.sequences, Images(self, left)
        n_images = len(images.panels)
        squares = np.concatenate(own.map(images.square, own.cut(n_images)), axis=2).reshape(n_decays * rank, -1)
        squares = (squares + squares.T) / 2
        parts = own.map(self.find_reached, own.cut(rank), left)
        reached = _join([each.reshape(own.n_items, n_decays, -1) for each in parts], 2).reshape(own.n_items, -1)
        of_decays = np.einsum("ckek->ce", squares.reshape(n_decays, rank, n_decays, rank))
        matched = np.einsum("jck,jk->c", reached.reshape(-1, n_decays, rank), right)
        shares = np.linalg.lstsq(of_decays, matched, rcond=1e-9)[0]
        drawn_to = np.hstack([share * right for share in shares])
        ridge = TASTE_RIDGE * squares.trace() / len(squares)
        if ridge > 0:
            squares[np.diag_indices_from(squares)] += ridge
            drawn_to = np.linalg.solve(squares, (reached + ridge * drawn_to).T).T
        explained = np.zeros_like(self.crossed)
        if explained.size:
            given = drawn_to.astype(np.float32), self.support
            for part in own.map(images.explain, own.cut_sum(n_images), *given):
                explained += part
        # In the basis of what was given.
        found = (drawn_to.reshape(-1, n_decays, rank) @ turn).reshape(drawn_to.shape)
        return Taste(found.astype(np.float32), shares, explained)

    def find_reached(self, first: int, last: int, left: Float32Array) -> Float32Array:
        """Return the sum over all t of y_t z_t', (m, C*columns), for some columns of `left`."""
        left = np.ascontiguousarray(left[:, first:last])
        own, decays, rank = self.sequences, self.fading.decays.astype(np.float32), left.shape[1]
        reached = np.zeros((own.n_items, len(decays) * rank), np.float32)

        def add(first: int, last: int) -> None:
            now, ahead = np.empty((2, len(decays), last - first), np.float32)
            horizon = np.float32(self.horizon)
            add_reached(first, last, own.items, own.starts, decays, horizon, left, now, ahead, reached)

        run_ranges(add, [*range(0, rank, _PANEL), rank])
        return reached

    def solve(self, taste: Taste, power: float, rhos: Sequence[float]) -> Float32Array:
        """Return S on the support for each rho, (len(rhos), m, C*width); a singular system raises SingularError."""
        own, (m, width) = self.sequences, self.support.shape
        strengths, scale = np.asarray(rhos, np.float64), self.scale(power)
        given = self.support, self.crossed, taste.explained, scale, strengths
        most = max(_LEAST_ITEMS, _GRAM_BYTES // (2 * max(width, 1) * (width + 1)))
        parts = own.map(self.solve_items, own.cut(m, most if most < m else None), *given)
        if singular := [bad for _, bad in parts if bad >= 0]:
            raise SingularError(f"the predictors of item row {singular[0]} are linearly dependent")
        found: Float32Array = _join([each for each, _ in parts], 1)
        return found

    def solve_items(
        self,
        first: int,
        last: int,
        support: Int32Array,
        crossed: Float32Array,
        explained: Float32Array,
        scale: Float64Array,
        rhos: Float64Array,
    ) -> tuple[Float32Array, int]:
        """Return S on the support of some items, (len(rhos), items, C*width), and a singular item or -1."""
        support, crossed = np.ascontiguousarray(support[first:last]), np.ascontiguousarray(crossed[first:last])
        explained = np.ascontiguousarray(explained[first:last])
        grams, width = self._keep_grams(first, support), support.shape[1]

        def solve(start: int, stop: int) -> tuple[int, Float32Array]:
            out = np.zeros((len(rhos), stop - start, width), np.float32)
            work = np.empty(width * (width + 1) // 2), np.empty(width), np.empty((width, width)), np.empty(width)
            return int(solve_next(start, stop, support, grams, crossed, explained, scale, rhos, *work, out)), out

        singular, parts = zip(*map_ranges(solve, _cut(len(support))), strict=True)
        bad = next((each for each in singular if each >= 0), -1)
        return np.concatenate(parts, axis=1), bad + first if bad >= 0 else -1

    def _keep_grams(self, first: int, support: Int32Array) -> Float32Array:
        """G among the predictors of some items: the latest are kept, where they are of all items that are asked for."""
        if self._kept.get("at") != (first, len(support)):
            self._kept.clear()
            self._kept.update(at=(first, len(support)), grams=self._fill_grams(support))
        grams: Float32Array = self._kept["grams"]
        return grams

    @cached_property
    def _kept(self) -> dict[str, Any]:
        return {}

    def _fill_grams(self, support: Int32Array) -> Float32Array:
        """G among the predictors of some items, (items, P*(P + 1)/2): lower triangles, row by row."""
        own, width = self.sequences, support.shape[1]
        grams = np.empty((len(support), width * (width + 1) // 2), np.float32)
        rows, firsts, at = group_places(support)
        fading, n_sums = self.fading, len(self.decays) * own.n_items
        events = *own.by_item, own.items, own.starts
        given = rows, firsts, at, *events, fading.windows, fading.powers, fading.tails, support
        run_ranges(lambda start, stop: fill_grams(start, stop, *given, np.zeros(n_sums), grams), _cut(len(rows)))
        return grams

    @cached_property
    def by_predictor(self) -> SupportIndex:
        """Where the places of the support stand in a csr array of shape (C*m, m), columns as in S."""
        return SupportIndex.of(self.support, len(self.decays) * self.sequences.n_items)


@dataclass(frozen=True, eq=False)
class Images:
    """The sum over all t of x_t z_t', z_t = [x_t @ left of each decay], a few columns at a time: (C*m, columns).

    They are kept where they are small.
    """

    of: NextItems
    left: Float32Array

    @property
    def key(self) -> tuple[Any, ...]:
        """What it is made of besides the sequences."""
        return self.of.key

    @cached_property
    def panels(self) -> list[tuple[int, int, int]]:
        """The columns, first to last, of a decay, for each image."""
        rank, n_decays = self.left.shape[1], len(self.of.decays)
        firsts = range(0, rank, _PANEL)
        return [(c, first, min(first + _PANEL, rank)) for c in range(n_decays) for first in firsts]

    @cached_property
    def _kept(self) -> dict[tuple[int, int, int], Float32Array]:
        return {}

    def _list(self, start: int, stop: int) -> Iterator[tuple[slice, Any]]:
        """The columns and the images of some panels, in order."""
        rank, panels = self.left.shape[1], self.panels[start:stop]
        of_one = 4 * _PANEL * len(self.of.decays) * len(self.left)
        is_small = of_one * len(panels) <= _GRAM_BYTES
        at_once = len(panels) if is_small else max(2, _GRAM_BYTES // of_one)
        for at in range(0, len(panels), at_once):
            some = panels[at : at + at_once]
            if not all(panel in self._kept for panel in some):
                self._kept.clear()
                self._kept.update(zip(some, self._compute(some), strict=True))
            for c, first, last in some:
                yield slice(c * rank + first, c * rank + last), self._kept[c, first, last]

    def _compute(self, panels: list[tuple[int, int, int]]) -> list[Float32Array]:
        own, decays, m = self.of.sequences, self.of.fading.decays.astype(np.float32), len(self.left)
        longest = int(np.diff(own.starts).max(initial=1))

        def project(start: int, stop: int) -> list[Float32Array]:
            images = []
            for c, first, last in panels[start:stop]:
                images.append(np.zeros((len(decays) * m, last - first), np.float32))
                work = np.empty((longest, last - first), np.float32), np.empty(last - first, np.float32)
                add_images(first, last, c, own.items, own.starts, decays, self.left, *work, images[-1])
            return images

        return [image for some in map_ranges(project, list(range(len(panels) + 1))) for image in some]

    def square(self, start: int, stop: int) -> Float64Array:
        """Return columns of the sum over all t of z_t z_t', (C, r, columns)."""
        m, left = len(self.left), self.left.astype(np.float64)
        return np.concatenate(
            [left.T @ image.reshape(-1, m, image.shape[1]) for _, image in self._list(start, stop)], 2
        )

    def explain(self, start: int, stop: int, right: Float32Array, support: Int32Array) -> Float32Array:
        """Return what some columns add to the sum of x_t z_t' right.T at the predictors of each item, (m, C*width)."""
        explained = np.zeros(support.shape, np.float32)
        for columns, image in self._list(start, stop):
            mine = np.ascontiguousarray(right[:, columns])

            def explain(start: int, stop: int, image: Any = image, mine: Any = mine) -> None:
                add_explained(start, stop, support, image, mine, explained)

            run_ranges(explain, _cut(len(right)))
        return explained


def _join(parts: Sequence[Any], axis: int) -> Any:
    """Arrays side by side: a single one is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=axis)


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
    held_indptr,
    held,
    ranks,
):
    # ranks[v, w, p] = the rank, from 1, of the item held[p], p in held_indptr[u]:held_indptr[u + 1], among the unseen
    # ones by their scores times bonus[w], for the scores base[u - start] + x_u S_v; x_u is row u of a csr matrix, S_v
    # has its values in s_values[v]. Of equal scores half rank before.
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
                for h in range(held_indptr[u], held_indptr[u + 1]):
                    mine, above, equal = scores[held[h]] * bonus[w, held[h]], 0, 0
                    for i in range(m):
                        other = scores[i] * bonus[w, i]
                        above += other > mine
                        equal += other == mine
                    ranks[v, w, h] = 1 + above + (equal - 1) / 2


def _cut(items: int) -> list[int]:
    """Bounds of ranges of items; they depend on the number of items alone."""
    ranges = max(1, min(_RANGES, items))
    return [items * i // ranges for i in range(ranges + 1)]
