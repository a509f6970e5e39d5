"""The time of `model.update` with the last 5 % of the events beside that of a full fit, and what either ranks.

    python -m benchmarks.bench_update [-o docs/results/update.json]

MovieLens-1M (rating >= 3, 80/20 per user): the latest 5 % of the training events are new. Gowalla, its fixed split: it
has no times, a random 5 % are. Full fits, fits with the settings that the old model chose, and updates take turns in
one process after a round that is not counted; a time is the best of three, on the clock and of the processor, which
other programs disturb less. NDCG@10 is on the test events.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import csrr
from csrr._base.files import write_text
from csrr._base.threads import available_cores
from csrr.results.table import format_text_table

ROUNDS, SHARE = 3, 0.05
REACH, WITHIN = 0.4, 0.003


class Seconds(NamedTuple):
    """How long something took, by the clock and of the processor, all cores together."""

    clock: float
    cpu: float


def read_movielens_1m() -> tuple[csrr.Log, csrr.Log, csrr.Log]:
    """Old, new and test events."""
    train, test = csrr.split(csrr.read("ml-1m.zip", min_rating=3), ratio=0.8, seed=0)
    is_new = np.zeros(len(train), np.bool_)
    is_new[np.argsort(train.times, kind="stable")[-int(SHARE * len(train)) :]] = True
    return cut(train, is_new, test)


def read_gowalla() -> tuple[csrr.Log, csrr.Log, csrr.Log]:
    """Old, new and test events."""
    train, test = csrr.read_split("gowalla.zip")
    return cut(train, np.random.default_rng(0).random(len(train)) < SHARE, test)


def cut(train: csrr.Log, is_new: Any, test: csrr.Log) -> tuple[csrr.Log, csrr.Log, csrr.Log]:
    """Old, new and test events, each with the ids that it has; test events of ids without a training event go."""
    counts = train.user_counts() > 0, train.item_counts() > 0
    known = counts[0][test.user_rows] & counts[1][test.item_rows]
    parts = train.select(~is_new), train.select(is_new), test.select(known)
    old, new, asked = (csrr.Log.from_table(part.to_arrow()) for part in parts)
    return old, new, asked


def measure(name: str, old: csrr.Log, new: csrr.Log, test: csrr.Log) -> dict[str, Any]:
    """Seconds and NDCG@10 of a full fit, of one with the old model's settings, and of an update."""
    train = csrr.Log.from_table({each: _join(old, new, each) for each in ("user", "item")})
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "old.csrr"
        before = csrr.CSRR().fit(old)
        before.save(file)
        settled = csrr.CSRR()
        settled.fixed_settings = before.chosen_.settings
        ways: dict[str, Callable[[], tuple[Seconds, csrr.CSRR]]] = {
            "fit": lambda: timed(lambda: csrr.CSRR().fit(train)),
            "fit with the old settings": lambda: timed(lambda: settled.fit(train)),
            "update": lambda: timed(partial(csrr.load(file).update, new)),
        }
        turns: dict[str, list[Seconds]] = {way: [] for way in ways}
        models = {}
        for turn in range(ROUNDS + 1):
            for way, run in ways.items():
                took, models[way] = run()
                turns[way] += [took] * (turn > 0)
    ndcg = {way: csrr.evaluate(model, train, test, at=10)["ndcg@10"] for way, model in models.items()}
    best = {way: min(each.clock for each in took) for way, took in turns.items()}
    cpu = {way: min(each.cpu for each in took) for way, took in turns.items()}
    stale = csrr.evaluate(before, old, _keep_known(test, old), at=10)["ndcg@10"]
    return {
        "data": name,
        "events": len(train),
        "new_events": len(new),
        "new_users": train.n_users - old.n_users,
        "new_items": train.n_items - old.n_items,
        "seconds": best,
        "cpu_seconds": cpu,
        "turns": turns,
        "ratio": best["update"] / best["fit"],
        "cpu_ratio": cpu["update"] / cpu["fit"],
        "ndcg@10": ndcg,
        "ndcg@10 of the old model, on the test events it can know": stale,
        "change": ndcg["update"] / ndcg["fit"] - 1,
        "certificates": {way: str(model.certificate_) for way, model in models.items()},
        "settings": {way: model.chosen_.settings._asdict() for way, model in models.items()},
        "reached": best["update"] <= REACH * best["fit"] and abs(ndcg["update"] / ndcg["fit"] - 1) <= WITHIN,
    }


def _join(old: csrr.Log, new: csrr.Log, which: str) -> Any:
    return np.concatenate([getattr(each, f"{which}s").ids[getattr(each, f"{which}_rows")] for each in (old, new)])


def _keep_known(test: csrr.Log, old: csrr.Log) -> csrr.Log:
    known = (
        np.isin(test.users.ids, old.users.ids)[test.user_rows] & np.isin(test.items.ids, old.items.ids)[test.item_rows]
    )
    return csrr.Log.from_table(test.select(known).to_arrow())


def timed(work: Callable[[], csrr.CSRR]) -> tuple[Seconds, csrr.CSRR]:
    """The seconds that a fit took, and the model."""
    clock, cpu = time.perf_counter(), time.process_time()
    model = work()
    return Seconds(time.perf_counter() - clock, time.process_time() - cpu), model


def main() -> None:
    """Print the table, and write what it is made of."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path, help="A JSON file to write.")
    output = parser.parse_args().output
    found = [measure(name, *read()) for name, read in (("MovieLens-1M", read_movielens_1m), ("Gowalla", read_gowalla))]
    rows = [
        [
            *(each["data"], f"{each['new_events']:,} of {each['events']:,}"),
            *(f"{each['seconds'][way]:.2f} / {each['ndcg@10'][way]:.4f}" for way in each["seconds"]),
            *(f"{each['ratio']:.2f}", f"{each['cpu_ratio']:.2f}", f"{100 * each['change']:+.2f} %", each["reached"]),
        ]
        for each in found
    ]
    ways = [f"{way}: s / NDCG@10" for way in found[0]["seconds"]]
    print(format_text_table(["data", "new events", *ways, "update/fit", "of cpu", "NDCG", "reached"], rows))
    if output is not None:
        machine = {"cores": available_cores(), "platform": platform.platform(), "load": os.getloadavg()}
        goal = f"at most {REACH} of the time of a fit, NDCG@10 within {100 * WITHIN:g} %"
        write_text(output, json.dumps({"machine": machine, "reach": goal, "results": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
