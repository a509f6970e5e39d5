"""The figure of docs/theory.md and its part on the simulation: docs/results/theory.json in docs/make/theory.md.in."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import csrr
from benchmarks.keep import RESULTS
from benchmarks.theory import read_plain
from csrr_paper.theory import Simulation, Slope

SETTINGS = {
    "fixed epsilon": "epsilon fixed: tastes in 50 x 50 cells, zeros around",
    "fixed density": "density fixed: tastes everywhere, epsilon ~ sqrt(mn)",
}
MEASURES = {"cost": "excess cost", "loss": "excess loss", "loss_bound": "bound on the excess loss"}
WORDS = Path(__file__).with_name("theory.md.in")


def read_simulations() -> dict[str, Simulation]:
    """The simulations that `python -m benchmarks.theory` has kept, by name."""
    return {name: read_plain(each) for name, each in json.loads((RESULTS / "theory.json").read_text()).items()}


def draw_figure(found: dict[str, Simulation]) -> str:
    """The figure of the simulation with the defaults, as SVG."""
    return csrr.plot(found["default"]).svg


def make_text(found: dict[str, Simulation]) -> str:
    """The table of the simulation and what it shows, in Markdown."""
    main, wrong = found["default"], found["wrong_threshold"]
    others = ("low_cost", "low_threshold", "quarter_observed")
    return WORDS.read_text().format(
        table=make_table(main),
        totals=", ".join(f"{each:.0f}" for each in sum_costs(main)),
        least=min(row.loss_bound / row.loss for row in main.rows if row.loss > 0),
        repeats=len({row.repeat for row in wrong.rows}),
        stays=np.mean([row.cost for row in wrong.rows if row.setting == "fixed density"]),
        wrong_cost=show_slope(wrong.slopes["fixed density", "cost"]),
        wrong_loss=show_slope(wrong.slopes["fixed density", "loss"]),
        **{
            name: ", loss ".join(f"{found[name].slopes['fixed density', each].value:.2f}" for each in ("cost", "loss"))
            for name in others
        },
    )


def make_table(main: Simulation) -> str:
    """The means at the least and the greatest size and the slopes, by setting and measure."""
    sizes = sorted({row.n for row in main.rows})
    ends = sizes[0], sizes[-1]
    lines = [f"| setting | measure | n = {ends[0]} | {ends[1]} | slope | 95 % |", "|---|---|---|---|---|---|"]
    for setting, named in SETTINGS.items():
        for measure, called in MEASURES.items():
            means = [
                np.mean([getattr(row, measure) for row in main.rows if (row.setting, row.n) == (setting, n)])
                for n in ends
            ]
            slope = main.slopes[setting, measure]
            shown = " | ".join(f"{each:.2g}" for each in means)
            name = named if measure == "cost" else ""
            lines.append(f"| {name} | {called} | {shown} | {slope.value:.2f} | {slope.low:.2f} to {slope.high:.2f} |")
    return "\n".join(lines)


def sum_costs(main: Simulation) -> list[float]:
    """The mean total excess cost with epsilon fixed, for each size."""
    rows = [row for row in main.rows if row.setting == "fixed epsilon"]
    return [
        float(np.mean([row.cost * row.n * row.m for row in rows if row.n == n])) for n in sorted({r.n for r in rows})
    ]


def show_slope(slope: Slope) -> str:
    """A slope with its interval."""
    return f"{slope.value:.2f}, {slope.low:.2f} to {slope.high:.2f}"
