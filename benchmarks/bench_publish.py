"""The lists of all Gowalla users into PostgreSQL and SQLite: `python -m benchmarks.bench_publish`.

The model of `benchmarks.bench_stream`, with neighbors, is fitted once and kept in --model FILE. The server is one of
the system's own programs, in a folder of its own, with fsync as it comes. Beside it: the same lists computed and not
written, and one user's list read by the key. The figures are kept in docs/results/publish.json.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psycopg

import csrr
from benchmarks.bench_stream import FIT, MODEL, K
from benchmarks.keep import describe_origin
from benchmarks.measure import in_fresh_process
from csrr.interop.databases import publish
from tests.postgresql import start_server

KEPT = Path(__file__).parents[1] / "docs" / "results" / "publish.json"
REPEATS = 3
QUERY = "SELECT item_id FROM recommendations WHERE user_id = {} ORDER BY rank"


def time_all(work: Callable[[], object]) -> float:
    """The median of the seconds of several runs."""
    found = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    return statistics.median(found)


def read_one(execute: Callable[..., object], mark: str, users: list[object]) -> float:
    """The median of the milliseconds in which the list of one user is read."""
    found = []
    for user in users:
        started = time.perf_counter()
        rows = execute(QUERY.format(mark), [user]).fetchall()  # type: ignore[attr-defined]
        found.append(1000 * (time.perf_counter() - started))
        assert len(rows) == K
    return round(statistics.median(found), 3)


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_publish", description=main.__doc__)
    parser.add_argument("--model", type=Path, default=Path(tempfile.gettempdir()) / "csrr-bench-publish.csrr")
    path = parser.parse_args().model
    if not path.exists():
        print(in_fresh_process(FIT.format(model=MODEL, path=str(path))))
    model = csrr.load(path)
    model.warm_up()
    users = model.users_.ids[:: len(model.users_) // 300].tolist()
    found = {"only computed": time_all(lambda: [recs.k for recs in model.recommend_batches(k=K)])}
    reads = {}
    with start_server(is_durable=True) as address:
        found["postgresql"] = time_all(lambda: publish(model, address, k=K))
        written = publish(model, address, k=K)
        with psycopg.connect(address) as connection:
            reads["postgresql"] = read_one(connection.execute, "%s", users)
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/lists.db"
        found["sqlite"] = time_all(lambda: publish(model, file, k=K))
        with sqlite3.connect(file) as database:
            reads["sqlite"] = read_one(database.execute, "?", users)
        database.close()
    for name, seconds in found.items():
        print(f"{name}: {written.n_users:,} users, {seconds:.2f} s, {written.n_rows / seconds:,.0f} rows a second")
    print(f"one user's list, in ms: {reads}")
    kept = {"n_users": written.n_users, "n_rows": written.n_rows, "k": K, "seconds": found, "read_ms": reads}
    kept |= {"data": "Gowalla, train part of the fixed split", **describe_origin("python -m benchmarks.bench_publish")}
    KEPT.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
