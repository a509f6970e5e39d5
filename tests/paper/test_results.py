"""The folder of results: nothing is lost, nothing half-written, nothing mixed, one writer."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from csrr_paper.results import (
    Lists,
    Result,
    ResultsError,
    ResultStore,
    Task,
    make_lists_table,
    read_commit,
)
from tests.paper.sample import read_lists_table

TASK = Task("ml-100k", 3, 0, "WRMF", {"rank": 10, "reg": 0.5})
RESULT = Result(
    TASK,
    means={"ndcg@5": 0.25},
    n_users=3,
    n_left_out=1,
    size={"users": 4, "items": 5, "events": 6},
    seconds={"fit": 1.0, "evaluate": 0.5},
    tuning=None,
    certificate=None,
    model={"kind": "WRMF", "params": {"rank": 10}},
)
USERS = Lists(np.array([1, 2, 4]), np.random.default_rng(0).random((3, 15)) < 0.3, np.array([3, 9, 20]))


def test_a_result_comes_back_as_it_was(tmp_path):
    with ResultStore.open(tmp_path / "results") as store:
        assert store.find(TASK) is None
        store.keep(RESULT, USERS)
    with ResultStore.open(tmp_path / "results") as store:
        assert store.find(TASK) == RESULT
        assert store.read_all() == [RESULT]
        back = store.read_lists(TASK)
        for name in ("users", "hits", "n_relevant"):
            np.testing.assert_array_equal(getattr(back, name), getattr(USERS, name))


def test_a_result_says_with_what_where_and_when(tmp_path):
    assert {"python", "csrr", "numpy", "scipy", "numba"} <= set(RESULT.versions)
    assert "cores" in RESULT.machine
    assert RESULT.made.startswith("20")


@pytest.mark.parametrize(
    "other",
    [{"split": 1}, {"system": "EASE"}, {"at_least": 4}, {"data": "ml-1m"}, {"params": {"rank": 11, "reg": 0.5}}],
)
def test_another_task_is_another_result(tmp_path, other):
    with ResultStore.open(tmp_path / "results") as store:
        store.keep(RESULT, USERS)
        assert store.find(replace(TASK, **other)) is None


def test_the_order_of_parameters_does_not_matter():
    assert replace(TASK, params=dict(reversed(TASK.params.items()))).key == TASK.key


def test_two_runs_into_one_folder_are_refused(tmp_path):
    with (
        ResultStore.open(tmp_path / "results"),
        pytest.raises(ResultsError, match="another run is writing"),
        ResultStore.open(tmp_path / "results"),
    ):
        pass
    with ResultStore.open(tmp_path / "results") as store:
        assert store.read_all() == []


def test_a_folder_of_another_version_is_refused_and_left_alone(tmp_path):
    with ResultStore.open(tmp_path) as store:
        store.keep(RESULT, USERS)
    (tmp_path / "results.json").write_text(json.dumps({"format": 1, "csrr": "0.0.9"}))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ResultsError, match=r"are of csrr 0\.0\.9 .*name another folder"), ResultStore.open(tmp_path):
        pass
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("head", ["", "[]", '{"format": 1}', "no json"])
def test_a_head_that_is_not_ours_is_refused(tmp_path, head):
    (tmp_path / "results.json").write_text(head)
    with pytest.raises(ResultsError, match="not what csrr writes"), ResultStore.open(tmp_path):
        pass


def test_a_folder_with_something_else_in_it_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(ResultsError, match=r"it holds thesis\.tex and no results"), ResultStore.open(tmp_path):
        pass


def test_a_file_in_the_way_is_named(tmp_path):
    (tmp_path / "results").write_text("")
    with pytest.raises(ResultsError, match="a file is in the way"), ResultStore.open(tmp_path / "results"):
        pass


def test_a_damaged_result_is_named(tmp_path):
    with ResultStore.open(tmp_path) as store:
        store.keep(RESULT, USERS)
        file = next((tmp_path / "rows").glob("*.json"))
        file.write_text(file.read_text()[:100])
        with pytest.raises(ResultsError, match=f"{file.name}: it is not a result of csrr; delete it"):
            store.find(TASK)


FULL = """
import resource, sys
from dataclasses import replace
sys.path.insert(0, sys.argv[2])
from tests.paper.test_results import RESULT, TASK, USERS
from csrr_paper.results import Lists
from csrr_paper.results import ResultStore
with ResultStore.open(sys.argv[1]) as store:
    store.keep(RESULT, USERS)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))
    try:
        store.keep(replace(RESULT, task=replace(TASK, split=1)), USERS)
    except OSError as error:
        print(type(error).__name__)
"""


def test_a_full_disk_loses_nothing(tmp_path, request):
    """The limit on the size of files is the nearest to a full disk that can be made without rights."""
    root = str(request.config.rootpath)
    child = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path), root], capture_output=True, text=True, timeout=60
    )
    assert child.stdout == "OSError\n", child.stderr
    with ResultStore.open(tmp_path) as store:
        assert [each.task for each in store.read_all()] == [TASK]
        assert len(store.read_lists(TASK).users) == 3
    assert not list(tmp_path.rglob("*.part"))


def test_every_metric_can_be_made_again_of_the_lists(tmp_path):
    with ResultStore.open(tmp_path / "results") as store:
        store.keep(RESULT, USERS)
        table = make_lists_table(store, [RESULT])
    (back,) = read_lists_table(table).values()
    assert list(read_lists_table(table)) == [("ml-100k", 3, 0, "WRMF")]
    for name, values in USERS.measure().items():
        np.testing.assert_array_equal(back.measure()[name], values)
    assert back.measure()["precision@5"].tolist() == (USERS.hits[:, :5].sum(axis=1) / 5).tolist()
    names = replace(USERS, users=np.array(["a", "b", "c"], object))
    assert Lists.unpack(names.pack()).users.tolist() == ["a", "b", "c"]


def test_a_run_that_was_stopped_is_noted_as_such(tmp_path):
    with ResultStore.open(tmp_path / "results") as store:
        with pytest.raises(KeyboardInterrupt), store.note_run(2, lambda: 0):
            raise KeyboardInterrupt
        done = iter((0, 3))
        with store.note_run(1, lambda: next(done)):
            pass
        stopped, ended = store.read_runs()
    assert (stopped.workers, stopped.seconds) == (2, None)
    assert (ended.workers, ended.results) == (1, 3)
    (tmp_path / "results" / "runs.json").write_text('{"runs": [{"a": 1}]}')
    with pytest.raises(ResultsError, match=r"runs\.json: it is not a result of csrr"):
        store.read_runs()


def test_results_name_the_commit_of_a_checkout(tmp_path, monkeypatch):
    monkeypatch.delenv("CSRR_COMMIT", raising=False)
    is_checkout = (Path(__file__).parents[2] / ".git").exists()
    assert re.fullmatch(r"[0-9a-f]{12}\+?" if is_checkout else "", read_commit())
    monkeypatch.setattr("csrr_paper.results.__file__", str(tmp_path / "a" / "b" / "c" / "results.py"))
    assert read_commit() == ""
    monkeypatch.setenv("CSRR_COMMIT", "0123456789ab")
    assert read_commit() == "0123456789ab"
