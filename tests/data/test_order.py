"""The order of events: by time, ties by the rows that were read, or as declared; what keeps it."""

import pickle
import sqlite3

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import csrr
from csrr.data.log import join_logs
from csrr.models.held_out import hold_out

ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 4)), min_size=1)


def read(rows, **options):
    """A log of (user, item) or (user, item, time) rows."""
    columns = dict(zip(("user", "item", "time"), map(list, zip(*rows, strict=True)), strict=False))
    return csrr.read(columns, **options)


def list_histories(log):
    """The items of each user, oldest first, by a plain sort of the ages."""
    ages, found = log.find_ages(), {}
    for event in np.argsort(-ages, kind="stable"):
        found.setdefault(log.users.ids[log.user_rows[event]], []).append(int(log.items.ids[log.item_rows[event]]))
    return found


def order_naively(rows):
    """The same by a loop: the latest event of each pair, by time, then row."""
    latest = {}
    for number, (user, item, *time) in enumerate(rows):
        latest[user, item] = max(latest.get((user, item), ((), -1)), (tuple(time), number))
    found = {}
    for user, item in sorted(latest, key=latest.get):
        found.setdefault(user, []).append(item)
    return found


@given(ROWS)
def test_times_give_the_order_and_rows_break_ties(rows):
    log = read(rows)
    assert log.is_ordered
    assert list_histories(log) == order_naively(rows)
    theirs = log.find_order()
    assert (np.diff(log.user_rows[theirs]) >= 0).all()
    assert np.array_equal(np.sort(theirs), np.arange(len(log)))


@given(ROWS)
def test_declared_order_is_that_of_the_rows(rows):
    rows = [row[:2] for row in rows]
    assert list_histories(read(rows, ordered=True)) == order_naively(rows)


@given(ROWS, st.randoms())
def test_order_survives_selecting_splitting_and_joining(rows, random):
    pairs = [row[:2] for row in rows]
    for log in (read(rows), read(pairs, ordered=True)):
        mask = np.array([random.random() < 0.5 for _ in range(len(log))])
        part = log.select(mask)
        kept = {(u, i) for u, i in zip(log.users.ids[part.user_rows], log.items.ids[part.item_rows], strict=True)}
        expected = {
            user: left
            for user, items in list_histories(log).items()
            if (left := [i for i in items if (user, i) in kept])
        }
        assert list_histories(part) == expected
    cut = random.randrange(len(rows) + 1)
    if 0 < cut < len(rows):
        assert list_histories(join_logs(read(rows[:cut]), read(rows[cut:]))) == order_naively(rows)
        old, new = (read(part, ordered=True) for part in (pairs[:cut], pairs[cut:]))
        assert list_histories(join_logs(old, new)) == order_naively(pairs)


def test_ages_are_the_numbers_of_later_events():
    log = read([(1, 9, 30), (1, 7, 10), (1, 8, 10), (2, 9, 5)])
    assert log.items.ids[log.item_rows].tolist() == [7, 8, 9, 9]
    assert log.find_ages().tolist() == [2, 1, 0, 0]


def test_a_log_without_order_says_how_to_give_one():
    log = read([(1, 2), (1, 3)])
    assert not log.is_ordered
    for call in (log.find_ages, log.find_order, lambda: csrr.split(log, last=1)):
        with pytest.raises(csrr.DataError, match=r"read it with a column of times, or, .* in order, with ordered=True"):
            call()


def test_every_reader_takes_a_declared_order(tmp_path):
    table = {"user": [1, 1, 1], "item": [9, 7, 8]}
    (tmp_path / "log.csv").write_text("user,item\n1,9\n1,7\n1,8\n")
    for log in (csrr.Log.from_table(table, ordered=True), csrr.read(tmp_path / "log.csv", ordered=True)):
        assert log.find_ages().tolist() == [1, 0, 2]
    with pytest.raises(csrr.ParameterError, match="must be True or False"):
        csrr.Log.from_table(table, ordered="yes")


def test_order_and_its_absence_make_logs_differ():
    rows = [(1, 2), (1, 3)]
    assert read(rows, ordered=True) == read([(1, 2), (1, 2), (1, 3)], ordered=True)
    assert read(rows, ordered=True) != read(rows[::-1], ordered=True)
    assert read(rows, ordered=True) != read(rows)
    assert "in order" in repr(read(rows, ordered=True))


@pytest.mark.parametrize("given", [1, "yes", None])
def test_ordered_is_true_or_false(given):
    with pytest.raises(csrr.ParameterError, match="must be True or False"):
        read([(1, 2)], ordered=given)


def test_times_and_a_declared_order_contradict_each_other():
    rows = [(1, 2, 9), (1, 3, 5)]
    with pytest.raises(csrr.ParameterError, match="'time' holds times, which give the order; leave it out"):
        read(rows, ordered=True)
    assert list_histories(read(rows, ordered=True, time=False)) == {1: [2, 3]}


def test_matrices_and_logs_cannot_be_declared_ordered():
    with pytest.raises(csrr.ParameterError, match="a matrix does not say what came first"):
        csrr.read(np.eye(2), ordered=True)
    with pytest.raises(csrr.ParameterError, match="that a log is read from"):
        csrr.read(read([(1, 2)]), ordered=True)


def test_an_ordered_log_comes_back_from_its_table():
    log = read([(2, 5), (1, 9), (1, 2), (2, 1)], ordered=True)
    assert csrr.read(log.to_frame(), ordered=True) == log
    assert csrr.read(log, min_weight=None) is log
    assert csrr.read(log, ordered=True) is log
    assert log.to_arrow()["item"].to_pylist() == [9, 2, 5, 1]


def test_user_lists_are_read_in_order(tmp_path):
    (tmp_path / "sequences.txt").write_text("1 9 7 8 9\n2 5\n")
    (tmp_path / "attributes.json").write_text("{}")
    for source in (tmp_path, tmp_path / "sequences.txt"):
        assert list_histories(csrr.read(source, ordered=True)) == {1: [7, 8, 9], 2: [5]}
        assert not csrr.read(source).is_ordered


def test_a_query_is_read_in_order():
    shop = sqlite3.connect(":memory:")
    shop.execute("CREATE TABLE orders (customer_id, item)")
    shop.executemany("INSERT INTO orders VALUES (1, ?)", [(5,), (3,), (4,)])
    query = "SELECT * FROM orders ORDER BY rowid DESC"
    assert list_histories(csrr.read_sql(query, shop, ordered=True)) == {1: [4, 3, 5]}
    assert list_histories(csrr.read(shop, query=query, ordered=True)) == {1: [4, 3, 5]}


def test_only_one_of_two_logs_in_order_is_refused():
    with pytest.raises(csrr.DataError, match="only some are in order"):
        join_logs(read([(1, 2)], ordered=True), read([(1, 3)]))


def test_the_last_events_of_an_ordered_log_are_held_out():
    log = read([(1, 9), (1, 7), (1, 8), (2, 7)], ordered=True)
    train, test = csrr.split(log, last=1)
    assert (list_histories(train), list_histories(test)) == ({1: [9, 7], 2: [7]}, {1: [8]})
    assert train.cut == "last"


def test_the_last_purchases_of_an_ordered_log_are_held_out():
    events = [("view", 1), ("buy", 2), ("view", 3), ("buy", 3), ("view", 4)]
    table = {"user": [1] * 5, "item": [item for _, item in events], "type": [kind for kind, _ in events]}
    log = csrr.read(table, event="type", weights={"view": 1, "buy": 1}, target="buy", ordered=True)
    train, test = csrr.split(log, last=1)
    assert test.to_arrow().select(["item", "types"]).to_pylist() == [{"item": 3, "types": "buy"}]
    assert train.to_arrow()["item"].to_pylist() == [1, 2, 3]
    assert train.to_arrow()["types"].to_pylist() == ["view", "buy", "view"]


def test_the_search_holds_out_the_last_events():
    rng = np.random.default_rng(0)
    rows = [(user, int(item)) for user in range(200) for item in rng.permutation(40)[:20]]
    log = read(rows, ordered=True)
    rest, held, _ = hold_out(log, 0, "last")
    histories = list_histories(log)
    for user, items in list_histories(held).items():
        assert histories[user][-len(items) :] == items
    assert list_histories(rest).keys() == histories.keys()


def test_noise_and_pickles_keep_an_order():
    log = read([(user, item) for user in range(20) for item in (7, 3, 5, 1)], ordered=True)
    noisy = csrr.add_noise(log, "crawler", 0.2)
    assert list_histories(noisy.log.select(~noisy.planted)) == list_histories(log)
    assert pickle.loads(pickle.dumps(log)) == log


@pytest.mark.filterwarnings("ignore:.* at one time")
@given(ROWS, st.floats(0.05, 0.95))
def test_the_last_share_of_each_user(rows, ratio):
    for log in (read(rows), read([row[:2] for row in rows], ordered=True)):
        train, test = csrr.split(log, ratio, by="last")
        for user, items in list_histories(log).items():
            n_train = max(1, int(ratio * len(items) + 0.5 + 1e-9))
            assert list_histories(train)[user] == items[:n_train]
            assert list_histories(test).get(user, []) == items[n_train:]
        train, test = csrr.split(log, by="last")
        assert (train, test) == csrr.split(log, last=1)


@pytest.mark.filterwarnings("ignore:.* at one time")
@given(ROWS, st.integers(1, 4))
def test_a_cut_in_time_keeps_what_was_there_before(rows, at):
    log = read(rows)
    before = {(u, i) for (u, i), t in latest_times(rows).items() if t < at}
    after = {pair for pair in latest_times(rows) if pair not in before}
    users, items = ({pair[place] for pair in before} for place in (0, 1))
    wanted = {(u, i) for u, i in after if u in users and i in items}
    if not wanted:
        with pytest.raises(csrr.DataError, match=r"one side of the time|cut elsewhere"):
            csrr.split(log, by="time", at=at)
        return
    train, test = csrr.split(log, by="time", at=at)
    assert train.cut == "time"
    assert list_pairs(train) == before
    assert list_pairs(test) == wanted


def latest_times(rows):
    found = {}
    for user, item, time in rows:
        found[user, item] = max(time, found.get((user, item), -1))
    return found


def list_pairs(log):
    return {(u, i) for u, items in list_histories(log).items() for i in items}


def test_a_share_of_all_events_in_time_is_a_quantile():
    rng = np.random.default_rng(0)
    rows = [(int(u), int(i), int(t)) for u, i, t in rng.integers(0, [20, 30, 10_000], (600, 3))]
    train = csrr.split(read(rows), 0.7, by="time")[0]
    assert train == csrr.split(read(rows), time_quantile=0.7)[0]
    assert train == csrr.split(read(rows), time_quantile=0.7, by="time")[0]
    assert abs(len(train) / len(latest_times(rows)) - 0.7) < 0.01


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"by": "last", "at": 3}, "by='last' goes with last or ratio, not at"),
        ({"by": "time", "last": 2}, "by='time' goes with at or ratio or time_quantile, not last"),
        ({"by": "first"}, "by='first' must be one of user, log, last, time"),
        ({"by": "last", "ratio": 1}, "ratio=1 must be a number > 0 and < 1"),
        ({"by": "time"}, "the log has no times"),
        ({"by": "last", "held_out_users": 1}, "by='last' goes with last or ratio, not held_out_users"),
    ],
)
def test_what_does_not_go_together_is_refused(options, words):
    with pytest.raises((csrr.DataError, csrr.ParameterError), match=words):
        csrr.split(read([(1, 2), (1, 3)], ordered=True), **options)


@pytest.mark.parametrize("options", [{"by": "last"}, {"last": 2}, {"at": 5}, {"time_quantile": 0.5}])
def test_times_of_loading_are_warned_of(options):
    loaded = [(user, item, user) for user in range(12) for item in range(6)]
    with pytest.warns(csrr.DataWarning, match="100% of the users have most of their events at one time.*ordered=True"):
        csrr.split(read(loaded), **options)
    # Two events at one time are no sign of it, nor are single events.
    several = [(user, item, item // 2) for user in range(12) for item in range(6)]
    csrr.split(read(several), by="last")
    csrr.split(read([(user, 0, 1) for user in range(9)] + [(0, 1, 2)]), last=1)
    csrr.split(read(loaded), 0.5)
    csrr.split(read(loaded[:24]), by="last")
