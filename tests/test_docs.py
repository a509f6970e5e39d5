"""The documents name files that exist, and every file of the path is on it."""

import importlib.util
import json
import re
from pathlib import Path

import pytest
from pyarrow import parquet

from csrr.paper import render_html, render_markdown
from csrr.paper.printed import DATA

ROOT = Path(__file__).parents[1]
NAMED = set(re.findall(r"`(src/csrr/[\w/]+\.py)`", (ROOT / "docs" / "path.md").read_text()))


def test_the_path_names_files_that_exist():
    assert NAMED
    assert [name for name in sorted(NAMED) if not (ROOT / name).exists()] == []


def test_every_file_on_the_way_is_named():
    parts = ("data", "optim", "models", "ranking", "noise", "experiments", "plots", "paper")
    files = {
        str(path.relative_to(ROOT))
        for part in parts
        for path in (ROOT / "src" / "csrr" / part).rglob("*.py")
        if path.name != "__init__.py"
    }
    assert files - NAMED == set()


def test_the_readme_s_tables_are_those_of_the_results():
    spec = importlib.util.spec_from_file_location("from_results", ROOT / "docs" / "from_results.py")
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    readme = (ROOT / "README.md").read_text()
    assert maker.with_tables(readme) == readme
    assert "| MovieLens-1M | PopRank |" in readme
    assert "| CiteULike-a, 5-core" in readme


def test_the_page_in_the_docs_is_made_of_the_results():
    summary = json.loads((ROOT / "docs" / "results" / "summary.json").read_text())
    assert (ROOT / "docs" / "reproduction.md").read_text() == render_markdown(summary)
    assert (ROOT / "docs" / "reproduction.html").read_text() == render_html(summary)


def test_the_results_have_every_row_that_the_summary_speaks_of():
    summary = json.loads((ROOT / "docs" / "results" / "summary.json").read_text())
    rows = parquet.read_table(ROOT / "docs" / "results" / "rows.parquet").to_pylist()
    for table in summary["comparison"]:
        for row in table["rows"]:
            at_least = DATA[table["data"]].at_least[table["protocol"]]
            found = [
                each["recall@5"]
                for each in rows
                if (each["data"], each["at_least"], each["system"]) == (table["data"], at_least, row["system"])
            ]
            assert len(found) >= 1
            assert sum(found) / len(found) == pytest.approx(row["cells"]["R@5"]["mean"])
