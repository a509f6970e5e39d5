"""`csrr reproduce`: plan, page, files, and what goes wrong."""

import json

import pytest
from pyarrow import parquet

from csrr.experiments.rows import Rows

from .conftest import as_json, in_child, in_process

SMALL = ("--quick", "--table", "comparison", "--system", "PopRank", "--system", "MC-Shift")


@pytest.fixture
def folder(tmp_path, ratings):
    return tmp_path / "results"


def test_a_page_a_text_and_a_file_of_numbers_are_written(folder):
    result = in_process("reproduce", *SMALL, "--results", folder)
    assert result.exit_code == 0, result.stderr
    assert "4 results; about" in result.stderr
    assert "MovieLens-100K: " in result.stdout
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
    assert not list((folder / "rows").iterdir())


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--table", "comparisons"], "--table comparisons: there is no such table; there are comparison, ablation"),
        (["--figure", "ablation"], "--figure ablation: there is no such figure; there are cost, step, strengths"),
        (["--protocol", "words"], "there is no protocol 'words'; there are numbers, text, all-ratings"),
        (["--data", "ml-1m"], "ml-1m.zip (1,000,209 ratings of 3,706 movies) is not in"),
        (["--data", "eachmovie"], "it cannot be downloaded: a copy of your own"),
        (["--system", "SVD"], "there is no system 'SVD'"),
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
    with Rows.open(folder):
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
    kept = {path: path.read_bytes() for path in folder.rglob("*.json")}
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400)); "
    result = in_child("reproduce", *SMALL, "--results", folder, before=limited)
    assert result.returncode == 2
    assert "the results so far are in" in result.stderr
    assert "File too large" in result.stderr
    assert all(path.read_bytes() == content for path, content in kept.items())
