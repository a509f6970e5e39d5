"""CSRR: common taste (low-rank) plus the choices it does not explain (sparse), fitted to a certificate."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from csrr.data import Log, as_log
from csrr.data.ids import Id
from csrr.models.answers import Explanation, FoldedFactors, Preferences
from csrr.models.recommender import FactorModel
from csrr.models.store import Arrays, State, sparse_arrays, sparse_from
from csrr.models.strengths import (
    AUTO_NOISE_MULTIPLE,
    ParameterError,
    Scaling,
    check_number,
    check_strength,
    check_whole,
    noise_level,
    resolve_cost_ratio,
    target_norm,
)
from csrr.optim.algorithm1 import Iteration, algorithm1
from csrr.optim.certificate import Certificate, duality_gap, relative_gap
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


class CSRR(FactorModel):
    """Scores U of a convex model of clicks A, users x items:

        minimise  l1*||U||_* + l2*sum(t*V) + sum_ij loss(U_ij + V_ij, t_ij),   0 <= V <= 1

    over low-rank U (common taste) and sparse V (a user's own choices), t = D_u^-user_scaling * A * D_i^-item_scaling
    (D: the number of clicks of a user, on an item). Loss "I" weighs an observed cell by `cost_ratio`, "II" multiplies
    its target by it; all unobserved cells count, with weight 1 and target 0. Stops when the duality gap is below `tol`.

    `cost_ratio` (what a miss costs, in false alarms) may also be given as `positive_cost` (c_p of c_p + c_n = 1) or
    as `miss_cost` and `false_alarm_cost`; without any it is 2. `reg_low_rank` is l1 as a fraction of the value that
    gives U = 0, or "auto": half the norm of the targets with random signs. `reg_sparse` is l2 as a fraction of the
    value that gives V = 0; 1 or more leaves V out. `l1` and `l2` give the strengths themselves instead. `max_rank`
    bounds the rank (None: no bound); the certificate says when it binds. `box="paper"` runs the paper's Algorithm 1
    to the letter, on dense arrays: for small data; it stops by its objective or `max_iter`, not by `tol`, and
    `max_rank` cuts its result. `threads` 0 means all cores.

    Fitted: `user_factors_`, `item_factors_` (their products are the scores, in units where a click is 1),
    `specific_` (V in those units, sparse), `rank_`, `certificate_`, `history_` (a `Step` an iteration), `l1_`, `l2_`.
    """

    certificate_: Certificate
    history_: list[Step]
    specific_: sparse.csr_array[np.float32, tuple[int, int]]
    rank_: int
    l1_: float
    l2_: float | None

    def __init__(
        self,
        loss: Loss = "I",
        cost_ratio: float | None = None,
        *,
        positive_cost: float | None = None,
        miss_cost: float | None = None,
        false_alarm_cost: float | None = None,
        reg_low_rank: float | Literal["auto"] = "auto",
        reg_sparse: float = 0.85,
        l1: float | None = None,
        l2: float | None = None,
        user_scaling: float = 0.3,
        item_scaling: float = 0.3,
        max_rank: int | None = 1000,
        box: Literal["none", "paper"] = "none",
        tol: float = 0.01,
        max_iter: int = 100,
        time_limit: float | None = None,
        dtype: Literal["float32", "float64"] = "float32",
        threads: int = 0,
        seed: int = 0,
    ) -> None:
        self.loss: Loss = loss
        self.cost_ratio = cost_ratio
        self.positive_cost = positive_cost
        self.miss_cost = miss_cost
        self.false_alarm_cost = false_alarm_cost
        self.reg_low_rank = reg_low_rank
        self.reg_sparse = reg_sparse
        self.l1 = l1
        self.l2 = l2
        self.user_scaling = user_scaling
        self.item_scaling = item_scaling
        self.max_rank = max_rank
        self.box = box
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.dtype = dtype
        self.threads = threads
        self.seed = seed

    # Fitting

    def fit(self, data: Any, *, callback: Callback | None = None, start: CSRR | None = None) -> Self:
        """Fit to a log, a table or a users x items matrix; return the model.

        `callback` sees a `Step` an iteration; what it raises ends the fit and leaves the model as it was. `start`, a
        model fitted to the same users and items, is where the solver begins.
        """
        alpha = self._check()
        log = as_log(data)
        with use_threads(self.threads):
            problem, scaling = self._problem(log, alpha)
            solution = self._solve(problem, start, callback)
            self._keep(log, problem, scaling, solution)
        return self

    def _check(self) -> float:
        """Raise ParameterError for parameters that make no sense; return alpha."""
        if self.loss not in ("I", "II"):
            raise ParameterError(f'loss={self.loss!r} must be "I" or "II"')
        if self.box not in ("none", "paper"):
            raise ParameterError(f'box={self.box!r} must be "none" or "paper"')
        if self.dtype not in ("float32", "float64"):
            raise ParameterError(f'dtype={self.dtype!r} must be "float32" or "float64"')
        check_strength("reg_low_rank", self.reg_low_rank)
        check_strength("reg_sparse", self.reg_sparse)
        for name in ("l1", "l2", "time_limit"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), above=0)
        if self.reg_low_rank == 0 and self.l1 is None:
            raise ParameterError("reg_low_rank=0 keeps every click as it is; give a number > 0")
        for name in ("user_scaling", "item_scaling"):
            check_number(name, getattr(self, name), least=0, most=1)
        check_whole("max_iter", self.max_iter, least=1)
        check_whole("seed", self.seed, least=0)
        check_whole("threads", self.threads, least=0)
        if self.max_rank is not None:
            check_whole("max_rank", self.max_rank, least=1)
        check_number("tol", self.tol, above=0, most=1)
        smallest = 1e-5 if self.dtype == "float32" else 1e-12
        if self.tol < smallest:
            raise ParameterError(
                f"tol={self.tol!r} is beyond {self.dtype}, which resolves a relative gap of {smallest:g}"
                + ('; use dtype="float64"' if self.dtype == "float32" else "")
            )
        return self._alpha()

    def _alpha(self) -> float:
        return resolve_cost_ratio(self.cost_ratio, self.positive_cost, self.miss_cost, self.false_alarm_cost)

    def _problem(self, log: Log, alpha: float) -> tuple[Problem, Scaling]:
        """The problem for a log, strengths resolved."""
        if len(log) == 0:
            raise ParameterError("the log has no events; there is nothing to fit")
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

    def _solve(self, problem: Problem, start: CSRR | None, callback: Callback | None) -> Solution:
        if self.box == "paper":
            if start is not None:
                raise ParameterError('start does not go with box="paper": Algorithm 1 begins at zero')
            return self._solve_dense(problem, callback)
        options = Options(self.tol, self.max_iter, self.time_limit, self.max_rank, self.seed)
        return solve(problem, options, start=None if start is None else start._as_start(problem), callback=callback)

    def _solve_dense(self, problem: Problem, callback: Callback | None) -> Solution:
        """The paper's Algorithm 1; its gap is to the optimum without the box."""
        alpha = self._alpha()
        history: list[Step] = []

        def record(done: Iteration, *_: Any) -> None:
            history.append(Step(done.number, done.objective, float("nan"), done.rank, done.seconds))
            if callback is not None:
                callback(history[-1])

        scaled = problem.target if self.loss == "I" else problem.target / alpha
        l2 = None if problem.cap is None else float(problem.cap[0] / scaled[0])
        result = algorithm1(
            problem.pattern.matrix(np.ones(problem.pattern.nnz)),
            target=problem.pattern.matrix(scaled.astype(np.float64)),
            alpha=alpha,
            l1=problem.l1,
            l2=l2,
            loss=self.loss,
            max_iter=self.max_iter,
            time_limit=self.time_limit,
            callback=record,
        )
        left, s, right = np.linalg.svd(result.U, full_matrices=False)
        keep = s > 1e-6 * max(s[0], 1e-30)
        cut = self.max_rank is not None and int(keep.sum()) > self.max_rank
        keep[self.max_rank :] = False
        low_rank = LowRank(
            left[:, keep].astype(self.dtype), s[keep], np.ascontiguousarray(right[keep].T).astype(self.dtype)
        )
        primal, dual, _ = duality_gap(problem, low_rank, np.random.default_rng(self.seed), rtol=1e-5)
        seconds = history[-1].seconds if history else 0.0
        certificate = Certificate(
            primal, dual, relative_gap(primal, dual), low_rank.rank, result.iterations, result.status, seconds, cut
        )
        return Solution(low_rank, certificate, history)

    def _as_start(self, problem: Problem) -> LowRank:
        """This model's U as a start for another problem over the same users and items."""
        self._check_fitted()
        if (len(self.users_), len(self.items_)) != problem.pattern.shape:
            raise ParameterError(
                f"start was fitted to {len(self.users_)} users x {len(self.items_)} items, "
                f"the data has {problem.pattern.shape[0]} x {problem.pattern.shape[1]}"
            )
        users = self.user_factors_ * self._scaling.user[:, None]
        items = self.item_factors_ * self._scaling.item[:, None]
        left, left_r = np.linalg.qr(users)
        right, right_r = np.linalg.qr(items)
        a, s, b = np.linalg.svd(left_r @ right_r.T)
        return LowRank((left @ a).astype(self.dtype), s.astype(np.float64), (right @ b.T).astype(self.dtype))

    def _keep(self, log: Log, problem: Problem, scaling: Scaling, solution: Solution) -> None:
        """Set the fitted attributes. Users are folded in once more, so that those seen and new are treated alike."""
        u = solution.low_rank
        root = np.sqrt(u.s).astype(self.dtype)
        users, items = u.left * root, np.ascontiguousarray(u.right * root)
        if self.box == "none":
            users = fold_in(problem, ItemSide.of(items, problem.l1), users, tol=_FOLD_IN_TOL)
        specific = problem.specific(problem.pattern.dots(users, items))
        units = scaling.targets(problem.pattern)
        self._remember(log)
        self._scaling = scaling
        self._posed = Posed(self.loss, self._alpha(), float(self.user_scaling))
        self.l1_ = problem.l1
        self.l2_ = None if problem.cap is None else float(problem.cap[0] / units[0])
        self.user_factors_ = (users / scaling.user[:, None]).astype(np.float32)
        self.item_factors_ = (items / scaling.item[:, None]).astype(np.float32)
        matrix = problem.pattern.matrix((specific / units).astype(np.float32))
        matrix.eliminate_zeros()
        self.specific_ = matrix
        self.rank_ = u.rank
        self.certificate_, self.history_ = solution.certificate, solution.history
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
        with use_threads(self.threads):
            problem, user_scaling = self._histories(pattern)
            side = self._item_side()
            factors = fold_in(problem, side, tol=_FOLD_IN_TOL / 10)
            specific = problem.specific(problem.pattern.dots(factors, side.factors))
        units = user_scaling[pattern.rows] * self._scaling.item[pattern.indices]
        matrix = pattern.matrix((specific / units).astype(np.float32))
        matrix.eliminate_zeros()
        return self._folded(users, seen, (factors / user_scaling[:, None]).astype(np.float32), matrix)

    def explain(self, user: Id, item: Id) -> Explanation:
        """Return how much each item of the user's history adds to the score of `item`; the amounts sum to it.

        Exact at the optimum; what the fit's tolerance leaves over is spread in proportion.
        """
        self._check_fitted()
        row, column = self.users_.row(user), self.items_.row(item, "item")
        pattern = Pattern.of(self.seen_[[row]])
        problem, user_scaling = self._histories(pattern)
        side = self._item_side()
        factors = (self.user_factors_[[row]] * user_scaling[:, None]).astype(side.factors.dtype)
        amounts = shares(problem, side, factors, column) / (user_scaling[0] * self._scaling.item[column])
        return self._explanation(user, item, pattern.indices, amounts)

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
            "history": np.array([astuple(step) for step in self.history_], np.float64).reshape(-1, 5),
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
        self.history_ = [Step(int(i), o, g, int(r), t) for i, o, g, r, t in arrays["history"].tolist()]
        self.certificate_ = Certificate(**facts["certificate"])
        self._posed = Posed(**facts["posed"])
        self.l1_, self.l2_, self.rank_ = facts["l1"], facts["l2"], facts["rank"]
