"""Separated text -> columns of text, with the line number of every row."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa
from pyarrow import csv as arrow_csv

from csrr.data.errors import DataError, quote_error, show_value
from csrr.data.event_tables import find_role, quote_names
from csrr.data.limits import LONGEST_LINE, MOST_COLUMNS
from csrr.printable import describe_size

SEPARATORS = ("::", "\t", ",", ";", "|")
QUOTING = (",", ";")
SAMPLE_LINES = 20
BLOCK_BYTES = 1 << 22

# Arrow splits at one byte; longer separators are replaced by this one, which a text may not hold then.
UNIT = "\x1f"


@dataclass(frozen=True)
class TextTable:
    """The columns of a text, each an Arrow array of text, shape (n_rows,), and the text itself."""

    columns: dict[str, pa.ChunkedArray]
    text: bytes
    separator: str
    has_header: bool

    @property
    def n_rows(self) -> int:
        """Number of rows, without the header."""
        return len(next(iter(self.columns.values())))

    def where(self, row: int) -> str:
        """Return the line number and the text of a row, counted from 0 without the header."""
        rows = split_rows(self.text, self.separator)
        number = next((line for line, _ in islice(rows, row + self.has_header, None)), None)
        return f"row {row + 1}" if number is None else _name_line(self.text, number)


def to_utf8(content: bytes) -> bytes:
    """Return text as UTF-8 without a byte order mark; what is not UTF-8 is taken to be Latin-1."""
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


def end_lines(text: bytes) -> bytes:
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


def parse_text(
    content: bytes,
    *,
    separator: str | None = None,
    header: bool | None = None,
    names: Sequence[str] | None = None,
    expected: Collection[str] = (),
) -> TextTable:
    """Return the columns of a text, one row a line.

    A first line with a name that is recognised or `expected` is a header. Without one, columns are called
    `names` or, with `header=False`, "0", "1", ...
    """
    if separator:
        _check_separator(separator)
    text = to_utf8(content)
    sample = _take_sample(text)
    separator = separator or _sniff(sample)
    first = _split_line(sample[0], separator)
    if len(first) > MOST_COLUMNS:
        raise DataError(
            f"the first line has {len(first):,} fields, more than {MOST_COLUMNS:,} columns;"
            " is the separator right? Pass separator='...'"
        )
    if header is None:
        header = _is_header(first, names, expected)
    positions = [str(i) for i in range(len(first))]
    columns = [field.strip() for field in first] if header else [*(names or ()), *positions][: len(first)]
    if len(set(columns)) < len(columns):
        raise DataError(f"two columns have the same name: {quote_names(columns)}; rename one")
    return TextTable(_read_columns(text, separator, columns, header), text, separator, header)


def _check_separator(separator: str) -> None:
    if any(mark in separator for mark in '\n\r"\x00') or any("\ud800" <= mark <= "\udfff" for mark in separator):
        raise DataError(f"separator={separator!r} cannot separate fields; use a comma, a tab or the like")


def _take_sample(text: bytes) -> list[str]:
    """Return the first lines that are not blank."""
    sample = []
    for number, line in _list_lines(text):
        if len(line) > LONGEST_LINE:
            raise _make_long_line_error(f"line {number}")
        if line.strip("\r\n"):
            sample.append(line.rstrip("\r\n"))
        if len(sample) == SAMPLE_LINES:
            break
    if not sample:
        raise DataError("the file is empty")
    return sample


def _list_lines(text: bytes) -> Iterator[tuple[int, str]]:
    r"""Yield the number of each line, from 1, and its text with its end: \n, \r\n or \r. One too long is cut."""
    lines = io.TextIOWrapper(io.BytesIO(text), "utf-8", newline="")
    number, line = 1, lines.readline(LONGEST_LINE + 2)
    while line:
        yield number, line
        number, line = number + 1, lines.readline(LONGEST_LINE + 2)


def _make_long_line_error(place: str) -> DataError:
    return DataError(
        f"{place} is longer than {describe_size(LONGEST_LINE)}; is a line end or a closing quote missing?"
        " Remove what is not an event, or pass a Parquet or Arrow file"
    )


def _sniff(sample: Sequence[str]) -> str:
    """Return the separator that splits all lines into equally many fields, or at least the first line."""
    counts = {each: [_count_fields(line, each) for line in sample] for each in SEPARATORS}
    even = [each for each, fields in counts.items() if fields[0] > 1 and len(set(fields)) == 1]
    some = even or [each for each, fields in counts.items() if fields[0] > 1]
    if not some:
        raise DataError(f"found no separator in the first line ({show_value(sample[0])}); pass separator='...'")
    return some[0]


def _is_header(first: Sequence[str], names: Sequence[str] | None, expected: Collection[str]) -> bool:
    fields = [field.strip() for field in first]
    if any(find_role(field) or field in expected for field in fields):
        return True
    if names is not None:
        return False
    if any(_is_number(field) for field in fields):
        raise DataError(
            f"the first line looks like data, not like column names: {quote_names(fields)};"
            " pass header=False, and columns by position, such as user=0, item=1, rating=2"
        )
    return True


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _read_columns(text: bytes, separator: str, columns: list[str], header: bool) -> dict[str, pa.ChunkedArray]:
    header_line = next(number for number, line in _list_lines(text) if line.strip("\r\n")) if header else 0
    quotes = separator in QUOTING and b'"' in text
    packed, delimiter = _use_one_byte(text, separator)
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(packed),
            read_options=arrow_csv.ReadOptions(
                column_names=columns,
                skip_rows=header_line,
                block_size=min(len(packed) + 1, LONGEST_LINE),  # a row must fit into a block
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=delimiter, quote_char='"' if quotes else False, newlines_in_values=quotes
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.large_string()), strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid as error:
        raise _find_bad_line(text, separator, len(columns)) or DataError(quote_error(error)) from None
    return dict(zip(columns, table.columns, strict=True))


def _use_one_byte(text: bytes, separator: str) -> tuple[bytes, str]:
    """Return the text with a separator of one byte, and that separator."""
    if len(separator.encode()) == 1:
        return text, separator
    if UNIT.encode() in text:
        line = next(number for number, line in _list_lines(text) if UNIT in line)
        raise DataError(
            f"{_name_line(text, line)} holds the control character {UNIT!r}, which no text may hold that is"
            f" separated by {separator!r}; remove it"
        )
    return text.replace(separator.encode(), UNIT.encode()), UNIT


def _find_bad_line(text: bytes, separator: str, n_columns: int) -> DataError | None:
    """Return an error naming the first line that is too long or has another number of fields, if there is one."""
    begin = 1
    for line, fields in split_rows(text, separator):
        if sum(len(field.encode()) + 1 for field in fields) > LONGEST_LINE:
            return _make_long_line_error(f"line {begin}")
        if len(fields) != n_columns:
            return DataError(f"{_name_line(text, line)} has {len(fields)} fields where {n_columns} are expected")
        begin = line + 1
    return None


def _count_fields(line: str, separator: str) -> int:
    """Return the number of fields of a line, on its own."""
    quotes = separator in QUOTING and '"' in line
    return len(_split_line(line, separator)) if quotes else line.count(separator) + 1


def _split_line(line: str, separator: str) -> list[str]:
    """Return the fields of a line, on its own."""
    return next((fields for _, fields in split_rows(line.encode(), separator)), [])


def split_rows(text: bytes, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the last line, from 1, and the fields of each row that is not blank."""
    packed, delimiter = _use_one_byte(text, separator)
    # The default, 128 kB, is less than a long title; it counts for the whole process, so it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), 2 * LONGEST_LINE))
    quotes = separator in QUOTING
    reader = csv.reader(
        io.TextIOWrapper(io.BytesIO(packed), "utf-8", newline=""),
        delimiter=delimiter,
        quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE,
    )
    try:
        yield from ((reader.line_num, fields) for fields in reader if fields)
    except csv.Error as error:
        raise DataError(f"line {reader.line_num} cannot be read: {error}") from error


def _name_line(text: bytes, line: int) -> str:
    content = next((each for number, each in _list_lines(text) if number == line), "")
    return f"line {line} ({show_value(content.rstrip(chr(10) + chr(13)))})"
