"""Ridge regressions on features: factors by what items are, and weights from the items that are most like them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from csrr._base.arrays import Float32Array, FloatArray, Int32Array, Rows
from csrr._base.heap import add_to_heap, is_below, replace_worst, sort_heap
from csrr._base.lazy_jit import compile_loop
from csrr._base.threads import run_ranges

_TOGETHER = 16
"""Rows that are computed with one scratch."""
_BLOCK_BYTES = 2**26
_MAP_TOL, _MAP_STEPS = 1e-2, 60
"""The relative residual at which the conjugate gradients for a map of features end, and the most steps."""
_WEIGHT_STEPS, _WEIGHT_TOL = 60, 1e-4


class FeatureRows(NamedTuple):
    """Features of n items: csr parts of (n, p), values float32, and dense ones, (n, q) float32."""

    indptr: Any
    indices: Any
    data: Float32Array
    dense: Float32Array
    width: int

    @classmethod
    def of(cls, words: Any, dense: Float32Array) -> FeatureRows:
        """Return the features of csr (n, p) and an array (n, q)."""
        return cls(words.indptr.astype(np.int64), words.indices.astype(np.int32), words.data, dense, words.shape[1])

    def __len__(self) -> int:
        return len(self.dense)


@compile_loop()
def _multiply_rows(start, stop, indptr, indices, data, factors, out):  # type: ignore[no-untyped-def]
    # out[i] = rows[i] @ factors
    for i in range(start, stop):
        mine = out[i]
        mine[:] = 0
        for p in range(indptr[i], indptr[i + 1]):
            value, other = data[p], factors[indices[p]]
            for c in range(len(mine)):
                mine[c] += value * other[c]


def multiply_rows(matrix: Any, factors: Float32Array) -> Float32Array:
    """The product of a csr matrix, (n, p), and factors, (p, r), on the threads in force, float32 (n, r)."""
    out = np.empty((matrix.shape[0], factors.shape[1]), np.float32)
    parts = matrix.indptr, matrix.indices, matrix.data, factors, out
    run_ranges(lambda a, b: _multiply_rows(a, b, *parts), [*range(0, len(out), 256), len(out)])
    return out


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """Factors by features: `center` + words @ `words` + dense @ `dense`; shapes (r,), (p, r), (q, r)."""

    center: Float32Array
    words: Float32Array
    dense: Float32Array

    def __call__(self, words: Any, dense: Float32Array) -> Float32Array:
        found = multiply_rows(words, self.words)
        found += dense @ self.dense
        found += self.center
        return found


def fit_map(
    words: Any, dense: Float32Array, targets: FloatArray, reg: float, start: FeatureMap | None = None
) -> FeatureMap:
    """The map B and the center c that minimize  ||V - 1c' - F B||_F^2 + reg*||B||_F^2,  F = [words, dense], c the mean.

    `words` is csr (n, p), `dense` (n, q), `targets` V, (n, r). By conjugate gradients from `start`, until the residual
    is below _MAP_TOL of the right side for every column.
    """
    center = targets.mean(axis=0, dtype=np.float64).astype(np.float32)
    rest = (targets - center).astype(np.float32)
    by_word, p = words.T.tocsr(), words.shape[1]

    def apply(each: Float32Array) -> Float32Array:
        return multiply_rows(words, each[:p]) + dense @ each[p:]

    def transpose(each: Float32Array) -> Float32Array:
        return np.concatenate([multiply_rows(by_word, each), dense.T @ each])

    right = transpose(rest)
    found = np.zeros_like(right) if start is None else np.concatenate([start.words, start.dense])
    left = right - (transpose(apply(found)) + np.float32(reg) * found)
    along, size = left.copy(), _square(left)
    enough = _MAP_TOL**2 * np.maximum(_square(right), 1e-30)
    for _ in range(_MAP_STEPS):
        if (size <= enough).all():
            break
        moved = transpose(apply(along)) + np.float32(reg) * along
        step = (size / np.maximum(np.einsum("pr,pr->r", along, moved, dtype=np.float64), 1e-30)).astype(np.float32)
        found += step * along
        left -= step * moved
        now = _square(left)
        along *= (now / np.maximum(size, 1e-30)).astype(np.float32)
        along += left
        size = now
    return FeatureMap(center, found[:p], found[p:])


def _square(each: Float32Array) -> FloatArray:
    squares: FloatArray = np.einsum("pr,pr->r", each, each, dtype=np.float64)
    return squares


@compile_loop(fastmath=True)
def _weigh_similar(start, stop, mine, own_rows, base, known, by_word, rho, scratch, values, items, found):  # type: ignore[no-untyped-def]
    # values[j], items[j], found[j] = for item j the K known items of the largest products of features, and the weights
    # w = (F_N F_N' + rho*I)^-1 F_N f_j of these, by conjugate gradients through the features. A known item is not its
    # own neighbor: own_rows[j] is its row, or -1. `base`, (stop - start, m), are products of dense features, or (0, 0).
    # `sums`, (m,), and `profile`, (p,), are zeros, `touched`, (m,), and `work`, (4, K), are there to work in.
    sums, touched, profile, work = scratch
    indptr, indices, data, dense, _ = mine
    known_indptr, known_indices, known_data, known_dense, _ = known
    word_indptr, word_items, word_data = by_word
    width, m, q = values.shape[1], len(sums), dense.shape[1]
    for j in range(start, stop):
        n_touched = 0
        for p in range(indptr[j], indptr[j + 1]):
            for t in range(word_indptr[indices[p]], word_indptr[indices[p] + 1]):
                i = word_items[t]
                if sums[i] == 0:
                    touched[n_touched] = i
                    n_touched += 1
                sums[i] += data[p] * word_data[t]
        if q:
            n_touched = m
            for i in range(m):
                touched[i] = i
                sums[i] += base[j - start, i]
        best, whose, size = values[j], items[j], 0
        for t in range(n_touched):
            i = touched[t]
            value = sums[i]
            sums[i] = 0
            if i == own_rows[j] or value <= 0:
                continue
            if size < width:
                add_to_heap(best, whose, size, value, i)
                size += 1
            elif is_below(best[0], whose[0], value, i):
                replace_worst(best, whose, width, value, i)
        sort_heap(best, whose, size)
        found[j] = size
        if size == 0:
            continue
        # w, residual, direction, image; the right side is what the heap holds
        w, left, along, image = work[0, :size], work[1, :size], work[2, :size], work[3, :size]
        square = 0.0
        for a in range(size):
            w[a] = 0
            left[a] = best[a]
            along[a] = best[a]
            square += best[a] * best[a]
        enough = _WEIGHT_TOL * _WEIGHT_TOL * square
        for _ in range(_WEIGHT_STEPS):
            if square <= enough:
                break
            # image = (F_N F_N' + rho*I) along
            for a in range(size):
                i = whose[a]
                for p in range(known_indptr[i], known_indptr[i + 1]):
                    profile[known_indices[p]] += along[a] * known_data[p]
            for a in range(size):
                i = whose[a]
                total = rho * along[a]
                for p in range(known_indptr[i], known_indptr[i + 1]):
                    total += known_data[p] * profile[known_indices[p]]
                image[a] = total
            for a in range(size):
                i = whose[a]
                for p in range(known_indptr[i], known_indptr[i + 1]):
                    profile[known_indices[p]] = 0
            if q:
                total_dense = np.zeros(q, np.float64)
                for a in range(size):
                    other = known_dense[whose[a]]
                    for c in range(q):
                        total_dense[c] += along[a] * other[c]
                for a in range(size):
                    other = known_dense[whose[a]]
                    total = 0.0
                    for c in range(q):
                        total += other[c] * total_dense[c]
                    image[a] += total
            curve = 0.0
            for a in range(size):
                curve += along[a] * image[a]
            step = square / curve
            now = 0.0
            for a in range(size):
                w[a] += step * along[a]
                left[a] -= step * image[a]
                now += left[a] * left[a]
            ratio = now / square
            square = now
            for a in range(size):
                along[a] = left[a] + ratio * along[a]
        for a in range(size):
            best[a] = w[a]


@dataclass(frozen=True, eq=False)
class SimilarItems:
    """The known items, by whose features others get weights: csr `words`, (m, p), and `dense`, (m, q)."""

    words: Any
    dense: Float32Array

    @cached_property
    def _rows(self) -> FeatureRows:
        return FeatureRows.of(self.words, self.dense)

    @cached_property
    def _by_word(self) -> Any:
        by_word = self.words.T.tocsr()
        return by_word.indptr.astype(np.int64), by_word.indices.astype(np.int32), by_word.data

    def weigh(
        self, words: Any, dense: Float32Array, k: int, rho: float, own_rows: Rows | None = None
    ) -> tuple[Float32Array, Int32Array]:
        """The weights of the k known items most like each of n others, and whose they are, -1 where there are fewer.

        Each is the solution w of  minimize ||f_j - F_N'w||^2 + rho*||w||^2  on the k items N with the largest products
        F f_j above 0; shapes (n, k). `own_rows`, (n,), are the rows of those that are known themselves, or -1.
        """
        mine, known = FeatureRows.of(words, dense), self._rows
        n, m = len(mine), len(known)
        width = min(k, m)
        values, items = np.zeros((n, width), np.float32), np.full((n, width), -1, np.int32)
        found = np.zeros(n, np.int64)
        own = np.full(n, -1, np.int64) if own_rows is None else own_rows.astype(np.int64)
        none = np.zeros((0, 0), np.float32)
        rest = known, self._by_word, float(rho)

        def weigh(a: int, b: int) -> None:
            base = dense[a:b] @ self.dense.T if dense.shape[1] else none
            work = np.zeros(m, np.float32), np.empty(m, np.int32), np.zeros(max(known.width, 1)), np.empty((4, width))
            _weigh_similar(a, b, mine, own, base, *rest, work, values, items, found)

        size = max(_TOGETHER, min(1024, _BLOCK_BYTES // (4 * max(m, 1)) if dense.shape[1] else n // 8))
        if width:
            run_ranges(weigh, [*range(0, n, size), n])
        items[np.arange(width) >= found[:, None]] = -1
        return values, items


def collect_weights(values: Float32Array, items: Int32Array, n_known: int) -> Any:
    """The weights of `SimilarItems.weigh` as csr (n_known, n)."""
    rows, columns = np.nonzero(items >= 0)
    entries: Any = values[rows, columns], (items[rows, columns], rows)
    shape: Any = (n_known, len(items))
    return sparse.csr_array(entries, shape=shape).astype(np.float32)
