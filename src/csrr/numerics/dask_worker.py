"""What a Dask worker does for `DaskEngine`: it keeps blocks of users, and computes on them what it is sent.

A block's arrays are held in this process only as long as it lives: a worker that is asked for one that it does not have
says so, and is then sent how to make it again, from the files of the log on.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from csrr._base.arrays import AnyArray, FloatArray
from csrr._base.threads import map_ranges, use_threads
from csrr.numerics.neighbors import CellIndex, Likeness, cross_targets, find_nearest_items, gather_grams, group_places
from csrr.numerics.problem import Pattern, Problem
from csrr.numerics.thread_engine import THREADS
from csrr.numerics.transitions import Images, NextItems, Sequences

FULL = 0.9
"""The share of its memory at which a worker says that it is full, before it is ended for that."""
_LARGE = 2**18
"""Bytes of an answer from which on it is left in a file, for the one who asked to read."""


class WorkerFullError(RuntimeError):
    """A worker that has no memory left for its blocks."""


class Ref(NamedTuple):
    """Another array of the same block, by its key."""

    key: str


class Shared(NamedTuple):
    """An array in a file, all of it."""

    path: str


class RowSlice(NamedTuple):
    """The part that belongs to a block of an array of the user side, (n,) or (n, k), in a file."""

    path: str
    bounds: tuple[int, ...]


class Make(NamedTuple):
    """How an array of a block is made: by `work` of the block's pattern and `args`."""

    work: Callable[..., Any]
    args: tuple[Any, ...]


@dataclass(frozen=True)
class Program:
    """What is asked of workers: of each block `ask`, added up by `join`, with arrays that are made on the way.

    `folder` has the block's pattern, of `n_items` columns. Arrays in `keep` are held for later, those in `save` are
    written to files, too, and those in `free` are forgotten. `answers` is the folder for large answers.
    """

    folder: str
    n_items: int
    n_blocks: int
    ask: Make
    join: str
    makes: dict[str, Make]
    keep: frozenset[str]
    save: dict[str, str]
    free: tuple[str, ...]
    answers: str


@dataclass
class Answer:
    """Sums over blocks (first, stop), in the order of a tree; or, `is_lost`, an array that is not here."""

    parts: dict[tuple[int, int], Any] = field(default_factory=dict)
    is_lost: bool = False
    seconds: float = 0.0
    memory: int = 0


_held: dict[tuple[str, int], Any] = {}
_lock = threading.Lock()
_executor = ThreadPoolExecutor(1)


class _LostError(LookupError):
    """An array that is not here, and that nothing says how to make."""


async def answer(program: Program, ranges: dict[str, tuple[int, int]], *, dask_worker: Any) -> Answer:
    """Return what a program asks of the blocks in this worker's range; ranges go by address."""
    run = partial(_run, program, *ranges[dask_worker.address], dask_worker.state.nthreads, get_limit(dask_worker))
    return await asyncio.get_running_loop().run_in_executor(_executor, run)


async def forget(session: str, *, dask_worker: Any) -> None:
    """Forget what belongs to a session, whose keys begin with its name."""

    def clear() -> None:
        with _lock:
            for key in [key for key in _held if key[0].startswith(session)]:
                del _held[key]

    await asyncio.get_running_loop().run_in_executor(_executor, clear)


def get_limit(worker: Any) -> int | None:
    """Return the memory that a worker may use, in bytes; None: all."""
    limit: int | None = worker.memory_manager.memory_limit
    return limit


def measure_memory() -> int:
    """Return the memory that this process has for itself, in bytes: pages of files, which others may have, left out."""
    status = Path("/proc/self/statm")
    if not status.exists():  # not on this platform: not known
        return 0
    resident, shared = (int(each) for each in status.read_text().split()[1:3])
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


def _run(program: Program, first: int, stop: int, threads: int, limit: int | None) -> Answer:
    found, began = Answer(), time.perf_counter()
    with _lock, use_threads(threads, blas=1):
        freed = set(program.free)
        for key in [key for key in _held if freed and key[0] in freed]:
            del _held[key]

        def ask(block: int) -> Any:
            value = _Block(program, block).answer()
            if limit and measure_memory() > FULL * limit:
                raise WorkerFullError(f"{measure_memory() / 1e9:.1f} of {limit / 1e9:.1f} GB in use")
            return value

        try:
            for part in list_parts(0, program.n_blocks, first, stop):
                found.parts[part] = _leave(fold(*part, ask, JOINS[program.join]), program, part)
        except _LostError:
            found = Answer(is_lost=True)
    found.seconds, found.memory = time.perf_counter() - began, measure_memory()
    return found


class _Block:
    """A block while a program runs: what was made on the way is in `_made`."""

    def __init__(self, program: Program, number: int) -> None:
        self._program, self._number = program, number
        self._made: dict[str, Any] = {}
        self._pattern = open_block(program.folder, number, program.n_items)

    def answer(self) -> Any:
        """What is asked for, after all that is to be kept."""
        value = self._do(self._program.ask)
        for key in self._program.keep:
            _held[key, self._number] = made = self._get(key)
            if key in self._program.save:
                write_array(f"{self._program.save[key]}-{self._number}.npy", made)
        return value

    def _do(self, make: Make) -> Any:
        return make.work(self._pattern, *(self._resolve(each) for each in make.args))

    def _get(self, key: str) -> Any:
        if (key, self._number) in _held:
            return _held[key, self._number]
        if key not in self._made:
            if key not in self._program.makes:
                raise _LostError(key)
            self._made[key] = self._do(self._program.makes[key])
        return self._made[key]

    def _resolve(self, arg: Any) -> Any:
        if isinstance(arg, Ref):
            return self._get(arg.key)
        if isinstance(arg, Shared):
            return open_array(arg.path)
        if isinstance(arg, RowSlice):
            return open_array(arg.path)[arg.bounds[self._number] : arg.bounds[self._number + 1]]
        if isinstance(arg, Number):
            return self._number
        return arg


class Number(NamedTuple):
    """The number of the block."""


# Sums in the order of a tree over the blocks, whoever has them


def list_parts(lo: int, hi: int, first: int, stop: int) -> list[tuple[int, int]]:
    """Return the nodes of the tree over blocks `lo` to `hi` that make up the blocks `first` to `stop`, in order."""
    if first <= lo and hi <= stop:
        return [(lo, hi)] if lo < hi else []
    if hi <= first or stop <= lo:
        return []
    middle = (lo + hi) // 2
    return [*list_parts(lo, middle, first, stop), *list_parts(middle, hi, first, stop)]


def fold(lo: int, hi: int, get: Callable[[int], Any], join: Callable[[Any, Any], Any]) -> Any:
    """Return the values of blocks `lo` to `hi`, joined in pairs from the leaves of the tree on."""
    if hi - lo == 1:
        return get(lo)
    middle = (lo + hi) // 2
    left = fold(lo, middle, get, join)
    return join(left, fold(middle, hi, get, join))


def fold_parts(parts: dict[tuple[int, int], Any], lo: int, hi: int, join: Callable[[Any, Any], Any]) -> Any:
    """Return the whole of which `parts` are the nodes that workers returned."""
    if (lo, hi) in parts:
        return parts[lo, hi]
    middle = (lo + hi) // 2
    left = fold_parts(parts, lo, middle, join)
    return join(left, fold_parts(parts, middle, hi, join))


def _add(left: Any, right: Any) -> Any:
    if isinstance(left, np.ndarray) and left.flags.writeable and left.dtype == np.result_type(left, right):
        left += right
        return left
    return left + right


JOINS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": _add,
    "max": np.maximum,
    "min": np.minimum,
    "all": lambda left, right: left | right,
}
"""How the values of two parts become one; "all" is of dicts."""


# Files


def write_array(path: str | Path, array: AnyArray) -> None:
    """Write an array to a file, whole or not at all."""
    path = Path(path)
    aside = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.part")
    with aside.open("wb") as file:
        np.save(file, np.ascontiguousarray(array))
    aside.replace(path)


def open_array(path: str) -> AnyArray:
    """Return the array in a file, whose pages are read when they are needed."""
    try:
        array: AnyArray = np.load(path, mmap_mode="r")
    except ValueError:  # an empty array cannot be mapped
        array = np.load(path)
    return array.view(np.ndarray)


@lru_cache(maxsize=4096)
def _open_block(folder: str, number: int, n_items: int) -> Pattern:
    indptr, indices = (open_array(f"{folder}/{name}-{number}.npy") for name in ("indptr", "items"))
    return Pattern((len(indptr) - 1, n_items), np.array(indptr), indices, THREADS)


def open_block(folder: str, number: int, n_items: int) -> Pattern:
    """Return the pattern of a block: rows from 0, whose columns are items of the whole."""
    return _open_block(folder, number, n_items)


def _leave(value: Any, program: Program, part: tuple[int, int]) -> Any:
    """Return an answer or, if it is large, the file that it is in."""
    if isinstance(value, dict):
        return {block: _leave(each, program, (block, block + 1)) for block, each in value.items()}
    if not isinstance(value, np.ndarray) or value.nbytes < _LARGE:
        return value
    path = f"{program.answers}/{part[0]}-{part[1]}-{os.getpid()}-{time.time_ns()}.npy"
    write_array(path, value)
    return Shared(path)


# What is asked of blocks


def call(pattern: Pattern, name: str, *args: Any) -> Any:
    """Return what the engine of one machine returns for a block."""
    return getattr(THREADS, name)(*args)


def call_on(pattern: Pattern, name: str, *args: Any) -> Any:
    """Return what the engine of one machine returns for a block's pattern."""
    return getattr(THREADS, name)(pattern, *args)


def cross(pattern: Pattern, *arrays: FloatArray) -> FloatArray:
    """Return the cross products of each of some arrays, (n, k), with the last, (k, c), one below the other."""
    return np.concatenate([THREADS.cross(each, arrays[-1]) for each in arrays])


def apply(pattern: Pattern, function: Callable[..., Any], *args: Any) -> Any:
    """Return a function of arrays of a block."""
    return function(*args)


def multiply_sparse(pattern: Pattern, values: FloatArray, x: FloatArray) -> FloatArray:
    """Return S @ x."""
    return THREADS.multiply_sparse(pattern.fill(values), x)


def multiply_transposed(pattern: Pattern, values: FloatArray, y: FloatArray) -> FloatArray:
    """Return S.T @ y, item by item: adding up user by user would write to all of it again and again."""
    return THREADS.multiply_transposed(pattern.fill(values), y)


def transform_rows(pattern: Pattern, name: str, l1: float, cells: tuple[Any, ...], *args: Any) -> Any:
    """Return what `descend_rows` or `pull_rows` return for a block, whose problem has these `cells`."""
    target, weight, *penalties = cells
    problem = Problem(pattern, target, weight, penalties[0] if penalties else None, l1)
    return getattr(THREADS, name)(problem, *args)


def gather(pattern: Pattern, *arrays: Any) -> tuple[Any, ...]:
    """Return arrays of a block as one value."""
    return arrays


def pick(pattern: Pattern, values: tuple[Any, ...], place: int, *_: Any) -> Any:
    """Return one of several values; what else is given is made beside it."""
    return values[place]


def list_block(pattern: Pattern, number: int, array: AnyArray) -> dict[int, AnyArray]:
    """Return the array of a block by the block's number."""
    return {number: np.ascontiguousarray(array)}


def list_rows(pattern: Pattern, number: int, array: AnyArray, bounds: tuple[int, ...], rows: AnyArray) -> Any:
    """Return the rows of a block's array that are asked for, in their order, by the block's number."""
    mine = rows[(rows >= bounds[number]) & (rows < bounds[number + 1])] - bounds[number]
    return {number: np.ascontiguousarray(array[mine])}


def count_items(pattern: Pattern) -> AnyArray:
    """Return the number of cells of each item."""
    return np.bincount(pattern.indices, minlength=pattern.shape[1])


def load(pattern: Pattern, prefix: str, number: int) -> AnyArray:
    """Return a block's array that was saved."""
    return open_array(f"{prefix}-{number}.npy")


def skip_draws(rng: np.random.Generator, count: int) -> np.random.Generator:
    """Return a generator after `count` draws of 32 bits, which is how it draws from 2 or 2**32 integers."""
    rng.bit_generator.advance(count // 2)  # type: ignore[attr-defined]
    if count % 2:
        rng.integers(2**32)
    return rng


def draw_signs(pattern: Pattern, number: int, bounds: tuple[int, ...], seed: int, dtype: str) -> AnyArray:
    """Return random signs, one a cell: those that `Pattern.draw_signs` has for these cells on one machine."""
    rng = skip_draws(np.random.default_rng(seed), bounds[number])
    return (2 * rng.integers(0, 2, pattern.nnz) - 1).astype(dtype)


# What is asked of ranges of items, for which a worker reads the cells of all users


def open_cells(folder: str) -> CellIndex:
    """Return all cells both ways, from files."""
    return CellIndex(*(open_array(f"{folder}/{name}.npy") for name in CELL_FILES))


CELL_FILES = ("item_indptr", "item_users", "user_indptr", "user_items")


def _cut_cells(cells: CellIndex, first: int, stop: int) -> CellIndex:
    """The cells of some items, numbered from 0, with those of all users."""
    start, end = cells.item_indptr[first], cells.item_indptr[stop]
    return cells._replace(
        item_indptr=cells.item_indptr[first : stop + 1] - start, item_users=cells.item_users[start:end]
    )


def find_nearest(folder: str, likeness: dict[str, Any], width: int, first: int, stop: int, threads: int) -> Any:
    """Return what `find_nearest_items` finds for a range of items."""
    opened: dict[str, Any]
    opened = {name: open_array(each.path) if isinstance(each, Shared) else each for name, each in likeness.items()}
    with use_threads(threads, blas=1):
        return find_nearest_items(open_cells(folder), Likeness(**opened), width, first, stop)


def cross_range(
    folder: str, user: str, outer: tuple[str, str], item: str, support: str, first: int, stop: int, threads: int
) -> AnyArray:
    """Return X'T on the support of a range of items, T being the product of `outer` on the cells."""
    of_users, of_items = (open_array(each) for each in outer)
    weights, items, supports = open_array(user).astype(np.float64), np.array(open_array(item)), open_array(support)
    out = np.zeros((stop - first, supports.shape[1]))

    def cross(a: int, b: int) -> None:
        cells = _cut_cells(open_cells(folder), first + a, first + b)
        mine = np.repeat(of_items[first + a : first + b], np.diff(cells.item_indptr))
        targets = of_users[cells.item_users] * mine
        some = supports[first + a : first + b]
        cross_targets(0, b - a, cells, None, targets, weights, items, some, np.zeros(len(items)), out[a:b])

    with use_threads(threads, blas=1):
        _map_items(cross, stop - first)
    return out


def _map_items(work: Callable[[int, int], Any], items: int) -> None:
    ranges = max(1, min(64, items))
    map_ranges(work, [items * i // ranges for i in range(ranges + 1)])


def solve_range(
    folder: str,
    key: str,
    user: str,
    item: str,
    support: str,
    crossed: str,
    ks: AnyArray,
    rhos: AnyArray,
    first: int,
    stop: int,
    threads: int,
) -> Any:
    """Return what `solve_items` returns for a range of items, whose Gram matrices stay here for the next call."""
    supports = np.array(open_array(support)[first:stop])
    with use_threads(threads, blas=1):
        grams = _held.get((key, first))
        if grams is None:
            grams = _gather_range(folder, open_array(user), np.array(open_array(item)), supports)
            _held[key, first] = grams
        found, singular = THREADS.solve_items(supports, grams, open_array(crossed)[:, first:stop], ks, rhos)
    return found, singular + first if singular >= 0 else -1


def _gather_range(folder: str, user: FloatArray, item: FloatArray, support: Any) -> AnyArray:
    """X'X among the neighbors of some items, (items, K*(K + 1)/2), from the cells of all users."""
    width, cells = support.shape[1], open_cells(folder)
    rows, firsts, at = group_places(support)
    # One for each cell, without the memory; the item's own factor comes in at the end.
    ones = np.broadcast_to(np.ones(1, np.float32), (len(cells.item_users),))
    given = rows, firsts, at, cells, None, ones, user.astype(np.float64) ** 2, item, support
    grams = np.zeros((len(support), width * (width + 1) // 2), np.float32)

    def work(a: int, b: int) -> None:
        gather_grams(a, b, *given, np.zeros(len(item)), grams)

    _map_items(work, len(rows))
    of_row = np.where(support >= 0, item[support], 0).astype(np.float32)
    grams *= np.repeat(of_row, np.arange(1, width + 1), axis=1)
    return grams


def copy_rows(folder: str, number: int, n_items: int, target: str, first: int) -> None:
    """Copy a block's columns into the file that has those of all, from the cell `first` on."""
    block = open_block(folder, number, n_items)
    whole = np.load(target, mmap_mode="r+")
    whole[first : first + block.nnz] = block.indices
    whole.flush()


def turn_block(folder: str, number: int, n_items: int, names: list[str], row: int, cell: int) -> None:
    """Write a block's cells by item: where those of each begin, and their users and places, of which it has the first.

    These are numbered through all blocks: those of this one begin at `row` and `cell`.
    """
    block = open_block(folder, number, n_items)
    write_array(f"{folder}/turned-indptr-{number}.npy", block.T.indptr)
    write_array(f"{folder}/turned-users-{number}.npy", block.T.indices + np.int32(row))
    if "places" in names:
        write_array(f"{folder}/turned-places-{number}.npy", block.order_by_item + np.int64(cell))


def join_turned(folder: str, names: list[str], n_blocks: int, first: int, stop: int) -> None:
    """Join what a range of items has from all blocks, in the order of the rows, in the files of all."""
    at = np.array(open_array(f"{folder}/item_indptr.npy")[first:stop])
    wholes = {name: np.load(f"{folder}/item_{name}.npy", mmap_mode="r+") for name in names}
    for number in range(n_blocks):
        indptr = open_array(f"{folder}/turned-indptr-{number}.npy")[first : stop + 1]
        counts = np.diff(indptr)
        # places of this block's cells: consecutive from `at` for each item
        places = np.repeat(at - (np.cumsum(counts) - counts), counts) + np.arange(indptr[-1] - indptr[0])
        for name, whole in wholes.items():
            whole[places] = open_array(f"{folder}/turned-{name}-{number}.npy")[indptr[0] : indptr[-1]]
        at += counts
    for whole in wholes.values():
        whole.flush()


@lru_cache(maxsize=1)
def _open_sequences(folder: str, n_items: int, key: tuple[Any, ...]) -> NextItems:
    cells = open_cells(folder)
    own = Sequences(cells.user_indptr, cells.user_items, n_items)
    by_item = cells.item_indptr, open_array(f"{folder}/item_places.npy"), cells.item_users
    own.__dict__.update(by_item=by_item, counts=np.diff(cells.item_indptr))
    return NextItems(own, *key)


@lru_cache(maxsize=1)
def _open_images(left: str, *of: Any) -> Images:
    return Images(_open_sequences(*of), np.array(open_array(left)))


def map_sequences(
    folder: str,
    n_items: int,
    key: tuple[Any, ...],
    left: str | None,
    name: str,
    args: list[Any],
    threads: int,
    start: int,
    stop: int,
) -> Any:
    """Return what a method of `NextItems`, or of its images by the columns of `left`, returns for a range."""
    # One at a time: they keep what they may need again.
    with _lock, use_threads(threads, blas=1):
        own = _open_sequences(folder, n_items, key) if left is None else _open_images(left, folder, n_items, key)
        return getattr(own, name)(start, stop, *(open_array(x.path) if isinstance(x, Shared) else x for x in args))
