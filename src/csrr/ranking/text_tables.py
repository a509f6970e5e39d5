"""Tables as text: for people, for LaTeX and for notebooks; and for pandas."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from csrr.printable import make_printable

if TYPE_CHECKING:
    import pandas as pd

WIDEST = 40

BestColumns = Mapping[str, Literal["max", "min"]]
"""Which end of a column is best, by its name."""

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


def format_text_table(header: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """Return the lines under their header, in aligned columns: numbers to the right, the rest to the left."""
    body = [list(line) for line in lines]
    cells = [[make_printable(name) for name in header], *([format_cell(value) for value in line] for line in body)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(
            text.rjust(width) if flush else text.ljust(width)
            for text, width, flush in zip(line, widths, _find_numeric(len(header), body), strict=True)
        ).rstrip()
        for line in cells
    )


def format_latex_table(
    header: Sequence[str], lines: Iterable[Sequence[object]], best: BestColumns | None = None
) -> str:
    r"""Return the lines under their header as a LaTeX tabular, for \usepackage{booktabs}.

    In the columns that `best` names the largest or smallest number is bold, and what looks the same to four digits.
    """
    body = [list(line) for line in lines]
    cells = [[_format_latex(value) for value in line] for line in body]
    for name, end in (best or {}).items():
        _embolden(cells, body, header, name, end)
    columns = "".join("r" if flush else "l" for flush in _find_numeric(len(header), body))
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            _join_latex(_escape_latex(name) for name in header),
            r"\midrule",
            *map(_join_latex, cells),
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def format_html_table(header: Sequence[str], lines: Iterable[Sequence[object]], n_more: int = 0) -> str:
    """Return the lines under their header as HTML, and how many more there are."""
    body = [list(line) for line in lines]
    flush = ["right" if each else "left" for each in _find_numeric(len(header), body)]

    def tag(name: str, texts: Iterable[str]) -> str:
        cells = zip(texts, flush, strict=True)
        return "".join(f'<{name} style="text-align: {side}">{html.escape(text)}</{name}>' for text, side in cells)

    rows = [f"<tr>{tag('td', (format_cell(value) for value in line))}</tr>" for line in body]
    more = [f"<p>... {n_more:,} more</p>"] if n_more else []
    head = f"<thead><tr>{tag('th', header)}</tr></thead>"
    return "\n".join(["<table>", head, "<tbody>", *rows, "</tbody>", "</table>", *more])


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Return an Arrow table as a pandas DataFrame."""
    try:
        import pandas  # noqa: F401
    except ImportError:
        raise ImportError("to_frame needs pandas: pip install 'csrr[pandas]', or use to_arrow") from None
    frame: pd.DataFrame = table.to_pandas()
    return frame


def _find_numeric(n_columns: int, body: Sequence[Sequence[object]]) -> list[bool]:
    """Return which columns hold nothing but numbers; in an empty table none does."""
    if not body:
        return [False] * n_columns
    return [all(isinstance(value, int | float) for value in column) for column in zip(*body, strict=True)]


def format_cell(value: object) -> str:
    """Return a value as it is shown: on one line, short, with nothing in it that a terminal would obey."""
    text = _format_value(value)
    # Cut first: a title may have a million characters, and each may be spelled out.
    text = make_printable(text if len(text) <= WIDEST else text[: WIDEST - 3] + "...")
    return text if len(text) <= WIDEST else text[: WIDEST - 3] + "..."


def _format_value(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else "" if value is None else str(value)


def _escape_latex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in " ".join(text.split()))


def _format_latex(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "--" if math.isnan(value) else r"$\infty$" if value > 0 else r"$-\infty$"
    text = _escape_latex(_format_value(value))
    return f"$-${text[1:]}" if isinstance(value, int | float) and text.startswith("-") else text


def _join_latex(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _embolden(
    cells: list[list[str]], body: Sequence[Sequence[object]], header: Sequence[str], name: str, end: str
) -> None:
    """Make the best cells of a column bold, in place."""
    if name not in header:
        raise ValueError(f"best: there is no column {name!r}; there are {', '.join(header)}")
    if end not in ("max", "min"):
        raise ValueError(f"best: {name}={end!r} must be 'max' or 'min'")
    place = list(header).index(name)
    numbers = [
        (value, line[place])
        for row, line in zip(body, cells, strict=True)
        if isinstance(value := row[place], int | float) and not math.isnan(value)
    ]
    if numbers:
        _, shown = (max if end == "max" else min)(numbers, key=lambda pair: pair[0])
        for line in cells:
            line[place] = rf"\textbf{{{shown}}}" if line[place] == shown else line[place]
