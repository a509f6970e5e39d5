"""Runs the code of a page, Python in one scope and commands in a shell; what is printed must be what the page says."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import warnings
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import csrr

BLOCK = re.compile(r"^```(python|bash|sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OTHERS = ("implicit", "faiss", "hnswlib", "rectools", "lenskit", "surprise", "sklearn", "optuna", "pandas", "polars")
"""Libraries that may be missing here; blocks that import them are run where they are."""
LONGEST_SECONDS = 300


@dataclass
class Page:
    """What came of a page: the names its Python left behind, and the kinds of the blocks that ran."""

    scope: dict[str, Any] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)


def list_libraries(block: str) -> list[str]:
    """Return those of the other libraries that a block imports, or that a command asks for."""
    imported = r"^\s*(?:import|from) {0}\b|--to {0}\b"
    return [name for name in OTHERS if re.search(imported.format(name), block, re.MULTILINE)]


def run_command(block: str) -> str:
    """Return what commands print, `csrr` being the one under test."""
    shell = f'set -e\ncsrr() {{ "{sys.executable}" -m csrr "$@"; }}\n{block}'
    here = os.environ | {"PYTHONPATH": str(Path(csrr.__file__).parents[1])}
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=LONGEST_SECONDS, env=here)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_page(path: Path) -> Page:
    """Run the blocks of a page in the current folder, in order; a ```text block is what the one before it prints."""
    page, printed = Page(), None
    for kind, block in BLOCK.findall(path.read_text()):
        if kind == "text":
            assert printed in (None, block)
            continue
        printed = None
        others = list_libraries(block)
        if not all(find_spec(name) for name in others):
            continue
        if kind == "python":
            with redirect_stdout(io.StringIO()) as out, warnings.catch_warnings():
                # What csrr has to say would be on the page.
                if others:
                    warnings.simplefilter("ignore")
                exec(compile(block, path.name, "exec"), page.scope)  # noqa: S102
            printed = out.getvalue()
        else:
            printed = run_command(block)
        page.ran.append(kind)
    return page
