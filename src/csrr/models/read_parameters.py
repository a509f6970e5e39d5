"""The parameters of CSRR and its relatives -> what they ask for: costs, strengths, and what is left to the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from csrr.models.build_problem import build_problem
from csrr.models.choose_settings import choose_settings
from csrr.models.costs import CostWords
from csrr.models.settings import RULE, Settings
from csrr.models.settings_search import Wanted
from csrr.parameters import ParameterError, list_defaults
from csrr.threads import use_threads

if TYPE_CHECKING:
    from csrr.models.robust import RobustModel

Model = TypeVar("Model", bound="RobustModel")


def make_from_costs(kind: type[Model], words: CostWords, params: dict[str, Any]) -> Model:
    """Return a new model for costs in words other than the ratio; ParameterError for none, or a model without costs."""
    if not words.are_given:
        raise ParameterError("give miss and false_alarm, or positive_cost, or recall_weight")
    given = {name: value for name, value in words._asdict().items() if value is not None}
    if not given.keys() <= list_defaults(kind).keys():
        raise ParameterError(f"{kind.__name__} takes no costs: its rho says what a miss weighs; take CSRR or CSRRe")
    model = kind(**given, **params)
    model.check_params()
    return model


def find_wanted(model: RobustModel, settled: Settings | None) -> Wanted:
    """Return what the parameters give and what they leave open; `settled` are settings in place of all that."""
    names = ("reg_sparse", "neighbors", "reg_neighbors", "denoise")
    given = {name: getattr(model, name) for name in names if getattr(model, name) != "auto"}
    settings, left = RULE._replace(neighbor_scaling=model.neighbor_scaling, **given), set(names) - set(given)
    if model.l1 is None and model.reg_low_rank == "auto":
        left.add("strength")
    if model.l2 is not None or "strength" not in left:
        # The problem of U is given, or as good as.
        left -= {"reg_sparse", "denoise"}
    if {"strength", "reg_sparse"} <= left and model.loss == "I" and not model.cost_words.give_weight:
        left.add("cost_ratio")
    if model.max_rank != "auto":
        settings = settings._replace(max_rank=model.max_rank)
    elif "strength" in left:
        left.add("max_rank")
    return Wanted(settings, frozenset(left), settled)


def find_strength(model: RobustModel, data: Any) -> float:
    """Return the l1 that a fit to data would have."""
    model.check_params()
    with use_threads(model.threads, blas=1):
        log = model.weigh(model.read(data))
        return float(build_problem(model, log, choose_settings(model, log).settings).problem.l1)


def settle_params(model: RobustModel) -> dict[str, Any]:
    """Return numbers for the parameters that a fitted model left open."""
    settings, params = model.chosen_.settings, model.get_params()
    found = {
        "reg_sparse": 1.0 if model.l2_ is None else model.l2_ / model.costs_.alpha,
        **{name: getattr(settings, name) for name in ("max_rank", "neighbors", "reg_neighbors", "denoise")},
    }
    found = {name: value for name, value in found.items() if params.get(name) == "auto"}
    if params["reg_low_rank"] in ("auto", "noise") and model.l1 is None:
        found["l1"] = model.l1_
    if "cost_ratio" in params and not model.cost_words.give_weight:
        found["cost_ratio"] = model.costs_.alpha
    return found


def check_precision(tol: float, dtype: str) -> None:
    """Raise ParameterError for a gap that a precision cannot resolve."""
    smallest = 1e-5 if dtype == "float32" else 1e-12
    if tol < smallest:
        raise ParameterError(
            f"tol={tol!r} is beyond {dtype}, which resolves a relative gap of {smallest:g}"
            + ('; use dtype="float64"' if dtype == "float32" else "")
        )
