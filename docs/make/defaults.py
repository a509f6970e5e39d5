"""The defaults against tuned rivals: docs/results/defaults.json in Markdown, for the README and for its page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from benchmarks.datasets import DATASETS
from benchmarks.defaults import name_command
from benchmarks.keep import RESULTS
from docs.make.origins import Origins

DEFAULTS: dict[str, Any] = json.loads((RESULTS / "defaults.json").read_text())
HEAD = [
    "| data | measure | `CSRR()` | baseline | target | `python -m benchmarks.defaults` | run |",
    "|---|---|---|---|---|---|---|",
]
GOWALLA = (
    ("default", "`CSRR()`", ".195 / .163, 1.5x"),
    ("rank 256, given", "rank 256, 50 neighbors, strengths given", ".161, 0.5x"),
    ("max_rank=1000", "`max_rank=1000`", ".198 / .166, 3x"),
)


class Accuracy(NamedTuple):
    """The means of a measure over the splits: ours and the rivals', with the names of what they are means of."""

    data: str
    measure: str
    ours: float
    rivals: dict[str, float]
    reach: float
    keys: list[str]

    @property
    def best(self) -> str:
        """The best rival."""
        return max(self.rivals, key=self.rivals.__getitem__)

    @property
    def over(self) -> float:
        """By how many per cent ours is above the best rival's."""
        return 100 * (self.ours / self.rivals[self.best] - 1)

    @property
    def wanted(self) -> str:
        """What was wanted."""
        return "not below" if self.reach == 1 else f"+{100 * (self.reach - 1):g} %"


class Line(NamedTuple):
    """A row of the page's table, and the names of the results behind it."""

    data: str
    measure: str
    ours: str
    rival: str
    wanted: str
    keys: list[str]


def list_accuracies() -> Iterator[Accuracy]:
    """Every data set and measure; systems that not all splits have are left out."""
    for name, data in DATASETS.items():
        keys = sorted(key for key in DEFAULTS if key.startswith(f"accuracy/{name}/"))
        runs = [DEFAULTS[key]["found"] for key in keys]
        systems = [each for each in runs[0] if all(each in run for run in runs)] if runs else []
        for measure in data.measures if runs else ():
            if not all(measure in run[each] for run in runs for each in systems):
                continue  # The best rival may be one without it.
            means = {each: sum(run[each][measure] for run in runs) / len(runs) for each in systems}
            ours = means.pop("CSRR")
            splits = "" if data.seeds == 1 else f", {len(runs)} split{'s' if len(runs) > 1 else ''}"
            shown = measure.upper().replace("RECALL", "Recall")
            yield Accuracy(f"{data.name}{splits}", shown, ours, means, data.reach, keys)


def make_table(origins: Origins) -> str:
    """All that was measured, with the command and the origin of each row."""
    lines = [
        Line(
            each.data,
            each.measure,
            shorten(each.ours),
            f"{each.best} {shorten(each.rivals[each.best])}; "
            + ", ".join(f"{name} {shorten(value)}" for name, value in each.rivals.items() if name != each.best),
            f"{each.wanted}: **{each.over:+.1f} %**",
            each.keys,
        )
        for each in list_accuracies()
    ]
    for name, ours, als, key in _list_times():
        most = {"time/ml-1m": "1x"}.get(key, "1.5x")
        rival = f"implicit ALS, 256 factors, 15 iterations: {als:.1f}"
        wanted = f"{most}: **{ours / als:.2f}x**"
        lines.append(Line(name, "whole fit, search included, s", f"{ours:.1f}", rival, wanted, [key]))
    lines += [*_list_gowalla(), *_list_memory(), *_list_regret()]
    marks = [origins.mark(DEFAULTS[key] for key in line.keys) for line in lines]
    rows = [
        f"| {' | '.join(line[:5])} | `{name_command(line.keys[0])}` | {mark} |"
        for line, mark in zip(lines, marks, strict=True)
    ]
    return "\n".join([*HEAD, *rows])


def list_shortfalls() -> str:
    """The measures where the best rival is not beaten by what was wanted, in words."""
    found = [
        f"{each.data}, {each.measure}: {each.over:+.1f} % against {each.best}, target {each.wanted}"
        for each in list_accuracies()
        if each.over < 100 * (each.reach - 1)
    ]
    return "; ".join(found) or "none"


def list_gpu() -> str:
    """The data sets where a rival ran on a GPU."""
    keys = [key for key, each in DEFAULTS.items() if each.get("params", {}).get("EASE", {}).get("on") == "GPU"]
    return " and ".join(dict.fromkeys(DATASETS[key.split("/")[1]].name.split(",")[0] for key in sorted(keys)))


def _list_times() -> Iterator[tuple[str, float, float, str]]:
    for key, each in DEFAULTS.items():
        if key.startswith("time/"):
            yield DATASETS[key[5:]].name, min(each["ours"]), min(each["als"]), key


def _list_gowalla() -> Iterator[Line]:
    each = DEFAULTS.get("gowalla")
    if each is None:
        return
    for label, called, wanted in GOWALLA:
        row = each[label]
        found = f"{shorten(row['recall@20'])} / {shorten(row['ndcg@20'])}; {row['seconds']:.1f}"
        ratio = f"{wanted}: **{row['seconds'] / each['als']:.2f}x**"
        rival = f"the same ALS: {each['als']:.1f} s"
        yield Line(f"Gowalla, {called}", "Recall@20 / NDCG@20; fit, s", found, rival, ratio, ["gowalla"])
    ours, wide = each["recommending, default"], each["recommending, rank 1,000, no neighbours"]
    rival, ratio = f"rank 1,000 without neighbors: {wide:.1f}", f"0.5x: **{ours / wide:.2f}x**"
    yield Line("Gowalla, all users", "recommending 20 each, s", f"{ours:.1f}", rival, ratio, ["gowalla"])


def _list_memory() -> Iterator[Line]:
    each = DEFAULTS.get("memory/amazon-cds")
    if each is not None:
        found, measure = (
            f"{each['fit']:.2f}, {each['all']:.2f}",
            "peak memory of the fit, and of recommending for all, GB",
        )
        yield Line("Amazon-CDs", measure, found, "", "1.5", ["memory/amazon-cds"])


def _list_regret() -> Iterator[Line]:
    measure = "loss in test accuracy against the best of {} nearby settings, %"
    for key, each in DEFAULTS.items():
        if key.startswith("regret/"):
            best = max([value for _, value in each["grid"]] + [each["chosen"]])
            data = DATASETS[key.split("/")[1]]
            name = data.name if data.seeds == 1 else f"{data.name}, first split"
            lost = f"{100 * (1 - each['chosen'] / best):.1f}"
            yield Line(name, measure.format(len(each["grid"])), lost, "", "1.5", [key])


def shorten(value: float) -> str:
    """A number below one to four digits, without its zero."""
    return f"{value:.4f}".lstrip("0")
