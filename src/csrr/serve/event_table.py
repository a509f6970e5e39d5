"""Events in a table of PostgreSQL or SQLite, where others may add some too: for histories, and for `csrr update`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from csrr._base.text import quote_names
from csrr.data.errors import DataError, reword_errors
from csrr.data.sql import connect_for_writing, is_postgresql, quote_name, quote_table, split_table_name
from csrr.parameters import ParameterError
from csrr.serve.events import MOST_RECENT, Event, GroupedEvents, Id, StoreError

log = logging.getLogger(__name__)

COLUMNS = ("item_id", "time", "weight", "type")
"""What is kept of an event beside whose it is: `time` in seconds since 1970."""
PAUSE = 1.0
"""Seconds after which a database that could not be reached is tried again."""


class EventTable(GroupedEvents):
    """An `EventStore` in a database: a table of users' events, and one of those of sessions, `TABLE_sessions`.

    What is acknowledged is committed. While the database cannot be reached, events are refused, and lists are made of
    what the model knows.

    Parameters
    ----------
    address
        The database: postgresql://me@host/shop, or an SQLite file.
    table
        The table, as name or schema.name, made by `prepare`.
    since
        Only later events, in seconds since 1970, count beside the model.
    most_waiting
        The number of events that may wait to be stored; more are refused.
    """

    def __init__(self, address: str, table: str, *, since: float = 0.0, most_waiting: int = 10_000) -> None:
        super().__init__(most_waiting)
        self._reader = ThreadPoolExecutor(1, "csrr-histories")
        self._since, mark = since, "%s" if is_postgresql(address) else "?"
        self._tables = {name: quote_table(each) for name, each in _name_tables(table).items()}
        self._mark = mark
        self._to_write, self._to_read = _Connection(address), _Connection(address)

    async def open(self) -> None:
        """Look whether the tables are there."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._to_write.run, self._look)

    def _look(self, connection: Any) -> None:
        for whose, table in self._tables.items():
            connection.execute(f"SELECT {whose}, {', '.join(COLUMNS)} FROM {table} WHERE 1 = 0")

    async def append(self, events: Sequence[Event]) -> None:
        """Store events; return once they are committed."""
        for event in events:
            if any(
                isinstance(each, str) and "\0" in each for each in (event.user, event.session, event.item, event.type)
            ):
                raise ParameterError("a text with the character 0 cannot be stored")
        await super().append(events)

    def _store(self, events: list[Event]) -> None:
        try:
            self._to_write.run(lambda connection: self._insert(connection, events))
        except DataError as error:
            raise StoreError(f"events cannot be stored: {error}") from error

    def _insert(self, connection: Any, events: list[Event]) -> None:
        now, cursor = time.time(), connection.cursor()
        for whose, table in self._tables.items():
            is_session = whose == "session"
            rows = [
                (
                    event.session if is_session else event.user,
                    *(event.item, now if event.time is None else event.time),
                    *(1.0 if event.weight is None else event.weight, event.type),
                )
                for event in events
                if (event.session is not None) == is_session
            ]
            if rows:
                marks = ", ".join([self._mark] * 5)
                cursor.executemany(f"INSERT INTO {table} ({whose}, {', '.join(COLUMNS)}) VALUES ({marks})", rows)
        connection.commit()

    async def recent(self, user: Id | None, session: str | None) -> Sequence[Event]:
        """Return the latest events of a user, or of a session, oldest first; none if the database is away."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._reader, self._read, user, session)
        except DataError:
            return ()

    def _read(self, user: Id | None, session: str | None) -> Sequence[Event]:
        whose, value = ("session", session) if session is not None else ("user_id", user)
        query = (
            f"SELECT {', '.join(COLUMNS)} FROM {self._tables[whose]} WHERE {whose} = {self._mark} AND time >"
            f" {self._mark} ORDER BY time DESC, n DESC LIMIT {MOST_RECENT}"
        )

        def read(connection: Any) -> list[Any]:
            rows: list[Any] = connection.execute(query, [value, self._since]).fetchall()
            connection.commit()
            return rows

        found = self._to_read.run(read)[::-1]
        return [
            Event(user=user if session is None else None, session=session, item=item, time=at, weight=weight, type=kind)
            for item, at, weight, kind in found
        ]

    async def close(self) -> None:
        """Store what waits, and end the connections."""
        await super().close()
        self._reader.shutdown()
        for each in (self._to_write, self._to_read):
            each.close()


class _Connection:
    """A connection that is made when it is needed, and made again after it was lost."""

    def __init__(self, address: str) -> None:
        self._address, self._lost = address, -PAUSE
        self._connection: Any = None

    def run(self, work: Callable[[Any], Any]) -> Any:
        """Return what some work with the connection gives; DataError if the database cannot be reached or refuses."""
        is_new = self._connection is None
        if is_new and time.monotonic() - self._lost < PAUSE:
            raise DataError("the database cannot be reached")
        try:
            with reword_errors(Exception, "the database says"):
                self._connection = self._connection or connect_for_writing(self._address)
                return work(self._connection)
        except DataError as error:
            self.close()
            if is_new:
                self._lost = time.monotonic()
                log.warning("the database of events: %s", error)
                raise
            # It may have been closed since the last time: begin once more.
            return self.run(work)

    def close(self) -> None:
        """End the connection, if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with reword_errors(Exception, "the database says"):
                connection.close()


def _name_tables(table: str) -> dict[str, str]:
    """Return the tables by the column that says whose an event is."""
    folder, name = split_table_name(table)
    return {"user_id": table, "session": f"{'' if folder is None else f'{folder}.'}{name}_sessions"}


def prepare(address: str, table: str, model: Any) -> None:
    """Make the tables of events for the ids of a model, if there are none; DataError if there are others.

    Parameters
    ----------
    address, table
        As for `EventTable`.
    model
        A fitted model.
    """
    is_server, tables = is_postgresql(address), _name_tables(table)
    text, number = ("text", "bigint") if is_server else ("TEXT", "INTEGER")
    users, items = (text if ids.ids.dtype == object else number for ids in (model.users_, model.items_))
    key = "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY" if is_server else "INTEGER PRIMARY KEY"
    with reword_errors(Exception, "the database says"):
        connection = connect_for_writing(address)
        try:
            for whose, name in tables.items():
                place = quote_table(name)
                connection.execute(
                    f"CREATE TABLE IF NOT EXISTS {place} (n {key}, {whose} {users if whose == 'user_id' else text} NOT"
                    f" NULL, item_id {items} NOT NULL, time double precision NOT NULL, weight double precision NOT NULL"
                    f" DEFAULT 1, type {text})"
                )
                found = [each[0] for each in connection.execute(f"SELECT * FROM {place} WHERE 1 = 0").description]
                if missing := {"n", whose, *COLUMNS} - set(found):
                    raise DataError(
                        f"the table {name} has no column {quote_names(sorted(missing))}; its columns are"
                        f" {quote_names(found)}; give the name of another, which is then made"
                    )
                index = quote_name(f"{split_table_name(name)[1][:40]}_{whose}_time")
                connection.execute(f"CREATE INDEX IF NOT EXISTS {index} ON {place} ({whose}, time)")
            connection.commit()
        finally:
            connection.close()
