"""The time of a fit with costs of its own for every click, beside that of one without.

    python -m benchmarks.bench_weights

MovieLens-1M with log-normal weights (it has no counts), and Last.fm (HetRec 2011) with its play counts; the fits take
turns, the first round is not counted, and the ratio is that of the medians.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

import csrr
from csrr.ranking.tables import text_table

ROUNDS = 5


def ratios(name: str, log: csrr.Log) -> list[object]:
    """A line of the table: seconds without and with weights, their ratio, and what the fits came to."""
    models = {weights: csrr.CSRR(event_weights=weights) for weights in ("ignore", "log")}
    times: dict[str, list[float]] = {weights: [] for weights in models}
    for _ in range(ROUNDS + 1):
        for weights, model in models.items():
            began = time.perf_counter()
            model.fit(log)
            times[weights].append(time.perf_counter() - began)
    plain, weighted = (float(np.median(times[weights][1:])) for weights in models)
    facts = [f"{m.certificate_.iterations} / {m.rank_} / {m.certificate_.gap:.4f}" for m in models.values()]
    return [name, plain, weighted, f"{weighted / plain:.2f}", *facts]


def main() -> None:
    """Print the table."""
    train, _ = csrr.split(csrr.read(csrr.locate("ml-1m"), min_rating=3), ratio=0.8, seed=0)
    rng = np.random.default_rng(0)
    lines = []
    for sigma in (0.5, 1.0, 1.5):
        weights = (5 * rng.lognormal(0, sigma, len(train))).astype(np.float32)
        lines.append(ratios(f"MovieLens-1M, sigma {sigma:g}", replace(train, weights=weights)))
    lines.append(ratios("Last.fm, play counts", csrr.read(csrr.locate("lastfm"))))
    shown = "iterations / rank / gap"
    print(text_table(["data", "plain, s", "weighted, s", "ratio", f"plain: {shown}", f"weighted: {shown}"], lines))


if __name__ == "__main__":
    main()
