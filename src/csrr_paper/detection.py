"""Detection of planted events by the scores of a model that was fitted to the noisy log."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from csrr._base.arrays import FloatArray
from csrr.data.errors import DataError
from csrr.data.log import Log
from csrr.models.base import Recommender
from csrr.models.csrr import CSRR
from csrr.models.recommend import rank_items

RELATIVE, ABSOLUTE = "V: relative residual", "absolute residual"
MANY, RARE = "rule: many clicks", "rule: rare item"
SUSPECTS = "suspects()"


def score_by_detector(model: CSRR, log: Log) -> dict[str, FloatArray]:
    """Return the scores of the events of the log that `model` was fitted to, by each way to find planted events.

    Every array has shape (n_events,); larger is more suspicious. In the units of `model`, a click is 1 and its score
    what the common taste explains of it, so 1 - score is what V may take up; times the click's target it is the
    residual of the objective. The rules look at the log alone.
    """
    users, items = log.user_counts()[log.user_rows], log.item_counts()[log.item_rows]
    relative = 1 - model.score_pairs(log.user_rows, log.item_rows)
    target = users.astype(np.float64) ** -model.user_scaling * items.astype(np.float64) ** -model.item_scaling
    return {
        RELATIVE: relative,
        ABSOLUTE: relative * target,
        MANY: users.astype(np.float64),
        RARE: -items.astype(np.float64),
        SUSPECTS: model.suspects().scores,
    }


def auc(scores: npt.ArrayLike, planted: npt.NDArray[np.bool_]) -> float:
    """Return the AUC of scores, (n_events,): how often a planted event has a larger one than a genuine event."""
    from scipy.stats import rankdata

    n_planted = int(planted.sum())
    n_genuine = len(planted) - n_planted
    if not n_planted or not n_genuine:
        raise DataError("an AUC needs planted events and genuine ones")
    above = rankdata(np.asarray(scores))[planted].sum() - n_planted * (n_planted + 1) / 2
    return float(above / (n_planted * n_genuine))


def measure_target_hits(model: Recommender, log: Log, targets: npt.NDArray[np.int64], k: int = 10) -> float:
    """Return the share of the users of `log` with an item row of `targets`, shape (n,), among their `k` best.

    Only users who have none of them yet are asked.
    """
    have = np.unique(log.user_rows[np.isin(log.item_rows, targets)])
    others = np.setdiff1d(np.unique(log.user_rows), have)
    rows = model.users_.rows(log.users.ids[others])
    best, _ = rank_items(model, rows, k, seen=model.seen_)
    return float(np.isin(best, targets).any(axis=1).mean())
