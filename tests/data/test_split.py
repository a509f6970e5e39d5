from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from csrr.data.errors import DataError, UnknownIdError
from csrr.data.log import Log
from csrr.data.split import HeldOut, split
from csrr.data.synthetic import synthetic
from csrr.parameters import ParameterError

PAIRS = st.sets(st.tuples(st.integers(0, 6), st.integers(0, 12)), min_size=1)
RATIOS = st.floats(0.01, 0.99)
SEEDS = st.integers(0, 5)


def make_log(pairs, time=lambda user, item: item):
    users, items = zip(*pairs, strict=True)
    return Log.from_table({"user": users, "item": items, "time": [time(u, i) for u, i in pairs]})


def pairs_of(log):
    return set(zip(log.users.ids[log.user_rows].tolist(), log.items.ids[log.item_rows].tolist(), strict=True))


def assert_partition(log, *parts):
    assert sum(map(len, parts)) == len(log)
    assert set().union(*map(pairs_of, parts)) == pairs_of(log)
    for part in parts:
        assert part.users == log.users
        assert part.items == log.items


@given(PAIRS, RATIOS, SEEDS)
def test_a_ratio_of_each_user_is_train(pairs, ratio, seed):
    log = make_log(pairs)
    train, test = split(log, ratio, seed=seed)
    assert_partition(log, train, test)
    expected = [max(1, int(np.floor(ratio * n + 0.5 + 1e-9))) for n in log.user_counts()]
    assert train.user_counts().tolist() == expected


@given(PAIRS, SEEDS, st.randoms())
def test_the_order_of_the_rows_does_not_matter(pairs, seed, random):
    shuffled = random.sample(sorted(pairs), len(pairs))
    assert split(make_log(sorted(pairs)), seed=seed) == split(make_log(shuffled), seed=seed)


def test_the_seed_decides():
    log = make_log([(u, i) for u in range(20) for i in range(20)])
    assert split(log, seed=1) == split(log, seed=1)
    assert split(log, seed=1) != split(log, seed=2)
    assert split(log) == split(log, 0.8, seed=0)


def test_every_event_is_equally_likely_to_be_train():
    log = make_log([(u, i) for u in range(2) for i in range(5)])
    share = np.mean([split(log, 0.4, seed=seed)[0].to_csr().toarray() for seed in range(600)], axis=0)
    np.testing.assert_allclose(share, 0.4, atol=0.09)


@pytest.mark.parametrize(
    ("ratio", "n", "n_train"), [(0.8, 1, 1), (0.1, 2, 1), (0.5, 3, 2), (0.29, 50, 15), (0.9, 4, 4)]
)
def test_rounding_is_half_up_and_leaves_one_in_train(ratio, n, n_train):
    assert len(split(make_log([(0, i) for i in range(n)]), ratio)[0]) == n_train


def test_a_ratio_of_the_whole_log():
    log = make_log([(u, 0) for u in range(100)])
    train, test = split(log, 0.7, by="log")
    assert_partition(log, train, test)
    assert len(train) == 70


@pytest.mark.filterwarnings("ignore:.* at one time")
@given(PAIRS, st.integers(1, 4), st.integers(1, 5))
def test_the_last_events_of_each_user_are_test(pairs, last, period):
    log = make_log(pairs, time=lambda user, item: (item * 7 + user) % period)
    train, test = split(log, last=last)
    expected = set()
    for user in {u for u, _ in pairs}:
        # A stable sort: of the same time, in the order of the rows.
        latest = sorted((i for u, i in pairs if u == user), key=lambda item: (item * 7 + user) % period)
        expected |= {(user, item) for item in latest[1:][-last:]}
    assert_partition(log, train, test)
    assert pairs_of(test) == expected


@pytest.mark.parametrize(
    "at",
    [
        86400,
        86400.0,
        "1970-01-02",
        datetime(1970, 1, 2),
        datetime(1970, 1, 2, tzinfo=UTC),
        np.datetime64("1970-01-02"),
    ],
)
def test_events_at_or_after_a_time_are_test(at):
    log = Log.from_table({"user": [1, 2, 3], "item": [1, 2, 3], "time": [86399, 86400, 86401]})
    train, test = split(log, at=at)
    assert (train.times.tolist(), test.times.tolist()) == ([86399], [86400, 86401])
    assert train.users == test.users


def test_a_quantile_of_time():
    log = make_log([(0, i) for i in range(100)])
    train, test = split(log, time_quantile=0.75)
    assert train.times.max() < test.times.min()
    assert len(train) == 75


@pytest.mark.parametrize(
    ("wanted", "count"), [(0.25, 5), (3, 3), (np.int64(3), 3), ([4, 7], 2), (np.array([4]), 1), (0.001, 1)]
)
def test_held_out_users(wanted, count):
    log = make_log([(u, i) for u in range(20) for i in range(10)])
    parts = split(log, held_out_users=wanted, given=0.6)
    assert isinstance(parts, HeldOut)
    assert_partition(log, *parts)
    held_out = parts.given.user_counts() > 0
    assert held_out.sum() == count
    assert (parts.train.user_counts() == np.where(held_out, 0, 10)).all()
    assert set(parts.given.user_counts()[held_out]) == {6}
    assert set(parts.asked.user_counts()[held_out]) == {4}
    if not np.isscalar(wanted):
        assert np.flatnonzero(held_out).tolist() == list(wanted)


def test_held_out_users_asked_about_their_last_events():
    log = make_log([(u, i) for u in range(4) for i in range(5)])
    parts = split(log, held_out_users=[2], last=2)
    assert (parts.given.history(2).tolist(), parts.asked.history(2).tolist()) == ([0, 1, 2], [3, 4])


def test_a_table_can_be_split():
    train, test = split({"user": [1] * 10, "item": range(10)})
    assert (len(train), len(test)) == (8, 2)


TIMELESS = Log.from_table({"user": [1, 1, 2], "item": [1, 2, 3]})
TIMED = make_log([(1, 1), (1, 2), (2, 3)])


@pytest.mark.parametrize(
    ("log", "options", "words"),
    [
        (TIMED, {"ratio": 0}, "ratio=0 must be a number > 0 and < 1"),
        (TIMED, {"ratio": 1.0}, "ratio=1.0"),
        (TIMED, {"ratio": float("nan")}, "ratio=nan"),
        (TIMED, {"time_quantile": 2}, "time_quantile=2"),
        (TIMED, {"held_out_users": [1], "given": 1.5}, "given=1.5"),
        (TIMED, {"ratio": 0.5, "last": 1}, "not last and ratio together"),
        (TIMED, {"at": 1, "held_out_users": 1}, "not at and held_out_users together"),
        (TIMED, {"by": "item"}, "by='item' must be one of user, log, last, time"),
        (TIMED, {"last": 0}, "last=0 must be a whole number"),
        (TIMED, {"at": 1}, "all events lie on one side of the time 1: theirs run from 1 to 3"),
        (TIMED, {"at": "2024-01-31"}, "one side of the time 2024-01-31T00:00:00: theirs run from 1970-01-01T00:00:01"),
        (TIMED, {"at": "soon"}, "'soon' is not a time"),
        (TIMED, {"held_out_users": 2}, "held_out_users=2 must leave some of the 2 users in train"),
        (TIMED, {"held_out_users": [1, 2]}, "some of the users, but not all of them"),
        (TIMED, {"held_out_users": True}, "held_out_users=True must be a share"),
        (TIMELESS, {"last": 1}, "the log has no times"),
        (TIMELESS, {"at": 1}, "the log has no times"),
        (TIMELESS, {"time_quantile": 0.5}, "the log has no times"),
    ],
)
def test_bad_options_are_refused_in_plain_words(log, options, words):
    with pytest.raises((DataError, ParameterError)) as caught:
        split(log, **options)
    assert words in str(caught.value)


def test_unknown_held_out_users():
    with pytest.raises(UnknownIdError, match="unknown user id: 9"):
        split(TIMED, held_out_users=[9])


def test_cold_items_leave_train_whole():
    log = synthetic(80, 40, events_per_user=10).log
    train, test = split(log, cold_items=0.2, seed=3)
    hidden = test.item_counts() > 0
    assert hidden.sum() == 8
    assert not train.item_counts()[hidden].any()
    assert (train.user_counts()[test.user_rows] > 0).all()
    assert len(train) + len(test) <= len(log)
    with pytest.raises(ParameterError, match="cold_items"):
        split(log, cold_items=1.5)
    with pytest.raises(DataError, match="together"):
        split(log, 0.8, cold_items=0.1)
