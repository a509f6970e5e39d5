import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import csrr
from csrr._base.text import measure_width
from csrr.cli import app

PROGRAM = "from csrr.cli import main; main()"
COMMAND = [sys.executable, "-c", PROGRAM]


def on_one_core():
    """Before a child starts: one core, where that can be said, and signals as in a terminal."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_DFL)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


TOLD = re.compile(r"^(csrr: [^\n]*: user '[^\n]*, item '[^\n]*)\n", re.MULTILINE)
"""The line on stderr that says what the columns of a log were taken for; test_told_columns.py is about it."""


TOLD_OF_LOG = "csrr: log.csv: user 'user', item 'item', time 'timestamp', title 'title'"
"""What is told of the logs that `write_log` writes."""


class Ran:
    """What a run of csrr gave: `told` is the lines about columns, and `stderr` all the others."""

    def __init__(self, result):
        self.result = result
        self.told = TOLD.findall(result.stderr)
        self.stderr = TOLD.sub("", result.stderr)

    def __getattr__(self, name):
        return getattr(self.result, name)


def in_process(*args):
    """Run csrr here; return click's result, with `stdout`, `stderr` and `exit_code`."""
    return Ran(CliRunner().invoke(app, [str(arg) for arg in args]))


def in_terminal(*args, width=80):
    """Run csrr here as in a terminal of that width."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("csrr.cli.output", "csrr.cli.commands"):
            patch.setattr(f"{module}.find_width", lambda *, err=False: width)
        return in_process(*args)


def find_wide(result, width=80):
    """Return the lines of a result that a terminal of that width would break."""
    return [line for line in (result.stdout + result.result.stderr).split("\n") if measure_width(line) > width]


def as_json(*args):
    """Run csrr with --json; return the object it printed."""
    result = in_process(*args, "--json")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    return json.loads(result.stdout)


def in_child(*args, before="", **kwargs):
    """Run csrr, after the statements `before`, as a process of its own; return what subprocess.run does."""
    return Ran(
        subprocess.run(
            [sys.executable, "-c", before + PROGRAM, *map(str, args)],
            capture_output=True,
            text=True,
            preexec_fn=on_one_core,
            timeout=60,
            **kwargs,
        )
    )


def write_log(path, log):
    """Write a log as CSV with titles and times: the later an item's row, the later its event."""
    times = 1000 * log.item_rows + np.arange(len(log))
    rows = zip(log.users.ids[log.user_rows], log.items.ids[log.item_rows], times, strict=True)
    lines = [f"{user},{item},{time},{log.title(log.items.row(item))}" for user, item, time in rows]
    path.write_text("\n".join(["user,item,timestamp,title", *lines]) + "\n")
    return path


@pytest.fixture(scope="session")
def log():
    return csrr.synthetic(80, 60, rank=4, events_per_user=10).log


@pytest.fixture(scope="session")
def log_file(log, tmp_path_factory) -> Path:
    return write_log(tmp_path_factory.mktemp("log") / "log.csv", log)


@pytest.fixture(scope="session")
def model_file(log_file, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.csrr"
    assert in_process("fit", log_file, "-o", path, "--threads", 1).exit_code == 0
    return path


@pytest.fixture(scope="session")
def model(model_file):
    return csrr.load(model_file)


@pytest.fixture(scope="session")
def shop(log, tmp_path_factory) -> Path:
    """The folder that the examples in the help are about: logs, an item table and models; titles are long."""
    folder = tmp_path_factory.mktemp("shop")
    train, test = csrr.split(log, ratio=0.8, seed=0)
    for name, part in (("clicks", train), ("heldout", test), ("new", test)):
        write_log(folder / f"{name}.csv", part)
    with closing(sqlite3.connect(folder / "shop.db")) as database, database:
        database.execute("CREATE TABLE events (user_id, item_id, time)")
        rows = zip(test.users.ids[test.user_rows].tolist(), test.items.ids[test.item_rows].tolist(), strict=True)
        database.executemany("INSERT INTO events VALUES (?, ?, 1000000)", rows)
    pairs = zip(train.users.ids[train.user_rows].tolist(), train.items.ids[train.item_rows].tolist(), strict=True)
    rows = [(user, item, 1 + (user + item) % 5) for user, item in pairs]
    _write_rows(folder / "orders.csv", "customer,sku", [row[:2] for row in rows])
    _write_rows(folder / "ratings.csv", "user,item,rating", rows)
    facts = [
        (
            item,
            f"{LONG_TITLES[item % 2]} {item}",
            ("chairs", "lamps")[item % 2],
            5 + item,
            "true" if item % 3 else "false",
        )
        for item in train.items.ids.tolist()
    ]
    header = "item,title,category,price,in_stock"
    _write_rows(folder / "items.csv", header, facts)
    _write_rows(folder / "new-items.csv", header, [(10**6 + item, *rest) for item, *rest in facts[:5]])
    (folder / "first-look").mkdir()
    model = csrr.CSRR(threads=1).fit(csrr.read(folder / "clicks.csv"))
    told = csrr.CSRR(reg_low_rank="noise", neighbors=0, threads=1)
    told.fit(csrr.read(folder / "clicks.csv"), items=folder / "items.csv").save(folder / "tagged.csrr")
    model.set_items(csrr.read_items(folder / "items.csv"))
    for name in ("model.csrr", "first-look/model.csrr"):
        model.save(folder / name)
    return folder


LONG_TITLES = ("A chair with a title that goes on and on until no terminal can hold it", "とても長い名前のランプ" * 3)


def _write_rows(path, header, rows):
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
