"""`csrr start`: one command from a file to an answer."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from csrr._base.progress import show_live_line
from csrr.cli import options as opts
from csrr.cli.errors import describe_written, stoppable
from csrr.cli.help import Command
from csrr.cli.interrupts import NOTHING_WRITTEN
from csrr.cli.output import print_json, say, say_command


@click.command(cls=Command)
@opts.log_argument
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default="first-look",
    show_default=True,
    help="Folder to write to.",
)
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    help="How long it may take, about.  [default: what it needs, ten at most]",
)
@click.option("--miss", type=float, default=10.0, show_default=True, help="What a wanted item costs that is not shown.")
@click.option(
    "--false-alarm", type=float, default=1.0, show_default=True, help="What an item costs that is shown in vain."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of what is drawn at random.")
@click.option("--ease", is_flag=True, help="Fit EASE however long it takes, beyond --minutes.")
@opts.add_options(*opts.LOG_OPTIONS, *opts.ITEM_OPTIONS, opts.json_option)
def start(log: str, output: Path, as_json: bool, **options: Any) -> None:
    """Find the best model for LOG, and write a page about it.

    Says what the log is and what is odd in it, holds out a test, fits popularity, the classics and CSRR, compares them,
    and keeps the best, fitted to all events. The folder has page.html, which needs nothing else, summary.json and
    model.csrr. After Ctrl-C it has what was known by then.

    Examples:
      # The best model for your clicks, and a page about it
      csrr start clicks.csv

      # Columns of other names, five minutes at most
      csrr start orders.csv --user-column customer --item-column sku --minutes 5

      # Titles from another file
      csrr start clicks.csv --items items.csv

      # Only ratings of 4 and more count as liked
      csrr start ratings.csv --min-rating 4 -o ratings-look
    """
    from csrr.report.findings import PAGE, list_commands
    from csrr.report.page import check_folder
    from csrr.report.start import start as start_look

    with show_live_line() as line, stoppable(describe_kept(output)):
        check_folder(output)
        line.show(f"reading {log}")
        items = opts.read_item_table(options)
        events = opts.read_log(log, options)
        given = {name: options[name] for name in ("minutes", "miss", "false_alarm", "ease", "seed")}
        spelled = shlex.join(opts.spell_log_options(options))
        look = start_look(events, folder=output, items=items, callback=line.show, source=log, options=spelled, **given)
    if as_json:
        print_json(look.summary())
        return
    say(repr(look))
    for each in look.anomalies:
        say(f"odd: {each.what} {each.action}")
    for command in list_commands(look):
        say(command.what)
        say_command(shlex.split(command.line))
    say(f"the page: {output / PAGE}")


def describe_kept(output: Path) -> Callable[[], str]:
    """Return a function that says what was written to the folder since it was made."""
    from csrr.report.findings import PAGE, SUMMARY

    written = describe_written(output / SUMMARY)

    def message() -> str:
        if (said := written()) == NOTHING_WRITTEN:
            return said
        found = json.loads((output / SUMMARY).read_text("utf-8"))
        done = [each["model"] for each in found["models"] if each["means"] is not None]
        return f"interrupted: {output / PAGE} tells what was found by then, of {', '.join(done) or 'the log alone'}"

    return message
