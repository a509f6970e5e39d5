"""One number of threads for our kernels and for BLAS.

Kernels are compiled without the interpreter lock and run in ranges of rows on a plain thread pool: no
spinning workers that fight BLAS for the cores, no state that two callers could trip over.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import pairwise
from typing import TypeVar

from threadpoolctl import ThreadpoolController

Part = TypeVar("Part")

_n_threads: ContextVar[int] = ContextVar("csrr_threads", default=0)


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
    """Limits kernels to `n` threads inside the block (None or 0: all cores), and BLAS to `blas` (None: as many)."""
    if n is not None and n < 0:
        raise ValueError(f"threads must be 0 (all cores) or more, got {n}")
    token = _n_threads.set(n or 0)
    try:
        with _blas().limit(limits=blas or n_threads(), user_api="blas"):
            yield n_threads()
    finally:
        _n_threads.reset(token)


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


@cache
def _pool(size: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(size, thread_name_prefix="csrr")


def map_ranges(work: Callable[[int, int], Part], bounds: Sequence[int]) -> list[Part]:
    """What `work(start, stop)` returns for each consecutive pair of `bounds`, in their order.

    Runs on the threads in force, in any order: a range must change nothing that another one reads.
    """
    ranges = list(pairwise(bounds))
    threads = n_threads()
    if threads == 1 or len(ranges) <= 1:
        return [work(start, stop) for start, stop in ranges]
    # list() waits, and re-raises what a worker raised.
    return list(_pool(threads).map(lambda r: work(*r), ranges))


def run_ranges(work: Callable[[int, int], object], bounds: Sequence[int]) -> None:
    """Calls `work(start, stop)` for each consecutive pair of `bounds` that is not empty, on the threads in force."""
    map_ranges(work, list(dict.fromkeys(bounds)))
