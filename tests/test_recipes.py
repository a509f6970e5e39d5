"""The recipes: their numbers are those of the results."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RECIPE = ROOT / "docs" / "recipes" / "noisy-logs.md"
RESULTS = ROOT / "docs" / "results"
SUSPECTS = json.loads((RESULTS / "suspects.json").read_text())


def test_outside_of_the_tables_the_summary_has_no_number_on_finding_noise():
    text = RECIPE.read_text()
    section = text[text.index("## In short") : text.index("## How accurate it is")]
    prose = re.sub(r"<!-- (\w+): made by.*?<!-- end of \1 -->", "", section, flags=re.DOTALL)
    assert "AUC" not in prose
    assert not re.search(r"suspect[^.]*\d %", prose)


@pytest.mark.parametrize("part", ["chosen", "fresh"])
def test_no_log_lost_more_than_two_percent_of_its_clean_clicks(part):
    assert len({row["data"] for row in SUSPECTS[part]}) >= 10
    assert max(row["clean removed, default"] for row in SUSPECTS[part]) <= 0.02


def test_a_table_has_the_means_of_its_rows():
    rows = [row for row in SUSPECTS["chosen"] if (row["data"], row["kind"]) == ("sharp topics", "random")]
    half = [row for row in rows if row["planted"] == 0.4]
    cells = next(line for line in RECIPE.read_text().splitlines() if line.startswith("| sharp topics"))
    assert f"{sum(row['estimate'] for row in half) / len(half):.2f}"[1:] in cells.split("|")[5]


def test_the_memory_measured_is_within_reach():
    found = json.loads((RESULTS / "stream.json").read_text())
    assert set(found["formats"]) == {"parquet", "csv", "jsonl", "arrow"}
    assert all(each["n_users"] == 29858 and each["above_mb"] < 300 for each in found["formats"].values())


def test_all_scores_in_vectors_find_more_than_u_alone():
    rows = json.loads((RESULTS / "vectors.json").read_text())["rows"]
    alone, *whole = [row["vector_recall"] for row in rows if row["to"] == "faiss" and "CSRR" in row["model"]]
    assert alone < min(whole)
