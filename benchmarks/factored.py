"""Rows on models in factors: CSRR-e against CSRR, WRMF against implicit's ALS."""

from __future__ import annotations

from typing import Any

import numpy as np

import csrr
from benchmarks import rivals
from benchmarks.measure import (
    GOWALLA_GRID,
    MOVIELENS_1M_GRID,
    Row,
    als_gowalla,
    als_movielens_1m,
    at_20,
    factors_at_20,
    gowalla,
    movielens_1m,
    timed,
)

GOWALLA: dict[str, Any] = {
    "cost_ratio": 4.0,
    "reg_low_rank": 0.2,
    "reg_sparse": 1.0,
    "user_scaling": 0.35,
    "item_scaling": 0.4,
}
GOWALLA |= {"neighbors": 0}
LOW_RANK: dict[str, Any] = {"reg_low_rank": "noise", "neighbors": 0}
REPEATS = 3


def csrr_e_movielens_1m() -> Row:
    """CSRRe(rank=256) against CSRR, low rank alone at half the noise level, seeds 0 to 4."""
    scores: list[list[float]] = [[], []]
    seconds: list[list[float]] = [[], []]
    for seed in range(5):
        train, test = movielens_1m(seed)
        for place, model in enumerate((csrr.CSRRe(rank=256, **LOW_RANK), csrr.CSRR(**LOW_RANK))):
            took, fitted = timed(lambda model=model, train=train: model.fit(train))
            seconds[place].append(took)
            scores[place].append(csrr.evaluate(fitted, train, test, at=10)["ndcg@10"])
    (ours, theirs), (fast, slow) = np.mean(scores, axis=1), np.min(seconds, axis=1)
    return Row(
        "MovieLens-1M, 5 seeds",
        "NDCG@10 (fit s), CSRRe(rank=256) against CSRR, low rank alone",
        f"{ours:.4f} ({fast:.2f} s)",
        f"{theirs:.4f} ({slow:.2f} s)",
        f"within 0.5 %: {100 * (ours / theirs - 1):+.2f} %",
        ours >= 0.995 * theirs,
    )


def csrr_e_gowalla() -> Row:
    """CSRRe(rank=128) against CSRR(max_rank=128), the same problem; the best of three runs each, in turns."""
    train, test = gowalla()
    models = csrr.CSRRe(rank=128, **GOWALLA), csrr.CSRR(max_rank=128, **GOWALLA)
    csrr.CSRRe(rank=8, max_iter=1, **LOW_RANK).fit(train)
    times = [[timed(lambda model=model: model.fit(train))[0] for model in models] for _ in range(REPEATS)]
    fast, slow = np.min(times, axis=0)
    ours, theirs = (at_20(model, train, test)[1] for model in models)
    return Row(
        "Gowalla, rank 128",
        "fit s (NDCG@20; objective), CSRRe against CSRR",
        f"{fast:.2f} s ({ours:.4f}; {models[0].certificate_.primal:.0f})",
        f"{slow:.2f} s ({theirs:.4f}; {models[1].certificate_.primal:.0f})",
        f"faster: {fast / slow:.2f}x",
        fast < slow and ours >= 0.995 * theirs,
    )


def wrmf_movielens_1m() -> Row:
    train, test = movielens_1m()
    return _wrmf("MovieLens-1M", train, test, als_movielens_1m()[0], MOVIELENS_1M_GRID)


def wrmf_gowalla() -> Row:
    train, test = gowalla()
    return _wrmf("Gowalla", train, test, als_gowalla()[0], GOWALLA_GRID)


def _wrmf(data: str, train: csrr.Log, test: csrr.Log, theirs: dict[str, float], grid: dict[str, Any]) -> Row:
    """WRMF against implicit's ALS: 256 factors, each tuned over one grid on validation data; the best of three each."""
    ours = rivals.tune_wrmf(train, **grid).best
    model = rivals.wrmf(**ours)
    seconds: list[list[float]] = []
    for _ in range(REPEATS):
        rival = rivals.als(train.to_csr(), **theirs)
        seconds.append([timed(lambda: model.fit(train))[0], rival.seconds])
    fast, slow = np.min(seconds, axis=0)
    score, to_reach = at_20(model, train, test)[1], factors_at_20(rival, train, test)[1]
    return Row(
        data,
        "fit s (NDCG@20), WRMF against implicit ALS, 256 factors, each tuned over one grid",
        f"{fast:.2f} s ({score:.4f}; {ours['alpha']:g}, {ours['regularization']:g})",
        f"{slow:.2f} s ({to_reach:.4f}; {theirs['alpha']:g}, {theirs['regularization']:g})",
        f"not slower: {fast / slow:.2f}x",
        fast <= slow and score >= 0.995 * to_reach,
    )
