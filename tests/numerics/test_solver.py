"""The solver: optimality by the duality gap and by the dense specification, and its ways to stop."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csrr._base.threads import use_threads
from csrr.numerics.certificate import compute_gap, compute_relative_gap
from csrr.numerics.problem import LowRank, Problem
from csrr.numerics.solver import Options, improve, solve
from tests.numerics.test_problem import LOSSES, clicks, make
from tests.reference import dense


def full(low_rank):
    """U, (n, m)."""
    return (low_rank.left * low_rank.s) @ low_rank.right.T


def tight(**changes):
    return Options(**{"tol": 1e-7, "max_iter": 100, **changes})


@LOSSES
@pytest.mark.parametrize("share", [None, 0.5])
@pytest.mark.parametrize("scaling", [0.0, 0.4])
class TestAgainstTheSpecification:
    ALPHA = 3.0

    def both(self, loss, share, scaling, dtype=np.float64):
        l2 = None if share is None else share * self.ALPHA
        return make(clicks(), loss=loss, alpha=self.ALPHA, strength=0.25, l2=l2, scaling=scaling, dtype=dtype)

    def test_double_precision(self, loss, share, scaling):
        problem, reference = self.both(loss, share, scaling)
        found, exact = solve(problem, tight()), dense.solve(reference)
        U, certificate = full(found.low_rank), found.certificate
        assert certificate.status == "converged"
        assert certificate.primal == pytest.approx(exact.objective, rel=1e-8)
        assert certificate.primal == pytest.approx(dense.objective_eliminated(U, reference), rel=1e-10)
        assert certificate.dual <= exact.objective * (1 + 1e-10)
        np.testing.assert_allclose(U, exact.U, atol=1e-4 * np.abs(exact.U).max())
        V = problem.find_specific(U[reference.observed])
        np.testing.assert_allclose(V, exact.V[reference.observed], atol=1e-4)
        assert (V > 0).any() == (share is not None)
        # The gap, by hand, with the exact spectral norm
        by_hand = dense.gap(U, reference) / certificate.primal
        assert -1e-12 <= certificate.gap <= 1e-7
        assert certificate.gap == pytest.approx(by_hand, abs=1e-9)
        assert certificate.gap == compute_relative_gap(certificate.primal, certificate.dual)

    def test_single_precision(self, loss, share, scaling):
        problem, reference = self.both(loss, share, scaling, np.float32)
        found, exact = solve(problem, Options(tol=1e-4)), dense.solve(reference)
        U = full(found.low_rank)
        assert found.low_rank.left.dtype == np.float32
        assert found.certificate.status == "converged"
        assert found.certificate.primal == pytest.approx(exact.objective, rel=1e-5)
        assert found.certificate.gap == pytest.approx(dense.gap(U, reference) / exact.objective, abs=2e-5)
        assert np.linalg.norm(U - exact.U) <= 2e-2 * np.linalg.norm(exact.U)


@pytest.mark.parametrize("share", [None, 0.5])
def test_momentum_reaches_the_same_optimum(share):
    problem, reference = make(clicks(), alpha=50.0, strength=0.1, l2=None if share is None else share * 50)
    found, exact = solve(problem, tight(tol=1e-7)), dense.solve(reference)
    assert found.certificate.status == "converged"
    assert found.certificate.primal == pytest.approx(exact.objective, rel=1e-7)
    assert found.low_rank.rank >= 1


class TestCellsWithCostsOfTheirOwn:
    def both(self, spread, *, loss="I", share=0.5, dtype=np.float64):
        costs = np.exp(spread * np.random.default_rng(4).standard_normal((60, 80)))
        l2 = None if share is None else share * 3
        return make(clicks(), loss=loss, alpha=3.0, strength=0.2, l2=l2, scaling=0.3, dtype=dtype, costs=costs)

    @LOSSES
    @pytest.mark.parametrize("share", [None, 0.5])
    @pytest.mark.parametrize("spread", [0.5, 1.0])
    def test_the_optimum_and_its_certificate_are_those_of_the_specification(self, loss, share, spread):
        problem, reference = self.both(spread, loss=loss, share=share)
        found, exact = solve(problem, tight(max_iter=1000)), dense.solve(reference)
        U, certificate = full(found.low_rank), found.certificate
        assert certificate.status == "converged"
        assert certificate.primal == pytest.approx(exact.objective, rel=1e-7)
        assert certificate.gap == pytest.approx(dense.gap(U, reference) / certificate.primal, abs=1e-8)
        np.testing.assert_allclose(U, exact.U, atol=2e-3 * np.abs(exact.U).max())

    def test_steps_that_are_too_long_are_taken_back(self):
        problem, reference = self.both(2.0)
        assert problem.typical_curvature < 0.5 * problem.smoothness
        # As if only light cells were there: the first steps must overshoot.
        light = Daring(problem.pattern, problem.target, problem.weight, problem.v_penalty, problem.l1)
        found = solve(light, Options(tol=1e-4, max_iter=1000))
        objectives = [step.objective for step in found.history]
        assert max(np.diff(objectives)) > 0
        assert found.certificate.status == "converged"
        assert found.certificate.primal == pytest.approx(dense.solve(reference).objective, rel=1e-4)

    @pytest.mark.parametrize("limits", [{"max_iter": 1}, {"max_iter": 2}, {"max_iter": 5}, {"rank_cap": 4}])
    def test_no_rejected_step_is_ever_the_answer(self, limits):
        problem, _ = self.both(2.0)
        light = Daring(problem.pattern, problem.target, problem.weight, problem.v_penalty, problem.l1)
        found = solve(light, Options(**{"tol": 1e-4, "max_iter": 300, **limits}))
        best = min(step.objective for step in found.history)
        assert found.certificate.primal <= best * (1 + 1e-3)

    def test_costs_that_are_all_the_same_change_nothing(self):
        plain, _ = make(clicks(), alpha=3.0, l2=1.5)
        same, _ = make(clicks(), alpha=1.5, l2=0.75, costs=np.full((60, 80), 2.0))
        assert solve(plain, tight()).certificate.primal == pytest.approx(
            solve(same, tight()).certificate.primal, rel=1e-12
        )


class Daring(Problem):
    """One that takes its cells for lighter than they are."""

    typical_curvature = 1.0


def test_a_cost_ratio_below_one():
    problem, reference = make(clicks(), alpha=0.3, strength=0.3)
    found = solve(problem, tight(tol=1e-6))
    assert found.certificate.status == "converged"
    assert found.certificate.primal == pytest.approx(dense.solve(reference).objective, rel=1e-6)


@pytest.mark.parametrize("shape", [(30, 40), (12, 100)])
def test_small_matrices_are_certified_too(shape):
    problem, reference = make(clicks(shape), alpha=3.0, l2=1.5)
    found = solve(problem, Options(tol=1e-6, max_iter=40))
    assert dense.gap(full(found.low_rank), reference) / found.certificate.primal <= 1e-6
    assert found.certificate.gap <= 1e-6
    assert found.certificate.status == "converged"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kinds", [6])
def test_data_with_few_distinct_rows(kinds, dtype):
    A = clicks((kinds, 50), 0.3)[np.arange(100) % kinds]
    problem, reference = make(A, alpha=2.0, strength=0.1, dtype=dtype)
    found = solve(problem, Options(tol=1e-3))
    assert found.certificate.status == "converged"
    assert found.certificate.primal == pytest.approx(dense.solve(reference, tol=1e-6).objective, rel=1e-3)


@pytest.mark.parametrize("shape", [(1, 30), (30, 1), (1, 1), (3, 5)])
@LOSSES
def test_tiny_shapes(shape, loss):
    problem, reference = make(clicks(shape, 0.6), loss=loss, alpha=3.0, l2=2.0, strength=0.4)
    found = solve(problem, tight(tol=1e-7))
    assert found.certificate.status == "converged"
    assert found.certificate.primal == pytest.approx(dense.solve(reference).objective, rel=1e-6)


def test_everyone_has_one_item_of_their_own():
    """Equal singular values, more than a Krylov block sees: U = (1 - l1/w) I, w the weight."""
    problem, _ = make(np.eye(60), alpha=1.0, strength=0.4)
    found = solve(problem, tight())
    assert found.certificate.status == "converged"
    np.testing.assert_allclose(full(found.low_rank), 0.6 * np.eye(60), atol=1e-3)


@given(
    seed=st.integers(0, 10**6),
    loss=st.sampled_from(["I", "II"]),
    l2=st.sampled_from([None, 0.1, 1.0, 3.0]),
    strength=st.floats(0.01, 1.2),
    size=st.floats(0.01, 30),
)
@settings(max_examples=20)
def test_the_gap_is_never_negative(seed, loss, l2, strength, size):
    """At any U; loss II with alpha 4 and a small l2 has cells where V = 1, its upper bound."""
    problem, reference = make(clicks((14, 18), 0.3, seed % 7), loss=loss, alpha=4.0, l2=l2, strength=strength)
    r = np.random.default_rng(seed)
    left, right = (np.linalg.qr(r.standard_normal((n, 3)))[0] for n in (14, 18))
    point = LowRank(left, np.sort(r.uniform(0, size, 3))[::-1], right)
    primal, dual, *_ = compute_gap(problem, point, r, rtol=1e-8)
    assert primal == pytest.approx(dense.objective_eliminated(full(point), reference), rel=1e-9)
    optimum = dense.solve(reference, tol=1e-7).objective
    assert dual <= optimum * (1 + 1e-6) + 1e-9
    assert optimum <= primal * (1 + 1e-6)


def test_v_reaches_its_upper_bound_in_the_problems_above():
    problem, reference = make(clicks((14, 18), 0.3), loss="II", alpha=4.0, l2=0.1)
    assert (dense.solve(reference, tol=1e-7).V == 1).any()
    assert problem.v_penalty.max() < 1


class TestStrengthsThatGiveNothing:
    @LOSSES
    def test_l1(self, loss):
        for scaling in (0.0, 0.4):
            zero, _ = make(clicks(), loss=loss, alpha=3.0, strength=1 + 1e-9, scaling=scaling)
            some, _ = make(clicks(), loss=loss, alpha=3.0, strength=0.99, scaling=scaling)
            assert solve(zero, tight()).low_rank.rank == 0
            assert solve(some, tight()).low_rank.rank == 1

    @LOSSES
    @pytest.mark.parametrize("scaling", [0.0, 0.4])
    def test_l2(self, loss, scaling):
        """With U = 0, V is left out exactly from l2 = w*t/t = alpha on."""
        for l2, left in ((3.0, 0), (0.99 * 3.0, None)):
            problem, reference = make(clicks(), loss=loss, alpha=3.0, strength=1.01, l2=l2, scaling=scaling)
            found = solve(problem, tight())
            V = problem.find_specific(found.low_rank.evaluate_on(problem.pattern))
            assert np.count_nonzero(V > 1e-12) == (left if left == 0 else reference.observed.sum())


class Taut(Problem):
    """A problem that the solver takes as if it were not slack."""

    is_slack = False

    @classmethod
    def of(cls, problem):
        return cls(problem.pattern, problem.target, problem.weight, problem.v_penalty, problem.l1)


class TestSlack:
    """Caps on V's pull, `share` of the one that leaves V out, that many cells reach."""

    ALPHA = 3.0

    def both(self, share, strength, loss="I", scaling=0.0):
        return make(clicks(), loss=loss, alpha=self.ALPHA, strength=strength, l2=share * self.ALPHA, scaling=scaling)

    def test_which_problems_are(self):
        shares = {0.05: True, 0.3: True, 0.49: True, 0.5: False, 0.85: False}
        assert {share: self.both(share, 0.2)[0].is_slack for share in shares} == shares
        assert not make(clicks(), alpha=self.ALPHA)[0].is_slack

    @LOSSES
    @pytest.mark.parametrize("scaling", [0.0, 0.4])
    @pytest.mark.parametrize("of_cap", [0.6, 0.25])
    @pytest.mark.parametrize("share", [0.05, 0.3])
    def test_the_optimum_is_that_of_the_specification(self, share, of_cap, scaling, loss):
        """Where l1 holds most cells in the linear part (0.6 of what leaves no U), and where it holds few (0.25)."""
        problem, reference = self.both(share, of_cap * share, loss, scaling)
        found, exact = solve(problem, Options(tol=1e-5, max_iter=1000)), dense.solve(reference, tol=1e-8)
        assert problem.is_slack
        assert found.certificate.status == "converged"
        assert found.low_rank.rank >= 1
        U = full(found.low_rank)
        assert dense.gap(U, reference) <= 1.01e-5 * found.certificate.primal
        assert dense.objective_eliminated(U, reference) == pytest.approx(exact.objective, rel=1e-5)

    @LOSSES
    @pytest.mark.parametrize("share", [0.05, 0.3])
    def test_a_strength_beyond_the_capped_pull_gives_nothing_at_once(self, share, loss):
        problem, reference = self.both(share, 0.1, loss, scaling=0.3)
        pull = dense.pull(np.zeros(reference.T.shape), reference)
        if loss == "I":
            capped = np.minimum(reference.weight * reference.target, reference.cap)
            np.testing.assert_array_equal(pull, np.where(reference.observed, capped, 0))
        most = float(np.linalg.norm(pull, 2))
        nothing = solve(problem.with_strength(most * (1 + 1e-9)), tight())
        assert (nothing.certificate.status, nothing.certificate.iterations) == ("converged", 0)
        assert nothing.low_rank.rank == 0
        assert solve(problem.with_strength(0.99 * most), tight()).low_rank.rank >= 1

    @LOSSES
    @pytest.mark.parametrize("scaling", [0.0, 0.4])
    @pytest.mark.parametrize("share", [0.05, 0.3])
    def test_to_know_it_saves_iterations(self, share, scaling, loss):
        problem, _ = self.both(share, 0.6 * share, loss, scaling)
        mine, taut = (solve(each, Options()).certificate for each in (problem, Taut.of(problem)))
        assert mine.status == taut.status == "converged"
        assert mine.iterations < taut.iterations


class TestOneShot:
    def test_is_one_soft_thresholded_svd(self):
        A = clicks()
        problem, reference = make(A, loss="II", alpha=4.0, scaling=0.3)
        found = solve(problem, tight(tol=1e-9))
        exact = dense.shrink(reference.target, reference.l1)
        assert found.certificate.iterations <= 12  # the space is cut at twice the rank; the rest is polish
        np.testing.assert_allclose(full(found.low_rank), exact, atol=1e-4 * exact.max())

    def test_loss_ii_is_loss_i_at_one_rescaled(self):
        two, _ = make(clicks(), loss="II", alpha=4.0)
        one, _ = make(clicks(), loss="I", alpha=1.0)
        np.testing.assert_allclose(
            full(solve(two, tight()).low_rank), 4 * full(solve(one, tight()).low_rank), atol=1e-3
        )
        assert two.l1 == pytest.approx(4 * one.l1)


class TestStopping:
    problem = staticmethod(lambda: make(clicks(), alpha=4.0, strength=0.15, l2=2.0)[0])

    def test_max_iter(self):
        found = solve(self.problem(), Options(tol=1e-9, max_iter=3))
        assert found.certificate.status == "max_iter"
        assert found.certificate.iterations == 3
        assert found.certificate.gap > 1e-9
        assert [step.iteration for step in found.history] == [0, 1, 2, 3]

    def test_timeout(self):
        found = solve(self.problem(), Options(tol=1e-9, time_limit=1e-9))
        assert found.certificate.status == "timeout"
        assert found.certificate.iterations == 0
        assert found.certificate.gap > 1e-9

    def test_converged(self):
        found = solve(self.problem(), Options(tol=1e-3, time_limit=60.0))
        assert found.certificate.status == "converged"
        assert found.certificate.gap <= 1e-3
        assert found.certificate.seconds < 60

    def test_the_objective_falls(self):
        objectives = [s.objective for s in solve(self.problem(), tight()).history]
        assert len(objectives) > 5
        assert (np.diff(objectives) <= 1e-9 * objectives[0]).all()

    def test_the_callback_sees_every_step(self):
        seen = []
        found = solve(self.problem(), Options(tol=1e-5), callback=seen.append)
        assert seen == found.history
        assert [s.iteration for s in seen] == list(range(found.certificate.iterations + 1))
        assert all(a.seconds <= b.seconds for a, b in pairwise(seen))

    def test_what_the_callback_raises_comes_through(self):
        def stop(step):
            if step.iteration == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            solve(self.problem(), tight(), callback=stop)

    def test_a_start_at_the_solution_is_enough(self):
        problem = self.problem()
        first = solve(problem, Options(tol=1e-5))
        again = solve(problem, Options(tol=1e-5), start=first.low_rank)
        assert again.certificate.iterations <= 2 < first.certificate.iterations
        assert again.certificate.gap <= 1e-5

    @pytest.mark.parametrize("factor", [0.0, 5.0])
    def test_any_start_leads_to_the_solution(self, factor):
        problem, reference = make(clicks(), alpha=4.0, strength=0.15, l2=2.0)
        exact = dense.solve(reference).objective
        r = np.random.default_rng(0)
        left, right = (np.linalg.qr(r.standard_normal((n, 4)))[0] for n in (60, 80))
        start = LowRank(left, factor * np.array([4.0, 3.0, 2.0, 1.0]), right)
        for begin in (start, LowRank.zero(problem.pattern, np.float64)):
            found = solve(problem, tight(tol=1e-6), start=begin)
            assert found.certificate.primal == pytest.approx(exact, rel=1e-6)


class TestRankCap:
    def test_a_cap_that_binds(self):
        problem, reference = make(clicks(), alpha=2.0, strength=0.2)
        free = solve(problem, tight())
        assert free.low_rank.rank > 6
        found = solve(problem, tight(rank_cap=3))
        certificate = found.certificate
        assert found.low_rank.rank == certificate.rank == 3
        assert certificate.rank_capped
        assert certificate.primal > free.certificate.primal
        assert certificate.dual <= free.certificate.primal
        assert certificate.gap == pytest.approx(
            dense.gap(full(found.low_rank), reference) / certificate.primal, abs=1e-6
        )
        assert "settled at its rank limit" in str(certificate)
        assert "limited to rank 3: at most" in str(certificate)
        assert certificate.status == "rank_cap"

    @pytest.mark.parametrize("alpha", [1.0, 2.0, 5.0])
    @pytest.mark.parametrize("l2", [None, 0.85])
    def test_the_bound_within_the_item_directions(self, alpha, l2):
        problem, reference = make(clicks(), alpha=alpha, strength=0.15, l2=l2 and l2 * alpha)
        found = solve(problem, tight(rank_cap=3))
        best = dense.solve(reference, tol=1e-9, within=found.low_rank.right).objective
        certificate = found.certificate
        assert certificate.dual < certificate.span_dual <= best * (1 + 1e-9) <= certificate.primal * (1 + 2e-9)
        # The bound is about what was solved, and tight: without the limit there is no telling.
        assert certificate.span_excess < 0.001 < 0.05 < certificate.excess
        assert solve(problem, tight()).certificate.span_dual is None

    def test_the_bound_is_one_far_from_the_optimum_too(self):
        problem, reference = make(clicks(), alpha=2.0, strength=0.2, l2=0.6)
        r = np.random.default_rng(0)
        left, right = (np.linalg.qr(r.standard_normal((n, 3)))[0] for n in (60, 80))
        gap = compute_gap(problem, LowRank(left, np.array([3.0, 2.0, 1.0]), right), r, rtol=1e-6, in_span=True)
        best = dense.solve(reference, tol=1e-9, within=right).objective
        assert gap.dual <= gap.span_dual <= best * (1 + 1e-9) <= gap.primal

    def test_a_cap_that_does_not_bind(self):
        problem, reference = make(clicks(), alpha=2.0, strength=0.2)
        found = solve(problem, tight(rank_cap=59))
        assert not found.certificate.rank_capped
        assert found.certificate.gap <= 1e-7
        assert "rank capped" not in str(found.certificate)
        assert found.certificate.primal == pytest.approx(dense.solve(reference).objective, rel=1e-7)

    def test_a_cap_at_the_rank_of_the_solution_does_not_bind(self):
        problem, _ = make(clicks(), alpha=4.0, strength=0.15, l2=2.0)
        rank = solve(problem, tight()).low_rank.rank
        found = solve(problem, Options(tol=1e-4, max_iter=500, rank_cap=rank))
        assert found.certificate.gap <= 1e-4
        assert not found.certificate.rank_capped

    def test_a_start_beyond_the_cap_is_cut(self):
        problem, _ = make(clicks(), alpha=2.0, strength=0.2)
        start = solve(problem, Options(tol=1e-5)).low_rank
        assert solve(problem, Options(tol=1e-2, rank_cap=2), start=start).low_rank.rank <= 2


def test_one_thread_or_two():
    problem, _ = make(clicks((90, 110), 0.12), alpha=3.0, strength=0.2, l2=1.5)
    found = []
    for threads in (1, 2):
        with use_threads(threads):
            found.append(full(solve(problem, tight()).low_rank))
    one, two = found
    assert np.linalg.norm(one - two) <= 1e-5 * np.linalg.norm(one)
    best = np.argsort(-one, axis=1)[:, :10]
    again = np.argsort(-two, axis=1)[:, :10]
    np.testing.assert_allclose(np.take_along_axis(one, best, 1), np.take_along_axis(one, again, 1), atol=1e-5)


def test_the_seed_does_not_change_the_solution():
    problem, _ = make(clicks(), alpha=3.0, strength=0.25, l2=1.5)
    one, two = (full(solve(problem, tight(seed=s)).low_rank) for s in (0, 1))
    assert np.linalg.norm(one - two) <= 1e-4 * np.linalg.norm(one)
    same = full(solve(problem, tight(seed=1)).low_rank)
    np.testing.assert_allclose(two, same, rtol=1e-9, atol=1e-12)


def test_a_few_steps_come_near_the_optimum():
    problem, reference = make(clicks(), alpha=2.0, strength=0.25)
    _, one_shot = make(clicks(), alpha=1.0, strength=0.25)
    U, s, right = np.linalg.svd(one_shot.T, full_matrices=False)
    start = LowRank(U, np.maximum(s - one_shot.l1, 0), right.T)
    exact = dense.solve(reference).objective
    before = dense.objective_eliminated(full(start), reference)
    found = improve(problem, start, Options(tol=1e-3, max_iter=8))
    after = dense.objective_eliminated(full(found), reference)
    assert exact <= after <= exact * 1.01
    assert before - exact > 3 * (after - exact)
    # A rank that is bounded stays so.
    assert improve(problem, start, Options(tol=1e-3, max_iter=8, rank_cap=2)).rank == 2


def test_a_gradient_of_zero_is_seen_as_such():
    problem, _ = make(clicks(), alpha=2.0, strength=0.5, l2=1e-30)
    assert solve(problem, Options(tol=1e-3)).low_rank.rank == 0
