"""Imports go one way, and no file hides behind a name that says nothing."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "csrr"
MAY_IMPORT = {
    "data": {"data", "threads"},
    "optim": {"optim", "threads", "heap"},
    "ranking": {"ranking", "data", "threads", "heap"},
    "models": {"models", "data", "optim", "ranking", "threads", "files"},
}
FILES = sorted(SOURCE.rglob("*.py"))


def imported_parts(text):
    """Return the parts of our package that a source text imports, at any depth."""
    names = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return {(*name.split("."), "")[1] for name in names if name.split(".")[0] == "csrr"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_one_way(path):
    part = path.relative_to(SOURCE).parts[0]
    assert imported_parts(path.read_text()) <= MAY_IMPORT.get(part, imported_parts(path.read_text()))


def test_the_reader_of_imports_sees_them_all():
    text = "import csrr\nimport csrr.data.log\nfrom csrr import optim\ndef f():\n    from csrr.models.a import B"
    assert imported_parts(text) == {"", "data", "optim", "models"}


@pytest.mark.parametrize("word", ["utils", "helpers", "common", "manager"])
def test_no_file_has_a_name_that_says_nothing(word):
    assert [path for path in SOURCE.rglob("*") if word in path.stem.split("_")] == []
