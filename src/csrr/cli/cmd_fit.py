"""`csrr fit`: a log becomes a model file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from csrr._base.progress import show_live_line
from csrr._base.text import describe_size
from csrr.cli import interrupts
from csrr.cli.errors import check_expendable, tell_written
from csrr.cli.help import Command
from csrr.cli.options import (
    ITEM_OPTIONS,
    LOG_OPTIONS,
    MODEL_OPTIONS,
    PARAM_OPTION,
    add_options,
    explain_no_kind,
    find_kind,
    fit_model,
    json_option,
    kind_option,
    log_argument,
    make_model,
    model_output,
    read_log,
    set_items,
)
from csrr.cli.output import print_json, say

if TYPE_CHECKING:
    import csrr


@click.command(cls=Command)
@log_argument
@model_output
@kind_option
@add_options(PARAM_OPTION, *LOG_OPTIONS, *MODEL_OPTIONS, *ITEM_OPTIONS, json_option)
@click.option("--force", is_flag=True, help="Write over a file even if it is no model.")
def fit(log: str, output: Path, model: str, as_json: bool, force: bool, **options: Any) -> None:
    """Fit a model to LOG and write it to a file.

    What is not given is chosen on held-out events of LOG, and a line says what that was.
    LOG is a file, folder or zip archive (MovieLens, Last.fm, CSV, TSV, Parquet, ...), or the name of a data
    set (see `csrr data list`). The last line printed says how far the fit is, at most, from the optimum, or,
    of models that cannot say that, how long it took.
    Parameters that are left out have the defaults of the model; `csrr info` prints them.

    Examples:
      # A model of your clicks
      csrr fit clicks.csv -o model.csrr

      # Only ratings of 4 and more count as liked
      csrr fit ratings.csv --min-rating 4 -o model.csrr

      # Another kind of model, with a parameter of its own
      csrr fit clicks.csv -o ease.csrr --model ease -p reg=300

      # Titles, categories and prices go into the model
      csrr fit clicks.csv -o model.csrr --items items.csv
    """
    kind = find_kind(model)
    if kind is None:
        raise click.UsageError(f"--model {model}: there is no such model{explain_no_kind(model)}")
    fitted = make_model(kind, options)
    if not force:
        check_expendable(output, ", or --force to write over it")
    interrupts.say_at_the_end(tell_written(output))
    with show_live_line() as line:
        line.show(f"reading {log}")
        events = read_log(log, options)
        line.show(f"fitting {events.n_users:,} users x {events.n_items:,} items, {len(events):,} events")
        began = time.perf_counter()
        fit_model(fitted, events, line)
        seconds = time.perf_counter() - began
        set_items(fitted, options)
        line.show(f"writing {output}")
        fitted.save(output)
    if as_json:
        print_json(_summarise(fitted, events, output, seconds))
    else:
        size = describe_size(output.stat().st_size)
        say(f"{output}: {events.n_users:,} users x {events.n_items:,} items, {len(events):,} events, {size}")
        if (chosen := getattr(fitted, "chosen_", None)) is not None:
            say(chosen.note)
        certificate = getattr(fitted, "certificate_", None)
        say(f"{type(fitted).__name__}, fitted in {seconds:.2f} s" if certificate is None else str(certificate))
        if getattr(fitted, "recall_weight", None) is not None and (costs := getattr(fitted, "costs_", None)):
            say(str(costs))


def _summarise(model: csrr.Recommender, events: csrr.Log, output: Path, seconds: float) -> dict[str, Any]:
    certificate = getattr(model, "certificate_", None)
    return {
        "model": str(output),
        "kind": type(model).__name__,
        "bytes": output.stat().st_size,
        "n_users": events.n_users,
        "n_items": events.n_items,
        "n_events": len(events),
        "params": model.get_params(),
        "seconds": seconds,
        "costs": str(model.costs_) if hasattr(model, "costs_") else None,
        "certificate": certificate and certificate.to_dict(),
        "chosen": model.chosen_.summary() if hasattr(model, "chosen_") else None,
    }
