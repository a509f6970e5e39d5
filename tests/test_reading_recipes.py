"""The recipes for reading run, and print what they say."""

import io
import re
import shlex
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from click.testing import CliRunner

from csrr.cli import app

RECIPES = Path(__file__).parents[1] / "docs" / "recipes"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", ["reading.md", "databases.md"])
def test_a_recipe_runs_and_prints_what_it_says(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope, printed, checked = {}, None, 0
    for kind, text in BLOCK.findall((RECIPES / name).read_text()):
        if kind == "python":
            with redirect_stdout(io.StringIO()) as out:
                exec(compile(text, name, "exec"), scope)  # noqa: S102
            printed = out.getvalue()
        elif kind == "text":
            assert printed == text
            checked += 1
        else:
            for line in text.splitlines():
                program, *args = shlex.split(line)
                result = CliRunner().invoke(app, args)
                assert (program, result.exit_code) == ("csrr", 0), result.stderr
                checked += 1
    assert checked >= 5
