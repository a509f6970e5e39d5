"""Scores of histories that fade: how a fit uses the order of events, the parts that it adds up, and sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import numpy as np
from scipy import sparse

from csrr._base.arrays import AnyArray, Float32Array, Float64Array, FloatArray, Int32Array, Rows
from csrr.data.errors import DataError
from csrr.data.ids import Id
from csrr.data.log import Log
from csrr.model_parameters import MOST_HORIZON
from csrr.models.build_problem import Settings
from csrr.models.foldin import FoldedFactors, FoldedUsers
from csrr.models.schema import (
    FLOATS,
    Arrays,
    ModelFileError,
    OptionalGroup,
    SparseArray,
    Values,
    sparse_arrays,
    sparse_from,
)
from csrr.numerics.transitions import NextItems, Sequences, fade_histories
from csrr.parameters import Number
from csrr.ranking.topk import Products, multiply_factors, multiply_pairs
from csrr.results.recommendations import Recommendations

if TYPE_CHECKING:
    from csrr.models.base import Recommender
    from csrr.models.build_problem import ClickProblem
    from csrr.models.fitted_problem import Neighborhood

Kind = Literal["ignore", "next", "recent"]


class OrderSettings(NamedTuple):
    """The use of the order of events in a fit, by parameters: `order`, `decay`, and others under their names."""

    kind: Kind = "ignore"
    decays: tuple[float, ...] = ()
    horizon: float = 0.0
    history_scaling: float = 0.0
    rare_scaling: float = 0.0

    def list_params(self) -> dict[str, Any]:
        """Return them under the names of the parameters."""
        decay = self.decays[0] if len(self.decays) == 1 else list(self.decays)
        rest = {name: getattr(self, name) for name in self._fields[2:]}
        return {"order": self.kind} | ({"decay": decay, **rest} if self.decays else {})


IGNORE = OrderSettings()


class OrderFacts(NamedTuple):
    """The settings of `OrderSettings` that a model file has beside its arrays."""

    kind: Kind = "ignore"
    horizon: Annotated[float, Number(least=0, most=MOST_HORIZON)] = 0.0
    history_scaling: Annotated[float, Number(least=0, most=1)] = 0.0
    rare_scaling: Annotated[float, Number(least=0, most=1)] = 0.0

    @classmethod
    def of(cls, order: OrderSettings) -> OrderFacts:
        """Return the facts of settings."""
        return cls(order.kind, *order[2:])

    def make_settings(self, scores: FadedScores | None) -> OrderSettings:
        """Return the settings, given the scores of the same file."""
        return OrderSettings(self.kind, () if scores is None else scores.decays, *self[1:])


IN_NO_ORDER = OrderFacts()
ORDER_PARTS = OptionalGroup(
    Values("order.decays", ("predictors",), ("float64",), above=0, most=1),
    Values("order.shares", ("decays",), ("float64",)),
    Values("order.left", ("items", "directions"), FLOATS),
    Values("order.right", ("items", "turned"), FLOATS),
    SparseArray.of("order.weights", ("predictors", "items")),
)
"""The arrays of faded scores in a file."""


@dataclass(frozen=True, eq=False)
class FadedScores:
    """The scores of items by histories x_c, (m,) for each of C decays, in which an event counts d_c^(later events).

    They are [x_1 @ left ... x_C @ left] @ right.T + [x_1 ... x_C] @ weights: common taste, `left` (m, r) and `right`
    (m, C*r), and neighbors, `weights` csr (C*m, m). `shares`, (C,), is how much the taste of each decay counts for new
    items, of which nothing is known about what they follow.
    """

    decays: tuple[float, ...]
    shares: Float64Array
    left: Float32Array
    right: Float32Array
    weights: Any

    @cached_property
    def by_item(self) -> Any:
        """The weights by scored item: the transposed matrix, csr, of which rows are quick to take."""
        return self.weights.T.tocsr()

    @cached_property
    def latest(self) -> Any:
        """What the latest item adds to the scores of others by neighbors, csr (m, m)."""
        m = len(self.right)
        return sparse.csr_array(sum(self.weights[c * m : (c + 1) * m] for c in range(len(self.decays))))

    def fade(self, seen: Any, ages: Int32Array) -> Any:
        """Return the faded histories, csr (n, C*m), of histories, csr (n, m), and the ages of their events."""
        return fade_histories(seen, ages, self.decays)

    def find_users(self, seen: Any, ages: Int32Array) -> Float32Array:
        """Return the factors of users by their histories, (n, C*r); `right` are those of the items."""
        values = [(d**ages).astype(np.float32) for d in self.decays]
        parts = [sparse.csr_array((each, seen.indices, seen.indptr), shape=seen.shape) @ self.left for each in values]
        return np.hstack(parts)

    def score_after(self, rows: Rows) -> Float32Array:
        """Return the scores of all items by histories of one item each, at these rows, (len(rows), m)."""
        taste = multiply_factors(np.tile(self.left[rows], len(self.decays)), self.right)
        scores: Float32Array = self.latest[rows].toarray() + taste
        return scores

    def make_products(self, model: Recommender, factors: Float32Array, faded: Any) -> Products:
        """Return the scores of users by their factors, (n, r), and faded histories."""
        return Products(model.scored_items(self.weights), factors, faded, np.ones(len(factors), np.float32), faded.data)

    def score_pairs(self, faded: Any, user_rows: Rows, item_rows: Rows) -> Float32Array:
        """Return what neighbors add to the scores of pairs of a user row and an item row, (n,)."""
        ones = np.ones(faded.shape[0], np.float32)
        return multiply_pairs(faded, user_rows, item_rows, self.weights, ones, faded.data)

    def explain(self, history: Rows, ages: Int32Array, item: int) -> tuple[Float64Array, Float64Array]:
        """Return what each event of a history adds to the score of an item, by common taste and by neighbors."""
        by_decay = self.right[item].reshape(len(self.decays), -1) @ self.left[history].T
        column = self.by_item[[item]].toarray()[0].reshape(len(self.decays), -1)[:, history]
        counts = np.stack([d**ages for d in self.decays])
        return (counts * by_decay).sum(axis=0), (counts * column).sum(axis=0)

    def state(self) -> Arrays:
        """Return the arrays for a file."""
        arrays = {"order.decays": np.repeat(self.decays, len(self.right)), "order.shares": self.shares}
        arrays |= {"order.left": self.left, "order.right": self.right}
        return arrays | sparse_arrays("order.weights", self.weights)

    def fold(self, model: Recommender, users: Any, seen: Any) -> FoldedFactors:
        """Return new users by their histories, csr (n, m), whose values are places from the latest, 1, on."""
        ages = seen.data.astype(np.int32) - 1
        factors = self.find_users(seen, ages)
        return FoldedFactors(users, seen, model, self.make_products(model, factors, self.fade(seen, ages)), factors)

    @classmethod
    def from_state(cls, arrays: Arrays, kind: Kind, ages: Any) -> FadedScores | None:
        """Return the scores whose `state` these are, None where order is ignored; `ages` are those of the events."""
        if ("order.decays" in arrays) != (kind != "ignore") or (kind != "ignore" and ages is None):
            raise ModelFileError("the kind of order, its arrays and the ages of events do not go together")
        if kind == "ignore":
            return None
        right, each, shares = arrays["order.right"], arrays["order.decays"], arrays["order.shares"]
        decays = each.reshape(len(shares), -1) if len(each) == len(shares) * len(right) else np.ones((1, 1))
        if not len(decays) or (decays != decays[:, :1]).any() or (decays >= 1).any():
            raise ModelFileError("array 'order.decays' is not one decay below 1 for each item, and so for each share")
        if right.shape[1] != len(decays) * arrays["order.left"].shape[1]:
            raise ModelFileError("array 'order.right' does not have the columns of 'order.left' once for each decay")
        weights = sparse_from(arrays, "order.weights", (len(each), len(right)))
        return cls(tuple(decays[:, 0].tolist()), shares, arrays["order.left"], right, weights)


def knows_order(log: Log) -> bool:
    """Return whether a log says what came first: it is ordered, and its times are not all the same."""
    return log.is_ordered and not _has_one_time(log)


def _has_one_time(log: Log) -> bool:
    return log.times is not None and len(log) > 1 and bool((log.times == log.times[0]).all())


def list_sequences(log: Log) -> Sequences:
    """Return the items of each user, oldest first; DataError where that is not known."""
    if _has_one_time(log):
        raise DataError(
            "all events have the same time, so what came first is unknown; leave the times out, and read the log with"
            " ordered=True if its rows are in order"
        )
    return Sequences.of(log.user_counts(), log.item_rows[log.find_order()], log.n_items)


def make_taste(items: FloatArray, l1: float, scaling: FloatArray) -> tuple[Float32Array, Float32Array]:
    """Return U as a map of histories, x @ left @ right.T, left and right (m, r), by the factors of items, (m, r).

    It is how a user is folded in at equal weights and without V; `scaling`, (m,), is D_i^-b.
    """
    gram = items.T.astype(np.float64) @ items + l1 * np.eye(items.shape[1])
    left = np.linalg.solve(gram, (items * scaling[:, None]).T).T
    return left.astype(np.float32), (items / scaling[:, None]).astype(np.float32)


def divide_rare(sequences: Sequences, power: float) -> Float32Array:
    """Return what the scores of items are multiplied by, (m,): their numbers of events to the power -`power`."""
    divided: Float32Array = (np.maximum(sequences.counts, 1) ** -float(power)).astype(np.float32)
    return divided


def fit_faded(
    sequences: Callable[[], Sequences],
    built: ClickProblem,
    items: FloatArray,
    neighborhood: Neighborhood,
    order: OrderSettings,
) -> FadedScores:
    """Return the scores of histories that fade, by the factors of items, (m, r), and the neighbors without order.

    `sequences` gives the events of the log in order, where that counts for more than which are recent.
    """
    taste = make_taste(items, built.problem.l1 / (built.costs.alpha * built.clicks.level), built.scaling.item)
    if order.kind == "next":
        return fit_next(sequences(), taste, built.settings, order)
    return fade_scores(taste, neighborhood.weights, neighborhood.power, order.decays)


def fit_next(
    sequences: Sequences, taste: tuple[Float32Array, Float32Array], settings: Settings, order: OrderSettings
) -> FadedScores:
    """Return the scores whose neighbors are fitted to what comes next, and common taste weighed by least squares."""
    found = NextItems(sequences, order.decays, settings.neighbors, order.horizon)
    mine, m = found.find_taste(*taste), sequences.n_items
    factor = divide_rare(sequences, order.rare_scaling)
    weights = sparse.csr_array((len(order.decays) * m, m), dtype=np.float32)
    if settings.neighbors:
        rho = settings.reg_neighbors * found.compute_mean_diagonal(order.history_scaling)
        weights = found.by_predictor.make_matrix(found.solve(mine, order.history_scaling, [rho])[0])
        weights.data *= factor[weights.indices]
    return FadedScores(order.decays, mine.shares, taste[0], mine.right * factor[:, None], weights)


def fade_scores(
    taste: tuple[Float32Array, Float32Array], weights: Any, power: float, decays: Sequence[float]
) -> FadedScores:
    """Return the scores of a model without order for histories that fade, the mean over decays.

    `weights`, csr (m, m), are its neighbors, which count by the length of a history to the power `power`: here that of
    a long faded one.
    """
    lengths = [1 / (1 - decay) for decay in decays]
    scaled = [weights * np.float32(length**power / len(decays)) for length in lengths]
    stacked = sparse.csr_array(sparse.vstack(scaled, format="csr"))
    (left, right), shares = taste, np.full(len(decays), 1 / len(decays))
    turned = np.tile(np.float32(shares[0]) * right, len(decays))
    return FadedScores(tuple(decays), shares, left, turned, stacked)


_LEAST_SCALE = 1e-200
"""Sums are written out anew where what they are multiplied by becomes smaller."""


class Session:
    """The history of one user, whose scores follow each event that is added, as if folded in with all of it.

    An event costs as much as the rank and the number of items that its item is a neighbor of, whatever the length of
    the history. An item that is in the history already moves to its end. The session keeps the model as it was.

    Examples
    --------
    >>> log = csrr.read({"user": [1, 1, 2, 2, 2], "item": ["a", "b", "c", "a", "b"]}, ordered=True)
    >>> session = csrr.CSRR(order="next").fit(log).session(history=["c"])
    >>> session.add("a")
    >>> session.recommend(k=1).items.tolist()
    [['b']]
    """

    def __init__(self, model: Recommender, scores: FadedScores, history: Any) -> None:
        self._model, self._scores = model, scores
        # Its values are places from the latest on.
        self._start(history.indices[np.argsort(-history.data)].tolist())

    def _start(self, rows: Iterable[int]) -> None:
        """Begins with these items, oldest first."""
        n_decays, n_items = len(self._scores.decays), len(self._scores.right)
        self._rows: list[int] = []
        # The sum over events of d^age * left[i], and that of the weights of i, which is scale * sums.
        self._users = np.zeros((n_decays, self._scores.left.shape[1]))
        self._scale, self._sums = np.ones(n_decays), np.zeros((n_decays, n_items))
        for row in rows:
            self._push(row)

    def _push(self, row: int) -> None:
        own, decays = self._scores, np.array(self._scores.decays)
        self._rows.append(row)
        self._users = decays[:, None] * self._users + own.left[row]
        self._scale *= decays
        if self._scale.min() < _LEAST_SCALE:
            self._sums *= self._scale[:, None]
            self._scale[:] = 1
        weights, m = own.weights, len(own.right)
        for c, scale in enumerate(self._scale):
            mine = slice(weights.indptr[c * m + row], weights.indptr[c * m + row + 1])
            self._sums[c, weights.indices[mine]] += weights.data[mine] / scale

    @property
    def history(self) -> AnyArray:
        """The ids of the items, oldest first, shape (n,)."""
        return self._model.items_.ids[self._rows]

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"Session: {len(self):,} items, of {self._model!r}"

    def add(self, item: Id) -> None:
        """Add an event, which is now the latest.

        Parameters
        ----------
        item
            The id of its item.

        Raises
        ------
        UnknownIdError
            For an item that the model does not know.
        """
        row = int(self._model.items_.row(item, "item"))
        if row in self._rows:
            # Every event before it is one step less away.
            self._start(each for each in list(self._rows) if each != row)
        self._push(row)

    def score(self) -> Float32Array:
        """Return the scores of all items.

        Returns
        -------
        scores
            Shape (n_items,).
        """
        users = self._users.reshape(1, -1).astype(np.float32)
        scores: Float32Array = multiply_factors(users, self._scores.right)[0]
        return scores + (self._scale @ self._sums).astype(np.float32)

    def recommend(self, k: int = 10, **options: Any) -> Recommendations:
        """Return the best items, best first.

        Parameters
        ----------
        k
            The number of items.
        **options
            Those of `Recommender.recommend_for`.

        Returns
        -------
        recommendations
            One list.
        """
        ages = np.arange(len(self), 0, -1, dtype=np.float32)
        seen = sparse.csr_array((ages, (np.zeros(len(self), int), self._rows)), shape=(1, len(self._scores.right)))
        people = FoldedUsers(np.arange(1), seen, self._model, lambda rows: np.tile(self.score(), (len(rows), 1)))
        return people.recommend(k, **options)
