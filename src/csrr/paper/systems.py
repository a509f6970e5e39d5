"""The systems that are compared: the paper's seven, the forms of them that tell more, and those of today.

Each comes with the parameters that are tried on validation data. Strengths are fractions of the one that gives zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from csrr.experiments.spaces import Walk
from csrr.models.bprmf import BPRMF
from csrr.models.csrr import CSRR
from csrr.models.csrre import CSRRe
from csrr.models.ease import EASE
from csrr.models.popularity import PopRank
from csrr.models.positive_unlabelled import MCShift
from csrr.models.recommender import Recommender
from csrr.models.wrmf import WRMF
from csrr.paper.printed import WITHOUT_V

Group = Literal["paper", "today"]


@dataclass(frozen=True)
class System:
    """A model, what is fixed and what is tried; `seconds` is what a fit takes for a million events, for estimates.

    `quick` is the space of a quick run, `beside` the printed row that it stands beside. With `absolute`, the strength
    that was chosen on validation data is kept as a number, as in the paper, not as a fraction of what gives zero.
    """

    name: str
    group: Group
    about: str
    model: type[Recommender]
    seconds: float
    fixed: dict[str, Any] = field(default_factory=dict)
    space: dict[str, Any] = field(default_factory=dict)
    quick: dict[str, Any] = field(default_factory=dict)
    beside: str | None = None
    absolute: bool = False

    def searched(self, quick: bool) -> dict[str, Any]:
        """Return what is tried, in a quick run or a full one."""
        return {**self.space, **self.quick} if quick else self.space

    def n_fits(self, quick: bool) -> int:
        """Return how many fits that takes: every point, and of a walk every strength."""
        sizes = [len(each.strengths) if isinstance(each, Walk) else len(each) for each in self.searched(quick).values()]
        return math.prod(sizes) if sizes else 0


def _walk(strong: float, weak: float, n: int) -> Walk:
    return Walk(tuple(float(f"{each:.3g}") for each in np.geomspace(strong, weak, n)))


PLAIN = {"user_scaling": 0.0, "item_scaling": 0.0, "neighbors": 0}
_COSTS = [0.75, 0.8, 0.85, 0.9]
_PLAIN_WALK = _walk(0.3, 0.024, 16)
_SCALED_WALK = _walk(0.3, 0.04, 12)
_FEW = _walk(0.12, 0.04, 4)

SYSTEMS: dict[str, System] = {
    each.name: each
    for each in (
        System("PopRank", "paper", "what most people have", PopRank, 0.1, beside="PopRank"),
        System(
            "BPRMF",
            "paper",
            "pairwise ranking, with item biases",
            BPRMF,
            15,
            space={
                "rank": [20, 50],
                "learning_rate": [2.0**-4, 2.0**-3],
                "reg": [0.003, 0.01, 0.03],
                "reg_bias": [0.003],
            },
            quick={"rank": [50], "learning_rate": [2.0**-3], "reg": [0.01, 0.03]},
            beside="BPRMF",
        ),
        System(
            "WRMF",
            "paper",
            "weighted matrix factorisation, C = 1, the paper's grid",
            WRMF,
            0.5,
            fixed={"confidence": 1.0, "reg_exponent": 0.0},
            space={"rank": list(range(10, 55, 5)), "reg": [2.0**power for power in range(-5, 1)]},
            quick={"rank": [15, 30], "reg": [0.5, 1.0]},
            beside="WRMF",
        ),
        System(
            "MC-Shift",
            "paper",
            "positive-unlabelled matrix completion, to a certified gap",
            MCShift,
            1.5,
            space={"reg_low_rank": _PLAIN_WALK},
            quick={"reg_low_rank": _FEW},
            beside="MC-Shift",
            absolute=True,
        ),
        System(
            "CSRR-e",
            "paper",
            "non-negative factors in the box, rank up to 50, as the paper has it",
            CSRRe,
            5,
            fixed={"factors": "nonnegative", **PLAIN},
            space={"rank": [20, 50], "positive_cost": [0.5, 0.7, 0.9], "reg_low_rank": [0.003, 0.01, 0.03]},
            quick={"rank": [50], "positive_cost": [0.7], "reg_low_rank": [0.01]},
            beside="CSRR-e",
        ),
        System(
            "CSRR-II",
            "paper",
            "loss II, to a certified gap",
            CSRR,
            2.5,
            fixed={"loss": "II", **PLAIN},
            space={"positive_cost": [0.5, 0.75, 0.9], "reg_sparse": [0.95, 0.8], "reg_low_rank": _PLAIN_WALK},
            quick={"positive_cost": [0.5], "reg_sparse": [0.85], "reg_low_rank": _FEW},
            beside="CSRR-II",
            absolute=True,
        ),
        System(
            "CSRR-I",
            "paper",
            "loss I, to a certified gap",
            CSRR,
            3,
            fixed={"loss": "I", **PLAIN},
            space={"positive_cost": _COSTS, "reg_sparse": [0.95, 0.85], "reg_low_rank": _PLAIN_WALK},
            quick={"positive_cost": [0.8], "reg_sparse": [0.85], "reg_low_rank": _FEW},
            beside="CSRR-I",
            absolute=True,
        ),
        System(
            "CSRR-e, scaled",
            "today",
            "non-negative factors, degree-scaled so that their box does not bind, rank up to 200",
            CSRRe,
            12,
            fixed={
                "factors": "nonnegative",
                "reg_sparse": 1.0,
                "reg_low_rank": 0.08,
                "cost_ratio": 1.5,
                "neighbors": 0,
            },
            space={"rank": [50, 200], "user_scaling": [0.3, 0.4, 0.5]},
            quick={"rank": [50], "user_scaling": [0.4]},
        ),
        System(
            "CSRR-II, scaled",
            "today",
            "loss II without V, degree-scaled: one SVD",
            CSRR,
            1.5,
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
            "today",
            "loss I, degree-scaled, low rank and V alone: half the noise level, nothing tuned",
            CSRR,
            3,
            fixed={"reg_low_rank": "noise", "neighbors": 0},
        ),
        System(
            "EASE",
            "today",
            "linear regression between items (Steck, 2019)",
            EASE,
            5,
            space={"reg": [100.0, 200.0, 400.0, 700.0, 1000.0, 1500.0, 2500.0]},
            quick={"reg": [200.0, 500.0]},
        ),
        System(
            "WRMF, 256 factors",
            "today",
            "weighted matrix factorisation as it is done today: high dimension, confidence and penalty tuned",
            WRMF,
            1.2,
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
            "paper",
            "loss I without V, tuned on its own",
            CSRR,
            3,
            fixed={"loss": "I", "reg_sparse": 1.0, **PLAIN},
            space={"positive_cost": _COSTS, "reg_low_rank": _PLAIN_WALK},
            quick={"positive_cost": [0.8], "reg_low_rank": _FEW},
            beside=WITHOUT_V,
            absolute=True,
        ),
    )
}

COMPARED = tuple(name for name in SYSTEMS if name != WITHOUT_V)
