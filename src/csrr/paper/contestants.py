"""The systems that stand noise, and what is tried of each: small spaces, their strengths in units of the log's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from csrr.data import Log
from csrr.experiments.spaces import AroundAuto, Range, Walk, resolve_space
from csrr.models.bprmf import BPRMF
from csrr.models.csrr import CSRR
from csrr.models.ease import EASE
from csrr.models.recommender import Recommender
from csrr.models.wrmf import WRMF

WITH_V, WITHOUT_V, AS_IT_COMES = "CSRR", "CSRR without V", "CSRR as it comes"


@dataclass(frozen=True)
class Contestant:
    """A model, what is fixed and what is tried; `multiples` are of what "auto" comes to for the parameter `strength`.

    Noise changes the scale of a log, so that no list of numbers would suit all of its shares.
    """

    model: type[Recommender]
    fixed: dict[str, Any] = field(default_factory=dict)
    space: dict[str, list[Any]] = field(default_factory=dict)
    strength: str | None = None
    multiples: tuple[float, ...] = ()

    def searched(self, train: Log) -> dict[str, Any]:
        """Return what is tried on a training log: nothing, where it is fitted as it is."""
        if self.strength is None:
            return dict(self.space)
        auto = _auto(self.model(**self.fixed), self.strength, train)
        values = [float(f"{multiple * auto:.4g}") for multiple in self.multiples]
        walks = issubclass(self.model, CSRR)
        return {**self.space, self.strength: Walk(tuple(values)) if walks else values}

    def plain(self) -> dict[str, Any]:
        """Return all of it as JSON has it."""
        return {**vars(self), "model": self.model.__name__, "multiples": list(self.multiples)}


def _auto(model: Recommender, strength: str, train: Log) -> float:
    """Return what "auto" comes to: of CSRR as a fraction of the strength that gives zero."""
    if isinstance(model, CSRR):
        by_rule, whole = (CSRR(**{**model.get_params(), strength: each}) for each in ("noise", 1.0))
        return by_rule.strength(train) / whole.strength(train)
    around = resolve_space({strength: AroundAuto(1.0, 2.0)}, model, train)[strength]
    assert isinstance(around, Range)
    return around.low


_WALK = (1.8, 1.45, 1.2, 1.0, 0.82, 0.68, 0.55)

CONTESTANTS: dict[str, Contestant] = {
    WITH_V: Contestant(CSRR, {"neighbors": 0}, {"reg_sparse": [1.0, 0.8, 0.65, 0.5]}, "reg_low_rank", _WALK),
    WITHOUT_V: Contestant(CSRR, {"reg_sparse": 1.0, "neighbors": 0}, {}, "reg_low_rank", _WALK),
    AS_IT_COMES: Contestant(CSRR),
    "WRMF": Contestant(
        WRMF, {"rank": 64}, {"confidence": [2.0, 4.0, 8.0]}, "reg", (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0)
    ),
    "BPRMF": Contestant(
        BPRMF, {"rank": 50, "learning_rate": 0.125, "epochs": 100}, {"reg": [0.012, 0.02, 0.035, 0.06]}
    ),
    "EASE": Contestant(EASE, {}, {}, "reg", (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)),
}
