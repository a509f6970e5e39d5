"""CSRR-e: CSRR in factors of a given rank, for speed; free, or non-negative as in the paper."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from csrr.models.build_problem import Posing
from csrr.models.costs import EventWeights
from csrr.models.robust import Fit, RobustModel, Start
from csrr.models.settings_search import Wanted
from csrr.models.strengths import ParameterError, check_auto, check_whole, resolve_rank
from csrr.optim.algorithm2 import (
    algorithm2,
    first_nonnegative,
    fold_in_nonnegative,
    nonnegative_part,
    upper_bound,
)
from csrr.optim.factored import Factors, pick_lower, solve_factored, widen
from csrr.optim.pattern import Floats
from csrr.optim.problem import Loss, Problem
from csrr.optim.solver import Callback, Options

DEFAULT_RANK = 128


class CSRRe(RobustModel):
    """Scores U + X*S as `CSRR` does, with U = P Q' of its problem with P of (n_users, rank) and Q of (n_items, rank):

        minimise  l1/2*(||P||^2 + ||Q||^2) + l2*sum(t*V) + sum_ij loss((P Q')_ij + V_ij, t_ij),   0 <= V <= 1

    with loss, costs, scaling, strengths, neighbours and what "auto" means as in `CSRR`. `factors="free"` alternates
    between P and Q, V in closed form; a stationary point whose gradient has no singular value above l1 is a global
    optimum of the convex problem: `certificate_.is_global` says whether, and `certificate_.gap` how far from it at
    most. `factors="nonnegative"` is the paper's CSRR-e, without neighbours: P and Q in [0, 1/sqrt(rank)], so that
    0 <= U <= 1; projected gradient with the step size `step` ("auto": as long as is safe, with momentum), V after each
    inner loop. Its certificate is against the convex problem too, which has no such bounds.

    Stops when an iteration lowers the objective by less than `tol` of it, or after `max_iter` (of the non-negative
    form: gradient steps). `rank` None is 128, or as many as the matrix has users or items.

    Fitted: as `CSRR`.
    """

    def __init__(
        self,
        loss: Loss = "I",
        cost_ratio: float | None = None,
        *,
        rank: int | None = None,
        factors: Literal["free", "nonnegative"] = "free",
        step: float | Literal["auto"] = "auto",
        positive_cost: float | None = None,
        miss_cost: float | None = None,
        false_alarm_cost: float | None = None,
        recall_weight: float | None = None,
        event_weights: EventWeights = "ignore",
        reg_low_rank: float | Literal["auto", "noise"] = "auto",
        reg_sparse: float | Literal["auto"] = "auto",
        neighbors: int | Literal["auto"] = "auto",
        reg_neighbors: float | Literal["auto"] = "auto",
        neighbor_scaling: float = 0.0,
        l1: float | None = None,
        l2: float | None = None,
        user_scaling: float = 0.3,
        item_scaling: float = 0.3,
        tol: float = 3e-4,
        max_iter: int = 1000,
        time_limit: float | None = None,
        dtype: Literal["float32", "float64"] = "float32",
        threads: int = 0,
        seed: int = 0,
    ) -> None:
        self.loss: Loss = loss
        self.cost_ratio = cost_ratio
        self.rank = rank
        self.factors: Literal["free", "nonnegative"] = factors
        self.step = step
        self.positive_cost = positive_cost
        self.miss_cost = miss_cost
        self.false_alarm_cost = false_alarm_cost
        self.recall_weight = recall_weight
        self.event_weights: EventWeights = event_weights
        self.reg_low_rank = reg_low_rank
        self.reg_sparse = reg_sparse
        self.neighbors = neighbors
        self.reg_neighbors = reg_neighbors
        self.neighbor_scaling = neighbor_scaling
        self.l1 = l1
        self.l2 = l2
        self.user_scaling = user_scaling
        self.item_scaling = item_scaling
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.dtype = dtype
        self.threads = threads
        self.seed = seed

    @property
    def _searches(self) -> bool:
        # The paper's own form stays what it is.
        return self.factors == "free"

    def _wanted(self) -> Wanted:
        wanted = super()._wanted()
        return replace(wanted, given=wanted.given._replace(max_rank=DEFAULT_RANK if self.rank is None else self.rank))

    def _check(self) -> None:
        if self.rank is not None:
            check_whole("rank", self.rank, least=1)
        if self.factors not in ("free", "nonnegative"):
            raise ParameterError(f'factors={self.factors!r} must be "free" or "nonnegative"')
        check_auto("step", self.step, above=0, most=1e6)
        if self.step != "auto" and self.factors == "free":
            raise ParameterError('step goes with factors="nonnegative": the free form needs none')
        super()._check()

    def _solve(self, posing: Posing, start: Start, callback: Callback | None) -> Fit:
        problem = posing.problem
        rank = resolve_rank(self.rank, DEFAULT_RANK, problem.pattern.shape)
        options = Options(self.tol, self.max_iter, self.time_limit, None, self.seed)
        if self.factors == "free":
            solution = solve_factored(problem, rank, options, start=self._begin(start), callback=callback)
        else:
            step = None if self.step == "auto" else float(self.step)
            first = self._first(problem, start, rank) if isinstance(start, RobustModel) else None
            solution = algorithm2(problem, rank, options, step=step, start=first, callback=callback)
        return Fit(solution.factors, solution.certificate, solution.history, free=self.factors == "free")

    def _first(self, problem: Problem, start: RobustModel, rank: int) -> Factors:
        """Non-negative factors to begin with: those of another such model, or what is positive of an SVD; none of
        these where a start without a model is lower, as it is when theirs are next to nothing."""
        factors, rng = start._factors(self.dtype), np.random.default_rng(self.seed)
        if factors.users.shape[1] != rank or min(factors.users.min(), factors.items.min()) < 0:
            factors = nonnegative_part(widen(Factors.of(start._as_start(self.dtype)), rank, rng), rng)
        return pick_lower(problem, factors, first_nonnegative(problem, rank, rng))

    def _fold_factors(self, problem: Problem) -> Floats:
        if self._posed.free:
            return super()._fold_factors(problem)
        return fold_in_nonnegative(problem, self._item_side().factors)

    def _shares(self, problem: Problem, factors: Floats, item: int) -> npt.NDArray[Any]:
        """As in CSRR; of non-negative factors only the coordinates that no bound holds answer to the history."""
        if self._posed.free:
            return super()._shares(problem, factors, item)
        Q = self._item_side().factors
        inside = (factors[0] > 0) & (factors[0] < (1 - 1e-6) * upper_bound(Q.shape[1]))
        observed = problem.pattern.dots(factors, Q)
        weights = problem.pull(observed) + observed
        part = Q[:, inside].astype(np.float64)
        gram = part.T @ part + problem.l1 * np.eye(int(inside.sum()))
        along = part[problem.pattern.indices] @ np.linalg.solve(gram, part[item])
        return np.asarray(weights * along)
