"""Algorithm 1, and the dense reference that other solvers are held against: optimality, not similarity."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from csrr.numerics.paper_solvers import DenseResult, algorithm1
from csrr.numerics.solver import Step
from tests.reference.dense import (
    Dense,
    dual_point,
    dual_value,
    gap,
    objective,
    objective_eliminated,
    pull,
    shrink,
    smooth,
    solve,
    specific,
)

Loss = Literal["I", "II"]
LOSSES: tuple[Loss, ...] = ("I", "II")
SHAPE = (14, 10)


def clicks(seed: int = 0) -> Any:
    """A random 0/1 matrix, SHAPE."""
    return (np.random.default_rng(seed).random(SHAPE) < 0.35).astype(float)


def problem(loss: Loss, *, sparse_share: float | None = 0.5, scaling: float = 0.0, alpha: float = 1.5) -> Dense:
    """A problem at a quarter of the l1 that gives U = 0, and at `sparse_share` of the l2 that gives V = 0."""
    l2 = None if sparse_share is None else sparse_share * alpha
    p = Dense(clicks(), alpha, 1.0, l2, loss, scaling, scaling)
    return replace(p, l1=0.25 * float(np.linalg.norm(p.weight * p.target, 2)))


def run(p: Dense, **options: Any) -> DenseResult:
    """Algorithm 1 on a reference problem, to convergence and without the box unless told otherwise."""
    defaults: dict[str, Any] = {"box": "none", "tol": 1e-13, "max_iter": 5000}
    return algorithm1(p.A, alpha=p.alpha, l1=p.l1, l2=p.l2, loss=p.loss, target=p.T, **defaults | options)


@st.composite
def problems(draw: st.DrawFn) -> Dense:
    """A random problem; every strength may be so weak or so strong that it does nothing."""
    return Dense(
        clicks(draw(st.integers(0, 99))),
        draw(st.floats(0.5, 8)),
        draw(st.floats(0, 20)),
        draw(st.none() | st.floats(0, 8)),
        draw(st.sampled_from(LOSSES)),
        draw(st.sampled_from((0.0, 0.4))),
        draw(st.sampled_from((0.0, 0.3))),
    )


@st.composite
def points(draw: st.DrawFn) -> Any:
    """A random matrix, SHAPE, from tiny to far outside the box."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    return draw(st.sampled_from((0.0, 0.1, 1.0, 10.0))) * rng.standard_normal(SHAPE)


@given(problems(), points())
def test_eliminating_v_is_putting_its_closed_form_in(p: Dense, U: Any) -> None:
    assert objective_eliminated(U, p) == pytest.approx(objective(U, specific(U, p), p), rel=1e-10, abs=1e-10)


@given(problems(), points(), points())
def test_no_other_v_in_the_box_is_better(p: Dense, U: Any, direction: Any) -> None:
    best = specific(U, p)
    other = np.where(p.observed & np.isfinite(p.cap), np.clip(best + direction, 0, 1), 0)
    assert objective(U, other, p) >= objective(U, best, p) * (1 - 1e-12)


@given(problems(), points(), points())
def test_dual_value_is_the_least_of_the_loss_plus_a_linear_term(p: Dense, U: Any, Y: Any) -> None:
    # dual_value(Y) = min over U of smooth(U) + <Y, U>, reached where Y = -grad smooth(U)
    G = pull(U, p)
    slack = 1e-10 * (1 + smooth(U, p) + np.abs(G * U).sum() + np.abs(Y * U).sum())
    assert dual_value(G, p) == pytest.approx(smooth(U, p) + (G * U).sum(), abs=slack)
    assert dual_value(Y, p) <= smooth(U, p) + (Y * U).sum() + slack


@given(problems(), points(), points())
def test_gap_is_never_negative_and_every_dual_point_is_a_bound(p: Dense, U: Any, W: Any) -> None:
    primal = objective_eliminated(U, p)
    assert gap(U, p) >= -1e-10 * max(1, primal)
    norm = float(np.linalg.norm(W, 2))
    for Y in (dual_point(W, p), W * (p.l1 / norm if norm > 0 else 1)):
        assert np.linalg.norm(Y, 2) <= p.l1 * (1 + 1e-10) + 1e-12
        assert dual_value(Y, p) <= primal + 1e-10 * max(1, primal)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("sparse_share", [None, 0.5, 0.8])
@pytest.mark.parametrize("scaling", [0.0, 0.3])
def test_reaches_the_optimum_of_the_reference(loss: Loss, sparse_share: float | None, scaling: float) -> None:
    p = problem(loss, sparse_share=sparse_share, scaling=scaling)
    best, found = solve(p), run(p)
    assert best.gap <= 1e-10 * max(1, best.objective)
    assert found.status == "converged"
    assert found.objective == pytest.approx(best.objective, rel=1e-6)
    assert found.objective == pytest.approx(objective(found.U, found.V, p), rel=1e-12)
    np.testing.assert_allclose(found.U, best.U, atol=1e-4)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("scaling", [0.0, 0.3])
def test_v_is_its_closed_form_and_zero_off_the_observed_cells(loss: Loss, scaling: float) -> None:
    p = problem(loss, scaling=scaling)
    found = run(p)
    assert np.count_nonzero(found.V) > 5
    assert not found.V[~p.observed].any()
    np.testing.assert_allclose(found.V, specific(found.U, p), atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_minus_the_gradient_is_a_subgradient_of_the_nuclear_norm(loss: Loss) -> None:
    # -grad = l1*(P Q' + W) with P'W = 0, WQ = 0, ||W||_2 <= 1
    p = problem(loss)
    found = run(p)
    P, sigma, Qt = np.linalg.svd(found.U)
    rank = int((sigma > 1e-6).sum())
    rotated = P.T @ (p.weight * (p.target - (found.U + found.V))) @ Qt.T / p.l1
    assert 0 < rank < min(SHAPE)
    np.testing.assert_allclose(rotated[:rank, :rank], np.eye(rank), atol=1e-4)
    np.testing.assert_allclose(rotated[:rank, rank:], 0, atol=1e-4)
    np.testing.assert_allclose(rotated[rank:, :rank], 0, atol=1e-4)
    assert np.linalg.norm(rotated[rank:, rank:], 2) <= 1 + 1e-4


def test_without_the_box_v_may_exceed_one() -> None:
    p = problem("II", alpha=4.0)
    found = run(p)
    assert found.V.max() > 1
    assert found.objective < solve(p).objective * (1 - 1e-3)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_papers_box_holds_exactly(loss: Loss) -> None:
    p = problem(loss, alpha=4.0)
    free = run(p)
    seen: list[bool] = []

    def inside(_: Step, U: Any, V: Any) -> None:
        seen.append(min(U.min(), V.min()) >= 0 and max(U.max(), V.max()) <= 1)

    boxed = run(p, box="paper", callback=inside)
    assert min(free.U.min(), free.V.min()) < 0 or max(free.U.max(), free.V.max()) > 1
    assert len(seen) == boxed.iterations
    assert all(seen)
    assert not boxed.V[~p.observed].any()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("scaling", [0.0, 0.3])
def test_strongest_useful_l1(loss: Loss, scaling: float) -> None:
    p = problem(loss, sparse_share=None, scaling=scaling)
    l1_max = float(np.linalg.norm(p.weight * p.target, 2))
    at, below = replace(p, l1=l1_max * (1 + 1e-12)), replace(p, l1=l1_max * 0.99)
    for U in (run(at).U, solve(at).U):
        assert not U.any()
    for U in (run(below).U, solve(below).U):
        assert U.max() > 1e-4


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("scaling", [0.0, 0.3])
def test_strongest_useful_l2(loss: Loss, scaling: float) -> None:
    # With U = 0 the bound is tight: V = [w*t - l2*t]_+ / w.
    p = problem(loss, scaling=scaling)
    p = replace(p, l1=1e3)
    assert not run(replace(p, l2=p.alpha)).V.any()
    assert (run(replace(p, l2=p.alpha * 0.99)).V > 0).sum() == p.observed.sum()
    # At alpha, and U >= 0, V stays 0 whatever U is.
    assert not specific(np.abs(np.random.default_rng(0).standard_normal(SHAPE)), replace(p, l2=p.alpha)).any()


@pytest.mark.parametrize("scaling", [0.0, 0.3])
def test_loss_ii_without_v_is_one_shrunk_svd(scaling: float) -> None:
    p = problem("II", sparse_share=None, scaling=scaling, alpha=3.0)
    found = run(p)
    np.testing.assert_allclose(found.U, shrink(3.0 * p.T, p.l1), atol=1e-12)
    assert not found.V.any()
    rank = np.linalg.matrix_rank(found.U)
    assert [line.rank for line in found.history] == [rank] * found.iterations


def test_zero_loss_changes_nothing() -> None:
    nothing = algorithm1(np.zeros(SHAPE), alpha=2, l1=0.1, l2=0.1)
    assert (nothing.status, nothing.iterations, nothing.objective) == ("converged", 0, 0.0)
    assert not (nothing.U + nothing.V).any()
    # One unit step reaches the data; no further update may follow.
    perfect = algorithm1(np.eye(4), alpha=1, l1=0, l2=None, step=1.0, box="none", tol=0)
    assert (perfect.status, perfect.iterations) == ("converged", 1)
    np.testing.assert_array_equal(perfect.U, np.eye(4))


@pytest.mark.parametrize("loss", LOSSES)
def test_follows_the_paper_line_by_line(loss: Loss) -> None:
    A, alpha, l1, l2 = clicks(), 3.0, 0.5, 0.8
    eta = 1 / (2 * alpha) if loss == "I" else 1 / 2
    U: Any = np.zeros(SHAPE)
    V = U_old = V_old = U
    tau = 1.0
    for _ in range(4):
        X = U + V
        grad = np.where(A == 1, alpha * (X - 1) if loss == "I" else X - alpha, X)
        U_new, V_hat = shrink(U - eta * grad, eta * l1), V - eta * grad
        V_new = np.maximum(np.abs(V_hat) - eta * l2, 0) * np.sign(V_hat)
        tau_new = (1 + np.sqrt(1 + 4 * tau**2)) / 2
        U = np.clip(U_new + (tau - 1) / tau_new * (U_new - U_old), 0, 1)
        V = np.clip(V_new + (tau - 1) / tau_new * (V_new - V_old), 0, 1)
        U_old, V_old, tau = U_new, V_new, tau_new
    found = algorithm1(A, alpha=alpha, l1=l1, l2=l2, loss=loss, max_iter=4, tol=0)
    assert (found.status, found.iterations) == ("max_iter", 4)
    assert V.max() > 0
    np.testing.assert_allclose(found.U, U, atol=1e-12)
    np.testing.assert_allclose(found.V, V, atol=1e-12)


def test_without_momentum_the_objective_never_rises_and_ends_the_same() -> None:
    p = problem("I")
    plain, fast = run(p, momentum=False), run(p)
    values = np.array([line.objective for line in plain.history])
    assert (np.diff(values) <= 1e-10).all()
    assert plain.objective == pytest.approx(fast.objective, rel=1e-6)


def test_sparse_dense_bool_and_float32_agree() -> None:
    p = problem("I", scaling=0.3)
    options: dict[str, Any] = {"alpha": p.alpha, "l1": p.l1, "l2": p.l2, "max_iter": 30, "tol": 0}
    dense = algorithm1(p.A, target=p.T, **options)
    for A, T in ((sparse.csr_array(p.A), sparse.csr_array(p.T)), (p.A == 1, p.T)):
        np.testing.assert_array_equal(algorithm1(A, target=T, **options).U, dense.U)
    single = algorithm1(p.A, target=p.T, dtype=np.float32, **options)
    assert {single.U.dtype, single.V.dtype} == {np.dtype(np.float32)}
    np.testing.assert_allclose((single.U + single.V), (dense.U + dense.V), atol=1e-5)


def test_stops_on_time_and_on_divergence() -> None:
    p = problem("I")
    late = run(p, time_limit=1e-9)
    assert (late.status, late.iterations) == ("timeout", 1)
    for step in (3.0, 1e300):
        lost = run(p, step=step)
        assert lost.status == "diverged"
        assert lost.iterations < 100


def test_refuses_more_cells_than_it_can_hold() -> None:
    with pytest.raises(ValueError, match="scalable solver"):
        algorithm1(sparse.csr_array((20_000, 20_000)), alpha=2.0, l1=1.0, l2=1.0)
