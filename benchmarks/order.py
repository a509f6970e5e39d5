"""What order is worth: CSRR beside its rivals where the next events of each user are to be found.

    python -m benchmarks order [--data toys ...] [--systems CSRR ...] [--seconds 900]
    python -m benchmarks order growth                a fit to up to ten million events: seconds and memory
    python -m benchmarks order sequences DIR         what benchmarks/sasrec.py reads
    python -m benchmarks order sasrec DIR            puts what it wrote into the results

Two tasks: each user's last event among all items ("last"), and the last fifth of each user's events ("fifth"). Two
where order does not help, for ours alone: a random fifth of the events ("random"), and the last event where the order
of the others is lost ("shuffled"). A rival's parameters are those that climb highest (`benchmarks.accuracy.climb`) on
training events cut in the same way; CSRR chooses its own. What is kept in docs/results/order.json is not measured
again, unless it is named.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

import csrr
from benchmarks.accuracy import SYSTEMS as RIVALS
from benchmarks.accuracy import Params, System, climb
from benchmarks.keep import RESULTS, describe_origin, keep_result, read_results
from benchmarks.measure import READ_PEAK, in_fresh_process, timed
from benchmarks.ordered import (
    Cut,
    cut_fifth,
    cut_last,
    cut_random,
    cut_shuffled,
    make_log,
    rank_last,
    read_sequences,
)
from benchmarks.slist import fit_slist
from csrr._base.arrays import Float64Array
from csrr.ranking.metrics import mark_hits, ndcg
from csrr.ranking.topk import RowScorer, top_k

KEPT = RESULTS / "order.json"
AT = 10
FIFTH_AT = 20


class Task(NamedTuple):
    """How events are cut, the data, the measures of each user by scores, the first of which chooses, and for whom.

    `noted` is what `csrr.split` notes in a log that it cuts so: models know what will be asked.
    """

    cut: Callable[[Any], Cut]
    data: tuple[str, ...]
    measure: Callable[[RowScorer, csrr.Log, Any], dict[str, Float64Array]]
    is_for_all: bool = True
    noted: Literal["last", "share"] | None = "last"


def measure_last(scores: RowScorer, known: csrr.Log, following: Any) -> dict[str, Float64Array]:
    """Return NDCG@10, HR@10 and the reciprocal rank of each user's next event."""
    ranks = rank_last(scores, known, following)
    found = ranks <= AT
    return {f"ndcg@{AT}": found / np.log2(ranks + 1), f"hr@{AT}": found.astype(np.float64), "mrr": 1 / ranks}


def measure_fifth(scores: RowScorer, known: csrr.Log, following: Any) -> dict[str, Float64Array]:
    """Return NDCG@20 of each user's next events."""
    wanted, seen = make_log(following).to_csr(), known.to_csr()
    rows = np.flatnonzero(np.diff(wanted.indptr))
    items, _ = top_k(scores, rows, known.n_items, FIFTH_AT, seen=seen)
    return {f"ndcg@{FIFTH_AT}": ndcg(mark_hits(items, wanted, rows), np.diff(wanted.indptr)[rows])}


TASKS = {
    "last": Task(cut_last, ("toys", "sports", "ml-1m"), measure_last),
    "fifth": Task(cut_fifth, ("ml-100k", "ml-1m"), measure_fifth, noted="share"),
    "random": Task(cut_random, ("ml-100k", "ml-1m"), measure_fifth, is_for_all=False, noted=None),
    "shuffled": Task(cut_shuffled, ("toys", "ml-1m"), measure_last, is_for_all=False),
}


def fit_plainly(kind: str, **given: Any) -> Callable[[csrr.Log, Params], RowScorer]:
    """Return the fit of one of our models by parameters."""
    return lambda log, params: getattr(csrr, kind)(**given, **params).fit(log).score_rows


SLIST_LADDERS = {
    "recency": (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
    "reach": (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
    "share": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
    "reg": (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0),
}
SYSTEMS: dict[str, System] = {
    "PopRank": RIVALS["PopRank"],
    "ItemKNN": RIVALS["ItemKNN"],
    "EASE": RIVALS["EASE"],
    "WRMF": RIVALS["WRMF"],
    "MarkovChain, counts": System({}, {}, fit_plainly("MarkovChain", decay=0.0, neighbors=1000)),
    "MarkovChain": System(
        {
            "decay": (0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95),
            "item_scaling": (0.0, 0.25, 0.5, 0.75, 1.0),
            "neighbors": (50, 100, 300, 1000),
        },
        {"decay": 0.7, "item_scaling": 0.25, "neighbors": 300},
        fit_plainly("MarkovChain"),
    ),
    "VSKNN": System(
        {
            "weighting": ("same", "log", "div", "quadratic", "linear"),
            "score_weighting": ("same", "log", "div", "quadratic", "linear"),
            "neighbors": (50, 100, 200, 500, 1000),
            "length_scaling": (0.0, 0.25, 0.5, 0.75, 1.0),
            "idf_weight": (0.0, 0.5, 1.0, 2.0, 5.0),
        },
        {
            "weighting": "quadratic",
            "score_weighting": "div",
            "neighbors": 200,
            "length_scaling": 0.5,
            "idf_weight": 0.0,
        },
        fit_plainly("VSKNN"),
    ),
    "SLIST": System(SLIST_LADDERS, {"recency": 2.0, "reach": 2.0, "share": 0.2, "reg": 30.0}, fit_slist),
}
OURS = {"CSRR": {}, "CSRR, next": {"order": "next"}, "CSRR, auto": {"order": "auto"}}
"""Ours, which choose their parameters."""


def tune(name: str, system: str, task: Task, train: Any, seconds: float, start: Params) -> tuple[Params, int, bool]:
    """Return a rival's best parameters on training events, how many were tried, and whether the search came to its end.

    The search begins at `start`, a place on the ladders.
    """
    rival, (known, following) = SYSTEMS[system], task.cut(train)
    log, began, longest = make_log(known), time.perf_counter(), 0.0

    def value(place: Params) -> float:
        nonlocal longest
        started = time.perf_counter()
        found = task.measure(rival.fit(log, rival.resolve(log, place)), log, following)
        longest = max(longest, time.perf_counter() - started)
        print(f"  {name} {system} {place}: {next(iter(found.values())).mean():.5f}", flush=True)
        return float(next(iter(found.values())).mean())

    def is_over() -> bool:
        return time.perf_counter() - began + longest > seconds

    found = climb(rival.ladders, rival.start | start, value, is_over)
    return found.best, len(found.tried), found.is_whole


def measure(name: str, system: str, task: Task, seconds: float, start: Params) -> dict[str, Any]:
    """Return what a system reaches on the next events: means, their standard errors, parameters and time.

    `seconds` are those that passed in the fit, `cpu` those of all cores together, which other work disturbs less.
    """
    train, following = task.cut(read_sequences(name))
    log = replace(make_log(train), cut=task.noted)
    facts: dict[str, Any] = {}
    if system in OURS:
        model = csrr.CSRR(**OURS[system])
        busy = time.process_time()
        took, _ = timed(lambda: model.fit(log))
        scores, facts = model.score_rows, {"params": model.settled_params()}
    else:
        rival = SYSTEMS[system]
        searched, (place, tried, is_whole) = timed(lambda: tune(name, system, task, train, seconds, start))
        params = rival.resolve(log, place)
        busy = time.process_time()
        took, scores = timed(lambda: rival.fit(log, params))
        facts = {"params": params, "place": place, "tried": tried, "whole": is_whole, "tuning": round(searched, 1)}
    busy = time.process_time() - busy
    users = task.measure(scores, log, following)
    found = {each: float(values.mean()) for each, values in users.items()}
    errors = {each: float(values.std(ddof=1) / math.sqrt(len(values))) for each, values in users.items()}
    return {"found": found, "errors": errors, "seconds": round(took, 2), "cpu": round(busy, 2), **facts}


def run(tasks: list[str], data: list[str], systems: list[str], seconds: float, *, again: bool, kept: Path) -> None:
    """Measure what is not kept, or all that is named if `again`."""
    for system in systems:
        for task in (each for each in tasks if TASKS[each].is_for_all or system in OURS):
            for name in (each for each in TASKS[task].data if each in data):
                key, before = f"{task}/{name}/{system}", read_results(kept)
                if key in before and not again:
                    continue
                places = (before.get(f"{task}/{other}/{system}", {}).get("place") for other in (name, *data))
                start = next((place for place in places if place), {})
                found = measure(name, system, TASKS[task], seconds, start)
                keep_result(kept, key, found | describe_origin("python -m benchmarks order"))
                print(key, {each: round(value, 4) for each, value in found["found"].items()}, flush=True)


# SASRec, which is trained elsewhere


def write_sequences(folder: Path) -> None:
    """Write the sequences of each data set whose last events are asked for."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in TASKS["last"].data:
        own = read_sequences(name)
        np.savez_compressed(folder / f"{name}.npz", items=own.items, starts=own.starts, n_items=own.n_items)


def merge_sasrec(folder: Path, kept: Path) -> None:
    """Put the ranks that SASRec gave the last events into the results."""
    for path in sorted(folder.glob("*.json")):
        facts = json.loads(path.read_text())
        with np.load(path.with_suffix(".npz")) as file:
            ranks = file["ranks"][file["ranks"] > 0].astype(np.float64)
        found = ranks <= AT
        values = {f"ndcg@{AT}": found / np.log2(ranks + 1), f"hr@{AT}": found, "mrr": 1 / ranks}
        result = {
            "found": {name: float(each.mean()) for name, each in values.items()},
            "errors": {name: float(each.std(ddof=1) / math.sqrt(len(each))) for name, each in values.items()},
            **{name: facts[name] for name in ("params", "whole", "seconds", "tuning", "device", "torch")},
            "tried": len(facts["tried"]),
            **describe_origin("python -m benchmarks.sasrec"),
        }
        keep_result(kept, f"last/{path.stem}/SASRec", result)


# Growth

GROWTH = (100_000, 1_000_000, 10_000_000)
WAYS = {
    "given": 'order="next", decay=0.7, history_scaling=0.0, rare_scaling=0.0, reg_low_rank="noise", max_rank=64,'
    " reg_sparse=1.0, neighbors=50, reg_neighbors=10.0",
    "chosen": 'order="next"',
}
"""Parameters that are given, and those that a fit chooses."""
_GROW = """
import json, time
import csrr
from benchmarks.order import make_growing
from benchmarks.ordered import make_log
log = make_log(make_growing({n_events}))
began, before = time.perf_counter(), read_peak()
busy = time.process_time()
model = csrr.CSRR({arguments}).fit(log)
print(json.dumps({{"events": len(log), "users": log.n_users, "items": log.n_items,
    "seconds": time.perf_counter() - began, "cpu": time.process_time() - busy, "before": before, "peak": read_peak()}}))
"""


def make_growing(n_events: int, n_items: int = 20_000, seed: int = 0) -> Any:
    """Return sequences of about so many events, forty a user: most go on to one of a few items after the last one."""
    from csrr.numerics.transitions import Sequences

    rng = np.random.default_rng(seed)
    n_users, length, n_after = n_events // 40, 40, 10
    popularity = 1 / (np.arange(n_items) + 20)
    popularity /= popularity.sum()
    after = rng.choice(n_items, (n_items, n_after), p=popularity)
    items = np.empty((n_users, length), np.int32)
    items[:, 0] = rng.choice(n_items, n_users, p=popularity)
    for t in range(1, length):
        anew = rng.choice(n_items, n_users, p=popularity)
        goes_on = rng.random(n_users) < 0.5
        items[:, t] = np.where(goes_on, after[items[:, t - 1], rng.integers(n_after, size=n_users)], anew)
    return Sequences(np.arange(n_users + 1) * length, items.ravel(), n_items)


def measure_growth(kept: Path, ways: Iterable[str] = WAYS) -> None:
    """Keep the seconds and the peak memory of fits to more and more events."""
    for way, n_events in product(ways, GROWTH):
        if (key := f"growth/{way}/{n_events}") not in read_results(kept):
            found = in_fresh_process(READ_PEAK + _GROW.format(n_events=n_events, arguments=WAYS[way]))
            keep_result(kept, key, found | describe_origin("python -m benchmarks order growth"))
            print(key, found, flush=True)


def main(given: list[str] | None = None) -> None:
    """Measure what order is worth."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks order", description=main.__doc__)
    every = sorted({name for task in TASKS.values() for name in task.data})
    parser.add_argument("what", nargs="*", help="growth; or sequences or sasrec, and a folder")
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--data", nargs="+", choices=every, default=every)
    parser.add_argument("--systems", nargs="+", choices=[*OURS, *SYSTEMS], help="measure these again")
    parser.add_argument("--seconds", type=float, default=900, help="for the search of a rival")
    parser.add_argument("--json", type=Path, default=KEPT)
    asked = parser.parse_args(given)
    match asked.what:
        case ["growth"]:
            measure_growth(asked.json)
        case ["sequences", folder]:
            write_sequences(Path(folder))
        case ["sasrec", folder]:
            merge_sasrec(Path(folder), asked.json)
        case []:
            systems = asked.systems or [*SYSTEMS, *OURS]
            run(asked.tasks, asked.data, systems, asked.seconds, again=bool(asked.systems), kept=asked.json)
        case _:
            parser.error("give growth, sequences DIR, sasrec DIR, or nothing")


if __name__ == "__main__":
    main()
