"""CSRR: common taste (low-rank) plus the choices it does not explain (sparse), fitted to a certificate."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, ClassVar

import numpy as np

from csrr import model_parameters as shared
from csrr.data.ids import Id
from csrr.model_parameters import LOW_RANK_WALK, Range
from csrr.models.build_problem import ClickProblem
from csrr.models.csrr_base import CSRRBase, Start
from csrr.models.estimator import ask_one_state
from csrr.models.foldin import read_histories
from csrr.models.order import Session
from csrr.models.recommend import IdLookup, is_one_id, list_ids
from csrr.numerics.certificate import compute_gap
from csrr.numerics.factored import FactoredSolution, Factors
from csrr.numerics.paper_solvers import algorithm1
from csrr.numerics.problem import LowRank
from csrr.numerics.solver import Callback
from csrr.parameters import ParameterError, declare, parameter

SEARCH_SPACE: dict[str, Any] = {
    "cost_ratio": Range(1, 8, log=True),
    "user_scaling": Range(0, 0.6),
    "item_scaling": Range(0, 0.6),
    "reg_sparse": [1.0, 0.85, 0.7],
    "neighbors": [0, 20, 50],
    "reg_neighbors": Range(0.3, 30, log=True),
    "reg_low_rank": LOW_RANK_WALK,
}
"""The space of CSRR, and most of that of CSRR-e."""


@declare
class CSRR(CSRRBase):
    """Robust cost-sensitive recommendation: convex low-rank + sparse factorization, plus item neighbors.

    Scores are U + X*S: common taste U, and weights S from the items in the user's history. Given clicks A, U and V

        minimize  l1*||U||_* + l2*sum(t*V) + sum_ij loss(U_ij + V_ij, t_ij),   0 <= V <= 1

    over low-rank U (common taste) and sparse V (user-specific choices), t = D_u^-user_scaling * A * D_i^-item_scaling
    (D: the number of clicks of a user, or on an item). All unobserved cells count, with weight 1 and target 0. The fit
    stops when the relative duality gap is below `tol`. S, items x items, is then the exact solution of

        minimize  rho/2*||S||_F^2 + 1/2*||T - U - X*S||_F^2,   X = D_u^-neighbor_scaling * A * D_i^-item_scaling

    on the `neighbors` items nearest to each item. rho is `reg_neighbors` times the mean diagonal of X'X.

    Parameters that are "auto", or left out, are chosen on a held-out tenth of the events; `chosen_` lists what was
    tried. Numbers that you give are kept. With `reg_low_rank` or `l1` given, only the neighbors are chosen, and other
    "auto" parameters have the values for logs too small for a search: cost ratio 2, `reg_sparse` 0.85, `max_rank` 1000.

    With `order` "next", scores are for what comes next. A user's history is x = sum of decay^(later events) * e(item);
    scores are z*R' + x*S, where z is how U folds x in, R is the ridge regression of the next item on z, and S minimizes

        rho/2*||D^h S||_F^2 + 1/2*sum of ||y_t - R*z_t - x_t*S||^2,   D: the events of each item, y_t = e(i_t),

    over all events i_t of all users, x_t the history before them, on the `neighbors` items most predictive of each;
    h is `history_scaling`. With a `horizon` g, y_t is the sum of (1 - g)*g^n*e(i_(t+n)) over n >= 0. Each score is
    divided by the item's number of events to the power `rare_scaling`. Parameters that are "auto" are chosen on each
    user's last training event, or on several where `hold_out` says so. The log has times, or is read with
    ``ordered=True``.

    `event_weights` multiply a click's weight (loss II: its target) and its penalty in V. With `denoise` an event counts
    in A, and in D, as q^denoise, q its probability of being genuine by a first fit (see `suspects`); events of new
    histories count 1, and seen items stay seen. "auto" tries that, by held-out events, where the first fit finds noise.

    Parameters
    ----------
    loss
        The paper's loss: "I" weights observed cells by the cost ratio, "II" multiplies their target by it.
    cost_ratio
        The weight of clicks: in the paper, the cost of a miss divided by the cost of a false alarm. None: chosen on
        held-out events, or 2.
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
    order
        What the order of events is for: "next" predicts what comes next from recent histories; "recent" only lets
        recent events count more; "auto": what ranks each user's last training event best; "ignore": nothing.
    decay
        With `order`: the factor by which an event counts less for each later one of the user, between 0 and 1; or up to
        three such factors, each with neighbors of its own.
    horizon
        With order "next": how far ahead it looks. 0: at the next event alone; else by what factor each later one counts
        less. "auto": 0, or chosen where several events of a user are held out (`hold_out`).
    history_scaling
        With order "next": before neighbors are fitted, events are divided by this power of the number of events of
        their item.
    rare_scaling
        With order "next": the power of its number of events by which the score of an item is divided.
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
    max_rank
        Upper bound on the rank, to save time and memory; None: no bound. The certificate says if it binds.
    hold_out
        Which tenth of the events "auto" parameters are chosen on: "random" or "last" of each user's, or the last of all
        in "time"; "auto": as the log's own test was held out (`csrr.split`), else at random. With `order` it is a
        fifth, or each user's last event if nothing else is said.
    box
        "paper" runs the paper's Algorithm 1 as printed, on dense arrays and without neighbors: for small data. It stops
        by its objective or `max_iter`, and `max_rank` truncates its result.
    step
        The step size of the paper's algorithm; "auto": as long as is safe.
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
        How far U is from the optimum at most.
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
        Shapes (n_users, rank) and (n_items, rank): their products are the common taste, in units where a click is 1.
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
        S: what item i in a history, or as its latest item with `order`, adds to the score of item j, sparse of shape
        (n_items, n_items).

    Examples
    --------
    >>> log = csrr.synthetic(60, 40, events_per_user=10).log
    >>> model = csrr.CSRR(cost_ratio=5, reg_low_rank=0.2, neighbors=5).fit(log)
    >>> bool(model.certificate_.gap < model.tol)
    True
    >>> model.recommend([3, 5], k=4).items.shape
    (2, 4)
    >>> model.explain(3, 7).amounts.shape == model.seen_[[3]].data.shape
    True
    """

    loss: shared.Loss = parameter(default="I", kw_only=False)
    cost_ratio: shared.CostRatio = parameter(default=None, kw_only=False)
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
    order: shared.Order = "ignore"
    decay: shared.Decay = "auto"
    horizon: shared.Horizon = "auto"
    history_scaling: shared.HistoryScaling = "auto"
    rare_scaling: shared.RareScaling = "auto"
    denoise: shared.Denoise = "auto"
    l1: shared.L1 = None
    l2: shared.L2 = None
    user_scaling: shared.UserScaling = 0.3
    item_scaling: shared.ItemScaling = 0.3
    max_rank: shared.MaxRank = "auto"
    hold_out: shared.HoldOut = "auto"
    box: shared.Box = "none"
    step: shared.Step = "auto"
    tol: shared.Tol = 0.01
    max_iter: shared.MaxIter = 100
    time_limit: shared.TimeLimit = None
    dtype: shared.Dtype = "float32"
    threads: shared.Threads = 0
    engine: shared.Engine = "auto"
    seed: shared.Seed = 0

    search_space: ClassVar = SEARCH_SPACE

    @property
    def is_paper_form(self) -> bool:
        """Whether the solver is the paper's."""
        return self.box == "paper"

    def check_params(self) -> None:
        super().check_params()
        if self.order != "ignore" and self.is_paper_form:
            raise ParameterError('order goes with box="none" only: the paper\'s algorithm knows no order')
        if self.step != "auto" and self.box == "none":
            raise ParameterError.of("step", self.step, 'is for box="paper"; the exact solver finds its own steps')

    @ask_one_state
    def session(self, user: Id | None = None, *, history: Any = ()) -> Session:
        """Return the history of a user, or of a new one, to which events are then added one by one.

        Parameters
        ----------
        user
            The id of a user of the training data; None for a new one.
        history
            The items of a new user, newest last.

        Returns
        -------
        session
            With `add` and `recommend`.

        Raises
        ------
        ParameterError
            For a model without `order`, and for a user together with a history.
        """
        self.check_fitted()
        if self.fitted_.faded is None:
            raise ParameterError('a session needs a model of order="next" or "recent"; without, use recommend_for')
        given = history if isinstance(history, Set) else list_ids(history)
        if user is None:
            return Session(self, self.fitted_.faded, read_histories(self, [given], IdLookup("raise"))[1])
        if not is_one_id(user):
            raise ParameterError("user must be one id; the items of a new user are session(history=[...])")
        if len(given):
            raise ParameterError("give a user or a history, not both; add the events that followed")
        return Session(self, self.fitted_.faded, self.histories[[self.users_.row(user)]])

    def _solve(self, problem: ClickProblem, start: Start, callback: Callback | None) -> FactoredSolution:
        """U: the optimum, or the result of the paper's Algorithm 1."""
        if not self.is_paper_form:
            return super()._solve(problem, start, callback)
        if start is not None:
            raise ParameterError('start does not go with box="paper": Algorithm 1 begins at zero')
        if problem.clicks.values is not None:
            raise ParameterError(
                'box="paper" has one cost for all clicks; leave out event_weights and costs of users or items'
            )
        return self._solve_dense(problem, callback)

    def _solve_dense(self, built: ClickProblem, callback: Callback | None) -> FactoredSolution:
        """The paper's Algorithm 1; its gap is to the optimum without the box."""
        problem = built.problem
        result = algorithm1(
            problem.pattern.make_matrix(np.ones(problem.pattern.nnz)),
            target=problem.pattern.make_matrix(built.weighted_targets.astype(np.float64)),
            alpha=built.costs.alpha,
            l1=problem.l1,
            l2=built.l2,
            loss=self.loss,
            step=None if self.step == "auto" else self.step,
            max_iter=self.max_iter,
            time_limit=self._make_options(built.settings).time_limit,
            callback=None if callback is None else lambda step, *_: callback(step),
        )
        left, s, right = np.linalg.svd(result.U, full_matrices=False)
        keep = s > 1e-6 * max(s[0], 1e-30)
        most = built.settings.max_rank
        cut = most is not None and int(keep.sum()) > most
        keep[most:] = False
        low_rank = LowRank(
            problem.engine.put(problem.pattern, left[:, keep].astype(self.dtype)),
            s[keep],
            np.ascontiguousarray(right[keep].T).astype(self.dtype),
        )
        gap = compute_gap(problem, low_rank, np.random.default_rng(self.seed), rtol=1e-5, in_span=cut)
        seconds = result.history[-1].seconds if result.history else 0.0
        certificate = gap.certify(problem, low_rank.rank, result.iterations, result.status, seconds, cut)
        return FactoredSolution(Factors.of(low_rank), certificate, result.history)
