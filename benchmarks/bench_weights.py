"""The time of a fit with costs of its own for every click, beside that of one without.

    python -m benchmarks.bench_weights

MovieLens-1M with log-normal weights (it has no counts), and Last.fm (HetRec 2011) with its play counts; the fits take
turns, the first round is not counted, and the ratio is that of the medians.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

import csrr
from csrr.ranking.text_tables import format_text_table

ROUNDS = 3


def ratios(name: str, log: csrr.Log, weights: Any = "ignore", **costs: Any) -> list[object]:
    """A line of the table: seconds without and with weights or costs, their ratio, and what the fits came to."""
    low_rank: dict[str, Any] = {"reg_low_rank": "noise", "neighbors": 0}
    models = {csrr.CSRR(**low_rank): {}, csrr.CSRR(**low_rank, event_weights=weights): costs}
    times: dict[csrr.CSRR, list[float]] = {model: [] for model in models}
    for _ in range(ROUNDS + 1):
        for model, own in models.items():
            began = time.perf_counter()
            model.fit(log, **own)
            times[model].append(time.perf_counter() - began)
    plain, weighted = (float(np.median(each[1:])) for each in times.values())
    facts = [f"{m.certificate_.iterations} / {m.rank_} / {m.certificate_.gap:.4f}" for m in models]
    return [name, plain, weighted, f"{weighted / plain:.2f}", *facts]


def main() -> None:
    """Print the table."""
    train, _ = csrr.split(csrr.read(csrr.locate("ml-1m"), min_rating=3), ratio=0.8, seed=0)
    rng = np.random.default_rng(0)
    lines = [ratios("Last.fm, play counts, log", csrr.read(csrr.locate("lastfm")), "log")]
    for sigma, kind in ((0.5, "log"), (1.0, "log"), (1.5, "log"), (0.5, "linear")):
        weights = (5 * rng.lognormal(0, sigma, len(train))).astype(np.float32)
        lines.append(ratios(f"MovieLens-1M, sigma {sigma:g}, {kind}", replace(train, weights=weights), kind))
    some = dict.fromkeys(train.users.ids[::10].tolist(), 3.0)
    lines.append(ratios("MovieLens-1M, every tenth user x 3", train, user_costs=some))
    lines.append(ratios("MovieLens-1M, one user x 10", train, user_costs={train.users.ids[5].item(): 10.0}))
    shown = "iterations / rank / gap"
    print(
        format_text_table(["data", "plain, s", "weighted, s", "ratio", f"plain: {shown}", f"weighted: {shown}"], lines)
    )


if __name__ == "__main__":
    main()
