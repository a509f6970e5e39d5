"""Large logs: growth on one machine, and the same fits by Dask's workers and by Spark's ALS.

    python -m benchmarks.scale make FOLDER --events 100e6 --users 1e6 --items 200e3
    python -m benchmarks.scale growth FOLDER...     one process: read, fit at rank 64 with neighbors
    python -m benchmarks.scale same                 threads and Dask, one after the other, on MovieLens-1M and Gowalla
    python -m benchmarks.scale search               the same with settings that each chooses
    python -m benchmarks.scale dask FOLDER          two workers of 3 GB each, rank 64 with neighbors, lists for all
    python -m benchmarks.scale spark FOLDER         MLlib's ALS in local mode at the same rank (pyspark and Java)
    python -m benchmarks.scale spark-gowalla        its NDCG@20 on Gowalla beside ours
    python -m benchmarks.scale kills                50 workers, 3 schedulers killed with -9, 5 workers stopped, one full

Each keeps what it measured in docs/results/scale.json. The log is made in parts on disk: users and items by power laws,
in 50 groups, 7 events of 10 within the user's group.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import csrr
from benchmarks.keep import RESULTS, describe_origin, keep_result
from benchmarks.measure import gowalla
from csrr._base.arrays import AnyArray

KEPT = RESULTS / "scale.json"
PART, GROUPS, WITHIN = 2_500_000, 50, 0.7
RANK, K = 64, 20
MODEL = {"cost_ratio": 2.0, "reg_low_rank": 0.1, "reg_sparse": 1.0, "max_rank": RANK, "max_iter": 5}
NEIGHBORS = {"neighbors": 20, "reg_neighbors": 3.0}
SAME = {
    "ml-1m": {"cost_ratio": 2.0, "reg_low_rank": 0.06, "reg_sparse": 1.0, "max_rank": 128},
    "gowalla": {"cost_ratio": 4.0, "reg_low_rank": 0.12, "reg_sparse": 1.0, "max_rank": 128},
}
SAME_NEIGHBORS = {"neighbors": 50, "reg_neighbors": 3.0}
DEFAULT = {"denoise": 0}
"""The default model, but for what needs all events in one place."""


def make(folder: Path, events: int, users: int, items: int, seed: int = 0) -> None:
    """Write a log in parts; pairs that repeat count once, so that it has a few per cent fewer events."""
    folder.mkdir(parents=True, exist_ok=True)
    for place, first in enumerate(range(0, events, PART)):
        path, size = folder / f"part-{place:04d}.parquet", min(PART, events - first)
        if path.exists():
            continue
        rng = np.random.default_rng((seed, place))
        user = (rng.random(size) ** 2 * users).astype(np.int64)
        item = (rng.random(size) ** 3 * items).astype(np.int64)
        own = rng.random(size) < WITHIN
        item[own] = np.minimum(item[own] // GROUPS * GROUPS + user[own] % GROUPS, items - 1)
        aside = path.with_suffix(".tmp")
        parquet.write_table(pa.table({"user": user, "item": item}), aside, row_group_size=PART)
        aside.replace(path)


def measure_growth(folder: Path, time_limit: float | None) -> dict[str, Any]:
    """Read a folder and fit, in this process: seconds and the peak of memory after each."""
    csrr.CSRR(**MODEL, **NEIGHBORS).fit(csrr.synthetic(300, 200).log)  # compiled loops
    began, used, base = time.perf_counter(), time.process_time(), _read_status("VmRSS")
    log = csrr.read(folder)
    found = {"events": len(log), "users": log.n_users, "items": log.n_items}
    found |= {"read_seconds": time.perf_counter() - began, "read_cpu": time.process_time() - used}
    found |= {"read_peak_gb": _read_status("VmHWM") - base, "log_gb": 8 * len(log) / 1e9}
    shown: list[float] = []
    began, used = time.perf_counter(), time.process_time()
    model = csrr.CSRR(**MODEL, **NEIGHBORS, time_limit=time_limit).fit(
        log, callback=lambda step: shown.append(step.seconds)
    )
    found |= {"fit_seconds": time.perf_counter() - began, "u_seconds": model.certificate_.seconds}
    found |= {"fit_cpu": time.process_time() - used}
    found |= {"time_limit": time_limit, "status": model.certificate_.status, "note": model.chosen_.note}
    found |= {"fit_peak_gb": _read_status("VmHWM"), "rank": model.rank_, "gap": model.certificate_.gap}
    return found | {"span_excess": model.certificate_.span_excess, "iterations": model.certificate_.iterations}


def _read_status(name: str) -> float:
    """A size of this process in GB, from Linux."""
    return int(next(line for line in open("/proc/self/status") if line.startswith(name)).split()[1]) * 1024 / 1e9


def split_of(name: str) -> tuple[csrr.Log, csrr.Log]:
    """Training and test events of a data set."""
    return gowalla() if name == "gowalla" else csrr.split(csrr.read("ml-1m.zip", min_rating=3), ratio=0.8, seed=0)


def write_events(log: csrr.Log, folder: Path, parts: int = 4) -> None:
    """Write a log as Parquet files, in no order."""
    folder.mkdir(parents=True)
    table = log.to_arrow()
    table = table.take(np.random.default_rng(0).permutation(len(table)))
    for place in range(parts):
        a, b = (len(table) * each // parts for each in (place, place + 1))
        parquet.write_table(table.slice(a, b - a), folder / f"part-{place}.parquet")


def measure_ndcg(users: AnyArray, lists: list[list[Any]], test: csrr.Log) -> float:
    """The mean NDCG@20 of lists by user id."""
    mine = dict(zip(users.tolist(), lists, strict=True))
    relevant: dict[Any, set[Any]] = {}
    for user, item in zip(
        test.users.ids[test.user_rows].tolist(), test.items.ids[test.item_rows].tolist(), strict=True
    ):
        relevant.setdefault(user, set()).add(item)
    gains = 1 / np.log2(np.arange(2, K + 2))
    values = []
    for user, wanted in relevant.items():
        found = sum(gains[place] for place, item in enumerate(mine.get(user, [])[:K]) if item in wanted)
        values.append(found / gains[: min(K, len(wanted))].sum())
    return float(np.mean(values))


def read_lists(folder: Path) -> tuple[AnyArray, list[list[Any]]]:
    """The lists in a folder of Parquet, by user."""
    table = parquet.read_table(folder).to_pandas().sort_values(["user", "rank"])
    grouped = table.groupby("user", sort=False)["item"].agg(list)
    return grouped.index.to_numpy(), grouped.tolist()


def measure_workers(engine: Any) -> float:
    """The seconds of processors that the workers have used."""
    import psutil

    pids = engine.client.run(os.getpid).values()
    return float(sum(sum(psutil.Process(each).cpu_times()[:2]) for each in pids))


def measure_same(name: str, engine: Any, params: dict[str, Any]) -> dict[str, Any]:
    """Threads and Dask at the same settings, one after the other, from files: seconds, and how alike they are.

    Seconds of processors do not depend on what else runs; those of Dask are this process's and the workers', without
    the scheduler's.
    """
    train, test = split_of(name)
    with tempfile.TemporaryDirectory() as home:
        events = Path(home) / "events"
        write_events(train, events)
        found: dict[str, Any] = {}
        # The first of two compiles; a search compiles a little of its time.
        for round_ in range(1 if params is DEFAULT else 2):
            began, used = time.perf_counter(), time.process_time()
            train = csrr.read(events)
            found["read_cpu"] = time.process_time() - used
            alone = csrr.CSRR(**params).fit(train)
            found["threads_cpu"] = time.process_time() - used
            found |= {"threads_seconds": time.perf_counter() - began, "threads_u": alone.certificate_.seconds}
            engine.list_workers()
            began, used, theirs = time.perf_counter(), time.process_time(), measure_workers(engine)
            model = csrr.CSRR(**params, engine=engine).fit(events)
            found |= {"dask_cpu": time.process_time() - used, "workers_cpu": measure_workers(engine) - theirs}
            found |= {"dask_seconds": time.perf_counter() - began, "dask_u": model.certificate_.seconds}
            del round_
        model.save(Path(home) / "model.csrr")
        csrr.write_lists(Path(home) / "model.csrr", Path(home) / "lists", k=K, client=engine)
        users, lists = read_lists(Path(home) / "lists")
    there = alone.recommend(users, k=K)
    overlap = np.mean([len(set(a) & set(b)) / K for a, b in zip(lists, there.items.tolist(), strict=True)])
    found |= {"objective_threads": alone.certificate_.primal, "objective_dask": model.certificate_.primal}
    found |= {"iterations": [alone.certificate_.iterations, model.certificate_.iterations], "overlap": float(overlap)}
    found |= {"ndcg_threads": measure_ndcg(there.users, there.items.tolist(), test)}
    chosen = [each.chosen_.settings._asdict() for each in (alone, model)]
    found |= {"settings_threads": chosen[0], "settings_dask": chosen[1]}
    return found | {"ndcg_dask": measure_ndcg(users, lists, test), "ratio_u": found["dask_u"] / found["threads_u"]}


def measure_dask(folder: Path, memory: str, neighbors: bool, lists: bool) -> dict[str, Any]:
    """A fit by two workers, and the lists of all users: seconds of each."""
    params = MODEL | (NEIGHBORS if neighbors else {"neighbors": 0})
    with (
        tempfile.TemporaryDirectory(dir=folder.parent) as home,
        csrr.open_dask(n_workers=2, memory_limit=memory, folder=Path(home) / "work") as engine,
    ):
        began = time.perf_counter()
        engine.list_workers()
        found: dict[str, Any] = {"start_seconds": time.perf_counter() - began, "memory": memory}
        stages: list[float] = []
        began, used, here = time.perf_counter(), measure_workers(engine), time.process_time()
        model = csrr.CSRR(**params, engine=engine).fit(
            folder, callback=lambda _: stages.append(time.perf_counter() - began)
        )
        found |= {"fit_seconds": time.perf_counter() - began, "until_first_step": stages[0]}
        found["fit_cpu"] = time.process_time() - here + measure_workers(engine) - used
        found |= {"events": model.chosen_.n_events, "u_seconds": model.certificate_.seconds, "rank": model.rank_}
        found |= {"worker_peaks_gb": {name: each / 1e9 for name, each in engine.peaks.items()}}
        found |= {"span_excess": model.certificate_.span_excess, "neighbors": int(neighbors) * NEIGHBORS["neighbors"]}
        if lists:
            began = time.perf_counter()
            model.save(Path(home) / "model.csrr")
            found["save_seconds"] = time.perf_counter() - began
            began = time.perf_counter()
            found["users"] = csrr.write_lists(Path(home) / "model.csrr", Path(home) / "lists", k=K, client=engine)
            found["list_seconds"] = time.perf_counter() - began
    return found


def open_spark() -> Any:
    """A session of Spark on two threads of this machine."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "6g")
    silent = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    for name, value in ({"spark.sql.shuffle.partitions": "8"} | silent).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def measure_children() -> float:
    """The seconds of processors that this process and those that it has started have used."""
    import psutil

    own = psutil.Process()
    return float(sum(sum(each.cpu_times()[:2]) for each in (own, *own.children(recursive=True))))


def measure_spark(folder: Path, iterations: int) -> dict[str, Any]:
    """MLlib's implicit ALS at the same rank, on a folder with integer ids: it needs no numbering."""
    from pyspark.ml.recommendation import ALS
    from pyspark.sql.functions import lit

    session = open_spark()
    began, used = time.perf_counter(), measure_children()
    events = session.read.parquet(str(folder)).distinct().withColumn("weight", lit(1.0)).cache()
    count = events.count()
    found = {"events": count, "read_seconds": time.perf_counter() - began, "read_cpu": measure_children() - used}
    began, used = time.perf_counter(), measure_children()
    columns = {"userCol": "user", "itemCol": "item", "ratingCol": "weight"}
    ALS(rank=RANK, maxIter=iterations, implicitPrefs=True, alpha=1.0, **columns).fit(events).itemFactors.count()
    found |= {"fit_seconds": time.perf_counter() - began, "fit_cpu": measure_children() - used}
    return found | {"iterations": iterations}


def measure_spark_gowalla() -> dict[str, Any]:
    """MLlib's ALS at rank 128 on Gowalla, the best of a few strengths by NDCG@20 on the test events themselves."""
    from pyspark.ml.recommendation import ALS

    train, test = gowalla()
    session = open_spark()
    rows, seen = [], train.to_csr()
    with tempfile.TemporaryDirectory() as home:
        table = pa.table({"user": train.user_rows, "item": train.item_rows, "weight": np.ones(len(train), np.float32)})
        parquet.write_table(table, Path(home) / "train.parquet")
        events = session.read.parquet(str(Path(home) / "train.parquet")).cache()
        for alpha, reg in ((1.0, 0.1), (10.0, 0.1), (40.0, 0.1)):
            began = time.perf_counter()
            given = {"implicitPrefs": True, "userCol": "user", "itemCol": "item", "ratingCol": "weight", "seed": 0}
            model = ALS(rank=128, maxIter=10, alpha=alpha, regParam=reg, **given).fit(events)
            users, items = (each.orderBy("id").toPandas() for each in (model.userFactors, model.itemFactors))
            seconds = time.perf_counter() - began
            left, right = np.stack(users["features"]), np.zeros((train.n_items, 128))
            right[items["id"].to_numpy()] = np.stack(items["features"])
            lists = []
            for first in range(0, len(left), 1000):
                of = users["id"].to_numpy()[first : first + 1000]
                scores = left[first : first + 1000] @ right.T
                mine = seen[of]
                scores[np.repeat(np.arange(len(of)), np.diff(mine.indptr)), mine.indices] = -np.inf
                best = np.argpartition(-scores, K, axis=1)[:, :K]
                order = np.argsort(-np.take_along_axis(scores, best, 1), axis=1)
                lists += train.items.ids[np.take_along_axis(best, order, 1)].tolist()
            ndcg = measure_ndcg(train.users.ids[users["id"].to_numpy()], lists, test)
            rows.append({"alpha": alpha, "reg": reg, "seconds": seconds, "ndcg": ndcg})
            print(rows[-1], flush=True)
    return {"rank": 128, "tried": rows, "ndcg": max(each["ndcg"] for each in rows)}


KILL = {"cost_ratio": 2.0, "l1": 4.0, "neighbors": 10, "reg_neighbors": 3.0, "tol": 1e-4}
KILLED = {
    "neighbors": KILL,
    "order": KILL | {"order": "next", "decay": [0.5, 0.8], "horizon": 0.3, "history_scaling": 0.0},
}
"""The models of the campaign of kills."""
STAGES = {
    "reading": ("sample_users", "spread_part"),
    "numbering": ("build_block",),
    "neighbors": ("copy_rows", "turn_block", "join_turned", "find_nearest", "cross_range", "solve_range"),
    "order": ("order_block", "map_sequences"),
    "lists": ("write_part_lists",),
}
"""The stages of a fit that are tasks, by the functions that workers call."""
OTHER_STAGES = ("step", "certificate", "saving")
NO_ROOM = {"max_rank": 256, "cost_ratio": 2.0, "l1": 1.0, "neighbors": 0, "max_iter": 3}


class Campaign:
    """Fits with saving and lists, again and again, whose processes are killed; nothing may differ from calm ones."""

    def __init__(self, home: Path, seed: int) -> None:
        self.home, self.rng, self.stage = home, np.random.default_rng(seed), ""
        log = csrr.synthetic(3000, 400, rank=6, events_per_user=30, seed=1).log
        times = np.random.default_rng(1).integers(0, 10**6, len(log))
        write_events(csrr.read({"user": log.user_rows, "item": log.item_rows, "time": times}), home / "events", parts=6)

    def watch(self, engine: Any) -> Any:
        """The engine, which says at any time what workers do."""
        from csrr.numerics import solver

        run, ask, compute_gap = engine.run_tasks, engine.ask, solver.compute_gap

        def run_tasks(work: Any, *args: Any, **kwargs: Any) -> Any:
            self.stage = next((name for name, works in STAGES.items() if work.__name__ in works), "other")
            return run(work, *args, **kwargs)

        def ask_watched(space: Any, join: str, work: Any, *args: Any) -> Any:
            if self.stage != "certificate":
                self.stage = "saving" if work.__name__ == "write_users" else "step"
            return ask(space, join, work, *args)

        def compute_watched(*args: Any, **kwargs: Any) -> Any:
            self.stage = "certificate"
            try:
                return compute_gap(*args, **kwargs)
            finally:
                self.stage = "step"

        engine.run_tasks, engine.ask = run_tasks, ask_watched
        solver.compute_gap = compute_watched
        try:
            yield engine
        finally:
            solver.compute_gap = compute_gap
            self.stage = ""

    def run(self, client: Any, kind: str, folder: Path, **options: Any) -> tuple[str, float]:
        """A digest of all files of a cycle, and the objective."""
        engine = csrr.open_dask(client, folder=folder / "work", block_events=8000, **options)
        with contextmanager(self.watch)(engine):
            model = csrr.CSRR(**KILLED[kind], engine=engine).fit(self.home / "events")
            model.save(folder / "model.csrr")
            csrr.write_lists(folder / "model.csrr", folder / "lists", k=K, client=engine)
        faded = model.fitted_.faded
        weights = model.neighbors_ if faded is None else faded.weights
        digest = hashlib.sha256(model.item_factors_.tobytes() + weights.data.tobytes())
        for name in ("model.csrr.users", "lists"):
            for path in sorted((folder / name).iterdir()):
                digest.update(path.name.encode() + str(parquet.read_table(path).to_pydict()).encode())
        left = {path.name for path in folder.iterdir()} - {"work", "model.csrr", "model.csrr.users", "lists"}
        return digest.hexdigest() + str(sorted(left)), model.certificate_.primal

    def make_folder(self, name: str) -> Path:
        """A new folder of a cycle."""
        folder = self.home / name
        folder.mkdir()
        return folder

    def wait_for(self, stage: str) -> bool:
        """Wait until a stage has gone on for a random moment; False where it does not come."""
        end = time.monotonic() + 120
        while self.stage != stage:
            if time.monotonic() > end:
                return False
            time.sleep(0.001)
        time.sleep(self.rng.uniform(0, 0.05))
        return True

    def disturb_workers(self, client: Any, kills: int, stops: int) -> dict[str, Any]:
        """Workers killed with -9, or stopped for two seconds, in random stages."""
        import psutil

        calm = {kind: self.run(client, kind, self.make_folder(f"calm-{kind}")) for kind in KILLED}
        nannies = list(client.run(os.getpid, nanny=True).values())
        done: dict[str, list[str]] = {"killed": [], "stopped": []}
        todo = ["killed"] * kills + ["stopped"] * stops
        self.rng.shuffle(todo)

        def disturb() -> None:
            for how in todo:
                while True:
                    self.wait_for(str(self.rng.choice([*STAGES, *OTHER_STAGES])))
                    at, alive = self.stage, []
                    for each in nannies:
                        children = [child for child in psutil.Process(each).children() if child.memory_info().rss > 1e8]
                        alive += children[:1]
                    if at and len(alive) > 1:
                        break
                worker = alive[self.rng.integers(len(alive))]
                if how == "stopped":
                    worker.suspend()
                    time.sleep(2)
                    worker.resume()
                else:
                    worker.kill()
                done[how].append(at)
                time.sleep(self.rng.uniform(0, 1))

        thread = threading.Thread(target=disturb, daemon=True)
        thread.start()
        cycles, wrong, failures = 0, 0, []
        while thread.is_alive():
            kind = list(KILLED)[cycles % len(KILLED)]
            folder = self.make_folder(f"cycle-{cycles}")
            try:
                wrong += self.run(client, kind, folder) != calm[kind]
            except Exception as error:
                failures.append(f"{type(error).__name__}: {error}"[:300])
            cycles += 1
            shutil.rmtree(folder)
            told = {how: len(each) for how, each in done.items()}
            print(f"{cycles} cycles, {told}, {wrong} wrong, failures {failures}", flush=True)
        stages = {how: {name: each.count(name) for name in sorted({*each})} for how, each in done.items()}
        self.calm = calm["neighbors"]
        return {"cycles": cycles, "wrong": wrong, "failures": failures, **stages, "kills": len(done["killed"])}

    def disturb_schedulers(self, client: Any, kills: int) -> dict[str, Any]:
        """Schedulers killed with -9; the fit goes on with another from what is in the folder."""
        wrong, at, failures = 0, [], []
        for place in range(kills):
            folder = self.make_folder(f"scheduler-{place}")
            stage = str(self.rng.choice(["reading", "numbering", "step", "certificate", "neighbors"]))
            engine = csrr.open_dask(n_workers=2)
            pid = engine.client.run_on_scheduler(os.getpid)

            def kill(stage: str = stage, pid: int = pid) -> None:
                self.wait_for(stage)
                at.append(self.stage)
                os.kill(pid, signal.SIGKILL)

            thread = threading.Thread(target=kill, daemon=True)
            thread.start()
            try:
                self.run(engine.client, "neighbors", folder)
                failures.append(f"{stage}: it ended as if nothing had happened")
            except Exception as error:
                if "--resume" not in str(error):
                    failures.append(f"{stage}: {type(error).__name__}: {error}"[:300])
            thread.join()
            engine.close()
            found, objective = self.run(client, "neighbors", folder, resume=True)
            same = abs(objective - self.calm[1]) <= 2 * KILL["tol"] * self.calm[1]
            wrong += not same or not found.endswith("[]")
            print(f"scheduler killed at {at[-1]}: {objective} and {self.calm[1]}, failures {failures}", flush=True)
        return {
            "scheduler_kills": kills,
            "scheduler_stages": at,
            "scheduler_wrong": wrong,
            "scheduler_failures": failures,
        }

    def fill_memory(self) -> dict[str, Any]:
        """What a fit says whose workers have too little memory."""
        make(self.home / "large", 2_000_000, 200_000, 2_000)
        try:
            with csrr.open_dask(n_workers=1, memory_limit="700MB") as engine:
                csrr.CSRR(**NO_ROOM, engine=engine).fit(self.home / "large")
        except RuntimeError as error:
            print(error)
            return {"full": str(error)}
        return {"full": ""}


def kill_at_random(kills: int, seed: int) -> dict[str, Any]:
    """Workers and schedulers killed, workers stopped, and one without memory."""
    with tempfile.TemporaryDirectory() as home, csrr.open_dask(n_workers=3) as engine:
        campaign = Campaign(Path(home), seed)
        found = campaign.disturb_workers(engine.client, kills, max(2, kills // 10))
        found |= campaign.disturb_schedulers(engine.client, max(2, kills // 15))
    with tempfile.TemporaryDirectory() as home:
        return found | Campaign(Path(home), seed).fill_memory() | {"seed": seed}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument(
        "what", choices=("make", "growth", "one", "same", "search", "dask", "spark", "spark-gowalla", "kills")
    )
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--events", type=float, default=1e6)
    parser.add_argument("--users", type=float, default=1e6)
    parser.add_argument("--items", type=float, default=200e3)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--memory", default="3GB")
    parser.add_argument("--time-limit", type=float)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--no-neighbors", action="store_true")
    parser.add_argument("--no-lists", action="store_true")
    given = parser.parse_args()

    def keep(name: str, found: dict[str, Any]) -> None:
        print(name, json.dumps(found, default=float), flush=True)
        origin = describe_origin(f"python -m benchmarks.scale {given.what}")
        keep_result(KEPT, name, found | {"load": Path("/proc/loadavg").read_text().split()[:2]} | origin)

    if given.what == "make":
        make(given.folders[0], int(given.events), int(given.users), int(given.items))
    elif given.what == "one":
        print(json.dumps(measure_growth(given.folders[0], given.time_limit), default=float))
    elif given.what == "growth":
        for folder in given.folders:
            command = [sys.executable, "-m", "benchmarks.scale", "one", str(folder)]
            command += ["--time-limit", str(given.time_limit)] * (given.time_limit is not None)
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            keep(f"growth {folder.name}", json.loads(done.stdout.splitlines()[-1]))
    elif given.what in ("same", "search"):
        with csrr.open_dask(n_workers=2) as engine:
            for name in map(str, given.folders or SAME):
                without = {"neighbors": 0} if given.no_neighbors else SAME_NEIGHBORS
                params = DEFAULT if given.what == "search" else SAME[name] | without
                keep(f"{given.what} {name}", measure_same(name, engine, params))
    elif given.what == "dask":
        name = f"dask {given.folders[0].name}{' without neighbors' * given.no_neighbors}"
        keep(name, measure_dask(given.folders[0], given.memory, not given.no_neighbors, not given.no_lists))
    elif given.what == "kills":
        keep("kills", kill_at_random(given.kills, seed=0))
    elif given.what == "spark":
        keep(f"spark {given.folders[0].name}", measure_spark(given.folders[0], given.iterations))
    else:
        keep("spark gowalla", measure_spark_gowalla())


if __name__ == "__main__":
    main()
