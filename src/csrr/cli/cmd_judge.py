"""`csrr calibrate`, `costs`, `suspects` and `clean`: what scores mean, the threshold for your costs, and noise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from csrr._base.progress import show_live_line
from csrr.cli import options as opts
from csrr.cli.help import Command
from csrr.cli.output import Failure, print_json, say

if TYPE_CHECKING:
    import csrr
    from csrr.noise.suspects import Suspects
    from csrr.ranking.reliability import GroupReliability
    from csrr.results.table import ResultTable


@click.command(cls=Command)
@opts.model_argument
@click.argument("heldout")
@opts.model_output
@click.option("--observed-share", type=opts.SHARE, default=1.0, help="Share of all choices that the two logs show.")
@click.option(
    "--groups",
    type=click.IntRange(1, 20),
    default=1,
    help="Groups of items by popularity, and of users by activity, with a curve for each pair; 1: one curve for all.",
)
@click.option("--plot", type=opts.PLOT_FILE, help="Draw probabilities against rates: .svg or .html.")
@click.option("--miss", type=opts.COST, help="Cost of a missed choice, to find the best threshold; with --false-alarm.")
@click.option("--false-alarm", type=opts.COST, help="Cost of a false alarm; with --miss.")
@opts.add_options(*opts.LOG_OPTIONS, opts.json_option)
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
    from csrr.results.table import ResultTable

    if (options["miss"] is None) != (options["false_alarm"] is None):
        raise click.UsageError("--miss and --false-alarm go together")
    opts.check_expendable(output)
    fitted = opts.load_model(model)
    with show_live_line() as line:
        events = opts.read_log(heldout, options)
        line.show(f"scoring {len(fitted.users_):,} users x {len(fitted.items_):,} items")
        reliability = _judge(fitted, events, options["observed_share"], options["groups"])
        calibration = fitted.calibrate(events, observed_share=options["observed_share"], n_groups=options["groups"])
        fitted.save(output)
        if plot is not None:
            csrr.plot(reliability, plot)
    choice = _choose_threshold(calibration, len(fitted.users_), options["miss"], options["false_alarm"])
    n_cells, n_positives = int(calibration.n_cells.sum()), int(calibration.n_positives.sum())
    groups = {"popularity": ("items", reliability.by_popularity), "activity": ("users", reliability.by_activity)}
    if as_json:
        facts = {"model": str(output), "n_cells": n_cells, "n_positives": n_positives, "ece": reliability.ece}
        shares = {name: getattr(calibration, name) for name in ("observed_share", "label_rate")}
        by = {f"by_{name}": list(found.table().rows()) if found else [] for name, (_, found) in groups.items()}
        print_json(facts | shares | {"bins": list(reliability.rows()), **by, "threshold": choice})
        return
    say(f"{output}: {n_cells:,} cells that are not in the training data, {n_positives:,} of them positive")
    say(f"calibration error (ECE) {reliability.ece:.4f}, of half of the users, learned from the others")
    names = ("probability", "rate", "low", "high", "cells", "positives")
    say(ResultTable({name: reliability.table()[name] for name in names}))
    for what, found in groups.values():
        if found is not None and len(found.parts) > 1:
            say(_describe_worst(what, found))
    if choice is not None:
        say(_describe_choice(choice))


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


def _describe_worst(what: str, found: GroupReliability) -> str:
    """Return a line on the items, or the users, whose probabilities are furthest off."""
    row = found.worst
    events = f"{row['from']} or more" if row["to"] is None else f"{row['from']} to {row['to']}"
    rates = f"{row['probability']:.4f} said, {row['rate']:.4f} true"
    return f"furthest off by {found.by}: {what} of {events} training events, {rates}, ECE {row['ece']:.4f}"


def _describe_choice(choice: dict[str, Any]) -> str:
    costs = f"at {choice['miss']:g} a miss and {choice['false_alarm']:g} a false alarm"
    least, items = f"{choice['probability']:.4f}", f"{choice['items_per_user']:.1f} items a user"
    if choice["items_per_user"] == 0:
        return f"{costs}, nothing is worth recommending: no probability is above {least}"
    score = "" if choice["score"] is None else f" (score {choice['score']:.4f})"
    return f"{costs}, recommend above probability {least}{score}: {items}"


@click.command(cls=Command)
@opts.log_argument
@click.option("--miss", type=opts.COST, required=True, help="What a missed choice costs.")
@click.option("--false-alarm", type=opts.COST, required=True, help="What a recommendation costs that is not taken.")
@click.option("--ratio", "ratios", type=float, multiple=True, help="A weight of clicks to fit with; may be repeated.")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Of the split.")
@click.option("--plot", type=opts.PLOT_FILE, help="Draw the curve: .svg or .html.")
@opts.add_options(*opts.LOG_OPTIONS, opts.json_option)
def costs(log: str, plot: Path | None, as_json: bool, **options: Any) -> None:
    """Find the weight of clicks and the threshold that cost least.

    A miss is an item that a user would have chosen and was not shown, a false alarm one that was shown in vain. CSRR is
    fitted with several weights of clicks to three fifths of each user's events; one fifth chooses the threshold of
    each, the last tells what that costs.

    Examples:
      # A missed sale costs 5, a useless recommendation 1
      csrr costs clicks.csv --miss 5 --false-alarm 1

      # With a chart
      csrr costs clicks.csv --miss 5 --false-alarm 1 --plot costs.svg
    """
    import csrr

    with show_live_line() as line:
        events = opts.read_log(log, options)
        given = opts.select_given(options, ("miss", "false_alarm", "ratios", "seed"))
        curve = csrr.cost_curve(events, callback=lambda done, total: line.show(f"{done} of {total} weights"), **given)
    if plot is not None:
        csrr.plot(curve, plot)
    if as_json:
        facts = {name: getattr(curve, name) for name in ("miss", "false_alarm", "nothing", "points", "recommended")}
        print_json(facts | {"recommendation": curve.recommendation})
    else:
        say(str(curve))


popularity_option = click.option(
    "--popularity",
    type=click.FloatRange(0, 1),
    default=0.0,
    help="How much noise prefers popular items: 0 not at all, 1 in proportion to their clicks.",
)


@click.command(cls=Command)
@opts.model_argument
@click.option("--by", type=click.Choice(["event", "user", "item"]), default="event", help="What to list.")
@click.option("-n", type=opts.COUNT, default=20, help="Number of rows to print.")
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

    fitted: Any = opts.load_model(model)
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
    type=opts.SHARE,
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
