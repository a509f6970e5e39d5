"""What the rows of the table share: the row itself, data, timing and scoring."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np

import csrr
from benchmarks import rivals
from csrr.ranking.metrics import mark_hits, ndcg, recall
from csrr.ranking.topk import top_k

T = TypeVar("T")

GOWALLA_USERS_FOR_CHOICE = 5000
# For weighted matrix factorization, ours and the rival's.
MOVIELENS_1M_GRID = {"alphas": (2.0, 8.0), "ratios": (3.0, 8.0, 16.0, 24.0)}
GOWALLA_GRID = {"alphas": (8.0, 32.0), "ratios": (0.01, 1.0)}


Values = dict[str, Any]
"""What was measured, by name; "reached" says whether it is what was wanted, where something was."""


@dataclass(frozen=True)
class Row:
    """A line of the table: what is measured and how it is shown. `{names}` in the texts are those of the values.

    `is_time` tells what wants a machine to itself from what is the same on a busy one.
    """

    data: str
    measure: str
    ours: str
    rival: str
    wanted: str
    work: Callable[[], Values]
    is_time: bool = False

    def show(self, values: Values) -> tuple[str, str, str, str, str]:
        """Data, measure, ours, the rival's and what was wanted, filled in."""
        texts = (self.data, self.measure, self.ours, self.rival, self.wanted)
        data, measure, ours, rival, wanted = (each.format(**values) for each in texts)
        return data, measure, ours, rival, wanted

    def judge(self, values: Values) -> str:
        """Whether what was wanted was reached: "yes", "no", or nothing where nothing was."""
        return ("yes" if values["reached"] else "no") if self.wanted else ""


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """The seconds `work` took, and its result."""
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


@cache
def movielens_1m(seed: int = 0) -> tuple[csrr.Log, csrr.Log]:
    """MovieLens-1M, rating >= 3, 80/20 per user."""
    return csrr.split(csrr.read("ml-1m.zip", min_rating=3), ratio=0.8, seed=seed)


@cache
def gowalla() -> tuple[csrr.Log, csrr.Log]:
    """Gowalla, its fixed split."""
    return csrr.read_split("gowalla.zip")


def at_20(model: csrr.CSRR, train: csrr.Log, test: csrr.Log) -> tuple[float, float]:
    """(Recall@20, NDCG@20)."""
    result = csrr.evaluate(model, train, test, at=20)
    return result["recall@20"], result["ndcg@20"]


def factors_at_20(factors: rivals.Factors, train: csrr.Log, test: csrr.Log) -> tuple[float, float]:
    """(Recall@20, NDCG@20) of bare factors, over the same users and by the same metrics."""
    relevant = test.to_csr()
    counts = np.diff(relevant.indptr).astype(np.int64)
    rows = np.flatnonzero(counts)
    scores = rivals.factor_scores(factors.users, factors.items)
    items, _ = top_k(scores, rows, test.n_items, 20, seen=train.to_csr())
    hits = mark_hits(items, relevant, rows)
    return float(recall(hits, counts[rows]).mean()), float(ndcg(hits, counts[rows]).mean())


@cache
def als_movielens_1m() -> tuple[dict[str, float], rivals.Factors]:
    """implicit's ALS (256 factors, 15 iterations) on MovieLens-1M, tuned on a validation split of train."""
    train, _ = movielens_1m()
    best = rivals.tune_als(train, **MOVIELENS_1M_GRID).best
    return best, rivals.als(train.to_csr(), **best)


@cache
def als_gowalla() -> tuple[dict[str, float], rivals.Factors]:
    """The same on Gowalla."""
    train, _ = gowalla()
    best = rivals.tune_als(train, **GOWALLA_GRID).best
    return best, rivals.als(train.to_csr(), **best)


def choose(train: csrr.Log, candidates: list[dict[str, Any]]) -> dict[str, Any]:
    """The parameters with the best NDCG@20 on a validation split inside `train`, over a sample of its users."""
    kept, held_out = csrr.split(train, ratio=0.8, seed=1)
    users = held_out.users.ids[np.flatnonzero(held_out.user_counts())]
    users = np.random.default_rng(0).choice(users, min(len(users), GOWALLA_USERS_FOR_CHOICE), replace=False)

    def score(params: dict[str, Any]) -> float:
        model = csrr.CSRR(**params).fit(kept)
        return csrr.evaluate(model, kept, held_out, at=20, users=users)["ndcg@20"]

    return max(candidates, key=score)


READ_PEAK = """
def read_peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) / 1e6
"""
"""Code for a fresh process: its peak memory in GB. What getrusage says begins with that of the process before it."""


def in_fresh_process(code: str) -> dict[str, Any]:
    """What `code` printed last, as JSON, in a process of its own."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result
