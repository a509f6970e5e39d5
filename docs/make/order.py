"""The order of events: the picture of the concept page, and docs/results/order.json in Markdown."""

from __future__ import annotations

from typing import Any

import numpy as np

import csrr
from benchmarks.keep import RESULTS, read_results
from benchmarks.order import GROWTH, OURS, SYSTEMS, TASKS, WAYS
from docs.make.reasons import BAR, COLORS, FAINT, INK, ROW, SHOP, write_text

BOUGHT = ("Coffee grinder", "Milk frother", "Moka pot", "Tent", "Sleeping bag")
"""What somebody bought, oldest first."""
PERSON, DECAY = "you", 0.6
N_LISTS, N_REASONS = 3, 2
LEFT, TOP, WIDTH = 330, 48, 800
NAMES = {"toys": "Toys", "sports": "Sports", "ml-1m": "MovieLens-1M", "ml-100k": "MovieLens-100K"}
LABELS = {"CSRR": "`CSRR()`", "CSRR, next": '`CSRR(order="next")`', "CSRR, auto": '`CSRR(order="auto")`'}
LABELS |= {"MarkovChain, counts": "`MarkovChain(decay=0)`"} | {
    name: f"`{name}`" for name in ("PopRank", "ItemKNN", "EASE", "WRMF", "MarkovChain", "VSKNN")
}
EVERY = (*SYSTEMS, "SASRec", *OURS)


def make_purchases(seed: int = 1) -> csrr.Log:
    """Return who bought what, in order: everybody goes through a part of two themes, one after the other."""
    rng = np.random.default_rng(seed)
    sales = [(PERSON, title) for title in BOUGHT]
    for user in range(600):
        for theme in rng.choice(len(SHOP), 2, replace=False):
            rest = list(SHOP.values())[theme][rng.integers(0, 4) :]
            sales += [(f"customer {user}", title) for title in rest if rng.random() < 0.8][:3]
    users, items = zip(*sales, strict=True)
    return csrr.read({"user": list(users), "item": list(items)}, ordered=True)


def draw_order() -> str:
    """Return a history with what its events count, and what they lead to: each score as the sum of its parts."""
    model = csrr.CSRR(order="next", decay=DECAY, threads=1).fit(make_purchases())
    recommended = model.recommend(PERSON, k=N_LISTS).items[0]
    parts = [write_text(0, 18, "You bought, newest first", INK, bold=True)]
    parts += [write_text(LEFT, 18, "What comes next", INK, bold=True)]
    parts.append(write_text(LEFT + 160, 18, "because you had", INK, bold=True))
    for age, title in enumerate(reversed(BOUGHT)):
        parts.append(_draw_bar(0, TOP + ROW * age, title, DECAY**age, INK))
    reasons = [model.explain(PERSON, item).rows()[:N_REASONS] for item in recommended]
    most, top = max(row["amount"] for rows in reasons for row in rows), TOP
    for place, (item, rows) in enumerate(zip(recommended, reasons, strict=True)):
        parts.append(write_text(LEFT, top, str(item), COLORS[place], bold=True))
        for row in rows:
            parts.append(_draw_bar(LEFT + 160, top, str(row["item"]), row["amount"] / most, COLORS[place]))
            top += ROW
        top += 14
    label = (
        "A history, newest purchase first, with its weights, and the three items that it leads to with their reasons"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top - 10}" role="img" aria-label="{label}">'
        f"<style>text {{ font-family: system-ui, sans-serif; font-size: 15px; }}</style>{''.join(parts)}</svg>\n"
    )


def _draw_bar(left: float, top: float, title: str, share: float, color: str) -> str:
    """Return a name, a bar of a share of the longest, and the share."""
    width = BAR * 0.8 * max(share, 0.0)
    bar = f'<rect x="{left + 130}" y="{top - 11}" width="{width:.1f}" height="11" fill="{color}"/>'
    return write_text(left, top, title, INK) + bar + write_text(left + 138 + width, top, f"{share:.2f}", FAINT)


def make_table(task: str) -> str:
    """Return a row for each system: HR@10 and NDCG@10 of the last events, or NDCG@20 of the last fifth of them."""
    kept, data = read_results(RESULTS / "order.json"), TASKS[task].data
    measures = ("hr@10", "ndcg@10") if task == "last" else ("ndcg@20",)
    names = " / ".join(each.upper().replace("@", " at ") for each in measures)
    lines = [f"| {names} | {' | '.join(NAMES[each] for each in data)} |", f"|---|{'---|' * len(data)}"]
    best = [_find_best(kept, f"{task}/{each}/", measures[-1]) for each in data]
    for system in EVERY:
        found = [kept.get(f"{task}/{each}/{system}", {}).get("found") for each in data]
        cells = [_show(each, measures, is_best=system == top) for each, top in zip(found, best, strict=True)]
        if any(found):
            lines.append(f"| {LABELS.get(system, system)} | {' | '.join(cells)} |")
    cut = [
        f"{LABELS.get(system, system)} on {NAMES[each]}"
        for system in EVERY
        for each in data
        if not kept.get(f"{task}/{each}/{system}", {}).get("whole", True)
    ]
    note = f"\nThe search for parameters was cut short: {', '.join(cut)}.\n" if cut else ""
    return "\n".join(lines) + "\n" + note


WHERE = {
    "last": "the last event of each user",
    "fifth": "the last fifth of each user's events",
    "random": "a fifth of each user's events at random",
    "shuffled": "the last event, times of loading: the order of the others is lost",
}


def make_where() -> str:
    """Return a row for each task and data set: NDCG of ours without order, with it, and by choice."""
    kept = read_results(RESULTS / "order.json")
    lines = [f"| test events | data | {' | '.join(LABELS[each] for each in OURS)} |", "|---|---|---|---|---|"]
    for task, words in WHERE.items():
        for name in TASKS[task].data:
            found = [kept.get(f"{task}/{name}/{system}", {}).get("found") for system in OURS]
            if any(found):
                measure = "ndcg@20" if task in ("fifth", "random") else "ndcg@10"
                cells = " | ".join(_show(each, (measure,), is_best=False) for each in found)
                lines.append(f"| {words} | {NAMES[name]} | {cells} |")
    return "\n".join(lines) + "\n"


def _find_best(kept: dict[str, Any], begin: str, measure: str) -> str:
    found = {name.removeprefix(begin): row["found"][measure] for name, row in kept.items() if name.startswith(begin)}
    return max(found, key=found.__getitem__, default="")


def _show(found: dict[str, float] | None, measures: tuple[str, ...], *, is_best: bool) -> str:
    if found is None:
        return ""
    text = " / ".join(f"{found[each]:.4f}".lstrip("0") for each in measures)
    return f"**{text}**" if is_best else text


def make_times() -> str:
    """Return a row for each system: the seconds of a fit on all cores together, its search included only for ours."""
    kept, data = read_results(RESULTS / "order.json"), TASKS["last"].data
    lines = [f"| seconds of one core | {' | '.join(NAMES[each] for each in data)} |", f"|---|{'---|' * len(data)}"]
    for system in EVERY:
        rows = [kept.get(f"last/{each}/{system}", {}) for each in data]
        if any("cpu" in row for row in rows):
            cells = [f"{row['cpu']:.1f}" if "cpu" in row else "" for row in rows]
            lines.append(f"| {LABELS.get(system, system)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def make_growth() -> str:
    """Return a row for each number of events: seconds of all cores and peak memory of a fit."""
    kept = read_results(RESULTS / "order.json")
    lines = ["| events | seconds of one core | with the search | peak memory, GB |", "|---|---|---|---|"]
    for n_events in GROWTH:
        given, chosen = (kept.get(f"growth/{way}/{n_events}") for way in WAYS)
        if given is not None:
            searched = "" if chosen is None else f"{chosen['cpu']:.0f}"
            lines.append(f"| {given['events']:,} | {given['cpu']:.0f} | {searched} | {given['peak']:.1f} |")
    return "\n".join(lines) + "\n"
