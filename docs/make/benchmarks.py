"""docs/benchmarks.md, whole: its words are docs/make/benchmarks.md.in, its numbers those of docs/results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.keep import RESULTS
from benchmarks.rows import ROWS
from docs.make.defaults import list_gpu, list_shortfalls, make_table
from docs.make.origins import Origins

WORDS = Path(__file__).with_name("benchmarks.md.in")
HEAD = [
    "| data | measure | csrr | baseline | target | reached | `python -m benchmarks` | run |",
    "|---|---|---|---|---|---|---|---|",
]


def read_rows() -> dict[str, Any]:
    """What `python -m benchmarks` has kept, by the names of its rows."""
    found: dict[str, Any] = json.loads((RESULTS / "benchmarks.json").read_text())
    return found


def make_page(kept: dict[str, Any]) -> str:
    """The page of all that was measured; a `{name}` of its words that no result has is a KeyError."""
    origins = Origins()
    names = {
        "defaults": make_table(origins),
        "solvers": make_solver_table(kept, origins),
        "short": list_shortfalls(),
        "gpu": list_gpu(),
        "rows": {name: each["values"] for name, each in kept.items()},
    }
    return WORDS.read_text().format(**names, origins=origins.list_lines())


def make_solver_table(kept: dict[str, Any], origins: Origins) -> str:
    """The rows that were measured, in the order in which they are declared; those that were not are not there."""
    lines = []
    for name, row in ROWS.items():
        if name in kept:
            values = kept[name]["values"]
            shown = " | ".join((*row.show(values), row.judge(values)))
            lines.append(f"| {shown} | `{name}` | {origins.mark([kept[name]])} |")
    return "\n".join([*HEAD, *lines])
