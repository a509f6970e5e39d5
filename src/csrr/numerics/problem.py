"""The convex problem, with V minimized out, and the matrices in it: on the observed cells, and of low rank."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy import sparse

from csrr._base.arrays import AnyArray, BoolArray, FloatArray, Int32Array, Int64Array
from csrr.numerics.engine import Engine

_CHUNKS = 16


def _balance_bounds(indptr: Int64Array) -> list[int]:
    """Row numbers that cut the rows into ranges of about equally many cells, (at most _CHUNKS + 1,)."""
    rows = len(indptr) - 1
    wanted = np.linspace(0, indptr[-1], _CHUNKS + 1)
    cuts = np.searchsorted(indptr, wanted[1:-1], side="left")
    return [0, *sorted({int(c) for c in cuts if 0 < c < rows}), rows]


class Pattern:
    """The observed cells of an (n, m) matrix; values on them are arrays of (nnz,), in row order.

    The cells of row i are `indices[indptr[i]:indptr[i + 1]]`, column numbers: `indptr` is (n + 1,), `indices` (nnz,).
    `engine` computes all that concerns them, or a problem with this pattern. `bounds`,
    row numbers, cut the rows into blocks of about equally many cells.
    """

    def __init__(self, shape: tuple[int, int], indptr: Int64Array, indices: Int32Array, engine: Engine) -> None:
        self.shape = shape
        self.indptr = indptr
        self.indices = indices
        self.engine = engine
        self.bounds: list[int] = _balance_bounds(indptr)

    @classmethod
    def of(cls, matrix: Any, engine: Engine) -> Pattern:
        """The pattern of a sparse matrix, (n, m); explicit zeros count as observed."""
        csr = sparse.csr_array(matrix)
        csr.sum_duplicates()
        shape = int(csr.shape[0]), int(csr.shape[1])
        return cls(shape, csr.indptr.astype(np.int64), csr.indices.astype(np.int32), engine)

    @property
    def nnz(self) -> int:
        """The number of observed cells."""
        return len(self.indices)

    def count_items(self, amounts: FloatArray | None = None) -> AnyArray:
        """The number of cells of each column, or the sum of their `amounts`, (nnz,): (m,)."""
        return np.bincount(self.indices, amounts, self.shape[1])

    def draw_signs(self, seed: int, dtype: Any) -> FloatArray:
        """Random signs, one a cell, as an array of the engine's, (nnz,)."""
        signs = np.random.default_rng(seed).integers(0, 2, self.nnz).astype(dtype) * 2 - 1
        return self.engine.put_cells(self, signs)

    @cached_property
    def rows(self) -> Int32Array:
        """The row number of every observed cell, (nnz,)."""
        return np.repeat(np.arange(self.shape[0], dtype=np.int32), np.diff(self.indptr))

    @cached_property
    def _by_item(self) -> tuple[Pattern, Int32Array]:
        """The transposed pattern, and where each of its cells stands in ours, (nnz,)."""
        order = sparse.csr_array(
            (np.arange(self.nnz, dtype=np.int32), self.indices, self.indptr), shape=self.shape
        ).tocsc()
        indptr, indices = order.indptr.astype(np.int64), order.indices.astype(np.int32)
        return Pattern(self.shape[::-1], indptr, indices, self.engine), order.data

    @property
    def T(self) -> Pattern:
        """The transposed pattern."""
        return self._by_item[0]

    @property
    def order_by_item(self) -> Int32Array:
        """The place here of each cell of the transposed pattern, (nnz,)."""
        return self._by_item[1]

    def make_matrix(self, values: FloatArray) -> Any:
        """The (n, m) sparse array with `values`, (nnz,), on the observed cells."""
        return sparse.csr_array((self.engine.get(values), self.indices, self.indptr), shape=self.shape, copy=True)

    def fill(self, values: FloatArray) -> Sparse:
        """The (n, m) matrix with `values`, (nnz,), on the observed cells, for products."""
        return Sparse(self, values)

    def dots(self, left: FloatArray, right: FloatArray, width: int | None = None) -> FloatArray:
        """left @ right.T on the observed cells, (nnz,); of the first `width` columns, if given.

        `left` is (n, k), `right` (m, k).
        """
        return self.engine.dot_rows(self, left, right, left.shape[1] if width is None else width)


class Sparse:
    """The (n, m) matrix with `values`, (nnz,), on the observed cells of a pattern; the pattern's engine multiplies."""

    def __init__(self, pattern: Pattern, values: FloatArray) -> None:
        self.pattern = pattern
        self.values = values

    @cached_property
    def values_by_item(self) -> FloatArray:
        """The values in the order of the transposed pattern, (nnz,), for an engine that wants them so."""
        return self.pattern.engine.transpose_cells(self.pattern, self.values)

    def times(self, x: FloatArray) -> FloatArray:
        """The matrix times x, (m, k): (n, k)."""
        return self.pattern.engine.multiply_sparse(self, x)

    def transposed_times(self, y: FloatArray) -> FloatArray:
        """The transposed matrix times y, (n, k): (m, k)."""
        return self.pattern.engine.multiply_transposed(self, y)


@dataclass(frozen=True, eq=False)
class LowRank:
    """left @ diag(s) @ right.T: left (n, k), right (m, k) with orthonormal columns, s (k,) falling, >= 0.

    Trailing zeros in s are spare directions, kept for the next step's search.
    """

    left: FloatArray
    s: FloatArray
    right: FloatArray

    @classmethod
    def zero(cls, pattern: Pattern, dtype: type = np.float32) -> LowRank:
        """The zero matrix of a pattern's shape, without a direction."""
        left = pattern.engine.put(pattern, np.zeros((pattern.shape[0], 0), dtype))
        return cls(left, np.zeros(0), np.zeros((pattern.shape[1], 0), dtype))

    @property
    def T(self) -> LowRank:
        """The transposed matrix."""
        return LowRank(self.right, self.s, self.left)

    @property
    def width(self) -> int:
        """The number of directions that are kept, spare ones included."""
        return len(self.s)

    @property
    def rank(self) -> int:
        """The number of positive singular values."""
        return int(np.count_nonzero(self.s))

    @property
    def scaled_left(self) -> FloatArray:
        """left * s, (n, k)."""
        return self.left * self.s.astype(self.left.dtype)

    def astype(self, dtype: type) -> LowRank:
        """The same matrix in another precision."""
        return LowRank(self.left.astype(dtype), self.s, self.right.astype(dtype))

    def trim(self) -> LowRank:
        """The same matrix without spare directions."""
        r = self.rank
        return LowRank(self.left[:, :r], self.s[:r], self.right[:, :r])

    def cut(self, rank: int) -> LowRank:
        """The same directions, those beyond a rank to spare."""
        return LowRank(self.left, np.where(np.arange(self.width) < rank, self.s, 0), self.right)

    def split(self) -> tuple[FloatArray, FloatArray]:
        """Factors, (n, r) and (m, r), whose product it is."""
        used = self.trim()
        return used.scaled_left, used.right.copy()

    def compute_nuclear_norm(self, engine: Engine) -> float:
        """||.||_*, from above: 1/2*(||left*sqrt(s)||^2 + ||right*sqrt(s)||^2), exact for orthonormal factors."""
        return 0.5 * float(sum(self.s @ engine.dot_columns(side, side) for side in (self.left, self.right)))

    def compute_squared_norm(self, engine: Engine) -> float:
        """||.||_F^2 from the two Gram matrices, so it holds whatever the factors' rounding."""
        left, right = (engine.cross(side, side) for side in (self.left, self.right))
        return float(self.s @ (left * right) @ self.s)

    def times(self, x: FloatArray, engine: Engine) -> FloatArray:
        """self @ x, (n, c), x (m, c)."""
        return engine.multiply(self.left, (self.s[:, None] * engine.cross(self.right, x)).astype(x.dtype))

    def evaluate_on(self, pattern: Pattern) -> FloatArray:
        """The values on the observed cells, (nnz,)."""
        return pattern.dots(self.scaled_left, self.right, self.rank)


Loss = Literal["I", "II"]


@dataclass(frozen=True, eq=False)
class Problem:
    """
    minimize  l1*||U||_* + sum_obs v_penalty*V + sum_obs w/2*(U + V - t)^2 + 1/2*sum_unobs U^2

    over U of (n, m) and 0 <= V <= 1 on the observed cells (off them V = 0 is optimal). `target` t, `weight` w
    and `v_penalty` have one value an observed cell, (nnz,); v_penalty None leaves V out. Given U, V has a closed form;
    with it, an observed cell costs h(U) = min_V, quadratic with a linear middle of slope v_penalty.
    """

    pattern: Pattern
    target: FloatArray
    weight: FloatArray
    v_penalty: FloatArray | None
    l1: float

    def with_strength(self, l1: float) -> Problem:
        """The same problem with another l1."""
        return replace(self, l1=l1)

    def astype(self, dtype: type) -> Problem:
        """The same problem in another precision."""
        v_penalty: FloatArray | None = None if self.v_penalty is None else self.v_penalty.astype(dtype)
        return replace(self, target=self.target.astype(dtype), weight=self.weight.astype(dtype), v_penalty=v_penalty)

    @property
    def engine(self) -> Engine:
        """The engine that computes everything about this problem."""
        return self.pattern.engine

    @property
    def given(self) -> tuple[FloatArray, ...]:
        """The data of the observed cells, (nnz,) each: target and weight, and V's penalty where there is V."""
        return (self.target, self.weight) if self.v_penalty is None else (self.target, self.weight, self.v_penalty)

    @cached_property
    def T(self) -> Problem:
        """The problem of the transposed matrix."""
        target, weight, *penalties = (self.engine.transpose_cells(self.pattern, each) for each in self.given)
        return Problem(self.pattern.T, target, weight, penalties[0] if penalties else None, self.l1)

    @cached_property
    def smoothness(self) -> float:
        """The largest curvature of a cell."""
        return float(self.weight.max(initial=1.0))

    @cached_property
    def value_at_zero(self) -> float:
        """The objective at U = 0."""
        return self.sum_observed_loss(0 * self.target)

    @cached_property
    def typical_curvature(self) -> float:
        """The curvature that the pull at zero meets: the mean of w over cells that count w*t^2 each, at least 1."""
        weight, square = self.weight.astype(np.float64), self.target.astype(np.float64) ** 2
        mean = float((weight**2 * square).sum() / (weight * square).sum())
        return min(max(1.0, mean), self.smoothness)

    @cached_property
    def convexity(self) -> float:
        """The curvature, V left out, of unobserved cells, or the mean of the observed ones if that is smaller."""
        return min(1.0, float(self.weight.mean(dtype=np.float64)))

    @cached_property
    def is_slack(self) -> bool:
        """Whether V's penalty holds some cell's pull at zero to less than half: it may stay in the linear part."""
        return self.v_penalty is not None and bool((self.v_penalty < 0.5 * self.weight * self.target).any())

    @cached_property
    def is_one_shot(self) -> bool:
        """Whether one soft-thresholded SVD of the targets solves it: no V, every cell of weight 1."""
        return self.v_penalty is None and bool((self.weight == 1).all())

    def find_specific(self, u: FloatArray) -> FloatArray:
        """The best V given U on the observed cells, (nnz,), on those, (nnz,)."""
        return self.engine.map_cells(_find_specific, u, *self.given)

    def pull(self, u: FloatArray) -> FloatArray:
        """-h'(u), (nnz,), u (nnz,): how hard each observed cell pulls U up; at most v_penalty while V < 1."""
        return self.engine.map_cells(_find_pull, u, *self.given)

    def sum_observed_loss(self, u: FloatArray) -> float:
        """sum_obs h(u), u (nnz,)."""
        return self.engine.sum_cells(_sum_loss, u, *self.given)

    def sum_observed_dual(self, y: FloatArray) -> float:
        """-sum_obs h*(-y), y (nnz,): what the observed cells add to the dual value at Y."""
        return self.engine.sum_cells(_sum_dual, y, *self.given)


# Of a range of observed cells: u or y, then target, weight and, with V, its penalty; nothing that is passed in changes.


def _find_specific(u: FloatArray, target: FloatArray, weight: FloatArray, cost: FloatArray | None = None) -> FloatArray:
    return np.zeros_like(u) if cost is None else np.clip(target - u - cost / weight, 0, 1)


def _find_pull(u: FloatArray, target: FloatArray, weight: FloatArray, cost: FloatArray | None = None) -> FloatArray:
    residual = weight * (target - u)
    return residual if cost is None else np.maximum(np.minimum(residual, cost), residual - weight)


def _sum_loss(u: FloatArray, target: FloatArray, weight: FloatArray, cost: FloatArray | None = None) -> float:
    v = _find_specific(u, target, weight, cost)
    residual = (target - u - v).astype(np.float64)
    loss = 0.5 * float(np.sum(weight * residual**2))
    return loss if cost is None else loss + float(np.sum(cost * v, dtype=np.float64))


def _sum_dual(y: FloatArray, target: FloatArray, weight: FloatArray, cost: FloatArray | None = None) -> float:
    y = y.astype(np.float64)
    value = float(np.sum(y * target - y**2 / (2 * weight)))
    return value if cost is None else value - float(np.sum(np.maximum(y - cost, 0)))


def build(
    pattern: Pattern,
    scaled: FloatArray,
    *,
    loss: Loss,
    cost_ratio: float,
    l1: float,
    l2: float | None,
    costs: FloatArray | None = None,
) -> Problem:
    """The CSRR problem for scaled targets in (0, 1], (nnz,).

    Loss I puts weight `cost_ratio`, times the cell's own factor in `costs`, a numpy array, (nnz,), on observed cells;
    loss II multiplies their targets by it. V's penalty on a cell is l2 times its scaled target times that factor, so
    that V is zero at the same l2 everywhere; l2 None leaves V out.
    """
    if costs is not None:
        costs = pattern.engine.put_cells(pattern, costs)
    ratio = scaled.dtype.type(cost_ratio) if costs is None else costs * scaled.dtype.type(cost_ratio)
    weight = 0 * scaled + (ratio if loss == "I" else 1)
    target = scaled if loss == "I" else scaled * ratio
    asked = scaled if costs is None else scaled * costs
    v_penalty = None if l2 is None else asked * scaled.dtype.type(l2)
    return Problem(pattern, target, weight, v_penalty, l1)


def select_rows(problem: Problem, which: BoolArray) -> Problem:
    """Return the problem of some rows alone; `which` is (n,)."""
    pattern = problem.pattern
    cells = which[pattern.rows]
    indptr = np.concatenate(([0], np.cumsum(np.diff(pattern.indptr)[which])))
    shape = int(np.count_nonzero(which)), pattern.shape[1]
    engine, places = pattern.engine, np.flatnonzero(cells)
    part = Pattern(shape, indptr, pattern.indices[cells], engine)
    target, weight, *penalties = (engine.put_cells(part, engine.get(each, places)) for each in problem.given)
    return Problem(part, target, weight, penalties[0] if penalties else None, problem.l1)
