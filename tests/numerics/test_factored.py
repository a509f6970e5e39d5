"""The factored form: the convex optimum at enough rank, weighted least squares without V, and plain calculus."""

import numpy as np
import pytest

from csrr._base.threads import use_threads
from csrr.numerics.factored import (
    Factors,
    compute_objective,
    descend,
    find_leading_factors,
    guess_factors,
    solve_factored,
    widen,
)
from csrr.numerics.problem import LowRank
from csrr.numerics.solver import Options, solve
from csrr.numerics.thread_engine import THREADS
from tests.numerics.test_problem import LOSSES, clicks, make
from tests.reference import dense
from tests.reference import factored as reference

CASES = pytest.mark.parametrize(
    ("loss", "l2", "alpha"), [("I", None, 3.0), ("I", 1.5, 3.0), ("II", 0.5, 4.0), ("I", None, 0.4), ("I", 0.2, 0.4)]
)


@pytest.fixture(autouse=True)
def one_thread():
    """Matrices this small are not worth sharing out."""
    with use_threads(1):
        yield


def random_factors(problem, rank=4, seed=3, size=0.5, dtype=np.float64):
    rng = np.random.default_rng(seed)
    n, m = problem.pattern.shape
    return Factors(*((size * rng.standard_normal((rows, rank))).astype(dtype) for rows in (n, m)))


def product(factors):
    return factors.users @ factors.items.T


def rises(history):
    """The largest rise of the objective from one step to the next, as a share of it; negative if it always falls."""
    values = np.array([step.objective for step in history])
    return float((np.diff(values) / values[:-1]).max())


class TestAgainstTheConvexSolver:
    def problem(self, loss, share, scaling, alpha, dtype=np.float64):
        l2 = None if share is None else share * alpha
        return make(clicks((22, 18)), loss=loss, alpha=alpha, strength=0.3, l2=l2, scaling=scaling, dtype=dtype)[0]

    @LOSSES
    @pytest.mark.parametrize("share", [None, 0.6])
    @pytest.mark.parametrize("scaling", [0.0, 0.4])
    @pytest.mark.parametrize("alpha", [0.5, 2.0, 20.0])
    def test_enough_rank_gives_its_optimum(self, loss, share, scaling, alpha):
        problem = self.problem(loss, share, scaling, alpha)
        convex = solve(problem, Options(tol=1e-9, max_iter=2000))
        assert convex.certificate.gap <= 1e-9
        rank = convex.low_rank.rank + 2
        found = solve_factored(problem, rank, Options(tol=1e-9, max_iter=5000))
        certificate = found.certificate
        assert certificate.status == "converged"
        assert certificate.primal == pytest.approx(convex.certificate.primal, rel=1e-6)
        assert compute_objective(problem, found.factors) == pytest.approx(certificate.primal, rel=1e-8)
        assert certificate.is_global
        assert not certificate.rank_capped
        assert certificate.gradient_ratio == pytest.approx(1, abs=1e-3)
        assert certificate.dual <= convex.certificate.primal * (1 + 1e-12)
        U = (convex.low_rank.left * convex.low_rank.s) @ convex.low_rank.right.T
        np.testing.assert_allclose(product(found.factors), U, atol=5e-3 * np.abs(U).max())

    @LOSSES
    @pytest.mark.parametrize("share", [None, 0.6])
    def test_too_little_rank_is_said(self, loss, share):
        problem = self.problem(loss, share, 0.0, 2.0)
        convex = solve(problem, Options(tol=1e-9, max_iter=2000)).certificate
        capped = solve_factored(problem, 2, Options(tol=1e-10, max_iter=5000)).certificate
        assert convex.rank > 4
        assert capped.status == "converged"
        assert not capped.is_global
        assert capped.rank_capped
        assert capped.rank == 2
        assert capped.primal > convex.primal * 1.01
        assert capped.gap > 0.05
        assert capped.dual <= convex.primal

    def test_no_cap_binds_at_the_rank_of_the_matrix(self):
        problem = self.problem("I", None, 0.0, 2.0)
        certificate = solve_factored(problem, 18, Options(tol=1e-9, max_iter=0)).certificate
        assert certificate.rank == 18
        assert certificate.gradient_ratio > 1.01
        assert not certificate.rank_capped

    def test_the_weakest_strength_that_leaves_nothing(self):
        problem = self.problem("I", None, 0.0, 2.0)
        norm = problem.l1 / 0.3
        found = solve_factored(problem.with_strength(1.1 * norm), 5, Options(tol=1e-10, max_iter=500))
        assert found.certificate.is_global
        assert np.abs(product(found.factors)).max() < 1e-4
        below = solve_factored(problem.with_strength(0.9 * norm), 5, Options(tol=1e-10, max_iter=500))
        assert np.abs(product(below.factors)).max() > 1e-2


class TestWithoutV:
    ALPHA = 3.0

    def both(self):
        problem, specification = make(clicks((22, 18)), alpha=self.ALPHA, strength=0.25)
        regs = np.full(22, problem.l1), np.full(18, problem.l1)
        return problem, specification, regs

    def test_it_is_weighted_alternating_least_squares(self):
        problem, spec, regs = self.both()
        P, Q = reference.weighted_als(spec.weight, spec.target, regs, rank=8, sweeps=300)
        found = solve_factored(problem, 8, Options(tol=1e-12, max_iter=2000))
        assert compute_objective(problem, found.factors) == pytest.approx(reference.objective(P, Q, spec), rel=1e-7)
        np.testing.assert_allclose(product(found.factors), P @ Q.T, atol=2e-3)

    def test_many_steps_solve_each_row_exactly(self):
        problem, spec, regs = self.both()
        factors, curvature = random_factors(problem, rank=5).diagonalize(THREADS)
        exact = reference.best_rows(factors.items, spec.weight, spec.target, regs[0])
        # Conjugate gradients need one step a dimension, and not one less.
        own, _ = descend(problem, np.zeros_like(factors.users), factors.items, curvature, regs[0], steps=5)
        np.testing.assert_allclose(own, exact, atol=1e-10)

    def test_each_row_has_its_own_strength(self):
        problem, spec, _ = self.both()
        reg = np.linspace(0.1, 9, 22)
        factors, curvature = random_factors(problem, rank=5).diagonalize(THREADS)
        own, _ = descend(problem, np.zeros_like(factors.users), factors.items, curvature, reg, steps=12)
        np.testing.assert_allclose(own, reference.best_rows(factors.items, spec.weight, spec.target, reg), atol=1e-10)


class TestCalculus:
    def setting(self, loss, l2, alpha, scaling=0.2):
        problem, spec = make(clicks((9, 12), 0.4), loss=loss, l2=l2, alpha=alpha, strength=0.1, scaling=scaling)
        factors, curvature = random_factors(problem).diagonalize(THREADS)
        return problem, spec, factors, curvature

    @CASES
    def test_the_objective_is_that_of_the_specification(self, loss, l2, alpha):
        problem, spec, factors, _ = self.setting(loss, l2, alpha)
        assert compute_objective(problem, factors) == pytest.approx(
            reference.objective(factors.users, factors.items, spec), rel=1e-12
        )

    @CASES
    def test_the_sum_of_pulls_is_the_gradient_of_the_observed_cells(self, loss, l2, alpha):
        problem, spec, factors, _ = self.setting(loss, l2, alpha)
        P, Q = factors.users, factors.items
        sums, loss_sum = problem.engine.pull_rows(problem, P, Q)
        by_calculus = problem.l1 * P + P @ (Q.T @ Q) - sums
        np.testing.assert_allclose(by_calculus, reference.gradient(P, Q, spec), atol=1e-12)
        numeric = np.empty_like(P)
        for place in np.ndindex(P.shape):
            step = np.zeros_like(P)
            step[place] = 1e-6
            up, down = (compute_objective(problem, Factors(P + sign * step, Q)) for sign in (1, -1))
            numeric[place] = (up - down) / 2e-6
        np.testing.assert_allclose(by_calculus, numeric, atol=1e-7)
        u = product(factors)[spec.observed]
        assert loss_sum == pytest.approx(problem.sum_observed_loss(u) - (u**2).sum() / 2, rel=1e-12)

    @CASES
    def test_one_step_goes_down_the_preconditioned_gradient(self, loss, l2, alpha):
        problem, spec, factors, curvature = self.setting(loss, l2, alpha)
        P, Q = factors.users, factors.items
        reg = np.full(9, problem.l1)
        own, value = descend(problem, P, Q, curvature, reg, steps=1)
        assert value + problem.l1 / 2 * (Q**2).sum() == pytest.approx(compute_objective(problem, factors), rel=1e-12)
        downhill = -reference.gradient(P, Q, spec) / (curvature + problem.l1)
        lengths = ((own - P) * downhill).sum(1) / (downhill**2).sum(1)
        assert (lengths > 0).all()
        np.testing.assert_allclose(own - P, lengths[:, None] * downhill, atol=1e-12)
        if l2 is None:  # the objective is quadratic: the step ends where it is lowest on the line
            after = reference.gradient(own, Q, spec)
            np.testing.assert_allclose((after * downhill).sum(1), 0, atol=1e-10)

    @CASES
    @pytest.mark.parametrize("steps", [1, 2, 5])
    def test_steps_never_rise_and_none_only_evaluates(self, loss, l2, alpha, steps):
        problem, _, factors, curvature = self.setting(loss, l2, alpha)
        reg = np.full(9, problem.l1)
        start = factors.users.copy()
        same, before = descend(problem, factors.users, factors.items, curvature, reg, steps=0)
        np.testing.assert_array_equal(same, start)
        lower, again = descend(problem, factors.users, factors.items, curvature, reg, steps=steps)
        assert again == before
        np.testing.assert_array_equal(factors.users, start)
        assert descend(problem, lower, factors.items, curvature, reg, steps=0)[1] < before

    @CASES
    def test_the_transposed_problem_is_the_same_problem(self, loss, l2, alpha):
        problem, spec, factors, _ = self.setting(loss, l2, alpha)
        flipped = problem.T
        for mine, theirs in (
            (problem.target, flipped.target),
            (problem.weight, flipped.weight),
            *([] if problem.v_penalty is None else [(problem.v_penalty, flipped.v_penalty)]),
        ):
            np.testing.assert_array_equal(
                flipped.pattern.make_matrix(theirs).toarray(), problem.pattern.make_matrix(mine).toarray().T
            )
        assert (flipped.v_penalty is None) == (problem.v_penalty is None)
        assert flipped.l1 == problem.l1
        assert compute_objective(flipped, factors.T) == pytest.approx(compute_objective(problem, factors), rel=1e-12)
        sums, _ = problem.engine.pull_rows(flipped, factors.items, factors.users)
        by_calculus = problem.l1 * factors.items + factors.items @ (factors.users.T @ factors.users) - sums
        exact = reference.gradient(factors.items, factors.users, reference.transposed(spec))
        np.testing.assert_allclose(by_calculus, exact, atol=1e-12)


class TestFactors:
    def test_balanced_and_turned_are_the_same_matrix(self):
        problem, _ = make(clicks())
        factors = random_factors(problem, rank=6)
        U = product(factors)
        s = np.linalg.svd(U, compute_uv=False)[:6]
        balanced, curvature = factors.balance(THREADS)
        np.testing.assert_allclose(product(balanced), U, atol=1e-10)
        for side in (balanced.users, balanced.items):
            np.testing.assert_allclose(side.T @ side, np.diag(s), atol=1e-9)
        np.testing.assert_allclose(curvature, s, rtol=1e-9)
        turned, curvature = factors.diagonalize(THREADS)
        np.testing.assert_allclose(product(turned), U, atol=1e-10)
        np.testing.assert_allclose(turned.items.T @ turned.items, np.diag(curvature), atol=1e-9)
        assert np.linalg.norm(turned.users) == pytest.approx(np.linalg.norm(factors.users))

    def test_what_is_returned_with_balanced_factors_is_their_diagonal_down_to_rounding(self):
        problem, _ = make(clicks())
        factors = random_factors(problem, rank=6)
        factors.users[:, 3:] *= 1e-7
        factors.items[:, 4:] *= 1e-8
        balanced, curvature = factors.balance(THREADS)
        np.testing.assert_allclose(curvature, (balanced.items**2).sum(0), rtol=1e-6, atol=0)
        np.testing.assert_allclose(product(balanced), product(factors), atol=1e-10)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_a_matrix_that_is_nothing(self, dtype):
        for size in (0.0, 1e-30):
            factors = Factors(np.full((5, 3), size, dtype), np.full((4, 3), size, dtype))
            balanced, curvature = factors.balance(THREADS)
            assert np.isfinite(balanced.users).all()
            assert np.isfinite(balanced.items).all()
            assert (curvature >= 0).all()
            assert factors.to_low_rank(THREADS).rank == 0

    def test_singular_triplets(self):
        problem, _ = make(clicks())
        factors = random_factors(problem, rank=6)
        factors.users[:, 5] = factors.users[:, 4]  # of rank 5
        factors.items[:, 5] = factors.items[:, 4]
        found = factors.to_low_rank(THREADS)
        assert found.rank == 5
        np.testing.assert_allclose((found.left * found.s) @ found.right.T, product(factors), atol=1e-9)
        np.testing.assert_allclose(found.left.T @ found.left, np.eye(5), atol=1e-8)
        again = Factors.of(found)
        np.testing.assert_allclose(product(again), product(factors), atol=1e-9)
        np.testing.assert_allclose(again.users.T @ again.users, np.diag(found.s), atol=1e-8)

    def test_leading_factors_are_the_leading_triplets(self):
        rng = np.random.default_rng(0)
        problem, _ = make(clicks())
        A = problem.pattern.make_matrix(problem.target).toarray()
        threshold = 3.0
        found = find_leading_factors(problem.pattern, problem.target, 1, threshold, rng, passes=20)
        left, s, right = np.linalg.svd(A)
        np.testing.assert_allclose(
            product(found), (s[0] - threshold) * np.outer(left[:, 0], right[0]), atol=1e-3 * s[0]
        )

    def test_first_factors_have_the_rank_asked_for_and_no_dead_column(self):
        full, _ = make(np.ones((9, 7)))
        found = guess_factors(full, 7, np.random.default_rng(0))
        assert found.users.shape == (9, 7)
        assert found.items.shape == (7, 7)
        assert np.abs(found.users).max(0).min() > 0
        assert np.abs(found.items).max(0).min() > 0

    def test_widening_and_cutting(self):
        problem, _ = make(clicks())
        factors, rng = random_factors(problem, rank=4), np.random.default_rng(0)
        wider = widen(problem.pattern, factors, 7, rng)
        np.testing.assert_array_equal(wider.users[:, :4], factors.users)
        assert 0 < np.abs(wider.users[:, 4:]).max() < 0.1 * np.abs(factors.users).max()
        narrow = widen(problem.pattern, factors, 2, rng)
        np.testing.assert_array_equal(narrow.items, factors.items[:, :2])
        assert narrow.items.flags.c_contiguous


class TestSolving:
    @LOSSES
    @pytest.mark.parametrize("share", [None, 0.6])
    @pytest.mark.parametrize("alpha", [0.5, 2.0, 20.0])
    def test_the_objective_never_rises(self, loss, share, alpha):
        l2 = None if share is None else share * alpha
        for dtype, allowed in ((np.float64, 1e-9), (np.float32, 1e-5)):
            problem, _ = make(clicks((40, 30)), loss=loss, alpha=alpha, l2=l2, scaling=0.3, dtype=dtype)
            found = solve_factored(problem, 30, Options(tol=1e-8, max_iter=60))
            assert found.factors.users.dtype == dtype
            assert len(found.history) > 3
            assert rises(found.history) <= allowed
            assert found.certificate.primal <= found.history[-1].objective * (1 + allowed)

    def test_nor_while_directions_fade_away(self):
        # Most of the 50 directions die out; what is left of them is rounding long before the end.
        problem, _ = make(clicks((60, 50)), alpha=2.0, strength=0.3, l2=1.2, scaling=0.3)
        found = solve_factored(problem, 50, Options(tol=1e-13, max_iter=300))
        assert rises(found.history) <= 1e-9
        assert found.certificate.gap < 1e-4
        assert found.certificate.rank < 40

    def test_history_and_ways_to_stop(self):
        problem, _ = make(clicks())
        steps = []
        found = solve_factored(problem, 5, Options(tol=1e-12, max_iter=3), callback=steps.append)
        assert steps == found.history
        assert [step.iteration for step in steps] == [0, 1, 2, 3]
        assert found.certificate.status == "max_iter"
        assert found.certificate.iterations == 3
        late = solve_factored(problem, 5, Options(tol=1e-12, max_iter=10**6, time_limit=1e-9))
        assert late.certificate.status == "timeout"
        assert len(late.history) == 1
        short = solve_factored(problem, 5, Options(tol=1e-300, max_iter=10**6, time_limit=0.05))
        assert short.certificate.status == "timeout"

    def test_a_callback_may_raise(self):
        problem, _ = make(clicks())

        def stop(step):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            solve_factored(problem, 5, Options(), callback=stop)

    def test_a_start_at_the_optimum_stays(self):
        problem, _ = make(clicks((22, 18)), alpha=2.0)
        convex = solve(problem, Options(tol=1e-9, max_iter=2000))
        options = Options(tol=1e-6, max_iter=500)
        cold = solve_factored(problem, 18, options)
        warm = solve_factored(problem, 18, options, start=convex.low_rank)
        assert warm.certificate.iterations < cold.certificate.iterations
        assert warm.certificate.primal == pytest.approx(convex.certificate.primal, rel=1e-5)

    @pytest.mark.parametrize("size", [0.0, 1e-12, 1e-3])
    def test_a_start_that_is_next_to_nothing_is_not_taken_for_rest(self, size):
        problem, _ = make(clicks((22, 18)), alpha=2.0)
        options = Options(tol=1e-4, max_iter=500)
        left, right = np.linalg.qr(np.eye(22, 4))[0], np.linalg.qr(np.eye(18, 4))[0]
        for start in (LowRank(left, np.full(4, size), right), LowRank.zero(problem.pattern, np.float64)):
            warm = solve_factored(problem, 18, options, start=start)
            assert warm.certificate.is_global
            assert warm.certificate.primal == pytest.approx(
                solve_factored(problem, 18, options).certificate.primal, rel=1e-2
            )

    def test_threads_move_rounding_only_and_the_seed_is_all_the_chance_there_is(self):
        problem, _ = make(clicks(), alpha=2.0, l2=1.0, dtype=np.float32)

        def U(threads, seed=0):
            with use_threads(threads):
                return product(solve_factored(problem, 12, Options(tol=1e-5, max_iter=50, seed=seed)).factors)

        one = U(1)
        np.testing.assert_array_equal(one, U(1))
        np.testing.assert_allclose(U(2), one, atol=1e-3 * np.abs(one).max())
        assert not np.array_equal(U(1, seed=1), one)

    @pytest.mark.parametrize("shape", [(1, 6), (6, 1), (1, 1), (6, 6)])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_a_full_matrix(self, shape, dtype):
        problem, spec = make(np.ones(shape), dtype=dtype)
        found = solve_factored(problem, min(shape), Options(tol=1e-6))
        np.testing.assert_allclose(product(found.factors), dense.solve(spec).U, rtol=1e-3)
