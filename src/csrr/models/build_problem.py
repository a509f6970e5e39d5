"""The problem of a log: its targets, weights and penalties, from the parameters and settings of a model."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from csrr._base.arrays import AnyArray, FloatArray
from csrr._base.threads import seconds_left
from csrr.data.log import Log
from csrr.model_parameters import UserScaling
from csrr.models.costs import ClickCosts, Costs, Ratio, Weighing
from csrr.models.engines import find_engine
from csrr.models.estimator import uses_times, uses_weights
from csrr.models.settings import RULE, Settings
from csrr.noise.scores import STRONG, LeaveOneOut, score_noise
from csrr.numerics.factored import Factors, ItemSide
from csrr.numerics.krylov import LowRankPlusSparse, estimate_spectral_norm
from csrr.numerics.neighbors import Regression, find_nearest
from csrr.numerics.problem import Loss, LowRank, Pattern, Problem, build
from csrr.numerics.solver import Options, guess_low_rank, solve
from csrr.parameters import ParameterError

if TYPE_CHECKING:
    from csrr.models.csrr_base import CSRRBase


def count_clicks(clicks: Any, amounts: FloatArray | None = None) -> AnyArray:
    """Return the number of clicks of each user of a pattern or csr, at least 1, or the sum of their `amounts`: (n,)."""
    sums = None if amounts is None else np.concatenate([[0.0], np.cumsum(amounts, dtype=np.float64)])
    counts: AnyArray = np.maximum(np.diff(clicks.indptr if sums is None else sums[clicks.indptr]), 1)
    return counts


@dataclass(frozen=True, eq=False)
class Scaling:
    """The factors on clicks by user and by item, D_u^-a and D_i^-b, (n,) and (m,)."""

    user: FloatArray
    item: FloatArray

    @classmethod
    def of(
        cls,
        pattern: Pattern,
        user_power: float,
        item_power: float,
        dtype: Any = np.float32,
        amounts: FloatArray | None = None,
    ) -> Scaling:
        users = count_clicks(pattern, amounts)
        items = np.maximum(pattern.count_items(amounts), 1)
        return cls((users ** -float(user_power)).astype(dtype), (items ** -float(item_power)).astype(dtype))

    def make_targets(self, pattern: Pattern) -> FloatArray:
        """Return the scaled targets in (0, 1], (nnz,)."""
        return pattern.engine.scale_cells(pattern, pattern.engine.put(pattern, self.user), self.item)


def compute_target_norm(pattern: Pattern, targets: FloatArray, seed: int) -> float:
    """Return ||T||_2, rounded up: times alpha, it is an l1 at which U is 0."""
    zero = LowRank.zero(pattern, targets.dtype.type)
    operator = LowRankPlusSparse(zero, pattern, targets)
    norm = estimate_spectral_norm(operator, np.random.default_rng(seed), dtype=targets.dtype.type)[0]
    return norm * (1 + 100 * float(np.finfo(targets.dtype).eps))


def compute_noise_level(pattern: Pattern, targets: FloatArray, seed: int) -> float:
    """Return ||T o random signs||_2: the norm that the same clicks would have if they were noise."""
    return compute_target_norm(pattern, targets * pattern.draw_signs(seed, targets.dtype), seed)


class ProblemSpec(NamedTuple):
    """The parameters that a problem was built with, which later changes of the model's parameters must not affect."""

    loss: Loss
    alpha: Ratio
    user_scaling: UserScaling
    free: bool = True
    event_weights: Weighing = "ignore"


@dataclass(frozen=True, eq=False)
class ClickProblem:
    """The problem of a log's clicks, and the data it was built from.

    `compute_noise` returns the norm of the targets with random signs; it computes once. `genuine`, (nnz,), is what each
    click counts for; None: 1.
    """

    loss: Loss
    problem: Problem
    scaling: Scaling
    costs: Costs
    clicks: ClickCosts
    l2: float | None
    settings: Settings
    compute_noise: Callable[[], float]
    seed: int
    weighing: Weighing = "ignore"
    genuine: FloatArray | None = None

    @property
    def targets(self) -> FloatArray:
        """The scaled targets, (nnz,)."""
        return make_targets(self.problem.pattern, self.scaling, self.genuine)

    @property
    def weighted_targets(self) -> FloatArray:
        """The scaled target of each click times its own cost, (nnz,)."""
        return self.clicks.multiply(self.problem.pattern, self.targets)

    @property
    def is_balanced(self) -> bool:
        """Whether neighbors are fitted to the residual of U itself."""
        return is_balanced(self.loss, self.costs.alpha, self.clicks.values)

    def balance(self) -> Problem:
        """Return the problem with equal weights of all cells, without V, at the strength for them: for one SVD."""
        problem = self.problem
        if self.loss == "II":
            return replace(problem, v_penalty=None)
        l1 = problem.l1 / (self.costs.alpha * self.clicks.level)
        return Problem(problem.pattern, problem.target, 0 * problem.weight + 1, None, l1)

    def compute_balanced(self) -> LowRank:
        """Return U of the balanced problem, whose residual neighbors are fitted to, with spare directions.

        Weights of clicks raise U on unobserved cells, as they should, and neighbors fitted to that would undo it.
        """
        cap = self.settings.max_rank
        found = guess_low_rank(self.balance(), Options(rank_cap=cap, seed=self.seed))
        return found if cap is None else found.cut(cap)

    @property
    def noise(self) -> float:
        """The noise level in units of l1: that of the targets times the weight of clicks."""
        # Random signs on weighted targets would let a single user with high costs set the level for all.
        return self.costs.alpha * self.clicks.level * self.compute_noise()

    def with_strength(self, strength: float) -> ClickProblem:
        """Return the problem at a strength in noise levels."""
        return replace(self, problem=self.problem.with_strength(strength * self.noise))

    def with_settings(self, settings: Settings) -> ClickProblem:
        """Return the problem of the same clicks with other costs, V and strength."""
        ratio = settings.cost_ratio
        l2 = None if settings.reg_sparse >= 1 else settings.reg_sparse * ratio
        pattern, costs = self.problem.pattern, replace(self.costs, weight=ratio)
        problem = build(
            pattern, self.targets, loss=self.loss, cost_ratio=ratio, l1=0.0, l2=l2, costs=self.clicks.values
        )
        return replace(self, problem=problem, costs=costs, l2=l2, settings=settings).with_strength(settings.strength)

    def build_regression(self, neighbors: int, neighbor_scaling: float) -> Regression:
        """Return the regression for the weights between items; a power of their number of clicks scales users."""
        problem, pattern, engine = self.problem, self.problem.pattern, self.problem.engine
        amounts = None if self.genuine is None else engine.put_cells(pattern, self.genuine)
        counts = count_clicks(pattern, self.genuine)
        user = engine.put(pattern, (counts ** -float(neighbor_scaling)).astype(problem.target.dtype))
        support = find_nearest(pattern, neighbors, amounts)
        return Regression(pattern, problem.target, user, self.scaling.item, support, amounts)


def make_targets(pattern: Pattern, scaling: Scaling, genuine: FloatArray | None) -> FloatArray:
    """Return the scaled targets, (nnz,), times what each click counts for, (nnz,); None: 1."""
    targets = scaling.make_targets(pattern)
    return targets if genuine is None else targets * pattern.engine.put_cells(pattern, genuine)


def is_balanced(loss: Loss, cost_ratio: float, costs: FloatArray | None) -> bool:
    """Return whether clicks weigh hardly more than other cells: `costs`, (nnz,), are their own; None: all alike."""
    return loss == "II" or (costs is None and cost_ratio <= RULE.cost_ratio)


def build_problem(
    model: CSRRBase,
    log: Log,
    settings: Settings,
    user_costs: Any = None,
    item_costs: Any = None,
    genuine: FloatArray | None = None,
) -> ClickProblem:
    """Return the problem of a log, by a model's parameters and by settings for those that are left open.

    `genuine`, (n_events,), are the probabilities that events are genuine, if known: `estimate_genuine_events`.
    """
    amounts = None
    if settings.denoise:
        if genuine is None:
            plain = build_problem(model, log, settings._replace(denoise=0.0), user_costs, item_costs)
            genuine = estimate_genuine_events(plain)
        amounts = (np.maximum(genuine, LEAST_GENUINE) ** settings.denoise).astype(model.dtype)
    costs = model.resolve_costs(log).with_weight(settings.cost_ratio)
    alpha, weighing = costs.alpha, _choose_weighing(model, log)
    clicks = ClickCosts.of(log, weighing, user_costs, item_costs, model.dtype, decides_only=costs.decides_only)
    clicks.check(alpha, log)
    clicks.check_decisions(costs.ratio)
    pattern = Pattern.of(log.to_csr(), find_engine(model.engine))
    return pose_problem(model, pattern, costs, clicks, settings, weighing, amounts)


def pose_problem(
    model: CSRRBase,
    pattern: Pattern,
    costs: Costs,
    clicks: ClickCosts,
    settings: Settings,
    weighing: Weighing = "ignore",
    amounts: FloatArray | None = None,
) -> ClickProblem:
    """Return the problem of clicks, by a model's parameters and by settings for those that are left open.

    `amounts`, (nnz,), are what each click counts for; None: 1.
    """
    alpha = costs.alpha
    scaling = Scaling.of(pattern, model.user_scaling, model.item_scaling, model.dtype, amounts)
    targets = make_targets(pattern, scaling, amounts)
    l1, l2 = model.l1, model.l2
    if l2 is None and settings.reg_sparse < 1:
        l2 = settings.reg_sparse * alpha
    if l1 is None and not isinstance(model.reg_low_rank, str):
        norm = compute_target_norm(pattern, clicks.multiply(pattern, targets), model.seed)
        # A strength next to 0 must not become 0, which no fit may have.
        l1 = max(alpha * model.reg_low_rank * norm, math.ulp(0.0))
    problem = build(pattern, targets, loss=model.loss, cost_ratio=alpha, l1=l1 or 0.0, l2=l2, costs=clicks.values)
    _check_penalties(problem, l2)
    noise = cache(partial(compute_noise_level, pattern, targets, model.seed))
    rest = settings, noise, model.seed, weighing, amounts
    built = ClickProblem(model.loss, problem, scaling, costs, clicks, l2, *rest)
    return built if l1 is not None else built.with_strength(settings.strength)


def _choose_weighing(model: CSRRBase, log: Log) -> Weighing:
    """The use of event weights: as `event_weights` says; with a half-life they always count."""
    kind = model.event_weights
    resolved: Weighing = ("linear" if uses_weights(model, log) else "ignore") if kind == "auto" else kind
    return "linear" if uses_times(model) and resolved == "ignore" else resolved


def _check_penalties(problem: Problem, l2: float | None) -> None:
    """Raise ParameterError if penalties of V are so small that their type has fewer digits for them than for others."""
    of_type = np.finfo(problem.target.dtype)
    if problem.v_penalty is not None and l2 and float(problem.v_penalty.min()) < of_type.tiny / of_type.eps:
        more = "" if of_type.bits == 64 else ', or dtype="float64"'
        raise ParameterError(
            f"penalties of V as small as {float(problem.v_penalty.min()):.3g}, which l2={l2:.3g} makes, are beyond"
            f" {of_type.dtype}; give a larger l2 or reg_sparse, reg_sparse=0{more}"
        )


LEAST_GENUINE = 0.01
"""The least weight of an event, so that every event has a target."""
_NOISE_GAP, _NOISE_TIME = 0.01, 0.3
"""The gap of the fit that estimates noise, and the share of the remaining time that it may take."""


def estimate_genuine_events(built: ClickProblem) -> FloatArray:
    """Return the probability that each event of a problem is genuine, (nnz,), as in `suspects`, at equal costs."""
    strict = built.with_settings(Settings(cost_ratio=1.0, reg_sparse=STRONG)).problem
    options = Options(_NOISE_GAP, time_limit=seconds_left(_NOISE_TIME), rank_cap=RULE.max_rank, seed=built.seed)
    factors = Factors.of(solve(strict, options).low_rank)
    return estimate_genuine(leave_out_own(strict, factors), built.seed)


def estimate_genuine(left: LeaveOneOut, seed: int) -> FloatArray:
    """Return the probability that each click is genuine, (nnz,): the lower one of two.

    Noise may fall evenly over the items, as accidents do, or by their popularity.
    """
    worst: FloatArray = np.maximum(*(score_noise(left, popularity, seed).scores for popularity in (0.0, 1.0)))
    return 1 - worst


def leave_out_own(problem: Problem, factors: Factors) -> LeaveOneOut:
    """Return U on the clicked cells without the influence of each cell's own click.

    A click enters its user's equation with the coefficient c = pull + u and moves u by c*f to first order, where
    1 - f = (1 - h)*(1 - g) and h, g are the leverages of item and user: h = q'(Q'Q + l1*I)^-1 q.
    """
    pattern, engine = problem.pattern, problem.engine
    explained = pattern.dots(factors.users, factors.items)
    # Noise is found from numpy arrays.
    u, pulls = (engine.get(each) for each in (explained, problem.pull(explained) + explained))
    users, items = (engine.get(each) for each in (factors.users, factors.items))
    of_user = _compute_leverages(users, problem)[pattern.rows]
    of_item = _compute_leverages(items, problem)[pattern.indices]
    influence = 1 - (1 - of_user) * (1 - of_item)
    values = (u - pulls * influence).astype(u.dtype)
    return LeaveOneOut(pattern, values, lambda rows, columns: users[rows] @ items[columns].T)


def _compute_leverages(factors: FloatArray, problem: Problem) -> FloatArray:
    """Return f'(F'F + l1*I)^-1 f for each row f of F, a numpy array, shape (len(factors),)."""
    side = ItemSide.of(factors, problem.l1, problem.engine)
    return problem.engine.get(side.turned**2 @ (1 / (side.curvature + side.l1)))
