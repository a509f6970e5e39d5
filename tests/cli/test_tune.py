import json
import os
import shlex
import signal
import subprocess
import time

import pytest

import csrr
from tests.cli.conftest import COMMAND, TOLD_OF_LOG, as_json, in_process, on_one_core

SPACE = {"neighbors": [2, 5, 20], "shrink": [0.0, 10.0]}


@pytest.fixture(scope="module")
def space_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("space") / "space.json"
    path.write_text(json.dumps(SPACE))
    return path


def without_times(summary):
    return summary | {"trials": [each | {"seconds": 0} for each in summary["trials"]]}


@pytest.mark.parametrize(
    ("args", "split"),
    [
        ((), {"ratio": 0.9}),
        (("--ratio", 0.7, "--seed", 3), {"ratio": 0.7, "seed": 3}),
        (("--last", 2), {"last": 2}),
        (("--split", "last"), {"by": "last"}),
        (("--split", "time", "--ratio", 0.8), {"by": "time", "ratio": 0.8}),
    ],
)
def test_the_numbers_are_those_of_python(log_file, space_file, args, split):
    told = as_json("tune", log_file, "--model", "item-knn", "--space", space_file, *args)
    events = csrr.read(log_file)
    if "last" in split:
        train, valid = csrr.split(events, **split)
        found = csrr.tune("item-knn", train, valid=valid, space=SPACE)
    else:
        found = csrr.tune("item-knn", events, space=SPACE, **split)
    assert told.pop("fitted") is None
    assert without_times(told) == without_times(found.summary())


def test_the_table_the_files_and_the_command(log_file, tmp_path):
    output, model = tmp_path / "best.json", tmp_path / "m.csrr"
    common = ("tune", log_file, "--model", "ease", "--trials", 4, "--user-column", "user")
    result = in_process(*common, "-o", output)
    assert result.exit_code == 0, result.stderr
    best = json.loads(output.read_text())
    lines = result.stdout.splitlines()
    assert lines[1].split() == ["trial", "ndcg@10", "reg"]
    assert lines[2].split()[1] == f"{best['best_value']:.4f}"
    command = shlex.split(lines[-1])
    assert command[:4] == ["csrr", "fit", str(log_file), "-o"]
    command[command.index("model.csrr")] = str(model)
    assert in_process(*command[1:]).exit_code == 0
    assert csrr.load(model).get_params() == csrr.EASE(**best["best_params"]).get_params()
    assert in_process(*common, "--fit", tmp_path / "other.csrr").exit_code == 0
    assert (tmp_path / "other.csrr").read_bytes() == model.read_bytes()


def test_what_is_fixed_is_not_tuned(log_file):
    args = ("--trials", 2, "-p", "user-scaling=0", "-p", "positive_cost=0.6", "-p", "l1=3", "-p", "max_rank=9")
    told = as_json("tune", log_file, "--model", "csrr", *args)
    assert told["trials"][1]["params"].keys() == {"item_scaling", "reg_sparse", "neighbors", "reg_neighbors"}
    fixed = {"user_scaling": 0, "positive_cost": 0.6, "l1": 3, "max_rank": 9}
    assert told["best_params"].items() >= fixed.items()


@pytest.mark.parametrize(("fixed", "left_out"), [("reg_low_rank=0.3", "l1"), ("reg-sparse=0.7", "l2")])
def test_what_is_fixed_in_another_way_is_not_tuned(log_file, fixed, left_out):
    told = as_json("tune", log_file, "--space", "paper", "--trials", 2, "-p", fixed, "-p", "max_rank=9")
    tried = told["trials"][1]["params"].keys()
    assert tried == {"positive_cost", "l1", "l2", "user_scaling", "item_scaling", "neighbors"} - {left_out}
    name, value = fixed.replace("-", "_").split("=")
    assert told["best_params"][name] == float(value)


def test_the_paper_s_grid(log_file):
    told = as_json("tune", log_file, "--model", "wrmf", "--space", "paper", "--trials", 3)
    assert all(each["params"]["confidence"] == 1 for each in told["trials"][1:])


def test_there_may_be_nothing_to_tune(log_file):
    assert in_process("tune", log_file, "--model", "pop-rank").stdout.startswith("PopRank has nothing to tune\n")


def test_a_search_goes_on(log_file, space_file, tmp_path):
    args = ("tune", log_file, "--model", "item-knn", "--space", space_file, "--storage", tmp_path / "search")
    first = as_json(*args, "--trials", 3)
    assert as_json(*args)["trials"][:3] == first["trials"]


def test_ctrl_c_says_what_was_kept(log_file, tmp_path):
    storage = tmp_path / "search"
    args = ("tune", log_file, "--model", "bprmf", "--trials", 500, "--storage", storage)
    child = subprocess.Popen(
        [*COMMAND, *map(str, args)],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=on_one_core,
        stdout=subprocess.DEVNULL,
    )
    until = time.monotonic() + 30
    while not (storage.exists() and storage.read_text().count('"seconds"') >= 2) and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(child.pid, signal.SIGINT)
    _, said = child.communicate(timeout=30)
    assert child.returncode == 130
    assert said.startswith(f"{TOLD_OF_LOG}\ninterrupted: ")
    assert "best ndcg@10 0." in said
    assert f"kept in {storage}: the same command goes on" in said
    assert len(said.splitlines()) == 2


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--model", "no"), "--model no: there is no such model; there are csrr"),
        (("--space", "no"), "--space no: there is no such file, nor such a space"),
        (("--model", "ease", "--space", "paper"), "space='paper' has nothing for EASE"),
        (("--metric", "ndgc@10"), "error: --metric='ndgc@10' must be like ndcg@10"),
        (("--metric", "ndcg@99"), "error: --metric='ndcg@99': 99 is more than the "),
        (("-p", "tol"), "-p tol: write NAME=VALUE"),
        (("--ratio", 0.5, "--last", 2), "--ratio and --last do not go together"),
        (("--last", 2, "--folds", 2), "--last and --folds do not go together"),
        (("--ratio", 1.5), "--ratio=1.5 must be a number > 0 and < 1"),
        (("-p", "rang=3"), "-p rang=3: CSRR has no such parameter"),
        (("-o", "/no/such/folder/x"), "there is no such folder"),
        (("--trials", 0), "0 is not in the range x>=1"),
    ],
)
def test_what_cannot_be_asked(log_file, args, message):
    result = in_process("tune", log_file, *args)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("text", ["{", "[1]", '{"tol": {"low": 1}}', '{"rang": [1]}'])
def test_bad_spaces(log_file, tmp_path, text):
    path = tmp_path / "space.json"
    path.write_text(text)
    result = in_process("tune", log_file, "--space", path)
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)


def test_a_storage_that_is_something_else_is_left_alone(log_file):
    before = log_file.read_bytes()
    result = in_process("tune", log_file, "--model", "ease", "--storage", log_file)
    assert (result.exit_code, "not the record of a search" in result.stderr) == (2, True)
    assert log_file.read_bytes() == before
