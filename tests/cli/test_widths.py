"""A terminal of 80 columns: what commands print fits it, and files and programs get all of it."""

import csv
import fcntl
import json
import os
import pty
import shlex
import struct
import subprocess
import termios
from pathlib import Path

import pytest

import csrr
from tests.cli.conftest import COMMAND, as_json, find_wide, in_process, in_terminal, on_one_core

USER = "0b5c2e5e-7b1f-4e0e-9a55-{:012d}"
ITEM = "https://shop.example/products/{:05d}-with-a-name-that-is-long-enough-for-two"
TITLE = "A chair with a title that goes on and on until no one reads it, number {}"


@pytest.fixture(scope="module")
def long(log, tmp_path_factory):
    """A folder with a log whose ids and titles are long, and a model of it."""
    folder = tmp_path_factory.mktemp("long")
    rows = zip(log.user_rows.tolist(), log.item_rows.tolist(), strict=True)
    table = [[USER.format(user), ITEM.format(item), TITLE.format(item)] for user, item in rows]
    with (folder / "log.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["user", "item", "title"], *table])
    csrr.CSRR(threads=1).fit(csrr.read(folder / "log.csv")).save(folder / "model.csrr")
    return folder


def list_commands(folder, results):
    """Return command lines whose output is as wide as can be."""
    log, model = folder / "log.csv", folder / "model.csrr"
    users = [word for user in (3, 4) for word in ("--user", USER.format(user))]
    kinds = [word for kind in ("csrr", "ease", "item-knn", "wrmf", "pop-rank") for word in ("--model", kind)]
    return {
        "start": ("start", log, "-o", results, "--minutes", 1),
        "fit": ("fit", log, "-o", results / "m.csrr"),
        "recommend": ("recommend", model, *users, "--explain"),
        "similar": ("similar", model, "--item", ITEM.format(3)),
        "info": ("info", model),
        "update": ("update", model, log, "-o", results / "m.csrr"),
        "export": ("export", model, "-o", results / "vectors", "--dims", 8),
        "evaluate": ("evaluate", log, *kinds),
        "tune": ("tune", log, "--trials", 2),
        "costs": ("costs", log, "--miss", 5, "--false-alarm", 1, "--ratio", 1, "--ratio", 2),
        "suspects": ("suspects", model, "--stability"),
        "clean": ("clean", log, "--dry-run"),
        "robustness": ("robustness", log, "--kind", "push", "--share", 0.3, "--system", "CSRR", "--seeds", 1),
    }


@pytest.mark.parametrize("name", list_commands(Path(), Path()))
def test_what_is_printed_fits_the_terminal(name, long, tmp_path):
    result = in_terminal(*list_commands(long, tmp_path)[name])
    assert result.exit_code == 0, result.stderr
    assert result.stdout
    assert [line for line in find_wide(result) if str(tmp_path) not in line and str(long) not in line] == []


def test_a_narrow_terminal_is_served_too(long, tmp_path):
    result = in_terminal(*list_commands(long, tmp_path)["recommend"], width=60)
    assert find_wide(result, 60) == []


def test_ids_and_titles_are_cut_in_a_terminal_only(long, tmp_path):
    asked = ("recommend", long / "model.csrr", "--user", USER.format(3), "-k", 5)
    rows = as_json(*asked)["recommendations"]
    texts = [row[name] for row in rows for name in ("item", "title")]
    assert all(text in {*map(ITEM.format, range(60)), *map(TITLE.format, range(60))} for text in texts)
    assert in_process(*asked, "-o", tmp_path / "lists.csv").exit_code == 0
    with (tmp_path / "lists.csv").open(newline="") as file:
        assert [row[name] for row in csv.DictReader(file) for name in ("item", "title")] == texts
    piped, shown = in_process(*asked).stdout, in_terminal(*asked).stdout
    assert all(text in piped for text in texts)
    assert not any(text in shown for text in texts)
    assert shown.count("...") == len(texts)
    assert "..." not in piped


def test_messages_are_one_line_for_a_program_and_broken_between_words_in_a_terminal(long):
    asked = ("recommend", long / "model.csrr", "--user", "nobody")
    piped, shown = in_process(*asked).stderr, in_terminal(*asked).stderr
    assert piped.count("\n") == 1
    assert shown.count("\n") > 2
    assert shown.split() == piped.split()


def test_a_command_to_copy_stays_a_command(long):
    said = in_terminal("tune", long / "log.csv", "--trials", 2, "--user-column", "user").stdout
    command = said.partition("to fit the best:\n")[2]
    assert command.count("\\\n") >= 1
    words = shlex.split(command.replace("\\\n", " "))
    assert words[:3] == ["csrr", "fit", str(long / "log.csv")]
    assert words[-2:] == ["--user-column", "user"]
    assert "\\" not in in_process("tune", long / "log.csv", "--trials", 2, "--user-column", "user").stdout


def test_a_real_terminal_gets_lines_of_its_width(long):
    side, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 72, 0, 0))
    here = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    asked = ("recommend", str(long / "model.csrr"), "--user", USER.format(3), "--explain")
    with subprocess.Popen(
        [*COMMAND, *asked], stdin=subprocess.DEVNULL, stdout=other, stderr=other, env=here, preexec_fn=on_one_core
    ) as command:
        os.close(other)
        shown = b""
        while part := read_some(side):
            shown += part
        assert command.wait(45) == 0
    os.close(side)
    widths = [len(line) for line in shown.decode().replace("\r\n", "\n").split("\n")]
    assert max(widths) == 72


def read_some(side):
    try:
        return os.read(side, 4096)
    except OSError:  # the other side is closed
        return b""


def test_json_is_one_line(long):
    assert json.loads(in_terminal("info", long / "model.csrr", "--json").stdout)["kind"] == "CSRR"
