"""SLIST (Choi et al. 2021): linear weights from the items of a history to the next, dense, in closed form.

    minimize  share*||X - X B||^2 + (1 - share)*||Z - Y B||^2 + reg*||B||^2

A row of X is a whole history, of Y the events up to a point of it, of Z those after it, for every point: both fade with
their distance from the point, by exp(-distance/reach). The solution is B = (share*X'X + (1 - share)*Y'Y + reg*I)^-1
(share*X'X + (1 - share)*Y'Z). A history is scored with weights exp(-age/recency). The published method also weighs
histories by their times, which not all data have.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import lapack

import csrr
from csrr._base.arrays import Float32Array
from csrr._base.lazy_jit import compile_loop
from csrr.models.order import list_sequences
from csrr.numerics.transitions import Fading, fade_histories
from csrr.ranking.topk import RowScorer


@compile_loop(fastmath=True)
def _add_pairs(starts, items, window, powers, tails, share, left, right):  # type: ignore[no-untyped-def]
    # left += share*X'X + (1 - share)*Y'Y, right += share*X'X + (1 - share)*Y'Z, for distinct items of a history
    part = left.dtype.type(share)
    for u in range(len(starts) - 1):
        stop = starts[u + 1]
        for q in range(starts[u], stop):
            b, left_over = items[q], tails[min(stop - 1 - q, len(tails) - 1)]
            left[b, b] += part + (1 - part) * left_over
            right[b, b] += part
            for p in range(max(starts[u], q - window), q):
                a, far = items[p], q - p
                both = (1 - part) * powers[far] * left_over
                left[a, b] += both
                left[b, a] += both
                right[a, b] += (1 - part) * far * powers[far - 1]
            if part > 0:
                for p in range(starts[u], q):
                    a = items[p]
                    left[a, b] += part
                    left[b, a] += part
                    right[a, b] += part
                    right[b, a] += part


_last: list[Any] = []
"""The last fit and what it was asked for: a search tries several `recency` for the same weights."""


def fit_weights(log: csrr.Log, share: float, reach: float, reg: float) -> Float32Array:
    """Return B, (m, m)."""
    own = list_sequences(log)
    fading = Fading.of([np.exp(-1 / reach)], int(np.diff(own.starts).max(initial=1)))
    left, right = (np.zeros((own.n_items, own.n_items), np.float32) for _ in range(2))
    powers, tails = fading.powers[0].astype(np.float32), fading.tails[0, 0].astype(np.float32)
    _add_pairs(own.starts, own.items, int(fading.windows[0]), powers, tails, share, left, right)
    left[np.diag_indices_from(left)] += np.float32(reg)
    # Both orders of the symmetric matrix are the same; of `right`, LAPACK's columns are the rows of the transpose.
    factor, failed = lapack.spotrf(left.T, lower=1, overwrite_a=1, clean=0)
    assert not failed, "reg is too small"
    solved, failed = lapack.spotrs(factor, np.asfortranarray(right), lower=1, overwrite_b=1)
    assert not failed
    weights: Float32Array = np.ascontiguousarray(solved)
    return weights


def fit_slist(log: csrr.Log, params: dict[str, Any]) -> RowScorer:
    """Return the scores of SLIST with `share`, `reach`, `reg` and `recency`."""
    asked = [log, params["share"], params["reach"], params["reg"]]
    if len(_last) == 0 or _last[0] is not log or _last[1:4] != asked[1:]:
        _last.clear()  # before there are others: they are large
        _last[:] = [*asked, fit_weights(*asked)]
    weights = _last[-1]
    faded = fade_histories(log.to_csr(), log.find_ages(), [np.exp(-1 / params["recency"])])
    return lambda rows: np.asarray(faded[rows] @ weights, np.float32)
