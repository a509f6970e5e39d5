"""WRMF: weighted regularized matrix factorization of implicit feedback."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from csrr._base.arrays import Float32Array, Float64Array, FloatArray
from csrr._base.threads import use_threads
from csrr.data.ids import Id
from csrr.data.log import Log
from csrr.model_parameters import (
    MOST,
    USUAL_RANKS,
    AroundAuto,
    AutoReg,
    Engine,
    HalfLife,
    MaxIter,
    Range,
    Rank,
    Seed,
    Threads,
)
from csrr.models.base import Recommender
from csrr.models.build_problem import AUTO_NOISE_MULTIPLE, compute_noise_level
from csrr.models.estimator import (
    ask_one_state,
    explain_memory,
    follow_steps,
    join_events,
    place_rows_by_id,
    resolve_rank,
    uses_times,
    uses_weights,
    weigh,
)
from csrr.models.foldin import FoldedFactors, FoldedItems, make_scorer
from csrr.models.held_out import find_best_multiple
from csrr.models.schema import Arrays, FileSchema, Values
from csrr.models.scorer import explain_score, solve_penalized
from csrr.models.store import STEPS, ModelState, factors, step_arrays, steps_from
from csrr.numerics.factored import Factors, ItemSide, alternate, compute_objective, descend, guess_factors, widen
from csrr.numerics.problem import Pattern, Problem, select_rows
from csrr.numerics.solver import Callback, Options, Step
from csrr.parameters import Choice, Number, ParameterError, declare, parameter
from csrr.ranking.topk import Products
from csrr.registry import find_engine
from csrr.results.recommendations import Explanation

DEFAULT_RANK = 128
STEP = 2.0
"""The factor between strengths that `reg="auto"` tries."""

_MOST = 1e10
"""The most that a cell may weigh: far beyond any use, far within float32."""

Confidence = Annotated[float, Number("The extra weight of an observed cell.", above=0, most=_MOST)]
RegExponent = Annotated[
    float,
    Number("0: one penalty for all rows; 1: penalties in proportion to a row's weight.", least=0, most=2),
]
WeightsOrNot = Annotated[
    Literal["auto", "ignore", "linear"],
    Choice(
        'How event weights are used: "ignore"; "linear": as factors on confidence; "auto": so where they were given by'
        " event type.",
    ),
]
Gain = Annotated[float, Number("Stop when the relative gain of an iteration is smaller.", least=0, most=1)]


class Penalty(NamedTuple):
    """reg*(f_i/mean)^exponent, f_i the sum of a row's weights over all cells."""

    reg: Annotated[float, Number("The regularization strength used.", above=0, most=MOST)]
    exponent: RegExponent
    mean: Annotated[float, Number("The mean sum of weights.", above=0, most=MOST)]

    @classmethod
    def make(cls, problem: Problem, exponent: float) -> Penalty:
        """Return the penalty on the rows of a problem whose l1 is the strength."""
        return cls(problem.l1, float(exponent), float(_sum_row_weights(problem).mean()))

    def list_strengths(self, problem: Problem) -> Float64Array:
        """Return the strength for each row, (n,)."""
        return self.reg * (_sum_row_weights(problem) / self.mean) ** self.exponent


@dataclass(frozen=True)
class WRMFFacts:
    """The contents of a file besides arrays."""

    confidence: Confidence
    penalty: Penalty


@declare
class WRMF(Recommender):
    """Weighted regularized matrix factorization, fitted by ALS (Hu, Koren, Volinsky 2008).

    Scores are P Q', P of (n_users, rank) and Q of (n_items, rank), that

        minimize  sum_ij c_ij*(a_ij - p_i.q_j)^2 + sum_i reg_i*||p_i||^2 + sum_j reg_j*||q_j||^2

    over all cells, a = 1 and c = 1 + `confidence` on observed ones (1 + `confidence`*weight with `event_weights`
    "linear"), a = 0 and c = 1 elsewhere. reg_i = `reg`*(f_i/mean f)^`reg_exponent`, f_i the sum of c over the row (over
    the column for an item).

    `reg="auto"` is chosen by NDCG@20 on a held-out tenth of the training events, all other parameters as given: a
    hill climb, by factors of 2, from sqrt(2/mean c) times half the norm of c with random signs (the level of noise).
    That usually takes three to six fits; a fit to all events follows. If fewer than 150 users have enough events to
    hold one out, `reg` is the starting point of the climb. With a number there is only one fit.

    Alternates between the sides by preconditioned conjugate gradients until an iteration lowers the objective by
    less than `tol` of it, or after `max_iter`. `rank` None is 128, or as many as the matrix has users or items.

    Parameters
    ----------
    rank
        The number of factors; None: a default, or fewer if there are fewer users or items.
    confidence
        The extra weight of an observed cell.
    reg
        Regularization strength; "auto": chosen on held-out events.
    reg_exponent
        0: one penalty for all rows; 1: penalties in proportion to a row's weight.
    event_weights
        How event weights are used: "ignore"; "linear": as factors on confidence; "auto": so where they were given by
        event type.
    half_life
        The age at which an event counts half, relative to the latest event: in days, or like "90d"; None: no decay.
    tol
        Stop when the relative gain of an iteration is smaller.
    max_iter
        Stop after this many iterations.
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
    history_
        A `Step` an iteration, with half the objective above.
    user_factors_, item_factors_
        P and Q, shapes (n_users, rank) and (n_items, rank).
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
    reg_
        The strength of the penalty, resolved.

    Examples
    --------
    >>> model = csrr.WRMF(rank=4, reg=5.0).fit(csrr.synthetic(60, 40, events_per_user=10).log)
    >>> model.user_factors_.shape, model.item_factors_.shape
    ((60, 4), (40, 4))
    """

    has_factors = True
    search_space: ClassVar = {
        "rank": USUAL_RANKS,
        "confidence": Range(1, 40, log=True),
        "reg": AroundAuto(1 / 8, 4),
        "reg_exponent": Range(0, 1),
    }
    file_schema = FileSchema(
        (*factors(), STEPS, Values("weights", ("events",), least=0, most=np.inf, optional=True)), WRMFFacts
    )

    rank: Rank = parameter(default=None, kw_only=False)
    confidence: Confidence = 16.0
    reg: AutoReg = "auto"
    reg_exponent: RegExponent = 0.5
    event_weights: WeightsOrNot = "auto"
    half_life: HalfLife = None
    tol: Gain = 1e-3
    max_iter: MaxIter = 50
    threads: Threads = 0
    engine: Engine = "auto"
    seed: Seed = 0

    def fit(self, data: Any, y: Any = None, *, callback: Callback | None = None, verbose: bool = False) -> Self:
        """Fit to data, and return the model.

        Parameters
        ----------
        data
            A log, a table with user and item columns, or a users x items matrix.
        y
            Not used; required by scikit-learn.
        callback
            Sees a `Step` an iteration.
        verbose
            Whether to report progress on stderr: a bar on a terminal (with rich), lines elsewhere.

        Returns
        -------
        model
            The model itself.

        Raises
        ------
        ParameterError
            For parameters that make no sense, or `event_weights` that the data do not have.
        """
        self.check_params()
        log = self.read(data)
        with (
            use_threads(self.threads, blas=1),
            explain_memory(self.engine),
            follow_steps(callback, verbose=verbose) as report,
        ):
            weighed = self._check_weights(log)
            problem = self.build_problem(weighed)
            if self.reg == "auto":
                multiple = find_best_multiple(
                    self, weighed, lambda part: self.build_problem(part).l1, step=STEP, seed=self.seed
                )
                problem = problem.with_strength(problem.l1 * multiple)
            rank = resolve_rank(self.rank, DEFAULT_RANK, problem.pattern.shape)
            first = guess_factors(problem, rank, np.random.default_rng(self.seed))
            return self._alternate(log, weighed, problem, first, report)

    def update(self, new_events: Any, *, choose: bool = False, callback: Callback | None = None) -> Self:
        """Add events to the training data, refit on all of them, and return the model.

        Users and items may be new. An event that is there already gets the sum of the weights and the latest time, as
        in `csrr.read`. The factors go on from where they are, those of new users and items solved for first, by the
        same rule to stop as in `fit`. A strength that was chosen stays what it is in units of where its search began. A
        calibration is dropped: its scores were others.

        Parameters
        ----------
        new_events
            A log, a table with user and item columns, or a users x items matrix. Ids must have the types of the
            model's ids.
        choose
            Whether to choose the strength anew, as `fit` does.
        callback
            Sees a `Step` an iteration.

        Returns
        -------
        model
            The model itself.

        Raises
        ------
        DataError
            If ids have other types, or weights or times that the model needs are missing.
        """
        self.check_params()
        log = join_events(self, new_events)
        if choose:
            return self.fit(log, callback=callback)
        with use_threads(self.threads, blas=1), explain_memory(self.engine):
            weighed = self._check_weights(log)
            problem = self.build_problem(weighed)
            if self.reg == "auto":
                known = replace(self.training_log(), weights=self._weights)
                problem = problem.with_strength(problem.l1 * self.reg_ / self.build_problem(known).l1)
            return self._alternate(log, weighed, problem, self._carry_factors(log, problem), callback)

    def _alternate(self, log: Log, weighed: Log, problem: Problem, first: Factors, callback: Callback | None) -> Self:
        """Fit, starting from factors, and return the model."""
        began = time.perf_counter()
        penalties = [Penalty.make(each, self.reg_exponent) for each in (problem, problem.T)]
        regs = penalties[0].list_strengths(problem), penalties[1].list_strengths(problem.T)
        options = Options(self.tol, self.max_iter)
        factors, _, history = alternate(problem, regs, first, options, callback=callback, began=began)
        users = _solve_rows(problem, penalties[0], factors.items, factors.users)
        self.remember(log)
        self.user_factors_, self.item_factors_ = (
            np.ascontiguousarray(problem.engine.get(f), np.float32) for f in (users, factors.items)
        )
        self.history_: list[Step] = history
        self._confidence, self._penalty = float(self.confidence), penalties[0]
        self._weights = weighed.to_csr(weighted=True).data if self._is_weighted(weighed) else None
        return self

    def _carry_factors(self, log: Log, problem: Problem) -> Factors:
        """The factors for the users and items of a log, with those of new ones solved for, at the rank of a fit.

        If their objective is above that of 0, as may be with those of any file, the start of a new fit.
        """
        engine = problem.engine
        users, new_users = place_rows_by_id(self.user_factors_, self.users_, log.users)
        items, new_items = place_rows_by_id(self.item_factors_, self.items_, log.items)
        if new_users.any():
            penalty = Penalty.make(problem, self.reg_exponent)
            users[new_users] = engine.get(_solve_rows(select_rows(problem, new_users), penalty, items))
        placed = engine.put(problem.pattern, users)
        if new_items.any():
            penalty = Penalty.make(problem.T, self.reg_exponent)
            items[new_items] = engine.get(_solve_rows(select_rows(problem.T, new_items), penalty, placed))
        rank = resolve_rank(self.rank, DEFAULT_RANK, problem.pattern.shape)
        rng = np.random.default_rng(self.seed)
        carried = widen(problem.pattern, Factors(placed, items), rank, rng)
        with np.errstate(over="ignore", invalid="ignore"):
            is_better = 0 <= compute_objective(problem, carried) <= problem.value_at_zero
        return carried if is_better else guess_factors(problem, rank, rng)

    def _is_weighted(self, log: Log) -> bool:
        return uses_weights(self, log) or uses_times(self)

    def _check_weights(self, log: Log) -> Log:
        """The log with the weights that count."""
        if uses_weights(self, log) and log.weights is None:
            raise ParameterError('event_weights="linear" needs events with weights, and these have none')
        return weigh(self, log)

    @property
    def reg_(self) -> float:
        """The strength of the penalty, resolved."""
        return self._penalty.reg

    def start_value(self, name: str, log: Log) -> float:
        if name != "reg":
            return super().start_value(name, log)
        model = self if self.reg == "auto" else WRMF()
        return model.build_problem(log).l1

    def build_problem(self, log: Log) -> Problem:
        """Return the weights and targets of a log.

        Parameters
        ----------
        log
            The training log.

        Returns
        -------
        problem
            Its l1 is the value of `reg`; with "auto", the start of its search.
        """
        reg = None if self.reg == "auto" else float(self.reg)
        return self._build(log.to_csr(weighted=self._is_weighted(log)), float(self.confidence), reg)

    def _build(self, matrix: Any, confidence: float, reg: float | None) -> Problem:
        """The problem of a matrix of weights, csr; without a `reg`, at the start of its search."""
        pattern = Pattern.of(matrix, find_engine(self.engine))
        weight = pattern.engine.put_cells(pattern, _weigh_cells(matrix.data, confidence))
        strength = _guess_reg(pattern, weight, self.seed) if reg is None else reg
        return Problem(pattern, 0 * weight + 1, weight, None, strength)

    @property
    def history_weight(self) -> float | None:
        """The weight of a click in a new history without weights; None if weights are not used."""
        return None if self._weights is None else 1.0

    def make_products(self) -> Products:
        lists = partial(find_engine, self.engine)
        return Products.of_factors(self.user_factors_, self.scored_items(), lists)

    def fold_users(self, users: npt.NDArray[Any], seen: Any) -> FoldedFactors:
        problem = self._build(seen, self._confidence, self._penalty.reg)
        with use_threads(self.threads, blas=1):
            factors = problem.engine.get(_solve_rows(problem, self._penalty, self.item_factors_))
        return FoldedFactors.of(self, users, seen, factors)

    def fold_items(self, log: Log, chosen: Any) -> FoldedItems:
        problem = self._build(chosen, self._confidence, self._penalty.reg)
        total = self.seen_.nnz if self._weights is None else self._weights.sum(dtype=np.float64)
        penalty = self._penalty._replace(mean=len(self.users_) + float(self._confidence * total) / len(self.items_))
        with use_threads(self.threads, blas=1):
            factors = problem.engine.get(_solve_rows(problem, penalty, self.user_factors_))
        return FoldedItems.of(self, log, chosen, make_scorer(self, factors), factors)

    @ask_one_state
    def explain(self, user: Id, item: Id) -> Explanation:
        """Return how much each item of the user's history adds to the score of an item; the parts sum to the score.

        With Q fixed, p = (Q'CQ + reg*I)^-1 sum_j c_j q_j over the history: the score is a sum over it.

        Parameters
        ----------
        user, item
            Their ids.

        Returns
        -------
        explanation
            An amount for each item of the history.
        """
        self.check_fitted()
        row, column = self.users_.row(user), self.items_.row(item, "item")
        seen = self.seen_[[row]]
        if self._weights is not None:
            seen.data = self._weights[self.seen_.indptr[row] : self.seen_.indptr[row + 1]]
        problem = self._build(seen, self._confidence, self._penalty.reg)
        weight, strengths = (
            problem.engine.get(each) for each in (problem.weight, self._penalty.list_strengths(problem))
        )
        Q = self.item_factors_.astype(np.float64)
        mine = Q[problem.pattern.indices]
        system = Q.T @ Q + (mine.T * (weight - 1)) @ mine
        system[np.diag_indices_from(system)] += strengths[0]
        amounts = weight * (mine @ solve_penalized(system, Q[column]))
        return explain_score(self, user, item, problem.pattern.indices, amounts)

    def state(self) -> ModelState:
        arrays: Arrays = {
            "user_factors": self.user_factors_,
            "item_factors": self.item_factors_,
            **step_arrays(self.history_),
        }
        if self._weights is not None:
            arrays["weights"] = self._weights
        return arrays, {"confidence": self._confidence, "penalty": self._penalty}

    def restore(self, arrays: Arrays, facts: dict[str, Any]) -> None:
        self.user_factors_: Float32Array = arrays["user_factors"]
        self.item_factors_: Float32Array = arrays["item_factors"]
        self.history_ = steps_from(arrays)
        self._confidence, self._penalty = facts["confidence"], facts["penalty"]
        self._weights = arrays.get("weights")


def _weigh_cells(values: FloatArray, confidence: float) -> npt.NDArray[np.float32]:
    """c on the observed cells, (nnz,): 1 + confidence*value."""
    largest = float(values.max(initial=0))
    if confidence * largest > _MOST:
        raise ParameterError(
            f"confidence={confidence:g} times the largest weight, {largest:g}, is beyond {_MOST:g}; make one smaller"
        )
    return (1 + confidence * values).astype(np.float32)


def _guess_reg(pattern: Pattern, weight: FloatArray, seed: int) -> float:
    """A strength by the noise level: the larger the weights of observed cells, the smaller a share of it."""
    return AUTO_NOISE_MULTIPLE * compute_noise_level(pattern, weight, seed) * float(np.sqrt(2 / weight.mean()))


def _sum_row_weights(problem: Problem) -> Float64Array:
    """The sum of the weights of all cells of each row, (n,): 1 for a cell, and more for an observed one."""
    return problem.engine.sum_rows(problem.pattern, problem.weight - 1.0) + problem.pattern.shape[1]


def _solve_rows(problem: Problem, penalty: Penalty, other: FloatArray, start: FloatArray | None = None) -> FloatArray:
    """The best factors of the rows, (n, d), given those of the other side, (m, d); `start`, (n, d), is where to begin.

    Both known and new rows are solved for in this way, so that they are alike.
    """
    engine, regs = problem.engine, penalty.list_strengths(problem)
    side = ItemSide.of(other, problem.l1, engine)
    if start is None:
        start = engine.put(problem.pattern, np.zeros((problem.pattern.shape[0], other.shape[1]), other.dtype))
    users = engine.multiply(start, side.turn)
    for steps in _STEPS:
        before = users
        users, _ = descend(problem, users, side.turned, side.curvature, regs, steps=steps)
        if abs(users - before).max(initial=0) <= _EXACT * abs(users).max(initial=0):
            break
    return engine.multiply(users, side.turn.T)


# Conjugate gradient steps of each run, and the relative change that ends the runs. Large weights need long runs.
_STEPS, _EXACT = (5, 5, 10, 20, 40, 80), 1e-4
