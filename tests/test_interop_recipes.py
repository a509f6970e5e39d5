"""What the recipes for batches and vectors say was measured is within reach."""

import json
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def test_the_memory_measured_is_within_reach():
    found = json.loads((DOCS / "results" / "stream.json").read_text())
    assert set(found["formats"]) == {"parquet", "csv", "jsonl", "arrow"}
    assert all(each["n_users"] == 29858 and each["above_mb"] < 300 for each in found["formats"].values())


def test_all_scores_in_vectors_find_more_than_u_alone():
    rows = json.loads((DOCS / "results" / "vectors.json").read_text())["rows"]
    alone, *whole = [row["vector_recall"] for row in rows if row["to"] == "faiss" and "CSRR" in row["model"]]
    assert alone < min(whole)
