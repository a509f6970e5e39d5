"""`csrr update`: a model file and new events become a model of all of them."""

import os
import signal
import subprocess

import numpy as np
import pytest

import csrr
from csrr.cli.cmd_fit import _name_like
from tests.cli.conftest import COMMAND, as_json, in_process, on_one_core, write_log


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """A folder with the file of a model, and the old and the new events."""
    folder = tmp_path_factory.mktemp("parts")
    log = csrr.synthetic(200, 60, rank=4, events_per_user=12).log
    is_new = (np.random.default_rng(0).random(len(log)) < 0.05) | (log.user_rows >= 195)
    old, new = (csrr.Log.from_table(log.select(each).to_arrow()) for each in (~is_new, is_new))
    write_log(folder / "old.csv", old)
    write_log(folder / "new.csv", new)
    assert in_process("fit", folder / "old.csv", "-o", folder / "m.csrr").exit_code == 0
    return folder


def test_it_is_what_python_does(parts, tmp_path):
    told = as_json("update", parts / "m.csrr", parts / "new.csv", "-o", tmp_path / "m.csrr")
    expected = csrr.load(parts / "m.csrr").update(csrr.read(parts / "new.csv"))
    loaded = csrr.load(tmp_path / "m.csrr")
    np.testing.assert_array_equal(loaded.score(0), expected.score(0))
    assert told["added"]["users"] == 5
    assert told["n_events"] == expected.seen_.nnz
    assert told["chosen"]["growth"] == expected.chosen_.growth > 0
    assert told["certificate"]["gap"] <= 0.01
    assert told["bytes"] == (tmp_path / "m.csrr").stat().st_size


def test_the_model_may_be_written_over_and_again(parts, tmp_path):
    file = tmp_path / "m.csrr"
    file.write_bytes((parts / "m.csrr").read_bytes())
    result = in_process("update", file, parts / "new.csv", "-o", file)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"{file}: 200 users (5 new) x 60 items (0 new), ")
    assert lines[2].startswith("chosen when the log had ")
    assert lines[3].startswith("converged: ")
    # The same events again are the same log.
    told = as_json("update", file, parts / "new.csv", "-o", file)
    assert told["added"] == {"users": 0, "items": 0, "events": 0}


def test_choosing_anew(parts, tmp_path):
    told = as_json("update", parts / "m.csrr", parts / "new.csv", "-o", tmp_path / "m.csrr", "--choose")
    assert told["chosen"]["n_events"] == told["n_events"]
    assert told["chosen"]["growth"] == 0


@pytest.mark.parametrize("kind", ["ease", "wrmf", "bprmf", "pop-rank", "item-knn"])
def test_other_models(parts, tmp_path, kind):
    assert in_process("fit", parts / "old.csv", "-o", tmp_path / "m.csrr", "--model", kind).exit_code == 0
    result = in_process("update", tmp_path / "m.csrr", parts / "new.csv", "-o", tmp_path / "m.csrr")
    assert result.exit_code == 0, result.stderr
    assert "fitted in" in result.stdout
    assert len(csrr.load(tmp_path / "m.csrr").users_) == 200


def test_fading(parts, tmp_path):
    file = tmp_path / "m.csrr"
    result = in_process("fit", parts / "old.csv", "-o", file, "--half-life", "12h")
    assert result.exit_code == 0, result.stderr
    assert csrr.load(file).half_life == "12h"
    assert in_process("update", file, parts / "new.csv", "-o", file).exit_code == 0
    result = in_process("update", file, parts / "new.csv", "-o", file, "--time-column", "none")
    assert (result.exit_code, "by their times, and the new ones have none" in result.stderr) == (2, True)
    result = in_process("fit", parts / "old.csv", "-o", tmp_path / "n.csrr", "--half-life", "soon")
    assert result.exit_code == 2
    assert "'soon' is not a number of days, nor a time like 90d or 12h" in result.stderr


def test_ids_that_look_like_integers_are_texts_where_the_model_s_are(tmp_path):
    (tmp_path / "old.csv").write_text("user,item,title\nann,a1,A\n12,a1,A\n12,7,B\nbob,7,B\n")
    (tmp_path / "new.csv").write_text("user,item,title\n12,9,C\n13,7,B\n")
    file = tmp_path / "m.csrr"
    assert in_process("fit", tmp_path / "old.csv", "-o", file, "--model", "pop-rank").exit_code == 0
    assert as_json("update", file, tmp_path / "new.csv", "-o", file)["added"] == {"users": 1, "items": 1, "events": 2}
    model = csrr.load(file)
    assert list(model.users_) == ["12", "13", "ann", "bob"]
    assert model.titles_.tolist() == ["B", "C", "A"]


def test_events_keep_their_order_where_integers_become_texts():
    model = csrr.PopRank().fit(csrr.read({"user": ["ann", "12"], "item": ["a1", "7"]}))
    events = csrr.read({"user": [2, 2, 10, 10], "item": [9, 10, 10, 9]}, ordered=True)
    named = _name_like(events, model)
    order = named.find_order()
    users, items = named.users.ids[named.user_rows[order]], named.items.ids[named.item_rows[order]]
    assert list(zip(users, items, strict=True)) == [("10", "10"), ("10", "9"), ("2", "9"), ("2", "10")]


def test_ids_of_another_type_are_refused_and_nothing_is_written(parts, tmp_path):
    (tmp_path / "new.csv").write_text("user,item\nann,7\n")
    before = (parts / "m.csrr").read_bytes()
    result = in_process("update", parts / "m.csrr", tmp_path / "new.csv", "-o", parts / "m.csrr")
    assert result.exit_code == 2
    assert "the user ids of the new events are strings ('ann'), those known integers" in result.stderr
    assert (parts / "m.csrr").read_bytes() == before


def test_a_log_is_not_written_over(parts, tmp_path):
    (tmp_path / "log.csv").write_bytes((parts / "new.csv").read_bytes())
    result = in_process("update", parts / "m.csrr", parts / "new.csv", "-o", tmp_path / "log.csv")
    assert result.exit_code != 0
    assert (tmp_path / "log.csv").read_bytes() == (parts / "new.csv").read_bytes()


def test_a_calibration_is_dropped_and_it_says_so(parts, tmp_path):
    file = tmp_path / "m.csrr"
    assert in_process("calibrate", parts / "m.csrr", parts / "new.csv", "-o", file).exit_code == 0
    result = in_process("update", file, parts / "new.csv", "-o", file)
    assert "the calibration was of other scores and is dropped" in result.stdout
    assert csrr.load(file).calibration_ is None


def test_an_interrupt_leaves_the_model_as_it_was(parts, tmp_path):
    file = tmp_path / "m.csrr"
    file.write_bytes((parts / "m.csrr").read_bytes())
    os.mkfifo(tmp_path / "new.csv")
    command = subprocess.Popen(
        [*COMMAND, "update", str(file), str(tmp_path / "new.csv"), "-o", str(file)],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=on_one_core,
    )
    # Once it reads the events, the model is loaded and it waits for more.
    with open(tmp_path / "new.csv", "w") as pipe:
        pipe.write("user,item\n")
        pipe.flush()
        command.send_signal(signal.SIGINT)
        _, told = command.communicate(timeout=45)
    assert (command.returncode, told.splitlines()[-1]) == (130, "interrupted: nothing was written")
    assert file.read_bytes() == (parts / "m.csrr").read_bytes()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["m.csrr", "new.csv"]


@pytest.fixture(scope="module")
def tagged(parts):
    """A model of the old events that knows what items are like, and tables of theirs."""
    rows = [f"{item},kind {item % 4},{item % 7}" for item in range(60)]
    (parts / "catalog.csv").write_text("\n".join(["item,kind,price", *rows]))
    (parts / "new-items.csv").write_text("item,kind,price\n900,kind 1,2\n901,kind 3,nan\n")
    words = ["-p", "reg_low_rank=noise", "-p", "neighbors=10", "-p", "reg_neighbors=3"]
    fitted = in_process("fit", parts / "old.csv", "-o", parts / "t.csrr", "--items", parts / "catalog.csv", *words)
    assert "Features of 60 of 60: kind (4 values), price (number)" in fitted.stdout
    return parts


def test_new_items_are_added_without_a_log(tagged, tmp_path):
    file = tmp_path / "t.csrr"
    result = in_process("update", tagged / "t.csrr", "--items", tagged / "new-items.csv", "-o", file)
    assert "x 62 items (2 new)" in result.stdout
    assert "without a fit" in result.stdout
    assert as_json("update", file, "--items", tagged / "catalog.csv")["added"]["items"] == 0
    told = in_process("recommend", file, "--user", 3, "-k", 50, "--explain", "--columns", "kind").stdout
    assert "; both kind kind " in told
    events = as_json("update", file, tagged / "new.csv", "--items", tagged / "new-items.csv")["added"]["events"]
    assert events == csrr.load(file).seen_.nnz - csrr.load(tagged / "t.csrr").seen_.nnz


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("item,kind\n900,kind 1\n900,kind 2\n901,kind 1\n", None),
        ("item,kind,price\n900,kind 1,2\n900,kind 2,3\n", "the item 900 is there twice, in line 2"),
        ("item,color\n900,red\n901,red\n", "none of the columns that the model knows, 'kind', 'price'; it has 'color'"),
        ("item,kind\n900,unheard of\n", "1 of 1 items have no value that the model knows"),
        ("item,kind\n", "the item table has no rows"),
        ("", "the file is empty"),
        ("kind,price\nkind 1,2\n", "name it with --items-id="),
    ],
)
def test_tables_of_new_items_are_clear_or_refused(tagged, tmp_path, table, says):
    (tmp_path / "new.csv").write_text(table)
    result = in_process("update", tagged / "t.csrr", "--items", tmp_path / "new.csv", "-o", tmp_path / "t.csrr")
    assert (says or "") in result.stderr
    assert (result.exit_code == 0) == (tmp_path / "t.csrr").exists()
    assert "Traceback" not in result.stderr
