"""The ridge systems of the neighbours: optimal, on their support, the same for any number of threads and parts."""

import numpy as np
import pytest
from scipy import sparse

from csrr.numerics import neighbors
from csrr.numerics.neighbors import Regression, Ridge, find_nearest
from csrr.numerics.problem import Pattern
from csrr.numerics.thread_engine import THREADS


@pytest.fixture(scope="module")
def clicks():
    """60 users x 25 items with a pattern in them; item 24 has no click, item 23 one user alone."""
    rng = np.random.default_rng(3)
    taste = rng.random((60, 3)) @ rng.random((3, 25))
    dense = (rng.random((60, 25)) < 0.5 * taste / taste.mean()).astype(np.float32)
    dense[:, 23:] = 0
    dense[5] = 0
    dense[5, 23] = 1
    return dense


def parts_of(clicks, k, dtype=np.float32):
    rng = np.random.default_rng(0)
    pattern = Pattern.of(sparse.csr_array(clicks), THREADS)
    target = rng.uniform(0.2, 1, pattern.nnz).astype(dtype)
    user, item = rng.uniform(0.5, 1, 60).astype(dtype), rng.uniform(0.5, 1, 25).astype(dtype)
    regression = Regression(pattern, target, user, item, find_nearest(pattern, k))
    left, right = (rng.standard_normal((n, 4)).astype(dtype) / 4 for n in (60, 25))
    return regression, left, right


def dense_solution(regression, left, right, ridge):
    """S by a dense solve for each column, float64."""
    X = (
        regression.user[:, None]
        * (regression.pattern.make_matrix(np.ones(regression.pattern.nnz)).toarray())
        * regression.item
    )
    left_over = regression.pattern.make_matrix(regression.target).toarray() - left.astype(float) @ right.T.astype(float)
    S = np.zeros((25, 25))
    for j, near in enumerate(regression.support[:, : ridge.k]):
        near = near[near >= 0]
        gram = X[:, near].T @ X[:, near] + ridge.rho * np.eye(len(near))
        S[near, j] = np.linalg.solve(gram, X[:, near].T @ left_over[:, j])
    return S


class TestTheSystems:
    @pytest.mark.parametrize("ridge", [Ridge(8, 0.5), Ridge(3, 0.5), Ridge(8, 20.0)])
    def test_they_are_those_of_a_dense_solve(self, clicks, ridge):
        regression, left, right = parts_of(clicks, 8)
        found = regression.by_neighbor.make_matrix(regression.solve([(left, right)], [ridge])[0, 0]).toarray()
        np.testing.assert_allclose(found, dense_solution(regression, left, right, ridge), atol=2e-5)
        assert np.abs(found).max() > 0.01

    def test_many_at_once_are_each_as_alone(self, clicks):
        regression, left, right = parts_of(clicks, 8)
        ridges = [Ridge(8, 0.5), Ridge(2, 3.0)]
        together = regression.solve([(left, right), (left, 2 * right), (-left, right)], ridges)
        for at, pair in enumerate([(left, right), (left, 2 * right), (-left, right)]):
            for of, ridge in enumerate(ridges):
                np.testing.assert_array_equal(together[at, of], regression.solve([pair], [ridge])[0, 0])

    def test_the_objective_rises_whichever_weight_is_moved(self, clicks):
        regression, left, right = parts_of(clicks, 5, np.float64)
        ridge = Ridge(5, 0.7)
        S = regression.by_neighbor.make_matrix(regression.solve([(left, right)], [ridge])[0, 0]).toarray()
        X = regression.user[:, None] * regression.pattern.make_matrix(np.ones(regression.pattern.nnz)).toarray()
        X = X * regression.item
        left_over = regression.pattern.make_matrix(regression.target).toarray() - left @ right.T

        def objective(S):
            return ridge.rho / 2 * (S**2).sum() + 0.5 * ((left_over - X @ S) ** 2).sum()

        best = objective(S)
        for i, j in zip(*np.nonzero(S), strict=True):
            for step in (-0.02, 0.02):
                other = S.copy()
                other[i, j] += step
                assert objective(other) > best

    def test_zero_on_the_diagonal_and_off_the_support(self, clicks):
        regression, left, right = parts_of(clicks, 4)
        S = regression.by_neighbor.make_matrix(regression.solve([(left, right)], [Ridge(4, 0.1)])[0, 0])
        allowed = np.zeros((25, 25), bool)
        for j, near in enumerate(regression.support):
            allowed[near[near >= 0], j] = True
        assert not allowed.diagonal().any()
        assert not S.toarray()[~allowed].any()
        assert (S.toarray()[allowed] != 0).mean() > 0.9

    def test_grams_made_in_parts_change_nothing(self, clicks, monkeypatch):
        regression, left, right = parts_of(clicks, 8)
        whole = regression.solve([(left, right)], [Ridge(8, 0.5)])
        monkeypatch.setattr(neighbors, "_GRAM_BYTES", 1)
        monkeypatch.setattr(neighbors, "_LEAST_ITEMS", 3)
        regression, left, right = parts_of(clicks, 8)
        assert not regression._keeps_grams
        np.testing.assert_array_equal(regression.solve([(left, right)], [Ridge(8, 0.5)]), whole)

    def test_without_a_penalty_dependent_neighbours_are_refused(self):
        twice = np.array([[1, 1, 1], [1, 1, 0], [0, 0, 1], [1, 1, 1]], np.float32)
        pattern = Pattern.of(sparse.csr_array(twice), THREADS)
        ones = np.ones
        regression = Regression(
            pattern, ones(pattern.nnz, np.float32), ones(4, np.float32), ones(3, np.float32), find_nearest(pattern, 2)
        )
        nothing = np.zeros((4, 1), np.float32), np.zeros((3, 1), np.float32)
        with pytest.raises(np.linalg.LinAlgError, match="item row 2"):
            regression.solve([nothing], [Ridge(2, 0.0)])
        assert np.isfinite(regression.solve([nothing], [Ridge(2, 0.1)])).all()


class TestTheNearest:
    def test_they_have_the_largest_cosines(self, clicks):
        pattern = Pattern.of(sparse.csr_array(clicks), THREADS)
        norms = np.maximum(np.linalg.norm(clicks, axis=0), 1)
        cosines = clicks.T @ clicks / norms[:, None] / norms
        np.fill_diagonal(cosines, -1)
        for j, near in enumerate(find_nearest(pattern, 6)):
            near = near[near >= 0]
            others = np.setdiff1d(np.arange(25), [*near, j])
            if len(near):
                assert cosines[near, j].min() >= cosines[others, j].max() - 1e-6
                assert (np.diff(cosines[near, j]) <= 1e-6).all()

    def test_items_that_share_no_user_are_no_neighbours(self, clicks):
        found = find_nearest(Pattern.of(sparse.csr_array(clicks), THREADS), 6)
        assert (found[23:] == -1).all()
        assert not np.isin(found, [23, 24]).any()

    @pytest.mark.parametrize("k", [0, 24, 1000])
    def test_at_most_all_others(self, clicks, k):
        assert find_nearest(Pattern.of(sparse.csr_array(clicks), THREADS), k).shape == (25, min(k, 24))

    def test_one_item_has_none(self):
        assert find_nearest(Pattern.of(sparse.csr_array(np.ones((3, 1))), THREADS), 5).shape == (1, 0)


def test_a_matrix_of_few_weights_leaves_the_layout_as_it_is(clicks):
    regression, left, right = parts_of(clicks, 8)
    few, many = regression.solve([(left, right)], [Ridge(2, 1.0), Ridge(8, 1.0)])[0]
    before = regression.by_neighbor.make_matrix(many)
    assert regression.by_neighbor.make_matrix(few).nnz < before.nnz
    np.testing.assert_array_equal(regression.by_neighbor.make_matrix(many).toarray(), before.toarray())
