"""Work on several threads, within a time limit."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import pairwise
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from threadpoolctl import LibController, ThreadpoolController

_deadline: ContextVar[float] = ContextVar("csrr_deadline", default=math.inf)
_cut: ContextVar[float] = ContextVar("csrr_cut", default=math.inf)


class TimeUpError(Exception):
    """The time is up for work that was to be cut off."""


@contextmanager
def _shorten(limit: ContextVar[float], seconds: float | None) -> Iterator[None]:
    """Set a limit to this many seconds from now in the block, unless it is earlier already; None adds no limit."""
    token = limit.set(min(limit.get(), math.inf if seconds is None else time.perf_counter() + seconds))
    try:
        yield
    finally:
        limit.reset(token)


def limit_time(seconds: float | None) -> AbstractContextManager[None]:
    """Limit the block to so many seconds, or to those that an outer block has left if these are fewer; None: no limit.

    Work that can end early asks `seconds_left`.
    """
    return _shorten(_deadline, seconds)


def cut_off(seconds: float | None) -> AbstractContextManager[None]:
    """Raise TimeUpError in the block once it has shared out ranges of rows for longer than this; None for never.

    This is for work that cannot end early, and is worth nothing unless it is finished.
    """
    return _shorten(_cut, seconds)


def seconds_left(share: float = 1.0) -> float | None:
    """Return the given share of the time that is left, never below zero; None where there is no limit."""
    deadline = _deadline.get()
    return None if deadline == math.inf else share * max(0.0, deadline - time.perf_counter())


Returned = TypeVar("Returned")

_n_threads: ContextVar[int] = ContextVar("csrr_threads", default=0)
_blas_holder: ContextVar[object] = ContextVar("csrr_blas_holder", default=None)


def available_cores() -> int:
    """The number of cores this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this platform
        return os.cpu_count() or 1


def n_threads() -> int:
    """The number of threads in force here: what `use_threads` set, at most all cores."""
    return min(int(_n_threads.get()) or available_cores(), available_cores())


@contextmanager
def use_threads(n: int | None, *, blas: int | None = None) -> Iterator[int]:
    """Limit kernels to `n` threads inside the block (None or 0: all cores), and BLAS to `blas` (None: as many).

    BLAS has one limit for the whole process: where blocks of several threads overlap, the least of theirs holds.
    """
    if n is not None and n < 0:
        raise ValueError(f"threads must be 0 (all cores) or more, got {n}")
    token = _n_threads.set(n or 0)
    try:
        with _blas_limits.hold(blas or n_threads()):
            yield n_threads()
    finally:
        _n_threads.reset(token)


class _BlasLimits:
    """The limits on BLAS that hold at the moment, one for every thread that is inside a block."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[object, int] = {}
        self._before: dict[str, int] = {}

    @contextmanager
    def hold(self, most: int) -> Iterator[None]:
        """Limit BLAS to `most` threads, in place of what a block around this one asked for.

        The last block to end restores what was before the first.
        """
        mine, outer = object(), _blas_holder.get()
        token = _blas_holder.set(mine)
        theirs: int | None = None
        try:
            with self._lock:
                if not self._held:
                    self._before = {each.filepath: each.num_threads for each in _blas()}
                theirs = self._held.pop(outer, None)
                self._held[mine] = most
                self._apply(most)
            yield
        finally:
            _blas_holder.reset(token)
            with self._lock:
                self._held.pop(mine, None)
                if theirs is not None:
                    self._held[outer] = theirs
                self._apply(theirs)

    def _apply(self, here: int | None) -> None:
        """Set what holds now; `here` is this thread's own limit, if any."""
        least = min(self._held.values(), default=None)
        for each in _blas():
            # With OpenMP, every thread has a limit of its own.
            most = here if getattr(each, "threading_layer", None) == "openmp" else least
            _set_blas(each, self._before.get(each.filepath) if most is None else most)


def _set_blas(library: LibController, most: int | None) -> None:
    """Limit a library, whichever thread was the last to: threadpoolctl 3.7 on ignores all threads but the first."""
    if most is None:
        return
    release = getattr(library, "clear_controlling_thread", lambda **_: None)
    release(force=True)
    library.set_num_threads(most)
    release(force=True)


@cache
def _blas() -> list[LibController]:
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


class _Pool:
    """Threads that call the functions put into `tasks`.

    It has no lock that a thread could die with: `SimpleQueue` is compiled, and no signal comes between taking and
    releasing its own. (Of `concurrent.futures`, a Ctrl-C between two instructions can leave a lock behind that its
    threads, and the end of the process, wait for for ever.) The threads are daemons: none is waited for at the end.
    """

    def __init__(self, size: int) -> None:
        self.tasks: SimpleQueue[Callable[[], object]] = SimpleQueue()
        for place in range(size):
            threading.Thread(target=self._serve, name=f"csrr-{size}-{place}", daemon=True).start()

    def _serve(self) -> None:
        _worker.is_one = True
        while True:
            # The task is not kept: what it holds is freed before the next one comes.
            self.tasks.get()()


_MOST_WAIT = 0.1
"""The longest wait in seconds: a signal that comes just before a wait does not end it."""

_worker = threading.local()
_pools: dict[int, _Pool] = {}
_pools_lock = threading.Lock()
_blas_limits = _BlasLimits()


def _pool(size: int) -> _Pool:
    with _pools_lock:
        if size not in _pools:
            _pools[size] = _Pool(size)
        return _pools[size]


def _reset_after_fork() -> None:
    """Make new pools and locks in a forked child, which has its parent's locks, but not the threads that hold them."""
    global _pools_lock, _blas_limits, _worker
    _pools.clear()
    _pools_lock, _worker = threading.Lock(), threading.local()
    _blas_limits = _BlasLimits()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


def map_ranges(work: Callable[[int, int], Returned], bounds: Sequence[int]) -> list[Returned]:
    """Return what `work(start, stop)` returns for each consecutive pair of `bounds`, in their order.

    Runs on the threads in force, in any order: a range must change nothing that another one reads. What a range raises
    is raised here, and TimeUpError where the time is up (`cut_off`); ranges that have not begun by then never
    do.
    """
    ranges = list(pairwise(bounds))
    threads = n_threads()
    call = _Call(work, ranges)
    if threads == 1 or len(ranges) <= 1 or getattr(_worker, "is_one", False):
        return [call.do(place) for place in range(len(ranges))]
    tasks = _pool(threads).tasks
    for _ in range(min(threads, len(ranges))):
        tasks.put(call.run)
    return call.wait()


class _Call(Generic[Returned]):
    """The ranges of one call of `map_ranges`; threads take one after another until none is left."""

    def __init__(self, work: Callable[[int, int], Returned], ranges: list[tuple[int, int]]) -> None:
        self._work, self._ranges = work, ranges
        self._latest = _cut.get()
        self._left = iter(range(len(ranges)))
        self._ended: SimpleQueue[tuple[int, list[Returned], BaseException | None]] = SimpleQueue()

    def do(self, place: int) -> Returned:
        """Return what a range returns."""
        if self._latest < math.inf and time.perf_counter() > self._latest:
            raise TimeUpError
        return self._work(*self._ranges[place])

    def run(self) -> None:
        """Work on ranges, on a thread of the pool. `next` is one step: no two threads get the same range."""
        while (place := next(self._left, None)) is not None:
            try:
                self._ended.put((place, [self.do(place)], None))
            except BaseException as error:
                self._drop_rest()
                self._ended.put((place, [], error))

    def wait(self) -> list[Returned]:
        """Return what the ranges returned, in their order."""
        found: dict[int, list[Returned]] = {}
        try:
            while len(found) < len(self._ranges):
                try:
                    place, part, error = self._ended.get(timeout=_MOST_WAIT)
                except Empty:
                    continue
                if error is not None:
                    raise error
                found[place] = part
        finally:
            self._drop_rest()
        return [each for place in range(len(self._ranges)) for each in found[place]]

    def _drop_rest(self) -> None:
        """Leave nothing for threads to take."""
        self._left = iter(range(0))


def run_ranges(work: Callable[[int, int], object], bounds: Sequence[int]) -> None:
    """Call `work(start, stop)` for each consecutive pair of `bounds` that is not empty, on the threads in force."""
    map_ranges(work, list(dict.fromkeys(bounds)))
