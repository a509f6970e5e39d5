"""Held-out training events -> what "auto" comes to: strength, rank and neighbours.

A share of some users' events is held out of the log. What is left is fitted with several strengths, ranks and
neighbours, and what ranks the held-out events best is taken for the fit to the whole log. All of it is seeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from csrr.data import Log
from csrr.models.posing import Posing
from csrr.models.settings import RULE, Settings
from csrr.models.tables import Table
from csrr.optim.krylov import LowRankPlusSparse, partial_svd
from csrr.optim.lowrank import LowRank
from csrr.optim.neighbors import Factored, Regression, Ridge, Support, nearest
from csrr.optim.solver import Options, improved
from csrr.ranking.kernels import rank_rows
from csrr.threads import run_ranges

SHARE = 0.1
"""The share of each user's events that is held out."""
LEAST_EVENTS, LEAST_USERS = 3, 150
"""A user with fewer events spares none; a log with fewer users to ask is too small to choose by."""
MOST_USERS, CELLS = 5000, 10**8
"""How many users are asked at most, and how many scores that may take, but for a fifth of these users."""
AT = 20
"""The length of the lists whose NDCG decides."""
STEP = 1.2
STRENGTHS = (0.35, 0.42, 0.5, 0.6, 0.72, 0.86)
"""Strengths, in noise levels, that one SVD is tried with, and the factor between them."""
RANK, WORTH = 256, 0.01
"""The bound on the rank that is tried first, and what doubling it must add to NDCG, relatively, to be taken."""
WIDTHS, RIDGES = (20, 50), (0.3, 1.0, 3.0, 10.0)
"""Numbers of neighbours, and strengths of their penalty, that are tried."""
ROBUST = 0.65
"""The `reg_sparse` that is tried beside none."""
COLUMNS = ("rank", *Settings._fields, "ndcg", "error")

_STEPS, _NEAR = 8, 0.0005
"""A fit is near enough to be compared when a step lowers the objective by less than this share, or after so many."""
_TOGETHER = 32

Scores = npt.NDArray[np.float64]


class Trial(NamedTuple):
    """What came of settings: the rank of U, and the NDCG of each user whose events are held out."""

    rank: int
    scores: Scores

    @property
    def mean(self) -> float:
        return float(self.scores.mean())


@dataclass(frozen=True)
class Wanted:
    """What the parameters of a model give, what they leave to the data (`open`: names of settings), and its a."""

    given: Settings
    open: frozenset[str]
    user_scaling: float

    def __contains__(self, name: str) -> bool:
        """Whether a setting is left to the data."""
        return name in self.open

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to the data."""
        of_neighbors = {"reg_neighbors", "neighbor_scaling"} if "neighbors" not in self and not self.given.neighbors else set()
        return not self.open - of_neighbors


@dataclass(frozen=True, eq=False, repr=False)
class Chosen(Table):
    """What was tried on held-out training events, a row each:

    - rank: of U;
    - cost_ratio: what a miss costs;
    - strength: l1 in noise levels, the norm of the targets with random signs;
    - max_rank (0: none), reg_sparse, neighbors, reg_neighbors, neighbor_scaling: as the parameters;
    - ndcg: the mean over users of the NDCG@20 of their held-out events, and its standard error, `error`.

    `settings` is what the fit took, `note` how it came to it. Without rows nothing was searched. `start` is U as the
    search had it, near enough to begin with.
    """

    settings: Settings = RULE
    note: str = ""
    start: LowRank | None = None

    def take(self, which: Any) -> Chosen:
        """Return the table of the rows that a slice, a mask or row numbers choose."""
        return replace(self, columns={name: column[which] for name, column in self.columns.items()})

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.note}" if len(self) else self.note


def choose(posing: Posing, part: Log, asked: Log, wanted: Wanted) -> Chosen:
    """Return the settings that rank best the events `asked`, held out of `part`, for which `posing` is the problem."""
    search = Search(posing, part.to_csr(), asked.to_csr(), wanted)
    settings = search.run()
    users = int(np.count_nonzero(asked.user_counts()))
    note = f"chosen on {len(asked):,} held-out events of {users:,} users"
    return Chosen(search.table(), settings, note, search.low_rank(settings))


def by_rule(settings: Settings, note: str) -> Chosen:
    """Return settings that no search led to."""
    return Chosen({name: np.empty(0) for name in COLUMNS}, settings, note)


def too_small(log: Log) -> str:
    """Return why nothing was chosen on held-out events of a log."""
    return f"chosen by rule: {log!r} is too small to choose on held-out events, which takes {LEAST_USERS} users to ask"


def hold_out(log: Log, seed: int) -> tuple[Log, Log] | None:
    """Return what is fitted and what is asked for, or None where too few users can spare an event."""
    rng = np.random.default_rng(seed)
    counts = log.user_counts()
    # A tenth of 7 events is one, in seven of ten cases.
    taken = np.floor(SHARE * counts + rng.random(log.n_users)).astype(np.int64)
    taken[counts < LEAST_EVENTS] = 0
    users = np.flatnonzero(taken)
    if len(users) < LEAST_USERS:
        return None
    order = np.lexsort((rng.random(len(log)), log.user_rows))
    place = np.arange(len(log)) - np.repeat(np.cumsum(counts) - counts, counts)
    held = np.empty(len(log), np.bool_)
    held[order] = place < taken[log.user_rows[order]]
    most = min(MOST_USERS, max(CELLS // log.n_items, MOST_USERS // 5))
    asked = np.isin(log.user_rows, rng.permutation(users)[:most])
    return log.select(~held), log.select(held & asked)


@dataclass(eq=False)
class Search:
    """A walk over settings: strengths, ranks and neighbours by one SVD, then costs and V by a few steps from there.

    `posing` is the problem of what is left, whose events are `clicks`, csr; `asked`, csr, are those held out. What is
    given may be no problem that one SVD solves; it is then walked to in the end.
    """

    posing: Posing
    clicks: Any
    asked: Any
    wanted: Wanted
    trials: dict[Settings, Trial] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._low_ranks: dict[Settings, LowRank] = {}
        self._regressions: dict[float, Regression] = {}
        self._svd: tuple[int | None, LowRank] | None = None

    @property
    def seed(self) -> int:
        return self.posing.noise_level.seed

    def run(self) -> Settings:
        """Return the settings that rank best."""
        best = self._first()
        if "strength" not in self.wanted:
            return self._scaled_neighbors(self._best(self._ridges(best)))
        best = self._best([best._replace(strength=strength) for strength in STRENGTHS])
        if "max_rank" in self.wanted:
            best = self._widened(best)
        best = self._best(self._ridges(best))
        best = self._with_costs(best)
        best = self._scaled_neighbors(best)
        return self._with_v(best) if "reg_sparse" in self.wanted else best

    # Steps of the walk

    def _first(self) -> Settings:
        """What the search begins with: what is given, but for costs and V, which come later."""
        first = self.wanted.given._replace(cost_ratio=self.posing.costs.ratio)
        if "strength" in self.wanted:
            first = first._replace(cost_ratio=1.0, reg_sparse=1.0)
        else:
            first = first._replace(strength=self.posing.problem.l1 / self.posing.noise)
        if "max_rank" in self.wanted:
            first = first._replace(max_rank=min(RANK, *self.posing.problem.pattern.shape))
        return first._replace(neighbors=WIDTHS[-1]) if "neighbors" in self.wanted else first

    def _ridges(self, point: Settings) -> list[Settings]:
        """The point with every choice of neighbours, none among them."""
        if not point.neighbors:
            return [point]
        widths = WIDTHS if "neighbors" in self.wanted else (point.neighbors,)
        ridges = RIDGES if "reg_neighbors" in self.wanted else (point.reg_neighbors,)
        without = [point._replace(neighbors=0)] if "neighbors" in self.wanted else []
        return without + [point._replace(neighbors=k, reg_neighbors=f) for k, f in product(widths, ridges)]

    def _widened(self, point: Settings) -> Settings:
        """The point with twice the bound on the rank, again and again, while the bound holds and more rank gains."""
        most = min(self.posing.problem.pattern.shape)
        half = self._best([point._replace(max_rank=max(1, point.max_rank // 2))])
        while self.trials[point].rank == point.max_rank < most and self._gain(point, half) > 1.5 * WORTH:
            wider = point._replace(max_rank=min(2 * point.max_rank, most))
            wider = self._best([wider, _moved(wider, STEP)])
            if not self._gain(wider, point) > WORTH:
                break
            half, point = point, wider
        return point

    def _with_costs(self, point: Settings) -> Settings:
        """The point with the costs and V that are given, or the better of two costs; the strength goes with it."""
        given = self.wanted.given
        if "cost_ratio" in self.wanted:
            other = point._replace(cost_ratio=given.cost_ratio)
            best = self._best([point, other, _moved(other, 1 / STEP)])
        else:
            kept = {} if "reg_sparse" in self.wanted else {"reg_sparse": given.reg_sparse}
            other = point._replace(cost_ratio=self.posing.costs.ratio, **kept)
            best = self._best([other, _moved(other, 1 / STEP)])
        while best != point and (weaker := self._best([best, _moved(best, 1 / STEP)])) != best:
            best = weaker
        return best

    def _scaled_neighbors(self, point: Settings) -> Settings:
        """The point with users scaled in X as in the targets, if that is better."""
        if not point.neighbors or "neighbor_scaling" not in self.wanted or not self.wanted.user_scaling:
            return point
        scaled = point._replace(neighbor_scaling=self.wanted.user_scaling)
        stronger = scaled._replace(reg_neighbors=3 * point.reg_neighbors)
        return self._best([point, scaled, stronger] if "reg_neighbors" in self.wanted else [point, scaled])

    def _with_v(self, point: Settings) -> Settings:
        """The point with V in U's problem, if that gains more than noise."""
        # What V holds back, a weaker penalty lets through.
        other = self._best([_moved(point._replace(reg_sparse=ROBUST), 1 / STEP)])
        return other if self._gain(other, point) > 0 else point

    def _gain(self, point: Settings, other: Settings) -> float:
        """What a point gains over another, relatively; 0 where that may be noise."""
        theirs = self.trials[other]
        gains = self.trials[point].scores - theirs.scores
        return float(gains.mean() / theirs.mean) if gains.mean() > _error(gains) else 0.0

    def _best(self, points: Sequence[Settings]) -> Settings:
        """Try those points that have not been; return the best of all, of equal ones the first."""
        new = [point for point in dict.fromkeys(points) if point not in self.trials]
        for scaling in dict.fromkeys(point.neighbor_scaling for point in new):
            self._try([point for point in new if point.neighbor_scaling == scaling])
        return max(points, key=lambda point: self.trials[point].mean)

    def _try(self, points: list[Settings]) -> None:
        """Score points whose X is the same: the systems of their neighbours are solved together."""
        regression = self._regression(points[0].neighbor_scaling)
        keys = list(dict.fromkeys(_of_low_rank(point) for point in points))
        low_ranks = [self.low_rank(key) for key in keys]
        factored = [_factored(low_rank) for low_rank in low_ranks]
        unit = regression.mean_diagonal
        ridges = list(dict.fromkeys(Ridge(p.neighbors, p.reg_neighbors * unit) for p in points if p.neighbors))
        solved = regression.solve(factored, ridges)
        for place, key in enumerate(keys):
            mine = [point for point in points if _of_low_rank(point) == key]
            weights = np.zeros((len(mine), *regression.support.shape), np.float32)
            for at, point in enumerate(mine):
                if point.neighbors:
                    weights[at] = solved[place, ridges.index(Ridge(point.neighbors, point.reg_neighbors * unit))]
            for point, scores in zip(mine, self._ndcg(factored[place], regression, weights), strict=True):
                self.trials[point] = Trial(low_ranks[place].rank, scores)

    # Models

    def low_rank(self, point: Settings) -> LowRank:
        """Return U: the soft-thresholded SVD or, where that is not the solution, a few steps from there."""
        point = _of_low_rank(point)
        if point not in self._low_ranks:
            problem, found = self.posing.with_settings(point).problem, self._thresholded(point)
            if not problem.is_one_shot:
                found = improved(problem, found, Options(_NEAR, _STEPS, rank_cap=point.max_rank, seed=self.seed))
            self._low_ranks[point] = found
        return self._low_ranks[point]

    def _thresholded(self, point: Settings) -> LowRank:
        """The singular triplets of the targets, thresholded; those of no use are kept as spare directions."""
        posing = self.posing.with_settings(point._replace(cost_ratio=1.0, reg_sparse=1.0))
        problem, max_rank = posing.problem, point.max_rank
        if self._svd is None or _falls_short(self._svd[0], max_rank):
            operator = LowRankPlusSparse(LowRank.zero(problem.pattern.shape), problem.pattern, problem.target)
            weakest = STRENGTHS[0] if "strength" in self.wanted else point.strength
            found = partial_svd(
                operator,
                np.random.default_rng(self.seed),
                above=weakest * posing.noise,
                cap=max_rank,
                dtype=problem.target.dtype.type,
            )
            self._svd = max_rank, found
        u = self._svd[1]
        s = np.maximum(u.s - problem.l1, 0)
        s[max_rank:] = 0
        return LowRank(u.left, s, u.right)

    @cached_property
    def _support(self) -> Support:
        """The nearest items of each, as many as may be tried."""
        return nearest(self.posing.problem.pattern, WIDTHS[-1] if "neighbors" in self.wanted else self.wanted.given.neighbors)

    def _regression(self, neighbor_scaling: float) -> Regression:
        if neighbor_scaling not in self._regressions:
            self._regressions[neighbor_scaling] = self.posing.regression(self._support, neighbor_scaling)
        return self._regressions[neighbor_scaling]

    # Scores

    def _ndcg(self, u: Factored, regression: Regression, weights: npt.NDArray[np.float32]) -> list[Scores]:
        """The NDCG of each user with events held out, for one U and several `weights`, (w, m, K), on the support."""
        left, right = u
        item, rows = self.posing.scaling.item, np.flatnonzero(np.diff(self.asked.indptr))
        indptr, indices, places = regression.by_neighbor
        between = np.repeat(item, np.diff(indptr)) / item[indices]
        flat = weights.reshape(len(weights), -1)[:, places] * between
        mine, theirs = left[rows].astype(np.float32), (right / item[:, None]).astype(np.float32)
        ranks = np.empty((len(weights), self.asked.nnz))
        clicks, asked = self.clicks, self.asked
        parts = (regression.user, clicks.indptr, clicks.indices, indptr, indices, flat, asked.indptr, asked.indices)

        def rank(start: int, stop: int) -> None:
            base = mine[start:stop] @ theirs.T
            rank_rows(0, stop - start, base, rows[start:stop], *parts, ranks)

        run_ranges(rank, [*range(0, len(rows), _TOGETHER), len(rows)])
        counts = np.diff(asked.indptr)[rows]
        gains = np.where(ranks <= AT, 1 / np.log2(1 + ranks), 0)
        ideal = np.cumsum(1 / np.log2(np.arange(2, AT + 2)))[np.minimum(counts, AT) - 1]
        starts = np.cumsum(counts) - counts
        return [np.add.reduceat(each, starts) / ideal for each in gains]

    def table(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of `Chosen`."""
        rows = [
            (trial.rank, *point._replace(max_rank=point.max_rank or 0), trial.mean, _error(trial.scores))
            for point, trial in self.trials.items()
        ]
        return {name: np.array(column) for name, column in zip(COLUMNS, zip(*rows, strict=True), strict=True)}


def _of_low_rank(point: Settings) -> Settings:
    """What U depends on alone."""
    return point._replace(neighbors=0, reg_neighbors=0.0, neighbor_scaling=0.0)


def _factored(low_rank: LowRank) -> Factored:
    used = low_rank.trimmed()
    return np.ascontiguousarray(used.scaled_left), np.ascontiguousarray(used.right)


def _moved(point: Settings, factor: float) -> Settings:
    return point._replace(strength=float(f"{point.strength * factor:.3g}"))


def _error(values: Scores) -> float:
    """The standard error of a mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def _falls_short(known: int | None, wanted: int | None) -> bool:
    """Whether an SVD of `known` triplets (None: all) is not enough for `wanted`."""
    return known is not None and (wanted is None or wanted > known)
