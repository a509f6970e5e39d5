"""Lists and what was held out -> one value a user and metric.

`hits`, shape (b, k), says which places of the lists hold a relevant item; `n_relevant`, shape (b,), how many
relevant items each user has. Every metric is a float64 array of shape (b,), NaN for a user without relevant
items: such a user is in no mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from csrr.ranking.kernels import hit_rows
from csrr.ranking.topk import Rows, check_rows, row_bounds
from csrr.threads import run_ranges

Hits = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]
PerUser = npt.NDArray[np.float64]


def mark_hits(items: npt.NDArray[np.int32], relevant: Any, rows: Rows) -> Hits:
    """Return which of `items`, shape (b, k), CSR row `rows[i]` of `relevant` stores, its indices sorted."""
    check_rows(rows, len(items), relevant.shape[0])
    hits = np.empty(items.shape, np.bool_)
    indptr, indices = relevant.indptr, relevant.indices
    run_ranges(lambda a, b: hit_rows(a, b, items, indptr, indices, rows, hits), row_bounds(len(items)))
    return hits


def precision(hits: Hits, n_relevant: Counts) -> PerUser:
    """Return hits / k, also where a list or the relevant items are fewer than k."""
    return _defined(hits.sum(axis=1) / hits.shape[1], n_relevant)


def recall(hits: Hits, n_relevant: Counts) -> PerUser:
    """Return hits / relevant items."""
    return _defined(hits.sum(axis=1) / np.maximum(n_relevant, 1), n_relevant)


def f1(hits: Hits, n_relevant: Counts) -> PerUser:
    """Return the harmonic mean of each user's precision and recall: 2 hits / (k + relevant items)."""
    return _defined(2 * hits.sum(axis=1) / (hits.shape[1] + n_relevant), n_relevant)


def ndcg(hits: Hits, n_relevant: Counts) -> PerUser:
    """Return DCG / ideal DCG: a hit at rank r gains 1 / log2(1 + r), the ideal has min(k, relevant) hits."""
    return _normalised_dcg(hits, np.minimum(n_relevant, hits.shape[1]), n_relevant)


def list_ndcg(hits: Hits, n_relevant: Counts) -> PerUser:
    """Return DCG / DCG of the same hits moved to the front, 0 without hits: only the order counts.

    This is not the usual NDCG: finding fewer of the relevant items costs nothing.
    """
    return _normalised_dcg(hits, hits.sum(axis=1), n_relevant)


METRICS: dict[str, Callable[[Hits, Counts], PerUser]] = {
    "precision": precision,
    "recall": recall,
    "f1": f1,
    "ndcg": ndcg,
    "list_ndcg": list_ndcg,
}
STANDARD = ("precision", "recall", "f1", "ndcg")


def per_user_metrics(
    hits: Hits, n_relevant: Counts, at: Sequence[int], metrics: Sequence[str] = STANDARD
) -> dict[str, PerUser]:
    """Return every metric at every k of `at`, none above the lists' length, under names like "ndcg@10"."""
    return {f"{name}@{k}": METRICS[name](hits[:, :k], n_relevant) for name in metrics for k in at}


def mean_metrics(per_user: dict[str, PerUser]) -> dict[str, float]:
    """Return the mean over users of each metric and, from precision and recall, "f1_of_means@k".

    That is the harmonic mean of mean precision and mean recall, and differs from "f1@k", the mean of F1.
    """
    means = {name: float(np.nanmean(values)) for name, values in per_user.items()}
    for name in per_user:
        metric, k = name.split("@")
        if metric == "precision" and f"recall@{k}" in means:
            p, r = means[name], means[f"recall@{k}"]
            means[f"f1_of_means@{k}"] = 2 * p * r / (p + r) if p + r else 0.0
    return means


def _normalised_dcg(hits: Hits, n_ideal: Counts, n_relevant: Counts) -> PerUser:
    """Return DCG / DCG of `n_ideal`, shape (b,), hits at the front; 0 where that is none."""
    gains = 1 / np.log2(np.arange(2, hits.shape[1] + 2))
    ideal = np.concatenate(([1.0], np.cumsum(gains)))
    return _defined(hits @ gains / ideal[n_ideal], n_relevant)


def _defined(values: PerUser, n_relevant: Counts) -> PerUser:
    return np.where(n_relevant > 0, values, np.nan)
