"""Known file formats: which file holds the events, which columns it has, and how text, Parquet and Arrow are parsed."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
import struct
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from csrr._base.arrays import BoolArray
from csrr._base.text import describe_size, list_names, quote_error, quote_names, show_argument, show_value
from csrr.data.columns import hint_skip, join_dictionaries
from csrr.data.errors import DataError, name_in_errors, reword_errors
from csrr.data.sources import LONGEST_LINE, MOST_COLUMNS, ByteLimit, FileSet, choose_limit
from csrr.data.tables import ColumnKey, Table, check_names, find_role, hold_columns, stack_rows
from csrr.parameters import ParameterError, is_float

RATINGS = ("user", "item", "rating", "timestamp")
PARTS = ("train", "test")
SEQUENCES = "sequences.txt"
SQLITE_MAGIC = b"SQLite format 3\x00"


@dataclass(frozen=True)
class KnownFile:
    """A text file of events known by its name: its columns, if it has no header, and the file of titles."""

    file: str
    names: tuple[str, ...] | None
    titles: str
    without: tuple[str, ...] = ()


KNOWN_FILES = {
    "ml-100k": KnownFile("u.data", RATINGS, "u.item"),
    "ml-1m": KnownFile("ratings.dat", RATINGS, "movies.dat"),
    "ml-csv": KnownFile("ratings.csv", None, "movies.csv"),
    # Its weight says how reliable a score is, not how often something happened.
    "eachmovie": KnownFile("vote.txt", ("person", "movie", "score", "weight", "date"), "movie.txt", ("weight",)),
    "eachmovie-heavy": KnownFile("ratings.tsv", ("user", "movie", "score"), "movie.txt"),
    "lastfm": KnownFile("user_artists.dat", ("user", "artist", "weight"), "artists.dat"),
}
TEXT = ("csv", "tsv", "txt", "dat", "data", "base", "test", "inter", "tab")
JSON = ("json", "jsonl", "ndjson")
ARROW = ("arrow", "feather", "ipc")
PARQUET = ("parquet", "pq")
FORMATS = (*KNOWN_FILES, "user-lists", "text", "json", "arrow", "parquet")
ALIASES = {"csv": "text", "tsv": "text", "inter": "text", "lightgcn": "user-lists", "jsonl": "json"}


def recognize(files: FileSet, format: str | None) -> tuple[str, str]:
    """Return the format of files and the member that holds its events."""
    format = ALIASES.get(format, format) if format else None
    if format is not None and format not in FORMATS:
        raise DataError(f"{show_argument('format', format)} is not known; choose one of {', '.join(FORMATS)}")
    if files.main is not None:
        return format or guess_format(files.main), files.main
    for name in ("train.txt", "test.txt", SEQUENCES):
        if format in (None, "user-lists") and (lists := files.find(name)):
            return "user-lists", lists
    for name, layout in KNOWN_FILES.items():
        if format in (None, name) and (member := files.find(layout.file)):
            return name, member
    candidates = [name for name in files.members if _get_suffix(name) in (*TEXT, *JSON, *ARROW, *PARQUET)]
    if len(candidates) != 1:
        found = list_names(candidates or list(files.members)) or "no files"
        raise DataError(f"it is not clear which file holds the events; there are {found}; pass the path of one file")
    return format or guess_format(candidates[0]), candidates[0]


class TextOptions(NamedTuple):
    """How a text is read: its separator, whether it has a header, and the column names that the user gave.

    What is None is found out. With `skip_bad`, lines with too few or too many fields are left out.
    """

    separator: str | None = None
    header: bool | None = None
    expected: Collection[str] = ()
    skip_bad: bool = False


def open_member(files: FileSet, format: str, member: str, how: TextOptions) -> Table:
    """Return the table in a member."""
    data, known = files.read(member), KNOWN_FILES.get(format)
    if data.startswith(SQLITE_MAGIC):
        either = f"{show_argument('table', '...')} or {show_argument('query', 'SELECT ...')}"
        raise DataError(f"this is an SQLite database; pass {either}")
    name = member if files.main is None else None
    parse = {"json": _parse_json, "user-lists": parse_user_lists, "parquet": open_parquet, "arrow": open_arrow}.get(
        format
    )
    with name_in_errors(name):
        if parse is not None:
            for option in ("separator", "header"):
                if (value := getattr(how, option)) is not None:
                    what = f"is for text with a line a row; leave it out for a {format} file"
                    raise ParameterError.of(option, value, what)
            return replace(parse(data), member=name)
        table = parse_text(data, how, known.names if known else None)
    if known is None:
        return replace(table, member=name)
    columns, titles = dict(table.columns), files.find(known.titles)
    if format == "eachmovie" and "date" in columns:
        columns["date"] = partial(_parse_eachmovie_dates, table.columns["date"])
    roles: dict[str, ColumnKey] = {**table.roles, **dict.fromkeys(known.without, False)}
    return replace(
        table, columns=columns, roles=roles, titles=_read_titles(files, titles) if titles else None, member=name
    )


def parse_user_lists(data: bytes) -> Table:
    """Return the events of a text with a line a user: the user's id, then item ids, separated by blanks."""
    text = unify_line_ends(to_utf8(data))
    first = next((line for line in io.BytesIO(text[:LONGEST_LINE]) if line.strip()), b"")
    if any(mark in first for mark in b",;|:"):
        raise DataError(
            f"a line of a user list is ids between blanks; for columns pass {show_argument('format', 'text')}"
        )
    counts, users, items, limit, n_rows = [], [], [], choose_limit(), 0
    # Some lines at a time, as numbers of distinct words: the words of the whole would take many times its size.
    for block in _cut_lines(text):
        lines = pc.list_flatten(pc.split_pattern(pa.array([block.decode()], pa.large_string()), "\n"))
        words = pc.utf8_split_whitespace(pc.utf8_trim_whitespace(lines))
        counts.append(pc.list_value_length(words).to_numpy() - 1)
        users.append(pc.list_element(words, 0).filter(pa.array(counts[-1] > 0)))
        items.append(pc.list_slice(words, 1).flatten().dictionary_encode())
        limit.check_rows(n_rows := n_rows + len(items[-1]))
    n_items = np.concatenate(counts)
    ends, n_items = np.cumsum(n_items), n_items[n_items > 0]
    numbers = pa.array(np.repeat(np.arange(len(n_items), dtype=np.int32), n_items))
    user_ids, item_ids = pa.DictionaryArray.from_arrays(numbers, pa.concat_arrays(users)), join_dictionaries(items)
    return Table(
        hold_columns({"user": user_ids, "item": item_ids}),
        lambda row: f"line {int(np.searchsorted(ends, row, side='right')) + 1}",
        is_text=True,
    )


def read_part(files: FileSet, part: str) -> Table:
    """Return the events of one of the two files of user lists, "train" or "test"."""
    member = files.find(f"{part}.txt")
    if member is None:
        raise DataError(f"there is no {part}.txt; user lists come as train.txt and test.txt")
    with name_in_errors(member):
        return parse_user_lists(files.read(member))


def join_parts(parts: Mapping[str, Table]) -> Table:
    """Return user lists, by the names of their files, as one table."""
    names, tables = list(parts), list(parts.values())
    joined = {name: join_dictionaries([table.columns[name]() for table in tables]) for name in ("user", "item")}
    ends = np.cumsum([len(table.columns["item"]()) for table in tables])

    def where(row: int) -> str:
        place = int(np.searchsorted(ends, row, side="right"))
        return f"{names[place]}.txt, {tables[place].where(row - int(ends[place - 1]) if place else row)}"

    return Table(hold_columns(joined), where, is_text=True)


def _cut_lines(text: bytes) -> Iterator[bytes]:
    """Yield a text in blocks of whole lines, without the line end after each."""
    start = 0
    while start <= len(text):
        stop = text.find(b"\n", start + BLOCK_BYTES)
        stop = len(text) if stop < 0 else stop
        yield text[start:stop]
        start = stop + 1


def _get_suffix(name: str) -> str:
    return name.rpartition(".")[2].lower()


def guess_format(name: str) -> str:
    """Return the format of a single file by its name."""
    if name.lower() in ("train.txt", "test.txt", SEQUENCES):
        return "user-lists"
    if re.fullmatch(r"u[1-5ab]\.(base|test)", name):
        return "ml-100k"
    known = next((format for format, layout in KNOWN_FILES.items() if layout.file == name.lower()), None)
    kinds = {"json": JSON, "arrow": ARROW, "parquet": PARQUET}
    return known or next((format for format, suffixes in kinds.items() if _get_suffix(name) in suffixes), "text")


def _parse_json(data: bytes) -> Table:
    numbers, limit = array("q"), choose_limit()

    def read_rows() -> Iterator[dict[str, Any]]:
        for number, line in enumerate(io.BytesIO(unify_line_ends(to_utf8(data))), 1):
            if (text := line.decode()).strip():
                numbers.append(number)
                limit.check_rows(len(numbers))
                yield _parse_json_line(text, number)

    return Table(stack_rows(read_rows()), lambda row: f"line {numbers[row]}")


def _parse_json_line(line: str, number: int) -> dict[str, Any]:
    wrong = "is not a JSON object; each line must be one"
    try:
        if isinstance(row := json.loads(line), dict):
            return row
    except RecursionError:
        wrong = "is nested too deeply"
    except ValueError as error:
        if not isinstance(error, json.JSONDecodeError):
            wrong = "holds a number with too many digits; write it as text"
    raise DataError(f"line {number} ({show_value(line.strip())}) {wrong}")


def _parse_eachmovie_dates(read: Callable[[], pa.ChunkedArray]) -> pa.ChunkedArray:
    """Return dates like 10/30/96 0:00:00 as timestamps, and a column of anything else unchanged."""
    column = read()
    try:
        return pc.strptime(column, format="%m/%d/%y %H:%M:%S", unit="s")
    except pa.ArrowInvalid:
        return column


def _read_titles(files: FileSet, member: str) -> dict[str, str]:
    """Return titles by item id, as written, from a file whose first two fields they are."""
    text = to_utf8(files.read(member))
    known = {"u.item": "|", "movies.dat": "::"}
    separator = "," if member.lower().endswith(".csv") else known.get(member.lower(), "\t")
    try:
        rows = (row.fields for row in split_rows(text, separator))
        return {row[0]: row[1].strip() for row in rows if len(row) > 1 and row[1].strip()}
    except DataError as error:
        raise DataError(f"the titles in {member}: {error}; correct them, or move the file away") from None


# Parquet and Arrow files say themselves how long their parts are and where they lie. Arrow trusts that once a column is
# read, so a damaged file could crash the process; hence every column is validated before anything else looks at it. A
# file of a few bytes can also claim billions of rows: sizes are checked against the limit before they are allocated.

FILE_MAGIC = b"ARROW1"
_UNREADABLE = (pa.ArrowException, OSError, EOFError, ValueError, LookupError, TypeError, struct.error)
"""The errors that Arrow raises on damaged bytes."""
_DAMAGED = "the file is damaged or of another format"


def open_parquet(data: bytes) -> Table:
    """Return the table of a Parquet file."""
    limit = choose_limit(len(data))
    with reword_errors(_UNREADABLE, _DAMAGED):
        file = parquet.ParquetFile(pa.BufferReader(data))
        schema = file.schema_arrow
        # Text stays in its dictionary until its size is known: a long text may be repeated a million times.
        texts = [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_binary(field.type)]
        file = parquet.ParquetFile(pa.BufferReader(data), read_dictionary=texts)
        # More of the metadata must not be touched: of columns in a damaged file, pyarrow ends the process.
        about = file.metadata
        n_rows, size = about.num_rows, sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
        names, kinds = schema.names, schema.types

    def read(place: int) -> pa.ChunkedArray:
        name = names[place]
        if kinds[place].num_fields:  # nested values may be far more than there are rows
            raise DataError(
                f"column {show_value(name)} is of type {kinds[place]}; read from a Parquet file are integers, numbers,"
                " texts and times: choose others with columns=[...], write lists as a|b, or pass the table itself"
            )
        return file.read(columns=[name]).column(name)

    limit.check_rows(n_rows)
    limit.check(size)
    return _make_table(names, read, limit)


def open_arrow(data: bytes) -> Table:
    """Return the table of an Arrow file or stream (Feather 2, IPC)."""
    limit = choose_limit(len(data))
    with reword_errors(_UNREADABLE, _DAMAGED):
        buffer = pa.py_buffer(data)
        is_file = data.startswith(FILE_MAGIC)
        reader = pa.ipc.open_file(buffer) if is_file else pa.ipc.open_stream(buffer)
        messages = _list_file_messages(buffer) if is_file else pa.ipc.MessageReader.open_stream(buffer)
        limit.check(sum(_measure_message(message) for message in messages))
        table = reader.read_all()
        names = table.column_names
    return _make_table(names, table.column, limit)


def _make_table(names: list[str], read: Callable[[int], pa.ChunkedArray], limit: ByteLimit) -> Table:
    """Return the table of a file; each column is validated and checked against the limit when it is read."""
    check_names(names)

    def read_checked(place: int, name: str) -> pa.ChunkedArray:
        title = f"column {show_value(name)}"
        with reword_errors(_UNREADABLE, f"{title} is damaged", "; get the file again", name):
            column = read(place)
            limit.check_rows(len(column))
            column.validate(full=True)
            limit.check(sum(map(_measure_array, column.chunks)), title)
        return column

    return Table({name: partial(read_checked, place, name) for place, name in enumerate(names)})


def _measure_array(array: pa.Array) -> int:
    """Return how many bytes an array takes, at most, once repeated values are written out."""
    if isinstance(array, pa.ExtensionArray):
        return _measure_array(array.storage)
    if pa.types.is_run_end_encoded(array.type):
        return len(array) * _find_widest(array.values)
    if pa.types.is_dictionary(array.type):
        lengths = _measure_texts(array.dictionary)
        if lengths is None:
            return len(array) * _find_widest(array.dictionary)
        return (pc.sum(lengths.take(array.indices)).as_py() or 0) + 8 * len(array)
    return int(array.nbytes)


def _find_widest(values: pa.Array) -> int:
    """Return how many bytes a value takes at most."""
    lengths = _measure_texts(values)
    if lengths is None:
        return max(8, _measure_array(values) if values.type.num_fields else 32)
    return (pc.max(lengths).as_py() or 0) + 8


def _measure_texts(values: pa.Array) -> pa.Array | None:
    """Return the length of each text as int64, shape (n,), or None where they are no texts."""
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    if pa.types.is_string_view(values.type):
        values = values.cast(pa.large_string())
    if not any(kind(values.type) for kind in kinds):
        return None
    return pc.binary_length(values).cast(pa.int64())


# An Arrow file is made of flatbuffers. The functions below read only how large packed buffers
# will be: Arrow's own reader has verified their structure before.


def _list_file_messages(buffer: pa.Buffer) -> Iterator[pa.ipc.Message]:
    """Yield the messages that the footer of an Arrow file names."""
    (size,) = struct.unpack_from("<i", buffer, buffer.size - 10)
    footer = memoryview(buffer)[buffer.size - 10 - size : buffer.size - 10]
    root = struct.unpack_from("<I", footer)[0]
    for field in (2, 3):  # dictionaries, record batches
        for at in _list_structs(footer, root, field, 24):
            offset, head, body = struct.unpack_from("<qi4xq", footer, at)
            yield pa.ipc.read_message(buffer.slice(offset, head + body))


def _measure_message(message: pa.ipc.Message) -> int:
    """Return how many bytes the buffers of a message take once unpacked."""
    if message.body is None:
        return 0
    head = message.metadata
    batch = _follow(head, struct.unpack_from("<I", head)[0], 2)
    if message.type == "dictionary" and batch:
        batch = _follow(head, batch, 1)
    size = int(message.body.size)
    if batch is None or _follow(head, batch, 3) is None:  # not packed
        return size
    for at in _list_structs(head, batch, 2, 16):
        offset, length = struct.unpack_from("<qq", head, at)
        if length >= 8 and 0 <= offset <= message.body.size - length:
            size += max(0, struct.unpack_from("<q", message.body, offset)[0])
    return size


def _follow(data: Any, table: int, field: int) -> int | None:
    """Return where a field of a flatbuffers table points to, or None where the table lacks it."""
    shape = table - struct.unpack_from("<i", data, table)[0]
    entry = 4 + 2 * field
    if entry >= struct.unpack_from("<H", data, shape)[0]:
        return None
    offset = struct.unpack_from("<H", data, shape + entry)[0]
    if not offset:
        return None
    at = int(table + offset)
    return at + int(struct.unpack_from("<I", data, at)[0])


def _list_structs(data: Any, table: int, field: int, width: int) -> Iterator[int]:
    """Yield where the structs of a vector begin."""
    start = _follow(data, table, field)
    if start is not None:
        (length,) = struct.unpack_from("<I", data, start)
        yield from range(start + 4, start + 4 + width * length, width)


QUOTING = (",", ";")
BLOCK_BYTES = 1 << 22

# Arrow splits at one byte; longer separators are replaced by this one, which a text may not hold then.
UNIT = "\x1f"


class TextRow(NamedTuple):
    """A row of a text: its first and its last line, counted from 1, their text, and its fields."""

    begin: int
    end: int
    text: str
    fields: list[str]

    def name(self) -> str:
        """Return the number of the line, or of the first and last, and the text of the first."""
        first = show_value(self.text.splitlines()[0] if self.text else "")
        return (
            f"line {self.begin} ({first})" if self.begin == self.end else f"lines {self.begin} to {self.end} ({first})"
        )

    def has_closed_quotes(self, separator: str) -> bool:
        """Return whether every quote of a row of several lines ends where a field does."""
        if self.begin == self.end:
            return True
        try:
            for _ in _make_reader(io.StringIO(self.text, newline=""), separator, strict=True):
                pass
        except csv.Error:
            return False
        return True


def to_utf8(content: bytes) -> bytes:
    """Return text as UTF-8 without a byte order mark; other bytes are read as Latin-1."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            return content.decode("utf-16").encode()
        except UnicodeDecodeError as error:
            raise DataError(
                f"the text begins like UTF-16, but byte {error.start + 1} is not ({error.reason}); save it as UTF-8"
            ) from None
    if not _is_utf8(content):
        return content.decode("latin-1").encode()
    return content.removeprefix(b"\xef\xbb\xbf")


def unify_line_ends(text: bytes) -> bytes:
    r"""Return a text whose lines end in \n, where they ended in \r\n or \r. Not for text with quotes around fields."""
    return text.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in text else text


def _is_utf8(content: bytes) -> bool:
    decoder, view = codecs.getincrementaldecoder("utf-8")(), memoryview(content)
    try:
        for start in range(0, len(content), BLOCK_BYTES):  # the whole at once would be a second copy of it
            decoder.decode(view[start : start + BLOCK_BYTES])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def list_lines(text: bytes) -> Iterator[tuple[int, str]]:
    r"""Return the number of each line, from 1, and its text with its end: \n, \r\n or \r. One too long is cut."""
    lines = io.TextIOWrapper(io.BytesIO(text), "utf-8", newline="")
    return enumerate(iter(partial(lines.readline, LONGEST_LINE + 2), ""), 1)


def shorten_separator(text: bytes, separator: str) -> tuple[bytes, str]:
    """Return the text with a separator of one byte, and that separator."""
    if len(separator.encode()) == 1:
        return text, separator
    if UNIT.encode() in text:
        number, line = next(each for each in list_lines(text) if UNIT in each[1])
        place = f"line {number} ({show_value(line.rstrip(chr(10) + chr(13)))})"
        raise DataError(f"{place} holds {UNIT!r}, which no text separated by {separator!r} may hold; remove it")
    return text.replace(separator.encode(), UNIT.encode()), UNIT


def count_fields(line: str, separator: str) -> int:
    """Return the number of fields of a line, on its own."""
    quotes = separator in QUOTING and '"' in line
    return len(split_line(line, separator)) if quotes else line.count(separator) + 1


def split_line(line: str, separator: str) -> list[str]:
    """Return the fields of a line, on its own."""
    return next((row.fields for row in split_rows(line.encode(), separator)), [])


def split_rows(text: bytes, separator: str) -> Iterator[TextRow]:
    """Yield each row that is not blank."""
    packed, delimiter = shorten_separator(text, separator)
    # The default, 128 kB, is less than a long title; it counts for the whole process, so it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), 2 * LONGEST_LINE))
    taken: list[str] = []

    def take_lines() -> Iterator[str]:
        for line in io.TextIOWrapper(io.BytesIO(packed), "utf-8", newline=""):
            taken.append(line)
            yield line

    reader = _make_reader(take_lines(), delimiter)
    before = 0
    try:
        for fields in reader:
            if fields:
                whole = "".join(taken)
                yield TextRow(before + 1, before + len(taken), whole.replace(delimiter, separator), fields)
            before += len(taken)
            taken.clear()
    except csv.Error as error:
        raise DataError(f"line {before + 1} cannot be read: {error}") from error


def _make_reader(lines: Iterable[str], separator: str, *, strict: bool = False) -> Iterator[list[str]]:
    if separator in QUOTING:
        return csv.reader(lines, delimiter=separator, strict=strict)
    return csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_NONE)


SEPARATORS = ("::", "\t", ",", ";", "|")
SAMPLE_LINES = 20


def parse_text(content: bytes, how: TextOptions, names: Sequence[str] | None = None) -> Table:
    """Return the table of a text, one row a line; lines that repeat the header are left out.

    A first line with a name that is recognized or expected is a header. Without one, columns are called
    `names` or, with `header=False`, "0", "1", ...
    """
    separator, header, expected, skip_bad = how
    if separator and any(mark in '\n\r"\x00' or "\ud800" <= mark <= "\udfff" for mark in separator):
        given = show_argument("separator", separator)
        raise DataError(f"{given} cannot separate fields; use a comma, a tab or the like")
    text = to_utf8(content)
    sample = _take_sample(text)
    separator = separator or _sniff(sample)
    first = split_line(sample[0], separator)
    if len(first) > MOST_COLUMNS:
        raise DataError(f"the first line has {len(first):,} fields; is {show_argument('separator', separator)} right?")
    if header is None:
        header = _is_header(first, names, expected)
    positions = [str(i) for i in range(len(first))]
    columns = [field.strip() for field in first] if header else [*(names or ()), *positions][: len(first)]
    if len(set(columns)) < len(columns):
        raise DataError(f"two columns have the same name: {quote_names(columns)}; rename one")
    bad: list[str] | None = [] if skip_bad else None
    cells = _read_columns(text, separator, columns, header, bad)
    n_rows, notes = len(cells[columns[0]]), []
    choose_limit().check_rows(n_rows)
    if separator in QUOTING and b'"' in text:
        n_lines = max(text.count(b"\n"), text.count(b"\r")) + (not text.endswith((b"\n", b"\r")))
        if n_lines > n_rows + header + len(bad or ()) and _may_hold_rows(cells, separator):
            _check_rows(text, separator)
    if bad:
        place = next(row.name() for row in split_rows(text, separator) if len(row.fields) != len(columns))
        what = f"{len(bad):,} rows that have" if len(bad) > 1 else "1 row that has"
        notes.append(f"skipped {what} not {len(columns)} fields; the first is {place}")

    def name_row(row: int) -> str:
        rows = (row for row in split_rows(text, separator) if len(row.fields) == len(columns))
        found = next(islice(rows, row + header, None), None)
        return f"row {row + 1}" if found is None else found.name()

    repeats = _find_repeated_headers(cells, first) if header else np.zeros(n_rows, np.bool_)
    if many := int(repeats.sum()):
        place = name_row(int(repeats.argmax()))
        what = (
            f"{many:,} lines that repeat the header, the first of them"
            if many > 1
            else "1 line that repeats the header,"
        )
        notes.append(f"skipped {what} {place}")
        cells = {name: column.filter(pa.array(~repeats)) for name, column in cells.items()}
    # The rows up to each repeated header are shifted by the number of those before it.
    shifts = np.flatnonzero(repeats) - np.arange(many)
    return Table(
        hold_columns(cells),
        lambda row: name_row(row + int(np.searchsorted(shifts, row, "right"))),
        is_text=True,
        roles={} if header or names is not None else {"user": 0, "item": 1},
        notes=tuple(notes),
    )


def _may_hold_rows(columns: Mapping[str, pa.ChunkedArray], separator: str) -> bool:
    """Return whether a field has line ends, and as many separators as a row: after an open quote it may hold rows."""
    return any(
        pc.any(
            pc.and_(
                pc.match_substring_regex(column, "[\r\n]"),
                pc.greater_equal(pc.count_substring(column, separator), len(columns) - 1),
            )
        ).as_py()
        for column in columns.values()
    )


def _find_repeated_headers(columns: Mapping[str, pa.ChunkedArray], header: Sequence[str]) -> BoolArray:
    """Return which rows, shape (n,), repeat the header, as in files that were joined."""
    cells = list(columns.values())
    same = np.full(len(cells[0]), pc.index(cells[0], header[0]).as_py() >= 0)
    if same.any():
        for name, column in zip(header, cells, strict=True):
            same &= pc.equal(column, name).to_numpy()
    return same


def _take_sample(text: bytes) -> list[str]:
    """Return the first lines that are not blank."""
    sample = []
    for number, line in list_lines(text):
        if len(line) > LONGEST_LINE:
            raise _make_long_line_error(f"line {number}")
        if line.strip("\r\n"):
            sample.append(line.rstrip("\r\n"))
        if len(sample) == SAMPLE_LINES:
            break
    if not sample:
        raise DataError(
            "the file is empty; it must have a row for each event, a user and an item, or for each item of a table"
        )
    return sample


def _make_long_line_error(place: str) -> DataError:
    return DataError(
        f"{place} is longer than {describe_size(LONGEST_LINE)}; is a line end or a closing quote missing?"
        " Remove what is not an event, or pass a Parquet or Arrow file"
    )


def _sniff(sample: Sequence[str]) -> str:
    """Return the separator that splits all lines into equally many fields, or at least the first line."""
    counts = {each: [count_fields(line, each) for line in sample] for each in SEPARATORS}
    even = [each for each, fields in counts.items() if fields[0] > 1 and len(set(fields)) == 1]
    some = even or [each for each, fields in counts.items() if fields[0] > 1]
    if not some:
        raise DataError(
            f"found no separator in the first line ({show_value(sample[0])}); pass {show_argument('separator', '...')},"
            " or remove the line where it is a comment; a user and their items on each line are"
            f" {show_argument('format', 'user-lists')}"
        )
    return some[0]


def _is_header(first: Sequence[str], names: Sequence[str] | None, expected: Collection[str]) -> bool:
    fields = [field.strip() for field in first]
    if any(find_role(field) or field in expected for field in fields):
        return True
    if names is not None:
        return False
    if any(is_float(field) for field in fields):
        raise DataError(
            f"the first line looks like data, not like column names: {quote_names(fields)};"
            f" pass {show_argument('header', False)}, and columns by position, such as"
            f" {', '.join(show_argument(role, place) for place, role in enumerate(('user', 'item', 'rating')))}"
        )
    return True


def _read_columns(
    text: bytes, separator: str, columns: list[str], header: bool, bad: list[str] | None
) -> dict[str, pa.ChunkedArray]:
    """Return the columns by name; rows with another number of fields go to `bad`, where that is a list."""
    header_line = next(number for number, line in list_lines(text) if line.strip("\r\n")) if header else 0
    quotes = separator in QUOTING and b'"' in text
    packed, delimiter = shorten_separator(text, separator)

    def skip(row: arrow_csv.InvalidRow) -> str:
        assert bad is not None
        bad.append(row.text)
        return "skip"

    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(packed),
            read_options=arrow_csv.ReadOptions(
                column_names=columns,
                skip_rows=header_line,
                block_size=min(len(packed) + 1, LONGEST_LINE),  # a row must fit into a block
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=delimiter,
                quote_char='"' if quotes else False,
                newlines_in_values=quotes,
                invalid_row_handler=None if bad is None else skip,
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.large_string()), strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid as error:
        _check_rows(text, separator, len(columns))
        raise DataError(quote_error(error)) from None
    return dict(zip(columns, table.columns, strict=True))


def _check_rows(text: bytes, separator: str, n_columns: int | None = None) -> None:
    """Raise an error for the first row with an open quote or, with `n_columns`, with another number of fields."""
    for row in split_rows(text, separator):
        if n_columns is not None and sum(len(field.encode()) + 1 for field in row.fields) > LONGEST_LINE:
            raise _make_long_line_error(f"line {row.begin}")
        if not row.has_closed_quotes(separator):
            raise DataError(
                f"{row.name()} are one row: a quote is not closed where its field ends; remove it, or write it twice"
            )
        if n_columns not in (None, len(row.fields)):
            raise DataError(
                f"{row.name()} {'has' if row.begin == row.end else 'have'} {len(row.fields)} fields where"
                f" {n_columns} are expected; correct it, {hint_skip()}"
            )
