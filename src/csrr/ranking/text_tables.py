"""Tables for people to read, and for pandas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    import pandas as pd

WIDEST = 40


def text_table(header: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """Return the lines under their header, in aligned columns: numbers to the right, the rest to the left."""
    body = [list(line) for line in lines]
    cells = [list(header), *([_cell(value) for value in line] for line in body)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = [all(isinstance(value, int | float) for value in column) for column in zip(*body, strict=True)]
    right = right or [False] * len(header)
    return "\n".join(
        "  ".join(
            text.rjust(width) if flush else text.ljust(width)
            for text, width, flush in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in cells
    )


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Return an Arrow table as a pandas DataFrame."""
    try:
        import pandas  # noqa: F401
    except ImportError:
        raise ImportError("to_frame needs pandas: pip install 'csrr[pandas]', or use to_arrow") from None
    frame: pd.DataFrame = table.to_pandas()
    return frame


def _cell(value: object) -> str:
    text = f"{value:.4f}" if isinstance(value, float) else "" if value is None else str(value)
    return text if len(text) <= WIDEST else text[: WIDEST - 3] + "..."
