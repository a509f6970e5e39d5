"""Text for people: what data holds, made safe to print, its width on a screen, and sizes in words.

Nothing that is safe can move the cursor, color the screen or turn the line around.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

# Controls (C0, DEL, C1), the marks that change the direction of text, the two line ends that are not ASCII, halves of
# characters, and the tag characters that nobody sees. Joiners stay: emoji and many scripts need them.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


_ELLIPSIS = "..."


class Layout(NamedTuple):
    """How many columns of a screen a table may take, and a cell of it."""

    width: int | None = None
    widest: int = 40


_IN_PYTHON = Layout()
_LAYOUT: ContextVar[Layout] = ContextVar("layout", default=_IN_PYTHON)


@contextmanager
def fit_tables(width: int | None) -> Iterator[None]:
    """Make text tables of this block fit a screen of that width, or a file: there cells are hardly ever cut."""
    before = _LAYOUT.set(Layout(width, 200))
    try:
        yield
    finally:
        _LAYOUT.reset(before)


def find_layout() -> Layout:
    """Return what `fit_tables` says, or that cells are to be short."""
    return _LAYOUT.get()


def make_printable(text: str, keep: str = "") -> str:
    r"""Return `text` with its unsafe characters spelled out, as \x1b; those in `keep` stay."""
    return _UNSAFE.sub(lambda found: found[0] if found[0] in keep else _spell(ord(found[0])), text)


def measure_width(text: str) -> int:
    """Return how many columns of a terminal `text` takes: two for each wide character, none for a combining one."""
    if text.isascii():
        return len(text)
    return sum(_measure_character(each) for each in text)


def cut_text(text: str, width: int, *, keep_end: bool = False) -> str:
    """Return `text` or, where it is wider than `width` (5 or more), its beginning, an ellipsis and maybe its end."""
    # A title may have a million characters.
    if len(text) <= 2 * width and measure_width(text) <= width:
        return text
    room = width - len(_ELLIPSIS)
    end = _take(text[: -2 * width : -1], room // 2)[::-1] if keep_end else ""
    return _take(text[: 2 * width], room - measure_width(end)) + _ELLIPSIS + end


def _take(text: str, width: int) -> str:
    """Return as much of the beginning of `text` as fits."""
    kept = 0
    for each in text:
        width -= _measure_character(each)
        if width < 0:
            break
        kept += 1
    return text[:kept]


def describe_size(n_bytes: int) -> str:
    """Return a number of bytes in words: 3.1 MB."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if n_bytes >= size:
            return f"{n_bytes / size:.1f} {unit}"
    return f"{n_bytes} bytes"


def format_cell(value: object, widest: int | None = None) -> str:
    """Return a value as it is shown: on one line, short, with nothing in it that a terminal would obey."""
    widest = find_layout().widest if widest is None else widest
    # Cut first: a title may have a million characters, and each may be spelled out.
    return cut_text(make_printable(cut_text(format_value(value), widest)), widest)


def format_value(value: object) -> str:
    """Return a value as text: numbers to four digits, nothing for None."""
    return f"{value:.4f}" if isinstance(value, float) else "" if value is None else str(value)


def find_numeric(n_columns: int, body: Sequence[Sequence[object]]) -> list[bool]:
    """Return which columns hold nothing but numbers; in an empty table none does."""
    if not body:
        return [False] * n_columns
    return [all(isinstance(value, int | float) for value in column) for column in zip(*body, strict=True)]


def find_best(header: Sequence[str], body: Sequence[Sequence[object]], best: Mapping[str, str]) -> set[tuple[int, int]]:
    """Return the row and column of the best number of each column that `best` names, and of what looks the same."""
    found = set[tuple[int, int]]()
    for name, end in best.items():
        if name not in header:
            raise ValueError(f"best: there is no column {name!r}; there are {', '.join(header)}")
        if end not in ("max", "min"):
            raise ValueError(f"best: {name}={end!r} must be 'max' or 'min'")
        place = list(header).index(name)
        column = [line[place] for line in body]
        numbers = [value for value in column if isinstance(value, int | float) and not math.isnan(value)]
        if numbers:
            shown = format_value(max(numbers) if end == "max" else min(numbers))
            found |= {(row, place) for row, value in enumerate(column) if format_value(value) == shown}
    return found


def _measure_character(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _spell(code: int) -> str:
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
