"""Databases and models: lists for everybody into a table, replaced as a whole, and events that a model has not seen."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from csrr._base.arrays import import_optional
from csrr._base.text import quote_names, show_value
from csrr.data.errors import DataError, reword_errors
from csrr.data.ids import drop_unused
from csrr.data.log import Log, join_logs
from csrr.data.sql import find_sqlite_file, is_postgresql, quote_name, quote_table, read_between, split_table_name
from csrr.data.tables import OnBadRows, ReadOptions
from csrr.models.base import Recommender
from csrr.models.recommend import WrittenLists, make_list_schema, write_lists
from csrr.parameters import check_number

WriteTable = Callable[[pa.Table], object]

_NAMES = {"user": "user_id", "item": "item_id"}
_KEY = ("user_id", "item_id", "rank")
"""The columns that a table of ours has in any case, and by which it is known as ours."""
_POSTGRESQL_TYPES = {pa.int64(): "bigint", pa.float32(): "real", pa.string(): "text"}
_SQLITE_TYPES = {pa.int64(): "INTEGER", pa.float32(): "REAL", pa.string(): "TEXT"}
LOCK_TRIES, LOCK_WAIT = 60, 1.0
"""How often the swap tries to get the table, and for how many seconds each time: readers wait no longer than that."""


def publish(
    model: Recommender,
    address: Any,
    table: str = "recommendations",
    *,
    k: int = 20,
    users: Any = None,
    scores: bool = True,
    titles: bool = False,
    callback: Callable[[int], object] | None = None,
    **options: Any,
) -> WrittenLists:
    """Write the lists of all users into a table of PostgreSQL or SQLite, in place of those that were there.

    The table has the columns user_id, item_id and rank (from 1), the first and the last its primary key, so that one
    user's list is one look at the index. It is replaced in one transaction: readers see all of the old lists or all of
    the new ones, and if anything stops this, the old ones stand. On PostgreSQL rows go by COPY into a staging table,
    which takes the place of the old one, with its privileges. The memory is that of one batch of lists.

    Parameters
    ----------
    model
        A fitted model.
    address
        A URL such as "postgresql://me@host/shop", or an SQLite file as a path or "sqlite:///lists.db", which is made if
        there is none.
    table
        The table, as name or schema.name. Another kind of table is never replaced.
    k
        The length of the lists.
    users
        Whose lists; None for all users of the model.
    scores
        Whether to add the column score and, of a calibrated model, probability.
    titles
        Whether to add the titles of items.
    callback
        Called after each batch with the number of users so far.
    **options
        The other options of `recommend`.

    Returns
    -------
    written
        The table, the numbers of users and of rows, and the length of the longest list.

    Raises
    ------
    DataError
        If the database cannot be written to, or the table is not one of lists.

    Examples
    --------
    >>> import sqlite3
    >>> model = csrr.PopRank().fit(csrr.synthetic(60, 40, events_per_user=10).log)
    >>> csrr.publish(model, "lists.db", k=4).n_rows
    240
    >>> shop = sqlite3.connect("lists.db")
    >>> len(shop.execute("SELECT item_id FROM recommendations WHERE user_id = ? ORDER BY rank", [3]).fetchall())
    4
    >>> shop.close()
    """
    model.check_fitted()
    split_table_name(table)
    left_out = {"title": not titles, "score": not scores, "probability": not scores}
    schema = make_list_schema(model, users, options)
    schema = pa.schema([each for each in schema if not left_out.get(each.name)])
    named = pa.schema([each.with_name(_NAMES.get(each.name, each.name)) for each in schema])
    batches = model.recommend_batches(users, k, **options)
    with _open_writer(address, table, named) as write:
        return write_lists(table, batches, schema, write, callback)


def read_new(
    model: Recommender,
    address: Any,
    table: str,
    *,
    overlap: float = 3600.0,
    user: Any = None,
    item: Any = None,
    rating: Any = None,
    weight: Any = None,
    event: Any = None,
    time: Any = None,
    title: Any = None,
    weights: Any = None,
    target: str | int | None = None,
    min_rating: float | None = None,
    min_weight: float | None = None,
    on_bad_rows: OnBadRows = "error",
) -> Log:
    """Return the events of a database's table that came after those that a model was fitted to, for `update`.

    The model keeps the time of its latest event, and the database picks the later ones. Rows that were written late,
    with a time somewhat before that, are new if the model does not have their user's item yet.

    Parameters
    ----------
    model
        A model whose training events had times.
    address
        As for `csrr.publish`.
    table
        The table of events, as name or schema.name; its times are timestamps, or seconds, milli-, micro- or nanoseconds
        since 1970.
    overlap
        How many seconds before the latest event rows may have been written late.
    user, item, rating, weight, event, time, title
        The columns, as in `Log.from_table`.
    weights, target, min_rating, min_weight, on_bad_rows
        As in `csrr.read`.

    Returns
    -------
    log
        The log; without events if there are no new ones.

    Raises
    ------
    DataError
        If the model or the table has no times, or the table cannot be read.

    Examples
    --------
    >>> import sqlite3
    >>> shop = sqlite3.connect("shop.db")
    >>> _ = shop.execute("CREATE TABLE events (user_id, item_id, time)")
    >>> _ = shop.executemany("INSERT INTO events VALUES (?, ?, ?)", [(1, 7, 10), (2, 7, 20), (2, 8, 30)])
    >>> shop.commit()
    >>> model = csrr.PopRank().fit(csrr.read("shop.db", table="events"))
    >>> _ = shop.execute("INSERT INTO events VALUES (1, 8, 40)")
    >>> shop.commit()
    >>> shop.close()
    >>> new = csrr.read_new(model, "shop.db", "events")
    >>> len(new), len(csrr.read_new(model.update(new), "shop.db", "events"))
    (1, 0)
    """
    model.check_fitted()
    check_number("overlap", overlap, least=0)
    if model.seen_times_ is None:
        raise DataError(
            "the model has no times, so what is new is unknown; fit it to events with times, or query the new ones"
        )
    roles = (user, item, rating, weight, event, time, title)
    options = ReadOptions(roles, weights, target, min_rating, min_weight, on_bad_rows)
    latest = float(model.seen_times_.max())
    new = read_between(address, table, options, latest)
    late = read_between(address, table, options, latest - overlap, latest)
    if late is not None:
        rows = model.users_.find(late.users.ids)[late.user_rows], model.items_.find(late.items.ids)[late.item_rows]
        late = _keep(late, (rows[0] < 0) | (rows[1] < 0) | (np.asarray(model.seen_[rows]).ravel() == 0))
    if new is None or late is None or not len(late):
        return new or late or model.training_log().select(np.zeros(model.seen_.nnz, np.bool_))
    return join_logs(late, new)


def _keep(log: Log, mask: Any) -> Log:
    """Return the log of some of the events, with their users and items only."""
    log = log.select(mask)
    users, user_rows = drop_unused(log.users, log.user_rows)
    items, item_rows = drop_unused(log.items, log.item_rows)
    titles = None if log.titles is None else log.titles[log.items.rows(items.ids, "item")]
    return replace(log, users=users, items=items, user_rows=user_rows, item_rows=item_rows, titles=titles)


@contextmanager
def _open_writer(address: Any, table: str, schema: pa.Schema) -> Iterator[WriteTable]:
    """Give a function that writes rows into the new content of a table, which replaces the old one at the end."""
    if is_postgresql(address):
        psycopg = import_optional("psycopg", "to write to PostgreSQL", "postgres")
        with (
            reword_errors(psycopg.Error, "the database says"),
            psycopg.connect(address, application_name="csrr publish") as connection,
            _write_postgresql(connection, table, schema) as write,
        ):
            yield write
    elif (path := find_sqlite_file(address)) is not None:
        with (
            reword_errors(sqlite3.Error, f"the SQLite database {path} says"),
            closing(sqlite3.connect(path, isolation_level=None, timeout=LOCK_TRIES * LOCK_WAIT)) as database,
            _write_sqlite(database, table, schema) as write,
        ):
            yield write
    else:
        raise DataError(f"{show_value(address)}: give postgresql://me@host/shop or the path of an SQLite file")


def _describe_columns(schema: pa.Schema, types: dict[Any, str]) -> str:
    """Return the columns of a table as SQL declares them; those of the key hold no nulls."""
    columns = []
    for each in schema:
        kind = types.get(each.type, types[pa.string()])
        columns.append(f"{quote_name(each.name)} {kind}{' NOT NULL' if each.name in _KEY else ''}")
    return ", ".join(columns)


def _check_ours(table: str, columns: list[str]) -> None:
    """Raise DataError unless a table with these columns is one of lists."""
    if columns[: len(_KEY)] != list(_KEY):
        raise DataError(
            f"there is a table or view {table} that holds no recommendations, and it stays (its columns are"
            f" {quote_names(columns)}); give another name"
        )


# SQLite: one transaction, in write-ahead mode, in which readers go on with what was there


@contextmanager
def _write_sqlite(database: sqlite3.Connection, table: str, schema: pa.Schema) -> Iterator[WriteTable]:
    """Give a function that adds rows to the table made anew; it is visible when the block ends."""
    name = quote_table(table)
    places = ", ".join("?" * len(schema))

    def write(rows: pa.Table) -> None:
        values = zip(*(column.to_pylist() for column in rows.columns), strict=True)
        database.executemany(f"INSERT INTO {name} VALUES ({places})", values)

    database.execute("PRAGMA journal_mode = WAL")
    database.execute("BEGIN IMMEDIATE")
    try:
        if columns := [
            row[1] for row in database.execute(f"PRAGMA table_info({quote_name(split_table_name(table)[1])})")
        ]:
            _check_ours(table, columns)
            database.execute(f"DROP TABLE {name}")
        declared = _describe_columns(schema, _SQLITE_TYPES)
        database.execute(f"CREATE TABLE {name} ({declared}, PRIMARY KEY (user_id, rank)) WITHOUT ROWID")
        yield write
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise
    database.execute("PRAGMA wal_checkpoint(PASSIVE)")


# PostgreSQL: a staging table that takes the place of the old one


@contextmanager
def _write_postgresql(connection: Any, table: str, schema: pa.Schema) -> Iterator[WriteTable]:
    """Give a function that copies rows into a staging table, which is the table when the block ends."""
    with connection.cursor() as cursor:
        # 1. Nobody else publishes to this table, and it is one of lists.
        folder, alone = split_table_name(table)
        cursor.execute("SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0))", [f"csrr publish {table}"])
        if not cursor.fetchone()[0]:
            raise DataError(f"somebody else is publishing to {table} now; wait until that is done")
        old = _find_old_table(cursor, table)
        schema_name = old[1] if old is not None else folder
        if schema_name is None:
            cursor.execute("SELECT current_schema()")
            schema_name = cursor.fetchone()[0]
        if schema_name is None:
            raise DataError("the database has no schema to make a table in; give it as schema.name")
        new = f"{quote_name(schema_name)}.{quote_name(f'{alone[:40]}_staging')}"
        # 2. Frozen rows are visible in any snapshot: also a transaction that began before the swap sees whole lists.
        cursor.execute(f"CREATE TABLE {new} ({_describe_columns(schema, _POSTGRESQL_TYPES)})")
        with cursor.copy(f"COPY {new} FROM STDIN (FREEZE)") as copy:
            yield lambda rows: copy.write(_format_copy(rows))
        cursor.execute(f"ALTER TABLE {new} ADD PRIMARY KEY (user_id, rank)")
        cursor.execute(f"ANALYZE {new}")
        # 3. The swap, visible with the end of the transaction.
        if old is not None:
            _copy_privileges(cursor, old[0], new)
            place = f"{quote_name(schema_name)}.{quote_name(alone)}"
            _lock(connection, cursor, place)
            cursor.execute(f"DROP TABLE {place}")
        cursor.execute(f"ALTER TABLE {new} RENAME TO {quote_name(alone)}")


def _find_old_table(cursor: Any, table: str) -> tuple[int, str] | None:
    """Return the number and the schema of a table of lists, None where there is none; DataError for another one."""
    cursor.execute(
        "SELECT c.oid, n.nspname, c.relkind::text, array(SELECT attname::text FROM pg_attribute a WHERE a.attrelid ="
        " c.oid AND attnum > 0 AND NOT attisdropped ORDER BY attnum), array(SELECT DISTINCT v.relname::text FROM"
        " pg_depend d JOIN pg_rewrite r ON r.oid = d.objid JOIN pg_class v ON v.oid = r.ev_class WHERE d.classid ="
        " 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid AND v.oid <> c.oid)"
        " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)",
        [quote_table(table)],
    )
    if (row := cursor.fetchone()) is None:
        return None
    number, folder, kind, columns, views = row
    _check_ours(table, columns if kind == "r" else [])
    if views:
        raise DataError(
            f"the table {table} cannot be replaced as long as views are made of it: {quote_names(views)}; make them of"
            " a query in a function, or drop them"
        )
    return number, folder


def _copy_privileges(cursor: Any, old: int, new: str) -> None:
    """Give those who may read or change the old table the same privileges on the new one."""
    cursor.execute(
        "SELECT CASE WHEN g.grantee = 0 THEN NULL ELSE pg_get_userbyid(g.grantee) END, g.privilege_type,"
        " g.is_grantable FROM pg_class c, aclexplode(c.relacl) g WHERE c.oid = %s AND g.grantee <> c.relowner",
        [old],
    )
    for role, privilege, may_grant in cursor.fetchall():
        whom = "PUBLIC" if role is None else quote_name(role)
        cursor.execute(f"GRANT {privilege} ON {new} TO {whom}{' WITH GRANT OPTION' if may_grant else ''}")


def _lock(connection: Any, cursor: Any, place: str) -> None:
    """Wait until nobody reads the old table; in between let others read that came after us."""
    from psycopg.errors import LockNotAvailable

    for _ in range(LOCK_TRIES):
        try:
            with connection.transaction():
                cursor.execute(f"SET LOCAL lock_timeout = {int(1000 * LOCK_WAIT)}")
                cursor.execute(f"LOCK TABLE {place} IN ACCESS EXCLUSIVE MODE")
                return
        except LockNotAvailable:
            time.sleep(LOCK_WAIT)
    raise DataError(
        f"the table {place} was read without a pause by a long transaction (pg_stat_activity names it), and could not"
        " be replaced; the old lists stand"
    )


_ESCAPES = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))


def _format_copy(rows: pa.Table) -> bytes:
    """Return rows as the text format of COPY: tabs between values, a line each, \\N for null."""
    columns = []
    for column in rows.columns:
        text = column.combine_chunks().cast(pa.large_string())
        if pa.types.is_string(column.type):
            for plain, escaped in _ESCAPES:
                text = pc.replace_substring(text, plain, escaped)
        columns.append(pc.fill_null(text, "\\N"))
    separator, end, nothing = (pa.scalar(text, pa.large_string()) for text in ("\t", "\n", ""))
    lines = pc.binary_join_element_wise(pc.binary_join_element_wise(*columns, separator), nothing, end)
    return "".join(lines.to_pylist()).encode()
