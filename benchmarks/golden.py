"""A hash of what each of many fits gives: run it before and after a change that is to change nothing.

    python -m benchmarks.golden > before.txt            (and again after the change; then: diff)

Every line is a case and the hashes of its scores, its lists, a fold-in, an explanation and its model file, whose times
are left out. Hashes hold for one machine: another one rounds differently.
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import csrr

PARTS = ("scores", "lists", "fold-in", "explanation", "file")


def list_cases() -> Iterator[tuple[str, Any, csrr.Log]]:
    """The name, the model and the log of each case."""
    log = csrr.synthetic(400, 150, events_per_user=18, seed=1).log
    rng = np.random.default_rng(0)
    columns = {"user": log.user_rows, "item": log.item_rows}
    full = csrr.read(columns | {"time": rng.integers(0, 10**7, len(log)), "weight": rng.integers(1, 9, len(log))})
    texts = csrr.read({name: [f"{name}-{row}" for row in rows.tolist()] for name, rows in columns.items()})
    given: dict[str, Any] = {"cost_ratio": 2.0, "reg_low_rank": 0.1}
    for name, params in {
        "default": {},
        "given": given | {"neighbors": 20},
        "no neighbors": given | {"neighbors": 0},
        "loss II": given | {"loss": "II", "neighbors": 0},
        "with V": given | {"reg_sparse": 0.6},
        "limited rank": given | {"max_rank": 8},
        "float64": given | {"dtype": "float64", "tol": 1e-6, "neighbors": 0},
        "no scaling": given | {"user_scaling": 0.0, "item_scaling": 0.0},
        "the paper's box": given | {"box": "paper", "max_iter": 20},
        "costs": {"miss_cost": 5.0, "false_alarm_cost": 1.0, "reg_low_rank": 0.1, "neighbors": 10},
    }.items():
        yield f"CSRR, {name}", csrr.CSRR(**params), log
    yield "CSRR, weights", csrr.CSRR(**given, event_weights="log"), full
    yield "CSRR, time decay", csrr.CSRR(**given, half_life="30 days"), full
    yield "CSRR, text ids", csrr.CSRR(), texts
    yield "CSRRe", csrr.CSRRe(), log
    yield "CSRRe, nonnegative", csrr.CSRRe(rank=8, factors="nonnegative", **given), log
    for kind in (csrr.MCShift, csrr.BiasMC, csrr.WRMF, csrr.BPRMF, csrr.EASE, csrr.ItemKNN, csrr.PopRank):
        yield kind.__name__, kind(), log
    yield "CSRR, next", csrr.CSRR(order="next"), full
    yield "CSRR, recent", csrr.CSRR(**given, order="recent", neighbors=10), full
    yield "MarkovChain", csrr.MarkovChain(), full
    yield "VSKNN", csrr.VSKNN(), full
    yield "WRMF, given", csrr.WRMF(rank=16, reg=0.1), full
    yield "ItemKNN, weights", csrr.ItemKNN(neighbors=30, weighting="bm25"), full


def make_hash(*values: Any) -> str:
    """The first characters of a hash of arrays and texts."""
    digest = hashlib.sha256()
    for value in values:
        value = value.tolist() if isinstance(value, np.ndarray) and value.dtype == object else value
        digest.update(np.ascontiguousarray(value).tobytes() if isinstance(value, np.ndarray) else str(value).encode())
    return digest.hexdigest()[:12]


def hash_file(model: Any) -> str:
    """The hash of a model's file: parameters, facts and arrays, without how long anything took."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.csrr"
        model.save(path)
        data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data, 12)
    header = json.loads(data[52 : 52 + size])
    (header["facts"].get("certificate") or {}).pop("seconds", None)
    body, parts = data[52 + size :], []
    for each in header["arrays"]:
        if each["name"] != "history":  # with the seconds of every step
            length = int(np.prod(each["shape"])) * np.dtype(each["dtype"]).itemsize
            parts.append((each["name"], each["dtype"], body[each["offset"] : each["offset"] + length].hex()))
    return make_hash(json.dumps(header["params"], sort_keys=True), json.dumps(header["facts"], sort_keys=True), parts)


def hash_model(model: Any) -> list[str]:
    """The hashes of what a fitted model gives."""
    rows, users = np.arange(len(model.users_)), model.users_.ids
    items = model.items_.ids[[3, 5, 8]].tolist()
    recs = model.recommend(users, k=10)
    found = [make_hash(model.score_rows(rows)), make_hash(recs.items, recs.scores)]
    folded = model.fold_in([items, items[:1]]).recommend(10)
    found.append(make_hash(folded.items, folded.scores))
    first = recs.items[0][0]
    found.append(make_hash(model.explain(users[0], first).amounts) if model.can("explain") else "-")
    return [*found, hash_file(model)]


def main() -> None:
    """Print a line a case; words of the command line pick cases whose names hold one of them."""
    for name, model, log in list_cases():
        if len(sys.argv) < 2 or any(word in name for word in sys.argv[1:]):
            print(f"{name:22}", *hash_model(model.fit(log)), flush=True)


if __name__ == "__main__":
    main()
