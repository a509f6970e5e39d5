"""The errors and warnings about data, and how they show values and names."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from csrr._base.text import quote_error

Kinds = type[Exception] | tuple[type[Exception], ...]

RowNamer = Callable[[int], str]
"""Names the place of a data row, counted from 0, in words: "row 3" or "line 4 of ratings.csv"."""


class DataError(ValueError):
    """Raised for data that cannot be used; the message says what is wrong, where, and what to do.

    Parameters
    ----------
    message
        The message.
    path
        The name of the file, if it was one.
    column
        The name of the column in which a value is wrong; or, where no column or several can be the user's, the item's
        or another one, which of these: "user", "item", ...
    row
        The row with the wrong value, counted from 0.

    Examples
    --------
    >>> try:
    ...     csrr.read({"user": ["ann", None], "item": [1, 2]})
    ... except csrr.DataError as error:
    ...     error.column, error.row
    ('user', 1)
    """

    def __init__(
        self, message: str = "", *, path: str | None = None, column: str | None = None, row: int | None = None
    ) -> None:
        super().__init__(message)
        self.path, self.column, self.row = path, column, row


class DataWarning(UserWarning):
    """Warns of data that was corrected or skipped; the message says what, where, and what to do.

    The message is also in `log.columns.notes`. `warnings.simplefilter("error", csrr.DataWarning)` makes it an error.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     log = csrr.read({"user": ["ann", None], "item": [1, 2]}, on_bad_rows="skip")
    >>> print(caught[0].message)
    skipped 1 of 2 rows that are bad; the first is row 2
    """


class UnknownIdError(KeyError):
    """Raised for an id that the data does not contain.

    Parameters
    ----------
    message
        The message.
    ids
        The ids that are unknown.
    kind
        Of what they are: "user" or "item".
    hint
        How to do without them, where that is possible.

    Examples
    --------
    >>> try:
    ...     csrr.IdMap([1, 2]).rows([2, 7], "item")
    ... except csrr.UnknownIdError as error:
    ...     error.kind, error.ids
    ('item', (7,))
    """

    def __init__(
        self, message: str = "", *, ids: Collection[int | str] = (), kind: str = "user", hint: str = ""
    ) -> None:
        super().__init__(message)
        self.ids, self.kind, self.hint = tuple(ids), kind, hint

    def __str__(self) -> str:
        """Return the message and the hint; KeyError would return its repr."""
        return "; ".join(filter(None, (self.args[0], self.hint)))


class UnknownIdWarning(UserWarning):
    """Warns that unknown ids were left out (`unknown="ignore"`); the message counts them.

    Examples
    --------
    >>> import warnings
    >>> model = csrr.PopRank().fit(csrr.synthetic(60, 40, events_per_user=10).log)
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     recs = model.recommend(3, candidates=[1, 2, 999], unknown="ignore")
    >>> print(caught[0].message)
    unknown ids were left out: 1 of 3 in candidates
    """


class NoHistoryWarning(UserWarning):
    """Warns that users without a history got popular items; the message counts them, and `fallback` marks them.

    Examples
    --------
    >>> import warnings
    >>> model = csrr.EASE(reg=10).fit(csrr.synthetic(60, 40, events_per_user=10).log)
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     recs = model.recommend([3, 999], unknown="ignore")
    >>> print(caught[0].message)
    1 of 2 users has no history (1 unknown) and gets popular items
    """


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn, and name the line outside of this package from which it was called."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__", "")).split(".")[0] == "csrr":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def name_table_row(row: int) -> str:
    """Return the name of a row of a table, counted from 1."""
    return f"row {row + 1}"


@contextmanager
def name_in_errors(name: str | None) -> Iterator[None]:
    """Put the name of a file, if there is one, in front of the message of a `DataError`."""
    try:
        yield
    except DataError as error:
        if name is not None:
            error.args, error.path = (f"{name}: {error}",), name
        raise


@contextmanager
def reword_errors(kinds: Kinds, before: str, after: str = "", column: str | None = None) -> Iterator[None]:
    """Turn errors of libraries into a `DataError`: the first line of the message, with words before and after it."""
    try:
        yield
    except DataError:
        raise
    except kinds as error:
        raise DataError(f"{before}: {quote_error(error)}{after}", column=column) from error
