"""The fit that CSRR and its relatives share: common taste U, neighbors S and specific choices V; and their scores."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np
from scipy import sparse

from csrr._base.arrays import AnyArray, BoolArray, Float32Array, Int64Array, Rows
from csrr._base.threads import limit_time, n_threads, seconds_left, use_threads
from csrr.data.ids import Id, IdMap
from csrr.data.log import Log
from csrr.models.auto import CHOSEN_PARTS, Chosen, choose_settings, keep_settings
from csrr.models.base import Recommender, mark_nothing
from csrr.models.build_problem import RULE, ClickProblem, Costs, CostSpec, Settings, build_problem
from csrr.models.describe import add_features, add_items, add_users, fold_in_features, keep_features, read_given
from csrr.models.estimator import (
    ask_one_state,
    change_at_once,
    explain_memory,
    follow_steps,
    join_events,
    place_rows_by_id,
    weigh,
)
from csrr.models.features import Features, describe_features, feature_arrays, name_shared, restore_features
from csrr.models.fitted_problem import (
    BEFORE_NEIGHBORS,
    KEPT,
    CSRRFacts,
    FittedProblem,
    fit_neighborhood,
    name_parameter,
    refold_users,
)
from csrr.models.foldin import FoldedFactors, FoldedItems
from csrr.models.recommend import name_items
from csrr.models.schema import Arrays, FileSchema, sparse_arrays
from csrr.models.store import STEPS, ModelState, step_arrays, steps_from
from csrr.noise.scores import STRONG, LeaveOneOut, Tastes, judge_choices
from csrr.noise.suspects import Preferences, Stability, Suspects, find_suspects, measure_stability
from csrr.numerics.certificate import Certificate
from csrr.numerics.factored import FactoredSolution, Factors
from csrr.numerics.problem import Loss, LowRank
from csrr.numerics.solver import Callback, Options, Step, solve
from csrr.parameters import ParameterError, list_defaults
from csrr.ranking.topk import Products, RowScorer
from csrr.results.recommendations import Explanation

Start = Factors | LowRank | None
"""The U that a solver begins at, or None."""
_STRICT: dict[str, Any] = {"reg_sparse": STRONG, "l2": None, "denoise": 0.0}
"""The parameters of a fit that tells noise."""


class CSRRBase(Recommender):
    """A model that scores U + X*S, fitted to clicks with costs. A subclass has parameters, and may have a solver."""

    has_factors = True
    walked: ClassVar[tuple[str, ...]] = ("reg_low_rank", "l1")
    is_convex: ClassVar[bool] = True
    """Whether U is the optimum of the convex problem; else it has factors of a given rank, bounded unless free."""
    has_v: ClassVar[bool] = True
    """Whether there are parameters for V; without them, noise cannot be found, and "auto" parameters go by rule."""

    loss: Loss
    cost_ratio: float | None = None
    positive_cost: float | None = None
    miss_cost: float | None = None
    false_alarm_cost: float | None = None
    recall_weight: float | None = None
    event_weights: Literal["auto", "ignore", "cost", "linear", "log"] = "ignore"
    half_life: float | str | timedelta | None = None
    reg_low_rank: float | Literal["auto", "noise"]
    reg_sparse: float | Literal["auto"] = 1.0
    neighbors: int | Literal["auto"] = 0
    reg_neighbors: float | Literal["auto"] = "auto"
    neighbor_scaling: float = 0.0
    order: Literal["ignore", "next", "recent", "auto"] = "ignore"
    decay: float | Sequence[float] | Literal["auto"] = "auto"
    horizon: float | Literal["auto"] = "auto"
    history_scaling: float | Literal["auto"] = "auto"
    rare_scaling: float | Literal["auto"] = "auto"
    denoise: float | Literal["auto"] = 0.0
    l1: float | None
    l2: float | None = None
    user_scaling: float = 0.0
    item_scaling: float = 0.0
    max_rank: int | Literal["auto"] | None = None
    hold_out: Literal["auto", "random", "last", "time"] = "auto"
    tol: float
    max_iter: int
    time_limit: float | None
    dtype: Literal["float32", "float64"]
    threads: int
    engine: Any = "auto"
    seed: int
    fixed_settings: Settings | None = None
    """Settings in place of all that the parameters leave open; None: these are chosen."""

    file_schema = FileSchema((*KEPT, STEPS, *CHOSEN_PARTS), CSRRFacts)

    certificate_: Certificate
    history_: list[Step]
    specific_: sparse.csr_array[np.float32, tuple[int, int]]
    rank_: int
    l1_: float
    l2_: float | None
    costs_: Costs
    chosen_: Chosen
    fitted_: FittedProblem
    spread_users: Any = None
    """The users of a fit by Dask's workers, who have them, as long as they do; else None."""
    features_: Features | None = None
    user_features_: Features | None = None

    # Fitting

    def fit(
        self,
        data: Any,
        y: Any = None,
        *,
        callback: Callback | None = None,
        start: CSRRBase | None = None,
        user_costs: Any = None,
        item_costs: Any = None,
        client: Any = None,
        items: Any = None,
        users: Any = None,
        verbose: bool = False,
    ) -> Self:
        """Fit to data, and return the model.

        Parameters
        ----------
        data
            A log, a table with user and item columns, or a users x items matrix. For Dask's workers a folder of Parquet
            files, or a Dask DataFrame: the model then has the item side, and `save` writes the users beside it.
        y
            Not used; required by scikit-learn.
        callback
            Called with a `Step` after each iteration; an exception ends the fit and leaves the model unchanged.
        start
            A model of this family, fitted to the same users and items, to start from.
        user_costs, item_costs
            Factors on the cost of a miss, by user or item: numbers by id (default 1), or one for each in the order of
            the log's ids. With `miss_cost` they set the probability above which a recommendation pays, otherwise they
            weigh clicks.
        client
            A Dask client, or the address of a scheduler, whose workers are to fit; None: as `engine` says.
        items, users
            What items, or users, are like: anything that `csrr.read_features` takes. Those that have no events in the
            data are then items, or users, of the model too.
        verbose
            Whether to report progress on stderr: a bar on a terminal (with rich), lines elsewhere.

        Returns
        -------
        model
            The model itself.

        Raises
        ------
        ParameterError
            For parameters that are not valid, or not for these data.
        """
        self.check_params()
        if (
            client is not None
            or hasattr(data, "to_delayed")
            or (isinstance(data, str | os.PathLike) and os.path.isdir(data))
        ):
            from csrr.models.spread import fit_anywhere

            costs = {"start": start, "user_costs": user_costs, "item_costs": item_costs, "items": items, "users": users}
            fitted: Self = fit_anywhere(self, data, client, costs, callback, verbose=verbose)
            return fitted
        # 1. The log, checked and weighed.
        log = self.read(data)
        given = None if items is None and users is None else read_given(log, items, users)
        _check_start(start, log)
        weighed = weigh(self, log)
        with self._in_fit(), follow_steps(callback, verbose=verbose, aim=self.tol) as report:
            # 2. The settings, with held-out events of the log choosing those that are left open.
            chosen = replace(choose_settings(self, weighed, user_costs, item_costs), n_events=len(log))
            # 3. The problem: targets, weights, strengths.
            problem = build_problem(self, weighed, chosen.settings, user_costs, item_costs)
            # 4. U, to its certificate. 5. S and V, by what U leaves over.
            first = None if start is None else start.fitted_.make_factors(self.dtype)
            if first is not None:
                first = Factors(problem.problem.engine.put(problem.problem.pattern, first.users), first.items)
            self._solve_all(log, problem, first, chosen, report)
            return self if given is None else add_features(self, given)

    @contextmanager
    def _in_fit(self) -> Iterator[None]:
        """Sets the time limit and the threads of a fit, and names the parameter that makes a system singular."""
        with (
            limit_time(self.time_limit),
            use_threads(self.threads, blas=1),
            explain_memory(self.engine),
            name_parameter(self.reg_neighbors),
        ):
            yield

    def _solve_all(
        self, log: Log, problem: ClickProblem, start: Start, chosen: Chosen, callback: Callback | None
    ) -> Self:
        """Fit U, S and V of a problem, and return the model.

        Without a `start`, U begins where the settings say, not where a search ended: then a refit gives the same.
        """
        balanced = None
        with limit_time(seconds_left(BEFORE_NEIGHBORS if chosen.settings.neighbors else 1.0)):
            if chosen.settings.neighbors and not problem.is_balanced and chosen.order.kind != "next":
                balanced = problem.compute_balanced()
                if start is None and self.is_convex and not self.is_paper_form and not problem.problem.is_slack:
                    start = balanced
            found = self._solve(problem, start, callback)
        return self.complete(log, problem, found, chosen, balanced)

    def update(
        self,
        new_events: Any,
        *,
        choose: bool = False,
        callback: Callback | None = None,
        user_costs: Any = None,
        item_costs: Any = None,
        items: Any = None,
        users: Any = None,
    ) -> Self:
        """Add events to the training data, refit on all of them, and return the model.

        Users and items may be new. An event that the model already has gets the sum of the weights and the latest
        time, as in `csrr.read`. The solver starts from the current U, with new users and items folded in, and ends with
        the certificate of the whole problem. Hyperparameters chosen on held-out events stay (`chosen_.growth` says how
        much the log has grown since), so the result equals a fit to all events with these hyperparameters, up to the
        tolerance of the certificate. A calibration is dropped, because the scores change.

        Parameters
        ----------
        new_events
            A log, a table with user and item columns, or a users x items matrix. Ids must have the types of the
            model's ids.
        choose
            Whether to search "auto" parameters again, as `fit` does.
        callback
            As for `fit`.
        user_costs, item_costs
            As for `fit`, for all users and items; default: those of the fit, and 1 for new users and items.
        items, users
            Tables of new items, or users, for a model that was fitted with features; how these count stays.

        Returns
        -------
        model
            The model itself.

        Raises
        ------
        DataError
            If ids have other types, or weights or times that the model needs are missing.
        ParameterError
            For parameters that are not valid, or not for these data.

        Examples
        --------
        >>> log = csrr.synthetic(60, 40, events_per_user=10).log
        >>> model = csrr.CSRR(cost_ratio=5, reg_low_rank=0.2, neighbors=5).fit(log)
        >>> model.update({"user": [3, 60, 60], "item": [7, 7, 8]})
        CSRR(cost_ratio=5, reg_low_rank=0.2, neighbors=5), fitted to 61 users x 40 items
        """
        self.check_params()
        self.check_fitted()
        kept = keep_features(self, items, users)
        log = join_events(self, new_events)
        clicks = self.fitted_.clicks
        if user_costs is None:
            user_costs = _place_costs(clicks.user, self.users_, log.users)
        if item_costs is None:
            item_costs = _place_costs(clicks.item, self.items_, log.items)
        if choose:
            self.fit(log, callback=callback, user_costs=user_costs, item_costs=item_costs)
            return add_features(self, kept.meet(log, stays=False))
        # The settings that were chosen stay; parameters may have changed.
        settings, order = keep_settings(self)
        with self._in_fit():
            problem = build_problem(self, weigh(self, log), settings, user_costs, item_costs)
            start = None
            if not self.is_paper_form:
                users = place_rows_by_id(self.fitted_.users, self.users_, log.users)
                items = place_rows_by_id(self.fitted_.items, self.items_, log.items)
                start = self.fitted_.make_start(problem, users, items)
            chosen = replace(self.chosen_, settings=settings, order=order)
            self._solve_all(log, problem, start, chosen, callback)
            return add_features(self, kept.meet(log))

    @property
    def uses_order(self) -> bool:
        """Whether histories are in order, newest last: by the parameter and, once fitted, by what "auto" came to."""
        chosen = getattr(self, "chosen_", None)
        return self.order != "ignore" and (chosen is None or chosen.order.kind != "ignore")

    @property
    def reads_order(self) -> bool:
        """Whether scores depend on the order of histories: not where "auto" came to none."""
        return self.fitted_.faded is not None

    @property
    def _keeps_order(self) -> bool:
        # Another update may find that it is worth something.
        return self.order != "ignore"

    @property
    def is_paper_form(self) -> bool:
        """Whether the solver is the paper's own; then no parameters are searched, and an update starts anew."""
        return False

    def _solve(self, problem: ClickProblem, start: Start, callback: Callback | None) -> FactoredSolution:
        """U: here the optimum of the convex problem, to a relative gap of `tol`."""
        options = self._make_options(problem.settings)
        first = start.to_low_rank(problem.problem.engine) if isinstance(start, Factors) else start
        return FactoredSolution.of(solve(problem.problem, options, start=first, callback=callback))

    def _make_options(self, settings: Settings) -> Options:
        """When the solver is to stop: at a gap, after so many iterations, or when the time of the fit is up."""
        left = seconds_left()
        seconds = self.time_limit if left is None else max(left, 1e-9)
        return Options(self.tol, self.max_iter, seconds, settings.max_rank, self.seed)

    def complete(
        self, log: Log, built: ClickProblem, found: FactoredSolution, chosen: Chosen, balanced: LowRank | None = None
    ) -> Self:
        """Add S and V to U, and set the fitted attributes.

        Parameters
        ----------
        log
            The training log.
        built
            Its problem.
        found
            U, as the solver found it.
        chosen
            The settings of the fit, and how they were chosen.
        balanced
            U of the balanced problem, if it is known.

        Returns
        -------
        model
            The model itself.
        """
        factors = found.factors
        # The users once more, as new users are folded in, unless the time is up.
        if not self.is_paper_form and seconds_left() != 0:
            factors = refold_users(built.problem, factors)
        neighborhood, chosen = fit_neighborhood(self, built, factors, balanced, chosen)
        self.remember(log)
        self.features_, self.user_features_ = None, None
        self.take_problem(FittedProblem.of(self, log, built, factors, neighborhood, chosen.order))
        self.chosen_ = replace(chosen, n_now=len(log))
        self.certificate_ = replace(found.certificate, has_neighbors=self.fitted_.has_neighbors)
        self.rank_, self.history_ = found.certificate.rank, found.history
        return self

    def take_problem(self, fitted: FittedProblem) -> None:
        """Give the model a solved problem of its users and items, whose scores it has from then on.

        Parameters
        ----------
        fitted
            The problem.
        """
        self._computed, self.fitted_ = {}, fitted
        self.user_factors_, self.item_factors_ = fitted.factors
        self.specific_, self.costs_, self.l1_, self.l2_ = fitted.specific, fitted.costs, fitted.l1, fitted.l2

    @property
    def described_users(self) -> BoolArray | None:
        """Which users have scores that mean something without events, shape (n_users,), by their features; or None."""
        features = self.user_features_
        return None if features is None or not features.strengths.factor else features.encoded.is_there

    def take_item_side(
        self, fitted: FittedProblem, items: IdMap, item_counts: Int64Array, found: Any, chosen: Chosen
    ) -> None:
        """Set the fitted attributes of a model without users.

        Parameters
        ----------
        fitted
            The problem with its solution; of no user.
        items
            The ids of the items.
        item_counts
            The number of events of each, shape (n_items,).
        found
            U, as the solver found it.
        chosen
            The settings of the fit, and how they were chosen.
        """
        none = np.empty(0, np.int32)
        self.remember(Log(IdMap.range(0), items, none, none, places=none if self._keeps_order else None))
        self.item_counts = item_counts
        self.take_problem(fitted)
        self.certificate_ = replace(found.certificate, has_neighbors=fitted.has_neighbors)
        self.rank_, self.history_, self.chosen_ = found.certificate.rank, found.history, chosen

    @ask_one_state
    def save(self, path: str | os.PathLike[str]) -> None:
        super().save(path)
        if self.spread_users is not None:
            self.spread_users.save(path)

    # Parameters, costs and settings

    @classmethod
    def from_costs(
        cls,
        miss: float | None = None,
        false_alarm: float | None = None,
        *,
        positive_cost: float | None = None,
        recall_weight: float | None = None,
        **params: Any,
    ) -> Self:
        """Return a model for your costs of a miss and of a false alarm.

        They set the probability above which recommending pays, false_alarm/(miss + false_alarm):
        `decision_probability`. What clicks weigh in the fit is chosen on held-out events, by what decisions cost there.
        `positive_cost` and `recall_weight`, the paper's words, are that weight too (alpha, Lemma 1).

        Parameters
        ----------
        miss, false_alarm
            The costs, in your own units.
        positive_cost
            Instead, c_p of c_p + c_n = 1.
        recall_weight
            Instead, mu_p of mu_p*recall + mu_n*specificity, with T_n/T_p estimated from the clicks of the fit.
        **params
            Other parameters of the model.

        Returns
        -------
        model
            A new model, not fitted.

        Raises
        ------
        ParameterError
            If no costs are given, or the model takes none.
        """
        given: dict[str, Any] = {"miss_cost": miss, "false_alarm_cost": false_alarm}
        given |= {"positive_cost": positive_cost, "recall_weight": recall_weight}
        given = {name: value for name, value in given.items() if value is not None}
        if not given:
            raise ParameterError("give miss and false_alarm, or positive_cost, or recall_weight")
        if not given.keys() <= list_defaults(cls).keys():
            raise ParameterError(f"{cls.__name__} takes no costs: its rho says what a miss weighs; take CSRR or CSRRe")
        model = cls(**given, **params)
        model.check_params()
        return model

    def check_params(self) -> None:
        super().check_params()
        if self.reg_low_rank == 0 and self.l1 is None:
            raise ParameterError("reg_low_rank=0 keeps every click as it is; give a number > 0")
        self.cost_spec.check()
        smallest = 1e-5 if self.dtype == "float32" else 1e-12
        if self.is_convex and self.tol < smallest:
            raise ParameterError.of(
                "tol",
                self.tol,
                f"is beyond {self.dtype}, which resolves a relative gap of {smallest:g}"
                + ('; use dtype="float64"' if self.dtype == "float32" else ""),
            )

    @property
    def cost_spec(self) -> CostSpec:
        """The parameters that say what a miss costs."""
        return CostSpec(self.cost_ratio, self.positive_cost, self.miss_cost, self.false_alarm_cost, self.recall_weight)

    def resolve_costs(self, log: Log) -> Costs:
        """Return the cost of a miss relative to that of a false alarm.

        Parameters
        ----------
        log
            The training log.

        Returns
        -------
        costs
            The cost ratio, and where it comes from.
        """
        return self.cost_spec.resolve(log)

    @property
    def decision_probability(self) -> float | None:
        """The probability of a positive above which a recommendation costs less than none: 1/(1 + cost ratio).

        None where no cost was given, and, for a `recall_weight`, before the fit.
        """
        spec = self.cost_spec
        if not spec.is_given or (spec.recall_weight is not None and not self.is_fitted):
            return None
        ratio = self.costs_.ratio if self.is_fitted else spec.compute_ratio()
        return 1 / (1 + ratio)

    def decide_cells(self, user_rows: Rows, item_rows: Rows) -> Any:
        factors = self.fitted_.clicks.get_factors(user_rows, item_rows)
        return 1 / (1 + self.costs_.ratio * factors)

    def strength(self, data: Any) -> float:
        """Return the l1 that a fit would have: what `reg_low_rank` comes to there.

        Parameters
        ----------
        data
            A log, a table or a matrix, as for `fit`.

        Returns
        -------
        l1
            The strength on the rank.
        """
        self.check_params()
        with use_threads(self.threads, blas=1):
            log = weigh(self, self.read(data))
            return float(build_problem(self, log, choose_settings(self, log).settings).problem.l1)

    def settled_params(self) -> dict[str, Any]:
        """Return the parameters, with the chosen values, to refit without a search.

        Returns
        -------
        params
            By name, with numbers for "auto". A `reg_sparse` of 1 means that U was fitted without V; a refit then has no
            V.
        """
        self.check_fitted()
        settings, params = self.chosen_.settings, self.get_params()
        found: dict[str, Any] = {"reg_sparse": 1.0 if self.l2_ is None else self.l2_ / self.costs_.alpha}
        found |= {name: getattr(settings, name) for name in ("max_rank", "neighbors", "reg_neighbors", "denoise")}
        found |= self.chosen_.order.list_params()
        found = {name: value for name, value in found.items() if params.get(name) == "auto"}
        if params["reg_low_rank"] in ("auto", "noise") and self.l1 is None:
            found["l1"] = self.l1_
        if "cost_ratio" in params and not self.cost_spec.gives_weight:
            found["cost_ratio"] = self.costs_.alpha
        return found

    # Scores

    @property
    def neighbors_(self) -> sparse.csr_array[np.float32, tuple[int, int]]:
        """Weights between items, csr of shape (n_items, n_items): what item i in a history adds to the score of j.

        In units of a click, for a user of one click; see `Neighborhood`.
        """
        self.check_fitted()
        weights: sparse.csr_array[np.float32, tuple[int, int]] = self.fitted_.neighbors
        return weights

    def make_products(self) -> Products:
        return self.fitted_.make_products(self)

    def score_pairs(self, user_rows: Rows, item_rows: Rows) -> Float32Array:
        return super().score_pairs(user_rows, item_rows) + self.fitted_.score_pairs(user_rows, item_rows)

    # New users and items

    @property
    def history_weight(self) -> float | None:
        """The weight of a click in a new history without weights; None if weights are not used."""
        has_weights = self.seen_weights_ is not None or self.seen_times_ is None
        return self.fitted_.get_history_weight(has_weights=has_weights)

    def fold_users(self, users: AnyArray, seen: Any) -> FoldedFactors:
        with use_threads(self.threads or n_threads(), blas=1):
            return self.fitted_.fold_users(self, users, seen)

    def fold_items(self, log: Log, chosen: Any) -> FoldedItems:
        with use_threads(self.threads, blas=1), name_parameter(self.reg_neighbors):
            return self.fitted_.fold_items(self, log, chosen)

    @change_at_once
    def add_items(self, items: Any) -> Self:
        """Add new items by what they are like, without a refit, and return the model, which was fitted with `items`.

        They get the factors and neighbor weights that their features say, and are items like any other from then on.
        Items with events stay as they are; those without get the features of the table.

        Parameters
        ----------
        items
            A table of new items, with columns that the model knows: anything that `csrr.read_features` takes.

        Returns
        -------
        model
            The model itself.

        Raises
        ------
        ParameterError
            For a model that was fitted without `items`.
        DataError
            For a table that cannot be used.

        Examples
        --------
        >>> log = csrr.synthetic(60, 40, events_per_user=10).log
        >>> tags = {"item": range(40), "tag": ["red", "green"] * 20}
        >>> model = csrr.CSRR(cost_ratio=5, reg_low_rank=0.2, neighbors=5).fit(log, items=tags)
        >>> model.add_items({"item": [40], "tag": ["red"]})
        CSRR(cost_ratio=5, reg_low_rank=0.2, neighbors=5), fitted to 60 users x 41 items
        """
        self.check_fitted()
        return add_items(self, items)

    @ask_one_state
    def fold_in_features(self, items: Any) -> FoldedItems:
        """Return new items by what they are like, with scores and lists, beside the model, which stays as it is.

        Of a stream of items, batch after batch can be scored so in the memory of one batch; `add_items` keeps them.

        Parameters
        ----------
        items
            As for `add_items`; the model knows none of them.

        Returns
        -------
        items
            An object with `score` and `recommend`; its lists have known and new items.

        Raises
        ------
        ParameterError
            For a model that was fitted without `items`, and for an item that it knows.
        """
        self.check_fitted()
        return fold_in_features(self, items)

    @change_at_once
    def add_users(self, users: Any) -> Self:
        """Add people without a history by what they are like, and return the model, which was fitted with `users`.

        Parameters
        ----------
        users
            A table of people, with columns that the model knows: anything that `csrr.read_features` takes.

        Returns
        -------
        model
            The model itself.
        """
        self.check_fitted()
        return add_users(self, users)

    # Explanations and similar items

    @ask_one_state
    def explain(self, user: Id, item: Id) -> Explanation:
        """Return how much each item of the user's history adds to the score of an item; the parts sum to the score.

        Exact at the optimum; the remainder due to the tolerance of the fit is distributed in proportion.

        Parameters
        ----------
        user, item
            Their ids.

        Returns
        -------
        explanation
            A contribution for each item of the history; `neighbors` is its part from neighbors, the rest is common
            taste. `shared` names what both items have in common, in a model that was fitted with `items`.
        """
        self.check_fitted()
        # With one thread, BLAS rounds alike on any number of cores.
        with use_threads(self.threads or n_threads(), blas=1):
            return name_shared(self, self.fitted_.explain(self, user, item))

    def _choose_likeness(self, by: str) -> RowScorer:
        if by not in ("auto", "neighbors", "factors", "next"):
            raise ParameterError.of("by", by, 'must be "auto", "neighbors", "factors" or "next"')
        if by == "next" and self.is_fitted and self.chosen_.order.kind != "next":
            raise ParameterError.of("by", by, 'needs a model of what comes next: fit one with order="next"')
        return lambda rows: self._score_similar(by, rows)

    def _score_similar(self, by: str, rows: Rows) -> Float32Array:
        """Return the similarities of items to all, shape (len(rows), n_items), by neighbors or factors."""
        if by == "factors":
            return self.score_similar_items(rows)
        if by == "next" and self.fitted_.faded is not None:
            return self.fitted_.faded.score_after(rows)
        weights = self._compute_once("neighbors by item", lambda: self.neighbors_.T.tocsr())[rows].toarray()
        scores = mark_nothing(np.maximum(weights, 0))
        if by == "auto" and (alone := ~(weights > 0).any(axis=1)).any():
            scores[alone] = self.score_similar_items(rows[alone])
        return scores

    # Noise, and unusual tastes

    @ask_one_state
    def specific_preferences(self, user: Id) -> Preferences:
        """Return the user-specific choices of a user: the entries of V, largest first.

        The first call takes another fit, unless this model has suitable regularization (see `suspects`).

        Parameters
        ----------
        user
            Their id.

        Returns
        -------
        preferences
            Values in units of a click: 0.8 means that four fifths of this click are specific to the user. Each is
            classified as "own taste", "isolated" or "unclear".
        """
        self.check_fitted()
        row = self.users_.row(user)
        mine = self.specific_[[row]].tocsr()
        order = np.argsort(-mine.data, kind="stable")
        chosen = mine.indices[order]
        judged = judge_choices(self.tastes(), row, chosen) if len(chosen) else (np.empty(0, np.str_), np.empty(0))
        return Preferences(*name_items(self, chosen), mine.data[order], user, *judged)

    def tastes(self) -> Tastes:
        """Return the similarities by which user-specific choices are classified; computed once after a fit.

        Returns
        -------
        tastes
            The similarity of items, for each user without that user's own influence.
        """
        tastes: Tastes = self._compute_once("tastes", lambda: self.noise_model().fitted_.make_tastes())
        return tastes

    @ask_one_state
    def suspects(self, *, popularity: float = 0.0, stability: bool = False) -> Suspects:
        """Score each training event by how much it looks like noise, and rank users and items by it.

        The scores come from a model with `reg_sparse` 0.5 and the automatic `reg_low_rank`: this one, if it has these
        values, or a refit to the same clicks.

        Parameters
        ----------
        popularity
            Noise is assumed to hit an item in proportion to (its clicks + 1)^popularity. 0 suits random clicks; 0.5
            finds more noise on popular and on pushed items, and takes more genuine clicks for noise.
        stability
            Whether to measure the stability under small changes, which takes several fits.

        Returns
        -------
        suspects
            A score for each event: the probability of noise under the assumptions of `Suspects`.
        """
        self.check_fitted()
        found = self.stability(popularity=popularity) if stability else None
        return find_suspects(self, popularity=popularity, stability=found)

    @classmethod
    def can(cls, ability: str) -> bool:
        return super().can(ability) and (cls.has_v or ability not in ("suspects", "stability"))

    def stability(self, *, popularity: float = 0.0) -> Stability:
        """Measure how much of V and of the suspects stays after small changes of seed, regularization or clicks.

        Parameters
        ----------
        popularity
            As for `suspects`.

        Returns
        -------
        stability
            One row per change; each takes one or two fits.
        """
        self.check_fitted()
        return measure_stability(self, refit, popularity=popularity)

    def noise_model(self) -> Self:
        """Return the model that tells which clicks are noise: of `reg_sparse` 0.5 or less and "noise" low rank.

        The low-rank strength that ranks best is often weaker, and then U follows noise too.

        Returns
        -------
        model
            This model, or one like it fitted to its clicks.
        """
        log = _weigh_by_costs(self)
        other = _copy_with(self, _STRICT | {"reg_low_rank": "noise", "l1": None, "neighbors": 0})
        is_exact = self.get_params().get("box", "none") == "none"
        is_strict = self.l2_ is not None and self.l2_ <= STRONG * self.costs_.alpha * (1 + 1e-6)
        is_like_it = is_exact and is_strict and self.fitted_.genuine is None and self.fitted_.gram is None
        if is_like_it and np.isclose(self.l1_, other.strength(log), rtol=1e-3):
            return self
        return other.fit(log, start=self)

    def make_strict(self, log: Log) -> Self:
        """Return a new model with these parameters, but a `reg_sparse` small enough to find noise.

        Parameters
        ----------
        log
            The events to judge.

        Returns
        -------
        model
            Not fitted.
        """
        share = RULE.reg_sparse if self.reg_sparse == "auto" else self.reg_sparse
        if self.l2 is not None:
            share = self.l2 / self.resolve_costs(log).with_weight(RULE.cost_ratio).alpha
        return type(self)(**_list_exact_params(self) | _STRICT | {"reg_sparse": min(share, STRONG)})

    def leave_out(self) -> LeaveOneOut:
        """Return U on the clicked cells less the influence of each cell's own click, and on the others.

        Returns
        -------
        values
            The values that noise is estimated from.

        Raises
        ------
        ParameterError
            If U is 0.
        """
        n, m = self.seen_.shape
        if self.rank_ == 0 and min(n, m) > 1 and self.seen_.nnz < n * m:
            raise ParameterError("this model has found no common taste (rank 0) to judge clicks by; lower reg_low_rank")
        with use_threads(self.threads, blas=1):
            return self.fitted_.leave_out(self.dtype)

    def explained_shares(self) -> Float32Array:
        target = self.costs_.alpha if self.fitted_.spec.loss == "II" else 1.0
        return super().explained_shares() / target

    # Saving

    def state(self) -> ModelState:
        (arrays, facts), (chosen, how) = self.fitted_.state(), self.chosen_.state()
        arrays |= {**step_arrays(self.history_), **sparse_arrays("specific", self.specific_), **chosen}
        if self.fitted_.faded is not None:
            arrays |= self.fitted_.faded.state()
        arrays |= feature_arrays("features", self.features_) | feature_arrays("user_features", self.user_features_)
        facts |= describe_features(self)
        return arrays, {**facts, **how, "certificate": self.certificate_, "rank": self.rank_}

    def restore(self, arrays: Arrays, facts: dict[str, Any]) -> None:
        self.take_problem(FittedProblem.from_state(arrays, facts, self))
        restore_features(self, arrays, facts)
        self.history_, self.rank_, self.certificate_ = steps_from(arrays), facts["rank"], facts["certificate"]
        self.chosen_ = Chosen.from_state(arrays, facts, self.seen_.nnz, self.fitted_.faded)


def _check_start(start: Any, log: Log) -> None:
    """Raise ParameterError unless `start`, if any, is a model of this family, fitted to as many users and items."""
    if start is None:
        return
    if not isinstance(start, CSRRBase):
        raise ParameterError.of("start", start, "must be a fitted CSRR, CSRRe, MCShift or BiasMC")
    start.check_fitted()
    if (len(start.users_), len(start.items_)) != (log.n_users, log.n_items):
        raise ParameterError(
            f"start was fitted to {len(start.users_)} users x {len(start.items_)} items, "
            f"the data has {log.n_users} x {log.n_items}"
        )


def _place_costs(costs: Any, known: IdMap, joined: IdMap) -> Any:
    """The costs of known ids, (n_known,) or None, at the rows of joined ids, (n_joined,), 1 for those that are new."""
    if costs is None:
        return None
    placed, is_new = place_rows_by_id(costs, known, joined)
    placed[is_new] = 1
    return placed


# The model again: to tell noise from taste, or with a change to see what stays

Model = TypeVar("Model", bound=CSRRBase)


def refit(model: Model, which: BoolArray, changes: dict[str, Any]) -> Model:
    """Return a new model with the settings of this one, but for some changes, fitted to some events, (n_events,)."""
    new = _copy_with(model, changes)
    changed = {name: value for name, value in changes.items() if name in Settings._fields}
    if model.reads_order:
        changed["neighbors"] = 0
    new.fixed_settings = model.chosen_.settings._replace(**changed)
    return new.fit(_weigh_by_costs(model).select(which))


def _weigh_by_costs(model: CSRRBase) -> Log:
    """The training events of a model, with the costs of their misses as weights."""
    return replace(model.training_log(), weights=model.fitted_.clicks.values)


def _copy_with(model: Model, changes: dict[str, Any]) -> Model:
    """A new model with these parameters and some changes, to be fitted to events of `_weigh_by_costs`."""
    params = _list_exact_params(model)
    if model.fitted_.clicks.values is not None:
        params |= {"event_weights": "cost", "half_life": None}
    return type(model)(**params | changes)


def _list_exact_params(model: CSRRBase) -> dict[str, Any]:
    """The parameters, those of the exact solver in place of the paper's; ParameterError for a model without V."""
    params = model.get_params()
    if not model.has_v:
        raise ParameterError(f"{type(model).__name__} has no V to tell noise by; fit a CSRR or CSRRe")
    # What came first says nothing about noise.
    changes: dict[str, Any] = {"order": "ignore"} if "order" in params else {}
    return params | changes | ({"box": "none", "step": "auto"} if params.get("box", "none") != "none" else {})
