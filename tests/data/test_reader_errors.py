import gzip

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import csrr
from csrr.data.errors import DataError
from csrr.data.read import read, read_split

CSV = "user,item,rating\n1,10,5\n1,20,3\n2,10,4\n"

pytestmark = pytest.mark.usefixtures("empty_data_dir")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "e.csv: the file is empty"),
        ("user,item\n", "the table has no rows"),
        ("user item\n", "found no separator in the first line ('user item')"),
        ("1 10 20 30\n2 10 20\n", "a user and their items on each line are format='user-lists'"),
        ("1,2,3\n4,5,6\n", "e.csv: the first line looks like data, not like column names: '1', '2', '3'"),
        ("1,2,3\n4,5,6\n", "pass header=False, and columns by position, such as user=0"),
        ("user,item,rating\n1,2,3\n1,2\n", "e.csv: line 3 ('1,2') has 2 fields where 3 are expected"),
        ("user,item,rating\n1,2,3\n\n1,2,x\n", "column 'rating', line 4 ('1,2,x'): 'x' is not a number"),
        ("user,item\n1,2\n1,2,3\n", "line 3 ('1,2,3') has 3 fields where 2 are expected"),
        ("user,item,rating\n1,2,\n", "column 'rating', line 2 ('1,2,'): '' is not a number"),
        ("user,item,date\n1,2,soon\n", "column 'date', line 2 ('1,2,soon'): 'soon' is not a time"),
        ("user,item\n1,2\n,3\n", "column 'user', line 3 (',3'): the value is missing"),
        ('user,item,n\n"a\nb",2,1\nc,d\n', "line 4 ('c,d') has 2 fields where 3 are expected"),
        ("user,item,count\n1,2,-1\n", "column 'count', line 2 ('1,2,-1'): the weight -1"),
        ("user,item,user\n1,2,3\n", "two columns have the same name"),
        ("who,what\nx,y\n", "no column looks like the user; the columns are 'who', 'what'"),
        (f"user,item,rating\n{'x' * 100},2,q\n", f"line 2 ('{'x' * 57}...')"),
    ],
)
def test_bad_text(write, text, words):
    with pytest.raises(DataError) as caught:
        read(write("e.csv", text))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "1::2::3::4\n1::2::x::4\n",
            "ratings.dat: column 'rating', line 2 ('1::2::x::4'): 'x' is not a number",
        ),
        ("1::2::3::4\n1::2::3\n", "ratings.dat: line 2 ('1::2::3') has 3 fields where 4 are expected"),
    ],
)
def test_bad_lines_of_movielens(write, text, words):
    with pytest.raises(DataError) as caught:
        read(write("ratings.dat", text))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ("[1]", "line 3 ('[1]') is not a JSON object"),
        ('{"user"', "line 3 ('{\"user\"') is not a JSON object"),
        ('{"user": "a", "item": 2}', "column 'user', line 3: 'a' is a string"),
        ('{"item": 2}', "column 'user', line 3: the value is missing"),
        ('{"user": true, "item": 2}', "column 'user', line 3: True is a bool"),
    ],
)
def test_bad_json_lines(write, second, words):
    with pytest.raises(DataError) as caught:
        read(write("e.jsonl", f'{{"user": 1, "item": 2}}\n\n{second}\n'))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("e.parquet", "not parquet", "e.parquet: the file is damaged or of another format"),
        ("e.arrow", "not arrow", "e.arrow: the file is damaged or of another format"),
        ("e.zip", "not a zip", "e.zip is not a readable zip archive"),
        ("e.csv.gz", b"\x1f\x8bnot gzip", "cannot read e.csv"),
        ("e.csv.gz", gzip.compress(CSV.encode(), mtime=0)[:-6], "cannot read e.csv"),
        ("train.txt", "1,2,3\n", "pass format='text'"),
        ("train.txt", "1\n2\n", "the table has no rows"),
        ("two.zip", {"a.csv": CSV, "b.csv": ""}, "which file holds the events; there are a.csv, b.csv"),
        ("none.zip", {"README": ""}, "there are README"),
        ("twice.zip", {"a/u.data": "", "b/u.data": ""}, "several files called u.data: a/u.data, b/u.data"),
    ],
)
def test_bad_files(write, name, content, words):
    with pytest.raises(DataError) as caught:
        read(write(name, content))
    assert words in str(caught.value)


def test_a_damaged_member_of_a_zip(write):
    path = write("ml.zip", {"u.data": "1\t2\t3\t4\n" * 50})
    content = bytearray(path.read_bytes())
    content[60] ^= 0xFF
    with pytest.raises(DataError, match=r"cannot read u\.data"):
        read(write("ml.zip", bytes(content)))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"part": "train"}, "needs a folder or archive with train.txt"),
        ({"format": "xlsx"}, "format='xlsx' is not known; choose one of ml-100k"),
        ({"min_weight": 2}, "e.csv: min_weight needs a weight column"),
        ({"min_rating": 9}, "e.csv: no events left: 3 rows read, 0 with rating >= 9"),
        ({"time": "when"}, "time='when': there is no such column"),
        ({"header": False, "rating": 7}, "rating=7: there are 3 columns"),
    ],
)
def test_bad_options(write, options, words):
    with pytest.raises((DataError, csrr.ParameterError), match=words):
        read(write("e.csv", CSV), **options)


def test_unknown_parts_of_user_lists(write):
    path = write("lists.zip", {"train.txt": "0 1\n"})
    with pytest.raises(DataError, match=r"there is no test\.txt"):
        read_split(path)
    with pytest.raises(csrr.ParameterError, match="part='valid' must be one of train, test, all"):
        read(path, part="valid")


def test_bad_values_in_memory():
    with pytest.raises(DataError, match="a matrix has no columns to name; leave out user"):
        read(np.eye(2), user="x")
    with pytest.raises(DataError, match="cannot use a int"):
        read(5)


def test_missing_files(tmp_path, write, empty_data_dir):
    write("events.csv", "")
    with pytest.raises(DataError, match=rf"there is no event.csv in {tmp_path}; did you mean events.csv\?"):
        read(tmp_path / "event.csv")
    with pytest.raises(DataError, match=rf"or {empty_data_dir}; `csrr data fetch ml-1m` downloads it, or"):
        read("ml-1m.zip")
    with pytest.raises(DataError, match="cannot be downloaded: put"):
        read("gowalla.zip")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("user,item,rating\n1,2,3\n\n1,2,x\n", ("e.csv", "rating", 1)),
        ("user,item\n1,2\n,3\n", ("e.csv", "user", 1)),
        ("user,item,count\n1,2,-1\n", ("e.csv", "count", 0)),
        ("who,what\nx,y\n", ("e.csv", "user", None)),
    ],
)
def test_an_error_has_the_file_the_column_and_the_row(write, text, place):
    with pytest.raises(DataError) as caught:
        read(write("e.csv", text))
    assert (caught.value.path, caught.value.column, caught.value.row) == place


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
    for call in (
        lambda: csrr.read(path, on_bad_rows="skip"),
        lambda: csrr.read({"user": ["NA"], "item": [1]}),
        lambda: csrr.PopRank().fit({"user": ["NA"], "item": [1]}),
    ):
        with pytest.warns(csrr.DataWarning) as told:
            call()
        assert [each.filename for each in told] == [__file__]


def test_only_bad_rows(write):
    with pytest.raises(csrr.DataError, match="no rows are left: all 1 are bad; on_bad_rows='error' says why"):
        csrr.read(write("e.csv", HEAD + BAD["no user"]), on_bad_rows="skip")
    with pytest.raises(csrr.ParameterError, match="on_bad_rows='ignore' must be "):
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
