"""Text -> lines and rows, as a reader of the file would number them."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator
from typing import NamedTuple

from csrr.data.errors import DataError, show_value
from csrr.data.limits import LONGEST_LINE

QUOTING = (",", ";")
BLOCK_BYTES = 1 << 22

# Arrow splits at one byte; longer separators are replaced by this one, which a text may not hold then.
UNIT = "\x1f"


class TextRow(NamedTuple):
    """A row of a text: its first and its last line, counted from 1, and its fields."""

    begin: int
    end: int
    fields: list[str]


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


def list_lines(text: bytes) -> Iterator[tuple[int, str]]:
    r"""Yield the number of each line, from 1, and its text with its end: \n, \r\n or \r. One too long is cut."""
    lines = io.TextIOWrapper(io.BytesIO(text), "utf-8", newline="")
    number, line = 1, lines.readline(LONGEST_LINE + 2)
    while line:
        yield number, line
        number, line = number + 1, lines.readline(LONGEST_LINE + 2)


def use_one_byte(text: bytes, separator: str) -> tuple[bytes, str]:
    """Return the text with a separator of one byte, and that separator."""
    if len(separator.encode()) == 1:
        return text, separator
    if UNIT.encode() in text:
        line = next(number for number, line in list_lines(text) if UNIT in line)
        raise DataError(
            f"{_name_line(text, line)} holds the control character {UNIT!r}, which no text may hold that is"
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
    packed, delimiter = use_one_byte(text, separator)
    # The default, 128 kB, is less than a long title; it counts for the whole process, so it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), 2 * LONGEST_LINE))
    quotes = separator in QUOTING
    reader = csv.reader(
        io.TextIOWrapper(io.BytesIO(packed), "utf-8", newline=""),
        delimiter=delimiter,
        quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE,
    )
    before = 0
    try:
        for fields in reader:
            if fields:
                yield TextRow(before + 1, reader.line_num, fields)
            before = reader.line_num
    except csv.Error as error:
        raise DataError(f"line {reader.line_num} cannot be read: {error}") from error


def name_lines(text: bytes, row: TextRow) -> str:
    """Return the number of a row's line, or of its first and last, and the text of the first."""
    line = _name_line(text, row.begin)
    return line if row.begin == row.end else line.replace("line", "lines", 1).replace(" (", f" to {row.end} (", 1)


def _name_line(text: bytes, line: int) -> str:
    content = next((each for number, each in list_lines(text) if number == line), "")
    return f"line {line} ({show_value(content.rstrip(chr(10) + chr(13)))})"
