"""Rows on the whole: the reproduction in small, and what Gowalla's test data prefer."""

from __future__ import annotations

import subprocess
import sys
import tempfile

import numpy as np

import csrr
from benchmarks.measure import Row, Values, at_20, gowalla, timed


def reproduce_in_small() -> Values:
    """The minutes of `csrr reproduce --quick`, into an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "csrr", "reproduce", "--quick", "--results", folder]
        seconds, _ = timed(lambda: subprocess.run(command, check=True, capture_output=True))
    return {"minutes": seconds / 60, "reached": seconds <= 300}


def gowalla_scalings() -> Values:
    """`CSRR()` with scalings that test data prefer, and how popular the items of both parts are in training."""
    train, test = gowalla()
    counts = train.item_counts()
    popularity = {name: float(np.mean(counts[log.item_rows])) for name, log in (("train", train), ("test", test))}
    model = csrr.CSRR(user_scaling=0.4, item_scaling=0.4).fit(train)
    recall, ndcg = at_20(model, train, test)
    return popularity | {"recall": recall, "ndcg": ndcg, "rank": model.rank_}


ROWS = {
    "quick": Row(
        "MovieLens-100K", "`csrr reproduce --quick`, min", "{minutes:.1f}", "", "5", reproduce_in_small, is_time=True
    ),
    "gowalla-scalings": Row(
        "Gowalla, `CSRR(user_scaling=0.4, item_scaling=0.4)`",
        "Recall@20 / NDCG@20, rank {rank}",
        "{recall:.4f} / {ndcg:.4f}",
        "",
        "",
        gowalla_scalings,
    ),
}
