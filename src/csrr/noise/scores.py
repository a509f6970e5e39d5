"""Scores of clicks: the probability that each is noise; and of user-specific choices: how much company they have.

How similar items are is learned from all other users. A random click has similar items only by chance; how many is
measured on items that the user did not choose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from csrr._base.arrays import BoolArray, FloatArray, Rows
from csrr._base.lazy_jit import compile_loop
from csrr._base.threads import map_ranges, run_ranges
from csrr.data.log import Log
from csrr.numerics.factored import ItemSide
from csrr.numerics.problem import Pattern
from csrr.parameters import ParameterError, check_number
from csrr.ranking.topk import score_blocks

BINS = 300
SAMPLED = 2000
"""The number of items that stand for a larger catalog."""
LOW = (0.05, 0.25, 0.5)
"""The share of noise is estimated from the clicks on these shares of the catalog, ranked lowest for each user."""
STEEP = 2.0
"""If the rate of clicks falls from the second of these shares to the first, the estimate falls by this power of it."""
_ROWS_AT_ONCE = 64
PSEUDO = 0.25
"""The weight of the mean rate of noise in a user's own rate, in catalogs."""
ScoreCells = Callable[[Rows, Rows], FloatArray]
"""A function from rows of users and of items to the values of their cells, a new array (len(rows), len(items))."""


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """The common taste of cells: `values`, (nnz,), of the clicked ones, as they would be without their own click.

    `score_cells` gives the values of the other cells.
    """

    pattern: Pattern
    values: FloatArray
    score_cells: ScoreCells

    @cached_property
    def bins(self) -> tuple[FloatArray, npt.NDArray[np.int16]]:
        """The edges of about BINS bins of equally many values, and how many edges are below each value, (nnz,)."""
        edges = np.unique(np.quantile(self.values, np.linspace(0, 1, BINS)).astype(self.values.dtype))
        bins = np.empty((1, len(self.values)), np.int16)
        bounds = [*range(0, len(self.values), _ROWS_AT_ONCE * SAMPLED), len(self.values)]
        run_ranges(lambda a, b: fill_bins(edges, self.values[None, a:b], bins[:, a:b]), bounds)
        return edges, bins[0]

    def select(self, users: Rows) -> LeaveOneOut:
        """Return the common taste of some users, by row."""
        pattern = self.pattern
        some = pattern.make_matrix(self.values)[users]
        return LeaveOneOut(
            Pattern.of(some, pattern.engine), some.data, lambda rows, items: self.score_cells(users[rows], items)
        )


def check_popularity(popularity: float) -> None:
    """Raise ParameterError unless `popularity` is between 0 and 1."""
    check_number("popularity", popularity, least=0, most=1)


class NoiseScores(NamedTuple):
    """The score of each click, (n_events,), and the share of noise if no genuine click is on lowest-ranked items."""

    scores: FloatArray
    share_at_bottom: float


def score_noise(left: LeaveOneOut, popularity: float = 0.0, seed: int = 0, sampled: int | None = None) -> NoiseScores:
    """Return the scores of the clicks, if noise falls on item j in proportion to (its clicks + 1)^popularity.

    So many items are `sampled` (None: SAMPLED) to stand for a larger catalog.
    """
    from scipy.optimize import isotonic_regression

    users, items = left.pattern.shape
    if min(users, items) < 2 or left.pattern.nnz == users * items:
        raise ParameterError(
            f"{left.pattern.nnz:,} clicks on {users} x {items} cells tell no noise from taste: it takes two users and"
            " two items at least, and cells without a click"
        )
    background = (np.bincount(left.pattern.indices, minlength=items) + 1.0) ** popularity
    background /= background.mean()
    m, rows, columns = left.pattern.shape[1], left.pattern.rows, left.pattern.indices
    edges, bins = left.bins
    counts = _count_cells(left, background, seed, sampled or SAMPLED)
    noise, mean, bottom = _estimate_noise_rates(counts, left.values / background[columns], left.pattern)
    cells = np.maximum(counts.cells, 1e-9)
    excess = np.maximum((np.bincount(bins, minlength=len(edges) + 1) - mean * counts.mass) / cells, 0)
    taste = isotonic_regression(excess, weights=cells).x[bins]
    expected = noise[rows] * background[columns]
    scores = _compute_share(expected, _discount_taste(taste, expected, rows, noise * m) * taste)
    return NoiseScores(scores, min(1.0, bottom * left.pattern.shape[0] * m / left.pattern.nnz))


@dataclass(frozen=True, eq=False)
class _CellCounts:
    """Counts of all cells: `cells` and their background `mass` in each bin of values, (n_bins,).

    For each user and each share in LOW, (n, 3), `cuts` are the values over background that this share of the items does
    not exceed, and `low_mass` is the background mass of these items.
    """

    cells: FloatArray
    mass: FloatArray
    cuts: FloatArray
    low_mass: FloatArray


def _count_cells(left: LeaveOneOut, background: FloatArray, seed: int, most: int) -> _CellCounts:
    """Return the counts of all cells, in blocks of users; of a large catalog, from a sample of the items."""
    (n, m), (edges, of_clicks) = left.pattern.shape, left.bins
    items = np.arange(m)
    if m > most:
        items = np.sort(np.random.default_rng(seed).choice(m, most, replace=False))
    density = background[items]
    cells, mass = np.zeros(len(edges) + 1), np.zeros(len(edges) + 1)
    cuts, low_mass = np.empty((n, len(LOW))), np.empty((n, len(LOW)))
    is_even = bool((density == 1).all())
    for rows, block in _fill_blocks(left, items):
        mine = cuts[rows], low_mass[rows]

        def look(a: int, b: int, block: FloatArray = block, mine: Any = mine) -> FloatArray:
            values, (lowest, mass_below) = block[a:b], mine
            ratio = values if is_even else values / density
            lowest[a:b] = found = find_cuts(ratio)
            mass_below[a:b] = np.stack([(ratio <= cut[:, None]) @ density for cut in found.T], axis=1)
            more = np.zeros((2, len(edges) + 1))
            if is_even:
                below = np.searchsorted(np.sort(values, axis=None), edges, side="right")
                more[:] = np.diff(below, prepend=0, append=values.size)
            else:
                bins = np.empty(values.shape, np.int16)
                fill_bins(edges, values, bins)
                count_bins(bins, density, *more)
            return more

        for more in map_ranges(look, [*range(0, len(block), _ROWS_AT_ONCE), len(block)]):
            cells, mass = cells + more[0], mass + more[1]
    # Clicked cells are all counted; the sample stands for the others only.
    sampled = np.isin(left.pattern.indices, items)
    scale = (n * m - len(sampled)) / max(1, n * len(items) - sampled.sum())
    weights = np.where(sampled, 1 - scale, 1.0)
    cells = scale * cells + np.bincount(of_clicks, weights, len(cells))
    mass = scale * mass + np.bincount(of_clicks, weights * background[left.pattern.indices], len(mass))
    return _CellCounts(cells, mass, cuts, low_mass * (m / len(items)))


def find_cuts(values: FloatArray) -> FloatArray:
    """Return np.quantile(values, LOW, axis=1).T, to the bit; sorting whole rows takes less time."""
    rows, places = np.sort(values, axis=1), np.array(LOW) * (values.shape[1] - 1)
    low = places.astype(np.int64)
    part, below = places - low, rows[:, low]
    above = rows[:, np.minimum(low + 1, values.shape[1] - 1)]
    cuts: FloatArray = np.where(part < 0.5, below + (above - below) * part, above - (above - below) * (1 - part))
    cuts[np.isnan(rows[:, -1])] = np.nan
    return cuts


@compile_loop()
def count_bins(bins, density, cells, mass):  # type: ignore[no-untyped-def]
    # cells[b] += 1 and mass[b] += density[j] for each b = bins[i, j], in their order
    for i in range(len(bins)):
        for j in range(bins.shape[1]):
            cells[bins[i, j]] += 1
            mass[bins[i, j]] += density[j]


@compile_loop()
def fill_bins(edges, values, bins):  # type: ignore[no-untyped-def]
    # bins = np.searchsorted(edges, values), which takes four times as long; what is no number comes last
    for i in range(len(values)):
        for j in range(values.shape[1]):
            low, high = 0, len(edges)
            while low < high:
                middle = (low + high) // 2
                if edges[middle] >= values[i, j]:
                    high = middle
                else:
                    low = middle + 1
            bins[i, j] = low


def _fill_blocks(left: LeaveOneOut, items: npt.NDArray[np.int64]) -> Iterator[tuple[slice, FloatArray]]:
    """Yield the users of a block, and its values for `items`; those of clicked cells are without their own click."""
    place = np.full(left.pattern.shape[1], -1)
    place[items] = np.arange(len(items))
    columns = place[left.pattern.indices]
    known = columns >= 0
    rows, columns, values = left.pattern.rows[known], columns[known], left.values[known]
    everyone = np.arange(left.pattern.shape[0])
    for part, block in score_blocks(
        lambda rows: left.score_cells(rows, items), everyone, len(items), dtype=values.dtype
    ):
        mine = slice(*np.searchsorted(rows, [part.start, part.stop]))
        block[rows[mine] - part.start, columns[mine]] = values[mine]
        yield part, block


def mark_accompanied(pattern: Pattern) -> BoolArray:
    """Return which clicks, (nnz,), have a user and an item with other clicks; only these count for the share of noise.

    A log has no items without clicks, so rare items look as if noise had hit them. For a Poisson count c,
    E[c; c >= 2] / P(c >= 1) is the rate.
    """
    users, items = np.diff(pattern.indptr), np.bincount(pattern.indices, minlength=pattern.shape[1])
    marked: BoolArray = (users[pattern.rows] > 1) & (items[pattern.indices] > 1)
    return marked


def _estimate_noise_rates(counts: _CellCounts, ratios: FloatArray, pattern: Pattern) -> tuple[FloatArray, float, float]:
    """Return the rate of noise of each user, (n,), of all users, and at the bottom, from clicks on low-ranked items.

    `ratios`, (nnz,), are the clicks' values over background. The lower half of the catalog has enough clicks to tell
    users apart, the lowest quarter gives the level. Noise alone would hit the lowest twentieth as often. If clicks
    become rarer on the way down, taste reaches the quarter, and the level is what remains if they go on falling.
    """
    rows, (n, m) = pattern.rows, pattern.shape
    low = (ratios[:, None] <= counts.cuts[rows]) & mark_accompanied(pattern)[:, None]
    clicks = np.stack([np.bincount(rows[mask], minlength=n) for mask in low.T], axis=1)
    bottom, quarter, half = clicks.sum(axis=0) / counts.low_mass.sum(axis=0)
    if quarter == 0:
        return np.zeros(n), 0.0, 0.0
    level = quarter * min(1.0, bottom / quarter) ** STEEP
    pseudo = PSEUDO * LOW[-1] * m
    own = (clicks[:, -1] + pseudo * half) / (counts.low_mass[:, -1] + pseudo)
    return own * (level / half), float(level), float(max(bottom, quarter))


def _discount_taste(
    taste: FloatArray, expected: FloatArray, rows: npt.NDArray[np.int32], n_noise: FloatArray
) -> FloatArray:
    """Return factors of the taste, (nnz,): below 1 for users most of whose clicks are noise.

    A user who clicks everywhere also hits items that the common taste ranks highly. The factor is such that the scores
    of such a user sum to `n_noise`, (n,), the number of noisy clicks, or to all but one.
    """
    clicks = np.bincount(rows, minlength=len(n_noise))
    is_noisy = n_noise > clicks / 2
    factor = np.ones(len(rows))
    cells = np.flatnonzero(is_noisy[rows])
    if len(cells) == 0:
        return factor
    rows, taste, expected = rows[cells], taste[cells], expected[cells]
    target = np.minimum(n_noise, np.maximum(clicks - 1, 0))
    low, high = np.full(len(n_noise), -20.0), np.zeros(len(n_noise))
    for _ in range(40):
        middle = (low + high) / 2
        total = np.bincount(rows, _compute_share(expected, np.exp(middle)[rows] * taste), minlength=len(n_noise))
        low, high = np.where(total > target, middle, low), np.where(total > target, high, middle)
    factor[cells] = np.exp(high)[rows]
    return factor


def _compute_share(part: FloatArray, rest: FloatArray) -> FloatArray:
    """Return part / (part + rest), 0 where both are."""
    whole = part + rest
    share: FloatArray = np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0)
    return share


# User-specific choices: a taste if the same user has chosen similar items, by what all others chose; else isolated

COMPANY = 3
"""The number of other choices that an item is compared with: the most similar ones."""
LEAST_OTHERS = 5
"""An item that fewer other users chose is "unclear"."""
ISOLATED, OWN = 0.45, 0.6
"""Choices with less support than the first are isolated, those with the second or more are a taste. Chosen on planted
data."""
SAMPLED_USERS, SAMPLED_ITEMS = 1000, 20


@dataclass(frozen=True, eq=False)
class Tastes:
    """The common taste, by which items are compared without the influence of one user.

    `users`, (n, d), and `items`, (m, d), are the factors of U. An item's are a sum over its clicks: `entered`, (nnz,),
    is the coefficient of each, and `inverse`, (d, d), is (P'P + l1*I)^-1.
    """

    pattern: Pattern
    users: FloatArray
    items: FloatArray
    entered: FloatArray
    inverse: FloatArray

    @classmethod
    def of(cls, pattern: Pattern, users: FloatArray, items: FloatArray, entered: FloatArray, l1: float) -> Tastes:
        """Return the tastes of factors of U at a regularization `l1`."""
        return cls(pattern, users, items, entered, ItemSide.of(users, l1, pattern.engine).inverse)

    @cached_property
    def chance(self) -> FloatArray:
        """The similarity of random items to the choices of users who did not choose them, sorted."""
        rng = np.random.default_rng(0)
        able = np.flatnonzero(np.diff(self.pattern.indptr) > COMPANY)
        found: list[FloatArray] = [np.empty(0)]
        for row in np.sort(rng.permutation(able)[:SAMPLED_USERS]):
            items, directions = self._select_own(row)
            others = np.setdiff1d(rng.integers(0, len(self.items), SAMPLED_ITEMS), items)
            found.append(_average_nearest(_normalize_rows(self.items[others]) @ directions.T))
        return np.sort(np.concatenate(found))

    def _select_own(self, row: int) -> tuple[npt.NDArray[np.int32], FloatArray]:
        """Return the items that a user chose, (n,), and their directions less that user's share in them, (n, d)."""
        mine = slice(self.pattern.indptr[row], self.pattern.indptr[row + 1])
        items = self.pattern.indices[mine]
        share = self.entered[mine, None] * (self.users[row] @ self.inverse)
        return items, _normalize_rows(self.items[items] - share)

    def measure_support(self, row: int) -> tuple[npt.NDArray[np.int32], FloatArray]:
        """Return the items that a user chose, (n,), and the share of chance pairs that are less similar, (n,).

        It is NaN for a user with too few choices to compare.
        """
        items, directions = self._select_own(row)
        if len(items) <= COMPANY:
            return items, np.full(len(items), np.nan)
        alike = directions @ directions.T
        np.fill_diagonal(alike, -np.inf)
        return items, np.searchsorted(self.chance, _average_nearest(alike)) / max(1, len(self.chance))


def judge_choices(tastes: Tastes, row: int, chosen: npt.NDArray[Any]) -> tuple[npt.NDArray[np.str_], FloatArray]:
    """Return the kind and the support of those items, by row, that are user-specific choices; both (len(chosen),)."""
    items, of_all = tastes.measure_support(row)
    support = of_all[np.searchsorted(items, chosen)]
    others = np.bincount(tastes.pattern.indices, minlength=len(tastes.items))[chosen] - 1
    support = np.where(others < LEAST_OTHERS, np.nan, support)
    return np.select([support >= OWN, support < ISOLATED], ["own taste", "isolated"], "unclear"), support


def _normalize_rows(factors: FloatArray) -> FloatArray:
    """Return the rows, scaled to length 1 unless they are 0."""
    lengths = np.linalg.norm(factors, axis=1, keepdims=True)
    return factors / np.where(lengths > 0, lengths, 1)


def _average_nearest(alike: FloatArray) -> FloatArray:
    """Return the mean of the `COMPANY` largest values of each row, shape (len(alike),)."""
    means: FloatArray = np.partition(alike, -COMPANY, axis=1)[:, -COMPANY:].mean(axis=1)
    return means


STRONG = 0.5
"""The largest `reg_sparse` of a noise model: no click moves the common taste by more than half of its target."""


class NoiseModel(Protocol):
    """A model whose clicks can be scored: every `Recommender` that has `score_own`."""

    def training_log(self) -> Log:
        """Return the events that the model was fitted to, without weights."""

    def noise_model(self) -> Any:
        """Return the model that gives the scores: itself, or one on which single clicks have less influence."""

    def leave_out(self) -> LeaveOneOut:
        """Return the common taste of cells, of clicked ones without their own click."""

    def explained_shares(self) -> Any:
        """Return the share of each event, (n_events,), that the model explains."""


class RefittableModel(NoiseModel, Protocol):
    """A model with V that can be fitted again with a change: CSRR and CSRRe."""

    seed: int
    l1_: float
    seen_: Any
    specific_: Any
    fitted_: Any
