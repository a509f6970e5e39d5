"""The interface to what computes a fit: the operations that solvers are written in, so that they are written once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from csrr._base.arrays import AnyArray, Float32Array, Float64Array, FloatArray, Int32Array, Int64Array

if TYPE_CHECKING:
    from csrr.numerics.neighbors import Likeness, Regression
    from csrr.numerics.problem import Pattern, Problem, Sparse


class Engine(Protocol):
    """The operations of a fit on an (n, m) matrix whose rows, users, may lie in blocks in many places.

    Arrays are of three kinds. The *user side*, (n,) or (n, k), and *cells*, (nnz,), one value an observed cell in row
    order, lie with the blocks of users, in a type of the engine's own. The *item side*, (m,) or (m, k), and what is
    small, (k, c), are numpy arrays, which are everywhere. Solvers use the first two only in the methods below, and in
    arithmetic and comparisons among themselves, with numbers and with rows, (k,); and by `shape`, `dtype`, `len`,
    `abs`, `astype`, `clip`, slices and masks of columns, and `sum`, `mean`, `min`, `max`, `any` and `all`.
    Everything else is a method, each of them one of:

    - the way there and back: `put`, `put_cells`, `get`;
    - a map over blocks whose results stay where they are: `multiply_sparse`, `dot_rows`, `multiply`, `map_cells`,
      `scale_cells`, `transpose_cells`, `sum_rows`, `join_columns`, `descend_rows`, `pull_rows`;
    - a map over blocks whose results, none larger than (m, k), are added up: `multiply_transposed`, `cross`,
      `dot_columns`, `dot`, `find_largest_norm`, `sum_cells`, `sum_columns`. The order of the additions depends on the
      data alone, never on how many workers there are or which is first, so that a fit has the same bits anywhere;
    - a map over items: `find_nearest`, `cross_targets`, `gather_grams`, `cross_low_rank`, `solve_items`.

    As solvers take turns between the sides, `multiply`, `cross`, `dot_columns`, `dot` and `join_columns` are asked of
    either side; and a problem's transpose, whose rows are items, is given to `descend_rows`, `pull_rows` and
    `sum_rows` where solvers alternate in factors. Functions that are handed to a map get the arrays of their block and
    return new ones: they change nothing that they were given, so that a block may be a copy on another machine. What a
    method returns is new, and belongs to the caller; only `put`, `put_cells` and `get` may give back what they got.

    An engine on a GPU keeps the pattern, cells and the user side on the device and has to bring the methods as kernels
    or library calls there. An engine on many machines keeps blocks with workers and adds up (m, k) numbers a step,
    however many users there are.
    """

    def put(self, pattern: Pattern, x: FloatArray) -> FloatArray:
        """A numpy array of the user side, (n,) or (n, k), as one of the engine's own."""
        ...

    def put_cells(self, pattern: Pattern, values: FloatArray) -> FloatArray:
        """A numpy array of cells, (nnz,), as one of the engine's own."""
        ...

    def get(self, x: FloatArray, rows: AnyArray | None = None) -> FloatArray:
        """An array of the user side, or cells, as a numpy array: all of it, or some rows by number.

        A numpy array is one already.
        """
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

    def scale_cells(self, pattern: Pattern, user: FloatArray, item: FloatArray) -> FloatArray:
        """user[i] * item[j] for each observed cell (i, j), (nnz,): user (n,), item (m,)."""
        ...

    def transpose_cells(self, pattern: Pattern, values: FloatArray) -> FloatArray:
        """Cells, (nnz,), in the order of the transposed pattern, (nnz,)."""
        ...

    def map_cells(self, work: Callable[..., FloatArray], *cells: FloatArray) -> FloatArray:
        """`work` of arrays of (nnz,), (nnz,): it is given the same range of each, and returns one value a cell."""
        ...

    def sum_cells(self, work: Callable[..., float], *cells: FloatArray) -> float:
        """The sum of `work` over ranges of arrays of (nnz,): it returns what its range adds, in double precision."""
        ...

    def sum_rows(self, pattern: Pattern, values: FloatArray) -> Float64Array:
        """The sum of the cells of each row, (n,), in double precision."""
        ...

    def sum_columns(self, pattern: Pattern, values: FloatArray) -> Float64Array:
        """The sum of the cells of each column, (m,), in double precision."""
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

    def dot(self, x: FloatArray, y: FloatArray) -> float:
        """The sum of x * y, (rows, k) both, in double precision."""
        ...

    def find_largest_norm(self, x: FloatArray) -> float:
        """The largest norm of a row of x, (n, k); 0 for none."""
        ...

    def join_columns(self, arrays: Sequence[FloatArray]) -> FloatArray:
        """Arrays of (rows, ...) side by side, (rows, the sum of their widths)."""
        ...

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
        """A lower point than `own`, (n, d), with `other`, (m, d), fixed, and the objective at `own`.

        See `csrr.numerics.factored.descend`.
        """
        ...

    def pull_rows(self, problem: Problem, own: FloatArray, other: FloatArray) -> tuple[FloatArray, float]:
        """(-h'(u) + u on the observed cells) @ other, (n, d), and sum_obs (h(u) - u^2/2), u = own other'.

        `own` is (n, d), `other` (m, d).
        """
        ...

    def find_nearest(
        self, pattern: Pattern, likeness: Likeness, width: int, amounts: FloatArray | None
    ) -> tuple[Float32Array, Int32Array, Int64Array]:
        """The largest likenesses to each item, whose they are, best first, and how many each item has.

        Shapes (m, width) twice and (m,). `amounts`, (nnz,), are the entries; None: all 1.
        """
        ...

    def cross_targets(self, regression: Regression) -> Float64Array:
        """X'T on the support, (m, K)."""
        ...

    def gather_grams(self, regression: Regression, support: Int32Array) -> Float32Array:
        """X'X among the neighbors of some items, (items, K*(K + 1)/2): lower triangles, row by row.

        `support` is (items, K).
        """
        ...

    def cross_low_rank(
        self, image: FloatArray, right: FloatArray, support: Int32Array, along: Float64Array
    ) -> Float32Array:
        """along - image @ right.T on the support, (m, K): image (m, d), right (m, d), along (m, K)."""
        ...

    def solve_items(
        self, support: Int32Array, grams: Float32Array, crossed: Float32Array, ks: AnyArray, rhos: AnyArray
    ) -> tuple[Float32Array, int]:
        """(grams + rho*I)^-1 crossed for each item and each rho, of the first k neighbors, and a singular item or -1.

        `support`, `grams` and crossed[v] are of the same items; the weights have shape (len(crossed), len(rhos), items,
        K).
        """
        ...


@runtime_checkable
class RankingEngine(Protocol):
    """What an engine may bring besides: lists and ranks from scores that it computes; else they are made on threads."""

    def rank_held_out(
        self, u: Any, regression: Regression, weights: Sequence[Any], clicks: Any, heldout: Any, amounts: Any
    ) -> AnyArray:
        """The rank of each held-out cell among its user's unseen items, ties counted half, (len(weights), cells).

        Scores are those of U = left @ right.T, `u`, and each of `weights`, (m, K) on the support of the regression,
        in units of a click; `clicks` and `heldout` are csr, `amounts`, (nnz,), the values of `clicks`; None: ones.
        """
        ...

    def find_top(
        self, users: FloatArray, items: FloatArray, weights: Any, clicks: Any, scale: AnyArray, amounts: Any,
        rows: AnyArray, k: int, left_out: Sequence[Any], allowed: AnyArray, places: AnyArray
    ) -> tuple[Int32Array, AnyArray]:  # fmt: skip
        """The k best items of user `rows`, and scores, (rows, k): of users @ items.T + diag(scale) @ clicks @ weights.

        `left_out`, csr with a row for each of `rows`, and what is not `allowed`, (m,), are in no list; equal scores go
        by `places`, (m,). A list that runs short ends in item -1 with score -inf.
        """
        ...

    def weigh_all_items(self, clicks: Any, reg: float) -> AnyArray:
        """-P/diag(P) with P = (X'X + reg*I)^-1 and a diagonal of 0, (m, m) float32; `clicks`, csr (n, m), are X.

        LinAlgError if that is singular.
        """
        ...
