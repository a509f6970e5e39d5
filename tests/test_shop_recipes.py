"""The recipes for item tables and for the rules of a shop run."""

import re
from pathlib import Path

import pytest

RECIPES = Path(__file__).parents[1] / "docs" / "recipes"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", ["titles-and-categories.md", "shop-rules.md"])
def test_a_recipe_runs(name, tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((RECIPES / name).read_text())
    assert len(blocks) >= 5
    scope = {}
    for block in blocks:
        exec(compile(block, name, "exec"), scope)  # noqa: S102
    assert "found" in scope
