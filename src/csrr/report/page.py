"""The first report as files in a folder: one page that needs nothing else, its numbers as JSON, and the models."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from csrr._base import text
from csrr._base.files import try_lock, write_text
from csrr._base.text import to_plain
from csrr.parameters import ParameterError
from csrr.report import findings
from csrr.report.charts import read_file
from csrr.report.comparison import GroupScore
from csrr.report.findings import KIND, MODEL, PAGE, PERSONAL, SUMMARY, FirstLook
from csrr.report.log_facts import SHORT, format_day
from csrr.report.svg import Panel, Point, Series, draw_marker, draw_panel, list_series_names

PHONE = 380
"""A width that fits on a phone."""


def render_template(package: str, name: str, **values: Any) -> str:
    """Return an HTML page from a template of a package, such as "csrr_paper", and values.

    All text is escaped; control characters and direction marks are written as text.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: text.make_printable(value, keep="\n\t") if type(value) is str else value,
    )
    # The charts escape their own text.
    return environment.get_template(name).render(
        style=Markup(read_file("colors.css") + read_file("page.css")),  # noqa: S704
        drawn=Markup,
        marker=lambda place: Markup(draw_marker(place)),  # noqa: S704
        text=text,
        **values,
    )


LOCK = ".lock"
"""A file that a run holds while it writes. It stays, and is free again when the process ends."""


def check_folder(folder: Path) -> None:
    """Raise an error if the folder has files that are not of a first look, or another run is writing there."""
    if (folder / LOCK).exists():
        with hold_folder(folder):
            pass
    if (
        folder.is_dir()
        and any((folder / name).exists() for name in (PAGE, SUMMARY, MODEL, PERSONAL))
        and not _is_ours(folder)
    ):
        raise ParameterError.of(
            "folder", str(folder), "holds files of the same names that are no first look; give another"
        )


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Reserve a folder, created if missing, for this process; raise an error if another process writes there."""
    folder.mkdir(parents=True, exist_ok=True)
    with try_lock(folder / LOCK) as is_free:
        if not is_free:
            raise ParameterError(
                f"{folder}: another first look is being written there; wait for it, or give another folder"
            )
        yield


def _is_ours(folder: Path) -> bool:
    try:
        found = json.loads((folder / SUMMARY).read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("kind") == KIND


def write_files(look: FirstLook, *, models: bool) -> None:
    """Write page and numbers, and with `models` the models, each file atomically."""
    assert look.folder is not None
    if models and look.model is not None:
        look.model.save(look.folder / MODEL)
        if look.personal_model is not None:
            look.personal_model.save(look.folder / PERSONAL)
        else:
            (look.folder / PERSONAL).unlink(missing_ok=True)
    plain = json.dumps(to_plain(look.summary()), indent=1, allow_nan=False)
    write_text(look.folder / SUMMARY, plain + "\n")
    write_text(look.folder / PAGE, render_page(look))


def render_page(look: FirstLook) -> str:
    """Return the page of a first look."""
    return render_template(
        "csrr.report",
        "first_look.html",
        look=look,
        panels=make_panels(look),
        list_names=list_series_names,
        draw=lambda panel: draw_panel(panel, list_series_names([panel]), width=PHONE).svg,
        findings=findings.list_findings(look),
        hits=findings.count_hits(look),
        commands=findings.list_commands(look),
        format_day=format_day,
        short=SHORT,
        model_file=MODEL,
        personal_file=PERSONAL,
    )


def make_panels(look: FirstLook) -> dict[str, Panel]:
    """Return the charts of the page by name; "ratios" and "learning" are there only if their values are known."""
    accuracy = f"{look.metric.upper()} (larger is better)"
    models = []
    for each in look.done:
        low, high = each.with_history.interval(look.metric)
        models.append(Point(mean=each.with_history[look.metric], low=low, high=high, label=each.name))
    popularity = [Point(100 * items, 100 * events) for items, events in look.facts.popularity]
    costs = [Point(each.length, each.cost, each.low, each.high) for each in look.lists]
    list_series = [Series("" if look.best is None else look.best.name, costs)]
    labels = "items, most popular first, in %", "share of the events, in %"
    panels = {
        "popularity": Panel("Popularity", *labels, series=[Series("items", popularity)]),
        "models": Panel("Models", "", accuracy, series=[Series("mean", models)], kind="dots"),
        "users": Panel("Users", "", accuracy, series=_list_groups(look.by_users), kind="dots"),
        "items": Panel("Items", "", "share found (larger is better)", series=_list_groups(look.by_items), kind="dots"),
        "lists": Panel("Cost of lists", "length of the list", "cost per user", series=list_series),
    }
    if look.costs is not None:
        series = [Series("CSRR", [Point(each.cost_ratio, each.cost, each.low, each.high) for each in look.costs])]
        panels["ratios"] = Panel("Cost curve", "weight of clicks", "cost per user", True, series)
    if look.learning and look.shown is not None:
        gains = [Point(0.0, each.gain, each.gain_low, each.gain_high, label=each.part) for each in look.learning]
        label = f"gain of {look.metric.upper()}"
        panels["learning"] = Panel("More data", "", label, series=[Series(look.shown.name, gains)], kind="dots")
    return panels


def _list_groups(groups: Sequence[GroupScore]) -> list[Series]:
    """Return a series for each model, with a point for each group."""
    found: dict[str, list[Point]] = {}
    for each in groups:
        point = Point(mean=each.mean, low=each.low, high=each.high, label=each.name.partition(" (")[0])
        found.setdefault(each.model, []).append(point)
    return [Series(model, points) for model, points in found.items()]
