"""The parameters of CSRR and its relatives -> what they ask for: costs, strengths, and what is left to the data."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from csrr._base.arrays import BoolArray, FloatArray, Rows
from csrr._base.deadline import TimeUpError, cut_off, seconds_left
from csrr._base.text import format_html_words
from csrr._base.threads import run_ranges, use_threads
from csrr.data import Log
from csrr.data.split import mark_leading
from csrr.model_parameters import HoldOut
from csrr.models.base import Recommender
from csrr.models.build_problem import ClickProblem, build_problem, find_genuine, judge_events, leave_out_own
from csrr.models.costs import CostSpec
from csrr.models.fitted_problem import make_click_weights
from csrr.models.scaling import RULE, Settings
from csrr.numerics.factored import Factors
from csrr.numerics.krylov import LowRankPlusSparse, compute_partial_svd
from csrr.numerics.lowrank import LowRank
from csrr.numerics.neighbors import Factored, Regression, Ridge, find_nearest
from csrr.numerics.solver import Options, improve, solve
from csrr.parameters import ParameterError, list_defaults
from csrr.ranking import mark_hits
from csrr.ranking.calibration import Calibration
from csrr.ranking.loops import rank_rows
from csrr.ranking.metrics import CellCounts, ndcg
from csrr.ranking.topk import add_products, score_blocks
from csrr.results.formatting import format_text_table
from csrr.results.table import ResultTable

if TYPE_CHECKING:
    from csrr.models.csrr_base import CSRRBase


AT = 20
"""The length of the lists whose NDCG decides."""
STRENGTHS, STEP = (0.29, 0.35, 0.42, 0.5, 0.6, 0.72, 0.86, 1.04, 1.24), 1.2
"""Strengths, in noise levels, that one SVD is tried with, and about the factor between them."""
RANK, WORTH, DECAY = 256, 0.01, 0.6
"""The bound on the rank that is tried first, what doubling it must promise to add to NDCG, relatively, to be tried, and
add half of to be taken, and how much of what one doubling gains the next one does."""
NEIGHBORS, RIDGE_STEP = 50, 3.0
"""How many neighbors are tried first, and the factor between the strengths of their penalty."""
WIDTHS, MANY = (20, 10), 150
"""Smaller numbers of neighbors that are tried, and a larger one where the bound on the rank holds."""
NOISE, CERTAIN = 1.0, 2.0
"""Standard errors that a gain must exceed to be taken for one, and where another kind of model would be chosen."""
WEIGHTS = (1.0, 2.0, 5.0)
"""Weights of clicks that are tried where decisions have costs; beyond, U overshoots on what nobody clicked."""
MORE_TO_COME = (1.0, 3.0, 9.0)
"""Events to come, for each held out, that decisions are judged by: up to as many as were fitted."""
ROBUST = 0.65
"""The `reg_sparse` that is tried beside none."""
ROUGH, LOOKED_AT = 1.04, 1000
"""The strength of the common taste by which noise is estimated first, and the number of users who are looked at."""
NAMES = ("rank", *Settings._fields, "ndcg", "error")
"""What is kept of a trial."""
COST = "cost"
"""What its decisions cost, where that was judged."""
_LOOSE, _STEPS, _NEAR = 0.05, 8, 0.001
"""A fit is near enough to be compared at this gap, after so many steps, or when one lowers the objective by less."""
_TOGETHER, _MOST_STEPS = 64, 4

Scores = npt.NDArray[np.float64]


class SettingsTrial(NamedTuple):
    """What came of settings: the rank of U, and the NDCG of each user whose events are held out."""

    rank: int
    scores: Scores

    @property
    def mean(self) -> float:
        return float(self.scores.mean())


@dataclass(frozen=True)
class SearchSpace:
    """What the parameters of a model give, by rule where they give nothing, and the settings they leave `open`.

    `settled` are settings that another fit has found, and nothing is searched.
    """

    given: Settings
    open: frozenset[str]
    settled: Settings | None = None

    def __contains__(self, name: str) -> bool:
        """Whether a setting is left to the data."""
        return name in self.open

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to the data."""
        without = "neighbors" not in self and not self.given.neighbors
        return not self.open - ({"reg_neighbors"} if without else set())


@dataclass(eq=False)
class Search:
    """A walk over settings: strengths, ranks and neighbors by one SVD, then costs and V by a few steps from there.

    `built` is the problem of what is left, whose events are `clicks`, csr; `asked`, csr, are those held out. A default
    gives way only to what gains more than its standard error. `is_cut` says that the time was up before the end
    (`deadline.cut_off`).
    """

    built: ClickProblem
    clicks: Any
    asked: Any
    space: SearchSpace
    is_cut: bool = False
    trials: dict[Settings, SettingsTrial] = field(default_factory=dict)
    costs: dict[Settings, Scores] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._low_ranks: dict[Settings, LowRank] = {}
        self._svd: tuple[int | None, float, LowRank] | None = None
        self._regressions: dict[int, Regression] = {}

    @property
    def seed(self) -> int:
        return self.built.noise_level.seed

    def run(self) -> Settings:
        """Return the settings that rank best, of those there was time for."""
        try:
            return self._walk()
        except TimeUpError:
            if not self.trials:
                raise
            self.is_cut = True
            best = max(self.trials, key=lambda point: self.trials[point].mean)
            share = 1.0 if "reg_sparse" in self.space else self._given.reg_sparse
            ratio = best.cost_ratio if "cost_ratio" in self.space else self._given.cost_ratio
            return best._replace(cost_ratio=ratio, reg_sparse=share)

    def _walk(self) -> Settings:
        best = self._choose_first()
        if "strength" not in self.space:
            return self._choose_neighbors(best)
        best = self._choose_strength(best)
        if "max_rank" in self.space:
            best = self._widen(best)
        best = self._choose_neighbors(best)
        best = self._choose_costs(best)
        return self._choose_v(best) if "reg_sparse" in self.space else best

    # Steps of the walk

    def _choose_first(self) -> Settings:
        """What the search begins with: what is given, but for costs and V, which come later."""
        first = self._given._replace(denoise=self.built.settings.denoise)
        if "strength" in self.space:
            first = first._replace(cost_ratio=1.0, reg_sparse=1.0)
        else:
            first = first._replace(strength=self.built.problem.l1 / self.built.noise)
        if "max_rank" in self.space:
            first = first._replace(max_rank=min(RANK, *self.built.problem.pattern.shape))
        return first._replace(neighbors=NEIGHBORS) if "neighbors" in self.space else first

    @property
    def _given(self) -> Settings:
        """What is given of costs and V as the problem has it, in whatever words."""
        ratio, l2 = self.built.costs.alpha, self.built.l2
        return self.space.given._replace(cost_ratio=ratio, reg_sparse=1.0 if l2 is None else l2 / ratio)

    def _choose_strength(self, point: Settings) -> Settings:
        """The point with the best strength, from the middle of the list up or down, and beyond while it pays."""
        middle = len(STRENGTHS) // 2
        first = [point._replace(strength=strength) for strength in STRENGTHS[middle - 1 : middle + 2]]
        best = self._find_best(first)
        for end, step in ((first[0], -1), (first[-1], 1)):
            while best == end:
                end = end._replace(strength=_step_strength(end.strength, step))
                best = self._find_best([best, end])
        return best

    def _choose_neighbors(self, point: Settings) -> Settings:
        """The point with other neighbors, or none, where that gains more than noise."""
        if not point.neighbors:
            return self._find_best([point])
        widths = WIDTHS if "neighbors" in self.space and point.neighbors == NEIGHBORS else ()
        factors = (1 / RIDGE_STEP, RIDGE_STEP) if "reg_neighbors" in self.space else ()
        others = [_penalize(point, factor) for factor in factors]
        none = [point._replace(neighbors=0)] if "neighbors" in self.space else []
        # All at once: their U is scored once.
        self._find_best([point, *others, *none, *(point._replace(neighbors=k) for k in widths)])
        best = self.find_better(point, *others)
        if best.reg_neighbors != point.reg_neighbors:
            factor = RIDGE_STEP if best.reg_neighbors > point.reg_neighbors else 1 / RIDGE_STEP
            while (other := self.find_better(best, _penalize(best, factor))) != best:
                best = other
        fewer = [best._replace(neighbors=k) for k in widths]
        if factors:
            # Fewer weights need less of a penalty.
            fewer += [_penalize(each, 1 / RIDGE_STEP) for each in fewer]
        return self.find_better(best, *fewer, *(best._replace(neighbors=0) for _ in none), errors=CERTAIN)

    def _widen(self, point: Settings) -> Settings:
        """The point with more neighbors, then twice the bound on the rank as long as more gains.

        Neighbors come first: they say with less what a low rank needs thousands of directions for. What a doubling is
        expected to gain is what the last one surely gained, or the share DECAY of what that was expected to.
        """
        most = min(self.built.problem.pattern.shape)
        assert point.max_rank is not None
        half = point._replace(max_rank=max(1, point.max_rank // 2))
        expected: float | None = None
        if "neighbors" in self.space and self.trials[point].rank == point.max_rank < most:
            # What rank promises is measured beside as many neighbors as before.
            expected = self._measure_gain(point, self._find_best([half]), CERTAIN)
            more = point._replace(neighbors=MANY)
            stronger = [_penalize(more, RIDGE_STEP)] if "reg_neighbors" in self.space else []
            best = self._find_best([more, *stronger])
            if self._measure_gain(best, point, CERTAIN) > WORTH / 2:
                point = best
            # Its Gram matrices are large.
            self._regressions.pop(MANY if point.neighbors < MANY else NEIGHBORS, None)
        while self.trials[point].rank == (bound := point.max_rank) and bound < most:
            if expected is None:
                expected = self._measure_gain(point, self._find_best([half]), CERTAIN)
            if expected < WORTH:
                break
            wider = point._replace(max_rank=min(2 * bound, most))
            # Where the bound cuts less, the penalties have to cut more.
            stronger = [_penalize(wider, RIDGE_STEP)] if "reg_neighbors" in self.space else []
            best = self._find_best([wider, _scale_strength(wider, STEP), *stronger])
            if self._measure_gain(best, point, 0) < WORTH / 2:
                break
            # What rank alone gains is often the surer.
            gain = max(self._measure_gain(each, point, CERTAIN) for each in (wider, best))
            expected, point = max(gain, DECAY * expected), best
        return point

    def _choose_costs(self, point: Settings) -> Settings:
        """The point with the costs and V that are wanted, and the strength that goes with them.

        The default weight, 2, gives way to 1 where that ranks surely better.
        """
        other = point._replace(cost_ratio=self._given.cost_ratio)
        if "reg_sparse" not in self.space:
            other = _hold_back(other, self._given.reg_sparse)
        best = self._find_best([other, _scale_strength(other, 1 / STEP)])
        if self.trials[other].rank == other.max_rank:
            # Where the bound on the rank cuts, a weaker penalty has to show what it is good for.
            best = self.find_better(other, best, errors=CERTAIN)
        while best != other and (weaker := self.find_better(best, _scale_strength(best, 1 / STEP))) != best:
            best = weaker
        return self.find_better(best, point, errors=CERTAIN) if "cost_ratio" in self.space else best

    def _choose_v(self, point: Settings) -> Settings:
        """The point with V in U's problem, if that gains more than noise."""
        return self.find_better(point, _hold_back(point, ROBUST), errors=CERTAIN)

    @property
    def goes_by_cost(self) -> bool:
        """Whether costs of decisions are given, and the weight of clicks is left to what they come to."""
        return self.built.costs.decides_only and "cost_ratio" in self.space

    def cheapen(self, point: Settings) -> Settings:
        """Return settings with the weight of clicks, and what goes with it, whose decisions cost less than a point's.

        Of steps that cost surely less the walk takes that which costs least, until there is none, or no time.
        """
        try:
            return self._walk_by_cost(point)
        except TimeUpError:
            self.is_cut = True
            return point

    def _walk_by_cost(self, point: Settings) -> Settings:
        for _ in range(_MOST_STEPS):
            at = WEIGHTS.index(point.cost_ratio) if point.cost_ratio in WEIGHTS else 0
            lighter, heavier = WEIGHTS[max(at - 1, 0)], WEIGHTS[min(at + 1, len(WEIGHTS) - 1)]
            weaker, stronger = _scale_strength(point, 1 / STEP), _scale_strength(point, STEP)
            others = [weaker, stronger, *(point._replace(cost_ratio=weight) for weight in (lighter, heavier))]
            others += [weaker._replace(cost_ratio=heavier), stronger._replace(cost_ratio=lighter)]
            if "reg_neighbors" in self.space and point.neighbors:
                others += [_penalize(point, 1 / RIDGE_STEP), _penalize(point, RIDGE_STEP)]
            best = self._find_cheaper(point, *others, errors=CERTAIN)
            if best == point:
                break
            point = best
        return point

    def _find_cheaper(self, point: Settings, *others: Settings, errors: float) -> Settings:
        """The cheapest of several points, if its decisions cost less than a first's by more than noise."""
        if new := [each for each in dict.fromkeys([point, *others]) if each not in self.costs]:
            self._try(new, by_cost=True)
        best = min([point, *others], key=lambda each: float(self.costs[each].mean()))
        saved = self.costs[point] - self.costs[best]
        return best if saved.mean() > errors * _compute_error(saved) else point

    def confirm(self, point: Settings, other: Settings) -> Settings:
        """Return the other settings if their decisions cost less here too, or the point.

        Of many that are tried elsewhere one seems to cost less by chance.
        """
        try:
            return self._find_cheaper(point, other, errors=CERTAIN)
        except TimeUpError:
            return point

    def find_better(self, point: Settings, *others: Settings, errors: float = NOISE) -> Settings:
        """Return the best of several points, if it gains more than noise over a first."""
        best = self._find_best([point, *others])
        return best if self._measure_gain(best, point, errors) > 0 else point

    def try_only(self, point: Settings) -> Settings:
        """Score a point, and return it."""
        return self._find_best([point])

    def estimate_noise(self) -> float:
        """Return a rough estimate of the share of noise, by some users: it may err, but not by much time."""
        built = self.built.with_settings(Settings(cost_ratio=1.0, strength=ROUGH, reg_sparse=1.0))
        u = self._threshold(built.settings._replace(max_rank=self._svd[0] if self._svd else None))
        factors = Factors.of(u.trim())
        if factors.users.shape[1] == 0:
            return 0.0
        left = leave_out_own(built.problem, factors)
        some = np.random.default_rng(self.seed).permutation(left.pattern.shape[0])[:LOOKED_AT]
        return float(1 - find_genuine(left.select(np.sort(some)), self.seed).mean())

    def _measure_gain(self, point: Settings, other: Settings, errors: float) -> float:
        """What a point gains over another at least, relatively: the mean over users less its standard errors."""
        theirs = self.trials[other]
        gains = self.trials[point].scores - theirs.scores
        return float((gains.mean() - errors * _compute_error(gains)) / theirs.mean) if theirs.mean else 0.0

    def _find_best(self, points: Sequence[Settings]) -> Settings:
        """Try those points that have not been; return the best of all, of equal ones the first."""
        new = [point for point in dict.fromkeys(points) if point not in self.trials]
        if new:
            self._try(new)
        best = max(points, key=lambda point: self.trials[point].mean)
        # Each is as large as the model; only where the walk stands is one needed again.
        self._low_ranks = {
            key: u for key, u in self._low_ranks.items() if key in map(self._simplify, (best, points[0]))
        }
        return best

    def _try(self, points: list[Settings], *, by_cost: bool = False) -> None:
        """Score points, on request by what their decisions cost too; the systems of neighbors are solved together."""
        regression = self._find_regression(max(point.neighbors for point in points))
        keys = list(dict.fromkeys(self._simplify(point) for point in points))
        low_ranks = [self.find_low_rank(key) for key in keys]
        factored = [low_rank.split() for low_rank in low_ranks]
        found = [low_rank.rank for low_rank in low_ranks]
        # Neighbors are fitted to what the balanced U of the same strength leaves over.
        bases = [self._find_base(key) for key in keys]
        places = {base: place for place, base in enumerate(dict.fromkeys(bases))}
        balanced = [self._find_balanced(base).split() for base in places]
        del low_ranks
        unit = regression.mean_diagonal
        ridges = list(dict.fromkeys(Ridge(p.neighbors, p.reg_neighbors * unit) for p in points if p.neighbors))
        solved = regression.solve(balanced, ridges)
        for place, key in enumerate(keys):
            mine = [point for point in points if self._simplify(point) == key]
            weights = np.zeros((len(mine), *regression.support.shape), np.float32)
            for at, point in enumerate(mine):
                if point.neighbors:
                    ridge = Ridge(point.neighbors, point.reg_neighbors * unit)
                    weights[at] = solved[places[bases[place]], ridges.index(ridge)]
            for point, scores in zip(mine, self._measure_ndcg(factored[place], regression, weights), strict=True):
                self.trials[point] = SettingsTrial(found[place], scores)
            if by_cost:
                for point, its in zip(mine, weights, strict=True):
                    self.costs[point] = self._measure_cost(factored[place], regression, its)

    # Models

    def find_low_rank(self, point: Settings) -> LowRank:
        """Return U: the soft-thresholded SVD or, where that is not the solution, a few steps from there."""
        point = self._simplify(point)
        if point not in self._low_ranks:
            problem, found = self.built.with_settings(point).problem, self._threshold(point)
            if problem.is_slack:
                # Where V takes over, the way from there is long.
                found = solve(problem, Options(_LOOSE, rank_cap=point.max_rank, seed=self.seed)).low_rank
            elif not problem.is_one_shot:
                found = improve(problem, found, Options(_NEAR, _STEPS, rank_cap=point.max_rank, seed=self.seed))
            self._low_ranks[point] = found
        return self._low_ranks[point]

    def _find_base(self, point: Settings) -> Settings:
        """The settings of the U that neighbors are fitted beside: those of its own where that is balanced."""
        is_even = self._weighs_alike and point.cost_ratio <= RULE.cost_ratio
        return point if is_even else point._replace(cost_ratio=1.0, reg_sparse=1.0)

    def _find_balanced(self, base: Settings) -> LowRank:
        return self.find_low_rank(base) if self._weighs_alike else self._threshold(base)

    @property
    def _weighs_alike(self) -> bool:
        """Whether clicks weigh as other cells do where the cost ratio is 1."""
        return self.built.loss == "II" or self.built.clicks.values is None

    def _simplify(self, point: Settings) -> Settings:
        """What U depends on alone; with loss II costs only scale it."""
        point = point._replace(neighbors=0, reg_neighbors=0.0, neighbor_scaling=0.0)
        return point._replace(cost_ratio=1.0) if self.built.loss == "II" else point

    def _threshold(self, point: Settings) -> LowRank:
        """The singular triplets of the targets, thresholded; those of no use are kept as spare directions."""
        built = self.built.with_settings(point._replace(cost_ratio=1.0, reg_sparse=1.0))
        problem, max_rank = built.balance(), point.max_rank
        if self._svd is None or _falls_short(*self._svd, max_rank, problem.l1):
            operator = LowRankPlusSparse(LowRank.zero(problem.pattern.shape), problem.pattern, problem.target)
            weakest = min(STRENGTHS[0], point.strength) if "strength" in self.space else point.strength
            above = weakest * problem.l1 / point.strength
            found = compute_partial_svd(
                operator,
                np.random.default_rng(self.seed),
                above=above,
                cap=max_rank,
                dtype=problem.target.dtype.type,
            )
            self._svd = max_rank, above, found
        u = self._svd[2]
        s = np.maximum(u.s - problem.l1, 0)
        if max_rank is not None:
            s[max_rank:] = 0
        return LowRank(u.left, s, u.right)

    def _find_regression(self, neighbors: int) -> Regression:
        """The problem of so many neighbors, or fewer."""
        given, width = self.space.given, MANY if neighbors > NEIGHBORS else NEIGHBORS
        if "neighbors" not in self.space:
            width = given.neighbors
        if width not in self._regressions:
            built = self.built.with_settings(given._replace(cost_ratio=1.0))
            support = find_nearest(self.built.problem.pattern, width, self.built.genuine)
            self._regressions[width] = built.build_regression(support, given.neighbor_scaling)
        return self._regressions[width]

    # Scores

    def _measure_ndcg(self, u: Factored, regression: Regression, weights: npt.NDArray[np.float32]) -> list[Scores]:
        """The NDCG of each user with events held out, for one U and several `weights`, (w, m, K), on the support."""
        left, right = u
        item, rows = self.built.scaling.item, np.flatnonzero(np.diff(self.asked.indptr))
        indptr, indices, places = regression.by_neighbor
        between = np.repeat(item, np.diff(indptr)) / item[indices]
        flat = weights.reshape(len(weights), -1).take(places, axis=1) * between
        mine, theirs = left[rows].astype(np.float32), (right / item[:, None]).astype(np.float32)
        ranks = np.empty((len(weights), self.asked.nnz))
        clicks, asked = self.clicks, self.asked
        parts = (
            regression.user,
            clicks.indptr,
            clicks.indices,
            self.built.genuine,
            indptr,
            indices,
            flat,
            asked.indptr,
            asked.indices,
        )

        def rank(start: int, stop: int) -> None:
            base = mine[start:stop] @ theirs.T
            rank_rows(0, stop - start, base, rows[start:stop], *parts, np.empty_like(base[0]), ranks)

        run_ranges(rank, [*range(0, len(rows), _TOGETHER), len(rows)])
        counts = np.diff(asked.indptr)[rows]
        gains = np.where(ranks <= AT, 1 / np.log2(1 + ranks), 0)
        ideal = np.cumsum(1 / np.log2(np.arange(2, AT + 2)))[np.minimum(counts, AT) - 1]
        starts = np.cumsum(counts) - counts
        return [np.add.reduceat(each, starts) / ideal for each in gains]

    def _measure_cost(self, u: Factored, regression: Regression, weights: npt.NDArray[np.float32]) -> Scores:
        """What decisions cost each user with events held out, relative to showing nothing, `weights`, (m, K), on the
        support.

        It is the mean over costs of a miss of the given one times each of MORE_TO_COME, thresholds by calibration.
        """
        left, right = u
        scaling, n_items, ratio = self.built.scaling, self.clicks.shape[1], self.built.costs.ratio
        matrix, scale = make_click_weights(regression, weights, scaling.item), regression.user / scaling.user
        mine = (left / scaling.user[:, None]).astype(np.float32)
        theirs = (right / scaling.item[:, None]).astype(np.float32)

        def score_rows(rows: Rows) -> npt.NDArray[np.float32]:
            scores: npt.NDArray[np.float32] = mine[rows] @ theirs.T
            add_products(scores, self.clicks, rows, matrix, scale, self.built.genuine)
            return scores

        rows, ratios = np.flatnonzero(np.diff(self.asked.indptr)), ratio * np.array(MORE_TO_COME)
        told = Calibration.of(score_rows, rows, n_items, self.asked, self.clicks)
        thresholds = [told.threshold(each, 1.0) for each in ratios]
        counts = CellCounts.empty(rows, self.asked, self.clicks, thresholds, auc=False)
        for part, scores in score_blocks(score_rows, rows, n_items, seen=self.clicks):
            counts.add(part, scores)
        costs: Scores = (counts.missed + counts.false_alarms / ratios).mean(axis=1) / counts.positives.mean()
        return costs

    def explain_taken(self, settings: Settings) -> str:
        """Return why not the try with the largest mean was taken; nothing if it was."""
        points = list(self.trials)
        best = max(points, key=lambda point: self.trials[point].mean)
        if settings not in self.trials or self.trials[best].mean <= self.trials[settings].mean:
            return ""
        gains = self.trials[best].scores - self.trials[settings].scores
        gain, error = float(gains.mean()), _compute_error(gains)
        found = f"row {points.index(best) + 1} has {self.trials[best].mean:.4f}, {gain:.4f} more, but "
        if gain <= CERTAIN * error:
            return found + f"that is within {CERTAIN:g} standard errors of the difference ({error:.4f} each): noise"
        if (best.max_rank or np.inf) > (settings.max_rank or np.inf):
            return found + f"twice the rank must gain {WORTH / 2:.1%} more surely than that"
        return found + "the search changes one setting at a time, and had left it by then"

    def list_columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of `Chosen`."""
        rows = [
            (trial.rank, *point._replace(max_rank=point.max_rank or 0), trial.mean, _compute_error(trial.scores))
            for point, trial in self.trials.items()
        ]
        columns = {name: np.array(column) for name, column in zip(NAMES, zip(*rows, strict=True), strict=True)}
        if self.costs:
            judged = [self.costs[point].mean() if point in self.costs else np.nan for point in self.trials]
            columns[COST] = np.array(judged)
        return columns


def _penalize(point: Settings, factor: float) -> Settings:
    return point._replace(reg_neighbors=float(f"{point.reg_neighbors * factor:.2g}"))


def _hold_back(point: Settings, reg_sparse: float) -> Settings:
    """The point with V in its problem: what V holds back, a weaker penalty lets through."""
    return _scale_strength(point._replace(reg_sparse=reg_sparse), min(1.0, max(reg_sparse, 1e-3)) ** 0.5)


def _scale_strength(point: Settings, factor: float) -> Settings:
    return point._replace(strength=float(f"{point.strength * factor:.3g}"))


def _compute_error(values: Scores) -> float:
    """The standard error of a mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def _step_strength(strength: float, step: int) -> float:
    """The next strength in the list, or beyond its ends."""
    at = STRENGTHS.index(strength) + step if strength in STRENGTHS else -1
    return STRENGTHS[at] if 0 <= at < len(STRENGTHS) else float(f"{strength * STEP**step:.3g}")


def _falls_short(known: int | None, above: float, found: LowRank, space: int | None, threshold: float) -> bool:
    """Whether an SVD of at most `known` triplets (None: all) above a value is not enough for others."""
    if known is not None and (space is None or space > known):
        return True
    # Where the bound on the rank ended it, there is nothing more above a lower threshold.
    return threshold < 0.999 * above and (known is None or found.width < known)


SHARE = 0.1
"""The share of each user's events that is held out."""
MOST_OF_TARGET = 0.5
"""The share of each user's events of the target type that is held out at most."""
LEAST_EVENTS, LEAST_USERS = 3, 150
"""A user with fewer events spares none; a log with fewer users to ask is too small to choose by."""
ENOUGH_USERS = 450
"""With fewer users to ask of the end of a log, unasked, more of them at random tell more."""
MOST_USERS, CELLS = 2500, 6 * 10**7
"""How many users are asked at most, and how many scores that may take, unless these are a third of them or fewer."""

NOTICED = 0.05
"""The share of noise, by estimate, from which on it is tried to count events less that look like it."""
POWERS = (1.0, 0.5)
"""The powers of the probabilities of being genuine that are tried."""
HASTY_RANK = 64
"""The largest rank where the time limit leaves no time to choose one: a small rank that is solved beats a large one."""


@dataclass(frozen=True, eq=False, repr=False)
class Chosen(ResultTable):
    """What was tried on held-out training events, a row each:

    - rank: of U;
    - cost_ratio: what a miss costs;
    - strength: l1 in noise levels, the norm of the targets with random signs;
    - max_rank (0: none), reg_sparse, neighbors, reg_neighbors, neighbor_scaling, denoise: as the parameters;
    - ndcg: the mean over users of the NDCG@20 of their held-out events, and its standard error, `error`.

    `settings` is what the fit took, `note` how it came to it. Without rows nothing was searched. `n_events` is the size
    of the log at the choice (0: not known), `n_now` that after updates, which keep the choice.
    """

    settings: Settings = RULE
    note: str = ""
    n_events: int = 0
    n_now: int = 0

    @property
    def growth(self) -> float | None:
        """By what share the log has grown since the choice, or None where that is not known."""
        return self.n_now / self.n_events - 1 if self.n_events else None

    @property
    def growth_note(self) -> str:
        """The same in words; nothing where it has not grown."""
        if self.n_now == self.n_events or self.growth is None:
            return ""
        return f"chosen when the log had {self.n_events:,} events; it has grown by {100 * self.growth:.2g} % since"

    def summary(self) -> dict[str, Any]:
        """Return everything as plain Python values, ready for JSON."""
        return {
            "settings": self.settings._asdict(),
            "note": self.note,
            "n_events": self.n_events,
            "growth": self.growth,
            "tried": list(self.rows()),
        }

    @property
    def taken(self) -> int | None:
        """The row that the fit took, from 0; None if it is none of them."""
        space = self.settings._replace(max_rank=self.settings.max_rank or 0)._asdict()
        same = [np.asarray(self[name]) == value for name, value in space.items()] if len(self) else []
        rows: Any = np.flatnonzero(np.all(same, axis=0)) if same else []
        return int(rows[0]) if len(rows) else None

    def __str__(self) -> str:
        if not len(self):
            return "\n".join(self._notes)
        lines = [("*" if row == self.taken else "", *line) for row, line in enumerate(self.lines())]
        star = [] if self.taken is None else ["* what the fit took"]
        return "\n".join([format_text_table(["", *self.columns], lines), *star, *self._notes])

    def __repr__(self) -> str:
        return str(self)

    @property
    def _notes(self) -> list[str]:
        return [each for each in (self.note, self.growth_note) if each]

    def _repr_html_(self) -> str:
        return "\n".join([super()._repr_html_()] * bool(len(self)) + [format_html_words(each) for each in self._notes])


def _mark_tenth(log: Log, counts: Any, rng: np.random.Generator, *, latest: bool) -> BoolArray:
    """A tenth of each user's events, drawn at random or the latest, (n_events,); `counts`, (n_users,), is of all."""
    is_target = log.is_target
    # A tenth of 7 events is one, in seven of ten cases; of rare purchases at most half are taken.
    most_of_target = MOST_OF_TARGET * np.bincount(log.user_rows[is_target], minlength=log.n_users)
    taken = np.floor(np.minimum(SHARE * counts, most_of_target) + rng.random(log.n_users)).astype(np.int64)
    taken[counts < LEAST_EVENTS] = 0
    if latest:
        assert log.times is not None
        order = np.lexsort((-log.times, ~is_target, log.user_rows))
    else:
        drawn = (log.user_rows.astype(np.int64) << 33) | rng.integers(2**32, size=len(log))
        order = np.argsort(drawn | (~is_target).astype(np.int64) << 32, kind="stable")
    return mark_leading(log, order, taken)


def _mark_latest(log: Log) -> BoolArray:
    """The last tenth of all events in time that may be asked for, (n_events,)."""
    assert log.times is not None
    of_target = log.times[log.is_target]
    held: BoolArray = log.is_target & (log.times >= np.quantile(of_target, 1 - SHARE, method="higher"))
    return held


def choose_settings(model: CSRRBase, log: Log, user_costs: Any = None, item_costs: Any = None) -> Chosen:
    """Return what the parameters that say "auto" come to for a log: by its own held-out events, or by rule."""
    space = model.space()
    if space.settled is not None:
        return choose_by_rule(space.settled, "as given by another fit")
    if space.is_complete or not model.searches:
        return choose_by_rule(space.given, "nothing was left to choose" if space.is_complete else "chosen by rule")

    def start_search(seed: int, denoise: float = 0.0, judged: FloatArray | None = None) -> Search | None:
        parts = hold_out(log, seed, model.hold_out)
        if parts is None:
            return None
        fitted, asked = (part.to_csr() for part in parts)
        if fitted.multiply(asked).nnz:
            raise AssertionError("an event that is asked for is among those that are fitted")
        given = space.given._replace(denoise=denoise or space.given.denoise)
        return Search(build_problem(model, parts[0], given, user_costs, item_costs, judged), fitted, asked, space)

    try:
        with cut_off(seconds_left(0.5)):
            search = start_search(model.seed)
            if search is None:
                return choose_by_rule(space.given, _explain_too_small(log, space))
            settings, found_by = search.run(), search
            if "denoise" in space and not search.is_cut:
                settings, found_by = try_denoised(search, settings, start_search)
            if search.goes_by_cost and not search.is_cut and (cheaper := found_by.cheapen(settings)) != settings:
                second = start_search(model.seed + 1, settings.denoise)
                settings = settings if second is None else second.confirm(settings, cheaper)
            search.trials |= found_by.trials
            search.costs |= found_by.costs
            return _keep_search(search, settings, find_way(log, model.hold_out))
    except TimeUpError:
        hasty = space.given._replace(max_rank=HASTY_RANK) if "max_rank" in space else space.given
        note = f"by rule: the time limit left no time for a search; {_describe(hasty, space)}"
        return choose_by_rule(hasty, note)


def _keep_search(search: Search, settings: Settings, way: HoldOut) -> Chosen:
    """Return what a search tried and the settings it led to."""
    which = {"last": ", each user's last,", "time": ", the last in time,"}.get(way, "")
    where = f"{search.asked.nnz:,} held-out events{which} of {np.count_nonzero(np.diff(search.asked.indptr)):,} users"
    note = f"chosen on {where}: {_describe(settings, search.space)}"
    if (best := search.trials.get(settings)) is not None:
        note += f"; NDCG@{AT} {best.mean:.4f} there"
        if settings not in search.costs and (why := search.explain_taken(settings)):
            note += f" ({why})"
    if (costs := search.costs.get(settings)) is not None:
        note += f"; decisions cost {costs.mean():.4f} of what showing nothing does"
    if search.is_cut:
        note += f"; the time limit ended the search after {len(search.trials)} tries"
    return Chosen(search.list_columns(), settings, note)


StartSearch = Callable[[int, float, FloatArray | None], Search | None]
"""From a seed, a power of the probabilities that events are genuine, and these if they are known, to a search."""


def try_denoised(search: Search, best: Settings, start: StartSearch) -> tuple[Settings, Search]:
    """Return the settings that rank best, once events that look like noise may count less, and the search they are of.

    Two looks tell whether that is tried at all: a rough one at what the search has of common taste anyway, then that of
    `suspects`. A log in which these find little noise takes no time beyond.
    """
    try:
        if search.estimate_noise() < NOTICED:
            return best, search
        judged = judge_events(search.built)
        if 1 - judged.mean() < NOTICED:
            return best, search
        # The noise is in the held-out events, too. But where it falls evenly no way of ranking them gains by it.
        tried = [each for power in POWERS if (each := start(search.seed, power, judged)) is not None]
        others = [tried[0].run()]
        others += [each.try_only(others[0]._replace(denoise=each.built.settings.denoise)) for each in tried[1:]]
        for each in tried:
            search.trials |= each.trials
        found = search.find_better(best, *others, errors=0.0)
        return found, search if found == best else tried[others.index(found)]
    except TimeUpError:
        search.is_cut = True
        return best, search


def _describe(settings: Settings, space: SearchSpace) -> str:
    """What a fit takes, in the words of its parameters; those in place of which others are given are left out."""
    neighbors = f"{settings.neighbors} neighbors (reg_neighbors {settings.reg_neighbors:g})"
    words = [
        f"strength {settings.strength:g} x noise" if "strength" in space else "",
        f"max_rank {settings.max_rank}",
        f"cost_ratio {settings.cost_ratio:g}" if "cost_ratio" in space else "",
        f"reg_sparse {settings.reg_sparse:g}",
        neighbors if settings.neighbors else "no neighbors",
        f"denoise {settings.denoise:g}" if settings.denoise else "",
    ]
    return ", ".join(filter(None, words))


def choose_by_rule(settings: Settings, note: str) -> Chosen:
    """Return settings that no search led to."""
    return Chosen({name: np.empty(0) for name in NAMES}, settings, note)


def _explain_too_small(log: Log, space: SearchSpace) -> str:
    """Return why nothing was chosen on held-out events of a log."""
    return (
        f"by rule: too few of {log.n_users:,} users have events to hold out ({LEAST_USERS} are needed for a search); "
        f"{_describe(space.given, space)}"
    )


def find_way(log: Log, way: HoldOut) -> HoldOut:
    """Return which events are held out of a log: with "auto", as those of its own test were."""
    return way if way != "auto" else (None if log.times is None else log.cut) or "random"


def hold_out(log: Log, seed: int, way: HoldOut = "auto") -> tuple[Log, Log] | None:
    """Return what is fitted and what is asked for, or None where too few users can spare an event.

    Of a log with a target, what is asked for is of that type, and no event of these pairs is fitted: what a user viewed
    and bought would be found too easily. With "auto" events are held out the way the log's own test was; at random
    where too few users are left that way.
    """
    rng = np.random.default_rng(seed)
    if way in ("last", "time") and log.times is None:
        raise ParameterError(f'hold_out="{way}" needs events with times, and these have none; read a time column')
    counts = log.user_counts()
    kind = find_way(log, way)
    held = _mark_latest(log) if kind == "time" else _mark_tenth(log, counts, rng, latest=kind == "last")
    spared = np.bincount(log.user_rows[held], minlength=log.n_users)
    users = np.flatnonzero((spared > 0) & (spared < counts))
    if way == "auto" and kind != "random" and len(users) < ENOUGH_USERS:
        return hold_out(log, seed, "random")
    if len(users) < LEAST_USERS:
        return None
    most = min(MOST_USERS, max(CELLS // log.n_items, MOST_USERS // 3))
    is_asked = np.zeros(log.n_users, np.bool_)
    is_asked[rng.permutation(users)[:most]] = True
    return log.select(~held), log.select(held & is_asked[log.user_rows])


_logger = logging.getLogger(__name__)

"""The length of the lists whose NDCG decides."""
MOST_STEPS = 8
"""A walk ends after so many steps, if it still gains."""


def find_best_multiple(
    model: Recommender, log: Log, rule: Callable[[Log], float], *, step: float, seed: int = 0, **options: Any
) -> float:
    """Return the power of `step` by which a rule's `reg` is to be multiplied to rank held-out events best.

    A tenth of the events is held out of the log. Models like `model`, which has the parameters `reg` and `threads`,
    are fitted to the rest, with `options`, with `rule(rest)` times a power of `step`: down from 1, or else up, while
    the mean over users of the NDCG@20 of the held-out events rises. A log that is too small for that gives 1.
    """
    parts, name = hold_out(log, seed), type(model).__name__
    if parts is None:
        _logger.info("%s: reg is the rule's: fewer than %d users have events to hold out", name, LEAST_USERS)
        return 1.0
    rest, heldout = parts
    first, params = rule(rest), model.get_params()

    def score(multiple: float) -> float:
        try:
            fitted = type(model)(**params | {"reg": first * multiple}).fit(rest, **options)
        except ParameterError:
            if multiple == 1:
                raise
            # So weak that the system is singular in its precision.
            return -np.inf
        # One thread of BLAS rounds alike, however many there are.
        with use_threads(params["threads"], blas=1):
            return measure_ndcg(fitted, heldout)

    multiple, n_fits = climb(score, step)
    _logger.info("%s: reg is %g times the rule's, the best of %d fits", name, multiple, n_fits)
    return multiple


def climb(score: Callable[[float], float], step: float) -> tuple[float, int]:
    """Return the power of `step` where a walk from 1 stops gaining, first down, else up, and how many were scored."""
    best, n_scored = score(1.0), 1
    for direction in (-1, 1):
        power = 0
        while abs(power) < MOST_STEPS:
            value = score(step ** (power + direction))
            n_scored += 1
            if value <= best:
                break
            power, best = power + direction, value
        if power:
            return step**power, n_scored
    return 1.0, n_scored


def measure_ndcg(model: Recommender, heldout: Log) -> float:
    """Return the mean, over the users with an event in `heldout`, of the NDCG@20 of a model's lists of unseen items.

    The row numbers of `heldout` are those of the log that the model was fitted to.
    """
    relevant = heldout.to_csr()
    counts = np.diff(relevant.indptr)
    rows = np.flatnonzero(counts)
    items, _ = model.top_rows(rows, AT, seen=model.seen_)
    return float(ndcg(mark_hits(items, relevant, rows), counts[rows]).mean())


Model = TypeVar("Model", bound="CSRRBase")


def make_from_costs(kind: type[Model], words: CostSpec, params: dict[str, Any]) -> Model:
    """Return a new model for costs in words other than the ratio; ParameterError for none, or a model without costs."""
    if not words.are_given:
        raise ParameterError("give miss and false_alarm, or positive_cost, or recall_weight")
    given = {name: value for name, value in words._asdict().items() if value is not None}
    if not given.keys() <= list_defaults(kind).keys():
        raise ParameterError(f"{kind.__name__} takes no costs: its rho says what a miss weighs; take CSRR or CSRRe")
    model = kind(**given, **params)
    model.check_params()
    return model


def find_search_space(model: CSRRBase, settled: Settings | None) -> SearchSpace:
    """Return what the parameters give and what they leave open; `settled` are settings in place of all that."""
    names = ("reg_sparse", "neighbors", "reg_neighbors", "denoise")
    given = {name: getattr(model, name) for name in names if getattr(model, name) != "auto"}
    settings, left = RULE._replace(neighbor_scaling=model.neighbor_scaling, **given), set(names) - set(given)
    if model.l1 is None and model.reg_low_rank == "auto":
        left.add("strength")
    if model.l2 is not None or "strength" not in left:
        # The problem of U is given, or as good as.
        left -= {"reg_sparse", "denoise"}
    if {"strength", "reg_sparse"} <= left and model.loss == "I" and not model.cost_words.give_weight:
        left.add("cost_ratio")
    if model.max_rank != "auto":
        settings = settings._replace(max_rank=model.max_rank)
    elif "strength" in left:
        left.add("max_rank")
    return SearchSpace(settings, frozenset(left), settled)


def find_strength(model: CSRRBase, data: Any) -> float:
    """Return the l1 that a fit to data would have."""
    model.check_params()
    with use_threads(model.threads, blas=1):
        log = model.weigh(model.read(data))
        return float(build_problem(model, log, choose_settings(model, log).settings).problem.l1)


def settle_params(model: CSRRBase) -> dict[str, Any]:
    """Return numbers for the parameters that a fitted model left open."""
    settings, params = model.chosen_.settings, model.get_params()
    found = {
        "reg_sparse": 1.0 if model.l2_ is None else model.l2_ / model.costs_.alpha,
        **{name: getattr(settings, name) for name in ("max_rank", "neighbors", "reg_neighbors", "denoise")},
    }
    found = {name: value for name, value in found.items() if params.get(name) == "auto"}
    if params["reg_low_rank"] in ("auto", "noise") and model.l1 is None:
        found["l1"] = model.l1_
    if "cost_ratio" in params and not model.cost_words.give_weight:
        found["cost_ratio"] = model.costs_.alpha
    return found


def check_precision(tol: float, dtype: str) -> None:
    """Raise ParameterError for a gap that a precision cannot resolve."""
    smallest = 1e-5 if dtype == "float32" else 1e-12
    if tol < smallest:
        raise ParameterError(
            f"tol={tol!r} is beyond {dtype}, which resolves a relative gap of {smallest:g}"
            + ('; use dtype="float64"' if dtype == "float32" else "")
        )
