"""Text for people: safe to print, cut to a width, tables as HTML, and numbers in few digits."""

from __future__ import annotations

import html
import math
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

# Controls (C0, DEL, C1), the marks that change the direction of text, the two line ends that are not ASCII, halves of
# characters, and the tag characters that nobody sees. Joiners stay: emoji and many scripts need them.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


_ELLIPSIS = "..."


class TableWidth(NamedTuple):
    """The columns of a screen that a table may take, and a cell of it."""

    width: int | None = None
    widest: int = 40


_IN_PYTHON = TableWidth()
TABLE_WIDTH: ContextVar[TableWidth] = ContextVar("table_width", default=_IN_PYTHON)
"""The width that holds here; see `fit_tables`."""


@contextmanager
def _set_in_block(variable: ContextVar[Any], value: Any) -> Iterator[None]:
    """Set a variable in the block."""
    before = variable.set(value)
    try:
        yield
    finally:
        variable.reset(before)


def fit_tables(width: int | None) -> AbstractContextManager[None]:
    """Make text tables of the block fit a screen of that width, or a file: there cells are hardly ever cut."""
    return _set_in_block(TABLE_WIDTH, TableWidth(width, 200))


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
    """Return a value as text for a table: on one line, short, without control characters."""
    widest = TABLE_WIDTH.get().widest if widest is None else widest
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


WIDEST = 40
"""The most characters of a cell, whatever the width of a terminal."""
_ROOM = "padding: 0.2em 0.6em"


def format_html_table(
    header: Sequence[str],
    lines: Iterable[Sequence[object]],
    n_more: int = 0,
    bold: Collection[tuple[int, int]] = (),
) -> str:
    """Return the lines under their header as HTML, and how many more there are; cells of `bold` places are bold."""
    body = [list(line) for line in lines]
    flush = ["right" if each else "left" for each in find_numeric(len(header), body)]
    cells = [[html.escape(format_cell(value, WIDEST)) for value in line] for line in body]
    for row, place in bold:
        cells[row][place] = f"<strong>{cells[row][place]}</strong>"
    rows = [f"<tr>{_join_cells('td', line, flush)}</tr>" for line in cells]
    head = f"<thead><tr>{_join_cells('th', (html.escape(make_printable(name)) for name in header), flush)}</tr></thead>"
    more = [f"<p>... {n_more:,} more</p>"] if n_more else []
    return "\n".join(["<table>", head, "<tbody>", *rows, "</tbody>", "</table>", *more])


def format_html_facts(facts: Mapping[str, object]) -> str:
    """Return names and their values as HTML, one below the other."""
    rows = [
        f"<tr>{_join_cells('th', [html.escape(make_printable(name))], ['left'])}"
        f"{_join_cells('td', [html.escape(format_cell(value, WIDEST))], ['left'])}</tr>"
        for name, value in facts.items()
    ]
    return "\n".join(["<table>", "<tbody>", *rows, "</tbody>", "</table>"])


class FactSheet:
    """A result that notebooks show as a table of its `facts`."""

    @property
    def facts(self) -> Mapping[str, object]:
        """Names and values."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return format_html_facts(self.facts)


def format_html_words(text: str) -> str:
    """Return a text as a paragraph, with a break at each end of a line."""
    return f"<p>{'<br>'.join(html.escape(make_printable(line)) for line in text.splitlines())}</p>"


def format_html_rows(text: str, columns: Mapping[str, Sequence[object]], n_rows: int) -> str:
    """Return a text over a table of the first of `n_rows` rows, given by column, as HTML."""
    lines = list(zip(*columns.values(), strict=True))
    return f"{format_html_words(text)}\n{format_html_table(list(columns), lines, n_rows - len(lines))}"


def fold_html(title: str, body: str, *, is_open: bool = False) -> str:
    """Return HTML that folds under a title."""
    opening = "<details open>" if is_open else "<details>"
    return f"{opening}<summary>{html.escape(make_printable(title))}</summary>\n{body}\n</details>"


def _join_cells(tag: str, texts: Iterable[str], sides: Sequence[str]) -> str:
    cells = zip(texts, sides, strict=True)
    return "".join(f'<{tag} style="text-align: {side}; {_ROOM}">{text}</{tag}>' for text, side in cells)


SHOWN_CHARACTERS, SHOWN_NAMES = 60, 20


def show_value(value: object) -> str:
    """Return a value as code would spell it, on one line and in at most 60 characters."""
    if isinstance(value, str):
        return repr(cut_text(value, SHOWN_CHARACTERS))
    if isinstance(value, bytes):
        value = value[:SHOWN_CHARACTERS]
    if isinstance(value, int) and value.bit_length() > 200:
        return f"an integer of {value.bit_length():,} bits"
    try:
        return cut_text(" ".join(line.strip() for line in repr(value).splitlines()), SHOWN_CHARACTERS)
    except (ValueError, RecursionError):
        return f"a {type(value).__name__}"


def quote_error(error: Exception) -> str:
    """Return the first line of the message of a library, in at most 200 characters."""
    return cut_text((str(error).splitlines() or [type(error).__name__])[0], 200)


def list_names(names: Collection[str]) -> str:
    """Return names with commas between them, at most 20 of them, each cut where it is long."""
    shown = [cut_text(name, SHOWN_CHARACTERS) for name in list(names)[:SHOWN_NAMES]]
    return ", ".join(shown) + (f" and {len(names) - SHOWN_NAMES:,} more" if len(names) > SHOWN_NAMES else "")


def quote_names(names: Collection[str]) -> str:
    """Return names, in quotes and commas, at most 20 of them."""
    return list_names([show_value(name) for name in names]) or "none"


def show_in_python(name: str, value: object = ...) -> str:
    """Return an argument as Python spells it: user='id'; without a value, user=."""
    return f"{name}={'' if value is ... else show_value(value)}"


_SHOW_ARGUMENT: ContextVar[Callable[[str, object], str]] = ContextVar("show_argument", default=show_in_python)


def show_argument(name: str, value: object = ...) -> str:
    """Return an argument as the caller spells it: in Python, or as an option of a command (`spell_arguments`)."""
    return _SHOW_ARGUMENT.get()(name, value)


def spell_arguments(spell: Callable[[str, object], str]) -> AbstractContextManager[None]:
    """Have messages of the block name arguments as `spell` does."""
    return _set_in_block(_SHOW_ARGUMENT, spell)


UNKNOWN = "–"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def to_plain(value: Any) -> Any:
    """Return a value for JSON: lists for arrays, dicts for dataclasses, None for numbers that are not finite."""
    if is_dataclass(value):
        return {each.name: to_plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): to_plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(each) for each in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if hasattr(value, "tolist"):
        return to_plain(value.tolist())
    return value if isinstance(value, str | int) or value is None else str(value)


def to_finite(value: Any) -> float | None:
    """Return a finite number as a float, anything else as None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def format_fixed(value: Any, digits: int = 4, *, signed: bool = False) -> str:
    """Return a number with `digits` decimals: 0.1165; with `signed`, +0.0080 or −0.0080."""
    number = to_finite(value)
    if number is None:
        return UNKNOWN
    text = f"{number:{'+' if signed else ''},.{digits}f}"
    return text.replace("-", "−")


def format_short(value: Any) -> str:
    """Return a number with up to four significant digits: 0.07, 2, 1,500 or 2·10⁻⁵."""
    number = to_finite(value)
    if number is None:
        return UNKNOWN
    if number == 0 or 1e-4 <= abs(number) < 1e6:
        return f"{float(f'{number:.4g}'):,.12g}".replace("-", "−")
    digits, exponent = f"{number:.3e}".split("e")
    digits = digits.rstrip("0").rstrip(".")
    factor = "" if digits == "1" else digits.replace("-", "−") + "·"
    return factor + format_power_of_ten(int(exponent))


def format_power_of_ten(exponent: int) -> str:
    """Return a power of ten with its exponent raised: 10⁻³."""
    return "10" + str(exponent).translate(SUPERSCRIPTS)


def format_percent(share: float | None, *, signed: bool = False) -> str:
    """Return a share in percent: 45.0 %; with `signed`, +1.2 %, −1.2 % or 0.0 %."""
    number = to_finite(share)
    if number is None:
        return UNKNOWN
    text = format_fixed(100 * number, 1, signed=signed)
    return ("0.0" if text in ("+0.0", "−0.0") else text) + " %"


def format_p_value(p: Any) -> str:
    """Return a p-value with three decimals, or that it is below the last of them."""
    number = to_finite(p)
    return "< 0.001" if number is not None and number < 0.001 else format_fixed(number, 3)


def format_duration(seconds: Any) -> str:
    """Return a time in words: 0.4 s, 100 s, 12 min, 1 h 5 min."""
    number = to_finite(seconds)
    if number is None:
        return UNKNOWN
    if number < 10:
        return f"{number:.2g} s"
    if number < 120:
        return f"{number:.0f} s"
    minutes = round(number / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def format_number_of(n: int, thing: str) -> str:
    """Return a number of things in words: 1 user, 2,000 users."""
    return f"{n:,} {thing if n == 1 else thing + 's'}"
