"""The values that a search may try: a model's own space, the paper's grids, or a space that the caller gives."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from csrr.data.log import Log
from csrr.models.base import Recommender
from csrr.models.search_space import LOW_RANK_WALK, AroundAuto, Range, Ranks, Walk
from csrr.parameters import ParameterError, Whole, list_defaults, list_parameters, list_rivals
from csrr.registry import MODELS

Scalar = str | int | float | bool | None


Dimension = Range | Walk | list[Scalar]
Space = dict[str, Dimension]

_DECADES = [10.0**power for power in range(-5, 3)]
_PAPER_RANKS = list(range(10, 51, 5))
_PLAIN = {
    "positive_cost": [round(0.05 * step, 2) for step in range(10, 20)],
    "l2": _DECADES,
    "user_scaling": [0.0],
    "item_scaling": [0.0],
    "neighbors": [0],
}
_SMALL = [10.0**power for power in range(-6, 1)]
_SHIFT = {"rho": [round(0.1 * step, 1) for step in range(10)], "reg_low_rank": LOW_RANK_WALK}
PAPER: dict[str, dict[str, Any]] = {
    # The step eta of Algorithm 1 has no part here: an exact solver's result does not depend on one.
    "CSRR": {**_PLAIN, "l1": Walk(tuple(_DECADES))},
    "CSRRe": {"factors": ["nonnegative"], "rank": _PAPER_RANKS, **_PLAIN, "l1": _DECADES, "step": _DECADES},
    "PopRank": {},
    "WRMF": {
        "rank": _PAPER_RANKS,
        "reg": [2.0**power for power in range(-5, 1)],
        "confidence": [1.0],
        "reg_exponent": [0.0],
    },
    # "The regularization parameters": one for all factors and one for the biases.
    "BPRMF": {
        "rank": _PAPER_RANKS,
        "learning_rate": [2.0**power for power in range(-6, 3)],
        "reg": _SMALL,
        "reg_negative": [None],
        "reg_bias": _SMALL,
    },
    # The paper names lambda and rho, and no grid; lambda is relative here.
    "MCShift": _SHIFT,
    "BiasMC": _SHIFT,
}
"""The grids of the paper's section on parameters, by model."""


def find_space(name: str, kind: type[Recommender]) -> dict[str, Any]:
    """Return a space of a model: "csrr", the model's own, or "paper", the grid of the paper."""
    if name not in ("csrr", "paper"):
        raise ParameterError(f"space={name!r}: choose csrr, paper, or give a dict of your own")
    found = kind.search_space if name == "csrr" else PAPER.get(kind.__name__)
    if found is None:
        raise ParameterError(f"space={name!r} has nothing for {kind.__name__}; give a dict of your own")
    return dict(found)


def resolve_space(space: str | Mapping[str, Any], model: Recommender, train: Log) -> Space:
    """Return the space of a model, checked, with numbers in place of what the data decides."""
    given = find_space(space, type(model)) if isinstance(space, str) else dict(space)
    _check_names(given, model)
    return {name: _resolve_dimension(name, each, model, train) for name, each in given.items()}


def _check_names(space: Mapping[str, Any], model: Recommender) -> None:
    kind = type(model).__name__
    known, defaults, declared = model.get_params(), list_defaults(type(model)), list_parameters(type(model))
    for name in space:
        if name not in known:
            raise ParameterError(f"space: {kind} has no parameter {name!r}; it has: {', '.join(known) or 'none'}")
        for rival in list_rivals(name, declared):
            if rival in space:
                raise ParameterError(f"space: {name} and {rival} say the same; leave one of them out")
            if rival in known and known[rival] != defaults[rival]:
                raise ParameterError(
                    f"{rival}={known[rival]!r} and {name}, which the space tunes, say the same; leave one of them out"
                )


def _resolve_dimension(name: str, given: Any, model: Recommender, train: Log) -> Dimension:
    if isinstance(given, AroundAuto):
        auto = model.start_value(name, train)
        return Range(auto * given.low, auto * given.high, log=True)
    if isinstance(given, Ranks):
        most = min(train.n_users, train.n_items)
        return list(dict.fromkeys(min(rank, most) for rank in given.choices))
    if isinstance(given, tuple):
        if len(given) != 2:
            raise ParameterError(f"space: {name}={given!r} must be (low, high); choices go in a list")
        given = Range(*given)
    if isinstance(given, Range):
        return _check_range(name, given, type(model))
    if isinstance(given, Walk):
        return _check_walk(name, given, model)
    if not isinstance(given, list) or not given:
        raise ParameterError(f"space: {name}={given!r} must be a list of choices, (low, high), a Range or a Walk")
    choices = [each.item() if isinstance(each, np.generic) else each for each in given]
    for each in choices:
        if not isinstance(each, str | int | float | bool | None) or (isinstance(each, float) and math.isnan(each)):
            raise ParameterError(f"space: {name}: the choice {each!r} must be a number, a text, True, False or None")
    return list(dict.fromkeys(choices))


def _check_range(name: str, given: Range, kind: type[Recommender]) -> Range:
    numbers = all(isinstance(each, int | float) and math.isfinite(each) for each in (given.low, given.high))
    if not numbers or not given.low < given.high:
        raise ParameterError(f"space: {name}: {given} must go from a number to a larger one")
    if given.log and given.low <= 0:
        raise ParameterError(f"space: {name}: {given} begins at {given.low:g}; a logarithm needs more than 0")
    if not is_whole(name, kind):
        return Range(float(given.low), float(given.high), given.log)
    if given.low != int(given.low) or given.high != int(given.high):
        raise ParameterError(f"space: {name}: {given} must go from a whole number to another")
    return Range(int(given.low), int(given.high), given.log)


def _check_walk(name: str, given: Walk, model: Recommender) -> Walk:
    if name not in model.walked:
        able = ", ".join(each for each, kind in MODELS.items() if kind.walked)
        raise ParameterError(f"space: {name}: only reg_low_rank and l1 of {able} can be walked along")
    if not given.strengths or not np.isfinite(given.strengths).all() or given.strengths[-1] <= 0:
        raise ParameterError(f"space: {name}: {given} must have strengths, all > 0")
    return given


def is_whole(name: str, kind: type[Recommender]) -> bool:
    """Return whether a parameter takes whole numbers only."""
    declared = list_parameters(kind).get(name)
    if declared is not None:
        return isinstance(declared, Whole)
    return isinstance(list_defaults(kind)[name], int)


def find_model(model: Any) -> Recommender:
    """Return a model to tune: itself, a new one of a class, or a new one by its name, like "csrr-e"."""
    if isinstance(model, Recommender):
        return model
    if isinstance(model, type) and issubclass(model, Recommender) and not inspect.isabstract(model):
        return model()
    if isinstance(model, str) and (kind := MODELS.find(model)) is not None:
        found: Recommender = kind()
        return found
    raise ParameterError(f"model={model!r} must be a model, a class of models, or one of {', '.join(MODELS)}")


def encode_space(space: Mapping[str, Dimension]) -> dict[str, Any]:
    """Return a space as JSON has it: a list of choices, {"low", "high", "log"}, or {"walk": [...]}."""
    return {
        name: {"walk": list(each.strengths)}
        if isinstance(each, Walk)
        else vars(each)
        if isinstance(each, Range)
        else each
        for name, each in space.items()
    }


def decode_space(plain: Any) -> dict[str, Any]:
    """Return what `encode_space` was given."""
    if not isinstance(plain, dict):
        raise ParameterError(
            'a space must be an object of names, like {"rank": [64, 128], "reg": {"low": 1, "high": 9}}'
        )
    return {name: _decode_dimension(name, each) for name, each in plain.items()}


def _decode_dimension(name: str, each: Any) -> Any:
    if not isinstance(each, dict):
        return each
    if each.keys() == {"walk"} and isinstance(each["walk"], list):
        try:
            return Walk(tuple(each["walk"]))
        except (TypeError, ValueError):
            raise ParameterError(f"space: {name}: walk={each['walk']!r} must be a list of numbers") from None
    if {"low", "high"} <= each.keys() <= {"low", "high", "log"}:
        return Range(**each)
    raise ParameterError(f"space: {name}={each!r}: an object has low and high, and perhaps log, or walk")
