"""The recipe for a first look runs, and prints what it says."""

import io
import re
import shlex
from contextlib import redirect_stdout
from pathlib import Path

from click.testing import CliRunner

from csrr.cli import app

RECIPE = Path(__file__).parents[1] / "docs" / "recipes" / "first-look.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_recipe_runs_and_prints_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope, printed, checked = {}, None, 0
    for kind, text in BLOCK.findall(RECIPE.read_text()):
        if kind == "python":
            with redirect_stdout(io.StringIO()) as out:
                exec(compile(text, RECIPE.name, "exec"), scope)  # noqa: S102
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
    assert checked == 4
    assert {each.name for each in (tmp_path / "first-look").iterdir()} >= {"page.html", "summary.json", "model.csrr"}
