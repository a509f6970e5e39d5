"""Cost on test data of the threshold chosen on validation data, as a ratio to that of the best one in hindsight.

The log is split 60/20/20; a missed test event costs `miss`, any other cell recommended a false alarm. Cells of the test
are either all that are not in train, where validation events count as false alarms just as test events did when the
threshold was chosen; or those in neither train nor validation, for which the threshold is that of `remaining`, train
and validation being .8 of the log, and beside it the one for cells not in train ("unadjusted"). The best in hindsight
is the one of least cost among a thousand thresholds between the test's positives.
"""

from __future__ import annotations

import argparse

import numpy as np

import csrr
from csrr.ranking import measure_cells
from csrr.ranking.text_tables import format_text_table

RATIOS = (2.0, 5.0, 20.0)
COLUMNS = ("not in train", "in neither", "unadjusted", "nothing")


def ratios(model, chosen, seen, relevant, ratio):
    """Return the cost of each threshold of `chosen` and of recommending nothing over the least cost, shape (n + 1,)."""
    cells = model.score_rows, np.arange(seen.shape[0]), seen.shape[1], relevant, seen
    tried = [*chosen, np.inf, *csrr.Calibration.of(*cells).edges.tolist()]
    cost = measure_cells(*cells, tried, positive_cost=ratio / (1 + ratio)).cost
    return (cost[: len(chosen) + 1] / cost.min()).tolist()


def lines(model, train, valid, test):
    """Return, for each ratio of costs, a line of the table."""
    shown, relevant = train.to_csr(), test.to_csr()
    plain, part = model.calibrate(valid), model.calibrate(valid, observed_share=0.8)
    for ratio in RATIOS:
        bounds = [each.threshold(ratio, 1.0) for each in (part.remaining(), plain)]
        within, _ = ratios(model, bounds[1:], shown, relevant, ratio)
        yield [ratio, within, *ratios(model, bounds, (shown + valid.to_csr()).tocsr(), relevant, ratio)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="ml-100k", help="a data set by name, or a file")
    parser.add_argument("--min-rating", type=float, default=3)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--model", default="CSRR", help="a class of csrr")
    args = parser.parse_args()
    source = csrr.locate(args.data) if args.data in csrr.DATASETS else args.data
    log = csrr.read(source, min_rating=args.min_rating)
    found = []
    for seed in range(args.seeds):
        train, rest = csrr.split(log, ratio=0.6, seed=seed)
        valid, test = csrr.split(rest, ratio=0.5, seed=seed)
        model = getattr(csrr, args.model)().fit(train)
        found += [[seed, *line] for line in lines(model, train, valid, test)]
    worst = ["worst", "", *np.max(found, axis=0)[2:].tolist()]
    print(format_text_table(["seed", "miss:false alarm", *COLUMNS], [*found, worst]))


if __name__ == "__main__":
    main()
