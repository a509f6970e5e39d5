"""BPRMF (Rendle et al., 2009): factors and item biases that rank a user's items above all others."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from csrr._base.arrays import Float32Array
from csrr._base.threads import use_threads
from csrr.data.log import Log
from csrr.model_parameters import USUAL_RANKS, Range, Rank, Seed, Threads
from csrr.models.base import Recommender
from csrr.models.estimator import follow_steps, join_events, place_rows_by_id, resolve_rank
from csrr.models.foldin import FoldedFactors
from csrr.models.schema import Arrays, FileSchema, Values
from csrr.models.store import ModelState, factors
from csrr.numerics.bpr import Rates, fold_in, run_epoch
from csrr.numerics.factored import Factors
from csrr.numerics.problem import Pattern
from csrr.numerics.thread_engine import THREADS
from csrr.parameters import Number, ParameterError, Whole, declare, parameter

DEFAULT_RANK = 50

_SPREAD = 0.1
"""Standard deviation of the factors that a fit begins with."""

_LARGEST = 1e15
"""The largest factor: products of two leave room in float32, and files keep no larger ones."""

_LEAST = -2.0
"""The least mean ln s(x_ui - x_uj) of an epoch: a coin has -0.7, and below this pairs are wrong by more and more."""

_MOST = 1e6
"""The largest rate or strength: far beyond any use, far within float32."""

LearningRate = Annotated[float, Number("The step size at the start.", above=0, most=_MOST)]
Decay = Annotated[float, Number("The last step size as a share of the first.", above=0, most=1)]
Reg = Annotated[float, Number("Regularization of the factors of users and of their items.", least=0, most=_MOST)]
RegNegative = Annotated[
    float | None,
    Number("Regularization of sampled negative items; None: `reg`.", least=0, most=_MOST),
]
RegBias = Annotated[float, Number("Regularization of the item biases.", least=0, most=_MOST)]
Epochs = Annotated[int, Whole("The number of passes over the events.", least=1)]


@dataclass(frozen=True)
class BPRMFFacts:
    """The contents of a file besides arrays."""

    reg: Reg


@dataclass(frozen=True)
class Epoch:
    """An epoch: its number from 1, the mean ln s(x_ui - x_uj) met in it, and the seconds since the fit began.

    `model()` is the model as it is then, good until the next epoch.
    """

    number: int
    value: float
    seconds: float
    model: Callable[[], BPRMF] = field(repr=False, compare=False)


@declare
class BPRMF(Recommender):
    """Bayesian personalized ranking with matrix factorization (Rendle et al. 2009).

    Scores x_ui = b_i + p_u.q_i maximize, with the logistic function s,

        sum_(u,i) mean_j ( ln s(x_ui - x_uj)
                           - reg/2*(|p_u|^2 + |q_i|^2) - reg_negative/2*|q_j|^2 - reg_bias/2*(b_i^2 + b_j^2) )

    over the items i that a user u has and the items j that u does not have, by stochastic gradient steps. Each epoch
    takes every pair (u, i) once, in random order, with one uniformly drawn j. The step size falls geometrically. `rank`
    None is 50, or fewer if there are fewer users or items. The number of threads does not change the model.

    Parameters
    ----------
    rank
        The number of factors; None: a default, or fewer if there are fewer users or items.
    learning_rate
        The step size at the start.
    decay
        The last step size as a share of the first.
    reg
        Regularization of the factors of users and of their items.
    reg_negative
        Regularization of sampled negative items; None: `reg`.
    reg_bias
        Regularization of the item biases.
    epochs
        The number of passes over the events.
    threads
        The number of threads; 0 for all cores.
    seed
        Seed of the random numbers.

    Attributes
    ----------
    history_
        The mean ln s(x_ui - x_uj) met in each epoch.
    user_factors_, item_factors_
        Shapes (n_users, rank + 1) and (n_items, rank + 1). The last columns are ones and the biases, and do not count
        for likeness.
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
    >>> model = csrr.BPRMF(rank=4, epochs=5).fit(csrr.synthetic(60, 40, events_per_user=10).log)
    >>> model.user_factors_.shape, len(model.history_)
    ((60, 5), 5)
    """

    has_factors = True
    search_space: ClassVar = {
        "rank": USUAL_RANKS,
        "learning_rate": Range(0.02, 0.5, log=True),
        "reg": Range(1e-3, 0.1, log=True),
        "reg_negative": Range(3e-3, 0.3, log=True),
        "reg_bias": Range(3e-4, 0.03, log=True),
    }
    file_schema = FileSchema((*factors("rank+1"), Values("history", ("epochs",), ("float64",))), BPRMFFacts)
    _likeness = slice(-1)

    rank: Rank = parameter(default=None, kw_only=False)
    learning_rate: LearningRate = 0.1
    decay: Decay = 0.03
    reg: Reg = 0.012
    reg_negative: RegNegative = 0.05
    reg_bias: RegBias = 0.003
    epochs: Epochs = 200
    threads: Threads = 0
    seed: Seed = 0

    def fit(
        self,
        data: Any,
        y: Any = None,
        *,
        callback: Callable[[Epoch], object] | None = None,
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
            Sees each `Epoch`; what it raises ends the fit and leaves the model as it was.
        verbose
            Whether to report progress on stderr: a bar on a terminal (with rich), lines elsewhere.

        Returns
        -------
        model
            The model itself.

        Raises
        ------
        ParameterError
            For parameters that make no sense, or steps so long that the factors grow without bound.
        """
        self.check_params()
        with follow_steps(callback, verbose=verbose) as report:
            return self._fit_log(self.read(data), report)

    def update(
        self, new_events: Any, *, choose: bool = False, callback: Callable[[Epoch], object] | None = None
    ) -> Self:
        """Add events to the training data, continue training on all of them, and return the model.

        Users and items may be new. The factors go on from where they are, those of new users folded in, by the last
        half of the epochs: their short steps. That is not the model that a fit to all events gives, which begins
        elsewhere, but one that ranks alike.

        Parameters
        ----------
        new_events
            A log, a table with user and item columns, or a users x items matrix. Ids must have the types of the
            model's ids.
        choose
            Whether to begin anew, as `fit` does.
        callback
            Sees each `Epoch`.

        Returns
        -------
        model
            The model itself.

        Raises
        ------
        DataError
            If ids are of other types.
        """
        self.check_params()
        log = join_events(self, new_events)
        return self._fit_log(log, callback, None if choose else self._carry_factors(log))

    def _fit_log(self, log: Log, callback: Callable[[Epoch], object] | None, start: Factors | None = None) -> Self:
        """Fit from new factors, or from a `start` by the last half of the epochs, and return the model."""
        pattern, rng = Pattern.of(log.to_csr(), THREADS), np.random.default_rng(self.seed)
        factors, first = (self._draw_start(pattern, rng), 0) if start is None else (start, self.epochs // 2)
        reg_negative = self.reg if self.reg_negative is None else self.reg_negative
        history: list[float] = []
        began = time.perf_counter()
        with use_threads(self.threads):
            for number in range(first, self.epochs):
                step = self.learning_rate * self.decay ** (number / max(self.epochs - 1, 1))
                rates = Rates.of(step, self.reg, reg_negative, self.reg_bias)
                history.append(run_epoch(pattern, factors, rates, rng))
                is_small = all(np.abs(side).max() < _LARGEST for side in (factors.users, factors.items))
                if not (is_small and history[-1] > _LEAST):
                    what = f"is too long a step: the factors grow without bound in epoch {number + 1}; take a"
                    raise ParameterError.of(
                        "learning_rate", self.learning_rate, f"{what} smaller one, or other reg, reg_negative, reg_bias"
                    )
                if callback is not None:
                    seconds = time.perf_counter() - began
                    model = partial(type(self)(**self.get_params()).take, log, factors, [])
                    callback(Epoch(number + 1, history[-1], seconds, model))
        return self.take(log, factors, history)

    def take(self, log: Log, factors: Factors, history: list[float]) -> Self:
        """Set what is fitted, and return the model.

        Parameters
        ----------
        log
            The training log.
        factors
            Those of users and items.
        history
            The mean ln s of each epoch.

        Returns
        -------
        model
            The model itself.
        """
        self.remember(log)
        self.user_factors_, self.item_factors_ = (
            f.astype(np.float32, copy=False) for f in (factors.users, factors.items)
        )
        self.history_: list[float] = history
        self._reg = float(self.reg)
        return self

    def _draw_start(self, pattern: Pattern, rng: np.random.Generator) -> Factors:
        """Return small random factors; zeros for users without pairs to compare, who have no item or every item."""
        width = resolve_rank(self.rank, DEFAULT_RANK, pattern.shape) + 1
        users, items = (rng.standard_normal((n, width), np.float32) * np.float32(_SPREAD) for n in pattern.shape)
        counts = np.diff(pattern.indptr)
        users[(counts == 0) | (counts == pattern.shape[1])] = 0
        users[:, -1], items[:, -1] = 1, 0
        return Factors(users, items)

    def _carry_factors(self, log: Log) -> Factors:
        """The factors for the ids of a log: drawn for new items, folded in for new users."""
        pattern = Pattern.of(log.to_csr(), THREADS)
        drawn = self._draw_start(pattern, np.random.default_rng(self.seed))
        users, new_users = place_rows_by_id(self.user_factors_, self.users_, log.users)
        items, new_items = place_rows_by_id(self.item_factors_, self.items_, log.items)
        if items.shape[1] != drawn.items.shape[1]:
            return drawn
        items[new_items] = drawn.items[new_items]
        if new_users.any():
            with use_threads(self.threads):
                users[new_users] = fold_in(
                    Pattern.of(log.to_csr()[np.flatnonzero(new_users)], THREADS), items, self._reg
                )
        counts = np.diff(pattern.indptr)
        nothing = (counts == 0) | (counts == pattern.shape[1])
        users[nothing] = drawn.users[nothing]
        return Factors(users, items)

    def fold_users(self, users: npt.NDArray[Any], seen: Any) -> FoldedFactors:
        # A concave problem for each user, with the items as they are, solved by averaged stochastic steps.
        with use_threads(self.threads):
            factors = fold_in(Pattern.of(seen, THREADS), self.item_factors_, self._reg)
        return FoldedFactors.of(self, users, seen, factors)

    def state(self) -> ModelState:
        arrays: dict[str, npt.NDArray[Any]] = {
            "user_factors": self.user_factors_,
            "item_factors": self.item_factors_,
            "history": np.array(self.history_, np.float64),
        }
        return arrays, {"reg": self._reg}

    def restore(self, arrays: Arrays, facts: dict[str, Any]) -> None:
        self.user_factors_: Float32Array = arrays["user_factors"]
        self.item_factors_: Float32Array = arrays["item_factors"]
        self.history_ = arrays["history"].tolist()
        self._reg = facts["reg"]
