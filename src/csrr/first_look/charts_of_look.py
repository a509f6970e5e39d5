"""What was found -> the figures of the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from csrr.first_look.result import FirstLook
from csrr.first_look.user_groups import Group
from csrr.plots.charts import draw_dot_chart, draw_line_chart
from csrr.plots.panels import DotRow, Panel, Point, Series, list_series_names


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
    return Drawn(draw_dot_chart("Models", f"{look.metric.upper()} (larger is better)", rows, ["mean"]), ["mean"])


def draw_user_groups(look: FirstLook) -> Drawn:
    """Return the accuracy of the best model and of the baseline by group of users."""
    return _draw_groups("Users", f"{look.metric.upper()} (larger is better)", look.by_users)


def draw_item_groups(look: FirstLook) -> Drawn:
    """Return the recall of the best model and of the baseline by group of items."""
    return _draw_groups("Items", f"share of the held-out events found in the first {look.length}", look.by_items)


def _draw_groups(title: str, label: str, groups: Sequence[Group]) -> Drawn:
    names = list(dict.fromkeys(each.model for each in groups))
    rows: dict[str, dict[str, Point]] = {}
    for each in groups:
        rows.setdefault(f"{each.name}, n = {each.n:,}", {})[each.model] = Point(
            mean=each.mean, low=each.low, high=each.high
        )
    return Drawn(draw_dot_chart(title, label, [DotRow(name, points) for name, points in rows.items()], names), names)


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
    return _draw_lines(Panel("Cost curve", "weight of clicks in the fit", "cost per user", True, [Series("CSRR", points)]))


def draw_learning(look: FirstLook) -> Drawn | None:
    """Return what is learned of fewer events, where more than one number is known."""
    if len(look.learning) < 2:
        return None
    points = [Point(each.n_events, each.mean, each.low, each.high) for each in look.learning]
    name = "" if look.best is None else look.best.name
    return _draw_lines(Panel("Learning", "training events", look.metric.upper(), True, [Series(name, points)]))


def _draw_lines(panel: Panel) -> Drawn:
    names = list_series_names([panel])
    return Drawn(draw_line_chart(panel, names), names)
