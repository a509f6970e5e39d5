"""Ranking: score blocks -> top-k -> lists in the caller's ids; lists -> metrics."""

from csrr.ranking.metrics import Measures, mark_hits, measure_cells, measure_users
from csrr.ranking.topk import block_top_k, mask_cells, top_k
from csrr.results.recommendations import NeighborLists, Neighbors, Recommendations

__all__ = [
    "Measures",
    "NeighborLists",
    "Neighbors",
    "Recommendations",
    "block_top_k",
    "mark_hits",
    "mask_cells",
    "measure_cells",
    "measure_users",
    "top_k",
]
