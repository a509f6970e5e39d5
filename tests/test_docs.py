"""The documents name files that exist, and every file of the path is on it."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAMED = set(re.findall(r"`(src/csrr/[\w/]+\.py)`", (ROOT / "docs" / "path.md").read_text()))


def test_the_path_names_files_that_exist():
    assert NAMED
    assert [name for name in sorted(NAMED) if not (ROOT / name).exists()] == []


def test_every_file_on_the_way_is_named():
    parts = ("data", "optim", "models", "ranking", "experiments", "report")
    files = {
        str(path.relative_to(ROOT))
        for part in parts
        for path in (ROOT / "src" / "csrr" / part).glob("*.py")
        if path.name != "__init__.py"
    }
    assert files - NAMED == set()
