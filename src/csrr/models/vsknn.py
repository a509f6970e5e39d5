"""VSKNN: scores from the users whose histories are most like the latest events of a user."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np

from csrr._base.arrays import Float32Array, Rows
from csrr._base.heap import add_to_heap, is_below, replace_worst
from csrr._base.lazy_jit import compile_loop
from csrr._base.threads import run_ranges, use_threads
from csrr.model_parameters import Range, Threads
from csrr.models.base import Recommender
from csrr.models.order import list_sequences
from csrr.models.schema import FileSchema
from csrr.parameters import Choice, Number, Whole, declare, parameter
from csrr.ranking.topk import check_rows, split_rows, take_rows

Fading = Literal["same", "div", "linear", "quadratic", "log"]
Neighbors = Annotated[int, Whole("The number of nearest users whose items count.", least=1)]
Weighting = Annotated[Fading, Choice("How an event of the history counts less the older it is, as above.")]
ScoreWeighting = Annotated[Fading, Choice("How a neighbor counts less the older the latest shared event is, as above.")]
LengthScaling = Annotated[
    float, Number("The power of a neighbor's number of events by which its similarity is divided.", least=0, most=1)
]
IdfWeight = Annotated[float, Number("How much more rare items count.", least=0, most=100)]


@declare
class VSKNN(Recommender):
    """V-SKNN: nearest neighbors by weighted sessions, here whole histories (Ludewig and Jannach 2018).

    A user is the more similar to a history the more of its items they had, and the newer these are in it; v are the
    users, events(v) theirs, a = 1, 2, ... the places in the history of L events, 1 the newest:

        similarity(v) = sum over shared items of w(a) / events(v)^length_scaling
        score(j) = (1 + idf_weight * log(n_users/n_j)) * sum over near users v with item j of similarity(v) * w'(b)

    b is the place of the newest shared item, n_j the number of users with item j. `weighting` gives w, and
    `score_weighting` w': 1 for "same"; (L - a + 1)/L for "div", its square for "quadratic" (w': 1/b and its square);
    1 - (a - 1)/10, at least 0, for "linear"; 1/log10(a + 0.7) for "log". All users are compared, not a sample as in the
    original. A log without times, or not declared to be in order, is refused.

    Nothing is fitted. Time to recommend grows with the number of users who share an item.

    Parameters
    ----------
    neighbors
        The number of nearest users whose items count.
    weighting
        How an event of the history counts less the older it is, as above.
    score_weighting
        How a neighbor counts less the older the latest shared event is, as above.
    length_scaling
        The power of a neighbor's number of events by which its similarity is divided.
    idf_weight
        How much more rare items count.
    threads
        The number of threads; 0 for all cores.

    Attributes
    ----------
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
    >>> log = csrr.read({"user": [1, 1, 2, 2, 2], "item": ["a", "b", "c", "a", "b"]}, ordered=True)
    >>> csrr.VSKNN().fit(log).recommend_for(["c", "a"], k=1).items
    array([['b']], dtype=object)
    """

    neighbors: Neighbors = parameter(default=200, kw_only=False)
    weighting: Weighting = "quadratic"
    score_weighting: ScoreWeighting = "div"
    length_scaling: LengthScaling = 0.5
    idf_weight: IdfWeight = 0.0
    threads: Threads = 0

    search_space: ClassVar = {
        "neighbors": [50, 100, 200, 500, 1000],
        "weighting": ["same", "div", "linear", "quadratic", "log"],
        "score_weighting": ["same", "div", "linear", "quadratic", "log"],
        "length_scaling": Range(0, 1),
        "idf_weight": [0.0, 0.5, 1.0, 2.0, 5.0],
    }
    file_schema = FileSchema(())

    @property
    def uses_order(self) -> bool:
        """Whether it counts what a user had last: yes."""
        return True

    def fit(self, data: Any, y: Any = None) -> Self:
        """Keep the histories, and return the model.

        Parameters
        ----------
        data
            A log with times or in order, or a table with user, item and time columns.
        y
            Not used; required by scikit-learn.

        Returns
        -------
        model
            The model itself.

        Raises
        ------
        DataError
            If it is not known what came first.
        """
        self.check_params()
        log = self.read(data)
        list_sequences(log)  # or an error
        self.remember(log)
        return self

    def score_histories(self, seen: Any, rows: Rows) -> Float32Array:
        check_rows(rows, len(rows), seen.shape[0])
        seen = take_rows(seen, rows)
        known, by_item = self.seen_, self._compute_once("by_item", lambda: self.seen_.T.tocsr())
        n_users, n_items = known.shape
        places, lengths = seen.data, np.repeat(np.diff(seen.indptr), np.diff(seen.indptr))
        amounts = _weigh(self.weighting, places, (lengths - places + 1) / np.maximum(lengths, 1))
        steps = np.arange(1, int(places.max(initial=1)) + 1)
        step_weights = _weigh(self.score_weighting, steps, 1 / steps)
        divisors = (np.maximum(np.diff(known.indptr), 1) ** float(self.length_scaling)).astype(np.float32)
        counts = np.maximum(np.diff(by_item.indptr), 1)
        factors = (1 + self.idf_weight * np.log(n_users / counts)).astype(np.float32)
        out = np.zeros((len(rows), n_items), np.float32)
        histories = seen.indptr, seen.indices, places.astype(np.int32), amounts
        cells = (by_item.indptr, by_item.indices), (known.indptr, known.indices)
        numbers = divisors, step_weights, factors
        width = min(int(self.neighbors), n_users)

        def add(start: int, stop: int) -> None:
            work = np.zeros(n_users, np.float32), np.zeros(n_users, np.int32), np.empty(n_users, np.int32)
            nearest = np.empty(width, np.float32), np.empty(width, np.int32)
            _add_neighbors(start, stop, histories, *cells, numbers, work, nearest, out)

        with use_threads(self.threads):
            run_ranges(add, split_rows(len(rows)))
        return out


def _weigh(fading: str, places: Any, shares: Any) -> Float32Array:
    """Return the weights of places counted from the newest, 1, and of what "div" takes for them, (n,) each."""
    if fading == "linear":
        weights = np.maximum(1 - (places - 1) / 10, 0)
    elif fading == "log":
        weights = 1 / np.log10(places + 0.7)
    else:
        weights = shares ** ("same", "div", "quadratic").index(fading)
    return np.asarray(weights, np.float32)


@compile_loop(fastmath=True)
def _add_neighbors(start, stop, histories, by_item, by_user, numbers, work, nearest, out):  # type: ignore[no-untyped-def]
    # out[r] = the scores of history r. `shared` and `newest`, zeros, and `touched`, (n_users,), and `values` and
    # `chosen`, (neighbors,), are there to work in.
    (indptr, indices, places, amounts), (divisors, step_weights, factors) = histories, numbers
    (item_indptr, item_users), (user_indptr, user_items) = by_item, by_user
    (shared, newest, touched), (values, chosen) = work, nearest
    width = len(values)
    for r in range(start, stop):
        n_touched = 0
        for p in range(indptr[r], indptr[r + 1]):
            for q in range(item_indptr[indices[p]], item_indptr[indices[p] + 1]):
                v = item_users[q]
                if newest[v] == 0:
                    touched[n_touched] = v
                    n_touched += 1
                    newest[v] = places[p]
                elif places[p] < newest[v]:
                    newest[v] = places[p]
                shared[v] += amounts[p]
        size = np.int64(0)
        for at in range(n_touched):
            v = touched[at]
            value = shared[v] / divisors[v]
            if size < width:
                add_to_heap(values, chosen, size, value, v)
                size += 1
            elif is_below(values[0], chosen[0], value, v):
                replace_worst(values, chosen, width, value, v)
        scores = out[r]
        for at in range(size):
            value = values[at] * step_weights[newest[chosen[at]] - 1]
            for q in range(user_indptr[chosen[at]], user_indptr[chosen[at] + 1]):
                scores[user_items[q]] += value * factors[user_items[q]]
        for at in range(n_touched):
            shared[touched[at]], newest[touched[at]] = 0, 0
