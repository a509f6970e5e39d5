"""Draws the figures of the concept pages, of fits to synthetic data: python -m docs.make.figures writes them."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import csrr
from docs.make.order import draw_order
from docs.make.reasons import draw_reasons
from docs.make.scale import draw_growth

FOLDER = Path(__file__).parents[1] / "figures"
CELL, GAP, TOP = 11, 46, 34
KINDS = ("common taste", "user-specific", "noise")
"""What `csrr.synthetic` plants, by number."""


class Drawing(NamedTuple):
    """What csrr.plot draws."""

    title: str
    caption: str
    panels: list[dict[str, Any]]


def draw_grid(name: str, colour: str, values: npt.NDArray[Any], left: float) -> str:
    """Return a matrix with its name above it, a cell the darker the larger its value."""
    cells = "".join(
        f'<rect x="{left + CELL * column}" y="{TOP + CELL * row}" width="{CELL - 1}" height="{CELL - 1}"'
        f' fill="{colour}" fill-opacity="{0.06 + 0.94 * min(max(float(value), 0.0), 1.0):.2f}"/>'
        for row, line in enumerate(values)
        for column, value in enumerate(line)
    )
    return f'<text x="{left}" y="{TOP - 12}">{escape(name)}</text>{cells}'


def draw_parts() -> str:
    """Return the picture of the start page: clicks, and the three parts that CSRR makes of them."""
    made = csrr.synthetic(150, 18, rank=3, events_per_user=6, specific=0.1, noise=0.05, seed=3)
    model = csrr.CSRR(
        reg_low_rank=0.3, reg_sparse=0.5, neighbors=5, reg_neighbors=1.0, user_scaling=0.0, item_scaling=0.0
    )
    model.fit(made.log)
    groups = np.argsort(made.taste[0].argmax(axis=1), kind="stable")
    rows = groups[np.linspace(0, len(groups) - 1, 14).astype(int)]
    columns = np.argsort(made.taste[1].argmax(axis=1), kind="stable")
    clicks, common = made.log.to_csr().toarray(), model.user_factors_ @ model.item_factors_.T
    parts = {
        "clicks": ("#57606a", clicks > 0),
        "common taste": ("#0b62a4", common),
        "neighbors": ("#c4500b", 3 * (clicks @ model.neighbors_.toarray())),
        "user-specific": ("#1a7f37", 1.5 * model.specific_.toarray()),
    }
    step = CELL * len(columns) + GAP
    width, height = step * len(parts) - GAP + 2, TOP + CELL * len(rows) + 2
    grids, signs = "", ""
    for place, (name, (colour, values)) in enumerate(parts.items()):
        grids += draw_grid(name, colour, np.asarray(values)[np.ix_(rows, columns)], 1 + step * place)
        if place:
            sign = "≈" if place == 1 else "+"
            signs += (
                f'<text class="sign" x="{step * place - GAP / 2}" y="{TOP + CELL * len(rows) / 2 + 8}">{sign}</text>'
            )
    style = "text { font: 15px system-ui, sans-serif; fill: #57606a; } .sign { font-size: 24px; text-anchor: middle; }"
    label = "Clicks of users on items as common taste, neighbors and user-specific choices"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">'
        f"<style>{style}</style>{grids}{signs}</svg>\n"
    )


def draw_own() -> str:
    """Return how much of a click the clicks of other users explain, by kind of click."""
    made = csrr.synthetic(600, 200, specific=0.1, noise=0.1, seed=1)
    explained = csrr.CSRR(reg_low_rank="noise", neighbors=0).fit(made.log).explained_shares()
    shares = np.linspace(0, 1, 21)
    series = [
        {
            "name": name,
            "points": [{"x": float(at), "mean": float((explained[made.truth == kind] <= at).mean())} for at in shares],
        }
        for kind, name in enumerate(KINDS)
    ]
    panel = {"x": "explained share of a click", "y": "share of clicks, cumulative", "series": series}
    caption = "Synthetic data: the reason for each click is known. Noise and user-specific choices are explained least."
    return csrr.plot(Drawing("What the common taste explains", caption, [panel])).svg


def draw_certificate() -> str:
    """Return objective and lower bound, step by step."""
    made = csrr.synthetic(600, 400, seed=1)
    model = csrr.CSRR(cost_ratio=4.0, reg_low_rank=0.15, neighbors=0, tol=1e-4).fit(made.log)
    best = model.certificate_.primal
    bounds = {"objective": lambda step: step.objective, "lower bound": lambda step: step.objective * (1 - step.gap)}
    series = [
        {"name": name, "points": [{"x": step.iteration, "mean": float(bound(step) / best)} for step in model.history_]}
        for name, bound in bounds.items()
    ]
    panel = {"x": "step", "y": "relative to the final objective", "series": series}
    caption = "The best possible objective lies between the two. The fit stops where they are within tol of each other."
    return csrr.plot(Drawing("How good a fit can still become", caption, [panel])).svg


def draw_costs() -> str:
    """Return the curve of costs against the cost ratio of the fit."""
    log = csrr.synthetic(400, 120, events_per_user=20, seed=2).log
    return csrr.plot(csrr.cost_curve(log, miss=5.0, false_alarm=1.0, reg_low_rank=0.3, neighbors=0)).svg


def draw_reliability() -> str:
    """Return probabilities of a calibrated model against what happened."""
    train, rest = csrr.split(csrr.synthetic(600, 120, events_per_user=25, seed=2).log, ratio=0.6)
    heldout, test = csrr.split(rest, ratio=0.5)
    model = csrr.CSRR(reg_low_rank=0.3, neighbors=0).fit(train)
    model.calibrate(heldout)
    return csrr.plot(model.reliability(test)).svg


FIGURES = {
    "reasons": draw_reasons,
    "parts": draw_parts,
    "own": draw_own,
    "order": draw_order,
    "certificate": draw_certificate,
    "costs": draw_costs,
    "reliability": draw_reliability,
    "scale": draw_growth,
}


def main() -> None:
    """Draw all of them."""
    FOLDER.mkdir(exist_ok=True)
    for name, draw in FIGURES.items():
        (FOLDER / f"{name}.svg").write_text(draw())


if __name__ == "__main__":
    main()
