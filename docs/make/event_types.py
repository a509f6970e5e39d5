"""Weights by type of event: docs/results/event_types.json in Markdown, for the recipe of views and purchases."""

from __future__ import annotations

import json

from benchmarks.event_types import MODELS
from benchmarks.keep import RESULTS

WAYS = ("every pair alike", "purchases weigh 3", "purchases weigh 10")


def make_table() -> str:
    """A row for each model: NDCG@10 over all items, and over those that are new to the user."""
    found = json.loads((RESULTS / "event_types.json").read_text())
    lines = [f"| all items / new ones | {' | '.join(WAYS)} |", "|---|---|---|---|"]
    for name in MODELS:
        cells = [
            " / ".join(f"{found[f'{name}/{way}'][part]:.4f}".lstrip("0") for part in ("all", "new")) for way in WAYS
        ]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
