"""Singular triplets, spectral norms and orthonormal bases against numpy.linalg."""

import numpy as np
import pytest
from scipy import sparse

from csrr.numerics.krylov import (
    BlockKrylov,
    LowRankPlusSparse,
    compute_partial_svd,
    estimate_spectral_norm,
    orthonormalize,
)
from csrr.numerics.problem import LowRank, Pattern
from csrr.numerics.thread_engine import THREADS
from tests.numerics.test_problem import clicks


class Plain:
    """A dense matrix, (n, m), as an operator."""

    engine = THREADS

    def __init__(self, matrix):
        self.matrix, self.shape = matrix, matrix.shape

    def put_right(self, x):
        return x

    put_left = put_right

    def times(self, x):
        return self.matrix @ x

    def transposed_times(self, x):
        return self.matrix.T @ x


def rng():
    return np.random.default_rng(7)


def deficient(n, m, rank, seed=0):
    r = np.random.default_rng(seed)
    return r.standard_normal((n, rank)) @ r.standard_normal((rank, m))


MATRICES = {
    "1 x 1": np.array([[-3.0]]),
    "1 x n": deficient(1, 9, 1),
    "n x 1": deficient(9, 1, 1),
    "smaller than a block": deficient(5, 60, 5),
    "tall": deficient(70, 6, 6),
    "two blocks": deficient(16, 20, 16),
    "between": deficient(30, 40, 30),
    "rank-deficient": deficient(50, 60, 3),
    "duplicate rows": np.repeat(deficient(4, 50, 4), 12, axis=0),
    "equal singular values": np.eye(40),
    "large": deficient(120, 150, 120),
    "zero": np.zeros((20, 30)),
}


@pytest.mark.parametrize("name", MATRICES)
def test_spectral_norm(name):
    A = MATRICES[name]
    norm, find = estimate_spectral_norm(Plain(A), rng(), dtype=np.float64, rtol=1e-6)
    found = find()
    exact = np.linalg.norm(A, 2)
    assert norm == pytest.approx(exact, rel=1e-4, abs=1e-12)
    assert norm >= exact * (1 - 1e-9)
    if exact:
        assert found.s[0] == pytest.approx(exact, rel=1e-5)
        np.testing.assert_allclose(A @ found.right[:, 0], found.s[0] * found.left[:, 0], atol=1e-2 * exact)


def test_one_singular_value_just_above_many_is_found_near_them():
    """As the gradient has them at the optimum."""
    r = np.random.default_rng(3)
    left, right = (np.linalg.qr(r.standard_normal((n, 450)))[0] for n in (900, 1000))
    A = (left * np.concatenate(([1.0015], np.linspace(1, 0.98, 149), np.linspace(0.98, 0, 300)))) @ right.T
    exact = np.linalg.norm(A, 2)
    turn = np.linalg.qr(r.standard_normal((150, 150)))[0]
    near = LowRank(left[:, :150] @ turn, np.ones(150), right[:, :150] @ turn)
    norm, _ = estimate_spectral_norm(Plain(A), rng(), dtype=np.float64, rtol=1e-4, near=near)
    flipped, _ = estimate_spectral_norm(Plain(A.T), rng(), dtype=np.float64, rtol=1e-4, near=near.T)
    assert exact * (1 - 1e-12) <= norm <= exact * (1 + 1e-4)
    assert exact * (1 - 1e-12) <= flipped <= exact * (1 + 1e-4)


_WHOLE = [n for n in MATRICES if n not in ("large", "equal singular values")]


@pytest.mark.parametrize("name", _WHOLE)
@pytest.mark.parametrize("fraction", [0.0, 0.5])
def test_partial_svd(name, fraction):
    """On small matrices the Krylov space is the whole space, so the triplets are exact."""
    A = MATRICES[name]
    exact = np.linalg.svd(A, compute_uv=False)
    above = max(fraction * exact[0], 1e-5)
    found = compute_partial_svd(Plain(A), rng(), above=above, dtype=np.float64)
    wanted = exact[exact > above]
    assert found.left.shape == (A.shape[0], found.width)
    assert found.right.shape == (A.shape[1], found.width)
    np.testing.assert_allclose(found.s, wanted, rtol=1e-7)
    P, s, Qt = np.linalg.svd(A, full_matrices=False)
    best = (P[:, : len(wanted)] * s[: len(wanted)]) @ Qt[: len(wanted)]
    np.testing.assert_allclose(found.scaled_left @ found.right.T, best, atol=1e-6 * max(exact[0], 1))
    for side in (found.left, found.right):
        np.testing.assert_allclose(side.T @ side, np.eye(found.width), atol=1e-6)


def test_partial_svd_of_a_larger_matrix_is_least_accurate_at_the_threshold():
    A = MATRICES["large"]
    exact = np.linalg.svd(A, compute_uv=False)
    found = compute_partial_svd(Plain(A), rng(), above=0.6 * exact[0], dtype=np.float64)
    wanted = exact[exact > 0.6 * exact[0]]
    assert abs(len(found.s) - len(wanted)) <= 2
    np.testing.assert_allclose(found.s[:5], wanted[:5], rtol=1e-3)
    assert (found.s <= exact[: len(found.s)] * (1 + 1e-9)).all()


def test_partial_svd_of_equal_singular_values_finds_a_block_of_them():
    """A Krylov space sees as many of a multiple singular value as its block is wide."""
    found = compute_partial_svd(Plain(np.eye(40)), rng(), above=0.5, dtype=np.float64)
    assert found.width >= 8
    np.testing.assert_allclose(found.s, 1, rtol=1e-9)


@pytest.mark.parametrize("cap", [1, 3])
def test_partial_svd_keeps_at_most_cap(cap):
    A = deficient(40, 50, 12)
    exact = np.linalg.svd(A, compute_uv=False)[: min(cap, 12)]
    found = compute_partial_svd(Plain(A), rng(), above=1e-3, cap=cap, dtype=np.float64)
    np.testing.assert_allclose(found.s, exact, rtol=1e-6)


def test_partial_svd_in_single_precision():
    A = deficient(60, 50, 20).astype(np.float32)
    exact = np.linalg.svd(A.astype(np.float64), compute_uv=False)
    found = compute_partial_svd(Plain(A), rng(), above=0.2 * exact[0])
    assert found.left.dtype == found.right.dtype == np.float32
    np.testing.assert_allclose(found.s, exact[exact > 0.2 * exact[0]], rtol=1e-4)


@pytest.mark.parametrize("shape", [(50, 4), (4, 4), (9, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_orthonormal_spans_the_columns(shape, dtype):
    x = np.random.default_rng(1).standard_normal(shape).astype(dtype)
    q = orthonormalize(THREADS, x)
    assert q.shape == shape
    assert q.dtype == dtype
    tol = 1e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(q.T @ q, np.eye(shape[1]), atol=tol)
    np.testing.assert_allclose(q @ (q.T @ x), x, atol=10 * tol)


def test_orthonormal_leaves_out_what_vanishes():
    x = np.random.default_rng(1).standard_normal((30, 3))
    twice = np.concatenate([x, x, np.zeros((30, 2))], axis=1)
    q = orthonormalize(THREADS, twice)
    assert q.shape == (30, 3)
    np.testing.assert_allclose(q @ (q.T @ x), x, atol=1e-7)
    assert orthonormalize(THREADS, np.zeros((30, 4))).shape == (30, 0)
    assert orthonormalize(THREADS, np.zeros((30, 0))).shape == (30, 0)


def test_orthonormal_against_a_basis():
    r = np.random.default_rng(1)
    basis = np.linalg.qr(r.standard_normal((30, 5)))[0]
    q = orthonormalize(
        THREADS,
        np.concatenate([basis[:, :2] * 3 + 1e-3 * r.standard_normal((30, 2)), r.standard_normal((30, 2))], 1),
        basis,
    )
    assert q.shape == (30, 4)
    np.testing.assert_allclose(basis.T @ q, 0, atol=1e-10)
    np.testing.assert_allclose(q.T @ q, np.eye(4), atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_orthonormal_of_what_the_basis_already_spans_is_empty(dtype):
    r = np.random.default_rng(1)
    basis = np.linalg.qr(r.standard_normal((60, 20)))[0].astype(dtype)
    inside = basis @ (r.standard_normal((20, 6)).astype(dtype) * 50)
    assert orthonormalize(THREADS, inside, basis).shape == (60, 0)


def test_a_cluster_of_singular_values_at_the_top():
    """At an optimum, as many singular values of the gradient as the rank of U equal l1."""
    space = BlockKrylov(Plain(np.eye(30)), np.eye(30)[:, :8])
    for seed in (0, 653, 1180, 1219, 1286, 1510):
        r = np.random.default_rng(seed)
        Q = np.linalg.qr(r.standard_normal((30, 30)))[0]
        gram = (Q * np.concatenate([r.uniform(0, 90, 23), np.full(7, 96.0)])) @ Q.T
        space._gram = (gram + gram.T) / 2
        assert space.estimate_norm() == pytest.approx(np.sqrt(96))


def test_low_rank_plus_sparse():
    A = clicks((20, 30))
    pattern, r = Pattern.of(sparse.csr_array(A), THREADS), np.random.default_rng(3)
    left, right = (np.linalg.qr(r.standard_normal((n, 3)))[0] for n in (20, 30))
    low_rank = LowRank(left, np.array([3.0, 1.0, 0.0]), right)
    values = r.standard_normal(pattern.nnz)
    op = LowRankPlusSparse(low_rank, pattern, values, a=0.5, b=-2.0)
    U = (left * low_rank.s) @ right.T
    exact = 0.5 * U - 2 * pattern.make_matrix(values).toarray()
    np.testing.assert_allclose(op.times(np.eye(30)), exact, atol=1e-12)
    np.testing.assert_allclose(op.transposed_times(np.eye(20)), exact.T, atol=1e-12)
    assert low_rank.rank == 2
    assert low_rank.trim().width == 2
    assert low_rank.compute_nuclear_norm(THREADS) == pytest.approx(4)
    assert low_rank.compute_squared_norm(THREADS) == pytest.approx(10)
    np.testing.assert_allclose(low_rank.evaluate_on(pattern), U[pattern.rows, pattern.indices], atol=1e-12)
