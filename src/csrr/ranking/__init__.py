"""Ranking: score blocks -> top-k -> lists in the caller's ids; lists -> metrics."""

from csrr.ranking.cells import Measures, cell_measures
from csrr.ranking.metrics import mark_hits, mean_metrics, per_user_metrics
from csrr.ranking.recommendations import Neighbours, Recommendations
from csrr.ranking.topk import block_top_k, mask_cells, top_k

__all__ = [
    "Measures",
    "Neighbours",
    "Recommendations",
    "block_top_k",
    "cell_measures",
    "mark_hits",
    "mask_cells",
    "mean_metrics",
    "per_user_metrics",
    "top_k",
]
