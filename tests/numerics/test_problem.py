"""The problem with V minimised out, against the dense specification and against plain calculus."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from csrr.numerics.problem import Pattern, build
from csrr.numerics.thread_engine import THREADS
from tests.reference import dense

LOSSES = pytest.mark.parametrize("loss", ["I", "II"])


def clicks(shape=(60, 80), density=0.2, seed=0):
    """A random 0/1 matrix, (n, m), without empty rows and columns."""
    rng = np.random.default_rng(seed)
    A = (rng.random(shape) < density).astype(np.float64)
    A[np.arange(shape[0]), np.arange(shape[0]) % shape[1]] = 1
    A[np.arange(shape[1]) % shape[0], np.arange(shape[1])] = 1
    return A


def make(A, *, loss="I", alpha=2.0, strength=0.3, l2=None, scaling=0.0, dtype=np.float64, costs=None):
    """The problem as the solver and as the dense specification see it; l1 is `strength` of ||w T||_2.

    `costs`, (n, m), are the cells' own.
    """
    own = 1.0 if costs is None else costs
    reference = dense.Dense(A, alpha, 0.0, l2, loss, scaling, scaling, own)
    l1 = strength * alpha * float(np.linalg.norm(reference.T * own, 2))
    reference = dense.Dense(A, alpha, l1, l2, loss, scaling, scaling, own)
    pattern = Pattern.of(sparse.csr_array(A), THREADS)
    scaled = reference.T[reference.observed].astype(dtype)
    observed = None if costs is None else costs[reference.observed].astype(dtype)
    return build(pattern, scaled, loss=loss, cost_ratio=alpha, l1=l1, l2=l2, costs=observed), reference


@LOSSES
@pytest.mark.parametrize("scaling", [0.0, 0.4])
@pytest.mark.parametrize("own", [False, True])
def test_build_agrees_with_the_specification(loss, scaling, own):
    costs = np.random.default_rng(3).uniform(0.2, 1.0, (60, 80)) if own else None
    problem, reference = make(clicks(), loss=loss, alpha=3.0, l2=1.2, scaling=scaling, costs=costs)
    seen = reference.observed
    for ours, theirs in (
        (problem.target, reference.target),
        (problem.weight, reference.weight),
        (problem.v_penalty, reference.cap),
    ):
        np.testing.assert_allclose(ours, theirs[seen], rtol=1e-12)
    most = 3 if costs is None else 3 * costs[seen].max()
    assert problem.smoothness == pytest.approx(most if loss == "I" else 1)


@LOSSES
@pytest.mark.parametrize("l2", [None, 0.3, 1.5])
def test_observed_cells_cost_pull_and_leave_what_the_specification_says(loss, l2):
    problem, reference = make(clicks((12, 15)), loss=loss, alpha=4.0, l2=l2, scaling=0.2)
    U = np.random.default_rng(1).uniform(-2, 5, (12, 15))
    seen = reference.observed
    u = U[seen]
    V = dense.specific(U, reference)
    np.testing.assert_allclose(problem.find_specific(u), V[seen], atol=1e-12)
    np.testing.assert_allclose(problem.pull(u), dense.pull(U, reference)[seen], atol=1e-12)
    unobserved = (U[~seen] ** 2).sum() / 2
    assert problem.sum_observed_loss(u) + unobserved == pytest.approx(dense.smooth(U, reference), rel=1e-12)
    with_v = dense.objective(U, V, reference) - reference.l1 * dense.nuclear_norm(U)
    assert problem.sum_observed_loss(u) + unobserved == pytest.approx(with_v, rel=1e-12)


cell = st.tuples(
    st.floats(-3, 6),
    st.floats(0.05, 1),
    st.floats(0.2, 6),
    st.one_of(st.none(), st.floats(0, 6)),
    st.sampled_from(["I", "II"]),
)


def one_cell(target, alpha, l2, loss):
    pattern = Pattern.of(sparse.csr_array(np.ones((1, 1))), THREADS)
    return build(pattern, np.array([target]), loss=loss, cost_ratio=alpha, l1=1.0, l2=l2)


@given(cell)
@settings(max_examples=200)
def test_v_is_the_best_on_a_grid_and_the_pull_is_minus_the_slope(drawn):
    u, target, alpha, l2, loss = drawn
    problem = one_cell(target, alpha, l2, loss)
    at = problem.sum_observed_loss(np.array([u]))
    grid = np.linspace(0, 1, 201) if l2 is not None else np.zeros(1)
    t, w = float(problem.target[0]), float(problem.weight[0])
    cost = (0 if l2 is None else float(problem.v_penalty[0])) * grid + w / 2 * (u + grid - t) ** 2
    assert at <= cost.min() + 1e-9
    assert at >= cost.min() - w * 0.005**2  # no better than the grid allows
    step = 1e-5
    slope = (problem.sum_observed_loss(np.array([u + step])) - problem.sum_observed_loss(np.array([u - step]))) / (
        2 * step
    )
    assert float(problem.pull(np.array([u]))[0]) == pytest.approx(-slope, abs=1e-3)


@given(cell, st.floats(-10, 10))
@settings(max_examples=200)
def test_the_dual_of_a_cell_is_its_conjugate(drawn, y):
    """-h*(-y) <= h(u) + y*u for all u, with equality at y = pull(u)."""
    u, target, alpha, l2, loss = drawn
    problem = one_cell(target, alpha, l2, loss)
    value = problem.sum_observed_loss(np.array([u]))
    assert problem.sum_observed_dual(np.array([y])) <= value + y * u + 1e-9 * (1 + abs(value) + abs(y * u))
    best = problem.pull(np.array([u]))
    assert problem.sum_observed_dual(best) == pytest.approx(value + float(best[0]) * u, abs=1e-9 * (1 + value))


def test_which_problems_one_svd_solves():
    A = clicks((6, 7))
    assert make(A, loss="II", alpha=4.0)[0].is_one_shot
    assert make(A, loss="I", alpha=1.0)[0].is_one_shot
    assert not make(A, loss="I", alpha=2.0)[0].is_one_shot
    assert not make(A, loss="II", alpha=4.0, l2=1.0)[0].is_one_shot


def test_another_strength_is_the_same_problem_otherwise():
    problem, _ = make(clicks((6, 7)), l2=1.0)
    other = problem.with_strength(0.25)
    assert other.l1 == 0.25
    assert problem.l1 != 0.25
    assert other.target is problem.target
    assert other.v_penalty is problem.v_penalty


class TestPattern:
    @pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (40, 25)])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_products_are_those_of_the_sparse_matrix(self, shape, dtype):
        rng = np.random.default_rng(2)
        S = sparse.random_array(shape, density=0.3, rng=rng, format="csr") + sparse.csr_array(np.eye(*shape))
        pattern, values = Pattern.of(S, THREADS), sparse.csr_array(S).data.astype(dtype)
        left, right = (
            rng.standard_normal((shape[0], 3)).astype(dtype),
            rng.standard_normal((shape[1], 3)).astype(dtype),
        )
        exact = pattern.make_matrix(values).toarray()
        tol = 1e-5 if dtype == np.float32 else 1e-12
        np.testing.assert_allclose(pattern.fill(values).times(right), exact @ right, atol=tol)
        np.testing.assert_allclose(pattern.fill(values).transposed_times(left), exact.T @ left, atol=tol)
        by_item = pattern.T.fill(THREADS.transpose_cells(pattern, values))
        np.testing.assert_array_equal(by_item.times(left), pattern.fill(values).transposed_times(left))
        full = left @ right.T
        np.testing.assert_allclose(pattern.dots(left, right), full[pattern.rows, pattern.indices], atol=tol)
        narrow = left[:, :2] @ right[:, :2].T
        np.testing.assert_allclose(pattern.dots(left, right, 2), narrow[pattern.rows, pattern.indices], atol=tol)

    def test_rows_without_cells(self):
        A = np.zeros((30, 5))
        A[[0, 17], [1, 4]] = 1
        pattern = Pattern.of(sparse.csr_array(A), THREADS)
        assert pattern.nnz == 2
        assert pattern.rows.tolist() == [0, 17]
        np.testing.assert_array_equal(pattern.fill(np.ones(2)).times(np.eye(5)), A)
        np.testing.assert_array_equal(pattern.fill(np.ones(2)).transposed_times(np.eye(30)), A.T)

    def test_a_matrix_may_be_changed_without_changing_the_pattern(self):
        pattern = Pattern.of(sparse.csr_array(np.eye(5)), THREADS)
        before = pattern.indptr.copy(), pattern.indices.copy()
        pattern.make_matrix(np.array([0.0, 1.0, 0.0, 1.0, 1.0])).eliminate_zeros()
        np.testing.assert_array_equal(pattern.indptr, before[0])
        np.testing.assert_array_equal(pattern.indices, before[1])
