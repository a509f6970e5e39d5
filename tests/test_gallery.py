"""The gallery: every example is on it, and its notebook runs and shows tables and plots."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sphinx_gallery")

from docs.make.gallery import ORDER, STAMP, is_stale, write_stamp

GALLERY = Path(__file__).parents[1] / "examples" / "gallery"


def test_every_example_has_its_place():
    assert sorted(ORDER) == sorted(path.stem.removeprefix("plot_") for path in GALLERY.glob("*.py"))
    assert 8 <= len(ORDER) <= 12


def test_no_notebook_is_kept():
    assert list(GALLERY.parent.rglob("*.ipynb")) == []


def test_examples_run_again_when_csrr_has_changed(tmp_path):
    assert is_stale(tmp_path)
    write_stamp(tmp_path)
    assert not is_stale(tmp_path)
    (tmp_path / STAMP).write_text("another")
    assert is_stale(tmp_path)


def test_a_notebook_runs_and_shows_tables_and_plots(tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    script = shutil.copy(GALLERY / "plot_reasons.py", tmp_path)
    command = [sys.executable, "-c", "from sphinx_gallery.notebook import python_to_jupyter_cli as run; run()"]
    subprocess.run([*command, script], check=True, capture_output=True, timeout=60)
    notebook = nbformat.read(Path(script).with_suffix(".ipynb"), 4)
    assert all(not cell.get("outputs") for cell in notebook.cells)
    where = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=120, resources=where).execute()
    kinds = [kind for cell in notebook.cells for each in cell.get("outputs", []) for kind in each.get("data", {})]
    assert kinds.count("text/html") >= 3
    assert kinds.count("image/svg+xml") == 1
