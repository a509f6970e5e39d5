import json
from functools import partial

import click
import pytest

import csrr
from csrr._base.text import show_argument, show_in_python, spell_arguments
from csrr.cli import app
from csrr.cli.commands import COMMANDS
from csrr.cli.options import LOG_NAMES, MODEL_NAMES
from csrr.cli.output import Interrupted, show_option, stoppable
from tests.cli.conftest import in_child, in_process


@pytest.fixture
def bad(tmp_path, model_file, log_file):
    """Return arguments that cannot work, by name, and what is said about them."""
    (tmp_path / "columns.csv").write_text("a,b\nx,y\n")
    (tmp_path / "broken.csrr").write_bytes(model_file.read_bytes()[:-100])
    (tmp_path / "empty.csv").touch()
    (tmp_path / "look" / "nothing").mkdir(parents=True)
    (tmp_path / "look" / "model.csrr").write_bytes(model_file.read_bytes())
    fit = ("fit", log_file, "-o", tmp_path / "m.csrr")
    return {
        "no log": (("fit", tmp_path / "none.csv", "-o", tmp_path / "m"), "there is no none.csv"),
        "data": (("fit", tmp_path / "columns.csv", "-o", tmp_path / "m"), "name it with --user-column='...'"),
        "parameter": ((*fit, "--cost-ratio=-1"), "--cost-ratio=-1.0 must be"),
        "costs twice": ((*fit, "--cost-ratio=2", "--positive-cost=.5"), "give the cost once"),
        "unknown id": (("similar", model_file, "--item", "zzz"), "unknown item id: 'zzz'"),
        "no model": (("info", tmp_path / "none.csrr"), f"csrr fit LOG -o {tmp_path / 'none.csrr'} makes one"),
        "a folder for a model": (
            ("info", tmp_path),
            "is a folder, not a model file; give the path of a file that csrr fit wrote",
        ),
        "not a model": (("recommend", log_file, "--user", 1), "not a csrr model"),
        "half a model": (("info", tmp_path / "broken.csrr"), "cut short or altered"),
        "model of another name": (
            ("info", model_file.with_name("modle.csrr")),
            f"there is no model file {model_file.with_name('modle.csrr')}; did you mean model.csrr?",
        ),
        "a folder of start": (("info", tmp_path / "look"), f"did you mean {tmp_path / 'look' / 'model.csrr'}?"),
        "a model for a log": (("evaluate", model_file), "is a model file, not a log"),
        "a log for a command": ((log_file,), f"to use that file: csrr start {log_file}"),
        "a model for a command": ((model_file,), f"to use that file: csrr recommend {model_file} --user ID"),
        "an empty log": (("start", tmp_path / "empty.csv"), "the file is empty; it must have a row for each event"),
        "a folder without a log": (("start", tmp_path / "look" / "nothing"), "there are no files"),
        "a wrong column": ((*fit, "--user-column", "usr"), "--user-column='usr': there is no such column"),
        "a folder to write": (("fit", log_file, "-o", tmp_path), "is a folder; give the name of a file to write"),
        "no such folder": (("fit", log_file, "-o", tmp_path / "none" / "m"), "there is no such folder; make it first"),
        "no such user": (
            ("recommend", model_file, "--user", 999),
            "unknown user id: 999; the model has 80 users, such as 0, 1, 2; --unknown='ignore' gives unknown users",
        ),
        "no such item in a history": (
            ("recommend", model_file, "--history", "1,zzz"),
            "unknown item id: 'zzz' (ids are integers); the model has 60 items, such as 0, 1, 2",
        ),
        "no such model": ((*fit, "--model", "eese"), "--model eese: there is no such model; did you mean ease?"),
        "no such parameter": ((*fit, "-p", "cost_ration=2"), "has no such parameter; did you mean cost_ratio?"),
        "no such metric": (("evaluate", log_file, "--metric", "ndgc"), "no such metric; did you mean ndcg?"),
        "no such data set": (("data", "fetch", "ml-100"), "did you mean ml-100k?"),
        "one dash": (
            ("recommend", model_file, "-user", 3),
            "there is no option -user; did you mean --user? See csrr re",
        ),
        "an option without a value": (("recommend", model_file, "--user"), "see csrr recommend --help"),
        "no probabilities": (
            ("recommend", model_file, "--user", 3, "--min-probability", 0.5),
            "(on the command line, csrr calibrate)",
        ),
        "no argument": (
            ("fit",),
            "Missing argument 'LOG', as in: csrr fit clicks.csv -o model.csrr; see csrr fit --help",
        ),
        "no output": (("fit", log_file), "see csrr fit --help"),
        "no command": (("fti",), "there is no command 'fti'; did you mean fit? See csrr --help"),
        "no subcommand": (("data", "fech"), "did you mean fetch? See csrr data --help"),
        "no option": (("demo", "--sed", 3), "Did you mean '--seed'? See csrr demo --help"),
        "not a number": ((*fit, "--reg-low-rank", "much"), "'much' is neither a number nor auto"),
        "not a choice": (("completion", "tcsh"), "tcsh"),
    }


CASES = [
    *("no log", "data", "parameter", "costs twice", "unknown id", "no model", "a folder for a model"),
    *("not a model", "half a model", "model of another name", "a folder of start", "a model for a log"),
    *("a log for a command", "a model for a command", "an empty log", "a folder without a log", "a wrong column"),
    *("a folder to write", "no such folder", "no such user", "no such item in a history", "no such model"),
    *("no such parameter", "no such metric", "no such data set", "one dash", "an option without a value"),
    *("no probabilities", "no argument", "no output", "no command", "no subcommand"),
    *("no option", "not a number", "not a choice"),
]


def test_every_case_is_tried(bad):
    assert list(bad) == CASES


@pytest.mark.parametrize("case", CASES)
def test_an_error_is_one_line_and_exit_code_2(bad, case):
    args, message = bad[case]
    result = in_process(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("csrr: error: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr


@pytest.mark.parametrize("case", [case for case in CASES if case not in ("not a choice", "an option without a value")])
def test_with_json_the_error_is_an_object_too(bad, case):
    result = in_process(*bad[case][0], "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout).keys() == {"error"}
    assert f"csrr: error: {json.loads(result.stdout)['error']}\n" == result.stderr


@pytest.mark.parametrize("case", ["data", "unknown id", "no argument", "half a model"])
def test_a_process_shows_no_traceback(bad, case):
    result = in_child(*bad[case][0])
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1


def test_a_model_that_is_not_fitted_is_an_error_too(monkeypatch, model_file):
    monkeypatch.setattr(csrr, "load", lambda path: csrr.PopRank().recommend(1))
    result = in_process("recommend", model_file, "--user", 1)
    assert (result.exit_code, "not fitted" in result.stderr) == (2, True)


def test_a_fault_of_ours_is_not_disguised(monkeypatch, model_file):
    def fault(path):
        raise ZeroDivisionError

    monkeypatch.setattr(csrr, "load", fault)
    assert isinstance(in_process("info", model_file).exception, ZeroDivisionError)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("user", "...", "--user-column='...'"),
        ("title", False, "--title-column=none"),
        ("header", False, "--no-header"),
        ("ordered", True, "--ordered"),
        ("weights", {"view": 1, "buy": 2.5}, "--weight view=1 --weight buy=2.5"),
        ("max_rank", 0, "--max-rank=0"),
        ("event", ..., "--event"),
        ("metric", "ndcg", "metric='ndcg'"),
        ("reg", 3, "reg=3"),
    ],
)
def test_errors_name_arguments_as_options_of_the_command(name, value, told):
    assert show_argument(name, value) == show_in_python(name, value)
    with click.Context(app.get_command(None, "fit")), spell_arguments(show_option):
        assert show_argument(name, value) == told


def test_an_option_may_have_another_name_than_the_argument():
    with click.Context(app.get_command(None, "evaluate")), spell_arguments(partial(show_option, first="at")):
        assert (show_argument("first", 1), show_argument("at", 5)) == ("--at=1", "--at=5")


def test_every_option_of_a_fit_is_known_to_errors_and_to_the_model():
    assert list(MODEL_NAMES) == list(csrr.CSRR().get_params())
    declared = {param.name for param in app.get_command(None, "fit").params}
    items = {"items_file", "items_id", "users_file"}
    workers = {"scheduler", "work", "resume"}
    assert declared == {
        "log",
        "output",
        "model",
        "param",
        "as_json",
        "force",
        *items,
        *workers,
        *LOG_NAMES,
        *MODEL_NAMES,
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name):
    result = in_process(name, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: csrr {name}")


def compiled_code_is_stopped():
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt as error:
        raise SystemError("returned a result with an exception set") from error


def test_ctrl_c_is_ctrl_c_also_where_compiled_code_makes_another_error_of_it():
    with pytest.raises(Interrupted, match="kept"), stoppable(lambda: "all is kept"):
        compiled_code_is_stopped()
    with pytest.raises(SystemError), stoppable(lambda: "all is kept"):
        raise SystemError("something else")
    with pytest.raises(Interrupted, match="first"), stoppable(lambda: "second"), stoppable(lambda: "first"):
        raise KeyboardInterrupt


def test_what_libraries_do_as_the_process_ends_cannot_change_its_exit_code():
    result = in_child("--version", before="import atexit, os; atexit.register(os.abort); ")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("csrr ")
