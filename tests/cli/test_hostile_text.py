"""What data holds reaches terminals, spreadsheets and error messages."""

import json
import os

import pytest
from pyarrow import csv

import csrr
from tests.cli.conftest import as_json, in_child, in_process

TITLES = ["\x1b[2J\x1b]0;gone\x07", "\u202egpj.exe", "=cmd|'/c calc'!A0", "line\nbreak", "x" * 200_000, "-plain"]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A log whose ids and titles are out to harm, as JSON lines, and a model of it."""
    folder = tmp_path_factory.mktemp("hostile")
    rows = [
        {"user": f"\x1b[3{u}m\n{u}", "item": f"@{i}\u202e", "title": TITLES[i], "timestamp": i}
        for u in range(8)
        for i in range(len(TITLES))
        if (u + i) % 3
    ]
    (folder / "log.jsonl").write_text("\n".join(map(json.dumps, rows)))
    model = folder / "model.csrr"
    assert in_process("fit", folder / "log.jsonl", "-o", model, "--reg-low-rank", 0.5, "--neighbors", 0).exit_code == 0
    return folder / "log.jsonl", model


def is_tame(text):
    return all(line.isprintable() for line in text.split("\n"))


def test_a_terminal_gets_nothing_that_it_obeys(hostile, tmp_path):
    log, model = hostile
    user = csrr.load(model).users_.ids[0]
    for args in (
        ("recommend", model, "--user", user),
        ("recommend", model, "--user", user, "--include-seen", "--explain"),
        ("recommend", model, "--user", user, "--min-score", 99),
        ("similar", model, "--item", "@1\u202e"),
        ("suspects", model),
        ("suspects", model, "--by", "user"),
        ("clean", log, "-o", tmp_path / "out.csv"),
    ):
        result = in_process(*args)
        assert result.exit_code == 0, result.stderr
        assert is_tame(result.stdout), args
        assert max(map(len, result.stdout.split("\n"))) < 500
    for args in (
        ("recommend", model, "--user", "\x1b[2J"),
        ("fit", tmp_path / "\x1b[2J.csv", "-o", tmp_path / "m"),
        ("fit", log, "-o", tmp_path / "m", "--user-column", "\x1b[2J"),
        ("fit", log, "-o", tmp_path / "m", "--format", "\u202e"),
    ):
        result = in_process(*args)
        assert result.exit_code == 2
        assert is_tame(result.stderr)
        assert result.stderr.count("\n") == 1


def test_json_has_the_ids_as_they_are(hostile):
    _, model = hostile
    user = csrr.load(model).users_.ids[0]
    told = as_json("recommend", model, "--user", user, "--include-seen", "-k", 6)["recommendations"]
    assert {row["title"] for row in told} == set(TITLES)
    assert {row["user"] for row in told} == {user}


def test_csv_comes_back_as_it_was_unless_it_is_for_a_spreadsheet(hostile, tmp_path):
    log, model = hostile
    out = tmp_path / "out.csv"
    assert in_process("clean", log, "-o", out, "--above", 1).exit_code == 0
    assert csrr.read(out) == csrr.read(log)
    for args in (
        ("clean", log, "-o", out, "--above", 1, "--spreadsheet"),
        ("recommend", model, "--all", "--include-seen", "-k", 6, "-o", out, "--spreadsheet"),
        ("suspects", model, "-o", out, "--spreadsheet"),
    ):
        assert in_process(*args).exit_code == 0
        table = csv.read_csv(out, parse_options=csv.ParseOptions(newlines_in_values=True))
        texts = [text for name in ("user", "item", "title") for text in table[name].to_pylist()]
        assert not [text for text in texts if text[0] in "=+-@\t\r\n"]
        assert {"'=cmd|'/c calc'!A0", "'-plain", "line\nbreak"} <= set(texts)
        assert min(value for value in table.columns[-1].to_pylist()) is not None


@pytest.mark.parametrize(
    ("name", "content", "options", "words"),
    [
        ("log.csv", b"\xff\xfeu", (), "save it as UTF-8"),
        ("log.csv", b"user,item\r1,2\r", ("--separator", "\u00a7"), "no column looks like the user"),
        ("log.csv", b"user,item\n1,2\n", ("--separator", "\n"), "--separator='\\n' cannot separate fields"),
        ("log.jsonl", b"[" * 100_000, (), "nested too deeply"),
        ("log.jsonl", b'{"user": ' + b"9" * 5000 + b"}", (), "too many digits"),
        ("log.csv", b"user,item,rating\n" + b"1" * 200_000 + b",2,x\n", (), "'x' is not a number"),
    ],
)
def test_bad_files_are_one_line(tmp_path, name, content, options, words):
    (tmp_path / name).write_bytes(content)
    result = in_process("fit", tmp_path / name, "-o", tmp_path / "m", *options)
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stderr.count("\n") == 1
    assert len(result.stderr) < 1000


def test_no_such_user_and_no_user_lists_are_one_line(tmp_path):
    (tmp_path / "folder").mkdir()
    for args in (("~nosuchuser/x.csv",), (tmp_path / "folder", "--format", "user-lists")):
        result = in_process("fit", *args, "-o", tmp_path / "m")
        assert result.exit_code == 2
        assert result.stderr.count("\n") == 1


def test_the_limit_is_raised_by_the_same_variable(tmp_path):
    (tmp_path / "log.csv").write_text("user,item\n" + "".join(f"{i % 50},{i % 70}\n" for i in range(1000)))
    args = ("fit", tmp_path / "log.csv", "-o", tmp_path / "m", "--model", "pop-rank")
    result = in_child(*args, env=os.environ | {"CSRR_MAX_BYTES": "1000"})
    assert result.returncode == 2
    assert "log.csv holds more than 1.0 kB, the limit that CSRR_MAX_BYTES sets" in result.stderr
    assert result.stderr.count("\n") == 1
    assert in_child(*args, env=os.environ | {"CSRR_MAX_BYTES": "1e5"}).returncode == 0
