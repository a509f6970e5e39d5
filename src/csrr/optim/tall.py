"""Products of tall thin matrices, in ranges of rows on our own threads.

The ranges depend on the shape alone and are added up in order, so that results have the same bits whatever the
number of threads; and no BLAS thread is waited for that the system has put aside for another program.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from csrr.threads import run_ranges

Floats = NDArray[np.floating[Any]]

_MOST_RANGES, _LEAST_ROWS = 16, 1024


def cut_rows(rows: int) -> list[int]:
    """Row numbers that cut `rows` rows into ranges; they depend on nothing else."""
    ranges = int(np.clip(rows // _LEAST_ROWS, 1, _MOST_RANGES))
    return [rows * i // ranges for i in range(ranges + 1)]


def times(x: Floats, small: Floats) -> Floats:
    """x @ small, (n, c)."""
    out = np.empty((len(x), small.shape[1]), np.result_type(x, small))
    run_ranges(lambda a, b: np.matmul(x[a:b], small, out=out[a:b]), cut_rows(len(x)))
    return out


def cross(x: Floats, y: Floats) -> NDArray[np.float64]:
    """x.T @ y, (k, c), the ranges added up in float64."""
    bounds = cut_rows(len(x))
    parts: dict[int, Floats] = {}
    run_ranges(lambda a, b: parts.__setitem__(a, x[a:b].T @ y[a:b]), bounds)
    total = np.zeros((x.shape[1], y.shape[1]))
    for start in sorted(parts):
        total += parts[start]
    return total


def gram(x: Floats) -> NDArray[np.float64]:
    """x.T @ x, (k, k)."""
    return cross(x, x)
