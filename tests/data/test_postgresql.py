"""Logs from a real PostgreSQL server, where its programs are at hand."""

import pytest

import csrr
from csrr.data import sql as databases
from tests.postgresql import NotInstalled, start_server

psycopg = pytest.importorskip("psycopg")
adbc = pytest.importorskip("adbc_driver_postgresql.dbapi")
sqlalchemy = pytest.importorskip("sqlalchemy")

N_ROWS = 25_000
QUERY = "SELECT user_id, item_id, bought_at AS time, price FROM orders"
COUNT = "SELECT count(*) FROM pg_cursors"


@pytest.fixture(scope="module")
def server():
    """The address of a server with a table of orders."""
    try:
        with start_server() as address:
            fill(address)
            yield address
    except NotInstalled as error:
        pytest.skip(str(error))


def fill(address):
    with psycopg.connect(address) as connection:
        connection.execute(
            "CREATE TABLE orders AS SELECT md5((i %% 500)::text)::uuid AS user_id, (i * 7 %% 1999)::bigint AS item_id,"
            " timestamptz '2020-01-01 00:00+00' + i * interval '1 hour' AS bought_at, (i %% 90)::numeric AS price"
            " FROM generate_series(1, %s) AS i",
            [N_ROWS],
        )


@pytest.fixture
def expected():
    from hashlib import md5
    from uuid import UUID

    rows = range(1, N_ROWS + 1)
    start = 1_577_836_800
    return csrr.Log.from_table(
        {
            "user": [UUID(md5(str(i % 500).encode()).hexdigest()) for i in rows],
            "item": [i * 7 % 1999 for i in rows],
            "time": [start + 3600.0 * i for i in rows],
        }
    )


@pytest.mark.parametrize("autocommit", [False, True])
def test_psycopg_reads_through_a_cursor_on_the_server(server, expected, autocommit, monkeypatch):
    monkeypatch.setattr(databases, "CHUNK_ROWS", 1_000)
    fetch, sizes = psycopg.ServerCursor.fetchmany, []

    def fetch_and_count(cursor, size):
        rows = fetch(cursor, size)
        sizes.append(len(rows))
        return rows

    monkeypatch.setattr(psycopg.ServerCursor, "fetchmany", fetch_and_count)
    with psycopg.connect(server, autocommit=autocommit) as connection:
        log = csrr.read_sql(QUERY, connection)
        assert connection.execute(COUNT).fetchone() == (0,)
    assert log == expected
    assert log.columns.left_alone == ("price",)
    assert sizes == [1_000] * 25 + [0]


def test_adbc(server, expected, monkeypatch):
    with adbc.connect(server) as connection:
        assert csrr.read_sql(QUERY, connection) == expected
    assert csrr.read(server, query=QUERY) == expected
    view = 'CREATE OR REPLACE VIEW public."View %" AS ' + QUERY.replace("price", "price AS weight")
    with psycopg.connect(server) as connection:
        connection.execute(view)
    log = csrr.read(server, table="public.View %", weight=False)
    assert log == expected
    monkeypatch.setattr(databases, "_find_postgresql_driver", lambda: psycopg.connect)
    assert csrr.read(server, table="View %", weight=False) == expected


def test_sqlalchemy(server, expected):
    engine = sqlalchemy.create_engine(server.replace("postgresql:", "postgresql+psycopg:"))
    assert csrr.read(engine, query=QUERY, weight="price") != expected
    assert csrr.read(engine, query=QUERY) == expected
    engine.dispose()
    assert csrr.read(server.replace("postgresql:", "postgresql+psycopg:"), query=QUERY) == expected


def test_what_the_server_says_is_told(server):
    with psycopg.connect(server) as connection, pytest.raises(csrr.DataError, match='says: relation "x" does not'):
        csrr.read_sql("SELECT * FROM x", connection)
    engine = sqlalchemy.create_engine(server.replace("postgresql:", "postgresql+psycopg:"))
    with pytest.raises(csrr.DataError, match='relation "x" does not'):
        csrr.read_sql("SELECT * FROM x", engine)
    engine.dispose()
