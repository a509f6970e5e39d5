"""The bounds are the formulas, those that can be proved hold, and the printed lemma fails where docs/theory.md says."""

import inspect
import math
from itertools import product

import numpy as np
import pytest

import csrr_paper
from csrr import ParameterError
from csrr_paper.theory import (
    class_loss_bound,
    empirical_loss,
    excess_cost_bound,
    excess_cost_from_loss,
    excess_loss_bound,
    expected_cost,
    expected_loss,
    gamma_range,
    most_positives,
    noise_bound,
    sum_lower_bound,
    transfer_factor,
)

SHAPE = {"n": 100, "m": 400, "S": 16, "epsilon": 2.0}
DELTA = 2 / math.e**4  # log(2/delta) = 4


def test_theorem_3_by_hand():
    # 3*(5*2*(10 + 20 + 2)/40000 + 2/200)
    assert excess_loss_bound(**SHAPE, alpha=3, delta=DELTA, C=5) == pytest.approx(0.054)


def test_lemma_3_by_hand():
    low, high = gamma_range(q=0.2)
    assert (low, high) == pytest.approx((1.5625, 25))
    assert excess_cost_from_loss(excess_loss=0.1, q=0.2) == pytest.approx(2.5)
    assert excess_cost_from_loss(excess_loss=0.1, q=0.2, gamma=2) == pytest.approx(0.2)


def test_theorem_4_by_hand():
    # alpha = 0.25*900/(0.75*100) = 3, and mu_n/T_n = 0.75/900
    found = sum_lower_bound(**SHAPE, q=0.2, delta=DELTA, mu_p=0.25, T_p=100, T_n=900, least_cost=12, C=5)
    assert found == pytest.approx(1 - 0.75 / 900 * (12 + 25 * 0.054))


def test_theorem_5_by_hand():
    assert excess_cost_bound(**SHAPE, alpha=3, q=0.2, delta=DELTA, C=5) == pytest.approx(0.25 * 25 * 0.054)


def test_the_bounds_with_known_constants_by_hand():
    delta = math.exp(-8)
    few, many = SHAPE, SHAPE | {"S": 40_000}
    assert noise_bound(**few, alpha=3, delta=delta, rho=0.25) == pytest.approx(3 / 40_000 * (4 * 2 + 4))
    signs = math.sqrt(math.pi / 2) * 30
    assert noise_bound(**many, alpha=3, delta=delta) == pytest.approx(3 / 40_000 * (4 * signs + 200))
    assert class_loss_bound(**few, alpha=3) == pytest.approx((4 + 48) / 80_000)
    assert most_positives(epsilon=3, q=0.5) == pytest.approx(36)


@pytest.mark.parametrize("bound", [excess_loss_bound, excess_cost_bound, noise_bound])
def test_bounds_fall_with_size_and_rise_with_all_else(bound):
    values = SHAPE | {"alpha": 3.0, "q": 0.3, "delta": 0.1}
    values = {name: value for name, value in values.items() if name in inspect.signature(bound).parameters}
    start = bound(**values)
    assert bound(**values | {"n": 200}) < start
    assert bound(**values | {"m": 800}) < start
    assert bound(**values | {"delta": 0.2}) < start
    for name in ("S", "epsilon", "alpha"):
        assert bound(**values | {name: 2 * values[name]}) > start


def test_arrays_give_what_their_numbers_give():
    n, alpha = np.array([50, 100, 200]), np.array([[1.0], [4.0]])
    found = excess_cost_bound(n=n, m=n, S=10, epsilon=2, alpha=alpha, q=0.4, delta=0.05)
    assert found.shape == (2, 3)
    for (i, ratio), (j, side) in product(enumerate(alpha[:, 0]), enumerate(n)):
        one = excess_cost_bound(n=side, m=side, S=10, epsilon=2, alpha=ratio, q=0.4, delta=0.05)
        assert isinstance(one, float)
        assert found[i, j] == pytest.approx(one)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"n": 0}, "n=0.0 must be a number >= 1"),
        ({"S": 50_000}, "do not fit"),
        ({"epsilon": 0}, "epsilon=0.0 must be a number > 0"),
        ({"alpha": 0.5}, "alpha=0.5 must be a number >= 1"),
        ({"alpha": [2.0, math.nan]}, "alpha=nan"),
        ({"q": 1}, "q=1.0 must be a number > 0 and < 1"),
        ({"delta": 0}, "delta=0.0"),
        ({"C": -1}, "C=-1.0"),
        ({"gamma": 1.0}, "gamma=1.0 must lie between"),
        ({"m": "many"}, "m='many' must be a number"),
        ({"n": [100, 200], "m": [100, 200, 300]}, r"not n \(2,\), m \(3,\)"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, named):
    with pytest.raises(ParameterError, match=named):
        excess_cost_bound(**SHAPE | {"alpha": 3, "q": 0.2, "delta": 0.05} | wrong)


def test_a_weighted_sum_that_favours_negatives_is_refused():
    with pytest.raises(ParameterError, match="must be >= 1"):
        sum_lower_bound(**SHAPE, q=0.5, delta=0.05, mu_p=0.1, T_p=100, T_n=100)


@pytest.mark.parametrize(("q", "alpha", "rho"), [(0.5, 4, 0.5), (0.3, 2, 0.6), (0.5, 2, 0.1), (0.4, 1, 0.2)])
def test_the_transfer_factor_is_the_least_that_holds(q, alpha, rho):
    scores = np.linspace(0, 1, 200_001)
    ratios = []
    for positive in (False, True):
        flags = np.full((1, 1), positive)
        cost = np.where(positive, np.where(scores > q, 1 - rho, alpha * rho), scores > q)
        loss = np.array(np.where(positive, rho * alpha * (1 - scores) ** 2 + (1 - rho) * scores**2, scores**2) / 2)
        at = np.array([[0.7]])
        assert expected_loss(at, flags, alpha=alpha, rho=rho) == pytest.approx(loss[140_000])
        excess = cost - cost.min()
        wrong = excess > 0
        ratios.append(np.max(excess[wrong] / (loss[wrong] - loss.min())))
    assert max(ratios) == pytest.approx(transfer_factor(q=q, alpha=alpha, rho=rho), rel=1e-3)


def test_every_matrix_of_the_class_has_at_most_the_class_loss_and_few_ones():
    rng = np.random.default_rng(0)
    for _ in range(50):
        planted = np.outer(rng.random(8), rng.random(6))
        epsilon, positive = np.linalg.norm(planted, "nuc"), planted > 0.3
        assert positive.sum() <= most_positives(epsilon=epsilon, q=0.3)
        bound = class_loss_bound(n=8, m=6, S=positive.sum(), epsilon=epsilon, alpha=3)
        assert expected_loss(planted, positive, alpha=3, rho=1) <= bound


class TestLemma3Fails:
    """Each case breaks one step of the proof of Lemma 3 and grants all others."""

    def test_for_the_factor_mn_between_a_sum_and_a_mean(self):
        nothing, scores = np.zeros((2, 2), bool), np.full((2, 2), 0.6)
        cost = 4 * expected_cost(scores, nothing, alpha=2, q=0.5, rho=0.5)
        twice = 2 * expected_loss(scores, nothing, alpha=2, rho=0.5)  # the proof's x^2, not the definition's x^2/2
        assert cost == 4
        assert excess_cost_from_loss(excess_loss=twice, q=0.5) == pytest.approx(1.44)

    def test_for_the_half_of_the_squared_loss(self):
        nothing, scores = np.zeros((1, 1), bool), np.full((1, 1), 0.51)
        loss = expected_loss(scores, nothing, alpha=2, rho=0.5)
        assert expected_cost(scores, nothing, alpha=2, q=0.5, rho=0.5) == 1
        assert excess_cost_from_loss(excess_loss=loss, q=0.5) < 0.53
        assert excess_cost_from_loss(excess_loss=2 * loss, q=0.5) > 1

    def test_for_a_gamma_below_the_greatest(self):
        one, scores, q = np.ones((1, 1), bool), np.full((1, 1), 0.5), 0.6
        twice = 2 * expected_loss(scores, one, alpha=2, rho=1)
        assert expected_cost(scores, one, alpha=2, q=q, rho=1) == 2
        assert excess_cost_from_loss(excess_loss=twice, q=q, gamma=gamma_range(q=q)[0]) < 1.5
        assert excess_cost_from_loss(excess_loss=twice, q=q, gamma=gamma_range(q=q)[1]) > 2

    def test_for_the_minima_that_are_subtracted(self):
        one, q, epsilon = np.ones((1, 1), bool), 0.28, 0.3  # M = 0.3 = epsilon > q, so Y = A = 1
        here, best = np.full((1, 1), q), np.full((1, 1), epsilon)
        costs = [expected_cost(x, one, alpha=2, q=q, rho=1) for x in (here, best)]
        losses = [empirical_loss(x, one, alpha=2) for x in (here, best)]
        assert costs[0] - costs[1] == 2
        assert excess_cost_from_loss(excess_loss=2 * (losses[0] - losses[1]), q=q) < 0.73

    def test_for_a_threshold_on_the_wrong_side_of_the_best_score(self):
        one, q = np.ones((1, 1), bool), 0.7
        costs = [expected_cost(np.full((1, 1), x), one, alpha=1.5, q=q, rho=0.5) for x in (0.6, 0.8)]
        losses = [expected_loss(np.full((1, 1), x), one, alpha=1.5, rho=0.5) for x in (0.599, 0.6, 0.601)]
        assert losses[1] == min(losses)
        assert costs[0] - costs[1] == pytest.approx(0.25)
        assert transfer_factor(q=q, alpha=1.5, rho=0.5) == math.inf


def test_theorem_5_fails_as_printed_whatever_its_constant():
    """Two ones on a diagonal, one of them observed: the best X misses the other, and its excess cost never falls."""
    alpha, rho, c_n, q = 4.0, 0.5, 0.2, 0.5
    M, A = np.diag([1.0, 1.0, 0.0]), np.diag([1.0, 0.0, 0.0])
    assert A.sum() == rho * M.sum()
    best = A  # its empirical loss is 0, and no loss is below
    assert np.linalg.norm(best, "nuc") <= np.linalg.norm(M, "nuc") == 2
    assert ((np.where(A == 1, alpha, 1.0) / 2) * (best - A) ** 2).sum() == 0
    # What a cell of M = 1 costs in expectation: a miss alpha*rho, a hit 1 - rho.
    cost = np.where(best > q, (1 - rho), alpha * rho)[M == 1]
    excess = c_n * (cost - min(1 - rho, alpha * rho)).sum()
    assert excess == pytest.approx(0.3)
    for C in (1.0, 1e3, 1e6):
        side = 1e4 * C
        printed = excess_cost_bound(n=side, m=side, S=2, epsilon=2, alpha=alpha, q=q, delta=0.25, C=C)
        assert printed < 0.1 * excess


def test_the_package_offers_it():
    assert csrr_paper.theory.excess_loss_bound is excess_loss_bound
    assert "theory" in dir(csrr_paper)


def test_where_every_decision_on_a_one_costs_the_same_rounding_does_not_matter():
    for alpha, rho in ((1.5, 0.4), (7 / 3, 0.3), (4.0, 0.2)):
        assert transfer_factor(q=0.6, alpha=alpha, rho=rho) == pytest.approx(2 / 0.36)
