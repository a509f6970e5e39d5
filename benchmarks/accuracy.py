"""`CSRR()` without arguments and its rivals, each tuned, on the test data of every split.

    python -m benchmarks.accuracy measure [--data ml-1m ...] [--systems WRMF ...] [--splits 0 ...] --out LINES.gz
    python -m benchmarks.accuracy merge LINES.gz ...

A rival's parameters are those that climb highest on a tenth of each user's training events, held out, by the first
measure of the data set: from the best parameters known before, one step up or down a ladder at a time. With `--once`
it climbs on split 0 alone, and the other splits take what it found there: those training events hold test events of
theirs, and a search on each split may find better. With `--refit` nothing is searched: parameters found before are
fitted again, where only ours has changed and the lead over a rival is asked. `measure` runs each system on each split
as a process with cores of its own and writes a line of JSON as it ends, so that a run that was stopped goes on, and so
does a search that was cut short. `merge` puts the lines into docs/results/defaults.json.
"""

from __future__ import annotations

import argparse
import fcntl
import gzip
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import csrr
from benchmarks import rivals
from benchmarks.datasets import DATASETS
from benchmarks.keep import RESULTS, describe_origin, keep_result, read_results
from csrr.ranking.metrics import mark_hits, ndcg, recall
from csrr.ranking.topk import top_k

KEPT = RESULTS / "defaults.json"
EASE_ITEMS = 10_000
"""With more items EASE is computed on a GPU, if there is one."""
LARGE = ("gowalla", "amazon-cds")
"""Where EASE is left out without a GPU: 36,000 items take more than ten gigabytes a fit."""
SPARSE_ITEMS = 10_000
"""With more items SANSA's factors are kept sparse from the start."""
SPARSE_ENTRIES = 2_000_000
"""The entries kept of a factor of SANSA there: more is better and slower."""

Score = Callable[[Any], Any]
Params = dict[str, Any]
Ladder = tuple[Any, ...]


def score(scores: Score, train: Any, test: Any, measure: str) -> float:
    """The mean of "ndcg@k" or "recall@k" over users with test items."""
    return float(score_users(scores, train, test, measure).mean())


def score_users(scores: Score, train: Any, test: Any, measure: str) -> Any:
    """ "ndcg@k" or "recall@k" of each user with test items."""
    name, k = measure.split("@")
    counts = np.diff(test.indptr).astype(np.int64)
    rows = np.flatnonzero(counts)
    items, _ = top_k(scores, rows, test.shape[1], int(k), seen=train)
    hits = mark_hits(items, test, rows)
    return {"ndcg": ndcg, "recall": recall}[name](hits, counts[rows])


# Systems


class System(NamedTuple):
    """The ladders of a system's search, where it begins, and the fit at a place on them.

    `resolve` makes parameters of a place; `find` the place of parameters that were kept.
    """

    ladders: dict[str, Ladder]
    start: Params
    fit: Callable[[csrr.Log, Params], Score]
    resolve: Callable[[csrr.Log, Params], Params] = lambda log, place: place
    find: Callable[[csrr.Log, Params], Params] = lambda log, params: params
    needs: str = "csrr"


def _fit_ours(name: str) -> Callable[[csrr.Log, Params], Score]:
    return lambda log, params: getattr(csrr, name)(**params).fit(log).score_rows


def _fit_ease(log: csrr.Log, params: Params) -> Score:
    on = params.get("on")
    return (
        fit_ease_gpu(log, params["reg"])
        if on == "GPU"
        else csrr.EASE(params["reg"], dtype="float32").fit(log).score_rows
    )


def fit_ease_gpu(log: csrr.Log, reg: float, n_users: int = 4096) -> Score:
    """The scores of EASE on a GPU: B = I - P / diag(P), P = (X'X + reg*I)^-1, in single precision.

    The clicks of `n_users` users are multiplied at a time.
    """
    import torch

    clicks = log.to_csr().astype(np.float32)
    gram = torch.zeros(log.n_items, log.n_items, device="cuda")
    for first in range(0, log.n_users, n_users):
        block = torch.from_numpy(clicks[first : first + n_users].toarray()).cuda()
        gram += block.T @ block
    gram.diagonal().add_(reg)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(gram))
    weights = -inverse / inverse.diagonal()[None, :]
    weights.fill_diagonal_(0)
    return lambda rows: (torch.from_numpy(clicks[rows].toarray()).cuda() @ weights).cpu().numpy()


def _resolve_ease(log: csrr.Log, place: Params) -> Params:
    return {"reg": place["reg"]} | ({"on": "GPU"} if log.n_items > EASE_ITEMS and has_gpu() else {"dtype": "float32"})


def has_gpu() -> bool:
    """Whether PyTorch is installed and sees a GPU."""
    if find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def _resolve_wrmf(log: csrr.Log, place: Params) -> Params:
    rank = min(place["rank"], log.n_users, log.n_items)
    return {
        "rank": rank,
        "confidence": place["confidence"],
        "reg": place["multiple"] * _guess_reg(log, place["confidence"]),
        "reg_exponent": place["reg_exponent"],
    }


def _find_wrmf(log: csrr.Log, params: Params) -> Params:
    return params | {"multiple": params["reg"] / _guess_reg(log, params["confidence"])}


def _guess_reg(log: csrr.Log, confidence: float) -> float:
    return float(csrr.WRMF(confidence=confidence).start_value("reg", log))


def _resolve_bprmf(log: csrr.Log, place: Params) -> Params:
    return place | {"rank": min(place["rank"], log.n_users, log.n_items)}


def _resolve_knn(log: csrr.Log, place: Params) -> Params:
    similarity, weighting = place["kind"].split("/")
    return {"neighbors": place["neighbors"], "similarity": similarity, "weighting": weighting}


def _find_knn(log: csrr.Log, params: Params) -> Params:
    return {"neighbors": params["neighbors"], "kind": f"{params['similarity']}/{params['weighting']}"}


def _fit_als(log: csrr.Log, params: Params) -> Score:
    found = rivals.als(log.to_csr(), **params)
    return rivals.factor_scores(found.users, found.items)


def _resolve_als(log: csrr.Log, place: Params) -> Params:
    factors = min(place["factors"], log.n_users, log.n_items)
    return {"alpha": place["alpha"], "regularization": place["alpha"] * place["ratio"], "factors": factors}


def _find_als(log: csrr.Log, params: Params) -> Params:
    return params | {"ratio": params["regularization"] / params["alpha"]}


def _fit_sansa(log: csrr.Log, params: Params) -> Score:
    return rivals.sansa(log.to_csr(), **params)


def _resolve_sansa(log: csrr.Log, place: Params) -> Params:
    is_exact = log.n_items <= SPARSE_ITEMS
    return place | {"density": 0.1 if is_exact else SPARSE_ENTRIES / log.n_items**2, "exact": is_exact}


SYSTEMS = {
    "EASE": System(
        {"reg": (3.0, 10.0, 30.0, 100.0, 300.0, 600.0, 1200.0, 2400.0)},
        {"reg": 300.0},
        _fit_ease,
        _resolve_ease,
    ),
    "WRMF": System(
        {
            "confidence": (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 127.0),
            "multiple": (0.0875, 0.175, 0.35, 0.7, 1.4, 2.8),
            "reg_exponent": (0.0, 0.5, 1.0),
            "rank": (64, 128, 256, 512, 1024),
        },
        {"confidence": 16.0, "multiple": 0.7, "reg_exponent": 0.5, "rank": 256},
        _fit_ours("WRMF"),
        _resolve_wrmf,
        _find_wrmf,
    ),
    "ItemKNN": System(
        {"neighbors": (10, 20, 50, 100, 200, 400), "kind": ("cosine/none", "asymmetric/degree")},
        {"neighbors": 50, "kind": "cosine/none"},
        _fit_ours("ItemKNN"),
        _resolve_knn,
        _find_knn,
    ),
    "BPRMF": System(
        {
            "learning_rate": (0.0125, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8),
            "reg": (0.001, 0.003, 0.01, 0.03, 0.1),
            "reg_negative": (0.001, 0.003, 0.01, 0.05, 0.2),
            "rank": (32, 64, 128, 256, 512),
            "epochs": (100, 200, 400, 800),
        },
        {"learning_rate": 0.1, "reg": 0.01, "reg_negative": 0.05, "rank": 64, "epochs": 200},
        _fit_ours("BPRMF"),
        _resolve_bprmf,
    ),
    "implicit ALS": System(
        {
            "alpha": (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0),
            "ratio": (0.06, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0),
            "factors": (64, 128, 256, 512),
        },
        {"alpha": 8.0, "ratio": 4.0, "factors": 256},
        _fit_als,
        _resolve_als,
        _find_als,
        "implicit",
    ),
    "SANSA": System({"l2": (5.0, 10.0, 30.0, 100.0, 300.0)}, {"l2": 30.0}, _fit_sansa, _resolve_sansa, needs="sansa"),
    "PopRank": System({}, {}, _fit_ours("PopRank")),
}
CSRR = "CSRR"
"""Ours: it chooses its own parameters."""


# The search


class Search(NamedTuple):
    """The best parameters, every one that was tried with its value, and whether the search came to its end."""

    best: Params
    tried: list[tuple[Params, float]]
    is_whole: bool


def climb(
    ladders: dict[str, Ladder],
    start: Params,
    value: Callable[[Params], float],
    is_over: Callable[[], bool] = lambda: False,
    known: Iterable[tuple[Params, float]] = (),
) -> Search:
    """Move along one ladder at a time, up or down as long as the value rises, until no single step raises it.

    It begins at `start`, or at the best place whose value is `known`; these are not computed again.
    """
    names = list(ladders)
    tried = {tuple(ladders[name].index(place[name]) for name in names): each for place, each in known}

    def take(places: tuple[int, ...]) -> Params:
        return {name: ladders[name][place] for name, place in zip(names, places, strict=True)}

    def look(places: tuple[int, ...]) -> float:
        if places not in tried:
            tried[places] = value(take(places))
        return tried[places]

    best = tuple(find_place(ladders[name], start[name]) for name in names)
    if tried:
        best = max(tried, key=tried.__getitem__)
    look(best)
    rose = bool(names)
    while rose:
        rose = False
        for axis, name in enumerate(names):
            for step in (1, -1):
                while 0 <= best[axis] + step < len(ladders[name]) and not is_over():
                    after = (*best[:axis], best[axis] + step, *best[axis + 1 :])
                    if look(after) <= look(best):
                        break
                    best, rose = after, True
    is_whole = all(
        (*best[:axis], best[axis] + step, *best[axis + 1 :]) in tried
        for axis, name in enumerate(names)
        for step in (1, -1)
        if 0 <= best[axis] + step < len(ladders[name])
    )
    return Search(take(best), [(take(places), each) for places, each in tried.items()], is_whole)


def find_place(ladder: Ladder, value: Any) -> int:
    """The place of a value on a ladder, for a number the nearest one by its logarithm."""
    if isinstance(value, str) or value in ladder:
        return ladder.index(value)
    return min(range(len(ladder)), key=lambda at: abs(math.log(max(ladder[at], 1e-9) / max(value, 1e-9))))


def tune(
    name: str,
    system: str,
    seed: int,
    train: csrr.Log,
    kept: Params | None,
    seconds: float,
    known: Iterable[tuple[Params, float]] = (),
) -> Search:
    """The search for a rival's parameters on a tenth of each user's training events, from those kept before."""
    rival, measure = SYSTEMS[system], DATASETS[name].measures[0]
    part, held = csrr.split(train, ratio=0.9, seed=seed)
    shown, wanted = part.to_csr(), held.to_csr()
    began, longest = time.perf_counter(), 0.0

    def value(place: Params) -> float:
        nonlocal longest
        started = time.perf_counter()
        try:
            return score(rival.fit(part, rival.resolve(train, place)), shown, wanted, measure)
        except csrr.ParameterError:  # steps so long that factors grow without bound
            return -math.inf
        finally:
            longest = max(longest, time.perf_counter() - started)

    def is_over() -> bool:
        return time.perf_counter() - began + 2.5 * longest > seconds

    start = rival.start | (rival.find(train, kept) if kept else {})
    found = climb(rival.ladders, start, value, is_over, known)
    return found._replace(best=rival.resolve(train, found.best))


# A measurement, and all of them


def measure(
    name: str,
    system: str,
    seed: int,
    kept: Params | None,
    seconds: float = math.inf,
    known: Iterable[tuple[Params, float]] = (),
    given: Params | None = None,
) -> dict[str, Any]:
    """A system on the test data of a split: its parameters, the means of the measures, and those of each user.

    A rival whose parameters are `given` is not searched.
    """
    train, test = DATASETS[name].read(seed)
    facts: dict[str, Any]
    started = time.perf_counter()
    if system == CSRR:
        model = csrr.CSRR().fit(train)
        scores: Score = model.score_rows
        facts = {"settings": model.chosen_.settings._asdict(), "rank": model.rank_}
    else:
        search = Search(given, [], True) if given else tune(name, system, seed, train, kept, seconds, known)
        started = time.perf_counter()
        params, scores = fit_best(system, train, search)
        facts = {"params": params, "tried": search.tried, "whole": search.is_whole}
    facts["seconds"] = time.perf_counter() - started
    users = {each: score_users(scores, train.to_csr(), test.to_csr(), each) for each in DATASETS[name].measures}
    found = {each: float(values.mean()) for each, values in users.items()}
    rounded = {each: [round(float(value), 6) for value in values] for each, values in users.items()}
    return {"data": name, "split": seed, "system": system, "found": found, **facts, "users": rounded}


def fit_best(system: str, train: csrr.Log, search: Search) -> tuple[Params, Score]:
    """Fit a rival with its best parameters; where they diverge on all training events, with the next best."""
    rival = SYSTEMS[system]
    falling = sorted(search.tried, key=lambda each: each[1], reverse=True)
    for params in [search.best, *(rival.resolve(train, place) for place, _ in falling)]:
        try:
            return params, rival.fit(train, params)
        except csrr.ParameterError as error:
            refused = error
    raise refused


class Job(NamedTuple):
    """A system on a split."""

    data: str
    split: int
    system: str

    @property
    def cores(self) -> int:
        """The cores that it is given, so that the long ones do not end last."""
        if self.system == CSRR:
            return 3 if self.data in ("citeulike-a", "gowalla", "amazon-cds") else 1
        if self.system == "BPRMF":
            return {"gowalla": 4, "amazon-cds": 4, "ml-1m": 2, "ml-1m-time": 2}.get(self.data, 1)
        return 2 if self.system == "WRMF" and self.data in ("gowalla", "amazon-cds") else 1


def list_jobs(names: Sequence[str], systems: Sequence[str], splits: Sequence[int]) -> Iterator[Job]:
    """What is to be measured, in the order in which systems were named, and the first split of all data sets first."""
    for system in systems:
        for split in splits:
            for name in names:
                if split < DATASETS[name].seeds and _is_possible(system, name):
                    yield Job(name, split, system)


def _is_possible(system: str, name: str) -> bool:
    """Whether a system is installed, and made for these data."""
    if system == "EASE" and name in LARGE:
        return has_gpu()
    if system == "PopRank":
        return name.endswith("-time")
    return system == CSRR or find_spec(SYSTEMS[system].needs) is not None


def run(jobs: list[Job], out: Path, seconds: float, params: Path, *, once: bool, refit: bool) -> None:
    """Run jobs side by side, each a process on cores of its own, which adds a line to `out` if it ends in time.

    If `once`, a rival's later splits wait for the search on its first.
    """
    end = time.monotonic() + seconds
    every = os.sched_getaffinity(0)
    free, running = set(every), dict[Job, tuple["subprocess.Popen[bytes]", set[int]]]()
    searched = {job for job, line in read_lines([out]).items() if line.get("whole", True)}
    out.parent.mkdir(parents=True, exist_ok=True)
    while (jobs or running) and time.monotonic() < end:
        for job in [job for job in jobs if job not in running]:
            if once and job.system != CSRR and job.split and job._replace(split=0) not in searched:
                continue
            if len(free) < min(job.cores, len(every)):
                break  # or jobs of one core would keep it waiting for ever
            mine = {free.pop() for _ in range(min(job.cores, len(every)))}
            left = f"{end - time.monotonic():.0f}"
            command = [
                sys.executable,
                "-m",
                "benchmarks.accuracy",
                "one",
                *map(str, job),
                left,
                str(out),
                str(params),
                *(["--once"] if once else []),
                *(["--refit"] if refit else []),
            ]
            os.sched_setaffinity(0, mine)  # which the process inherits
            running[job] = subprocess.Popen(command), mine
            os.sched_setaffinity(0, every)
            jobs.remove(job)
        for job, (child, cores) in list(running.items()):
            if child.poll() is not None:
                free |= cores
                searched |= {job} if child.returncode == 0 and time.monotonic() < end else set()
                del running[job]
                print(f"{end - time.monotonic():.0f} s left: {tuple(job)}: {child.returncode}", flush=True)
        time.sleep(0.05)
    for job, (child, _) in running.items():
        child.kill()
        child.wait()
        print(f"{tuple(job)}: stopped", flush=True)
    print(f"not begun: {[tuple(job) for job in jobs]}", flush=True)


def read_lines(files: Sequence[Path]) -> dict[Job, dict[str, Any]]:
    """The last line of each job in these files."""
    lines = [json.loads(line) for file in files if file.exists() for line in _read_packed(file).splitlines()]
    return {Job(line["data"], line["split"], line["system"]): line for line in lines}


def _read_packed(file: Path) -> bytes:
    with file.open("rb") as lines:
        fcntl.flock(lines, fcntl.LOCK_SH)
        return gzip.decompress(lines.read())


def write_line(file: Path, line: dict[str, Any]) -> None:
    """Add a line to a file, packed by itself: what others add at the same time, or a stop, does it no harm."""
    with file.open("ab") as lines:
        fcntl.flock(lines, fcntl.LOCK_EX)
        lines.write(gzip.compress(json.dumps(line).encode() + b"\n"))


def measure_job(job: Job, seconds: float, out: Path, kept: Path, *, once: bool, refit: bool) -> None:
    """Measure a system on a split and add the line to `out`.

    A search that was cut short goes on. Another begins at the parameters found on another split, if there are any,
    or else at those kept before. If `once`, what was found on the first split is taken; if `refit`, what was kept.
    """
    lines = read_lines([out])
    known = lines[job]["tried"] if job in lines else ()
    before = read_results(kept).get(f"accuracy/{job.data}/{job.split}", {}).get("params", {}).get(job.system)
    others = (line["params"] for each, line in lines.items() if (each.data, each.system) == (job.data, job.system))
    start = before if job.system == CSRR else next(others, before)
    given = lines[job._replace(split=0)]["params"] if once and job.split and job.system != CSRR else None
    given = before if refit else given
    line = measure(job.data, job.system, job.split, start, seconds, known, given)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))  # the machine is described with all its cores
    write_line(out, line | describe_origin(f"python -m benchmarks.accuracy measure{' --refit' * refit}"))


# Into the results


def merge(row: dict[str, Any], lines: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What is kept of a split, with the lines of its systems, ours among them.

    `ahead` has by how much CSRR() is ahead of each rival, for each measure: the mean over users and its standard error.
    What was not measured now stays, the lead over it only where ours is the same as it was.
    """
    ours = lines[CSRR]
    before = row.get("found", {}).get(CSRR, {})
    is_same = all(
        math.isclose(before.get(each, math.nan), value, rel_tol=1e-6) for each, value in ours["found"].items()
    )
    ahead = dict(row.get("ahead", {})) if is_same else {}
    found, params, tried = (dict(row.get(each, {})) for each in ("found", "params", "tried"))
    for system, line in lines.items():
        found[system] = line["found"]
        if system == CSRR:
            continue
        params[system], tried[system] = line["params"], len(line["tried"]) or tried.get(system, 0)
        gains = {each: np.subtract(ours["users"][each], line["users"][each]) for each in ours["users"]}
        ahead[system] = {name: [gain.mean(), gain.std(ddof=1) / np.sqrt(len(gain))] for name, gain in gains.items()}
    origins: list[dict[str, Any]] = []
    for system, line in lines.items():
        origin = {each: line[each] for each in ("command", "machine", "when", "versions")}
        same = [each for each in origins if {name: each[name] for name in origin} == origin]
        if same:
            same[0]["systems"].append(system)
        else:
            origins.append(origin | {"systems": [system]})
    kept = [run | {"systems": [each for each in run["systems"] if each not in lines]} for run in row.get("runs", [])]
    origins.extend(run for run in kept if run["systems"])
    renewed = {"found": found, "params": params, "tried": tried, "ahead": ahead, "runs": origins}
    facts = {each: ours[each] for each in ("settings", "rank", "seconds")}
    others = {name: value for name, value in row.items() if name not in ("again", "ours on")}
    return others | renewed | facts


def merge_files(files: Sequence[Path], kept: Path) -> None:
    """Put what was measured into the results, split by split."""
    lines = read_lines(files)
    for name, split in dict.fromkeys((job.data, job.split) for job in lines):
        mine = {job.system: line for job, line in lines.items() if (job.data, job.split) == (name, split)}
        if cut := [system for system, line in mine.items() if not line.get("whole", True)]:
            print(f"{name}, split {split}: left out, for their search was cut short: {', '.join(cut)}")
        mine = {system: line for system, line in mine.items() if system not in cut}
        if CSRR not in mine:
            print(f"{name}, split {split}: left out, for CSRR() was not measured with them")
            continue
        key = f"accuracy/{name}/{split}"
        keep_result(kept, key, merge(read_results(kept).get(key, {}), mine))
        print(f"{key}: {', '.join(mine)}")


def main() -> None:
    """Measure systems on splits, or put what was measured into the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=main.__doc__)
    parsers = parser.add_subparsers(dest="command", required=True)
    measuring = parsers.add_parser("measure", help="run systems on splits, in parallel")
    measuring.add_argument("--data", nargs="+", choices=list(DATASETS), default=list(DATASETS))
    measuring.add_argument("--systems", nargs="+", choices=[CSRR, *SYSTEMS], default=[CSRR, *SYSTEMS])
    measuring.add_argument("--splits", nargs="+", type=int, default=list(range(5)))
    measuring.add_argument("--jobs", nargs="+", metavar="DATA:SYSTEM", help="these, in this order; DATA may be all")
    measuring.add_argument("--once", action="store_true", help="search on the first split alone")
    measuring.add_argument("--refit", action="store_true", help="search nothing: with the parameters kept before")
    measuring.add_argument("--out", type=Path, required=True)
    measuring.add_argument("--seconds", type=float, default=1e9, help="stop after so long")
    measuring.add_argument("--json", type=Path, default=KEPT, help="where searches find the parameters kept before")
    one = parsers.add_parser("one")
    for name, kind in (
        ("data", str),
        ("split", int),
        ("system", str),
        ("seconds", float),
        ("out", Path),
        ("json", Path),
    ):
        one.add_argument(name, type=kind)
    one.add_argument("--once", action="store_true")
    one.add_argument("--refit", action="store_true")
    merging = parsers.add_parser("merge", help="put what was measured into the results")
    merging.add_argument("files", nargs="+", type=Path)
    merging.add_argument("--json", type=Path, default=KEPT)
    asked = parser.parse_args()
    if asked.command == "merge":
        merge_files(asked.files, asked.json)
    elif asked.command == "one":
        measure_job(
            Job(asked.data, asked.split, asked.system),
            asked.seconds,
            asked.out,
            asked.json,
            once=asked.once,
            refit=asked.refit,
        )
    else:
        pairs = [each.split(":") for each in asked.jobs or ()]
        first = [
            job
            for name, system in pairs
            for job in list_jobs(asked.data if name == "all" else [name], [system], asked.splits)
        ]
        jobs = dict.fromkeys(first or list_jobs(asked.data, asked.systems, asked.splits))
        done = {job for job, line in read_lines([asked.out]).items() if line.get("whole", True)}
        run(
            [job for job in jobs if job not in done],
            asked.out,
            asked.seconds,
            asked.json,
            once=asked.once,
            refit=asked.refit,
        )


if __name__ == "__main__":
    main()
