"""Files made to do harm: bombs, pipes, damage and odd values end in a log or in a DataError, soon."""

import bz2
import contextlib
import gzip
import io
import json
import lzma
import os
import struct
import threading
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from csrr.data import sources
from csrr.data.errors import DataError
from csrr.data.formats import parse_user_lists
from csrr.data.log import Log
from csrr.data.read import read

CSV = b"user,item\n1,10\n1,20\n2,10\n"
LOG = Log.from_table({"user": [1, 1, 2], "item": [10, 20, 10]})

pytestmark = pytest.mark.usefixtures("empty_data_dir")


@pytest.fixture
def refuse(write):
    """Return a function that reads what cannot be read, and returns what is said about it."""

    def message_of(name, content, **options):
        path = write(name, content)
        with pytest.raises(DataError) as caught:
            read(path, **options)
        assert name in str(caught.value)
        assert len(str(caught.value)) < 1000
        return str(caught.value)

    return message_of


@pytest.fixture
def one_megabyte(monkeypatch):
    monkeypatch.setenv("CSRR_MAX_BYTES", "1e6")


# Packed files


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [
        ("gz", gzip.compress),
        ("bz2", bz2.compress),
        ("xz", lzma.compress),
        ("zst", lambda data: pa.compress(data, "zstd", asbytes=True)),
    ],
)
def test_packed_files_are_read_and_bombs_are_not(write, refuse, one_megabyte, suffix, pack):
    assert read(write(f"log.csv.{suffix}", pack(CSV))) == LOG
    bomb = pack(CSV + b"1,2\n" * 300_000)
    assert len(bomb) < 10_000
    message = refuse(f"bomb.csv.{suffix}", bomb)
    assert "bomb.csv holds more than 1.0 MB, the limit that CSRR_MAX_BYTES sets" in message
    assert "set the environment variable CSRR_MAX_BYTES to more bytes" in message
    assert "cannot read damaged.csv" in refuse(f"damaged.csv.{suffix}", pack(CSV)[:-3])
    assert "compressed more than once" in refuse(f"twice.csv.{suffix}", pack(pack(CSV)))


def test_text_that_begins_like_a_packed_file(write):
    assert read(write("log.csv", "BZh,user,item\n1,2,3\n")).items.ids.tolist() == [3]


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_bomb_is_not_unpacked(refuse, one_megabyte, method):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("log.csv", CSV + b"1,2\n" * 300_000)
    assert "log.csv holds more than 1.0 MB" in refuse("log.zip", file.getvalue())
    # The same where the archive lies about the size.
    lying = file.getvalue().replace(struct.pack("<I", 1_200_025), struct.pack("<I", 1000))
    assert lying != file.getvalue()
    refuse("log.zip", lying)


def test_the_limit_follows_memory_and_packed_size(monkeypatch):
    monkeypatch.delenv("CSRR_MAX_BYTES", raising=False)
    monkeypatch.setattr(sources, "measure_memory", lambda: 32 << 30)
    assert sources.choose_limit().n_bytes == 4 << 30
    assert sources.choose_limit(10 << 20).n_bytes == 2000 << 20
    assert "200 times its compressed size" in sources.choose_limit(10 << 20).reason
    assert sources.choose_limit(1000).n_bytes == sources.LEAST_LIMIT
    assert sources.choose_limit(1 << 30).n_bytes == 4 << 30
    monkeypatch.setenv("CSRR_MAX_BYTES", "5000000000")
    assert sources.choose_limit().n_bytes == sources.choose_limit(1).n_bytes == 5_000_000_000
    for wrong in ("much", "-1", "nan", "inf"):
        monkeypatch.setenv("CSRR_MAX_BYTES", wrong)
        with pytest.raises(DataError, match=f"CSRR_MAX_BYTES='{wrong}' is not a number of bytes"):
            sources.choose_limit()


def test_a_large_plain_file_and_many_rows_count_too(refuse, one_megabyte):
    assert "log.csv holds more than 1.0 MB" in refuse("log.csv", CSV * 50_000)
    assert "has 49,999 rows, which count for 24 bytes" in refuse("log.csv", b"user,item\n" + b"1,2\n" * 49_999)
    assert "has 50,000 rows" in refuse("train.txt", b"7" + b" 1" * 50_000)
    assert "has 41,667 rows" in refuse("log.jsonl", b'{"user":1,"item":2}\n' * 45_000)


def test_a_damaged_zip_is_refused(refuse):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("log.csv", CSV * 20)
    data = bytearray(file.getvalue())
    data[60] ^= 0x10
    assert "cannot read log.csv" in refuse("log.zip", bytes(data))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("é.csv", CSV)
    assert "not a readable zip archive" in refuse("log.zip", file.getvalue().replace("é".encode(), b"\xff\xff"))


def test_a_zip_of_many_files_of_one_name_is_told_in_short(refuse):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for i in range(3000):
            archive.writestr(f"{i}/log.csv", b"")
    assert "and 2,980 more" in refuse("log.zip", file.getvalue())


# Pipes


def test_a_pipe_without_a_writer_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "PIPE_SECONDS", 0.2)
    os.mkfifo(tmp_path / "log.csv")
    with pytest.raises(DataError, match=r"log.csv: nobody has written to this pipe"):
        read(tmp_path / "log.csv")
    os.mkfifo(tmp_path / "log.zip")
    with pytest.raises(DataError, match=r"log.zip is a pipe or a device; a zip archive must be a file"):
        read(tmp_path / "log.zip")


@pytest.mark.parametrize("content", [CSV, gzip.compress(CSV, mtime=0)])
def test_a_pipe_with_a_slow_writer_is_read(tmp_path, monkeypatch, content):
    monkeypatch.setattr(sources, "PIPE_SECONDS", 0.5)
    os.mkfifo(path := tmp_path / "log.csv")

    def write_slowly():
        with path.open("wb", buffering=0) as pipe:
            for wait, part in ((1.0, content[:7]), (0.2, content[7:])):
                threading.Event().wait(wait)
                pipe.write(part)

    writer = threading.Thread(target=write_slowly)
    writer.start()
    assert read(path) == LOG
    writer.join()


def test_a_pipe_of_the_shell_is_read():
    out, into = os.pipe()
    os.write(into, CSV)
    os.close(into)
    assert read(f"/dev/fd/{out}") == LOG
    os.close(out)


# Text


def test_line_ends_of_old_machines(write):
    assert read(write("log.csv", CSV.replace(b"\n", b"\r"))) == LOG
    for end in (b"\n", b"\r", b"\r\n"):
        assert read(write("train.txt", b"1 10 20" + end + b"2 10" + end)) == LOG
        lines = (b'{"user": 1, "item": 10}', b'{"user": 1, "item": 20}', b'{"user": 2, "item": 10}')
        assert read(write("log.jsonl", end.join(lines))) == LOG


def test_a_long_title_is_read_and_a_line_without_end_is_not(write, refuse, monkeypatch):
    monkeypatch.setattr("csrr.data.formats.LONGEST_LINE", 1 << 19)
    log = read(write("log.csv", b'user,item,title\n1,2,"' + b"x" * 200_000 + b'"\n3,4,y\n'))
    assert [len(title) for title in log.titles] == [200_000, 1]
    assert "line 2 is longer than" in refuse("log.csv", b"user,item\n1," + b"2" * (1 << 20) + b"\n")
    many = b"user,item\n" + b"1,2\n" * 50 + b'1,"' + b"2\n" * (1 << 20)
    assert "line 52 is longer than" in refuse("log.csv", many)
    titles = {"ratings.csv": "userId,movieId,rating\n1,2,5\n", "movies.csv": f"movieId,title\n2,{'x' * 200_000}\n"}
    assert len(read(write("ml.zip", titles)).titles[0]) == 200_000


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (b"\xff\xfeu", {}, "begins like UTF-16, but byte 3 is not"),
        (b"user,item\r1,2\r1\r", {}, "line 3 ('1') has 1 fields where 2 are expected"),
        (CSV, {"separator": "\n"}, r"separator='\n' cannot separate fields"),
        (CSV, {"separator": '"'}, "cannot separate fields"),
        (CSV, {"separator": "\udcff"}, "cannot separate fields"),
        (CSV, {"separator": "\x00"}, "cannot separate fields"),
        (CSV, {"separator": "§"}, "no column looks like the user; the columns are 'user,item'"),
        (
            b"user::item\n1\x1f1::2\n",
            {"separator": "::"},
            r"line 2 ('1\x1f1::2') holds '\x1f', which no text separated by '::' may hold",
        ),
        (b"user,item" + b"," * 20_000 + b"\n", {}, "the first line has 20,002 fields; is separator=',' right"),
    ],
)
def test_odd_texts(refuse, content, options, words):
    assert words in refuse("log.csv", content, **options)


def test_separators_of_any_length(write):
    for separator in ("§", "<>", "\x01", " "):
        content = CSV.decode().replace(",", separator)
        assert read(write("log.csv", content), separator=separator) == LOG
    with pytest.raises(DataError, match="line 3 \\('1<>x'\\)"):
        read(write("log.csv", "user<>count<>item\n1<>2<>3\n1<>x\n"), separator="<>")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("[" * 100_000, "is nested too deeply"),
        ('{"user": ' + "9" * 5000 + ', "item": 1}', "holds a number with too many digits"),
        ('{"user": ' + "9" * 500 + ', "item": 1}', "line 2: an integer of 1,661 bits does not fit in 64 bits"),
        ('{"user": "a", "item": 1}', "column 'user', line 2: 'a' is a string"),
        ('{"user": [1], "item": 1}', "column 'user', line 2: [1] is a list"),
        ('{"user": 1, "item": 1, "time": {"a": 1}}', "is missing"),
    ],
)
def test_odd_json(refuse, line, words):
    assert words in refuse("log.jsonl", f'{{"user": 1, "item": 2}}\n{line}\n')


def test_half_a_character(refuse):
    content = '{"user": "a", "item": 2}\n{"user": "\\ud800", "item": 1}\n'
    assert "column 'user', line 2: '\\ud800' holds half a character" in refuse("log.jsonl", content)


def test_a_key_of_its_own_in_every_line_takes_little_memory(write):
    rows = (json.dumps({"user": i, "item": i, f"key {i}": i}) for i in range(3000))
    assert len(read(write("log.jsonl", "\n".join(rows)))) == 3000


def test_user_lists_where_there_are_none(tmp_path, write):
    with pytest.raises(DataError, match="it is not clear which file holds the events; there are no files"):
        read(tmp_path, format="user-lists")
    write("log.csv", CSV)
    with pytest.raises(DataError, match=r"there is no train.txt; user lists come as train.txt and test.txt"):
        read(tmp_path, format="user-lists")


def test_paths_that_cannot_be(tmp_path):
    with pytest.raises(DataError, match=r"~nosuchuser/x.csv: there is no such user here"):
        read("~nosuchuser/x.csv")
    with pytest.raises(DataError, match=r"cannot read .*File name too long"):
        read(tmp_path / ("x" * 300))
    with pytest.raises(DataError, match="there is no"):
        read("a\0b.csv")


# Arrow and Parquet


def to_ipc(table, compression=None):
    file = io.BytesIO()
    with pa.ipc.new_file(file, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return file.getvalue()


def swap(data, good, bad, kind=np.int32):
    """Return a file with some numbers, which it holds once, replaced."""
    good, bad = (np.array(numbers, kind).tobytes() for numbers in (good, bad))
    assert data.count(good) == 1
    return data.replace(good, bad)


def test_offsets_that_point_outside_are_found_before_use(refuse):
    data = to_ipc(pa.table({"user": ["a", "bb", "ccc"], "item": [70, 80, 90]}))
    for bad in ([0, 1, 2**30, 2**30], [0, 3, 1, 6], [-(2**31), 1, 3, 6]):
        assert "column 'user' is damaged" in refuse("log.arrow", swap(data, [0, 1, 3, 6], bad))
    assert "column 'user' is damaged" in refuse("log.arrow", data.replace(b"abbccc", b"abb\xffcc"))
    codes = pa.DictionaryArray.from_arrays(pa.array([2, 1, 0], pa.int32()), pa.array(["x", "y", "z"]))
    data = to_ipc(pa.table({"user": [1, 2, 3], "item": codes}))
    for bad in ([2, 1, 99], [-1, 1, 0], [2**31 - 1, 1, 0]):
        assert "column 'item' is damaged" in refuse("log.feather", swap(data, [2, 1, 0], bad))


def test_columns_that_nobody_asked_for_are_not_looked_at(write):
    data = to_ipc(pa.table({"user": [1, 1, 2], "item": [10, 20, 10], "other": ["a", "bb", "ccc"]}))
    assert read(write("log.arrow", swap(data, [0, 1, 3, 6], [0, 1, 2**30, 6]))) == LOG


@pytest.mark.parametrize("name", ["user.id", "", "user", "é.ü"])
def test_columns_of_parquet_of_any_name(write, name):
    file = io.BytesIO()
    parquet.write_table(pa.table({name: [1, 1, 2], "item": [10, 20, 10], "user.other": ["a", "b", "c"]}), file)
    assert read(write("log.parquet", file.getvalue()), user=name) == LOG


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_packed_buffers_count_before_they_are_unpacked(refuse, one_megabyte, compression):
    zeros = pa.table(dict.fromkeys(("user", "item", *"tuvwxyz"), np.zeros(20_000)))
    data = to_ipc(zeros, compression)
    assert len(data) < 30_000
    assert "the file holds more than 1.0 MB" in refuse("log.arrow", data)
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, zeros.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(zeros)
    assert "the file holds more than 1.0 MB" in refuse("log.arrow", stream.getvalue())


def test_repeated_values_count_as_often_as_they_are_repeated(refuse, one_megabyte):
    text = pa.array(["x" * 10_000]).dictionary_encode().take(pa.array(np.zeros(200, np.int64)))
    table = pa.table({"user": text, "item": np.arange(200)})
    for write_table, name in ((feather.write_feather, "log.feather"), (parquet.write_table, "log.parquet")):
        file = io.BytesIO()
        write_table(table, file)
        assert len(file.getvalue()) < 30_000
        assert "column 'user' holds more than 1.0 MB" in refuse(name, file.getvalue())
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2**31 - 1], pa.int32()), pa.array(["a"]))
    endless = pa.Array.from_buffers(pa.null(), 2**31 - 1, [None])
    assert "2,147,483,647 rows" in refuse("log.arrow", to_ipc(pa.table({"user": runs, "item": endless})))


@pytest.mark.parametrize(
    "ids",
    [
        pa.array(["a", "b", "a"]).dictionary_encode(),
        pa.array(["a", "b", "a"], pa.string_view()),
        pa.compute.run_end_encode(pa.array(["a", "a", "b"])),
        pa.array([1, 2, 1], pa.uint8()),
        pa.array([1.0, 2.0, 3.0], pa.float16()),
        pa.array(["a", "b", "a"], pa.large_string()),
    ],
    ids=lambda ids: str(ids.type),
)
def test_ids_of_many_types(write, ids):
    log = read(write("log.arrow", to_ipc(pa.table({"user": ids, "item": [1, 2, 3]}))))
    plain = [int(id) if isinstance(id, float) else id for id in ids.to_pylist()]
    assert log == Log.from_table({"user": plain, "item": [1, 2, 3]})


ODD = {
    "timestamp far away": pa.array([2**62], pa.int64()).view(pa.timestamp("s")),
    "timestamp nowhere": pa.array([5], pa.int64()).view(pa.timestamp("s", "No/Where")),
    "duration": pa.array([2**62], pa.int64()).view(pa.duration("s")),
    "time": pa.array([-5], pa.int64()).view(pa.time64("ns")),
    "decimal": pa.array([1], pa.decimal128(38, 0)),
    "null": pa.nulls(1),
    "binary": pa.array([b"\xff"]),
    "list": pa.array([[1]]),
    "struct": pa.array([{"a": 1}]),
    "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
    "interval": pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
    "dictionary of lists": pa.DictionaryArray.from_arrays(pa.array([0]), pa.array([[1]])),
    "bool": pa.array([True]),
}


@pytest.mark.parametrize("role", ["user", "rating", "time", "weight", "title"])
@pytest.mark.parametrize("kind", ODD)
def test_odd_types_are_read_or_refused_by_column_and_row(write, role, kind):
    table = pa.table({"user": [1], "item": [2]} | {role: ODD[kind]})
    try:
        log = read(write("log.arrow", to_ipc(table)))
    except DataError as error:
        message = str(error)
    else:
        message = f"column '{role}', row 1"
        assert log.times is None or np.isfinite(log.times).all()
    if kind.startswith("timestamp") and role == "time":
        # What lies after the year 11,000 was written in a finer unit than was said.
        assert log.times.tolist() == [2**62 / 1e9 if kind == "timestamp far away" else 5]
    assert f"column '{role}'" in message
    assert any(words in message for words in ("row 1", "of type", "values, not titles", "is damaged"))


def test_times_of_every_unit(write):
    for unit, factor in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        stamps = pa.array([1_500_000_000 * factor, -factor], pa.int64()).view(pa.timestamp(unit, "Europe/Berlin"))
        log = read(write("log.arrow", to_ipc(pa.table({"user": [1, 2], "item": [1, 2], "time": stamps}))))
        assert log.times.tolist() == [1_500_000_000, -1]
    days = pa.table({"user": [1], "item": [1], "date": pa.array([19_000], pa.int32()).view(pa.date32())})
    assert read(write("log.arrow", to_ipc(days))).times.tolist() == [19_000 * 86_400]


# Memory


COUNTING = pa.proxy_memory_pool(pa.default_memory_pool())  # it must outlive what it gives


def test_devices_are_refused():
    with pytest.raises(DataError, match="zero is a device, which may have no end"):
        read("/dev/zero")


def test_an_endless_pipe_is_refused_soon(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "LEAST_LIMIT", 1 << 22)
    os.mkfifo(path := tmp_path / "log.csv")

    def write_for_ever():
        with contextlib.suppress(BrokenPipeError), path.open("wb", buffering=0) as pipe:
            for _ in range(1000):
                pipe.write(b"1,2\n" * 2**16)

    writer = threading.Thread(target=write_for_ever)
    writer.start()
    with pytest.raises(DataError, match=r"log.csv holds more than 4.2 MB, the limit for a pipe"):
        read(path)
    writer.join()


def test_user_lists_take_a_few_times_their_size(monkeypatch):
    monkeypatch.setattr("csrr.data.formats.BLOCK_BYTES", 1 << 16, raising=False)
    text = "".join(f"{user} {' '.join(map(str, range(user % 7, 40)))}\n" for user in range(20_000)).encode()
    usual = pa.default_memory_pool()
    pa.set_memory_pool(COUNTING)
    try:
        table = parse_user_lists(text)
    finally:
        pa.set_memory_pool(usual)
    assert COUNTING.max_memory() < 6 * len(text)
    assert len(table.columns["item"]()) == sum(40 - user % 7 for user in range(20_000))
    assert table.where(40) == "line 2"


def test_user_lists_in_blocks_are_those_of_the_whole(write, monkeypatch):
    path = write("train.txt", "5 1 2\n\n7\n 6  3 3 1 \n5 2 9\n" * 3 + "8 4")
    whole = read(path)
    for size in (1, 7, 30):
        monkeypatch.setattr("csrr.data.formats.BLOCK_BYTES", size)
        assert read(path) == whole
    assert (whole.users.ids.tolist(), len(whole)) == ([5, 6, 8], 6)
