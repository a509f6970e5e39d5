import gzip

import numpy as np
import pytest

import csrr
from csrr.data import DataError, read, read_split

CSV = "user,item,rating\n1,10,5\n1,20,3\n2,10,4\n"

pytestmark = pytest.mark.usefixtures("empty_data_dir")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "e.csv: the file is empty"),
        ("user,item\n", "the table has no rows"),
        ("user item\n", "found no separator in the first line ('user item')"),
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
    with pytest.raises(DataError, match=words):
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
    with pytest.raises(DataError, match=rf"or {empty_data_dir}; csrr.fetch\('ml-1m'\) downloads it"):
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
