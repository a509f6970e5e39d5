"""Work shared out to processes of their own."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

T = TypeVar("T")


class WorkerError(RuntimeError):
    """A process ended before its work was done."""


def run_in_processes(
    work: Callable[..., list[T]], given: tuple[Any, ...], parts: Iterable[Any], workers: int
) -> Iterator[T]:
    """Give what `work(*given, part)` returns for each of the parts, in the order in which they are done.

    The processes are new ones, so that no thread of this one is copied. They end with this generator, whatever ends it.
    """
    context = multiprocessing.get_context("spawn")
    before = {child.pid for child in multiprocessing.active_children()}
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_leave_signals_to_parent)
    try:
        for future in as_completed([pool.submit(work, *given, part) for part in parts]):
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


def _leave_signals_to_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
