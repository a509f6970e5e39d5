"""Views and purchases from the shell: the same numbers as in Python, and errors in the words of options."""

import csv

import pytest

import csrr
from tests.cli.conftest import as_json, in_process
from tests.models.test_target import WEIGHTS, make_table

TYPES = ("--event", "type", "--weight", "view=1", "--weight", "buy=5", "--target", "buy")


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    path, table = tmp_path_factory.mktemp("shop") / "shop.csv", make_table(150, 40)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(table)
        rows.writerows(zip(*table.values(), strict=True))
    return path


@pytest.fixture(scope="module")
def log(shop):
    return csrr.read(shop, event="type", weights=WEIGHTS, target="buy")


def test_evaluate(shop, log):
    told = as_json("evaluate", shop, "--model", "pop-rank", "--last", 1, "-k", 5, *TYPES)
    train, test = csrr.split(log, last=1)
    assert told["n_test"] == len(test)
    found = csrr.evaluate(csrr.PopRank().fit(train), train, test, at=5)
    assert told["models"]["PopRank"] == found.summary()


def test_fit_update_and_evaluate(shop, log, tmp_path):
    # Most users have letters, which makes texts of all ids; those of the new events look like integers.
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    old.write_text("user,item,type,time\na,x,view,1\na,y,buy,2\n10,x,view,3\n10,y,view,4\n9,x,buy,5\n")
    new.write_text("user,item,type,time\n10,x,buy,6\n9,y,view,7\n")
    model = tmp_path / "m.csrr"
    result = in_process("fit", old, "-o", model, "--model", "pop-rank", *TYPES)
    assert result.told == [
        "csrr: old.csv: user 'user', item 'item', event 'type', time 'time'; event types: view 3, buy 2;"
        " the target is buy"
    ]
    assert in_process("update", model, new, "-o", model, *TYPES).exit_code == 0
    found = csrr.load(model).training_log().to_frame()[["user", "item", "types"]].to_numpy().tolist()
    assert found == [
        ["10", "x", "view|buy"],
        ["10", "y", "view"],
        ["9", "x", "buy"],
        ["9", "y", "view"],
        ["a", "x", "view"],
        ["a", "y", "buy"],
    ]
    assert "event types: view 4, buy 3; the target is buy\n" in in_process("info", model).stdout
    fresh = tmp_path / "fresh.csv"
    fresh.write_text("user,item,type,time\n10,y,buy,8\na,x,buy,9\nb,x,buy,9\n9,y,view,9\n")
    told = as_json("evaluate", fresh, "--model", model, "-k", 1, *TYPES)
    assert (told["n_test"], told["models"]["PopRank"]["means"]["recall@1"]) == (2, 1.0)


def test_start(shop, tmp_path):
    result = in_process("start", shop, "-o", tmp_path / "look", "--minutes", 0.2, *TYPES)
    assert result.exit_code == 0, result.stderr
    assert "--event type --weight view=1 --weight buy=5 --target buy" in result.stdout.replace("\\\n", "").replace(
        "  ", " "
    )
    model = csrr.load(tmp_path / "look" / "model.csrr")
    log = csrr.read(shop, event="type", weights=WEIGHTS, target="buy")
    assert model.seen_.nnz == len(log)
    assert model.seen_of_target.nnz == len(log.of_target())


def test_tune_and_clean(shop, tmp_path):
    pytest.importorskip("optuna")
    result = in_process("tune", shop, "--model", "item-knn", "--trials", 1, *TYPES)
    assert "--event type --weight view=1 --weight buy=5 --target buy" in " ".join(
        result.stdout.replace("\\", "").split()
    )
    out = tmp_path / "clean.csv"
    assert in_process("clean", shop, "-o", out, *TYPES).exit_code == 0
    assert "view|buy" in out.read_text()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ("--event", "type"),
            "--event='type' needs a weight for each type, such as --weight view=1 --weight cart=3 --w",
        ),
        (("--target", "buy"), "--target='buy' needs the event types: --event="),
        (("--event", "type", "--weight", "view"), "--weight view: write TYPE=NUMBER, such as view=1"),
        (("--event", "type", "--weight", "a=b=1", "--weight", "a=b=2"), "--weight a=b=2: a=b is given twice"),
        (("--event", "type", "--weight", "view=-1"), "--weight view=-1.0 must be a number >= 0"),
        (("--event", "type", "--weight", "view=1"), "has event types without a weight: 'buy' ("),
    ],
)
def test_errors(shop, tmp_path, args, message):
    result = in_process("fit", shop, "-o", tmp_path / "m.csrr", "--model", "pop-rank", *args)
    assert result.exit_code == 2
    assert message in result.stderr
