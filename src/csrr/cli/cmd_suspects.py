"""`csrr suspects` and `csrr clean`: which clicks are noise, and the log without them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from csrr._base.progress import show_live_line
from csrr.cli import options as opts
from csrr.cli.errors import Failure, load_model
from csrr.cli.help import Command
from csrr.cli.output import print_json, say

if TYPE_CHECKING:
    from csrr.noise.suspects import Suspects
    from csrr.results.table import ResultTable

popularity_option = click.option(
    "--popularity",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    help="How much noise prefers popular items: 0 not at all, 1 in proportion to their clicks.",
)


@click.command(cls=Command)
@opts.model_argument
@click.option(
    "--by", type=click.Choice(["event", "user", "item"]), default="event", show_default=True, help="What to list."
)
@click.option("-n", type=click.IntRange(min=1), default=20, show_default=True, help="Number of rows to print.")
@click.option("--min-score", type=click.FloatRange(0, 1), default=0.0, help="Only what has at least this score.")
@popularity_option
@click.option("--stability", is_flag=True, help="Refit with small changes, and say what stays.")
@click.option("-o", "--output", type=opts.NewFile(".csv"), help="Write the whole list as CSV.")
@opts.spreadsheet_option
@opts.json_option
def suspects(model: Path, by: str, n: int, stability: bool, output: Path | None, as_json: bool, **options: Any) -> None:
    """List the clicks of MODEL that look most like noise.

    Or their users or items, with --by: those that it was fitted to, most suspect first.
    MODEL is a CSRR, CSRRe, EASE or ItemKNN: these tell what a click would score without itself.
    The score of a click is a rate of noise under assumptions: noise falls on items regardless of taste, and taste fades
    where the model ranks lowest. A user's or an item's is the mean of its clicks. Diffuse taste and noise look alike: a
    share that is unreliable is marked as such.

    Examples:
      # The most suspect clicks
      csrr suspects model.csrr

      # The most suspect users, bots perhaps, all of them to a file
      csrr suspects model.csrr --by user -o users.csv
    """
    from csrr.results.table import write_table_file

    fitted: Any = load_model(model)
    opts.check_can(fitted, "suspects", "tell noise from taste")
    if stability:
        opts.check_can(fitted, "stability", "tell what small changes leave (--stability)")
    with show_live_line() as line:
        line.show("judging the clicks")
        found: Suspects = fitted.suspects(
            popularity=options["popularity"], **({"stability": True} if stability else {})
        )
    table: ResultTable = getattr(found, f"{by}s")
    table = table.take(table["score" if by == "event" else "noise"] >= options["min_score"])
    if output is not None:
        write_table_file(output, table.to_arrow(), spreadsheet=options["spreadsheet"])
    if as_json:
        facts = {"n_events": len(found), **_describe_share(found), "by": by, "n_suspects": len(table)}
        listed = {"output": str(output)} if output is not None else {"suspects": list(table.head(n).rows())}
        print_json(facts | listed | ({} if found.stability is None else {"stability": list(found.stability.rows())}))
        return
    say(found.describe_share())
    say(f"{output}: {len(table):,} {by}s" if output is not None else str(table.head(n)))
    if found.stability is not None:
        say(f"\n{found.stability}")


@click.command(cls=Command)
@opts.log_argument
@click.option("-o", "--output", type=opts.NewFile(".csv"), help="The CSV file to write.")
@click.option("--dry-run", is_flag=True, help="Show how much would be removed, and examples; write nothing.")
@click.option(
    "--above",
    type=click.FloatRange(0, 1, min_open=True),
    help="Remove events with a larger score.  [default: 1 % of the events at most, of those above 0.5]",
)
@popularity_option
@click.option("--removed", type=opts.NewFile(".csv"), help="Write what is removed, most suspect first, as CSV.")
@opts.add_options(opts.spreadsheet_option, *opts.LOG_OPTIONS, opts.json_option)
def clean(log: str, output: Path | None, dry_run: bool, removed: Path | None, as_json: bool, **options: Any) -> None:
    """Write LOG without the events that look most like noise.

    They are judged by a CSRR with --reg-sparse 0.5. Noise and diffuse taste look alike: see --dry-run first. By
    default the most suspect go, 1 % of all events at most. The file has the columns user, item and, where known,
    weight, time and title, for any program to train on: ids and titles as they are, unless --spreadsheet is given.

    Examples:
      # See first how much would be removed, with examples
      csrr clean clicks.csv --dry-run

      # Then write what stays, and what goes
      csrr clean clicks.csv -o clean.csv --removed removed.csv
    """
    from csrr.noise.suspects import plan_cleaning
    from csrr.results.table import SHOWN, write_table_file

    if output is None and not dry_run:
        raise click.UsageError("Missing option '-o' / '--output' (or --dry-run, which writes nothing)")
    _check_files(log, output, removed)
    with show_live_line() as line:
        line.show(f"reading {log}")
        events = opts.read_log(log, options)
        line.show(f"judging {len(events):,} events")
        planned = plan_cleaning(events, above=options["above"], popularity=options["popularity"])
        for path, table in ((removed, planned.removed), (output, planned.log)):
            if path is not None and not dry_run:
                write_table_file(path, table.to_arrow(), spreadsheet=options["spreadsheet"])
    n_removed = int(planned.mask.sum())
    if as_json:
        files = {"output": output, "removed": removed}
        written = {name: None if path is None or dry_run else str(path) for name, path in files.items()}
        facts = {"n_events": len(events), "n_removed": n_removed, **_describe_share(planned.suspects)}
        tables = {"examples": planned.removed.head(SHOWN), "choices": planned.choices} if dry_run else {}
        shown: dict[str, Any] = {"dry_run": True} if dry_run else {}
        shown |= {name: list(table.rows()) for name, table in tables.items()}
        print_json(written | facts | {"warning": planned.warning or None} | shown)
    elif dry_run:
        say(planned)
    else:
        if planned.warning:
            say(f"warning: {planned.warning}", err=True)
        say(f"{output}: {n_removed:,} of {len(events):,} events removed, {len(events) - n_removed:,} left")


def _describe_share(found: Suspects) -> dict[str, Any]:
    shares = {name: getattr(found, name) for name in ("noise_share", "share_at_bottom")}
    return shares | {"doubt": found.doubt or None}


def _check_files(log: str, output: Path | None, removed: Path | None) -> None:
    """Raise an error if a file to write is the log, or both are one."""
    for option, path in (("-o", output), ("--removed", removed)):
        if path is not None and path.exists() and Path(log).exists() and path.samefile(log):
            raise Failure(f"{option} {path} is the log itself; give another name")
    if removed is not None and output is not None and removed.absolute() == output.absolute():
        raise click.UsageError("-o and --removed name the same file")
