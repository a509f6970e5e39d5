"""Parameters and a log -> the problem: what misses cost, how clicks are scaled, how strong the penalties are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from csrr.data import Log
from csrr.models.costs import EVENT_WEIGHTS, ClickCosts, Costs, CostWords, EventWeights
from csrr.models.recommender import FactorModel
from csrr.models.settings import Settings
from csrr.models.strengths import (
    ParameterError,
    Scaling,
    check_auto,
    check_number,
    check_whole,
    noise_level,
    target_norm,
)
from csrr.optim.neighbors import Regression, Support
from csrr.optim.pattern import Floats, Pattern
from csrr.optim.problem import Loss, Problem, build


class Posed(NamedTuple):
    """The words a problem was posed in, which later changes of the parameters must not touch."""

    loss: Loss
    alpha: float
    user_scaling: float
    free: bool = True
    event_weights: EventWeights = "ignore"


@dataclass(frozen=True, eq=False)
class NoiseLevel:
    """The norm of targets, (nnz,), with random signs: taken when it is first asked for, then known."""

    pattern: Pattern
    targets: Floats
    seed: int

    @cached_property
    def value(self) -> float:
        return noise_level(self.pattern, self.targets, self.seed)


@dataclass(frozen=True, eq=False)
class Posing:
    """A problem, and what its numbers were made of."""

    loss: Loss
    problem: Problem
    scaling: Scaling
    costs: Costs
    clicks: ClickCosts
    l2: float | None
    settings: Settings
    noise_level: NoiseLevel

    @property
    def asked(self) -> Floats:
        """What each click asks for, in units of the cost ratio: its scaled target times its own cost, (nnz,)."""
        return self.clicks.times(self.scaling.targets(self.problem.pattern))

    @property
    def noise(self) -> float:
        """The noise level in units of l1: that of the targets times what clicks weigh."""
        # Not the norm of what costs make of the signs: one dear user would set it for all.
        return self.costs.ratio * self.clicks.level * self.noise_level.value

    def at(self, strength: float) -> Posing:
        """The same problem at a strength in noise levels."""
        return replace(self, problem=self.problem.with_strength(strength * self.noise))

    def with_settings(self, settings: Settings) -> Posing:
        """The same clicks with other costs, V and strength."""
        ratio = settings.cost_ratio
        l2 = None if settings.reg_sparse >= 1 else settings.reg_sparse * ratio
        targets = self.scaling.targets(self.problem.pattern)
        pattern, costs = self.problem.pattern, replace(self.costs, ratio=ratio)
        problem = build(pattern, targets, loss=self.loss, cost_ratio=ratio, l1=0.0, l2=l2, costs=self.clicks.values)
        return replace(self, problem=problem, costs=costs, l2=l2, settings=settings).at(settings.strength)

    def regression(self, support: Support, neighbor_scaling: float) -> Regression:
        """The problem of the weights between items; users of X are scaled by that power of their clicks."""
        problem = self.problem
        counts = np.maximum(np.diff(problem.pattern.indptr), 1)
        user = (counts**-neighbor_scaling).astype(problem.target.dtype)
        return Regression(problem.pattern, problem.target, user, self.scaling.item, support)


class PosedModel(FactorModel):
    """A model whose parameters, as arguments or as constants of a subclass, pose CSRR's problem for a log."""

    loss: Loss
    cost_ratio: float | None = None
    positive_cost: float | None = None
    miss_cost: float | None = None
    false_alarm_cost: float | None = None
    recall_weight: float | None = None
    event_weights: EventWeights = "ignore"
    reg_low_rank: float | Literal["auto", "noise"]
    reg_sparse: float | Literal["auto"]
    neighbors: int | Literal["auto"] = 0
    reg_neighbors: float | Literal["auto"] = "auto"
    neighbor_scaling: float = 0.0
    l1: float | None
    l2: float | None
    user_scaling: float
    item_scaling: float
    tol: float
    max_iter: int
    time_limit: float | None
    dtype: Literal["float32", "float64"]
    threads: int
    seed: int

    costs_: Costs

    @classmethod
    def from_costs(
        cls,
        miss: float | None = None,
        false_alarm: float | None = None,
        *,
        positive_cost: float | None = None,
        recall_weight: float | None = None,
        **params: Any,
    ) -> Self:
        """Return a model for costs in your own units: what a miss costs you, and what a false alarm.

        They set the cost ratio of the fit (alpha = miss/false_alarm, Lemma 1) and where it pays to recommend: above the
        probability false_alarm/(miss + false_alarm), `decision_probability`. Instead, `positive_cost` is c_p of
        c_p + c_n = 1, and `recall_weight` is mu_p of mu_p*recall + mu_n*specificity, with T_n/T_p estimated from the
        clicks of the fit.
        """
        words = CostWords(None, positive_cost, miss, false_alarm, recall_weight)
        if not words.are_given:
            raise ParameterError("give miss and false_alarm, or positive_cost, or recall_weight")
        words.check()
        given = {name: value for name, value in words._asdict().items() if value is not None}
        if not given.keys() <= cls._defaults().keys():
            raise ParameterError(f"{cls.__name__} takes no costs: its rho says what a miss weighs; take CSRR or CSRRe")
        model = cls(**given, **params)
        model._cost_words().check()
        return model

    def _check(self) -> None:
        """Raise ParameterError for parameters that make no sense."""
        if self.loss not in ("I", "II"):
            raise ParameterError(f'loss={self.loss!r} must be "I" or "II"')
        if self.dtype not in ("float32", "float64"):
            raise ParameterError(f'dtype={self.dtype!r} must be "float32" or "float64"')
        if self.reg_low_rank != "noise":
            check_auto("reg_low_rank", self.reg_low_rank, least=0)
        check_auto("reg_sparse", self.reg_sparse, least=0)
        for name in ("l1", "l2", "time_limit"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), above=0, most=1e30)
        if self.reg_low_rank == 0 and self.l1 is None:
            raise ParameterError("reg_low_rank=0 keeps every click as it is; give a number > 0")
        for name in ("user_scaling", "item_scaling"):
            check_number(name, getattr(self, name), least=0, most=1)
        if self.neighbors != "auto":
            check_whole("neighbors", self.neighbors, least=0, otherwise='or "auto"')
        check_auto("reg_neighbors", self.reg_neighbors, least=0, most=1e30)
        check_number("neighbor_scaling", self.neighbor_scaling, least=0, most=1)
        check_whole("max_iter", self.max_iter, least=1)
        check_whole("seed", self.seed, least=0)
        check_whole("threads", self.threads, least=0)
        check_number("tol", self.tol, above=0, most=1)
        if self.event_weights not in EVENT_WEIGHTS:
            raise ParameterError(f"event_weights={self.event_weights!r} must be one of {', '.join(EVENT_WEIGHTS)}")
        self._cost_words().check()

    def _cost_words(self) -> CostWords:
        return CostWords(self.cost_ratio, self.positive_cost, self.miss_cost, self.false_alarm_cost, self.recall_weight)

    def _costs(self, log: Log) -> Costs:
        """What a miss costs, in false alarms."""
        return self._cost_words().resolve(log)

    @property
    def decision_probability(self) -> float | None:
        """The probability of a positive above which a recommendation costs less than none: 1/(1 + cost ratio).

        None where no cost was given, and, for a `recall_weight`, before the fit.
        """
        words = self._cost_words()
        if not words.are_given or (words.recall_weight is not None and not self.is_fitted):
            return None
        return (self.costs_ if self.is_fitted else Costs(words._ratio(), "")).probability

    def _pose(self, log: Log, settings: Settings, user_costs: Any = None, item_costs: Any = None) -> Posing:
        """The problem for a log, costs and strengths resolved."""
        costs = self._costs(log)
        if costs.is_default:
            costs = replace(costs, ratio=settings.cost_ratio)
        alpha = costs.ratio
        clicks = ClickCosts.of(log, self.event_weights, user_costs, item_costs, self.dtype)
        clicks.check(alpha, log)
        pattern = Pattern.of(log.to_csr())
        scaling = Scaling.of(pattern, self.user_scaling, self.item_scaling, self.dtype)
        targets = scaling.targets(pattern)
        l1, l2 = self.l1, self.l2
        if l2 is None and settings.reg_sparse < 1:
            l2 = settings.reg_sparse * alpha
        if l1 is None and not isinstance(self.reg_low_rank, str):
            l1 = alpha * self.reg_low_rank * target_norm(pattern, clicks.times(targets), self.seed)
        problem = build(pattern, targets, loss=self.loss, cost_ratio=alpha, l1=l1 or 0.0, l2=l2, costs=clicks.values)
        noise = NoiseLevel(pattern, targets, self.seed)
        posing = Posing(self.loss, problem, scaling, costs, clicks, l2, settings, noise)
        return posing if l1 is not None else posing.at(settings.strength)
