"""The values of parameters that a search tries, as a model declares them in `search_space`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


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


LOW_RANK_WALK = Walk(tuple(float(f"{each:.3g}") for each in np.geomspace(0.8, 0.04, 14)))
"""The fractions of the strength that gives rank 0 which models with a nuclear norm are tried at."""
USUAL_RANKS = Ranks((32, 64, 128, 256))
