"""The time of `csrr.evaluate` with 15 metrics at three lengths, beside scoring, masking and top-k alone."""

from __future__ import annotations

import numpy as np

import csrr
from benchmarks.measure import Row, Values, movielens_1m, timed
from csrr.models.recommend import rank_items

AT = (5, 10, 15)
METRICS = (
    *("precision", "recall", "f1", "ndcg", "list_ndcg", "map", "mrr", "hit_rate", "coverage", "novelty"),
    *("auc", "cell_recall", "specificity", "sum", "cost"),
)
REPEATS = 15


def measure_metrics() -> Values:
    """The shortest times of both, on MovieLens-1M."""
    train, test = movielens_1m()
    model = csrr.CSRR().fit(train)
    rows, seen = np.arange(train.n_users), train.to_csr()

    def evaluate() -> object:
        return csrr.evaluate(model, train, test, at=AT, metrics=METRICS)

    def rank() -> object:
        return rank_items(model, rows, max(AT), seen=seen)

    evaluate(), rank()  # the kernels are compiled
    # In turn, so that what else the machine does falls on both.
    times = [(timed(evaluate)[0], timed(rank)[0]) for _ in range(REPEATS)]
    whole, bare = np.min(times, axis=0).tolist()
    return {"whole": whole, "bare": bare, "ratio": whole / bare, "metrics": len(METRICS), "reached": whole <= 2 * bare}


ROWS = {
    "metrics": Row(
        "MovieLens-1M, all users",
        "{metrics} metrics at k = 5, 10, 15, s",
        "{whole:.3f}",
        "scoring and the best 15 alone: {bare:.3f}",
        "2x: **{ratio:.2f}x**",
        measure_metrics,
        is_time=True,
    ),
}
