"""Separated text -> columns of text, with the line number of every row."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import csv as arrow_csv

from csrr.data.errors import DataError
from csrr.data.event_tables import find_role, quote_names

SEPARATORS = ("::", "\t", ",", ";", "|")
QUOTING = (",", ";")
SAMPLE_LINES = 20
SHOWN_CHARACTERS = 60

# Arrow splits at one character; longer separators are replaced by this one, which no text holds.
UNIT = "\x1f"


@dataclass(frozen=True)
class TextTable:
    """The columns of a text, each an Arrow array of text, shape (n_rows,), and the text itself."""

    columns: dict[str, pa.ChunkedArray]
    text: bytes
    separator: str
    has_header: bool

    def where(self, row: int) -> str:
        """Return the line number and the text of a row, counted from 0 without the header."""
        rows = _split_rows(self.text.decode(), self.separator)
        for _ in range(row + self.has_header):
            next(rows)
        return _name_line(self.text, next(rows)[0])


def to_utf8(content: bytes) -> bytes:
    """Return text as UTF-8 without a byte order mark; what is not UTF-8 is taken to be Latin-1."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16").encode()
    try:
        content.decode()
    except UnicodeDecodeError:
        return content.decode("latin-1").encode()
    return content.removeprefix(b"\xef\xbb\xbf")


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
    text = to_utf8(content)
    sample = _take_sample(text)
    separator = separator or _sniff(sample)
    first = next(_split_rows(sample[0], separator))[1]
    if header is None:
        header = _is_header(first, names, expected)
    positions = [str(i) for i in range(len(first))]
    columns = [field.strip() for field in first] if header else [*(names or ()), *positions][: len(first)]
    if len(set(columns)) < len(columns):
        raise DataError(f"two columns have the same name: {quote_names(columns)}; rename one")
    if len(separator) > 1:
        text, separator = text.replace(separator.encode(), UNIT.encode()), UNIT
    return TextTable(_read_columns(text, separator, columns, header), text, separator, header)


def _take_sample(text: bytes) -> list[str]:
    """Return the first lines that are not blank."""
    lines = (line.decode().rstrip("\r\n") for line in io.BytesIO(text))
    sample = [line for line, _ in zip((line for line in lines if line), range(SAMPLE_LINES), strict=False)]
    if not sample:
        raise DataError("the file is empty")
    return sample


def _sniff(sample: Sequence[str]) -> str:
    """Return the separator that splits all lines into equally many fields, or at least the first line."""
    counts = {each: [len(next(_split_rows(line, each))[1]) for line in sample] for each in SEPARATORS}
    even = [each for each, fields in counts.items() if fields[0] > 1 and len(set(fields)) == 1]
    some = even or [each for each, fields in counts.items() if fields[0] > 1]
    if not some:
        raise DataError(f"found no separator in the first line ({_shorten(sample[0])}); pass separator='...'")
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
    numbered = enumerate(io.BytesIO(text), 1)
    header_line = next(number for number, line in numbered if line.strip(b"\r\n")) if header else 0
    quotes = separator in QUOTING and b'"' in text
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(text),
            read_options=arrow_csv.ReadOptions(column_names=columns, skip_rows=header_line),
            parse_options=arrow_csv.ParseOptions(
                delimiter=separator, quote_char='"' if quotes else False, newlines_in_values=quotes
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.large_string()), strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid as error:
        raise _find_uneven_line(text, separator, len(columns)) or DataError(str(error)) from None
    return dict(zip(columns, table.columns, strict=True))


def _find_uneven_line(text: bytes, separator: str, n_columns: int) -> DataError | None:
    """Return an error naming the first line with another number of fields, if there is one."""
    for line, fields in _split_rows(text.decode(), separator):
        if len(fields) != n_columns:
            return DataError(f"{_name_line(text, line)} has {len(fields)} fields where {n_columns} are expected")
    return None


def _split_rows(text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number, from 1, and the fields of each line that is not blank."""
    if len(separator) > 1:
        text, separator = text.replace(separator, UNIT), UNIT
    source = io.StringIO(text, newline="")
    quotes = separator in QUOTING
    reader = csv.reader(source, delimiter=separator, quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE)
    try:
        yield from ((reader.line_num, fields) for fields in reader if fields)
    except csv.Error as error:
        raise DataError(f"line {reader.line_num} cannot be read: {error}") from error


def _name_line(text: bytes, line: int) -> str:
    content = text.decode().split("\n")[line - 1].rstrip("\r")
    return f"line {line} ({_shorten(content.replace(UNIT, '::'))})"


def _shorten(line: str) -> str:
    return repr(line if len(line) <= SHOWN_CHARACTERS else line[: SHOWN_CHARACTERS - 3] + "...")
