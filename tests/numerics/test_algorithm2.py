"""Algorithm 2: the paper's steps to the letter, stationary points of the boxed problem, bounds without tolerance."""

import numpy as np
import pytest

from csrr._base.threads import use_threads
from csrr.numerics.factored import Factors, compute_objective
from csrr.numerics.paper_solvers import (
    _WINDOW,
    _step_users,
    algorithm2,
    compute_upper_bound,
    fold_in_nonnegative,
    take_nonnegative_part,
)
from csrr.numerics.problem import Pattern
from csrr.numerics.solver import Options
from csrr.numerics.thread_engine import THREADS
from tests.numerics.test_factored import product, random_factors, rises
from tests.numerics.test_problem import LOSSES, clicks, make
from tests.reference import factored as reference

RANK = 4
BOUND = compute_upper_bound(RANK)
SETTINGS = pytest.mark.parametrize(("loss", "l2"), [("I", None), ("I", 0.4), ("II", None), ("II", 0.4)])


@pytest.fixture(autouse=True)
def one_thread():
    """Matrices this small are not worth sharing out."""
    with use_threads(1):
        yield


def boxed(problem, rank=RANK, seed=0, dtype=np.float64):
    """Factors anywhere in the box."""
    rng = np.random.default_rng(seed)
    n, m = problem.pattern.shape
    return Factors(*((compute_upper_bound(rank) * rng.random((rows, rank))).astype(dtype) for rows in (n, m)))


def setting(loss="I", l2=None, strength=0.02, alpha=3.0, dtype=np.float64, density=0.5, scaling=0.0):
    """Dense enough, and with so little penalty, that the bounds bind."""
    A = clicks((15, 12), density)
    return make(A, loss=loss, l2=l2, alpha=alpha, strength=strength, dtype=dtype, scaling=scaling)


def assert_stationary(P, gradient, tol):
    """The gradient of a box-bounded problem at its minimum: no way down that stays inside."""
    low, high = P <= 0, P >= BOUND
    assert (gradient[low] >= -tol).all()
    assert (gradient[high] <= tol).all()
    assert np.abs(gradient[~low & ~high]).max(initial=0) <= tol


@SETTINGS
@pytest.mark.parametrize("scaling", [0.0, 0.3])
@pytest.mark.parametrize("max_iter", [1, 2, 7, 3000])
def test_given_steps_are_those_of_the_paper(loss, l2, scaling, max_iter):
    problem, spec = setting(loss, l2, scaling=scaling)
    start = boxed(problem)
    found = algorithm2(problem, RANK, Options(tol=1e-3, max_iter=max_iter), step=0.02, start=start)
    paper = reference.algorithm2(
        spec, start.users, start.items, step=0.02, bound=BOUND, tol=1e-3, window=_WINDOW, max_iter=max_iter
    )
    np.testing.assert_allclose(found.factors.users, paper.P, atol=1e-10)
    np.testing.assert_allclose(found.factors.items, paper.Q, atol=1e-10)
    assert found.certificate.iterations == len(found.history) - 1 == paper.rounds
    values = [compute_objective(problem, start), reference.objective(paper.P, paper.Q, spec)]
    assert [found.history[0].objective, found.history[-1].objective] == pytest.approx(values, rel=1e-10)
    if max_iter == 3000:
        assert found.certificate.status == "converged"
        assert paper.rounds > 1
        assert paper.steps < 3000


@pytest.mark.parametrize("loss", ["I", "II"])
@pytest.mark.parametrize("max_iter", [1, 7, 60, 3000])
def test_a_single_step_on_v_is_that_of_the_paper(loss, max_iter):
    problem, spec = setting(loss, 0.4)
    start = boxed(problem)
    found = algorithm2(problem, RANK, Options(tol=1e-3, max_iter=max_iter), step=0.02, single_v_step=True, start=start)
    how = {"step": 0.02, "bound": BOUND, "tol": 1e-3, "window": _WINDOW, "max_iter": max_iter}
    paper = reference.algorithm2(spec, start.users, start.items, **how, single=True)
    np.testing.assert_allclose(found.factors.users, paper.P, atol=1e-10)
    np.testing.assert_allclose(found.factors.items, paper.Q, atol=1e-10)
    assert found.certificate.iterations == paper.rounds
    if max_iter == 3000:
        best = reference.algorithm2(spec, start.users, start.items, **how)
        assert np.abs(best.P - paper.P).max() > 1e-4


def test_a_single_step_on_v_as_long_as_is_safe_is_the_closed_form():
    """After the first round, which has V = 0, where all costs are alike."""
    problem, _ = setting("I", 0.4, alpha=2.0)
    ends = [
        algorithm2(problem, RANK, Options(tol=1e-9, max_iter=20_000), single_v_step=each, start=boxed(problem))
        for each in (True, False)
    ]
    one, best = (compute_objective(problem, each.factors) for each in ends)
    assert one == pytest.approx(best, rel=1e-3)
    assert ends[0].history[0].objective > ends[1].history[0].objective


@SETTINGS
def test_safe_steps_end_where_no_way_leads_down(loss, l2):
    problem, spec = setting(loss, l2, alpha=2.0, density=0.35)
    found = algorithm2(problem, RANK, Options(tol=1e-12, max_iter=30_000))
    P, Q = found.factors.users, found.factors.items
    assert found.certificate.status == "converged"
    for own, other, view in ((P, Q, spec), (Q, P, reference.transposed(spec))):
        gradient = reference.gradient(own, other, view)
        assert np.abs(reference.gradient(own + 0.01, other, view)).max() > 0.01
        assert_stationary(own, gradient, 1e-3)
    assert (P == BOUND).any()
    assert (P == 0).any()


@SETTINGS
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_objective_never_rises_with_safe_steps(loss, l2, dtype):
    problem, _ = setting(loss, l2, strength=0.1, dtype=dtype)
    found = algorithm2(problem, RANK, Options(tol=1e-7, max_iter=1000))
    assert len(found.history) > 2
    assert rises(found.history) <= 0
    assert found.history[-1].objective == pytest.approx(compute_objective(problem, found.factors), rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("step", [None, 0.05])
@pytest.mark.parametrize("rank", [1, 3, 10, 12])
def test_the_bounds_hold_to_the_last_bit(dtype, step, rank):
    problem, _ = setting("II", alpha=5.0, strength=1e-4, density=0.9, dtype=dtype)
    found = algorithm2(problem, rank, Options(tol=1e-5, max_iter=300), step=step)
    # As computed, and rounded to single precision, which is how models keep them
    for kind in (dtype, np.float32):
        P, Q = found.factors.users.astype(kind), found.factors.items.astype(kind)
        assert min(P.min(), Q.min()) >= 0
        assert max(P.max(), Q.max()) <= 1 / np.sqrt(rank)
        assert (P @ Q.T).max() <= 1
        assert (P @ Q.T).max() > 0.999


def test_the_bound_is_next_to_one_over_the_root_of_the_rank():
    for rank in range(1, 600):
        assert 1 - 1e-3 < compute_upper_bound(rank) * np.sqrt(rank) < 1
        factors = np.full((3, rank), compute_upper_bound(rank), np.float32)
        assert (factors @ factors.T).max() <= 1


def test_ways_to_stop():
    problem, _ = setting()
    few = algorithm2(problem, RANK, Options(tol=1e-12, max_iter=5))
    assert few.certificate.status == "max_iter"
    late = algorithm2(problem, RANK, Options(tol=1e-12, max_iter=10**8, time_limit=1e-9))
    assert late.certificate.status == "timeout"
    short = algorithm2(problem, RANK, Options(tol=1e-300, max_iter=10**8, time_limit=0.05), step=1e-4)
    assert short.certificate.status == "timeout"
    seen = []
    algorithm2(problem, RANK, Options(), callback=lambda step: seen.append(step.iteration))
    assert seen == list(range(len(seen)))
    assert len(seen) > 1


def test_the_certificate_is_against_the_convex_problem():
    problem, _ = setting("I", 1.0, strength=0.3)
    found = algorithm2(problem, RANK, Options(tol=1e-6, max_iter=3000))
    certificate = found.certificate
    assert certificate.dual <= certificate.primal <= found.history[-1].objective * (1 + 1e-9)
    assert not certificate.rank_capped


def test_a_step_too_long_does_not_pass_for_convergence():
    problem, _ = setting("I", strength=0.3)
    found = algorithm2(problem, RANK, Options(tol=1e-6, max_iter=200), step=50.0)
    assert not found.certificate.is_global
    assert (found.factors.users >= 0).all()


class TestStart:
    def test_where_it_begins(self):
        problem, _ = setting("I", 1.0, strength=0.1)
        options = Options(tol=1e-4, max_iter=3000)
        first = algorithm2(problem, RANK, options)
        again = algorithm2(problem, RANK, options, start=first.factors)
        assert again.history[0].objective == pytest.approx(first.history[-1].objective, rel=1e-12)
        assert again.certificate.iterations <= first.certificate.iterations

    def test_a_start_outside_the_box_is_brought_in_and_left_as_it_was(self):
        problem, _ = setting("I", 1.0, strength=0.1)
        start = Factors(np.full((15, RANK), 0.3), np.full((12, RANK), 2.0))
        found = algorithm2(problem, RANK, Options(tol=1e-6, max_iter=1), step=1e-12, start=start)
        assert found.factors.items.max() <= BOUND
        assert (start.items == 2).all()

    def test_the_larger_half_of_each_column_pair_is_kept(self):
        P, Q = np.array([[-3.0, 1.0], [0.1, 1.0]]), np.array([[-2.0, 1.0], [0.5, -0.1]])
        pattern = Pattern.of(np.ones((2, 2)), THREADS)
        half = take_nonnegative_part(pattern, Factors(P, Q), np.random.default_rng(0))
        np.testing.assert_allclose(half.users, [[3, 1], [0, 1]], atol=0.13)
        np.testing.assert_allclose(half.items, [[2, 1], [0, 0]], atol=0.1)
        assert min(half.users.min(), half.items.min()) > 0


class TestFoldIn:
    @SETTINGS
    def test_is_stationary(self, loss, l2):
        problem, spec = setting(loss, l2, density=0.3, alpha=1.5)
        Q = boxed(problem).items
        P = fold_in_nonnegative(problem, Q, tol=1e-12, max_iter=50_000)
        assert_stationary(P, reference.gradient(P, Q, spec), 1e-6)
        assert (P == 0).any()

    def test_momentum_is_worth_having(self):
        problem, _ = setting("I", 0.4)
        Q = boxed(problem).items
        exact = fold_in_nonnegative(problem, Q, tol=1e-12, max_iter=50_000)
        plain = np.full_like(exact, 0.1 * BOUND)
        for _ in range(40):
            plain, _ = _step_users(problem, Factors(plain, Q), BOUND)
        quick = fold_in_nonnegative(problem, Q, tol=0, max_iter=40)
        assert np.abs(quick - exact).max() < 0.1 * np.abs(plain - exact).max()

    def test_the_default_tolerance_is_near(self):
        problem, _ = setting("I", 0.4)
        Q = boxed(problem).items
        exact = fold_in_nonnegative(problem, Q, tol=1e-12, max_iter=50_000)
        np.testing.assert_allclose(fold_in_nonnegative(problem, Q), exact, atol=0.02 * exact.max())


def test_threads_move_rounding_only_and_the_seed_is_all_the_chance_there_is():
    problem, _ = setting("I", 1.0, strength=0.1, dtype=np.float32)

    def U(threads, seed=0):
        with use_threads(threads):
            return product(algorithm2(problem, RANK, Options(tol=1e-6, max_iter=300, seed=seed)).factors)

    one = U(1)
    np.testing.assert_array_equal(one, U(1))
    np.testing.assert_allclose(U(2), one, atol=1e-3)
    assert not np.array_equal(U(1, seed=1), one)


@LOSSES
def test_any_factors_do_for_a_start(loss):
    problem, _ = setting(loss)
    found = algorithm2(problem, RANK, Options(max_iter=50), start=random_factors(problem, RANK))
    assert product(found.factors).min() >= 0
