"""A fitted CSRR or relative -> where a fit to more events begins: its settings, costs and factors, by id."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from csrr.arrays import BoolArray, FloatArray
from csrr.data import Log
from csrr.models.build_problem import ClickProblem
from csrr.models.choose_settings import Chosen
from csrr.models.costs import ClickCosts
from csrr.models.join_events import place_rows_by_id
from csrr.models.settings import Settings
from csrr.optim.factored import Factors
from csrr.optim.foldin import ItemSide, fold_in
from csrr.optim.lowrank import LowRank
from csrr.optim.problem import Problem, select_rows

if TYPE_CHECKING:
    from csrr.models.robust import RobustModel

_ROUGH = 0.01
"""How far new rows are folded in: the solver moves them anyway."""


def carry_settings(model: RobustModel) -> Chosen:
    """Return what the model's fit chose, for what its parameters still leave open."""
    wanted, chosen = model.wanted(), model.chosen_
    kept = {name: getattr(chosen.settings, name) for name in Settings._fields if name in wanted}
    return replace(chosen, settings=wanted.given._replace(**kept))


def carry_costs(model: RobustModel, log: Log) -> tuple[Any, Any]:
    """Return the costs of a log's users and items, (n_users,) and (n_items,), by what they were in the fit: 1 for those
    that are new, and None for either where the fit had none.
    """
    clicks = model.fitted_.clicks
    if clicks.values is None:
        return None, None
    known = replace(model.training_log(), weights=model.seen_weights_, times=model.seen_times_)
    # What a click costs is its weight's share times its user's cost times its item's.
    by_weight = ClickCosts.of(model.weigh(known), model.weighing, None, None, np.float64).values
    of_user = clicks.values.astype(np.float64) / (1.0 if by_weight is None else by_weight)
    items = None
    if clicks.item is not None:
        of_user /= clicks.item[known.item_rows]
        items = np.ones(log.n_items)
        items[log.items.rows(model.items_.ids, "item")] = clicks.item
    if np.allclose(of_user, 1, rtol=1e-5, atol=0):
        return None, items
    users = np.ones(log.n_users)
    users[log.users.rows(model.users_.ids)[known.user_rows]] = of_user
    return users, items


def carry_factors(model: RobustModel, log: Log, built: ClickProblem) -> LowRank | None:
    """Return U for a problem over a log's users and items: the model's, by id, and new rows folded in.

    None where there is no U, or its penalty alone makes it worse than nothing: a file may hold any.
    """
    fitted, problem, scaling = model.fitted_, built.problem, built.scaling
    if fitted.users.shape[1] == 0:
        return None
    users, new_users = place_rows_by_id(fitted.users, model.users_, log.users)
    items, new_items = place_rows_by_id(fitted.items, model.items_, log.items)
    dtype = problem.target.dtype
    users = (users * scaling.user[:, None]).astype(dtype)
    items = (items * scaling.item[:, None]).astype(dtype)
    users[new_users] = _fold_rows(problem, new_users, items)
    items[new_items] = _fold_rows(problem.T, new_items, users)
    start = Factors(users, items).to_low_rank(problem.engine)
    is_better = problem.l1 * float(start.s.sum()) < problem.value_at_zero
    return start if is_better else None


def _fold_rows(problem: Problem, which: BoolArray, other: FloatArray) -> FloatArray:
    """Return the best factors of some rows of a problem, (rows, k), given those of the other side, (m, k)."""
    if not which.any():
        return np.zeros((0, other.shape[1]), other.dtype)
    return fold_in(select_rows(problem, which), ItemSide.of(other, problem.l1, problem.engine), tol=_ROUGH)
