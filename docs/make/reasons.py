"""The picture of the README: what somebody bought, what is recommended, and why; a fit to a made-up shop."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

import csrr

SHOP = {
    "camping": ("Tent", "Sleeping bag", "Camping stove", "Headlamp", "Water filter", "Hiking boots"),
    "cooking": ("Chef's knife", "Frying pan", "Cutting board", "Pasta maker", "Spice rack", "Wok"),
    "coffee": ("Espresso cups", "Coffee grinder", "Milk frother", "Moka pot", "Kettle", "Coffee beans"),
    "cycling": ("Bike lights", "Cycling gloves", "Bike pump", "Helmet", "Panniers", "Bike lock"),
}
BOUGHT = ("Tent", "Headlamp", "Hiking boots", "Moka pot", "Coffee grinder")
PERSON = "you"
N_LISTS, N_REASONS = 4, 3
ROW, BAR, LEFT, WIDTH = 22, 150, 200, 760
INK, FAINT = "#57606a", "#8c959f"
COLORS = ("#0b62a4", "#c4500b", "#1a7f37", "#8250df")


def make_sales(seed: int = 1) -> list[tuple[str, str]]:
    """Return who bought what: everybody likes two themes, and now and then buys something else."""
    rng = np.random.default_rng(seed)
    themes, everything = list(SHOP.values()), [title for theme in SHOP.values() for title in theme]
    sales = {(PERSON, title) for title in BOUGHT}
    for user in range(400):
        liked = np.concatenate([themes[place] for place in rng.choice(len(themes), 2, replace=False)])
        chosen = [*rng.choice(liked, 6, replace=False), *rng.choice(everything, rng.integers(0, 2))]
        sales |= {(f"customer {user}", str(title)) for title in chosen}
    return sorted(sales)


def draw_reasons() -> str:
    """Return the purchases on the left and, for each recommendation, its score as the sum of what speaks for it."""
    users, items = zip(*make_sales(), strict=True)
    model = csrr.CSRR(threads=1).fit(csrr.read({"user": list(users), "item": list(items)}))
    recommended = model.recommend(PERSON, k=N_LISTS).items[0]
    reasons = [model.explain(PERSON, each).rows()[:N_REASONS] for each in recommended]
    most = max(row["amount"] for rows in reasons for row in rows)
    parts = [write_text(0, 18, "You bought", INK, bold=True), write_text(LEFT, 18, "We recommend", INK, bold=True)]
    parts.append(write_text(LEFT + 190, 18, "because you bought", INK, bold=True))
    parts += [write_text(0, 48 + ROW * place, title, INK) for place, title in enumerate(BOUGHT)]
    top = 48
    for place, (item, rows) in enumerate(zip(recommended, reasons, strict=True)):
        parts.append(write_text(LEFT, top, str(item), COLORS[place], bold=True))
        parts += [
            _draw_reason(row, top + ROW * each, row["amount"] / most, COLORS[place]) for each, row in enumerate(rows)
        ]
        top += ROW * len(rows) + 14
    label = "What somebody bought, four recommendations, and which purchases speak for each"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top - 10}" role="img" aria-label="{label}">'
        f"<style>text {{ font-family: system-ui, sans-serif; font-size: 15px; }}</style>{''.join(parts)}</svg>\n"
    )


def _draw_reason(row: dict[str, Any], top: float, share: float, color: str) -> str:
    """Return a reason: its name, and a bar as long as it counts."""
    left = LEFT + 190
    bar = f'<rect x="{left + 130}" y="{top - 11}" width="{BAR * max(share, 0.0):.1f}" height="11" fill="{color}"/>'
    amount = write_text(left + 138 + BAR * max(share, 0.0), top, f"{row['amount']:.2f}", FAINT)
    return write_text(left, top, str(row["item"]), INK) + bar + amount


def write_text(x: float, y: float, words: str, color: str, *, bold: bool = False) -> str:
    """Return words at a place."""
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{color}"{weight}>{escape(words)}</text>'
