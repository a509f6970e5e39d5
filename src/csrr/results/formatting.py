"""Tables as text: for people and for LaTeX."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from csrr._base.text import (
    cut_text,
    find_best,
    find_layout,
    find_numeric,
    format_cell,
    format_value,
    make_printable,
    measure_width,
)

_LEAST = 16
"""The least width that a text is cut to, so that an id or a title can still be recognized."""
_LONGEST_NUMBER = 24
_NUMBERS = re.compile(r"[-+±%.,\d\se]*(?:to[-+±%.,\d\se]*)?")

BestColumns = Mapping[str, Literal["max", "min"]]
"""The end of a column that is best, by the name of the column."""

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def format_text_table(
    header: Sequence[str], lines: Iterable[Sequence[object]], notes: Sequence[str] | None = None
) -> str:
    """Return the lines under their header, in aligned columns: numbers to the right, the rest to the left.

    Under each line stands its note, where it has one. Where `fit_tables` says how wide a table may be, titles are cut,
    then other texts; what is still too wide is folded.
    """
    body = [list(line) for line in lines]
    cells = [[make_printable(name) for name in header], *([format_cell(value) for value in line] for line in body)]
    widths = [max(map(measure_width, column)) for column in zip(*cells, strict=True)]
    flush, width = find_numeric(len(header), body), find_layout().width
    parts, gap = [list(range(len(header)))], 2
    if width is not None:
        least = [_find_least(column) for column in zip(*cells, strict=True)]
        widths, parts, gap = _fit(widths, least, [name == "title" for name in header], width)
    columns = list(zip(cells[0], widths, flush, strict=True))
    filled = [
        [_fill(text, width, flush=right, name=name) for text, (name, width, right) in zip(line, columns, strict=True)]
        for line in cells
    ]
    folded = [[(" " * gap).join(line[place] for place in part).rstrip() for line in filled] for part in parts]
    if notes is not None:
        told = zip(folded[0], ("", *notes), strict=True)
        folded[0] = [text for line, note in told for text in (line, *([note] if note else []))]
    return "\n\n".join("\n".join(part) for part in folded)


def _find_least(column: Sequence[str]) -> int:
    """Return the least width of a column, its header first; numbers, with their intervals, are not cut."""
    name, *texts = column
    widest = max(map(measure_width, texts), default=0)
    holds_numbers = widest <= _LONGEST_NUMBER and all(map(_NUMBERS.fullmatch, texts))
    return max(widest if holds_numbers else min(widest, _LEAST), measure_width(name))


def _fit(
    widths: Sequence[int], least: Sequence[int], are_titles: Sequence[bool], width: int
) -> tuple[list[int], list[list[int]], int]:
    """Return widths that fit, the columns of each part of the table, and the gap between them."""
    places = list(range(len(widths)))
    for gap in (2, 1):
        cut = _cut_widths(widths, least, are_titles, width - gap * (len(widths) - 1))
        if sum(cut) + gap * (len(cut) - 1) <= width:
            return cut, [places], gap
    # Two columns side by side: the first, which every part has, and another.
    half = [min(each, max((width - 2) // 2, smallest)) for each, smallest in zip(widths, least, strict=True)]
    return half, _fold(half, width), 2


def _cut_widths(widths: Sequence[int], least: Sequence[int], are_titles: Sequence[bool], room: int) -> list[int]:
    """Return the widths, cut until they fit the room or nothing is left to cut: titles first, then the widest."""
    cut = list(widths)
    while sum(cut) > room:
        longest = max(range(len(cut)), key=lambda place: (cut[place] > least[place], are_titles[place], cut[place]))
        if cut[longest] <= least[longest]:
            break
        cut[longest] -= 1
    return cut


def _fold(widths: Sequence[int], width: int) -> list[list[int]]:
    """Return the columns of each part of a table that is too wide; all of them begin with the first column."""
    parts = [[0]]
    for place in range(1, len(widths)):
        if len(parts[-1]) > 1 and sum(widths[each] + 2 for each in parts[-1]) + widths[place] > width:
            parts.append([0])
        parts[-1].append(place)
    return parts


def _fill(text: str, width: int, *, flush: bool, name: str) -> str:
    """Return a text of that width, cut or with blanks; `name` is that of the column."""
    # What tells ids apart is as often their end.
    text = cut_text(text, width, keep_end=name != "title")
    blanks = " " * (width - measure_width(text))
    return blanks + text if flush else text + blanks


def format_latex_table(
    header: Sequence[str], lines: Iterable[Sequence[object]], best: BestColumns | None = None
) -> str:
    r"""Return the lines under their header as a LaTeX tabular, for \usepackage{booktabs}.

    In the columns that `best` names the largest or smallest number is bold, and what looks the same to four digits.
    """
    body = [list(line) for line in lines]
    cells = [[_format_latex(value) for value in line] for line in body]
    for row, place in find_best(header, body, best or {}):
        cells[row][place] = rf"\textbf{{{cells[row][place]}}}"
    columns = "".join("r" if flush else "l" for flush in find_numeric(len(header), body))
    header_line = " & ".join(map(_escape_latex, header))
    rows = [r"\toprule", rf"{header_line} \\", r"\midrule", *(rf"{' & '.join(line)} \\" for line in cells)]
    return "\n".join([rf"\begin{{tabular}}{{{columns}}}", *rows, r"\bottomrule", r"\end{tabular}"])


def _escape_latex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in " ".join(text.split()))


def _format_latex(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "--" if math.isnan(value) else r"$\infty$" if value > 0 else r"$-\infty$"
    text = _escape_latex(format_value(value))
    return f"$-${text[1:]}" if isinstance(value, int | float) and text.startswith("-") else text
