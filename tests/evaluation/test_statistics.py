"""Intervals of means and paired tests: against scipy, the bootstrap and numbers by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import csrr
from csrr.evaluation.statistics import compare_paired, compute_f1_interval, compute_mean_interval, correct_holm


def test_holm_by_hand():
    # Times 4, 3, 2, 1 in order of size; the third, 2 * .03, falls below the second, 3 * .025, and is raised to it.
    np.testing.assert_allclose(correct_holm([0.01, 0.9, 0.03, 0.025]), [0.04, 0.9, 0.075, 0.075])
    assert correct_holm([0.4, 0.6, 0.5]).tolist() == [1, 1, 1]
    assert correct_holm([0.2]).tolist() == [0.2]
    assert correct_holm([]).tolist() == []
    for bad in ([1.1], [-0.1], [np.nan], [[0.1]]):
        with pytest.raises(csrr.ParameterError, match="p-values"):
            correct_holm(bad)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.01, 0.2))
def test_holm_rejects_what_the_steps_reject(p, level):
    adjusted = correct_holm(p)
    rejected = set()
    for step, place in enumerate(np.argsort(p, kind="stable")):
        if p[place] * (len(p) - step) > level:
            break
        rejected.add(place)
    assert rejected == set(np.flatnonzero(adjusted <= level))


def test_scipy_has_the_same_p_values():
    rng = np.random.default_rng(0)
    a = rng.normal(size=80)
    b = a + rng.normal(0.2, 1, 80)
    b[:25] = a[:25]
    found = compare_paired(a, b)
    t = stats.ttest_rel(a, b)
    assert found.t_p == pytest.approx(t.pvalue, rel=1e-10)
    assert (found.low, found.high) == pytest.approx(tuple(t.confidence_interval(0.95)), rel=1e-10)
    assert found.wilcoxon_p == stats.wilcoxon(a, b, zero_method="zsplit").pvalue
    assert found.wilcoxon_p != pytest.approx(stats.wilcoxon(a, b, zero_method="wilcox").pvalue, rel=1e-3)
    assert found.difference == pytest.approx(a.mean() - b.mean())


def test_effect_sizes_by_hand():
    found = compare_paired([1, 2, 3, 4], [0, 2, 4, 1])  # differences 1, 0, -1, 3
    assert (found.better, found.worse, found.equal) == (1 / 2, 1 / 4, 1 / 4)
    assert found.difference == 3 / 4
    assert found.effect_size == pytest.approx(0.75 / np.sqrt((0.25**2 + 0.75**2 + 1.75**2 + 2.25**2) / 3))
    assert (found.mean, found.mean_against, found.n) == (2.5, 1.75, 4)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=30))
@settings(max_examples=20)
def test_turning_the_pair_round_turns_the_signs(values):
    a, b = np.array(values, float).T
    there, back = compare_paired(a, b), compare_paired(b, a)
    assert (there.t_p, there.wilcoxon_p) == pytest.approx((back.t_p, back.wilcoxon_p))
    assert (there.low, there.better, there.effect_size) == pytest.approx((-back.high, back.worse, -back.effect_size))
    assert there.better + there.worse + there.equal == pytest.approx(1)
    assert 0 <= min(there.t_p, there.wilcoxon_p) <= max(there.t_p, there.wilcoxon_p) <= 1


def test_differences_without_spread():
    same = compare_paired([0.5, 0.25, 1], [0.5, 0.25, 1])
    assert (same.t_p, same.wilcoxon_p, same.effect_size, same.low, same.high) == (1, 1, 0, 0, 0)
    assert same.equal == 1
    shifted = compare_paired([1, 2, 3], [2, 3, 4])
    assert (shifted.t_p, shifted.effect_size, shifted.low, shifted.worse) == (0, -np.inf, -1, 1)


def test_users_without_a_value_are_left_out():
    assert compare_paired([1, np.nan, 3, 5], [0, 1, 2, np.nan]) == compare_paired([1, 3], [0, 2])
    with pytest.raises(csrr.ParameterError, match="at least two users with both values, not 1"):
        compare_paired([1, np.nan], [0, 1])
    with pytest.raises(csrr.ParameterError, match=r"shapes \(2,\) and \(3,\)"):
        compare_paired([1, 2], [1, 2, 3])


def test_intervals_of_plain_arrays():
    values = np.array([1.0, 2, 4, 8, np.nan])
    assert compute_mean_interval(values, 0.8) == pytest.approx(
        stats.t.interval(0.8, 3, values[:4].mean(), stats.sem(values[:4])), rel=1e-12
    )
    assert np.isnan(compute_mean_interval([3.0])).all()
    rng = np.random.default_rng(0)
    p = rng.beta(2, 6, 400)
    r = np.clip(p / 2 + rng.normal(0, 0.05, 400), 0, 1)
    low, high = compute_f1_interval(p, r)
    drawn = rng.integers(400, size=(4000, 400))
    p_means, r_means = p[drawn].mean(axis=1), r[drawn].mean(axis=1)
    bootstrap = np.quantile(2 * p_means * r_means / (p_means + r_means), [0.025, 0.975])
    assert (low, high) == pytest.approx(bootstrap, abs=0.1 * (high - low))
    assert compute_f1_interval(np.zeros(5), np.zeros(5)) == (0, 0)
