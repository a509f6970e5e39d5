"""What CSRR and its relatives share: the fit of common taste U, neighbors S and specific choices V, and its scores."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from csrr._base.arrays import BoolArray, Float32Array, FloatArray, Rows
from csrr._base.deadline import TimeUpError, cut_off, limit_time, seconds_left
from csrr._base.progress import follow_steps
from csrr._base.threads import use_threads
from csrr.data import IdMap, Log
from csrr.data.ids import Id
from csrr.models.auto import (
    COST,
    NAMES,
    Chosen,
    SearchSpace,
    choose_by_rule,
    choose_settings,
    find_search_space,
    find_strength,
    make_from_costs,
    settle_params,
)
from csrr.models.base import (
    LikenessOptions,
    Recommender,
    ask_one_state,
    explain_score,
    find_similar_items,
    mark_nothing,
)
from csrr.models.build_problem import ClickProblem, ProblemSpec, build_problem
from csrr.models.costs import Costs, CostSpec, Weighing
from csrr.models.filters import Unknown
from csrr.models.fitted_problem import FOLD_IN_TOL, KEPT, FittedProblem, Neighborhood, ProblemFacts, keep_nonzero
from csrr.models.foldin import FoldedFactors, FoldedItems, make_scorer
from csrr.models.scaling import RULE, Settings
from csrr.models.schema import (
    FLOATS,
    WHOLE,
    Arrays,
    FileSchema,
    ModelFileError,
    SparseArray,
    Values,
    sparse_arrays,
    sparse_from,
)
from csrr.models.store import STEPS, ModelState, step_arrays, steps_from
from csrr.models.update import join_events, place_rows_by_id
from csrr.noise.scores import STRONG, LeaveOneOut, check_popularity
from csrr.noise.stability import Stability, find_stability
from csrr.noise.suspects import Suspects, find_suspects, score_suspects
from csrr.noise.tastes import Preferences, Tastes, judge_choices
from csrr.numerics.certificate import Certificate
from csrr.numerics.factored import Factors
from csrr.numerics.foldin import ItemSide, fold_in
from csrr.numerics.lowrank import LowRank
from csrr.numerics.neighbors import Factored, SingularError
from csrr.numerics.problem import Loss, Problem, select_rows
from csrr.numerics.solver import Callback, Options, Solution, Step, solve
from csrr.parameters import ParameterError, Whole, list_defaults
from csrr.ranking import NeighborLists, Neighbors
from csrr.ranking.explanations import Explanation
from csrr.ranking.topk import multiply_factors

Model = TypeVar("Model", bound="CSRRBase")


def find_judge(model: Model) -> Model:
    """Return the model that tells which clicks are noise: this one, or one like it fitted to its clicks."""
    by_rule = {"reg_low_rank": "noise", "neighbors": 0, "reg_sparse": STRONG, "l1": None, "l2": None, "denoise": 0.0}
    other, log = _copy_with(model, **by_rule), model.costed_log()
    is_exact = model.get_params().get("box", "none") == "none"
    is_strict = model.l2_ is not None and model.l2_ <= STRONG * model.costs_.alpha * (1 + 1e-6)
    if (
        is_exact
        and is_strict
        and model.fitted_.genuine is None
        and np.isclose(model.l1_, other.strength(log), rtol=1e-3)
    ):
        return model
    return other.fit(log, start=model)


def make_strict(model: Model, log: Log) -> Model:
    """Return a new model with these parameters, but a `reg_sparse` that is fit to judge a log."""
    share = RULE.reg_sparse if model.reg_sparse == "auto" else model.reg_sparse
    if model.l2 is not None:
        share = model.l2 / model.resolve_costs(log).with_weight(RULE.cost_ratio).alpha
    return type(model)(**_make_exact_params(model) | {"reg_sparse": min(share, STRONG), "l2": None, "denoise": 0.0})


def refit(model: Model, log: Log, changes: dict[str, Any]) -> Model:
    """Return a model with what this one chose, but for changes, fitted to events of `costed_log`."""
    changed = {name: value for name, value in changes.items() if name in Settings._fields}
    return _copy_with(model, **changes).settled(model.chosen_.settings._replace(**changed)).fit(log)


def leave_out(model: CSRRBase) -> LeaveOneOut:
    """Return U without the influence of each cell's own click; ParameterError where U is 0."""
    shape, n_events = model.seen_.shape, model.seen_.nnz
    if model.rank_ == 0 and min(shape) > 1 and n_events < math.prod(shape):
        raise ParameterError("this model has found no common taste (rank 0) to judge clicks by; lower reg_low_rank")
    with use_threads(model.threads, blas=1):
        return model.fitted_.leave_out(model.seen_, model.dtype)


def list_preferences(model: CSRRBase, user: Id) -> Preferences:
    """Return a user's entries of V, largest first, each told to be taste or junk."""
    row = model.users_.row(user)
    mine = model.specific_[[row]].tocsr()
    order = np.argsort(-mine.data, kind="stable")
    chosen = mine.indices[order]
    kinds: npt.NDArray[np.str_] = np.empty(0, np.str_)
    support: npt.NDArray[np.floating[Any]] = np.empty(0)
    if len(chosen):
        kinds, support = judge_choices(model.tastes(), row, chosen)
    return Preferences(*model.name_items(chosen), mine.data[order], user, kinds, support)


def _copy_with(model: Model, **changes: Any) -> Model:
    """Return a new model with these parameters and some changes, to be fitted to events of `costed_log`."""
    params = _make_exact_params(model)
    if model.fitted_.clicks.values is not None:
        params |= {"event_weights": "cost", "half_life": None}
    return type(model)(**params | changes)


def _make_exact_params(model: CSRRBase) -> dict[str, Any]:
    """Return the parameters, those of the exact solver in place of the paper's; ParameterError without V."""
    params = model.get_params()
    if "reg_sparse" not in params:
        raise ParameterError(f"{type(model).__name__} has no V to tell noise by; fit a CSRR or CSRRe")
    return params | ({"box": "none", "step": "auto"} if params.get("box", "none") != "none" else {})


_ROUGH = 0.01
"""How far new rows are folded in: the solver moves them anyway."""


def carry_settings(model: CSRRBase) -> Chosen:
    """Return what the model's fit chose, for what its parameters still leave open."""
    space, chosen = model.space(), model.chosen_
    kept = {name: getattr(chosen.settings, name) for name in Settings._fields if name in space}
    return replace(chosen, settings=space.given._replace(**kept))


def carry_costs(model: CSRRBase, log: Log) -> tuple[Any, Any]:
    """Return the costs of a log's users and items, (n_users,) and (n_items,), by what they were in the fit: 1 for those
    that are new, and None for either where the fit had none.
    """
    clicks, known = model.fitted_.clicks, model.training_log()
    user, item = clicks.user, clicks.item
    if user is None and clicks.values is not None and model.fitted_.words.event_weights == "ignore":
        # Files from before users' costs were kept: that of a click is its user's times its item's.
        user = np.ones(len(model.users_))
        user[known.user_rows] = clicks.values / (1.0 if item is None else item[known.item_rows])
        user = None if np.allclose(user, 1, rtol=1e-5, atol=0) else user
    return _place_costs(user, model.users_, log.users), _place_costs(item, model.items_, log.items)


def _place_costs(costs: Any, known: IdMap, joined: IdMap) -> Any:
    """Return costs of known ids, (n_known,), at the rows of joined ids, (n_joined,), 1 for those that are new."""
    if costs is None:
        return None
    placed, is_new = place_rows_by_id(costs, known, joined)
    placed[is_new] = 1
    return placed


def carry_factors(model: CSRRBase, log: Log, built: ClickProblem) -> LowRank | None:
    """Return U for a problem over a log's users and items: the model's, by id, and new rows folded in.

    None where there is no U, or its penalty alone makes it worse than nothing: a file may hold any.
    """
    fitted, problem, scaling = model.fitted_, built.problem, built.scaling
    if fitted.users.shape[1] == 0:
        return None
    users, new_users = place_rows_by_id(fitted.users, model.users_, log.users)
    items, new_items = place_rows_by_id(fitted.items, model.items_, log.items)
    dtype = problem.target.dtype
    users = (users * scaling.user[:, None]).astype(dtype)
    items = (items * scaling.item[:, None]).astype(dtype)
    users[new_users] = _fold_rows(problem, new_users, items)
    items[new_items] = _fold_rows(problem.T, new_items, users)
    start = Factors(users, items).to_low_rank(problem.engine)
    is_better = problem.l1 * float(start.s.sum()) < problem.value_at_zero
    return start if is_better else None


def _fold_rows(problem: Problem, which: BoolArray, other: FloatArray) -> FloatArray:
    """Return the best factors of some rows of a problem, (rows, k), given those of the other side, (m, k)."""
    if not which.any():
        return np.zeros((0, other.shape[1]), other.dtype)
    return fold_in(select_rows(problem, which), ItemSide.of(other, problem.l1, problem.engine), tol=_ROUGH)


_BEFORE_NEIGHBORS = 0.6
"""The share of the time left that U gets where there will be neighbors."""
_LITTLE = 1 / 3
"""A click is a user's own, where U's problem has no V, if less of it is explained than this share of the mean."""


@dataclass(frozen=True, kw_only=True)
class CSRRFacts(ProblemFacts):
    """What a file keeps beside arrays; files from before choices were kept have no settings."""

    certificate: Certificate
    rank: Annotated[int, Whole("rank", "The rank of U.")]
    settings: Settings | None = None
    chosen: str = ""
    chosen_events: Annotated[int, Whole("chosen_events", "The size of the log at the choice; 0: not known.")] = 0


class Fit(NamedTuple):
    """What a solver found. Of `free` factors the users are folded in once more: seen and new are treated alike."""

    factors: Factors
    certificate: Certificate
    history: list[Step]
    free: bool = True

    @classmethod
    def of(cls, solution: Solution, *, free: bool = True) -> Fit:
        """Return the factors of a low-rank solution."""
        return cls(Factors.of(solution.low_rank), solution.certificate, solution.history, free)


class CSRRBase(Recommender):
    """Scores U + X*S, fitted to clicks with costs. A subclass has `solve`, and parameters; the rest are as here."""

    has_factors = True
    starts_balanced: ClassVar[bool] = True
    """Whether the solver begins at the U that neighbors are fitted beside, where there is one."""

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
    seed: int
    _settled: Settings | None = None

    kept: ClassVar[FileSchema | None] = FileSchema(
        (
            *KEPT,
            STEPS,
            SparseArray.of("specific", ("users", "items")),
            *(
                Values(f"chosen.{name}", ("trials",), (*FLOATS, *WHOLE), is_free=True, optional=True)
                for name in (*NAMES, COST)
            ),
        ),
        CSRRFacts,
    )

    certificate_: Certificate
    history_: list[Step]
    specific_: sparse.csr_array[np.float32, tuple[int, int]]
    rank_: int
    l1_: float
    l2_: float | None
    costs_: Costs
    chosen_: Chosen
    fitted_: FittedProblem

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
        verbose: bool = False,
    ) -> Self:
        """Fit to data, and return the model.

        Parameters
        ----------
        data
            A log, a table with user and item columns, or a users x items matrix.
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
        # 1. What is asked for, and the log, checked and weighed.
        self.check_params()
        log = self.read(data)
        _check_start(start, log)
        weighed = self.weigh(log)
        with self._in_fit(), follow_steps(callback, verbose=verbose, aim=self.tol) as told:
            # 2. What is left open, by the log's own held-out events.
            chosen = replace(choose_settings(self, weighed, user_costs, item_costs), n_events=len(log))
            # 3. The problem: targets, weights, strengths.
            problem = build_problem(self, weighed, chosen.settings, user_costs, item_costs)
            # 4. U, to its certificate. 5. S and V on what is left over; all of it is kept.
            return self._solve_all(log, problem, start, chosen, told)

    @contextmanager
    def _in_fit(self) -> Iterator[None]:
        """The time and the threads of a fit, and whom to blame."""
        with (
            limit_time(self.time_limit),
            use_threads(self.threads, blas=1),
            _blame_parameter(self.reg_neighbors),
        ):
            yield

    def _solve_all(
        self, log: Log, problem: ClickProblem, start: Start, chosen: Chosen, callback: Callback | None
    ) -> Self:
        """Fit U, S and V of a problem, and return the model.

        Without a `start` U begins where the settings say, not where a search ended: a refit comes to the same point.
        """
        balanced = None
        with limit_time(seconds_left(_BEFORE_NEIGHBORS if chosen.settings.neighbors else 1.0)):
            if chosen.settings.neighbors and not problem.is_balanced:
                balanced = problem.find_balanced()
                if start is None and self.starts_balanced and self.takes_start and not problem.problem.is_slack:
                    start = balanced
            found = self.solve(problem, start, callback)
        return self.complete(log, problem, found, chosen, balanced)

    def update(
        self,
        new_events: Any,
        *,
        choose: bool = False,
        callback: Callback | None = None,
        user_costs: Any = None,
        item_costs: Any = None,
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
        self.check_fitted()
        self.check_params()
        log = join_events(self, new_events)
        carried = carry_costs(self, log)
        costs = carried[0] if user_costs is None else user_costs, carried[1] if item_costs is None else item_costs
        if choose:
            return self.fit(log, callback=callback, user_costs=costs[0], item_costs=costs[1])
        chosen = carry_settings(self)
        with self._in_fit():
            problem = build_problem(self, self.weigh(log), chosen.settings, *costs)
            start = carry_factors(self, log, problem) if self.takes_start else None
            return self._solve_all(log, problem, start, chosen, callback)

    @property
    def takes_start(self) -> bool:
        """Whether the solver can start from another fit."""
        return True

    @abstractmethod
    def solve(self, problem: ClickProblem, start: Start, callback: Callback | None) -> Fit:
        """Return the factors of U for a problem.

        Parameters
        ----------
        problem
            What the clicks ask for.
        start
            Where to begin, if given.
        callback
            As for `fit`.

        Returns
        -------
        fit
            Factors, certificate and steps.
        """

    def solve_convex(self, problem: ClickProblem, start: Start, callback: Callback | None) -> Fit:
        """Return the optimum of the convex problem, to a gap of `tol`, its rank bounded by the settings.

        Parameters
        ----------
        problem, start, callback
            As for `solve`.

        Returns
        -------
        fit
            Factors, certificate and steps.
        """
        first = start.low_rank(self.dtype) if isinstance(start, CSRRBase) else start
        return Fit.of(solve(problem.problem, self.solver_options(problem.settings), start=first, callback=callback))

    def solver_options(self, settings: Settings) -> Options:
        """Return when the solver is to stop.

        Parameters
        ----------
        settings
            What the fit takes for parameters that are left open.

        Returns
        -------
        options
            Gap, iterations, time and rank.
        """
        return Options(self.tol, self.max_iter, self.time_left(), settings.max_rank, self.seed)

    def time_left(self) -> float | None:
        """Return how long the solver may take.

        Returns
        -------
        seconds
            What is left to the fit, or all of `time_limit` outside of one; None without a limit.
        """
        left = seconds_left()
        return self.time_limit if left is None else max(left, 1e-9)

    def complete(
        self, log: Log, built: ClickProblem, found: Fit, chosen: Chosen, balanced: LowRank | None = None
    ) -> Self:
        """Add to U what goes from item to item and what neither explains; set the fitted attributes.

        Parameters
        ----------
        log
            The training log.
        built
            Its problem.
        found
            What the solver found of U.
        chosen
            What was chosen for the fit, and how.
        balanced
            U of the balanced problem, if it is known.

        Returns
        -------
        model
            The model itself.
        """
        problem, scaling = built.problem, built.scaling
        users, items = found.factors.users, found.factors.items
        # Once more for the users alone, unless the time is up.
        if found.free and seconds_left() != 0:
            users = fold_in(problem, ItemSide.of(items, problem.l1), users, tol=FOLD_IN_TOL)
        neighborhood = self._find_neighborhood(built, (users, items), balanced)
        if neighborhood is None:
            neighborhood = Neighborhood.none(log.n_items)
            note = f"{chosen.note}; then none: the time limit left no time for neighbors"
            chosen = replace(chosen, settings=chosen.settings._replace(neighbors=0), note=note)
        units = scaling.make_targets(problem.pattern)
        own = neighborhood.score_clicks(log.to_csr(), built.genuine).astype(units.dtype)
        explained = problem.pattern.dots(users, items) + own * units
        # V that U's problem does without still says what neither part explains.
        own_l2 = built.l2
        if own_l2 is None and self.reg_sparse == "auto":
            own_l2 = built.costs.alpha * (1 - _LITTLE * float(np.mean(np.clip(explained / problem.target, 0, 1))))
        with_v = problem if own_l2 is None else replace(problem, cap=built.asked * units.dtype.type(own_l2))
        specific = with_v.find_specific(explained)
        words = ProblemSpec(
            self.loss, built.costs.alpha, float(self.user_scaling), found.free, self.choose_weighing(log)
        )
        user_factors = (users / scaling.user[:, None]).astype(np.float32)
        item_factors = (items / scaling.item[:, None]).astype(np.float32)
        self.remember(log)
        self._take(
            FittedProblem(
                *(words, user_factors, item_factors, scaling, built.clicks, built.costs, neighborhood),
                *(problem.l1, built.l2, own_l2, self.is_bounded(words), built.genuine),
            )
        )
        self.specific_ = keep_nonzero(problem.pattern, specific / units)
        self.chosen_ = replace(chosen, n_now=len(log))
        self.certificate_ = replace(found.certificate, has_neighbors=not neighborhood.is_empty)
        self.rank_, self.history_ = found.certificate.rank, found.history
        return self

    def _find_neighborhood(self, built: ClickProblem, own: Factored, balanced: LowRank | None) -> Neighborhood | None:
        """Return what goes from item to item; None where the time is up, unless a number of neighbors was given.

        It is fitted to what a balanced U leaves over: the fit's `own`, or another.
        """
        try:
            with cut_off(seconds_left() if self.neighbors == "auto" else None):
                u = own
                if built.settings.neighbors and not built.is_balanced:
                    u = (built.find_balanced() if balanced is None else balanced).split()
                return Neighborhood.of(built, u, float(self.user_scaling))
        except TimeUpError:
            return None

    def is_bounded(self, words: ProblemSpec) -> bool:
        """Return whether the factors of a fit are bounded, as in the paper's CSRR-e.

        Parameters
        ----------
        words
            How the problem was posed.

        Returns
        -------
        bounded
            Whether they are.
        """
        return False

    def _take(self, fitted: FittedProblem) -> None:
        self.fitted_ = fitted
        self.user_factors_: Float32Array = fitted.users
        self.item_factors_: Float32Array = fitted.items
        self.l1_, self.l2_, self.costs_ = fitted.l1, fitted.l2, fitted.costs

    # What the parameters ask for

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
        words = CostSpec(None, positive_cost, miss, false_alarm, recall_weight)
        return make_from_costs(cls, words, params)

    def check_params(self) -> None:
        super().check_params()
        if self.reg_low_rank == 0 and self.l1 is None:
            raise ParameterError("reg_low_rank=0 keeps every click as it is; give a number > 0")
        self.cost_words.check()

    @property
    def cost_words(self) -> CostSpec:
        """What was said of costs, in which words."""
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
        return self.cost_words.resolve(log)

    @property
    def decision_probability(self) -> float | None:
        """The probability of a positive above which a recommendation costs less than none: 1/(1 + cost ratio).

        None where no cost was given, and, for a `recall_weight`, before the fit.
        """
        words = self.cost_words
        if not words.are_given or (words.recall_weight is not None and not self.is_fitted):
            return None
        ratio = self.costs_.ratio if self.is_fitted else words.compute_ratio()
        return Costs(ratio, "").probability

    def decide_cells(self, user_rows: Rows, item_rows: Rows) -> Any:
        factors = self.fitted_.clicks.find_factors(user_rows, item_rows)
        return 1 / (1 + self.costs_.ratio * factors)

    def choose_weighing(self, log: Log) -> Weighing:
        """Return how the events of a log are weighed: by `event_weights`; faded ones by their weight in any case.

        Parameters
        ----------
        log
            The training log.

        Returns
        -------
        weighing
            `event_weights`, without "auto".
        """
        kind = self.event_weights
        resolved: Weighing = ("linear" if self.weighs(log) else "ignore") if kind == "auto" else kind
        return "linear" if self.fades_events and resolved == "ignore" else resolved

    @property
    def searches(self) -> bool:
        """Whether "auto" parameters are chosen on held-out events."""
        return False

    def space(self) -> SearchSpace:
        """Return what the parameters give, by rule where they give nothing, and what they leave to the data.

        Returns
        -------
        wanted
            The settings, and the names of those that are open.
        """
        return find_search_space(self, self._settled)

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
        return find_strength(self, data)

    def settled(self, settings: Settings) -> Self:
        """Take settings in place of what is left open, and return the model: its fits search nothing.

        Parameters
        ----------
        settings
            Those of another fit.

        Returns
        -------
        model
            The model itself.
        """
        self._settled = settings
        return self

    def settled_params(self) -> dict[str, Any]:
        """Return the parameters, with the chosen values, to refit without a search.

        Returns
        -------
        params
            By name, with numbers for "auto". A `reg_sparse` of 1 means that U was fitted without V; a refit then has no
            V.
        """
        self.check_fitted()
        return settle_params(self)

    # Scores, and what they are made of

    @property
    def neighbors_(self) -> sparse.csr_array[np.float32, tuple[int, int]]:
        """Weights between items, csr of shape (n_items, n_items): what item i in a history adds to the score of j.

        In units of a click, for a user of one click; see `Neighborhood`.
        """
        self.check_fitted()
        weights: sparse.csr_array[np.float32, tuple[int, int]] = self.fitted_.neighborhood.weights
        return weights

    def score_rows(self, rows: Rows) -> npt.NDArray[np.float32]:
        scores = super().score_rows(rows)
        self.fitted_.neighborhood.add(scores, self.seen_, rows, self.fitted_.genuine)
        return scores

    def score_pairs(self, user_rows: Rows, item_rows: Rows) -> npt.NDArray[np.float32]:
        common = super().score_pairs(user_rows, item_rows)
        fitted = self.fitted_
        return common + fitted.neighborhood.score_pairs(self.seen_, user_rows, item_rows, fitted.genuine)

    def low_rank(self, dtype: str) -> LowRank:
        """Return U as a start for another problem over the same users and items.

        Parameters
        ----------
        dtype
            The precision of the numbers.

        Returns
        -------
        low_rank
            U, in the units of the fit.
        """
        return self.fitted_.make_factors(dtype).to_low_rank()

    # New people

    @property
    def history_weight(self) -> float | None:
        """The weight of a click in a new history without weights; None if weights are not used."""
        kind = self.fitted_.words.event_weights
        if kind == "linear" and self.seen_weights_ is None and self.seen_times_ is not None:
            # Weighed by age alone; their clicks are of today.
            return 1.0
        return None if kind == "ignore" else self.fitted_.clicks.find_typical_weight(kind)

    def fold_users(self, users: npt.NDArray[Any], seen: Any) -> FoldedFactors:
        with use_threads(self.threads, blas=1):
            factors, specific = self.fitted_.fold_histories(seen)
        neighborhood, items = self.fitted_.neighborhood, self.item_factors_

        def score_rows(rows: Rows) -> npt.NDArray[np.float32]:
            scores = multiply_factors(factors[rows], items)
            neighborhood.add(scores, seen, rows)
            return scores

        return FoldedFactors(users, seen, self, score_rows, factors, specific)

    def fold_items(self, log: Log, chosen: Any) -> FoldedItems:
        neighborhood, genuine = self.fitted_.neighborhood, self.fitted_.genuine
        with use_threads(self.threads, blas=1), _blame_parameter(self.reg_neighbors):
            factors, weights = self.fitted_.fold_items(self.seen_, chosen, self.chosen_.settings)
        score_rows = make_scorer(self, factors, weights, neighborhood.scale(self.seen_, genuine), genuine)
        return FoldedItems.of(self, log, chosen, score_rows, factors, weights)

    # Reasons and likeness

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
            taste.
        """
        self.check_fitted()
        row, column, fitted = self.users_.row(user), self.items_.row(item, "item"), self.fitted_
        history, amounts = fitted.explain(self.seen_, row, column)
        through = None
        if not fitted.neighborhood.is_empty:
            through = fitted.neighborhood.explain_history(self.seen_, row, column, fitted.genuine)
        return explain_score(self, user, item, history, amounts, through)

    @ask_one_state
    def similar_items(  # type: ignore[override]
        self,
        items: Any,
        k: int = 10,
        *,
        by: Literal["auto", "neighbors", "factors"] = "auto",
        candidates: Any = None,
        exclude: Any = None,
        where: Mapping[str, Any] | None = None,
        unknown: Unknown = "raise",
    ) -> Neighbors | NeighborLists:
        """Return the items most similar to an item, or to each of several.

        Parameters
        ----------
        items
            The id of an item, or several ids.
        k
            The maximal number of similar items.
        by
            "neighbors": the items with the largest positive weights for it; "factors": the largest cosine of item
            factors; "auto": by neighbors if the item has any.
        candidates
            The ids of the items to choose among; None for all.
        exclude
            The ids of items to leave out.
        where
            Only items that meet these conditions on columns of the item table, as for `recommend`.
        unknown
            What to do with unknown ids: "raise" an error, or "ignore": an empty list and an `UnknownIdWarning`.

        Returns
        -------
        neighbors
            The similar items, most similar first: `Neighbors` of one item, `NeighborLists` of several.
        """
        if by not in ("auto", "neighbors", "factors"):
            raise ParameterError(f'by={by!r} must be "auto", "neighbors" or "factors"')
        chosen = LikenessOptions(candidates, exclude, unknown, where)
        return find_similar_items(self, items, k, partial(self._score_similar, by), chosen)

    def _score_similar(self, by: str, rows: Rows) -> Float32Array:
        """Return the similarities of items to all, shape (len(rows), n_items), by neighbors or factors."""
        if by == "factors":
            return self.score_similar_items(rows)
        weights = self.fitted_.neighborhood.weights[:, rows].toarray().T
        scores = mark_nothing(np.maximum(weights, 0))
        if by == "auto" and (alone := ~(weights > 0).any(axis=1)).any():
            scores[alone] = self.score_similar_items(rows[alone])
        return scores

    # Noisy clicks, and a taste of one's own

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
        return list_preferences(self, user)

    def tastes(self) -> Tastes:
        """Return the tastes for judging user-specific choices; made at the first question after a fit.

        Returns
        -------
        tastes
            How alike items are to everyone but the user who is asked about.
        """
        if "tastes" not in self._made:
            self._made["tastes"] = self.noise_model().fitted_.find_tastes(self.seen_)
        tastes: Tastes = self._made["tastes"]
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
        check_popularity(popularity)
        steady = self.stability(popularity=popularity) if stability else None
        return find_suspects(self, popularity=popularity, steady=steady)

    @classmethod
    def can(cls, ability: str) -> bool:
        # Those without V cannot be fitted again as a judge.
        has_v = "reg_sparse" in list_defaults(cls)
        return super().can(ability) and (has_v or ability not in ("suspects", "stability"))

    def suspect_scores(self, *, popularity: float = 0.0) -> npt.NDArray[np.floating[Any]]:
        """Return the scores of `suspects` alone.

        Parameters
        ----------
        popularity
            As for `suspects`.

        Returns
        -------
        scores
            Shape (n_events,).
        """
        self.check_fitted()
        return score_suspects(self, popularity=popularity).scores

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
        return find_stability(self, popularity=popularity)

    def noise_model(self) -> Self:
        """Return the model that tells which clicks are noise: of `reg_sparse` 0.5 or less and "noise" low rank.

        The low-rank strength that ranks best is often weaker, and then U follows noise too.

        Returns
        -------
        judge
            This model, or one like it fitted to its clicks.
        """
        return find_judge(self)

    def make_strict(self, log: Log) -> Self:
        """Return a new model with these parameters, but a `reg_sparse` that is fit to judge.

        Parameters
        ----------
        log
            What is to be judged.

        Returns
        -------
        model
            Not fitted.
        """
        return make_strict(self, log)

    def leave_out(self) -> LeaveOneOut:
        """Return U on the clicked cells less the influence of each cell's own click, and on the others.

        Returns
        -------
        values
            The values by which noise is told.

        Raises
        ------
        ParameterError
            If U is 0.
        """
        return leave_out(self)

    def explained_shares(self) -> npt.NDArray[np.float32]:
        asked = self.costs_.alpha if self.fitted_.words.loss == "II" else 1.0
        return super().explained_shares() / asked

    @property
    def own_share(self) -> float:
        """The strength by which V is told, as a fraction of what gives none."""
        return self.fitted_.own_share

    def specific_on_clicks(self) -> npt.NDArray[np.floating[Any]]:
        """Return V on the training events.

        Returns
        -------
        values
            Shape (n_events,).
        """
        rows = np.repeat(np.arange(len(self.users_)), np.diff(self.seen_.indptr))
        return np.asarray(self.specific_[rows, self.seen_.indices]).ravel()

    def costed_log(self) -> Log:
        """Return the training events with what their misses cost as weights, for `refit`.

        Returns
        -------
        log
            The log.
        """
        return replace(self.training_log(), weights=self.fitted_.clicks.values)

    def refit(self, log: Log, **changes: Any) -> Self:
        """Return a model with what this one chose, but for some changes, fitted to other events.

        Parameters
        ----------
        log
            Events of `costed_log`.
        **changes
            Parameters by name.

        Returns
        -------
        model
            A new model, fitted.
        """
        return refit(self, log, changes)

    # Saving

    def state(self) -> ModelState:
        arrays, facts = self.fitted_.state()
        arrays |= {
            **step_arrays(self.history_),
            **sparse_arrays("specific", self.specific_),
            **{f"chosen.{name}": column for name, column in self.chosen_.columns.items()},
        }
        facts |= {
            "certificate": self.certificate_,
            "rank": self.rank_,
            "settings": self.chosen_.settings,
            "chosen": self.chosen_.note,
            "chosen_events": self.chosen_.n_events,
        }
        return arrays, facts

    def restore(self, arrays: Arrays, facts: dict[str, Any]) -> None:
        own = CSRRFacts(**{each.name: facts[each.name] for each in fields(CSRRFacts)})
        self._take(FittedProblem.from_state(arrays, own, is_bounded=self.is_bounded(own.posed)))
        self.specific_ = sparse_from(arrays, "specific", self.seen_.shape)
        self.history_, self.rank_, self.certificate_ = steps_from(arrays), own.rank, own.certificate
        self.chosen_ = choose_by_rule(self.space().given, "saved before choices were kept")
        if own.settings is not None:
            if missing := [name for name in NAMES if f"chosen.{name}" not in arrays]:
                raise ModelFileError(f"array 'chosen.{missing[0]}' is missing")
            columns = {name: arrays[key] for name in (*NAMES, COST) if (key := f"chosen.{name}") in arrays}
            n_events, n_now = own.chosen_events, self.seen_.nnz
            self.chosen_ = Chosen(columns, own.settings, own.chosen, n_events=n_events, n_now=n_now)


Start = LowRank | CSRRBase | None


def _check_start(start: Any, log: Log) -> None:
    """Raise ParameterError unless `start`, if any, is a model of this family, fitted to as many users and items."""
    if start is None:
        return
    if not isinstance(start, CSRRBase):
        raise ParameterError(f"start={start!r} must be a fitted CSRR, CSRRe, MCShift or BiasMC")
    start.check_fitted()
    if (len(start.users_), len(start.items_)) != (log.n_users, log.n_items):
        raise ParameterError(
            f"start was fitted to {len(start.users_)} users x {len(start.items_)} items, "
            f"the data has {log.n_users} x {log.n_items}"
        )


@contextmanager
def _blame_parameter(reg_neighbors: Any) -> Iterator[None]:
    """Say of a singular system which parameter makes it one."""
    try:
        yield
    except SingularError as error:
        raise ParameterError(f"reg_neighbors={reg_neighbors!r} is too small: {error}") from None
