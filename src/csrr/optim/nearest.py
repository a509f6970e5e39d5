"""The items most like each item, by who chose both."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from csrr.arrays import Float32Array, Float64Array, FloatArray, Int32Array, Int64Array
from csrr.compiled import compile_loop
from csrr.heap import add_to_heap, is_below, replace_worst, sort_heap
from csrr.optim.engine import Engine
from csrr.optim.thread_engine import THREADS

_TOGETHER = 64
"""Number of items whose neighbors are found with one scratch row of n_items."""


class Likeness(NamedTuple):
    """How alike two items i (had) and j (scored) are, from y_i.y_j = item_i * item_j * sum of `user` over both's users:

    y_i.y_j / (had_i * scored_j + shrink), or, a `ratio`, y_i.y_j / (had_i + scored_j - y_i.y_j + shrink). `user` is
    (n,), the others (m,).
    """

    user: Float64Array
    item: Float64Array
    had: Float64Array
    scored: Float64Array
    shrink: float = 0.0
    ratio: bool = False


def find_nearest_items(
    clicks: Any,
    by_item: Any,
    likeness: Likeness,
    width: int,
    first: int,
    stop: int,
    engine: Engine = THREADS,
    amounts: tuple[FloatArray, FloatArray] | None = None,
) -> tuple[Float32Array, Int32Array, Int64Array]:
    """The largest likenesses to items `first` to `stop`, whose they are, best first, and how many each item has.

    Shapes (stop - first, width) twice and (stop - first,). `clicks` is csr, (n, m), `by_item` its transpose, csr;
    `amounts` are the entries of both, (nnz,) each; None: all 1.
    """
    mine, theirs = (None, None) if amounts is None else amounts
    shapes = (by_item.indptr, by_item.indices, clicks.indptr, clicks.indices)

    def find(a: int, b: int) -> tuple[Float32Array, Int32Array, Int64Array]:
        values, items = np.zeros((b - a, width), np.float32), np.zeros((b - a, width), np.int32)
        found = np.zeros(b - a, np.int64)
        together, touched = np.zeros(len(likeness.item)), np.empty(len(likeness.item), np.int32)
        _find_nearest(a, b, *shapes, mine, theirs, *likeness, together, touched, values, items, found)
        return values, items, found

    values, items, found = engine.map_ranges(find, [first, *range(first + _TOGETHER, stop, _TOGETHER), stop])
    return values, items, found


@compile_loop(fastmath=True)
def _find_nearest(  # type: ignore[no-untyped-def]
    start,
    stop,
    item_indptr,
    item_users,
    user_indptr,
    user_items,
    amounts,
    amounts_by_item,
    user,
    item,
    had,
    scored,
    shrink,
    ratio,
    together,
    touched,
    values,
    items,
    found,
):
    # values[j - start], items[j - start] = the largest similarities to j, and whose they are, best first, and
    # found[j - start] their number. `together`, zeros, and `touched` are there to work in, (m,) both.
    k = values.shape[1]
    for j in range(start, stop):
        # together[i] = sum of user[u] times both amounts over the users u of both i and j
        n_touched = 0
        for p in range(item_indptr[j], item_indptr[j + 1]):
            u = item_users[p]
            if user[u] == 0:
                continue
            for q in range(user_indptr[u], user_indptr[u + 1]):
                i = user_items[q]
                if together[i] == 0:
                    touched[n_touched] = i
                    n_touched += 1
                together[i] += user[u] if amounts is None else user[u] * amounts_by_item[p] * amounts[q]
        best, whose, size = values[j - start], items[j - start], np.int64(0)
        for t in range(n_touched):
            i = touched[t]
            dot = together[i] * item[i] * item[j]
            together[i] = 0
            if i == j:
                continue
            below = had[i] + scored[j] - dot if ratio else had[i] * scored[j]
            # Sums of the same numbers in another order are a tie.
            value = np.float32(dot / (below + shrink))
            if size < k:
                add_to_heap(best, whose, size, value, i)
                size += 1
            elif is_below(best[0], whose[0], value, i):
                replace_worst(best, whose, k, value, i)
        sort_heap(best, whose, size)
        found[j - start] = size
