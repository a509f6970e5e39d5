"""Time of `csrr.evaluate` with 15 metrics at three lengths, as a ratio to scoring + masking + top-k alone."""

from __future__ import annotations

import argparse

import numpy as np

import csrr
from benchmarks.bench_topk import seconds

AT = (5, 10, 15)
METRICS = (
    *("precision", "recall", "f1", "ndcg", "list_ndcg", "map", "mrr", "hit_rate", "coverage", "novelty"),
    *("auc", "cell_recall", "specificity", "sum", "cost"),
)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="ml-1m", help="a data set by name, or a file")
    parser.add_argument("--repeats", type=int, default=15)
    args = parser.parse_args()
    source = csrr.locate(args.data) if args.data in csrr.DATASETS else args.data
    train, test = csrr.split(csrr.read(source, min_rating=3), ratio=0.8, seed=0)
    model = csrr.CSRR().fit(train)
    rows, seen = np.arange(train.n_users), train.to_csr()

    def evaluated():
        return csrr.evaluate(model, train, test, at=AT, metrics=METRICS)

    def ranked():
        return model.top_rows(rows, max(AT), seen=seen)

    evaluated(), ranked()  # the kernels are compiled
    # In turn, so that what else the machine does falls on both.
    times = [(seconds(evaluated, 1), seconds(ranked, 1)) for _ in range(args.repeats)]
    whole, bare = np.min(times, axis=0)
    print(
        f"{train.n_users:,} x {train.n_items:,}, rank {model.rank_}: {len(METRICS)} metrics at {len(AT)} lengths"
        f" {whole:.3f} s, top-{max(AT)} alone {bare:.3f} s, ratio {whole / bare:.2f}"
    )


if __name__ == "__main__":
    main()
