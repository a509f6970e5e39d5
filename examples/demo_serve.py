"""Fit, calibrate, publish and serve on made-up data: python examples/demo_serve.py, or make demo-serve.

In a checkout with PostgreSQL's programs at hand the events and the lists are on a server of its own, else in an SQLite
file. Everything is in a temporary folder, which Ctrl-C removes.
"""

import csv
import shlex
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

import csrr

CSRR = [sys.executable, "-m", "csrr"]
COLUMNS = "user_id, item_id, time"


def make_shop(folder: Path, n_users: int = 1500, n_items: int = 400) -> tuple[csrr.Log, csrr.Log]:
    """Write items.csv, with a title and a kind for each item, and return the events of a year: early and late."""
    log = csrr.synthetic(n_users, n_items, rank=8, events_per_user=25, order=0.2, noise=0.03).log
    with (folder / "items.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["item", "title", "kind"])
        titles = [log.title(row) or "" for row in range(log.n_items)]
        for item, title in zip(log.items.ids.tolist(), titles, strict=True):
            rows.writerow([item, title.capitalize(), title.split()[0].capitalize()])
    train, heldout = csrr.split(log, ratio=0.85)
    return train, heldout


def list_rows(log: csrr.Log) -> list[tuple[int, int, float]]:
    """Return events as rows for a table."""
    assert log.times is not None
    columns = (log.users.ids[log.user_rows].tolist(), log.items.ids[log.item_rows].tolist(), log.times.tolist())
    return list(zip(*columns, strict=True))


def fill(address: str, tables: dict[str, csrr.Log]) -> None:
    """Write logs into tables of a database."""
    if address.startswith("postgresql"):
        import psycopg

        with psycopg.connect(address) as connection, connection.cursor() as cursor:
            for name, log in tables.items():
                cursor.execute(f"CREATE TABLE {name} (user_id bigint, item_id bigint, time double precision)")
                with cursor.copy(f"COPY {name} ({COLUMNS}) FROM STDIN") as copy:
                    for row in list_rows(log):
                        copy.write_row(row)
        return
    with closing(sqlite3.connect(address)) as database, database:
        for name, log in tables.items():
            database.execute(f"CREATE TABLE {name} ({COLUMNS})")
            database.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", list_rows(log))  # noqa: S608


def run(*words: str) -> None:
    """Show a command of csrr, and run it."""
    print(f"\n$ csrr {shlex.join(words)}", flush=True)
    subprocess.run([*CSRR, *words], check=True)  # noqa: S603


def open_database(stack: ExitStack, folder: Path) -> str:
    """Return the address of a new server, or the path of a file."""
    try:
        sys.path.insert(0, str(Path(__file__).parents[1]))
        from tests.postgresql import NotInstalled, start_server
    except ImportError:
        return str(folder / "shop.db")
    try:
        return str(stack.enter_context(start_server()))
    except NotInstalled as error:
        print(f"SQLite, because {error}")
        return str(folder / "shop.db")


def main(*options: str) -> None:
    """All of it; `options` are those of csrr serve."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="csrr-demo-")))
        database, model = open_database(stack, folder), str(folder / "model.csrr")
        early, late = make_shop(folder)
        fill(database, {"clicks": early, "later": late})
        given = ("--miss-cost", "20", "--false-alarm-cost", "1", "--items", str(folder / "items.csv"))
        run("fit", database, "--table", "clicks", "-o", model, *given)
        run("calibrate", model, database, "--table", "later", "-o", model)
        run("publish", model, database, "-k", "10", "--titles")
        print("\nThe page: http://localhost:8000/ui", flush=True)
        try:
            run("serve", model, "--workers", "1", "--events", database, *options)
        except KeyboardInterrupt:
            print("\nended")


if __name__ == "__main__":
    main(*sys.argv[1:])
