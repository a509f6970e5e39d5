"""CSRR: common taste (low-rank) plus the choices it does not explain (sparse), fitted to a certificate."""

from __future__ import annotations

from typing import Any

import numpy as np

from csrr.model_parameters import (
    L1,
    L2,
    Box,
    CostRatio,
    EventWeights,
    FalseAlarmCost,
    ItemScaling,
    Loss,
    MaxIter,
    MaxRank,
    MissCost,
    Neighbors,
    NeighborScaling,
    PositiveCost,
    Precision,
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
from csrr.models.build_problem import ClickProblem
from csrr.models.robust import Fit, RobustModel, Start, check_precision
from csrr.optim.algorithm1 import Iteration, algorithm1
from csrr.optim.certificate import Certificate, duality_gap, relative_gap
from csrr.optim.lowrank import LowRank
from csrr.optim.solver import Callback, Solution, Step
from csrr.parameters import ParameterError, declare, parameter


@declare
class CSRR(RobustModel):
    """Scores U + X*S: common taste, and what goes with what one has. U is that of a convex model of clicks A:

        minimise  l1*||U||_* + l2*sum(t*V) + sum_ij loss(U_ij + V_ij, t_ij),   0 <= V <= 1

    over low-rank U (common taste) and sparse V (a user's own choices), t = D_u^-user_scaling * A * D_i^-item_scaling
    (D: the number of clicks of a user, on an item). Loss "I" weighs an observed cell by `cost_ratio`, "II" multiplies
    its target by it; all unobserved cells count, with weight 1 and target 0. Stops when the duality gap is below `tol`.
    S, items x items, then solves, exactly,

        minimise  rho/2*||S||_F^2 + 1/2*||T - U - X*S||_F^2,   X = D_u^-neighbor_scaling * A * D_i^-item_scaling

    on the `neighbors` items nearest to each item. rho is `reg_neighbors` times the mean diagonal of X'X.

    What is "auto", or left out, is chosen on a tenth of the events, held out: `chosen_` is the table of what was tried.
    A number is never overruled. With `reg_low_rank` or `l1` given only the neighbours are chosen; "auto" is then what
    it is for logs too small to choose by: cost ratio 2, `reg_sparse` 0.85, `max_rank` 1000.

    `cost_ratio` (what a miss costs, in false alarms) may also be given as `positive_cost` (c_p of c_p + c_n = 1) or
    as `miss_cost` and `false_alarm_cost` or as `recall_weight` (mu_p of mu_p*recall + mu_n*specificity, T_n/T_p
    estimated from the clicks). `event_weights` says what the weights of the events are: "cost", factors on the cost of
    a miss; "linear" or "log" (of 1 + weight), confidence such as play counts, divided by their mean. A click's weight
    (loss II: its target) and its penalty in V then have that factor.

    `reg_low_rank` is l1 as a fraction of the value that gives U = 0, or "noise": half the norm of the targets with
    random signs. `reg_sparse` is l2 as a fraction of the value that gives V = 0; 1 or more leaves V out. `l1` and `l2`
    give the strengths themselves instead. `neighbors` 0 leaves S out. `max_rank` bounds the rank (None: no bound); the
    certificate says when it binds. `box="paper"` runs the paper's Algorithm 1 to the letter, on dense arrays, without
    S: for small data; it takes steps of length `step` ("auto": as long as is safe), stops by its objective or
    `max_iter`, not by `tol`, and `max_rank` cuts its result. Choosing takes at most half of `time_limit`. `threads` 0
    means all cores.

    Fitted: `user_factors_`, `item_factors_` (their products are the common taste, in units where a click is 1),
    `neighbors_` (what item i in a history adds to the score of item j, sparse), `specific_` (V in those units, sparse),
    `rank_`, `certificate_` (of U), `history_` (a `Step` an iteration), `chosen_`, `costs_`, `l1_`, `l2_`.
    """

    loss: Loss = parameter(default="I", kw_only=False)
    cost_ratio: CostRatio = parameter(default=None, kw_only=False)
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
    max_rank: MaxRank = "auto"
    box: Box = "none"
    step: StepSize = "auto"
    tol: Tol = 0.01
    max_iter: MaxIter = 100
    time_limit: TimeLimit = None
    dtype: Precision = "float32"
    threads: Threads = 0
    seed: Seed = 0

    walked = ("reg_low_rank", "l1")

    @property
    def searches(self) -> bool:
        """Whether what is left open is chosen on held-out events."""
        # The paper's own algorithm stays what it is.
        return self.box == "none"

    def check_params(self) -> None:
        """Raise ParameterError for parameters that make no sense, alone or together."""
        super().check_params()
        check_precision(self.tol, self.dtype)
        if self.step != "auto" and self.box == "none":
            raise ParameterError(f'step={self.step!r} is for box="paper"; the exact solver finds its own steps')

    def solve(self, problem: ClickProblem, start: Start, callback: Callback | None) -> Fit:
        """Return the factors of U: the optimum, or what the paper's Algorithm 1 comes to."""
        if self.box == "none":
            return self.solve_convex(problem, start, callback)
        if start is not None:
            raise ParameterError('start does not go with box="paper": Algorithm 1 begins at zero')
        if problem.clicks.values is not None:
            raise ParameterError(
                'box="paper" has one cost for all clicks; leave out event_weights and costs of users or items'
            )
        return self._solve_dense(problem, callback)

    def _solve_dense(self, built: ClickProblem, callback: Callback | None) -> Fit:
        """The paper's Algorithm 1; its gap is to the optimum without the box."""
        problem = built.problem
        history: list[Step] = []

        def record(done: Iteration, *_: Any) -> None:
            history.append(Step(done.number, done.objective, float("nan"), done.rank, done.seconds))
            if callback is not None:
                callback(history[-1])

        result = algorithm1(
            problem.pattern.matrix(np.ones(problem.pattern.nnz)),
            target=problem.pattern.matrix(built.asked.astype(np.float64)),
            alpha=built.costs.ratio,
            l1=problem.l1,
            l2=built.l2,
            loss=self.loss,
            step=None if self.step == "auto" else self.step,
            max_iter=self.max_iter,
            time_limit=self.time_limit,
            callback=record,
        )
        left, s, right = np.linalg.svd(result.U, full_matrices=False)
        keep = s > 1e-6 * max(s[0], 1e-30)
        most = built.settings.max_rank
        cut = most is not None and int(keep.sum()) > most
        keep[most:] = False
        low_rank = LowRank(
            left[:, keep].astype(self.dtype), s[keep], np.ascontiguousarray(right[keep].T).astype(self.dtype)
        )
        primal, dual, norm, _ = duality_gap(problem, low_rank, np.random.default_rng(self.seed), rtol=1e-5)
        gap, seconds = relative_gap(primal, dual), history[-1].seconds if history else 0.0
        certificate = Certificate(
            *(primal, dual, gap, low_rank.rank, result.iterations, result.status, seconds, cut, norm / problem.l1)
        )
        return Fit.of(Solution(low_rank, certificate, history), free=False)
