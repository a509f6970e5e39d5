"""A fitted CSRR or CSRRe -> one that is fit to judge its clicks, and what it says of user-specific choices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from csrr.data import Log
from csrr.data.ids import Id
from csrr.models.settings import RULE, Settings
from csrr.noise.judged import STRONG
from csrr.noise.noise_scores import LeftOut
from csrr.noise.own_tastes import Preferences, judge_choices
from csrr.parameters import ParameterError
from csrr.threads import use_threads

if TYPE_CHECKING:
    from csrr.models.robust import RobustModel

Model = TypeVar("Model", bound="RobustModel")


def find_judge(model: Model) -> Model:
    """Return the model that tells which clicks are noise: this one, or one like it fitted to its clicks."""
    by_rule = {"reg_low_rank": "noise", "neighbors": 0, "reg_sparse": STRONG, "l1": None, "l2": None, "denoise": 0.0}
    other, log = _copy_with(model, **by_rule), model.costed_log()
    is_exact = model.get_params().get("box", "none") == "none"
    is_strict = model.l2_ is not None and model.l2_ <= STRONG * model.costs_.alpha * (1 + 1e-6)
    if (
        is_exact
        and is_strict
        and model.fitted_.genuine is None
        and np.isclose(model.l1_, other.strength(log), rtol=1e-3)
    ):
        return model
    return other.fit(log, start=model)


def make_strict(model: Model, log: Log) -> Model:
    """Return a new model with these parameters, but a `reg_sparse` that is fit to judge a log."""
    share = RULE.reg_sparse if model.reg_sparse == "auto" else model.reg_sparse
    if model.l2 is not None:
        share = model.l2 / model.resolve_costs(log).with_weight(RULE.cost_ratio).alpha
    return type(model)(**_make_exact_params(model) | {"reg_sparse": min(share, STRONG), "l2": None, "denoise": 0.0})


def refit(model: Model, log: Log, changes: dict[str, Any]) -> Model:
    """Return a model with what this one chose, but for changes, fitted to events of `costed_log`."""
    changed = {name: value for name, value in changes.items() if name in Settings._fields}
    return _copy_with(model, **changes).settled(model.chosen_.settings._replace(**changed)).fit(log)


def leave_out(model: RobustModel) -> LeftOut:
    """Return U without the influence of each cell's own click; ParameterError where U is 0."""
    shape, n_events = model.seen_.shape, model.seen_.nnz
    if model.rank_ == 0 and min(shape) > 1 and n_events < math.prod(shape):
        raise ParameterError("this model has found no common taste (rank 0) to judge clicks by; lower reg_low_rank")
    with use_threads(model.threads, blas=1):
        return model.fitted_.leave_out(model.seen_, model.dtype)


def list_preferences(model: RobustModel, user: Id) -> Preferences:
    """Return a user's entries of V, largest first, each told to be taste or junk."""
    row = model.users_.row(user)
    mine = model.specific_[[row]].tocsr()
    order = np.argsort(-mine.data, kind="stable")
    chosen = mine.indices[order]
    kinds: npt.NDArray[np.str_] = np.empty(0, np.str_)
    support: npt.NDArray[np.floating[Any]] = np.empty(0)
    if len(chosen):
        kinds, support = judge_choices(model.tastes(), row, chosen)
    return Preferences(*model.name_items(chosen), mine.data[order], user, kinds, support)


def _copy_with(model: Model, **changes: Any) -> Model:
    """Return a new model with these parameters and some changes, to be fitted to events of `costed_log`."""
    params = _make_exact_params(model)
    if model.fitted_.clicks.values is not None:
        params |= {"event_weights": "cost", "half_life": None}
    return type(model)(**params | changes)


def _make_exact_params(model: RobustModel) -> dict[str, Any]:
    """Return the parameters, those of the exact solver in place of the paper's; ParameterError without V."""
    params = model.get_params()
    if "reg_sparse" not in params:
        raise ParameterError(f"{type(model).__name__} has no V to tell noise by; fit a CSRR or CSRRe")
    return params | ({"box": "none", "step": "auto"} if params.get("box", "none") != "none" else {})
