"""The engine of many processes and machines: blocks of users stay with Dask's workers, a step sends O(items x rank).

Arrays of the user side and of cells are `Blocks`: a handle on this side that says how each block is made, and arrays on
the other that are made when a sum needs them. So a sum is one message to each worker and one answer, whatever was
computed for it. Workers and this process share a folder, in which larger arrays are handed over.

No array is only in one place: what a worker held is made again from the files of the log and from what this side
remembers, whoever has the block next. Sums go by a tree over the blocks, so that results have the same bits whatever
the workers; the number of blocks depends on the data alone.
"""

from __future__ import annotations

import itertools
import shutil
import uuid
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from csrr._base.arrays import AnyArray, Float32Array, Float64Array, FloatArray, Int32Array, Int64Array
from csrr._base.threads import run_ranges
from csrr.numerics import dask_worker as worker
from csrr.numerics.dask_blocks import Blocks, Node, SharedFile, Slices, Space, close_over, send_arg, unlink
from csrr.numerics.dask_cluster import MOST_LOSSES, Cluster, count_blocks
from csrr.numerics.dask_worker import Number, Program, Shared
from csrr.numerics.problem import Pattern
from csrr.numerics.thread_engine import THREADS
from csrr.numerics.transitions import Images, Sequences

if TYPE_CHECKING:
    from csrr.numerics.neighbors import Likeness, Regression
    from csrr.numerics.problem import Problem, Sparse

_MOST_AGE = 32
"""Arrays that are so many steps away from a file are written to one: no array takes longer than that to make again."""
FEW_SUMS = 4
"""The number of ranges that sums over columns are added up from."""
_INLINE = 2**15
"""Bytes of an array from which on it goes to workers by a file, once, rather than in each message."""


class ElsewhereError(TypeError):
    """What needs all events in one place, where they are not."""


class SpreadPattern(Pattern):
    """The pattern of a log that is nowhere as a whole: `indptr`, (n + 1,), is here, the columns are with workers."""

    def __init__(self, space: Space, indptr: Int64Array, engine: DaskEngine) -> None:
        self.space = space
        self.shape = space.shape
        self.indptr = indptr
        self.engine: DaskEngine = engine
        self.bounds = list(space.bounds)

    @property
    def nnz(self) -> int:
        return int(self.indptr[-1])

    def __getattr__(self, name: str) -> Any:
        if name in ("indices", "rows"):
            raise ElsewhereError("this needs all events in one place, and they are with Dask's workers")
        raise AttributeError(name)

    rows = property(lambda self: self.__getattr__("rows"))
    _by_item = property(lambda self: self.__getattr__("indices"))

    def count_items(self, amounts: FloatArray | None = None) -> AnyArray:
        if amounts is not None:
            return self.engine.sum_columns(self, amounts)
        counts: AnyArray = self.engine.ask(self.space, "sum", worker.count_items)
        return counts

    def draw_signs(self, seed: int, dtype: Any) -> FloatArray:
        given = worker.draw_signs, Number(), self.space.cell_bounds, seed, np.dtype(dtype).str
        signs: FloatArray = self.engine.make(self, *given, like=np.empty(0, dtype))
        return signs


class Grams:
    """The Gram matrices of the neighbors of all items, which are with workers: those who solve for them make them."""

    def __init__(self, engine: DaskEngine, pattern: Pattern, regression: Regression, support: Int32Array) -> None:
        self.key = engine.name_key()
        self.folder: str = engine.collect_cells(pattern)
        arrays = engine.get(regression.user), regression.item, support
        self.files: list[SharedFile] = [SharedFile(engine.folder, each) for each in arrays]
        weakref.finalize(self, engine.to_free.append, self.key)


class DaskSequences(Sequences):
    """Sequences that are with workers, as cells of a pattern that are in order: they map the files of all of them."""

    pattern: SpreadPattern

    def __init__(self, pattern: SpreadPattern) -> None:
        super().__init__(pattern.indptr, np.empty(0, np.int32), pattern.shape[1])
        self.__dict__.update(pattern=pattern, counts=pattern.count_items())

    def cut(self, length: int, most: int | None = None) -> list[int]:
        """Return bounds of ranges of `length` things, one for each worker, of `most` each; None: any number."""
        parts = max(len(self.pattern.engine.list_workers()), -(-length // (most or length)))
        return sorted({length * place // parts for place in range(parts + 1)})

    def cut_users(self) -> list[int]:
        """Return the rows at which blocks end."""
        return self.pattern.bounds

    def cut_sum(self, length: int) -> list[int]:
        """Return bounds of a few ranges, whatever the workers."""
        return sorted({length * place // FEW_SUMS for place in range(FEW_SUMS + 1)})

    def map(self, work: Callable[..., Any], bounds: Sequence[int], *args: Any) -> list[Any]:
        """Return what `work(start, stop, *args)` returns for each range, computed by workers."""
        engine, of = self.pattern.engine, work.__self__  # type: ignore[attr-defined]
        if isinstance(of, Images) and "file" not in of.__dict__:
            of.__dict__["file"] = SharedFile(engine.folder, of.left)
        files = [SharedFile(engine.folder, each) if isinstance(each, np.ndarray) else each for each in args]
        folder, threads = engine.collect_cells(self.pattern, with_places=True), max(engine.list_workers().values())
        left = of.__dict__["file"].path if isinstance(of, Images) else None
        given = folder, self.n_items, of.key, left, work.__name__, [send_arg(each) for each in files], threads
        return engine.run_tasks(
            worker.map_sequences, [(*given, *each) for each in itertools.pairwise(bounds)], pinned=True
        )


class DaskEngine(Cluster):
    """`Engine` on Dask's workers; see `Cluster` for what it is given."""

    is_far = True
    """That a sum over users is a message to other processes."""

    def __init__(self, client: Any = None, **options: Any) -> None:
        super().__init__(client, **options)
        self.session: str = uuid.uuid4().hex[:12]
        self.counter: Iterator[int] = itertools.count()
        self.live: weakref.WeakValueDictionary[int, Blocks] = weakref.WeakValueDictionary()
        self.peaks: dict[str, int] = {}
        self._held: dict[str, Node] = {}
        self.to_free: list[str] = []
        self._spaces: weakref.WeakKeyDictionary[Pattern, Space] = weakref.WeakKeyDictionary()

    # Programs

    def name_key(self) -> str:
        """Return a new name for arrays of this engine."""
        return f"{self.session}-{next(self.counter)}"

    def make_node(self, work: Callable[..., Any], *args: Any, cheap: bool = False) -> Node:
        """Return how an array is made of others, and of numpy arrays, of which large ones go to a file."""
        return Node(self.name_key(), work, tuple(map(self._place, args)), cheap=cheap)

    def _place(self, arg: Any) -> Any:
        if isinstance(arg, Blocks):
            return arg.node
        if isinstance(arg, np.ndarray):
            # A copy: its owner may change it before it is sent.
            return SharedFile(self.folder, arg) if arg.nbytes > _INLINE else arg.copy()
        if isinstance(arg, tuple) and type(arg) is tuple and any(isinstance(each, Blocks) for each in arg):
            return self.make_node(worker.gather, *arg, cheap=True)
        return arg

    def make(
        self, pattern: Pattern, work: Callable[..., Any], *args: Any, like: AnyArray, of_cells: bool = True
    ) -> Any:
        """Return the blocks that `work` of a pattern's blocks makes; `like` is an empty array of their kind."""
        node = self.make_node(work, *args)
        return Blocks(self, self.find_space(pattern), node, like, of_cells=of_cells)

    def ask(self, space: Space, join: str, work: Callable[..., Any], *args: Any) -> Any:
        """Return the sum, or another `join`, over blocks of what `work` of each returns."""
        run_ranges(lambda *_: None, [0, 1])  # raises where the time is up
        asked = self.make_node(work, *args)
        wanted = close_over(asked.inputs)
        marks = self._mark_needed(space, wanted)
        kept = {node.key: node for node in wanted.values() if node.key in marks and not node.is_held and not node.cheap}
        aged = {
            node.key: str(self.folder / node.key)
            for node in kept.values()
            if node.age > _MOST_AGE and not node.is_saved
        }
        program = Program(
            str(space.folder),
            space.shape[1],
            space.n_blocks,
            asked.make,
            join,
            {node.key: node.make for node in wanted.values() if not node.is_held},
            frozenset(kept),
            aged,
            tuple(self.to_free),
            str(self.folder / "answers"),
        )
        parts = self._send(program, asked)
        self.to_free = []
        for node in kept.values():
            node.is_held = True
            self._held[node.key] = node
        for key, prefix in aged.items():
            kept[key].save_at(prefix, space.n_blocks)
        for key in [key for key, node in self._held.items() if key not in marks]:
            self._held.pop(key).is_held = False
            self.to_free.append(key)
        return worker.fold_parts(parts, 0, space.n_blocks, worker.JOINS[join])

    def _mark_needed(self, space: Space, wanted: dict[str, Node]) -> set[str]:
        """The arrays that workers must hold once those `wanted` are made: what is alive, or will be needed for it."""
        marks: set[str] = set()
        seen: set[str] = set()
        stack = [each.node for each in self.live.values()]
        while stack:
            node = stack.pop()
            if node.key in seen:
                continue
            seen.add(node.key)
            if not node.cheap and (node.key in wanted or node.is_held):
                marks.add(node.key)
            else:
                stack += node.inputs
        return marks

    def _send(self, program: Program, asked: Node) -> dict[tuple[int, int], Any]:
        """The answers of the workers; what is lost with one is made again by others."""
        found: dict[tuple[int, int], Any] = {}
        missing, losses, full = [(0, program.n_blocks)], 0, program
        while missing:
            ranges, rest = self._assign(program.n_blocks, missing)
            missing, before = rest, len(found)
            try:
                answers = self.client.run(
                    worker.answer, full, ranges, workers=list(ranges), on_error="return", nanny=False
                )
            except (OSError, ValueError, KeyError) as error:
                # A worker that went away between the look at the list and the message.
                answers = dict.fromkeys(ranges, error)
            for address, (first, stop) in ranges.items():
                answer = answers.get(address, OSError("no answer"))
                if isinstance(answer, worker.Answer) and not answer.is_lost:
                    found |= {part: self._fetch(value) for part, value in answer.parts.items()}
                    self.peaks[address] = max(answer.memory, self.peaks.get(address, 0))
                    continue
                missing.append((first, stop))
                if isinstance(answer, worker.Answer):
                    full = self._complete(program, asked)
                elif isinstance(answer, worker.WorkerFullError | MemoryError):
                    raise self.explain_full(address, answer, first, stop) from None
                elif isinstance(answer, OSError | KeyError | ValueError | TimeoutError):
                    losses += 1
                    full = self._complete(program, asked)
                    self.list_workers(now=True)
                else:
                    raise answer
            if len(found) > before:
                losses = 0
            if losses > MOST_LOSSES * len(ranges):
                raise self.explain_losses()
        return found

    def _assign(
        self, n_blocks: int, missing: list[tuple[int, int]]
    ) -> tuple[dict[str, tuple[int, int]], list[tuple[int, int]]]:
        """Whom to ask for which blocks: each worker for its share; and what is left for another time."""
        workers = list(self.list_workers())
        cuts = [n_blocks * place // len(workers) for place in range(len(workers) + 1)]
        ranges: dict[str, tuple[int, int]] = {}
        rest: list[tuple[int, int]] = []
        for first, stop in missing:
            for place, address in enumerate(workers):
                a, b = max(first, cuts[place]), min(stop, cuts[place + 1])
                if a >= b:
                    continue
                if address in ranges:
                    rest.append((a, b))
                else:
                    ranges[address] = a, b
        return ranges, rest

    def _complete(self, program: Program, asked: Node) -> Program:
        """The program with all that it takes to make its arrays anew."""
        nodes = close_over(asked.inputs, through_held=True)
        makes = {node.key: node.make for node in nodes.values()}
        keep = program.keep | {key for key, node in nodes.items() if node.is_held}
        return Program(**{**program.__dict__, "makes": makes, "keep": keep})

    def _fetch(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {block: self._fetch(each) for block, each in value.items()}
        if not isinstance(value, Shared):
            return value
        array = np.load(value.path)
        unlink(value.path)
        return array

    # The way there and back

    def find_space(self, pattern: Pattern) -> Space:
        """Return the blocks of a pattern, which are written to files where they are not yet."""
        if isinstance(pattern, SpreadPattern):
            return pattern.space
        if pattern not in self._spaces:
            n = pattern.shape[0]
            blocks = min(count_blocks(pattern.nnz, self.block_cells), max(n, 1))
            wanted = np.linspace(0, pattern.nnz, blocks + 1)[1:-1]
            cuts = np.searchsorted(pattern.indptr, wanted)
            bounds = [0, *sorted({int(each) for each in cuts if 0 < each < n}), n]
            folder = self.folder / self.name_key()
            folder.mkdir()
            for number, (a, b) in enumerate(itertools.pairwise(bounds)):
                first, last = pattern.indptr[a], pattern.indptr[b]
                write_block(folder, number, pattern.indptr[a : b + 1] - first, pattern.indices[first:last])
            self._spaces[pattern] = Space(folder, bounds, pattern.indptr, pattern.shape[1])
            weakref.finalize(pattern, shutil.rmtree, folder, ignore_errors=True)
        return self._spaces[pattern]

    def open_pattern(self, folder: Path, bounds: Sequence[int], indptr: Int64Array, n_items: int) -> SpreadPattern:
        """Return the pattern whose blocks are in a folder's files."""
        return SpreadPattern(Space(folder, bounds, indptr, n_items), indptr, self)

    def put(self, pattern: Pattern, x: FloatArray) -> FloatArray:
        """A numpy array of the user side, (n,) or (n, k), as blocks."""
        found: FloatArray = self._put(pattern, x, of_cells=False)
        return found

    def put_cells(self, pattern: Pattern, values: FloatArray) -> FloatArray:
        """A numpy array of cells, (nnz,), as blocks."""
        found: FloatArray = self._put(pattern, values, of_cells=True)
        return found

    def _put(self, pattern: Pattern, x: Any, *, of_cells: bool) -> Any:
        if isinstance(x, Blocks):
            return x
        space = self.find_space(pattern)
        slices = Slices(SharedFile(self.folder, x), space.list_lengths(of_cells=of_cells))
        node = Node(self.name_key(), worker.apply, (_keep, slices), cheap=True)
        return Blocks(self, space, node, np.empty((0, *x.shape[1:]), x.dtype), of_cells=of_cells)

    def get(self, x: FloatArray, rows: AnyArray | None = None) -> FloatArray:
        """An array of the user side, or cells, as a numpy array: all of it, or some rows by number."""
        if not isinstance(x, Blocks):
            return x if rows is None else x[rows]
        blocks = x.space.n_blocks
        if rows is None:
            parts = self.ask(x.space, "all", worker.list_block, Number(), x)
            return np.concatenate([parts[block] for block in range(blocks)])
        bounds = x.space.list_lengths(of_cells=x.of_cells)
        order = np.argsort(rows, kind="stable")
        parts = self.ask(x.space, "all", worker.list_rows, Number(), x, bounds, np.asarray(rows)[order])
        found: FloatArray = np.empty((len(rows), *x.shape[1:]), x.dtype)
        found[order] = np.concatenate([parts[block] for block in range(blocks)])
        return found

    # Products

    def multiply_sparse(self, matrix: Sparse, x: FloatArray) -> FloatArray:
        """matrix @ x, (n, k), for a matrix of (n, m) and x of (m, k)."""
        if not isinstance(matrix.values, Blocks):
            return THREADS.multiply_sparse(matrix, self.get(x))
        like = np.empty((0, x.shape[1]), x.dtype)
        given = worker.multiply_sparse, matrix.values, x
        return self.make(matrix.pattern, *given, like=like, of_cells=False)

    def multiply_transposed(self, matrix: Sparse, y: FloatArray) -> FloatArray:
        """matrix.T @ y, (m, k), for a matrix of (n, m) and y of (n, k)."""
        if not isinstance(y, Blocks):
            return THREADS.multiply_transposed(matrix, y)
        return self.ask(y.space, "sum", worker.multiply_transposed, matrix.values, y)

    def dot_rows(self, pattern: Pattern, left: FloatArray, right: FloatArray, width: int) -> FloatArray:
        """left @ right.T on the observed cells, (nnz,): left (n, k), right (m, k), their first `width` columns."""
        if not isinstance(left, Blocks):
            return THREADS.dot_rows(pattern, left, self.get(right), width)
        given = worker.call_on, "dot_rows", left, right, width
        return self.make(pattern, *given, like=np.empty(0, left.dtype))

    def scale_cells(self, pattern: Pattern, user: FloatArray, item: FloatArray) -> FloatArray:
        """user[i] * item[j] for each observed cell (i, j), (nnz,): user (n,), item (m,)."""
        if not isinstance(user, Blocks):
            return THREADS.scale_cells(pattern, user, self.get(item))
        found = self.make(
            pattern, worker.call_on, "scale_cells", user, item, like=np.empty(0, np.result_type(user.dtype, item))
        )
        found.outer = user, item
        return found

    def transpose_cells(self, pattern: Pattern, values: FloatArray) -> FloatArray:
        """Cells, (nnz,), in the order of the transposed pattern, (nnz,), here."""
        return THREADS.transpose_cells(pattern, self.get(values))

    def map_cells(self, work: Callable[..., FloatArray], *cells: FloatArray) -> FloatArray:
        """`work` of arrays of (nnz,), (nnz,), block by block."""
        if not isinstance(cells[0], Blocks):
            return THREADS.map_cells(work, *cells)
        return cells[0].derive(work, *cells)

    def sum_cells(self, work: Callable[..., float], *cells: FloatArray) -> float:
        """The sum of `work` over ranges of arrays of (nnz,)."""
        if not isinstance(cells[0], Blocks):
            return THREADS.sum_cells(work, *cells)
        return float(self.ask(cells[0].space, "sum", worker.call, "sum_cells", work, *cells))

    def sum_rows(self, pattern: Pattern, values: FloatArray) -> Float64Array:
        """The sum of the cells of each row, (n,), in double precision."""
        if not isinstance(values, Blocks):
            return THREADS.sum_rows(pattern, values)
        given = worker.call_on, "sum_rows", values
        return self.make(pattern, *given, like=np.empty(0), of_cells=False)

    def sum_columns(self, pattern: Pattern, values: FloatArray) -> Float64Array:
        """The sum of the cells of each column, (m,), in double precision."""
        if not isinstance(values, Blocks):
            return THREADS.sum_columns(pattern, values)
        return self.ask(values.space, "sum", worker.call_on, "sum_columns", values)

    def multiply(self, x: FloatArray, small: FloatArray) -> FloatArray:
        """x @ small, (rows, c), for x of (rows, k) and small of (k, c)."""
        if not isinstance(x, Blocks):
            return THREADS.multiply(x, small)
        like = np.empty((0, small.shape[1]), np.result_type(x.dtype, small))
        node = self.make_node(worker.call, "multiply", x, small)
        return Blocks(self, x.space, node, like, of_cells=False)

    def cross(self, x: FloatArray, y: FloatArray) -> Float64Array:
        """x.T @ y, (k, c), for x of (rows, k) and y of (rows, c)."""
        if not isinstance(x, Blocks):
            return THREADS.cross(x, y)
        if y.gram is None:
            # What Krylov spaces ask for next comes with the same message.
            both = self.ask(x.space, "sum", worker.cross, *((x,) if x is y else (x, y)))
            found, y.gram = both[: x.shape[1]], both[-y.shape[1] :]
            return found
        return y.gram if x is y else self.ask(x.space, "sum", worker.call, "cross", x, y)

    def dot_columns(self, x: FloatArray, y: FloatArray) -> Float64Array:
        """The dot product of every column of x with that of y, (rows, k) both, in double precision, (k,)."""
        found: Float64Array = self._add_up("dot_columns", x, y)
        return found

    def dot(self, x: FloatArray, y: FloatArray) -> float:
        """The sum of x * y, (rows, k) both, in double precision."""
        return float(self._add_up("dot", x, y))

    def _add_up(self, name: str, x: Any, y: Any) -> Any:
        if not isinstance(x, Blocks):
            return getattr(THREADS, name)(x, y)
        return self.ask(x.space, "sum", worker.call, name, x, y)

    def find_largest_norm(self, x: FloatArray) -> float:
        """The largest norm of a row of x, (n, k); 0 for none."""
        if not isinstance(x, Blocks):
            return THREADS.find_largest_norm(x)
        return float(self.ask(x.space, "max", worker.call, "find_largest_norm", x))

    def join_columns(self, arrays: Sequence[FloatArray]) -> FloatArray:
        """Arrays of (rows, ...) side by side, (rows, the sum of their widths)."""
        if not isinstance(arrays[0], Blocks):
            return THREADS.join_columns(arrays)
        like = np.hstack([each.sample for each in arrays])
        node = self.make_node(worker.call, "join_columns", tuple(arrays))
        return Blocks(self, arrays[0].space, node, like, of_cells=False)

    # In factors

    def descend_rows(
        self,
        problem: Problem,
        own: FloatArray,
        other: FloatArray,
        curvature: FloatArray,
        reg: FloatArray,
        steps: int,
        relax: float,
    ) -> tuple[FloatArray, float]:
        """A lower point than `own`, (n, d), with `other`, (m, d), fixed, and the objective at `own`."""
        return self._transform_rows("descend_rows", problem, own, self.get(other), curvature, reg, steps, relax)

    def pull_rows(self, problem: Problem, own: FloatArray, other: FloatArray) -> tuple[FloatArray, float]:
        """(-h'(u) + u on the observed cells) @ other, (n, d), and sum_obs (h(u) - u^2/2), u = own other'."""
        return self._transform_rows("pull_rows", problem, own, self.get(other))

    def _transform_rows(self, name: str, problem: Problem, own: Any, *args: Any) -> tuple[Any, float]:
        if not isinstance(own, Blocks):
            here: tuple[Any, float] = getattr(THREADS, name)(problem, own, *args)
            return here
        both = self.make_node(worker.transform_rows, name, problem.l1, tuple(problem.given), own, *args)
        rows = Blocks(self, own.space, self.make_node(worker.pick, both, 0), own.sample, of_cells=False)
        # One program makes both: `rows` is alive, so it is kept.
        return rows, float(self.ask(own.space, "sum", worker.pick, both, 1, rows))

    # Neighbors

    def collect_cells(self, pattern: Pattern, *, with_places: bool = False) -> str:
        """Return the folder that has all cells both ways, (n, m) and (m, n), in files that every worker maps.

        Beside the users of each item may be the places of these cells among those by user.
        """
        space = self.find_space(pattern)
        folder = str(space.folder)
        if space.has_cells:
            return folder
        names = ["users", "places"] if with_places else ["users"]
        counts = pattern.count_items()
        worker.write_array(f"{folder}/user_indptr.npy", pattern.indptr)
        worker.write_array(f"{folder}/item_indptr.npy", np.concatenate(([0], np.cumsum(counts))).astype(np.int64))
        for name in ("user_items", *(f"item_{each}" for each in names)):
            kind = np.int64 if name == "item_places" else np.int32
            np.lib.format.open_memmap(f"{folder}/{name}.npy", "w+", kind, (pattern.nnz,)).flush()
        m, blocks = space.shape[1], range(space.n_blocks)
        of_block = [(folder, number, m) for number in blocks]
        rows, cells = space.bounds, space.cell_bounds
        self.run_tasks(worker.copy_rows, [(*each, f"{folder}/user_items.npy", cells[each[1]]) for each in of_block])
        self.run_tasks(worker.turn_block, [(*each, names, rows[each[1]], cells[each[1]]) for each in of_block])
        self.run_tasks(worker.join_turned, [(folder, names, space.n_blocks, a, b) for a, b in self._cut_items(m)])
        unlink(*(f"{folder}/turned-{name}-{number}.npy" for name in ("indptr", *names) for number in blocks))
        space.has_cells = True
        return folder

    def _cut_items(self, items: int) -> list[tuple[int, int]]:
        """Ranges of items, one for each worker; what is computed for an item does not depend on them."""
        parts = max(1, min(len(self.list_workers()), items))
        return list(itertools.pairwise([items * place // parts for place in range(parts + 1)]))

    def find_nearest(
        self, pattern: Pattern, likeness: Likeness, width: int, amounts: FloatArray | None
    ) -> tuple[Float32Array, Int32Array, Int64Array]:
        """The largest likenesses to each item, whose they are, best first, and how many each item has."""
        if amounts is not None:
            here = likeness._replace(user=self.get(likeness.user))
            return THREADS.find_nearest(pattern, here, width, self.get(amounts))
        given = {
            name: each if np.ndim(each) == 0 else SharedFile(self.folder, each)
            for name, each in likeness._replace(user=self.get(likeness.user))._asdict().items()
        }
        sent = {name: send_arg(each) for name, each in given.items()}
        folder, threads = self.collect_cells(pattern), max(self.list_workers().values())
        cuts = self._cut_items(pattern.shape[1])
        found = self.run_tasks(worker.find_nearest, [(folder, sent, width, a, b, threads) for a, b in cuts])
        values, items, counts = (np.concatenate(each) for each in zip(*found, strict=True))
        return values, items, counts

    def cross_targets(self, regression: Regression) -> Float64Array:
        """X'T on the support, (m, K)."""
        own, pattern = regression, regression.pattern
        outer = getattr(own.target, "outer", None)
        if own.amounts is not None or outer is None:
            return THREADS.cross_targets(self._bring(regression))
        arrays = self.get(own.user), self.get(outer[0]), outer[1], own.item, own.support
        user, of_users, of_items, item, support = (SharedFile(self.folder, each) for each in arrays)
        folder, threads = self.collect_cells(pattern), max(self.list_workers().values())
        given = folder, user.path, (of_users.path, of_items.path), item.path, support.path
        tasks = [(*given, a, b, threads) for a, b in self._cut_items(len(own.support))]
        return np.concatenate(self.run_tasks(worker.cross_range, tasks))

    def _bring(self, regression: Regression) -> Regression:
        """The regression with all its arrays here."""
        from dataclasses import replace

        arrays = (regression.target, regression.user, regression.amounts)
        target, user, amounts = (None if each is None else self.get(each) for each in arrays)
        assert target is not None
        assert user is not None
        return replace(regression, target=target, user=user, amounts=amounts)

    def gather_grams(self, regression: Regression, support: Int32Array) -> Float32Array:
        """X'X among the neighbors of some items: a handle, of arrays that are made where systems are solved."""
        if regression.amounts is not None:
            return THREADS.gather_grams(self._bring(regression), support)
        handle: Any = Grams(self, regression.pattern, regression, support)
        return handle  # type: ignore[no-any-return]

    def cross_low_rank(
        self, image: FloatArray, right: FloatArray, support: Int32Array, along: Float64Array
    ) -> Float32Array:
        """along - image @ right.T on the support, (m, K): image (m, d), right (m, d), along (m, K)."""
        return THREADS.cross_low_rank(image, right, support, along)

    def solve_items(
        self, support: Int32Array, grams: Float32Array, crossed: Float32Array, ks: AnyArray, rhos: AnyArray
    ) -> tuple[Float32Array, int]:
        """(grams + rho*I)^-1 crossed for items and rhos, of the first k neighbors, and a singular item or -1."""
        if not isinstance(grams, Grams):
            return THREADS.solve_items(support, grams, crossed, ks, rhos)
        file = SharedFile(self.folder, crossed)
        given = grams.folder, grams.key, *(each.path for each in grams.files), file.path, ks, rhos
        threads = max(self.list_workers().values())
        tasks = [(*given, a, b, threads) for a, b in self._cut_items(len(support))]
        found = self.run_tasks(worker.solve_range, tasks, pinned=True)
        weights = np.concatenate([each for each, _ in found], axis=2)
        return weights, next((singular for _, singular in found if singular >= 0), -1)


def _keep(x: AnyArray) -> AnyArray:
    return x


def write_block(folder: Path, number: int, indptr: Int64Array, items: Int32Array) -> None:
    """Write the pattern of a block into a folder."""
    worker.write_array(folder / f"indptr-{number}.npy", indptr)
    worker.write_array(folder / f"items-{number}.npy", items)


_opened: list[DaskEngine] = []


def open_engine() -> DaskEngine:
    """Return the engine of workers on this machine, which are started when they are first needed."""
    if not _opened:
        _opened.append(DaskEngine())
    return _opened[0]
