"""MarkovChain: the score of an item is how often it came after what the user had last."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

import numpy as np

from csrr._base.arrays import Float32Array, Rows
from csrr._base.threads import use_threads
from csrr.model_parameters import Range, Threads
from csrr.models.base import mark_nothing
from csrr.models.item_weights import ItemWeightsModel
from csrr.models.order import list_sequences
from csrr.models.schema import FileSchema, SparseArray
from csrr.models.scorer import Scorer
from csrr.numerics.transitions import NextItems
from csrr.parameters import Number, Whole, declare, parameter

_LEAST = 1e-9
"""A decay so small that only the last event counts."""

Decay = Annotated[
    float,
    Number("The factor by which an event counts less for each later one; 0: only the last counts.", least=0, most=0.99),
]
Predecessors = Annotated[int, Whole("The number of items whose transitions to an item are kept.", least=1)]
Division = Annotated[
    float, Number("The power of an item's number of events by which transitions from it are divided.", least=0, most=1)
]


@declare
class MarkovChain(ItemWeightsModel):
    """Markov chain: an item's score is the number of its transitions from the user's latest items.

    With decay = 0 these are the transitions from one event to the next, C_ij, and scores are those of the last item:
    a Markov chain of first order. Else both fade: C_ij is the sum of decay^(events between) over all events of j that
    come after one of i, and

        score(j) = sum over events s of the history of decay^(later events) * C_ij / n_i^item_scaling,   i = item of s

    n_i the number of events of i. Of each j only the `neighbors` items i with the largest C_ij, divided by the root of
    the faded events of i, are kept. A log without times, or not declared to be in order, is refused.

    Time and memory grow with the number of events times how many are looked back at: until decay^events falls below
    a hundredth.

    Parameters
    ----------
    decay
        The factor by which an event counts less for each later one; 0: only the last counts.
    neighbors
        The number of items whose transitions to an item are kept.
    item_scaling
        The power of an item's number of events by which transitions from it are divided.
    threads
        The number of threads; 0 for all cores.

    Attributes
    ----------
    weights_
        What item i, had last, adds to the score of item j, csr float32 of shape (n_items, n_items): at most `neighbors`
        entries a column.
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
    >>> csrr.MarkovChain(decay=0).fit(log).recommend_for(["c", "a"], k=1).items
    array([['b']], dtype=object)
    """

    decay: Decay = parameter(default=0.7, kw_only=False)
    neighbors: Predecessors = 300
    item_scaling: Division = 0.25
    threads: Threads = 0

    search_space: ClassVar = {
        "decay": [0.0, 0.3, 0.5, 0.7, 0.8, 0.9],
        "neighbors": [50, 100, 300, 1000],
        "item_scaling": Range(0, 1),
    }
    file_schema = FileSchema((SparseArray.of("weights", ("items", "items")),))

    @property
    def uses_order(self) -> bool:
        """Whether it counts what a user had last: yes."""
        return True

    def fit(self, data: Any, y: Any = None) -> Self:
        """Count transitions, and return the model.

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
        decays = (max(float(self.decay), _LEAST),)
        with use_threads(self.threads):
            found = NextItems(list_sequences(log), decays, int(self.neighbors))
            divisors = np.maximum(log.item_counts(), 1) ** float(self.item_scaling)
            weights = found.by_predictor.make_matrix((found.crossed / divisors[found.support]).astype(np.float32))
        self.remember(log)
        self.weights_ = weights
        return self

    def weigh_history(self, seen: Any) -> Float32Array:
        weights: Float32Array = np.float32(max(self.decay, _LEAST)) ** (seen.data - 1)
        return weights

    def score_similar_items(self, rows: Rows) -> Float32Array:
        # What comes after them.
        return mark_nothing(self.weights_[rows].toarray())

    # What came later says nothing about a click that was there before.
    score_own = Scorer.score_own
