"""A model of the CSRR family fitted again: to tell noise from taste, or with a change to see what stays."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from csrr._base.arrays import BoolArray, FloatArray
from csrr.data.ids import Id
from csrr.data.log import Log
from csrr.models.build_problem import RULE, Settings
from csrr.models.recommend import name_items
from csrr.noise.scores import STRONG
from csrr.noise.tastes import Preferences, judge_choices
from csrr.parameters import ParameterError

if TYPE_CHECKING:
    from csrr.models.csrr_base import CSRRBase

Model = TypeVar("Model", bound="CSRRBase")


def choose_noise_model(model: Model) -> Model:
    """Return the model that tells which clicks of a model are noise: itself, or one like it fitted to its clicks."""
    log = _weigh_by_costs(model)
    by_rule = {"reg_low_rank": "noise", "neighbors": 0, "reg_sparse": STRONG, "l1": None, "l2": None, "denoise": 0.0}
    other = _copy_with(model, by_rule)
    is_exact = model.get_params().get("box", "none") == "none"
    is_strict = model.l2_ is not None and model.l2_ <= STRONG * model.costs_.alpha * (1 + 1e-6)
    is_like_it = is_exact and is_strict and model.fitted_.genuine is None and model.fitted_.gram is None
    if is_like_it and np.isclose(model.l1_, other.strength(log), rtol=1e-3):
        return model
    return other.fit(log, start=model)


def make_strict(model: Model, log: Log) -> Model:
    """Return a new model with these parameters, but a `reg_sparse` small enough to find noise in a log; not fitted."""
    share = RULE.reg_sparse if model.reg_sparse == "auto" else model.reg_sparse
    if model.l2 is not None:
        share = model.l2 / model.resolve_costs(log).with_weight(RULE.cost_ratio).alpha
    strict: dict[str, Any] = {"reg_sparse": min(share, STRONG), "l2": None, "denoise": 0.0}
    return type(model)(**_list_exact_params(model) | strict)


def refit(model: Model, which: BoolArray, changes: dict[str, Any]) -> Model:
    """Return a new model with the settings of this one, but for some changes, fitted to some events, (n_events,)."""
    new = _copy_with(model, changes)
    changed = {name: value for name, value in changes.items() if name in Settings._fields}
    if model.reads_order:
        changed["neighbors"] = 0
    new.fixed_settings = model.chosen_.settings._replace(**changed)
    return new.fit(_weigh_by_costs(model).select(which))


def list_preferences(model: CSRRBase, user: Id) -> Preferences:
    """Return the entries of V of a user, largest first, each judged by the similarities of items."""
    row = model.users_.row(user)
    mine = model.specific_[[row]].tocsr()
    order = np.argsort(-mine.data, kind="stable")
    chosen = mine.indices[order]
    judged = judge_choices(model.tastes(), row, chosen) if len(chosen) else (np.empty(0, np.str_), np.empty(0))
    return Preferences(*name_items(model, chosen), mine.data[order], user, *judged)


def _weigh_by_costs(model: CSRRBase) -> Log:
    """The training events of a model, with the costs of their misses as weights."""
    weights: FloatArray | None = model.fitted_.clicks.values
    return replace(model.training_log(), weights=weights)


def _copy_with(model: Model, changes: dict[str, Any]) -> Model:
    """A new model with these parameters and some changes, to be fitted to events of `_weigh_by_costs`."""
    params = _list_exact_params(model)
    if model.fitted_.clicks.values is not None:
        params |= {"event_weights": "cost", "half_life": None}
    return type(model)(**params | changes)


def _list_exact_params(model: CSRRBase) -> dict[str, Any]:
    """The parameters, those of the exact solver in place of the paper's; ParameterError for a model without V."""
    params = model.get_params()
    if not model.has_v:
        raise ParameterError(f"{type(model).__name__} has no V to tell noise by; fit a CSRR or CSRRe")
    # What came first says nothing about noise.
    changes: dict[str, Any] = {"order": "ignore"} if "order" in params else {}
    return params | changes | ({"box": "none", "step": "auto"} if params.get("box", "none") != "none" else {})
