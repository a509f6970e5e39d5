"""What of a log a fitted model has not seen, and what that says of its scores."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from csrr.arrays import Rows
from csrr.data import Log, as_log
from csrr.data.errors import DataWarning, warn_caller
from csrr.data.event_tables import is_table
from csrr.parameters import ParameterError, check_number, check_whole
from csrr.ranking.calibration import Calibration
from csrr.ranking.metrics import Metric, mark_hits, ndcg
from csrr.ranking.reliability import Reliability
from csrr.ranking.score_blocks import RowScorer

if TYPE_CHECKING:
    from csrr.models.recommender import Recommender

MOST_GROUPS = 20
SCORED_AT = 10
"""The length of the lists that `Recommender.score` measures."""
_ROWS_SPLIT = (
    "no score: scikit-learn splits the rows of a matrix, which are users, and a model cannot rank for users it was not"
    " fitted to; pass a table of events (log.to_frame()) and cv=csrr.adapters.PerUserSplit()"
)


def find_unseen_events(events: Log, model: Recommender) -> Log:
    """The events whose user and item the model knows and that are not in its training data, in its row numbers.

    Where there is a target, events of that type count on both sides.
    """
    events = events.of_target()
    rows = model.users_.find(events.users.ids)[events.user_rows]
    columns = model.items_.find(events.items.ids, "item")[events.item_rows]
    n_items = len(model.items_)
    seen = model.seen_of_target.tocoo()
    keys = np.unique((rows * n_items + columns)[(rows >= 0) & (columns >= 0)])
    left = np.setdiff1d(keys, seen.row.astype(np.int64) * n_items + seen.col)
    return Log(model.users_, model.items_, left // n_items, left % n_items)


def holds_events(data: Any) -> bool:
    """Whether data are events, and not ids: a log, a table or a matrix."""
    # Columns of pandas, polars and Arrow can be streamed like their tables.
    is_of_columns = isinstance(data, Mapping) or (is_table(data) and hasattr(data, "columns"))
    return isinstance(data, Log) or is_of_columns or _is_matrix(data)


def _is_matrix(data: Any) -> bool:
    return sparse.issparse(data) or (isinstance(data, np.ndarray) and data.ndim == 2)


def measure_heldout(model: Recommender, heldout: Any, metric: Metric = ndcg, k: int = SCORED_AT) -> float:
    """The mean of a metric of lists of length k, over users with an event that the model knows but has not seen."""
    if _is_matrix(heldout):
        if "sklearn.model_selection" in sys.modules:
            # Its searches turn the error into NaN, each with a traceback: the reason comes first.
            warn_caller(_ROWS_SPLIT, DataWarning)
        raise ParameterError(
            "a matrix of held-out events does not say which of the model's users its rows are; give a log or a table"
            " with user and item columns"
        )
    unseen = find_unseen_events(as_log(heldout), model)
    relevant, n_relevant = unseen.to_csr(), unseen.user_counts()
    rows = np.flatnonzero(n_relevant)
    if not len(rows):
        raise ParameterError(
            "there is nothing to score on: no event is of a user and an item that the model knows and is not in its"
            " training data"
        )
    items, _ = model.top_rows(rows, min(k, len(model.items_)), seen=model.seen_of_target)
    return float(np.nanmean(metric(mark_hits(items, relevant, rows), n_relevant[rows])))


def calibrate_on(heldout: Any, model: Recommender, rows: Rows, observed_share: float, n_groups: int) -> Calibration:
    """The calibration of a model on the unseen cells of the user rows `rows`; see `Recommender.calibrate`."""
    check_number("observed_share", observed_share, above=0, most=1)
    check_whole("n_groups", n_groups, least=1)
    check_number("n_groups", n_groups, least=1, most=MOST_GROUPS)
    cells = _collect_cells(heldout, model, rows)
    return Calibration.of(*cells, observed_share=observed_share, n_groups=int(n_groups))


def measure_reliability_on(heldout: Any, model: Recommender, rows: Rows, observed_share: float | None) -> Reliability:
    """What a calibrated model says of the unseen cells of the user rows `rows`, against what happened."""
    calibration = model.check_calibrated()
    if observed_share is not None:
        check_number("observed_share", observed_share, above=0, most=1)
    return calibration.check(*_collect_cells(heldout, model, rows), observed_share=observed_share)


def _collect_cells(heldout: Any, model: Recommender, rows: Rows) -> tuple[RowScorer, Rows, int, Any, Any]:
    """What `Calibration` asks for: scores, rows, the number of items, and which cells are positives and which seen."""
    log, rows = as_log(heldout), np.unique(rows)
    relevant = find_unseen_events(log, model).to_csr()
    if not np.diff(relevant.indptr)[rows].any():
        raise ParameterError(
            "calibration needs positives: events that are not in the training data, of users and items that the model"
            f" knows; none of the {len(log):,} held-out events is one"
        )
    return model.score_rows, rows, len(model.items_), relevant, model.seen_of_target
