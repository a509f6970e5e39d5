"""`csrr reproduce`: plan, page, files, and what goes wrong."""

import json

import pytest
from pyarrow import parquet

from csrr_paper.results import ResultStore

from .conftest import as_json, in_child, in_process

SMALL = ("--quick", "--table", "comparison", "--system", "PopRank", "--system", "MC-Shift")


@pytest.fixture
def folder(tmp_path, ratings):
    return tmp_path / "results"


def test_a_page_a_text_and_a_file_of_numbers_are_written(folder):
    result = in_process("reproduce", *SMALL, "--results", folder)
    assert result.exit_code == 0, result.stderr
    assert "4 results; about" in result.stderr
    assert "2 splits, is not evidence." in result.stdout
    assert "In this run, NDCG@5 is within 5 % of the printed value for " in result.stdout
    page = (folder / "page.html").read_text()
    assert "MC-Shift" in page
    assert "PopRank" in (folder / "page.md").read_text()
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["made"]["command"] == "csrr reproduce --table comparison --system PopRank --system MC-Shift --quick"
    table = parquet.read_table(folder / "rows.parquet")
    assert table["system"].to_pylist() == ["PopRank", "MC-Shift", "PopRank", "MC-Shift"]
    assert sorted(table["split"].to_pylist()) == [0, 0, 1, 1]
    assert {"params", "versions", "machine", "made", "fit_s", "ndcg@10", "certificate"} <= set(table.column_names)
    assert str(folder) not in page + json.dumps(summary)


def test_again_it_says_what_is_there_already(folder):
    in_process("reproduce", *SMALL, "--results", folder)
    result = in_process("reproduce", *SMALL, "--results", folder, "--page", folder / "again.html")
    assert "4 results, 4 of them there already" in result.stderr
    assert (folder / "again.html").exists()
    assert (folder / "again.md").exists()


def test_curves_under_noise_go_onto_the_page_too(folder, log_file, tmp_path):
    noise = tmp_path / "noise"
    asked = ("--kind", "random", "--share", 0.3, "--system", "EASE", "--seeds", 1, "--results", noise)
    assert in_process("robustness", log_file, *asked).exit_code == 0
    found = as_json("reproduce", *SMALL, "--results", folder, "--robustness", noise)
    assert found["summary"]["figures"]["robustness"]["panels"][0]["title"] == "Random clicks"
    assert "Noise in the training data" in (folder / "page.html").read_text()
    empty = in_process("reproduce", *SMALL, "--results", folder, "--robustness", tmp_path)
    assert empty.exit_code == 2
    assert "holds no results of csrr robustness" in empty.stderr


def test_as_json(folder):
    found = as_json("reproduce", *SMALL, "--results", folder)
    assert found["page"] == str(folder / "page.html")
    assert [row["system"] for row in found["summary"]["comparison"][0]["rows"]] == ["PopRank", "MC-Shift"]


def test_the_plan_says_how_long_it_takes_and_does_nothing(folder):
    result = in_process("reproduce", *SMALL, "--results", folder, "--plan")
    assert result.stdout.startswith("comparison, ml-100k, numbers, 2 splits: 4 results\n")
    assert "about" in result.stdout.splitlines()[-1]
    found = as_json("reproduce", *SMALL, "--results", folder, "--plan")
    assert found["results"] == 4
    assert found["seconds"] > 0
    assert not folder.exists()


def test_the_plan_can_be_asked_for_while_a_run_is_going(folder):
    in_process("reproduce", *SMALL[:-2], "--results", folder)
    with ResultStore.open(folder):
        result = in_process("reproduce", *SMALL, "--results", folder, "--plan")
    assert "4 results, 2 of them there already" in result.stdout


def test_the_page_has_all_that_the_folder_has(folder):
    in_process("reproduce", *SMALL, "--results", folder)
    in_process("reproduce", "--quick", "--table", "ablation", "--splits", "1", "--results", folder)
    summary = json.loads((folder / "summary.json").read_text())
    assert [row["system"] for row in summary["comparison"][0]["rows"]] == ["PopRank", "MC-Shift", "CSRR-I"]
    assert len(summary["ablation"]) == 1


def test_a_page_that_cannot_be_written_is_refused_before_the_run(folder):
    result = in_process("reproduce", *SMALL, "--results", folder, "--page", folder / "no" / "page.html")
    assert result.exit_code == 2
    assert not folder.exists()


def test_what_cannot_be_fitted_is_said_and_the_rest_is_done(folder, monkeypatch):
    from csrr_paper.systems import SYSTEMS

    monkeypatch.setitem(SYSTEMS["WRMF, 256 factors"].fixed, "rank", 5000)
    result = in_process("reproduce", *SMALL[:3], "--system", "WRMF, 256 factors", *SMALL[3:], "--results", folder)
    assert result.exit_code == 2
    assert "2 of 6 results could not be had; the first, ml-100k, numbers, split 0, WRMF, 256 factors:" in result.stderr
    assert "5000" in result.stderr
    assert len(list((folder / "rows").glob("*.json"))) == 4
    assert (folder / "page.html").exists()


def test_without_the_extras_it_says_what_to_install(folder, monkeypatch):
    monkeypatch.setattr("csrr_paper.cmd_reproduce.find_spec", lambda name: None)
    result = in_process("reproduce", *SMALL, "--results", folder)
    assert result.exit_code == 2
    assert "pip install 'csrr[reproduce]'" in result.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--table", "comparisons"], "'comparisons' is not one of 'comparison', 'ablation'"),
        (["--figure", "ablation"], "'ablation' is not one of 'cost', 'step', 'strengths'"),
        (["--protocol", "words"], "'words' is not one of 'numbers', 'text', 'all-ratings'"),
        (["--data", "ml-1m"], "ml-1m.zip (1,000,209 ratings of 3,706 movies) is not in"),
        (["--data", "eachmovie"], "it cannot be downloaded: put a copy of your own there"),
        (["--system", "SVD"], "--system='SVD' must be one of PopRank"),
        (
            ["--figure", "step", "--protocol", "text"],
            "the paper has none of that; name the table or figure and the data",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(folder, args, message):
    result = in_process("reproduce", *args, "--results", folder)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") <= 2
    assert not folder.exists()


def test_a_command_to_fetch_is_a_command(folder):
    assert "`csrr data fetch ml-1m`" in in_process("reproduce", "--data", "ml-1m", "--results", folder).stderr


def test_two_runs_into_one_folder(folder):
    with ResultStore.open(folder):
        result = in_process("reproduce", *SMALL, "--results", folder)
    assert result.exit_code == 2
    assert "another run is writing its results there" in result.stderr


def test_results_of_another_version(folder):
    folder.mkdir()
    (folder / "results.json").write_text('{"format": 1, "csrr": "9.9"}')
    result = in_process("reproduce", *SMALL, "--results", folder)
    assert result.exit_code == 2
    assert "its results are of csrr 9.9 (format 1)" in result.stderr


def test_a_full_disk_is_said_and_nothing_is_lost(folder):
    """A limit on the size of files stands for the full disk."""
    in_process("reproduce", *SMALL[:-2], "--results", folder)
    kept = {path: path.read_bytes() for path in folder.rglob("*.json") if path.name != "runs.json"}
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400)); "
    result = in_child("reproduce", *SMALL, "--results", folder, before=limited)
    assert result.returncode == 2
    assert "the results so far are in" in result.stderr
    assert "File too large" in result.stderr
    assert all(path.read_bytes() == content for path, content in kept.items())


def test_several_workers_find_what_one_finds(folder, tmp_path):
    asked = (*SMALL, "--tune", "each")
    one = in_process("reproduce", *asked, "--results", folder)
    two = in_child("reproduce", *asked, "--results", tmp_path / "two", "--workers", "2")
    assert two.returncode == 0, two.stderr
    rows = [parquet.read_table(each / "rows.parquet") for each in (folder, tmp_path / "two")]
    same = ["system", "split", "params", "ndcg@10", "recall@5", "n_evaluated"]
    assert rows[0].select(same).equals(rows[1].select(same))
    lists = [parquet.read_table(each / "lists.parquet") for each in (folder, tmp_path / "two")]
    assert lists[0].equals(lists[1])
    runs = json.loads((tmp_path / "two" / "summary.json").read_text())["made"]["runs"]
    assert [(each["workers"], each["results"]) for each in runs] == [(2, 4)]
    assert runs[0]["seconds"] > 0
    assert one.exit_code == 0


def test_a_run_that_did_nothing_is_no_run(folder):
    for _ in range(2):
        in_process("reproduce", *SMALL, "--results", folder)
    assert len(ResultStore(folder).read_runs()) == 1


def test_a_long_run_into_a_file_says_now_and_then_how_far_it_is(folder, monkeypatch):
    monkeypatch.setattr("csrr._base.progress.SECONDS_BETWEEN_LINES", 0.0)
    result = in_process("reproduce", *SMALL, "--results", folder)
    lines = result.stderr.splitlines()
    assert any(line.startswith("1 of 4, ") and "MC-Shift" in line for line in lines)
    assert "\r" not in result.stderr


def test_data_that_are_not_there_are_left_out_unless_they_are_named(folder, monkeypatch):
    found = in_process("reproduce", "--plan")
    assert found.exit_code == 0
    assert "comparison, ml-100k, numbers" in found.stdout
    assert "ml-1m" not in found.stdout
    assert "left out: eachmovie-heavy.zip" in found.stderr
    assert "`csrr data fetch ml-1m` downloads it" in found.stderr
    named = in_process("reproduce", "--plan", "--data", "ml-1m")
    assert named.exit_code == 2
    assert "ml-1m.zip" in named.stderr
    monkeypatch.setenv("CSRR_DATA_DIR", str(folder))
    nothing = in_process("reproduce", "--plan")
    assert nothing.exit_code == 2
