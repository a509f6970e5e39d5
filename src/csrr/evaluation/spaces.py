"""What a parameter may be while a model is tuned: our spaces, the paper's grids, and spaces of one's own."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from csrr.data import Log
from csrr.models.base import Recommender
from csrr.parameters import ParameterError, Whole, list_defaults, list_parameters, list_rivals
from csrr.registry import MODELS

Scalar = str | int | float | bool | None


@dataclass(frozen=True)
class Range:
    """A search range for `csrr.tune`: numbers between two bounds, integers for an integer parameter.

    Attributes
    ----------
    low, high
        The bounds.
    log
        Whether to sample on a log scale.

    Examples
    --------
    >>> log = csrr.synthetic(100, 40, events_per_user=10).log
    >>> found = csrr.tune("ease", log, space={"reg": csrr.Range(1, 500, log=True)}, trials=3)
    >>> all(1 <= trial.params["reg"] <= 500 for trial in found.trials[1:])
    True
    """

    low: float
    high: float
    log: bool = False


@dataclass(frozen=True)
class AroundAuto:
    """Any number from `low` to `high` times what "auto" comes to on the training data, by its logarithm."""

    low: float
    high: float


@dataclass(frozen=True)
class Ranks:
    """Choices of a rank; those beyond the matrix give way to the largest there is."""

    choices: tuple[int, ...]


@dataclass(frozen=True)
class Walk:
    """A regularization path as one trial of `csrr.tune`: from strong to weak, with warm starts.

    Attributes
    ----------
    strengths
        The regularization strengths; sorted in decreasing order.

    Examples
    --------
    >>> csrr.Walk((0.1, 0.5, 0.2)).strengths
    (0.5, 0.2, 0.1)
    """

    strengths: tuple[float, ...]

    def __post_init__(self) -> None:
        """Sort the strengths, falling."""
        object.__setattr__(self, "strengths", tuple(sorted({float(each) for each in self.strengths}, reverse=True)))


Dimension = Range | Walk | list[Scalar]
Space = dict[str, Dimension]

_FRACTIONS = Walk(tuple(float(f"{each:.3g}") for each in np.geomspace(0.8, 0.04, 14)))
_ROBUST = {
    "cost_ratio": Range(1, 8, log=True),
    "user_scaling": Range(0, 0.6),
    "item_scaling": Range(0, 0.6),
    "reg_sparse": [1.0, 0.85, 0.7],
    "neighbors": [0, 20, 50],
    "reg_neighbors": Range(0.3, 30, log=True),
    "reg_low_rank": _FRACTIONS,
}
_RANKS = Ranks((32, 64, 128, 256))
_OURS: dict[str, dict[str, Any]] = {
    "CSRR": _ROBUST,
    # No walk: a start of low rank holds the factors back, and the fits take longer.
    "CSRRe": {**_ROBUST, "rank": Ranks((64, 128, 256)), "reg_low_rank": Range(0.04, 0.5, log=True)},
    "PopRank": {},
    "WRMF": {
        "rank": _RANKS,
        "confidence": Range(1, 40, log=True),
        "reg": AroundAuto(1 / 8, 4),
        "reg_exponent": Range(0, 1),
    },
    "BPRMF": {
        "rank": _RANKS,
        "learning_rate": Range(0.02, 0.5, log=True),
        "reg": Range(1e-3, 0.1, log=True),
        "reg_negative": Range(3e-3, 0.3, log=True),
        "reg_bias": Range(3e-4, 0.03, log=True),
    },
    # With a relative strength rho only scales MC-Shift's scores.
    "MCShift": {"reg_low_rank": _FRACTIONS},
    "BiasMC": {"rho": Range(0, 0.9), "reg_low_rank": _FRACTIONS},
    "EASE": {"reg": AroundAuto(1 / 16, 16)},
    "ItemKNN": {
        "neighbors": [50, 100, 200, 400],
        "similarity": ["cosine", "asymmetric", "jaccard"],
        "weighting": ["none", "degree", "tf-idf", "bm25"],
        "shrink": Range(0.1, 100, log=True),
        "asymmetry": Range(0.3, 0.8),
    },
}

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
_SHIFT = {"rho": [round(0.1 * step, 1) for step in range(10)], "reg_low_rank": _FRACTIONS}
_PAPER: dict[str, dict[str, Any]] = {
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

SPACES: dict[str, dict[str, dict[str, Any]]] = {"csrr": _OURS, "paper": _PAPER}
"""The spaces by name and model: ours, and the grids of the paper's section on parameters."""


def find_space(name: str, kind: type[Recommender]) -> dict[str, Any]:
    """Return the space of that name for a model."""
    if name not in SPACES:
        raise ParameterError(f"space={name!r}: choose {', '.join(SPACES)}, or give a dict of your own")
    if kind.__name__ not in SPACES[name]:
        known = ", ".join(SPACES[name])
        raise ParameterError(f"space={name!r} has nothing for {kind.__name__}, only {known}; give a dict of your own")
    return dict(SPACES[name][kind.__name__])


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
    if isinstance(model, str):
        bare = re.sub("[-_]", "", model).lower()
        for name, kind in MODELS.items():
            if name.lower() == bare:
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
