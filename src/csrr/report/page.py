"""What was found -> one page that needs nothing else, its numbers as JSON, and the model, in a folder."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from csrr._base.files import try_lock, write_text
from csrr._base.text import (
    format_duration,
    format_fixed,
    format_number_of,
    format_p_value,
    format_percent,
    make_printable,
)
from csrr.parameters import ParameterError
from csrr.report import look_charts as charts
from csrr.report.charts import draw_marker
from csrr.report.examine import SHORT, format_day
from csrr.report.findings import count_served, list_commands, list_findings
from csrr.report.plot import read_colour_sheet, read_page_sheet
from csrr.report.result import KIND, MODEL, PAGE, PERSONAL, SUMMARY, FirstLook


def render_template(package: str, name: str, **values: Any) -> str:
    """Return the page that a template of a package, such as "csrr_paper", makes of values.

    All text is escaped, and controls and marks that turn text around are spelled out.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: make_printable(value, keep="\n\t") if type(value) is str else value,
    )
    # The charts escape their own text.
    return environment.get_template(name).render(
        colours=Markup(read_colour_sheet()),  # noqa: S704
        style=Markup(read_page_sheet()),  # noqa: S704
        drawn=Markup,
        marker=lambda place: Markup(draw_marker(place)),  # noqa: S704
        **values,
    )


LOCK = ".lock"
"""Held while a run writes; the file stays, and counts for nothing once its process is gone."""


def check_folder(folder: Path) -> None:
    """Raise an error now if the folder holds files that are no first look, or another run is writing there."""
    if (folder / LOCK).exists():
        with hold_folder(folder):
            pass
    if (
        folder.is_dir()
        and any((folder / name).exists() for name in (PAGE, SUMMARY, MODEL, PERSONAL))
        and not _is_ours(folder)
    ):
        raise ParameterError(
            f"folder={str(folder)!r} holds files of the same names that are no first look; give another"
        )


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Keep a folder, made if it is not there, to this process; an error says that another has it."""
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
    """Write page and numbers, and with `models` the models, each whole or not at all."""
    assert look.folder is not None
    if models and look.model is not None:
        look.model.save(look.folder / MODEL)
        if look.personal_model is not None:
            look.personal_model.save(look.folder / PERSONAL)
        else:
            (look.folder / PERSONAL).unlink(missing_ok=True)
    plain = json.dumps(make_plain(look.summary()), indent=1, allow_nan=False)
    write_text(look.folder / SUMMARY, plain + "\n")
    write_text(look.folder / PAGE, render_page(look))


def make_plain(value: Any) -> Any:
    """Return plain values with null for what is no number."""
    if isinstance(value, dict):
        return {name: make_plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [make_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def render_page(look: FirstLook) -> str:
    """Return the page of a first look."""
    return render_template(
        "csrr.report",
        "first_look.html",
        look=look,
        charts=charts,
        facts=list_facts(look),
        findings=list_findings(look),
        served=count_served(look),
        commands=list_commands(look),
        numbers={"fixed": format_fixed, "p": format_p_value, "time": format_duration, "of": format_number_of},
        percent=format_percent,
        model_file=MODEL,
        personal_file=PERSONAL,
    )


def list_facts(look: FirstLook) -> list[tuple[str, str]]:
    """Return what the log is, as (name, value)."""
    facts = look.facts
    _, low, median, high, most = facts.events_per_user
    short = facts.n_short / max(1, facts.n_users)
    shown = {
        "File": look.source or "",
        "Columns": facts.columns or "",
        "Users": f"{facts.n_users:,}",
        "Items": f"{facts.n_items:,}" + f"; {_tell_titles(look.n_titled, facts.n_items)}",
        "Events": f"{facts.n_events:,}" + (", with weights" if facts.weighted else ""),
        "Times": ""
        if facts.first is None or facts.last is None
        else f"{format_day(facts.first)} to {format_day(facts.last)}",
        "Repeats": f"{format_number_of(facts.n_repeats, 'row')}, merged" if facts.n_repeats else "none",
        "Density": f"{100 * facts.density:.2g} % of all pairs of a user and an item are events",
        "Skew": f"the most popular tenth of the items has {format_percent(facts.top_share)} of the events;"
        f" {format_number_of(facts.n_single_items, 'item')} with one event",
        "Events per user": (
            f"half of the users have {low:,} to {high:,}" if low < high else f"at least half of the users have {low:,}"
        )
        + f"; the median is {median:,}, the most {most:,}",
        "Short histories": f"{format_number_of(facts.n_short, 'user')} ({format_percent(short)}) with fewer than"
        f" {SHORT} events",
        "Bots": f"{format_number_of(len(facts.machines), 'account')}, by their events" if facts.machines else "none",
    }
    return [(name, value) for name, value in shown.items() if value]


def _tell_titles(n_titled: int, n_items: int) -> str:
    if n_titled in (0, n_items):
        return "all have a title" if n_titled else "none has a title"
    return f"{n_titled:,} have a title"
