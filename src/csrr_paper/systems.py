"""The systems that are compared: the paper's seven, variants of them, later ones, and those compared under noise.

Each comes with the parameters that are tried on validation data. Strengths are fractions of the one that gives zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from csrr.data.log import Log
from csrr.evaluation.study import resolve_space
from csrr.model_parameters import AroundAuto, Range, Walk
from csrr.models.base import Recommender
from csrr.models.bprmf import BPRMF
from csrr.models.csrr import CSRR
from csrr.models.csrre import CSRRe
from csrr.models.ease import EASE
from csrr.models.mcshift import MCShift
from csrr.models.popularity import PopRank
from csrr.models.wrmf import WRMF
from csrr_paper.printed import WITHOUT_V

Group = Literal["paper", "today"]


@dataclass(frozen=True)
class System:
    """A model, its fixed parameters and its search space; `seconds` is the time of a fit to a million events.

    `quick` is the space of a quick run, `beside` the printed row that it stands beside, if that has another name. With
    `absolute`, the strength that was chosen on validation data is kept as a number, as in the paper, not as a
    fraction of what gives zero. `multiples` are of what "auto" comes to on the training log for the parameter
    `strength`: noise changes the scale of a log, so that no list of numbers would suit all of its shares.
    """

    name: str
    model: type[Recommender]
    fixed: dict[str, Any] = field(default_factory=dict)
    space: dict[str, Any] = field(default_factory=dict)
    strength: str | None = None
    multiples: tuple[float, ...] = ()
    group: Group = "today"
    about: str = ""
    seconds: float = 0.0
    quick: dict[str, Any] = field(default_factory=dict)
    beside: str | None = None
    absolute: bool = False

    def list_tried(self, *, quick: bool = False) -> dict[str, Any]:
        """Return the search space for any log, in a quick run or a full one."""
        return {**self.space, **self.quick} if quick else dict(self.space)

    def list_tried_on(self, train: Log) -> dict[str, Any]:
        """Return the search space for a training log, with multiples of its own regularization."""
        if self.strength is None:
            return self.list_tried()
        auto = _find_auto(self.model(**self.fixed), self.strength, train)
        values = [float(f"{multiple * auto:.4g}") for multiple in self.multiples]
        walks = issubclass(self.model, CSRR)
        return {**self.space, self.strength: Walk(tuple(values)) if walks else values}

    def count_fits(self, *, quick: bool) -> int:
        """Return the number of fits of tuning: every point of the space, and every step of a walk."""
        tried = self.list_tried(quick=quick).values()
        sizes = [len(each.strengths) if isinstance(each, Walk) else len(each) for each in tried]
        return math.prod(sizes) if sizes else 0

    def describe_search(self) -> dict[str, Any]:
        """Return the fixed parameters and the search space for JSON; they identify a result under noise."""
        own = {"fixed": self.fixed, "space": self.space, "strength": self.strength}
        return {"model": self.model.__name__, **own, "multiples": list(self.multiples)}


def _find_auto(model: Recommender, strength: str, train: Log) -> float:
    """Return the value of "auto"; for CSRR as a fraction of the value at which U is 0."""
    if isinstance(model, CSRR):
        by_rule, whole = (CSRR(**{**model.get_params(), strength: each}) for each in ("noise", 1.0))
        return by_rule.strength(train) / whole.strength(train)
    around = resolve_space({strength: AroundAuto(1.0, 2.0)}, model, train)[strength]
    assert isinstance(around, Range)
    return around.low


def _make_walk(strong: float, weak: float, n: int) -> Walk:
    return Walk(tuple(float(f"{each:.3g}") for each in np.geomspace(strong, weak, n)))


PLAIN = {"user_scaling": 0.0, "item_scaling": 0.0, "neighbors": 0}
_COSTS = [0.75, 0.8, 0.85, 0.9]
_PLAIN_WALK = _make_walk(0.3, 0.024, 16)
_SCALED_WALK = _make_walk(0.3, 0.04, 12)
_FEW = _make_walk(0.12, 0.04, 4)

SYSTEMS: dict[str, System] = {
    each.name: each
    for each in (
        System("PopRank", PopRank, group="paper", about="items by popularity", seconds=0.1),
        System(
            "BPRMF",
            BPRMF,
            group="paper",
            about="pairwise ranking, with item biases",
            seconds=15,
            space={
                "rank": [20, 50],
                "learning_rate": [2.0**-4, 2.0**-3],
                "reg": [0.003, 0.01, 0.03],
                "reg_bias": [0.003],
            },
            quick={"rank": [50], "learning_rate": [2.0**-3], "reg": [0.01, 0.03]},
        ),
        System(
            "WRMF",
            WRMF,
            group="paper",
            about="weighted matrix factorization, confidence 1, the paper's grid",
            seconds=0.5,
            fixed={"confidence": 1.0, "reg_exponent": 0.0},
            space={"rank": list(range(10, 55, 5)), "reg": [2.0**power for power in range(-5, 1)]},
            quick={"rank": [15, 30], "reg": [0.5, 1.0]},
        ),
        System(
            "MC-Shift",
            MCShift,
            group="paper",
            about="positive-unlabeled matrix completion, to a certified gap",
            seconds=1.5,
            space={"reg_low_rank": _PLAIN_WALK},
            quick={"reg_low_rank": _FEW},
            absolute=True,
        ),
        System(
            "CSRR-e",
            CSRRe,
            group="paper",
            about="CSRR in factors, without constraints on them, rank up to 50",
            seconds=4,
            fixed={"factors": "free", **PLAIN},
            space={
                "rank": [30, 50],
                "positive_cost": [0.8, 0.85, 0.9],
                "reg_low_rank": [0.03, 0.045, 0.065],
                "reg_sparse": [0.95, 0.85],
            },
            quick={"rank": [50], "positive_cost": [0.85], "reg_low_rank": [0.045], "reg_sparse": [0.95]},
        ),
        System(
            "CSRR-e, boxed",
            CSRRe,
            group="paper",
            about="CSRR in factors constrained to [0, 1/sqrt(rank)], by the paper's Algorithm 2",
            seconds=7,
            fixed={"factors": "nonnegative", **PLAIN},
            space={"rank": [50, 100], "positive_cost": [0.35, 0.5, 0.7], "reg_low_rank": [0.001, 0.003, 0.03, 0.1]},
            quick={"rank": [50], "positive_cost": [0.5], "reg_low_rank": [0.01]},
            beside="CSRR-e",
        ),
        System(
            "CSRR-II",
            CSRR,
            group="paper",
            about="loss II, to a certified gap",
            seconds=2.5,
            fixed={"loss": "II", **PLAIN},
            space={
                "positive_cost": [0.75, 0.9, 0.95],
                "reg_sparse": [0.95, 0.6, 0.4, 0.2],
                "reg_low_rank": _PLAIN_WALK,
            },
            quick={"positive_cost": [0.5], "reg_sparse": [0.85], "reg_low_rank": _FEW},
            absolute=True,
        ),
        System(
            "CSRR-I",
            CSRR,
            group="paper",
            about="loss I, to a certified gap",
            seconds=3,
            fixed={"loss": "I", **PLAIN},
            space={"positive_cost": _COSTS, "reg_sparse": [0.95, 0.85], "reg_low_rank": _PLAIN_WALK},
            quick={"positive_cost": [0.8], "reg_sparse": [0.85], "reg_low_rank": _FEW},
            absolute=True,
        ),
        System(
            "CSRR-II, scaled",
            CSRR,
            about="loss II without V, scaled by degrees of users and items; one SVD",
            seconds=1.5,
            fixed={"loss": "II", "reg_sparse": 1.0, "neighbors": 0},
            space={
                "user_scaling": [0.3, 0.4],
                "item_scaling": [0.2, 0.3],
                "reg_low_rank": _SCALED_WALK,
            },
            quick={"user_scaling": [0.3], "item_scaling": [0.3], "reg_low_rank": _FEW},
        ),
        System(
            "CSRR, scaled",
            CSRR,
            about="loss I, scaled by degrees of users and items, without neighbors; tuned",
            seconds=3,
            fixed={"reg_sparse": 0.85, "neighbors": 0},
            space={
                "cost_ratio": [2.0, 3.0],
                "user_scaling": [0.3, 0.4],
                "item_scaling": [0.2, 0.3],
                "reg_low_rank": _SCALED_WALK,
            },
            quick={"cost_ratio": [2.0], "user_scaling": [0.3], "item_scaling": [0.3], "reg_low_rank": _FEW},
        ),
        System(
            "CSRR, scaled, by rule",
            CSRR,
            about="“CSRR, scaled” with a strength set by rule (half the noise level); nothing tuned",
            seconds=3,
            fixed={"reg_low_rank": "noise", "neighbors": 0},
        ),
        System(
            "CSRR()",
            CSRR,
            about="this library's default, which adds item neighbors to the paper's model; it chooses its settings on"
            " events held out of the training data",
            seconds=15,
        ),
        System(
            "EASE",
            EASE,
            about="linear regression between items (Steck, 2019)",
            seconds=5,
            space={"reg": [100.0, 200.0, 400.0, 700.0, 1000.0, 1500.0, 2500.0]},
            quick={"reg": [200.0, 500.0]},
        ),
        System(
            "WRMF, 256 factors",
            WRMF,
            about="weighted matrix factorization with 256 factors; confidence and penalty tuned",
            seconds=1.2,
            fixed={"rank": 256},
            space={
                "confidence": [4.0, 8.0, 16.0],
                "reg": [20.0, 30.0, 45.0, 65.0, 100.0, 150.0],
                "reg_exponent": [0.0, 0.5],
            },
            quick={"confidence": [8.0], "reg": [45.0, 65.0], "reg_exponent": [0.0]},
        ),
        System(
            WITHOUT_V,
            CSRR,
            group="paper",
            about="loss I without V, tuned on its own",
            seconds=3,
            fixed={"loss": "I", "reg_sparse": 1.0, **PLAIN},
            space={"positive_cost": _COSTS, "reg_low_rank": _PLAIN_WALK},
            quick={"positive_cost": [0.8], "reg_low_rank": _FEW},
            absolute=True,
        ),
    )
}

COMPARED = tuple(name for name in SYSTEMS if name != WITHOUT_V)

CSRR_WITH_V, CSRR_WITHOUT_V, CSRR_AS_IT_COMES = "CSRR", "CSRR without V", "CSRR as it comes"
_AROUND_AUTO = (1.8, 1.45, 1.2, 1.0, 0.82, 0.68, 0.55)

NOISE_SYSTEMS: dict[str, System] = {
    each.name: each
    for each in (
        System(
            CSRR_WITH_V, CSRR, {"neighbors": 0}, {"reg_sparse": [1.0, 0.8, 0.65, 0.5]}, "reg_low_rank", _AROUND_AUTO
        ),
        System(CSRR_WITHOUT_V, CSRR, {"reg_sparse": 1.0, "neighbors": 0}, {}, "reg_low_rank", _AROUND_AUTO),
        System(CSRR_AS_IT_COMES, CSRR),
        System(
            "WRMF", WRMF, {"rank": 64}, {"confidence": [2.0, 4.0, 8.0]}, "reg", (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0)
        ),
        System(
            "BPRMF", BPRMF, {"rank": 50, "learning_rate": 0.125, "epochs": 100}, {"reg": [0.012, 0.02, 0.035, 0.06]}
        ),
        System("EASE", EASE, {}, {}, "reg", (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)),
    )
}
"""The systems that are fitted to noisy logs, by name."""
