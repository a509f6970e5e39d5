"""docs/results/suspects.json -> the tables and sentences on finding noise, in Markdown."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean
from typing import Any

from csrr_paper.robustness_results import TITLES

RESULTS = Path(__file__).parents[1] / "results"
SUSPECTS = json.loads((RESULTS / "suspects.json").read_text())
SHARES = (0.0, 0.05, 0.1, 0.4)
PARTS = {
    "chosen": "Logs used to choose the constants",
    "fresh": "Fresh logs, measured after the constants were fixed",
}
LOST, REMOVED = "clean removed, default", "planted removed, default"
Rows = list[dict[str, Any]]


def summarize() -> str:
    """The errors of the share and of cleaning, chosen and fresh logs apart."""
    lines = []
    for part, called in PARTS.items():
        rows = SUSPECTS[part]
        errors = [abs(row["estimate"] - row["planted"]) for row in rows]
        logs = len({row["data"] for row in rows})
        lines.append(
            f"| {called} ({logs}) | {_short(mean(errors))} | {_short(max(errors))} "
            f"| {100 * max(row[LOST] for row in rows):.1f} % | {100 * _mean_of(rows, 0.1, REMOVED):.0f} % "
            f"| {100 * _mean_of(rows, 0.4, REMOVED):.0f} % |"
        )
    head = [
        "| | error of the share, mean | worst | clean clicks removed, worst | planted removed at 10 % | at 40 % |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join(head + lines) + "\n"


def _mean_of(rows: Rows, share: float, name: str) -> float:
    return mean(row[name] for row in rows if row["planted"] == share and row["kind"] == "random")


def make_table(part: str) -> str:
    """By data: the estimates, the AUC, and what cleaning by default does."""
    rows = SUSPECTS[part]
    heads = [f"{100 * share:.0f} %" for share in SHARES]
    last = ["AUC", "clean removed, worst", "planted removed at 10 %", "at 40 %"]
    lines = [f"| planted: | {' | '.join(heads + last)} |", "|---" * (1 + len(heads + last)) + "|"]
    for name in dict.fromkeys(row["data"] for row in rows):
        mine = [row for row in rows if row["data"] == name]
        cells = []
        for share in SHARES:
            some = [row for row in mine if row["planted"] == share and row["kind"] == "random"]
            doubt = "?" if any(row["doubt"] for row in some) else ""
            told, bottom = (_short(mean(row[each] for row in some)) for each in ("estimate", "at the bottom"))
            cells.append(f"{told} ({bottom}){doubt}")
        cells.append(_short(mean(row["auc"] for row in mine if "auc" in row)))
        cells.append(f"{100 * max(row[LOST] for row in mine):.1f} %")
        cells += [f"{100 * _mean_of(mine, share, REMOVED):.0f} %" for share in (0.1, 0.4)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def list_kinds() -> str:
    """How well each kind of noise is found in MovieLens-100K."""
    names = ("suspects()", "rare item", "many clicks")
    lines = ["| kind | `suspects()`: AUC | rule: rare item | rule: many clicks | estimated share |", "|---" * 5 + "|"]
    rows = SUSPECTS["movielens"]["found"]
    for kind in dict.fromkeys(row["kind"] for row in rows):
        means = [_short(mean(row[name] for row in rows if row["kind"] == kind), 3) for name in names]
        share = _short(mean(row["estimate"] for row in rows if row["kind"] == kind))
        lines.append(f"| {TITLES[kind]} | {' | '.join(means)} | {share} |")
    return "\n".join(lines) + "\n"


def list_changes() -> str:
    """What small changes leave of V and of the suspects."""
    lines = ["| change | entries of V recovered | events above .5 recovered |", "|---|---|---|"]
    lines += [
        f"| {row['change']} | {_short(row['v_kept'])} | {_short(row['suspects_kept'])} |"
        for row in SUSPECTS["movielens"]["stability"]
    ]
    return "\n".join(lines) + "\n"


def _short(value: float, digits: int = 2) -> str:
    text = f"{value:.{digits}f}"
    return text[1:] if text.startswith("0.") else text
