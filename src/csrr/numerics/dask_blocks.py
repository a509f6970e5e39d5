"""Arrays whose blocks are with Dask's workers: handles that say how each block is made, of what is in files."""

from __future__ import annotations

import operator
import uuid
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from csrr._base.arrays import AnyArray, Int64Array
from csrr.numerics import dask_worker as worker
from csrr.numerics.dask_worker import Make, Number, Ref, RowSlice, Shared


class SharedFile:
    """An array in a file, which goes when nobody needs it any more."""

    def __init__(self, folder: Path, array: AnyArray) -> None:
        self.path = str(folder / f"{uuid.uuid4().hex}.npy")
        worker.write_array(self.path, array)
        weakref.finalize(self, unlink, self.path)


def unlink(*paths: str) -> None:
    for path in paths:
        Path(path).unlink(missing_ok=True)


class Space:
    """The blocks that a pattern's rows are cut into: their rows end at `bounds`, their cells at `cell_bounds`."""

    def __init__(self, folder: Path, bounds: Sequence[int], indptr: Int64Array, n_items: int) -> None:
        self.folder = folder
        self.bounds = tuple(map(int, bounds))
        self.cell_bounds = tuple(int(indptr[each]) for each in bounds)
        self.shape = (self.bounds[-1], n_items)
        self.n_blocks: int = len(self.bounds) - 1
        self.has_cells = False

    def list_lengths(self, *, of_cells: bool) -> tuple[int, ...]:
        """The places where the blocks of an array begin and end."""
        return self.cell_bounds if of_cells else self.bounds


class Node:
    """How an array is made in each block: by `work` of `args`, of which `inputs` are other arrays.

    What is `cheap` is made again each time; else it may be held by workers (`is_held`) or be in files (`is_saved`).
    """

    def __init__(self, key: str, work: Callable[..., Any], args: tuple[Any, ...], *, cheap: bool) -> None:
        self.key, self.work, self.args, self.cheap = key, work, args, cheap
        self.is_held, self.is_saved = False, False
        self.age: int = max((each.age for each in self.inputs), default=0) + (not cheap)

    @property
    def inputs(self) -> list[Node]:
        return [each for each in self.args if isinstance(each, Node)]

    @property
    def make(self) -> Make:
        return Make(self.work, tuple(map(send_arg, self.args)))

    def save_at(self, prefix: str, n_blocks: int) -> None:
        """Take note that the array is in files, and need nothing else to make it."""
        self.is_saved, self.age = True, 0
        self.work, self.args = worker.load, (prefix, Number())
        weakref.finalize(self, unlink, *(f"{prefix}-{block}.npy" for block in range(n_blocks)))


def send_arg(arg: Any) -> Any:
    """An argument as it goes to workers."""
    if isinstance(arg, Node):
        return Ref(arg.key)
    if isinstance(arg, SharedFile):
        return Shared(arg.path)
    if isinstance(arg, Slices):
        return RowSlice(arg.file.path, arg.bounds)
    if type(arg) is tuple:
        return tuple(map(send_arg, arg))
    return arg


class Slices:
    def __init__(self, file: SharedFile, bounds: tuple[int, ...]) -> None:
        self.file, self.bounds = file, bounds


class Blocks:
    """An array of the user side, (n,) or (n, k), or cells, (nnz,), whose blocks are with workers."""

    __array_ufunc__ = None

    def __init__(self, engine: Any, space: Space, node: Node, sample: AnyArray, *, of_cells: bool) -> None:
        self.engine, self.space, self.node, self.sample, self.of_cells = engine, space, node, sample, of_cells
        self.gram: Any = None  # x.T @ x, (k, k), once it is known
        engine.live[next(engine.counter)] = self

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("this array is with Dask's workers: ask its engine for it, `engine.get`")

    def __len__(self) -> int:
        return self.space.list_lengths(of_cells=self.of_cells)[-1]

    @property
    def dtype(self) -> Any:
        return self.sample.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self), *self.sample.shape[1:])

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    def derive(self, function: Callable[..., Any], *args: Any) -> Blocks:
        """Return a function of this array and others, a block at a time: it is quick where it has one array only."""
        others = [each for each in args if isinstance(each, Blocks)]
        for other in others:
            if other.space is not self.space or other.of_cells != self.of_cells:
                raise ValueError("arrays of different rows do not go together")
        for arg in args:
            if isinstance(arg, np.ndarray) and arg.ndim and arg.shape != self.shape[1:]:
                raise ValueError("only numbers and rows, (k,), go with blocks")
        with np.errstate(all="ignore"):
            sample = function(*(each.sample if isinstance(each, Blocks) else each for each in args))
        nodes = (each.node if isinstance(each, Blocks) else each for each in args)
        node = self.engine.make_node(worker.apply, function, *nodes, cheap=len(others) == 1)
        return Blocks(self.engine, self.space, node, sample, of_cells=self.of_cells)

    def __getitem__(self, key: Any) -> Blocks:
        return self.derive(operator.getitem, self, key)

    def astype(self, dtype: Any, **_: Any) -> Blocks:
        return self if self.dtype == dtype else self.derive(_astype, self, np.dtype(dtype))

    def clip(self, low: Any, high: Any = None) -> Blocks:
        return self.derive(np.clip, self, low, high)

    def __neg__(self) -> Blocks:
        return self.derive(operator.neg, self)

    def __abs__(self) -> Blocks:
        return self.derive(abs, self)

    def _reduce(self, function: Callable[..., Any], join: str = "sum") -> Any:
        return self.engine.ask(self.space, join, worker.apply, function, self.node)

    def sum(self, dtype: Any = None) -> Any:
        return self._reduce(_Sum(dtype))

    def mean(self, dtype: Any = None) -> Any:
        return self.sum(dtype) / self.size

    def max(self, initial: Any = -np.inf) -> Any:
        return self._reduce(_Extreme("max", initial), "max")

    def min(self, initial: Any = np.inf) -> Any:
        return self._reduce(_Extreme("min", initial), "min")

    def any(self) -> bool:
        return bool(self._reduce(np.any, "max"))

    def all(self) -> bool:
        return bool(self._reduce(np.all, "min"))


class _Sum:
    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype

    def __call__(self, x: AnyArray) -> Any:
        return x.sum(dtype=self.dtype)


class _Extreme:
    def __init__(self, name: str, initial: Any) -> None:
        self.name, self.initial = name, initial

    def __call__(self, x: AnyArray) -> Any:
        return getattr(x, self.name)(initial=self.initial)


def _astype(x: AnyArray, dtype: Any) -> AnyArray:
    return x.astype(dtype)


class _Turned:
    """An operator with its sides exchanged."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, right: Any, left: Any) -> Any:
        return self.function(left, right)


def _allow(name: str) -> None:
    """Give blocks an operator, from both sides; a comparison has its other side by itself."""
    function = getattr(operator, name)
    setattr(Blocks, f"__{name}__", lambda self, other: self.derive(function, self, other))
    setattr(Blocks, f"__r{name}__", lambda self, other: self.derive(_Turned(function), self, other))


for _each in ("add", "sub", "mul", "truediv", "pow", "lt", "le", "gt", "ge", "eq", "ne"):
    _allow(_each)


def close_over(nodes: Sequence[Node], *, through_held: bool = False) -> dict[str, Node]:
    """The arrays that it takes to make some, by key: up to those that workers hold, these included; or all."""
    found: dict[str, Node] = {}
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node.key in found:
            continue
        found[node.key] = node
        if through_held or not node.is_held:
            stack += node.inputs
    return found
