"""The problem of a log: settings and costs, and from these its targets, weights and penalties.

The paper's parameters (`cost_ratio`, `positive_cost`, `recall_weight`) are both costs and weight. `miss_cost` with
`false_alarm_cost` are the costs of decisions only, and the data decide the weight: the weight with the lowest cost is
seldom the ratio of the costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import numpy as np

from csrr._base.arrays import FloatArray
from csrr._base.threads import seconds_left
from csrr.data.ids import IdMap
from csrr.data.log import Log
from csrr.model_parameters import LEAST_COST, MOST, MOST_COST, UserScaling
from csrr.models.estimator import count_clicks, uses_times, uses_weights
from csrr.noise.scores import STRONG, LeaveOneOut, score_noise
from csrr.numerics.factored import Factors, ItemSide
from csrr.numerics.krylov import LowRankPlusSparse, estimate_spectral_norm
from csrr.numerics.neighbors import Regression, find_nearest
from csrr.numerics.problem import Loss, LowRank, Pattern, Problem, build
from csrr.numerics.solver import Options, guess_low_rank, solve
from csrr.parameters import Number, ParameterError, Whole
from csrr.registry import find_engine

if TYPE_CHECKING:
    from csrr.data.spread import SpreadLog
    from csrr.models.csrr_base import CSRRBase

AUTO_NOISE_MULTIPLE = 0.5
"""`reg_low_rank="noise"`: l1 in units of the norm of the targets with random signs."""


class Settings(NamedTuple):
    """The settings of a fit, each given by a parameter or chosen.

    `cost_ratio` is the weight of clicks, `strength` l1 in noise levels (`compute_noise_level`), which does not count if
    the model gives l1 or a number for `reg_low_rank`. `max_rank` bounds the rank of U (None: no bound), `reg_sparse` is
    that of U's problem. An event counts for its probability of being genuine to the power `denoise`. `neighbors` is K,
    0 for none, `reg_neighbors` rho over the mean diagonal of X'X, and X is divided by the number of clicks of a user to
    the power `neighbor_scaling`.
    """

    cost_ratio: Annotated[float, Number(above=0)] = 2.0
    strength: Annotated[float, Number(least=0, most=MOST)] = AUTO_NOISE_MULTIPLE
    max_rank: Annotated[int | None, Whole(least=1)] = 1000
    reg_sparse: Annotated[float, Number(least=0, most=MOST)] = 0.85
    neighbors: Annotated[int, Whole()] = 0
    reg_neighbors: Annotated[float, Number(least=0, most=MOST)] = 3.0
    neighbor_scaling: Annotated[float, Number(least=0, most=1)] = 0.0
    denoise: Annotated[float, Number(least=0, most=1)] = 0.0


RULE = Settings()
"""The settings of a fit without a search."""


# Costs

Weighing = Literal["ignore", "cost", "linear", "log"]
"""The use of the weights of events: `event_weights`, resolved where it was "auto"."""
Ratio = Annotated[float, Number("What a miss costs, in false alarms.", least=LEAST_COST, most=10 * MOST_COST)]
Weight = Annotated[float | None, Number("What a click weighs in the fit.", least=LEAST_COST, most=10 * MOST_COST)]
_LIMITS = f"that must be {LEAST_COST:g} to {MOST_COST:g}"


@dataclass(frozen=True)
class Costs:
    """The cost of a miss in false alarms (`ratio`), where that comes from (`words`), and the weight of clicks.

    `weight` is that of a click in the fit, where other cells have weight 1; None before it is chosen. With
    `decides_only`, costs are those of decisions alone: costs of users and items then set thresholds, not weights.
    """

    ratio: Ratio
    words: str
    weight: Weight = None
    is_default: bool = False
    decides_only: bool = False

    @classmethod
    def literal(cls, ratio: float, words: str) -> Costs:
        """Return costs that are also the weight."""
        return cls(ratio, words, ratio)

    def with_weight(self, weight: float) -> Costs:
        """Return the costs with a weight if it was left open; if no costs were given, the ratio is the weight."""
        if self.weight is not None:
            return self
        return replace(self, weight=weight, ratio=weight if self.is_default else self.ratio)

    @property
    def alpha(self) -> float:
        """The weight, once it is known."""
        assert self.weight is not None, "the weight of clicks was not chosen"
        return self.weight

    def __str__(self) -> str:
        words = f"a miss costs {self.ratio:.4g} false alarms ({self.words})"
        return words + (f"; clicks weigh {self.weight:.4g} in the fit" if self.decides_only and self.weight else "")


class CostSpec(NamedTuple):
    """The parameters for the cost of a miss. At most one way may be used; beside a pair, `cost_ratio` is the weight."""

    cost_ratio: float | None = None
    positive_cost: float | None = None
    miss_cost: float | None = None
    false_alarm_cost: float | None = None
    recall_weight: float | None = None

    @property
    def is_given(self) -> bool:
        """Whether any cost is given."""
        return any(value is not None for value in self)

    @property
    def gives_weight(self) -> bool:
        """Whether the weight of clicks in the fit is given."""
        return any(value is not None for value in (self.cost_ratio, self.positive_cost, self.recall_weight))

    def check(self) -> None:
        """Raise ParameterError for invalid costs, or costs that are given twice."""
        pair = self.miss_cost is not None or self.false_alarm_cost is not None
        ways = [self.cost_ratio is not None and not pair, self.positive_cost is not None, pair]
        if sum(ways) + (self.recall_weight is not None) > 1:
            raise ParameterError(
                "give the cost once: cost_ratio, or positive_cost, or miss_cost with false_alarm_cost (and, if you want"
                " to, cost_ratio for the weight of clicks), or recall_weight"
            )
        if pair and (self.miss_cost is None or self.false_alarm_cost is None):
            raise ParameterError("miss_cost and false_alarm_cost go together")
        if self.recall_weight is None:
            self.compute_ratio()

    def resolve(self, log: Log | SpreadLog) -> Costs:
        """Return the costs (Lemma 1: alpha = c_p/c_n, or mu_p*T_n/(mu_n*T_p)), with T_n/T_p from the log."""
        if self.miss_cost is not None:
            return Costs(self.compute_ratio(), "as given", self.cost_ratio, decides_only=True)
        if not self.is_given:
            return Costs(self.compute_ratio(), "the default", is_default=True)
        if self.recall_weight is None:
            return Costs.literal(self.compute_ratio(), "as given")
        cells = log.n_users * log.n_items
        if len(log) == cells:
            raise ParameterError("recall_weight needs cells without a click, and these data have none; give cost_ratio")
        odds = (cells - len(log)) / len(log)
        ratio = odds * self.recall_weight / (1 - self.recall_weight)
        return Costs.literal(
            _check_ratio(ratio, f"recall_weight={self.recall_weight!r} with T_n/T_p = {odds:.4g}"),
            f"recall_weight={self.recall_weight:g} with T_n/T_p = {odds:.4g}, estimated from the clicks: positives that"
            " nobody clicked count as negatives",
        )

    def compute_ratio(self) -> float:
        """Return the cost of a miss in false alarms, where it does not depend on the data."""
        if self.positive_cost is not None:
            ratio, said = self.positive_cost / (1 - self.positive_cost), f"positive_cost={self.positive_cost!r}"
        elif self.miss_cost is not None and self.false_alarm_cost is not None:
            ratio = self.miss_cost / self.false_alarm_cost
            said = f"miss_cost={self.miss_cost!r} with false_alarm_cost={self.false_alarm_cost!r}"
        elif self.cost_ratio is not None:
            return float(self.cost_ratio)
        else:
            return RULE.cost_ratio
        return _check_ratio(ratio, said)


def _check_ratio(ratio: float, said: str) -> float:
    if not LEAST_COST <= ratio <= MOST_COST:
        raise ParameterError(f"{said} makes a miss cost {ratio:.3g} false alarms; {_LIMITS}")
    return float(ratio)


@dataclass(frozen=True, eq=False)
class ClickCosts:
    """Factors on the model's cost of a miss, by click.

    `values` has shape (nnz,), in row order, or is None where all are 1. `user`, shape (n_users,) or None, and `item`,
    shape (n_items,) or None, are the factors by user and item; with `decides_only` they are not part of `values`.
    Weights of events were divided by `mean`, as weights in new histories are.
    """

    values: FloatArray | None = None
    item: FloatArray | None = None
    mean: float = 1.0
    user: FloatArray | None = None
    decides_only: bool = False

    @classmethod
    def of(
        cls, log: Log, weights: Weighing, user_costs: Any, item_costs: Any, dtype: Any, *, decides_only: bool
    ) -> ClickCosts:
        """Return the costs of a log's clicks: by its weights and, unless these only decide, its users and its items."""
        user = _read_by_id("user_costs", user_costs, log.users)
        item = _read_by_id("item_costs", item_costs, log.items)
        by_item, by_user = (None if each is None else each.astype(dtype) for each in (item, user))
        if decides_only:
            item = user = None
        mean, values = 1.0, np.ones(len(log))
        if weights != "ignore":
            if log.weights is None:
                raise ParameterError.of("event_weights", weights, "needs events with weights, and these have none")
            values = _transform(log.weights, weights)
            mean = 1.0 if weights == "cost" else float(values.mean())
            values = values / mean
        elif user is None and item is None:
            return cls(None, by_item, 1.0, by_user, decides_only)
        if user is not None:
            values = values * user[log.user_rows]
        if item is not None:
            values = values * item[log.item_rows]
        return cls(values.astype(dtype), by_item, mean, by_user, decides_only)

    @property
    def level(self) -> float:
        """The root mean square of the factors: they raise the norm of noise by this if they fall at random."""
        return 1.0 if self.values is None else float(np.sqrt(np.mean(self.values.astype(np.float64) ** 2)))

    def multiply(self, pattern: Pattern, targets: FloatArray) -> FloatArray:
        """Return the target of each click times its factor, (nnz,)."""
        return targets if self.values is None else targets * pattern.engine.put_cells(pattern, self.values)

    def check(self, ratio: float, log: Log) -> None:
        """Raise ParameterError where a click's cost is beyond the range in which the problem can be solved."""
        if self.values is None:
            return
        at = _find_outside(ratio * self.values)
        if at is not None:
            user, item = _format_id(log.users, log.user_rows[at]), _format_id(log.items, log.item_rows[at])
            raise ParameterError(
                f"the miss of item {item} by user {user} would cost {ratio * self.values[at]:.3g} false alarms;"
                f" {_LIMITS}: give costs nearer to each other" + (', or event_weights="log"' if self.mean != 1 else "")
            )

    def check_decisions(self, ratio: float) -> None:
        """Raise ParameterError where the cost of a decision is out of range."""
        for name, factors in (("user_costs", self.user), ("item_costs", self.item)):
            if self.decides_only and factors is not None and (at := _find_outside(ratio * factors)) is not None:
                raise ParameterError(
                    f"{name}: a factor of {factors[at]:g} makes a miss cost {ratio * factors[at]:.3g} false alarms;"
                    f" {_LIMITS}"
                )

    def get_factors(self, user_rows: Any, item_rows: Any) -> Any:
        """Return the factors of cells for decisions, in the common shape of the rows; unknown ones, at -1, have 1."""
        factors = np.ones(np.broadcast_shapes(np.shape(user_rows), np.shape(item_rows)))
        if self.decides_only and self.user is not None:
            factors *= np.where(user_rows >= 0, self.user[user_rows], 1)
        if self.decides_only and self.item is not None:
            factors *= np.where(item_rows >= 0, self.item[item_rows], 1)
        return factors

    def select_row(self, indptr: Any, row: int) -> FloatArray | None:
        """Return the costs of one user's clicks, shape (number of clicks,)."""
        return None if self.values is None else self.values[indptr[row] : indptr[row + 1]]

    def get_typical_weight(self, kind: Weighing) -> float:
        """Return the weight of an average click, for clicks of new histories without weights."""
        return float(np.expm1(self.mean)) if kind == "log" else self.mean

    def resolve_new(self, pattern: Pattern, weights: FloatArray, kind: Weighing, ratio: float) -> FloatArray | None:
        """Return the factors for the clicks of new histories, shape (nnz,)."""
        if self.values is None:
            return None
        values = np.ones(pattern.nnz) if kind == "ignore" else _transform(weights, kind) / self.mean
        if self.item is not None and not self.decides_only:
            values = values * self.item[pattern.indices]
        at = _find_outside(ratio * values)
        if at is not None:
            said = f"weight {weights[at]:g} in a history makes a miss cost {ratio * values[at]:.3g} false alarms"
            raise ParameterError(f"{said}; {_LIMITS}")
        return values.astype(self.values.dtype)


def _find_outside(costs: Any) -> int | None:
    """Return the position of the first cost, in false alarms, that is out of range, or None."""
    bad = np.flatnonzero(~((costs >= LEAST_COST) & (costs <= MOST_COST)))
    return int(bad[0]) if bad.size else None


def _transform(weights: Any, kind: Weighing) -> Any:
    values = weights.astype(np.float64)
    return np.log1p(values) if kind == "log" else values


def _read_by_id(name: str, given: Any, ids: IdMap) -> Any:
    """Return a cost for each id, shape (len(ids),), of a mapping (1 where it has none) or of as many numbers."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        costs = np.ones(len(ids))
        if given:
            costs[ids.rows(list(given), name.split("_")[0])] = _read_numbers(name, list(given.values()))
    else:
        costs = _read_numbers(name, given)
        if costs.shape != (len(ids),):
            raise ParameterError(
                f"{name} has shape {costs.shape}, but there are {len(ids)} {name.split('_')[0]}s; give a mapping from"
                " ids to costs, or one number for each in the order of the log's ids"
            )
    bad = np.flatnonzero(~(np.isfinite(costs) & (costs > 0)))
    if bad.size:
        raise ParameterError(f"{name}: {costs[bad[0]]:g} for {_format_id(ids, bad[0])} must be a finite number > 0")
    return costs


def _format_id(ids: IdMap, row: Any) -> str:
    """An id as Python code."""
    return repr(ids.ids[[row]].tolist()[0])


def _read_numbers(name: str, values: Any) -> Any:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise ParameterError(f"{name} must be a mapping from ids to numbers, or an array of numbers") from None


# Problems


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


def estimate_genuine(left: LeaveOneOut, seed: int, sampled: int | None = None) -> FloatArray:
    """Return the probability that each click is genuine, (nnz,): the lower one of two.

    Noise may fall evenly over the items, as accidents do, or by their popularity. `sampled` items stand for more.
    """
    worst: FloatArray = np.maximum(*(score_noise(left, power, seed, sampled).scores for power in (0.0, 1.0)))
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
