"""`csrr costs`: which weight to fit with, and where to cut, for costs in one's own units."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from csrr._base.progress import show_live_line
from csrr.cli.help import Command
from csrr.cli.options import LOG_OPTIONS, PLOT_FILE, add_options, json_option, log_argument, read_log
from csrr.cli.output import print_json, say


@click.command(cls=Command)
@log_argument
@click.option("--miss", type=float, required=True, help="What a missed choice costs.")
@click.option("--false-alarm", type=float, required=True, help="What a recommendation costs that is not taken.")
@click.option("--ratio", "ratios", type=float, multiple=True, help="A weight of clicks to fit with; may be repeated.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the split.")
@click.option("--plot", type=PLOT_FILE, help="Draw the curve: .svg or .html.")
@add_options(*LOG_OPTIONS, json_option)
def costs(
    log: str,
    miss: float,
    false_alarm: float,
    ratios: tuple[float, ...],
    seed: int,
    plot: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
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
        line.show(f"reading {log}")
        events = read_log(log, options)
        curve = csrr.cost_curve(
            events,
            miss=miss,
            false_alarm=false_alarm,
            seed=seed,
            callback=lambda done, total: line.show(f"{done} of {total} weights"),
            **({"ratios": ratios} if ratios else {}),
        )
    if plot is not None:
        csrr.plot(curve, plot)
    if as_json:
        points = [asdict(point) for point in curve]
        print_json(
            {
                "miss": curve.miss,
                "false_alarm": curve.false_alarm,
                "nothing": curve.nothing,
                "points": points,
                "recommended": asdict(curve.recommended),
                "recommendation": curve.recommendation,
            }
        )
    else:
        say(str(curve))
