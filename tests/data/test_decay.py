"""Events weigh half as much with every half-life."""

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import csrr
from csrr import DataError, Log, ParameterError

DAY = 86_400


def log_of(days, **columns):
    return Log.from_table(
        {"user": range(len(days)), "item": [0] * len(days), "time": [d * DAY for d in days], **columns}
    )


@pytest.mark.parametrize("half_life", [10, 10.0, "10d", "10 days", "240h", "14400 min", timedelta(days=10)])
def test_half_a_life_in_all_its_words(half_life):
    assert log_of([0, 10, 20]).decay(half_life).weights.tolist() == [0.25, 0.5, 1]


def test_weights_that_are_there_decay():
    assert log_of([0, 10], weight=[8, 3]).decay("10d").weights.tolist() == [4, 3]


def test_ages_are_counted_from_now():
    log = Log.from_table({"user": [1, 2], "item": [1, 1], "time": ["2026-01-01", "2026-01-31"]})
    assert log.decay("30d", now="2026-03-02").weights.tolist() == [0.25, 0.5]
    # What is later than now has no age.
    assert log.decay("30d", now="2026-01-01").weights.tolist() == [1, 1]


@given(st.lists(st.integers(0, 10**6), min_size=1), st.floats(1e-3, 1e4))
def test_the_formula(days, half_life):
    decayed = log_of(days).decay(half_life).weights
    expected = 2.0 ** -np.minimum((max(days) - np.array(days)) / half_life, 10)
    np.testing.assert_allclose(decayed, expected, rtol=1e-6)


@pytest.mark.parametrize("half_life", [0, -1, float("nan"), float("inf"), "ten", "10", "0d", "5 moons", None, True])
def test_what_is_no_time(half_life):
    with pytest.raises(ParameterError, match='must be a number of days > 0, a text like "90d"'):
        log_of([0, 1]).decay(half_life)


def test_without_times_it_says_so():
    with pytest.raises(DataError, match="half_life needs events with times; give a column"):
        Log.from_table({"user": [1], "item": [1]}).decay(30)


# In models


@pytest.fixture(scope="module")
def timed():
    log = csrr.synthetic(120, 60, rank=4, events_per_user=12).log
    times = np.random.default_rng(0).integers(0, 300 * DAY, len(log))
    return Log.from_table({"user": log.users.ids[log.user_rows], "item": log.items.ids[log.item_rows], "time": times})


@pytest.mark.parametrize(
    ("kind", "params"), [(csrr.CSRR, {"neighbors": 5}), (csrr.CSRRe, {"rank": 6}), (csrr.WRMF, {"rank": 6, "reg": 5})]
)
def test_a_model_decays_as_the_log_does(timed, kind, params):
    decayed = kind(half_life="60d", **params).fit(timed)
    by_hand = kind(event_weights="linear", **params).fit(timed.decay("60d"))
    np.testing.assert_array_equal(decayed.score(0), by_hand.score(0))
    assert not np.array_equal(decayed.score(0), kind(**params).fit(timed).score(0))


def test_weights_count_only_if_they_are_asked_for(timed):
    weighted = Log.from_table({**timed.to_arrow().to_pydict(), "weight": np.arange(1, len(timed) + 1)})
    params = {"half_life": "60d", "reg_low_rank": 0.2, "neighbors": 0}
    plain, ignored = (csrr.CSRR(**params).fit(each) for each in (timed, weighted))
    np.testing.assert_array_equal(plain.score(0), ignored.score(0))
    counted = csrr.CSRR(**params, event_weights="log").fit(weighted)
    assert not np.array_equal(plain.score(0), counted.score(0))


def test_people_who_come_today_are_not_faded_and_those_of_old_are(timed):
    model = csrr.CSRR(half_life="60d", reg_low_rank=0.1, neighbors=0).fit(timed)
    now, old = 300 * DAY, 0
    today, long_ago = (
        model.fold_in({"user": [0, 0, 1], "item": [3, 4, 5], "time": [time, time, now]}).score()[0]
        for time in (now, old)
    )
    np.testing.assert_allclose(model.fold_in([[3, 4]]).score()[0], today, atol=1e-5)
    assert np.abs(long_ago).sum() < np.abs(today).sum()


def test_a_model_without_times_says_so():
    with pytest.raises(DataError, match="half_life needs events with times"):
        csrr.CSRR(half_life=30).fit({"user": [1, 2], "item": [1, 1]})


@pytest.mark.parametrize("half_life", [30, "30d", timedelta(days=30)])
def test_the_half_life_is_saved(timed, tmp_path, half_life):
    model = csrr.CSRR(half_life=half_life, reg_low_rank=0.2, neighbors=0).fit(timed)
    model.save(tmp_path / "m.csrr")
    loaded = csrr.load(tmp_path / "m.csrr")
    assert loaded.half_life == ("30d" if half_life == "30d" else 30)
    np.testing.assert_array_equal(loaded.seen_times_, timed.times)
    assert loaded.seen_weights_ is None
    np.testing.assert_array_equal(loaded.score(0), model.score(0))


def test_noise_is_judged_by_the_costs_that_faded_clicks_have(timed):
    model = csrr.CSRR(half_life="60d", reg_low_rank=0.2, neighbors=0).fit(timed)
    assert len(model.suspects()) == len(timed)
