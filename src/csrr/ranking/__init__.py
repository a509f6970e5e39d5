"""Ranking: score blocks -> top-k -> lists in the caller's ids; lists -> metrics."""

from csrr.ranking.cells import Measures, measure_cells
from csrr.ranking.metrics import average_metrics, mark_hits, measure_users
from csrr.ranking.recommendations import NeighborLists, Neighbors, Recommendations
from csrr.ranking.score_blocks import mask_cells
from csrr.ranking.topk import block_top_k, top_k

__all__ = [
    "Measures",
    "NeighborLists",
    "Neighbors",
    "Recommendations",
    "average_metrics",
    "block_top_k",
    "mark_hits",
    "mask_cells",
    "measure_cells",
    "measure_users",
    "top_k",
]
