"""The runner of the attacks itself: it must see what goes wrong, or a quiet campaign says nothing."""

import os
import time

import numpy as np
import pytest

from fuzz.__main__ import main
from fuzz.campaign import Finding, limit_memory
from fuzz.campaigns import CAMPAIGNS
from fuzz.runner import Failure, Progress, run, shrink, try_case


class Odd:
    """Cases are numbers below 1000; some of them fail in each way there is."""

    name, about, patience = "odd", "for the tests", 1.0

    def prepare(self):
        pass

    def make(self, rng):
        return b"%d" % rng.integers(1000)

    def check(self, case, folder):
        assert not list(folder.iterdir())
        (folder / "leftover").touch()
        kind = int(case) % 10
        if kind == 0:
            raise Finding("ends in 0")
        if kind == 1:
            os._exit(7)
        if kind == 2:
            time.sleep(60)


class Cores(Odd):
    """Every case tells the cores it may run on."""

    def check(self, case, folder):
        raise Finding(f"on {sorted(os.sched_getaffinity(0))}")


@pytest.fixture
def attack(tmp_path):
    def go(campaign, **options):
        found = []
        given = {"seed": 0, "seconds": 60, "cases": 20, "workers": 2} | options
        progress = run(campaign, **given, state=tmp_path / "state.json", say=print, report=found.append)
        return progress, found

    return go


def test_findings_crashes_and_hangs_are_told_apart(attack):
    progress, found = attack(Odd())
    numbers = [int(np.random.default_rng([0, i]).integers(1000)) for i in range(20)]
    expected = {i: number % 10 for i, number in enumerate(numbers) if number % 10 < 3}
    assert len(set(expected.values())) == 3, "choose another seed"
    assert {f.number for f in found} == expected.keys()
    words = {0: "ends in 0", 1: "exit code 7", 2: "no answer after 1 seconds"}
    for failure in found:
        assert words[expected[failure.number]] in failure.what
        assert int(failure.case) == numbers[failure.number]
    assert (progress.done, progress.failed) == (20, len(expected))


def test_a_run_is_taken_up_where_it_ended(attack):
    first, _ = attack(Odd(), cases=5, workers=1)
    then, found = attack(Odd(), cases=12, workers=1)
    assert (first.done, then.done, then.next) == (5, 12, 12)
    assert all(failure.number >= 5 for failure in found)


def test_what_was_being_tried_is_tried_again(tmp_path, attack):
    Progress("odd", 0, next=8, open=[(3, 8)], done=3).save(tmp_path / "state.json")
    progress, found = attack(Odd(), cases=8)
    assert progress.done == 8
    assert all(isinstance(f, Failure) and 3 <= f.number < 8 for f in found)


def test_a_case_is_shortened_to_what_fails():
    class Letters(Odd):
        def check(self, case, folder):
            if b"x" in case and b"y" in case:
                raise Finding("x and y")

    assert sorted(shrink(Letters(), b"aaaaaxbbbbbbbycc")) == sorted(b"xy")
    assert try_case(Letters(), b"x") is None


def test_memory_beyond_the_limit_is_a_finding():
    with limit_memory(10**6, "a small array"):
        np.ones(1000)
    with pytest.raises(Finding, match="memory, more than 1,000,000"), limit_memory(10**6, "a large array"):
        np.ones(10**6)


def test_workers_have_cores_of_their_own(tmp_path, attack):
    if not hasattr(os, "sched_getaffinity") or len(cores := os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two cores and a system that binds processes to them")
    _, found = attack(Cores(), cases=40)
    told = {failure.what.splitlines()[-1].partition("on ")[2] for failure in found}
    assert told <= {str(sorted(cores)[0::2]), str(sorted(cores)[1::2])}
    assert os.sched_getaffinity(0) == cores


def test_failures_are_kept_where_asked(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(CAMPAIGNS, "odd", Odd())
    command = [
        "fuzz",
        "odd",
        "--cases",
        "20",
        "--seed",
        "0",
        "--seconds",
        "60",
        "--found",
        str(tmp_path / "deep" / "here"),
    ]
    monkeypatch.setattr("sys.argv", command)
    assert main() == 1
    *_, last = capsys.readouterr().out.splitlines()
    kept = sorted((tmp_path / "deep" / "here").glob("odd-0-*.case"))
    assert last.startswith(f"odd: 20 cases, {len(kept)} failed, ")
    assert kept
    for file in kept:
        number = file.stem.rpartition("-")[2]
        assert int(file.read_bytes()) == int(np.random.default_rng([0, int(number)]).integers(1000))
        about = file.with_suffix(".txt").read_text()
        assert about.startswith(f"odd, seed 0, case {number}: python -m fuzz --again {file}\n\n")
        if int(file.read_bytes()) % 10 == 0:
            assert "Traceback" in about


def test_what_is_left_out_is_told(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(CAMPAIGNS, "odd", partial := Odd())
    monkeypatch.setattr("fuzz.__main__.run", lambda *_, **__: Progress("odd", 0, done=3))
    monkeypatch.setattr("sys.argv", ["fuzz", "odd", "--found", str(tmp_path)])
    partial.left_out = "polars"
    assert main() == 0
    assert capsys.readouterr().out.endswith("seed 0, without polars, which is not installed\n")


def test_campaigns_share_the_time(monkeypatch, capsys, tmp_path):
    given = []

    def run_none(campaign, *, seconds, **_):
        given.append((campaign.name, seconds))
        return Progress(campaign.name, 0)

    monkeypatch.setattr("fuzz.__main__.run", run_none)
    monkeypatch.setattr("sys.argv", ["fuzz", "fits", "logs", "--seconds", "100", "--found", str(tmp_path)])
    assert main() == 0
    (first, half), (second, rest) = given
    assert (first, second) == ("fits", "logs")
    assert half == pytest.approx(50, abs=1)
    assert rest == pytest.approx(100, abs=1)
