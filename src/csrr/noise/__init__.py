"""Uses of V: clicks that nobody meant, unusual tastes, and how stable both are."""

from csrr.noise.scores import STRONG, LeaveOneOut
from csrr.noise.stability import Stability, find_stability
from csrr.noise.suspects import Suspects, find_suspects
from csrr.noise.tastes import Preferences, Tastes, judge_choices

__all__ = [
    "STRONG",
    "LeaveOneOut",
    "Preferences",
    "Stability",
    "Suspects",
    "Tastes",
    "find_stability",
    "find_suspects",
    "judge_choices",
]
