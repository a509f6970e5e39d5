"""Runs the cases of a campaign in processes of their own, watches them, and keeps what was found.

A case is drawn from (seed, number), so a run can be broken off and taken up again, and any case be made again. A
process that crashes or hangs costs one case: another takes over behind it.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.campaign import Campaign

_START_UP = 300.0
_BATCH_SECONDS, _LARGEST_BATCH = 2.0, 2000


@dataclass(frozen=True)
class Failure:
    """A case that failed: what csrr did, and the bytes to do it again."""

    number: int
    what: str
    case: bytes


@dataclass
class Progress:
    """How far a campaign has come: resumed from, and printed."""

    campaign: str
    seed: int
    next: int = 0
    open: list[tuple[int, int]] = field(default_factory=list)
    done: int = 0
    failed: int = 0
    seconds: float = 0.0

    @classmethod
    def resume(cls, file: Path, campaign: str, seed: int) -> Progress:
        """What the file says of this campaign and seed, or a start from nothing."""
        if file.is_file():
            kept = cls(**json.loads(file.read_text()))
            kept.open = [(first, stop) for first, stop in kept.open]
            return kept
        return cls(campaign, seed)

    def save(self, file: Path) -> None:
        """Write it where `resume` looks."""
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        part.write_text(json.dumps(asdict(self)))
        os.replace(part, file)


def draw(campaign: Campaign, seed: int, number: int) -> bytes:
    """The case of a number."""
    return campaign.make(np.random.default_rng([seed, number]))


def try_case(campaign: Campaign, case: bytes) -> str | None:
    """What goes wrong with a case, as text; None where nothing does."""
    folder = Path(tempfile.mkdtemp(prefix="csrr-fuzz-"))
    try:
        campaign.check(case, folder)
    except Exception as error:
        return "".join(traceback.format_exception(error, limit=-6)).strip()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return None


def shrink(campaign: Campaign, case: bytes, seconds: float = 10.0) -> bytes:
    """A shorter case that fails with the same last line, found by leaving pieces out."""
    sought, end = _last_line(try_case(campaign, case)), time.monotonic() + seconds
    piece = len(case) // 2
    while sought and piece and time.monotonic() < end:
        start = 0
        while start < len(case) and time.monotonic() < end:
            shorter = case[:start] + case[start + piece :]
            if _last_line(try_case(campaign, shorter)) == sought:
                case = shorter
            else:
                start += piece
        piece //= 2
    return case


def run(
    campaign: Campaign,
    *,
    seed: int,
    seconds: float,
    cases: int | None,
    workers: int,
    state: Path,
    say: Callable[[str], object],
    report: Callable[[Failure], object],
) -> Progress:
    """Run cases until the seconds are over or `cases` are done in all, those of earlier runs counted."""
    progress = Progress.resume(state, campaign.name, seed)
    began, before = time.monotonic(), progress.seconds
    waiting = deque(progress.open)
    crew: list[_Worker] = []
    size, said = 1, began
    try:
        for cores in _share_cores(workers):
            crew.append(_Worker(campaign, seed, cores))
            if len(crew) == 1:  # what it compiles, the others find compiled
                crew[0].wait_until_ready()
        while True:
            now = time.monotonic()
            progress.seconds = before + now - began
            over = now - began > seconds or (cases is not None and progress.done >= cases)
            for worker in crew:
                if worker.idle and not over:
                    if not waiting:
                        stop = progress.next + (size if cases is None else min(size, max(0, cases - progress.next)))
                        if stop == progress.next:
                            continue
                        waiting.append((progress.next, stop))
                        progress.next = stop
                    worker.begin(*waiting.popleft())
            busy = [worker for worker in crew if not worker.idle]
            if not busy:
                break
            for worker in busy:
                for failure in worker.look():
                    progress.failed += 1
                    report(failure)
                if worker.idle:
                    progress.done += worker.finished
                    rate = worker.finished / max(worker.took, 1e-3)
                    size = int(np.clip(rate * _BATCH_SECONDS, 1, _LARGEST_BATCH))
            progress.open = [*waiting, *(worker.left for worker in crew if not worker.idle)]
            if now - said > 30:
                said = now
                progress.save(state)
                say(f"{campaign.name}: {progress.done:,} cases, {progress.failed} failed, {progress.seconds:,.0f} s")
            wait([worker.pipe for worker in busy], timeout=0.5)
    finally:
        for worker in crew:
            worker.end()
        progress.save(state)
    return progress


class _Worker:
    """A process that tries cases, started again where it crashes or hangs."""

    def __init__(self, campaign: Campaign, seed: int, cores: set[int]) -> None:
        self._campaign, self._seed, self._cores = campaign, seed, cores
        self._context = multiprocessing.get_context("spawn")
        self._at: Any = self._context.RawArray("d", 2)  # the case at hand, and since when
        self.idle, self.finished, self.took = True, 0, 0.0
        self.left = (0, 0)
        self._start()

    def _start(self) -> None:
        self.pipe, theirs = self._context.Pipe()
        self._at[0], self._at[1] = -1, time.monotonic() + _START_UP
        self.process: BaseProcess = self._context.Process(
            target=_work, args=(self._campaign, self._seed, theirs, self._at), daemon=False
        )
        with _on_cores(self._cores):
            self.process.start()
        theirs.close()

    def wait_until_ready(self) -> None:
        """Return once the process has prepared its campaign."""
        if not self.pipe.poll(_START_UP):
            raise RuntimeError(f"{self._campaign.name}: a process was not ready after {_START_UP:.0f} seconds")
        self.look()

    def begin(self, first: int, stop: int) -> None:
        """Hand it the cases `first` to `stop`."""
        self.idle, self.left, self._began, self._first = False, (first, stop), time.monotonic(), first
        self.pipe.send((first, stop))

    def look(self) -> list[Failure]:
        """What it found since the last look; `idle` once its cases are done."""
        found: list[Failure] = []
        try:
            while self.pipe.poll():
                message = self.pipe.recv()
                if isinstance(message, Failure):
                    found.append(message)
                elif message == "done":
                    self._done()
                    return found
        except (EOFError, ConnectionError):
            self.process.join()
            found += self._lost(f"the process ended with exit code {self.process.exitcode}")
            return found
        if self._at[0] >= 0 and time.monotonic() - self._at[1] > self._campaign.patience:
            self.process.kill()
            self.process.join()
            found += self._lost(f"no answer after {self._campaign.patience:.0f} seconds")
        elif self._at[0] < 0 and time.monotonic() > self._at[1]:
            raise RuntimeError(f"{self._campaign.name}: a process was not ready after {_START_UP:.0f} seconds")
        return found

    def _lost(self, what: str) -> list[Failure]:
        number = int(self._at[0])
        if number < 0:
            raise RuntimeError(f"{self._campaign.name}: {what} before its first case")
        self._start()
        if number + 1 < self.left[1]:
            self.left = (number + 1, self.left[1])
            self.pipe.send(self.left)
        else:
            self._done()
        return [Failure(number, what, draw_here(self._campaign, self._seed, number))]

    def _done(self) -> None:
        self.idle, self.finished = True, self.left[1] - self._first
        self.took = time.monotonic() - self._began

    def end(self) -> None:
        """Stop the process."""
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self.pipe.close()


def _share_cores(workers: int) -> list[set[int]]:
    """The cores of each worker, so that its threads do not take those of the others; empty where any will do."""
    if workers == 1 or not hasattr(os, "sched_getaffinity"):
        return [set()] * workers
    cores = sorted(os.sched_getaffinity(0))
    return [set(cores[place::workers]) or {cores[place % len(cores)]} for place in range(workers)]


@contextmanager
def _on_cores(cores: set[int]) -> Iterator[None]:
    """Bind the processes that are started in the block to these cores; to none where there are no cores."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


_ready: set[str] = set()


def draw_here(campaign: Campaign, seed: int, number: int) -> bytes:
    """The case of a number, drawn in this process."""
    if campaign.name not in _ready:
        campaign.prepare()
        _ready.add(campaign.name)
    return draw(campaign, seed, number)


def _work(campaign: Campaign, seed: int, pipe: Connection, at: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open(os.devnull, "w") as nothing:
        sys.stdout = nothing
        campaign.prepare()
        pipe.send("ready")
        while True:
            try:
                first, stop = pipe.recv()
            except EOFError:
                return
            for number in range(first, stop):
                at[0], at[1] = number, time.monotonic()
                case = draw(campaign, seed, number)
                at[1] = time.monotonic()
                if what := try_case(campaign, case):
                    pipe.send(Failure(number, what, case))
            pipe.send("done")


def _last_line(text: str | None) -> str:
    return text.splitlines()[-1] if text else ""
