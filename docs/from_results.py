"""Makes the README's tables and docs/reproduction.md of docs/results, and builds docs/reproduction.html: make docs."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyarrow import parquet

from csrr.paper.claims import judge_claims
from csrr.paper.headlines import write_headlines
from csrr.paper.markdown import render_readme_table
from csrr.paper.page import write_page
from csrr.paper.robustness_results import TITLES, Robustness
from csrr.paper.summary_types import Figure, Summary
from csrr.paper.today import OURS, Today

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.datasets import DATASETS  # noqa: E402 (the benchmarks are no part of the package)

RESULTS = ROOT / "docs" / "results"
DEFAULTS = json.loads((RESULTS / "defaults.json").read_text())


def make_today(plain: dict[str, Any], accuracies: dict[str, Any]) -> Today:
    """The systems of today: what is said of them in `plain`, and the means of what `benchmarks.defaults` found."""
    columns, rows = [], [row | {"values": {}, "fewer": {}} for row in plain["rows"]]
    for column in plain["columns"]:
        data, measure = column["key"].split("/")
        runs = [each["found"] for key, each in accuracies.items() if key.startswith(f"accuracy/{data}/")]
        columns.append(column | {"splits": len(runs), "fixed": DATASETS[data].seeds == 1})
        for row in rows:
            system = "CSRR" if row["system"] == OURS else row["system"]
            if found := [run[system][measure] for run in runs if measure in run.get(system, ())]:
                row["values"][column["key"]] = sum(found) / len(found)
            if 0 < len(found) < len(runs):
                row["fewer"][column["key"]] = len(found)
    return Today.from_json(plain | {"columns": columns, "rows": rows})


NOISE = Robustness.from_arrow(parquet.read_table(RESULTS / "robustness.parquet"))
_FOUND = Summary.from_json(json.loads((RESULTS / "summary.json").read_text()))
SUMMARY = replace(
    _FOUND,
    figures=_FOUND.figures | {name: Figure.from_json(each) for name, each in NOISE.figures().items()},
    claims=judge_claims(_FOUND),
    headlines=write_headlines(_FOUND),
    today=make_today(json.loads((RESULTS / "today.json").read_text()), DEFAULTS),
)
BEGIN, END = "<!-- made by docs/from_results.py -->\n", "<!-- end -->\n"
BEGIN_NOISE, END_NOISE = "<!-- noise: made by docs/from_results.py -->\n", "<!-- end of noise -->\n"
SHARES = (0.1, 0.3, 0.5)
BEGIN_DEFAULTS, END_DEFAULTS = "<!-- defaults: made by docs/from_results.py -->\n", "<!-- end of defaults -->\n"


def defaults_table() -> str:
    """The rows of `python -m benchmarks.defaults` in Markdown."""
    lines = ["| data | measure | `CSRR()` | rival | wanted |", "|---|---|---|---|---|"]
    for name, data in DATASETS.items():
        runs = [each["found"] for key, each in sorted(DEFAULTS.items()) if key.startswith(f"accuracy/{name}/")]
        systems = [each for each in runs[0] if all(each in run for run in runs)] if runs else []
        for measure in data.measures if runs else ():
            if not all(measure in run[each] for run in runs for each in systems):
                continue  # The best rival may be one without it.
            means = {each: sum(run[each][measure] for run in runs) / len(runs) for each in systems}
            ours = means.pop("CSRR")
            best = max(means, key=means.__getitem__)
            others = ", ".join(f"{each} {_short(value)}" for each, value in means.items() if each != best)
            splits = "" if data.seeds == 1 else f", {len(runs)} split{'s' if len(runs) > 1 else ''}"
            wanted = "not below" if data.reach == 1 else f"+{100 * (data.reach - 1):g} %"
            lines.append(
                f"| {data.name}{splits} | {measure.upper().replace('RECALL', 'Recall')} | {_short(ours)} "
                f"| {best} {_short(means[best])}; {others} | {wanted}: **{100 * (ours / means[best] - 1):+.1f} %** |"
            )
    for key, each in DEFAULTS.items():
        if key.startswith("time/"):
            ours, als, most = min(each["ours"]), min(each["als"]), {"ml-1m": "1x"}.get(key[5:], "1.5x")
            lines.append(
                f"| {DATASETS[key[5:]].name} | whole fit, choosing included, s | {ours:.1f} "
                f"| implicit ALS, 256 factors, 15 iterations: {als:.1f} | {most}: **{ours / als:.2f}x** |"
            )
    return "\n".join([*lines, *_gowalla(), *_memory(), *_regret()]) + "\n"


def _gowalla() -> list[str]:
    each = DEFAULTS.get("gowalla")
    if each is None:
        return []
    lines = []
    for label, called, wanted in (
        ("default", "`CSRR()`", ".195 / .163, 1.5x"),
        ("rank 256, given", "rank 256, 50 neighbours, strengths given", ".161, 0.5x"),
        ("max_rank=1000", "`max_rank=1000`", ".198 / .166, 3x"),
    ):
        row = each[label]
        found = f"{_short(row['recall@20'])} / {_short(row['ndcg@20'])}; {row['seconds']:.1f}"
        lines.append(
            f"| Gowalla, {called} | Recall@20 / NDCG@20; fit, s | {found} | the same ALS: {each['als']:.1f} s "
            f"| {wanted}: **{row['seconds'] / each['als']:.2f}x** |"
        )
    ours, wide = each["recommending, default"], each["recommending, rank 1,000, no neighbours"]
    lines.append(
        f"| Gowalla, all users | recommending 20 each, s | {ours:.1f} | rank 1,000 without neighbours: {wide:.1f} "
        f"| 0.5x: **{ours / wide:.2f}x** |"
    )
    return lines


def _memory() -> list[str]:
    each = DEFAULTS.get("memory/amazon-cds")
    if each is None:
        return []
    found = f"{each['fit']:.2f}, {each['all']:.2f}"
    return [f"| Amazon-CDs | peak memory of the fit, and of recommending for all, GB | {found} | | 1.5 |"]


def _regret() -> list[str]:
    lost = {}
    for key, each in DEFAULTS.items():
        if key.startswith("regret/"):
            best = max([value for _, value in each["grid"]] + [each["chosen"]])
            lost[DATASETS[key.split("/")[1]].name.replace(", ", " ")] = 100 * (1 - each["chosen"] / best)
    if not lost:
        return []
    shown = ", ".join(f"{name} {value:.1f} %" for name, value in lost.items())
    return [
        "| the same, first split | what the choice loses against the best of 24 strengths and neighbours around it, by "
        f"test data | {shown} | | 1.5 % |"
    ]


def _short(value: float) -> str:
    return f"{value:.4f}".lstrip("0")


def noise_table() -> str:
    """What `CSRR()` keeps under noise, beside the best of the tuned rivals, in Markdown."""
    rivals, default = ("EASE", "WRMF", "BPRMF"), "CSRR as it comes"
    shares = [f"{100 * share:.0f} %" for share in SHARES]
    lines = [f"| noise | {' | '.join(f'`CSRR()`, {each} | best rival' for each in shares)} |"]
    lines.append("|---" * (1 + 2 * len(SHARES)) + "|")
    for kind in NOISE.kinds:
        cells = []
        for share in SHARES:
            means = {each: _mean_ndcg(kind, share, each) for each in (default, *rivals)}
            best = max(rivals, key=means.__getitem__)
            cells += [_short(means[default]), f"{best} {_short(means[best])}"]
        lines.append(f"| {TITLES[kind]} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _mean_ndcg(kind: str, share: float, system: str) -> float:
    found = [each.ndcg for each in NOISE.lines if (each.kind, each.share, each.system) == (kind, share, system)]
    return sum(found) / len(found)


def with_tables(readme: str) -> str:
    """The README with the tables between their marks made anew."""
    for begin, end, table in (
        (BEGIN, END, render_readme_table(SUMMARY)),
        (BEGIN_DEFAULTS, END_DEFAULTS, defaults_table()),
        (BEGIN_NOISE, END_NOISE, noise_table()),
    ):
        before, rest = readme.split(begin)
        _, after = rest.split(end)
        readme = f"{before}{begin}{table}{end}{after}"
    return readme


if __name__ == "__main__":
    path = ROOT / "README.md"
    path.write_text(with_tables(path.read_text()))
    write_page(SUMMARY, RESULTS.parent / "reproduction.html")
