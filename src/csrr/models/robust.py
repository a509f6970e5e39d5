"""What CSRR and its relatives share: common taste U, a user's own choices V, and the answers they give."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from csrr.data import Log
from csrr.data.ids import Id
from csrr.models.answers import Explanation, FoldedFactors, Preferences
from csrr.models.recommender import FactorModel
from csrr.models.store import Arrays, State, sparse_arrays, sparse_from, step_arrays, steps_from
from csrr.models.strengths import (
    AUTO_NOISE_MULTIPLE,
    ParameterError,
    Scaling,
    check_auto,
    check_number,
    check_whole,
    noise_level,
    resolve_cost_ratio,
    target_norm,
)
from csrr.optim.certificate import Certificate
from csrr.optim.factored import Factors
from csrr.optim.foldin import ItemSide, fold_in, shares
from csrr.optim.lowrank import LowRank
from csrr.optim.pattern import Floats, Pattern
from csrr.optim.problem import Loss, Problem, build
from csrr.optim.solver import Callback, Options, Solution, Step, solve
from csrr.threads import use_threads

_FOLD_IN_TOL = 1e-3


class Posed(NamedTuple):
    """The words a problem was posed in, which later changes of the parameters must not touch."""

    loss: Loss
    alpha: float
    user_scaling: float
    free: bool = True


class Fit(NamedTuple):
    """What a solver found. Of `free` factors the users are folded in once more: seen and new are treated alike."""

    factors: Factors
    certificate: Certificate
    history: list[Step]
    free: bool = True

    @classmethod
    def of(cls, solution: Solution, *, free: bool = True) -> Fit:
        return cls(Factors.of(solution.low_rank), solution.certificate, solution.history, free)


class RobustModel(FactorModel):
    """Scores U of U + V, fitted to clicks: costs, scaling, strengths, new people, explanations, V, saving.

    A subclass has the parameters below, as arguments or as constants, and `_solve`.
    """

    loss: Loss
    cost_ratio: float | None = None
    positive_cost: float | None = None
    miss_cost: float | None = None
    false_alarm_cost: float | None = None
    reg_low_rank: float | Literal["auto"]
    reg_sparse: float
    l1: float | None
    l2: float | None
    user_scaling: float
    item_scaling: float
    tol: float
    max_iter: int
    time_limit: float | None
    dtype: Literal["float32", "float64"]
    threads: int
    seed: int

    certificate_: Certificate
    history_: list[Step]
    specific_: sparse.csr_array[np.float32, tuple[int, int]]
    rank_: int
    l1_: float
    l2_: float | None

    # Fitting

    def fit(self, data: Any, *, callback: Callback | None = None, start: RobustModel | None = None) -> Self:
        """Fit to a log, a table or a users x items matrix; return the model.

        `callback` sees a `Step` an iteration; what it raises ends the fit and leaves the model as it was. `start`, a
        model of this family fitted to the same users and items, is where the solver begins.
        """
        alpha = self._check()
        log = self._read(data)
        with use_threads(self.threads, blas=1):
            problem, scaling = self._problem(log, alpha)
            if start is not None:
                _check_start(start, problem)
            self._keep(log, problem, scaling, self._solve(problem, start, callback))
        return self

    def strength(self, data: Any) -> float:
        """Return the l1 that a fit to `data` would have: what `reg_low_rank` comes to there."""
        with use_threads(self.threads, blas=1):
            return float(self._problem(self._read(data), self._check())[0].l1)

    @abstractmethod
    def _solve(self, problem: Problem, start: RobustModel | None, callback: Callback | None) -> Fit:
        """Return the factors of U for the problem."""

    def _check(self) -> float:
        """Raise ParameterError for parameters that make no sense; return alpha."""
        if self.loss not in ("I", "II"):
            raise ParameterError(f'loss={self.loss!r} must be "I" or "II"')
        if self.dtype not in ("float32", "float64"):
            raise ParameterError(f'dtype={self.dtype!r} must be "float32" or "float64"')
        check_auto("reg_low_rank", self.reg_low_rank, least=0)
        check_number("reg_sparse", self.reg_sparse, least=0)
        for name in ("l1", "l2", "time_limit"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), above=0, most=1e30)
        if self.reg_low_rank == 0 and self.l1 is None:
            raise ParameterError("reg_low_rank=0 keeps every click as it is; give a number > 0")
        for name in ("user_scaling", "item_scaling"):
            check_number(name, getattr(self, name), least=0, most=1)
        check_whole("max_iter", self.max_iter, least=1)
        check_whole("seed", self.seed, least=0)
        check_whole("threads", self.threads, least=0)
        check_number("tol", self.tol, above=0, most=1)
        return self._alpha()

    def _alpha(self) -> float:
        return resolve_cost_ratio(self.cost_ratio, self.positive_cost, self.miss_cost, self.false_alarm_cost)

    def _problem(self, log: Log, alpha: float) -> tuple[Problem, Scaling]:
        """The problem for a log, strengths resolved."""
        pattern = Pattern.of(log.to_csr())
        scaling = Scaling.of(pattern, self.user_scaling, self.item_scaling, self.dtype)
        targets = scaling.targets(pattern)
        l1 = self.l1
        if l1 is None:
            if isinstance(self.reg_low_rank, str):
                l1 = alpha * AUTO_NOISE_MULTIPLE * noise_level(pattern, targets, self.seed)
            else:
                l1 = alpha * self.reg_low_rank * target_norm(pattern, targets, self.seed)
        l2 = self.l2
        if l2 is None:
            l2 = None if self.reg_sparse >= 1 else self.reg_sparse * alpha
        return build(pattern, targets, loss=self.loss, cost_ratio=alpha, l1=l1, l2=l2), scaling

    def _factors(self, dtype: str) -> Factors:
        """The factors of this model's U: scores in the units of the problem."""
        users = self.user_factors_ * self._scaling.user[:, None]
        items = self.item_factors_ * self._scaling.item[:, None]
        return Factors(users.astype(dtype), items.astype(dtype))

    def _as_start(self, dtype: str) -> LowRank:
        """This model's U as a start for another problem over the same users and items."""
        return self._factors(dtype).low_rank()

    def _keep(self, log: Log, problem: Problem, scaling: Scaling, fit: Fit) -> None:
        """Set the fitted attributes."""
        users, items = fit.factors.users, fit.factors.items
        if fit.free:
            users = fold_in(problem, ItemSide.of(items, problem.l1), users, tol=_FOLD_IN_TOL)
        specific = problem.specific(problem.pattern.dots(users, items))
        units = scaling.targets(problem.pattern)
        self._remember(log)
        self._scaling = scaling
        self._posed = Posed(self.loss, self._alpha(), float(self.user_scaling), fit.free)
        self.l1_ = problem.l1
        self.l2_ = None if problem.cap is None else float(problem.cap[0] / units[0])
        self.user_factors_ = (users / scaling.user[:, None]).astype(np.float32)
        self.item_factors_ = (items / scaling.item[:, None]).astype(np.float32)
        self.specific_ = _without_zeros(problem.pattern, specific / units)
        self.rank_ = fit.certificate.rank
        self.certificate_, self.history_ = fit.certificate, fit.history
        self.__dict__.pop("_side", None)

    # Answers

    def _item_side(self) -> ItemSide:
        """The item side of the fitted problem, made at first use."""
        if "_side" not in self.__dict__:
            self._side = ItemSide.of(self.item_factors_ * self._scaling.item[:, None], self.l1_)
        return self._side

    def _histories(self, pattern: Pattern) -> tuple[Problem, Floats]:
        """The problem of users with these histories, items as in training, and their D_u^-a."""
        counts = np.maximum(np.diff(pattern.indptr), 1)
        user = (counts**-self._posed.user_scaling).astype(self._scaling.item.dtype)
        targets = Scaling(user, self._scaling.item).targets(pattern)
        posed = self._posed
        return build(pattern, targets, loss=posed.loss, cost_ratio=posed.alpha, l1=self.l1_, l2=self.l2_), user

    def _fold(self, users: npt.NDArray[Any], seen: Any) -> FoldedFactors:
        """The item side stays as it is; each user's own small convex problem is solved, V included."""
        pattern = Pattern.of(seen)
        with use_threads(self.threads, blas=1):
            problem, user_scaling = self._histories(pattern)
            factors = self._fold_factors(problem)
            specific = problem.specific(problem.pattern.dots(factors, self._item_side().factors))
        units = user_scaling[pattern.rows] * self._scaling.item[pattern.indices]
        mine = (factors / user_scaling[:, None]).astype(np.float32)
        return self._folded(users, seen, mine, _without_zeros(pattern, specific / units))

    def _fold_factors(self, problem: Problem) -> Floats:
        """The factors of the users of a problem over the fitted items, (n, d), in its units."""
        return fold_in(problem, self._item_side(), tol=_FOLD_IN_TOL / 10)

    def explain(self, user: Id, item: Id) -> Explanation:
        """Return how much each item of the user's history adds to the score of `item`; the amounts sum to it.

        Exact at the optimum; what the fit's tolerance leaves over is spread in proportion.
        """
        self._check_fitted()
        row, column = self.users_.row(user), self.items_.row(item, "item")
        pattern = Pattern.of(self.seen_[[row]])
        problem, user_scaling = self._histories(pattern)
        factors = (self.user_factors_[[row]] * user_scaling[:, None]).astype(self._scaling.item.dtype)
        amounts = self._shares(problem, factors, column) / (user_scaling[0] * self._scaling.item[column])
        return self._explanation(user, item, pattern.indices, amounts)

    def _shares(self, problem: Problem, factors: Floats, item: int) -> npt.NDArray[Any]:
        """What each cell of a one-user problem adds to the user's value for an item row, (nnz,)."""
        return shares(problem, self._item_side(), factors, item)

    def specific_preferences(self, user: Id) -> Preferences:
        """Return the user's entries of V, largest first: choices that the common taste does not explain.

        In units of a click: 0.8 says that four fifths of this click are this user's own.
        """
        self._check_fitted()
        row = self.specific_[[self.users_.row(user)]].tocsr()
        order = np.argsort(-row.data, kind="stable")
        return Preferences(*self._named(row.indices[order]), row.data[order], user)

    # Saving

    def _state(self) -> State:
        arrays = {
            "user_factors": self.user_factors_,
            "item_factors": self.item_factors_,
            "user_scaling": self._scaling.user,
            "item_scaling": self._scaling.item,
            **step_arrays(self.history_),
            **sparse_arrays("specific", self.specific_),
        }
        facts = {
            "certificate": self.certificate_.to_dict(),
            "l1": self.l1_,
            "l2": self.l2_,
            "rank": self.rank_,
            "posed": self._posed._asdict(),
        }
        return arrays, facts

    def _restore(self, arrays: Arrays, facts: dict[str, Any]) -> None:
        self.user_factors_, self.item_factors_ = arrays["user_factors"], arrays["item_factors"]
        self._scaling = Scaling(arrays["user_scaling"], arrays["item_scaling"])
        self.specific_ = sparse_from(arrays, "specific", self.seen_.shape)
        self.history_ = steps_from(arrays)
        self.certificate_ = Certificate(**facts["certificate"])
        self._posed = Posed(**facts["posed"])
        self.l1_, self.l2_, self.rank_ = facts["l1"], facts["l2"], facts["rank"]


class ConvexModel(RobustModel):
    """One whose U is the optimum of the convex problem, to a gap of `tol`, its rank bounded by `max_rank`."""

    max_rank: int | None

    def _check(self) -> float:
        if self.max_rank is not None:
            check_whole("max_rank", self.max_rank, least=1)
        alpha = super()._check()
        smallest = 1e-5 if self.dtype == "float32" else 1e-12
        if self.tol < smallest:
            raise ParameterError(
                f"tol={self.tol!r} is beyond {self.dtype}, which resolves a relative gap of {smallest:g}"
                + ('; use dtype="float64"' if self.dtype == "float32" else "")
            )
        return alpha

    def _options(self) -> Options:
        """When the solver is to stop."""
        return Options(self.tol, self.max_iter, self.time_limit, self.max_rank, self.seed)

    def _solve(self, problem: Problem, start: RobustModel | None, callback: Callback | None) -> Fit:
        begin = None if start is None else start._as_start(self.dtype)
        return Fit.of(solve(problem, self._options(), start=begin, callback=callback))


def _check_start(start: Any, problem: Problem) -> None:
    """Raise ParameterError unless `start` is a model of this family, fitted to as many users and items."""
    if not isinstance(start, RobustModel):
        raise ParameterError(f"start={start!r} must be a fitted CSRR, CSRRe, MCShift or BiasMC")
    start._check_fitted()
    if (len(start.users_), len(start.items_)) != problem.pattern.shape:
        raise ParameterError(
            f"start was fitted to {len(start.users_)} users x {len(start.items_)} items, "
            f"the data has {problem.pattern.shape[0]} x {problem.pattern.shape[1]}"
        )


def _without_zeros(pattern: Pattern, values: Floats) -> Any:
    """The sparse (n, m) array of those values that are not 0."""
    matrix = pattern.matrix(values.astype(np.float32))
    matrix.eliminate_zeros()
    return matrix
