"""CSRR-e: CSRR in factors of a given rank, for speed; free, or non-negative as in the paper."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from csrr import model_parameters as shared
from csrr.model_parameters import Range, Ranks
from csrr.models.build_problem import ClickProblem
from csrr.models.csrr import SEARCH_SPACE
from csrr.models.csrr_base import CSRRBase, Start
from csrr.models.estimator import resolve_rank
from csrr.numerics.factored import FactoredSolution, Factors, pick_lower, solve_factored, widen
from csrr.numerics.paper_solvers import algorithm2, guess_nonnegative, take_nonnegative_part
from csrr.numerics.problem import Problem
from csrr.numerics.solver import Callback
from csrr.parameters import ParameterError, declare, parameter

DEFAULT_RANK = 128


@declare
class CSRRe(CSRRBase):
    """CSRR with a fixed rank: the low-rank part is factored, as in the paper's CSRR-e.

    Scores are U + X*S as in `CSRR`, with U = P Q', P of (n_users, rank) and Q of (n_items, rank), that

        minimize  l1/2*(||P||^2 + ||Q||^2) + l2*sum(t*V) + sum_ij loss((P Q')_ij + V_ij, t_ij),   0 <= V <= 1

    with loss, costs, scaling, regularization, neighbors and "auto" as in `CSRR`. `factors="free"` alternates
    between P and Q, with V in closed form. A stationary point whose gradient has no singular value above l1 is a global
    optimum of the convex problem: `certificate_.is_global` says whether it is one, and `certificate_.gap` bounds the
    distance. `factors="nonnegative"` has 0 <= U <= 1, by projected gradient steps (`step` "auto": with momentum), with
    V updated after each inner loop. Its certificate, too, is that of the convex problem, which has no such bounds.

    The fit stops when the relative gain of an iteration is below `tol`, or after `max_iter` (nonnegative form: gradient
    steps). The V that the model keeps is optimal for its U. `rank` None is 128, or fewer if there are fewer users or
    items.

    Parameters
    ----------
    loss
        The paper's loss: "I" weights observed cells by the cost ratio, "II" multiplies their target by it.
    cost_ratio
        The weight of clicks: in the paper, the cost of a miss divided by the cost of a false alarm. None: chosen on
        held-out events, or 2.
    rank
        The number of factors; None: a default, or fewer if there are fewer users or items.
    factors
        "free", or "nonnegative": the paper's form, with factors in [0, 1/sqrt(rank)] and without neighbors.
    step
        The step size of the paper's algorithm; "auto": as long as is safe.
    v_update
        How nonnegative factors update V after each inner loop: "best", to its minimum, or "step", by the paper's single
        proximal step.
    positive_cost
        The same as a share: the cost of a miss, if a miss and a false alarm together cost 1.
    miss_cost
        The cost of a miss in your own units, for decisions; needs `false_alarm_cost`.
    false_alarm_cost
        The cost of a false alarm in the same units; needs `miss_cost`.
    recall_weight
        The same as the weight of recall, that of specificity being 1 minus it; the share of positives is estimated from
        the clicks.
    event_weights
        How event weights are used: "ignore"; "cost", as factors on the cost of a miss; "linear" or "log" (of 1 +
        weight), as confidence, such as play counts, divided by their mean; "auto": "linear" where they are given by
        event type, else "ignore".
    half_life
        The age at which an event counts half, relative to the latest event: in days, or like "90d"; None: no decay.
    reg_low_rank
        Nuclear-norm regularization, as a fraction of the value that gives rank 0; "noise": half the norm of the targets
        with random signs.
    reg_sparse
        Regularization of the user-specific choices V, as a fraction of the value that gives V = 0; 1 or more: no V.
    neighbors
        The number of nearest items whose weights add to an item's score; 0: none.
    reg_neighbors
        Ridge penalty on the weights of neighbors, in units of the mean diagonal of X'X.
    neighbor_scaling
        Before neighbors are fitted, a user's clicks are divided by this power of their number.
    denoise
        How much less events count that a first fit takes for noise: by this power of their probability of being
        genuine; 0: not at all.
    l1
        The nuclear-norm regularization as an absolute value, in place of `reg_low_rank`.
    l2
        The regularization of V as an absolute value, in place of `reg_sparse`.
    user_scaling
        How much clicks of active users are scaled down, from 0 (not at all) to 1.
    item_scaling
        How much clicks on popular items are scaled down, from 0 (not at all) to 1.
    hold_out
        Which tenth of the events "auto" parameters are chosen on: "random" or "last" of each user's, or the last of all
        in "time"; "auto": as the log's own test was held out (`csrr.split`), else at random. With `order` it is a
        fifth, or each user's last event if nothing else is said.
    tol
        Stop at this relative gap to the optimum; in CSRRe, at this relative gain.
    max_iter
        Stop after this many iterations.
    time_limit
        Stop after this many seconds, half of them for the search; at least one SVD and its certificate are computed.
    dtype
        The floating-point precision of the computation.
    threads
        The number of threads; 0 for all cores.
    engine
        Where the work runs: on threads of this process, which is what "auto" is, on a GPU ("cuda"), with workers of
        Dask ("dask"), or where an object with the methods of `csrr.numerics.engine.Engine` has it. Results differ by
        rounding; no file keeps it.
    seed
        Seed of the random numbers.

    Attributes
    ----------
    certificate_
        How far U is from the optimum of the convex problem at most.
    history_
        A `Step` an iteration.
    specific_
        V in units where a click is 1, sparse of shape (n_users, n_items).
    rank_
        The rank of U.
    l1_
        The strength on the rank.
    l2_
        The regularization of V, or None if U was fitted without V.
    costs_
        What a miss costs, and where that comes from.
    chosen_
        What was tried on held-out events, a row each, and the settings that were taken.
    fitted_
        The problem as it was solved, for folding in and judging.
    features_, user_features_
        What the fit was told of items and users, and how much it counts: `Features`; or None.
    user_factors_, item_factors_
        P and Q, shapes (n_users, rank) and (n_items, rank), in units where a click is 1.
    users_, items_
        The ids of the training data, in the order of their rows.
    titles_
        The titles of the items, or None.
    item_table_
        The item table set by `set_items`, or None.
    seen_
        The training events: ones, sparse of shape (n_users, n_items).
    seen_weights_, seen_times_
        The weights of these events, if the model uses weights, and their times, if the log has them: shape
        (n_events,) each, or None.
    seen_ages_
        The number of later events of the same user for each, shape (n_events,), if the model uses the order; or None.
    calibration_
        The calibration that `calibrate` learned, or None.
    neighbors_
        S: what item i in a history adds to the score of item j, sparse of shape (n_items, n_items).

    Examples
    --------
    >>> log = csrr.synthetic(60, 40, events_per_user=10).log
    >>> model = csrr.CSRRe(cost_ratio=5, rank=8, reg_low_rank=0.2, neighbors=0).fit(log)
    >>> model.user_factors_.shape
    (60, 8)
    """

    loss: shared.Loss = parameter(default="I", kw_only=False)
    cost_ratio: shared.CostRatio = parameter(default=None, kw_only=False)
    rank: shared.Rank = None
    factors: shared.Factors = "free"
    step: shared.Step = "auto"
    v_update: shared.VUpdate = "best"
    positive_cost: shared.PositiveCost = None
    miss_cost: shared.MissCost = None
    false_alarm_cost: shared.FalseAlarmCost = None
    recall_weight: shared.RecallWeight = None
    event_weights: shared.EventWeights = "auto"
    half_life: shared.HalfLife = None
    reg_low_rank: shared.RegLowRank = "auto"
    reg_sparse: shared.RegSparse = "auto"
    neighbors: shared.Neighbors = "auto"
    reg_neighbors: shared.RegNeighbors = "auto"
    neighbor_scaling: shared.NeighborScaling = 0.0
    denoise: shared.Denoise = "auto"
    l1: shared.L1 = None
    l2: shared.L2 = None
    user_scaling: shared.UserScaling = 0.3
    item_scaling: shared.ItemScaling = 0.3
    hold_out: shared.HoldOut = "auto"
    tol: shared.Tol = 3e-4
    max_iter: shared.MaxIter = 1000
    time_limit: shared.TimeLimit = None
    dtype: shared.Dtype = "float32"
    threads: shared.Threads = 0
    engine: shared.Engine = "auto"
    seed: shared.Seed = 0

    # No walk: a start of low rank holds the factors back, and the fits take longer.
    search_space: ClassVar = {
        **SEARCH_SPACE,
        "rank": Ranks((64, 128, 256)),
        "reg_low_rank": Range(0.04, 0.5, log=True),
    }
    walked: ClassVar[tuple[str, ...]] = ()
    is_convex: ClassVar[bool] = False

    @property
    def max_rank(self) -> int:  # type: ignore[override]
        """The bound on the rank: a given rank is one."""
        return DEFAULT_RANK if self.rank is None else self.rank

    @property
    def is_paper_form(self) -> bool:
        """Whether the factors are bounded, as the paper's."""
        return self.factors == "nonnegative"

    def check_params(self) -> None:
        super().check_params()
        if self.step != "auto" and self.factors == "free":
            raise ParameterError('step goes with factors="nonnegative": the free form needs none')
        if self.v_update != "best" and self.factors == "free":
            raise ParameterError.of(
                "v_update", "step", 'goes with factors="nonnegative": the free form has V at its best'
            )

    def _solve(self, problem: ClickProblem, start: Start, callback: Callback | None) -> FactoredSolution:
        core, options = problem.problem, self._make_options(problem.settings)
        rank = resolve_rank(self.rank, DEFAULT_RANK, core.pattern.shape)
        if not self.is_paper_form:
            first = start.to_low_rank(core.engine) if isinstance(start, Factors) else start
            return solve_factored(core, rank, options, start=first, callback=callback)
        step = None if self.step == "auto" else float(self.step)
        begin = self._make_nonnegative(core, start, rank) if isinstance(start, Factors) else None
        single = self.v_update == "step"
        return algorithm2(core, rank, options, step=step, single_v_step=single, start=begin, callback=callback)

    def _make_nonnegative(self, problem: Problem, start: Factors, rank: int) -> Factors:
        """Non-negative factors to begin at: those given, or the positive part of their SVD.

        A guess from the data is taken where its objective is lower, as happens when the given ones are nearly 0.
        """
        rng = np.random.default_rng(self.seed)
        if start.users.shape[1] != rank or min(start.users.min(), start.items.min()) < 0:
            wide = widen(problem.pattern, Factors.of(start.to_low_rank(problem.engine)), rank, rng)
            start = take_nonnegative_part(problem.pattern, wide, rng)
        return pick_lower(problem, start, guess_nonnegative(problem, rank, rng))
