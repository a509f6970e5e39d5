"""Updates beside fits: docs/results/update.json in Markdown, for the recipe of nightly updates."""

from __future__ import annotations

import json

from benchmarks.keep import RESULTS

HEAD = [
    "| data | new events | fit, NDCG@10 | update, NDCG@10 | update / fit | update / fit, CPU time |",
    "|---|---|---|---|---|---|",
]


def make_table() -> str:
    """A row for each data set."""
    rows = []
    for each in json.loads((RESULTS / "update.json").read_text())["results"]:
        ways = [f"{each['seconds'][way]:.1f} s, {each['ndcg@10'][way]:.4f}" for way in ("fit", "update")]
        ratios = [f"{each[name]:.2f}" for name in ("ratio", "cpu_ratio")]
        new = f"{each['new_events']:,} of {each['events']:,}"
        rows.append(f"| {' | '.join([each['data'], new, *ways, *ratios])} |")
    return "\n".join([*HEAD, *rows]) + "\n"
