"""Files, tables and matrices -> a log."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from csrr._base.text import show_argument, show_value
from csrr.data.errors import DataError, name_in_errors
from csrr.data.formats import PARTS, SEQUENCES, TextOptions, join_parts, open_member, read_part, recognize
from csrr.data.log import Log, make_log, number_pairs, read_log
from csrr.data.matrix import is_matrix
from csrr.data.sources import FileSet, open_files
from csrr.data.spread import ENDS, read_parts
from csrr.data.sql import fetch_table, is_database, select_all
from csrr.data.tables import ColumnKey, OnBadRows, ReadOptions, Table, open_table, read_events
from csrr.parameters import Choice, ParameterError


def read(
    source: Any,
    *,
    format: str | None = None,
    part: Literal["train", "test", "all"] = "all",
    user: ColumnKey = None,
    item: ColumnKey = None,
    rating: ColumnKey = None,
    weight: ColumnKey = None,
    event: ColumnKey = None,
    time: ColumnKey = None,
    title: ColumnKey = None,
    weights: Mapping[Any, float] | None = None,
    target: str | int | None = None,
    min_rating: float | None = None,
    min_weight: float | None = None,
    separator: str | None = None,
    header: bool | None = None,
    query: str | None = None,
    table: str | None = None,
    ordered: bool = False,
    on_bad_rows: OnBadRows = "error",
    missing: Collection[str] | None = None,
) -> Log:
    """Read a log from a file, folder, zip archive, table, matrix or database.

    Formats are MovieLens, EachMovie, Last.fm (HetRec 2011) and user lists (LightGCN's train.txt and test.txt, or a
    sequences.txt), zipped, unpacked or their main file alone; and a CSV, TSV, RecBole .inter, Parquet, Arrow or
    JSON-lines file, plain, compressed (gzip, bzip2, xz, zstd) or zipped; and a folder of Parquet files, whose users,
    items, ratings and times are read part by part, in little more memory than the log has. `log.columns` says which
    column was used for what, and which were not used.

    In text files, spaces around ids are dropped, and ids become integers only if all of them look like integers ("7" or
    "7.0", but not "007"). Repeated header lines are skipped, with a `DataWarning`.

    A file may hold at most an eighth of the memory, and a compressed one at most 200 times its size or 268 MB,
    whichever is more; a pipe 268 MB. The environment variable CSRR_MAX_BYTES sets another limit.

    Parameters
    ----------
    source
        A path, the name of a file or data set in `data_dir`, a table, a list of tuples or dicts, or a matrix. With
        `query` or `table`, a connection or an address as for `read_sql`. A cursor that has been executed needs neither.
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
    table
        In place of a query: the table of a database whose rows are the events, as name or schema.name.
    ordered
        Whether the rows of a source without times are in the order in which things happened, oldest first; of user
        lists, the items of a user. Of a pair that repeats, the latest row counts. With times, rows break ties.
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
    roles = (user, item, rating, weight, event, time, title)
    options = ReadOptions(roles, weights, target, min_rating, min_weight, on_bad_rows, missing, ordered)
    check_file_options(format=format, separator=separator, header=header)
    Choice(name="part", words=("train", "test", "all")).check(part)
    if table is not None:
        if query is not None:
            names = f"{show_argument('query')} and {show_argument('table')}"
            raise ParameterError(f"{names} do not go together: a table is read whole")
        query = select_all(table)
    of_files = {"format": format, "separator": separator, "header": header, "part": None if part == "all" else part}
    if query is None and isinstance(source, str | os.PathLike) and format is None and _is_parts_folder(source):
        reject_file_options(of_files | {"missing": options.missing}, "a folder of Parquet files")
        with name_in_errors(os.path.basename(source)):
            return read_parts(source, options)
    if query is None and isinstance(source, str | os.PathLike):
        files = open_files(source)
        with name_in_errors(files.path.name):
            found = _open_file(files, options, format, part, TextOptions(separator, header))
            with name_in_errors(found.member):
                return read_log(found, options)
    if query is not None or is_database(source):
        reject_file_options(of_files, "the rows of a query")
        return read_log(fetch_table(query, source, None, options), options)
    reject_file_options(of_files | {"missing": options.missing}, "a table in memory")
    if is_matrix(source):
        if columns := [name for name in options.given if name in options.columns]:
            raise DataError(f"a matrix has no columns to name; leave out {', '.join(columns)}")
        if ordered:
            raise ParameterError.of("ordered", True, "needs a table or a file: a matrix does not say what came first")
        return Log.from_matrix(source, min_rating=min_rating, min_weight=min_weight)
    if isinstance(source, Log) and source.places is not None and source.times is None:
        options = replace(options, ordered=True)
    elif isinstance(source, Log) and ordered:
        raise ParameterError.of("ordered", True, "is for the table or file that a log is read from")
    if isinstance(source, Log) and not options.given:
        return source
    if isinstance(source, Log) and source.types is not None:
        name = options.given[0]
        raise ParameterError.of(name, options.columns.get(name, ...), "is for the table that this log was read from")
    return read_log(open_table(source.to_arrow() if isinstance(source, Log) else source), options)


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
    files = open_files(source)
    with name_in_errors(files.path.name):
        parts = {name: read_part(files, name) for name in PARTS}
        events = read_events(join_parts(parts))
        log = make_log(events)
    n_train = len(parts["train"].columns["item"]())
    users, items = log.users.rows(events.user[:n_train]), log.items.rows(events.item[:n_train], "item")
    in_train = np.isin(number_pairs(log.user_rows, log.item_rows, log.n_items), number_pairs(users, items, log.n_items))
    return log.select(in_train), log.select(~in_train)


def check_file_options(*, header: Any, **texts: Any) -> None:
    """Raise ParameterError for an invalid option of files: `texts` are texts that are not empty, or None."""
    for name, value in texts.items():
        if value is not None and (not isinstance(value, str) or not value):
            raise ParameterError.of(name, value, "must be a text that is not empty, or None")
    if header is not None and not isinstance(header, bool | np.bool_):
        raise ParameterError.of("header", header, "must be True, False or None")


def reject_file_options(options: Mapping[str, Any], what: str) -> None:
    """Raise ParameterError if one of the options of files is given for something else."""
    for name, value in options.items():
        if value is not None:
            raise ParameterError.of(name, value, f"is for files of text; leave it out for {what}")


def _is_parts_folder(source: str | os.PathLike[str]) -> bool:
    """Whether a path is a folder of several Parquet files, and of nothing else."""
    if not os.path.isdir(source):
        return False
    names = [each for each in os.listdir(source) if not each.startswith((".", "_"))]
    return len(names) > 1 and all(each.endswith(ENDS) for each in names)


def _open_file(files: FileSet, options: ReadOptions, format: str | None, part: str, how: TextOptions) -> Table:
    """Return the table of events in a file, a folder or an archive."""
    format, member = recognize(files, format)
    if format == "user-lists" and files.main is None and not member.endswith(SEQUENCES):
        present = [name for name in PARTS if files.find(f"{name}.txt")]
        names = (present if part == "all" else [part]) or PARTS
        return join_parts({name: read_part(files, name) for name in names})
    if part != "all":
        raise ParameterError.of("part", part, "needs a folder or archive with train.txt and test.txt")
    named = {name for name in options.columns.values() if isinstance(name, str)}
    return open_member(files, format, member, how._replace(expected=named, skip_bad=options.on_bad_rows == "skip"))
