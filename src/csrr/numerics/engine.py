"""Where the work of a fit runs: the operations that solvers are written in, so that they are written once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from csrr._base.arrays import AnyArray, Float64Array, FloatArray

if TYPE_CHECKING:
    from csrr.numerics.problem import Pattern, Sparse

Part = TypeVar("Part")


class Engine(Protocol):
    """The operations of a fit on an (n, m) matrix whose rows, users, may lie in blocks in many places.

    Arrays are of three kinds. The *user side*, (n, k), and *cells*, (nnz,), one value an observed cell in row order,
    lie with the blocks of users. The *item side*, (m, k), and what is small, (k, c), is everywhere. Solvers do no more
    to the first two than arithmetic among themselves and with numbers and rows, (k,), column slices, `shape` and
    `dtype`; once a problem, a sum or a maximum over cells. Everything else is a method below, each of them one of:

    - a map over blocks whose results stay where they are: `multiply_sparse`, `dot_rows`, `multiply`, `map_cells`,
      `map_rows`, `map_ranges`, `scatter_ranges`, `join_columns`;
    - a map over blocks whose results, none larger than (m, k), are added up: `multiply_transposed`, `cross`,
      `dot_columns`, `sum_cells`. The order of the additions depends on the data alone, never on how many workers
      there are or which is first, so that a fit has the same bits anywhere.

    As solvers take turns between the sides, `multiply`, `cross`, `dot_columns` and `join_columns` are asked of
    either side. Functions that are handed to a map get the arrays of their block and return new ones: they change
    nothing that they were given, so that a block may be a copy on another machine. What a method returns is new, and
    theirs who asked; only `put` may give back what it got.

    An engine on a GPU keeps the pattern, cells and both sides on the device and has to bring the methods as kernels or
    library calls there, `put` as the copy to it, and its own versions of the functions handed to `map_rows`,
    `map_ranges` and `scatter_ranges`, which are compiled for a CPU. An engine on many machines keeps blocks with
    workers, gives user side and cells a type of its own for the arithmetic above, and adds up (m, k) numbers a step,
    however many users there are. Alternating in factors (`problem.T`) needs the cells by item as well.
    """

    def put(self, x: FloatArray) -> FloatArray:
        """An array of the user or the item side, (rows, k), drawn or made here, as one of the engine's own."""
        ...

    def multiply_sparse(self, matrix: Sparse, x: FloatArray) -> FloatArray:
        """matrix @ x, (n, k), for a matrix of (n, m) and x of (m, k)."""
        ...

    def multiply_transposed(self, matrix: Sparse, y: FloatArray) -> FloatArray:
        """matrix.T @ y, (m, k), for a matrix of (n, m) and y of (n, k)."""
        ...

    def dot_rows(self, pattern: Pattern, left: FloatArray, right: FloatArray, width: int) -> FloatArray:
        """left @ right.T on the observed cells, (nnz,): left (n, k), right (m, k), their first `width` columns."""
        ...

    def map_cells(self, work: Callable[..., FloatArray], *cells: FloatArray) -> FloatArray:
        """`work` of arrays of (nnz,), (nnz,): it is given the same range of each, and returns one value a cell."""
        ...

    def sum_cells(self, work: Callable[..., float], *cells: FloatArray) -> float:
        """The sum of `work` over ranges of arrays of (nnz,): it returns what its range adds, in double precision."""
        ...

    def multiply(self, x: FloatArray, small: FloatArray) -> FloatArray:
        """x @ small, (rows, c), for x of (rows, k) and small of (k, c)."""
        ...

    def cross(self, x: FloatArray, y: FloatArray) -> Float64Array:
        """x.T @ y, (k, c), for x of (rows, k) and y of (rows, c)."""
        ...

    def dot_columns(self, x: FloatArray, y: FloatArray) -> Float64Array:
        """The dot product of every column of x with that of y, (rows, k) both, in double precision, (k,)."""
        ...

    def join_columns(self, arrays: Sequence[FloatArray]) -> FloatArray:
        """Arrays of (rows, ...) side by side, (rows, the sum of their widths)."""
        ...

    def map_rows(
        self,
        work: Callable[..., tuple[FloatArray, ...]],
        pattern: Pattern,
        cells: Sequence[FloatArray],
        rows: Sequence[FloatArray],
    ) -> tuple[FloatArray, ...]:
        """What `work` returns for blocks of users, each array, (n, ...), put together in their order.

        `work` is given a block's `indptr`, from 0, and `indices`, and its parts of `cells`, (nnz,), and of
        `rows`, (n, ...); it returns arrays with one entry a user of the block.
        """
        ...

    def map_ranges(
        self, work: Callable[[int, int], tuple[AnyArray, ...]], bounds: Sequence[int]
    ) -> tuple[AnyArray, ...]:
        """What `work(start, stop)` returns for each consecutive pair of `bounds`, put together in order.

        For maps over items. It returns arrays with one entry for each of start to stop.
        """
        ...

    def scatter_ranges(
        self,
        work: Callable[[int, int], Part],
        place: Callable[[int, int, Part, FloatArray], object],
        bounds: Sequence[int],
        whole: FloatArray,
    ) -> FloatArray:
        """`whole`, a new array, with what `work(start, stop)` returns for each consecutive pair of `bounds` in it.

        `place(start, stop, part, whole)` puts a part where it belongs; no two parts have a place in common.
        """
        ...
