"""EASE: item-to-item weights by ridge regression, in closed form."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from csrr._base.arrays import AnyArray
from csrr._base.lazy_jit import compile_loop
from csrr._base.progress import Callback
from csrr._base.threads import run_ranges, use_threads
from csrr.data.log import Log
from csrr.model_parameters import MOST, AroundAuto, AutoReg, Dtype, Engine, Threads
from csrr.models.estimator import explain_memory, follow_steps, join_events
from csrr.models.foldin import FoldedItems
from csrr.models.held_out import find_best_multiple
from csrr.models.item_weights import ItemWeightsModel
from csrr.models.schema import Arrays, FileSchema, Values
from csrr.models.store import ModelState
from csrr.numerics.engine import RankingEngine
from csrr.parameters import Number, ParameterError, declare, parameter
from csrr.ranking.topk import split_rows
from csrr.registry import find_engine

AUTO_MULTIPLE = 5.0
"""`guess_reg`: in units of the norm of the item counts over the root of the number of users."""
STEP = 3.0
"""The factor between strengths that `reg="auto"` tries."""
_EXACT, _MOST_STEPS = 1e-7, 10_000
"""The relative accuracy of the weights of an item that is folded in, and the largest number of steps for it."""


@dataclass(frozen=True)
class EASEFacts:
    """The contents of a file besides arrays."""

    reg: Annotated[float, Number("The regularization strength used.", above=0, most=MOST)]


@dataclass(frozen=True)
class EASEStep:
    """A step that a fit has done.

    Attributes
    ----------
    reg
        The strength of this fit; `reg="auto"` takes several fits.
    done
        "pairs counted", "factorized", "inverted" or "weights ready", in this order. Factorizing takes a third of the
        n_items^3 operations, inverting two thirds.
    seconds
        The time since this fit began.
    """

    reg: float
    done: str
    seconds: float


@declare
class EASE(ItemWeightsModel):
    """EASE: linear regression between items, in closed form (Steck 2019).

    Scores are X @ B, with the clicks X, users x items, and the item weights B that

        minimize  ||X - X B||_F^2 + reg*||B||_F^2,   diag(B) = 0.

    Its solution is B = I - P / diag(P) with P = (X'X + reg*I)^-1, by a Cholesky factorization in `dtype`: float32 takes
    half the time and two thirds of the memory, and is accurate unless `reg` is a tiny fraction of the largest
    eigenvalue of X'X. The number of threads changes weights only by rounding errors of `dtype`, unless "auto" finds two
    strengths that rank equally well up to rounding.

    `reg="auto"` is chosen by NDCG@20 on a held-out tenth of the training events: a hill climb, by factors of 3, from
    5*sqrt(sum_i c_i^2 / n), c_i the number of users of item i, n that of users with clicks. That usually takes three to
    six fits; a fit to all events follows. If fewer than 150 users have enough events to hold one out, `reg` is the
    starting point of the climb. With a number there is only one fit.

    A fit takes n_items^3 operations and 12*n_items^2 bytes (float32: 8); the model takes 4*n_items^2 bytes in memory
    and on disk: 20,000 items need 4.8 GB to fit and 1.6 GB to keep. A model that does not fit into memory is refused
    before anything is computed.

    Parameters
    ----------
    reg
        Regularization strength; "auto": chosen on held-out events.
    dtype
        The floating-point precision of the computation.
    threads
        The number of threads; 0 for all cores.
    engine
        Where the work runs: on threads of this process, which is what "auto" is, on a GPU ("cuda"), with workers of
        Dask ("dask"), or where an object with the methods of `csrr.numerics.engine.Engine` has it. Results differ by
        rounding; no file keeps it.

    Attributes
    ----------
    weights_
        B, dense float32 of shape (n_items, n_items): what item i in a history adds to the score of item j.
    reg_
        The strength of the penalty, resolved.
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
    >>> model = csrr.EASE(reg=10).fit(csrr.synthetic(60, 40, events_per_user=10).log)
    >>> model.weights_.shape, float(model.weights_[7, 7])
    ((40, 40), 0.0)
    """

    reg: AutoReg = parameter(default="auto", kw_only=False)
    dtype: Dtype = "float64"
    threads: Threads = 0
    engine: Engine = "auto"

    search_space: ClassVar = {"reg": AroundAuto(1 / 16, 16)}
    file_schema = FileSchema((Values("weights", ("items", "items")),), EASEFacts)

    def fit(self, data: Any, y: Any = None, *, callback: Callback | None = None, verbose: bool = False) -> Self:
        """Fit to data, and return the model.

        Parameters
        ----------
        data
            A log, a table with user and item columns, or a users x items matrix.
        y
            Not used; required by scikit-learn.
        callback
            Called with an `EASEStep` after each step of each fit.
        verbose
            Whether to show the progress in one line on stderr.

        Returns
        -------
        model
            The model itself.

        Raises
        ------
        ParameterError
            For parameters that make no sense, a `reg` too small to compute with, or too many items for the memory there
            is.
        """
        self.check_params()
        if hasattr(type(find_engine(self.engine)), "run_tasks"):
            raise ParameterError(
                f"engine={self.engine!r} cannot fit EASE, whose weights between all items must be in one place; CSRR"
                " with neighbors is what many machines can fit"
            )
        log = self.read(data)
        _check_memory(log.n_items, self.dtype)
        with follow_steps(callback, verbose=verbose) as report:
            if not isinstance(self.reg, str):
                return self._fit_log(log, float(self.reg), report)
            options: dict[str, Any] = {} if report is None else {"callback": report}
            multiple = find_best_multiple(self, log, lambda part: guess_reg(part.to_csr()), step=STEP, **options)
            return self._fit_log(log, guess_reg(log.to_csr()) * multiple, report)

    def update(self, new_events: Any, *, choose: bool = False, callback: Callback | None = None) -> Self:
        """Add events to the training data, refit on all of them, and return the model.

        Parameters
        ----------
        new_events
            A log, a table with user and item columns, or a users x items matrix.
        choose
            Whether to choose an "auto" `reg` again; else it grows with the rule of "auto".
        callback
            As for `fit`.

        Returns
        -------
        model
            The model itself.
        """
        self.check_params()
        log = join_events(self, new_events)
        if choose or not isinstance(self.reg, str):
            return self.fit(log, callback=callback)
        _check_memory(log.n_items, self.dtype)
        # The chosen multiple of the rule stays.
        return self._fit_log(log, self.reg_ * guess_reg(log.to_csr()) / guess_reg(self.seen_), callback)

    def _fit_log(self, log: Log, reg: float, callback: Callback | None) -> Self:
        """Fit with a strength, and return the model."""
        clicks, began = log.to_csr(), time.perf_counter()

        def tell(done: str) -> None:
            if callback is not None:
                callback(EASEStep(reg, done, time.perf_counter() - began))

        with use_threads(self.threads), explain_memory(self.engine):
            if isinstance(engine := find_engine(self.engine), RankingEngine):
                try:
                    weights = engine.weigh_all_items(clicks, reg)
                except np.linalg.LinAlgError:
                    raise ParameterError(f"reg={reg:g} is too small: X'X + reg*I is singular; use more") from None
            else:
                gram = _compute_gram(clicks, self.dtype)
                tell("pairs counted")
                weights = self._solve(gram, reg, tell)
            tell("weights ready")
        self.remember(log)
        self.weights_: Any = weights
        self.reg_: float = reg
        return self

    def start_value(self, name: str, log: Log) -> float:
        return guess_reg(log.to_csr()) if name == "reg" else super().start_value(name, log)

    def _solve(self, gram: AnyArray, reg: float, tell: Callable[[str], None]) -> npt.NDArray[np.float32]:
        """Return B, shape (m, m), from X'X, C-contiguous of shape (m, m), which is overwritten."""
        from scipy.linalg import lapack

        gram[np.diag_indices_from(gram)] += reg
        single = gram.dtype == np.float32
        factorise, invert = (lapack.spotrf, lapack.spotri) if single else (lapack.dpotrf, lapack.dpotri)
        # LAPACK's lower triangle, column by column, is our upper one, row by row: nothing is copied.
        lower, failed = factorise(gram.T, lower=1, overwrite_a=1, clean=0)
        if not failed:
            tell("factorized")
            lower, failed = invert(lower, lower=1, overwrite_c=1)
            tell("inverted")
        if failed or not np.isfinite(lower.diagonal()).all():
            more = ' or dtype="float64"' if single else ""
            raise ParameterError.of(
                "reg", reg, f"is too small: X'X + reg*I is singular in {self.dtype}; use more{more}"
            )
        inverse = lower.T
        diagonal = inverse.diagonal().copy()
        weights = np.empty(inverse.shape, np.float32)
        run_ranges(lambda a, b: _scale_inverse(a, b, inverse, diagonal, weights), split_rows(len(weights)))
        return weights

    def fold_items(self, log: Log, chosen: Any) -> FoldedItems:
        from scipy.sparse.linalg import LinearOperator, cg

        # The column that a fit gives an item, where the others are without it: (X'X + reg*I) b = X'x.
        clicks = self.seen_.astype(np.float64)
        system = LinearOperator(
            (clicks.shape[1], clicks.shape[1]), lambda b: clicks.T @ (clicks @ b) + self.reg_ * b, dtype=np.float64
        )
        ones = (chosen > 0).astype(np.float64)
        weights = np.empty((clicks.shape[1], chosen.shape[0]), np.float32)
        for j in range(chosen.shape[0]):
            weights[:, j], failed = cg(system, clicks.T @ ones[[j]].toarray()[0], rtol=_EXACT, maxiter=_MOST_STEPS)
            if failed:
                raise ParameterError.of("reg", self.reg_, "is too small to fold items in; update the model")
        return FoldedItems.of(self, log, chosen, lambda rows: self.seen_[rows] @ weights, weights=weights)

    def state(self) -> ModelState:
        arrays, facts = super().state()
        return arrays, facts | {"reg": self.reg_}

    def restore(self, arrays: Arrays, facts: dict[str, Any]) -> None:
        super().restore(arrays, facts)
        self.reg_ = facts["reg"]


def guess_reg(clicks: Any) -> float:
    """Return the strength that "auto" begins with, for clicks, csr of shape (n_users, n_items)."""
    counts = np.bincount(clicks.indices).astype(np.float64)
    n_active = np.count_nonzero(np.diff(clicks.indptr))
    return AUTO_MULTIPLE * float(np.sqrt(counts @ counts / n_active))


def _check_memory(n_items: int, dtype: str) -> None:
    """Raise ParameterError if the matrices of a fit do not fit into the memory there is."""
    needed = n_items**2 * (np.dtype(dtype).itemsize + 4)
    there = _measure_available_memory()
    if there is not None and needed > there:
        raise ParameterError(
            f"EASE needs {needed / 1e9:.1f} GB for {n_items:,} items, and {there / 1e9:.1f} GB are available;"
            ' leave out rare items, use dtype="float32" (two thirds of it), or fit ItemKNN or CSRR instead'
        )


def _measure_available_memory() -> int | None:
    """Return the bytes that a process may still take, or None where the system does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            facts = dict(line.split(":", 1) for line in lines)
        return int(facts["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not on this platform
        return None


def _compute_gram(clicks: Any, dtype: str) -> AnyArray:
    """Return X'X, C-contiguous of shape (n_items, n_items): counts, exact in either type."""
    by_item = clicks.T.tocsr()
    gram = np.empty((clicks.shape[1], clicks.shape[1]), dtype)
    parts = (by_item.indptr, by_item.indices, clicks.indptr, clicks.indices, gram)
    run_ranges(lambda a, b: _count_together(a, b, *parts), split_rows(len(gram)))
    return gram


@compile_loop(fastmath=True)
def _count_together(start, stop, item_indptr, item_users, user_indptr, user_items, gram):  # type: ignore[no-untyped-def]
    # gram[i] = X[:, i] @ X
    one = gram.dtype.type(1)
    for i in range(start, stop):
        row = gram[i]
        row[:] = 0
        for p in range(item_indptr[i], item_indptr[i + 1]):
            u = item_users[p]
            for q in range(user_indptr[u], user_indptr[u + 1]):
                row[user_items[q]] += one


@compile_loop(fastmath=True)
def _scale_inverse(start, stop, inverse, diagonal, weights):  # type: ignore[no-untyped-def]
    # weights[i, j] = -P[i, j] / P[j, j], and 0 for i = j; of P only the upper triangle is there
    for i in range(start, stop):
        weights[i, i] = 0
        for j in range(i + 1, len(diagonal)):
            weights[i, j] = -inverse[i, j] / diagonal[j]
            weights[j, i] = -inverse[i, j] / diagonal[i]
