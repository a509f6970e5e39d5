"""What features are worth: items hidden whole, and items with few events, beside content neighbors and LightFM.

    python -m benchmarks features [--data toys ...] [--systems CSRR ...] [--seconds 600]
    python -m benchmarks features cost               CPU seconds of fits to Toys, without features and with them in turn
    python -m benchmarks features stream             10^6 new items, one by one and in batches: seconds and memory

Tasks: a fifth of the items is taken out of training with all its events, and each user's hidden items are to be found
among the hidden ones ("cold"). A fifth of each user's events is held out at random and looked up by the number of
training events of their item ("warm"), with features and without. Of that training set a fifth of the items is taken
out, too, and the held-out events of all items are to be found among all items ("mixed"), by a model that knows the
hidden ones by their features and by one that was fitted with their events.
Strengths of CSRR and the parameters of LightFM are chosen on training items hidden in the same way. "warm" and "mixed"
compare fits with the settings that CSRR() chooses without features. What is kept in docs/results/features.json is not
measured again, unless it is named.
"""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import json
import math
import time
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import csrr
from benchmarks.keep import RESULTS, describe_origin, keep_result, read_results
from benchmarks.measure import READ_PEAK, in_fresh_process, timed
from csrr.data.features import FeatureSpace, FeatureTable
from csrr.ranking.metrics import mark_hits, ndcg
from csrr.ranking.topk import top_k

KEPT = RESULTS / "features.json"
AT, FAR = 20, 100
SHARE = 0.2
GROUPS = ((1, 5), (6, 10), (11, 20), (21, 10**9))
"""Groups of items by training events."""


@cache
def read_data(name: str) -> tuple[csrr.Log, FeatureTable]:
    """Return the events and the features of one of DATA."""
    if name.startswith("ml-"):
        return csrr.read(f"{name}.zip", min_rating=3), csrr.read_features(f"{name}.zip")
    if name == "citeulike-a":
        with zipfile.ZipFile(csrr.locate("citeulike-a-tags.zip")) as archive:
            rows = list(csv.reader(io.StringIO(archive.read("citeulike-a-tags/tags.csv").decode())))[1:]
        items, tags = zip(*rows, strict=True)
        return csrr.read("citeulike-a.zip"), csrr.read_features({"item": list(map(int, items)), "tag": list(tags)})
    with zipfile.ZipFile(csrr.locate(f"amazon-{name}.zip")) as archive:
        lines = [line.split() for line in archive.read(f"amazon-{name}/sequences.txt").decode().splitlines()]
        attributes = json.loads(archive.read(f"amazon-{name}/attributes.json"))
    users = [int(line[0]) for line in lines for _ in line[1:]]
    items = [int(item) for line in lines for item in line[1:]]
    log = csrr.read({"user": users, "item": items}, ordered=True)
    return log, csrr.read_features({int(item): values for item, values in attributes.items()})


class Cold(NamedTuple):
    """Training events, the events of hidden items by user, csr (n, m), and the rows of hidden items."""

    train: csrr.Log
    wanted: Any
    hidden: Any


def hide_items(log: csrr.Log, seed: int, share: float = SHARE) -> Cold:
    """Take a share of the items out of a log, with all their events."""
    there = np.flatnonzero(log.item_counts() > 0)
    hidden = np.sort(np.random.default_rng(seed).permutation(there)[: int(share * len(there))])
    mask = np.zeros(log.n_items, np.bool_)
    mask[hidden] = True
    train = log.select(~mask[log.item_rows])
    wanted = log.select(mask[log.item_rows] & (train.user_counts() > 0)[log.user_rows]).to_csr()
    return Cold(train, wanted, hidden)


Scores = Callable[[Any], Any]
"""From user rows to scores of all items."""


def measure_cold(scores: Scores, cold: Cold, has_features: Any) -> dict[str, Any]:
    """Return recall and NDCG of hidden items among themselves, and of those with features."""
    n_items, seen = cold.train.n_items, cold.train.to_csr()
    tagged = np.intersect1d(cold.hidden, np.flatnonzero(has_features))
    kept = np.zeros(n_items, np.bool_)
    kept[tagged] = True
    by_tagged = sparse.csr_array(cold.wanted.multiply(kept[None, :].astype(np.float32)))
    by_tagged.eliminate_zeros()
    by_tagged.sort_indices()
    found = {}
    for name, wanted, candidates in (
        ("cold", cold.wanted, cold.hidden),
        ("with features", by_tagged, tagged),
    ):
        rows = np.flatnonzero(np.diff(wanted.indptr))
        items, _ = top_k(scores, rows, n_items, FAR, seen=seen, candidates=candidates)
        hits, counts = mark_hits(items, wanted, rows), np.diff(wanted.indptr)[rows]
        found[name] = {
            f"recall@{AT}": hits[:, :AT].sum(1) / counts,
            f"ndcg@{AT}": ndcg(hits[:, :AT], counts),
            f"recall@{FAR}": hits.sum(1) / counts,
        }
    return found


# Systems


def fit_content(train: csrr.Log, table: FeatureTable, params: dict[str, Any]) -> Scores:
    """Score items by the cosines of their features with those of the user's items."""
    encoded = FeatureSpace.learn(table).encode(table).take(table.ids.find(train.items.ids, "item"))
    profiles = sparse.csr_array(train.to_csr() @ encoded.words)
    return lambda rows: (profiles[rows] @ encoded.words.T).toarray().astype(np.float32)


def fit_csrr(train: csrr.Log, table: FeatureTable, params: dict[str, Any]) -> csrr.CSRR:
    """Fit CSRR with features."""
    return csrr.CSRR().fit(train, items=table)


def fit_lightfm(train: csrr.Log, table: FeatureTable, params: dict[str, Any]) -> Scores:
    """Fit LightFM (WARP) with features of items and their identities."""
    from lightfm import LightFM

    encoded = FeatureSpace.learn(table).encode(table).take(table.ids.find(train.items.ids, "item"))
    words = sparse.csr_matrix(encoded.words)
    features = sparse.hstack([words, sparse.eye(train.n_items)]) if params["identities"] else words
    features = sparse.csr_matrix(features, dtype=np.float32)
    features.indices, features.indptr = features.indices.astype(np.int32), features.indptr.astype(np.int32)
    model = LightFM(
        no_components=params["rank"],
        loss="warp",
        learning_schedule="adagrad",
        learning_rate=params["rate"],
        item_alpha=params["alpha"],
        max_sampled=30,
        random_state=0,
    )
    cells = train.user_rows.astype(np.int32), train.item_rows.astype(np.int32)
    clicks = sparse.coo_matrix((np.ones(len(train), np.float32), cells), shape=(train.n_users, train.n_items))
    model.fit(clicks, item_features=features, epochs=params["epochs"], num_threads=2)
    biases, items = (np.array(each) for each in model.get_item_representations(features))
    # What the identities of items without events are is chance: only the features' part counts for these.
    if params["identities"]:
        new = train.item_counts() == 0
        biases[new] = words[new] @ model.item_biases[: words.shape[1]]
        items[new] = words[new] @ model.item_embeddings[: words.shape[1]]
    _, users = model.get_user_representations()
    return lambda rows: (users[rows] @ items.T + biases).astype(np.float32)


LADDERS: dict[str, tuple[Any, ...]] = {
    "rank": (32, 64, 128),
    "epochs": (10, 30),
    "rate": (0.02, 0.05),
    "alpha": (0.0, 1e-6, 1e-5),
    "identities": (False, True),
}
START = {"rank": 64, "epochs": 10, "rate": 0.05, "alpha": 0.0, "identities": False}


def tune_lightfm(train: csrr.Log, table: FeatureTable, seconds: float) -> tuple[dict[str, Any], int]:
    """Return the parameters that rank hidden training items best, one changed at a time, and how many were tried."""
    inner, began = hide_items(train, seed=1, share=0.1), time.perf_counter()
    has = np.ones(train.n_items, np.bool_)
    tried: dict[tuple[Any, ...], float] = {}

    def value(params: dict[str, Any]) -> float:
        key = tuple(params.values())
        if key not in tried:
            if tried and time.perf_counter() - began > seconds:
                return -1.0
            found = measure_cold(fit_lightfm(inner.train, table, params), inner, has)
            tried[key] = float(found["cold"][f"ndcg@{AT}"].mean())
            print("  LightFM", params, round(tried[key], 5), flush=True)
        return tried[key]

    best = dict(START)
    for name in ("identities", "alpha", "epochs", "rank", "rate"):
        best = max(({**best, name: each} for each in LADDERS[name]), key=value)
    return best, len(tried)


SYSTEMS: dict[str, Any] = {"content neighbors": fit_content, "LightFM": fit_lightfm, "CSRR": fit_csrr}


def run_cold(name: str, system: str, seconds: float, seed: int = 0) -> dict[str, Any]:
    """Return what a system finds of hidden items: means and standard errors."""
    log, table = read_data(name)
    cold, params, tried = hide_items(log, seed), {}, 0
    if system == "LightFM":
        params, tried = tune_lightfm(cold.train, table, seconds)
    took, fitted = timed(lambda: SYSTEMS[system](cold.train, table, params))
    has = np.zeros(log.n_items, np.bool_)
    has[log.items.find(table.ids.ids, "item")[log.items.find(table.ids.ids, "item") >= 0]] = True
    scores = fitted.score_rows if isinstance(fitted, csrr.Recommender) else fitted
    found = measure_cold(scores, cold, has)
    result: dict[str, Any] = {"seconds": round(took, 2), "params": params, "tried": tried}
    for part, values in found.items():
        result[part] = {each: float(mine.mean()) for each, mine in values.items()}
        result[f"{part}, errors"] = {
            each: float(mine.std(ddof=1) / math.sqrt(len(mine))) for each, mine in values.items()
        }
    if isinstance(fitted, csrr.CSRR):
        result["strengths"] = fitted.features_.strengths._asdict()
        result["note"] = fitted.features_.note
    return result


def score_items(model: csrr.CSRR, items: csrr.IdMap) -> Scores:
    """Return the scores of a model for the items of a log."""
    at = model.items_.find(items.ids, "item")
    return lambda rows: np.where(at >= 0, model.score_rows(rows)[:, at], -np.inf).astype(np.float32)


@cache
def fit_plain(name: str, seed: int) -> tuple[csrr.Log, csrr.Log, csrr.CSRR, dict[str, Any]]:
    """Return four fifths of each user's events, the rest, CSRR fitted without features, and the settings it chose."""
    train, test = csrr.split(read_data(name)[0], ratio=0.8, seed=seed)
    plain = csrr.CSRR().fit(train)
    return train, test, plain, plain.settled_params()


def run_warm(name: str, seed: int = 0) -> dict[str, Any]:
    """Return the NDCG@20 of held-out events by the training events of their item, with features and without.

    Among items with training events; of all events also among all items, where those without events take places.
    """
    log, table = read_data(name)
    train, test, plain, settings = fit_plain(name, seed)
    model = csrr.CSRR(**settings).fit(train, items=table)
    counts, seen, result = train.item_counts(), train.to_csr(), {}
    known, groups = np.flatnonzero(counts), [(f"{low} to {high}", low, high) for low, high in GROUPS]
    for part, low, high in (("all", 1, 10**9), *groups, ("among all items", 1, 10**9)):
        mine = test.select(((counts >= low) & (counts <= high))[test.item_rows]).to_csr()
        rows = np.flatnonzero(np.diff(mine.indptr))
        result[part] = {"events": int(mine.nnz)}
        candidates = None if part == "among all items" else known
        for which, each in (("without", plain), ("with", model)):
            scores = score_items(each, log.items)
            items, _ = top_k(scores, rows, log.n_items, AT, seen=seen, candidates=candidates)
            result[part][which] = float(ndcg(mark_hits(items, mine, rows), np.diff(mine.indptr)[rows]).mean())
    result["strengths"] = model.features_.strengths._asdict()
    result["note"] = model.features_.note
    return result


def run_mixed(name: str, seed: int = 0) -> dict[str, Any]:
    """Return how many places hidden items have in lists, and what of their events and of others is found there."""
    log, table = read_data(name)
    train, test, known, settings = fit_plain(name, seed)
    cold = hide_items(train, seed)
    told = csrr.CSRR(**settings).fit(cold.train, items=table)
    is_hidden, has_features = np.zeros(log.n_items, np.bool_), table.ids.find(log.items.ids, "item") >= 0
    is_hidden[cold.hidden] = True
    wanted, seen, result = test.to_csr(), train.to_csr(), {}
    rows = np.flatnonzero((np.diff(wanted.indptr) > 0) & (cold.train.user_counts() > 0))
    wanted = wanted[rows]
    for system, scores in (
        ("CSRR with their events", score_items(known, log.items)),
        ("CSRR", score_items(told, log.items)),
        ("content neighbors", fit_content(cold.train, table, {})),
    ):
        items, _ = top_k(scores, rows, log.n_items, AT, seen=seen)
        hits = mark_hits(items, test.to_csr(), rows)
        theirs = is_hidden[items]
        n_theirs = int(is_hidden[wanted.indices].sum())
        result[system] = {
            "places": float((is_hidden & has_features)[items].mean()),
            "hidden found": float((hits & theirs).sum() / n_theirs),
            "others found": float((hits & ~theirs).sum() / (wanted.nnz - n_theirs)),
            f"ndcg@{AT}": float(ndcg(hits, np.diff(wanted.indptr)).mean()),
        }
    return result | {"strengths": told.features_.strengths._asdict()}


def measure_cost(kept: Path, times: int = 3) -> None:
    """Keep the CPU seconds of fits to Toys, without features and with them in turn; the first ones compile."""
    log, table = read_data("toys")
    found: dict[str, list[float]] = {"without": [], "with": []}
    for time_of, (which, items) in itertools.product(range(times + 1), (("without", None), ("with", table))):
        busy = time.process_time()
        csrr.CSRR().fit(log, items=items)
        if time_of:
            found[which].append(time.process_time() - busy)
    keep_result(kept, "cost", found | describe_origin("python -m benchmarks features cost"))
    print("cost", found, flush=True)


_STREAM = """
import json, time
import numpy as np
import csrr
from benchmarks.features import read_data
log, table = read_data("toys")
model = csrr.CSRR(reg_low_rank="noise", max_rank=256, neighbors=50, reg_neighbors=3.0).fit(log, items=table)
column, rng = table.columns["attribute"].values, np.random.default_rng(0)
each = np.split(column.names[column.members.indices], column.members.indptr[1:-1])
seconds = []
for place in range(30):
    began = time.perf_counter()
    model.add_items({{10**8 + place: each[place].tolist()}})
    seconds.append(time.perf_counter() - began)
before, began, busy = read_peak(), time.perf_counter(), time.process_time()
first = None
for start in range(0, {n_items}, 10_000):
    items = rng.integers(len(each), size=10_000)
    batch = csrr.read_features({{10**9 + start + i: each[item].tolist() for i, item in enumerate(items.tolist())}})
    model.fold_in_features(batch).score(log.users.ids[:1])
    first = read_peak() if first is None else first
print(json.dumps({{"one": float(np.median(seconds)), "items": {n_items}, "before": before, "first": first,
    "peak": read_peak(), "seconds": time.perf_counter() - began, "cpu": time.process_time() - busy}}))
"""


def measure_stream(kept: Path, n_items: int = 10**6) -> None:
    """Keep the median seconds in which one item is added, and the seconds and memory of a stream scored in batches."""
    found = in_fresh_process(READ_PEAK + _STREAM.format(n_items=n_items))
    keep_result(kept, "stream", found | describe_origin("python -m benchmarks features stream"))
    print("stream", found, flush=True)


DATA = ("citeulike-a", "toys", "sports")
MORE = ("ml-100k", "ml-1m")
"""Data for the tasks "warm" and "mixed" only: nearly all of their items have many events."""
TASKS = {"warm": run_warm, "mixed": run_mixed}


def main(given: list[str] | None = None) -> None:
    """Measure what features are worth."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks features", description=main.__doc__)
    parser.add_argument("what", nargs="?", choices=["cost", "stream"], help="without: accuracy")
    parser.add_argument("--data", nargs="+", choices=[*DATA, *MORE], default=[*DATA, *MORE])
    parser.add_argument("--systems", nargs="+", choices=[*SYSTEMS, *TASKS], help="measure these again")
    parser.add_argument("--seconds", type=float, default=600, help="for the search of LightFM")
    parser.add_argument("--json", type=Path, default=KEPT)
    asked = parser.parse_args(given)
    if asked.what:
        (measure_stream if asked.what == "stream" else measure_cost)(asked.json)
        return
    for name, system in itertools.product(asked.data, asked.systems or [*SYSTEMS, *TASKS]):
        key = f"{system}/{name}" if system in TASKS else f"cold/{name}/{system}"
        if (key in read_results(asked.json) and not asked.systems) or (name in MORE and system not in TASKS):
            continue
        found = TASKS[system](name) if system in TASKS else run_cold(name, system, asked.seconds)
        keep_result(asked.json, key, found | describe_origin("python -m benchmarks features"))
        print(key, json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
