"""The test that models are compared on."""

import numpy as np
import pytest

import csrr
from csrr.report.comparison import hold_out
from csrr.report.log_facts import compute_log_facts, find_anomalies
from tests.report.conftest import make_log


def make_timed(n_users, start):
    """Users with ten events each, a day apart, the first of them at `start(user)` days."""
    rows = [
        (user, (user * 3 + k * k) % 97, 1e9 + 86_400 * (start(user) + k)) for user in range(n_users) for k in range(10)
    ]
    return make_log(rows)


def test_a_log_with_times_is_cut_in_time():
    log = make_timed(300, lambda user: user % 3)
    test = hold_out(log)
    assert test.how.startswith("Split in time")
    assert test.train.times.max() < test.test.times.min()
    assert test.n_with_history == 300


def test_users_who_come_and_go_are_cut_each_by_their_own_time():
    log = make_timed(300, lambda user: 20 * user)
    test = hold_out(log)
    assert test.how.startswith("Each user’s latest 2 events")
    assert (test.test.user_counts() == 2).all()
    for user in (0, 150, 299):
        assert test.train.times[test.train.user_rows == user].max() < test.test.times[test.test.user_rows == user].min()


def test_without_times_a_fifth_of_each_user_is_drawn(planted):
    test = hold_out(planted, seed=3)
    assert test.how.startswith("A random fifth")
    assert len(test.train) + len(test.test) == len(planted)
    assert (test.test.user_counts()[:200] == 1).all()
    assert not np.array_equal(hold_out(planted, seed=4).test.item_rows, test.test.item_rows)


def test_times_that_are_all_the_same_are_no_times():
    log = make_log([(user, (user + k) % 30, 1e9) for user in range(50) for k in range(10)])
    assert hold_out(log).how.startswith("A random fifth")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [(1, item) for item in range(50)],
            "it needs 10 users with two events or more, .* and 1 of 1 user has so many",
        ),
        ([(user, user) for user in range(50)], "it needs 10 users .* and 0 of 50 users have so many"),
        ([(user, item) for user in range(50) for item in range(3)], "the log has 3 items"),
        (
            [(user, (user + k) % 30) for user in range(20) for k in range(2)],
            "it needs 10 users with an event for training and one for the test, and 0 have both",
        ),
    ],
)
def test_a_log_too_small_for_a_test_is_told_so(rows, message):
    with pytest.raises(csrr.DataError, match=f"no test is possible: {message}"):
        hold_out(make_log(rows))


def test_declared_order_is_cut_at_each_users_last_events():
    rows = [(user, (user * 3 + k * k) % 97) for user in range(60) for k in range(10)]
    log = csrr.read({"user": [user for user, _ in rows], "item": [item for _, item in rows]}, ordered=True)
    test = hold_out(log)
    assert test.how.startswith("Each user’s latest 2 events")
    assert "in time" not in test.how
    assert test.train.cut == "share"
    assert test.train == csrr.split(log, last=2)[0]


def test_times_of_loading_are_no_times():
    log = make_log([(user, (user * 3 + k * k) % 97, 1e9 + 86_400 * user) for user in range(50) for k in range(10)])
    test = hold_out(log)
    assert test.how.startswith("A random fifth")
    assert "no times of the events to split at" in test.how
    assert test.train.cut is None
    found = [each for each in find_anomalies(log, compute_log_facts(log)) if "at one time" in each.what]
    assert [each.what for each in found] == [
        "100% of the users have most of their events at one time, as if it were when the rows were loaded: the times do"
        " not say what came first."
    ]
    assert "--time-column none" in found[0].action
