"""Every command that reads a log says on stderr what its columns were taken for."""

import json
import sqlite3
from contextlib import closing

import pytest

import csrr
from tests.cli.conftest import in_process

ROWS = [(user, item, 1 + (user + item) % 5, 0.5 * item) for user in range(30) for item in range(user % 7, 12)]
HEAD = "user_id,Game_ID,rate,Hours"
LINE = (
    "csrr: games.csv: user 'user_id', item 'Game_ID', rating 'rate'; every rating counts as a choice, low ones too"
    " (--min-rating=4 keeps those of 4 and more); not used: 'Hours' (--weight-column='Hours' uses it as the weight)"
)


def write_games(path, *, before=()):
    lines = [HEAD, *before, *(",".join(map(str, row)) for row in ROWS)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def games(tmp_path):
    return write_games(tmp_path / "games.csv")


@pytest.mark.parametrize("json_option", [(), ("--json",)])
def test_the_line(games, tmp_path, json_option):
    for args in (
        ("fit", games, "-o", tmp_path / "m.csrr", "--model", "pop-rank"),
        ("evaluate", games, "--model", "pop-rank"),
        ("clean", games, "-o", tmp_path / "clean.csv"),
        ("calibrate", tmp_path / "m.csrr", games, "-o", tmp_path / "c.csrr"),
    ):
        result = in_process(*args, *json_option)
        assert result.told == [LINE], result.result.stderr
    result = in_process("evaluate", games, "--model", "pop-rank", "--min-rating", 3, "--weight-column", "Hours")
    assert result.told == [
        "csrr: games.csv: user 'user_id', item 'Game_ID', rating 'rate', weight 'Hours'; ratings from 3 on count"
    ]


def test_what_was_mended_is_told_once(tmp_path):
    path = write_games(tmp_path / "games.csv", before=[HEAD, "NULL,1,2,3", " 3,1,1,1", HEAD])
    result = in_process("fit", path, "-o", tmp_path / "m.csrr", "--model", "pop-rank", "--on-bad-rows", "skip")
    assert result.exit_code == 0, result.stderr
    assert result.stderr.splitlines() == [
        f"csrr: games.csv: skipped 2 lines that repeat the header, the first of them line 2 ('{HEAD}')",
        f"csrr: games.csv: skipped 1 of {len(ROWS) + 2} rows that are bad; the first is line 3 ('NULL,1,2,3')",
        "csrr: games.csv: column 'user_id': 1 of the ids differ from another by blanks around them only, such as ' 3';"
        " they are one id, without the blanks",
    ]


def test_missing_ids_that_are_real(tmp_path):
    path = write_games(tmp_path / "games.csv", before=["NA,1,2,3", "-,1,2,3"])
    args = ("fit", path, "-o", tmp_path / "m.csrr", "--model", "pop-rank")
    assert "line 2 ('NA,1,2,3'): 'NA' means that the id is missing" in in_process(*args).stderr
    assert "line 3 ('-,1,2,3'): '-' means that" in in_process(*args, "--missing", "-").stderr
    assert in_process(*args, "--missing", "").exit_code == 0
    assert "NA" in csrr.load(tmp_path / "m.csrr").users_


@pytest.fixture
def shop(tmp_path):
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE games (user_id, Game_ID, rate, Hours)")
        connection.executemany("INSERT INTO games VALUES (?, ?, ?, ?)", ROWS)
    return path


@pytest.mark.parametrize("address", ["sqlite:///{}", "{}"])
def test_a_query_is_a_log(shop, games, address):
    args = ("--model", "pop-rank", "--json", "--min-rating", 3)
    source = address.format(shop)
    told = in_process("evaluate", source, "--sql", "SELECT * FROM games", *args)
    assert told.told == [
        "csrr: shop.db: user 'user_id', item 'Game_ID', rating 'rate'; ratings from 3 on count; not used: 'Hours'"
        " (--weight-column='Hours' uses it as the weight)"
    ]
    by_file = json.loads(in_process("evaluate", games, *args).stdout)
    by_query = json.loads(told.stdout)
    names = [name for name, value in by_file.items() if isinstance(value, float)]
    assert {name: by_query[name] for name in names} == {name: by_file[name] for name in names}
    assert by_query.keys() == by_file.keys()


def test_bad_queries_are_one_line(shop):
    for source, words in (
        (shop, "no such table: nowhere"),
        ("sqlite:///none.db", "cannot read none.db: No such file"),
    ):
        result = in_process("evaluate", source, "--sql", "SELECT * FROM nowhere")
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
        assert words in result.stderr


def test_no_password_is_shown():
    from csrr.cli.options import name_source

    assert name_source("postgresql://me:secret@host:5432/shop?sslmode=off") == "shop"
    assert name_source("postgresql://me:secret@host") == "host"
    assert name_source("logs/a.csv") == "a.csv"
    assert name_source("/data/ml-1m/") == "ml-1m"
