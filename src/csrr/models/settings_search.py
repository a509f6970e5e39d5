"""A walk over settings, by what held-out events they rank best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from csrr.arrays import Rows
from csrr.deadline import TimeUpError
from csrr.models.build_problem import ClickProblem, find_genuine, leave_out_own
from csrr.models.neighborhood import make_click_weights
from csrr.models.settings import Settings
from csrr.optim.factored import Factors
from csrr.optim.krylov import LowRankPlusSparse, compute_partial_svd
from csrr.optim.lowrank import LowRank
from csrr.optim.neighbors import Factored, Regression, Ridge, find_nearest
from csrr.optim.solver import Options, improve, solve
from csrr.ranking.calibration import Calibration
from csrr.ranking.cells import CellCounts
from csrr.ranking.item_products import add_products
from csrr.ranking.row_loops import rank_rows
from csrr.ranking.score_blocks import score_blocks
from csrr.threads import run_ranges

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


class Trial(NamedTuple):
    """What came of settings: the rank of U, and the NDCG of each user whose events are held out."""

    rank: int
    scores: Scores

    @property
    def mean(self) -> float:
        return float(self.scores.mean())


@dataclass(frozen=True)
class Wanted:
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
    wanted: Wanted
    is_cut: bool = False
    trials: dict[Settings, Trial] = field(default_factory=dict)
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
            share = 1.0 if "reg_sparse" in self.wanted else self._given.reg_sparse
            ratio = best.cost_ratio if "cost_ratio" in self.wanted else self._given.cost_ratio
            return best._replace(cost_ratio=ratio, reg_sparse=share)

    def _walk(self) -> Settings:
        best = self._choose_first()
        if "strength" not in self.wanted:
            return self._choose_neighbors(best)
        best = self._choose_strength(best)
        if "max_rank" in self.wanted:
            best = self._widen(best)
        best = self._choose_neighbors(best)
        best = self._choose_costs(best)
        return self._choose_v(best) if "reg_sparse" in self.wanted else best

    # Steps of the walk

    def _choose_first(self) -> Settings:
        """What the search begins with: what is given, but for costs and V, which come later."""
        first = self._given._replace(denoise=self.built.settings.denoise)
        if "strength" in self.wanted:
            first = first._replace(cost_ratio=1.0, reg_sparse=1.0)
        else:
            first = first._replace(strength=self.built.problem.l1 / self.built.noise)
        if "max_rank" in self.wanted:
            first = first._replace(max_rank=min(RANK, *self.built.problem.pattern.shape))
        return first._replace(neighbors=NEIGHBORS) if "neighbors" in self.wanted else first

    @property
    def _given(self) -> Settings:
        """What is given of costs and V as the problem has it, in whatever words."""
        ratio, l2 = self.built.costs.alpha, self.built.l2
        return self.wanted.given._replace(cost_ratio=ratio, reg_sparse=1.0 if l2 is None else l2 / ratio)

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
        widths = WIDTHS if "neighbors" in self.wanted and point.neighbors == NEIGHBORS else ()
        factors = (1 / RIDGE_STEP, RIDGE_STEP) if "reg_neighbors" in self.wanted else ()
        others = [_penalize(point, factor) for factor in factors]
        none = [point._replace(neighbors=0)] if "neighbors" in self.wanted else []
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
        if "neighbors" in self.wanted and self.trials[point].rank == point.max_rank < most:
            # What rank promises is measured beside as many neighbors as before.
            expected = self._measure_gain(point, self._find_best([half]), CERTAIN)
            more = point._replace(neighbors=MANY)
            stronger = [_penalize(more, RIDGE_STEP)] if "reg_neighbors" in self.wanted else []
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
            stronger = [_penalize(wider, RIDGE_STEP)] if "reg_neighbors" in self.wanted else []
            best = self._find_best([wider, _scale_strength(wider, STEP), *stronger])
            if self._measure_gain(best, point, 0) < WORTH / 2:
                break
            # What rank alone gains is often the surer.
            gain = max(self._measure_gain(each, point, CERTAIN) for each in (wider, best))
            expected, point = max(gain, DECAY * expected), best
        return point

    def _choose_costs(self, point: Settings) -> Settings:
        """The point with the costs and V that are wanted, and the strength that goes with them.

        Where no costs are given, the better of weights 1 and 2 is taken.
        """
        other = point._replace(cost_ratio=self._given.cost_ratio)
        if "reg_sparse" not in self.wanted:
            other = _hold_back(other, self._given.reg_sparse)
        best = self._find_best([other, _scale_strength(other, 1 / STEP)])
        if self.trials[other].rank == other.max_rank:
            # Where the bound on the rank cuts, a weaker penalty has to show what it is good for.
            best = self.find_better(other, best, errors=CERTAIN)
        while best != other and (weaker := self.find_better(best, _scale_strength(best, 1 / STEP))) != best:
            best = weaker
        return self._find_best([point, best]) if "cost_ratio" in self.wanted else best

    def _choose_v(self, point: Settings) -> Settings:
        """The point with V in U's problem, if that gains more than noise."""
        return self.find_better(point, _hold_back(point, ROBUST), errors=CERTAIN)

    @property
    def goes_by_cost(self) -> bool:
        """Whether costs of decisions are given, and the weight of clicks is left to what they come to."""
        return self.built.costs.decides_only and "cost_ratio" in self.wanted

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
            if "reg_neighbors" in self.wanted and point.neighbors:
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
                self.trials[point] = Trial(found[place], scores)
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
        is_even = self._weighs_alike and point.cost_ratio == 1
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
            weakest = min(STRENGTHS[0], point.strength) if "strength" in self.wanted else point.strength
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
        given, width = self.wanted.given, MANY if neighbors > NEIGHBORS else NEIGHBORS
        if "neighbors" not in self.wanted:
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


def _falls_short(known: int | None, above: float, found: LowRank, wanted: int | None, threshold: float) -> bool:
    """Whether an SVD of at most `known` triplets (None: all) above a value is not enough for others."""
    if known is not None and (wanted is None or wanted > known):
        return True
    # Where the bound on the rank ended it, there is nothing more above a lower threshold.
    return threshold < 0.999 * above and (known is None or found.width < known)
