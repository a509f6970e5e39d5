"""`csrr fit` and `csrr update`: a log becomes a model file, and new events are added to one."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from csrr._base.progress import show_live_line
from csrr._base.text import describe_size
from csrr.cli import interrupts
from csrr.cli import options as opts
from csrr.cli.help import Command
from csrr.cli.output import Failure, describe_fit, describe_written, print_json, say, say_warnings, summarize_model

if TYPE_CHECKING:
    import csrr


@click.command(cls=Command)
@opts.log_argument
@opts.model_output
@opts.kind_option
@opts.add_options(
    opts.PARAM_OPTION, *opts.LOG_OPTIONS, *opts.MODEL_OPTIONS, *opts.ITEM_OPTIONS, opts.USER_OPTION, opts.json_option
)
@click.option("--force", is_flag=True, help="Write over a file even if it is no model.")
@click.option("--scheduler", metavar="ADDRESS", help="With --engine dask, a scheduler's address: tcp://10.0.0.1:8786.")
@click.option("--work", type=click.Path(path_type=Path), help="With --engine dask, a folder that all workers reach.")
@click.option("--resume", is_flag=True, help="Go on from what an interrupted fit with --engine dask has left.")
def fit(log: str, output: Path, model: type[csrr.Recommender], as_json: bool, **options: Any) -> None:
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

      # Titles, categories and prices go into the model; new items are known by them
      csrr fit clicks.csv -o model.csrr --items items.csv
    """
    fitted = opts.make_model(model, options)
    if not options["force"]:
        opts.check_expendable(output, ", or --force to write over it")
    interrupts.set_last_message(describe_written(output))
    is_dask = getattr(fitted, "engine", None) == "dask"
    if not is_dask and any(options[name] for name in ("scheduler", "work", "resume")):
        raise click.UsageError("--scheduler, --work and --resume go with --engine dask")
    if is_dask and (options["scheduler"] or Path(log).is_dir()):
        _fit_spread(fitted, log, output, options, as_json=as_json)
        return
    with show_live_line() as line:
        events = opts.read_log(log, options)
        line.show(f"fitting {events.n_users:,} users x {events.n_items:,} items, {len(events):,} events")
        began = time.perf_counter()
        opts.fit_model(fitted, events, line, **opts.read_features(fitted, options))
        seconds = time.perf_counter() - began
        opts.set_items(fitted, options)
        line.show(f"writing {output}")
        fitted.save(output)
    if as_json:
        print_json(summarize_model(fitted, output) | {"seconds": seconds})
        return
    size = describe_size(output.stat().st_size)
    sizes = _measure_sizes(fitted)
    say(f"{output}: {sizes['users']:,} users x {sizes['items']:,} items, {len(events):,} events, {size}")
    say("\n".join(describe_fit(fitted, seconds)))
    _say_features(fitted)
    if getattr(fitted, "recall_weight", None) is not None and (costs := getattr(fitted, "costs_", None)):
        say(str(costs))


def _fit_spread(fitted: Any, log: str, output: Path, options: dict[str, Any], *, as_json: bool) -> None:
    """Fit to a folder by Dask's workers; what they have made is in `work` until the model is written."""
    import csrr
    from csrr.models.spread import fit_spread
    from csrr.numerics.dask_cluster import EngineError

    if given := opts.spell_log_options(options):
        raise click.UsageError(f"{given[0]} is for logs that one machine reads; the folder's columns are found by name")
    for name, file in {"--items": options["items_file"], "--users": options["users_file"]}.items():
        if file is not None:
            raise click.UsageError(f"{name} is for logs that one machine reads; leave it out")
    work, resume = options["work"] or output.with_name(f"{output.name}.work"), options["resume"]
    if resume and not work.is_dir():
        raise Failure(f"{work}: no folder of an interrupted fit; leave out --resume")
    began = time.perf_counter()
    try:
        with show_live_line(getattr(fitted, "tol", None)) as line:
            line.show(f"reading {opts.name_source(log)}")
            with csrr.open_dask(options["scheduler"], folder=work, resume=resume) as fitted.engine:
                fitted.check_params()
                fit_spread(fitted, log, fitted.engine, line.step, line.show)
                line.show(f"writing {output}")
                fitted.save(output)
                users = fitted.spread_users
    except EngineError as error:
        is_begun = fitted.engine != "dask" and any(work.glob("log-*")) and "--resume" not in str(error)
        raise Failure(f"{error}{'; what is done is kept: go on with --resume' * is_begun}") from None
    shutil.rmtree(work, ignore_errors=True)
    seconds = time.perf_counter() - began
    sizes = {"n_users": len(users), "n_events": len(users.log)}
    if as_json:
        fitted.engine = "dask"
        print_json(summarize_model(fitted, output) | sizes | {"seconds": seconds})
        return
    say(f"{output}: {len(fitted.items_):,} items of {len(users.log):,} events; {output}.users: {len(users):,} users")
    say("\n".join(describe_fit(fitted, seconds)))


@click.command(cls=Command)
@opts.model_argument
@click.argument("log", type=click.Path(), required=False)
@click.option("-o", "--output", type=opts.NewFile(), help="The model file to write.  [default: MODEL, replaced]")
@click.option("--choose", is_flag=True, help="Choose settings anew on held-out events, as fit does.")
@opts.add_options(*opts.LOG_OPTIONS, *opts.ITEM_OPTIONS, opts.USER_OPTION, opts.json_option)
def update(model: Path, log: str | None, output: Path | None, choose: bool, as_json: bool, **options: Any) -> None:
    """Add the events of LOG, and new items and people, to MODEL.

    The model is fitted to them and to those that it was fitted to before. Users and items may be new. The fit begins
    where MODEL is and keeps the settings that it chose on held-out events; a line says by how much the log has grown
    since, and --choose chooses anew. LOG is read by the options that `csrr fit` had: give the same.

    The model is written to -o, or in place of MODEL, atomically: whatever interrupts this, the file that was there
    stays. To add the same events again changes nothing, unless the model weighs them: weights add up. Of a database's
    --table, only the events are read that came after the latest of MODEL.
    A calibration is dropped; `csrr calibrate` makes a new one.

    A model that was fitted with --items, or --users, also takes tables of new ones, which are known by what they are
    like. Without LOG nothing is fitted, and they are added in moments.

    Examples:
      # This morning's new items
      csrr update tagged.csrr --items new-items.csv

      # Last night's clicks; the file is replaced atomically
      csrr update model.csrr new.csv -o model.csrr

      # What a database has had since: a file, or postgresql://me@host/shop
      csrr update model.csrr shop.db --table events

      # On Sundays, choose settings anew
      csrr update model.csrr new.csv -o model.csrr --choose
    """
    output = output or model
    opts.check_expendable(output)
    fitted = opts.load_model(model)
    before = _measure_sizes(fitted)
    was_calibrated = fitted.calibration_ is not None
    interrupts.set_last_message(describe_written(output))
    with show_live_line() as line:
        tables = opts.read_features(fitted, options)
        if log is None:
            began = time.perf_counter()
            _add_tables(fitted, tables)
            _write_update(fitted, output, before, time.perf_counter() - began, as_json=as_json, is_fitted=False)
            return
        if options["table"] is None:
            events = _name_like(opts.read_log(log, options), fitted)
        else:
            events = opts.read_log(log, options, newer_than=fitted)
            if not len(events):
                line.clear()
                _say_nothing_new(fitted, options["table"], as_json=as_json)
                return
        line.show(f"adding {len(events):,} events to {before['events']:,}")
        began = time.perf_counter()
        opts.fit_model(fitted, events, line, by=fitted.update, choose=choose, **tables)
        seconds = time.perf_counter() - began
        line.show(f"writing {output}")
    _write_update(fitted, output, before, seconds, as_json=as_json)
    if was_calibrated and not as_json:
        say("the calibration was of other scores and is dropped: csrr calibrate makes a new one")


def _add_tables(model: Any, tables: dict[str, csrr.FeatureTable]) -> None:
    """Add items and users by what they are like."""
    if not tables:
        raise click.UsageError("give LOG, or --items or --users of a model that was fitted with them")
    with say_warnings():
        for name, table in tables.items():
            (model.add_items if name == "items" else model.add_users)(table)


def _write_update(
    model: csrr.Recommender,
    output: Path,
    before: dict[str, int],
    seconds: float,
    *,
    as_json: bool,
    is_fitted: bool = True,
) -> None:
    """Write the model, and say what is new."""
    model.save(output)
    sizes = _measure_sizes(model)
    added = {name: n - before[name] for name, n in sizes.items()}
    if as_json:
        print_json(summarize_model(model, output) | {"added": added, "seconds": seconds})
        return
    users, items, n_events = (f"{n:,} {name} ({added[name]:,} new)" for name, n in sizes.items())
    say(f"{output}: {users} x {items}, {n_events}, {describe_size(output.stat().st_size)}")
    say("\n".join(describe_fit(model, seconds)) if is_fitted else f"added in {seconds:.3f} s, without a fit")


def _say_features(model: Any) -> None:
    """Print what was made of the tables of items and users."""
    for name in ("features_", "user_features_"):
        if getattr(model, name, None) is not None:
            say(repr(getattr(model, name)))


def _say_nothing_new(model: csrr.Recommender, table: str, *, as_json: bool) -> None:
    from csrr.data.columns import format_times

    assert model.seen_times_ is not None
    latest = format_times(model.seen_times_.max(keepdims=True))[0]
    if as_json:
        print_json({"added": dict.fromkeys(_measure_sizes(model), 0), "latest": latest})
    else:
        say(f"the table {table} has no events after {latest}, the latest of the model, which stays as it is")


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
