"""Regressions on features against dense solutions."""

import numpy as np
import pytest
from scipy import sparse

from csrr.numerics.feature_ridge import SimilarItems, collect_weights, fit_map


def make_features(n, rng, q=3):
    words = sparse.random_array((n, 40), density=0.1, rng=rng, dtype=np.float32).tocsr()
    return words, (0.3 * rng.normal(size=(n, q))).astype(np.float32)


@pytest.mark.parametrize("q", [0, 3])
def test_weights_are_the_ridge_regression_on_the_most_similar_items(q):
    rng = np.random.default_rng(0)
    known, new = make_features(60, rng, q), make_features(8, rng, q)
    F, f = (np.hstack([words.toarray(), dense]).astype(float) for words, dense in (known, new))
    values, items = SimilarItems(*known).weigh(*new, 12, 2.0)
    for j in range(len(f)):
        mine = items[j][items[j] >= 0]
        products = F @ f[j]
        best = np.argsort(-products)[:12]
        assert set(mine) == set(best[products[best] > 0])
        exact = np.linalg.solve(F[mine] @ F[mine].T + 2 * np.eye(len(mine)), F[mine] @ f[j])
        np.testing.assert_allclose(values[j][: len(mine)], exact, atol=2e-4)
    matrix = collect_weights(values, items, 60)
    assert matrix.shape == (60, 8)
    assert matrix[[items[0, 0]], [0]] == values[0, 0]


def test_a_known_item_is_not_its_own_neighbor():
    known = make_features(30, np.random.default_rng(1))
    _, items = SimilarItems(*known).weigh(*known, 5, 1.0, np.arange(30))
    assert not (items == np.arange(30)[:, None]).any()


def test_weights_do_not_depend_on_who_else_is_asked_about():
    known = make_features(50, np.random.default_rng(2), 0)
    together = SimilarItems(*known).weigh(*known, 7, 1.0)
    alone = SimilarItems(*known).weigh(known[0][[9]], known[1][[9]], 7, 1.0)
    for a, b in zip(together, alone, strict=True):
        assert np.array_equal(a[9], b[0])


def test_the_map_is_the_ridge_regression():
    rng = np.random.default_rng(3)
    words, dense = make_features(80, rng)
    targets = rng.normal(size=(80, 4)).astype(np.float32)
    found = fit_map(words, dense, targets, 1.5)
    F = np.hstack([words.toarray(), dense]).astype(float)
    exact = np.linalg.solve(F.T @ F + 1.5 * np.eye(F.shape[1]), F.T @ (targets - targets.mean(0)))
    np.testing.assert_allclose(np.vstack([found.words, found.dense]), exact, atol=0.02 * abs(exact).max())
    np.testing.assert_allclose(found(words, dense), F @ exact + targets.mean(0), atol=0.03)
