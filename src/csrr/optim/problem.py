"""The convex problem, with V minimised out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from csrr.optim.pattern import Floats, Pattern

Loss = Literal["I", "II"]


@dataclass(frozen=True, eq=False)
class Problem:
    """
    minimise  l1*||U||_* + sum_obs cap*V + sum_obs w/2*(U + V - t)^2 + 1/2*sum_unobs U^2

    over U of (n, m) and 0 <= V <= 1 on the observed cells (off them V = 0 is optimal). `target` t, `weight` w
    and `cap` (the penalty of V) have one value an observed cell, (nnz,); cap None leaves V out. Given U, V has
    a closed form; with it, an observed cell costs h(U) = min_V, quadratic with a linear middle of slope cap.
    """

    pattern: Pattern
    target: Floats
    weight: Floats
    cap: Floats | None
    l1: float

    def with_strength(self, l1: float) -> Problem:
        """The same problem with another l1."""
        return replace(self, l1=l1)

    @cached_property
    def T(self) -> Problem:
        """The problem of the transposed matrix."""
        flip = self.pattern.transposed
        cap = None if self.cap is None else flip(self.cap)
        return Problem(self.pattern.T, flip(self.target), flip(self.weight), cap, self.l1)

    @cached_property
    def smoothness(self) -> float:
        """The largest curvature of a cell."""
        return max(1.0, float(self.weight.max()))

    @cached_property
    def typical_curvature(self) -> float:
        """The curvature that the pull at zero meets: the mean of w over cells that count w*t^2 each, at least 1."""
        weight, square = self.weight.astype(np.float64), self.target.astype(np.float64) ** 2
        mean = float(np.sum(weight**2 * square) / np.sum(weight * square))
        return min(max(1.0, mean), self.smoothness)

    @cached_property
    def convexity(self) -> float:
        """The curvature, V left out, of unobserved cells, or the mean of the observed ones if that is smaller."""
        return min(1.0, float(self.weight.mean(dtype=np.float64)))

    @cached_property
    def is_slack(self) -> bool:
        """Whether V's penalty holds some cell's pull at zero to less than half: it may stay in the linear part."""
        return self.cap is not None and bool((self.cap < 0.5 * self.weight * self.target).any())

    @cached_property
    def is_one_shot(self) -> bool:
        """Whether one soft-thresholded SVD of the targets solves it: no V, every cell of weight 1."""
        return self.cap is None and bool((self.weight == 1).all())

    def specific(self, u: Floats) -> Floats:
        """The best V given U on the observed cells, (nnz,)."""
        if self.cap is None:
            return np.zeros_like(u)
        return np.clip(self.target - u - self.cap / self.weight, 0, 1)

    def pull(self, u: Floats) -> Floats:
        """-h'(u), (nnz,): how hard each observed cell pulls U up; at most cap while V < 1."""
        residual = self.weight * (self.target - u)
        if self.cap is None:
            return residual
        return np.maximum(np.minimum(residual, self.cap), residual - self.weight)

    def observed_loss(self, u: Floats) -> float:
        """sum_obs h(u)."""
        v = self.specific(u)
        residual = (self.target - u - v).astype(np.float64)
        loss = 0.5 * float(np.sum(self.weight * residual**2))
        return loss if self.cap is None else loss + float(np.sum(self.cap * v, dtype=np.float64))

    def observed_dual(self, y: Floats) -> float:
        """-sum_obs h*(-y): what the observed cells add to the dual value at Y."""
        y = y.astype(np.float64)
        value = float(np.sum(y * self.target - y**2 / (2 * self.weight)))
        return value if self.cap is None else value - float(np.sum(np.maximum(y - self.cap, 0)))


def build(
    pattern: Pattern,
    scaled: Floats,
    *,
    loss: Loss,
    cost_ratio: float,
    l1: float,
    l2: float | None,
    costs: Floats | None = None,
) -> Problem:
    """The CSRR problem for scaled targets in (0, 1], (nnz,).

    Loss I puts weight `cost_ratio`, times the cell's own factor in `costs`, (nnz,), on observed cells; loss II
    multiplies their targets by it. V's penalty on a cell is l2 times its scaled target times that factor, so that V
    is zero at the same l2 everywhere; l2 None leaves V out.
    """
    ratio = scaled.dtype.type(cost_ratio) if costs is None else costs * scaled.dtype.type(cost_ratio)
    weight = np.full_like(scaled, ratio if loss == "I" else 1)
    target = scaled if loss == "I" else scaled * ratio
    asked = scaled if costs is None else scaled * costs
    cap = None if l2 is None else asked * scaled.dtype.type(l2)
    return Problem(pattern, target, weight, cap, l1)
