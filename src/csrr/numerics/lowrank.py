"""A matrix by its leading singular triplets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from csrr._base.arrays import FloatArray
from csrr.numerics.engine import Engine
from csrr.numerics.problem import Pattern


@dataclass(frozen=True, eq=False)
class LowRank:
    """left @ diag(s) @ right.T: left (n, k), right (m, k) with orthonormal columns, s (k,) falling, >= 0.

    Trailing zeros in s are spare directions, kept for the next step's search.
    """

    left: FloatArray
    s: FloatArray
    right: FloatArray

    @classmethod
    def zero(cls, pattern: Pattern, dtype: type = np.float32) -> LowRank:
        """The zero matrix of a pattern's shape, without a direction."""
        left = pattern.engine.put(pattern, np.zeros((pattern.shape[0], 0), dtype))
        return cls(left, np.zeros(0), np.zeros((pattern.shape[1], 0), dtype))

    @property
    def T(self) -> LowRank:
        """The transposed matrix."""
        return LowRank(self.right, self.s, self.left)

    @property
    def width(self) -> int:
        """How many directions are kept, spare ones included."""
        return len(self.s)

    @property
    def rank(self) -> int:
        """How many singular values are positive."""
        return int(np.count_nonzero(self.s))

    @property
    def scaled_left(self) -> FloatArray:
        """left * s, (n, k)."""
        return self.left * self.s.astype(self.left.dtype)

    def astype(self, dtype: type) -> LowRank:
        """The same matrix in another precision."""
        return LowRank(self.left.astype(dtype), self.s, self.right.astype(dtype))

    def trim(self) -> LowRank:
        """The same matrix without spare directions."""
        r = self.rank
        return LowRank(self.left[:, :r], self.s[:r], self.right[:, :r])

    def cut(self, rank: int) -> LowRank:
        """The same directions, those beyond a rank to spare."""
        return LowRank(self.left, np.where(np.arange(self.width) < rank, self.s, 0), self.right)

    def split(self) -> tuple[FloatArray, FloatArray]:
        """Factors, (n, r) and (m, r), whose product it is."""
        used = self.trim()
        return used.scaled_left, np.ascontiguousarray(used.right)

    def compute_nuclear_norm(self, engine: Engine) -> float:
        """||.||_*, from above: 1/2*(||left*sqrt(s)||^2 + ||right*sqrt(s)||^2), exact for orthonormal factors."""
        return 0.5 * float(sum(self.s @ engine.dot_columns(side, side) for side in (self.left, self.right)))

    def compute_squared_norm(self, engine: Engine) -> float:
        """||.||_F^2 from the two Gram matrices, so it holds whatever the factors' rounding."""
        left, right = (engine.cross(side, side) for side in (self.left, self.right))
        return float(self.s @ (left * right) @ self.s)

    def times(self, x: FloatArray, engine: Engine) -> FloatArray:
        """self @ x, (n, c), x (m, c)."""
        return engine.multiply(self.left, (self.s[:, None] * engine.cross(self.right, x)).astype(x.dtype))

    def evaluate_on(self, pattern: Pattern) -> FloatArray:
        """The values on the observed cells, (nnz,)."""
        return pattern.dots(self.scaled_left, self.right, self.rank)
