"""Dask's workers: how they are found or started, and tasks that are run again where one is lost."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

from csrr._base.threads import available_cores, run_ranges

BLOCK_CELLS, SMALL_CELLS = 2**22, 2**19
"""The number of cells that a block should have at most, and about so many at least, if there are several blocks."""
FEW_BLOCKS, LEAST_BLOCKS = 4, 2
"""A log is cut into so many blocks before any is larger than it need be, and into so many at least."""
MOST_LOSSES, _PATIENCE = 5, 60.0
"""How often the worker of a block may be lost in a row, and the seconds that a fit waits for any worker at all."""


class EngineError(RuntimeError):
    """A cluster that cannot go on."""


def count_blocks(cells: int, block_cells: int | None = None) -> int:
    """Return the number of blocks of a log; each has an (items, rank) sum of its own, so they are not many."""
    few = max(LEAST_BLOCKS, min(FEW_BLOCKS, cells // SMALL_CELLS))
    return max(few, -(-cells // (block_cells or BLOCK_CELLS)))


class Cluster:
    """Dask's workers, and a folder that they share with this process.

    `client` is a Dask client, the address of a scheduler, or None for workers of its own on this machine, as many as
    `n_workers`, each with `memory_limit`. `folder` is one that all workers reach at the same path; None: a new one,
    for this machine. `block_events` is the number of events in a block. With `resume`, a fit goes on from what an
    earlier one has left in `folder`.
    """

    def __init__(
        self,
        client: Any = None,
        *,
        folder: str | os.PathLike[str] | None = None,
        n_workers: int | None = None,
        memory_limit: int | str = "auto",
        block_events: int | None = None,
        resume: bool = False,
    ) -> None:
        self._given, self._n_workers, self._memory_limit = client, n_workers, memory_limit
        self.block_cells, self.resume = block_events, resume
        self._keeps_folder = folder is not None
        self._wanted_folder = folder
        self._looked: tuple[float, dict[str, int]] = (0.0, {})

    @cached_property
    def client(self) -> Any:
        """The Dask client; workers of this machine are started if there are none."""
        try:
            from distributed import Client
        except ImportError as error:
            raise ImportError('engine="dask" needs Dask: pip install "csrr[dask]"') from error
        self._started: list[Any] = []
        if self._given is None:
            from distributed.deploy.subprocess import SubprocessCluster

            # Processes of their own: a user's script needs no guard, and the scheduler has a core's time to itself.
            with _set_environment():
                cluster = SubprocessCluster(
                    n_workers=self._n_workers or max(2, min(4, available_cores())),
                    threads_per_worker=1,
                    dashboard_address=None,
                    worker_kwargs={"memory_limit": self._memory_limit} if self._memory_limit != "auto" else {},
                )
            cluster.loop.add_callback(_drain, cluster.scheduler.process.stderr)
            client = Client(cluster)
            self._started = [client, cluster]
        elif isinstance(self._given, str):
            try:
                client = Client(self._given, timeout=10)
            except (OSError, ValueError) as error:
                raise EngineError(
                    f"no Dask scheduler answers at {self._given!r} ({type(error).__name__}); give the address that"
                    " `dask scheduler` printed, such as tcp://10.0.0.1:8786"
                ) from None
            self._started = [client]
        elif isinstance(self._given, Client):
            client = self._given
        else:
            raise EngineError(f"client={self._given!r} must be a Dask client, or the address of a scheduler")
        atexit.register(self.close)
        self._check_versions(client)
        return client

    def _check_versions(self, client: Any) -> None:
        """Raise EngineError if a worker has another version of csrr than this process, or none."""
        client.wait_for_workers(1, timeout=_PATIENCE)
        mine = get_version()
        for address, theirs in client.run(_find_version).items():
            if theirs != mine:
                has = "has no csrr" if theirs is None else f"has csrr {theirs}"
                raise EngineError(f"the worker at {address} {has}, this process {mine}: install the same version there")

    @cached_property
    def folder(self) -> Path:
        """The folder that this process and the workers share."""
        if self._wanted_folder is None:
            folder = Path(tempfile.mkdtemp(prefix="csrr-dask-"))
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
        else:
            folder = Path(self._wanted_folder).absolute()
            folder.mkdir(parents=True, exist_ok=True)
        (folder / "answers").mkdir(exist_ok=True)
        return folder

    def close(self) -> None:
        """Stop the workers that were started here, and remove the folder that was made here."""
        if "client" in self.__dict__ and self._started:
            for each in self._started:
                with contextlib.suppress(Exception):
                    each.close(timeout=5)
                # One whose scheduler is gone cannot be closed, and must not say so when it is forgotten.
                each.status = "closed" if isinstance(each.status, str) else type(each.status).closed
            self._started = []
            del self.__dict__["client"]
        if "folder" in self.__dict__ and not self._keeps_folder:
            shutil.rmtree(self.folder, ignore_errors=True)
            del self.__dict__["folder"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def list_workers(self, *, now: bool = False) -> dict[str, int]:
        """Return the workers' addresses, in an order that changes little, and their numbers of threads."""
        if now or time.monotonic() - self._looked[0] > 1:
            deadline = time.monotonic() + _PATIENCE
            while True:
                try:
                    known = self.client.scheduler_info(n_workers=-1)["workers"]
                except (OSError, KeyError, TimeoutError):
                    known = {}
                if self.client.status != "running":
                    raise EngineError(
                        "the Dask scheduler is gone; start it again, and go on from the last checkpoint with"
                        " `csrr fit --resume`"
                    )
                if known:
                    break
                if time.monotonic() > deadline:
                    raise EngineError(f"the Dask cluster has had no worker for {_PATIENCE:g} s")
                time.sleep(0.2)
            order = sorted(known, key=lambda address: (str(known[address]["name"]), address))
            self._looked = time.monotonic(), {address: known[address]["nthreads"] for address in order}
        return self._looked[1]

    def run_tasks(
        self,
        work: Callable[..., Any],
        tasks: Sequence[tuple[Any, ...]],
        *,
        tell: Callable[[int, int], object] | None = None,
        size: str = "",
        pinned: bool = False,
    ) -> list[Any]:
        """Return what `work` returns for the arguments of each task, run by any worker, again where one is lost.

        With `pinned`, tasks of the same place go to the same worker as long as there are as many.
        """
        workers = list(self.list_workers())
        futures = [
            self.client.submit(
                work,
                *task,
                pure=False,
                retries=2,
                **({"workers": workers[place % len(workers)], "allow_other_workers": True} if pinned else {}),
            )
            for place, task in enumerate(tasks)
        ]
        found: list[Any] = self.wait_for(futures, tell=tell, size=size)
        return found

    def wait_for(self, futures: list[Any], *, tell: Callable[[int, int], object] | None = None, size: str = "") -> Any:
        """Return what futures come to."""
        from distributed import as_completed

        try:
            for done, future in enumerate(as_completed(futures), 1):
                self._raise_of(future, size)
                if tell is not None:
                    tell(done, len(futures))
            return list(self.client.gather(futures))
        finally:
            self.client.cancel(futures)

    def _raise_of(self, future: Any, size: str) -> None:
        from distributed import KilledWorker

        run_ranges(lambda *_: None, [0, 1])  # raises where the time is up
        if future.status == "cancelled":
            self.list_workers(now=True)
            raise EngineError("the Dask scheduler lost what it was asked for; go on with `csrr fit --resume`")
        if future.status == "error":
            error = future.exception()
            if isinstance(error, KilledWorker):
                raise self.explain_losses(size) from None
            raise error

    def explain_losses(self, size: str = "") -> EngineError:
        """The error where workers die again and again."""
        limits = [each.get("memory_limit") for each in self.client.scheduler_info(n_workers=-1)["workers"].values()]
        limit = min((each for each in limits if each), default=0)
        given = f" of {limit / 1e9:.1f} GB" if limit else ""
        cells = self.block_cells or BLOCK_CELLS
        return EngineError(
            f"workers died {MOST_LOSSES} times in a row over the same work{size}: most likely their memory{given} was"
            f" not enough; give block_events={max(cells // 4, 1)} (a quarter of what it was), a lower max_rank, or more"
            " workers"
        )

    def explain_full(self, address: str, error: Exception, first: int, stop: int) -> EngineError:
        cells = self.block_cells or BLOCK_CELLS
        return EngineError(
            f"the worker at {address} has no memory left for its {stop - first} blocks ({error}); give it more, or use"
            f" more workers, a lower max_rank, or block_events={max(cells // 4, 1)} (a quarter of what it was)"
        )


async def _drain(stream: Any) -> None:
    """Read what a scheduler says, for nobody: one whose pipe is full would wait for ever, after some hundred tasks."""
    while await stream.read(2**16):
        pass


@contextlib.contextmanager
def _set_environment() -> Iterator[None]:
    """Give the processes that are started in the block the settings of Dask that csrr needs.

    Files that are mapped count as a worker's memory with Dask, and it pauses a worker for them. What goes wrong is
    raised, or mended.
    """
    names = [f"DASK_DISTRIBUTED__WORKER__MEMORY__{each}" for each in ("TARGET", "SPILL", "PAUSE")]
    given = dict.fromkeys(names, "False") | {"DASK_LOGGING__DISTRIBUTED": "critical"}
    before = {name: os.environ.get(name) for name in given}
    os.environ |= given
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def get_version() -> str:
    """Return the version of csrr here."""
    return version("csrr")


def _find_version() -> str | None:
    try:
        return get_version()
    except PackageNotFoundError:
        return None
