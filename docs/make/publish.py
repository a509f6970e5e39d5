"""Publishing to databases: docs/results/publish.json in Markdown, for the recipe of databases."""

from __future__ import annotations

import json

from benchmarks.keep import RESULTS

NAMES = {"only computed": "lists computed, nothing written", "postgresql": "PostgreSQL", "sqlite": "SQLite"}


def make_table() -> str:
    """A row for each database."""
    kept = json.loads((RESULTS / "publish.json").read_text())
    head = f"| {kept['n_users']:,} users of Gowalla, k = {kept['k']} | seconds | rows a second | one list read, ms |"
    rows = [head, "|---|---|---|---|"]
    for name, seconds in kept["seconds"].items():
        read = f"{kept['read_ms'][name]:.2f}" if name in kept["read_ms"] else ""
        rows.append(f"| {NAMES[name]} | {seconds:.1f} | {kept['n_rows'] / seconds:,.0f} | {read} |")
    if kept.get("busy"):
        rows += [
            "",
            "Measured while other work kept both cores busy: compare the rows, not the seconds with elsewhere.",
        ]
    return "\n".join(rows) + "\n"
