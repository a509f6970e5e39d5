"""Weights from known items to new ones: for each new item the ridge system of `neighbors`, what is known held fixed."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from csrr.arrays import AnyArray, Float64Array, FloatArray
from csrr.optim.nearest import Likeness, find_nearest_items
from csrr.optim.neighbors import Ridge, SingularError


def list_nearest(clicks: Any, chosen: Any, likeness: Likeness, k: int) -> tuple[AnyArray, AnyArray, AnyArray]:
    """The known items most like each new one, best first, as `find_nearest_items` has it: likenesses, items, counts.

    `clicks` is csr, (n, m); `chosen`, csr of (new, n), is who chose the new items. `likeness` is of all items, the new
    ones last.
    """
    by_item = sparse.vstack([clicks.T.tocsr(), chosen], format="csr")
    m = clicks.shape[1]
    return find_nearest_items(clicks, by_item, likeness, min(k, m), m, m + chosen.shape[0])


def find_nearest_known(clicks: Any, chosen: Any, k: int) -> list[AnyArray]:
    """The rows of the k known items nearest to each new one by the cosine of their columns, an array each.

    `clicks` is csr, (n, m), `chosen` csr, (new, n).
    """
    counts = np.concatenate([np.bincount(clicks.indices, minlength=clicks.shape[1]), np.diff(chosen.indptr)])
    sizes = np.sqrt(np.maximum(counts, 1))
    likeness = Likeness(np.ones(clicks.shape[0]), np.ones(len(sizes)), sizes, sizes)
    _, items, found = list_nearest(clicks, chosen, likeness, k)
    return [row[:n] for row, n in zip(items, found, strict=True)]


def weigh_neighbors(
    x: Any, targets: Any, users: FloatArray, items: FloatArray, support: list[AnyArray], ridge: Ridge
) -> list[Float64Array]:
    """The weights of the known items in `support` for each new one, an array each:

        minimize  rho/2*||s_j||^2 + 1/2*||t_j - U_j - X*s_j||^2

    over s_j on its support. `x` is X by item, csr of (m, n); `targets`, csr of (new, n), is t; U_j = users @ items_j.
    """
    from scipy import linalg

    found = []
    for j, rows in enumerate(support):
        mine = x[rows].astype(np.float64)
        gram = (mine @ mine.T).toarray()
        gram[np.diag_indices_from(gram)] += ridge.rho
        left_over = targets[[j]].toarray()[0].astype(np.float64) - users @ items[j]
        try:
            found.append(linalg.solve(gram, mine @ left_over, assume_a="pos"))
        except linalg.LinAlgError:
            raise SingularError(f"the neighbors of new item {j} are linearly dependent") from None
    return found


def make_weights(support: list[AnyArray], weights: list[Float64Array], n_items: int) -> Any:
    """The csr array, (n_items, new), float32, with the weights of each new item on its support."""
    starts = np.concatenate(([0], np.cumsum([len(rows) for rows in support])))
    values, rows = np.concatenate([*weights, []]), np.concatenate([*support, []]).astype(np.int32)
    matrix = sparse.csc_array((values.astype(np.float32), rows, starts), shape=(n_items, len(support))).tocsr()
    matrix.eliminate_zeros()
    return matrix
