"""Items as short vectors whose products say how alike they are: by who chose them, or by their categories."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from csrr.arrays import AnyArray, Float32Array

WIDTH = 256
"""The most columns of a vector: products of sketches are off by 1/16 or so."""


def normalise_rows(vectors: AnyArray) -> Float32Array:
    """Return vectors, shape (n, d), of length 1, whose products are cosines; one that is 0 stays so."""
    dense = np.asarray(vectors, np.float32)
    lengths = np.sqrt(np.einsum("nd,nd->n", dense, dense))
    return np.asarray(dense / np.where(lengths > 0, lengths, 1)[:, None], np.float32)


def sketch_rows(cells: Any, seed: int = 0) -> Float32Array:
    """Return vectors, shape (n, at most WIDTH), whose products are, or estimate, cosines of the rows of a csr array.

    More columns than WIDTH are added up in WIDTH sums with random signs (a count sketch): the products are right in the
    mean over all `seed`s, with a standard deviation of at most about 1/sqrt(WIDTH).
    """
    m = cells.shape[1]
    lengths = np.sqrt(np.asarray(cells.multiply(cells).sum(axis=1)).ravel())
    if m > WIDTH:
        rng = np.random.default_rng(seed)
        signs, sums = rng.choice(np.array([-1, 1], np.float32), m), rng.integers(0, WIDTH, m)
        cells = cells @ sparse.csr_array((signs, (np.arange(m), sums)), shape=(m, WIDTH))
    dense = cells.toarray().astype(np.float32)
    return np.asarray(dense / np.where(lengths > 0, lengths, 1)[:, None], np.float32)
