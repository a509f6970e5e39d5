"""Expectations are exact, slopes are those of the points, and a small simulation shows what the large one does."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import csrr
from csrr import ParameterError
from csrr_paper.theory import (
    Measurement,
    Simulation,
    empirical_loss,
    excess_cost,
    expected_cost,
    expected_loss,
    simulate,
)


@pytest.fixture(scope="module")
def small():
    return simulate(sizes=(30, 60, 120), repeats=3, seed=1)


def test_expectations_are_the_means_over_all_draws():
    rng = np.random.default_rng(0)
    scores, positive = rng.random((3, 3)), np.eye(3, dtype=bool)
    alpha, q, rho = 3.0, 0.4, 0.3
    loss = cost = 0.0
    for draw in product((False, True), repeat=3):
        observed = np.diag(draw)
        weight = math.prod(rho if each else 1 - rho for each in draw)
        loss += weight * empirical_loss(scores, observed, alpha=alpha)
        misses, alarms = (observed & (scores <= q)).sum(), (~observed & (scores > q)).sum()
        cost += weight * (alpha * misses + alarms) / 9
    assert expected_loss(scores, positive, alpha=alpha, rho=rho) == pytest.approx(loss)
    assert expected_cost(scores, positive, alpha=alpha, q=q, rho=rho) == pytest.approx(cost)


@pytest.mark.parametrize("rho", [0.1, 0.6])
def test_the_excess_cost_is_above_the_least_of_all_decisions(rho):
    positive = np.array([[True, True, False]])
    every = [
        excess_cost(np.array([each]), positive, alpha=2.0, q=0.5, rho=rho) for each in product((0.2, 0.8), repeat=3)
    ]
    assert min(every) == pytest.approx(0)
    # A false alarm, and both ones decided wrong: rho = 0.6 has 1.2 against 0.4, rho = 0.1 has 0.9 against 0.2.
    assert max(every) == pytest.approx((1 + 2 * (0.8 if rho == 0.6 else 0.7)) / 3)


def planted(powers):
    """Return a simulation whose excesses are powers of the side, one power a repeat."""
    one = Measurement("fixed density", 10, 10, 0, 5, 1.0, 1.0, 1.0, 1.0, 1.0)
    rows = [
        replace(one, setting=setting, n=n * n // 10, m=10, repeat=repeat, cost=n**power, loss=3 * n**-1.0)
        for setting in ("fixed epsilon", "fixed density")
        for n in (10, 20, 40)
        for repeat, power in enumerate(powers)
    ]
    return Simulation(rows, 4.0, 0.5, 0.5, 0)


def test_slopes_are_those_of_the_points():
    found = planted([-1.5, -1.0, -2.0])
    assert found.slope == pytest.approx(-1.5)
    half = 4.302653 * 0.5 / math.sqrt(3)  # Student's t with two degrees of freedom
    assert found.interval == pytest.approx((-1.5 - half, -1.5 + half))
    assert found.slopes["fixed epsilon", "loss"].value == pytest.approx(-1)


def test_a_measure_without_a_logarithm_is_left_out():
    found = planted([-1.5, -1.5])
    zero = replace(found, rows=[replace(each, cost=0.0) if each.n == 160 else each for each in found.rows])
    assert zero.slope == pytest.approx(-1.5)
    assert math.isnan(replace(found, rows=[replace(each, cost=0.0) for each in found.rows]).slope)


def test_the_excess_falls_as_the_theory_says(small):
    assert small.slopes["fixed epsilon", "cost"].value == pytest.approx(-2, abs=0.3)
    assert small.slopes["fixed epsilon", "loss"].value == pytest.approx(-2, abs=0.5)
    assert -1 < small.slope < 0
    assert small.interval[0] < small.slope < small.interval[1]


def test_the_bound_holds_for_every_fit(small):
    for each in small.rows:
        assert each.size <= each.epsilon
        assert 0 < each.loss <= each.loss_bound
        assert each.cost >= 0
    assert len({each.positives for each in small.rows}) == len(small.rows), "draws that differ"


def test_the_same_seed_gives_the_same(small):
    again = simulate(sizes=(30, 60), repeats=2, seed=1)
    kept = [each for each in small.rows if each.n < 120 and each.repeat < 2 and each.setting == "fixed density"]
    assert [each for each in again.rows if each.setting == "fixed density"] == kept
    assert simulate(sizes=(30, 60), repeats=2, seed=2).rows != again.rows


def test_it_prints_a_table_and_gives_tables(small):
    lines = repr(small).splitlines()
    assert lines[0] == "Simulation: 18 fits, alpha=4, q=0.5, rho=0.5"
    assert len(lines) == 2 + 6
    assert f"{small.slope:.2f}" in lines[5]
    assert lines[5].startswith("fixed density  excess cost")
    page = small._repr_html_()
    assert page.startswith(f"<p>{lines[0]}</p>")
    assert page.count("<tr>") == 1 + 6
    assert f">{small.slope:.2f}<" in page
    table = small.to_arrow()
    assert table.num_rows == 18
    assert small.to_frame()["cost"].tolist() == [each.cost for each in small.rows]


def test_it_can_be_drawn(small, tmp_path):
    drawn = csrr.plot(small, tmp_path / "theory.svg")
    assert (tmp_path / "theory.svg").read_text() == drawn.svg
    assert "Density fixed, epsilon grows" in drawn.svg
    measured, *_, rate = small.panels[1]["series"]
    assert measured["points"][0]["mean"] == rate["points"][0]["mean"]
    assert rate["points"][2]["mean"] - rate["points"][0]["mean"] == pytest.approx(-math.log10(4))


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"sizes": (50,)}, "at least two"),
        ({"sizes": 50}, "at least two"),
        ({"sizes": (50, 50, 100)}, "different"),
        ({"sizes": (5, 50)}, "sizes=5"),
        ({"seed": -1}, "seed=-1"),
        ({"alpha": 0.5}, "alpha=0.5"),
        ({"q": 0}, "q=0"),
        ({"q": 1.0}, "q=1.0"),
        ({"q": 0.9999}, "no observed cell"),
        ({"rho": 0}, "rho=0"),
        ({"repeats": 1}, "repeats=1"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, named):
    with pytest.raises(ParameterError, match=named):
        simulate(**{"sizes": (20, 40), "repeats": 2} | wrong)
