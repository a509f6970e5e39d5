"""The recipe for nightly updates runs: its Python here, its commands in a shell."""

import re
import subprocess
import sys
from pathlib import Path

import csrr

DOCS = Path(__file__).parents[1] / "docs"
RECIPE = (DOCS / "recipes" / "nightly-update.md").read_text()
BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_recipe_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope, kinds = {}, []
    for kind, block in BLOCK.findall(RECIPE):
        kinds.append(kind)
        if kind == "python":
            exec(compile(block, "nightly-update.md", "exec"), scope)  # noqa: S102
        else:
            command = f'csrr() {{ "{sys.executable}" -m csrr "$@"; }}\n{block}'
            done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, done.stderr
    assert kinds == ["python", "bash", "bash", "python", "python", "python", "python"]
    assert sorted(path.name for path in Path("done").iterdir()) == ["day-30.csv", "day-31.csv"]
    assert list(Path("incoming").iterdir()) == []
    # The month, two nights and an evening.
    assert csrr.load("model.csrr").seen_.nnz == len(scope["log"]) + 3
