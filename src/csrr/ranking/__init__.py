"""Ranking: score blocks -> top-k -> lists in the caller's ids; lists -> metrics."""

from csrr.ranking.cells import Measures, measure_cells
from csrr.ranking.metrics import mark_hits, mean_metrics, per_user_metrics
from csrr.ranking.recommendations import Neighbours, Recommendations
from csrr.ranking.score_blocks import mask_cells
from csrr.ranking.topk import block_top_k, top_k

__all__ = [
    "Measures",
    "Neighbours",
    "Recommendations",
    "block_top_k",
    "mark_hits",
    "mask_cells",
    "mean_metrics",
    "measure_cells",
    "per_user_metrics",
    "top_k",
]
