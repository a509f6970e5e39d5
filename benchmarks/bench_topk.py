"""Time of scoring + masking + top-k, as a ratio to plain numpy: `P[b] @ Q.T`, then `np.argpartition`."""

from __future__ import annotations

import time

import numpy as np
from scipy import sparse

from csrr.ranking import top_k
from csrr.ranking.score_blocks import choose_block_rows

K = 20
SIZES = ((6_040, 3_706, 256), (30_000, 41_000, 128))


def plain(p, q, block):
    """Return the unsorted best of each row, nothing masked."""
    parts = (p[first : first + block] @ q.T for first in range(0, len(p), block))
    return [np.argpartition(scores, -K, axis=1)[:, -K:] for scores in parts]


def ours(p, q, seen, block):
    """Return the sorted best of each row, seen items masked."""
    return top_k(lambda rows: p[rows] @ q.T, np.arange(len(p)), len(q), K, seen=seen, block_rows=block)


def seconds(work, repeats):
    """Return the shortest of several times, warm."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def main():
    rng = np.random.default_rng(0)
    ours(np.ones((8, 2), np.float32), np.ones((64, 2), np.float32), sparse.csr_array((8, 64)), 8)
    for n_users, n_items, d in SIZES:
        p = rng.standard_normal((n_users, d), dtype=np.float32)
        q = rng.standard_normal((n_items, d), dtype=np.float32)
        per_user = 50
        cells = (np.repeat(np.arange(n_users), per_user), rng.integers(n_items, size=n_users * per_user))
        seen = sparse.csr_array((np.ones(len(cells[0]), np.float32), cells), shape=(n_users, n_items))
        block = choose_block_rows(n_items)
        repeats = 5 if n_items < 10_000 else 2
        mine = seconds(lambda: ours(p, q, seen, block), repeats)  # noqa: B023
        numpy = seconds(lambda: plain(p, q, block), repeats)  # noqa: B023
        gemm = seconds(lambda: [p[a : a + block] @ q.T for a in range(0, len(p), block)], repeats)  # noqa: B023
        print(
            f"{n_users:,} x {n_items:,} x {d}, blocks of {block}: ours {mine:.2f} s, numpy {numpy:.2f} s"
            f" (product alone {gemm:.2f} s), ratio {mine / numpy:.2f}"
        )


if __name__ == "__main__":
    main()
