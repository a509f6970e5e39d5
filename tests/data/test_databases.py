import gc
import sqlite3
import tracemalloc
import uuid
from contextlib import closing

import adbc_driver_sqlite.dbapi
import duckdb
import numpy as np
import pytest
import sqlalchemy
from sqlalchemy.orm import Session

import csrr
from csrr.data import sql as databases

ROWS = [("ann", 10, 5.0, "2020-09-13"), ("ann", 20, 2.0, "2020-09-14"), ("bob", 10, 4.0, "2020-09-15")]
QUERY = "SELECT customer_id, product_id, rating, bought_on AS date FROM orders"
LOG = csrr.Log.from_table(
    {"user": ["ann", "ann", "bob"], "item": [10, 20, 10], "date": [row[3] for row in ROWS]},
)


@pytest.fixture
def shop(tmp_path):
    """The path of an SQLite database."""
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE orders (customer_id TEXT, product_id INTEGER, rating REAL, bought_on TEXT)")
        connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", ROWS)
    return path


@pytest.fixture
def opened(shop):
    """The same database through every kind of driver."""
    engine = sqlalchemy.create_engine(f"sqlite:///{shop}")
    with (
        closing(sqlite3.connect(shop)) as plain,
        adbc_driver_sqlite.dbapi.connect(str(shop)) as arrow,
        engine.connect() as connection,
        closing(plain.cursor()) as cursor,
        arrow.cursor() as arrow_cursor,
        closing(engine.raw_connection()) as raw,
    ):
        yield {
            "sqlite3": plain,
            "a cursor of sqlite3": cursor,
            "ADBC": arrow,
            "a cursor of ADBC": arrow_cursor,
            "an engine of SQLAlchemy": engine,
            "a connection of SQLAlchemy": connection,
            "a raw connection of SQLAlchemy": raw,
            "an address": f"sqlite:///{shop}",
            "a path": shop,
        }
    engine.dispose()


KINDS = [
    *("sqlite3", "a cursor of sqlite3", "ADBC", "a cursor of ADBC", "an engine of SQLAlchemy"),
    *("a connection of SQLAlchemy", "a raw connection of SQLAlchemy", "an address", "a path"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_driver_gives_the_same_log(opened, kind):
    log = csrr.read_sql(QUERY, opened[kind])
    assert log == LOG
    assert csrr.read(opened[kind], query=QUERY) == LOG
    assert (log.columns.user, log.columns.item, log.columns.rating) == ("customer_id", "product_id", "rating")
    assert csrr.read_sql(QUERY, opened[kind], min_rating=4).history("ann").tolist() == [10]


def test_duckdb():
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE orders (customer_id TEXT, product_id INTEGER, rating REAL, bought_on DATE)")
        connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", ROWS)
        assert csrr.read_sql(QUERY, connection) == LOG


def test_a_session_of_sqlalchemy(shop):
    engine = sqlalchemy.create_engine(f"sqlite:///{shop}")
    with Session(engine) as session:
        assert csrr.read_sql(QUERY, session) == LOG
    engine.dispose()


@pytest.mark.parametrize("kind", ["a cursor of sqlite3", "a cursor of ADBC"])
def test_a_cursor_that_was_executed_needs_no_query(opened, kind):
    opened[kind].execute(QUERY)
    assert csrr.read(opened[kind]) == LOG


def test_placeholders(opened):
    assert len(csrr.read_sql(f"{QUERY} WHERE customer_id = ?", opened["sqlite3"], parameters=("ann",))) == 2
    engine = opened["an engine of SQLAlchemy"]
    assert len(csrr.read_sql(f"{QUERY} WHERE customer_id = :who", engine, parameters={"who": "bob"})) == 1
    orders = sqlalchemy.Table("orders", sqlalchemy.MetaData(), autoload_with=engine)
    assert len(csrr.read_sql(sqlalchemy.select(orders).where(orders.c.rating > 3), engine)) == 2


@pytest.mark.parametrize("kind", ["sqlite3", "an engine of SQLAlchemy", "ADBC"])
def test_chunks_are_put_together(opened, monkeypatch, kind):
    monkeypatch.setattr(databases, "CHUNK_ROWS", 2)
    with opened["sqlite3"] as connection:
        connection.executemany("INSERT INTO orders VALUES (?, ?, NULL, NULL)", [("eve", 30), ("eve", 40)])
        connection.execute("INSERT INTO orders VALUES ('eve', 50, 2.5, NULL)")
    log = csrr.read_sql("SELECT customer_id, product_id FROM orders", opened[kind])
    assert log.history("eve").tolist() == [30, 40, 50]
    with pytest.warns(csrr.DataWarning, match="skipped 3 of 6 rows that are bad; the first is row 4"):
        assert csrr.read_sql(QUERY, opened[kind], on_bad_rows="skip") == LOG
    with pytest.raises(csrr.DataError, match="column 'rating', row 4: the value is missing"):
        csrr.read_sql(QUERY, opened[kind])


def test_types_that_change_from_chunk_to_chunk_are_refused_by_name(opened, monkeypatch):
    monkeypatch.setattr(databases, "CHUNK_ROWS", 3)
    with opened["sqlite3"] as connection:
        connection.execute("INSERT INTO orders VALUES ('eve', 'x1', 1, '2020-09-13')")
    with pytest.raises(csrr.DataError, match=r"'product_id' holds values of several types.*CAST it in the query"):
        csrr.read_sql(QUERY, opened["sqlite3"])


@pytest.mark.parametrize("kind", ["sqlite3", "an engine of SQLAlchemy", "ADBC"])
@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT * FROM nothing", "the database says: .*nothing"),
        ("SELECT 1 AS a, 2 AS b", "no column looks like the user; the columns are 'a', 'b'"),
        (f"{QUERY} WHERE 1 = 0", "the query gives no rows"),
        ("SELECT NULL AS user, 1 AS item", "column 'user', row 1: the value is missing"),
    ],
)
def test_queries_that_cannot_be_a_log(opened, kind, query, words):
    with pytest.raises(csrr.DataError, match=words):
        csrr.read_sql(query, opened[kind])


def test_sources_that_are_no_database(tmp_path, shop):
    (tmp_path / "log.csv").write_text("user,item\n1,2\n")
    with pytest.raises(csrr.DataError, match=r"log\.csv is not an SQLite database"):
        csrr.read(tmp_path / "log.csv", query=QUERY)
    with pytest.raises(csrr.DataError, match=r"cannot read .*none\.db: No such file"):
        csrr.read(f"sqlite:///{tmp_path}/none.db", query=QUERY)
    assert not (tmp_path / "none.db").exists()
    with pytest.raises(csrr.DataError, match=r"cannot read .*none\.db: No such file"):
        csrr.read(tmp_path / "none.db", query=QUERY)
    with pytest.raises(csrr.DataError, match=r"the database URL cannot be used: .*nosuch"):
        csrr.read("nosuch://x/y", query=QUERY)
    with pytest.raises(csrr.DataError, match=r"shop\.db: this is an SQLite database; pass table='...' or query="):
        csrr.read(shop)
    with pytest.raises(csrr.DataError, match="a query needs a connection to a database, not 5"):
        csrr.read(5, query=QUERY)
    with closing(sqlite3.connect(shop)) as connection:
        with pytest.raises(csrr.DataError, match="a connection needs a query"):
            csrr.read(connection)
        with pytest.raises(csrr.DataError, match="is it a SELECT"):
            csrr.read(connection, query="CREATE TABLE t (a)")
    with pytest.raises(csrr.DataError, match="an engine or a connection needs a query"):
        csrr.read(sqlalchemy.create_engine("sqlite://"))


def test_a_result_beyond_the_limit_is_given_up_early(monkeypatch):
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS user, i AS item FROM n"
    monkeypatch.setenv("CSRR_MAX_BYTES", "3e6")
    limit = pytest.raises(csrr.DataError, match="the result of the query has 130,000 rows")
    with closing(sqlite3.connect(":memory:")) as connection, limit:
        csrr.read_sql(endless, connection)


def test_rows_are_not_held_all_at_once():
    """A column that no role asks for is wide: kept, it would take 200 MB."""
    query = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 200000)"
        " SELECT i % 1000 AS user, i AS item, hex(zeroblob(500)) AS notes FROM n"
    )
    with closing(sqlite3.connect(":memory:")) as connection:
        gc.collect()
        tracemalloc.start()
        try:
            log = csrr.read_sql(query, connection)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert (len(log), log.columns.left_alone) == (200_000, ("notes",))
    assert peak < 60e6


def test_ids_of_databases_survive_a_model_file(tmp_path):
    people = [uuid.UUID(int=i) for i in range(4)]
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE e (user_id UUID, item_id DECIMAL(10, 0))")
        connection.executemany("INSERT INTO e VALUES (?, ?)", [(str(one), i % 3) for i, one in enumerate(people)])
        log = csrr.read_sql("SELECT * FROM e", connection)
    assert log.users.ids.tolist() == [str(one) for one in people]
    csrr.PopRank().fit(log).save(tmp_path / "model.csrr")
    model = csrr.load(tmp_path / "model.csrr")
    told = model.recommend(people[:1], k=1)
    assert (told.users.tolist(), told.items.dtype) == ([str(people[0])], np.int64)
