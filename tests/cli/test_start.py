import json
import os
import signal
import subprocess
import sys
import time

import pytest

import csrr
from csrr.cli.cmd_start import describe_kept
from csrr.report.findings import hold_folder
from tests.cli.conftest import COMMAND, TOLD_OF_LOG, as_json, in_process, on_one_core, write_log


@pytest.fixture(scope="module")
def answered(log_file, tmp_path_factory):
    folder = tmp_path_factory.mktemp("start") / "found"
    result = in_process("start", log_file, "-o", folder, "--minutes", 1)
    assert result.exit_code == 0, result.stderr
    return result, folder


def test_a_file_becomes_an_answer(answered, log_file):
    result, folder = answered
    assert result.stdout.startswith("FirstLook: 80 users x 60 items, ")
    assert "people, " in result.stdout
    assert result.stdout.endswith(f"the page: {folder / 'page.html'}\n")
    assert {"model.csrr", "page.html", "summary.json"} <= {each.name for each in folder.iterdir()}
    assert json.loads((folder / "summary.json").read_text())["source"] == str(log_file)


def test_titles_of_another_file_are_shown_and_a_folder_in_use_is_refused(log_file, log, tmp_path):
    (tmp_path / "items.csv").write_text("item,title\n" + "".join(f"{item},New {item}\n" for item in log.items.ids))
    args = ("start", log_file, "-o", tmp_path / "found", "--minutes", 1e-6)
    found = as_json(*args, "--items", tmp_path / "items.csv")
    assert found["examples"][0]["items"][0][0].startswith("New ")
    assert "--items" not in "".join(each["line"] for each in found["commands"])
    with hold_folder(tmp_path / "found"):
        result = in_process(*args)
    assert result.exit_code == 2
    assert result.stderr.endswith("found: another first look is written there now; wait, or give another folder\n")
    assert len(result.stderr.splitlines()) == 1
    assert in_process(*args, "--items-id", "item").exit_code == 2
    (tmp_path / "items.csv").write_text("item,title\nx,y\n")
    result = in_process(*args, "--items", tmp_path / "items.csv")
    assert "the item table has none of the 60 items" in result.stderr
    assert "(on the command line, --items-id)" in result.stderr


def test_the_commands_on_the_page_run(answered, tmp_path, monkeypatch):
    _, folder = answered
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new.csv").write_text("user,item,timestamp,title\n3,5,99999,Five\n")
    for each in json.loads((folder / "summary.json").read_text())["commands"]:
        args = each["line"].replace("--minutes 10", "--trials 1").split()
        assert args[0] == "csrr"
        assert in_process(*args[1:]).exit_code == 0, each


def test_json_has_the_summary_and_options_go_into_the_commands(log_file, tmp_path):
    found = as_json("start", log_file, "-o", tmp_path / "found", "--minutes", 1, "--title-column", "none", "--header")
    assert found["finished"] is True
    assert [each["model"] for each in found["models"]] == [
        "PopRank",
        "ItemKNN",
        "EASE",
        "WRMF",
        "CSRR",
        'CSRR(order="next")',
    ]
    update = found["commands"][-1]["line"]
    assert " new.csv --title-column none --header -o " in update


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user,item\n1,1\n1,2\n", "no test is possible: it needs 10 users with two events or more"),
        ("user,item\n" + "".join(f"{user},{user}\n" for user in range(30)), "and 0 of 30 users have so many"),
        ("user,price\n1,1\n", "no column looks like the item"),
    ],
)
def test_logs_that_allow_no_answer_are_told_so(text, message, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(text)
    result = in_process("start", path, "-o", tmp_path / "found")
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "found").exists()


def test_options_that_make_no_sense_are_refused(log_file, tmp_path):
    result = in_process("start", log_file, "-o", tmp_path / "found", "--miss", 0)
    assert result.exit_code == 2
    assert "--miss=0.0 must be" in result.stderr
    assert in_process("start", log_file, "--minutes", 0).exit_code == 2


def test_ctrl_c_keeps_what_is_known(tmp_path):
    path = write_log(tmp_path / "log.csv", csrr.synthetic(3000, 1500, rank=8, events_per_user=60).log)
    folder = tmp_path / "found"
    child = subprocess.Popen(
        [*COMMAND, "start", str(path), "-o", str(folder)],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=on_one_core,
        stdout=subprocess.DEVNULL,
    )
    until = time.monotonic() + 60
    while not _count_models(folder) >= 2 and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(child.pid, signal.SIGINT)
    _, said = child.communicate(timeout=30)
    assert child.returncode == 130
    lines = said.splitlines()
    assert lines[0] == TOLD_OF_LOG
    assert lines[-1].startswith(
        f"interrupted: {folder / 'page.html'} tells what was found by then, of PopRank, ItemKNN"
    )
    kept = json.loads((folder / "summary.json").read_text())
    assert kept["finished"] is False
    assert kept["comparison"]["rows"]
    assert "Not done" in (folder / "page.html").read_text()
    assert csrr.load(folder / "model.csrr").recommend(3).k == 10
    assert sorted(each.name for each in folder.iterdir()) == [".lock", "model.csrr", "page.html", "summary.json"]


def _count_models(folder):
    try:
        return len(json.loads((folder / "summary.json").read_text())["models"])
    except (OSError, ValueError):
        return 0


def test_what_an_earlier_run_wrote_is_not_taken_for_this_one(tmp_path):
    kept = {"models": [{"model": "PopRank", "means": {}}, {"model": "EASE", "means": None}]}
    (tmp_path / "summary.json").write_text(json.dumps(kept))
    message = describe_kept(tmp_path)
    assert message() == "interrupted: nothing was written"
    (tmp_path / "summary.json").unlink()
    (tmp_path / "summary.json").write_text(json.dumps(kept))
    assert message() == f"interrupted: {tmp_path / 'page.html'} tells what was found by then, of PopRank"


EXTRAS = ("pandas", "polars", "optuna", "rich", "sqlalchemy", "sklearn", "faiss", "implicit", "matplotlib")
WITHOUT_EXTRAS = f"""
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {EXTRAS!r}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Missing())
from csrr.cli import main
main()
"""


def test_a_plain_installation_is_enough(log_file, tmp_path):
    command = [sys.executable, "-c", WITHOUT_EXTRAS, "start", str(log_file), "--minutes", "1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "first-look" / "page.html").stat().st_size > 10_000
