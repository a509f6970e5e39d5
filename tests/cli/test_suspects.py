import re

import numpy as np
import pytest
from pyarrow import csv

import csrr
from csrr.data.synthetic import NOISE
from csrr.registry import MODELS
from tests.cli.conftest import as_json, in_process


@pytest.fixture(scope="module")
def noisy_file(tmp_path_factory):
    """A log with noise, weights, times and titles as CSV, and where its noise is: the pairs."""
    made = csrr.synthetic(150, 80, rank=4, events_per_user=15, noise=0.2, seed=4)
    log = made.log
    path = tmp_path_factory.mktemp("noisy") / "noisy.csv"
    rows = zip(log.user_rows, log.item_rows, strict=True)
    lines = [f"{user},{item},{1 + at % 3},{1000 + at},{log.title(item)}" for at, (user, item) in enumerate(rows)]
    path.write_text("\n".join(["user,item,count,timestamp,title", *lines]) + "\n")
    noise = made.truth == NOISE
    return path, set(zip(log.user_rows[noise].tolist(), log.item_rows[noise].tolist(), strict=True))


def test_suspects_are_those_of_python(model, model_file):
    found = model.suspects()
    told = as_json("suspects", model_file, "-n", 5)
    assert told["suspects"] == list(found.events.head(5).rows())
    assert told["noise_share"] == found.noise_share
    assert told["n_events"] == told["n_suspects"] == len(found)
    assert "stability" not in told
    told = as_json("suspects", model_file, "--popularity", 0.5, "--by", "user")
    assert told["suspects"] == list(model.suspects(popularity=0.5).users.head(20).rows())


def test_the_table_names_titles_and_the_share_of_noise(model, model_file):
    first, header, *rows = in_process("suspects", model_file, "-n", 3, "--by", "item").stdout.splitlines()
    found = model.suspects()
    assert first == found.describe_share()
    assert first.startswith(f"{found.noise_share:.1%} of {len(found):,} events look like noise")
    assert header.split() == ["item", "title", "clicks", "noise"]
    assert [title in row for title, row in zip(found.items["title"], rows, strict=False)] == [True] * 3


def test_a_file_has_all_that_are_suspect_enough(model, model_file, tmp_path):
    out = tmp_path / "suspects.csv"
    text = in_process("suspects", model_file, "--min-score", 0.5, "-n", 1, "-o", out).stdout
    written = csv.read_csv(out)
    expected = (model.suspects().scores >= 0.5).sum()
    assert 1 < expected == written.num_rows
    assert written.column_names == ["user", "item", "title", "score", "unexplained"]
    assert f"{out}: {expected:,} events" in text
    assert as_json("suspects", model_file, "-o", out)["output"] == str(out)


@pytest.mark.parametrize("kind", [csrr.EASE, csrr.ItemKNN])
def test_models_without_v_judge_too(kind, noisy_file, tmp_path):
    path, noise = noisy_file
    model = kind().fit(csrr.read(path))
    model.save(tmp_path / "model.csrr")
    told = as_json("suspects", tmp_path / "model.csrr", "-n", 100)
    assert told["suspects"] == list(model.suspects().events.head(100).rows())
    found = sum((row["user"], row["item"]) in noise for row in told["suspects"])
    assert found / 100 > 2 * len(noise) / told["n_events"]


def test_the_help_names_those_that_judge():
    able = {name for name, kind in MODELS.items() if kind.can("suspects")}
    text = " ".join(in_process("suspects", "--help").stdout.split())
    assert able == set(re.findall(r"[A-Z]\w+", re.search("MODEL is an? ([^:]*):", text)[1]))


def test_stability_is_printed_beside(model, model_file):
    told = as_json("suspects", model_file, "-n", 1, "--stability")["stability"]
    expected = list(model.stability().rows())
    assert [row["change"] for row in told] == [row["change"] for row in expected]
    assert told[1]["suspects_kept"] == pytest.approx(expected[1]["suspects_kept"])
    assert "nine tenths of the clicks" in in_process("suspects", model_file, "--stability").stdout


def test_clean_writes_what_python_keeps(noisy_file, tmp_path):
    path, noise = noisy_file
    out, removed = tmp_path / "clean.csv", tmp_path / "removed.csv"
    told = as_json("clean", path, "-o", out, "--removed", removed, "--above", 0.5)
    log = csrr.read(path)
    left = csrr.plan_cleaning(log, above=0.5).log
    again = csrr.read(out)
    np.testing.assert_array_equal(again.weights, left.weights)
    np.testing.assert_array_equal(again.times, left.times)
    assert again.users.ids[again.user_rows].tolist() == left.users.ids[left.user_rows].tolist()
    assert again.items.ids[again.item_rows].tolist() == left.items.ids[left.item_rows].tolist()
    assert {again.title(0), again.title(5)} <= set(log.titles)
    gone = csv.read_csv(removed).to_pydict()
    assert told["n_events"] == len(log)
    assert told["n_removed"] == len(gone["user"]) == len(log) - len(left)
    assert min(gone["score"]) > 0.5
    found = sum(pair in noise for pair in zip(gone["user"], gone["item"], strict=True))
    assert found / told["n_removed"] > 3 * (len(noise) - found) / len(left)


def test_clean_says_how_many_and_takes_a_bar_and_reading_options(noisy_file, tmp_path):
    path, _ = noisy_file
    text = in_process("clean", path, "-o", tmp_path / "a.csv", "--above", 0.9, "--weight-column", "none").stdout
    log = csrr.read(path, weight=False)
    n_left = len(csrr.plan_cleaning(log, above=0.9).log)
    assert text == f"{tmp_path / 'a.csv'}: {len(log) - n_left:,} of {len(log):,} events removed, {n_left:,} left\n"
    assert csrr.read(tmp_path / "a.csv").weights is None


def test_clean_never_writes_over_its_log(noisy_file, tmp_path, monkeypatch):
    path, _ = noisy_file
    before = path.read_bytes()
    monkeypatch.chdir(path.parent)
    for args in (["-o", path], ["-o", "noisy.csv"], ["-o", tmp_path / "x.csv", "--removed", path]):
        result = in_process("clean", path, *args)
        assert result.exit_code == 2
        assert "is the log itself" in result.stderr
    assert path.read_bytes() == before
    assert not (tmp_path / "x.csv").exists()


def test_mistakes(model_file, noisy_file, tmp_path):
    path, _ = noisy_file
    csrr.EASE().fit(csrr.read(path)).save(tmp_path / "ease.csrr")
    csrr.PopRank().fit(csrr.read(path)).save(tmp_path / "popular.csrr")
    csrr.MCShift(threads=1).fit(csrr.read(path)).save(tmp_path / "shift.csrr")
    for args, words in (
        (["suspects", tmp_path / "ease.csrr", "--stability"], "(--stability); these do: CSRR, CSRRe\n"),
        (["suspects", tmp_path / "shift.csrr"], "MCShift does not tell noise from taste; these do: CSRR, CSRRe, "),
        (["suspects", tmp_path / "popular.csrr"], "PopRank does not tell noise from taste; these do: CSRR, CSRRe, "),
        (["suspects", model_file, "--popularity", 2], "--popularity"),
        (["suspects", model_file, "-o", tmp_path / "a.txt"], "must end in .csv"),
        (["suspects", model_file, "-n", 0], "-n"),
        (["clean", path, "-o", tmp_path / "a.csv", "--above", 0], "--above"),
        (["clean", path, "-o", tmp_path / "a.csv", "--removed", tmp_path / "a.csv"], "same file"),
        (["clean", path, "-o", tmp_path / "none" / "a.csv"], "no such folder"),
        (["clean", tmp_path / "none.csv", "-o", tmp_path / "a.csv"], "none.csv"),
    ):
        result = in_process(*args)
        assert result.exit_code == 2, args
        assert words in result.stderr, (args, result.stderr)
    assert not (tmp_path / "a.csv").exists()


def test_a_dry_run_shows_what_would_go_and_writes_nothing(noisy_file, tmp_path):
    path, _ = noisy_file
    before = sorted(tmp_path.iterdir())
    planned = csrr.plan_cleaning(csrr.read(path), above=0.5)
    out = ["-o", tmp_path / "a.csv", "--removed", tmp_path / "b.csv"]
    for files in ([], out):
        text = in_process("clean", path, "--dry-run", "--above", 0.5, *files).stdout
        assert text == f"{planned}\n".replace("`above`", "--above")
        told = as_json("clean", path, "--dry-run", "--above", 0.5, *files)
        assert told["n_removed"] == planned.mask.sum() > 0
        assert told["examples"] == list(planned.removed.head(10).rows())
        assert told["choices"] == list(planned.choices.rows())
        assert told["output"] is told["removed"] is None
        assert told["warning"] == planned.warning.replace("`above`", "--above")
    assert sorted(tmp_path.iterdir()) == before
    result = in_process("clean", path)
    assert result.exit_code == 2
    assert "--dry-run" in result.stderr


def test_clean_is_on_the_safe_side_and_says_so_where_noise_is_in_doubt(noisy_file, tmp_path):
    path, _ = noisy_file
    log = csrr.read(path)
    planned = csrr.plan_cleaning(log)
    result = in_process("clean", path, "-o", tmp_path / "a.csv")
    assert f"{planned.mask.sum():,} of {len(log):,} events removed" in result.stdout
    assert planned.suspects.is_doubtful == result.stderr.startswith("warning: ")
    assert planned.suspects.is_doubtful
    assert planned.mask.sum() <= 0.01 * len(log)
