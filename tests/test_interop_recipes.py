"""The recipes for batches, vectors and other libraries run where these are."""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import csrr

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPTIONAL = ("implicit", "faiss", "hnswlib", "rectools", "lenskit", "sklearn", "optuna")


def read_recipe(name):
    return (DOCS / "recipes" / name).read_text()


def lacks_library(block):
    """Return whether a block imports a library that is not here."""
    return any(
        re.search(rf"^\s*(import|from) {name}\b", block, re.MULTILINE) and not find_spec(name) for name in OPTIONAL
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "least"), [("batches.md", 6), ("vector-index.md", 3), ("other-libraries.md", 4)])
def test_a_recipe_runs(name, least, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope, n_run = {}, 0
    for kind, block in BLOCK.findall(read_recipe(name)):
        if lacks_library(block) or (kind == "bash" and "faiss" in block and not find_spec("faiss")):
            continue
        n_run += 1
        if kind == "python":
            exec(compile(block, name, "exec"), scope)  # noqa: S102
        else:
            shell = f'set -e\ncsrr() {{ "{sys.executable}" -c "from csrr.cli import main; main()" "$@"; }}\n{block}'
            here = os.environ | {"PYTHONPATH": str(Path(csrr.__file__).parents[1])}
            done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=300, env=here)
            assert done.returncode == 0, done.stderr
    assert n_run >= least


def test_the_memory_measured_is_within_reach():
    found = json.loads((DOCS / "results" / "stream.json").read_text())
    assert set(found["formats"]) == {"parquet", "csv", "jsonl", "arrow"}
    assert all(each["n_users"] == 29858 and each["above_mb"] < 300 for each in found["formats"].values())


def test_all_scores_in_vectors_find_more_than_u_alone():
    rows = json.loads((DOCS / "results" / "vectors.json").read_text())["rows"]
    alone, *whole = [row["vector_recall"] for row in rows if row["to"] == "faiss" and "CSRR" in row["model"]]
    assert alone < min(whole)
