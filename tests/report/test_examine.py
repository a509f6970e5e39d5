"""What is said of a log is what was put into it."""

import numpy as np
import pytest

import csrr
from csrr.report.contest import hold_out
from csrr.report.examine import examine, find_oddities


def make_log(rows, **more):
    users, items, *rest = zip(*rows, strict=True)
    columns = {"user": users, "item": items, **({"time": rest[0]} if rest else {})}
    return csrr.Log.from_table(columns, **more)


def told(log):
    return " ".join(f"{each.what} {each.action}" for each in find_oddities(log, examine(log)))


@pytest.fixture(scope="module")
def planted():
    """A log of 200 users of 6 events each, and one account that has every one of 150 items."""
    rng = np.random.default_rng(0)
    rows = [(user, item) for user in range(200) for item in rng.choice(150, 6, replace=False).tolist()]
    return make_log(rows + [(999, item) for item in range(150)])


def test_numbers_are_counted(planted):
    facts = examine(planted)
    assert (facts.n_users, facts.n_items, facts.n_events) == (201, 150, 1350)
    assert facts.density == 1350 / (201 * 150)
    assert facts.events_per_user == [6, 6, 6, 6, 150]
    assert facts.n_short == 0
    assert facts.first is None
    counts = np.sort(planted.item_counts())[::-1]
    assert facts.top_share == pytest.approx(counts[:15].sum() / 1350)
    assert facts.popularity[0] == (0, 0)
    assert facts.popularity[-1] == (1, 1)


def test_an_account_with_half_of_the_items_is_named(planted):
    assert examine(planted).machines == [999]
    assert "1 account looks like a bot: 999." in told(planted)


def test_what_a_terminal_would_obey_is_spelled_out():
    rows = [(f"u{user}", item) for user in range(50) for item in range(user, user + 3)]
    assert r"like a bot: \x1b[2J\x0a." in told(make_log(rows + [("\x1b[2J\n", item) for item in range(120)]))


def test_a_burst_is_a_machine_and_a_slow_heavy_user_is_not():
    day = 86_400.0
    others = [(user, (user * 7 + k) % 1000, 1e9 + k * day) for user in range(100) for k in range(10)]
    quick = [("7777", item, 1e9 + 0.5 * item) for item in range(320)]
    slow = [("8888", item, 1e9 + 500.5 * item) for item in range(320)]
    log = make_log([(str(user), item, when) for user, item, when in others + quick + slow])
    # Whoever has ten times the events of the 99th percentile counts too: here that is far above both.
    assert examine(log).machines == ["7777"]


def test_days_alone_tell_of_no_burst():
    rows = [(user, item, 86_400 * 10_000) for user in range(3) for item in range(320)]
    log = make_log(rows + [(user, item, 86_400 * 10_001) for user in range(3, 40) for item in range(user, 1000, 9)])
    assert examine(log).machines == []


def test_repeats_are_counted_and_told():
    log = make_log([(user, item) for user in range(20) for item in range(10)] + [(0, 0), (0, 0), (1, 3)])
    assert log.columns.n_repeats == 3
    assert examine(log).n_repeats == 3
    assert "3 rows (1.5 %) repeat a pair" in told(log)


def test_ratings_left_in_and_times_from_the_future_are_odd():
    n = 40
    table = {
        "user": np.arange(n) % 8,
        "item": np.arange(n) % 13,
        "rating": np.arange(n) % 5 + 1,
        "time": np.full(n, 9e9),
    }
    table["time"][0] = 1e9
    said = told(csrr.Log.from_table(table))
    assert "holds ratings from 1 to 5" in said
    assert "--min-rating 4" in said
    assert "from 2001-09-09 to 2255-03-14" in said
    assert "97.5 % of the events have the same time" in said
    assert "--min-rating" not in told(csrr.Log.from_table(table, min_rating=1))


def test_short_users_and_single_items_are_odd():
    log = make_log([(user, item) for user in range(50) for item in (user * 2, user * 2 + 1)])
    assert examine(log).n_short == 50
    assert "100.0 % of the users have fewer than 5 events" in told(log)
    assert "100.0 % of the items were chosen only once" in told(log)


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
    assert test.n_judged == 300


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
