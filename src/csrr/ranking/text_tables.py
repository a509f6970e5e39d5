"""Tables as text: for people and for LaTeX; and for pandas."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from csrr.printable import find_best, find_numeric, format_cell, format_value, make_printable

if TYPE_CHECKING:
    import pandas as pd

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
            for text, width, flush in zip(line, widths, find_numeric(len(header), body), strict=True)
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
    for row, place in find_best(header, body, best or {}):
        cells[row][place] = rf"\textbf{{{cells[row][place]}}}"
    columns = "".join("r" if flush else "l" for flush in find_numeric(len(header), body))
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


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Return an Arrow table as a pandas DataFrame."""
    try:
        import pandas  # noqa: F401
    except ImportError:
        raise ImportError("to_frame needs pandas: pip install 'csrr[pandas]', or use to_arrow") from None
    frame: pd.DataFrame = table.to_pandas()
    return frame


def _escape_latex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in " ".join(text.split()))


def _format_latex(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "--" if math.isnan(value) else r"$\infty$" if value > 0 else r"$-\infty$"
    text = _escape_latex(format_value(value))
    return f"$-${text[1:]}" if isinstance(value, int | float) and text.startswith("-") else text


def _join_latex(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"
