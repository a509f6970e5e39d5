"""Results of benchmarks in a file: each with its command, machine, day and versions, written as it comes."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from csrr._base.files import write_text
from csrr_paper.results import describe_machine, read_versions

RESULTS = Path(__file__).parents[1] / "docs" / "results"


def describe_origin(command: str) -> dict[str, Any]:
    """How, where, when and by what a result was obtained."""
    rival = {"implicit": version("implicit")} if find_spec("implicit") else {}
    return {
        "command": command,
        "machine": describe_machine(),
        "when": datetime.now(UTC).strftime("%Y-%m-%d"),
        "versions": read_versions() | rival,
    }


def read_results(path: Path) -> dict[str, Any]:
    """What was kept in a file; nothing if there is none."""
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def keep_result(path: Path, name: str, result: dict[str, Any]) -> None:
    """Put a result into the file, beside what it holds by now, at once or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(read_results(path) | {name: result}, indent=1, default=_to_plain)
    write_text(path, re.sub(r"\[[^][{}]*\]", lambda plain: " ".join(plain[0].split()), text) + "\n")


def _to_plain(value: Any) -> Any:
    """A number of numpy's as one of Python's."""
    return value.item()
