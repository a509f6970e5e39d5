"""Separated text (CSV, TSV and the like) -> a table, with the line number of every row."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from csrr._base.arrays import BoolArray
from csrr._base.text import describe_size, quote_error, quote_names, show_argument, show_value
from csrr.data.columns import hint_skip
from csrr.data.errors import DataError
from csrr.data.sources import LONGEST_LINE, MOST_COLUMNS, choose_limit
from csrr.data.tables import Table, find_role, hold_columns
from csrr.parameters import is_float

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
        raise DataError(
            f"{place} holds the control character {UNIT!r}, which no text may hold that is"
            f" separated by {separator!r}; remove it"
        )
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


def parse_text(
    content: bytes,
    *,
    separator: str | None = None,
    header: bool | None = None,
    names: Sequence[str] | None = None,
    expected: Collection[str] = (),
    skip_bad: bool = False,
) -> Table:
    """Return the table of a text, one row a line; lines that repeat the header are left out.

    A first line with a name that is recognized or `expected` is a header. Without one, columns are called
    `names` or, with `header=False`, "0", "1", ... With `skip_bad`, rows with another number of fields are left out.
    """
    if separator and any(mark in '\n\r"\x00' or "\ud800" <= mark <= "\udfff" for mark in separator):
        given = show_argument("separator", separator)
        raise DataError(f"{given} cannot separate fields; use a comma, a tab or the like")
    text = to_utf8(content)
    sample = _take_sample(text)
    separator = separator or _sniff(sample)
    first = split_line(sample[0], separator)
    if len(first) > MOST_COLUMNS:
        raise DataError(
            f"the first line has {len(first):,} fields, more than {MOST_COLUMNS:,} columns;"
            f" is the separator right? Pass {show_argument('separator', '...')}"
        )
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
        raise DataError("the file is empty; it must have a row for each event: a user and an item")
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
                f"{row.name()} are one row: a quote is not closed where its field ends; remove it, or write each quote"
                " inside a field twice"
            )
        if n_columns not in (None, len(row.fields)):
            raise DataError(
                f"{row.name()} {'has' if row.begin == row.end else 'have'} {len(row.fields)} fields where"
                f" {n_columns} are expected; correct it, {hint_skip()}"
            )
