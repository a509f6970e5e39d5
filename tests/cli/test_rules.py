"""Item tables and rules on the command line: the same as in Python, and errors of one line."""

import pytest

import csrr
from tests.cli.conftest import as_json, in_process


@pytest.fixture(scope="module")
def items_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("items") / "items.csv"
    genres = ["Indie", "RPG", "Indie|RPG", ""]
    lines = [f"{i},T{i},{genres[i % 4]},{i}.5,{'true' if i % 2 else 'false'},{1 + i % 3}" for i in range(60)]
    path.write_text("\n".join(["item,title,genre,price,sold,margin", *lines]) + "\n")
    return path


@pytest.fixture(scope="module")
def model(model_file, items_file):
    return csrr.load(model_file).set_items(items_file)


@pytest.mark.parametrize(
    ("args", "rules"),
    [
        (["--where", "sold=true", "--where", "price<=40"], {"where": {"sold": True, "price": (None, 40)}}),
        (["--where", "price<=40", "--where", "price>=5"], {"where": {"price": (5, 40)}}),
        (["--where", "genre=RPG,Indie"], {"where": {"genre": ["RPG", "Indie"]}}),
        (["--boost", "genre:RPG=3", "--boost", "item:7=9"], {"boost": {"genre": {"RPG": 3.0}, 7: 9.0}}),
        (["--boost", "margin"], {"boost": "margin"}),
        (["--at-most", "genre=2"], {"at_most": {"genre": 2}}),
        (
            ["--at-most", "genre:RPG=1", "--at-least", "genre:Indie=4"],
            {"at_most": {"genre": {"RPG": 1}}, "at_least": {"genre": {"Indie": 4}}},
        ),
        (["--diversity", "0.7"], {"diversity": 0.7}),
        (["--diversity", "0.7", "--diversity-by", "genre"], {"diversity": 0.7, "diversity_by": "genre"}),
        (["--fresh", "9000"], {"fresh": 9000}),
        (["--fresh", "2h", "--fresh-factor", "5"], {"fresh": {"half_life": "2h", "factor": 5.0}}),
    ],
)
def test_rules_are_those_of_python(model, model_file, items_file, args, rules):
    told = as_json("recommend", model_file, "--user", 7, "--user", 3, "-k", 6, "--items", items_file, *args)
    assert told["recommendations"] == list(model.recommend([7, 3], 6, **rules).rows())


def test_columns_are_shown_and_written(model, model_file, items_file, tmp_path):
    text = in_process(
        "recommend", model_file, "--user", 7, "-k", 3, "--items", items_file, "--columns", "genre, price"
    ).stdout
    assert text.splitlines()[0].split() == ["rank", "item", "title", "score", "genre", "price"]
    told = as_json("recommend", model_file, "--history", "1,5", "--items", items_file, "--columns", "genre")
    assert {row["item"] % 4 == 3 for row in told["recommendations"] if row["genre"] is None} <= {True}
    args = [
        "recommend",
        model_file,
        "--all",
        "-k",
        3,
        "--items",
        items_file,
        "--columns",
        "genre",
        "-o",
        tmp_path / "r.csv",
    ]
    assert in_process(*args).exit_code == 0
    assert (tmp_path / "r.csv").read_text().splitlines()[0] == '"user","item","rank","score","title","genre"'


def test_a_table_given_to_fit_stays_in_the_model(log_file, items_file, tmp_path):
    out = tmp_path / "m.csrr"
    assert in_process("fit", log_file, "--model", "pop-rank", "-o", out, "--items", items_file).exit_code == 0
    told = as_json("recommend", out, "--user", 7, "-k", 3, "--where", "genre=RPG", "--columns", "genre")
    assert all("RPG" in row["genre"] for row in told["recommendations"])
    assert told["recommendations"][0]["title"].startswith("T")
    assert as_json("info", out)["item_columns"]["genre"] == "categories"
    assert "ItemTable: 60 items, titles, genre (2 categories), price (number)" in in_process("info", out).stdout


def test_what_rules_cost_is_printed(log_file, items_file):
    args = ["evaluate", log_file, "--model", "ease", "-p", "reg=10", "-k", 5, "--items", items_file]
    args += [
        "--diversity",
        "0.5",
        "--by",
        "genre",
        "--metric",
        "ndcg",
        "--metric",
        "diversity",
        "--metric",
        "long_tail",
    ]
    text = in_process(*args).stdout
    assert "EASE. What the rules change" in text
    assert "PopRank. By genre" in text
    told = as_json(*args)["models"]["EASE"]
    change = {row["metric"]: row["difference"] for row in told["rule_cost"]}
    assert change["diversity@5"] > 0
    assert {row["genre"] for row in told["by_category"]} == {"Indie", "RPG"}


def test_a_fitted_model_is_tested_by_its_own_table_and_ages(log_file, items_file, tmp_path):
    out = tmp_path / "m.csrr"
    assert (
        in_process("fit", log_file, "--model", "ease", "-p", "reg=10", "-o", out, "--items", items_file).exit_code == 0
    )
    lines = log_file.read_text().splitlines()
    users = {line.split(",")[0] for line in lines[1:]}
    more = [f"{user},{item},99999,x" for user in sorted(users) for item in range(0, 60, 7)]
    (tmp_path / "all.csv").write_text("\n".join([*lines, *more]) + "\n")
    told = as_json("evaluate", tmp_path / "all.csv", "--model", out, "-k", 5, "--fresh", "9000", "--by", "genre")
    assert {"rule_cost", "by_category"} <= told["models"]["PopRank"].keys()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--where", "price"], "write COLUMN=VALUE"),
        (["--where", "genre=RPG", "--where", "genre=Indie"], "has a condition already"),
        (["--where", "genre=Jazz"], "no item has 'genre' 'Jazz'"),
        (["--boost", "genre=2"], "write COLUMN:CATEGORY=FACTOR"),
        (["--boost", "genre:RPG=much"], "'much' is not a number"),
        (["--boost", "item:7=0"], "must be a number > 0"),
        (["--at-most", "genre"], "write COLUMN=N"),
        (["--at-most", "genre=two"], "'two' is not a number"),
        (["--at-most", "genre=1.5"], "whole number"),
        (["--at-least", "genre=2"], "needs numbers by category"),
        (["--diversity", "2"], "diversity=2.0 must be"),
        (["--fresh-by", "x"], "--fresh-by goes with --fresh"),
        (["--fresh", "soon"], "half-life 'soon'"),
        (["--columns", "nope"], "no column 'nope'"),
    ],
)
def test_errors_are_one_line(model_file, items_file, args, message):
    result = in_process("recommend", model_file, "--user", 7, "--items", items_file, *args)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def test_items_that_cannot_be_read(model_file, tmp_path):
    for args, message in (
        (["--items", tmp_path / "none.csv"], "there is no none.csv"),
        (["--items-id", "x"], "--items-id goes with --items"),
        (["--where", "a=1"], "--where asks for columns of an item table, and the model has none:"),
    ):
        result = in_process("recommend", model_file, "--user", 7, *args)
        assert result.exit_code == 2
        assert message in " ".join(result.stderr.split())
    (tmp_path / "t.csv").write_text("number,colour\n1,red\n2,blue\n")
    result = in_process("recommend", model_file, "--user", 7, "--items", tmp_path / "t.csv")
    assert "name it with --items-id=" in result.stderr
    assert (
        in_process(
            "recommend", model_file, "--user", 7, "--items", tmp_path / "t.csv", "--items-id", "number"
        ).exit_code
        == 0
    )
