"""The steps of BPR: the right gradient, the right negatives, every pair once, and nothing that depends on threads."""

import numpy as np
import pytest
from scipy import optimize, sparse

from csrr._base.threads import use_threads
from csrr.numerics import bpr
from csrr.numerics.factored import Factors
from csrr.numerics.problem import Pattern
from csrr.numerics.thread_engine import THREADS

RATES = bpr.Rates.of(0.5, 0.3, 0.2, 0.1)


def objective(p, positive, negative):
    """What one step climbs, by the book; the last entries are 1 and the biases."""
    x = positive[-1] - negative[-1] + p[:-1] @ (positive[:-1] - negative[:-1])
    _, reg, reg_negative, reg_bias = (float(rate) for rate in RATES)
    penalty = reg * (p[:-1] @ p[:-1] + positive[:-1] @ positive[:-1]) + reg_negative * negative[:-1] @ negative[:-1]
    return -np.log1p(np.exp(-x)) - (penalty + reg_bias * (positive[-1] ** 2 + negative[-1] ** 2)) / 2


def random_factors(shape, rank, seed=0):
    rng = np.random.default_rng(seed)
    users, items = (rng.normal(0, 0.5, (n, rank + 1)).astype(np.float32) for n in shape)
    users[:, -1] = 1
    return Factors(users, items)


@pytest.fixture(scope="module")
def clicks():
    """40 x 48: one user has everything, two lack one item, one has nothing, and one item is everyone else's."""
    rng = np.random.default_rng(5)
    matrix = rng.random((40, 48)) < rng.uniform(0.05, 0.6, (40, 1)) * rng.uniform(0.2, 1, 48)
    matrix[0], matrix[1], matrix[2], matrix[3] = True, True, True, False
    matrix[1, 7] = matrix[2, 30] = False
    matrix[[4, *range(5, 40)], 11] = True
    return matrix


@pytest.fixture(scope="module")
def pattern(clicks):
    return Pattern.of(clicks, THREADS)


def test_a_step_follows_the_gradient():
    rng = np.random.default_rng(0)
    start = [rng.normal(0, 1, 6).astype(np.float32) for _ in range(3)]
    start[0][-1] = 1
    after = [vector.copy() for vector in start]
    value = bpr.ascend(*after, RATES)
    exact = [vector.astype(np.float64) for vector in start]
    gap = exact[1] - exact[2]
    assert value == pytest.approx(-np.log1p(np.exp(-exact[0] @ gap)), rel=1e-5)
    for side in range(3):
        for c in range(6 if side else 5):
            low, high = ([vector.copy() for vector in exact] for _ in range(2))
            low[side][c] -= 1e-5
            high[side][c] += 1e-5
            slope = (objective(*high) - objective(*low)) / 2e-5
            assert (after[side][c] - start[side][c]) / RATES.step == pytest.approx(slope, abs=1e-5), (side, c)
    assert after[0][-1] == 1


@pytest.mark.parametrize("distance", [-200, 200])
def test_a_step_stays_finite_far_out(distance):
    far = [np.array([1, 1], np.float32), np.array([distance, 0], np.float32), np.zeros(2, np.float32)]
    value = bpr.ascend(*far, bpr.Rates.of(0.1, 0, 0, 0))
    assert value == pytest.approx(min(distance, 0) and -30, abs=1e-5)
    assert far[1][0] == pytest.approx(distance + (0.1 if distance < 0 else 0), abs=1e-4)


@pytest.mark.parametrize(("n_items", "n_free"), [(30, 20), (60, 7), (400, 2), (500, 1)])
def test_negatives_are_uniform_over_what_is_free(n_items, n_free):
    # Few free items make most draws fall back on the list of them
    stratum = np.random.default_rng(1).permutation(2 * n_items)[:n_items].astype(np.int32)
    free = stratum[:n_free]
    has = np.setdiff1d(np.arange(2 * n_items, dtype=np.int32), free)
    state, counts = np.uint64(3), np.zeros(2 * n_items)
    for _ in range(4000):
        state, item = bpr.draw_negative(np.uint64(state), has, 0, len(has), stratum)
        counts[item] += 1
    assert counts[free].sum() == 4000
    expected = 4000 / n_free
    assert ((counts[free] - expected) ** 2 / expected).sum() < n_free + 5 * np.sqrt(2 * n_free)


def test_no_negative_where_nothing_is_free():
    items = np.arange(10, dtype=np.int32)
    assert bpr.draw_negative(np.uint64(0), items, 0, 10, items[::-1].copy())[1] == -1
    assert bpr.draw_negative(np.uint64(0), items, 0, 9, items)[1] == 9


def test_an_epoch_takes_every_pair_once_with_a_uniform_negative(clicks, pattern):
    # From zero and with a tiny step, each pair moves the bias of its items by half a step, up and down
    assert bpr.count_strata(pattern.shape) > 1
    step, epochs, rng = 1e-6, 300, np.random.default_rng(0)
    negatives = np.zeros(48)
    for _ in range(epochs):
        factors = Factors(np.zeros((40, 2), np.float32), np.zeros((48, 2), np.float32))
        bpr.run_epoch(pattern, factors, bpr.Rates.of(step, 0, 0, 0), rng)
        net = factors.items[:, -1] / (step / 2)
        np.testing.assert_allclose(net, np.round(net), atol=0.01)
        negatives += clicks[1:].sum(0) - np.round(net)
    # The user with all items has no pair; only the one with nothing lacks item 11, and has no pair either
    assert negatives[11] == 0
    assert negatives.sum() == epochs * clicks[1:].sum()
    counts = clicks.sum(1, keepdims=True)
    expected = epochs * (counts / np.maximum(48 - counts, 1) * ~clicks).sum(0)
    drawn = expected > 0
    assert (negatives[~drawn] == 0).all()
    np.testing.assert_allclose(negatives[drawn], expected[drawn], rtol=0.1)
    assert ((negatives - expected)[drawn] ** 2 / expected[drawn]).sum() < 2 * drawn.sum()


def test_the_value_of_an_epoch_is_the_mean_over_its_pairs(clicks, pattern):
    factors = Factors(np.zeros((40, 4), np.float32), np.zeros((48, 4), np.float32))
    assert bpr.run_epoch(pattern, factors, bpr.Rates.of(1e-6, 0, 0, 0), np.random.default_rng(0)) == pytest.approx(
        np.log(0.5), abs=1e-4
    )


def test_threads_do_not_change_a_bit(pattern, monkeypatch):
    monkeypatch.setattr(bpr, "WORTH_A_THREAD", 0)
    found = []
    for threads in (1, 2, 2):
        factors, rng = random_factors(pattern.shape, 7), np.random.default_rng(1)
        with use_threads(threads):
            values = [bpr.run_epoch(pattern, factors, RATES, rng) for _ in range(20)]
        found.append((factors.users, factors.items, np.array(values)))
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


def test_users_with_nothing_to_compare_are_left_alone(pattern):
    factors = random_factors(pattern.shape, 3)
    before = factors.users.copy()
    bpr.run_epoch(pattern, factors, RATES, np.random.default_rng(0))
    same = (factors.users == before).all(1)
    assert np.flatnonzero(same).tolist() == [0, 3]


def test_an_epoch_where_everyone_has_everything():
    factors = random_factors((20, 16), 3)
    before = factors.items.copy()
    assert bpr.run_epoch(Pattern.of(np.ones((20, 16)), THREADS), factors, RATES, np.random.default_rng(0)) == 0
    np.testing.assert_array_equal(factors.items, before)


def exact_user(items, has, reg):
    """The maximum, over all pairs, of what `fold_in` climbs, and the function itself, negated."""
    gaps = (items[has][:, None] - items[~has]).reshape(-1, items.shape[1]).astype(np.float64)

    def loss(p):
        x = gaps[:, :-1] @ p + gaps[:, -1]
        gradient = reg * p - gaps[:, :-1].T @ (1 / (1 + np.exp(x))) / len(x)
        return np.logaddexp(0, -x).mean() + reg / 2 * p @ p, gradient

    return optimize.minimize(loss, np.zeros(items.shape[1] - 1), jac=True).fun, loss


def test_fold_in_comes_near_the_maximum(clicks, pattern):
    items = random_factors(pattern.shape, 5).items
    found = bpr.fold_in(pattern, items, 0.02)
    short = bpr.fold_in(pattern, items, 0.02, n_steps=16)
    assert (found[:, -1] == 1).all()
    assert not found[[0, 3], :-1].any()
    gaps = []
    for user in (1, 2, 4, 10, 25, 39):
        best, loss = exact_user(items, clicks[user], 0.02)
        at_zero = loss(np.zeros(5))[0]
        gaps.append([(loss(users[user, :-1])[0] - best) / (at_zero - best) for users in (found, short)])
    worst, worst_short = np.max(gaps, 0)
    assert worst < 0.01
    assert worst_short > 0.05


def test_fold_in_knows_only_the_history(clicks, pattern):
    items = random_factors(pattern.shape, 5).items
    alone = bpr.fold_in(Pattern.of(sparse.csr_array(clicks[[25]]), THREADS), items, 0.02)
    np.testing.assert_array_equal(alone[0], bpr.fold_in(pattern, items, 0.02)[25])


def test_fold_in_says_the_same_again(pattern):
    """Also where the arrays it works with happen to lie close to each other."""
    items = random_factors(pattern.shape, 8).items
    found = {bpr.fold_in(pattern, items.copy(), 0.02, n_steps=100).tobytes() for _ in range(60)}
    assert len(found) == 1
