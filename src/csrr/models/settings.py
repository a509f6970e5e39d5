"""The settings of a fit, each given by a parameter or chosen, and the rank by default."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from csrr.model_parameters import MOST
from csrr.parameters import Number, ParameterError, Whole

AUTO_NOISE_MULTIPLE = 0.5
"""`reg_low_rank="noise"`: l1 in units of the norm of the targets with random signs."""


def resolve_rank(rank: Any, default: int, shape: tuple[int, int]) -> int:
    """Return the number of factors: as given, or by default as many as there are users or items at most."""
    most = min(shape)
    if rank is None:
        return min(default, most)
    if rank > most:
        raise ParameterError.of(
            "rank", rank, f"is beyond the matrix, {shape[0]} users x {shape[1]} items: at most {most}"
        )
    return int(rank)


class Settings(NamedTuple):
    """The settings of a fit, each given by a parameter or chosen.

    `cost_ratio` is the weight of clicks, `strength` l1 in noise levels (`compute_noise_level`), which does not count if
    the model gives l1 or a number for `reg_low_rank`. `max_rank` bounds the rank of U (None: no bound), `reg_sparse` is
    that of U's problem. An event counts for its probability of being genuine to the power `denoise`. `neighbors` is K,
    0 for none, `reg_neighbors` rho over the mean diagonal of X'X, and X is divided by the number of clicks of a user to
    the power `neighbor_scaling`.
    """

    cost_ratio: Annotated[float, Number(above=0)] = 2.0
    strength: Annotated[float, Number(least=0, most=MOST)] = AUTO_NOISE_MULTIPLE
    max_rank: Annotated[int | None, Whole(least=1)] = 1000
    reg_sparse: Annotated[float, Number(least=0, most=MOST)] = 0.85
    neighbors: Annotated[int, Whole()] = 0
    reg_neighbors: Annotated[float, Number(least=0, most=MOST)] = 3.0
    neighbor_scaling: Annotated[float, Number(least=0, most=1)] = 0.0
    denoise: Annotated[float, Number(least=0, most=1)] = 0.0


RULE = Settings()
"""The settings of a fit without a search."""
