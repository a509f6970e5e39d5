"""The items or users that are most like one, by factors or by weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from csrr.arrays import Float32Array
from csrr.data.ids import Id
from csrr.models.best_lists import check_k
from csrr.ranking import Neighbors, block_top_k
from csrr.ranking.item_order import ItemOrder
from csrr.ranking.topk import Top

if TYPE_CHECKING:
    from csrr.models.recommender import Recommender


def rank_neighbors(model: Recommender, item: Id, weights: npt.NDArray[Any], k: int) -> Neighbors:
    """Return the `k` items with the largest weights, shape (n_items,), or as many as have one: zero is none."""
    weights = np.where(weights == 0, -np.inf, weights)
    rows, scores = block_top_k(weights[None], min(check_k(k), len(weights)), model.item_order)
    found = rows[0] >= 0
    return model.name_neighbors(item, rows[0][found], scores[0][found])


def find_most_alike(factors: Float32Array, row: int, k: int, order: ItemOrder | None = None) -> Top:
    """Return the rows and cosines, shape (k,), of the nearest others; the cosine with a zero row is 0.

    Equal ones go by `order`, or by row.
    """
    norms = np.linalg.norm(factors, axis=1) * np.linalg.norm(factors[row])
    cosines = np.divide(factors @ factors[row], norms, out=np.zeros(len(factors), np.float32), where=norms > 0)
    cosines[row] = -np.inf
    rows, scores = block_top_k(cosines[None], min(check_k(k), len(factors) - 1), order)
    return rows[0], scores[0]
