"""Costs of misses and false alarms: by the model's parameters, by user, item and event; and the weight of clicks.

The paper's parameters (`cost_ratio`, `positive_cost`, `recall_weight`) are both costs and weight. `miss_cost` with
`false_alarm_cost` are the costs of decisions only, and the data decide the weight: the weight with the lowest cost is
seldom the ratio of the costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import numpy as np

from csrr._base.arrays import FloatArray
from csrr.data.ids import IdMap
from csrr.data.log import Log
from csrr.model_parameters import LEAST_COST as LEAST
from csrr.model_parameters import MOST_COST as MOST
from csrr.models.settings import RULE
from csrr.numerics.problem import Pattern
from csrr.parameters import Number, ParameterError

if TYPE_CHECKING:
    from csrr.data.spread import SpreadLog

Weighing = Literal["ignore", "cost", "linear", "log"]
"""The use of the weights of events: `event_weights`, resolved where it was "auto"."""
Ratio = Annotated[float, Number("What a miss costs, in false alarms.", least=LEAST, most=10 * MOST)]
Weight = Annotated[float | None, Number("What a click weighs in the fit.", least=LEAST, most=10 * MOST)]


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
        if self.weight is None:
            raise AssertionError("the weight of clicks was not chosen")
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
    if not LEAST <= ratio <= MOST:
        raise ParameterError(f"{said} makes a miss cost {ratio:.3g} false alarms; that must be {LEAST:g} to {MOST:g}")
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
                f"the miss of item {item} by user {user} would cost {ratio * self.values[at]:.3g} false alarms; that"
                f" must be {LEAST:g} to {MOST:g}: give costs nearer to each other"
                + (', or event_weights="log"' if self.mean != 1 else "")
            )

    def check_decisions(self, ratio: float) -> None:
        """Raise ParameterError where the cost of a decision is out of range."""
        for name, factors in (("user_costs", self.user), ("item_costs", self.item)):
            if self.decides_only and factors is not None and (at := _find_outside(ratio * factors)) is not None:
                raise ParameterError(
                    f"{name}: a factor of {factors[at]:g} makes a miss cost {ratio * factors[at]:.3g} false alarms;"
                    f" that must be {LEAST:g} to {MOST:g}"
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
            raise ParameterError(
                f"weight {weights[at]:g} in a history makes a miss cost {ratio * values[at]:.3g} false alarms; that"
                f" must be {LEAST:g} to {MOST:g}"
            )
        return values.astype(self.values.dtype)


def _find_outside(costs: Any) -> int | None:
    """Return the position of the first cost, in false alarms, that is out of range, or None."""
    bad = np.flatnonzero(~((costs >= LEAST) & (costs <= MOST)))
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
