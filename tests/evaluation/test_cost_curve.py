"""The curve of costs over cost ratios: counted by hand, chosen on one part, told of another."""

import numpy as np
import pytest

import csrr
from csrr import CSRR, ParameterError

LOG = csrr.synthetic(150, 80, rank=4, events_per_user=25, seed=3).log


@pytest.fixture(scope="module")
def curve():
    return csrr.cost_curve(LOG, miss=8.0, false_alarm=1.0, ratios=(4, 1, 2), reg_sparse=1.0)


def parts():
    train, held = csrr.split(LOG, ratio=0.6, seed=0)
    return train, *csrr.split(held, ratio=0.5, seed=0)


def test_every_number_of_a_point_by_hand(curve):
    train, choose, check = parts()
    known = (train.to_csr() + choose.to_csr()).toarray() > 0
    model, last = CSRR(cost_ratio=2.0, reg_sparse=1.0), CSRR(cost_ratio=1.0, reg_sparse=1.0).fit(train)
    scores = model.fit(train, start=last).score(LOG.users.ids)

    def cost(threshold):
        above, positive = (scores > threshold) & ~known, check.to_csr().toarray() > 0
        return 8 * (positive & ~above).sum() + (above & ~positive).sum()

    bounds = np.nextafter(np.append(np.unique(scores[~known]), np.inf), -np.inf, dtype=np.float32)
    point = curve[1]
    assert point.cost_ratio == 2
    assert point.cost == pytest.approx(cost(point.threshold) / 150)
    assert point.best_cost == pytest.approx(min(cost(bound) for bound in bounds) / 150)
    above, positive = (scores > point.threshold) & ~known, check.to_csr().toarray() > 0
    assert point.expected == pytest.approx(point.cost, rel=0.05)
    assert point.recall == pytest.approx((above & positive).sum() / positive.sum())
    assert point.specificity == pytest.approx(1 - (above & ~positive).sum() / (~known & ~positive).sum())
    assert point.items == pytest.approx(above.sum() / 150)
    assert point.gap <= 0.01


def test_the_threshold_is_near_the_best_in_hindsight(curve):
    assert all(point.cost <= 1.03 * point.best_cost for point in curve)


def test_ratios_rise_and_the_recommended_one_is_a_good_one(curve):
    assert [point.cost_ratio for point in curve] == [1, 2, 4]
    assert curve.nothing == pytest.approx(8 * len(parts()[2]) / 150)
    assert curve.recommended.cost < 0.9 * curve.nothing
    assert curve.best in curve.alike
    assert all(point.best_cost <= point.cost and point.low < point.cost < point.high for point in curve)
    assert f"cost_ratio={curve.recommended.cost_ratio:g}" in curve.recommendation
    assert curve.recommendation in repr(curve)
    assert curve.to_arrow().num_rows == 3


def test_when_nothing_is_worth_it():
    curve = csrr.cost_curve(LOG, miss=1.0, false_alarm=1000.0, ratios=[1.0])
    assert curve.recommendation.startswith("recommend nothing")


def test_one_user_tells_nothing():
    log = csrr.Log.from_matrix(np.ones((1, 30)))
    curve = csrr.cost_curve(log, miss=8.0, false_alarm=1.0, ratios=[2.0])
    assert curve.recommendation.startswith("recommend nothing")


def test_it_can_be_drawn(curve, tmp_path):
    csrr.plot(curve, tmp_path / "curve.svg")
    text = (tmp_path / "curve.svg").read_text()
    assert "8 per miss, 1 per false alarm" in text
    assert text.count("hindsight") >= 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"miss": 0}, "miss=0 must be a number > 0"),
        ({"false_alarm": -1}, "false_alarm=-1"),
        ({"ratios": []}, "must have at least one cost ratio"),
        ({"ratios": 5}, "ratios=5 must be a list"),
        ({"ratios": [1, 0]}, "ratios=0 must be a number >= 0.0001"),
        ({"cost_ratio": 2.0}, "chooses the cost ratio itself"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_bad_input(given, words):
    with pytest.raises(ParameterError, match=words):
        csrr.cost_curve(LOG, **{"miss": 2.0, "false_alarm": 1.0, **given})


def test_too_few_events():
    with pytest.raises(csrr.DataError, match="too few to hold out two parts"):
        csrr.cost_curve({"user": [1, 2], "item": [1, 2]}, miss=1.0, false_alarm=1.0)
