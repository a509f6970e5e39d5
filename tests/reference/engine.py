"""An engine that keeps blocks of users apart; its arrays refuse numpy, and allow what `Engine` allows, no more."""

import operator
from itertools import pairwise

import numpy as np
from scipy import sparse

from csrr.numerics.factored import descend_rows, pull_rows


class Blocks:
    """An array of the user side, or cells, in blocks: only what `Engine` allows works with it."""

    __array_ufunc__ = None

    def __init__(self, parts):
        self.parts = [np.array(part) for part in parts]
        for part in self.parts:
            part.flags.writeable = False

    def __array__(self, *_, **__):
        raise TypeError("these blocks may be on other machines: numpy must not touch them")

    def __len__(self):
        return sum(map(len, self.parts))

    @property
    def dtype(self):
        return self.parts[0].dtype

    @property
    def shape(self):
        return (len(self), *self.parts[0].shape[1:])

    def map(self, work, *others):
        for other in others:
            if isinstance(other, Blocks):
                assert [len(part) for part in other.parts] == [len(part) for part in self.parts]
            elif np.ndim(other):
                assert np.shape(other) == self.shape[1:], "only numbers and rows, (k,), go with blocks"
        given = [each.parts if isinstance(each, Blocks) else [each] * len(self.parts) for each in others]
        return Blocks([work(*each) for each in zip(self.parts, *given, strict=True)])

    def __getitem__(self, key):
        every, columns = key
        assert every == slice(None)
        assert isinstance(columns, slice) or columns.dtype == bool
        return self.map(lambda part: part[key])

    def astype(self, dtype):
        return self.map(lambda part: part.astype(dtype))

    def clip(self, low, high=None):
        return self.map(lambda part: part.clip(low, high))

    def __neg__(self):
        return self.map(operator.neg)

    def __abs__(self):
        return self.map(abs)

    def sum(self, dtype=None):
        return sum(part.sum(dtype=dtype) for part in self.parts)

    def mean(self, dtype=None):
        return self.sum(dtype) / np.prod(self.shape)

    def max(self, initial=-np.inf):
        return max(part.max(initial=initial) for part in self.parts)

    def min(self, initial=np.inf):
        return min(part.min(initial=initial) for part in self.parts)

    def any(self):
        return any(part.any() for part in self.parts)

    def all(self):
        return all(part.all() for part in self.parts)


def allow(name):
    """Give blocks an operator, from both sides; a comparison has its other side by itself."""
    work = getattr(operator, name)
    setattr(Blocks, f"__{name}__", lambda self, other: self.map(work, other))
    setattr(Blocks, f"__r{name}__", lambda self, other: self.map(lambda part, own: work(own, part), other))


for each in ("add", "sub", "mul", "truediv", "pow", "lt", "le", "gt", "ge", "eq", "ne"):
    allow(each)


class BlockEngine:
    """Blocks of `size` users, one after the other, in plain numpy. `asked` names the methods called so far."""

    def __init__(self, size=7):
        self.size = size
        self.asked = set()

    def __getattribute__(self, name):
        if name in OPERATIONS:
            self.asked.add(name)
        return object.__getattribute__(self, name)

    def _cuts(self, rows):
        return list(pairwise([*range(0, max(rows, 1), self.size), rows]))

    def _rows(self, pattern, matrix_values, block):
        """The rows of a sparse matrix in a block."""
        a, b = self._cuts(pattern.shape[0])[block]
        first, last = pattern.indptr[a], pattern.indptr[b]
        shape = b - a, pattern.shape[1]
        return sparse.csr_array(
            (matrix_values, pattern.indices[first:last], pattern.indptr[a : b + 1] - first), shape=shape
        )

    def put(self, pattern, x):
        assert len(x) == pattern.shape[0]
        return Blocks([x[a:b] for a, b in self._cuts(len(x))])

    def put_cells(self, pattern, values):
        assert len(values) == pattern.nnz
        return Blocks([values[pattern.indptr[a] : pattern.indptr[b]] for a, b in self._cuts(pattern.shape[0])])

    def get(self, x, rows=None):
        whole = np.concatenate(x.parts) if isinstance(x, Blocks) else x
        return whole if rows is None else whole[rows]

    def multiply_sparse(self, matrix, x):
        values = matrix.values.parts
        return Blocks([self._rows(matrix.pattern, part, block) @ x for block, part in enumerate(values)])

    def multiply_transposed(self, matrix, y):
        values = matrix.values.parts
        return sum(self._rows(matrix.pattern, part, block).T @ y.parts[block] for block, part in enumerate(values))

    def dot_rows(self, pattern, left, right, width):
        return self._map_blocks(
            lambda rows, indices, mine: (mine[rows, :width] * right[indices, :width]).sum(1), pattern, left
        )

    def scale_cells(self, pattern, user, item):
        return self._map_blocks(lambda rows, indices, mine: mine[rows] * item[indices], pattern, user)

    def _map_blocks(self, work, pattern, left):
        """Cells from the rows, counted from 0, and the columns of the cells of each block, and its part of `left`."""
        parts = []
        for (a, b), mine in zip(self._cuts(pattern.shape[0]), left.parts, strict=True):
            cells = slice(pattern.indptr[a], pattern.indptr[b])
            parts.append(work(pattern.rows[cells] - a, pattern.indices[cells], mine))
        return Blocks(parts)

    def transpose_cells(self, pattern, values):
        return np.concatenate(values.parts)[pattern.order_by_item]

    def map_cells(self, work, *cells):
        return cells[0].map(work, *cells[1:])

    def sum_cells(self, work, *cells):
        return sum(work(*parts) for parts in zip(*(each.parts for each in cells), strict=True))

    def sum_rows(self, pattern, values):
        if not isinstance(values, Blocks):  # the transposed problem's, whose rows are items
            return np.bincount(pattern.rows, values, pattern.shape[0])
        return Blocks(
            [self._rows(pattern, part, block).sum(axis=1, dtype=np.float64) for block, part in enumerate(values.parts)]
        )

    def sum_columns(self, pattern, values):
        return sum(
            self._rows(pattern, part, block).sum(axis=0, dtype=np.float64) for block, part in enumerate(values.parts)
        )

    def multiply(self, x, small):
        return x.map(lambda part: part @ small) if isinstance(x, Blocks) else x @ small

    def cross(self, x, y):
        if not isinstance(x, Blocks):
            return x.T.astype(np.float64) @ y
        return sum(one.T.astype(np.float64) @ two for one, two in zip(x.parts, y.parts, strict=True))

    def dot_columns(self, x, y):
        if not isinstance(x, Blocks):
            return (x.astype(np.float64) * y).sum(0)
        return sum((one.astype(np.float64) * two).sum(0) for one, two in zip(x.parts, y.parts, strict=True))

    def dot(self, x, y):
        return float(self.dot_columns(x, y).sum())

    def find_largest_norm(self, x):
        return max(float(np.sqrt((part**2).sum(1)).max(initial=0)) for part in x.parts)

    def join_columns(self, arrays):
        if not isinstance(arrays[0], Blocks):
            return np.hstack(arrays)
        return Blocks([np.hstack(parts) for parts in zip(*(each.parts for each in arrays), strict=True)])

    def descend_rows(self, problem, own, other, curvature, reg, steps, relax):
        fixed = problem.v_penalty is not None, np.ascontiguousarray(self.get(other)), curvature, steps, relax

        def work(*block):
            *given, start, strengths = block
            lower, loss = start.copy(), np.empty(len(start))
            descend_rows(*given, lower, strengths, *fixed, np.empty((4, lower.shape[1]), lower.dtype), loss)
            return lower, float(loss.sum())

        return self._map_rows(work, problem, own, reg)

    def pull_rows(self, problem, own, other):
        fixed = problem.v_penalty is not None, np.ascontiguousarray(self.get(other))

        def work(*block):
            sums, loss = np.zeros_like(block[-1]), np.empty(len(block[-1]))
            pull_rows(*block, *fixed, sums, loss)
            return sums, float(loss.sum())

        return self._map_rows(work, problem, own)

    def _map_rows(self, work, problem, *rows):
        """The array and the sum that `work` returns for blocks of users, or for all items of a transposed problem."""
        pattern, given = problem.pattern, (*problem.given, problem.target)[:3]
        if not isinstance(rows[0], Blocks):
            return work(pattern.indptr, pattern.indices, *given, *rows)
        found = []
        for block, (a, b) in enumerate(self._cuts(pattern.shape[0])):
            first, last = pattern.indptr[a], pattern.indptr[b]
            shape = pattern.indptr[a : b + 1] - first, pattern.indices[first:last]
            found.append(work(*(part.copy() for part in (*shape, *(each.parts[block] for each in (*given, *rows))))))
        parts, sums = zip(*found, strict=True)
        return Blocks(parts), sum(sums)

    # Neighbors, by matrices of all items

    def _list_x(self, pattern, user, item, amounts):
        """X, a block at a time, dense (users, m)."""
        amounts = self.put_cells(pattern, np.ones(pattern.nnz)) if amounts is None else amounts
        for block, part in enumerate(amounts.parts):
            yield self._rows(pattern, part.astype(np.float64), block).toarray() * user.parts[block][:, None] * item

    def find_nearest(self, pattern, likeness, width, amounts):
        root = likeness.user.map(np.sqrt)
        dot = sum(x.T @ x for x in self._list_x(pattern, root, likeness.item, amounts))
        both = (
            likeness.had[:, None] + likeness.scored - dot if likeness.ratio else np.outer(likeness.had, likeness.scored)
        )
        alike = (dot / (both + likeness.shrink)).astype(np.float32)
        alike[dot == 0] = -np.inf
        np.fill_diagonal(alike, -np.inf)
        best = np.argsort(-alike, axis=0, kind="stable")[:width].T.astype(np.int32)
        values = np.take_along_axis(alike.T, best, 1)
        return np.where(values > -np.inf, values, 0), best, (values > -np.inf).sum(1)

    def cross_targets(self, regression):
        own, pattern = regression, regression.pattern
        xs = self._list_x(pattern, own.user, own.item, own.amounts)
        crossed = sum(x.T @ self._rows(pattern, own.target.parts[block], block).toarray() for block, x in enumerate(xs))
        return np.where(own.support >= 0, crossed[own.support, np.arange(len(own.support))[:, None]], 0)

    def gather_grams(self, regression, support):
        own = regression
        gram = sum(x.T @ x for x in self._list_x(own.pattern, own.user, own.item, own.amounts))
        lower = np.tril_indices(support.shape[1])
        return gram[support[:, lower[0]], support[:, lower[1]]].astype(np.float32)

    def cross_low_rank(self, image, right, support, along):
        common = (image[support] * right[:, None]).sum(2)
        return np.where(support >= 0, along - common, 0).astype(np.float32)

    def solve_items(self, support, grams, crossed, ks, rhos):
        found = np.zeros((len(crossed), len(ks), *support.shape), np.float32)
        lower = np.tril_indices(support.shape[1])
        whole = np.zeros((support.shape[1], support.shape[1]))
        for j, mine in enumerate(support):
            whole[lower] = whole.T[lower] = grams[j]
            for r, rho in enumerate(rhos):
                k = min(int((mine >= 0).sum()), ks[r])
                system = whole[:k, :k] + rho * np.eye(k)
                if k and np.linalg.eigvalsh(system)[0] <= 1e-7 * np.trace(system):
                    return found, j
                for v in range(len(crossed)):
                    found[v, r, j, :k] = np.linalg.solve(system, crossed[v, j, :k].astype(np.float64))
        return found, -1


OPERATIONS = {name for name in vars(BlockEngine) if not name.startswith("_")}
