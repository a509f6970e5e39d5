"""What is said of a log is what was put into it."""

import numpy as np
import pytest

import csrr
from csrr.report.log_facts import compute_log_facts, find_anomalies
from tests.report.conftest import make_log


def told(log):
    return " ".join(f"{each.what} {each.action}" for each in find_anomalies(log, compute_log_facts(log)))


def test_numbers_are_counted(planted):
    facts = compute_log_facts(planted)
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
    assert compute_log_facts(planted).machines == [999]
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
    assert compute_log_facts(log).machines == ["7777"]


def test_days_alone_tell_of_no_burst():
    rows = [(user, item, 86_400 * 10_000) for user in range(3) for item in range(320)]
    log = make_log(rows + [(user, item, 86_400 * 10_001) for user in range(3, 40) for item in range(user, 1000, 9)])
    assert compute_log_facts(log).machines == []


def test_repeats_are_counted_and_told():
    log = make_log([(user, item) for user in range(20) for item in range(10)] + [(0, 0), (0, 0), (1, 3)])
    assert log.columns.n_repeats == 3
    assert compute_log_facts(log).n_repeats == 3
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
    assert compute_log_facts(log).n_short == 50
    assert "100.0 % of the users have fewer than 5 events" in told(log)
    assert "100.0 % of the items were chosen only once" in told(log)
