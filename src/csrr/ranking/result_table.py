"""Answers with many rows, as columns of one length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from csrr.arrays import AnyArray
from csrr.ranking.text_tables import text_table, to_pandas

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 10


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Named columns, each of shape (n_rows,)."""

    columns: dict[str, AnyArray]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, name: str) -> AnyArray:
        """Return the column of that name, shape (n_rows,)."""
        return self.columns[name]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a dict for each row."""
        for values in zip(*(column.tolist() for column in self.columns.values()), strict=True):
            yield dict(zip(self.columns, values, strict=True))

    def take(self, which: slice | AnyArray) -> Self:
        """Return the table of the rows that a slice, a mask or row numbers choose."""
        return type(self)({name: column[which] for name, column in self.columns.items()})

    def head(self, n: int = SHOWN) -> Self:
        """Return the table of the first `n` rows."""
        return self.take(slice(n))

    def to_arrow(self) -> pa.Table:
        """Return the table as an Arrow table."""
        columns = {name: pa.array(column.tolist(), _arrow_type(name, column)) for name, column in self.columns.items()}
        return pa.table(columns)

    def to_frame(self) -> pd.DataFrame:
        """Return the table of `to_arrow` as a pandas DataFrame."""
        return to_pandas(self.to_arrow())

    def __str__(self) -> str:
        return text_table(list(self.columns), (list(row.values()) for row in self.rows()))

    def __repr__(self) -> str:
        more = [f"... {len(self) - SHOWN:,} more"] if len(self) > SHOWN else []
        return "\n".join([str(self.head()), *more])


def _arrow_type(name: str, column: AnyArray) -> pa.DataType | None:
    """Return the type to write: titles may be unknown one and all, and are text even so."""
    if name == "title":
        return pa.string()
    return None if column.dtype == np.object_ else pa.from_numpy_dtype(column.dtype)
