"""Files, tables and matrices -> a log."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from csrr.data.column_roles import Column
from csrr.data.columns import join_dictionaries
from csrr.data.errors import DataError, name_in_errors, show_value
from csrr.data.formats import PARTS, Content, load_content, parse_user_lists, recognise
from csrr.data.log import Log, number_pairs
from csrr.data.sources import Bundle, open_bundle
from csrr.data.sql import fetch_events, is_database
from csrr.data.tables import Asked, OnBadRows, is_matrix, is_table, read_events
from csrr.parameters import Choice, ParameterError


def as_log(data: Any) -> Log:
    """Return `data` as a log: a log itself, a table with user and item columns, or a users x items matrix."""
    if isinstance(data, Log):
        return data
    if is_matrix(data):
        return Log.from_matrix(data)
    if is_table(data):
        return Log.from_table(data)
    raise DataError(describe_unusable(data))


def describe_unusable(data: Any) -> str:
    """Return a message that says what can be used in place of `data`."""
    if type(data).__name__ == "LazyFrame":
        return "a LazyFrame holds no data yet; pass frame.collect()"
    return (
        f"cannot use a {type(data).__name__} as data; accepted are a Log, a pandas, polars or pyarrow table,"
        " a dict of columns (user, item and perhaps rating, weight, time), a list of tuples or dicts, a scipy sparse"
        " matrix or a 2-D numpy array (users x items); csrr.read takes a path or a database, too"
    )


def read(
    source: Any,
    *,
    format: str | None = None,
    part: Literal["train", "test", "all"] = "all",
    user: Column = None,
    item: Column = None,
    rating: Column = None,
    weight: Column = None,
    event: Column = None,
    time: Column = None,
    title: Column = None,
    weights: Mapping[Any, float] | None = None,
    target: str | int | None = None,
    min_rating: float | None = None,
    min_weight: float | None = None,
    separator: str | None = None,
    header: bool | None = None,
    query: str | None = None,
    on_bad_rows: OnBadRows = "error",
    missing: Collection[str] | None = None,
) -> Log:
    """Read a log from a file, folder, zip archive, table, matrix or database.

    Formats are MovieLens, EachMovie, Last.fm (HetRec 2011) and LightGCN's user lists, zipped, unpacked or their main
    file alone; and a CSV, TSV, RecBole .inter, Parquet, Arrow or JSON-lines file, plain, compressed (gzip, bzip2, xz,
    zstd) or zipped. `log.columns` says which column was used for what, and which were not used.

    In text files, spaces around ids are dropped, and ids become integers only if all of them look like integers ("7" or
    "7.0", but not "007"). Repeated header lines are skipped, with a `DataWarning`.

    A file may hold at most an eighth of the memory, and a compressed one at most 200 times its size or 268 MB,
    whichever is more; a pipe 268 MB. The environment variable CSRR_MAX_BYTES sets another limit.

    Parameters
    ----------
    source
        A path, the name of a file or data set in `data_dir`, a table, a list of tuples or dicts, or a matrix. With
        `query`, a connection as for `read_sql`. A cursor that has been executed needs no `query`.
    format
        The file format; default: recognized.
    part
        One of the two files of user lists, or both.
    user, item, rating, weight, event, time, title
        The columns, as in `Log.from_table`.
    weights
        The weight of each event type, such as ``{"view": 1, "cart": 3, "buy": 10}``; times the weight column, if there
        is one. 0 leaves a type out; a type in the data that is not named is an error.
    target
        The event type by which models are judged and chosen, such as "buy"; None: all count. Only its events are held
        out and tested, and only items with one are left out of lists.
    min_rating
        Leave out rows with a smaller rating.
    min_weight
        Leave out events with a smaller weight, summed over all rows of the pair.
    separator
        The field separator of a text file.
    header
        Whether a text file begins with column names.
    query
        The SQL query whose rows are the events.
    on_bad_rows
        Whether a row without an id, with an invalid number or time, of an event type without a weight, or with too few
        or too many fields, is an error or is skipped, with a `DataWarning`.
    missing
        The strings that mean a missing id in a text file, besides the empty string; None: those of pandas (NULL, None,
        nan, NA, N/A, ...); []: none.

    Returns
    -------
    log
        The log, checked.

    Raises
    ------
    DataError
        If the data cannot be used; the message says what is wrong, in which line, and what to do.
    ParameterError
        If an argument cannot be what it is, or has no meaning for this kind of source.

    Examples
    --------
    >>> csrr.read({"user": ["ann", "ann", "bob"], "movieId": [1, 2, 1], "rating": [5, 2, 4]}, min_rating=3)
    Log: 2 users x 1 items, 2 events (100 %)
    user 'user', item 'movieId', rating 'rating'; ratings from 3 on count
    """
    asked = Asked.of(
        user=user,
        item=item,
        rating=rating,
        weight=weight,
        event=event,
        time=time,
        title=title,
        weights=weights,
        target=target,
        min_rating=min_rating,
        min_weight=min_weight,
        on_bad_rows=on_bad_rows,
        missing=missing,
    )
    options = {"format": format, "separator": separator, "header": header, "part": part}
    _check_options(**options)
    of_files = [name for name, value in options.items() if value not in (None, "all")]
    if query is not None or is_database(source):
        _reject_options(of_files, "the rows of a query")
        return Log.from_events(fetch_events(query, source, None, asked), asked)
    if not isinstance(source, str | os.PathLike):
        _reject_options([*of_files, *(["missing"] if asked.missing is not None else [])], "a table in memory")
        return _read_memory(source, asked)
    bundle = open_bundle(source)
    with name_in_errors(bundle.path.name):
        format, member = recognise(bundle, format)
        if format == "user-lists" and bundle.main is None:
            present = [name for name in PARTS if bundle.find(f"{name}.txt")]
            wanted = present if part == "all" else [part]
            content = _join_parts([_read_part(bundle, name) for name in wanted or PARTS], wanted or PARTS)
        elif part != "all":
            raise DataError(f"part={part!r} needs a folder or archive with train.txt and test.txt")
        else:
            named = {name for name in asked.columns.values() if isinstance(name, str)}
            skip_bad = asked.on_bad_rows == "skip"
            content = load_content(
                bundle, format, member, separator=separator, header=header, expected=named, skip_bad=skip_bad
            )
        with name_in_errors(content.member):
            return _make_log(content, asked)


def read_split(source: str | os.PathLike[str]) -> tuple[Log, Log]:
    r"""Read train and test from LightGCN's user lists; both share their row numbers.

    A (user, item) pair in both files counts as train.

    Parameters
    ----------
    source
        A folder or zip archive with train.txt and test.txt, or the name of a data set in `data_dir`.

    Returns
    -------
    parts
        Two logs, train and test.

    Raises
    ------
    DataError
        If one of the files is missing or damaged.

    Examples
    --------
    >>> from pathlib import Path
    >>> _ = Path("train.txt").write_text("0 10 11\n1 11\n"), Path("test.txt").write_text("0 12\n")
    >>> train, test = csrr.read_split(".")
    >>> len(train), len(test), train.n_items
    (3, 1, 3)
    """
    if not isinstance(source, str | os.PathLike):
        raise DataError(f"user lists come as a folder or a zip archive, not as {show_value(source)}; give its path")
    bundle = open_bundle(source)
    with name_in_errors(bundle.path.name):
        parts = [_read_part(bundle, name) for name in PARTS]
        both = _join_parts(parts, PARTS)
        found = read_events(both.columns, where=both.where, is_text=True)
        log = Log.from_events(found)
    n_train = len(parts[0].columns["item"])
    users, items = log.users.rows(found.user[:n_train]), log.items.rows(found.item[:n_train], "item")
    in_train = np.isin(number_pairs(log.user_rows, log.item_rows, log.n_items), number_pairs(users, items, log.n_items))
    return log.select(in_train), log.select(~in_train)


def _check_options(**options: Any) -> None:
    """Raise ParameterError for an option of files that it cannot be."""
    for name in ("format", "separator"):
        if options[name] is not None and (not isinstance(options[name], str) or not options[name]):
            raise ParameterError(f"{name}={show_value(options[name])}: it must be a text that is not empty, or None")
    if options["header"] is not None and not isinstance(options["header"], bool | np.bool_):
        raise ParameterError(f"header={show_value(options['header'])}: it must be True, False or None")
    Choice(name="part", choices=("train", "test", "all")).check(options["part"])


def _reject_options(names: Sequence[str], what: str) -> None:
    if names:
        raise ParameterError(f"{names[0]}= is for files of text; leave it out for {what}")


def _read_memory(source: Any, asked: Asked) -> Log:
    """Return the log of a table or matrix; a log passes through if nothing is asked of it."""
    columns = [name for name in asked.given if name in asked.columns]
    if is_matrix(source) and columns:
        raise DataError(f"a matrix has no columns to name; leave out {', '.join(columns)}")
    if is_matrix(source):
        return Log.from_matrix(source, min_rating=asked.min_rating, min_weight=asked.min_weight)
    if isinstance(source, Log) and not asked.given:
        return source
    if isinstance(source, Log) and source.types is not None:
        raise ParameterError(f"{asked.given[0]}= is for the table that a log with event types was read from")
    if isinstance(source, Log):
        source = source.to_arrow()
    if not is_table(source):
        raise DataError(describe_unusable(source))
    return Log.from_events(read_events(source, asked), asked)


def _make_log(content: Content, asked: Asked) -> Log:
    roles = dict(content.roles) | {role: column for role, column in asked.columns.items() if column is not None}
    found = read_events(
        content.columns,
        replace(asked, columns=roles),
        content.where,
        is_text=content.is_text,
        notes=content.notes,
    )
    return Log.from_events(found, asked, titles=content.titles if asked.columns.get("title") is None else None)


def _read_part(bundle: Bundle, part: str) -> Content:
    member = bundle.find(f"{part}.txt")
    if member is None:
        raise DataError(f"there is no {part}.txt; user lists come as train.txt and test.txt")
    with name_in_errors(member):
        return parse_user_lists(bundle.read(member))


def _join_parts(parts: list[Content], names: Sequence[str]) -> Content:
    columns = {name: join_dictionaries([part.columns[name] for part in parts]) for name in ("user", "item")}
    ends = np.cumsum([len(part.columns["item"]) for part in parts])

    def where(row: int) -> str:
        place = int(np.searchsorted(ends, row, side="right"))
        return f"{names[place]}.txt, {parts[place].where(row - int(ends[place - 1]) if place else row)}"

    return Content(columns, where, is_text=True)
