"""`csrr tune`: a log, a kind of model and a budget become parameters."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from csrr._base.progress import Line, show_live_line
from csrr._base.text import format_number_of, to_plain
from csrr.cli import interrupts
from csrr.cli import options as opts
from csrr.cli.errors import Failure, describe_written, stoppable
from csrr.cli.help import Command
from csrr.cli.output import print_json, say, say_command, say_warnings
from csrr.parameters import list_parameters, list_rivals

if TYPE_CHECKING:
    import csrr


@click.command(cls=Command)
@opts.log_argument
@opts.kind_option
@click.option(
    "--space",
    default="csrr",
    show_default=True,
    metavar="csrr|paper|FILE",
    help='What to try: our space, the paper\'s grid, or a file like {"rank": [64, 128], "reg": {"low": 1, "high": 9}}.',
)
@opts.PARAM_OPTION
@click.option("--trials", type=click.IntRange(min=1), help="Stop after this many trials.")
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True), help="Stop after this many minutes.")
@click.option("--metric", default="ndcg@10", show_default=True, help="What makes a model good.")
@opts.split_option
@click.option("--ratio", type=float, help="Fit to this share of each user's events (0.9 if nothing is said).")
@click.option("--last", type=click.IntRange(min=1), help="Validate on each user's last events, this many.")
@click.option("--at", metavar="TIME", help="Validate on events from this time on, such as 2000-12-31.")
@click.option("--folds", type=click.IntRange(min=1), help="Number of random splits to take the mean over.")
@click.option("--storage", type=opts.NewFile(), help="A file that keeps the search, to go on after a stop.")
@click.option("-o", "--output", type=opts.NewFile(), help="Write parameters and trials to this JSON file.")
@click.option("--fit", "fitted", type=opts.NewFile(), help="Fit the best to all of LOG; write it here.")
@click.option("--no-prune", is_flag=True, help="Finish hopeless trials too.")
@click.option("--threads", type=click.IntRange(min=0), help="Number of threads; 0 for all cores.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of splits and search.")
@opts.add_options(*opts.LOG_OPTIONS, opts.json_option)
def tune(
    log: str, model: type[csrr.Recommender], output: Path | None, fitted: Path | None, as_json: bool, **options: Any
) -> None:
    """Find the parameters with which a model does best on LOG.

    Best is what ranks highest the events that are held out of LOG.
    The score is one of validation: the best of many tries, it flatters. To know how good the model is, put a test
    aside before, tune on the rest, then `csrr evaluate REST --test TEST`. The first trial has the defaults, or
    what -p says; -p also takes a parameter out of the search. With --storage, the same command goes on
    after a stop; without --trials or --minutes, a small grid is searched as a whole, a larger space 40 times.

    Examples:
      # Five minutes for CSRR; the last line is the command that fits the best
      csrr tune clicks.csv --minutes 5

      # Twenty trials of another model, kept, and the best fitted
      csrr tune clicks.csv --model wrmf --trials 20 -o trials.json --fit model.csrr
    """
    own, space = _read_question(model, options)
    interrupts.set_last_message(describe_written(output, fitted))
    with show_live_line() as line:
        line.show(f"reading {log}")
        events = opts.read_log(log, options)
        found = _search(own, space, events, options, line)
        if output is not None:
            found.save(output)
        if fitted is not None:
            best = found.model()
            opts.fit_model(best, events, line)
            best.save(fitted)
    if as_json:
        print_json(found.summary() | {"fitted": fitted and str(fitted)})
    else:
        _print_result(found, log, fitted, options)


def _read_question(kind: type[csrr.Recommender], options: dict[str, Any]) -> tuple[csrr.Recommender, Any]:
    """Return the model with its fixed parameters, and the space without them."""
    from csrr.evaluation.study import find_space

    given = [name for name in ("last", "at") if options[name] is not None]
    if options["folds"] is not None and (given or options["split"] in ("last", "time")):
        raise click.UsageError(f"{f'--{given[0]}' if given else '--split'} and --folds do not go together")
    opts.check_split(options)
    own = opts.make_model(kind, dict.fromkeys(opts.MODEL_NAMES) | {"param": options["param"]})
    named = options["space"]
    space = find_space(named, kind) if named in ("csrr", "paper") else _read_space(Path(named))
    fixed = {opts.read_param(text)[0] for text in options["param"]}
    declared = list_parameters(kind)
    for name in [*space]:
        if name in fixed or fixed & set(list_rivals(name, declared)):
            del space[name]
    return own, space


def _read_space(path: Path) -> dict[str, Any]:
    from csrr.evaluation.study import decode_space

    if not path.exists():
        raise click.UsageError(f"--space {path}: there is no such file, nor such a space; there are csrr and paper")
    try:
        return decode_space(json.loads(path.read_text()))
    except ValueError as error:
        raise Failure(f"{path}: {error}") from error


def _search(own: csrr.Recommender, space: Any, events: csrr.Log, options: dict[str, Any], line: Line) -> csrr.Tuning:
    """Return the result of the search; after Ctrl-C the message has the best so far."""
    import csrr

    began = time.perf_counter()
    so_far: list[csrr.Tuning] = []

    def show(found: csrr.Tuning) -> None:
        so_far[:] = [found]
        line.show(_describe_progress(found, time.perf_counter() - began))

    arguments = opts.select_given(options, ("metric", "trials", "minutes", "folds", "seed", "storage", "threads"))
    how = opts.read_split(options)
    with say_warnings():
        if {"last", "at"} & how.keys():
            events, arguments["valid"] = csrr.split(events, **how)
        else:
            arguments |= how
    line.show(f"trial 1, {events.n_users:,} users x {events.n_items:,} items, {len(events):,} events")
    with say_warnings(), stoppable(lambda: _describe_kept(so_far[0] if so_far else None, options["storage"])):
        return csrr.tune(own, events, space=space, prune=not options["no_prune"], callback=show, **arguments)


def _describe_progress(found: csrr.Tuning, seconds: float) -> str:
    trial, of = found.trials[-1], "" if found.total is None else f" of {found.total}"
    best = f"{found.best_value:.4f} {_format_params(found.best.params)}" if found.leaders(1) else "none"
    return f"trial {trial.number + 1}{of}  {seconds:.0f} s  best {best}"


def _format_params(params: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in params.items() if value is not None)


def _describe_kept(found: csrr.Tuning | None, storage: Path | None) -> str:
    if found is None or not found.leaders(1):
        return "interrupted: no trial was done"
    params = _format_params(found.best.params)
    best = f"{len(found.trials)} trials, best {found.metric} {found.best_value:.4f} with {params}"
    go_on = (
        "nothing was written; with --storage FILE a search can go on"
        if storage is None
        else f"kept in {storage}: the same command goes on"
    )
    return f"interrupted: {best}; {go_on}"


def _print_result(found: csrr.Tuning, log: str, fitted: Path | None, options: dict[str, Any]) -> None:
    """Print the best few trials, and the command that fits the best."""

    states = [each.state for each in found.trials]
    failed = f", {states.count('failed')} failed" if "failed" in states else ""
    failed += f", {states.count('pruned')} pruned" if "pruned" in states else ""
    if len(found.trials) == 1 and found.total == 1 and not found.best.params:
        say(f"{found.kind.__name__} has nothing to tune")
    say(f"{format_number_of(states.count('done'), 'trial')} done{failed}; {found.metric} is a validation score")
    say(str(found.display_table()))
    if fitted is not None:
        say(f"the best, fitted to all of {log}: {fitted}")
        return
    say("to fit the best:")
    say_command(_make_command(found, log, options))


def _make_command(found: csrr.Tuning, log: str, options: dict[str, Any]) -> list[str]:
    """Return the words of the command that fits the best parameters to the log, read in the same way."""
    name = next(name for name, kind in opts.list_kinds().items() if kind is found.kind)
    words = ["csrr", "fit", log, "-o", "model.csrr", "--model", name]
    for param, value in found.best_params.items():
        words += ["-p", f"{param}={value if isinstance(value, str) else json.dumps(to_plain(value))}"]
    return words + opts.spell_log_options(options)
