"""What the parameters of a fit come to where they say "auto"."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from csrr.model_parameters import MOST
from csrr.models.strengths import AUTO_NOISE_MULTIPLE
from csrr.parameters import Number, Whole


class Settings(NamedTuple):
    """Numbers for what a model may leave to the data; the model's own, where it gives them.

    `cost_ratio` is what a miss costs, `strength` l1 in noise levels (`strengths.compute_noise_level`), unless the model
    gives l1 or its fraction. `max_rank` bounds the rank of U (None: nothing does), `reg_sparse` is that of U's problem.
    `neighbors` is K, 0 for none, `reg_neighbors` rho over the mean diagonal of X'X, and `neighbor_scaling` the power of
    a user's number of clicks that X is divided by.
    """

    cost_ratio: Annotated[float, Number("cost_ratio", "", above=0)] = 2.0
    strength: Annotated[float, Number("strength", "", least=0, most=MOST)] = AUTO_NOISE_MULTIPLE
    max_rank: Annotated[int | None, Whole("max_rank", "", least=1, optional=True)] = 1000
    reg_sparse: Annotated[float, Number("reg_sparse", "", least=0, most=MOST)] = 0.85
    neighbors: Annotated[int, Whole("neighbors", "")] = 0
    reg_neighbors: Annotated[float, Number("reg_neighbors", "", least=0, most=MOST)] = 3.0
    neighbor_scaling: Annotated[float, Number("neighbor_scaling", "", least=0, most=1)] = 0.0


RULE = Settings()
"""What is taken where nothing is held out to choose by."""
