"""Lists in a database, replaced as a whole whatever happens, and events that a model has not seen."""

import datetime
import json
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import numpy as np
import pytest

import csrr
from csrr.interop import databases
from tests.cli.conftest import as_json, in_process
from tests.postgresql import NotInstalled, start_server

psycopg = pytest.importorskip("psycopg")

KINDS = ["postgresql", "sqlite"]
ODD = ["<script>", "tab\there", "line\nbreak\r\n\\.\n", "", "\\N", 'o\'clock "quoted"', "naïve 汉字", "back\\slash"]


@pytest.fixture(scope="module")
def server():
    try:
        with start_server() as address:
            yield address
    except NotInstalled as error:
        pytest.skip(str(error))


@pytest.fixture(params=KINDS)
def address(request, tmp_path):
    """A database without tables of ours."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shop.db"
    address = request.getfixturevalue("server")
    with psycopg.connect(address) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return address


@pytest.fixture(scope="module")
def models():
    """Two models whose lists differ in every row."""
    log = csrr.synthetic(60, 40, events_per_user=10).log
    first = csrr.PopRank().fit(log)
    second = csrr.PopRank().fit(csrr.Log.from_matrix(log.to_csr()[:, ::-1]))
    return first, second


def ask(address, query, *values):
    """Return the rows of a query."""
    if address.startswith("sqlite"):
        with closing(sqlite3.connect(address[10:])) as connection, connection:
            return connection.execute(query, values).fetchall()
    with psycopg.connect(address) as connection:
        cursor = connection.execute(query.replace("?", "%s"), values)
        return cursor.fetchall() if cursor.description else []


def read_lists(address, table="recommendations", columns="user_id, item_id, rank"):
    return ask(address, f"SELECT {columns} FROM {table} ORDER BY user_id, rank")  # noqa: S608


def make_rows(model, k=5):
    return [(row["user"], row["item"], row["rank"]) for row in model.recommend(k=k).rows()]


def test_a_table_has_the_lists_of_the_model(address, models):
    for model in models:
        told = csrr.publish(model, address, k=5)
        assert (told.path, told.n_users, told.n_rows, told.k) == ("recommendations", 60, 300, 5)
        assert read_lists(address) == make_rows(model)
    scores = read_lists(address, columns="score")
    np.testing.assert_array_equal(np.float32(scores)[:, 0], models[1].recommend(k=5).scores.ravel())
    csrr.publish(models[0], address, "lists", k=3, scores=False, users=[5, 3])
    rows = [(row["user"], row["item"], row["rank"]) for row in models[0].recommend([3, 5], k=3).rows()]
    assert read_lists(address, "lists", "*") == rows


def test_texts_of_any_kind_arrive_as_they_are(address):
    pairs = [(user, item) for user in ODD[:3] + ODD[5:] for item in ODD if item]
    log = csrr.Log.from_table({"user": [a for a, _ in pairs], "item": [b for _, b in pairs]})
    model = csrr.PopRank().fit(log).set_items({"item": log.items.ids.tolist(), "title": ODD[:3] + ODD[4:]})
    csrr.publish(model, address, k=7, titles=True, exclude_seen=False)
    expected = {(r["user"], r["item"], r["rank"], r["title"]) for r in model.recommend(k=7, exclude_seen=False).rows()}
    assert {*read_lists(address, columns="user_id, item_id, rank, title")} == expected
    assert len(expected) == 7 * model.seen_.shape[0]


@pytest.mark.parametrize("table", ["", "a.b.c", "x" * 64, "bad\nname", 'q"; DROP TABLE t; --' + "x" * 60, None, "a."])
def test_names_that_are_no_table(models, table):
    with pytest.raises(csrr.ParameterError, match="give the name of a table"):
        csrr.publish(models[0], "sqlite:///unused.db", table)


def test_a_name_stands_for_nothing_but_itself(address, models):
    name = 'x"; DROP TABLE orders; --'
    ask(address, "CREATE TABLE orders (id int)")
    csrr.publish(models[0], address, name, k=2)
    csrr.publish(models[1], address, name, k=2)
    assert len(read_lists(address, '"x""; DROP TABLE orders; --"')) == 120
    assert ask(address, "SELECT * FROM orders") == []


def test_other_tables_are_never_replaced(address, models):
    ask(address, "CREATE TABLE orders (user_id int, item_id int, price int)")
    with pytest.raises(csrr.DataError, match="orders that holds no recommendations, and it stays"):
        csrr.publish(models[0], address, "orders")
    assert ask(address, "SELECT * FROM orders") == []
    ask(address, "CREATE VIEW seen AS SELECT * FROM orders")
    with pytest.raises(csrr.DataError):
        csrr.publish(models[0], address, "seen")


@pytest.mark.parametrize("address", ["mysql://host/shop", "mssql+pyodbc://x", 5])
def test_databases_that_are_not_known(models, address):
    with pytest.raises(csrr.DataError, match="give postgresql:"):
        csrr.publish(models[0], address)


def test_a_server_that_is_away_is_an_error_without_a_password(models):
    with pytest.raises(csrr.DataError, match="the database says") as caught:
        csrr.publish(models[0], "postgresql://me:secret@127.0.0.1:1/shop")
    assert "secret" not in str(caught.value)


def test_what_is_wrong_with_the_lists_leaves_the_old_ones(address, models):
    csrr.publish(models[0], address, k=5)
    with pytest.raises(csrr.ParameterError):
        csrr.publish(models[1], address, k=5, min_probability=0.5)
    calls = []

    def fail(n_users):
        calls.append(n_users)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        csrr.publish(models[1], address, k=5, callback=fail)
    assert calls == [60]
    assert read_lists(address) == make_rows(models[0])


# A process that is killed

KILLED = """
import os, signal, sqlite3, sys
import csrr

model, address = csrr.load(sys.argv[1]), sys.argv[2]
n_steps, at = 0, 0

def step(*_):
    global n_steps
    n_steps += 1
    if n_steps == at:
        os.kill(os.getpid(), signal.SIGKILL)

def count(method):
    def counted(*args, **kwargs):
        step()
        return method(*args, **kwargs)
    return counted

if address.startswith("sqlite"):
    connect = sqlite3.connect
    def connect_traced(*args, **kwargs):
        connection = connect(*args, **kwargs)
        connection.set_trace_callback(step)
        return connection
    sqlite3.connect = connect_traced
else:
    import psycopg
    for kind, name in ((psycopg.Cursor, "execute"), (psycopg.Copy, "write"), (psycopg.Connection, "commit")):
        setattr(kind, name, count(getattr(kind, name)))
batches = model.recommend_batches
type(model).recommend_batches = lambda self, users, k, **options: batches(users, k, batch_users=25, **options)
model.warm_up()
for line in sys.stdin:
    at = int(line)
    if (child := os.fork()) == 0:
        csrr.publish(model, address, k=5)
        os._exit(min(n_steps, 255))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Publishes once for each line, in a child that dies at the step of that number; says how the child ended."""


def test_killed_at_any_step_the_old_lists_stand(address, models, tmp_path):
    models[1].save(tmp_path / "second.csrr")
    old, new = make_rows(models[0]), make_rows(models[1])
    csrr.publish(models[0], address, k=5)
    command = [sys.executable, "-c", KILLED, str(tmp_path / "second.csrr"), address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:

        def publish(at):
            process.stdin.write(f"{at}\n")
            return int(process.stdout.readline())

        n_steps = publish(0)
        assert n_steps > 8
        assert read_lists(address) == new
        csrr.publish(models[0], address, k=5)
        few = [*range(1, 8), 50, n_steps // 2, *range(n_steps - 5, n_steps + 1)]
        for at in few if n_steps > 20 else range(1, n_steps + 1):
            assert publish(at) == -signal.SIGKILL
            found = read_lists(address)
            # SQLite looks at its log after the end of the transaction.
            assert found == old or (found == new and address.startswith("sqlite") and at == n_steps), at
            if found == new:
                csrr.publish(models[0], address, k=5)
        assert publish(0) == n_steps
        process.stdin.close()
    assert read_lists(address) == new


def test_readers_see_whole_lists_only(address, models):
    csrr.publish(models[0], address, k=5)
    whole, seen, stop = [make_rows(model) for model in models], set(), threading.Event()

    def look():
        while not stop.is_set():
            rows = read_lists(address)
            seen.add(whole.index(rows) if rows in whole else "part")

    reader = threading.Thread(target=look)
    reader.start()
    for n in range(10):
        csrr.publish(models[1 - n % 2], address, k=5)
    stop.set()
    reader.join()
    assert seen == {0, 1}


def test_a_transaction_that_began_before_the_swap_sees_whole_lists(server, models):
    csrr.publish(models[0], server, k=5)
    with psycopg.connect(server) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute("SELECT 1").fetchall()
        csrr.publish(models[1], server, k=5)
        rows = reader.execute("SELECT user_id, item_id, rank FROM recommendations ORDER BY 1, 3").fetchall()
    assert rows == make_rows(models[1])


def test_privileges_stay_and_the_key_is_there(server, models):
    csrr.publish(models[0], server, "granted", k=5)
    ask(server, "CREATE ROLE shopper")
    ask(server, "GRANT SELECT ON granted TO shopper")
    csrr.publish(models[1], server, "public.granted", k=5)
    assert ask(server, "SELECT has_table_privilege('shopper', 'granted', 'SELECT, INSERT')") == [(True,)]
    assert ask(server, "SELECT has_table_privilege('shopper', 'granted', 'INSERT')") == [(False,)]
    (index,) = ask(server, "SELECT indexdef FROM pg_indexes WHERE tablename = 'granted'")
    assert "UNIQUE INDEX" in index[0]
    assert index[0].endswith("(user_id, rank)")
    ask(server, "CREATE VIEW best AS SELECT * FROM granted WHERE rank = 1")
    with pytest.raises(csrr.DataError, match="as long as views are made of it: 'best'"):
        csrr.publish(models[0], server, "granted", k=5)


def test_a_reader_who_does_not_end(server, models, monkeypatch):
    csrr.publish(models[0], server, k=5)
    monkeypatch.setattr(databases, "LOCK_TRIES", 2)
    monkeypatch.setattr(databases, "LOCK_WAIT", 0.05)
    with psycopg.connect(server) as reader:
        reader.execute("SELECT 1 FROM recommendations").fetchall()
        with pytest.raises(csrr.DataError, match="read without a pause"):
            csrr.publish(models[1], server, k=5)
        with psycopg.connect(server) as other:
            key = ["csrr publish recommendations"]
            other.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", key)
            with pytest.raises(csrr.DataError, match="somebody else is publishing"):
                csrr.publish(models[1], server, k=5)
    assert read_lists(server) == make_rows(models[0])


# Events that came later

TIMES = {
    "postgresql": {"bigint": 1, "double precision": 1, "timestamptz": None, "timestamp": None, "numeric": 1000},
    "sqlite": {"INTEGER": 1000, "REAL": 1, "TEXT": None},
}
START = 1_700_000_000


def write_events(address, kind, factor, rows):
    """Add (user, item, seconds) to the table of events."""
    ask(address, f"CREATE TABLE IF NOT EXISTS events (user_id int, item_id int, at {kind})")
    for user, item, seconds in rows:
        stamp = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
        if kind == "timestamp":
            stamp = stamp.replace(tzinfo=None)
        value = (stamp.isoformat(" ") if kind == "TEXT" else stamp) if factor is None else seconds * factor
        ask(address, "INSERT INTO events VALUES (?, ?, ?)", user, item, value)


def list_pairs(log):
    """Return the events of a log as (user, item)."""
    return {*zip(log.users.ids[log.user_rows].tolist(), log.items.ids[log.item_rows].tolist(), strict=True)}


@pytest.mark.parametrize("place", range(5))
def test_new_events_are_those_that_the_model_has_not_seen(address, place):
    kinds = [*TIMES[address.partition(":")[0]].items()]
    kind, factor = kinds[place % len(kinds)]
    first = [(1, 7, START), (1, 8, START + 10_000), (2, 7, START + 20_000.25 if factor != 1000 else START + 20_000)]
    write_events(address, kind, factor, first)
    model = csrr.PopRank().fit(csrr.read(address, table="events", time="at"))
    assert len(csrr.read_new(model, address, "events", time="at")) == 0
    # One later, one written late, one of the same second, and one too far back to be looked for.
    more = [(3, 9, START + 30_000), (2, 8, START + 19_000), (4, 7, first[2][2]), (5, 5, START + 100)]
    write_events(address, kind, factor, more)
    new = csrr.read_new(model, address, "events", time="at")
    assert list_pairs(new) == {(3, 9), (2, 8), (4, 7)}
    assert new.times.max() == START + 30_000
    assert new.users.ids.tolist() == [2, 3, 4]
    model.update(new)
    assert len(csrr.read_new(model, address, "events", time="at")) == 0
    late = csrr.read_new(model, address, "events", time="at", overlap=1e6)
    assert list_pairs(late) == {(5, 5)}


def test_weights_are_not_added_twice(address):
    table = {"user": [1, 2], "item": [7, 7], "weight": [2.0, 3.0], "time": [START, START + 10]}
    model = csrr.WRMF(1, event_weights="linear", max_iter=1).fit(csrr.read(table))
    ask(address, "CREATE TABLE events (user_id int, item_id int, weight real, at bigint)")
    for row in [(1, 7, 2.0, START), (2, 7, 3.0, START + 10), (2, 7, 4.0, START + 11)]:
        ask(address, "INSERT INTO events VALUES (?, ?, ?, ?)", *row)
    new = csrr.read_new(model, address, "events", time="at")
    assert (list_pairs(new), new.weights.tolist()) == ({(2, 7)}, [4.0])


def test_tables_whose_new_events_cannot_be_told(address):
    model = csrr.PopRank().fit({"user": [1, 2], "item": [7, 8], "time": [START, START + 5]})
    ask(address, "CREATE TABLE events (user_id int, item_id int)")
    with pytest.raises(csrr.DataError, match=r"the database says: .*nowhere"):
        csrr.read_new(model, address, "nowhere")
    with pytest.raises(csrr.DataError, match="no column of the table events looks like times"):
        csrr.read_new(model, address, "events")
    ask(address, "CREATE TABLE texts (user_id int, item_id int, at text)")
    assert len(csrr.read_new(model, address, "texts", time="at")) == 0
    ask(address, "INSERT INTO texts VALUES (1, 7, 'yesterday')")
    with pytest.raises(csrr.DataError, match="'at' of texts holds text values, which a database cannot compare"):
        csrr.read_new(model, address, "texts", time="at")
    with pytest.raises(csrr.DataError, match="the model has no times"):
        csrr.read_new(csrr.PopRank().fit({"user": [1], "item": [7]}), address, "events")


def test_from_the_shell(address, tmp_path):
    write_events(address, "bigint", 1, [(user, item, START + user) for user in range(9) for item in range(user, 9)])
    file = tmp_path / "model.csrr"
    options = ["--table", "events", "--time-column", "at"]
    assert in_process("fit", address, *options, "-o", file, "--model", "pop-rank").exit_code == 0
    told = as_json("publish", file, address, "-k", 3, "--exclude", 4)
    assert (told["n_users"], told["n_fallback"], told["table"]) == (9, 0, "recommendations")
    lists = read_lists(address)
    assert len(lists) == told["n_rows"] > 10
    assert not any(item == 4 for _, item, _ in lists)
    said = in_process("update", file, address, *options)
    assert "the table events has no events after 2023-11-14T22:13:28" in said.stdout
    write_events(address, "bigint", 1, [(100, 3, START + 50)])
    assert as_json("update", file, address, *options)["added"] == {"users": 1, "items": 0, "events": 1}
    assert as_json("update", file, address, *options)["added"] == {"users": 0, "items": 0, "events": 0}
    said = in_process("publish", file, address, "-k", 3)
    assert "table recommendations: 10 users, up to 3 items each" in said.stdout
    assert json.dumps(address) not in said.stdout
