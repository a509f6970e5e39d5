"""The time of a fit with costs of its own for every click, beside that of one without.

MovieLens-1M with log-normal weights (it has no counts), and Last.fm (HetRec 2011) with its play counts; the fits take
turns, the first round is not counted, and the ratio is that of the medians.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import csrr
from benchmarks.measure import Row, Values, movielens_1m, timed

ROUNDS = 3
SIGMAS = (0.5, 1.0, 1.5)
WITHIN = 1.2


def divide_times(log: csrr.Log, weights: Any = "ignore", **costs: Any) -> float:
    """The time of a fit with weights or costs over that of one without."""
    low_rank: dict[str, Any] = {"reg_low_rank": "noise", "neighbors": 0}
    models = {csrr.CSRR(**low_rank): {}, csrr.CSRR(**low_rank, event_weights=weights): costs}
    times: dict[csrr.CSRR, list[float]] = {model: [] for model in models}
    for _ in range(ROUNDS + 1):
        for model, own in models.items():
            times[model].append(timed(lambda model=model, own=own: model.fit(log, **own))[0])
    plain, weighted = (float(np.median(each[1:])) for each in times.values())
    return weighted / plain


def measure_weights() -> Values:
    """Weights as confidence: Last.fm's play counts, and log-normal ones."""
    train, _ = movielens_1m()
    rng = np.random.default_rng(0)
    found = {"plays": divide_times(csrr.read("hetrec2011-lastfm-2k.zip"), "log")}
    for place, sigma in enumerate(SIGMAS):
        weights = (5 * rng.lognormal(0, sigma, len(train))).astype(np.float32)
        found[f"sigma_{place}"] = divide_times(replace(train, weights=weights), "log")
    return found | {"reached": max(found.values()) <= WITHIN}


def measure_costs() -> Values:
    """Costs of users: every tenth three times as dear, and one ten times."""
    train, _ = movielens_1m()
    some = dict.fromkeys(train.users.ids[::10].tolist(), 3.0)
    found = {"some": divide_times(train, user_costs=some)}
    found["one"] = divide_times(train, user_costs={train.users.ids[5].item(): 10.0})
    return found | {"reached": max(found.values()) <= WITHIN}


ROWS = {
    "weights": Row(
        "Last.fm, play counts; MovieLens-1M, log-normal weights, sigma .5, 1, 1.5",
        'fit with `event_weights="log"` over one without, time',
        "**{plays:.2f}x**; **{sigma_0:.2f}x**, **{sigma_1:.2f}x**, **{sigma_2:.2f}x**",
        "",
        "1.2x",
        measure_weights,
        is_time=True,
    ),
    "costs": Row(
        "MovieLens-1M, every tenth user three times as dear; one user ten times",
        "fit with these costs over one without, time",
        "**{some:.1f}x**; **{one:.1f}x**",
        "",
        "1.2x",
        measure_costs,
        is_time=True,
    ),
}
