"""What was found -> one page that needs nothing else, its numbers as JSON, and the model, in a folder."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from csrr.files import write_text
from csrr.first_look import charts_of_look as charts
from csrr.first_look.examine import SHORT
from csrr.first_look.findings import list_commands, list_findings
from csrr.first_look.oddities import format_day
from csrr.first_look.result import KIND, MODEL, PAGE, SUMMARY, FirstLook
from csrr.parameters import ParameterError
from csrr.plots.number_text import format_count, format_duration, format_fixed, format_p_value, format_percent
from csrr.plots.page_template import render_template


def check_folder(folder: Path) -> None:
    """Raise an error now if the folder holds files that are no first look."""
    if folder.is_dir() and any((folder / name).exists() for name in (PAGE, SUMMARY, MODEL)) and not _is_ours(folder):
        raise ParameterError(
            f"folder={str(folder)!r} holds files of the same names that are no first look; give another"
        )


def _is_ours(folder: Path) -> bool:
    try:
        found = json.loads((folder / SUMMARY).read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("kind") == KIND


def write_files(look: FirstLook, *, model: bool) -> None:
    """Write page and numbers, and with `model` the model, each whole or not at all."""
    assert look.folder is not None
    look.folder.mkdir(parents=True, exist_ok=True)
    if model and look.model is not None:
        look.model.save(look.folder / MODEL)
    plain = json.dumps(make_plain(look.summary()), indent=1, ensure_ascii=False, allow_nan=False)
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
        "csrr.first_look",
        "first_look.html",
        look=look,
        charts=charts,
        facts=list_facts(look),
        findings=list_findings(look),
        commands=list_commands(look),
        numbers={"fixed": format_fixed, "p": format_p_value, "time": format_duration, "count": format_count},
        percent=format_percent,
        model_file=MODEL,
    )


def list_facts(look: FirstLook) -> list[tuple[str, str]]:
    """Return what the log is, as (name, value)."""
    facts = look.facts
    _, low, median, high, most = facts.events_per_user
    short = facts.n_short / max(1, facts.n_users)
    shown = {
        "File": look.source or "",
        "Columns": facts.columns or "",
        "Users": format_count(facts.n_users),
        "Items": format_count(facts.n_items),
        "Events": f"{facts.n_events:,}" + (", with weights" if facts.weighted else ""),
        "Times": ""
        if facts.first is None or facts.last is None
        else f"{format_day(facts.first)} to {format_day(facts.last)}",
        "Repeats": f"{facts.n_repeats:,} rows, merged" if facts.n_repeats else "none",
        "Sparsity": f"{100 * facts.density:.2g} % of all pairs are events",
        "Skew": f"the most popular tenth of the items has {format_percent(facts.top_share)} of the events;"
        f" {facts.n_single_items:,} items have one event",
        "Events per user": f"half of the users have {low:,} to {high:,}; the median is {median:,}, the most {most:,}",
        "Short histories": f"{facts.n_short:,} users ({format_percent(short)}) have fewer than {SHORT} events",
        "Bots": f"{len(facts.machines):,} accounts look like one" if facts.machines else "no account looks like one",
    }
    return [(name, value) for name, value in shown.items() if value]
