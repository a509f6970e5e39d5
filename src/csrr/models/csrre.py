"""CSRR-e: CSRR in factors of a given rank, for speed; free, or non-negative as in the paper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from csrr.model_parameters import (
    L1,
    L2,
    CostRatio,
    EventWeights,
    FactorSign,
    FalseAlarmCost,
    ItemScaling,
    Loss,
    MaxIter,
    MissCost,
    Neighbors,
    NeighborScaling,
    PositiveCost,
    Precision,
    Rank,
    RecallWeight,
    RegLowRank,
    RegNeighbors,
    RegSparse,
    Seed,
    StepSize,
    Threads,
    TimeLimit,
    Tol,
    UserScaling,
)
from csrr.models.build_problem import ClickProblem, Words
from csrr.models.robust import Fit, RobustModel, Start
from csrr.models.settings_search import Wanted
from csrr.models.strengths import resolve_rank
from csrr.optim.algorithm2 import algorithm2, first_nonnegative, nonnegative_part
from csrr.optim.factored import Factors, pick_lower, solve_factored, widen
from csrr.optim.problem import Problem
from csrr.optim.solver import Callback, Options
from csrr.parameters import ParameterError, declare, parameter

DEFAULT_RANK = 128


@declare
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

    loss: Loss = parameter(default="I", kw_only=False)
    cost_ratio: CostRatio = parameter(default=None, kw_only=False)
    rank: Rank = None
    factors: FactorSign = "free"
    step: StepSize = "auto"
    positive_cost: PositiveCost = None
    miss_cost: MissCost = None
    false_alarm_cost: FalseAlarmCost = None
    recall_weight: RecallWeight = None
    event_weights: EventWeights = "ignore"
    reg_low_rank: RegLowRank = "auto"
    reg_sparse: RegSparse = "auto"
    neighbors: Neighbors = "auto"
    reg_neighbors: RegNeighbors = "auto"
    neighbor_scaling: NeighborScaling = 0.0
    l1: L1 = None
    l2: L2 = None
    user_scaling: UserScaling = 0.3
    item_scaling: ItemScaling = 0.3
    tol: Tol = 3e-4
    max_iter: MaxIter = 1000
    time_limit: TimeLimit = None
    dtype: Precision = "float32"
    threads: Threads = 0
    seed: Seed = 0

    @property
    def searches(self) -> bool:
        """Whether what is left open is chosen on held-out events."""
        # The paper's own form stays what it is.
        return self.factors == "free"

    def wanted(self) -> Wanted:
        """Return what the parameters give, by rule where they give nothing, and what they leave to the data."""
        wanted = super().wanted()
        return replace(wanted, given=wanted.given._replace(max_rank=DEFAULT_RANK if self.rank is None else self.rank))

    def is_bounded(self, words: Words) -> bool:
        """Return whether the factors of a fit are bounded, as in the paper's CSRR-e."""
        return not words.free

    def check_params(self) -> None:
        """Raise ParameterError for parameters that make no sense, alone or together."""
        super().check_params()
        if self.step != "auto" and self.factors == "free":
            raise ParameterError('step goes with factors="nonnegative": the free form needs none')

    def solve(self, problem: ClickProblem, start: Start, callback: Callback | None) -> Fit:
        """Return the factors of U, free or non-negative."""
        core = problem.problem
        rank = resolve_rank(self.rank, DEFAULT_RANK, core.pattern.shape)
        options = Options(self.tol, self.max_iter, self.time_limit, None, self.seed)
        if self.factors == "free":
            first = start.low_rank(self.dtype) if isinstance(start, RobustModel) else start
            solution = solve_factored(core, rank, options, start=first, callback=callback)
        else:
            step = None if self.step == "auto" else float(self.step)
            begin = self._first(core, start, rank) if isinstance(start, RobustModel) else None
            solution = algorithm2(core, rank, options, step=step, start=begin, callback=callback)
        return Fit(solution.factors, solution.certificate, solution.history, free=self.factors == "free")

    def _first(self, problem: Problem, start: RobustModel, rank: int) -> Factors:
        """Non-negative factors to begin with: those of another such model, or what is positive of an SVD; none of
        these where a start without a model is lower, as it is when theirs are next to nothing."""
        factors, rng = start.fitted_.factors(self.dtype), np.random.default_rng(self.seed)
        if factors.users.shape[1] != rank or min(factors.users.min(), factors.items.min()) < 0:
            factors = nonnegative_part(widen(Factors.of(start.low_rank(self.dtype)), rank, rng), rng)
        return pick_lower(problem, factors, first_nonnegative(problem, rank, rng))
