"""What CSRR is measured against: our EASE and implicit's ALS, each tuned on a validation split."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

from csrr._base.arrays import Rows
from csrr._base.threads import available_cores
from csrr.data.log import Log
from csrr.data.split import split
from csrr.models import EASE, WRMF
from csrr.ranking.metrics import mark_hits, ndcg
from csrr.ranking.topk import RowScorer, top_k

Floats = NDArray[np.float32]

EASE_GRID = (30.0, 100.0, 200.0, 400.0, 800.0, 1600.0)
ALS_ALPHAS = (2.0, 8.0, 32.0, 128.0)
# On dense data the best regularization grows in step with alpha, far above implicit's default of 0.01.
ALS_RATIOS = (0.01, 1.0, 3.0, 5.0, 8.0)
_WARM_UP_ROWS = 500


class Tuned(NamedTuple):
    """The best arguments, and the validation NDCG@10 of every (arguments, score) that was tried."""

    best: dict[str, float]
    tried: list[tuple[dict[str, float], float]]


class Factors(NamedTuple):
    """How long a fit took, and what it gave: scores are users @ items.T; (n_users, d) and (n_items, d)."""

    seconds: float
    users: Floats
    items: Floats


def als(
    train: Any,
    factors: int = 256,
    iterations: int = 15,
    regularization: float = 0.01,
    alpha: float = 1.0,
    threads: int | None = None,
    seed: int = 0,
) -> Factors:
    """implicit's weighted ALS: confidence `alpha` on observed cells, 1 elsewhere; on all cores unless told.

    Its own threads do the work, so BLAS is held to one, as implicit advises. A short untimed run comes first.
    """
    from implicit.als import AlternatingLeastSquares

    X = sparse.csr_matrix(train, dtype=np.float32)

    def model(iterations: int) -> Any:
        return AlternatingLeastSquares(
            factors=factors,
            regularization=regularization,
            alpha=alpha,
            iterations=iterations,
            num_threads=threads or available_cores(),
            random_state=seed,
        )

    with threadpool_limits(limits=1, user_api="blas"):
        model(1).fit(X[:_WARM_UP_ROWS], show_progress=False)
        fitted = model(iterations)
        started = time.perf_counter()
        fitted.fit(X, show_progress=False)
        seconds = time.perf_counter() - started
    return Factors(seconds, fitted.user_factors, fitted.item_factors)


def sansa(train: Any, l2: float, density: float, *, exact: bool) -> RowScorer:
    """SANSA: EASE by a sparse approximate inverse, a share `density` of whose items-by-items factors is kept.

    The Cholesky factor is computed whole and then thinned out (`exact`), or kept sparse from the start: less
    accurate, and the only way for tens of thousands of items. Package defaults otherwise.
    """
    import sansa

    X = sparse.csr_matrix(train, dtype=np.float32)
    factorizer = sansa.CHOLMODGramianFactorizerConfig() if exact else sansa.ICFGramianFactorizerConfig()
    inverter = sansa.UMRUnitLowerTriangleInverterConfig(scans=1, finetune_steps=5)
    left, right = sansa.SANSA(sansa.SANSAConfig(l2, density, factorizer, inverter)).fit(X).weights
    return lambda rows: (X[rows] @ left @ right).toarray()


def factor_scores(users: Floats, items: Floats) -> RowScorer:
    """The function from user rows to the scores of factors, (rows, n_items)."""
    return lambda rows: users[rows] @ items.T


def mean_ndcg(score_block: RowScorer, train: Any, test: Any, k: int = 10) -> float:
    """The mean NDCG@k over users with test items; items of `train` are left out of the lists."""
    relevant = sparse.csr_array(test)
    counts = np.diff(relevant.indptr).astype(np.int64)
    rows: Rows = np.flatnonzero(counts)
    items, _ = top_k(score_block, rows, relevant.shape[1], k, seen=train)
    return float(ndcg(mark_hits(items, relevant, rows), counts[rows]).mean())


def tune_ease(train: Log, grid: Sequence[float] = EASE_GRID, *, ratio: float = 0.9, seed: int = 0) -> Tuned:
    """The `reg` of EASE that is best on a validation split inside `train`."""

    def scores(X: Any, reg: float) -> RowScorer:
        return EASE(reg).fit(X).score_rows

    return _tune(scores, [{"reg": reg} for reg in grid], train, ratio=ratio, seed=seed)


def tune_als(
    train: Log,
    alphas: Sequence[float] = ALS_ALPHAS,
    ratios: Sequence[float] = ALS_RATIOS,
    *,
    factors: int = 256,
    iterations: int = 15,
    threads: int | None = None,
    ratio: float = 0.9,
    seed: int = 0,
) -> Tuned:
    """The alpha and regularization of ALS that are best on a validation split inside `train`.

    Tried is every alpha of `alphas` with every regularization alpha*r, r of `ratios`.
    """

    def scores(X: Any, alpha: float, regularization: float) -> RowScorer:
        _, users, items = als(X, factors, iterations, regularization, alpha, threads, seed)
        return factor_scores(users, items)

    return _tune(scores, _weighted_grid(alphas, ratios), train, ratio=ratio, seed=seed)


def tune_wrmf(
    train: Log, alphas: Sequence[float], ratios: Sequence[float], *, ratio: float = 0.9, seed: int = 0
) -> Tuned:
    """The same for our WRMF, over the same grid."""

    def scores(X: Any, alpha: float, regularization: float) -> RowScorer:
        model = wrmf(alpha, regularization).fit(X)
        return factor_scores(model.user_factors_, model.item_factors_)

    return _tune(scores, _weighted_grid(alphas, ratios), train, ratio=ratio, seed=seed)


def wrmf(alpha: float, regularization: float, factors: int = 256) -> WRMF:
    """Our WRMF with the objective of `als`."""
    return WRMF(factors, confidence=alpha - 1, reg=regularization, reg_exponent=0.0)


def _weighted_grid(alphas: Sequence[float], ratios: Sequence[float]) -> list[dict[str, float]]:
    return [{"alpha": a, "regularization": a * r} for a, r in product(alphas, ratios)]


def _tune(
    scores: Callable[..., RowScorer], grid: list[dict[str, float]], train: Log, *, ratio: float, seed: int
) -> Tuned:
    """The best of `grid` by NDCG@10 on what a random `ratio` of each user's events leaves over."""
    kept, held_out = split(train, ratio, seed=seed)
    X, test = kept.to_csr(), held_out.to_csr()
    tried = [(arguments, mean_ndcg(scores(X, **arguments), X, test)) for arguments in grid]
    return Tuned(max(tried, key=lambda pair: pair[1])[0], tried)
