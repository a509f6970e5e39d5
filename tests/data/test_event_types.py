"""Logs of several types of events: what each pair keeps, what split holds out, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import csrr
from csrr.data.log import join_logs

WEIGHTS = {"view": 1, "cart": 3, "buy": 10}
TABLE = {
    "user": ["ann", "ann", "ann", "ann", "bob", "bob"],
    "item": [1, 1, 1, 2, 1, 3],
    "type": ["view", "view", "buy", "view", "cart", "view"],
    "time": [10, 20, 30, 40, 50, 60],
}


def read(table=TABLE, **given):
    return csrr.read(table, **{"event": "type", "weights": WEIGHTS, "target": "buy"} | given)


def test_a_pair_keeps_all_its_types():
    log = read()
    assert log.columns.event == "type"
    assert log.types.names == ("view", "cart", "buy")
    assert log.types.amounts.tolist() == [[2, 0, 10], [1, 0, 0], [0, 3, 0], [1, 0, 0]]
    assert log.weights.tolist() == [12, 1, 3, 1]
    assert log.types.times[0].tolist()[::2] == [20, 30]
    assert log.times.tolist() == [30, 40, 50, 60]
    assert log.is_target.tolist() == [True, False, False, False]
    assert len(log.of_target()) == 1
    assert log.to_arrow()["types"].to_pylist() == ["view|buy", "view", "cart", "view"]
    assert repr(log).endswith("event types: view 3, cart 1, buy 1; the target is buy")
    assert read(target=None).is_target.all()


@pytest.mark.parametrize(
    ("column", "weights"),
    [([1, 1, 2, 1, 1, 1], {1: 1, 2: 5}), ([False, False, True, False, False, False], {False: 1, True: 5})],
)
def test_types_of_other_kinds(column, weights):
    log = csrr.read(TABLE | {"type": column}, event="type", weights=weights, target=list(weights)[1])
    assert log.is_target.tolist() == [True, False, False, False]


def test_a_weight_column_multiplies():
    log = read(TABLE | {"quantity": [1, 1, 4, 1, 1, 1]})
    assert log.types.amounts[0].tolist() == [2, 0, 40]
    assert csrr.read(TABLE | {"weight": [0, 0, 1, 1, 1, 1]}, event=2, weights=WEIGHTS).types.amounts[0, 0] == 0


def test_types_that_are_left_out(write):
    log = read(weights=WEIGHTS | {"view": 0})
    assert log.types.names == ("cart", "buy")
    assert len(log) == 2
    path = write("e.csv", "user,item,type\n1,2,view\n1,3, buy \n1,4,remove\n2,2,\n")
    with pytest.warns(csrr.DataWarning, match="skipped 2 of 4 rows that are bad; the first is line 4"):
        log = read(path, on_bad_rows="skip")
    assert log.types.amounts.tolist() == [[1, 0, 0], [0, 0, 10]]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"weights": {"buy": 1}},
            "column 'type' has event types without a weight: 'view' (4), 'cart' (1); the first is in row 1; give each"
            " one, 0 to leave it out, or pass on_bad_rows='skip'",
        ),
        ({"weights": None}, "event='type' needs a weight for each type, such as weights={"),
        ({"weights": [1]}, "'buy': 10}, not [1]"),
        ({"weights": WEIGHTS | {"view": -1}}, "weights={'view': -1} must be a number >= 0"),
        ({"weights": WEIGHTS | {"view": "1"}}, "weights={'view': '1'} must be a number >= 0"),
        ({"weights": {"view": 0}, "target": None}, "must have a weight above 0 for at least one event type"),
        ({"weights": WEIGHTS | {" view": 1}}, "names the event type 'view' twice"),
        ({"weights": WEIGHTS | {1.5: 1}}, "1.5 is no event type; types are strings or integers"),
        ({"weights": {str(n): 1 for n in range(65)}}, "at most 64 are possible"),
        ({"target": "sale"}, "target='sale' must be an event type with a weight above 0: 'view', 'c"),
        ({"target": ["buy"]}, "['buy'] is no event type"),
        ({"event": "kind"}, "event='kind': there is no such column"),
        ({"event": "time", "weights": {10: 1}, "target": None}, "column 'time' has event types without a weight"),
    ],
)
def test_what_is_refused(given, message):
    with pytest.raises((csrr.DataError, csrr.ParameterError)) as caught:
        read(**given)
    assert message in str(caught.value)


def test_what_a_log_of_types_does_not_do():
    with pytest.raises(csrr.ParameterError, match="min_weight= is for the table that this log was read from"):
        csrr.read(read(), min_weight=2)
    with pytest.raises(csrr.DataError, match="column 'type', row 1: the value is missing"):
        read({"user": [1], "item": [1], "type": [None]})
    with pytest.raises(csrr.DataError, match="values, not event types"):
        read({"user": [1], "item": [1], "type": [[1]]})
    with pytest.warns(csrr.DataWarning, match="no event is of the target type 'buy'"):
        read({"user": [1], "item": [1], "type": ["view"]})


def test_logs_are_joined_by_type():
    old, new = read(), read({"user": ["bob", "cy"], "item": [1, 1], "type": ["buy", "view"], "time": [70, 80]})
    both = join_logs(old, new)
    more = {"user": ["bob", "cy"], "item": [1, 1], "type": ["buy", "view"], "time": [70, 80]}
    table = {name: [*column, *more[name]] for name, column in TABLE.items()}
    assert both == read(table)
    with pytest.raises(csrr.DataError, match="the known events have types and the new ones have none"):
        join_logs(old, csrr.read({"user": ["bob"], "item": [1], "count": [1], "time": [1]}))
    with pytest.raises(csrr.DataError, match="read both with the same weights= and target="):
        join_logs(old, read(target=None))


def test_every_type_decays():
    log = read()
    decayed = log.decay(20 / 86_400)
    assert decayed.types.sum_weights().tolist() == pytest.approx(decayed.weights.tolist())
    assert decayed.weights[2] == pytest.approx(3 * 0.5**0.5)


def test_planted_noise_has_types():
    log = read()
    noisy = csrr.add_noise(log, "random", 0.3)
    assert noisy.log.types.cells.any(axis=1).all()
    assert noisy.log.select(~noisy.planted).types.amounts.tolist() == log.types.amounts.tolist()


class TestSplit:
    def test_in_time(self):
        train, test = csrr.split(read(), at=25)
        assert train.to_arrow().to_pylist() == [{"user": "ann", "item": 1, "weight": 2, "types": "view", "time": 20}]
        assert test.to_arrow().to_pylist() == [{"user": "ann", "item": 1, "weight": 10, "types": "buy", "time": 30}]
        with pytest.raises(csrr.DataError, match="no event of the target type 'buy' is at or after"):
            csrr.split(read(), at=35)

    def test_last(self):
        table = {
            "user": [1, 1, 1, 1, 1, 2, 2, 3],
            "item": [1, 1, 2, 3, 3, 1, 1, 1],
            "type": ["view", "buy", "buy", "view", "buy", "buy", "view", "view"],
            "time": [1, 2, 3, 4, 5, 1, 2, 1],
        }
        train, test = csrr.split(read(table), last=2)
        assert list(zip(test.user_rows, test.items.ids[test.item_rows], strict=True)) == [(0, 2), (0, 3)]
        # What is viewed after the first held-out purchase is in no part; who begins with a purchase keeps it.
        assert train.to_arrow()["types"].to_pylist() == ["view|buy", "view|buy", "view"]

    def test_a_view_at_the_same_time_comes_before(self):
        table = {"user": [1, 1], "item": [1, 1], "type": ["buy", "view"], "time": [5, 5]}
        train, test = csrr.split(read(table), last=1)
        assert (train.types.list_names(), test.types.list_names()) == (["view"], ["buy"])

    def test_a_share_of_the_target(self):
        rng = np.random.default_rng(0)
        n = 2000
        table = {"user": rng.integers(40, size=n), "item": rng.integers(50, size=n), "time": rng.integers(99, size=n)}
        log = read(table | {"type": rng.choice(["view", "buy"], n)})
        train, test = csrr.split(log, 0.75)
        assert len(test) == pytest.approx(log.is_target.sum() / 4, rel=0.05)
        assert test.types.list_names() == ["buy"] * len(test)
        assert join_logs(train, test).types.amounts.tolist() == log.types.amounts.tolist()
        train, given, asked = csrr.split(log, held_out_users=10)
        assert set(asked.types.list_names()) == {"buy"}
        assert not set(train.user_rows) & set(given.user_rows)
        train, test = csrr.split(log, 0.75, by="log")
        assert len(test) == round(log.is_target.sum() / 4)


EVENTS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 4), st.sampled_from(["view", "cart", "buy"]), st.integers(0, 9)),
    min_size=1,
    max_size=40,
)


@settings(max_examples=60)
@given(EVENTS, st.integers(1, 3))
@pytest.mark.filterwarnings("ignore::csrr.DataWarning")
def test_the_last_by_a_naive_loop(events, last):
    log = read(dict(zip(("user", "item", "type", "time"), map(list, zip(*events, strict=True)), strict=True)))
    train, test = csrr.split(log, last=last)
    cells, latest = {}, {}
    for row, (user, item, kind, time) in enumerate(events):
        cells[user, item, kind] = max(time, cells.get((user, item, kind), -1))
        latest[user, item] = max((time, row), latest.get((user, item), (-1, -1)))
    wanted, held = set(), set()
    for user in {each[0] for each in events}:
        mine = sorted(
            (time, kind == "buy", latest[who, item], list(WEIGHTS).index(kind), (user, item, kind))
            for (who, item, kind), time in cells.items()
            if who == user
        )
        places = [place for place, each in enumerate(mine) if each[1] and place > 0][-last:]
        held |= {mine[place][-1] for place in places}
        wanted |= {each[-1] for each in mine[: places[0] if places else len(mine)]}

    def list_cells(part):
        rows, kinds = np.nonzero(part.types.cells)
        ids = log.users.ids[part.user_rows[rows]].tolist(), log.items.ids[part.item_rows[rows]].tolist()
        return set(zip(*ids, [part.types.names[kind] for kind in kinds], strict=True))

    assert (list_cells(train), list_cells(test)) == (wanted, held)
