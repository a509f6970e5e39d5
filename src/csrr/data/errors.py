"""What can be wrong with data, said so that the reader can fix it."""

from __future__ import annotations

from collections.abc import Callable

RowNamer = Callable[[int], str]
"""Names the place of a data row, counted from 0, in words: "row 3" or "line 4 of ratings.csv"."""


class DataError(ValueError):
    """Data that cannot be used; the message says what is wrong, where, and what to do."""


class UnknownIdError(KeyError):
    """An id that the data does not contain."""

    def __str__(self) -> str:
        """Return the message itself; KeyError would return its repr."""
        return str(self.args[0]) if self.args else ""


def name_table_row(row: int) -> str:
    """Return the name of a row of a table, counted from 1."""
    return f"row {row + 1}"
