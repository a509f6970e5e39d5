"""Score blocks -> the best items of each row, without ever holding a full users x items array."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from csrr._base.arrays import AnyArray, BoolArray, Float32Array, Float64Array, FloatArray, Int32Array, Int64Array, Rows
from csrr._base.threads import n_threads, run_ranges, use_threads
from csrr.numerics.engine import RankingEngine
from csrr.ranking.loops import (
    CHUNK,
    add_sparse_product,
    begin_rows,
    end_rows,
    find_top_k_rows,
    keep_cells,
    mask_rows,
    measure_norms,
    multiply_sparse_own,
    multiply_sparse_pairs,
    scan_rows,
)

HALF_LIVES = (10, 3, 1, 0)
"""How many half-lives the time from the first event of a log to its last may be: the log chooses, and the first of
equals is taken. With 0 all events count the same."""
LAST, AT = 0.2, 10
"""The share of the events, the latest, by which a log chooses, and the length of the lists whose NDCG decides."""


class ItemOrder(NamedTuple):
    """`items`, the item rows from first to last, and `places`, the place of each item in it; shapes (n_items,)."""

    items: Int32Array
    places: Int32Array

    @classmethod
    def by_row(cls, n_items: int) -> ItemOrder:
        """Return the order of the rows."""
        rows = np.arange(n_items, dtype=np.int32)
        return cls(rows, rows)

    @classmethod
    def by_popularity(cls, *popularity: AnyArray) -> ItemOrder:
        """Return the order from the largest on; ties in one of `popularity`, shape (n_items,) each, go by the next."""
        items = np.lexsort([-each for each in popularity[::-1]]).astype(np.int32)
        places = np.empty_like(items)
        places[items] = np.arange(len(items), dtype=np.int32)
        return cls(items, places)


def count_recent(user_rows: Rows, item_rows: Rows, times: AnyArray, n_items: int) -> Float64Array:
    """Return the events of each item, shape (n_items,), of which one of a half-life ago counts half.

    The half-life is that of `HALF_LIVES` whose counts rank best what users chose last. No event counts less than 2^-10.
    Nothing but the order of the times and their distances matters: any unit will do.
    """
    moments = times.astype(np.float64)
    half_lives = HALF_LIVES[0]
    if len(moments) and np.ptp(moments) > 0:
        is_last = moments >= np.quantile(moments, 1 - LAST, method="higher")
        before = item_rows[~is_last], moments[~is_last], n_items
        by_user = np.argsort(user_rows[is_last], kind="stable")
        _, counts = np.unique(user_rows[is_last], return_counts=True)
        asked = item_rows[is_last][by_user], counts
        half_lives = max(HALF_LIVES, key=lambda n: _measure_ndcg(_weigh_events(*before, n), *asked))
    return _weigh_events(item_rows, moments, n_items, half_lives)


def _weigh_events(item_rows: Rows, moments: Float64Array, n_items: int, half_lives: float) -> Float64Array:
    """Return the events of each item, shape (n_items,), weighted; all of the time is so many half-lives."""
    ages = moments.max(initial=-np.inf) - moments
    span = ages.max(initial=0)
    weights = np.ones(len(ages))

    def weigh(start: int, stop: int) -> None:
        np.exp2(-half_lives * ages[start:stop] / span, out=weights[start:stop])

    if span > 0:
        run_ranges(weigh, [*range(0, len(ages), EVENTS_AT_ONCE), len(ages)])
    return np.bincount(item_rows, weights, minlength=n_items).astype(np.float64)


def _measure_ndcg(popularity: Float64Array, item_rows: Rows, counts: Rows) -> float:
    """Return the mean NDCG over users of one list for all of them; the events asked for are user by user."""
    ranks = ItemOrder.by_popularity(popularity).places[item_rows] + 1
    return float(measure_held_out_ndcg(ranks, counts, AT).mean())


def measure_held_out_ndcg(ranks: AnyArray, counts: Rows, k: int) -> Float64Array:
    """Return the NDCG@k of n users by the ranks of their held-out events, from 1, shape (..., n).

    `ranks`, shape (..., n_events), are user by user, `counts` of each, shape (n,).
    """
    gains = np.where(ranks <= k, 1 / np.log2(1 + ranks), 0)
    ideal = np.cumsum(1 / np.log2(np.arange(2, k + 2)))[np.minimum(counts, k) - 1]
    values: Float64Array = np.add.reduceat(gains, np.cumsum(counts) - counts, axis=-1) / ideal
    return values


def measure_ages(item_rows: Int32Array, times: AnyArray, n_items: int) -> Float64Array:
    """Return how long before the last event of a log each item was first seen, shape (n_items,); inf for one never."""
    moments = times.astype(np.float64)
    first = np.full(n_items, np.inf)
    np.minimum.at(first, item_rows, moments)
    return np.where(np.isfinite(first), moments.max(initial=-np.inf) - first, np.inf)


RowScorer = Callable[[Rows], Float32Array]
"""From row numbers of users, shape (b,), to a new array of their scores, shape (b, n_items), which may be changed."""

BLOCK_BYTES = 2**26
MIN_BLOCK_ROWS, MAX_BLOCK_ROWS = 32, 4096
PRODUCT_ITEMS = 1024
"""Items whose scores are one product of a thread."""
MOST_TOGETHER, LEAST_TOGETHER, TOGETHER_ITEMS = 128, 8, 512
"""The most users whose products with items are one, the fewest for whom that pays, and how many items these are."""
EVENTS_AT_ONCE = 2**15
ON_ENGINE = 256
"""The fewest users whose lists are worth the way to an engine and back."""
STAGES = (32, 64, 128, 256, 512)
"""The columns of factors after which an item's bound is looked at again."""


def score_blocks(
    score_rows: Callable[[Rows], AnyArray],
    rows: Rows,
    n_items: int,
    *,
    seen: Any = None,
    block_rows: int | None = None,
    dtype: npt.DTypeLike = np.float32,
) -> Iterator[tuple[slice, AnyArray]]:
    """Yield which of `rows` a block has, and their scores, shape (b, n_items).

    `score_rows(rows)` returns a new array of `dtype` and of shape (len(rows), n_items), which is overwritten: cells
    that `seen`, sparse of shape (n_users, n_items), stores become -inf. A block has `block_rows` rows, or as many as
    make about BLOCK_BYTES; how products are rounded may depend on it.
    """
    past = None if seen is None else seen.tocsr()
    size = block_rows or choose_block_rows(n_items)
    for first in range(0, len(rows), size):
        part = slice(first, min(first + size, len(rows)))
        scores = _check_block(score_rows(rows[part]), (part.stop - first, n_items), np.dtype(dtype))
        if past is not None:
            mask_cells(scores, past.indptr, past.indices, rows[part])
        yield part, scores


class Cells(NamedTuple):
    """The cells of some users and all items that they have not seen, to be counted in blocks of users.

    Attributes
    ----------
    score_rows
        From row numbers of users, shape (b,), to a new float32 array of scores, shape (b, n_items), which is
        overwritten.
    rows
        The row numbers of the users, shape (n,).
    n_items
        Number of items.
    relevant
        The positives, csr of shape (n_users, n_items).
    seen
        The cells that are not counted, of the same shape; it shares none with `relevant`.
    """

    score_rows: RowScorer
    rows: Rows
    n_items: int
    relevant: Any
    seen: Any

    def score(self) -> Iterator[tuple[slice, Float32Array]]:
        """Yield which rows a block has, and their scores, shape (b, n_items), seen cells -inf."""
        return score_blocks(self.score_rows, self.rows, self.n_items, seen=self.seen)


def multiply_factors(users: FloatArray, items: FloatArray) -> Float32Array:
    """Return users @ items.T, shape (b, m), of factors of shapes (b, d) and (m, d).

    The items are cut without regard to the number of threads, which must not change how products are rounded.
    """
    scores = np.empty((len(users), len(items)), np.result_type(users, items))

    def multiply(start: int, stop: int) -> None:
        np.matmul(users, items[start:stop].T, out=scores[:, start:stop])

    with use_threads(n_threads(), blas=1):
        run_ranges(multiply, [*range(0, len(items), PRODUCT_ITEMS), len(items)])
    return scores


def mask_cells(scores: FloatArray, indptr: Rows, indices: Rows, rows: Rows) -> None:
    """Set to -inf, in row i of `scores`, shape (b, n_items), the cells that CSR row `rows[i]` stores."""
    check_rows(rows, len(scores), len(indptr) - 1)
    run_ranges(lambda a, b: mask_rows(a, b, scores, indptr, indices, rows), split_rows(len(scores)))


def choose_block_rows(n_items: int) -> int:
    """Return the number of rows that make a block of about BLOCK_BYTES."""
    return max(MIN_BLOCK_ROWS, min(MAX_BLOCK_ROWS, BLOCK_BYTES // (4 * max(1, n_items))))


def split_rows(n_rows: int) -> list[int]:
    """Return row numbers that cut `n_rows` rows into a few ranges for each thread in force."""
    n_ranges = min(n_rows, 4 * n_threads())
    return [n_rows * i // n_ranges for i in range(n_ranges + 1)] if n_ranges else [0]


def check_rows(rows: Rows, n_wanted: int, n_rows: int) -> None:
    """Raise an IndexError unless `rows` are `n_wanted` numbers below `n_rows`: kernels check no bounds."""
    if len(rows) != n_wanted or (n_wanted and not (rows.min() >= 0 and rows.max() < n_rows)):
        raise IndexError(f"rows must be {n_wanted} numbers from 0 to {n_rows - 1}")


def _check_block(scores: AnyArray, shape: tuple[int, int], dtype: np.dtype[Any]) -> AnyArray:
    if scores.shape != shape or scores.dtype != dtype:
        raise ValueError(
            f"a score block is {scores.dtype} of shape {scores.shape}; it must be {dtype} of shape {shape}"
        )
    return np.ascontiguousarray(scores)


def add_products(
    out: Float32Array, clicks: Any, rows: Rows, weights: Any, scale: AnyArray, amounts: Any = None
) -> None:
    """Add scale[rows] * (clicks[rows] @ weights) to `out`, shape (len(rows), n_items).

    `clicks`, (n_users, n_items), and `weights`, (n_items, n_items), are csr, the values of `clicks` taken as `amounts`,
    (nnz,), or ones; `scale` has shape (n_users,).
    """
    check_rows(rows, len(out), clicks.shape[0])
    parts = (rows, scale, clicks.indptr, clicks.indices, amounts, weights.indptr, weights.indices, weights.data, out)
    run_ranges(lambda a, b: add_sparse_product(a, b, *parts), split_rows(len(rows)))


def multiply_pairs(
    clicks: Any, user_rows: Rows, item_rows: Rows, weights: Any, scale: AnyArray, amounts: Any = None
) -> Float32Array:
    """Return the products of `add_products` for pairs of a user row and an item row, shape (n,)."""
    check_rows(user_rows, len(user_rows), clicks.shape[0])
    check_rows(item_rows, len(user_rows), clicks.shape[1])
    out = np.empty(len(user_rows), np.float32)
    sides = (user_rows, item_rows, scale, clicks.indptr, clicks.indices, amounts)
    parts = (*sides, weights.indptr, weights.indices, weights.data, out)
    run_ranges(lambda a, b: multiply_sparse_pairs(a, b, *parts), split_rows(len(out)))
    return out


def multiply_own(clicks: Any, weights: Any, scale: AnyArray, amounts: Any = None) -> Float32Array:
    """Return the same for the stored entries of `clicks`, shape (nnz,)."""
    out = np.empty(len(clicks.indices), np.float32)
    parts = (scale, clicks.indptr, clicks.indices, amounts, weights.indptr, weights.indices, weights.data)
    run_ranges(
        lambda a, b: multiply_sparse_own(a, b, *parts, np.zeros(weights.shape[0]), out), split_rows(clicks.shape[0])
    )
    return out


Items = Any
"""Item rows for everyone, or a csr array of shape (n, n_items) that stores a row of cells for each user."""


@dataclass(eq=False)
class Restrictions:
    """The restrictions of the lists of n users among `n_items` items; at first there are none.

    `allowed`, shape (n_items,), holds for everyone. `left_out` are cells that are in no list and `kept`, where there
    are any, the only ones that are: csr arrays of shape (n, n_items), a row for each user.
    """

    n_items: int
    allowed: BoolArray = field(init=False)
    left_out: list[Any] = field(default_factory=list, init=False)
    kept: list[Any] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.allowed = np.ones(self.n_items, np.bool_)

    def keep(self, items: Items) -> None:
        """Leave out all but these."""
        if sparse.issparse(items):
            self.kept.append(_sort(items))
        else:
            chosen = np.zeros(self.n_items, np.bool_)
            chosen[items] = True
            self.allowed &= chosen

    def leave_out(self, items: Items) -> None:
        """Leave these out."""
        if sparse.issparse(items):
            self.left_out.append(items)
        else:
            self.allowed[items] = False

    def count_left(self) -> int:
        """Return the length of the longest list that there can be, but for the cells left out."""
        lengths = [int(np.diff(each.indptr).max(initial=0)) for each in self.kept]
        return min([int(np.count_nonzero(self.allowed)), *lengths])

    def mask(self, part: slice, scores: Float32Array) -> None:
        """Set to -inf the cells that may not be in the lists of the users at `part`; their scores are (b, n_items).

        The items that are `allowed` are left to the search for the best: a sweep over all scores would cost more.
        """
        rows = np.arange(part.start, part.stop)
        for cells in self.left_out:
            mask_cells(scores, cells.indptr, cells.indices, rows)
        for cells in self.kept:
            _keep_cells(scores, cells, rows)


def take_rows(matrix: Any, rows: Rows) -> Any:
    """Return rows of a csr array, an empty one for -1; the array itself if these are all of its rows in order."""
    if len(rows) == matrix.shape[0] and np.array_equal(rows, np.arange(len(rows))):
        return matrix
    if len(rows) == 1 and rows[0] >= 0:
        # An index of scipy's takes longer than a list.
        part = slice(matrix.indptr[rows[0]], matrix.indptr[rows[0] + 1])
        return sparse.csr_array(
            (matrix.data[part], matrix.indices[part], [0, part.stop - part.start]), (1, matrix.shape[1])
        )
    there = rows >= 0
    if there.all():
        return matrix[rows]
    counts = np.zeros(len(rows), np.int64)
    some = matrix[rows[there]]
    counts[there] = np.diff(some.indptr)
    starts = np.concatenate(([0], np.cumsum(counts)))
    return sparse.csr_array((some.data, some.indices, starts), shape=(len(rows), matrix.shape[1]))


def _keep_cells(scores: Float32Array, cells: Any, rows: Rows) -> None:
    check_rows(rows, len(scores), cells.shape[0])
    parts = (scores, cells.indptr, cells.indices, rows)
    run_ranges(lambda a, b: keep_cells(a, b, *parts), split_rows(len(scores)))


def _sort(cells: Any) -> Any:
    """Return cells with increasing columns in each row and no repeats, as `keep_cells` needs them."""
    if cells.has_canonical_format:
        return cells
    cells = cells.copy()
    cells.sum_duplicates()
    return cells


Top = tuple[Int32Array, Float32Array]
"""The best items of each row and their scores, shapes (n, k)."""

Ranker = Callable[[Float32Array, int, ItemOrder | None, BoolArray | None], Top]
"""Makes lists of a block of scores as `block_top_k` does: of scores, k, the order of ties, and what is allowed."""

NO_ITEM = -1


def block_top_k(scores: npt.ArrayLike, k: int, order: ItemOrder | None = None, allowed: BoolArray | None = None) -> Top:
    """Return the items, shape (b, k), and scores, shape (b, k), of the best of each row of (b, n_items).

    Best first; equal scores by `order`, or by item row without one, whatever the number of threads. A cell of -inf is
    never returned, nor an item that is not `allowed`, shape (n_items,): a list that runs short ends in item -1 with
    score -inf. Scores are taken as float32; NaN is refused with a ValueError.
    """
    block = np.ascontiguousarray(scores, np.float32)
    if block.ndim != 2:
        raise ValueError(f"scores must have shape (rows, items), not {block.shape}")
    if k < 0:
        raise ValueError(f"k={k}: it must not be negative")
    n_items = block.shape[1]
    by_place, places = ItemOrder.by_row(n_items) if order is None else order
    chosen = np.ones(n_items, np.bool_) if allowed is None else allowed
    # Compiled loops check no bounds.
    if by_place.shape != (n_items,) or places.shape != (n_items,):
        raise ValueError(f"the order is one of {len(by_place)} items; it must be of {n_items}")
    if chosen.shape != (n_items,) or chosen.dtype != np.bool_:
        raise ValueError(f"allowed is {chosen.dtype} of shape {chosen.shape}; it must be bool of shape ({n_items},)")
    items = np.full((len(block), k), NO_ITEM, np.int32)
    best = np.full((len(block), k), -np.inf, np.float32)
    if k == 0:
        return items, best
    bad = np.zeros(len(block), np.bool_)
    parts = (block, chosen, places, by_place, best, items, bad)
    run_ranges(lambda a, b: find_top_k_rows(a, b, *parts), split_rows(len(block)))
    if bad.any():
        row = int(bad.argmax())
        item = int((np.isnan(block[row]) & chosen).argmax())
        raise ValueError(f"a score is NaN: row {row} of the block, item row {item}")
    return items, best


class NormOrder(NamedTuple):
    """Items by the lengths of their factors, from the longest on: `by_norm`, (m,); `at`, (n_items,), is where each is.

    `stages` are the columns at which factors are cut, from 0 to their number; `norms`, shape (n_items, stages - 1), are
    the lengths of factors from each of these columns on, in the same order.
    """

    by_norm: Int32Array
    at: Int32Array
    norms: Float64Array
    stages: Int64Array

    @classmethod
    def of(cls, factors: Float32Array) -> NormOrder:
        """Return that of factors, shape (n_items, d). What is infinite or not a number comes first."""
        rank = factors.shape[1]
        stages = np.array([0, *(each for each in STAGES if each < rank), rank])
        norms = np.empty((len(factors), len(stages) - 1))
        run_ranges(lambda a, b: measure_norms(a, b, factors, stages, norms), split_rows(len(factors)))
        norms[~np.isfinite(norms)] = np.inf
        by_norm = np.argsort(-norms[:, 0], kind="stable").astype(np.int32)
        return cls(by_norm, _invert(by_norm, len(factors)), norms[by_norm], stages)

    def keep(self, allowed: BoolArray) -> NormOrder:
        """Return the order of the items that are allowed, shape (n_items,); the others are nowhere, at -1."""
        if allowed.all():
            return self
        those = allowed[self.by_norm]
        by_norm = self.by_norm[those]
        return NormOrder(by_norm, _invert(by_norm, len(allowed)), self.norms[those], self.stages)


def _invert(places: Int32Array, n: int) -> Int32Array:
    """Return where each of n numbers is among `places`, -1 for nowhere."""
    at = np.full(n, -1, np.int32)
    at[places] = np.arange(len(places), dtype=np.int32)
    return at


@dataclass(frozen=True, eq=False)
class ScoredItems:
    """The items' part of scores: `factors`, (n_items, d), and `weights`, csr (n_items, n_items); None for 0."""

    factors: Float32Array
    weights: Any = None

    def __post_init__(self) -> None:
        if self.weights is None:
            n_items = len(self.factors)
            object.__setattr__(self, "weights", sparse.csr_array((n_items, n_items), dtype=np.float32))

    @cached_property
    def order(self) -> NormOrder:
        """The items by the lengths of their factors."""
        return NormOrder.of(self.factors)


@dataclass(frozen=True, eq=False)
class Products:
    """The scores users @ items.factors.T + diag(scale) @ A @ items.weights: common taste, and weights of a history.

    `users`, (n, d), and the factors are float32; `clicks`, csr of shape (n, n_items), holds A, of values `amounts`,
    (n_clicks,), or ones; `scale` has shape (n,). As a function, it gives the scores of all items by user rows.
    The lists of many users are made by the engine that `find_engine` returns, if it makes lists.
    """

    items: ScoredItems
    users: Float32Array
    clicks: Any
    scale: Float32Array
    amounts: Any = None
    find_engine: Callable[[], Any] | None = None

    @classmethod
    def of_factors(
        cls, users: Float32Array, items: ScoredItems, find_engine: Callable[[], Any] | None = None
    ) -> Products:
        """Return the products of factors alone."""
        clicks = sparse.csr_array((len(users), len(items.factors)), dtype=np.float32)
        return cls(items, users, clicks, np.zeros(len(users), np.float32), find_engine=find_engine)

    def __call__(self, rows: Rows) -> Float32Array:
        scores = multiply_factors(self.users[rows], self.items.factors)
        if self.items.weights.nnz:
            add_products(scores, self.clicks, rows, self.items.weights, self.scale, self.amounts)
        return scores

    @property
    def is_single(self) -> bool:
        """Whether factors are of single precision, as `find_best` needs them."""
        return bool(self.users.dtype == self.items.factors.dtype == np.float32)

    def find_best(self, rows: Rows, k: int, limits: Restrictions, order: ItemOrder) -> Top:
        """Return the lists that `block_top_k` makes of the scores, without computing all of them; shapes (n, k).

        The users at these `rows`, shape (n,), have the n rows of `limits`; for row -1 all scores are 0. Each score is
        rounded in the same way, whoever else is asked about.
        """
        known = rows[rows >= 0]
        check_rows(known, len(known), len(self.users))
        shape = len(rows), len(self.items.factors)
        found, best = np.full((len(rows), k), NO_ITEM, np.int32), np.full((len(rows), k), -np.inf, np.float32)
        if k == 0:
            return found, best
        is_for_engine = len(rows) >= ON_ENGINE and len(known) == len(rows) and not limits.kept
        if is_for_engine and self.find_engine and isinstance(engine := self.find_engine(), RankingEngine):
            items, parts = self.items, (self.clicks, self.scale, self.amounts)
            lists = engine.find_top(
                self.users, items.factors, items.weights, *parts, rows, k, limits.left_out, limits.allowed, order.places
            )
            if not np.isnan(lists[1]).any():
                return lists
        by_norm, at, norms, stages = self.items.order.keep(limits.allowed)
        search = self.users, self.items.factors, by_norm, norms, stages, order.places
        clicks = self.scale, self.clicks.indptr, self.clicks.indices
        weights = self.items.weights.indptr, self.items.weights.indices, self.items.weights.data
        cells = _join(limits.left_out, shape, operator.add), _join(limits.kept, shape, operator.mul)
        bad = np.zeros(len(rows), np.bool_)

        def find(start: int, stop: int) -> None:
            size = min(stop - start, MOST_TOGETHER, max(1, BLOCK_BYTES // (16 * shape[1])))
            sums, lengths = np.zeros((size, len(by_norm)), np.float32), np.empty((size, len(stages) - 1))
            queue = np.empty(2 * len(by_norm) + CHUNK, np.int32)
            for first in range(start, stop, size):
                part = slice(first, min(first + size, stop))
                mine, n = rows[part], part.stop - first
                lists = sums[:n], lengths[:n], best[part], found[part], np.zeros(n, np.int64), bad[part]
                rest = np.empty(n, np.float32)
                given = rest, queue, search, lists
                begin_rows(mine, first, at, clicks, self.amounts, weights, *cells, *given)
                is_done, scanned = lengths[:n, 0] == 0, 0
                while scanned < len(by_norm) and len(left := np.flatnonzero(~is_done)):
                    product, end = None, len(by_norm)
                    if len(left) >= LEAST_TOGETHER:
                        end = min(scanned + TOGETHER_ITEMS, end)
                        product = self.users[mine[left]] @ self.items.factors[by_norm[scanned:end]].T
                    scan_rows(mine, left, scanned, end, product, is_done, *given)
                    scanned = end
                end_rows(mine, first, at, *order[::-1], clicks, weights, *cells, rest, lists)

        with use_threads(n_threads(), blas=1) if len(rows) >= LEAST_TOGETHER else nullcontext():
            run_ranges(find, split_rows(len(rows)))
        if bad.any():
            raise ValueError(f"a score is NaN: of user row {int(rows[bad.argmax()])}")
        return found, best


def _join(several: list[Any], shape: tuple[int, int], join: Callable[[Any, Any], Any]) -> tuple[Any, Any] | None:
    """Return the indptr and indices of csr arrays of this shape, joined; None if there are none."""
    for each in several:
        if each.shape != shape:
            raise IndexError(f"the cells have shape {each.shape}; they must have {shape}")
    joined = reduce(join, several).tocsr() if several else None
    return None if joined is None else (joined.indptr, joined.indices)


def top_k(
    score_rows: RowScorer,
    rows: Rows,
    n_items: int,
    k: int,
    *,
    seen: Any = None,
    candidates: Rows | None = None,
    limits: Restrictions | None = None,
    order: ItemOrder | None = None,
    block_rows: int | None = None,
    rank: Ranker | None = None,
) -> Top:
    """Return the best items of each of `rows` as `block_top_k` does, or as `rank`, shapes (len(rows), k), in blocks.

    `score_rows(rows)` returns a new float32 array of shape (len(rows), n_items), which is overwritten. Lists leave out
    the items that `limits` leave out, a row for each of `rows`; the cells stored in `seen`, sparse of shape (n_users,
    n_items); and all but the `candidates`.
    """
    rows = np.asarray(rows, np.int64)
    limits = limits or Restrictions(n_items)
    if candidates is not None:
        limits.keep(np.asarray(candidates, np.int64))
    if seen is not None:
        n_rows = int(rows.max(initial=-1)) + 1
        if seen.shape[0] < n_rows or seen.shape[1] != n_items:
            raise ValueError(f"seen has shape {seen.shape}; it must be ({n_rows}, {n_items})")
        limits.leave_out(take_rows(sparse.csr_array(seen), rows))
    items = np.empty((len(rows), k), np.int32)
    best = np.empty((len(rows), k), np.float32)
    for part, scores in score_blocks(score_rows, rows, n_items, block_rows=block_rows):
        limits.mask(part, scores)
        items[part], best[part] = (rank or block_top_k)(scores, k, order, limits.allowed)
    return items, best
