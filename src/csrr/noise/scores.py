"""What finding noise asks of a fitted model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from csrr._base.arrays import FloatArray, Rows
from csrr.data import Log
from csrr.numerics.problem import Pattern
from csrr.parameters import ParameterError, check_number
from csrr.ranking.topk import score_blocks

BINS = 300
SAMPLED = 2000
"""The number of items by which larger catalogs are judged."""
LOW = (0.05, 0.25, 0.5)
"""The shares of the catalog, for each user the lowest by the common taste, whose clicks tell how much is noise."""
STEEP = 2.0
"""The power of the fall of the rate of clicks from the second of these shares to the first by which noise is less."""
PSEUDO = 0.25
"""The weight of all users' rate of noise in a user's own, in catalogs."""


class ScoreCells(Protocol):
    """From rows of users and of items to the values of their cells, a new array of shape (len(rows), len(items))."""

    def __call__(self, rows: Rows, items: Rows) -> FloatArray: ...


@dataclass(frozen=True, eq=False)
class LeftOut:
    """What the common taste says of cells: of clicked ones `values`, (nnz,), as they would be without their own click.

    `score_cells(rows, items)` gives those of other cells, shape (len(rows), len(items)).
    """

    pattern: Pattern
    values: FloatArray
    score_cells: ScoreCells

    def select(self, users: Rows) -> LeftOut:
        """Return the same of some users, by row."""
        pattern = self.pattern
        some = pattern.make_matrix(self.values)[users]
        return LeftOut(Pattern.of(some), some.data, lambda rows, items: self.score_cells(users[rows], items))


def check_popularity(popularity: float) -> None:
    """Raise ParameterError unless `popularity` is a power that noise may follow."""
    check_number("popularity", popularity, least=0, most=1)


class NoiseScores(NamedTuple):
    """The score of each click, (n_events,), and the share of noise if no genuine click is on lowest-ranked items."""

    scores: FloatArray
    share_at_bottom: float


def score_noise(left: LeftOut, popularity: float = 0.0, seed: int = 0) -> NoiseScores:
    """Return the scores of the clicks, under the assumptions above, and the share of noise with another of them.

    Noise falls on item j in proportion to (its clicks + 1)^popularity.
    """
    users, items = left.pattern.shape
    if min(users, items) < 2 or left.pattern.nnz == users * items:
        raise ParameterError(
            f"{left.pattern.nnz:,} clicks on {users} x {items} cells tell no noise from taste: it takes two users and"
            " two items at least, and cells without a click"
        )
    background = (np.bincount(left.pattern.indices, minlength=items) + 1.0) ** popularity
    return _compute_probabilities(left, background / background.mean(), seed)


@dataclass(frozen=True, eq=False)
class _Survey:
    """All cells: their number and background mass in each bin of values, (n_bins,); and of each user, for each share in
    LOW, (n, 3), the value over background that this share of the items does not exceed, and the mass of these items.
    """

    cells: FloatArray
    mass: FloatArray
    cuts: FloatArray
    low_mass: FloatArray


def _survey(left: LeftOut, background: FloatArray, edges: FloatArray, seed: int) -> _Survey:
    """Look at all cells in blocks of users, or at those of a sample of the items."""
    n, m = left.pattern.shape
    items = np.arange(m)
    if m > SAMPLED:
        items = np.sort(np.random.default_rng(seed).choice(m, SAMPLED, replace=False))
    density = background[items]
    cells, mass = np.zeros(len(edges) + 1), np.zeros(len(edges) + 1)
    cuts, low_mass = np.empty((n, len(LOW))), np.empty((n, len(LOW)))
    for rows, block in _fill_blocks(left, items):
        bins = np.searchsorted(edges, block).ravel()
        cells += np.bincount(bins, minlength=len(cells))
        mass += np.bincount(bins, np.broadcast_to(density, block.shape).ravel(), minlength=len(mass))
        ratio = block / density
        cuts[rows] = np.quantile(ratio, LOW, axis=1).T
        low_mass[rows] = np.stack([(ratio <= cut[:, None]) @ density for cut in cuts[rows].T], axis=1)
    # Clicked cells are all known; a sample stands for the others only.
    sampled = np.isin(left.pattern.indices, items)
    scale = (n * m - len(sampled)) / max(1, n * len(items) - sampled.sum())
    weights = np.where(sampled, 1 - scale, 1.0)
    cells = scale * cells + _count_in_bins(edges, left.values, weights)
    mass = scale * mass + _count_in_bins(edges, left.values, weights * background[left.pattern.indices])
    return _Survey(cells, mass, cuts, low_mass * (m / len(items)))


def _fill_blocks(left: LeftOut, items: npt.NDArray[np.int64]) -> Iterator[tuple[slice, FloatArray]]:
    """Yield which users a block has, and its values for `items`: those left out on clicked cells, U on the others."""
    place = np.full(left.pattern.shape[1], -1)
    place[items] = np.arange(len(items))
    columns = place[left.pattern.indices]
    known = columns >= 0
    rows, columns, values = left.pattern.rows[known], columns[known], left.values[known]
    everyone = np.arange(left.pattern.shape[0])
    score_rows = partial(left.score_cells, items=items)
    for part, block in score_blocks(score_rows, everyone, len(items), dtype=values.dtype):
        mine = slice(*np.searchsorted(rows, [part.start, part.stop]))
        block[rows[mine] - part.start, columns[mine]] = values[mine]
        yield part, block


def _count_in_bins(edges: FloatArray, values: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    return np.bincount(np.searchsorted(edges, values), weights, minlength=len(edges) + 1).astype(np.float64)


def _compute_probabilities(left: LeftOut, background: FloatArray, seed: int) -> NoiseScores:
    """Return the score of each click, (nnz,), and the share of noise if taste did not reach the bottom."""
    from scipy.optimize import isotonic_regression

    m, rows, columns = left.pattern.shape[1], left.pattern.rows, left.pattern.indices
    edges = np.unique(np.quantile(left.values, np.linspace(0, 1, BINS)).astype(left.values.dtype))
    found = _survey(left, background, edges, seed)
    solid = _find_solid(left.pattern)
    noise, everyone, bottom = _estimate_noise_rates(found, left.values / background[columns], rows, solid, m)
    cells = np.maximum(found.cells, 1e-9)
    excess = np.maximum((_count_in_bins(edges, left.values) - everyone * found.mass) / cells, 0)
    taste = isotonic_regression(excess, weights=cells).x[np.searchsorted(edges, left.values)]
    expected = noise[rows] * background[columns]
    scores = _compute_share(expected, _discount_taste(taste, expected, rows, noise * m) * taste)
    return NoiseScores(scores, min(1.0, bottom * left.pattern.shape[0] * m / left.pattern.nnz))


def _find_solid(pattern: Pattern) -> npt.NDArray[np.bool_]:
    """Return which clicks, (nnz,), have a user and an item that would be in the log without them.

    A catalog of items with clicks has none with 0. For a Poisson c, E[c; c >= 2] / P(c >= 1) is the rate: clicks that
    stand alone must not count.
    """
    users, items = np.diff(pattern.indptr), np.bincount(pattern.indices, minlength=pattern.shape[1])
    solid: npt.NDArray[np.bool_] = (users[pattern.rows] > 1) & (items[pattern.indices] > 1)
    return solid


def _estimate_noise_rates(
    found: _Survey, ratios: FloatArray, rows: npt.NDArray[np.int32], solid: npt.NDArray[np.bool_], m: int
) -> tuple[FloatArray, float, float]:
    """Return the rate of noise of each user, (n,), of all, and at the bottom, from clicks on what is ranked lowest.

    `ratios`, (nnz,), are the clicks' values over background. The lower half of the catalog has clicks enough to tell
    users apart, the lowest quarter gives the level. Noise alone would hit its bottom, the lowest twentieth, as often;
    where clicks get rarer on the way down, taste reaches there, and the level is what is left when they go on falling.
    """
    low = (ratios[:, None] <= found.cuts[rows]) & solid[:, None]
    clicks = np.stack([np.bincount(rows[mask], minlength=len(found.cuts)) for mask in low.T], axis=1)
    bottom, quarter, half = clicks.sum(axis=0) / found.low_mass.sum(axis=0)
    if quarter == 0:
        return np.zeros(len(clicks)), 0.0, 0.0
    level = quarter * min(1.0, bottom / quarter) ** STEEP
    pseudo = PSEUDO * LOW[-1] * m
    own = (clicks[:, -1] + pseudo * half) / (found.low_mass[:, -1] + pseudo)
    return own * (level / half), float(level), float(max(bottom, quarter))


def _discount_taste(
    taste: FloatArray, expected: FloatArray, rows: npt.NDArray[np.int32], n_noise: FloatArray
) -> FloatArray:
    """Return what taste is multiplied by, (nnz,): below 1 for users whose clicks are noise for the greater part.

    Whoever clicks everywhere also hits what the common taste ranks highly: such users get so much credit for taste that
    their scores sum to `n_noise`, (n,), their number of noisy clicks, or to all but the one that was meant.
    """
    clicks = np.bincount(rows, minlength=len(n_noise))
    wanted = np.minimum(n_noise, np.maximum(clicks - 1, 0))
    low, high = np.full(len(n_noise), -20.0), np.zeros(len(n_noise))
    for _ in range(40):
        middle = (low + high) / 2
        total = np.bincount(rows, _compute_share(expected, np.exp(middle)[rows] * taste), minlength=len(n_noise))
        low, high = np.where(total > wanted, middle, low), np.where(total > wanted, high, middle)
    factor: FloatArray = np.where(n_noise > clicks / 2, np.exp(high), 1.0)[rows]
    return factor


def _compute_share(part: FloatArray, rest: FloatArray) -> FloatArray:
    """Return part / (part + rest), 0 where both are."""
    whole = part + rest
    share: FloatArray = np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0)
    return share


STRONG = 0.5
"""The largest `reg_sparse` of a model that judges: no click pulls the common taste by more than half of its target."""


class NoiseModel(Protocol):
    """A model whose clicks can be judged: every `Recommender` that has `score_own`."""

    def training_log(self) -> Log:
        """Return the events that the model was fitted to, without weights."""
        ...

    def noise_model(self) -> Any:
        """Return the model that judges: itself, or one like it that is fit to."""
        ...

    def leave_out(self) -> LeftOut:
        """Return what the model says of cells, of clicked ones without their own click."""
        ...

    def explained_shares(self) -> Any:
        """Return the share of each event, (n_events,), that the model explains."""
        ...


class Refitted(NoiseModel, Protocol):
    """One with V that can be fitted again with a change: CSRR and CSRRe."""

    seed: int
    l1_: float
    seen_: Any
    specific_: Any
    fitted_: Any

    def refit(self, which: Any, **changes: Any) -> Self:
        """Return a new model with these settings, but for some changes, fitted to some of the events, (n_events,)."""
        ...
