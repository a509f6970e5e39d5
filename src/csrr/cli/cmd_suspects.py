"""`csrr suspects` and `csrr clean`: which clicks are noise, and the log without them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from csrr.cli.failures import Failure
from csrr.cli.options import (
    LOG_OPTIONS,
    add_options,
    check_can,
    check_writable,
    json_option,
    model_argument,
    read_log,
    spreadsheet_option,
)
from csrr.cli.output import print_json, say, write_csv
from csrr.progress import show_live_line

if TYPE_CHECKING:
    from csrr.noise.suspects import Suspects
    from csrr.ranking.result_table import ResultTable

popularity_option = click.option(
    "--popularity",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    help="How much noise prefers popular items: 0 not at all, 1 in proportion to their clicks.",
)


@click.command()
@model_argument
@click.option(
    "--by", type=click.Choice(["event", "user", "item"]), default="event", show_default=True, help="What to list."
)
@click.option("-n", type=click.IntRange(min=1), default=20, show_default=True, help="Number of rows to print.")
@click.option("--min-score", type=click.FloatRange(0, 1), default=0.0, help="Only what is noise at least so probably.")
@popularity_option
@click.option("--stability", is_flag=True, help="Refit with small changes, and say what stays.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the whole list as CSV.")
@spreadsheet_option
@json_option
def suspects(
    model: Path,
    by: str,
    n: int,
    min_score: float,
    popularity: float,
    stability: bool,
    output: Path | None,
    spreadsheet: bool,
    as_json: bool,
) -> None:
    """List the clicks that MODEL was fitted to, or their users or items, most suspect first.

    MODEL is a CSRR, CSRRe, EASE or ItemKNN: these tell what a click would score without itself.
    The score of a click is the probability that it is noise, if noise falls on items regardless of taste; a user's or
    an item's is the expected share of noise among its clicks.
    """
    import csrr

    if output is not None:
        _check_csv("-o", output)
    fitted: Any = csrr.load(model)
    check_can(fitted, "suspects", "tell noise from taste")
    if stability:
        check_can(fitted, "stability", "tell what small changes leave (--stability)")
    with show_live_line() as line:
        line.show("judging the clicks")
        found: Suspects = fitted.suspects(popularity=popularity, **({"stability": True} if stability else {}))
    steady = found.stability
    table: ResultTable = getattr(found, f"{by}s")
    table = table.take(table["score" if by == "event" else "noise"] >= min_score)
    if output is not None:
        write_csv(table.to_arrow(), output, spreadsheet=spreadsheet)
    if as_json:
        facts = {"n_events": len(found), "noise_share": found.noise_share, "by": by, "n_suspects": len(table)}
        shown = {"output": str(output)} if output is not None else {"suspects": list(table.head(n).rows())}
        print_json(facts | shown | ({} if steady is None else {"stability": list(steady.rows())}))
        return
    say(f"{found.noise_share:.1%} of {len(found):,} events are noise, by estimate")
    say(f"{output}: {len(table):,} {by}s" if output is not None else str(table.head(n)))
    if steady is not None:
        say(f"\n{steady}")


@click.command()
@click.argument("log")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The CSV file to write.")
@click.option(
    "--above",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.5,
    show_default=True,
    help="Remove events that are noise with a larger probability.",
)
@popularity_option
@click.option("--removed", type=click.Path(path_type=Path), help="Write what is removed, most suspect first, as CSV.")
@add_options(spreadsheet_option, *LOG_OPTIONS, json_option)
def clean(
    log: str,
    output: Path,
    above: float,
    popularity: float,
    removed: Path | None,
    spreadsheet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Write LOG without the events that are probably noise.

    They are judged by a CSRR with --reg-sparse 0.5. The file has the columns user, item and, where known, weight, time
    and title, for any program to train on: ids and titles as they are, unless --spreadsheet is given.
    """
    from csrr.noise.suspects import find_suspects_in

    _check_files(log, output, removed)
    with show_live_line() as line:
        line.show(f"reading {log}")
        events = read_log(log, options)
        line.show(f"judging {len(events):,} events")
        found = find_suspects_in(events, popularity=popularity)
        out = found.above(above)
        if removed is not None:
            write_csv(found.events.take(found.events["score"] > above).to_arrow(), removed, spreadsheet=spreadsheet)
        write_csv(events.select(~out).to_arrow(), output, spreadsheet=spreadsheet)
    if as_json:
        facts = {"n_events": len(events), "n_removed": out.sum(), "noise_share": found.noise_share}
        print_json({"output": str(output), "removed": None if removed is None else str(removed)} | facts)
    else:
        say(f"{output}: {out.sum():,} of {len(events):,} events removed, {(~out).sum():,} left")


def _check_files(log: str, output: Path, removed: Path | None) -> None:
    """Raise an error if a file to write cannot be written, or is the log."""
    named = [("-o", output), *([("--removed", removed)] if removed is not None else [])]
    for option, path in named:
        _check_csv(option, path)
        if path.exists() and Path(log).exists() and path.samefile(log):
            raise Failure(f"{option} {path} is the log itself; give another name")
    if removed is not None and removed.absolute() == output.absolute():
        raise click.UsageError("-o and --removed name the same file")


def _check_csv(option: str, path: Path) -> None:
    if path.suffix != ".csv":
        raise click.UsageError(f"{option} {path}: the name must end in .csv")
    check_writable(path)
