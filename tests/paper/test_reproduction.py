"""The reproduction on a made-up MovieLens: jobs, parameters chosen on validation, rows kept and used again."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import csrr
from csrr import DataError, ParameterError
from csrr_paper.jobs import SAME_STRENGTHS, Experiment, change_cost
from csrr_paper.printed import COLUMNS, DATA, PRINTED, PROTOCOLS, WITHOUT_V, name_metric
from csrr_paper.reproduce import Reproduction, _read_file, check_data, plan, read_log
from csrr_paper.results import ResultStore
from csrr_paper.summary import summarize
from csrr_paper.summary_types import Summary
from csrr_paper.systems import COMPARED, SYSTEMS


def made(folder, *names, **options):
    """Run a quick reproduction and return it with its summary."""
    with ResultStore.open(folder) as store:
        run = Reproduction(store, plan(names, quick=True, **options))
        run.run()
        return run, summarize(run, command="csrr reproduce")


@pytest.fixture(scope="module")
def whole(ratings_folder, tmp_path_factory):
    """All parts of a quick run on the made-up data."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CSRR_DATA_DIR", str(ratings_folder))
        _read_file.cache_clear()
        yield made(tmp_path_factory.mktemp("whole"))
    _read_file.cache_clear()


# What is to be done


def test_the_whole_plan_is_the_paper():
    parts = {(part.name, part.data, part.protocol) for part in plan()}
    assert {part[1:] for part in parts if part[0] == "comparison"} == {
        *((data, protocol) for data in ("ml-100k", "ml-1m", "eachmovie") for protocol in ("numbers", "text")),
        ("ml-100k", "all-ratings"),
    }
    assert {part[1] for part in parts if part[0] == "ablation"} == {"ml-100k", "ml-1m"}
    assert all(part[2] == "numbers" for part in parts if part[0] != "comparison")
    assert all(part.splits == (0, 1, 2, 3, 4) for part in plan())


def test_what_is_asked_for_is_what_is_planned():
    (part,) = plan(["ablation"], data=["eachmovie"], protocols=["text"], splits=2)
    assert (part.name, part.data, part.protocol, part.splits) == ("ablation", "eachmovie", "text", (0, 1))
    assert [part.data for part in plan(["cost"], data=["eachmovie"])] == ["eachmovie"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"names": ["comparisn"]}, "names='comparisn' must be one of comparison, ablation, cost, step"),
        ({"data": ["netflix"]}, "data='netflix' must be one of ml-100k"),
        ({"protocols": ["words"]}, "protocols='words' must be one of numbers"),
        ({"systems": ["SVD++"]}, r"systems='SVD\+\+' must be one of PopRank"),
        (
            {"names": ["step"], "protocols": ["text"]},
            "the paper has none of that; name the table or figure and the data",
        ),
        ({"splits": 0}, "splits=0"),
    ],
)
def test_what_there_is_not_is_refused(asked, message):
    with pytest.raises(ParameterError, match=message):
        plan(**asked)


def test_data_that_is_not_there_is_named_with_where_to_get_and_put_it(tmp_path, monkeypatch):
    monkeypatch.setenv("CSRR_DATA_DIR", str(tmp_path))
    with pytest.raises(DataError) as error:
        check_data(plan(["comparison"]))
    for words in ("ml-100k.zip", "csrr.fetch('ml-1m')", "eachmovie-heavy.zip", "cannot be downloaded", str(tmp_path)):
        assert words in str(error.value)


def test_a_figure_s_cost_keeps_the_strengths_themselves(ratings):
    log = read_log("ml-100k", 3.0)
    chosen = {"positive_cost": 0.8, "l1": 4.0, "reg_sparse": 0.3, "user_scaling": 0.0, "item_scaling": 0.0}
    fits = [csrr.CSRR(**params).fit(log) for params in (chosen, change_cost(0.6, chosen))]
    assert fits[0].l1_ == fits[1].l1_ == 4
    assert fits[0].l2_ == pytest.approx(fits[1].l2_, rel=1e-4)
    assert fits[1].positive_cost == 0.6


# The run


def test_the_means_are_those_of_the_split_by_hand(whole):
    run, summary = whole
    job = next(job for job in run.jobs if job.name == "WRMF" and job.split == 1)
    task = run.make_task(job)
    train, test = csrr.split(csrr.read("ml-100k", min_rating=3), ratio=0.8, seed=1)
    model = csrr.WRMF(**task.params).fit(train)
    by_hand = csrr.evaluate(model, train, test, at=(5, 10, 15), metrics=("precision", "recall", "ndcg", "list_ndcg"))
    assert run.store.find(task).means == by_hand.means
    both = [run.store.find(run.make_task(job)).means["list_ndcg@5"] for job in run.jobs if job.name == "WRMF"]
    assert summary.comparison[0].get_mean("WRMF", "NDCG@5") == pytest.approx(np.mean(both))


def test_parameters_are_the_best_on_a_split_of_that_split_s_train(whole):
    run, _ = whole
    job = next(job for job in run.jobs if job.name == "WRMF" and job.split == 1)
    train, _ = csrr.split(csrr.read("ml-100k", min_rating=3), ratio=0.8, seed=1)
    kept, held_out = csrr.split(train, ratio=0.9, seed=0)

    def score(rank, reg):
        model = csrr.WRMF(rank, reg=reg, **SYSTEMS["WRMF"].fixed).fit(kept)
        return csrr.evaluate(model, kept, held_out, at=10)["ndcg@10"]

    space = SYSTEMS["WRMF"].list_tried(quick=True)
    best = max(((rank, reg) for rank in space["rank"] for reg in space["reg"]), key=lambda point: score(*point))
    params = run.make_task(job).params
    assert score(params["rank"], params["reg"]) == score(*best)


def test_large_data_is_tuned_once_unless_told_otherwise(tmp_path):
    with ResultStore.open(tmp_path) as store:
        keys = [
            {run._make_tuning_key(job) for job in run.jobs if job.name == "WRMF"}
            for tuned in (None, "each")
            for run in [Reproduction(store, plan(["comparison"], data=["ml-1m"], protocols=["numbers"]), tuned=tuned)]
        ]
    assert [len(each) for each in keys] == [1, 5]


def test_the_first_split_alone_is_told_of_where_it_alone_was_tuned(whole, tmp_path):
    systems = ["PopRank", "MC-Shift", "EASE", "WRMF"]
    with ResultStore.open(tmp_path) as store:
        run = Reproduction(store, plan(["comparison"], quick=True, systems=systems), tuned="once")
        run.run()
        summary = summarize(run, command="csrr reproduce")
        results = run.list_results()
    for table in summary.comparison:
        own = [each for each in results if each.task.at_least == DATA[table.data].at_least[table.protocol]]
        alone = {each.task.system: each.means["ndcg@10"] for each in own if each.task.split == 0}
        overall = {row.system: row.extra["standard NDCG@10"].mean for row in table.rows}
        ranks = [sorted(each, key=lambda name: -each[name]) for each in (alone, overall)]
        moved = sum(a != b for a, b in zip(*ranks, strict=True))
        assert (f"{moved} of 4 systems change their rank" if moved else "no system changes its rank") in table.note
        assert (f"the best is “{ranks[0][0]}”" in table.note) == (ranks[0][0] != ranks[1][0])
    assert "first split alone" not in whole[1].comparison[0].note


def test_every_part_is_there_with_every_system(whole):
    _, summary = whole
    assert [row.system for row in summary.comparison[0].rows] == list(COMPARED)
    assert [row.system for row in summary.ablation[0].rows] == ["CSRR-I", SAME_STRENGTHS, WITHOUT_V]
    assert set(summary.figures) == {"cost", "step", "strengths"}
    assert all(panel.series[0].points for figure in summary.figures.values() for panel in figure.panels)


def test_a_summary_comes_back_from_json_as_it_was(whole):
    _, summary = whole
    text = json.dumps(summary.to_json(), allow_nan=False)
    assert Summary.from_json(json.loads(text)) == summary


def test_printed_numbers_stand_beside_their_systems_alone(whole):
    _, summary = whole
    for row in summary.comparison[0].rows:
        beside = SYSTEMS[row.system].beside or (row.system if SYSTEMS[row.system].group == "paper" else None)
        expected = PRINTED["ml-100k"][beside] if beside else dict.fromkeys(COLUMNS)
        assert {column: cell.printed for column, cell in row.cells.items()} == expected


def test_intervals_hold_the_means_and_tests_agree_with_the_differences(whole):
    run, summary = whole
    table = summary.comparison[0]
    for row in table.rows:
        assert all(cell.low < cell.mean < cell.high for cell in row.cells.values())
    for test in table.tests:
        assert test.low <= test.difference <= test.high
        assert test.a != test.b
    standard = {row.system: row.extra["standard NDCG@10"].mean for row in table.rows}
    test = next(t for t in table.tests if (t.a, t.b) == ("CSRR, scaled", "PopRank"))
    assert test.difference == pytest.approx(standard["CSRR, scaled"] - standard["PopRank"], rel=0.02)
    assert test.n_users == run.store.read_all()[0].n_users


def test_a_second_run_does_nothing_again(whole, monkeypatch):
    run, summary = whole
    monkeypatch.setattr(csrr.WRMF, "fit", lambda *_: pytest.fail("fitted again"))
    with ResultStore.open(run.store.folder) as store:
        again = Reproduction(store, run.experiments)
        assert len(again.list_results()) == len(again.jobs)
        again.run()
        assert again.estimate_seconds_left() < run.estimate_seconds_left() + 1e-9
        assert summarize(again, command="csrr reproduce").comparison == summary.comparison


def test_the_time_it_takes_is_said_before_and_falls(tmp_path, ratings):
    told = []
    with ResultStore.open(tmp_path) as store:
        run = Reproduction(store, plan(["comparison"], quick=True, systems=["PopRank", "MC-Shift"]))
        before = run.estimate_seconds_left()
        run.run(told.append)
        assert before > run.estimate_seconds_left() >= 0
    assert told[0].total == len(run.jobs) == 4
    assert [each.done for each in told] == sorted(each.done for each in told)
    assert "MovieLens-100K, numbers, split 0, PopRank" in told[0].now


CHILD = """
import sys
from csrr_paper.reproduce import Reproduction, plan
from csrr_paper.results import ResultStore
with ResultStore.open(sys.argv[1]) as store:
    run = Reproduction(store, plan(["comparison"], quick=True, systems=["PopRank", "WRMF", "MC-Shift", "EASE"]))
    run.run(lambda progress: print(progress.done, progress.now, flush=True))
"""


def test_a_kill_loses_at_most_what_was_running(tmp_path, ratings):
    command = [sys.executable, "-c", CHILD, str(tmp_path)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    for line in child.stdout:
        if line.startswith("2 ") and "fitting" in line:
            time.sleep(0.01)
            os.kill(child.pid, signal.SIGKILL)
            break
    assert child.wait() == -signal.SIGKILL
    child.stdout.close()
    kept = {path.name: path.read_bytes() for path in (tmp_path / "rows").glob("*.json")}
    assert len(kept) >= 2
    again = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert not any(line.startswith(("0 ", "1 ")) for line in again.stdout.splitlines())
    assert all((tmp_path / "rows" / name).read_bytes() == content for name, content in kept.items())
    assert len(list((tmp_path / "rows").glob("*.json"))) == 8


def test_the_protocols_differ_in_positives_and_ndcg(tmp_path, ratings):
    _, summary = made(tmp_path, "comparison", systems=["PopRank"], data=["ml-100k"], protocols=list(PROTOCOLS))
    tables = {table.protocol: table for table in summary.comparison}
    assert tables["all-ratings"].n_events > tables["numbers"].n_events > tables["text"].n_events
    assert tables["text"].get_mean("PopRank", "NDCG@5") < tables["numbers"].get_mean("PopRank", "NDCG@5")
    row = tables["text"].rows[0]
    assert row.extra["standard NDCG@10"].mean == row.cells["NDCG@10"].mean
    assert name_metric("NDCG@10", PROTOCOLS["text"]) == "ndcg@10"


def test_what_was_not_run_is_said(tmp_path, ratings):
    _, summary = made(tmp_path, "comparison", systems=["PopRank"])
    commands = [each.command for each in summary.missing]
    assert "csrr reproduce --figure step --data ml-100k --protocol numbers" in commands
    assert summary.figures == {}


def test_commands_name_what_they_make_again():
    assert (
        Experiment("cost", "ml-1m", "numbers", (0, 1, 2, 3, 4)).command
        == "csrr reproduce --figure cost --data ml-1m --protocol numbers"
    )
    few = Experiment("comparison", "ml-1m", "text", (0, 1, 2), ("EASE", "CSRR, scaled"), quick=True).command
    assert few.endswith("--protocol text --system EASE --system 'CSRR, scaled' --splits 3 --quick")


def test_the_paper_s_strengths_are_the_numbers_that_were_best_on_validation(whole):
    run, _ = whole
    job = next(job for job in run.jobs if job.name == "MC-Shift" and job.split == 0)
    train, _ = csrr.split(csrr.read("ml-100k", min_rating=3), ratio=0.8, seed=0)
    kept, held_out = csrr.split(train, ratio=0.9, seed=0)
    strengths = SYSTEMS["MC-Shift"].list_tried(quick=True)["reg_low_rank"].strengths
    fits = [csrr.MCShift(reg_low_rank=each).fit(kept) for each in strengths]
    best = max(fits, key=lambda fit: csrr.evaluate(fit, kept, held_out, at=10)["ndcg@10"])
    assert run.make_task(job).params == {"l1": pytest.approx(best.l1_, rel=1e-3)}
    assert best.strength(kept) == best.l1_
