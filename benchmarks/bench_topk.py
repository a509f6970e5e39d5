"""The time of scoring, masking and top-k, beside plain numpy: `P[b] @ Q.T`, then `np.argpartition`."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.measure import Row, Values, timed
from csrr.ranking.topk import choose_block_rows, top_k

K = 20


def measure_topk(n_users: int, n_items: int, d: int, repeats: int) -> Values:
    """The shortest times of ours, of numpy, and of the product alone, on random factors; warm."""
    rng = np.random.default_rng(0)
    rank_ours(np.ones((8, 2), np.float32), np.ones((64, 2), np.float32), sparse.csr_array((8, 64)), 8)
    p = rng.standard_normal((n_users, d), dtype=np.float32)
    q = rng.standard_normal((n_items, d), dtype=np.float32)
    per_user = 50
    cells = (np.repeat(np.arange(n_users), per_user), rng.integers(n_items, size=n_users * per_user))
    seen = sparse.csr_array((np.ones(len(cells[0]), np.float32), cells), shape=(n_users, n_items))
    block = choose_block_rows(n_items)
    works = (
        lambda: rank_ours(p, q, seen, block),
        lambda: rank_plainly(p, q, block),
        lambda: [p[first : first + block] @ q.T for first in range(0, len(p), block)],
    )
    ours, plain, product = (min(timed(work)[0] for _ in range(repeats)) for work in works)
    sizes = {"users": n_users, "items": n_items, "d": d}
    found = {"ours": ours, "plain": plain, "product": product, "ratio": ours / plain}
    return sizes | found


def rank_ours(p: Any, q: Any, seen: Any, block: int) -> object:
    """Return the sorted best of each row, seen items masked."""
    return top_k(lambda rows: p[rows] @ q.T, np.arange(len(p)), len(q), K, seen=seen, block_rows=block)


def rank_plainly(p: Any, q: Any, block: int) -> object:
    """Return the unsorted best of each row, nothing masked."""
    parts = (p[first : first + block] @ q.T for first in range(0, len(p), block))
    return [np.argpartition(scores, -K, axis=1)[:, -K:] for scores in parts]


def _make_row(work: Any) -> Row:
    return Row(
        "random factors, {users:,} x {items:,} x {d}",
        f"scoring, masking and the best {K} in order, s",
        "{ours:.2f}",
        "numpy, nothing masked or in order: {plain:.2f} (the product alone: {product:.2f}): **{ratio:.2f}x**",
        "",
        work,
        is_time=True,
    )


ROWS = {
    "topk": _make_row(lambda: measure_topk(6_040, 3_706, 256, 5)),
    "topk-large": _make_row(lambda: measure_topk(30_000, 41_000, 128, 2)),
}
