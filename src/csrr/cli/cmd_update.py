"""`csrr update`: a model file and the events that came since become a model of all of them."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from csrr._base.progress import show_live_line
from csrr._base.text import describe_size
from csrr.cli import interrupts
from csrr.cli.errors import check_expendable, load_model, tell_written
from csrr.cli.help import Command
from csrr.cli.options import (
    LOG_OPTIONS,
    add_options,
    fit_model,
    json_option,
    log_argument,
    model_argument,
    model_output,
    read_log,
)
from csrr.cli.output import print_json, say

if TYPE_CHECKING:
    import csrr


@click.command(cls=Command)
@model_argument
@log_argument
@model_output
@click.option("--choose", is_flag=True, help="Choose settings anew on held-out events, as fit does.")
@add_options(*LOG_OPTIONS, json_option)
def update(model: Path, log: str, output: Path, choose: bool, as_json: bool, **options: Any) -> None:
    """Add the events of LOG to MODEL.

    The model is fitted to them and to those that it was fitted to before. Users and items may be new. The fit begins
    where MODEL is and keeps the settings that it chose on held-out events; a line says by how much the log has grown
    since, and --choose chooses anew. LOG is read by the options that `csrr fit` had: give the same.

    The model is written to -o, which may be MODEL itself, atomically: whatever interrupts this, the file
    that was there stays. To add the same events again changes nothing, unless the model weighs them: weights add up.
    A calibration is dropped; `csrr calibrate` makes a new one.

    Examples:
      # Last night's clicks; the file is replaced atomically
      csrr update model.csrr new.csv -o model.csrr

      # On Sundays, choose settings anew
      csrr update model.csrr new.csv -o model.csrr --choose
    """

    check_expendable(output)
    fitted = load_model(model)
    before = (len(fitted.users_), len(fitted.items_), fitted.seen_.nnz)
    was_calibrated = fitted.calibration_ is not None
    interrupts.say_at_the_end(tell_written(output))
    with show_live_line() as line:
        line.show(f"reading {log}")
        events = _name_like(read_log(log, options), fitted)
        line.show(f"adding {len(events):,} events to {before[2]:,}")
        began = time.perf_counter()
        fit_model(fitted, events, line, by=fitted.update, choose=choose)
        seconds = time.perf_counter() - began
        line.show(f"writing {output}")
        fitted.save(output)
    added = dict(zip(("users", "items", "events"), _count_added(fitted, before), strict=True))
    if as_json:
        print_json(_summarise(fitted, output, added, seconds))
    else:
        say("\n".join(_describe(fitted, output, added, seconds, was_calibrated=was_calibrated)))


def _name_like(events: csrr.Log, model: csrr.Recommender) -> csrr.Log:
    """Return events whose ids are texts where the model's are: of a few lines all ids may look like integers."""
    import numpy as np

    users, users_to = _spell_like(events.users, model.users_)
    items, items_to = _spell_like(events.items, model.items_)
    user_rows, item_rows = users_to[events.user_rows], items_to[events.item_rows]
    order = np.lexsort((item_rows, user_rows))
    return replace(
        events,
        users=users,
        items=items,
        user_rows=user_rows[order],
        item_rows=item_rows[order],
        **{name: None if (each := getattr(events, name)) is None else each[order] for name in ("weights", "times")},
        titles=None if events.titles is None else events.titles[np.argsort(items_to)],
        types=None if events.types is None else events.types.select(order),
    )


def _spell_like(ids: csrr.IdMap, known: csrr.IdMap) -> tuple[csrr.IdMap, Any]:
    """Return ids, integers as texts where the known ones are texts, and where each row goes, shape (n,)."""
    import numpy as np

    import csrr

    if not (known.ids.dtype == object and ids.ids.dtype != object):
        return ids, np.arange(len(ids))
    spelled = [str(each) for each in ids.ids.tolist()]
    texts = csrr.IdMap(spelled)
    return texts, texts.rows(spelled)


def _count_added(model: csrr.Recommender, before: tuple[int, int, int]) -> tuple[int, int, int]:
    return len(model.users_) - before[0], len(model.items_) - before[1], model.seen_.nnz - before[2]


def _describe(
    model: csrr.Recommender, output: Path, added: dict[str, int], seconds: float, *, was_calibrated: bool
) -> list[str]:
    sizes = {"users": len(model.users_), "items": len(model.items_), "events": model.seen_.nnz}
    counts = [f"{sizes[name]:,} {name} ({n:,} new)" for name, n in added.items()]
    lines = [f"{output}: {' x '.join(counts[:2])}, {counts[2]}, {describe_size(output.stat().st_size)}"]
    if (chosen := getattr(model, "chosen_", None)) is not None:
        lines += [each for each in (chosen.note, chosen.growth_note) if each]
    certificate = getattr(model, "certificate_", None)
    lines.append(f"{type(model).__name__}, fitted in {seconds:.2f} s" if certificate is None else str(certificate))
    if was_calibrated:
        lines.append("the calibration was of other scores and is dropped: csrr calibrate makes a new one")
    return lines


def _summarise(model: csrr.Recommender, output: Path, added: dict[str, int], seconds: float) -> dict[str, Any]:
    certificate = getattr(model, "certificate_", None)
    return {
        "model": str(output),
        "kind": type(model).__name__,
        "bytes": output.stat().st_size,
        "n_users": len(model.users_),
        "n_items": len(model.items_),
        "n_events": model.seen_.nnz,
        "added": added,
        "seconds": seconds,
        "certificate": certificate and certificate.to_dict(),
        "chosen": model.chosen_.summary() if hasattr(model, "chosen_") else None,
    }
