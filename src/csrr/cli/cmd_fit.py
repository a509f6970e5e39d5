"""`csrr fit` and `csrr update`: a log becomes a model file, and new events are added to one."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from csrr._base.progress import show_live_line
from csrr._base.text import describe_size
from csrr.cli import interrupts
from csrr.cli import options as opts
from csrr.cli.errors import check_expendable, load_model, tell_written
from csrr.cli.help import Command
from csrr.cli.output import describe_fit, print_json, say, summarize_model

if TYPE_CHECKING:
    import csrr


@click.command(cls=Command)
@opts.log_argument
@opts.model_output
@opts.kind_option
@opts.add_options(opts.PARAM_OPTION, *opts.LOG_OPTIONS, *opts.MODEL_OPTIONS, *opts.ITEM_OPTIONS, opts.json_option)
@click.option("--force", is_flag=True, help="Write over a file even if it is no model.")
def fit(log: str, output: Path, model: type[csrr.Recommender], as_json: bool, force: bool, **options: Any) -> None:
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
    fitted = opts.make_model(model, options)
    if not force:
        check_expendable(output, ", or --force to write over it")
    interrupts.say_at_the_end(tell_written(output))
    with show_live_line() as line:
        line.show(f"reading {log}")
        events = opts.read_log(log, options)
        line.show(f"fitting {events.n_users:,} users x {events.n_items:,} items, {len(events):,} events")
        began = time.perf_counter()
        opts.fit_model(fitted, events, line)
        seconds = time.perf_counter() - began
        opts.set_items(fitted, options)
        line.show(f"writing {output}")
        fitted.save(output)
    if as_json:
        print_json(summarize_model(fitted, output) | {"seconds": seconds})
        return
    size = describe_size(output.stat().st_size)
    say(f"{output}: {events.n_users:,} users x {events.n_items:,} items, {len(events):,} events, {size}")
    say("\n".join(describe_fit(fitted, seconds)))
    if getattr(fitted, "recall_weight", None) is not None and (costs := getattr(fitted, "costs_", None)):
        say(str(costs))


@click.command(cls=Command)
@opts.model_argument
@opts.log_argument
@opts.model_output
@click.option("--choose", is_flag=True, help="Choose settings anew on held-out events, as fit does.")
@opts.add_options(*opts.LOG_OPTIONS, opts.json_option)
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
    before = _measure_sizes(fitted)
    was_calibrated = fitted.calibration_ is not None
    interrupts.say_at_the_end(tell_written(output))
    with show_live_line() as line:
        line.show(f"reading {log}")
        events = _name_like(opts.read_log(log, options), fitted)
        line.show(f"adding {len(events):,} events to {before['events']:,}")
        began = time.perf_counter()
        opts.fit_model(fitted, events, line, by=fitted.update, choose=choose)
        seconds = time.perf_counter() - began
        line.show(f"writing {output}")
        fitted.save(output)
    sizes = _measure_sizes(fitted)
    added = {name: n - before[name] for name, n in sizes.items()}
    if as_json:
        print_json(summarize_model(fitted, output) | {"added": added, "seconds": seconds})
        return
    users, items, n_events = (f"{n:,} {name} ({added[name]:,} new)" for name, n in sizes.items())
    say(f"{output}: {users} x {items}, {n_events}, {describe_size(output.stat().st_size)}")
    say("\n".join(describe_fit(fitted, seconds)))
    if was_calibrated:
        say("the calibration was of other scores and is dropped: csrr calibrate makes a new one")


def _measure_sizes(model: csrr.Recommender) -> dict[str, int]:
    return {"users": len(model.users_), "items": len(model.items_), "events": int(model.seen_.nnz)}


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
        **{
            name: None if (each := getattr(events, name)) is None else each[order]
            for name in ("weights", "times", "places")
        },
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
