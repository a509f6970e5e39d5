"""The cost on test data of a threshold chosen on validation data, over that of the best one in hindsight.

The log is split 60/20/20; a missed test event costs `miss`, any other cell recommended a false alarm. Cells of the test
are either all that are not in train, where validation events count as false alarms just as test events did when the
threshold was chosen; or those in neither train nor validation, for which the threshold is that of `remaining`, train
and validation being .8 of the log, and beside it the one for cells not in train ("unadjusted"). The best in hindsight
is the one of least cost among a thousand thresholds between the test's positives.

The rows `decisions-*` compare models on cells not in train, each at the threshold of its own calibration: what a user
costs with `CSRR(miss_cost=..., false_alarm_cost=1)`, with EASE and with WRMF, over what one costs with `CSRR()`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import csrr
from benchmarks.datasets import read_whole
from benchmarks.measure import Row, Values
from csrr.ranking.metrics import CellCounts, measure_cells
from csrr.ranking.topk import Cells, score_blocks

RATIOS = (2.0, 5.0, 20.0)
DECISIONS = (2.0, 5.0, 20.0, 50.0)
SETS = {
    "ml-100k": ("MovieLens-100K", 3),
    "ml-1m": ("MovieLens-1M", 1),
    "steam-5": ("Steam, 5-core", 3),
    "synthetic": ("synthetic, 3,000 x 800", 3),
}
"""What the data are called, and how many splits are measured."""
WORST = 1.003


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
    cells = Cells(model.score_rows, np.arange(seen.shape[0]), seen.shape[1], relevant, seen)
    tried = [*chosen, np.inf, *csrr.Calibration.of(cells).edges.tolist()]
    cost = measure_cells(cells, tried, positive_cost=ratio / (1 + ratio)).cost
    return (cost[: len(chosen) + 1] / cost.min()).tolist()


def compare_decisions(name: str) -> Values:
    """The cost of models over that of CSRR() at each ratio of costs: the mean of splits, and the worst split."""
    log = (
        csrr.synthetic(3000, 800, rank=10, events_per_user=30, seed=1).log if name == "synthetic" else read_whole(name)
    )
    found: dict[str, list[list[float]]] = {"ours": [], "ease": [], "wrmf": []}
    half, weights = [], []
    for seed in range(SETS[name][1]):
        train, rest = csrr.split(log, ratio=0.6, seed=seed)
        parts = train, *csrr.split(rest, ratio=0.5, seed=seed)
        plain = [pay(csrr.CSRR().fit(train), *parts, ratio) for ratio in DECISIONS]
        told = [csrr.CSRR(miss_cost=ratio, false_alarm_cost=1.0).fit(train) for ratio in DECISIONS]
        weights.append([model.costs_.weight for model in told])
        ours = [pay(model, *parts, ratio) for model, ratio in zip(told, DECISIONS, strict=True)]
        half.append(max(_half_width(mine, base) for mine, base in zip(ours, plain, strict=True)))
        found["ours"].append([mine.sum() / base.sum() for mine, base in zip(ours, plain, strict=True)])
        for kind, rival in (("ease", csrr.EASE()), ("wrmf", csrr.WRMF())):
            rival.fit(train)
            paid = [pay(rival, *parts, ratio) for ratio in DECISIONS]
            found[kind].append([mine.sum() / base.sum() for mine, base in zip(paid, plain, strict=True)])
    means = {kind: np.mean(each, axis=0) for kind, each in found.items()}
    return {
        **{kind: " / ".join(f"{value:.4f}" for value in each) for kind, each in means.items()},
        "worst": float(np.max(found["ours"])),
        "half": max(half),
        "splits": found,
        "weights": weights,
        "reached": bool(
            np.max(found["ours"]) <= WORST and all((means["ours"] < means[rival]).all() for rival in ("ease", "wrmf"))
        ),
    }


def pay(model: Any, train: csrr.Log, valid: csrr.Log, test: csrr.Log, ratio: float) -> Any:
    """What each user costs at the threshold that calibration on `valid` gives, on cells not in train, (n_users,)."""
    shown, rows = train.to_csr(), np.arange(train.n_users)
    threshold = model.calibrate(valid).threshold(ratio, 1.0)
    counts = CellCounts.empty(rows, test.to_csr(), shown, [threshold], auc=False)
    for part, scores in score_blocks(model.score_rows, rows, train.n_items, seen=shown):
        counts.add(part, scores)
    return ratio * counts.missed[:, 0] + counts.false_alarms[:, 0]


def _half_width(mine: Any, base: Any) -> float:
    """Half the 95 % interval of a cost relative to another, paired over users."""
    difference = (mine - base) / base.mean()
    return float(1.96 * difference.std(ddof=1) / np.sqrt(len(difference)))


ROWS = {
    "threshold": Row(
        "MovieLens-100K, 60/20/20, splits 0 to 4, miss : false alarm 2, 5, 20",
        "cost at the chosen threshold over the best in hindsight, worst case: cells not in train / in neither part",
        "{not_in_train:.4f} / {in_neither:.4f}",
        "no recommendation: {nothing_least:.2f} to {nothing_most:.2f}",
        "1.02",
        measure_thresholds,
    ),
} | {
    f"decisions-{name}": Row(
        f"{title}, 60/20/20, splits 0 to {splits - 1}, miss : false alarm 2 / 5 / 20 / 50"
        if splits > 1
        else f"{title}, 60/20/20, miss : false alarm 2 / 5 / 20 / 50",
        "cost of `CSRR(miss_cost=...)` at its calibrated threshold over that of `CSRR()`, mean of splits; worst split,"
        " and 95 % over users",
        "{ours}; {worst:.4f} ± {half:.4f}",
        "EASE {ease}; WRMF {wrmf}",
        "worst at most 1.003, below rivals",
        partial(compare_decisions, name),
    )
    for name, (title, splits) in SETS.items()
}
