"""Events in a table: committed before they are acknowledged, found at once, and there for the next update."""

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

import csrr
from tests.postgresql import NotInstalled, start_server

pytest.importorskip("msgspec")
psycopg = pytest.importorskip("psycopg")

from csrr.parameters import ParameterError  # noqa: E402
from csrr.serve import events as event_table  # noqa: E402
from csrr.serve.events import Event, EventTable, StoreError, prepare_tables  # noqa: E402

LOG = {"user": ["ann", "ann", "bob", "bob"], "item": [7, 8, 7, 9], "time": [1e9, 1e9 + 1, 1e9 + 2, 1e9 + 3]}


@pytest.fixture(scope="module")
def server():
    try:
        with start_server() as address:
            yield address
    except NotInstalled as error:
        pytest.skip(str(error))


@pytest.fixture(params=["postgresql", "sqlite"])
def address(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/events.db"
    address = request.getfixturevalue("server")
    with psycopg.connect(address) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return address


@pytest.fixture
def model():
    return csrr.PopRank().fit(LOG)


def with_store(address, work, **options):
    """Run a coroutine function with an open store."""

    async def run():
        store = EventTable(address, "events", **options)
        await store.open()
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(run())


def count(address):
    if address.startswith("sqlite"):
        with closing(sqlite3.connect(address[10:])) as connection:
            return connection.execute("SELECT count(*) FROM events").fetchone()[0]
    with psycopg.connect(address) as connection:
        return connection.execute("SELECT count(*) FROM events").fetchone()[0]


def test_events_are_found_at_once_and_update_the_model(address, model):
    prepare_tables(address, "events", model)
    prepare_tables(address, "events", model)

    async def work(store):
        await store.append([Event(user="ann", item=9, time=2e9), Event(user="ann", item=10, time=2e9 + 1, weight=2.5)])
        await asyncio.gather(*(store.append([Event(user=f"u{n}", item=n, time=2e9 + n)]) for n in range(50)))
        await store.append([Event(session="s", item=7), Event(session="s", item=8, type="view")])
        ann, session = await store.recent("ann", None), await store.recent(None, "s")
        assert [(each.user, each.item, each.weight) for each in ann] == [("ann", 9, 1.0), ("ann", 10, 2.5)]
        assert [(each.session, each.item, each.type) for each in session] == [("s", 7, None), ("s", 8, "view")]
        assert await store.recent("nobody' OR ''='", None) == []

    with_store(address, work, since=float(model.seen_times_.max()))
    assert count(address) == 52
    new = csrr.read_new(model, address, "events")
    assert len(new) == 52
    model.update(new)
    assert len(csrr.read_new(model, address, "events")) == 0


def test_what_the_shop_adds_counts_and_what_the_model_has_does_not(address, model):
    prepare_tables(address, "events", model)
    rows = "('ann', 8, 1e9 + 1), ('ann', 9, 3e9), ('ann', 7, 4e9)"
    if address.startswith("sqlite"):
        with closing(sqlite3.connect(address[10:])) as connection, connection:
            connection.execute(f"INSERT INTO events (user_id, item_id, time) VALUES {rows}")  # noqa: S608
    else:
        with psycopg.connect(address) as connection:
            connection.execute(f"INSERT INTO events (user_id, item_id, time) VALUES {rows}")  # noqa: S608
    recent = with_store(address, lambda store: store.recent("ann", None), since=2e9)
    assert [each.item for each in recent] == [9, 7]


def test_a_server_that_stops_and_comes_back(tmp_path, model, monkeypatch):
    monkeypatch.setattr(event_table, "PAUSE", 0.05)
    file = tmp_path / "events.db"
    prepare_tables(str(file), "events", model)

    async def work(store):
        await store.append([Event(user="ann", item=9, time=2e9)])
        store._to_write.close()
        store._to_read.close()
        file.rename(tmp_path / "away.db")
        file.mkdir()
        with pytest.raises(StoreError, match="cannot be stored"):
            await store.append([Event(user="ann", item=10, time=2e9)])
        assert await store.recent("ann", None) == ()
        file.rmdir()
        (tmp_path / "away.db").rename(file)
        await asyncio.sleep(0.1)
        await store.append([Event(user="ann", item=11, time=2e9 + 1)])
        assert [each.item for each in await store.recent("ann", None)] == [9, 11]

    with_store(str(file), work)


def test_a_connection_that_is_cut_is_made_again(server, model):
    with psycopg.connect(server) as connection:
        connection.execute("DROP TABLE IF EXISTS events, events_sessions")
    prepare_tables(server, "events", model)

    async def work(store):
        for n in range(3):
            await store.append([Event(user="ann", item=n, time=2e9 + n)])
            assert len(await store.recent("ann", None)) == n + 1
            with psycopg.connect(server, autocommit=True) as other:
                cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                other.execute(f"{cut} AND datname IS NOT NULL AND backend_type = 'client backend'")

    with_store(server, work)
    assert count(server) == 3


def test_what_is_acknowledged_survives_a_kill(tmp_path, model):
    file = tmp_path / "events.db"
    prepare_tables(str(file), "events", model)
    code = f"""
import asyncio, os, signal
from csrr.serve.events import EventTable
from csrr.serve.events import Event
async def main():
    store = EventTable({str(file)!r}, "events")
    await store.open()
    for n in range(20):
        await store.append([Event(user="ann", item=n, time=2e9)])
        print(n, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert count(f"sqlite:///{file}") == len(done.stdout.split()) == 20


def test_tables_and_texts_that_cannot_be_used(address, model):
    if address.startswith("sqlite"):
        with closing(sqlite3.connect(address[10:])) as connection, connection:
            connection.execute("CREATE TABLE events (user_id TEXT, item_id INTEGER)")
    else:
        with psycopg.connect(address) as connection:
            connection.execute("CREATE TABLE events (user_id text, item_id int)")
    with pytest.raises(csrr.DataError, match="the table events has no column 'n', 'time', 'type', 'weight'"):
        prepare_tables(address, "events", model)
    with pytest.raises(csrr.DataError):
        with_store(address, lambda store: store.recent("ann", None))
    with pytest.raises(ParameterError, match="give the name of a table"):
        prepare_tables(address, "a.b.c", model)
    prepare_tables(address, "others", model)

    async def work():
        store = EventTable(address, "others")
        with pytest.raises(ParameterError, match="character 0"):
            await store.append([Event(user="a\0b", item=7)])
        await store.close()

    asyncio.run(work())
