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
    Values,
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


def csrr_e_movielens_1m() -> Values:
    """CSRRe(rank=256) against CSRR, low rank alone at half the noise level, seeds 0 to 4."""
    scores: list[list[float]] = [[], []]
    for seed in range(5):
        train, test = movielens_1m(seed)
        for place, model in enumerate((csrr.CSRRe(rank=256, **LOW_RANK), csrr.CSRR(**LOW_RANK))):
            scores[place].append(csrr.evaluate(model.fit(train), train, test, at=10)["ndcg@10"])
    ours, theirs = np.mean(scores, axis=1).tolist()
    return {"ours": ours, "theirs": theirs, "over": 100 * (ours / theirs - 1), "reached": ours >= 0.995 * theirs}


def csrr_e_gowalla() -> Values:
    """CSRRe(rank=128) against CSRR(max_rank=128), the same problem; the best of three runs each, in turns."""
    train, test = gowalla()
    models = csrr.CSRRe(rank=128, **GOWALLA), csrr.CSRR(max_rank=128, **GOWALLA)
    csrr.CSRRe(rank=8, max_iter=1, **LOW_RANK).fit(train)
    times = [[timed(lambda model=model: model.fit(train))[0] for model in models] for _ in range(REPEATS)]
    fast, slow = np.min(times, axis=0)
    ours, theirs = (at_20(model, train, test)[1] for model in models)
    return {
        "seconds": fast,
        "ndcg": ours,
        "objective": models[0].certificate_.primal,
        "exact_seconds": slow,
        "exact_ndcg": theirs,
        "exact_objective": models[1].certificate_.primal,
        "ratio": fast / slow,
        "reached": fast < slow and ours >= 0.995 * theirs,
    }


def wrmf_movielens_1m() -> Values:
    train, test = movielens_1m()
    return _wrmf(train, test, als_movielens_1m()[0], MOVIELENS_1M_GRID)


def wrmf_gowalla() -> Values:
    train, test = gowalla()
    return _wrmf(train, test, als_gowalla()[0], GOWALLA_GRID)


def _wrmf(train: csrr.Log, test: csrr.Log, theirs: dict[str, float], grid: dict[str, Any]) -> Values:
    """WRMF against implicit's ALS: 256 factors, each tuned over one grid on validation data; the best of three each."""
    ours = rivals.tune_wrmf(train, **grid).best
    model = rivals.wrmf(**ours)
    seconds: list[list[float]] = []
    for _ in range(REPEATS):
        rival = rivals.als(train.to_csr(), **theirs)
        seconds.append([timed(lambda: model.fit(train))[0], rival.seconds])
    fast, slow = np.min(seconds, axis=0)
    score, to_reach = at_20(model, train, test)[1], factors_at_20(rival, train, test)[1]
    return {
        "seconds": fast,
        "ndcg": score,
        "params": ours,
        "als_seconds": slow,
        "als_ndcg": to_reach,
        "als_params": theirs,
        "ratio": fast / slow,
        "reached": fast <= slow and score >= 0.995 * to_reach,
    }


def als_stopped_early() -> Values:
    """implicit's ALS with too weak a penalty, stopped early and late."""
    train, test = movielens_1m()
    penalty = {"alpha": 8.0, "regularization": 64.0}
    early, late = (
        factors_at_20(rivals.als(train.to_csr(), iterations=each, **penalty), train, test)[1] for each in (5, 60)
    )
    return penalty | {"early": early, "late": late}


ROWS = {
    "csrr-e": Row(
        "MovieLens-1M, seeds 0 to 4",
        "NDCG@10, `CSRRe(rank=256)`",
        "{ours:.4f}",
        "`CSRR`, same strength: {theirs:.4f}",
        "within 0.5 %: **{over:+.2f} %**",
        csrr_e_movielens_1m,
    ),
    "csrr-e-gowalla": Row(
        "Gowalla, rank 128",
        "fit, s (NDCG@20; objective), `CSRRe`",
        "{seconds:.2f} ({ndcg:.4f}; {objective:,.0f})",
        "`CSRR`, same problem: {exact_seconds:.2f} ({exact_ndcg:.4f}; {exact_objective:,.0f})",
        "faster: **{ratio:.2f}x**",
        csrr_e_gowalla,
        is_time=True,
    ),
    "wrmf": Row(
        "MovieLens-1M",
        "fit, s (NDCG@20), `WRMF`, 256 factors",
        "{seconds:.2f} ({ndcg:.4f})",
        "implicit ALS, both tuned over one grid: {als_seconds:.2f} ({als_ndcg:.4f})",
        "not slower: **{ratio:.2f}x**",
        wrmf_movielens_1m,
        is_time=True,
    ),
    "wrmf-gowalla": Row(
        "Gowalla",
        "fit, s (NDCG@20), `WRMF`, 256 factors",
        "{seconds:.2f} ({ndcg:.4f})",
        "implicit ALS, both tuned over one grid: {als_seconds:.2f} ({als_ndcg:.4f})",
        "not slower: **{ratio:.2f}x**",
        wrmf_gowalla,
        is_time=True,
    ),
    "als-early": Row(
        "MovieLens-1M, implicit ALS, confidence {alpha:g}, penalty {regularization:g}",
        "NDCG@20 after 5 iterations",
        "",
        "{early:.4f}; after 60: {late:.4f}",
        "",
        als_stopped_early,
    ),
}
