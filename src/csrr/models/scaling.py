"""Scaling of clicks, the noise level, and the settings of a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np

from csrr._base.arrays import AnyArray, FloatArray
from csrr.model_parameters import MOST
from csrr.numerics.krylov import LowRankPlusSparse, estimate_spectral_norm
from csrr.numerics.problem import LowRank, Pattern
from csrr.parameters import Number, ParameterError, Whole

AUTO_NOISE_MULTIPLE = 0.5
"""`reg_low_rank="noise"`: l1 in units of the norm of the targets with random signs."""


def resolve_rank(rank: Any, default: int, shape: tuple[int, int]) -> int:
    """Return the number of factors: as given, or by default as many as there are users or items at most."""
    most = min(shape)
    if rank is None:
        return min(default, most)
    if rank > most:
        raise ParameterError(f"rank={rank!r} is beyond the matrix, {shape[0]} users x {shape[1]} items: at most {most}")
    return int(rank)


def solve_penalized(system: AnyArray, right: AnyArray) -> AnyArray:
    """Return the solution, (d,), of a system F'F + l1*I, (d, d); ParameterError where l1 is lost beside F'F."""
    try:
        return np.linalg.solve(system, right)
    except np.linalg.LinAlgError:
        raise ParameterError(
            "the factors are so large that their penalty is lost beside them, and nothing can be explained by them;"
            " fit with a larger strength"
        ) from None


def count_clicks(clicks: Any, amounts: FloatArray | None = None) -> AnyArray:
    """Return the number of clicks of each user of a pattern or csr, at least 1, or the sum of their `amounts`: (n,)."""
    sums = None if amounts is None else np.concatenate([[0.0], np.cumsum(amounts, dtype=np.float64)])
    counts: AnyArray = np.maximum(np.diff(clicks.indptr if sums is None else sums[clicks.indptr]), 1)
    return counts


@dataclass(frozen=True, eq=False)
class Scaling:
    """The factors on clicks by user and by item, D_u^-a and D_i^-b, (n,) and (m,)."""

    user: FloatArray
    item: FloatArray

    @classmethod
    def of(
        cls,
        pattern: Pattern,
        user_power: float,
        item_power: float,
        dtype: Any = np.float32,
        amounts: FloatArray | None = None,
    ) -> Scaling:
        users = count_clicks(pattern, amounts)
        items = np.maximum(np.bincount(pattern.indices, amounts, pattern.shape[1]), 1)
        return cls((users ** -float(user_power)).astype(dtype), (items ** -float(item_power)).astype(dtype))

    def make_targets(self, pattern: Pattern) -> FloatArray:
        """Return the scaled targets in (0, 1], (nnz,)."""
        return pattern.engine.scale_cells(pattern, pattern.engine.put(pattern, self.user), self.item)


def compute_target_norm(pattern: Pattern, targets: FloatArray, seed: int) -> float:
    """Return ||T||_2, rounded up: times alpha, it is an l1 at which U is 0."""
    zero = LowRank.zero(pattern, targets.dtype.type)
    operator = LowRankPlusSparse(zero, pattern, targets)
    norm = estimate_spectral_norm(operator, np.random.default_rng(seed), dtype=targets.dtype.type)[0]
    return norm * (1 + 100 * float(np.finfo(targets.dtype).eps))


def compute_noise_level(pattern: Pattern, targets: FloatArray, seed: int) -> float:
    """Return ||T o random signs||_2: the norm that the same clicks would have if they were noise."""
    signs = np.random.default_rng(seed).integers(0, 2, len(targets)).astype(targets.dtype) * 2 - 1
    return compute_target_norm(pattern, targets * pattern.engine.put_cells(pattern, signs), seed)


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
