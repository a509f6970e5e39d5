"""What the parameters of a fit come to where they say "auto"."""

from __future__ import annotations

from typing import NamedTuple

from csrr.models.strengths import AUTO_NOISE_MULTIPLE


class Settings(NamedTuple):
    """Numbers for what a model may leave to the data; the model's own, where it gives them.

    `cost_ratio` is what a miss costs, `strength` l1 in noise levels (`strengths.compute_noise_level`), unless the model
    gives l1 or its fraction. `max_rank` bounds the rank of U (None: nothing does), `reg_sparse` is that of U's problem.
    `denoise` is the power of the probabilities that events are genuine which these count for: 0 for all alike.
    `neighbors` is K, 0 for none, `reg_neighbors` rho over the mean diagonal of X'X, and `neighbor_scaling` the power of
    a user's number of clicks that X is divided by.
    """

    cost_ratio: float = 2.0
    strength: float = AUTO_NOISE_MULTIPLE
    max_rank: int | None = 1000
    reg_sparse: float = 0.85
    neighbors: int = 0
    reg_neighbors: float = 3.0
    neighbor_scaling: float = 0.0
    denoise: float = 0.0


RULE = Settings()
"""What is taken where nothing is held out to choose by."""
