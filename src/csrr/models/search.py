"""The search for the values of "auto" parameters: settings, tried one after another on held-out events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from csrr._base.arrays import AnyArray, FloatArray, Rows
from csrr._base.threads import TimeUpError, map_ranges, run_ranges
from csrr.model_parameters import HoldOut
from csrr.models.build_problem import ClickProblem, Settings, estimate_genuine, is_balanced, leave_out_own
from csrr.models.fitted_problem import make_click_weights
from csrr.models.held_out import LIST_LENGTH
from csrr.numerics.engine import RankingEngine
from csrr.numerics.factored import Factors
from csrr.numerics.krylov import BlockKrylov, LowRankPlusSparse, compute_partial_svd
from csrr.numerics.neighbors import Factored, Regression, Ridge
from csrr.numerics.problem import LowRank
from csrr.numerics.solver import Options, improve, solve
from csrr.ranking.calibration import Calibration
from csrr.ranking.loops import rank_rows
from csrr.ranking.metrics import CellCounts
from csrr.ranking.topk import Cells, add_products, measure_held_out_ndcg

STRENGTHS, STEP = (0.29, 0.35, 0.42, 0.5, 0.6, 0.72, 0.86, 1.04, 1.24), 1.2
"""The strengths of the penalty on the rank that are tried with one SVD, in noise levels, and about the factor between
neighboring ones."""
FIRST_RANK, LEAST_GAIN, GAIN_DECAY = 256, 0.01, 0.6
"""The bound on the rank that is tried first; the relative gain in NDCG that doubling it must promise to be tried, of
which it must keep half to be taken; and the share of its gain that is expected of the next doubling."""
NEIGHBORS, FEWER_NEIGHBORS, MORE_NEIGHBORS = 50, (20, 10), 150
"""The numbers of neighbors that are tried: first, then, and where the bound on the rank binds."""
RIDGE_STEP = 3.0
"""The factor between the penalties on neighbors that are tried."""
LIKELY, SURE = 1.0, 2.0
"""The standard errors that a gain must exceed; the second where another kind of model would be chosen."""
CLICK_WEIGHTS = (1.0, 2.0, 5.0)
"""The weights of clicks that are tried where decisions have costs. With larger ones U is too large on items that nobody
clicked."""
FUTURE_EVENTS = (1.0, 3.0, 9.0)
"""The numbers of future events for each held-out one that the cost of decisions is averaged over: 9 is all events that
were fitted."""
TRIED_REG_SPARSE = 0.65
"""The `reg_sparse` that is compared with a problem without V, if the log has noise."""
SAMPLED_USERS, SAMPLED_ITEMS = 2000, 500
"""The numbers of users and of items that stand for more where noise is only estimated roughly."""
TRIAL_COLUMNS, COST_COLUMN = ("rank", *Settings._fields, "ndcg", "error"), "cost"
"""The columns of the table of trials, and one that is there if the cost of decisions was measured."""
_LOOSE_GAP, _FEW_STEPS, _SMALL_GAIN = 0.05, 8, 0.001
"""Fits that are only compared stop at this gap; or after so many steps, or at a smaller relative gain than this."""
_USERS_AT_ONCE, _MOST_COST_STEPS = 64, 4

Scores = npt.NDArray[np.float64]


class SettingsTrial(NamedTuple):
    """The result of settings: the rank of U, and the NDCG of each user with held-out events.

    `costs` are those of the user's decisions, relative to showing nothing; None where they were not computed.
    """

    rank: int
    scores: Scores
    costs: Scores | None = None

    @property
    def mean(self) -> float:
        return float(self.scores.mean())


@dataclass(frozen=True)
class SearchSpace:
    """The settings that a model's parameters give, by rule where they give none, and the names of those left `open`."""

    given: Settings
    open: frozenset[str]

    def __contains__(self, name: str) -> bool:
        """Whether a setting is left open."""
        return name in self.open

    @property
    def is_complete(self) -> bool:
        """Whether no setting is left open."""
        without = "neighbors" not in self and not self.given.neighbors
        return not self.open - ({"reg_neighbors"} if without else set())


@dataclass(eq=False)
class Search:
    """A search over settings: strengths, ranks and neighbors by one SVD, then costs and V by a few steps from there.

    `built` is the problem of the events that remain, `clicks`, csr; `heldout`, csr, are the others, taken in this
    `way`. A default is replaced only if the gain exceeds its standard error. `is_cut` says that the time limit ended
    the search (`threads.cut_off`). `balanced` is the best point of equal weights and without V, once it is known.
    """

    built: ClickProblem
    clicks: Any
    heldout: Any
    space: SearchSpace
    way: HoldOut = "random"
    is_cut: bool = False
    trials: dict[Settings, SettingsTrial] = field(default_factory=dict)
    balanced: Settings | None = None
    _low_ranks: dict[Settings, LowRank] = field(default_factory=dict)
    _svd: tuple[int | None, float, LowRank] | None = None
    _regressions: dict[int, Regression] = field(default_factory=dict)

    def run(self) -> Settings:
        """Return the settings that rank best, among those that there was time to try."""
        try:
            return self._choose_all()
        except TimeUpError:
            if not self.trials:
                raise
            self.is_cut = True
            best = self._get_best(self.trials)
            share = 1.0 if "reg_sparse" in self.space else self._given.reg_sparse
            ratio = best.cost_ratio if "cost_ratio" in self.space else self._given.cost_ratio
            return best._replace(cost_ratio=ratio, reg_sparse=share)

    def _choose_all(self) -> Settings:
        best = self._choose_first()
        if "strength" not in self.space:
            return self._choose_neighbors(best)
        best = self._choose_strength(best)
        if "max_rank" in self.space:
            best = self._widen(best)
        self.balanced = self._choose_neighbors(best)
        return self._choose_costs(self.balanced)

    # Steps of the search

    def _choose_first(self) -> Settings:
        """The settings that the search begins with: those given, but for costs and V, which come later."""
        first = self._given._replace(denoise=self.built.settings.denoise)
        if "strength" in self.space:
            first = first._replace(cost_ratio=1.0, reg_sparse=1.0)
        else:
            first = first._replace(strength=self.built.problem.l1 / self.built.noise)
        if "max_rank" in self.space:
            first = first._replace(max_rank=min(FIRST_RANK, *self.built.problem.pattern.shape))
        return first._replace(neighbors=NEIGHBORS) if "neighbors" in self.space else first

    @property
    def _given(self) -> Settings:
        """The given settings, with the costs and the strength of V that the problem has."""
        ratio, l2 = self.built.costs.alpha, self.built.l2
        return self.space.given._replace(cost_ratio=ratio, reg_sparse=1.0 if l2 is None else l2 / ratio)

    def _choose_strength(self, point: Settings) -> Settings:
        """The point with the best strength, from the middle of the list on, and beyond its ends if that gains."""
        middle = len(STRENGTHS) // 2
        first = [point._replace(strength=strength) for strength in STRENGTHS[middle - 1 : middle + 2]]
        best = self.find_best(first)
        for end, step in ((first[0], -1), (first[-1], 1)):
            while best == end:
                end = end._replace(strength=_step_strength(end.strength, step))
                best = self.find_best([best, end])
        return best

    def _choose_neighbors(self, point: Settings) -> Settings:
        """The point with other neighbors, or none, where that gains more than noise."""
        self._try_neighbors(point)
        if not point.neighbors:
            return point
        best = self.find_better(point, *self._list_ridges(point))
        if best.reg_neighbors != point.reg_neighbors:
            factor = RIDGE_STEP if best.reg_neighbors > point.reg_neighbors else 1 / RIDGE_STEP
            while (other := self.find_better(best, _scale_ridge(best, factor))) != best:
                best = other
        none = [point._replace(neighbors=0)] if "neighbors" in self.space else []
        return self.find_better(best, *self._list_fewer(best), *none, errors=SURE)

    def _try_neighbors(self, point: Settings) -> None:
        """Try the point with other neighbors: all at once, since their U is scored once."""
        none = [point._replace(neighbors=0)] if "neighbors" in self.space else []
        self.find_best([point, *self._list_ridges(point), *self._list_fewer(point), *none])

    def _list_ridges(self, point: Settings) -> list[Settings]:
        """The point with a weaker and a stronger penalty on neighbors, where that is open."""
        factors = (1 / RIDGE_STEP, RIDGE_STEP) if "reg_neighbors" in self.space and point.neighbors else ()
        return [_scale_ridge(point, factor) for factor in factors]

    def _list_fewer(self, point: Settings) -> list[Settings]:
        """The point with fewer neighbors, where that is open; fewer weights need less of a penalty."""
        if "neighbors" not in self.space or point.neighbors != NEIGHBORS:
            return []
        fewer = [point._replace(neighbors=k) for k in FEWER_NEIGHBORS]
        return fewer + [_scale_ridge(each, 1 / RIDGE_STEP) for each in fewer if "reg_neighbors" in self.space]

    def _widen(self, point: Settings) -> Settings:
        """The point with more neighbors, then with twice the bound on the rank, again and again while that gains.

        Neighbors come first: a few of them can replace thousands of directions of a low rank. A doubling is expected to
        gain what the last one surely gained, or the share GAIN_DECAY of what the last one was expected to gain.
        """
        most = min(self.built.problem.pattern.shape)
        assert point.max_rank is not None
        if self.trials[point].rank < point.max_rank or point.max_rank == most:
            return point
        # Measured with the same number of neighbors.
        half = point._replace(max_rank=max(1, point.max_rank // 2))
        expected = self._measure_gain(point, self.find_best([half]), SURE)
        self._try_neighbors(point)
        fewer = self._list_fewer(point)
        # More neighbors promise something only where fewer are surely worse.
        if fewer and self._measure_gain(point, fewer[0], LIKELY) > 0:
            more = point._replace(neighbors=MORE_NEIGHBORS)
            stronger = [_scale_ridge(more, RIDGE_STEP)] if "reg_neighbors" in self.space else []
            best = self.find_best([more, *stronger])
            if self._measure_gain(best, point, SURE) > LEAST_GAIN / 2:
                point = best
            # The Gram matrices of the one that is not needed again are large.
            self._regressions.pop(MORE_NEIGHBORS if point.neighbors < MORE_NEIGHBORS else NEIGHBORS, None)
        while self.trials[point].rank == (bound := point.max_rank) and bound < most and expected >= LEAST_GAIN:
            wider = point._replace(max_rank=min(2 * bound, most))
            # With a looser bound on the rank, stronger penalties may be better.
            stronger = [_scale_ridge(wider, RIDGE_STEP)] if "reg_neighbors" in self.space else []
            best = self.find_best([wider, _scale_strength(wider, STEP), *stronger])
            if self._measure_gain(best, point, 0) < LEAST_GAIN / 2:
                break
            # The gain by rank alone often has the smaller error.
            gain = max(self._measure_gain(each, point, SURE) for each in (wider, best))
            expected, point = max(gain, GAIN_DECAY * expected), best
        return point

    def _choose_costs(self, point: Settings) -> Settings:
        """The point with the given costs and V, and the best strength for them.

        The default weight of clicks, 2, is replaced by 1 where that surely ranks better.
        """
        other = point._replace(cost_ratio=self._given.cost_ratio)
        if "reg_sparse" not in self.space:
            other = _add_v(other, self._given.reg_sparse)
        best = self.find_best([other, _scale_strength(other, 1 / STEP)])
        if self.trials[other].rank == other.max_rank:
            # Where the bound on the rank binds, a weaker penalty must surely gain.
            best = self.find_better(other, best, errors=SURE)
        while best != other and (weaker := self.find_better(best, _scale_strength(best, 1 / STEP))) != best:
            best = weaker
        return self.find_better(best, point, errors=SURE) if "cost_ratio" in self.space else best

    @property
    def goes_by_cost(self) -> bool:
        """Whether the weight of clicks is chosen by what decisions cost: the costs are given, and the weight is not."""
        return self.built.costs.decides_only and "cost_ratio" in self.space

    def lower_cost(self, first: Settings) -> Settings:
        """Return settings whose decisions cost less than with the first: other weights of clicks and strengths.

        Each step goes to the cheapest of the points that surely cost less, until there is none. If the time is up
        before that, the first settings are returned.
        """
        point = first
        for _ in range(_MOST_COST_STEPS):
            at = CLICK_WEIGHTS.index(point.cost_ratio) if point.cost_ratio in CLICK_WEIGHTS else 0
            lighter, heavier = CLICK_WEIGHTS[max(at - 1, 0)], CLICK_WEIGHTS[min(at + 1, len(CLICK_WEIGHTS) - 1)]
            weaker, stronger = _scale_strength(point, 1 / STEP), _scale_strength(point, STEP)
            others = [weaker, stronger, *(point._replace(cost_ratio=weight) for weight in (lighter, heavier))]
            others += [weaker._replace(cost_ratio=heavier), stronger._replace(cost_ratio=lighter)]
            if "reg_neighbors" in self.space and point.neighbors:
                others += [_scale_ridge(point, 1 / RIDGE_STEP), _scale_ridge(point, RIDGE_STEP)]
            best = self.find_cheaper(point, *others)
            if best == point:
                break
            point = best
        return first if self.is_cut else point

    def find_cheaper(self, point: Settings, *others: Settings) -> Settings:
        """Return the cheapest of several points if its decisions surely cost less than the first one's, else the first.

        The first one is also returned if the time is up.
        """
        points = list(dict.fromkeys([point, *others]))
        try:
            self._try([p for p in points if p not in self.trials or self.trials[p].costs is None], by_cost=True)
        except TimeUpError:
            self.is_cut = True
            return point
        costs = {each: np.asarray(self.trials[each].costs) for each in points}
        best = min(points, key=lambda each: float(costs[each].mean()))
        saved = costs[point] - costs[best]
        return best if saved.mean() > SURE * compute_error(saved) else point

    def find_better(self, point: Settings, *others: Settings, errors: float = LIKELY) -> Settings:
        """Return the best of several points, but the first if the gain is not more than so many standard errors."""
        best = self.find_best([point, *others])
        return best if self._measure_gain(best, point, errors) > 0 else point

    def try_v(self, point: Settings) -> Settings:
        """Return the point with V in its problem if that surely ranks better, else the point."""
        return self.find_better(point, _add_v(point, TRIED_REG_SPARSE), errors=SURE)

    def estimate_genuine(self, least: float) -> FloatArray | None:
        """Return a rough but fast estimate of the probability that each event is genuine, (nnz,).

        None if the events of some users show less noise than `least`. U is from the SVD of the search, a step stronger
        than what ranks best, so that it follows less noise.
        """
        assert self.balanced is not None
        point, seed = _scale_strength(self._narrow(self.balanced), STEP), self.built.seed
        problem, factors = self.built.with_settings(point).problem, Factors.of(self._threshold(point).trim())
        if factors.users.shape[1] == 0:
            return None
        left, n_users = leave_out_own(problem, factors), problem.pattern.shape[0]
        some = np.sort(np.random.default_rng(seed).permutation(n_users)[:SAMPLED_USERS])
        for each in (left.select(some), left)[n_users <= SAMPLED_USERS :]:
            genuine = estimate_genuine(each, seed, SAMPLED_ITEMS)
            if 1 - genuine.mean() < least:
                return None
        return genuine

    def gains_by(self, other: Search) -> bool:
        """Whether U alone ranks better for another search, whose events count less if they look like noise."""
        assert self.balanced is not None
        point = self._narrow(self.balanced)
        other._follow(self._threshold(point), point.max_rank)
        return bool(other._measure_alone(point).mean() > self._measure_alone(point).mean())

    def _measure_alone(self, point: Settings) -> Scores:
        """The NDCG of each user with events held out, without neighbors."""
        alone = self.built.build_regression(0, 0.0)
        return self._measure_ndcg(self._threshold(point).split(), alone, [np.zeros(alone.support.shape, np.float32)])[0]

    def _narrow(self, point: Settings) -> Settings:
        """The point with a bound on the rank that is no larger than the first one tried."""
        return point._replace(max_rank=min(point.max_rank or FIRST_RANK, FIRST_RANK))

    def _follow(self, near: LowRank, max_rank: int | None) -> None:
        """Take the triplets of the targets from the space that those of nearly the same targets lead to."""
        problem = self.built.problem
        operator = LowRankPlusSparse(LowRank.zero(problem.pattern), problem.pattern, self.built.targets)
        space = BlockKrylov(operator, operator.transposed_times(operator.times(near.right[:, :max_rank])))
        self._svd = max_rank, 0.0, space.find_triplets(space.width)

    def _measure_gain(self, point: Settings, other: Settings, errors: float) -> float:
        """The relative gain in NDCG of a point over another, at least: the mean over users less its standard errors."""
        theirs = self.trials[other]
        gains = self.trials[point].scores - theirs.scores
        return float((gains.mean() - errors * compute_error(gains)) / theirs.mean) if theirs.mean else 0.0

    def find_best(self, points: Sequence[Settings]) -> Settings:
        """Return the best of several points, the first of equal ones; those that are new are tried."""
        self._try([point for point in dict.fromkeys(points) if point not in self.trials])
        best = self._get_best(points)
        # Each is as large as the model, and only those of these two points may be needed again.
        self._low_ranks = {
            key: u for key, u in self._low_ranks.items() if key in map(self._simplify, (best, points[0]))
        }
        return best

    def _get_best(self, points: Iterable[Settings]) -> Settings:
        """The point with the largest mean NDCG, of points that have been tried."""
        return max(points, key=lambda point: self.trials[point].mean)

    def _try(self, points: list[Settings], *, by_cost: bool = False) -> None:
        """Score points, on request also by what their decisions cost; the systems of neighbors are solved together."""
        if not points:
            return
        regression = self._get_regression(max(point.neighbors for point in points))
        keys = list(dict.fromkeys(self._simplify(point) for point in points))
        low_ranks = [self._get_low_rank(key) for key in keys]
        factored = [low_rank.split() for low_rank in low_ranks]
        ranks = [low_rank.rank for low_rank in low_ranks]
        # Neighbors are fitted to the residual of the balanced U of the same strength.
        bases = [key if self._is_balanced(key) else key._replace(cost_ratio=1.0, reg_sparse=1.0) for key in keys]
        places = {base: place for place, base in enumerate(dict.fromkeys(bases))}
        balanced = [
            factored[keys.index(base)] if self._is_balanced(base) and base in keys else self._threshold(base).split()
            for base in places
        ]
        del low_ranks
        unit = regression.mean_diagonal
        ridges = list(dict.fromkeys(Ridge(p.neighbors, p.reg_neighbors * unit) for p in points if p.neighbors))
        solved = regression.solve(balanced, ridges)
        for place, key in enumerate(keys):
            mine = [point for point in points if self._simplify(point) == key]
            weights = []
            for point in mine:
                if point.neighbors:
                    ridge = Ridge(point.neighbors, point.reg_neighbors * unit)
                    weights.append(solved[places[bases[place]], ridges.index(ridge)])
                else:
                    weights.append(np.zeros(regression.support.shape, np.float32))
            all_scores = self._measure_ndcg(factored[place], regression, weights)
            for point, its, scores in zip(mine, weights, all_scores, strict=True):
                costs = self._measure_cost(factored[place], regression, its) if by_cost else None
                self.trials[point] = SettingsTrial(ranks[place], scores, costs)

    # Models

    def _get_low_rank(self, point: Settings) -> LowRank:
        """U: the soft-thresholded SVD or, where that is not the solution, the result of a few steps from there."""
        point = self._simplify(point)
        if point not in self._low_ranks:
            problem, found = self.built.with_settings(point).problem, self._threshold(point)
            if problem.is_slack:
                # The SVD is far from the solution where V explains much.
                found = solve(problem, Options(_LOOSE_GAP, rank_cap=point.max_rank, seed=self.built.seed)).low_rank
            elif not problem.is_one_shot:
                found = improve(
                    problem, found, Options(_SMALL_GAIN, _FEW_STEPS, rank_cap=point.max_rank, seed=self.built.seed)
                )
            self._low_ranks[point] = found
        return self._low_ranks[point]

    def _is_balanced(self, point: Settings) -> bool:
        return is_balanced(self.built.loss, point.cost_ratio, self.built.clicks.values)

    def _simplify(self, point: Settings) -> Settings:
        """The settings that U depends on, the others being 0; with loss II costs only scale it."""
        point = point._replace(neighbors=0, reg_neighbors=0.0, neighbor_scaling=0.0)
        return point._replace(cost_ratio=1.0) if self.built.loss == "II" else point

    def _threshold(self, point: Settings) -> LowRank:
        return self.threshold(point)[0]

    def threshold(self, point: Settings) -> tuple[LowRank, float]:
        """Return the singular triplets of the targets, thresholded, and the threshold.

        Those at 0 are kept as directions to start from.
        """
        built = self.built.with_settings(point._replace(cost_ratio=1.0, reg_sparse=1.0))
        problem, max_rank = built.balance(), point.max_rank
        if self._svd is None or _falls_short(*self._svd, max_rank, problem.l1):
            operator = LowRankPlusSparse(LowRank.zero(problem.pattern), problem.pattern, problem.target)
            # A given strength next to 0 may be 0 in noise levels.
            is_chosen = "strength" in self.space
            above = min(STRENGTHS[0], point.strength) * problem.l1 / point.strength if is_chosen else problem.l1
            found = compute_partial_svd(
                operator,
                np.random.default_rng(self.built.seed),
                above=above,
                cap=max_rank,
                dtype=problem.target.dtype.type,
            )
            self._svd = max_rank, above, found
        u = self._svd[2]
        s = np.maximum(u.s - problem.l1, 0)
        if max_rank is not None:
            s[max_rank:] = 0
        return LowRank(u.left, s, u.right), problem.l1

    def _get_regression(self, neighbors: int) -> Regression:
        """The regression for at most so many neighbors."""
        given, width = self.space.given, MORE_NEIGHBORS if neighbors > NEIGHBORS else NEIGHBORS
        if "neighbors" not in self.space:
            width = given.neighbors
        if width not in self._regressions:
            built = self.built.with_settings(given._replace(cost_ratio=1.0))
            self._regressions[width] = built.build_regression(width, given.neighbor_scaling)
        return self._regressions[width]

    # Scores

    def _measure_ndcg(self, u: Factored, regression: Regression, weights: Sequence[Any]) -> list[Scores]:
        """The NDCG of each user with events held out, for one U and several `weights`, (m, K) each, on the support."""
        engine, heldout = self.built.problem.engine, self.heldout
        rows = np.flatnonzero(np.diff(heldout.indptr))
        if isinstance(engine, RankingEngine):
            ranks = engine.rank_held_out(u, regression, weights, self.clicks, heldout, self.built.genuine)
        else:
            ranks = self._rank_held_out(u, regression, np.stack([engine.get(each) for each in weights]))
        return list(measure_held_out_ndcg(ranks, np.diff(heldout.indptr)[rows], LIST_LENGTH))

    def _rank_held_out(self, u: Factored, regression: Regression, weights: npt.NDArray[np.float32]) -> AnyArray:
        """The rank of each held-out event among its user's unseen items, (w, nnz), on threads of this process."""
        left, right = u[0], self.built.problem.engine.get(u[1])
        item, rows = self.built.scaling.item, np.flatnonzero(np.diff(self.heldout.indptr))
        mine = self.built.problem.engine.get(left, rows).astype(np.float32)
        theirs = (right / item[:, None]).astype(np.float32)
        clicks, heldout = self.clicks, self.heldout
        user = self.built.problem.engine.get(regression.user)
        histories = (user, clicks.indptr, clicks.indices), self.built.genuine
        # Weights of equally many neighbors go together: the others of the support are not looked at.
        one_by_one = range(len(weights) + 1)
        widths = np.array(map_ranges(lambda w, _: _count_used(weights[w]), one_by_one))
        ranks, parts = np.empty((len(weights), heldout.nnz)), []
        for width in np.unique(widths):
            which = np.flatnonzero(widths == width)
            index = regression.index_neighbors(int(width))
            between = np.repeat(item, np.diff(index.indptr)) / item[index.indices]
            flat = np.empty((len(which), len(between)), np.float32)
            fill = partial(_fill_row, flat, [weights[w][:, :width] for w in which], index.places, between)
            run_ranges(fill, range(len(which) + 1))
            parts.append((which, (index.indptr, index.indices), flat, np.empty((len(which), heldout.nnz))))

        def rank(start: int, stop: int) -> None:
            base = mine[start:stop] @ theirs.T
            for _, places, flat, found in parts:
                given = (*histories, places, flat, (heldout.indptr, heldout.indices))
                rank_rows(0, stop - start, base, rows[start:stop], *given, np.empty_like(base[0]), found)

        run_ranges(rank, [*range(0, len(rows), _USERS_AT_ONCE), len(rows)])
        for which, _, _, found in parts:
            ranks[which] = found
        return ranks

    def _measure_cost(self, u: Factored, regression: Regression, weights: Any) -> Scores:
        """The cost of decisions for each user with held-out events, relative to showing nothing; `weights`, (m, K).

        Decisions follow calibrated thresholds; the result is a mean over costs of a miss, the given one times each of
        FUTURE_EVENTS.
        """
        left, right = u
        scaling, n_items, ratio = self.built.scaling, self.clicks.shape[1], self.built.costs.ratio
        left, right, user = (self.built.problem.engine.get(each) for each in (left, right, regression.user))
        solved = self.built.problem.engine.get(weights)
        matrix, scale = make_click_weights(regression, solved, scaling.item), user / scaling.user
        mine = (left / scaling.user[:, None]).astype(np.float32)
        theirs = (right / scaling.item[:, None]).astype(np.float32)

        def score_rows(rows: Rows) -> npt.NDArray[np.float32]:
            scores: npt.NDArray[np.float32] = mine[rows] @ theirs.T
            add_products(scores, self.clicks, rows, matrix, scale, self.built.genuine)
            return scores

        rows, ratios = np.flatnonzero(np.diff(self.heldout.indptr)), ratio * np.array(FUTURE_EVENTS)
        cells = Cells(score_rows, rows, n_items, self.heldout, self.clicks)
        calibration = Calibration.of(cells)
        thresholds = [calibration.threshold(each, 1.0) for each in ratios]
        counts = CellCounts.of(cells, thresholds)
        costs: Scores = (counts.missed + counts.false_alarms / ratios).mean(axis=1) / counts.positives.mean()
        return costs

    def explain_taken(self, settings: Settings) -> str:
        """Return why the trial with the largest mean was not taken; an empty text if it was."""
        points = list(self.trials)
        best = self._get_best(points)
        if settings not in self.trials or self.trials[best].mean <= self.trials[settings].mean:
            return ""
        gains = self.trials[best].scores - self.trials[settings].scores
        gain, error = float(gains.mean()), compute_error(gains)
        found = f"row {points.index(best) + 1} has {self.trials[best].mean:.4f}, {gain:.4f} more, but "
        if gain <= SURE * error:
            return found + f"that is within {SURE:g} standard errors of the difference ({error:.4f} each): noise"
        if (best.max_rank or np.inf) > (settings.max_rank or np.inf):
            return found + f"twice the rank must gain {LEAST_GAIN / 2:.1%} more surely than that"
        return found + "the search changes one setting at a time, and had left it by then"

    def list_columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of `Chosen`."""
        rows = [
            (trial.rank, *point._replace(max_rank=point.max_rank or 0), trial.mean, compute_error(trial.scores))
            for point, trial in self.trials.items()
        ]
        columns = {name: np.array(column) for name, column in zip(TRIAL_COLUMNS, zip(*rows, strict=True), strict=True)}
        costs = [np.nan if trial.costs is None else trial.costs.mean() for trial in self.trials.values()]
        return columns if np.isnan(costs).all() else columns | {COST_COLUMN: np.array(costs)}


def _count_used(weights: AnyArray) -> int:
    """The number of columns of weights, (m, K), up to the last that is not 0."""
    return int(np.flatnonzero(weights.any(axis=0)).max(initial=-1)) + 1


def _fill_row(out: AnyArray, weights: Sequence[AnyArray], places: AnyArray, factors: AnyArray, w: int, _: int) -> None:
    """Fill out[w], (places,), with what weights[w], (m, K), has at these places, times factors, (places,)."""
    np.multiply(weights[w].ravel().take(places), factors, out=out[w])


def _scale_ridge(point: Settings, factor: float) -> Settings:
    return point._replace(reg_neighbors=float(f"{point.reg_neighbors * factor:.2g}"))


def _add_v(point: Settings, reg_sparse: float) -> Settings:
    """The point with V in its problem, and a weaker penalty on the rank, since V explains a part."""
    return _scale_strength(point._replace(reg_sparse=reg_sparse), min(1.0, max(reg_sparse, 1e-3)) ** 0.5)


def _scale_strength(point: Settings, factor: float) -> Settings:
    return point._replace(strength=float(f"{point.strength * factor:.3g}"))


def compute_error(values: Scores) -> float:
    """Return the standard error of a mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def _step_strength(strength: float, step: int) -> float:
    """The next strength in the list, or beyond its ends."""
    at = STRENGTHS.index(strength) + step if strength in STRENGTHS else -1
    return STRENGTHS[at] if 0 <= at < len(STRENGTHS) else float(f"{strength * STEP**step:.3g}")


def _falls_short(known: int | None, above: float, found: LowRank, max_rank: int | None, threshold: float) -> bool:
    """Whether an SVD of at most `known` triplets (None: all) above a value is not enough for another bound or value."""
    if known is not None and (max_rank is None or max_rank > known):
        return True
    # An SVD that the bound on the rank ended has no more triplets above a lower threshold.
    return threshold < 0.999 * above and (known is None or found.width < known)
