"""Item tables: what is read, of what kind it is, what is refused and how that is said."""

import datetime as dt
import gzip
import os
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

import csrr
from csrr.data.columns import Column
from csrr.data.ids import IdMap
from csrr.data.items import read_item_column

TEXT = """product_id,product_name,genre,price,pages,in_stock,released,code
b,Beta,x|y,2.5,10,true,2020-02-01,007
a,Alpha,y,,20,False,,012
c,,,3,30,TRUE,2021-01-01,003
"""


@pytest.fixture
def table(tmp_path):
    (tmp_path / "items.csv").write_text(TEXT)
    return csrr.read_items(tmp_path / "items.csv")


def kinds(table):
    return {name: column.kind for name, column in table.columns.items()}


def test_a_text_file_and_what_its_columns_are(table):
    assert table.items.ids.tolist() == ["a", "b", "c"]
    assert table.titles.tolist() == ["Alpha", "Beta", None]
    assert kinds(table) == {
        "genre": "categories",
        "price": "number",
        "pages": "whole",
        "in_stock": "flag",
        "released": "date",
        "code": "category",
    }
    assert table.to_arrow().to_pylist()[1] == {
        "item": "b",
        "title": "Beta",
        "genre": "x|y",
        "price": 2.5,
        "pages": 10,
        "in_stock": True,
        "released": "2020-02-01",
        "code": "007",
    }
    assert table.to_arrow().to_pylist()[0]["released"] is None
    assert repr(table).startswith("ItemTable: 3 items, titles, genre (2 categories), price (number)")


def frame(kind):
    pandas = pytest.importorskip("pandas")
    columns = {
        "item": [3, 1, 2],
        "title": ["C", "A", None],
        "genre": [["x", "y"], [], None],
        "price": [1, 2, None],
        "released": [dt.datetime(2020, 1, 1), None, dt.datetime(2021, 1, 1, 12)],
    }
    if kind == "pandas":
        return pandas.DataFrame(columns)
    return pa.table(columns) if kind == "arrow" else columns


@pytest.mark.parametrize("kind", ["dict", "pandas", "arrow"])
def test_tables_in_memory_with_lists_of_categories(kind):
    table = csrr.read_items(frame(kind))
    assert kinds(table) == {"genre": "categories", "price": "number", "released": "date"}
    assert table.to_arrow()["genre"].to_pylist() == [None, None, "x|y"]
    assert table["released"].show(np.arange(3)).tolist() == [None, "2021-01-01T12:00:00", "2020-01-01T00:00:00"]


def test_polars_tables():
    polars = pytest.importorskip("polars")
    table = csrr.read_items(polars.DataFrame({"item": ["b", "a"], "genre": [["x"], ["x", "y"]], "n": [1, 2]}))
    assert table.to_arrow()["genre"].to_pylist() == ["x|y", "x"]
    assert kinds(table)["n"] == "whole"


def test_files_of_other_formats(tmp_path, table):
    plain = pa.table({"item": ["b", "a", "c"], "title": ["Beta", "Alpha", None], "price": [2.5, None, 3.0]})
    parquet.write_table(plain, tmp_path / "t.parquet")
    with pa.OSFile(str(tmp_path / "t.arrow"), "wb") as sink, pa.ipc.new_file(sink, plain.schema) as writer:
        writer.write_table(plain)
    (tmp_path / "t.tsv.gz").write_bytes(gzip.compress(b"item\ttitle\tprice\nb\tBeta\t2.5\na\tAlpha\t\nc\t\t3\n"))
    (tmp_path / "t.jsonl").write_text(
        '{"item": "b", "title": "Beta", "price": 2.5}\n{"item": "a", "title": "Alpha"}\n{"item": "c", "price": 3.0}\n'
    )
    for name in ("t.parquet", "t.arrow", "t.tsv.gz", "t.jsonl"):
        found = csrr.read_items(tmp_path / name)
        assert found.titles.tolist() == ["Alpha", "Beta", None], name
        np.testing.assert_array_equal(found["price"].to_numbers(), [np.nan, 2.5, 3.0])


def test_lists_in_a_parquet_file_are_refused_with_a_way_out(tmp_path):
    parquet.write_table(pa.table({"item": [1], "genre": [["x"]], "price": [2]}), tmp_path / "t.parquet")
    with pytest.raises(csrr.DataError, match=r"'genre' is of type list.*write lists as a\|b, or pass the table"):
        csrr.read_items(tmp_path / "t.parquet")
    assert list(csrr.read_items(tmp_path / "t.parquet", columns=["price"]).columns) == ["price"]
    assert csrr.read_items(parquet.read_table(tmp_path / "t.parquet"))["genre"].kind == "categories"


def test_the_right_file_of_an_archive(tmp_path):
    path = tmp_path / "shop.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("shop/sales.dat", "user\titem\n1\t2\n")
        archive.writestr("shop/item_info.dat", "Game_ID\tGame Name\n1\tSpore\n2\tDoom\n")
        archive.writestr("shop/other.csv", "id,colour\n1,red\n")
    assert csrr.read_items(path).titles.tolist() == ["Spore", "Doom"]
    assert csrr.read_items(path, member="other.csv")["colour"].values.names.tolist() == ["red"]
    with pytest.raises(csrr.DataError, match=r"no more\.csv; there are"):
        csrr.read_items(path, member="more.csv")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.csv", "item,x\n1,2\n")
        archive.writestr("b.csv", "item,x\n1,2\n")
    with pytest.raises(csrr.DataError, match=r"a\.csv, b\.csv; pass the path of one"):
        csrr.read_items(path)


@pytest.mark.skipif("CSRR_DATA_DIR" not in os.environ, reason="needs data")
def test_the_item_files_of_public_data():
    assert csrr.read_items("ml-1m.zip")["genres"].kind == "categories"
    assert csrr.read_items("ml-100k.zip").titles[0] == "Toy Story (1995)"
    assert len(csrr.read_items("steam.zip")) == 5155
    assert csrr.read_items("hetrec2011-lastfm-2k.zip", columns=[]).titles is not None


def test_ids_of_the_other_type_are_the_same_items():
    table = csrr.read_items({"item": [7, 8], "n": [1, 2]})
    assert table.align(IdMap(["8", "x", "9223372036854775807"]))["n"].to_numbers().tolist()[0] == 2
    texts = csrr.read_items({"item": ["7", "8"], "n": [1, 2]})
    np.testing.assert_array_equal(texts.align(IdMap([5, 8]))["n"].to_numbers(), [np.nan, 2])


def test_what_is_missing_of_an_item_is_missing():
    table = csrr.read_items(
        {"item": [1, 2], "title": ["A", "B"], "g": ["x|y", "z"], "b": [True, True], "d": [dt.date(2020, 1, 1)] * 2}
    )
    found = table.align(IdMap([2, 3]))
    assert found.titles.tolist() == ["B", None]
    assert found["g"].values.names.tolist() == ["z"]
    assert [found[name].show(np.array([1]))[0] for name in ("g", "b", "d")] == [None, None, None]
    assert found.match({"b": True}).tolist() == [True, False]


@pytest.mark.parametrize(
    ("where", "met"),
    [
        ({"genre": "y"}, [True, True, False]),
        ({"genre": ["x"]}, [False, True, False]),
        ({"price": (None, 2.5)}, [False, True, False]),
        ({"price": (2.6, None)}, [False, False, True]),
        ({"price": 3}, [False, False, True]),
        ({"pages": [10, 20]}, [True, True, False]),
        ({"in_stock": True}, [False, True, True]),
        ({"in_stock": True, "released": ("2020-06-01", None)}, [False, False, True]),
        ({"released": dt.date(2020, 2, 1)}, [False, True, False]),
        ({"code": "007"}, [False, True, False]),
        ({}, [True, True, True]),
    ],
)
def test_conditions(table, where, met):
    assert table.match(where).tolist() == met


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"gerne": "x"}, r"no column 'gerne'; did you mean 'genre'\?; its columns are 'genre', 'price'"),
        ({"genre": "Xx"}, r"no item has 'genre' 'Xx'; did you mean 'x'\?"),
        ({"genre": "Jazz"}, "no item has 'genre' 'Jazz'; there are x, y"),
        ({"genre": (1, 2)}, "categories: give one"),
        ({"price": (1, 2, 3)}, r"a range is a pair, \(least, most\)"),
        ({"price": "cheap"}, "holds numbers or true and false, which 'cheap' is not"),
        ({"price": []}, "given no values"),
        ({"released": "soon"}, "'soon' is not a time"),
        ("price", "must be a dict"),
    ],
)
def test_conditions_that_make_no_sense(table, where, message):
    with pytest.raises(csrr.DataError, match=message):
        table.match(where)


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ({"item": [1, 2, 1], "x": [1, 2, 3]}, {}, "the item 1 is there twice, in row 1 and row 3; keep one row"),
        ({"x": [1], "y": [2]}, {}, r"no column looks like the item; the columns are 'x', 'y'; name it with item="),
        ({"item": [1, None]}, {}, "row 2: the value is missing"),
        ({"item": []}, {}, "has no rows"),
        ({"item": [1], "s": [{"a": 1}]}, {}, r"column 's' holds struct.* choose columns="),
        ({"item": [1], "s": [[{"a": 1}]]}, {}, r"column 's' holds list.* lists are of texts"),
        ({"item": [1], "s": [b"x"]}, {}, "column 's' holds binary"),
        ({"item": [1], "s": [1]}, {"columns": ["t"]}, "there is no column 't'; there are 'item', 's'"),
        ({"item": [1], "s": [1]}, {"columns": "s"}, "must be a list of names"),
        ({"item": [1]}, {"item": "id"}, "item='id': there is no such column"),
        ({"item": [1]}, {"categories": ""}, "a text that is not empty"),
        (
            {"item": [1], "d": np.array([2**50], "datetime64[s]")},
            {},
            "column 'd', row 1: the date is ten thousand years",
        ),
        (7, {}, "a int is no item table"),
    ],
)
def test_tables_that_cannot_be_used(source, options, message):
    with pytest.raises((csrr.DataError, csrr.ParameterError), match=message):
        csrr.read_items(source, **options)


def test_errors_in_files_name_the_file_and_the_line(tmp_path):
    (tmp_path / "items.csv").write_text("item,title\n7,A\n8,B\n7,C\n")
    with pytest.raises(
        csrr.DataError, match=r"items\.csv: column 'item': the item 7 is there twice, in line 2 .*line 4"
    ):
        csrr.read_items(tmp_path / "items.csv")
    with pytest.raises(csrr.DataError, match=r"there is no none\.csv"):
        csrr.read_items(tmp_path / "none.csv")


def test_many_columns_are_held_against_the_limit_together(tmp_path, monkeypatch):
    columns = {f"c{i}": np.zeros(1000) for i in range(40)}
    parquet.write_table(pa.table({"item": np.arange(1000), **columns}), tmp_path / "t.parquet")
    monkeypatch.setenv("CSRR_MAX_BYTES", "100000")
    with pytest.raises(csrr.DataError, match="the item table holds more than"):
        csrr.read_items(tmp_path / "t.parquet")
    assert len(csrr.read_items(tmp_path / "t.parquet", columns=["c1", "c2"]).columns) == 2


def test_a_table_of_other_items_is_refused():
    with pytest.raises(
        csrr.DataError, match=r"none of the 2 items: its ids are like \[1, 2\], theirs like \['a', 'b'\]"
    ):
        csrr.read_items({"item": [1, 2]}).align(IdMap(["a", "b"]))


names = st.text(st.characters(codec="utf-8", exclude_characters="|"), min_size=1).map(str.strip).filter(bool)


@given(st.lists(st.one_of(st.none(), st.lists(names, max_size=4)), min_size=1, max_size=20), st.data())
def test_categories_come_back_whatever_rows_are_taken(lists, data):
    table = csrr.read_items({"item": list(range(len(lists))), "g": pa.array(lists, pa.list_(pa.string()))})
    rows = data.draw(st.lists(st.integers(-1, len(lists) - 1), max_size=30))
    names, members = table["g"].take(np.array(rows, np.int64)).values
    assert names.tolist() == sorted(set(names.tolist()))
    for place, row in enumerate(rows):
        mine = names[members.indices[members.indptr[place] : members.indptr[place + 1]]].tolist()
        assert mine == sorted(set(lists[row] or ()) if row >= 0 else ())


@given(st.lists(st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)), min_size=1, max_size=20))
def test_numbers_written_as_text_come_back(numbers):
    texts = ["" if each is None else repr(each) for each in numbers]
    column = read_item_column(Column.read(texts, "n"), is_text=True)
    if any(text for text in texts):
        wanted = [np.nan if each is None else each for each in numbers]
        np.testing.assert_array_equal(column.to_numbers(), wanted)
