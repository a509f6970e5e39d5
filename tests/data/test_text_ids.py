import json
from decimal import Decimal
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import csrr
from csrr.data.formats import TextOptions, parse_text

pytestmark = pytest.mark.usefixtures("empty_data_dir")

MISSING = ["NULL", "null", "None", "nan", "NaN", "NA", "N/A", "n/a", "<NA>", "#N/A", "NaT", " NULL "]


@pytest.mark.parametrize("text", MISSING)
@pytest.mark.parametrize("role", ["user", "item"])
def test_a_missing_id_is_nobody(write, text, role):
    line = f"{text},b" if role == "user" else f"a,{text}"
    path = write("e.csv", f"user,item\na,b\n{line}\nc,d\n")
    with pytest.raises(csrr.DataError) as caught:
        csrr.read(path)
    assert f"e.csv: column '{role}', line 3 ('{line}'): '{text}' means that the id is missing" in str(caught.value)
    assert "pass on_bad_rows='skip'; if it is a real id, pass missing=[]" in str(caught.value)
    with pytest.warns(csrr.DataWarning, match="skipped 1 of 3 rows that are bad; the first is line 3"):
        log = csrr.read(path, on_bad_rows="skip")
    assert log == csrr.Log.from_table({"user": ["a", "c"], "item": ["b", "d"]})
    assert text.strip() in (ids := csrr.read(path, missing=[])).users or text.strip() in ids.items


def test_missing_ids_of_one_s_own(write):
    path = write("e.csv", "user,item\nNA,b\n-,b\n")
    for missing in (["-"], "-", {"-"}):
        with pytest.raises(csrr.DataError, match=r"line 3 \('-,b'\): '-' means that the id is missing"):
            csrr.read(path, missing=missing)


def test_missing_ids_in_user_lists_are_named_with_file_and_line(write):
    path = write("lists.zip", {"train.txt": "0 1 2\n\n1 3\n", "test.txt": "0 4\n1 5 nan\n"})
    with pytest.raises(csrr.DataError, match=r"lists.zip: column 'item', test.txt, line 2: 'nan' means"):
        csrr.read(path)


def test_texts_in_typed_tables_stay_and_are_told(write):
    frame = pd.DataFrame({"user": ["NA", "b"], "item": [1, 2]})
    with pytest.warns(csrr.DataWarning, match="'NA' among the ids of the users: if missing values were made into text"):
        log = csrr.read(frame)
    assert log.users.ids.tolist() == ["NA", "b"]
    assert len(log.columns.notes) == 1
    with pytest.warns(csrr.DataWarning, match="'' among the ids of the items"):
        assert csrr.read({"user": [1, 2], "item": ["", "x"]}).items.ids.tolist() == ["", "x"]
    lines = "\n".join(json.dumps({"user": "None", "item": name}) for name in ("nan", "x"))
    with pytest.warns(csrr.DataWarning) as told:
        csrr.read(write("e.jsonl", lines))
    assert [str(each.message).partition(":")[0] for each in told] == [
        "'None' among the ids of the users",
        "'nan' among the ids of the items",
    ]


def test_blanks_around_ids_are_not_theirs(write):
    plain = csrr.Log.from_table({"user": [2, 3], "item": [1, 1]})
    assert csrr.read(write("e.csv", "user,item\n 2, 1\n3 , 1\n")) == plain
    words = "column 'user': 2 of the ids differ from another by blanks around them only, such as ' 2'"
    with pytest.warns(csrr.DataWarning, match=words):
        log = csrr.read(write("e.csv", 'user,item\n 2,1\n"2 ",1\n2,1\n3,1\n'))
    assert log == plain
    assert words in log.columns.notes[0]
    assert csrr.read(write("e.jsonl", '{"user": " 2", "item": 1}')).users.ids.tolist() == [" 2"]


def test_integers_that_pandas_wrote_as_floats(write, tmp_path):
    frame = pd.DataFrame({"user": [1, 2, None, 10], "item": [5, 6, 7, 8]})
    frame.to_csv(tmp_path / "e.csv", index=False)
    assert "1.0,5" in (tmp_path / "e.csv").read_text()
    with pytest.warns(csrr.DataWarning, match="skipped 1 of 4 rows"):
        log = csrr.read(tmp_path / "e.csv", on_bad_rows="skip")
    assert log.users.ids.tolist() == [1, 2, 10]
    assert csrr.read(write("e.csv", "user,item\n1,5\n1.0,6\n")).history(1).tolist() == [5, 6]


def test_large_ids_that_were_rounded(write):
    with pytest.warns(csrr.DataWarning, match=r"ids such as '1.23457E\+18' look like large integers that were rounded"):
        csrr.read(write("e.csv", "user,item\n1.23457E+18,1\n7,2\n"))
    exact = csrr.read(write("e.csv", "user,item\n9007199254740993.0,1\n7,2\n"))
    assert exact.users.ids.tolist() == [7, 9007199254740993]
    for kind, most in ((np.float64, 2**53), (np.float32, 2**24)):
        assert csrr.read({"user": np.array([most, 1], kind), "item": [1, 2]}).users.ids.tolist() == [1, most]
        with pytest.raises(csrr.DataError, match=r"column 'user', row 2: .* tells integers apart up to"):
            csrr.read({"user": np.array([1, most + 2], kind), "item": [1, 2]})


def test_a_repeated_header_is_no_user(write):
    path = write("e.csv", "user_id,item_id\n1,2\n\nuser_id,item_id\n3,4\nuser_id,item_id\n")
    with pytest.warns(csrr.DataWarning) as told:
        log = csrr.read(path)
    assert [str(each.message) for each in told] == [
        "skipped 2 lines that repeat the header, the first of them line 4 ('user_id,item_id')"
    ]
    assert log == csrr.Log.from_table({"user": [1, 3], "item": [2, 4]})
    assert log.columns.notes == tuple(str(each.message) for each in told)


def test_a_header_of_other_columns_is_an_error(write):
    path = write("e.csv", "user_id,item_id\na,b\nitem_id,user_id\nb,a\n")
    with pytest.raises(csrr.DataError, match=r"e.csv: line 3 \('item_id,user_id'\) names columns"):
        csrr.read(path)
    assert len(csrr.read(write("e.csv", "user,item\nuser,x\ny,item\n"))) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('user,item,title\n1,2,"abc\n3,4,x\n5,6,y\n', "lines 2 to 4 ('1,2,\"abc') are one row: a quote is not closed"),
        ('user,item,title\n1,2,"abc\n3,4,"def\n5,6,y\n', "lines 2 to 3 ('1,2,\"abc') are one row"),
        ('user,item,title\n1,2,x\n1,2,"abc\n3,4,x', "lines 3 to 4 ('1,2,\"abc') are one row"),
        ('user,item,title\n1,2,"abc\n3,4\n5,6,"y\n7,8\n', "lines 2 to 4 ('1,2,\"abc') are one row"),
        ('user,item,title\n1,"abc,2\n3,"def,4\n', "lines 2 to 3 ('1,\"abc,2') are one row"),
        ('user,item,title\r1,2,"abc\r3,4,x\r', "lines 2 to 3 ('1,2,\"abc') are one row"),
        ('user,item,rating\n"a\nb",2,1\n"x\ny",d,z\n', "lines 4 to 5 ('\"x'): 'z' is not a number"),
        ('user,item,rating\n"a\nb",2\n1,2,3\n', "lines 2 to 3 ('\"a') have 2 fields where 3 are expected"),
        ("# made by us\nuser,item\n1,2\n", "first line ('# made by us'); pass separator='...', or remove the line"),
        ("user,item\n1,2\n# end\n", "line 3 ('# end') has 1 fields where 2 are expected"),
    ],
)
def test_the_line_that_is_blamed_is_the_bad_one(write, text, words):
    with pytest.raises(csrr.DataError) as caught:
        csrr.read(write("e.csv", text))
    assert words in str(caught.value)


def test_a_file_of_an_archive_is_named(write):
    path = write("two.zip", {"ml/u.data": "1\t2\t3\t4\n1\t3\tx\t4\n", "ml/u.item": "2|Two|x\n"})
    with pytest.raises(csrr.DataError, match=r"two.zip: u.data: column 'rating', line 2 \('1.*x.*4'\): 'x' is not"):
        csrr.read(path)
    with pytest.raises(csrr.DataError, match=r"^one.zip: e.csv: line 2 \('1'\) has 1 fields"):
        csrr.read(write("one.zip", {"e.csv": "user,item\n1\n"}))


CELLS = st.text(st.sampled_from('ab1 ,"\n\r;é'), max_size=5)


@given(
    st.lists(st.tuples(CELLS, CELLS, st.sampled_from(["row", "row", "blank", "header"])), max_size=12),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.data(),
)
def test_every_row_is_named_by_the_line_where_it_begins(rows, end, data):
    lines, begins, line = [f"user,item,n{end}"], [], 2
    for user, item, kind in rows:
        if kind == "row":
            begins.append(line)
        cells = ['"' + cell.replace('"', '""') + '"' for cell in (user, item)]
        text = {"row": f"{cells[0]},{cells[1]},{len(begins)}", "blank": "", "header": "user,item,n"}[kind]
        lines.append(text + end)
        line += len(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    table = parse_text("".join(lines).encode(), TextOptions())
    assert table.columns["n"]().to_pylist() == [str(place + 1) for place in range(len(begins))]
    if begins:
        row = data.draw(st.integers(0, len(begins) - 1))
        place = table.where(row).removeprefix("lines ").removeprefix("line ")
        assert place.startswith((f"{begins[row]} (", f"{begins[row]} to "))


IDS = ["00000000-0000-0000-0000-0000000000ff", "12345678-9abc-def0-1234-56789abcdef0"]
UUIDS = [UUID(text) for text in IDS]


@pytest.mark.parametrize(
    ("ids", "kept"),
    [
        (UUIDS, IDS),
        (np.array(UUIDS, object), IDS),
        (pd.Series(UUIDS), IDS),
        (pa.array([each.bytes for each in UUIDS], pa.uuid()), IDS),
        (pa.chunked_array([pa.array([each.bytes], pa.uuid()) for each in UUIDS]), IDS),
        ([b"ab", "é".encode()], ["ab", "é"]),
        (np.array([b"ab", b"c"]), ["ab", "c"]),
        ([memoryview(b"ab"), b"c"], ["ab", "c"]),
        ([np.int64(3), 4], [3, 4]),
        ([np.float32(3), 4], [3, 4]),
        ([np.str_("a"), "b"], ["a", "b"]),
        ([Decimal("3"), Decimal("4.0")], [3, 4]),
        (pa.array([3, 4], pa.decimal128(5, 0)), [3, 4]),
        (np.array(["a", "b"]), ["a", "b"]),
        (pd.Series([3, 4], dtype="Int64"), [3, 4]),
    ],
    ids=lambda each: type(each[0]).__name__,
)
def test_ids_of_any_type_are_kept_and_found_again(tmp_path, ids, kept):
    log = csrr.read({"user": ids, "item": [1, 2]})
    assert log.users.ids.tolist() == kept
    if isinstance(ids, list):
        assert csrr.read([(id, place) for place, id in enumerate(ids)]).users.ids.tolist() == kept
        assert csrr.read([{"user": id, "item": 1} for id in ids]).users.ids.tolist() == kept
    csrr.PopRank().fit(log).save(tmp_path / "m.csrr")
    assert csrr.load(tmp_path / "m.csrr").recommend(ids, k=1).users.tolist() == kept


def test_uuids_that_are_missing_or_sliced():
    column = pa.array([UUIDS[0].bytes, None, UUIDS[1].bytes], pa.uuid())
    with pytest.raises(csrr.DataError, match="column 'user', row 2: the value is missing"):
        csrr.read({"user": column, "item": [1, 2, 3]})
    assert csrr.read({"user": column[2:], "item": [1]}).users.ids.tolist() == IDS[1:]


def test_rows_of_python():
    log = csrr.read([("ann", 7, 3.0), ("bob", 9, 4.0)], rating=2, min_rating=4)
    assert (log.history("bob").tolist(), log.columns.left_alone) == ([9], ())
    with pytest.raises(csrr.DataError, match=r"row 2: \('bob',\) is not a row of 2 values like the first"):
        csrr.read([("ann", 7), ("bob",)])
    with pytest.raises(csrr.DataError, match="row 2: 5 is not a dict like the rows before it"):
        csrr.read([{"user": 1, "item": 2}, 5])
    with pytest.raises(csrr.DataError, match="cannot use a list as data"):
        csrr.read([[1, 0], [0, 1]])
