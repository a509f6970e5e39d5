"""Adds SANSA to the accuracies that `benchmarks.defaults` has kept, tuned as the other rivals are.

    python -m benchmarks.sansa_rows [--data gowalla ...] [--json FILE]        (needs pip install 'csrr[sansa]')

Where a data set has got a measure since its accuracies were kept, all but EASE on a GPU are fitted again with the
parameters chosen then. What is there stays, so that a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import csrr
from benchmarks.datasets import DATASETS
from benchmarks.defaults import RESULTS, choose, make_fit, measure_all
from benchmarks.measure import timed

EXACT_ITEMS = 10_000
"""With more items SANSA's factors are kept sparse from the start."""
ENTRIES = 2_000_000
"""What is kept of a factor there: more is better and slower."""
NAMES = ("gowalla", "amazon-cds", "lastfm", "steam-5", "citeulike-a", "steam")


def candidates(train: csrr.Log) -> Iterator[tuple[str, dict[str, Any]]]:
    """SANSA with each of the parameters that are tried."""
    if train.n_items <= EXACT_ITEMS:
        grid: Iterable[dict[str, Any]] = ({"l2": l2, "density": 0.1, "exact": True} for l2 in (30.0, 100.0))
    else:
        density = ENTRIES / train.n_items**2
        grid = ({"l2": l2, "density": density, "exact": False} for l2 in (5.0, 10.0, 30.0))
    for params in grid:
        yield "SANSA", params


def add_sansa(name: str, seed: int, before: dict[str, Any]) -> dict[str, Any]:
    """An accuracy that was kept, with SANSA's beside it."""
    data = DATASETS[name]
    train, test = data.read(seed)
    params = choose(data, train, seed, candidates(train))
    found = {rival: measure_all(data, make_fit(rival, each)(train), train, test) for rival, each in params.items()}
    return before | {"found": before["found"] | found, "params": before["params"] | params}


def add_measures(name: str, seed: int, before: dict[str, Any]) -> dict[str, Any]:
    """An accuracy that was kept, with the systems that lack a measure fitted again as they were."""
    data = DATASETS[name]
    train, test = data.read(seed)
    params = {"CSRR": {}} | before["params"]
    found = {
        system: measure_all(data, make_fit(system, params[system])(train), train, test)
        for system, each in before["found"].items()
        if lacks(each, data.measures) and "on" not in params[system]
    }
    return before | {"found": before["found"] | found}


def lacks(found: dict[str, float], measures: tuple[str, ...]) -> bool:
    """Whether any of these measures is not there."""
    return not set(measures) <= set(found)


def main() -> None:
    """Measure what the accuracies lack, the first splits of all data sets first."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sansa_rows", description=main.__doc__)
    parser.add_argument("--data", nargs="*", choices=list(DATASETS), default=list(NAMES))
    parser.add_argument("--json", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)  # SANSA tells every step to the root logger.
    kept = json.loads(arguments.json.read_text())
    for seed, name in product(range(5), arguments.data):
        key = f"accuracy/{name}/{seed}"
        if key not in kept:
            continue
        for work, wanted in (
            (add_sansa, "SANSA" not in kept[key]["found"]),
            (add_measures, any(lacks(each, DATASETS[name].measures) for each in kept[key]["found"].values())),
        ):
            if wanted:
                seconds, kept[key] = timed(lambda work=work, name=name, seed=seed, key=key: work(name, seed, kept[key]))
                print(f"{key}: {seconds:.0f} s", kept[key]["found"], flush=True)
                arguments.json.write_text(json.dumps(kept, indent=1, default=float) + "\n")


if __name__ == "__main__":
    main()
