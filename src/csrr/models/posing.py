"""Parameters and a log -> the problem: what misses cost, how clicks are scaled, how strong the penalties are."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Self

from csrr.data import Log
from csrr.models.costs import EVENT_WEIGHTS, ClickCosts, Costs, CostWords, EventWeights
from csrr.models.recommender import FactorModel
from csrr.models.strengths import (
    AUTO_NOISE_MULTIPLE,
    ParameterError,
    Scaling,
    check_auto,
    check_number,
    check_whole,
    noise_level,
    target_norm,
)
from csrr.optim.pattern import Floats, Pattern
from csrr.optim.problem import Loss, Problem, build
from csrr.threads import use_threads


class Posed(NamedTuple):
    """The words a problem was posed in, which later changes of the parameters must not touch."""

    loss: Loss
    alpha: float
    user_scaling: float
    free: bool = True
    event_weights: EventWeights = "ignore"


class Posing(NamedTuple):
    """A problem, and what its numbers were made of."""

    problem: Problem
    scaling: Scaling
    costs: Costs
    clicks: ClickCosts
    l2: float | None

    @property
    def asked(self) -> Floats:
        """What each click asks for, in units of the cost ratio: its scaled target times its own cost, (nnz,)."""
        return self.clicks.times(self.scaling.targets(self.problem.pattern))


class PosedModel(FactorModel):
    """A model whose parameters, as arguments or as constants of a subclass, pose CSRR's problem for a log."""

    loss: Loss
    cost_ratio: float | None = None
    positive_cost: float | None = None
    miss_cost: float | None = None
    false_alarm_cost: float | None = None
    recall_weight: float | None = None
    event_weights: EventWeights = "ignore"
    reg_low_rank: float | Literal["auto"]
    reg_sparse: float
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

    def strength(self, data: Any) -> float:
        """Return the l1 that a fit to `data` would have: what `reg_low_rank` comes to there."""
        self._check()
        with use_threads(self.threads, blas=1):
            return float(self._pose(self._read(data)).problem.l1)

    def _check(self) -> None:
        """Raise ParameterError for parameters that make no sense."""
        if self.loss not in ("I", "II"):
            raise ParameterError(f'loss={self.loss!r} must be "I" or "II"')
        if self.dtype not in ("float32", "float64"):
            raise ParameterError(f'dtype={self.dtype!r} must be "float32" or "float64"')
        check_auto("reg_low_rank", self.reg_low_rank, least=0)
        check_number("reg_sparse", self.reg_sparse, least=0)
        for name in ("l1", "l2", "time_limit"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), above=0, most=1e30)
        if self.reg_low_rank == 0 and self.l1 is None:
            raise ParameterError("reg_low_rank=0 keeps every click as it is; give a number > 0")
        for name in ("user_scaling", "item_scaling"):
            check_number(name, getattr(self, name), least=0, most=1)
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

    def _pose(self, log: Log, user_costs: Any = None, item_costs: Any = None) -> Posing:
        """The problem for a log, costs and strengths resolved."""
        costs = self._costs(log)
        alpha = costs.ratio
        clicks = ClickCosts.of(log, self.event_weights, user_costs, item_costs, self.dtype)
        clicks.check(alpha, log)
        pattern = Pattern.of(log.to_csr())
        scaling = Scaling.of(pattern, self.user_scaling, self.item_scaling, self.dtype)
        targets = scaling.targets(pattern)
        l1 = self.l1
        if l1 is None:
            if isinstance(self.reg_low_rank, str):
                # Not the norm of what costs make of the signs: one dear user would set it for all.
                l1 = alpha * clicks.level * AUTO_NOISE_MULTIPLE * noise_level(pattern, targets, self.seed)
            else:
                l1 = alpha * self.reg_low_rank * target_norm(pattern, clicks.times(targets), self.seed)
        l2 = self.l2
        if l2 is None:
            l2 = None if self.reg_sparse >= 1 else self.reg_sparse * alpha
        problem = build(pattern, targets, loss=self.loss, cost_ratio=alpha, l1=l1, l2=l2, costs=clicks.values)
        return Posing(problem, scaling, costs, clicks, l2)
