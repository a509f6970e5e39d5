"""Databases -> a log: a query or a table is fetched chunk by chunk, and only the columns that are used are kept."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import partial
from importlib import import_module
from itertools import chain, count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from csrr._base.arrays import import_optional
from csrr._base.text import quote_names, show_argument, show_value
from csrr.data.columns import Column, name_column, scale_to_seconds
from csrr.data.errors import DataError, name_in_errors, name_table_row, reword_errors
from csrr.data.formats import SQLITE_MAGIC
from csrr.data.log import Log, read_log
from csrr.data.sources import choose_limit
from csrr.data.tables import ColumnKey, OnBadRows, ReadOptions, Table, check_names, choose_columns
from csrr.parameters import ParameterError

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
        A connection or a cursor of a DB-API or ADBC driver; an engine, a connection or a session of SQLAlchemy; a
        URL such as "postgresql://me@host/shop" or "sqlite:///shop.db"; or the path of an SQLite file.
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
    with name_in_errors(file), open_database(source) as opened, _execute(query, opened, parameters) as (names, chunks):
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


LONGEST_NAME = 63
"""The number of bytes of a name that PostgreSQL keeps; it cuts off the rest."""


def split_table_name(table: str) -> tuple[str | None, str]:
    """Return the schema, or None, and the name of a table that is called name or schema.name."""
    parts = table.split(".") if isinstance(table, str) else []
    for part in parts:
        if not part or not part.isprintable() or len(part.encode(errors="replace")) > LONGEST_NAME:
            parts = []
    if len(parts) not in (1, 2):
        raise ParameterError(
            f"table={show_value(table)}: give the name of a table, or schema.name, each of 1 to {LONGEST_NAME} bytes"
        )
    return (parts[0] if len(parts) == 2 else None), parts[-1]


def quote_name(name: str) -> str:
    """Return a name in the quotes of SQL, in which it stands for nothing else."""
    return '"' + name.replace('"', '""') + '"'


def quote_table(table: str) -> str:
    """Return the name of a table, checked and quoted."""
    return ".".join(quote_name(part) for part in split_table_name(table) if part is not None)


def select_all(table: str) -> str:
    """Return the query for all rows of a table, called name or schema.name."""
    return f"SELECT * FROM {quote_table(table)}"


def read_between(
    address: Any, table: str, options: ReadOptions, after: float, until: float | None = None
) -> Log | None:
    """Return the events of a table later than `after`, and not later than `until`; None where there are none.

    These are seconds since 1970; the database compares them with its column of times.
    """
    source = select_all(table)
    with open_database(address) as connection:
        mark = _PLACEHOLDERS.get(type(connection).__module__.partition(".")[0])
        if mark is None:
            raise DataError("new events are read from a table of PostgreSQL or SQLite; give the address of one")
        names, _ = _fetch_rows(connection, f"{source} WHERE 1 = 0")
        column = choose_columns(names, options.columns)["time"]
        if column is None:
            raise DataError(
                f"new events are those with later times, and no column of the table {table} looks like times; its"
                f" columns are {quote_names(names)}; name it with {show_argument('time', '...')}"
            )
        if (found := _find_time_term(connection, table, column)) is None:
            return None
        (term, convert), bounds = found, {">": after} | ({} if until is None else {"<=": until})
        name = quote_name(column)
        if mark == "%s":  # psycopg's own sign
            name, source = name.replace("%", "%%"), source.replace("%", "%%")
        terms = [term.format(column=name, sign=sign, mark=mark.format(n)) for n, sign in enumerate(bounds, 1)]
        source, values = f"{source} WHERE {' AND '.join(terms)}", [convert(each) for each in bounds.values()]
        if not _fetch_rows(connection, f"{source} LIMIT 1", values)[1]:
            return None
        return read_log(fetch_table(source, connection, values, options), options)


_PLACEHOLDERS = {"adbc_driver_manager": "${}", "adbc_driver_postgresql": "${}", "psycopg": "%s", "sqlite3": "?"}
"""What stands in a query for its n-th parameter, by the package of the driver."""
_TIME_TERMS = {
    "timestamp with time zone": "{column} {sign} to_timestamp({mark})",
    "timestamp without time zone": "{column} {sign} to_timestamp({mark}) AT TIME ZONE 'UTC'",
    "date": "{column} {sign} (to_timestamp({mark}) AT TIME ZONE 'UTC')::date",
}
"""How a column of PostgreSQL is compared with seconds since 1970."""
_WHOLE = ("smallint", "integer", "bigint")


def _find_time_term(connection: Any, table: str, column: str) -> tuple[str, Callable[[float], float]] | None:
    """Return how a column is compared with a time, and what to make of that time's seconds; None without a row."""
    name, source = quote_name(column), quote_table(table)
    is_sqlite = type(connection).__module__.startswith("sqlite3")
    type_of = f"typeof({name})" if is_sqlite else f"pg_typeof({name})::text"
    _, rows = _fetch_rows(connection, f"SELECT {type_of} FROM {source} WHERE {name} IS NOT NULL LIMIT 1")
    if not rows:
        return None
    kind = rows[0][0]
    if kind in _TIME_TERMS:
        return _TIME_TERMS[kind], float
    if is_sqlite and kind == "text":
        query = f"SELECT count(*) FROM {source} WHERE {name} IS NOT NULL AND strftime('%s', {name}) IS NULL"
        if not _fetch_rows(connection, query)[1][0][0]:
            return "CAST(strftime('%s', {column}) AS INTEGER) {sign} {mark}", math.floor
    elif kind in (*_WHOLE, "real", "double precision", "numeric"):
        latest = float(_fetch_rows(connection, f"SELECT CAST(max({name}) AS double precision) FROM {source}")[1][0][0])
        seconds = float(scale_to_seconds(np.array([latest]))[0])
        factor = next((each for each in (1.0, 1e3, 1e6, 1e9) if np.isclose(seconds * each, latest, rtol=1e-12)), None)
        if factor is not None:
            return "{column} {sign} {mark}", lambda time: round(time * factor) if kind in _WHOLE else time * factor
    raise DataError(
        f"the column {show_value(column)} of {table} holds {kind} values, which a database cannot compare with a time;"
        " use a column of timestamps or of seconds, or CAST it in a view"
    )


def _fetch_rows(connection: Any, query: str, values: Sequence[float] = ()) -> tuple[list[str], list[Any]]:
    """Return the names of the columns, and the rows, of a query with few rows."""
    with reword_errors(Exception, "the database says"), closing(connection.cursor()) as cursor:
        cursor.execute(query, *([values] if values else []))
        return [each[0] for each in cursor.description], cursor.fetchall()


def is_postgresql(address: object) -> bool:
    """Return whether this is the address of a PostgreSQL server that names no driver."""
    return isinstance(address, str) and address.startswith(("postgresql://", "postgres://"))


def find_sqlite_file(address: object) -> Path | None:
    """Return the path of an SQLite file: `address` itself, or of sqlite:///path; None for another address."""
    text = os.fspath(address) if isinstance(address, str | os.PathLike) else ""
    if isinstance(text, str) and text.startswith("sqlite:///") and not text[10:].startswith((":memory:", "file:")):
        return Path(text[10:].partition("?")[0]).expanduser()
    return None if not isinstance(text, str) or not text or "://" in text else Path(text).expanduser()


@contextmanager
def open_database(address: Any) -> Iterator[Any]:
    """Give the connection to an address or a file, for reading, and close it afterwards; give others unchanged."""
    if not isinstance(address, str | os.PathLike):
        yield address
    elif is_postgresql(address) and (connect := _find_postgresql_driver()) is not None:
        with reword_errors(Exception, "the database cannot be reached"):
            connection = connect(os.fspath(address))
        with closing(connection):
            yield connection
    elif (path := find_sqlite_file(address)) is not None:
        with closing(_open_sqlite(path)) as connection:
            yield connection
    else:
        engine = _make_engine(str(address))
        try:
            yield engine
        finally:
            engine.dispose()


def connect_for_writing(address: str) -> Any:
    """Return a connection to PostgreSQL, or to an SQLite file, which is made if there is none; commits are durable."""
    if is_postgresql(address):
        return import_optional("psycopg", "to write to PostgreSQL", "postgres").connect(address, connect_timeout=5)
    if (path := find_sqlite_file(address)) is None:
        raise DataError(
            f"{show_value(address)}: give postgresql://me@host/shop or the path of an SQLite file to write to"
        )
    import sqlite3

    connection = sqlite3.connect(path, check_same_thread=False, timeout=30)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _find_postgresql_driver() -> Any:
    """Return the `connect` of a driver of PostgreSQL, of ADBC if it is installed: rows are Arrow; None without one."""
    for name in ("adbc_driver_postgresql.dbapi", "psycopg"):
        with suppress(ImportError):
            return import_module(name).connect
    return None


def _open_sqlite(path: Path) -> sqlite3.Connection:
    import sqlite3

    try:
        with path.open("rb") as file:
            is_sqlite = file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
    except (OSError, ValueError) as error:  # ValueError: a null byte
        raise DataError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    if not is_sqlite:
        raise DataError(f"{path} is not an SQLite database; give one, a connection or a URL like sqlite:///shop.db")
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def _make_engine(address: str) -> Any:
    sqlalchemy = import_optional("sqlalchemy", "this database URL", "postgres" if is_postgresql(address) else "sql")
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
