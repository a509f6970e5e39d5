import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from csrr.data.errors import DataError, UnknownIdError
from csrr.data.ids import IdMap, join_ids

INTEGERS = st.integers(-(2**63), 2**63 - 1)
STRINGS = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
DISTINCT_IDS = st.one_of(st.lists(INTEGERS, unique=True, min_size=1), st.lists(STRINGS, unique=True, min_size=1))


@given(DISTINCT_IDS)
def test_ids_come_back_as_they_went_in_in_sorted_order(ids):
    known = IdMap(ids)

    assert known.ids.tolist() == sorted(ids)
    assert [type(id) for id in known] == [type(id) for id in sorted(ids)]
    np.testing.assert_array_equal(known.ids[known.rows(ids)], np.array(ids, known.ids.dtype))


@given(DISTINCT_IDS, st.data())
def test_encode_agrees_with_a_dictionary(ids, data):
    column = data.draw(st.lists(st.sampled_from(ids), min_size=1))

    known, rows = IdMap.encode(pa.array(column))

    row_of = {id: row for row, id in enumerate(sorted(set(column)))}
    assert known == IdMap(set(column))
    assert rows.tolist() == [row_of[id] for id in column]


@pytest.mark.parametrize(
    "ids",
    [
        [7, 3],
        np.array([7, 3], np.uint8),
        np.array([7.0, 3.0]),
        pd.Series([7, 3]),
        pd.Series([7.0, 3.0]),
        pl.Series([7, 3]),
        pa.array([7, 3], pa.int16()),
        pa.chunked_array([[7], [3]]),
        pd.Series([7, 3], dtype="category"),
    ],
)
def test_integers_of_any_kind_are_int64(ids):
    known = IdMap(ids)
    assert known.ids.dtype == np.int64
    assert known.ids.tolist() == [3, 7]
    assert known.rows(ids).tolist() == [1, 0]


def test_strings_keep_their_leading_zeros_and_are_not_integers():
    known = IdMap(["007", "7"])
    assert known.ids.tolist() == ["007", "7"]
    assert "007" in known
    assert 7 not in known


@pytest.mark.parametrize(
    ("ids", "identity"), [([2, 0, 1], True), ([1, 2, 3], False), ([0, 2], False), (["0", "1"], False)]
)
def test_identity(ids, identity):
    assert IdMap(ids).identity is identity


def test_range_equals_the_map_of_the_same_ids():
    assert IdMap.range(3) == IdMap([0, 1, 2])
    assert IdMap.range(3) != IdMap.range(4)
    assert IdMap([1]) != IdMap(["1"])


def test_the_map_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        IdMap([1, 2]).ids[0] = 5


@pytest.mark.parametrize("known", [IdMap.range(4), IdMap([5, 8, 9])])
def test_unknown_ids_are_named_three_at_most(known):
    with pytest.raises(UnknownIdError) as caught:
        known.rows([*known, -1, 100, 200, 300, 400], kind="item")
    assert str(caught.value) == "unknown item ids: -1, 100, 200 and 2 more"
    assert (caught.value.kind, caught.value.ids) == ("item", (-1, 100, 200, 300, 400))


@pytest.mark.parametrize(
    ("ids", "asked", "hint"),
    [
        ([42, 43], "42", "(ids are integers; did you mean 42?)"),
        ([42, 43], "44", "(ids are integers)"),
        ([42, 43], "--42", "(ids are integers)"),
        (["42", "b"], 42, "(ids are strings; did you mean '42'?)"),
        (["Anna", "b"], "anna ", "(did you mean 'Anna'?)"),
    ],
)
def test_unknown_ids_come_with_a_hint(ids, asked, hint):
    with pytest.raises(UnknownIdError) as caught:
        IdMap(ids).row(asked)
    assert str(caught.value) == f"unknown user id: {asked!r} {hint}"


def test_no_ids_have_no_rows():
    assert IdMap(["a"]).rows([]).tolist() == []
    assert IdMap([1]).rows([]).dtype == np.int64


@pytest.mark.parametrize("id", [True, None, 1.5, "1", float("nan"), 2**70, [1]])
def test_other_values_are_not_in_the_map(id):
    assert id not in IdMap([0, 1, 2])


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([1, 2, "x"], "row 3: 'x' is a string, but the values before it are like 1, an integer"),
        ([None, 1, "x"], "row 3: 'x' is a string, but the values before it are like 1"),
        ([1, True], "row 2: True is a bool"),
        ([True, False], "row 1: True is of type bool"),
        ([1.0, 2.5], "row 2: 2.5 is not a 64-bit integer"),
        ([1, None], "row 2: the value is missing"),
        ([1.0, float("nan")], "row 2: the value is missing"),
        (["a", None], "row 2: the value is missing"),
        (np.array([1, 2**63], np.uint64), "row 2: 9223372036854775808 is not a 64-bit integer"),
        ([1, 2**70], "row 2: 1180591620717411303424 does not fit in 64 bits"),
        ([b"a", b"\xff"], "row 2: b'\\xff' is not text in UTF-8"),
        (["\ud800"], "row 1: '\\ud800' holds half a character"),
        ("abc", "the single value 'abc'"),
        (
            [np.datetime64("2000-01-01"), np.int64(4)],
            "row 2: np.int64(4) is a int64, but the values before it are like",
        ),
        ([10**5000], "row 1: an integer of 16,610 bits does not fit in 64 bits"),
        ([[1], object()], "row 2: <object object"),
        (5, "the single value 5"),
        ([3, 1, 3], "3 appears more than once"),
    ],
)
def test_bad_ids_are_named_with_their_row(ids, words):
    with pytest.raises(DataError) as caught:
        IdMap(ids)
    assert words in str(caught.value)


def test_few_ids_are_found_where_many_are() -> None:
    names = ["\U0001f600", "\uffff", "e", "e\u0301", "\u00e9", "zz", "Z", "", *(f"id {place}" for place in range(4000))]
    ids = IdMap(names)
    rows = ids.find(names)
    assert [ids.find([name]).item() for name in names] == rows.tolist()
    assert ids.ids[rows].tolist() == names
    assert ids.find(["nobody", "e", "\U0001f601"]).tolist() == [-1, rows[2], -1]


@pytest.mark.parametrize("known", [[f"id {place}" for place in range(400)], list(range(-100, 300))])
def test_few_ids_are_joined_as_many_are(known, monkeypatch) -> None:
    few = ["\U0001f600", "id 3", "a", "zz"] if isinstance(known[0], str) else [7, 10**12, -500, 301]
    fast = join_ids(IdMap(known), IdMap(few), "item")
    monkeypatch.setattr("csrr.data.ids.RARE", 10**9)
    slow = join_ids(IdMap(known), IdMap(few), "item")
    assert fast[0] == slow[0]
    assert fast[0].rows(known).tolist() == slow[0].rows(known).tolist()
    assert [each.tolist() for each in fast[1:]] == [each.tolist() for each in slow[1:]]
