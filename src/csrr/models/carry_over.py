"""A fitted CSRR or relative -> where a fit to more events begins: its settings, costs and factors, by id."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from csrr.arrays import BoolArray, FloatArray
from csrr.data import IdMap, Log
from csrr.models.build_problem import ClickProblem
from csrr.models.choose_settings import Chosen
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
    clicks, known = model.fitted_.clicks, model.training_log()
    user, item = clicks.user, clicks.item
    if user is None and clicks.values is not None and model.fitted_.words.event_weights == "ignore":
        # Files from before users' costs were kept: that of a click is its user's times its item's.
        user = np.ones(len(model.users_))
        user[known.user_rows] = clicks.values / (1.0 if item is None else item[known.item_rows])
        user = None if np.allclose(user, 1, rtol=1e-5, atol=0) else user
    return _place_costs(user, model.users_, log.users), _place_costs(item, model.items_, log.items)


def _place_costs(costs: Any, known: IdMap, joined: IdMap) -> Any:
    """Return costs of known ids, (n_known,), at the rows of joined ids, (n_joined,), 1 for those that are new."""
    if costs is None:
        return None
    placed, is_new = place_rows_by_id(costs, known, joined)
    placed[is_new] = 1
    return placed


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
