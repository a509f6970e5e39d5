"""The tasks of a first week, on a real log, in one short script."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "examples" / "first_week.py"


@pytest.mark.skipif("CSRR_DATA_DIR" not in os.environ, reason="CSRR_DATA_DIR is not set")
def test_the_tasks_of_a_first_week_are_one_short_script(tmp_path):
    pytest.importorskip("faiss")
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said = done.stdout
    for words in (
        "weight 'Hours'",
        "The Elder Scrolls V Skyrim (item 1) for user 1: score",
        "lists.parquet",
        "   0    10     1  0.0000  Team Fortress 2 ",
        "chosen when the log had",
        "Neighbors of 1\n",
        "series\n",
        "Recommendations: 2 users, k = 2",
        "mean difference over",
        "Tuning: 3 trials of ItemKNN",
        "recall@10 of the exact lists",
    ):
        assert words in said, words
    assert len(SCRIPT.read_text().splitlines()) < 80
