import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import csrr

pytestmark = pytest.mark.usefixtures("empty_data_dir")

HEAD = "user,item,rating,count,date\n"
GOOD = "a,x,5,1,2020-01-01\n"
BAD = {
    "no user": ",x,5,1,2020-01-01\n",
    "a user called NULL": "NULL,x,5,1,2020-01-01\n",
    "no item": "a,,5,1,2020-01-01\n",
    "no rating": "a,x,,1,2020-01-01\n",
    "a rating that is none": "a,x,good,1,2020-01-01\n",
    "a rating that is nan": "a,x,nan,1,2020-01-01\n",
    "a negative weight": "a,x,5,-1,2020-01-01\n",
    "a weight that is infinite": "a,x,5,inf,2020-01-01\n",
    "no time": "a,x,5,1,\n",
    "a time that is none": "a,x,5,1,soon\n",
    "too few fields": "a,x,5,1\n",
    "too many fields": "a,x,5,1,2020-01-01,9\n",
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_rows_are_errors_or_skipped(write, kind):
    path = write("e.csv", HEAD + GOOD + BAD[kind] + GOOD.replace("a", "b"))
    line = f"line 3 ({BAD[kind].strip()!r})"
    with pytest.raises(csrr.DataError) as caught:
        csrr.read(path)
    assert line in str(caught.value)
    assert "on_bad_rows='skip'" in str(caught.value)
    with pytest.warns(csrr.DataWarning) as told:
        log = csrr.read(path, on_bad_rows="skip")
    assert log == csrr.read(write("good.csv", HEAD + GOOD + GOOD.replace("a", "b")))
    assert [line in str(each.message) for each in told] == [True]


def test_rows_after_skipped_ones_are_named_rightly(write):
    text = HEAD + HEAD + "a,x\n" + BAD["no user"] + GOOD + "b,x,3,1,2020-01-01\n"
    with pytest.warns(csrr.DataWarning) as told:
        log = csrr.read(write("e.csv", text), on_bad_rows="skip", min_rating=4)
    assert log.users.ids.tolist() == ["a"]
    assert [str(each.message) for each in told] == [
        "skipped 1 row that has not 5 fields; the first is line 3 ('a,x')",
        f"skipped 1 line that repeats the header, line 2 ({HEAD.strip()!r})",
        "skipped 1 of 3 rows that are bad; the first is line 4 (',x,5,1,2020-01-01')",
    ]


def test_an_error_after_skipped_rows_names_its_own_line(write):
    text = HEAD + BAD["no user"] + BAD["too few fields"] + HEAD + GOOD + "b,x,5,1e300,2020-01-01\n" + GOOD
    with pytest.raises(
        csrr.DataError, match=r"line 6 \('b,x,5,1e300,2020-01-01'\): the weight 1e\+300 is not a finite"
    ):
        csrr.read(write("e.csv", text), on_bad_rows="skip")


def test_a_warning_points_to_the_line_that_reads(write):
    path = write("e.csv", HEAD + GOOD + BAD["no user"])
    for read in (
        lambda: csrr.read(path, on_bad_rows="skip"),
        lambda: csrr.read({"user": ["NA"], "item": [1]}),
        lambda: csrr.PopRank().fit({"user": ["NA"], "item": [1]}),
    ):
        with pytest.warns(csrr.DataWarning) as told:
            read()
        assert [each.filename for each in told] == [__file__]


def test_only_bad_rows(write):
    with pytest.raises(csrr.DataError, match="no rows are left: all 1 are bad; on_bad_rows='error' says what is wrong"):
        csrr.read(write("e.csv", HEAD + BAD["no user"]), on_bad_rows="skip")
    with pytest.raises(csrr.DataError, match="on_bad_rows='ignore' is not known; choose 'error' or 'skip'"):
        csrr.read(write("e.csv", HEAD + GOOD), on_bad_rows="ignore")


@pytest.mark.parametrize(
    "table",
    [
        {"user": ["a", None, "b"], "item": [1, 2, 3]},
        {"user": ["a", "c", "b"], "item": [1, np.nan, 3]},
        {"user": ["a", "c", "b"], "item": [1, 2.5, 3]},
        {"user": ["a", "c", "b"], "item": pa.array([1, None, 3])},
        {"user": ["a", "c", "b"], "item": [1, 2, 3], "rating": [5, None, 5]},
        {"user": ["a", "c", "b"], "item": [1, 2, 3], "count": [1.0, -2.0, 1.0]},
        {"user": ["a", "c", "b"], "item": [1, 2, 3], "count": [1.0, float("inf"), 1.0]},
        {"user": ["a", "c", "b"], "item": [1, 2, 3], "time": [7, None, 7]},
        {"user": ["a", "c", "b"], "item": [1, 2, 3], "time": pa.array([7, None, 7], pa.timestamp("s"))},
    ],
)
def test_bad_rows_of_tables(table):
    with pytest.raises(csrr.DataError, match="row 2"):
        csrr.Log.from_table(table)
    with pytest.warns(csrr.DataWarning, match="skipped 1 of 3 rows that are bad; the first is row 2"):
        log = csrr.Log.from_table(table, on_bad_rows="skip")
    assert (log.users.ids.tolist(), log.items.ids.tolist()) == (["a", "b"], [1, 3])


IDS = st.sampled_from(["1", "2", "2.0", " 2", "x", "", "NULL"])
NUMBERS = st.sampled_from(["1", "2.5", "-1", "1e3", "0", ".5", "", "nan", "x", "1.2.3"])
TIMES = st.sampled_from(["2020-01-01", "2020-01-01T10:00Z", "", "soon", "2020-13-01"])


@settings(deadline=None)
@given(st.lists(st.tuples(IDS, IDS, NUMBERS, NUMBERS, TIMES), max_size=8))
@pytest.mark.filterwarnings("ignore::csrr.DataWarning")
def test_skipping_leaves_just_the_rows_that_are_good_alone(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("rows")

    def read_alone(row):
        (folder / "one.csv").write_text(HEAD + ",".join(row) + "\n")
        try:
            csrr.read(folder / "one.csv")
        except csrr.DataError as error:
            return "no events left" in str(error)  # a weight of 0 is good, and nothing
        return True

    good = [row for row in rows if read_alone(row)]
    (folder / "all.csv").write_text(HEAD + "".join(",".join(row) + "\n" for row in rows))
    (folder / "good.csv").write_text(HEAD + "".join(",".join(row) + "\n" for row in good))
    if any(float(row[3]) > 0 for row in good):
        assert csrr.read(folder / "all.csv", on_bad_rows="skip") == csrr.read(folder / "good.csv")


@pytest.mark.parametrize(
    ("ratings", "words"),
    [
        (["3,5", "4"], None),
        (["3,5", "4,25", "-1"], None),
        ([" 3,5", "4"], None),
        (["3,500", "4"], "line 2 ('1;1;3,500'): '3,500' may be thousands or a fraction; write it with a point"),
        (["3,5", "4.5"], "line 2 ('1;1;3,5'): '3,5' has a comma and other numbers a point"),
        (["3,5", "x"], "line 3 ('1;1;x'): 'x' is not a number"),
    ],
)
def test_decimal_commas(write, ratings, words):
    path = write("e.csv", "user;item;count\n" + "".join(f"1;1;{each}\n" for each in ratings if each[0] != "-"))
    if words is None:
        total = sum(float(each.replace(",", ".")) for each in ratings if each[0] != "-")
        assert csrr.read(path).weights.tolist() == [total]
        return
    with pytest.raises(csrr.DataError) as caught:
        csrr.read(path)
    assert words in str(caught.value)
