"""A log and what came later are one log: as if all had been read at once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csrr.data import DataError, Log
from csrr.data.log import join_logs

ROWS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(1, 9), st.integers(0, 99)), min_size=1)


def make(rows, *, id_type=int):
    """A log with weights and times."""
    user, item, weight, time = zip(*rows, strict=True)
    columns = {"user": [id_type(each) for each in user], "item": [id_type(each) for each in item]}
    return Log.from_table(columns | {"weight": weight, "time": time})


@settings(deadline=None)
@given(ROWS, ROWS, st.sampled_from([int, lambda number: f"id {number}"]))
def test_it_is_the_log_of_all_rows(old, new, id_type):
    joined = join_logs(make(old, id_type=id_type), make(new, id_type=id_type))
    assert joined == make([*old, *new], id_type=id_type)


def test_of_a_pair_in_both_the_weights_add_up_and_the_latest_time_stays():
    joined = join_logs(make([(1, 1, 2, 50)]), make([(1, 1, 3, 20), (2, 1, 1, 60)]))
    assert joined.weights.tolist() == [5, 1]
    assert joined.times.tolist() == [50, 60]


def test_ids_without_events_stay():
    joined = join_logs(Log.from_matrix(np.eye(3)), Log.from_matrix(np.eye(3, 5)))
    assert (joined.n_users, joined.n_items, len(joined)) == (3, 5, 3)


def test_new_titles_win_and_unknown_ones_do_not():
    old = Log.from_table({"user": [1, 1], "item": [1, 2], "title": ["one", "two"]})
    new = Log.from_table({"user": [1, 1], "item": [2, 3], "title": ["zwei", None]})
    assert join_logs(old, new).titles.tolist() == ["one", "zwei", None]
    assert join_logs(old, Log.from_table({"user": [1], "item": [4]})).titles.tolist() == ["one", "two", None]


def test_ids_of_two_types_are_refused():
    old, new = Log.from_table({"user": [1], "item": ["a"]}), Log.from_table({"user": ["1"], "item": ["a"]})
    with pytest.raises(DataError, match=r"user ids of the new events are strings \('1'\), those known integers \(1\)"):
        join_logs(old, new)
    with pytest.raises(DataError, match="item ids"):
        join_logs(old, Log.from_table({"user": [1], "item": [1]}))


@pytest.mark.parametrize("name", ["weight", "time"])
def test_a_column_that_one_of_them_lacks_is_refused(name):
    plain = Log.from_table({"user": [1], "item": [1]})
    other = Log.from_table({"user": [1], "item": [2], name: [3]})
    with pytest.raises(DataError, match=f"new events have {name}s and the known ones have none"):
        join_logs(plain, other)
    with pytest.raises(DataError, match=f"known events have {name}s and the new ones have none"):
        join_logs(other, plain)
