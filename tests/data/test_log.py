from collections import defaultdict
from datetime import UTC, date, datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from csrr.data.errors import DataError, UnknownIdError
from csrr.data.ids import IdMap
from csrr.data.log import Log, as_log, join_logs

COLUMNS = {
    "user": ["b", "a", "b", "c"],
    "item": [30, 20, 10, 10],
    "rating": [5, 3, 1, 4],
    "timestamp": [4, 3, 2, 1],
    "title": ["thirty", "twenty", "ten", "ten"],
}
EVENTS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.integers(0, 4), st.floats(0, 100, width=32), st.integers(0, 9)).filter(
        lambda event: event[2] == 0 or event[2] > 1e-30
    ),
    min_size=1,
)


def table(events):
    return dict(zip(("user", "item", "weight", "time"), map(list, zip(*events, strict=True)), strict=True))


def test_a_log_of_a_table():
    log = Log.from_table(COLUMNS, min_rating=3)

    assert repr(log).splitlines() == [
        "Log: 3 users x 3 items, 3 events (33 %), titles, times",
        "user 'user', item 'item', rating 'rating', time 'timestamp', title 'title'; ratings from 3 on count",
    ]
    assert (log.n_users, log.n_items, len(log), log.density) == (3, 3, 3, 1 / 3)
    assert log.users.ids.tolist() == ["a", "b", "c"]
    assert log.items.ids.tolist() == [10, 20, 30]
    assert log.user_rows.tolist() == [0, 1, 2]
    assert log.item_rows.tolist() == [1, 2, 0]
    assert log.times.tolist() == [3, 4, 1]
    assert log.titles.tolist() == ["ten", "twenty", "thirty"]
    assert log.title(1) == "twenty"
    assert log.weights is None
    assert log.history("b").tolist() == [30]
    assert log.user_counts().tolist() == log.item_counts().tolist() == [1, 1, 1]


def test_the_paper_sized_repr():
    log = Log(IdMap.range(1000), IdMap.range(2000), [0, 1], [5, 6], weights=[1, 2])
    assert repr(log) == "Log: 1,000 users x 2,000 items, 2 events (0.0001 %), weights"


def test_only_ids_with_an_event_left_are_in_the_log():
    log = Log.from_table(COLUMNS, min_rating=4)
    assert log.users.ids.tolist() == ["b", "c"]
    assert log.items.ids.tolist() == [10, 30]


@pytest.mark.parametrize(
    "convert",
    [
        pd.DataFrame,
        pl.DataFrame,
        pa.table,
        lambda c: pl.DataFrame(c).with_columns(pl.col("user").cast(pl.Categorical)),
        lambda c: pl.concat([pl.DataFrame(c)[:2], pl.DataFrame(c)[2:]], rechunk=False),
        lambda c: pd.DataFrame(c).astype({"user": "category", "item": "float", "title": "string"}),
        lambda c: pa.concat_tables([pa.table(c)[:1].combine_chunks(), pa.table(c)[1:]]),
        lambda c: pa.table(
            c
            | {
                "user": pa.chunked_array(
                    [pa.array(c["user"][:2]).dictionary_encode(), pa.array(c["user"][2:]).dictionary_encode()]
                )
            }
        ),
    ],
)
def test_tables_of_every_kind_give_the_same_log(convert):
    assert as_log(convert(COLUMNS)) == as_log(COLUMNS)


def test_anything_with_an_arrow_stream_is_a_table():
    class Stream:
        def __arrow_c_stream__(self, schema=None):
            return pa.table(COLUMNS).__arrow_c_stream__(schema)

    assert as_log(Stream()) == as_log(COLUMNS)


def test_a_log_passes_through():
    log = as_log(COLUMNS)
    assert as_log(log) is log


@given(EVENTS)
def test_merging_agrees_with_a_naive_loop(events):
    weights, times = defaultdict(float), defaultdict(int)
    for user, item, weight, time in events:
        if weight > 0:
            weights[user, item] += weight
            times[user, item] = max(times[user, item], time)
    if not weights:
        with pytest.raises(DataError, match="0 with a weight above 0"):
            Log.from_table(table(events))
        return

    log = Log.from_table(table(events))

    pairs = list(zip(log.users.ids[log.user_rows], log.items.ids[log.item_rows], strict=True))
    assert pairs == sorted(weights)
    np.testing.assert_allclose(log.weights, [weights[pair] for pair in pairs], rtol=1e-6)
    assert log.times.tolist() == [times[pair] for pair in pairs]


@given(EVENTS.filter(lambda events: any(event[2] > 0 for event in events)), st.randoms())
def test_the_order_of_the_rows_does_not_matter(events, random):
    shuffled = random.sample(events, len(events))
    assert Log.from_table(table(events)) == Log.from_table(table(shuffled))


def test_min_weight_applies_after_merging():
    columns = {"user": [1, 1, 2, 3], "item": [1, 1, 1, 2], "plays": [2, 3, 4, 9]}
    log = Log.from_table(columns, min_weight=5)
    assert log.users.ids.tolist() == [1, 3]
    assert log.weights.tolist() == [5, 9]


def test_weight_zero_did_not_happen(caplog):
    with caplog.at_level("INFO"):
        log = Log.from_table({"user": [1, 1, 2], "item": [1, 1, 2], "weight": [1, 0, 0], "time": [1, 9, 9]})
    assert log.users.ids.tolist() == [1]
    assert log.times.tolist() == [1]
    assert "dropped 2 rows of weight 0" in caplog.text


def test_of_several_titles_the_first_in_the_alphabet_is_kept():
    columns = {"user": [1, 2, 3, 4], "item": [1, 1, 1, 2], "title": ["b", "a", "", None]}
    assert Log.from_table(columns).titles.tolist() == ["a", None]


def test_given_titles_win():
    log = Log.from_table(COLUMNS, titles={10: "x", "20": "y"})
    assert log.titles.tolist() == ["x", "y", None]


@pytest.mark.parametrize(
    "names",
    [
        ("user_id", "item_id", "Score", "Time Stamp"),
        ("userId", "movieId", "rating", "timestamp"),
        ("user_id:token", "item_id:token", "rating:float", "timestamp:float"),
        ("CUSTOMER-ID", "asin", "stars", "date"),
        ("uid", "iid", "vote", "ts"),
    ],
)
def test_columns_are_recognized(names):
    values = ([1, 2], ["x", "y"], [1, 5], [10, 20])
    log = Log.from_table(dict(zip(names, values, strict=True)), min_rating=2)
    assert (log.users.ids.tolist(), log.items.ids.tolist(), log.times.tolist()) == ([2], ["y"], [20])


def test_the_plainer_name_wins():
    log = Log.from_table({"session_id": [1], "user_id": [2], "artist": [3], "item": [4]})
    assert (log.users.ids.tolist(), log.items.ids.tolist()) == ([2], [4])


def test_columns_by_name_by_position_and_left_out():
    columns = {"who": [1], "what": [2], "rating": ["good"], "n": [3]}
    log = Log.from_table(columns, user="who", item=1, weight="n", rating=False)
    assert (log.users.ids.tolist(), log.items.ids.tolist(), log.weights.tolist()) == ([1], [2], [3])


@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        ([0, 86400], [0, 86400]),
        ([0.5, 1.5], [0.5, 1.5]),
        (["0", "86400"], [0, 86400]),
        (["1970-01-01", "1970-01-02"], [0, 86400]),
        (["1970-01-01T00:00:01Z", "1970-01-01T02:00:00+02:00"], [1, 0]),
        (["1970-01-02", "1970-01-01T00:00:01.5Z"], [86400, 1.5]),
        ([date(1970, 1, 1), date(1970, 1, 2)], [0, 86400]),
        ([datetime(1970, 1, 1, 1), datetime(1970, 1, 2)], [3600, 86400]),
        ([datetime(1970, 1, 1, 1, tzinfo=UTC), datetime(1970, 1, 2, tzinfo=UTC)], [3600, 86400]),
        (np.array(["1970-01-01", "1970-01-02"], "datetime64[ns]"), [0, 86400]),
    ],
)
def test_times_become_numbers(times, seconds):
    assert Log.from_table({"user": [1, 2], "item": [1, 1], "time": times}).times.tolist() == seconds


def test_select_keeps_row_numbers_and_titles():
    log = as_log(COLUMNS)
    part = log.select(log.user_rows == 1)
    assert len(part) == 2
    assert part.users == log.users
    assert part.titles.tolist() == log.titles.tolist()
    assert part.user_counts().tolist() == [0, 2, 0]
    assert part.history("a").tolist() == []
    assert len(log.select(np.zeros(len(log), bool))) == 0


@pytest.mark.parametrize("mask", [np.ones(3, bool), np.arange(4), [True]])
def test_a_mask_has_one_bool_an_event(mask):
    with pytest.raises(DataError, match=r"it must be bool of shape \(4,\)"):
        as_log(COLUMNS).select(mask)


def test_matrix_of_a_log():
    log = Log.from_table({"user": [1, 0, 1], "item": [2, 1, 0], "count": [4, 5, 6]})
    matrix = log.to_csr()
    assert matrix.dtype == log.to_csr(weighted=True).dtype == np.float32
    assert matrix.toarray().tolist() == [[0, 1, 0], [1, 0, 1]]
    assert log.to_csr(weighted=True).toarray().tolist() == [[0, 5, 0], [6, 0, 4]]
    matrix.data[:] = 7
    matrix.indices[:] = 0
    assert log.to_csr().toarray().tolist() == [[0, 1, 0], [1, 0, 1]]
    with pytest.raises(DataError, match="no weights"):
        as_log(COLUMNS).to_csr(weighted=True)


def test_a_log_survives_a_round_trip_through_its_table():
    columns = {name: values for name, values in COLUMNS.items() if name != "rating"} | {"weight": [1, 2, 3, 4]}
    log = as_log(columns)
    assert log.to_arrow().column_names == ["user", "item", "weight", "time", "title"]
    assert as_log(log.to_arrow()) == log
    assert as_log(log.to_frame()) == log


def test_a_log_cannot_be_changed():
    log = Log.from_table(COLUMNS, weight="rating", rating=False)
    for array in (log.user_rows, log.item_rows, log.weights, log.times, log.titles):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]
    with pytest.raises(AttributeError):
        log.times = None


def test_logs_that_differ_anywhere_are_not_equal():
    log = as_log(COLUMNS)
    changed = [COLUMNS | {name: COLUMNS[name][::-1]} for name in ("user", "timestamp", "title")]
    for columns in (*changed, {name: COLUMNS[name] for name in ("user", "item")}):
        assert as_log(columns) != log


def test_one_user_and_one_item_are_a_log():
    log = as_log({"user": ["only"], "item": [1]})
    assert repr(log) == "Log: 1 users x 1 items, 1 events (100 %)\nuser 'user', item 'item'"


def test_an_unknown_user_has_no_history():
    with pytest.raises(UnknownIdError, match="unknown user id: 'z'"):
        as_log(COLUMNS).history("z")


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"user_rows": [0, 0], "item_rows": [1, 0]}, "sorted"),
        ({"user_rows": [0, 0], "item_rows": [1, 1]}, "distinct"),
        ({"user_rows": [0, 2], "item_rows": [0, 0]}, "outside"),
        ({"user_rows": [-1, 0], "item_rows": [0, 0]}, "outside"),
        ({"user_rows": [0], "item_rows": [0, 1]}, "item_rows has shape"),
        ({"user_rows": [0], "item_rows": [0], "weights": [0]}, "finite and > 0"),
        ({"user_rows": [0], "item_rows": [0], "titles": ["a"]}, "titles has shape"),
    ],
)
def test_the_constructor_checks(arrays, words):
    with pytest.raises(DataError, match=words):
        Log(IdMap.range(2), IdMap.range(2), **arrays)


GOOD = {"user": [1, 2, 3], "item": [1, 2, 3]}


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        (GOOD | {"count": [1, -2, 3]}, {}, "column 'count', row 2: the weight -2"),
        (GOOD | {"count": [1, 2, np.inf]}, {}, "column 'count', row 3: the weight inf"),
        (GOOD | {"count": [1, 2, np.nan]}, {}, "column 'count', row 3: the value is missing"),
        (GOOD | {"count": [1, 2, 1e39]}, {}, "column 'count', row 3: the weight 1e+39"),
        ({"user": [1, 1], "item": [1, 1], "count": [3e38, 3e38]}, {}, "add up to 6e+38"),
        (GOOD | {"rating": [1, np.nan, 3]}, {}, "column 'rating', row 2: the value is missing"),
        (GOOD | {"rating": ["1", "2", "x"]}, {}, "column 'rating', row 3: 'x' is not a number"),
        (GOOD | {"rating": [[1], [2], [3]]}, {}, "column 'rating', row 1: [1] is not a number"),
        (GOOD | {"time": [1.0, np.nan, 3.0]}, {}, "column 'time', row 2: the value is missing"),
        (GOOD | {"time": [1.0, np.inf, 3.0]}, {}, "column 'time', row 2: an infinite time"),
        (GOOD | {"time": ["2000-01-01", "soon", "x"]}, {}, "column 'time', row 2: 'soon' is not a time"),
        (GOOD | {"title": [[1], [2], [3]]}, {}, "column 'title' holds list<item: int64> values"),
        ({"user": [1, "x"], "item": [1, 2]}, {}, "column 'user', row 2: 'x' is a string"),
        ({"user": [1, None], "item": [1, 2]}, {}, "column 'user', row 2: the value is missing"),
        ({"user": [1, 2], "item": [1.0, 0.5]}, {}, "column 'item', row 2: 0.5 is not a 64-bit integer"),
        ({"user": [1, 2], "item": [1]}, {}, "columns differ in length: {'user': 2, 'item': 1}"),
        ({"user": [], "item": []}, {}, "the table has no rows"),
        ({"user": 5, "item": [1]}, {}, "column 'user' is the single value 5"),
        ({"who": [1], "item": [1]}, {}, "no column looks like the user; the columns are 'who', 'item'"),
        ({"user": [1], "book": [1], "song": [1]}, {}, "which column is the item: 'book', 'song'?"),
        ({f"c{i}": [1] for i in range(25)}, {}, "'c19' and 5 more; name it with user='...'"),
        (GOOD, {"user": "who"}, "user='who': there is no such column; the columns are 'user', 'item'"),
        (GOOD, {"user": 2}, "user=2: there are 2 columns"),
        (GOOD, {"min_rating": 3}, "min_rating needs a rating column"),
        (GOOD, {"min_weight": 3}, "min_weight needs a weight column"),
        (GOOD | {"rating": [1, 2, 3]}, {"min_rating": 9}, "no events left: 3 rows read, 0 with rating >= 9"),
        (GOOD | {"count": [1, 2, 3]}, {"min_weight": 9}, "no events left: 3 rows read, 0 with weight >= 9"),
    ],
)
def test_bad_tables_are_refused_in_plain_words(columns, options, words):
    with pytest.raises(DataError) as caught:
        Log.from_table(columns, **options)
    assert words in str(caught.value)


def test_two_columns_of_one_name():
    frame = pd.DataFrame([[1, 2, 3]], columns=["user", "user", "item"])
    with pytest.raises(DataError, match="two columns are called 'user'"):
        as_log(frame)


def test_mixed_ids_of_a_pandas_column():
    frame = pd.DataFrame({"user_id": pd.Series([1, 2, "x"], dtype=object), "item": [1, 2, 3]})
    with pytest.raises(DataError, match="column 'user_id', row 3: 'x' is a string"):
        as_log(frame)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([[1, 2]], "cannot use a list as data; accepted are a Log"),
        ("ratings.csv", "csrr.read takes a path"),
        (pl.DataFrame(COLUMNS).lazy(), "collect"),
        (None, "cannot use a NoneType"),
    ],
)
def test_what_is_not_data_is_refused(data, words):
    with pytest.raises(DataError, match=words):
        as_log(data)


ROWS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(1, 9), st.integers(0, 99)), min_size=1)


def make(rows, *, id_type=int):
    """A log with weights and times."""
    user, item, weight, time = zip(*rows, strict=True)
    columns = {"user": [id_type(each) for each in user], "item": [id_type(each) for each in item]}
    return Log.from_table(columns | {"weight": weight, "time": time})


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
