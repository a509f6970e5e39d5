"""`csrr robustness`: tables, JSON, a folder to go on from, and what goes wrong."""

import os
import signal
import subprocess
import time

import pytest

from .conftest import COMMAND, TOLD_OF_LOG, as_json, in_process, on_one_core

SMALL = ("--kind", "random", "--share", 0.3, "--system", "EASE", "--seeds", 1)


def test_tables_are_printed(log_file):
    result = in_process("robustness", log_file, *SMALL)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("Robustness: 1 split, 2 results\n\nNDCG@10 on clean test data\nnoise ")
    assert "Random clicks  30%" in result.stdout
    assert result.stderr == ""


def test_as_json_it_has_figures_and_results(log_file, tmp_path):
    args = ("robustness", log_file, *SMALL, "--results", tmp_path / "results")
    told = as_json(*args)
    assert [*told["figures"]] == ["robustness", "kept"]
    assert [(row["kind"], row["share"], row["system"]) for row in told["results"]] == [
        (None, 0, "EASE"),
        ("random", 0.3, "EASE"),
    ]
    assert told["worth_of_v"] == []
    assert len(list((tmp_path / "results" / "rows").glob("*.json"))) == 2
    assert as_json(*args) == told


def test_ctrl_c_says_what_was_kept(log_file, tmp_path):
    folder = tmp_path / "results"
    child = subprocess.Popen(
        [*COMMAND, "robustness", str(log_file), "--system", "EASE", "--system", "BPRMF", "--results", str(folder)],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=on_one_core,
        stdout=subprocess.DEVNULL,
    )
    until = time.monotonic() + 30
    while not list(folder.glob("rows/*.json")) and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(child.pid, signal.SIGINT)
    _, said = child.communicate(timeout=30)
    assert child.returncode == 130
    assert said.splitlines() == [
        TOLD_OF_LOG,
        f"stopped: the results so far are in {folder}, the same command goes on from there",
    ]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--kind", "no"), "kind='no' must be one of random, accidental, popular, crawler, push"),
        (("--share", 1), "share=1.0 must be a number from 0 to less than 1"),
        (("--share", "0"), "give at least one kind of noise and a share above 0"),
        (
            ("--system", "SVD"),
            "--system='SVD' must be one of CSRR, CSRR without V, CSRR as it comes, WRMF, BPRMF, EASE",
        ),
        (("--seeds", 0), "--seeds"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(log_file, args, message):
    result = in_process("robustness", log_file, *args)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
