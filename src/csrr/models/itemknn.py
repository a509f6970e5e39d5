"""ItemKNN: the score of an item comes from its nearest items among those of the user."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from scipy import sparse

from csrr._base.arrays import Float64Array
from csrr._base.threads import use_threads
from csrr.data.log import Log
from csrr.model_parameters import Range, Threads
from csrr.models.foldin import FoldedItems, make_scorer
from csrr.models.item_weights import ItemWeightsModel
from csrr.models.schema import FileSchema, SparseArray
from csrr.numerics.neighbors import CellIndex, Likeness, find_nearest_items, list_nearest, make_weights
from csrr.parameters import Choice, Number, Whole, declare, parameter
from csrr.ranking.topk import choose_block_rows

Nearest = Annotated[int, Whole("The number of nearest items whose similarities count.", least=1)]
Similarity = Annotated[
    Literal["cosine", "asymmetric", "jaccard", "dot"],
    Choice("The similarity of two items, as above."),
]
Weighting = Annotated[
    Literal["none", "degree", "tf-idf", "bm25"],
    Choice("The weight of a click, as above."),
]
Shrink = Annotated[float, Number("Added to the denominator, in clicks.", least=0)]
Asymmetry = Annotated[
    float,
    Number('The power of the item in the history, in "asymmetric".', least=0, most=1),
]
BM25K1 = Annotated[float, Number('How much "bm25" damps popular items.', least=0)]
BM25B = Annotated[float, Number('How much that depends on the number of clicks, in "bm25".', least=0, most=1)]


@declare
class ItemKNN(ItemWeightsModel):
    """Item-based nearest neighbors: an item's score is the sum of its similarities to the user's items.

    Only the `neighbors` nearest items of each item count. With y_i the column of item i of the weighted clicks Y,
    users x items, the similarity of i (in the history) to j (scored) is

        "cosine"      y_i.y_j / (|y_i| * |y_j| + shrink)
        "asymmetric"  y_i.y_j / (|y_i|^(2*asymmetry) * |y_j|^(2*(1-asymmetry)) + shrink)
        "jaccard"     y_i.y_j / (|y_i|^2 + |y_j|^2 - y_i.y_j + shrink)
        "dot"         y_i.y_j / (1 + shrink)

    Y is the clicks X, each times a weight of its user: 1 for `weighting` "none", clicks_u^-1/2 for "degree" (users with
    many items count less), idf_u = log((n_items + 1) / (clicks_u + 1)) for "tf-idf" and "bm25"; the weights are scaled
    to a mean square of 1 over the clicks. "bm25" also multiplies by
    (bm25_k1 + 1) / (bm25_k1*(1 - bm25_b + bm25_b*l_i) + 1), l_i the clicks on i over their mean, which does not change
    a cosine without shrink. Equally similar items (in float32) are ordered by row. The result is the same, bit for bit,
    for any number of threads.

    Time grows with the sum over users of their squared number of clicks, memory with neighbors*n_items.

    Parameters
    ----------
    neighbors
        The number of nearest items whose similarities count.
    similarity
        The similarity of two items, as above.
    weighting
        The weight of a click, as above.
    shrink
        Added to the denominator, in clicks.
    asymmetry
        The power of the item in the history, in "asymmetric".
    bm25_k1
        How much "bm25" damps popular items.
    bm25_b
        How much that depends on the number of clicks, in "bm25".
    threads
        The number of threads; 0 for all cores.

    Attributes
    ----------
    weights_
        What item i in a history adds to the score of item j, csr float32 of shape (n_items, n_items): at most
        `neighbors` entries a column, all positive, none on the diagonal.
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
    >>> model = csrr.ItemKNN(neighbors=5).fit(csrr.synthetic(60, 40, events_per_user=10).log)
    >>> model.weights_.shape
    (40, 40)
    >>> len(model.similar_items(7, k=3))
    3
    """

    neighbors: Nearest = parameter(default=200, kw_only=False)
    similarity: Similarity = "asymmetric"
    weighting: Weighting = "degree"
    shrink: Shrink = 10.0
    asymmetry: Asymmetry = 0.6
    bm25_k1: BM25K1 = 1.2
    bm25_b: BM25B = 0.75
    threads: Threads = 0

    search_space: ClassVar = {
        "neighbors": [50, 100, 200, 400],
        "similarity": ["cosine", "asymmetric", "jaccard"],
        "weighting": ["none", "degree", "tf-idf", "bm25"],
        "shrink": Range(0.1, 100, log=True),
        "asymmetry": Range(0.3, 0.8),
    }
    file_schema = FileSchema((SparseArray.of("weights", ("items", "items")),))

    def fit(self, data: Any, y: Any = None) -> Self:
        """Find the neighbors of each item, and return the model.

        Parameters
        ----------
        data
            A log, a table with user and item columns, or a users x items matrix.
        y
            Not used; required by scikit-learn.

        Returns
        -------
        model
            The model itself.

        Raises
        ------
        ParameterError
            For parameters that make no sense.
        """
        self.check_params()
        log = self.read(data)
        with use_threads(self.threads):
            weights = self._compute_weights(log.to_csr())
        self.remember(log)
        self.weights_ = weights
        return self

    def _weigh_clicks(self, clicks: Any) -> tuple[Float64Array, Float64Array]:
        """Return the factors of Y, y_ui = user_u * item_i * x_ui: shapes (n_users,) and (n_items,)."""
        n_users, n_items = clicks.shape
        user, item = np.ones(n_users), np.ones(n_items)
        lengths = np.diff(clicks.indptr)
        if self.weighting == "degree":
            user = 1 / np.sqrt(np.maximum(lengths, 1))
        elif self.weighting != "none":
            user = np.log((n_items + 1) / (lengths + 1))
        if self.weighting == "bm25":
            counts = np.bincount(clicks.indices, minlength=n_items)
            length = counts / counts.mean()
            item = (self.bm25_k1 + 1) / (self.bm25_k1 * (1 - self.bm25_b + self.bm25_b * length) + 1)
        mean_square = float(user**2 @ lengths) / clicks.nnz
        return user / np.sqrt(mean_square) if mean_square > 0 else user, item

    def _make_likeness(self, user: Float64Array, item: Float64Array, by_item: Any) -> Likeness:
        """The similarity, given the squares of the users' weights, (n_users,), the items', and the clicks by item."""
        squares = item**2 * (by_item @ user)
        powers = {"cosine": (0.5, 0.5), "asymmetric": (float(self.asymmetry), 1 - float(self.asymmetry))}
        powers |= {"jaccard": (1.0, 1.0), "dot": (0.0, 0.0)}
        had, scored = (squares**power for power in powers[self.similarity])
        return Likeness(user, item, had, scored, float(self.shrink), self.similarity == "jaccard")

    def fold_items(self, log: Log, chosen: Any) -> FoldedItems:
        clicks, n_items = self.seen_, len(self.items_)
        with use_threads(self.threads):
            both = sparse.hstack([clicks, chosen.T], format="csr")
            # The weights of users depend on their known clicks only: similarities of known items do not change.
            (user, _), (_, item) = self._weigh_clicks(clicks), self._weigh_clicks(both)
            likeness = self._make_likeness(user**2, item, both.T.tocsr())
            values, items, found = list_nearest(clicks, chosen, likeness, int(self.neighbors))
        kept = [slice(n) for n in found]
        weights = make_weights(
            [row[n] for row, n in zip(items, kept, strict=True)],
            [row[n].astype(np.float64) for row, n in zip(values, kept, strict=True)],
            n_items,
        )
        ones = np.ones(len(self.users_), np.float32)
        return FoldedItems.of(self, log, chosen, make_scorer(self, None, weights, ones), weights=weights)

    def _compute_weights(self, clicks: Any) -> Any:
        """Return `weights_` for clicks, csr of shape (n_users, n_items)."""
        (user, item), by_item = self._weigh_clicks(clicks), clicks.T.tocsr()
        likeness = self._make_likeness(user**2, item, by_item)
        n_items = by_item.shape[0]
        width = min(int(self.neighbors), n_items)
        size = choose_block_rows(width)
        cells, columns = CellIndex.of(clicks, by_item), []
        for first in range(0, n_items, size):
            values, items, found = find_nearest_items(cells, likeness, width, first, min(first + size, n_items))
            # The working arrays are as wide as `width`; only as many entries are kept as there are neighbors.
            kept = np.arange(width) < found[:, None]
            columns.append((values[kept], items[kept], found))
        values, items, found = (np.concatenate(each) for each in zip(*columns, strict=True))
        starts = np.concatenate(([0], np.cumsum(found)))
        return sparse.csc_array((values, items, starts), shape=(n_items, n_items)).tocsr()
