"""The engine of a GPU, by PyTorch: everything stays on the device from `put` to `get`, the item side too.

Without a GPU the same code runs on the processor, which is how it is tested. Sums are in an order that the libraries
below choose: results are those of other engines up to rounding, not the same bits.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch

from csrr._base.arrays import AnyArray, Float64Array, FloatArray, Int32Array, Int64Array
from csrr.numerics.device_arrays import DeviceArray, fetch, lift, multiply
from csrr.numerics.engine import Engine, RankingEngine

if TYPE_CHECKING:
    from csrr.numerics.neighbors import Likeness, Regression
    from csrr.numerics.problem import Pattern, Problem, Sparse

_WORK_BYTES = {"cuda": 2**31, "cpu": 2**25}
"""The memory that one operation may take for what it makes on the way."""
_SINGULAR = 1e-6
"""The share of the diagonal below which a pivot of a system of neighbors is nothing."""


def _make_sparse(indptr: Any, indices: Any, values: Any, shape: tuple[int, int]) -> Any:
    return torch.sparse_csr_tensor(indptr, indices, values, shape, check_invariants=False)


with warnings.catch_warnings():
    # PyTorch says once in a process that such tensors are in beta.
    warnings.simplefilter("ignore")
    _make_sparse(torch.zeros(2, dtype=torch.int32), torch.zeros(0, dtype=torch.int32), torch.zeros(0), (1, 1))


class _Cells:
    """The observed cells of a pattern on a device, both ways."""

    def __init__(self, pattern: Pattern, device: Any) -> None:
        self.shape = pattern.shape
        self.indptr = lift(pattern.indptr, device).to(torch.int32)
        self.columns = lift(pattern.indices, device)
        self._counts = lift(np.diff(pattern.indptr), device)

    @cached_property
    def rows(self) -> Any:
        """The row of each cell, (nnz,)."""
        return torch.repeat_interleave(
            torch.arange(self.shape[0], dtype=torch.int32, device=self.columns.device),
            self._counts,
            output_size=len(self.columns),
        )

    @cached_property
    def order(self) -> Any:
        """The place of each cell of the transposed pattern, (nnz,)."""
        return torch.sort(self.columns, stable=True).indices

    @cached_property
    def column_starts(self) -> Any:
        """Where the cells of each column begin in that order, (m + 1,)."""
        counts = torch.bincount(self.columns, minlength=self.shape[1])
        return torch.cat([counts.new_zeros(1), counts.cumsum(0)]).to(torch.int32)

    @cached_property
    def column_bounds(self) -> Int64Array:
        """The same in numpy."""
        return fetch(self.column_starts).astype(np.int64)

    @cached_property
    def rows_by_column(self) -> Any:
        """The row of each cell, in that order, (nnz,)."""
        return self.rows[self.order]

    @cached_property
    def columns_by_column(self) -> Any:
        """The column of each cell, in that order, (nnz,)."""
        return self.columns[self.order]

    def fill(self, values: Any) -> Any:
        """The sparse (n, m) with `values`, (nnz,)."""
        return _make_sparse(self.indptr, self.columns, values, self.shape)

    def fill_transposed(self, values: Any) -> Any:
        """The sparse (m, n) with `values`, (nnz,), given item by item."""
        return _make_sparse(self.column_starts, self.rows_by_column, values, self.shape[::-1])

    def list_blocks(self, left: Any, right: Any, most_bytes: int) -> Iterator[tuple[int, int, Any]]:
        """The columns a to b of left' @ right, dense (m, b - a), for sparse left and right; values item by item."""
        n, m = self.shape
        transposed = self.fill_transposed(left)
        width = int(np.clip(most_bytes // (8 * (n + 3 * m)), 1, 4096))
        for a in range(0, m, width):
            b = min(a + width, m)
            cells = slice(int(self.column_bounds[a]), int(self.column_bounds[b]))
            part = torch.zeros((n, b - a), dtype=left.dtype, device=left.device)
            part[self.rows_by_column[cells], self.columns_by_column[cells] - a] = right[cells].to(left.dtype)
            yield a, b, transposed @ part


class CudaEngine(Engine, RankingEngine):
    """`Engine` on a device of PyTorch: its own arrays are `DeviceArray`, those of the item side and small ones too.

    A method without a text of its own is as there.
    """

    def __init__(self, device: str = "cuda") -> None:
        self.device = torch.device(device)
        self._cells: WeakKeyDictionary[Pattern, _Cells] = WeakKeyDictionary()

    def __reduce__(self) -> tuple[Any, ...]:
        return CudaEngine, (str(self.device),)

    def _find(self, pattern: Pattern) -> _Cells:
        if pattern not in self._cells:
            self._cells[pattern] = _Cells(pattern, self.device)
        return self._cells[pattern]

    def _lift(self, x: Any) -> Any:
        return lift(x, self.device)

    @property
    def _work_bytes(self) -> int:
        return _WORK_BYTES[self.device.type]

    def put(self, pattern: Pattern, x: FloatArray) -> Any:
        """The array on the device, (n,) or (n, k)."""
        return x if isinstance(x, DeviceArray) else DeviceArray(self._lift(x))

    def put_cells(self, pattern: Pattern, values: FloatArray) -> Any:
        """The array on the device, (nnz,)."""
        return self.put(pattern, values)

    def get(self, x: Any, rows: AnyArray | None = None) -> FloatArray:
        """The array in numpy, or some of its rows."""
        if not isinstance(x, DeviceArray):
            return x if rows is None else x[rows]  # type: ignore[no-any-return]
        return fetch(x.tensor if rows is None else x.tensor[self._lift(rows)])

    # Products

    def multiply_sparse(self, matrix: Sparse, x: FloatArray) -> Any:
        values = self._lift(matrix.values)
        return DeviceArray(self._find(matrix.pattern).fill(values) @ self._lift(x).to(values.dtype))

    def multiply_transposed(self, matrix: Sparse, y: FloatArray) -> Any:
        values = self._lift(matrix.values_by_item)
        return DeviceArray(self._find(matrix.pattern).fill_transposed(values) @ self._lift(y).to(values.dtype))

    def dot_rows(self, pattern: Pattern, left: FloatArray, right: FloatArray, width: int) -> Any:
        return DeviceArray(
            self._dot_cells(self._find(pattern), self._lift(left)[:, :width], self._lift(right)[:, :width])
        )

    def _dot_cells(self, cells: _Cells, left: Any, right: Any) -> Any:
        if left.shape[1] == 0 or len(cells.columns) == 0:
            return left.new_zeros(len(cells.columns))
        zeros = cells.fill(left.new_zeros(len(cells.columns)))
        return torch.sparse.sampled_addmm(zeros, left, right.T, beta=0.0).values()

    def scale_cells(self, pattern: Pattern, user: FloatArray, item: FloatArray) -> Any:
        cells = self._find(pattern)
        return DeviceArray(self._lift(user)[cells.rows] * self._lift(item)[cells.columns])

    def transpose_cells(self, pattern: Pattern, values: FloatArray) -> Any:
        return DeviceArray(self._lift(values)[self._find(pattern).order])

    def map_cells(self, work: Callable[..., FloatArray], *cells: FloatArray) -> Any:
        """`work` of arrays of (nnz,), (nnz,): of all cells at once."""
        return work(*cells)

    def sum_cells(self, work: Callable[..., float], *cells: FloatArray) -> float:
        """The sum of `work` over arrays of (nnz,): of all cells at once."""
        return float(work(*cells))

    def sum_rows(self, pattern: Pattern, values: FloatArray) -> Any:
        cells, given = self._find(pattern), self._lift(values).double()
        return DeviceArray((cells.fill(given) @ given.new_ones((pattern.shape[1], 1)))[:, 0])

    def sum_columns(self, pattern: Pattern, values: FloatArray) -> Float64Array:
        """The sum of the cells of each column, (m,), in double precision, in numpy."""
        cells, given = self._find(pattern), self._lift(values).double()
        return fetch((cells.fill_transposed(given[cells.order]) @ given.new_ones((pattern.shape[0], 1)))[:, 0])

    def multiply(self, x: FloatArray, small: FloatArray) -> Any:
        return DeviceArray(multiply(self._lift(x), self._lift(small)))

    def cross(self, x: FloatArray, y: FloatArray) -> Any:
        """x.T @ y, (k, c), for x of (rows, k) and y of (rows, c), in double precision."""
        left = self._lift(x).double()
        return DeviceArray(left.T @ (left if y is x else self._lift(y).double()))

    def dot_columns(self, x: FloatArray, y: FloatArray) -> Float64Array:
        """The dot product of every column of x with that of y, (rows, k) both, in double precision, (k,), in numpy."""
        left = self._lift(x).double()
        return fetch((left * (left if y is x else self._lift(y))).sum(0))

    def dot(self, x: FloatArray, y: FloatArray) -> float:
        return float(self.dot_columns(x, y).sum())

    def find_largest_norm(self, x: FloatArray) -> float:
        norms = torch.linalg.vector_norm(self._lift(x), dim=1)
        return float(norms.max()) if len(norms) else 0.0

    def join_columns(self, arrays: Sequence[FloatArray]) -> Any:
        return DeviceArray(torch.cat([self._lift(each) for each in arrays], 1))

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
    ) -> tuple[Any, float]:
        cells, given = self._find(problem.pattern), _Given.of(problem, self)
        mine, theirs = self._lift(own), self._lift(other)
        # A column without curvature or penalty has no say, and must not divide by zero.
        m = (self._lift(curvature) + self._lift(reg)[:, None]).to(mine.dtype).clamp(min=1e-30)
        loss, pull = given.weigh(self._dot_cells(cells, mine, theirs))
        residual = cells.fill(pull) @ theirs - m * mine
        total = loss + 0.5 * float((mine.double() ** 2 * m).sum())
        mine, extra_weight = mine.clone(), given.weight - 1
        direction = residual / m
        size = (residual * direction).sum(1)
        is_going = torch.ones_like(size, dtype=torch.bool)
        for step in range(steps):
            image = m * direction
            # One product gives what the cells add to the curvature along the direction.
            image += cells.fill(extra_weight * self._dot_cells(cells, direction, theirs)) @ theirs
            bend = (image * direction).sum(1)
            is_going = is_going & (bend > 0) & (size > 0)
            length = torch.where(is_going, size / torch.where(is_going, bend, torch.ones_like(bend)), 0)[:, None]
            if step == steps - 1:
                mine += relax * length * direction
                break
            mine += length * direction
            residual -= length * image
            smaller = (residual**2 / m).sum(1)
            ratio = torch.where(is_going, smaller / torch.where(is_going, size, torch.ones_like(size)), 0)
            size = smaller
            direction = residual / m + ratio[:, None] * direction
        return DeviceArray(mine), total

    def pull_rows(self, problem: Problem, own: FloatArray, other: FloatArray) -> tuple[Any, float]:
        cells, theirs = self._find(problem.pattern), self._lift(other)
        loss, pull = _Given.of(problem, self).weigh(self._dot_cells(cells, self._lift(own), theirs))
        return DeviceArray(cells.fill(pull) @ theirs), loss

    # Neighbors

    def find_nearest(
        self, pattern: Pattern, likeness: Likeness, width: int, amounts: FloatArray | None
    ) -> tuple[Any, Any, Any]:
        """The largest likenesses to each item, whose they are, best first, and how many each item has, in numpy.

        Counts are exact in single precision; sums of other amounts are taken in double, so that ties stay ties.
        """
        cells, m = self._find(pattern), pattern.shape[1]
        user = self._lift(likeness.user)
        is_count = amounts is None and bool((user == 1).all())
        kind = torch.float32 if is_count else torch.float64
        own = user.new_ones(pattern.nnz) if amounts is None else self._lift(amounts)
        own = own[cells.order].to(kind)
        theirs = own * user[cells.rows_by_column].to(kind)
        item, had, scored = (self._lift(each) for each in (likeness.item, likeness.had, likeness.scored))
        values = np.zeros((m, width), np.float32)
        items, found = np.zeros((m, width), np.int32), np.zeros(m, np.int64)
        for a, b, together in cells.list_blocks(own, theirs, self._work_bytes):
            dot = together.T * item * item[a:b, None]
            below = had + scored[a:b, None] - dot if likeness.ratio else had * scored[a:b, None]
            alike = (dot / (below + likeness.shrink)).float()
            alike.masked_fill_(together.T == 0, -1)
            alike[torch.arange(b - a, device=self.device), torch.arange(a, b, device=self.device)] = -1
            best, rows = _find_largest(alike, width)
            values[a:b], items[a:b] = fetch(best.clamp(min=0)), fetch(rows.int())
            found[a:b] = fetch((best >= 0).sum(1))
        return values, items, found

    def cross_targets(self, regression: Regression) -> Any:
        cells, support = self._find(regression.pattern), self._lift(regression.support).long()
        out = torch.empty(support.shape, dtype=torch.float64, device=self.device)
        x, target = self._make_x(regression), self._lift(regression.target)[cells.order]
        for a, b, block in cells.list_blocks(x, target, self._work_bytes):
            out[a:b] = block.T.gather(1, support[a:b].clamp(min=0))
        return DeviceArray(out.masked_fill_(support < 0, 0))

    def _make_x(self, regression: Regression) -> Any:
        """The entries of X, item by item, (nnz,)."""
        cells = self._find(regression.pattern)
        user, item = self._lift(regression.user), self._lift(regression.item)
        entries = user[cells.rows_by_column] * item[cells.columns_by_column]
        return entries if regression.amounts is None else entries * self._lift(regression.amounts)[cells.order]

    def gather_grams(self, regression: Regression, support: Int32Array) -> Any:
        """X'X among the neighbors of some items, (items, K, K)."""
        cells, places = self._find(regression.pattern), self._lift(support).long()
        items, width = places.shape
        # The rows of X'X are made in blocks, each for all the places where its items are neighbors.
        whose, order = torch.sort(places.flatten())
        x = self._make_x(regression)
        grams = x.new_zeros((items * width, width))
        starts = torch.searchsorted(whose, torch.arange(regression.pattern.shape[1] + 1, device=self.device))
        bounds = fetch(starts)
        most = max(1, self._work_bytes // (16 * max(width, 1)))
        for a, b, block in cells.list_blocks(x, x, self._work_bytes):
            flat = block.flatten()
            for first in range(int(bounds[a]), int(bounds[b]), most):
                mine = order[first : min(first + most, int(bounds[b]))]
                others = places[mine // width].clamp(min=0)
                at = others * (b - a) + (places.flatten()[mine] - a)[:, None]
                grams[mine] = flat[at.flatten()].view(at.shape)
        return DeviceArray(grams.view(items, width, width))

    def cross_low_rank(self, image: FloatArray, right: FloatArray, support: Int32Array, along: Float64Array) -> Any:
        of_items, theirs, places, given = (self._lift(each) for each in (image, right, support, along))
        out = torch.empty(places.shape, dtype=torch.float32, device=self.device)
        size = max(1, self._work_bytes // (2 * of_items.element_size() * max(1, places.shape[1] * of_items.shape[1])))
        for a in range(0, len(places), size):
            mine = slice(a, a + size)
            near = of_items.index_select(0, places[mine].clamp(min=0).flatten()).view(*places[mine].shape, -1)
            out[mine] = given[mine] - (near @ theirs[mine].to(near.dtype)[:, :, None])[:, :, 0]
        return DeviceArray(out.masked_fill_(places < 0, 0))

    def solve_items(
        self, support: Int32Array, grams: Any, crossed: Any, ks: AnyArray, rhos: AnyArray
    ) -> tuple[Any, int]:
        places, grams, crossed = (self._lift(each) for each in (support, grams, crossed))
        width, singular = places.shape[1], -1
        weights = torch.zeros((len(crossed), len(ks), *places.shape), dtype=torch.float32, device=self.device)
        size = max(1, self._work_bytes // (32 * max(1, width) ** 2))
        for a in range(0, len(places), size):
            mine = slice(a, a + size)
            there = (places[mine] >= 0).sum(1, keepdim=True)
            right = crossed[:, mine].double().permute(1, 2, 0)
            for r, (k, rho) in enumerate(zip(ks.tolist(), rhos.tolist(), strict=True)):
                is_in = torch.arange(width, device=self.device) < there.clamp(max=k)
                found, is_bad = _solve_systems(grams[mine], right, is_in, rho)
                if singular < 0 and bool(is_bad.any()):
                    singular = a + int(is_bad.int().argmax())
                weights[:, r, mine] = found.permute(2, 0, 1).float()
        return DeviceArray(weights), singular

    # Ranking

    def rank_held_out(
        self, u: Any, regression: Regression, weights: Sequence[Any], clicks: Any, heldout: Any, amounts: Any
    ) -> AnyArray:
        left, right, support, item, scale = (
            self._lift(each) for each in (*u, regression.support, regression.item, regression.user)
        )
        rows = np.flatnonzero(np.diff(heldout.indptr))
        theirs = (right / item[:, None]).float()
        history = _History.of(clicks, scale, amounts, self.device)
        asked = _History.of(heldout, None, None, self.device)
        ranks = np.empty((len(weights), heldout.nnz))
        size = max(1, self._work_bytes // (24 * len(theirs)))
        sparse = [self._spread(each, support, item) for each in weights]
        for a in range(0, len(rows), size):
            some = self._lift(rows[a : a + size])
            base = left[some].float() @ theirs.T
            past = history.fill(some, len(theirs))
            seen, whose = history.list_cells(some)
            held, who = asked.list_cells(some)
            first, last = heldout.indptr[rows[a]], heldout.indptr[rows[min(a + size, len(rows)) - 1] + 1]
            for v, matrix in enumerate(sparse):
                scores = base + (matrix @ past).T
                scores[whose, history.columns[seen].long()] = -torch.inf
                ranks[v, first:last] = fetch(self._count_ranks(scores, who, asked.columns[held].long()))
        return ranks

    def _spread(self, weights: Any, support: Any, item: Any) -> Any:
        """Weights on the support, (m, K), in units of a click: sparse (m, m), by scored item."""
        m, width = support.shape
        columns = support.clamp(min=0)
        values = self._lift(weights).float() * (item[columns.flatten()].view(m, width) / item[:, None])
        indptr = torch.arange(0, m * width + 1, max(width, 1), dtype=torch.int32, device=self.device)
        if width == 0:
            indptr = torch.zeros(m + 1, dtype=torch.int32, device=self.device)
        return _make_sparse(indptr, columns.flatten(), values.masked_fill(support < 0, 0).float().flatten(), (m, m))

    def _count_ranks(self, scores: Any, who: Any, items: Any) -> Any:
        out = torch.empty(len(who), dtype=torch.float64, device=self.device)
        size = max(1, self._work_bytes // (8 * max(1, scores.shape[1])))
        for a in range(0, len(who), size):
            mine = slice(a, a + size)
            all_of, its = scores[who[mine]], scores[who[mine], items[mine]][:, None]
            twice = 2 * (all_of > its).sum(1) + (all_of == its).sum(1)
            out[mine] = 1 + (twice - 1) / 2
        return out

    def find_top(
        self, users: FloatArray, items: FloatArray, weights: Any, clicks: Any, scale: AnyArray, amounts: Any,
        rows: AnyArray, k: int, left_out: Sequence[Any], allowed: AnyArray, places: AnyArray
    ) -> tuple[Int32Array, AnyArray]:  # fmt: skip
        mine, theirs, order = (self._lift(each) for each in (users, items, places))
        history = _History.of(clicks, self._lift(scale), amounts, self.device)
        by_neighbor = _Cells(weights, self.device) if weights.nnz else None
        matrix = None
        if by_neighbor is not None:
            matrix = by_neighbor.fill_transposed(self._lift(weights.data)[by_neighbor.order])
        out = [_History.of(each, None, None, self.device) for each in left_out]
        barred = None if allowed.all() else self._lift(~allowed)
        found, best = np.empty((len(rows), k), np.int32), np.empty((len(rows), k), np.float32)
        size = max(1, self._work_bytes // (24 * len(theirs)))
        for a in range(0, len(rows), size):
            part = slice(a, min(a + size, len(rows)))
            some = self._lift(rows[part])
            scores = mine[some] @ theirs.T
            if matrix is not None:
                scores += (matrix @ history.fill(some, len(theirs))).T
            if barred is not None:
                scores[:, barred] = -torch.inf
            for each in out:
                cells, whose = each.list_cells(torch.arange(part.start, part.stop, device=self.device))
                scores[whose, each.columns[cells].long()] = -torch.inf
            # A few more than asked for, as equal scores at the end of a list come in any order.
            values, whose = torch.topk(scores, min(k + _TIES, scores.shape[1]))
            by_place = order[whose].argsort(dim=1)
            values, whose = values.gather(1, by_place), whose.gather(1, by_place)
            by_score = values.argsort(dim=1, descending=True, stable=True)[:, :k]
            values, whose = values.gather(1, by_score), whose.gather(1, by_score)
            found[part] = fetch(whose.masked_fill(values == -torch.inf, -1))
            best[part] = fetch(values)
        return found, best

    # Weights between all items

    def weigh_all_items(self, clicks: Any, reg: float) -> AnyArray:
        cells, m = _Cells(clicks, self.device), clicks.shape[1]
        ones = torch.ones(clicks.nnz, device=self.device)
        gram = torch.empty((m, m), dtype=torch.float64, device=self.device)
        for a, b, block in cells.list_blocks(ones, ones, self._work_bytes):
            gram[:, a:b] = block
        gram.diagonal().add_(reg)
        _invert(gram)
        weights = torch.empty((m, m), dtype=torch.float32, device=self.device)
        weights.copy_(gram / -gram.diagonal())
        weights.fill_diagonal_(0)
        return fetch(weights)


_TIES = 8
_SMALL = 2048


def _invert(x: Any) -> None:
    """Inverts a positive definite matrix in place, by its halves: nearly all of it is products."""
    m = len(x)
    if m <= _SMALL:
        lower, failed = torch.linalg.cholesky_ex(x)
        if int(failed) or not bool((lower.diagonal() > 0).all()):
            raise np.linalg.LinAlgError("the matrix is singular")
        x.copy_(torch.cholesky_inverse(lower))
        return
    half = m // 2
    first, cross, last = x[:half, :half], x[half:, :half], x[half:, half:]
    _invert(first)
    along = cross @ first
    last.addmm_(along, cross.T, alpha=-1)
    _invert(last)
    torch.mm(last, along, out=(turned := torch.empty_like(along)))
    first.addmm_(along.T, turned)
    cross.copy_(turned.neg_())
    x[:half, half:] = cross.T


class _History(NamedTuple):
    """Rows of a sparse matrix, to be taken: `values`, (nnz,), None for ones."""

    indptr: Any
    columns: Any
    values: Any

    @classmethod
    def of(cls, matrix: Any, scale: Any, amounts: Any, device: Any) -> _History:
        """Those of a csr matrix with the values `amounts`, (nnz,), or ones, times the `scale` of their row, (n,)."""
        indptr, columns = lift(matrix.indptr, device).long(), lift(matrix.indices, device)
        values = None
        if scale is not None:
            counts = indptr.diff()
            values = torch.repeat_interleave(scale.float(), counts, output_size=len(columns))
            values = values if amounts is None else values * lift(amounts, device).float()
        return cls(indptr, columns, values)

    def list_cells(self, rows: Any) -> tuple[Any, Any]:
        """The places of the cells of some rows, (cells,), and which of these rows each is of, counted from 0."""
        counts = self.indptr[rows + 1] - self.indptr[rows]
        whose = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), counts)
        first = self.indptr[rows] - (counts.cumsum(0) - counts)
        return torch.arange(len(whose), device=rows.device) + first[whose], whose

    def fill(self, rows: Any, m: int) -> Any:
        """These rows, dense, (m, rows)."""
        cells, whose = self.list_cells(rows)
        filled = torch.zeros((m, len(rows)), device=rows.device)
        filled[self.columns[cells].long(), whose] = self.values[cells]
        return filled


def _find_largest(values: Any, k: int) -> tuple[Any, Any]:
    """The k largest of each row and their columns, (rows, k); of equal ones the first columns, in their order."""
    least = torch.topk(values, k).values[:, -1:]
    is_equal = values == least
    room = k - (values > least).sum(1, keepdim=True)
    is_in = (values > least) | (is_equal & (is_equal.cumsum(1, dtype=torch.int32) <= room))
    columns = is_in.nonzero()[:, 1].view(len(values), k)
    best, order = values.gather(1, columns).sort(dim=1, descending=True, stable=True)
    return best, columns.gather(1, order)


def _solve_systems(grams: Any, right: Any, is_in: Any, rho: float) -> tuple[Any, Any]:
    """(G + rho*I)^-1 b on the neighbors that are in, 0 elsewhere, and which systems are singular.

    `grams` is (items, K, K), `right` (items, K, v), `is_in` (items, K).
    """
    systems = grams.double() * (is_in[:, :, None] & is_in[:, None, :])
    diagonal = systems.diagonal(dim1=1, dim2=2)
    diagonal += torch.where(is_in, rho, 1.0)
    lower, failed = torch.linalg.cholesky_ex(systems)
    pivots = lower.diagonal(dim1=1, dim2=2) ** 2
    is_bad = (failed > 0) | ~(pivots > _SINGULAR * diagonal).all(1)
    return torch.cholesky_solve(right * is_in[:, :, None], lower), is_bad


class _Given(NamedTuple):
    """The data of a problem's cells as tensors, (nnz,) each; V's penalty None without V."""

    target: Any
    weight: Any
    penalty: Any

    @classmethod
    def of(cls, problem: Problem, engine: CudaEngine) -> _Given:
        """Those of a problem."""
        target, weight, *more = (lift(each, engine.device) for each in problem.given)
        return cls(target, weight, more[0] if more else None)

    def weigh(self, u: Any) -> tuple[float, Any]:
        """sum_obs (h(u) - u^2/2), and -h'(u) + u, (nnz,): beyond the share of the all-cells term 1/2*||P Q'||^2."""
        error, cost = self.target - u, 0.0
        if self.penalty is not None:
            v = (error - self.penalty / self.weight).clamp(0, 1)
            error, cost = error - v, float((self.penalty * v).sum(dtype=torch.float64))
        pull = self.weight * error
        loss = 0.5 * float((pull.double() * error - u.double() ** 2).sum())
        return cost + loss, pull + u


def open_engine() -> CudaEngine:
    """The engine of the GPU; RuntimeError if there is none."""
    if not torch.cuda.is_available():
        built = "PyTorch is built without CUDA" if torch.version.cuda is None else "PyTorch finds no GPU"
        raise RuntimeError(f'there is no GPU: {built}; use engine="threads"')
    return _open("cuda")


@cache
def _open(device: str) -> CudaEngine:
    return CudaEngine(device)
