"""Feedback events: stored durably, in files or a table, before they are acknowledged; all workers know them at once."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import msgspec

from csrr._base.text import quote_names
from csrr.data.errors import DataError, reword_errors
from csrr.data.sql import connect_for_writing, is_postgresql, quote_name, quote_table, split_table_name
from csrr.parameters import ParameterError

Id = int | str
MOST_RECENT = 1000
"""The latest events of a user, or of a session, in a file that are kept in memory."""
SESSION_LIFE = 24 * 3600
"""Seconds after which a file of sessions is no longer read; it stays where it is."""


class StoreError(Exception):
    """Events could not be stored, so they are not acknowledged; the message is for the client."""


class Event(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """A user, or a session, chose an item; `time` is in seconds since 1970."""

    user: Id | None = None
    session: str | None = None
    item: Id
    time: float | None = None
    weight: float | None = None
    type: str | None = None


class EventStore(Protocol):
    """Where events go, and where what happened since the fit of the model comes from.

    All methods are called in the event loop of a worker; none may block it.
    """

    async def open(self) -> None:
        """Get ready; called once, before anything else."""

    async def append(self, events: Sequence[Event]) -> None:
        """Store events; return once they would survive the end of this machine's power, else raise StoreError."""

    async def recent(self, user: Id | None, session: str | None) -> Sequence[Event]:
        """Return events of a user, or of a session, oldest first: all that the model may not know, and maybe more."""

    async def close(self) -> None:
        """Store what is still waiting, and let go of everything."""


class GroupedEvents:
    """Stores events in groups, on a thread of its own: all that wait at the same time share one write.

    Parameters
    ----------
    most_waiting
        The number of events that may wait to be stored; more are refused.
    """

    def __init__(self, most_waiting: int) -> None:
        self._thread = ThreadPoolExecutor(1, "csrr-events")
        self._waiting: list[tuple[Sequence[Event], asyncio.Future[None]]] = []
        self._n_waiting, self._most_waiting = 0, most_waiting
        self._writer: asyncio.Task[None] | None = None

    async def append(self, events: Sequence[Event]) -> None:
        """Store events; all that wait at the same time share one write."""
        if self._n_waiting + len(events) > self._most_waiting:
            raise StoreError("too many events are waiting to be stored; try again later")
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((events, done))
        self._n_waiting += len(events)
        if self._writer is None:
            self._writer = asyncio.create_task(self._write())
        await done

    async def _write(self) -> None:
        """Write what waits, until nothing does."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            group, self._waiting = self._waiting, []
            events = [event for some, _ in group for event in some]
            failed: Exception | None = None
            try:
                await loop.run_in_executor(self._thread, self._store, events)
            except StoreError as error:
                failed = error
            except OSError as error:
                failed = StoreError(f"events cannot be stored: {error.strerror}")
            self._n_waiting -= len(events)
            for _, done in group:
                if not done.done():
                    done.set_result(None) if failed is None else done.set_exception(failed)
        self._writer = None

    def _store(self, events: list[Event]) -> None:
        """Store events durably; on the thread of the writer."""
        raise NotImplementedError

    async def close(self) -> None:
        """Store what waits."""
        if self._writer is not None:
            await self._writer
        self._thread.shutdown()


class EventFiles(GroupedEvents):
    """Events in append-only files of JSON lines, which `csrr update` reads; one file a worker and period.

    Users' events are in `folder`, those of sessions in its folder `sessions`. A file is named by the beginning of its
    period, in UTC, and the worker; after the period nothing is added to it.

    Parameters
    ----------
    folder
        Where they are; made if it is not there.
    worker
        The number of this worker. No two that run at once may have the same.
    period
        Seconds after which a new file begins.
    most_waiting
        The number of events that may wait for the disk; more are refused.
    """

    def __init__(self, folder: Path, worker: int = 0, *, period: int = 3600, most_waiting: int = 10_000) -> None:
        super().__init__(most_waiting)
        self._users = _Files(folder, worker, period)
        self._sessions = _Files(folder / "sessions", worker, period, SESSION_LIFE)

    async def open(self) -> None:
        """Make the folders, and read what is there."""
        for files in (self._users, self._sessions):
            files.open()

    def _store(self, events: list[Event]) -> None:
        """Write events to their files; on the thread of the writer."""
        for files, mine in (
            (self._users, [event for event in events if event.session is None]),
            (self._sessions, [event for event in events if event.session is not None]),
        ):
            if mine:
                files.write(mine)

    async def recent(self, user: Id | None, session: str | None) -> Sequence[Event]:
        """Return the events of a user, or of a session, that are in the files, oldest first."""
        if session is not None:
            return self._sessions.of(session)
        assert user is not None
        return self._users.of(user)

    async def close(self) -> None:
        """Wait for the writer."""
        await super().close()
        for files in (self._users, self._sessions):
            files.close()


class _Files:
    """The event files of a folder: one that this worker appends to, and all of them, followed as they grow.

    What is in a file counts as long as the file is there and, with a `life`, not older than so many seconds.
    """

    def __init__(self, folder: Path, worker: int, period: int, life: float = math.inf) -> None:
        self._folder, self._worker, self._period, self._life = folder, worker, period, life
        # The file written to, the beginning of its period, and the bytes of it that are safe.
        self._out, self._path, self._began, self._safe = -1, folder, 0, 0
        # Files by name, and the latest of each worker, the only ones that grow.
        self._read: dict[str, _Followed] = {}
        self._growing: list[_Followed] = []
        self._listed = -1
        # One object for each id of an item, however many events there are.
        self._items: dict[Id, Id] = {}
        self._decode = msgspec.json.Decoder(Event)
        self._encode = msgspec.json.Encoder()

    def open(self) -> None:
        """Make the folder, cut off lines that this worker's predecessors could not end, and read all files."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in self._folder.glob(f"*Z-{self._worker}-*.jsonl"):
            _cut_torn(path)
        self._catch_up()

    def write(self, events: list[Event]) -> None:
        """Append events; when this returns they are on the disk. After an error none of them is in a file."""
        now = time.time()
        if self._out < 0 or now - self._began >= self._period:
            self._begin(now)
        try:
            data = memoryview(self._encode.encode_lines(events))
            size = len(data)
            while data:
                data = data[os.write(self._out, data) :]
            os.fdatasync(self._out)
            self._safe += size
        except OSError:
            # Whether a failed sync left something on the disk is not known: this file ends where it was safe. One that
            # never held anything goes, or a disk without room would fill the folder with them.
            out, self._out = self._out, -1
            try:
                os.ftruncate(out, self._safe)
                os.fdatasync(out)
                if self._safe == 0:
                    os.unlink(self._path)
            finally:
                os.close(out)
            raise

    def _begin(self, now: float) -> None:
        """Begin a new file, in a period that may have begun before."""
        if self._out >= 0:
            os.close(self._out)
            self._out = -1
        self._began, self._safe = int(now // self._period) * self._period, 0
        period = datetime.fromtimestamp(self._began, UTC).strftime("%Y%m%dT%H%M%SZ")
        # Files of a worker sort by when they were made.
        self._path = self._folder / f"{period}-{self._worker}-{time.time_ns():020d}-{os.getpid()}.jsonl"
        self._out = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        fcntl.flock(self._out, fcntl.LOCK_EX)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def of(self, user: Id) -> Sequence[Event]:
        """Return the events of a user in all files, oldest first."""
        self._catch_up()
        found = [flat for file in self._read.values() if (flat := file.by_user.get(user)) is not None]
        if not found:
            return ()
        events = [
            Event(user=user, item=item, time=at, type=kind)
            for flat in found
            for item, at, kind in zip(flat[::3], flat[1::3], flat[2::3], strict=True)
        ]
        return sorted(events, key=lambda event: event.time or 0.0) if len(found) > 1 else events

    def _catch_up(self) -> None:
        """Read what any worker has added; forget files that are gone."""
        listed = os.stat(self._folder).st_mtime_ns
        if listed != self._listed:
            names = {name for name in os.listdir(self._folder) if name.endswith(".jsonl") and self._is_alive(name)}
            for name in self._read.keys() - names:
                os.close(self._read.pop(name).file)
            for name in sorted(names - self._read.keys()):
                with contextlib.suppress(FileNotFoundError):  # it went while we looked
                    self._read[name] = _Followed(os.open(self._folder / name, os.O_RDONLY))
            # A file made within one tick of the clock leaves the same time.
            self._listed = listed if time.time_ns() - listed > 10**8 else -1
            # A worker ends a file before it begins the next: the earlier ones are read to their end now.
            self._read_more(self._read.values())
            latest = {name.partition("-")[2].partition("-")[0]: self._read[name] for name in sorted(self._read)}
            self._growing = list(latest.values())
        self._read_more(self._growing)

    def _is_alive(self, name: str) -> bool:
        try:
            return self._life == math.inf or time.time() - os.stat(self._folder / name).st_mtime < self._life
        except FileNotFoundError:
            return False

    def _read_more(self, files: Iterable[_Followed]) -> None:
        """Read the whole lines that were added to files."""
        for followed in files:
            if os.fstat(followed.file).st_size > followed.place:
                for lines in _read_lines(followed.file, followed.place):
                    followed.place += len(lines)
                    for line in lines.splitlines():
                        self._take(line, followed.by_user)

    def _take(self, line: bytes, by_user: dict[Id, list[Any]]) -> None:
        """Add the event of a line to those of its user or session."""
        try:
            event = self._decode.decode(line)
        except msgspec.DecodeError:
            return
        who = event.user if event.session is None else event.session
        if who is not None:
            mine = by_user.setdefault(who, [])
            mine += (self._items.setdefault(event.item, event.item), event.time, event.type)
            if len(mine) > 6 * MOST_RECENT:
                del mine[: 3 * MOST_RECENT]

    def close(self) -> None:
        """Close all files."""
        for each in self._read.values():
            os.close(each.file)
        self._read = {}
        if self._out >= 0:
            os.close(self._out)
            self._out = -1


@dataclass
class _Followed:
    """A file that is read: its descriptor, the bytes read, and item, time, type, item, ... of each user."""

    file: int
    place: int = 0
    by_user: dict[Id, list[Any]] = field(default_factory=dict)


_BLOCK = 2**20


def _read_lines(file: int, start: int) -> Iterator[bytes]:
    """Yield blocks of whole lines of a file from a place on; a line without an end is left."""
    while block := os.pread(file, _BLOCK, start):
        end = block.rfind(b"\n") + 1
        if not end:
            return
        yield block[:end]
        start += end


def _cut_torn(path: Path) -> None:
    """Cut off the last line of a file if it has no end, and nobody writes to it."""
    with path.open("rb+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
        size = file.seek(0, os.SEEK_END)
        start = max(0, size - _BLOCK)
        file.seek(start)
        end = file.read().rfind(b"\n") + 1
        if end < size - start:
            file.truncate(start + end if end else (0 if start == 0 else size))


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
        The table, as name or schema.name, made by `prepare_tables`.
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


def prepare_tables(address: str, table: str, model: Any) -> None:
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
