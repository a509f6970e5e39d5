"""Matrix completion from positive and unlabelled cells: MC-Shift and BiasMC, on the convex core."""

from __future__ import annotations

from typing import Literal

from csrr.data import Log
from csrr.models.costs import Costs
from csrr.models.robust import ConvexModel
from csrr.models.strengths import check_number
from csrr.optim.problem import Loss


class _PositiveUnlabelled(ConvexModel):
    """A share `rho` of the positive cells is taken to be unobserved; no V, no scaling, otherwise the core's problem."""

    reg_sparse = 1.0
    user_scaling = 0.0
    item_scaling = 0.0
    l2 = None

    def __init__(
        self,
        rho: float = 0.5,
        *,
        reg_low_rank: float | Literal["auto"] = "auto",
        l1: float | None = None,
        max_rank: int | None = 1000,
        tol: float = 0.01,
        max_iter: int = 100,
        time_limit: float | None = None,
        dtype: Literal["float32", "float64"] = "float32",
        threads: int = 0,
        seed: int = 0,
    ) -> None:
        self.rho = rho
        self.reg_low_rank = reg_low_rank
        self.l1 = l1
        self.max_rank = max_rank
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.dtype = dtype
        self.threads = threads
        self.seed = seed

    def _check(self) -> None:
        check_number("rho", self.rho, least=0, most=0.9999)
        super()._check()


class MCShift(_PositiveUnlabelled):
    """Scores X of ShiftMC (Hsieh, Natarajan, Dhillon 2015), nuclear norm as a penalty:

        minimise  l1*||X||_* + 1/2*sum_ij s(X_ij, A_ij)

    with the unbiased loss of a world where a share `rho` of the ones was hidden: s(x, 0) = x^2 and
    s(x, 1) = ((x - 1)^2 - rho*x^2)/(1 - rho). Completing the square, s(x, 1) = (x - 1/(1 - rho))^2 + const: a shifted
    target, weight 1 on every cell, so one soft-thresholded SVD is the solution, and the core's certificate holds.
    The bounds 0 <= X <= 1 of the original are left out (they are not what ranks items).

    `reg_low_rank` is l1 as a fraction of the value that gives X = 0, or "auto"; `l1` is the number. Only l1*(1 - rho)
    counts for the ranking, so with the relative `reg_low_rank` rho scales the scores and no more. Fitted: as `CSRR`.
    """

    loss: Loss = "II"

    def _costs(self, log: Log) -> Costs:
        return Costs(1 / (1 - self.rho), f"rho={self.rho:g}")


class BiasMC(_PositiveUnlabelled):
    """Scores X of BiasMC (Hsieh, Natarajan, Dhillon 2015), nuclear norm as a penalty:

        minimise  l1*||X||_* + 1/2*(b*sum_{A=1} (X - 1)^2 + (1 - b)*sum_{A=0} X^2)/(1 - b),   b = (1 + rho)/2

    b is the label-dependent weight that is right when a share `rho` of the ones was hidden: observed cells weigh
    (1 + rho)/(1 - rho). It is CSRR's loss I without V. Parameters and fitted attributes as in `MCShift`.
    """

    loss: Loss = "I"

    def _costs(self, log: Log) -> Costs:
        return Costs((1 + self.rho) / (1 - self.rho), f"rho={self.rho:g}")
