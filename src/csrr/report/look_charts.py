"""What was found -> the figures of the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from csrr.report.charts import (
    DotRow,
    Panel,
    Point,
    Series,
    draw_dot_chart,
    draw_line_chart,
    list_series_names,
    name_colour,
)
from csrr.report.contest import GroupScore
from csrr.report.findings import Served
from csrr.report.result import FirstLook

PHONE = 380
"""A width that a phone has."""


@dataclass(frozen=True)
class Drawn:
    """A chart and the names of its series, for a legend where there are several."""

    svg: str
    names: list[str]


def draw_popularity(look: FirstLook) -> Drawn:
    """Return how much of the log the most popular items have."""
    points = [Point(100 * items, 100 * events) for items, events in look.facts.popularity]
    labels = "items, most popular first, in %", "share of the events, in %"
    return _draw_lines(Panel("Popularity", *labels, False, [Series("items", points)]))


def draw_models(look: FirstLook) -> Drawn:
    """Return how good the models are, and how sure."""
    rows = []
    for each in look.done:
        low, high = each.judged.interval(look.metric)
        rows.append(DotRow(each.name, {"mean": Point(mean=each.judged[look.metric], low=low, high=high)}))
    return _draw_dots("Models", f"{look.metric.upper()} (larger is better)", rows, ["mean"])


def draw_user_groups(look: FirstLook) -> Drawn:
    """Return the accuracy of the best model and of the baseline by group of users."""
    return _draw_groups("Users", f"{look.metric.upper()} (larger is better)", look.by_users)


def draw_item_groups(look: FirstLook) -> Drawn:
    """Return the recall of the best model and of the baseline by group of items."""
    return _draw_groups("Items", "share found (larger is better)", look.by_items)


def _draw_groups(title: str, label: str, groups: Sequence[GroupScore]) -> Drawn:
    names = list(dict.fromkeys(each.model for each in groups))
    rows: dict[str, dict[str, Point]] = {}
    for each in groups:
        point = Point(mean=each.mean, low=each.low, high=each.high)
        rows.setdefault(each.name.partition(" (")[0], {})[each.model] = point
    return _draw_dots(title, label, [DotRow(name, points) for name, points in rows.items()], names)


def _draw_dots(title: str, label: str, rows: Sequence[DotRow], names: list[str]) -> Drawn:
    return Drawn(draw_dot_chart(title, label, rows, names, width=PHONE), names)


def draw_list_costs(look: FirstLook) -> Drawn:
    """Return what lists cost by their length."""
    points = [Point(each.length, each.cost, each.low, each.high) for each in look.lists]
    name = "" if look.best is None else look.best.name
    return _draw_lines(Panel("Cost of lists", "length of the list", "cost per user", False, [Series(name, points)]))


def draw_cost_ratios(look: FirstLook) -> Drawn | None:
    """Return the cost by the weight of clicks in the fit, where it is known."""
    if look.costs is None:
        return None
    points = [Point(each.cost_ratio, each.cost, each.low, each.high) for each in look.costs]
    return _draw_lines(Panel("Cost curve", "weight of clicks", "cost per user", True, [Series("CSRR", points)]))


def draw_learning(look: FirstLook) -> Drawn | None:
    """Return what the other half of the data gave, where it is known."""
    if not look.learning:
        return None
    name = _name_of_learner(look)
    rows = [
        DotRow(each.part, {name: Point(mean=each.gain, low=each.gain_low, high=each.gain_high)})
        for each in look.learning
    ]
    return _draw_dots("More data", f"gain of {look.metric.upper()}", rows, [name])


def _name_of_learner(look: FirstLook) -> str:
    return next((each.name for each in (look.personal, look.best) if each is not None), "")


def draw_people(served: Served, place: int) -> str:
    """Return a hundred people as an SVG, those that find something in the color of the series at `place`."""
    n_found = round(100 * served.found / served.of)
    people = [
        f"M{12 * (each % 10) + 6} {18 * (each // 10) + 1}a2.7 2.7 0 1 1-.01 0z"
        f"m-4 14v-4.2a4 4 0 0 1 8 0v4.2a1 1 0 0 1-1 1h-6a1 1 0 0 1-1-1z"
        for each in range(100)
    ]
    label = f"{served.found:,} of {served.of:,} people find something in the lists of {served.model}"
    return (
        f'<svg viewBox="0 0 120 180" role="img" aria-label="{escape(label)}"><path fill="{name_colour(place)}"'
        f' d="{"".join(people[:n_found])}"/><path class="rest" d="{"".join(people[n_found:])}"/></svg>'
    )


def _draw_lines(panel: Panel) -> Drawn:
    names = list_series_names([panel])
    return Drawn(draw_line_chart(panel, names), names)
