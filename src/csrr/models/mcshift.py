"""Matrix completion from positive and unlabeled cells: MC-Shift and BiasMC, on the convex core.

A share `rho` of the positive cells is taken to be unobserved; no V, no scaling, otherwise the core's problem.
"""

from __future__ import annotations

from typing import ClassVar

from csrr import model_parameters as shared
from csrr.data.log import Log
from csrr.model_parameters import LOW_RANK_WALK, Range
from csrr.models.build_problem import Costs
from csrr.models.csrr_base import CSRRBase
from csrr.parameters import declare, parameter


@declare
class MCShift(CSRRBase):
    """Positive-unlabeled matrix completion with a shifted loss (Hsieh, Natarajan, Dhillon 2015).

    Scores are the X, with the nuclear norm as a penalty, that

        minimize  l1*||X||_* + 1/2*sum_ij s(X_ij, A_ij)

    with a loss that is unbiased if a share `rho` of the ones is hidden: s(x, 0) = x^2 and
    s(x, 1) = ((x - 1)^2 - rho*x^2)/(1 - rho). Completing the square, s(x, 1) = (x - 1/(1 - rho))^2 + const: a shifted
    target, weight 1 on every cell, so one soft-thresholded SVD is the solution, and CSRR's certificate holds.
    The bounds 0 <= X <= 1 of the original are left out: they do not affect the ranking.

    Only l1*(1 - rho) affects the ranking, so with the relative `reg_low_rank`, rho only scales the scores.

    Parameters
    ----------
    rho
        The share of the positive cells that were not observed.
    reg_low_rank
        Nuclear-norm regularization, as a fraction of the value that gives rank 0; "noise": half the norm of the targets
        with random signs.
    l1
        The nuclear-norm regularization as an absolute value, in place of `reg_low_rank`.
    max_rank
        Upper bound on the rank, to save time and memory; None: no bound. The certificate says if it binds.
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
        How far X is from the optimum at most.
    history_
        A `Step` an iteration.
    specific_
        Empty, of shape (n_users, n_items): there is no V.
    rank_
        The rank of X.
    l1_
        The strength on the rank.
    l2_
        None: there is no V.
    costs_
        What a miss costs by `rho`.
    chosen_
        How the settings were chosen.
    fitted_
        The problem as it was solved, for folding in.
    features_, user_features_
        What the fit was told of items and users, and how much it counts: `Features`; or None.
    user_factors_, item_factors_
        Shapes (n_users, rank) and (n_items, rank): their products are X.
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

    Examples
    --------
    >>> model = csrr.MCShift(rho=0.3).fit(csrr.synthetic(60, 40, events_per_user=10).log)
    >>> model.costs_.ratio == 1 / 0.7
    True
    """

    loss = "II"
    # With a relative strength rho only scales the scores.
    search_space: ClassVar = {"reg_low_rank": LOW_RANK_WALK}
    has_v: ClassVar[bool] = False

    rho: shared.Rho = parameter(default=0.5, kw_only=False)
    reg_low_rank: shared.RegLowRank = "auto"
    l1: shared.L1 = None
    max_rank: shared.MaxRank = 1000
    tol: shared.Tol = 0.01
    max_iter: shared.MaxIter = 100
    time_limit: shared.TimeLimit = None
    dtype: shared.Dtype = "float32"
    threads: shared.Threads = 0
    engine: shared.Engine = "auto"
    seed: shared.Seed = 0

    def resolve_costs(self, log: Log) -> Costs:
        return Costs.literal(1 / (1 - self.rho), f"rho={self.rho:g}")


@declare
class BiasMC(CSRRBase):
    """Positive-unlabeled matrix completion with label-dependent weights (Hsieh, Natarajan, Dhillon 2015).

    Scores are the X, with the nuclear norm as a penalty, that

        minimize  l1*||X||_* + 1/2*(b*sum_{A=1} (X - 1)^2 + (1 - b)*sum_{A=0} X^2)/(1 - b),   b = (1 + rho)/2

    b is the right weight if a share `rho` of the ones is hidden: observed cells get the weight (1 + rho)/(1 - rho).
    This is CSRR's loss I without V.

    Parameters
    ----------
    rho
        The share of the positive cells that were not observed.
    reg_low_rank
        Nuclear-norm regularization, as a fraction of the value that gives rank 0; "noise": half the norm of the targets
        with random signs.
    l1
        The nuclear-norm regularization as an absolute value, in place of `reg_low_rank`.
    max_rank
        Upper bound on the rank, to save time and memory; None: no bound. The certificate says if it binds.
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
        How far X is from the optimum at most.
    history_
        A `Step` an iteration.
    specific_
        Empty, of shape (n_users, n_items): there is no V.
    rank_
        The rank of X.
    l1_
        The strength on the rank.
    l2_
        None: there is no V.
    costs_
        What a miss costs by `rho`.
    chosen_
        How the settings were chosen.
    fitted_
        The problem as it was solved, for folding in.
    features_, user_features_
        What the fit was told of items and users, and how much it counts: `Features`; or None.
    user_factors_, item_factors_
        Shapes (n_users, rank) and (n_items, rank): their products are X.
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

    Examples
    --------
    >>> model = csrr.BiasMC(rho=0.5).fit(csrr.synthetic(60, 40, events_per_user=10).log)
    >>> model.costs_.ratio
    3.0
    """

    loss = "I"
    search_space: ClassVar = {"rho": Range(0, 0.9), "reg_low_rank": LOW_RANK_WALK}
    has_v: ClassVar[bool] = False

    rho: shared.Rho = parameter(default=0.5, kw_only=False)
    reg_low_rank: shared.RegLowRank = "auto"
    l1: shared.L1 = None
    max_rank: shared.MaxRank = 1000
    tol: shared.Tol = 0.01
    max_iter: shared.MaxIter = 100
    time_limit: shared.TimeLimit = None
    dtype: shared.Dtype = "float32"
    threads: shared.Threads = 0
    engine: shared.Engine = "auto"
    seed: shared.Seed = 0

    def resolve_costs(self, log: Log) -> Costs:
        return Costs.literal((1 + self.rho) / (1 - self.rho), f"rho={self.rho:g}")
