"""Arguments of a wrong type or value: one plain error each, never one of another library, and none is passed over."""

import datetime
import sqlite3

import numpy as np
import pyarrow as pa
import pytest

import csrr

TABLE = {
    "user": [1, 1, 2, 2],
    "item": [1, 2, 1, 3],
    "rating": [5, 4, 3, 2],
    "count": [1, 2, 3, 1],
    "time": [1, 2, 3, 4],
}
LOG = csrr.read(TABLE)
ITEMS = {"item": [1, 2], "title": ["a", "b"], "genre": ["x", "y"]}
REFUSED = (csrr.DataError, csrr.ParameterError, csrr.UnknownIdError)
NEVER = [{"view": 1}, {}, [], [1, 2], b"x", object(), 1.5, float("nan"), np.array(3), np.arange(2), 1 + 2j]
"""What no argument but a source, and a list of a few, may be."""

CALLS = {
    "read": (
        lambda **given: csrr.read(TABLE, **given),
        "user item rating weight event time title min_rating min_weight",
    ),
    "read_sql": (lambda **given: read_sql(**given), "user item rating weight event time title min_rating min_weight"),
    "read_items": (lambda **given: csrr.read_items(ITEMS, **given), "item title categories member separator header"),
    "split": (lambda **given: csrr.split(LOG, **given), "ratio by last at time_quantile seed given"),
    "synthetic": (lambda **given: csrr.synthetic(**given), "n_users n_items rank events_per_user specific noise seed"),
    "add_noise": (lambda **given: csrr.add_noise(LOG, **{"kind": "random", "share": 0.1} | given), "kind share seed"),
}
FITTING = {
    *((name, "1.5") for name in ("min_rating", "min_weight", "at", "events_per_user")),
    *(("seed", text) for text in ("[1, 2]",)),
}


def read_sql(**given):
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE e (user, item, rating, count)")
    connection.execute("INSERT INTO e VALUES (1, 2, 3, 4)")
    return csrr.read_sql("SELECT * FROM e", connection, **given)


@pytest.mark.parametrize(
    ("call", "name"), [(call, name) for call, (_, names) in CALLS.items() for name in names.split()]
)
def test_what_an_argument_cannot_be_is_refused(call, name):
    for value in NEVER:
        if (name, repr(value)) in FITTING:
            continue
        with pytest.raises(REFUSED) as caught:
            CALLS[call][0](**{name: value})
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("read", [lambda **given: csrr.read(TABLE, **given), read_sql])
def test_weights_given_as_a_column(read):
    with pytest.raises(csrr.ParameterError) as caught:
        read(weight={"view": 1, "buy": 5})
    assert str(caught.value) == (
        "weight={'view': 1, 'buy': 5} must be the name of a column, its number (from 0), False (for none) or None;"
        " weights by type of event are weights={...}, with event= for the column that holds the types"
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"user": False}, "user=False must be the name of a column, its number (from 0) or None"),
        ({"weight": [1, 2, 3, 4]}, "values belong into the table, as a column with a name"),
        ({"min_rating": "3"}, "min_rating='3' must be a finite number"),
        ({"separator": ";"}, "separator=';' is for files of text; leave it out for a table in memory"),
        ({"missing": ["-"]}, "missing=['-'] is for files of text; leave it out for a table in memory"),
        ({"missing": 5}, "missing=5 must be a list of strings, such as ['-', 'NULL']"),
        ({"on_bad_rows": ["skip"]}, 'on_bad_rows=[\'skip\'] must be "error" or "skip"'),
        ({"weights": {"view": 1}}, "weights={'view': 1} needs the event types: event='...'"),
        ({"target": "buy"}, "target='buy' needs the event types: event='...'"),
    ],
)
def test_what_the_message_says(given, message):
    with pytest.raises((csrr.ParameterError, csrr.DataError)) as caught:
        csrr.read(TABLE, **given)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "given", [{"by": "log", "last": 1}, {"given": 0.5}, {"held_out_users": 1, "last": 1, "given": 0.5}]
)
def test_arguments_of_split_that_would_not_count(given):
    with pytest.raises(csrr.ParameterError):
        csrr.split(LOG, **given)


@pytest.mark.parametrize("at", ["soon", b"x", [1], np.datetime64("NaT"), datetime.time(1)])
def test_times_that_are_none(at):
    with pytest.raises(csrr.DataError, match="is not a time"):
        csrr.split(LOG, at=at)


def test_an_empty_path_is_not_this_folder(tmp_path, monkeypatch):
    (tmp_path / "log.csv").write_text("user,item\n1,2\n")
    monkeypatch.chdir(tmp_path)
    assert len(csrr.read(".")) == 1
    for read in (csrr.read, csrr.read_items, csrr.read_split):
        with pytest.raises(csrr.DataError, match="the path is empty"):
            read("")
    with pytest.raises(csrr.DataError, match="user lists come as a folder"):
        csrr.read_split(5)


@pytest.mark.parametrize("option", [{"separator": ";"}, {"header": True}, {"missing": ["-"]}])
def test_options_of_text_for_other_files(tmp_path, option):
    (tmp_path / "log.jsonl").write_text('{"user": 1, "item": 2}\n')
    with pytest.raises(csrr.ParameterError, match=f"{next(iter(option))}=.* is for text"):
        csrr.read(tmp_path / "log.jsonl", **option)


@pytest.mark.parametrize("column", [[1, 2**60, -(2**60)], pa.array([1, 2**64 - 1, None], pa.uint64())])
def test_large_integers_where_bad_rows_are_skipped(column):
    table = {"user": [1, 2, 3], "item": [1, 2, 3], "weight": column}
    with pytest.warns(csrr.DataWarning, match="skipped 1 of 3 rows"):
        log = csrr.read(table, on_bad_rows="skip")
    assert log.weights.tolist() == [1, float(np.float32(max(each for each in pa.array(column).to_pylist() if each)))]


def test_binary_views_are_skipped_as_other_bytes_are():
    table = {"user": pa.array([b"a", None], pa.binary_view()), "item": [1, 2]}
    with pytest.warns(csrr.DataWarning, match="skipped 1 of 2 rows"):
        assert csrr.read(table, on_bad_rows="skip").users.ids.tolist() == ["a"]
