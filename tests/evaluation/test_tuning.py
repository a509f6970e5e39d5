"""Tuning: the best of what was tried is the best, on validation alone, and a search survives what ends it."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import csrr
from csrr import DataError, ParameterError, Range, Walk
from csrr._base.files import try_lock
from csrr.evaluation.tuning import make_validation

GRID = {"neighbors": [3, 10, 30], "similarity": ["cosine", "jaccard"], "shrink": [0.0, 5.0]}


@pytest.fixture(scope="module")
def log():
    return csrr.synthetic(80, 50, rank=4, events_per_user=12, seed=1).log


def score(model, log, *, ratio=0.9, seed=0, metric="ndcg@10"):
    """Return the validation score of a model, by hand."""
    train, valid = csrr.split(log, ratio=ratio, seed=seed)
    return csrr.evaluate(model.fit(train), train, valid, at=10)[metric]


def told(found):
    """Return all of a search but the times."""
    return [(each.number, each.state, each.value, each.params) for each in found.trials]


def test_a_grid_is_gone_through_once_and_the_best_is_the_best(log):
    found = csrr.tune("item-knn", log, space=GRID, threads=1)
    tried = [tuple(each.params.values()) for each in found.trials[1:]]
    assert len(tried) == len(set(tried)) == 12
    assert [each.value for each in found.trials] == [score(csrr.ItemKNN(**each.params), log) for each in found.trials]
    assert found.best_value == max(each.value for each in found.trials)
    assert score(found.model(), log) == found.best_value
    assert tried != sorted(tried)
    other = csrr.tune("item-knn", log, space=GRID, seed=1)
    assert [tuple(each.params.values()) for each in other.trials[1:]] != tried


def test_the_first_trial_is_the_model_as_it_is(log):
    model = csrr.ItemKNN(shrink=3.0)
    found = csrr.tune(model, log, space={"neighbors": [1]}, trials=1, threads=1)
    assert not model.is_fitted
    assert model.threads == 0
    assert found.trials[0].params == {"neighbors": 200}
    assert found.best_value == score(model, log)
    assert found.best_params == {"shrink": 3.0}


def test_a_space_alone_without_the_defaults(log, tmp_path):
    found = csrr.tune("item-knn", log, space={"neighbors": [200, 3]}, defaults=False, storage=tmp_path / "search")
    assert {each.params["neighbors"] for each in found.trials} == {200, 3}
    assert found.total == len(found.trials) == 2
    assert len(csrr.tune("pop-rank", log, defaults=False).trials) == 1
    with pytest.raises(DataError, match="its defaults was false, now true"):
        csrr.tune("item-knn", log, space={"neighbors": [200, 3]}, storage=tmp_path / "search")


def test_what_the_space_does_not_speak_of_stays(log):
    found = csrr.tune(csrr.ItemKNN(shrink=3.0, threads=1), log, space={"neighbors": [2, 5]})
    assert found.trials[1].value == score(csrr.ItemKNN(found.trials[1].params["neighbors"], shrink=3.0), log)


def test_folds_metric_and_ratio(log):
    found = csrr.tune(csrr.EASE, log, space={"reg": [5.0]}, metric="recall@10", folds=3, ratio=0.7, seed=4)
    by_hand = [score(csrr.EASE(5.0), log, ratio=0.7, seed=seed, metric="recall@10") for seed in (4, 5, 6)]
    assert found.trials[1].value == pytest.approx(np.mean(by_hand), rel=1e-12)


def test_a_log_of_ones_own_to_validate_on(log):
    train, valid = csrr.split(log, ratio=0.8, seed=7)
    found = csrr.tune("ease", train, valid=valid, space={"reg": [5.0]})
    model = csrr.EASE(5.0).fit(train)
    assert found.trials[1].value == csrr.evaluate(model, train, valid, at=10, metrics=["ndcg"])["ndcg@10"]
    with pytest.raises(DataError, match="valid has no event"):
        csrr.tune("ease", train, valid=train)
    with pytest.raises(ParameterError, match="folds=2 does not go with valid"):
        csrr.tune("ease", train, valid=valid, folds=2)


def test_continuous_spaces_are_searched_from_a_seed(log):
    space = {"reg": Range(1, 500, log=True)}
    first, again, other = (csrr.tune("ease", log, space=space, trials=14, seed=seed) for seed in (0, 0, 1))
    assert told(first) == told(again)
    regs = [each.params["reg"] for each in first.trials[1:]]
    assert len(set(regs)) == 13
    assert regs == [float(f"{reg:.4g}") for reg in regs]
    assert all(1 <= reg <= 500 for reg in regs)
    assert regs != [each.params["reg"] for each in other.trials[1:]]


def test_the_budget(log):
    assert len(csrr.tune("ease", log, trials=5).trials) == 5
    assert len(csrr.tune("ease", log).trials) == 40
    assert len(csrr.tune("ease", log, minutes=1e-9).trials) == 1
    assert len(csrr.tune("pop-rank", log, trials=7).trials) == 1
    # The defaults are a point of this grid, and not tried again.
    assert len(csrr.tune("item-knn", log, space={"neighbors": [200, 3]}).trials) == 2
    for n_points, n_trials in ((60, 61), (61, 40)):
        grid = {"shrink": [float(shrink) for shrink in range(100, 100 + n_points)]}
        assert len(csrr.tune("item-knn", log, space=grid).trials) == n_trials


def test_time_ends_a_search(log, monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("csrr.evaluation.tuning.time", SimpleNamespace(perf_counter=lambda: clock.now))

    def twenty_seconds_pass(_):
        clock.now += 20

    assert len(csrr.tune("ease", log, minutes=1, callback=twenty_seconds_pass).trials) == 3
    assert len(csrr.tune("ease", log, minutes=1.1, callback=twenty_seconds_pass).trials) == 4


# Walks


def test_a_walk_finds_the_best_strength_and_ends_after_it(log):
    strengths = tuple(np.geomspace(0.8, 0.01, 16))
    steps = []
    validation = make_validation(log, None, "ndcg@10", by="user", ratio=0.8, folds=2, seed=0, threads=1)
    model = csrr.CSRR(tol=1e-4)
    walk, report = Walk(strengths), lambda *step: steps.append(step)
    value, strength = validation.measure_walk(model, "reg_low_rank", walk, report, lambda: False)
    values = [
        np.mean([score(csrr.CSRR(reg_low_rank=each, tol=1e-4), log, ratio=0.8, seed=seed) for seed in (0, 1)])
        for each in strengths
    ]
    assert strength == strengths[np.argmax(values)]
    assert value == pytest.approx(max(values), rel=0.01)
    assert [step for step, _ in steps] == list(range(len(steps)))
    assert np.argmax(values) + 2 <= len(steps) - 1 < len(strengths) - 1
    assert [each for _, each in steps] == sorted(each for _, each in steps)
    assert max(values[len(steps) :]) < value


def test_a_walk_is_one_trial_and_its_strength_is_kept(log):
    found = csrr.tune("mc-shift", log)
    assert len(found.trials) == 2
    assert score(csrr.MCShift(**found.trials[1].params), log) == pytest.approx(found.trials[1].value, rel=0.02)


def test_absolute_strengths_and_the_paper_s_algorithm_walk_too(log):
    for model in (csrr.CSRR(), csrr.CSRR(box="paper", max_iter=5)):
        found = csrr.tune(model, log, space={"l1": Walk((1.0, 3.0))})
        assert found.trials[1].params["l1"] in (1.0, 3.0)


# Trials that do not get to their end


def test_hopeless_trainings_are_pruned(log):
    space = {"learning_rate": [0.1, 0.15, 0.2, 0.25, 0.3, 1e-6, 2e-6, 3e-6], "rank": [8]}
    model = csrr.BPRMF(epochs=20, threads=1)
    found = csrr.tune(model, log, space=space, seed=2)
    pruned = [each for each in found.trials if each.state == "pruned"]
    assert pruned
    assert all("median" in each.reason for each in pruned)
    assert found.best.state == "done"
    assert len(found.trials) == 9
    whole = csrr.tune(model, log, space=space, seed=2, prune=False)
    assert {each.state for each in whole.trials} == {"done"}
    assert found.best_params == whole.best_params


@pytest.mark.parametrize(
    ("space", "folds"), [({"reg_low_rank": Walk(tuple(np.geomspace(0.8, 0.2, 8)))}, 1), ({"reg_low_rank": [0.2]}, 3)]
)
def test_hopeless_walks_and_folds_are_pruned(log, space, folds):
    ranks = [20, 21, 22, 23, 24, 25, 1, 2]
    model = csrr.CSRR(threads=1)
    for seed in range(3):  # one of the orders has a hopeless rank late
        found = csrr.tune(model, log, space=space | {"max_rank": ranks}, folds=folds, seed=seed)
        pruned = [each.params["max_rank"] for each in found.trials if each.state == "pruned"]
        if pruned:
            break
    assert pruned
    assert found.best.params["max_rank"] not in (1, 2)


def test_what_cannot_be_fitted_is_kept_with_its_reason(log):
    found = csrr.tune("wrmf", log, space={"rank": [5, 51]})
    failed = next(each for each in found.trials if each.state == "failed")
    assert (failed.params, failed.value) == ({"rank": 51}, None)
    assert "rank=51 is beyond the matrix" in failed.reason
    with pytest.raises(ParameterError, match="all 2 trials failed; the last: rank=60 is beyond the matrix"):
        csrr.tune(csrr.WRMF(rank=51), log, space={"rank": [60]})


def test_a_fault_is_not_taken_for_a_failed_trial(log):
    class Broken(csrr.PopRank):
        def fit(self, data):
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        csrr.tune(Broken(), log, space={})


# Storage


@pytest.mark.parametrize("space", [GRID, {"shrink": Range(0.1, 50, log=True), "neighbors": [5, 50]}])
def test_a_search_goes_on_where_it_was(log, tmp_path, space):
    path, calls = tmp_path / "search", []
    csrr.tune("item-knn", log, space=space, trials=4, storage=path)
    found = csrr.tune("item-knn", log, space=space, trials=9, storage=path, callback=calls.append)
    assert [len(each.trials) for each in calls] == [5, 6, 7, 8, 9]
    assert told(found) == told(csrr.tune("item-knn", log, space=space, trials=9))
    assert told(csrr.tune("item-knn", log, space=space, trials=9, storage=path)) == told(found)


def test_an_interrupted_trial_is_run_again(log, tmp_path):
    path, n_fits = tmp_path / "search", []

    class Interrupted(csrr.ItemKNN):
        def fit(self, data):
            n_fits.append(1)
            if len(n_fits) == 4:
                raise KeyboardInterrupt
            return super().fit(data)

    with pytest.raises(KeyboardInterrupt):
        csrr.tune(Interrupted, log, space=GRID, storage=path)
    found = csrr.tune(Interrupted, log, space=GRID, storage=path)
    assert told(found) == told(csrr.tune("item-knn", log, space=GRID))
    assert len(n_fits) == 14


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": "ease", "space": {"reg": [1.0]}}, 'its model was "ItemKNN", now "EASE"; its space'),
        ({"model": csrr.ItemKNN(asymmetry=0.5)}, "its params was {}, now"),
        ({"space": {"shrink": [1.0]}}, "its space"),
        ({"metric": "recall@5"}, 'its metric was "ndcg@10", now "recall@5"'),
        ({"ratio": 0.8}, "its split was"),
        ({"folds": 2}, "its split was"),
        ({"seed": 1}, "its seed was 0, now 1"),
        ({"train": csrr.synthetic(80, 50, rank=4, events_per_user=12, seed=2).log}, "its data differs"),
    ],
)
def test_a_storage_of_another_search_is_refused(log, tmp_path, change, said):
    arguments = {"model": "item-knn", "train": log, "space": GRID, "trials": 1, "storage": tmp_path / "search"}
    csrr.tune(**arguments)
    with pytest.raises(DataError, match="holds another search") as caught:
        csrr.tune(**arguments | change)
    assert said in str(caught.value)


def test_a_storage_of_another_version_is_refused(log, tmp_path):
    path, arguments = tmp_path / "search", {"space": {"reg": [5.0]}, "trials": 1}
    csrr.tune("ease", log, **arguments, storage=path)
    kept, mine = path.read_text(), f'"csrr":"{csrr.__version__}",'
    assert kept.count(mine) == 1
    for other, said in (('"csrr":"0.0.1",', "csrr 0.0.1"), ("", "csrr of an unknown version")):
        path.write_text(kept.replace(mine, other))
        with pytest.raises(DataError, match=f"it was made by {said}, this is csrr {csrr.__version__}; give another"):
            csrr.tune("ease", log, **arguments, storage=path)


def test_numbers_of_numpy_are_numbers(log, tmp_path):
    path, plain = tmp_path / "search", {"seed": 3, "folds": 2, "ratio": 0.75}
    of_numpy = {"seed": np.int64(3), "folds": np.int64(2), "ratio": np.float32(0.75), "trials": np.int64(2)}
    found = csrr.tune("ease", log, space={"reg": [5.0]}, storage=path, **of_numpy)
    assert told(csrr.tune("ease", log, space={"reg": [5.0]}, storage=path, **plain)) == told(found)
    found.save(tmp_path / "best.json")


def test_two_searches_on_one_storage_are_refused(log, tmp_path):
    with try_lock(tmp_path / ".search.held"), pytest.raises(DataError, match="in use by another search"):
        csrr.tune("ease", log, storage=tmp_path / "search", trials=1)
    assert len(csrr.tune("ease", log, storage=tmp_path / "search", trials=1).trials) == 1


def test_what_is_no_storage_is_left_as_it_is(log, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("user,item\n1,2")
    with pytest.raises(DataError, match="not the record of a search"):
        csrr.tune("ease", log, storage=path)
    assert path.read_text() == "user,item\n1,2"
    with pytest.raises(DataError, match="there is no folder"):
        csrr.tune("ease", log, storage=tmp_path / "none" / "x")


def test_a_torn_last_line_is_dropped_and_its_trial_run_again(log, tmp_path):
    path, whole = tmp_path / "search", csrr.tune("item-knn", log, space=GRID)
    csrr.tune("item-knn", log, space=GRID, trials=4, storage=path)
    data = path.read_bytes()
    path.write_bytes(data[:-7])
    assert told(csrr.tune("item-knn", log, space=GRID, storage=path)) == told(whole)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], lines[3][:9] + b"\n", *lines[4:]]))
    with pytest.raises(DataError, match="is damaged"):
        csrr.tune("item-knn", log, space=GRID, storage=path)


CHILD = """
import sys, time, csrr

class Waiting(csrr.ItemKNN):
    fits = 0

    def fit(self, data):
        Waiting.fits += 1
        if Waiting.fits == int(sys.argv[2]):
            print("waiting", flush=True)
            time.sleep(600)
        return super().fit(data)

log = csrr.synthetic(80, 50, rank=4, events_per_user=12, seed=1).log
space = {"neighbors": [3, 10, 30], "similarity": ["cosine", "jaccard"], "shrink": [0.0, 5.0]}
say = lambda found: print(len(found.trials), flush=True)
found = csrr.tune(Waiting, log, space=space, storage=sys.argv[1], callback=say)
print(found.best_params)
"""


def test_a_killed_search_goes_on_and_ends_as_one_that_was_not(log, tmp_path):
    command = [sys.executable, "-c", CHILD, str(tmp_path / "search")]
    # It waits in the sixth trial, to be killed there.
    child = subprocess.Popen([*command, "6"], stdout=subprocess.PIPE, text=True)
    lines = []
    for line in child.stdout:
        lines.append(line.strip())
        if lines[-1] == "waiting":
            os.kill(child.pid, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    assert lines == ["1", "2", "3", "4", "5", "waiting"]
    child.stdout.close()
    again = subprocess.run([*command, "0"], capture_output=True, text=True, timeout=60, check=True)
    lines = again.stdout.splitlines()
    assert lines[:-1] == [str(n) for n in range(6, 14)]
    assert lines[-1] == str(csrr.tune("item-knn", log, space=GRID).best_params)


def test_without_optuna_the_message_says_what_to_install(log, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match=r"pip install 'csrr\[tune\]'"):
        csrr.tune("ease", log, trials=1)


# The result


def test_the_result_as_tables_text_and_file(log, tmp_path):
    found = csrr.tune("wrmf", log, space={"rank": [5, 51], "reg": ["auto", 3.0]})
    table = found.to_arrow()
    assert table.column_names == ["number", "state", "value", "seconds", "reason", "rank", "reg"]
    assert table["state"].to_pylist() == [each.state for each in found.trials]
    assert set(table["reg"].to_pylist()) == {"auto", "3.0"}
    assert len(found.to_frame()) == 5
    text = repr(found)
    assert text.startswith("Tuning: 5 trials of WRMF (3 done, 2 failed)")
    assert f"best ndcg@10 {found.best_value:.4f} on validation: {found.model()!r}" in text
    found.save(tmp_path / "best.json")
    kept = json.loads((tmp_path / "best.json").read_text())
    assert kept == found.summary()
    assert (kept["model"], kept["metric"], kept["seed"]) == ("WRMF", "ndcg@10", 0)
    assert kept["versions"].keys() == {"csrr", "optuna", "numpy"}
    assert found.leaders(2)[0] == found.best


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"metric": "ndgc@10"}, "metric='ndgc@10' must be like ndcg@10"),
        ({"metric": "ndcg"}, "must be like ndcg@10"),
        ({"metric": "ndcg@51"}, "51 is more than the 50 items"),
        ({"trials": 0}, "trials=0"),
        ({"minutes": 0}, "minutes=0"),
        ({"folds": 0}, "folds=0"),
        ({"seed": -1}, "seed=-1"),
        ({"threads": -1}, "threads=-1"),
        ({"ratio": 0.999}, "ratio=0.999 leaves no event to validate on"),
        ({"ratio": 1.5}, "ratio=1.5"),
        ({"model": "no"}, "model='no' must be a model"),
    ],
)
def test_bad_arguments(log, arguments, message):
    with pytest.raises((ParameterError, DataError), match=message):
        csrr.tune(**{"model": "ease", "train": log} | arguments)


@pytest.mark.parametrize("kept", [1, 5, 11, 40])
def test_a_record_torn_in_its_first_line_is_begun_anew(log, tmp_path, kept):
    path = tmp_path / "search.journal"
    whole = csrr.tune(csrr.ItemKNN, log, space=GRID, storage=path)
    path.write_bytes(path.read_bytes()[:kept])
    again = csrr.tune(csrr.ItemKNN, log, space=GRID, storage=path)
    assert [each.value for each in again.trials] == [each.value for each in whole.trials]


@pytest.mark.parametrize("how", [{"by": "last"}, {"by": "time"}])
def test_validation_follows_the_split_of_train(how):
    rng = np.random.default_rng(0)
    log = csrr.synthetic(80, 40, events_per_user=10).log
    log = replace(log, times=rng.permutation(len(log)))
    train = csrr.split(log, **how)[0]
    space, ratio = {"reg": [1.0, 100.0]}, {"ratio": 0.9} if how == {"by": "time"} else {}
    part, valid = csrr.split(train, **how, **ratio)
    by_hand = [csrr.evaluate(csrr.EASE(reg).fit(part), part, valid, at=5)["ndcg@5"] for reg in (1.0, 100.0)]
    for given in ({}, how):
        found = csrr.tune("ease", train, space=space, metric="ndcg@5", defaults=False, **given)
        assert {each.params["reg"]: each.value for each in found.trials} == dict(
            zip((1.0, 100.0), by_hand, strict=True)
        )
    random = csrr.tune("ease", train, space=space, metric="ndcg@5", defaults=False, by="user")
    assert random.best_value not in by_hand
    with pytest.raises(csrr.ParameterError, match="folds=2 does not go with by="):
        csrr.tune("ease", train, space=space, folds=2)
