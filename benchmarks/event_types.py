"""Views and purchases: do weights by event type, and choosing by purchases, help? `python -m benchmarks.event_types`.

Planted tastes, views by taste and by chance, and purchases, each after a view of the same item: within half an hour, or
up to ten days later. The later fifth of the purchases is asked for. "all" has every item that was not bought among the
candidates, "new" only items that the user has nothing with.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import csrr
from benchmarks.keep import RESULTS, describe_origin, keep_result

DAY = 86_400
SEEDS = range(3)
MODELS = {
    "CSRR()": lambda **params: csrr.CSRR(**params),
    "CSRR(neighbors=0)": lambda **params: csrr.CSRR(neighbors=0, **params),
    "WRMF(rank=32)": lambda **params: csrr.WRMF(32, **params),
}


def make_shop(seed: int, n_users: int = 1200, n_items: int = 300, views: int = 25) -> dict[str, Any]:
    """Return the columns of a log: the more an item is to a user's taste, the likelier a view becomes a purchase."""
    data = csrr.synthetic(n_users, n_items, rank=6, events_per_user=views, noise=0.3, seed=seed)
    log, draw, n = data.log, np.random.default_rng(seed), len(data.log)
    users, items = data.taste
    taste = (users @ items.T)[log.user_rows, log.item_rows] / items.sum(axis=1)[log.item_rows]
    bought = draw.random(n) < np.where(data.truth == 0, 0.26 * taste, 0)
    again = draw.random(n) < 0.3
    time, n_bought = draw.integers(0, 100 * DAY, n), int(bought.sum())
    gap = np.where(draw.random(n_bought) < 0.5, 1800, draw.integers(600, 10 * DAY, n_bought))
    rows = np.concatenate([np.arange(n), np.flatnonzero(again), np.flatnonzero(bought)])
    return {
        "user": log.user_rows[rows],
        "item": log.item_rows[rows],
        "type": ["view"] * (n + int(again.sum())) + ["buy"] * n_bought,
        "time": 1_700_000_000
        + np.concatenate([time, time[again] + draw.integers(0, 3 * DAY, int(again.sum())), time[bought] + gap]),
    }


def main() -> None:
    """Keep the mean NDCG@10 of purchases over the seeds, for each model and way to fit it."""
    found: dict[tuple[str, str], list[list[float]]] = {}
    for seed in SEEDS:
        for weight in (3, 10):
            log = csrr.read(make_shop(seed), event="type", weights={"view": 1, "buy": weight}, target="buy")
            train, test = csrr.split(log, time_quantile=0.8)
            assert train.types is not None
            any_type = replace(train, types=replace(train.types, target=None))
            ways: dict[str, tuple[csrr.Log, dict[str, Any]]] = {f"purchases weigh {weight}": (train, {})}
            if weight == 3:
                ways["every pair alike"] = replace(train, types=None, weights=None), {}
                ways["chosen by purchases, weights ignored"] = train, {"event_weights": "ignore"}
            for name, make in MODELS.items():
                for way, (part, params) in ways.items():
                    model = make(threads=1, **params).fit(part)
                    scores = [
                        csrr.evaluate(model, each, test, at=10, metrics=["ndcg"])["ndcg@10"]
                        for each in (train, any_type)
                    ]
                    found.setdefault((name, way), []).append(scores)
    for (name, way), scores in found.items():
        every, new = np.mean(scores, axis=0).tolist()
        print(f"{name}, {way}: all {every:.4f}, new {new:.4f}")
        result = {"all": every, "new": new} | describe_origin("python -m benchmarks.event_types")
        keep_result(RESULTS / "event_types.json", f"{name}/{way}", result)


if __name__ == "__main__":
    main()
