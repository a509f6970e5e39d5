"""`csrr robustness`: the effect of planted noise on the accuracy of systems, and how well it is found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from csrr._base.progress import show_live_line
from csrr.cli.help import Command
from csrr.cli.options import LOG_OPTIONS, add_options, json_option, log_argument, read_log, select_given
from csrr.cli.output import print_json, say, stoppable

if TYPE_CHECKING:
    import csrr
    import csrr_paper
    from csrr._base.progress import Line


@click.command(cls=Command)
@log_argument
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    metavar="random|accidental|popular|crawler|push",
    help="A kind of noise; may be repeated.",
)
@click.option("--share", "shares", type=float, multiple=True, help="A planted share, 0 to 1; may be repeated.")
@click.option("--system", "systems", multiple=True, metavar="NAME", help="A system, such as WRMF; may be repeated.")
@click.option("--seeds", type=click.IntRange(min=1), default=5, help="Number of random splits.")
@click.option("--results", type=click.Path(path_type=Path), help="A folder that keeps every result: to go on later.")
@add_options(*LOG_OPTIONS)
@json_option
def robustness(log: str, as_json: bool, **options: Any) -> None:
    """Plant noise in LOG: what does it cost, and what finds it?

    A fifth of LOG is kept clean for testing. Into the rest goes noise, 10 to 50 % unless --share says so: random
    clicks, accidental ones (the more the busier a user is), clicks on popular items, crawlers who touch half of all
    items, or many accounts that push one item. Every system but "CSRR as it comes" is tuned on what is then there, as
    its user would have to.

    Examples:
      # Five kinds of noise; stop it when you like, it goes on from there
      csrr robustness clicks.csv --results noise

      # Random clicks only, 30 % of all, and one system
      csrr robustness clicks.csv --kind random --share 0.3 --system EASE
    """
    events = read_log(log, options)
    given = select_given(options, ("kinds", "shares", "systems", "seeds"))
    with show_live_line() as line:
        found = _measure(events, given | {"folder": options["results"]}, line)
    if as_json:
        print_json({**found.summary(), "results": found.to_arrow().to_pylist()})
    else:
        say(repr(found))


def _measure(events: csrr.Log, arguments: dict[str, Any], line: Line) -> csrr_paper.Robustness:
    """Return the results; an interruption says which results are kept."""
    import csrr_paper

    folder = arguments["folder"]
    go_on = (
        "nothing was written; with --results FOLDER a run can go on"
        if folder is None
        else f"the results so far are in {folder}, the same command goes on from there"
    )
    with stoppable(lambda: f"stopped: {go_on}"):
        return csrr_paper.robustness(events, **arguments, callback=lambda progress: line.show(str(progress)))
