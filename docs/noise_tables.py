"""docs/results/suspects.json -> the tables and sentences on finding noise, in Markdown."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean
from typing import Any

from csrr.paper.robustness_results import TITLES

RESULTS = Path(__file__).parent / "results"
SUSPECTS = json.loads((RESULTS / "suspects.json").read_text())
SHARES = (0.0, 0.05, 0.1, 0.4)
PARTS = {
    "chosen": "Logs that the constants were chosen on",
    "fresh": "Fresh logs, measured once the scores were fixed",
}
LOST, REMOVED = "clean removed, default", "planted removed, default"
Rows = list[dict[str, Any]]


def make_blocks() -> dict[str, str]:
    """The texts by the name in their marks: `<!-- NAME: made by docs/from_results.py -->` to `<!-- end of NAME -->`."""
    return {
        "suspects": _summarise(),
        **{f"suspects, {part}": _table(SUSPECTS[part]) for part in PARTS},
        "kinds": _kinds(),
        "stability": _stability(),
    }


def fill_blocks(text: str) -> str:
    """The text with all of these that it has marks for."""
    for name, block in make_blocks().items():
        begin, end = f"<!-- {name}: made by docs/from_results.py -->\n", f"<!-- end of {name} -->\n"
        if begin in text:
            before, rest = text.split(begin)
            text = f"{before}{begin}{block}{end}{rest.split(end)[1]}"
    return text


def list_targets() -> list[str]:
    """The rows of the README's table of targets."""
    rows = [row for row in SUSPECTS["movielens"]["found"] if row["kind"] == "random"]
    found, rare = (_short(mean(row[name] for row in rows), 3) for name in ("suspects()", "rare item"))
    lost = {part: f"{100 * max(row[LOST] for row in SUSPECTS[part]):.1f} %" for part in PARTS}
    rows_of_targets = [
        [
            "MovieLens-100K, 30 % random clicks, splits 1 to 5 (`python -m benchmarks.bench_suspects movielens`)",
            "AUC of finding them, `suspects()`",
            found,
            f'rule "rare item": {rare}',
            f".93: **{found}**",
        ],
        [
            "fresh logs with planted noise (`python -m benchmarks.bench_suspects fresh`)",
            "clean clicks that `csrr.clean(log)` removed, the largest share",
            lost["fresh"],
            f"logs that the scores were made on: {lost['chosen']}",
            f"2 %: **{lost['fresh']}**",
        ],
    ]
    return [f"| {' | '.join(row)} |" for row in rows_of_targets]


def _summarise() -> str:
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


def _table(rows: Rows) -> str:
    """By data: the estimates, the AUC, and what cleaning by default does."""
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


def _kinds() -> str:
    names = ("suspects()", "rare item", "many clicks")
    lines = ["| kind | `suspects()`: AUC | rule: rare item | rule: many clicks | share by estimate |", "|---" * 5 + "|"]
    rows = SUSPECTS["movielens"]["found"]
    for kind in dict.fromkeys(row["kind"] for row in rows):
        means = [_short(mean(row[name] for row in rows if row["kind"] == kind), 3) for name in names]
        share = _short(mean(row["estimate"] for row in rows if row["kind"] == kind))
        lines.append(f"| {TITLES[kind]} | {' | '.join(means)} | {share} |")
    return "\n".join(lines) + "\n"


def _stability() -> str:
    lines = ["| change | entries of V that are there again | events above .5 that are |", "|---|---|---|"]
    lines += [
        f"| {row['change']} | {_short(row['v_kept'])} | {_short(row['suspects_kept'])} |"
        for row in SUSPECTS["movielens"]["stability"]
    ]
    return "\n".join(lines) + "\n"


def _short(value: float, digits: int = 2) -> str:
    text = f"{value:.{digits}f}"
    return text[1:] if text.startswith("0.") else text
