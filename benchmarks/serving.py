"""The service under open-loop load, from the same machine: what it answers in time, refuses, keeps and survives.

    python -m benchmarks.serving [PART ...] [--seconds 10] [--faults 600] [-o docs/results/serving.json]

The model is Gowalla's at rank 256 with neighbors, lists have 20 items, none is kept. Requests come at random times,
whether or not earlier ones are answered, and are timed from when they were due. The parts: `known` users together with
synced events; `history` in the request; `overload`, far beyond capacity; `swaps` of the model under
load; `bare`, a FastAPI handler that calls `recommend` of the same model; `faults`, mixed load while workers are killed,
the disk of the event files is full and broken model files come; `database`, the same with events in PostgreSQL, which
is stopped and started too; `single`, `recommend([user])` in process at a million users with text ids.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import psycopg

import csrr
from benchmarks.load import Answers, Stream, get, post, send_load
from csrr._base.files import write_text
from csrr._base.threads import available_cores
from csrr.models.store import check_digest
from csrr.ranking.topk import top_k
from tests.postgresql import control_server

KNOWN, EVENTS, HISTORIES = 2500, 800, 1000
WITHIN_MS = 30.0
SWAPS = 100
MIXED = {"known": 300, "events": 150, "history": 80, "session": 40}
"""Requests a second of each kind while there are faults: little, so that what is seen is the faults."""
BARE = """
import csrr, sys
from fastapi import FastAPI
model = csrr.load(sys.argv[1], mmap=True)
model.warm_up()
app = FastAPI()
@app.get("/v1/recommendations")
def recommend(user: int, k: int = 20):
    return model.recommend(user, k).to_list()
import uvicorn
uvicorn.run(app, port=int(sys.argv[2]), log_level="error", loop="uvloop", http="httptools")
"""


def fit(path: Path) -> None:
    """Fit the model, unless it is there."""
    if not path.exists():
        csrr.CSRR(max_rank=256).fit(csrr.read("gowalla.zip")).save(path)


class Service:
    """`csrr serve`, its processes and its log."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process, self.port, self.lines = process, port, list[dict[str, Any]]()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with contextlib.suppress(ValueError):
                self.lines.append(json.loads(line))

    def ask(self, path: str, body: bytes | None = None) -> Any:
        """Return an answer."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", body)
        if body is not None:
            request.add_header("content-type", "application/json")
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            return json.loads(answer.read())

    def workers(self) -> list[psutil.Process]:
        """Return the processes of the workers."""
        return psutil.Process(self.process.pid).children()

    def measure(self) -> tuple[float, float]:
        """Return the megabytes of all processes, what they share counted once, and their seconds of processor time."""
        found = [psutil.Process(self.process.pid), *self.workers()]
        memory = sum(each.memory_full_info().pss for each in found)
        return memory / 2**20, sum(sum(each.cpu_times()[:2]) for each in found)


@contextmanager
def serving(model: Path, state: Path, *options: str) -> Iterator[Service]:
    """Serve a model in the block."""
    port = random.SystemRandom().randrange(20_000, 30_000)
    words = ["serve", str(model), "--state", str(state), "--port", str(port), *options]
    process = subprocess.Popen([sys.executable, "-m", "csrr", *words], stderr=subprocess.PIPE, text=True)
    service, n = Service(process, port), available_cores()
    try:
        wait_for(lambda: sum(line["event"] == "worker ready" for line in service.lines) >= n)
        yield service
    finally:
        process.terminate()
        process.wait(60)


def wait_for(condition: Callable[[], object], seconds: float = 120) -> None:
    """Wait until a condition holds; TimeoutError after so long."""
    latest = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > latest:
            raise TimeoutError
        time.sleep(0.05)


class Requests:
    """What is sent: known users, histories of known users, events of users and items at random."""

    def __init__(self, model: csrr.Recommender, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        users, items = model.users_.ids, model.items_.ids
        self.known = [get(f"/v1/recommendations?user={user}&k=20") for user in rng.choice(users, 20_000)]
        rows = rng.integers(0, len(users), 5_000)
        # A history has the user's latest twenty items, in any order, and one at random that is not among them.
        histories = [items[model.seen_.indices[model.seen_.indptr[r] : model.seen_.indptr[r + 1]][-20:]] for r in rows]
        self.history = [
            post(
                "/v1/recommendations",
                json.dumps({"history": [*own.tolist(), int(rng.choice(items))], "k": 20}).encode(),
            )
            for own in histories
        ]
        self._users, self._items, self._rng = users, items, rng
        self.session = [get(f"/v1/recommendations?session=s{n}&k=20") for n in range(500)]

    def make_events(self, n: int, first: int = 0) -> list[bytes]:
        """Return n requests of one event each; their times are the numbers from `first` on, by which they are found."""
        users, items = self._rng.choice(self._users, n).tolist(), self._rng.choice(self._items, n).tolist()
        return [
            post("/v1/events", json.dumps({"events": [{"user": user, "item": item, "time": first + place}]}).encode())
            for place, (user, item) in enumerate(zip(users, items, strict=True))
        ]


Times = Callable[[], list[int]]
"""Reads the times of all events that are stored."""


def read_times(state: Path) -> list[int]:
    """Return the times of the events in the files."""
    lines = [line for path in sorted((state / "events").glob("*.jsonl")) for line in path.read_text().splitlines()]
    return [int(json.loads(line)["time"]) for line in lines]


def count_missing(read: Times, events: Answers, first: int = 0) -> int:
    """Return how many of the events that were acknowledged are not there."""
    there = set(read())
    kept = [place for place, status in zip(events.places, events.statuses, strict=True) if status == 200]
    return sum(first + place not in there for place in kept)


def measure_known(model: Path, state: Path, seconds: float) -> dict[str, Any]:
    """Known users and durable events together."""
    requests = Requests(csrr.load(model, mmap=True))
    with serving(model, state) as service:
        send_load(service.port, [Stream("known", 500, requests.known)], 2)
        before = service.measure()
        events = requests.make_events(int(EVENTS * seconds * 1.2))
        known, stored = send_load(
            service.port, [Stream("known", KNOWN, requests.known), Stream("events", EVENTS, events)], seconds
        )
        after = service.measure()
    found = known.summarize(0.5)
    n = found["sent"] + stored.summarize()["sent"]
    return {
        "rates": {"known": KNOWN, "events": EVENTS},
        "known": found,
        "events": stored.summarize(0.5),
        "missing": count_missing(lambda: read_times(state), stored),
        "cpu_ms_a_request": 1e3 * (after[1] - before[1]) / n,
        "megabytes": after[0],
        "reached": found["p99"] < WITHIN_MS and set(found["statuses"]) == {"200"},
    }


def measure_history(model: Path, state: Path, seconds: float) -> dict[str, Any]:
    """Histories in the request."""
    requests = Requests(csrr.load(model, mmap=True))
    with serving(model, state) as service:
        send_load(service.port, [Stream("history", 200, requests.history)], 2)
        (answers,) = send_load(service.port, [Stream("history", HISTORIES, requests.history)], seconds)
    found = answers.summarize(0.5)
    return {"rate": HISTORIES, "history": found, "reached": set(found["statuses"]) == {"200"}}


def measure_overload(model: Path, state: Path, seconds: float) -> dict[str, Any]:
    """Known users, at rates that rise far beyond capacity."""
    requests = Requests(csrr.load(model, mmap=True))
    found = {}
    with serving(model, state) as service:
        for rate in (2000, 4000, 6000, 9000):
            (answers,) = send_load(service.port, [Stream("known", rate, requests.known)], seconds)
            one = answers.summarize(0.5)
            found[str(rate)] = one | {"answered_a_second": one["statuses"].get("200", 0) / (seconds - 0.5)}
        after = send_load(service.port, [Stream("known", 500, requests.known)], 3)[0].summarize(1.0)
    served = [each["answered_a_second"] for each in found.values()]
    only = set().union(*(each["statuses"] for each in found.values())) <= {"200", "503"}
    return {"by_rate": found, "afterwards": after, "reached": only and served[-1] > 0.5 * max(served)}


def measure_swaps(model: Path, state: Path, seconds: float) -> dict[str, Any]:
    """Swaps of the model under load, one after another."""
    requests = Requests(csrr.load(model, mmap=True))
    folder = state.parent
    other = folder / "other.csrr"
    if not other.exists():
        changed = csrr.load(model)
        changed.titles_ = np.array([f"title {n}" for n in range(len(changed.items_))], np.object_)
        changed.save(other)
    target = folder / "swapped.csrr"
    shutil.copy(model, target)
    seen: list[str] = []
    with serving(target, state) as service:

        def swap() -> None:
            for n in range(SWAPS):
                shutil.copy(other if n % 2 == 0 else model, folder / "next.csrr")
                (folder / "next.csrr").replace(target)
                seen.append(service.ask("/v1/model/reload", b"")["model"])
            wait_for(lambda: len({service.ask("/v1/model")["model"] for _ in range(20)}) == 1)

        is_done = threading.Event()
        results: list[Answers] = []

        def load() -> None:
            while not is_done.is_set():
                results.extend(send_load(service.port, [Stream("known", 500, requests.known)], 10))

        asking = threading.Thread(target=load)
        asking.start()
        began = time.monotonic()
        memory = service.measure()[0]
        swap()
        took = time.monotonic() - began
        is_done.set()
        asking.join()
        last = service.ask("/v1/model")
        grown = service.measure()[0]
    wanted = check_digest(model).hex()[:12]
    failed = sum(status != 200 for each in results for status in each.statuses)
    return {
        "swaps": SWAPS,
        "seconds": took,
        "sent": sum(len(each.statuses) for each in results),
        "failed": failed,
        "models_in_turn": all(before != after for before, after in pairwise(seen)),
        "last_is_right": last["model"] == wanted and last["problem"] is None,
        "known": [each.summarize() for each in results],
        "megabytes_before_and_after": [memory, grown],
        "reached": failed == 0 and last["model"] == wanted,
    }


def measure_bare(model: Path, state: Path, seconds: float) -> dict[str, Any]:
    """A FastAPI handler that calls `recommend`, in the threads that FastAPI gives it."""
    requests, port, found = Requests(csrr.load(model, mmap=True)), random.SystemRandom().randrange(20_000, 30_000), {}
    process = subprocess.Popen([sys.executable, "-c", BARE, str(model), str(port)])
    try:
        wait_for(lambda: is_there(port))
        for rate in (100, 300, 1000):
            (answers,) = send_load(port, [Stream("known", rate, requests.known)], seconds)
            found[str(rate)] = answers.summarize(0.5)
    finally:
        process.terminate()
        process.wait(60)
    return {"by_rate": found}


def is_there(port: int) -> bool:
    """Return whether something answers at a port."""
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/recommendations?user=1", timeout=5).close()
    except OSError:
        return False
    return True


def measure_faults(model: Path, state: Path, seconds: float) -> dict[str, Any]:
    """Mixed load while workers are killed, the disk of the events is full, and broken and other model files come."""
    with small_disk(state) as ballast:

        def fill() -> None:
            with contextlib.suppress(OSError), ballast.open("wb") as file:
                while True:
                    file.write(bytes(2**16))
                    file.flush()
            time.sleep(2)
            ballast.unlink()

        return disturb(model, state, seconds, {"disk full": fill}, lambda: read_times(state))


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Put the events in a folder on a disk of their own in the block, which takes root, and give a file to fill it."""
    events = folder / "events"
    events.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256m", "tmpfs", str(events)], check=True)  # noqa: S607
    try:
        yield events / "ballast"
    finally:
        subprocess.run(["umount", "--lazy", str(events)], check=True)  # noqa: S607


def measure_database(model: Path, state: Path, seconds: float) -> dict[str, Any]:
    """Mixed load with events in PostgreSQL, which is stopped and started, and the other faults."""
    with control_server(is_durable=True) as (address, control):

        def stop() -> None:
            control("stop")
            time.sleep(2)
            control("start")

        def read() -> list[int]:
            with psycopg.connect(address) as connection:
                found = connection.execute("SELECT time FROM events").fetchall()
            return [int(each) for (each,) in found]

        return disturb(model, state, seconds, {"database stopped": stop}, read, "--events", address)


def disturb(
    model: Path, state: Path, seconds: float, own: dict[str, Callable[[], None]], read: Times, *options: str
) -> dict[str, Any]:
    """Mixed load while workers are killed, broken and other model files come, and whatever else is given."""
    requests, target = Requests(csrr.load(model, mmap=True)), state.parent / "faults.csrr"
    shutil.copy(model, target)
    whole, faults, memory = model.read_bytes(), list[tuple[float, str]](), list[tuple[float, float]]()
    chooser, began = random.Random(0), time.monotonic()  # noqa: S311

    def fault(service: Service) -> None:
        kind = chooser.choice(["kill", "cut in place", "no model", "other model", *own])
        faults.append((round(time.monotonic() - began, 1), kind))
        if kind in own:
            own[kind]()
        elif kind == "kill":
            chooser.choice(service.workers()).kill()
        elif kind == "cut in place":
            os.truncate(target, len(whole) // 2)
        elif kind == "no model":
            target.write_bytes(os.urandom(1000))
        else:
            part = target.with_suffix(".part")
            part.write_bytes(whole)
            part.replace(target)

    with serving(target, state, *options) as service:
        answers: dict[str, list[Answers]] = {name: [] for name in MIXED}
        missing, first, is_done = 0, 0, threading.Event()

        def go_on() -> None:
            while not is_done.wait(chooser.uniform(3, 8)):
                fault(service)
                with contextlib.suppress(psutil.NoSuchProcess):
                    memory.append((round(time.monotonic() - began, 1), round(service.measure()[0], 1)))

        disturbing = threading.Thread(target=go_on)
        disturbing.start()
        length = min(60.0, seconds)
        while time.monotonic() - began < seconds:
            events = requests.make_events(int(MIXED["events"] * length * 1.5), first)
            kinds = {
                "known": requests.known,
                "events": events,
                "history": requests.history,
                "session": requests.session,
            }
            streams = [Stream(name, MIXED[name], kinds[name]) for name in MIXED]
            for name, each in zip(MIXED, send_load(service.port, streams, length, seed=first), strict=True):
                answers[name].append(each)
            missing += count_missing(read, answers["events"][-1], first)
            first += len(events)
        is_done.set()
        disturbing.join()
        target.write_bytes(whole)
        wait_for(lambda: service.ask("/v1/model")["problem"] is None)
        is_well = all(service.ask("/v1/ready")["status"] == "ok" for _ in range(20))
    doubled = Counter(read())
    statuses = {
        name: dict(sum((Counter(map(str, each.statuses)) for each in some), Counter()))
        for name, some in answers.items()
    }
    documented = {"known": {"200", "0", "503"}, "events": {"200", "0", "503"}}
    return {
        "seconds": round(time.monotonic() - began),
        "rates": MIXED,
        "faults": dict(Counter(kind for _, kind in faults)),
        "statuses": statuses,
        "known": [each.summarize() for each in answers["known"]],
        "acknowledged": statuses["events"].get("200", 0),
        "missing": missing,
        "written": len(doubled),
        "megabytes": memory,
        "reached": missing == 0 and is_well and all(set(each) <= documented["known"] for each in statuses.values()),
    }


def measure_single(model: Path, state: Path, seconds: float) -> dict[str, Any]:
    """`recommend([user])` in process, of a million users with text ids."""
    n_users, n_items, rng = 1_000_000, 40_000, np.random.default_rng(0)
    path = state.parent / "million.csrr"
    if not path.exists():
        rows = np.repeat(np.arange(n_users), 8)
        columns = rng.zipf(1.3, len(rows)) % n_items
        users = np.array([f"user-{n:07d}" for n in range(n_users)], np.object_)[rows]
        table = {"user": users, "item": np.array([f"item-{n}" for n in range(n_items)], np.object_)[columns]}
        csrr.CSRR(reg_low_rank=0.3, max_rank=64, neighbors=20, reg_neighbors=1.0, max_iter=3).fit(table).save(path)
    fitted = csrr.load(path, mmap=True)
    fitted.warm_up()
    took = []
    asked = fitted.users_.ids[rng.integers(0, n_users, 3000)].tolist()
    for user in asked:
        started = time.perf_counter()
        fitted.recommend([user], 20)
        took.append(time.perf_counter() - started)
    p50, p90, p99 = np.quantile(1e3 * np.array(took), [0.5, 0.9, 0.99]).tolist()
    lists, wrong = fitted.recommend(asked[:300], 20), 0
    for place in range(300):
        row = np.array([fitted.users_.row(asked[place])])
        items, _ = top_k(fitted.score_rows, row, len(fitted.items_), 20, seen=fitted.seen_, order=fitted.item_order)
        wrong += lists.items[place].tolist() != fitted.items_.ids[items[0]].tolist()
    return {"users": n_users, "p50": p50, "p90": p90, "p99": p99, "wrong_lists_of_300": wrong, "reached": p50 < 0.3}


PARTS = {
    "known": measure_known,
    "history": measure_history,
    "overload": measure_overload,
    "swaps": measure_swaps,
    "bare": measure_bare,
    "faults": measure_faults,
    "database": measure_database,
    "single": measure_single,
}


def main() -> None:
    """Measure the parts, and write each as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="The parts; all without any.")
    parser.add_argument("--seconds", type=float, default=10, help="The length of a load.")
    parser.add_argument("--faults", type=float, default=600, help="The length of the load with faults.")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "csrr-serving", help="For models.")
    parser.add_argument("-o", "--output", type=Path, help="A JSON file to write; other parts in it stay.")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    model = given.folder / "gowalla.csrr"
    fit(model)
    for name in given.parts or PARTS:
        state = Path(tempfile.mkdtemp(prefix="state-", dir=given.folder))
        try:
            found = PARTS[name](model, state, given.faults if name in ("faults", "database") else given.seconds)
        finally:
            shutil.rmtree(state)
        found["machine"] = {"cores": available_cores(), "platform": platform.platform(), "load": os.getloadavg()}
        print(name, json.dumps(found), flush=True)
        if given.output is not None:
            before = json.loads(given.output.read_text()) if given.output.exists() else {}
            write_text(given.output, json.dumps(before | {name: found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
