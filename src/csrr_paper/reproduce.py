"""Runs of the paper's experiments: the plan with an estimate of the time, then job by job; each result is saved."""

from __future__ import annotations

import json
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from csrr._base.files import write_text
from csrr._base.text import format_duration, to_plain
from csrr._base.threads import available_cores
from csrr.data.errors import DataError
from csrr.data.log import Log
from csrr.data.read import read
from csrr.data.sources import DATASETS, data_dir, locate
from csrr.data.split import split
from csrr.evaluation.evaluate import evaluate
from csrr.evaluation.tuning import tune
from csrr.models.base import Recommender
from csrr.models.csrr_base import CSRRBase
from csrr.parameters import Choice, ParameterError
from csrr_paper.jobs import FIGURES, QUICK_SPLITS, SPLITS, TABLES, Experiment, ExperimentName, Job, is_in_paper
from csrr_paper.printed import DATA, LENGTHS, PROTOCOLS
from csrr_paper.results import MEASURED, Lists, Result, ResultStore, Task, read_json
from csrr_paper.systems import COMPARED

RATIO = 0.8
VALIDATION_RATIO, VALIDATION_METRIC = 0.9, "ndcg@10"

Tuned = Literal["each", "once"]
TUNED_EACH_UP_TO = 200_000
"""The largest number of ratings for which, by default, every split is tuned on its own training data."""

_SIZE = {"ml-100k": 100_000, "ml-1m": 1_000_000, "eachmovie": 1_000_000}
"""The approximate number of ratings of the data sets, for estimates."""

_READ_SECONDS = 8


@dataclass(frozen=True)
class Progress:
    """The progress of a run: results done, results in all, the current job, and the remaining seconds, estimated."""

    done: int
    total: int
    now: str
    seconds_left: float

    def __str__(self) -> str:
        left = f", about {format_duration(self.seconds_left)} left" if self.seconds_left else ""
        return f"{self.done} of {self.total}{left}: {self.now}"


def plan(
    names: Sequence[ExperimentName] = (),
    *,
    data: Sequence[str] = (),
    protocols: Sequence[str] = (),
    systems: Sequence[str] = (),
    splits: int | None = None,
    quick: bool = False,
) -> list[Experiment]:
    """Return the tables and figures of these names, by default all, on the data and by the protocols given.

    Unless both are named, a table or figure is taken on the data where the paper has it: see `is_in_paper`. A quick
    run has MovieLens-100K, the protocol "numbers" and two splits unless others are given.
    """
    names = list(dict.fromkeys(names))
    data, protocols, systems = (list(dict.fromkeys(each)) for each in (data, protocols, systems))
    given: list[tuple[str, Sequence[str], Iterable[str]]] = [
        ("names", names, (*TABLES, *FIGURES)),
        ("data", data, DATA),
    ]
    for name, several, known in (*given, ("protocols", protocols, PROTOCOLS), ("systems", systems, COMPARED)):
        for each in several:
            Choice(name=name, words=tuple(known)).check(each)
    n_splits = (QUICK_SPLITS if quick else SPLITS) if splits is None else splits
    if n_splits < 1:
        raise ParameterError.of("splits", splits, "must be at least 1")
    chosen = [
        Experiment(name, each, protocol, tuple(range(n_splits)), tuple(systems) or COMPARED, quick)
        for protocol in protocols or (("numbers",) if quick else tuple(PROTOCOLS))
        for name in names or (*TABLES, *FIGURES)
        for each in data or (("ml-100k",) if quick else tuple(DATA))
        if is_in_paper(name, each, protocol) or (names and data and (protocols or protocol == "numbers"))
    ]
    if not chosen:
        raise ParameterError("the paper has none of that; name the table or figure and the data to run it all the same")
    return chosen


def find_missing_data(experiments: Iterable[Experiment]) -> dict[str, str]:
    """Return the missing data sets, and for each where to get it and where to put it."""
    missing = {}
    for name in dict.fromkeys(each.data for each in experiments):
        if locate(name) is None:
            known = DATASETS[name]
            missing[name] = f"{known.file} ({known.description}) is not in {data_dir()}: {known.how_to_get}"
    return missing


def check_data(experiments: Iterable[Experiment]) -> None:
    """Raise a DataError that names every missing file, where to get it and where to put it."""
    if missing := find_missing_data(experiments):
        raise DataError("; ".join(missing.values()) + "; CSRR_DATA_DIR names the folder; --data chooses other data")


class Reproduction:
    """A run with a folder of results; jobs with a result are not run again."""

    def __init__(
        self,
        store: ResultStore,
        experiments: Sequence[Experiment],
        *,
        tuned: Tuned | None = None,
        threads: int | None = None,
    ) -> None:
        self.store = store
        self.experiments: list[Experiment] = list(experiments)
        self.tuned = tuned
        self.threads = threads
        jobs = [job for each in self.experiments for job in each.list_jobs()]
        self.jobs: list[Job] = list({(job.data, job.at_least, job.split, job.name): job for job in jobs}.values())
        self.quick: bool = any(each.quick for each in self.experiments)
        self._done: dict[tuple[Any, ...], Result] = {}
        self._chosen_params: dict[str, dict[str, Any]] = {}

    # Estimates

    def estimate_seconds_left(self) -> float:
        """Return an estimate of the time of the jobs without results, from the times of those with results."""
        todo = [job for job in self.jobs if self.find_result(job) is None]
        done = [job for job in self.jobs if self.find_result(job) is not None]
        reading = _READ_SECONDS * len({(job.data, job.at_least) for job in todo})
        return self._estimate(todo) * self._measure_slowness(done) + reading

    def _estimate(self, jobs: Iterable[Job], *, anew: bool = False) -> float:
        """Return the seconds of fitting, and of tuning that has not been done (or, with `anew`, of all tuning)."""
        seconds, tuned = 0.0, set[str]()
        for job in jobs:
            key = self._make_tuning_key(job)
            if key not in tuned and (anew or not self._get_chosen_file(key).exists()):
                seconds += job.system.count_fits(quick=self.quick) * job.system.seconds * _SIZE[job.data] / 1e6
            tuned.add(key)
            seconds += (job.seconds or job.system.seconds) * _SIZE[job.data] / 1e6
        return seconds

    def _measure_slowness(self, done: Sequence[Job]) -> float:
        """Return the time of these jobs as a multiple of the estimate; for fewer than ten jobs, 2 / cores."""
        if len(done) < 10:
            return 2 / min(available_cores(), 2)
        results = [result for job in done if (result := self.find_result(job)) is not None]
        tuning = {
            self._make_tuning_key(job): (result.tuning or {}).get("seconds", 0.0)
            for job, result in zip(done, results, strict=True)
        }
        taken = sum(result.seconds["fit"] + result.seconds["evaluate"] for result in results) + sum(tuning.values())
        return float(taken / self._estimate(done, anew=True))

    # The run

    def run(
        self, callback: Callable[[Progress], object] | None = None, *, workers: int = 1
    ) -> list[tuple[Job, Exception]]:
        """Do every job without a result, save each result before the next job begins, and return the failed jobs.

        A fit that cannot be done, or not with the memory there is, does not keep the others from being done. With
        several `workers` jobs are shared out to processes, each with its part of the cores.
        """
        with self.store.note_run(workers, lambda: len(self.list_results())):
            return self._run_here(callback) if workers == 1 else self._run_in_processes(callback, workers)

    def _run_here(self, callback: Callable[[Progress], object] | None) -> list[tuple[Job, Exception]]:
        failed: list[tuple[Job, Exception]] = []
        for done, job in enumerate(self.jobs):

            def tell(what: str, done: int = done, job: Job = job) -> None:
                if callback is not None:
                    now = f"{_describe_job(job)}: {what}"
                    callback(Progress(done, len(self.jobs), now, self.estimate_seconds_left()))

            if self.find_result(job) is None and (error := self.try_job(job, tell)) is not None:
                failed.append((job, error))
        return failed

    def _run_in_processes(
        self, callback: Callable[[Progress], object] | None, workers: int
    ) -> list[tuple[Job, Exception]]:
        """Return groups of jobs for processes, those with one choice of parameters together, the longest first."""
        groups: dict[str, list[int]] = {}
        for place, job in enumerate(self.jobs):
            if self.find_result(job) is None:
                groups.setdefault(self._make_tuning_key(job), []).append(place)
        longest = sorted(groups.values(), key=lambda each: -self._estimate(self.jobs[place] for place in each))
        threads = max(1, available_cores() // workers)
        work = partial(do_jobs, str(self.store.folder), self.experiments, self.tuned, threads)
        done, failed = len(self.list_results()), []
        for place, error in _do_in_processes(work, longest, workers):
            job, done = self.jobs[place], done + 1
            if error is not None:
                failed.append((job, error))
            if callback is not None:
                left = self.estimate_seconds_left() / workers
                callback(Progress(done, len(self.jobs), _describe_job(job), left))
        return failed

    def try_job(self, job: Job, tell: Callable[[str], None]) -> Exception | None:
        """Do a job; return why it cannot be done, or None."""
        try:
            self._do(job, tell)
        except (ParameterError, np.linalg.LinAlgError, MemoryError) as error:
            return error
        return None

    def list_results(self) -> list[Result]:
        """Return the existing results, in the order of the jobs."""
        return [result for job in self.jobs if (result := self.find_result(job)) is not None]

    def find_result(self, job: Job) -> Result | None:
        """Return the result of a job, or None if there is none."""
        key = (job.data, job.at_least, job.split, job.name)
        if key not in self._done and self._is_tuned(job):
            found = self.store.find(self.make_task(job))
            if found is not None:
                self._done[key] = found
        return self._done.get(key)

    def make_task(self, job: Job) -> Task:
        """Return the task that identifies the result of a job with chosen parameters."""
        return Task(job.data, job.at_least, job.split, job.name, job.change(self._read_chosen(job)["params"]))

    def _do(self, job: Job, tell: Callable[[str], None]) -> None:
        log = read_log(job.data, job.at_least)
        chosen = self._tune(job, log, tell)
        train, test = split(log, ratio=RATIO, seed=job.split)
        task = self.make_task(job)
        tell("fitting")
        began = time.perf_counter()
        model = _limit(job.system.model(**task.params), self.threads).fit(train)
        fitted = time.perf_counter()
        tell("testing")
        found = evaluate(model, train, test, at=LENGTHS, metrics=MEASURED, threads=self.threads)
        certificate = getattr(model, "certificate_", None)
        result = Result(
            task,
            found.means,
            found.n_users,
            found.n_left_out,
            {"users": log.n_users, "items": log.n_items, "events": len(log)},
            {"fit": fitted - began, "evaluate": time.perf_counter() - fitted},
            chosen["tuning"],
            certificate and to_plain(certificate.to_dict()),
            model={"kind": type(model).__name__, "params": model.get_params()},
        )
        self.store.keep(result, Lists(found.users, found.hits, found.n_relevant))

    # Parameters

    def _choose_tuned_split(self, job: Job) -> int:
        each = self.tuned or ("each" if _SIZE[job.data] <= TUNED_EACH_UP_TO else "once")
        return job.split if each == "each" else 0

    def _make_tuning_key(self, job: Job) -> str:
        space = {"quick": self.quick, "space": repr(job.system.list_tried(quick=self.quick))}
        split, params = self._choose_tuned_split(job), job.system.fixed | space
        return Task(job.data, job.at_least, split, job.system.name, params).key

    def _is_tuned(self, job: Job) -> bool:
        """Return whether the job's parameters have been chosen, if there are any to choose."""
        return not job.system.space or self._get_chosen_file(self._make_tuning_key(job)).exists()

    def _get_chosen_file(self, key: str) -> Path:
        return self.store.folder / "tuning" / f"{key}.json"

    def _read_chosen(self, job: Job) -> dict[str, Any]:
        """Return the parameters that were chosen for the job's system, and a description of the choice."""
        if not job.system.space:
            return {"params": dict(job.system.fixed), "tuning": None}
        key = self._make_tuning_key(job)
        if key not in self._chosen_params:
            self._chosen_params[key] = read_json(self._get_chosen_file(key), "params", "tuning")
        return self._chosen_params[key]

    def _tune(self, job: Job, log: Log, tell: Callable[[str], None]) -> dict[str, Any]:
        """Return the parameters of the job's system; choose them now if necessary."""
        key, system = self._make_tuning_key(job), job.system
        file = self._get_chosen_file(key)
        if self._is_tuned(job):
            return self._read_chosen(job)
        tell("tuning")
        train, _ = split(log, ratio=RATIO, seed=self._choose_tuned_split(job))
        found = tune(
            system.model(**system.fixed),
            train,
            space=system.list_tried(quick=self.quick),
            metric=VALIDATION_METRIC,
            trials=10_000,
            ratio=VALIDATION_RATIO,
            seed=0,
            storage=file.with_suffix(".journal"),
            defaults=False,
            threads=self.threads,
            callback=lambda so_far: tell(f"tuning, {len(so_far.trials)} of {so_far.total}"),
        )
        tuning = {
            "metric": found.metric,
            "value": found.best_value,
            "tried": sum(each.points for each in found.trials),
            "seconds": sum(each.seconds for each in found.trials),
            "split": self._choose_tuned_split(job),
        }
        params = system.fixed | found.best.params
        if system.absolute:
            kept, _ = split(train, ratio=VALIDATION_RATIO, seed=0)
            model = system.model(**params)
            assert isinstance(model, CSRRBase)
            params = {name: value for name, value in params.items() if name != "reg_low_rank"}
            params["l1"] = float(f"{model.strength(kept):.4g}")
        chosen = {"params": params, "tuning": tuning}
        write_text(file, json.dumps(chosen, indent=1))
        return chosen


def do_jobs(
    folder: str, experiments: list[Experiment], tuned: Tuned | None, threads: int, places: list[int]
) -> list[tuple[int, Exception | None]]:
    """Do some jobs of a run to whose folder other processes write too; return the failures, by place."""
    run = Reproduction(ResultStore(Path(folder)), experiments, tuned=tuned, threads=threads)
    return [(place, run.try_job(run.jobs[place], lambda _: None)) for place in places]


def _limit(model: Recommender, threads: int | None) -> Recommender:
    """Return the model, limited to a number of threads if it has this parameter."""
    if threads is not None and "threads" in model.get_params():
        model.set_params(threads=threads)
    return model


def _describe_job(job: Job) -> str:
    return f"{DATA[job.data].label}, {job.protocol}, split {job.split}, {job.name}"


def read_log(data: str, at_least: float | None) -> Log:
    """Return the positive ratings of a data set; the last two stay in memory."""
    return _read_file(str(locate(data)), at_least)


@lru_cache(maxsize=2)
def _read_file(path: str, at_least: float | None) -> Log:
    return read(path, min_rating=at_least)


class WorkerError(RuntimeError):
    """A process ended before its work was done."""


def _do_in_processes(
    work: Callable[[list[int]], list[tuple[int, Exception | None]]], groups: list[list[int]], workers: int
) -> Iterator[tuple[int, Exception | None]]:
    """Yield what `work` returns for each of the groups of jobs, in the order in which they are done.

    The processes are new ones, so that no thread of this one is copied, and leave Ctrl-C to this one. They end with
    this generator, whatever ends it.
    """
    context = multiprocessing.get_context("spawn")
    before = {child.pid for child in multiprocessing.active_children()}
    pool = ProcessPoolExecutor(workers, context, signal.signal, (signal.SIGINT, signal.SIG_IGN))
    try:
        for future in as_completed([pool.submit(work, group) for group in groups]):
            yield from future.result()
        pool.shutdown()
    except BrokenProcessPool as error:
        raise WorkerError(
            "a worker was ended from outside, perhaps for want of memory; start again with fewer workers"
        ) from error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            if child.pid not in before:
                child.terminate()
