"""The cost on test data of a threshold chosen on validation data, over that of the best one in hindsight.

The log is split 60/20/20; a missed test event costs `miss`, any other cell recommended a false alarm. Cells of the test
are either all that are not in train, where validation events count as false alarms just as test events did when the
threshold was chosen; or those in neither train nor validation, for which the threshold is that of `remaining`, train
and validation being .8 of the log, and beside it the one for cells not in train ("unadjusted"). The best in hindsight
is the one of least cost among a thousand thresholds between the test's positives.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import csrr
from benchmarks.measure import Row, Values
from csrr.ranking import measure_cells

RATIOS = (2.0, 5.0, 20.0)


def measure_thresholds() -> Values:
    """The worst ratios of CSRR over five splits and three ratios of costs, and what recommending nothing costs."""
    log = csrr.read("ml-100k.zip", min_rating=3)
    found = []
    for seed in range(5):
        train, rest = csrr.split(log, ratio=0.6, seed=seed)
        valid, test = csrr.split(rest, ratio=0.5, seed=seed)
        found += list(compare_costs(csrr.CSRR().fit(train), train, valid, test))
    train_cells, neither, unadjusted, nothing = np.max(found, axis=0).tolist()
    return {
        "not_in_train": train_cells,
        "in_neither": neither,
        "unadjusted": unadjusted,
        "nothing_least": min(each[-1] for each in found),
        "nothing_most": nothing,
        "reached": max(train_cells, neither) <= 1.02,
    }


def compare_costs(model: csrr.CSRR, train: csrr.Log, valid: csrr.Log, test: csrr.Log) -> Iterator[list[float]]:
    """For each ratio of costs: cells not in train, in neither, unadjusted, and nothing recommended."""
    shown, relevant = train.to_csr(), test.to_csr()
    plain, part = model.calibrate(valid), model.calibrate(valid, observed_share=0.8)
    for ratio in RATIOS:
        bounds = [each.threshold(ratio, 1.0) for each in (part.remaining(), plain)]
        within, _ = divide_costs(model, bounds[1:], shown, relevant, ratio)
        yield [within, *divide_costs(model, bounds, (shown + valid.to_csr()).tocsr(), relevant, ratio)]


def divide_costs(model: csrr.CSRR, chosen: list[float], seen: Any, relevant: Any, ratio: float) -> list[float]:
    """The cost of each threshold of `chosen` and of recommending nothing over the least cost, shape (n + 1,)."""
    cells = model.score_rows, np.arange(seen.shape[0]), seen.shape[1], relevant, seen
    tried = [*chosen, np.inf, *csrr.Calibration.of(*cells).edges.tolist()]
    cost = measure_cells(*cells, tried, positive_cost=ratio / (1 + ratio)).cost
    return (cost[: len(chosen) + 1] / cost.min()).tolist()


ROWS = {
    "threshold": Row(
        "MovieLens-100K, 60/20/20, splits 0 to 4, miss : false alarm 2, 5, 20",
        "cost at the chosen threshold over the best in hindsight, worst case: cells not in train / in neither part",
        "{not_in_train:.4f} / {in_neither:.4f}",
        "no recommendation: {nothing_least:.2f} to {nothing_most:.2f}",
        "1.02",
        measure_thresholds,
    ),
}
