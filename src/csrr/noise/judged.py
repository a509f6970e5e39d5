"""What finding noise asks of a fitted model."""

from __future__ import annotations

from typing import Any, Protocol, Self

from csrr.arrays import FloatArray
from csrr.data import Log
from csrr.noise.noise_scores import LeftOut

STRONG = 0.5
"""The largest `reg_sparse` of a model that judges: no click pulls the common taste by more than half of its target."""


class Judged(Protocol):
    """A model whose clicks can be judged: every `Recommender` that has `score_own`."""

    def training_log(self) -> Log:
        """Return the events that the model was fitted to, without weights."""
        ...

    def as_judge(self) -> Any:
        """Return the model that judges: itself, or one like it that is fit to."""
        ...

    def leave_out(self) -> LeftOut:
        """Return what the model says of cells, of clicked ones without their own click."""
        ...

    def explained_shares(self) -> Any:
        """Return the share of each event, (n_events,), that the model explains."""
        ...


class Refitted(Judged, Protocol):
    """One with V that can be fitted again with a change: CSRR and CSRRe."""

    seed: int
    l1_: float

    @property
    def own_share(self) -> float:
        """The strength by which V is told, as a fraction of what gives none."""
        ...

    def specific_on_clicks(self) -> FloatArray:
        """Return V on the training events, (n_events,)."""
        ...

    def costed_log(self) -> Log:
        """Return the training events with what their misses cost as weights, for `refit`."""
        ...

    def refit(self, log: Log, **changes: Any) -> Self:
        """Return a new model with these settings and some changes, fitted to events of `costed_log`."""
        ...
