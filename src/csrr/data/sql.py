"""Databases -> a log: a query is fetched chunk by chunk, and only the columns that are used are kept."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from itertools import chain, count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from csrr.data.columns import Column, name_column
from csrr.data.errors import DataError, name_in_errors, name_table_row, quote_names, reword_errors, show_value
from csrr.data.formats import SQLITE_MAGIC
from csrr.data.log import Log, read_log
from csrr.data.sources import choose_limit
from csrr.data.tables import ColumnKey, OnBadRows, ReadOptions, Table, check_names, choose_columns

if TYPE_CHECKING:
    import sqlite3

CHUNK_ROWS = 10_000

Chunk = Any
"""Some rows of a result: a record batch of Arrow, or a list of tuples."""


def read_sql(
    query: Any,
    connection: Any,
    *,
    parameters: Any = None,
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
    ordered: bool = False,
    on_bad_rows: OnBadRows = "error",
) -> Log:
    """Read a log from a database query; each row is an event.

    Rows are fetched in chunks, as Arrow if the driver supports it (ADBC, DuckDB), and on PostgreSQL through a
    server-side cursor. Only the used columns are kept; they may take up to an eighth of the memory (see `csrr.read`).

    Parameters
    ----------
    query
        SQL, or an SQLAlchemy selectable. None: the connection is a cursor that has been executed.
    connection
        A connection or a cursor of a DB-API or ADBC driver; an engine, a connection or a session of SQLAlchemy; an
        URL such as "sqlite:///shop.db", which needs SQLAlchemy; or the path of an SQLite file.
    parameters
        The values of the query's placeholders, as the driver wants them.
    user, item, rating, weight, event, time, title
        The columns, as in `Log.from_table`.
    weights, target
        The weight of each event type, and the type to judge by, as in `csrr.read`.
    min_rating
        Leave out rows with a smaller rating.
    min_weight
        Leave out events with a smaller weight, summed over all rows of the pair.
    ordered
        Whether the query gives rows without times in the order in which things happened, as with ORDER BY.
    on_bad_rows
        As in `csrr.read`.

    Returns
    -------
    log
        The log, checked.

    Raises
    ------
    DataError
        If the query fails or its rows cannot be used.

    Examples
    --------
    >>> import sqlite3
    >>> shop = sqlite3.connect(":memory:")
    >>> _ = shop.execute("CREATE TABLE orders (customer_id, sku)")
    >>> _ = shop.execute("INSERT INTO orders VALUES (1, 'tea'), (1, 'cup'), (2, 'tea')")
    >>> csrr.read_sql("SELECT * FROM orders", shop)
    Log: 2 users x 2 items, 3 events (75 %)
    user 'customer_id', item 'sku'
    """
    roles = (user, item, rating, weight, event, time, title)
    options = ReadOptions(roles, weights, target, min_rating, min_weight, on_bad_rows, ordered=ordered)
    return read_log(fetch_table(query, connection, parameters, options), options)


def is_database(source: object) -> bool:
    """Return whether rows can be fetched from `source`."""
    return _is_sqlalchemy(source) or any(
        callable(getattr(type(source), name, None)) for name in ("cursor", "fetchmany")
    )


def fetch_table(query: Any, source: Any, parameters: Any, options: ReadOptions) -> Table:
    """Return the table of a query's rows; only the columns with a role, given or recognized, are kept."""
    is_path = isinstance(source, str | os.PathLike) and "://" not in str(source)
    file = Path(source).name if is_path else None
    with name_in_errors(file), _open(source) as opened, _execute(query, opened, parameters) as (names, chunks):
        check_names(names)
        used = [name for name in choose_columns(names, options.columns).values() if name is not None]
        kept: dict[str, list[pa.Array]] = {name: [] for name in used}
        limit, n_rows, size = choose_limit(), 0, 0
        for chunk in chunks:
            for name, arrays in kept.items():
                place = names.index(name)
                values = chunk.column(place) if isinstance(chunk, pa.RecordBatch) else [row[place] for row in chunk]
                arrays.append(Column.read(values, name, partial(_name_row, n_rows)).array)
                size += arrays[-1].nbytes
            n_rows += len(chunk)
            limit.check_rows(n_rows, "the result of the query")
            limit.check(size, "the result of the query")
        if not n_rows:
            raise DataError(f"the query gives no rows; its columns are {quote_names(names)}")
        return Table({name: partial(_join_chunks, name, kept.get(name, [])) for name in names})


def _name_row(start: int, row: int) -> str:
    return name_table_row(start + row)


def _join_chunks(name: str, chunks: list[pa.Array]) -> pa.ChunkedArray:
    """Return the chunks of a column as one; a type that only some of them have must hold for all."""
    try:
        tables = [pa.table({name: chunk}) for chunk in chunks]
        return pa.concat_tables(tables, promote_options="permissive").column(0)
    except (pa.ArrowException, TypeError):
        kinds = quote_names(sorted({str(chunk.type) for chunk in chunks}))
        raise DataError(f"{name_column(name)} holds values of several types: {kinds}; CAST it in the query") from None


@contextmanager
def _open(source: Any) -> Iterator[Any]:
    """Give the connection to an address or a file, and close it afterwards; give anything else unchanged."""
    if not isinstance(source, str | os.PathLike):
        yield source
    elif "://" in str(source):
        engine = _make_engine(str(source))
        try:
            yield engine
        finally:
            engine.dispose()
    else:
        with closing(_open_sqlite(Path(source).expanduser())) as connection:
            yield connection


def _open_sqlite(path: Path) -> sqlite3.Connection:
    import sqlite3

    try:
        with path.open("rb") as file:
            is_sqlite = file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
    except (OSError, ValueError) as error:  # ValueError: a null byte
        raise DataError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    if not is_sqlite:
        raise DataError(
            f"{path} is not an SQLite database; a query needs one, a connection or a URL like sqlite:///shop.db"
        )
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def _make_engine(address: str) -> Any:
    try:
        import sqlalchemy
    except ImportError:
        raise DataError("a database URL needs SQLAlchemy: pip install 'csrr[sql]'; or pass a connection") from None
    with reword_errors(Exception, "the database URL cannot be used"):  # also of a driver, or one not installed
        url = sqlalchemy.make_url(address)
        file = str(url.database or ":memory:") if url.get_backend_name() == "sqlite" else ":memory:"
        if not file.startswith((":memory:", "file:")) and not Path(file).is_file():  # SQLite would make one
            raise DataError(f"there is no SQLite database {file}")
        return sqlalchemy.create_engine(url)


def _is_sqlalchemy(source: object) -> bool:
    """Return whether `source` is an engine, a connection or a session; a raw connection is one of its driver's."""
    return not hasattr(source, "cursor") and any(
        kind.__module__.partition(".")[0] == "sqlalchemy" for kind in type(source).__mro__
    )


@contextmanager
def _execute(query: Any, source: Any, parameters: Any) -> Iterator[tuple[list[str], Iterator[Chunk]]]:
    """Give the names of a query's columns and its rows in chunks. Errors of a driver become a `DataError`."""
    is_alchemy, own = _is_sqlalchemy(source), callable(getattr(source, "cursor", None))
    if not is_database(source):
        raise DataError(f"a query needs a connection to a database, not {show_value(source)}")
    if query is None and (is_alchemy or own):
        raise DataError("an engine or a connection needs a query; pass query='SELECT ...'")
    with reword_errors(Exception, "the database says"):  # each driver has errors of its own
        if is_alchemy:
            with _execute_sqlalchemy(query, source, parameters) as result:
                yield list(result.keys()), result.partitions(CHUNK_ROWS)
            return
        with closing(_open_cursor(source)) if own else nullcontext(source) as cursor:
            if query is not None:
                cursor.execute(query, *([] if parameters is None else [parameters]))
            yield _fetch(cursor)


@contextmanager
def _execute_sqlalchemy(query: Any, source: Any, parameters: Any) -> Iterator[Any]:
    import sqlalchemy

    statement = sqlalchemy.text(query) if isinstance(query, str) else query
    options = {"stream_results": True, "max_row_buffer": CHUNK_ROWS}
    with source.connect() if isinstance(source, sqlalchemy.Engine) else nullcontext(source) as connection:
        result = connection.execute(statement, parameters or {}, execution_options=options)
        with closing(result):
            yield result


def _open_cursor(connection: Any) -> Any:
    """Return a cursor; psycopg's is one on the server, because the other fetches the whole result at once."""
    if type(connection).__module__.partition(".")[0] not in ("psycopg", "psycopg2"):
        return connection.cursor()
    # Outside of a transaction, a cursor on the server ends with its statement unless it is held.
    return connection.cursor(name="csrr_read", withhold=bool(connection.autocommit))


def _fetch(cursor: Any) -> tuple[list[str], Iterator[Chunk]]:
    """Return the names of the columns of an executed cursor, and its rows in chunks."""
    if hasattr(cursor, "fetch_record_batch"):
        reader = cursor.fetch_record_batch()
        return reader.schema.names, iter(reader)
    first = cursor.fetchmany(CHUNK_ROWS)  # before that, some drivers do not describe the result of a server's cursor
    if not cursor.description:
        raise DataError("the query gives no rows and no columns; is it a SELECT?")
    chunks = chain([first], (cursor.fetchmany(CHUNK_ROWS) for _ in count()))
    return [column[0] for column in cursor.description], takewhile(len, chunks)
