"""`csrr calibrate`: what the scores of a model mean, learned from events it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from csrr._base.progress import show_live_line
from csrr.cli.errors import Failure, check_expendable, load_model
from csrr.cli.help import Command
from csrr.cli.options import LOG_OPTIONS, PLOT_FILE, add_options, json_option, model_argument, model_output, read_log
from csrr.cli.output import print_json, say

if TYPE_CHECKING:
    import csrr
    from csrr.ranking.reliability import GroupReliability


@click.command(cls=Command)
@model_argument
@click.argument("heldout")
@model_output
@click.option(
    "--observed-share",
    type=float,
    default=1.0,
    show_default=True,
    help="Share of all choices that the two logs show: above 0, at most 1.",
)
@click.option(
    "--groups",
    type=click.IntRange(1, 20),
    default=1,
    show_default=True,
    help="Groups of items by popularity, and of users by activity, with a curve for each pair; 1: one curve for all.",
)
@click.option("--plot", type=PLOT_FILE, help="Draw probabilities against rates: .svg or .html.")
@click.option("--miss", type=float, help="Cost of a missed choice, to find the best threshold; with --false-alarm.")
@click.option("--false-alarm", type=float, help="Cost of a false alarm; with --miss.")
@add_options(*LOG_OPTIONS, json_option)
def calibrate(model: Path, heldout: str, output: Path, plot: Path | None, as_json: bool, **options: Any) -> None:
    """Learn how probable a choice is at each score of MODEL.

    HELDOUT is a log of events that MODEL was not fitted to. The model is written to -o, which may be MODEL itself, with
    its probabilities: `csrr recommend` then shows them and takes --min-probability. All users of the model count, also
    those without events in HELDOUT. Without --observed-share a probability is that of an event that logs like these
    would show; with it, of any choice, if which choices the logs show is a matter of chance.

    The calibration error (ECE), the table and the plot are of half of the users, with probabilities learned from the
    others; what is written is learned from all. Also shown are the groups of items and of users,
    by their number of training events, whose probabilities are furthest off: --groups corrects for these.

    Examples:
      # Write the probabilities into the model
      csrr calibrate model.csrr heldout.csv -o model.csrr

      # Also say from which score on a recommendation pays
      csrr calibrate model.csrr heldout.csv -o model.csrr --miss 5 --false-alarm 1

      # Then recommend what is probable enough
      csrr recommend model.csrr --user 42 --min-probability 0.2
    """
    import csrr

    _check_usage(options)
    check_expendable(output)
    fitted = load_model(model)
    with show_live_line() as line:
        line.show(f"reading {heldout}")
        events = read_log(heldout, options)
        line.show(f"scoring {len(fitted.users_):,} users x {len(fitted.items_):,} items")
        reliability = _judge(fitted, events, options["observed_share"], options["groups"])
        calibration = fitted.calibrate(events, observed_share=options["observed_share"], n_groups=options["groups"])
        fitted.save(output)
        if plot is not None:
            csrr.plot(reliability, plot)
    choice = _choose_threshold(calibration, len(fitted.users_), options["miss"], options["false_alarm"])
    if as_json:
        print_json(_summarise(output, calibration, reliability, choice))
    else:
        say("\n".join(_describe(output, calibration, reliability, choice)))


def _check_usage(options: dict[str, Any]) -> None:
    if not 0 < options["observed_share"] <= 1:
        raise click.UsageError(f"--observed-share {options['observed_share']:g}: it must be above 0 and at most 1")
    costs = {name: options[name] for name in ("miss", "false_alarm")}
    if (costs["miss"] is None) != (costs["false_alarm"] is None):
        raise click.UsageError("--miss and --false-alarm go together")
    for name, cost in costs.items():
        if cost is not None and not 0 < cost < float("inf"):
            raise click.UsageError(f"--{name.replace('_', '-')} {cost:g}: a cost must be a finite number above 0")


def _judge(model: csrr.Recommender, events: csrr.Log, observed_share: float, n_groups: int) -> csrr.Reliability:
    """Return how probabilities learned from half of the users do on the rest: where they are learned, they fit."""
    import csrr

    ids = model.users_.ids
    try:
        model.calibrate(events, observed_share=observed_share, users=ids[::2], n_groups=n_groups)
        return model.reliability(events, users=ids[1::2], observed_share=observed_share)
    except csrr.ParameterError as error:
        raise Failure(f"{error}; they must be of enough users to learn from a half and check on the other") from error


def _choose_threshold(
    calibration: csrr.Calibration, n_users: int, miss: float | None, false_alarm: float | None
) -> dict[str, Any] | None:
    """Return the threshold for the costs, as a score and as a probability, and how much lies above it; or None."""
    if miss is None or false_alarm is None:
        return None
    least = false_alarm / (miss + false_alarm)
    if calibration.curves is None:
        n_above = int(calibration.n_cells[calibration.worth(miss, false_alarm)].sum())
    else:
        n_above = int(calibration.curves.n_cells[calibration.curves.probabilities > least].sum())
    return {
        "miss": miss,
        "false_alarm": false_alarm,
        "probability": least,
        # Groups differ in the score from which on an item is worth it.
        "score": calibration.threshold(miss, false_alarm) if calibration.curves is None else None,
        "items_per_user": n_above / n_users,
    }


def _describe(
    output: Path, calibration: csrr.Calibration, reliability: csrr.Reliability, choice: dict[str, Any] | None
) -> list[str]:
    from csrr.results.table import format_text_table

    rows = list(reliability.rows())
    names = ("probability", "rate", "low", "high", "cells", "positives")
    n_cells, n_positives = calibration.n_cells.sum(), calibration.n_positives.sum()
    lines = [
        f"{output}: {n_cells:,} cells that are not in the training data, {n_positives:,} of them positive",
        f"calibration error (ECE) {reliability.ece:.4f}, of half of the users, learned from the others",
        format_text_table(names, [[row[name] for name in names] for row in rows]),
        *_describe_groups(reliability),
    ]
    if choice is None:
        return lines
    costs = f"at {choice['miss']:g} a miss and {choice['false_alarm']:g} a false alarm"
    if choice["items_per_user"] == 0:
        return [*lines, f"{costs}, nothing is worth recommending: no probability is above {choice['probability']:.4f}"]
    score = "" if choice["score"] is None else f" (score {choice['score']:.4f})"
    return [
        *lines,
        f"{costs}, recommend above probability {choice['probability']:.4f}{score}:"
        f" {choice['items_per_user']:.1f} items a user",
    ]


def _describe_groups(reliability: csrr.Reliability) -> list[str]:
    """Return a line for the items, and one for the users, of which the probabilities are furthest off."""
    lines = []
    for what, found in (("items", reliability.by_popularity), ("users", reliability.by_activity)):
        if found is not None and len(found.parts) > 1:
            row = found.worst
            events = f"{row['from']} or more" if row["to"] is None else f"{row['from']} to {row['to']}"
            told = f"{row['probability']:.4f} said, {row['rate']:.4f} true"
            lines.append(
                f"furthest off by {found.by}: {what} of {events} training events, {told}, ECE {row['ece']:.4f}"
            )
    return lines


def _summarise(
    output: Path, calibration: csrr.Calibration, reliability: csrr.Reliability, choice: dict[str, Any] | None
) -> dict[str, Any]:
    return {
        "model": str(output),
        "n_cells": calibration.n_cells.sum(),
        "n_positives": calibration.n_positives.sum(),
        "observed_share": calibration.observed_share,
        "label_rate": calibration.label_rate,
        "ece": reliability.ece,
        "bins": list(reliability.rows()),
        "by_popularity": _list_rows(reliability.by_popularity),
        "by_activity": _list_rows(reliability.by_activity),
        "threshold": choice,
    }


def _list_rows(found: GroupReliability | None) -> list[dict[str, Any]]:
    return [] if found is None else list(found.table().rows())
