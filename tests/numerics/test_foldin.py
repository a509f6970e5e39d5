"""Folding users in: the minimiser of a small convex problem a user, and its exact explanation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from csrr.numerics.factored import ItemSide, explain_value, fold_in
from tests.numerics.test_problem import clicks, make

CASES = pytest.mark.parametrize(
    ("loss", "l2", "alpha"), [("I", None, 3.0), ("I", 1.5, 3.0), ("II", 0.5, 4.0), ("I", None, 0.4)]
)


def objective(P, problem, Q):
    """l1/2*||P||^2 + sum_obs h(P Q') + 1/2*sum_unobs (P Q')^2, densely."""
    U = P @ Q.T
    u = U[problem.pattern.rows, problem.pattern.indices]
    return problem.l1 / 2 * (P**2).sum() + problem.sum_observed_loss(u) + ((U**2).sum() - (u**2).sum()) / 2


def setting(loss, l2, alpha, n=6):
    problem, _ = make(clicks((n, 20), 0.3), loss=loss, l2=l2, alpha=alpha, strength=0.1)
    Q = np.random.default_rng(5).standard_normal((20, 3)) * 0.7
    return problem, Q, ItemSide.of(Q, problem.l1, problem.engine)


@CASES
def test_is_the_minimum(loss, l2, alpha):
    problem, Q, side = setting(loss, l2, alpha)
    P = fold_in(problem, side, tol=1e-10, max_iter=5000)
    plain = optimize.minimize(
        lambda p: objective(p.reshape(6, 3), problem, Q), np.zeros(18), method="BFGS", options={"gtol": 1e-7}
    )
    assert objective(P, problem, Q) <= plain.fun * (1 + 1e-9)
    np.testing.assert_allclose(P, plain.x.reshape(6, 3), atol=1e-4)


@given(seed=st.integers(0, 10**6), size=st.floats(1e-4, 1))
@settings(max_examples=40)
def test_no_neighbour_is_better(seed, size):
    problem, Q, side = setting("II", 0.5, 4.0)
    P = fold_in(problem, side, tol=1e-10, max_iter=5000)
    move = np.random.default_rng(seed).standard_normal(P.shape) * size
    assert objective(P + move, problem, Q) >= objective(P, problem, Q) - 1e-12


@CASES
def test_shares_sum_to_the_value(loss, l2, alpha):
    problem, Q, side = setting(loss, l2, alpha, n=1)
    P = fold_in(problem, side, tol=1e-12, max_iter=10000)
    for item in range(20):
        parts = explain_value(problem, side, P, item)
        assert parts.shape == (problem.pattern.nnz,)
        assert parts.sum() == pytest.approx(float(P[0] @ Q[item]), abs=1e-8)
    assert np.abs(explain_value(problem, side, P + 0.5, 0).sum() - (P[0] + 0.5) @ Q[0]) > 1e-3  # only at the solution


def test_a_start_is_left_as_it_was_and_users_do_not_depend_on_each_other():
    problem, _, side = setting("I", 1.5, 3.0)
    start = np.ones((6, 3))
    P = fold_in(problem, side, start, tol=1e-10, max_iter=5000)
    assert (start == 1).all()
    np.testing.assert_allclose(P, fold_in(problem, side, tol=1e-10, max_iter=5000), atol=1e-7)


def test_no_factors():
    problem, _, _ = setting("I", None, 3.0)
    side = ItemSide.of(np.zeros((20, 0)), problem.l1, problem.engine)
    assert fold_in(problem, side).shape == (6, 0)
