"""Text -> lines and rows, as a reader of the file would number them."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from csrr.data.errors import DataError, show_value
from csrr.data.limits import LONGEST_LINE

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

    def is_closed(self, separator: str) -> bool:
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


def check_quotes(text: bytes, separator: str) -> None:
    """Raise an error naming the row, if there is one, whose quote takes in what should be rows of their own."""
    for row in split_rows(text, separator):
        if not row.is_closed(separator):
            raise make_quote_error(row)


def make_quote_error(row: TextRow) -> DataError:
    """Return an error for a row that takes in others."""
    return DataError(
        f"{row.name()} are one row: a quote is not closed where its field ends; remove it, or write each quote"
        " inside a field twice"
    )


def count_lines(text: bytes) -> int:
    """Return the number of lines of a text."""
    return max(text.count(b"\n"), text.count(b"\r")) + (not text.endswith((b"\n", b"\r")))


def _make_reader(lines: Iterable[str], separator: str, *, strict: bool = False) -> Iterator[list[str]]:
    if separator in QUOTING:
        return csv.reader(lines, delimiter=separator, strict=strict)
    return csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_NONE)


def _name_line(text: bytes, line: int) -> str:
    content = next((each for number, each in list_lines(text) if number == line), "")
    return f"line {line} ({show_value(content.rstrip(chr(10) + chr(13)))})"
