import os
import subprocess
import sys
from pathlib import Path

import pytest

import csrr
from tests.cli.conftest import as_json, in_process, on_one_core

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def told():
    return as_json("demo")


def test_the_demo_beats_popularity_and_finds_what_was_planted(told):
    assert told["certificate"]["status"] == "converged"
    for metric in ("ndcg@10", "recall@10"):
        assert told["metrics"]["CSRR"][metric] > 2 * told["metrics"]["PopRank"][metric]
    assert told["planted"]["share_of_top"] > 3 * told["planted"]["share_of_all"]


def test_the_share_of_planted_choices_is_counted_right(told):
    made = csrr.synthetic(seed=0)
    train, _ = csrr.split(made.log, ratio=0.8, seed=0)
    planted = {
        (user, item)
        for user, item, kind in zip(made.log.user_rows, made.log.item_rows, made.truth, strict=True)
        if kind > 0
    }
    hits = [pair in planted for pair in zip(train.user_rows, train.item_rows, strict=True)]
    assert told["planted"]["share_of_all"] == pytest.approx(sum(hits) / len(train))
    events = csrr.CSRR(threads=1).fit(train).suspects().events
    rows = zip(events["user"][:100].tolist(), events["item"][:100].tolist(), strict=True)  # ids are rows here
    assert told["planted"]["share_of_top"] == sum(pair in planted for pair in rows) / 100


def test_what_is_said_to_be_held_back_is(told):
    _, test = csrr.split(csrr.synthetic(seed=0).log, ratio=0.8, seed=0)
    later = test.item_rows[test.user_rows == told["user"]].tolist()
    assert [row["chosen"] for row in told["recommendations"]] == [
        row["item"] in later for row in told["recommendations"]
    ]
    assert any(row["chosen"] for row in told["recommendations"])


def test_the_story_holds_all_of_it(told):
    text = in_process("demo").stdout
    assert "above the optimum of the low-rank part; the neighbors are not covered" in text
    for row in (*told["recommendations"], *told["because"], *told["similar"], *told["suspects"]):
        assert row["title"] in text
    assert f"{told['metrics']['CSRR']['ndcg@10']:.4f}" in text
    assert f"{told['planted']['share_of_top']:.0%}" in text


def test_it_ends_with_what_to_do_next(tmp_path, monkeypatch):
    end = in_process("demo").stdout.partition("Now your own clicks")[2]
    commands = [line.strip() for line in end.splitlines() if line.startswith("  csrr ")]
    assert [line.split()[1] for line in commands] == ["start", "recommend", "update"]
    assert (Path(__file__).parents[2] / end.split()[-1].rstrip(".")).is_file()
    monkeypatch.chdir(tmp_path)
    rows = [f"{user},{item}" for user in ("anna", "ben", *range(40)) for item in "abcdefghijkl"[len(str(user)) % 3 :]]
    Path("clicks.csv").write_text("\n".join(["user,item", *rows, "anna,lamp", "ben,chair"]) + "\n")
    Path("new.csv").write_text("user,item\nanna,chair\n")
    for line in commands:
        result = in_process(*line.split()[1:])
        assert result.exit_code == 0, result.stderr


def test_another_seed_is_another_demo(told):
    other = as_json("demo", "--seed", 1)
    assert other["n_train"] != told["n_train"]
    assert other.keys() == told.keys()


def example(name, *args):
    result = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name, *args],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=on_one_core,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("compare_models.py", "CSRRe(factors='nonnegative')"),
        ("quickstart.py", "above the optimum"),
        ("new_user.py", "jazz"),
        ("own_model.py", "CoCounts(damping="),
        ("noisy_clicks.py", "are noise"),
        ("tune.py", "on the test"),
    ],
)
def test_the_examples_run(name, said):
    assert said in example(name)


def test_every_example_is_tried():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {
        "compare_models.py",
        "quickstart.py",
        "new_user.py",
        "own_model.py",
        "noisy_clicks.py",
        "tune.py",
        "first_week.py",  # in tests/test_first_week.py
        "demo_serve.py",  # run by make demo-serve
    }


def test_quickstart_takes_a_log(log_file):
    _, test = csrr.split(csrr.read(log_file), ratio=0.8, seed=0)
    asked = (test.user_counts() > 0).sum()
    assert f"mean over {asked} users" in example("quickstart.py", str(log_file))
