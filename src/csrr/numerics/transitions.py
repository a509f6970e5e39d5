"""Weights from the items that a user had, newest first, to the next one: a ridge regression over all positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
TASTE_RIDGE = 0.01
"""The penalty that draws common taste to what it is without order, in units of the mean square of a direction."""


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
    start, stop, item_starts, places, items, users, starts, reaches, crosses, norms, sums, touched, support, crossed
):
    # support[j, c*k + r] = c*m + i for the k items i with the largest crossed[j, c*k + r] = C_ij / norms[c, i], where
    # C_ij is the sum over all t of x_ti * y_tj. `sums`, zeros, and `touched` are there to work in, (m,) both.
    n_decays, m = norms.shape
    k = support.shape[1] // n_decays
    for j in range(start, stop):
        for c in range(n_decays):
            n_touched = 0
            for at in range(item_starts[j], item_starts[j + 1]):
                t = places[at]
                first = max(starts[users[t]], t - reaches[c])
                for s in range(first, t):
                    i = items[s]
                    if sums[i] == 0:
                        touched[n_touched] = i
                        n_touched += 1
                    sums[i] += crosses[c, t - 1 - s]
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
    start, stop, first, support, grams, crossed, explained, scale, rhos, scaled, asked, lower, x, out
):
    # out[r, j - start] = D (D G D + rhos[r]*I)^-1 D (crossed - explained) on the predictors of item first + j,
    # D = diag(scale); returns the first item whose system is singular, -1 if none is.
    # `scaled`, (P*(P + 1)/2,), `asked`, (P,), `lower`, (P, P), and `x`, (P,), are there to work in.
    width, singular = support.shape[1], -1
    for j in range(start, stop):
        predictors, taken = support[first + j], 0
        while taken < width and predictors[taken] >= 0:
            left_over = np.float64(crossed[first + j, taken]) - explained[first + j, taken]
            asked[taken] = left_over * scale[predictors[taken]]
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
        given = *own.by_item, own.items, own.users, own.starts, self.fading.reaches, self.fading.crosses, norms

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
        images = _Images(self, left)
        squares, reached = images.find_squares(), self._find_reached(left)
        of_decays = np.einsum("ckek->ce", squares.reshape(n_decays, rank, n_decays, rank))
        matched = np.einsum("jck,jk->c", reached.reshape(-1, n_decays, rank), right)
        shares = np.linalg.lstsq(of_decays, matched, rcond=1e-9)[0]
        drawn_to = np.hstack([share * right for share in shares])
        ridge = TASTE_RIDGE * squares.trace() / len(squares)
        if ridge > 0:
            squares[np.diag_indices_from(squares)] += ridge
            drawn_to = np.linalg.solve(squares, (reached + ridge * drawn_to).T).T
        explained = images.explain(drawn_to.astype(np.float32))
        # In the basis of what was given.
        found = (drawn_to.reshape(-1, n_decays, rank) @ turn).reshape(drawn_to.shape)
        return Taste(found.astype(np.float32), shares, explained)

    def _find_reached(self, left: Float32Array) -> Float32Array:
        """The sum over all t of y_t z_t', (m, C*r)."""
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
        support, crossed = self._found
        (m, width), strengths = support.shape, np.asarray(rhos, np.float64)
        found = np.zeros((len(strengths), m, width), np.float32)
        scale = self.scale(power)
        singular = []
        for first, grams in self._list_grams():

            def solve(start: int, stop: int, first: int = first, grams: Float32Array = grams) -> int:
                out = np.zeros((len(strengths), stop - start, width), np.float32)
                work = np.empty(width * (width + 1) // 2), np.empty(width), np.empty((width, width)), np.empty(width)
                given = first, support, grams, crossed, taste.explained, scale, strengths
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


@dataclass(frozen=True, eq=False)
class _Images:
    """The sum over all t of x_t z_t', z_t = [x_t @ left of each decay], a few columns at a time: (C*m, columns).

    They are kept where they are small.
    """

    of: NextItems
    left: Float32Array

    @cached_property
    def _panels(self) -> list[tuple[int, int, int]]:
        """The columns, first to last, of a decay."""
        rank, n_decays = self.left.shape[1], len(self.of.decays)
        firsts = range(0, rank, _PANEL)
        return [(c, first, min(first + _PANEL, rank)) for c in range(n_decays) for first in firsts]

    @cached_property
    def _bytes(self) -> int:
        """The memory that the images of a panel take."""
        return 4 * _PANEL * len(self.of.decays) * len(self.left)

    @cached_property
    def _all(self) -> list[Float32Array]:
        return self._compute(self._panels)

    def _list(self) -> Iterator[tuple[slice, Float32Array]]:
        """The columns and the images of all panels, in order."""
        rank, panels = self.left.shape[1], self._panels
        is_small = self._bytes * len(panels) <= _GRAM_BYTES
        at_once = len(panels) if is_small else max(2, _GRAM_BYTES // self._bytes)
        for at in range(0, len(panels), at_once):
            some = panels[at : at + at_once]
            for (c, first, last), image in zip(some, self._all if is_small else self._compute(some), strict=True):
                yield slice(c * rank + first, c * rank + last), image

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

    def find_squares(self) -> Float64Array:
        """Return the sum over all t of z_t z_t', (C*r, C*r)."""
        n_decays, (m, rank), left = len(self.of.decays), self.left.shape, self.left.astype(np.float64)
        squares = np.empty((n_decays, rank, n_decays * rank))
        for columns, image in self._list():
            squares[:, :, columns] = left.T @ image.reshape(n_decays, m, -1)
        squares = squares.reshape(n_decays * rank, -1)
        return (squares + squares.T) / 2

    def explain(self, right: Float32Array) -> Float32Array:
        """Return the entries of the sum over all t of x_t z_t' right.T at the predictors of each item, (m, C*width)."""
        support, explained = self.of.support, np.zeros_like(self.of.crossed)
        for columns, image in self._list() if explained.size else ():
            mine = np.ascontiguousarray(right[:, columns])

            def explain(start: int, stop: int, image: Any = image, mine: Any = mine) -> None:
                add_explained(start, stop, support, image, mine, explained)

            run_ranges(explain, _cut(len(right)))
        return explained


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
