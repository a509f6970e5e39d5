import gzip
import json
import zipfile
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from csrr.data.log import Log
from csrr.data.read import read, read_split

EVENTS = {"user": [1, 1, 2], "item": [10, 20, 10], "rating": [5, 3, 4], "timestamp": [7, 8, 9]}
LOG = Log.from_table(EVENTS)

pytestmark = pytest.mark.usefixtures("empty_data_dir")


def separated(separator, header=True):
    lines = [separator.join(map(str, row)) for row in zip(*EVENTS.values(), strict=True)]
    return "\n".join([*([separator.join(EVENTS)] if header else []), *lines]) + "\n"


@pytest.mark.parametrize("separator", [",", "\t", ";", "|", "::"])
def test_the_separator_is_found(write, separator):
    assert read(write("events.txt", separated(separator))) == LOG


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n"])
@pytest.mark.parametrize("start", ["", "\ufeff", "\n\n"])
def test_line_ends_byte_order_mark_and_blank_lines(write, start, end):
    assert read(write("events.csv", start + separated(",").replace("\n", end))) == LOG


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16"])
def test_encodings(write, encoding):
    assert read(write("e.csv", "user,item\né,ß\n", encoding)).users.ids.tolist() == ["é"]


def test_quoted_fields_hold_separators_quotes_and_line_breaks(write):
    text = ["user,item,title", '"a,b",1,"say ""x"" "', '"c\nd",2,y']
    log = read(write("e.csv", "\n".join(text)))
    assert log.users.ids.tolist() == ["a,b", "c\nd"]
    assert log.titles.tolist() == ['say "x" ', "y"]


def test_quotes_in_tab_separated_text_are_text(write):
    assert read(write("e.tsv", 'user\titem\n"a\t1\nb"\t2\n')).users.ids.tolist() == ['"a', 'b"']


def test_gzip_and_zip(write):
    assert read(write("events.csv.gz", gzip.compress(separated(",").encode()))) == LOG
    assert read(write("one.zip", {"folder/events.csv": separated(","), "README": "hello"})) == LOG


@pytest.mark.parametrize("suffix", ["json", "jsonl", "ndjson"])
def test_json_lines(write, suffix):
    rows = (dict(zip(EVENTS, row, strict=True)) for row in zip(*EVENTS.values(), strict=True))
    assert read(write(f"events.{suffix}", "\n".join(map(json.dumps, rows)))) == LOG


def test_json_ids_stay_as_they_are(write):
    log = read(write("e.json", '{"user": "2020-01-01", "item": "7\u2028"}'))
    assert (log.users.ids.tolist(), log.items.ids.tolist()) == (["2020-01-01"], ["7\u2028"])


def test_parquet_and_arrow(tmp_path):
    table = pa.table(EVENTS)
    parquet.write_table(table, tmp_path / "events.parquet")
    feather.write_feather(table, tmp_path / "events.feather")
    with pa.ipc.new_stream(tmp_path / "events.arrow", table.schema) as stream:
        stream.write_table(table)
    for name in ("events.parquet", "events.feather", "events.arrow"):
        assert read(tmp_path / name) == LOG


def test_recbole_inter(write):
    header = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
    assert read(write("events.inter", header + separated("\t", header=False))) == LOG


@pytest.mark.parametrize(
    ("ids", "kept"),
    [
        (["7", "10"], [7, 10]),
        (["-3", "0"], [-3, 0]),
        (["007", "10"], ["007", "10"]),
        (["7", "x"], ["7", "x"]),
        (["+7", "8"], ["+7", "8"]),
        (["7.0", "8"], [7, 8]),
        (["7.0", "8."], [7, 8]),
        (["7.5", "8"], ["7.5", "8"]),
        (["7.0", "x"], ["7.0", "x"]),
        (["9223372036854775807", "1"], [1, 9223372036854775807]),
        (["9223372036854775808", "1"], ["1", "9223372036854775808"]),
    ],
)
def test_ids_in_text_are_integers_only_if_all_look_so(write, ids, kept):
    text = "user,item\n" + "".join(f"{id},1\n" for id in ids)
    assert read(write("e.csv", text)).users.ids.tolist() == kept


def test_ids_keep_their_type_whatever_min_rating_leaves(write):
    path = write("e.csv", "user,item,rating\n1,1,5\nx,1,1\n")
    assert read(path, min_rating=3).users.ids.tolist() == ["1"]


def test_text_without_a_header(write):
    path = write("events.csv", separated(",", header=False))
    assert read(path, header=False).times is None
    assert read(path, header=False, rating=2, time=3) == LOG
    assert read(path, header=False, user=1, item=0).users.ids.tolist() == [10, 20]


def test_a_named_column_makes_the_first_line_a_header(write):
    assert read(write("e.csv", "2020,item\n1,2\n"), user="2020").users.ids.tolist() == [1]


def test_a_separator_can_be_given(write):
    assert read(write("e.txt", separated(" ")), separator=" ") == LOG


@pytest.mark.parametrize("packed", ["zip", "folder", "file"])
@pytest.mark.parametrize(
    ("events", "separator", "header", "titles", "text"),
    [
        ("u.data", "\t", False, "u.item", "10|Ten (1910)|x\n20|Für É|y\n"),
        ("ratings.dat", "::", False, "movies.dat", "10::Ten (1910)::A|B\n20::Für É::C\n"),
        ("ratings.csv", ",", True, "movies.csv", 'movieId,title,genres\n10,"Ten (1910)",A\n20,Für É,B\n'),
    ],
)
def test_movielens(write, tmp_path, packed, events, separator, header, titles, text):
    encoding = "utf-8" if events == "ratings.csv" else "latin-1"
    files = {events: separated(separator, header), titles: text}
    if packed == "zip":
        members = {f"ml/{name}": content for name, content in files.items()}
        path = write("ml.zip", members | {"ml/links.csv": ""}, encoding)
    else:
        for name, content in files.items():
            write(name, content, encoding)
        path = tmp_path if packed == "folder" else tmp_path / events
    assert read(path) == replace(LOG, titles=["Ten (1910)", "Für É"])


def test_movielens_folds_and_missing_titles(write):
    log = read(write("u1.base", separated("\t", header=False)), min_rating=4)
    assert (log.titles, log.times.tolist()) == (None, [7, 9])


def test_eachmovie_votes_and_its_weight_is_not_a_weight(write):
    files = {
        "Vote.txt": "1\t10\t0.8\t1\t8/5/96 13:17:42\n1\t20\t0.2\t0\t1/2/97 0:00:00\n",
        "Movie.txt": "10\tToy Story\thttp://x\n20\tJumanji\t\n",
    }
    log = read(write("eachmovie.zip", files))
    assert (len(log), log.weights, log.titles.tolist()) == (2, None, ["Toy Story", "Jumanji"])
    dates = pd.to_datetime(log.times, unit="s").strftime("%Y-%m-%d %H:%M:%S")
    assert dates.tolist() == ["1996-08-05 13:17:42", "1997-01-02 00:00:00"]
    assert len(read(write("eachmovie.zip", files), min_rating=0.6)) == 1


def test_eachmovie_heavy_raters(write):
    files = {"e/ratings.tsv": "1\t10\t4\n2\t10\t3\n", "e/Movie.txt": "10\tToy Story\n"}
    log = read(write("heavy.zip", files), min_rating=4)
    assert (log.users.ids.tolist(), log.titles.tolist()) == ([1], ["Toy Story"])


def test_lastfm(write):
    files = {
        "user_artists.dat": "userID\tartistID\tweight\n2\t51\t13883\n2\t52\t1\n",
        "artists.dat": 'id\tname\turl\n51\t"Weird Al" Yankovic\tx\n52\tBjörk\ty\n',
        "tags.dat": "tagID\ttagValue\n",
    }
    log = read(write("lastfm.zip", files))
    assert log.weights.tolist() == [13883, 1]
    assert log.titles.tolist() == ['"Weird Al" Yankovic', "Björk"]


LISTS = {"g/train.txt": "0 5 6\n1 7\n2\n", "g/test.txt": "0 8 \n3 5\n", "g/user_list.txt": "org remap\n"}


def test_user_lists(write, tmp_path):
    path = write("lists.zip", LISTS)
    assert read(path) == Log.from_table({"user": [0, 0, 1, 0, 3], "item": [5, 6, 7, 8, 5]})
    assert len(read(path, part="train")) == 3
    assert read(path, part="test") == Log.from_table({"user": [0, 3], "item": [8, 5]})
    assert read(write("train.txt", LISTS["g/train.txt"])) == read(path, part="train")
    assert read(write("mine.txt", LISTS["g/train.txt"]), format="lightgcn") == read(path, part="train")
    assert read(tmp_path, part="train") == read(tmp_path) == read(path, part="train")


def test_the_two_parts_of_user_lists_share_their_rows(write):
    train, test = read_split(write("lists.zip", LISTS))
    assert train.users == test.users
    assert train.users.ids.tolist() == [0, 1, 3]
    assert train.items.ids.tolist() == test.items.ids.tolist() == [5, 6, 7, 8]
    histories = (train.history(0).tolist(), test.history(0).tolist(), test.history(1).tolist())
    assert histories == ([5, 6], [8], [])


def test_a_pair_in_both_user_lists_is_train(write):
    train, test = read_split(write("lists.zip", {"train.txt": "0 5 6\n", "test.txt": "0 6 7\n"}))
    assert (train.history(0).tolist(), test.history(0).tolist()) == ([5, 6], [7])


def test_tables_matrices_and_logs():
    assert read(EVENTS) == read(pd.DataFrame(EVENTS)) == LOG
    assert read(EVENTS, user="item", item="user").users.ids.tolist() == [10, 20]
    assert read(np.array([[5, 0], [2, 4]]), min_rating=3).history(1).tolist() == [1]
    assert read(LOG) is LOG


def test_bare_names_are_looked_up_in_the_data_dir(empty_data_dir):
    with zipfile.ZipFile(empty_data_dir / "ml-1m.zip", "w") as archive:
        archive.writestr("ml-1m/ratings.dat", separated("::", header=False))
    assert read("ml-1m.zip") == read("ml-1m") == LOG


def test_home_is_expanded(write, tmp_path, monkeypatch):
    write("events.csv", separated(","))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read("~/events.csv") == LOG
