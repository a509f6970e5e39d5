"""ShiftMC and BiasMC of Hsieh, Natarajan and Dhillon (2015) with a nuclear-norm penalty, dense, float64, literal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.reference.dense import nuclear_norm, shrink

Matrix = NDArray[np.floating[Any]]


def shifted_loss(X: Matrix, A: Matrix, rho: float) -> float:
    """1/2*sum_ij s(X_ij, A_ij): unbiased where a share rho of the ones was hidden."""
    ones = ((X - 1) ** 2 - rho * X**2) / (1 - rho)
    return float(np.where(A == 1, ones, X**2).sum() / 2)


def shifted_slope(X: Matrix, A: Matrix, rho: float) -> Matrix:
    """The derivative of `shifted_loss`, (n, m)."""
    return np.where(A == 1, ((X - 1) - rho * X) / (1 - rho), X)


def biased_loss(X: Matrix, A: Matrix, rho: float) -> float:
    """1/2*sum of b*(X - 1)^2 over ones and (1 - b)*X^2 over the rest, divided by 1 - b; b = (1 + rho)/2."""
    b = (1 + rho) / 2
    return float(np.where(A == 1, b * (X - 1) ** 2, (1 - b) * X**2).sum() / (1 - b) / 2)


def biased_slope(X: Matrix, A: Matrix, rho: float) -> Matrix:
    """The derivative of `biased_loss`, (n, m)."""
    b = (1 + rho) / 2
    return np.where(A == 1, b * (X - 1), (1 - b) * X) / (1 - b)


def minimise(
    slope: Callable[[Matrix, Matrix, float], Matrix], A: Matrix, rho: float, l1: float, curvature: float
) -> Matrix:
    """The X, (n, m), that minimises l1*||X||_* + loss: plain proximal gradient, until X stands still."""
    X: Matrix = np.zeros(A.shape)
    while True:
        new = shrink(X - slope(X, A, rho) / curvature, l1 / curvature)
        if np.abs(new - X).max() <= 1e-12 * max(1.0, np.abs(new).max()):
            return new
        X = new


def objective(loss: Callable[[Matrix, Matrix, float], float], X: Matrix, A: Matrix, rho: float, l1: float) -> float:
    """l1*||X||_* + loss."""
    return l1 * nuclear_norm(X) + loss(X, A, rho)
