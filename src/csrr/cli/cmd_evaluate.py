"""`csrr evaluate` and `tune`: models on events they have not seen, and the parameters that do best there."""

from __future__ import annotations

import json
import math
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from csrr._base.progress import Line, show_live_line
from csrr._base.text import format_number_of, spell_arguments, to_plain
from csrr.cli import interrupts
from csrr.cli import options as opts
from csrr.cli.help import Command
from csrr.cli.output import (
    Failure,
    describe_written,
    print_json,
    say,
    say_command,
    say_warnings,
    show_option,
    stoppable,
    suggest_near,
)
from csrr.parameters import list_defaults, list_parameters, list_rivals
from csrr.registry import MODELS

if TYPE_CHECKING:
    import csrr
    from csrr._base.progress import Line
    from csrr.evaluation.evaluate import Evaluation

LENGTHS = (5, 10, 20)
SHARED = ("seed", "threads")
"""Options of models that mean something to this command too."""


@click.command(cls=Command)
@opts.log_argument
@click.option(
    *("--model", "models"),
    metavar="NAME|FILE",
    multiple=True,
    shell_complete=opts.complete_kind,
    help="A kind to fit, may be repeated; or a fitted model to test on what it has not seen.",
)
@opts.PARAM_OPTION
@click.option("--test", metavar="LOG2", help="Fit to LOG and test on this log.")
@opts.split_option
@click.option("--ratio", type=float, help="Fit to this share of each user's events (0.8 if nothing is said).")
@click.option("--last", type=opts.COUNT, help="Test on each user's last events, this many.")
@click.option(
    "--cold-items",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="SHARE",
    help="Hide this share of the items whole, and test on these; with --items, by what they are like.",
)
@click.option("--at", metavar="TIME", help="Test on events from this time on, such as 2000-12-31.")
@click.option("--rolling", is_flag=True, help="Fit until one time after another, and test on all that comes after.")
@click.option("--every", metavar="DAYS", help="With --rolling: the time from one fit to the next, such as 30d or 12h.")
@click.option("--fold-in", is_flag=True, help="With --rolling: older fits see the histories until the window.")
@click.option("--plot", type=opts.PLOT_FILE, help="With --rolling: draw it, .svg or .html.")
@click.option("-k", "lengths", type=opts.COUNT, multiple=True, help="Length of a list; may be repeated.")
@click.option("--metric", "metrics", metavar="NAME", multiple=True, help="What to measure; may be repeated.")
@click.option("--threshold", type=float, help="Scores above it count as recommended in cell_recall, sum and cost.")
@click.option("--miss-weight", type=click.FloatRange(0, 1), help="c_p in cost and mu_p in sum, of 1 in all.")
@click.option("--by", metavar="COLUMN", help="Column of the item table: shares and recall of its categories.")
@opts.add_options(*opts.ITEM_OPTIONS, *opts.RULE_OPTIONS, *opts.LOG_OPTIONS, *opts.MODEL_OPTIONS, opts.json_option)
def evaluate(log: str, models: tuple[str, ...], test: str | None, as_json: bool, **options: Any) -> None:
    """Compare models on events of LOG that they have not seen.

    They are compared with each other and with PopRank, which recommends to everyone what most people have. Without a
    model file, CSRR, or every kind that --model names, and PopRank are fitted to a part of LOG and tested on the rest:
    a random fifth of each user's events unless --ratio, --last, --at or --test say otherwise. --seed decides the random
    split too. --split last tests on what each user chose last, by hit_rate, ndcg and full_mrr. A file that is
    called like a kind of model needs its folder: ./ease. Of several models, each gets the
    parameters that it has.

    Metrics of lists: precision, recall, f1, ndcg, list_ndcg, map, mrr, hit_rate, coverage, novelty, diversity,
    long_tail; of all items: auc, full_mrr, and at the threshold cell_recall, specificity, sum, cost, where
    --miss-weight weighs a missed choice. Below the table, paired tests over users against the first model, on the
    longest ndcg.

    --rolling tells how a model ages: it is fitted to the first half of the events, or to those before --at, and again
    after each time of --every. The new fit and all older ones are tested on the window that follows, by the first
    metric at the first length, or ndcg@10.

    --cold-items hides items whole, as new ones are: models that take --items know them by these alone. They are ranked
    among themselves, and among all items.

    With rules, such as --diversity 0.3, lists follow them, and a table says what they change.

    Examples:
      # CSRR and popularity, on a random fifth of each user's events
      csrr evaluate clicks.csv

      # Several models, on everybody's last two events
      csrr evaluate clicks.csv --model csrr --model ease --last 2

      # How often to fit again
      csrr evaluate clicks.csv --rolling --plot ages.svg

      # What everybody chooses next
      csrr evaluate clicks.csv --split last

      # New items, by what they are like
      csrr evaluate clicks.csv --cold-items 0.1 --items items.csv

      # A fitted model, on events that it has not seen
      csrr evaluate heldout.csv --model model.csrr -k 10
    """
    from csrr.models.scorer import find_unseen_events
    from csrr.ranking.metrics import NEXT_ITEM

    _check_usage(models, test, options)
    if (
        options["split"] == "last"
        and not options["metrics"]
        and options["ratio"] is None
        and options["last"] in (None, 1)
    ):
        options["metrics"] = NEXT_ITEM
    unfitted = _find_models(models, options)
    if options["rolling"]:
        _roll(unfitted, log, options, as_json=as_json)
        return
    with show_live_line() as line:
        events = opts.read_log(log, options)
        train, test_log = _find_parts(unfitted[0], events, test, options)
        at = _choose_lengths(options["lengths"], train.n_items)
        fitted = _fit(unfitted, train, line, options)
        unseen = find_unseen_events(test_log, next(iter(fitted.values())))
        for each in fitted.values():
            opts.set_items(each, options)
        line.show("testing")
        found = {name: _evaluate(each, train, unseen, at, options) for name, each in fitted.items()}
        # The items that --cold-items hid, and that have events to test on.
        hidden: Any = unseen.items.ids[unseen.item_counts() > 0] if options["cold_items"] is not None else ()
        own = {n: _evaluate(each, train, unseen, at, options, hidden) for n, each in fitted.items() if len(hidden)}
    comparison = _compare(found, f"ndcg@{at[-1]}")
    proofs = {name: each.certificate_ for name, each in fitted.items() if getattr(each, "certificate_", None)}
    if as_json:
        first = proofs.get(next(iter(fitted)))
        sizes = {"n_users": train.n_users, "n_items": train.n_items, "n_train": len(train), "n_test": len(unseen)}
        print_json(
            sizes
            | {"n_test_left_out": len(test_log) - len(unseen)}
            | {"models": {name: each.summary() for name, each in found.items()}}
            | (
                {"n_hidden_items": len(hidden), "among_hidden": {n: each.summary() for n, each in own.items()}}
                if own
                else {}
            )
            | {"comparison": comparison and comparison.summary(), "certificate": first and first.to_dict()}
        )
        return
    if own:
        say(f"{len(hidden):,} hidden items among themselves:\n{_format_table(own)}\n\namong all items:")
        say("(the events of others are all in training, so every place that another item takes is a miss)")
        if blind := [name for name, each in fitted.items() if getattr(each, "features_", None) is None]:
            say(f"{' and '.join(blind)} cannot tell hidden items apart: their order is arbitrary", err=True)
    say(_format_table(found))
    for name, proof in proofs.items():
        say(f"{name}: {proof}" if len(models) > 1 else proof)
    if comparison is not None:
        say(f"\n{comparison!r}")
    for name, each in found.items():
        for part in (each.rule_cost, each.by_category):
            if part is not None:
                say(f"\n{name}. {part!r}")


def _roll(models: list[Any], log: str, options: dict[str, Any], *, as_json: bool) -> None:
    """Print how models age, and draw it."""
    import csrr

    name, k = (options["metrics"] or ["ndcg"])[0], (options["lengths"] or [10])[0]
    metric = name if name in ("auc", "full_mrr") else f"{name}@{k}"
    found: list[csrr.Rolling] = []
    spelled = spell_arguments(partial(show_option, first="at"))
    with say_warnings(), show_live_line() as line, spelled:
        events, every, threads = opts.read_log(log, options), options["every"], options["threads"]
        given = {"every": every, "first": opts.parse_time_option(options["at"]), "metric": metric, "threads": threads}
        given |= {"fold_in": options["fold_in"]}
        for model in models:
            line.show(f"fitting {type(model).__name__}")
            found.append(csrr.evaluate_rolling(model, events, callback=line.show, **given))
    if options["plot"] is not None:
        csrr.plot(found[0], options["plot"])
    if as_json:
        print_json({"models": {each.model: each.summary() for each in found}})
    else:
        say("\n\n".join(map(repr, found)))


def _check_rolling(files: list[str], models: tuple[str, ...], test: str | None, options: dict[str, Any]) -> None:
    """Raise an error for options that do not go with --rolling, or only with it."""
    given = ["a model file"] * bool(files) + ["--test"] * (test is not None)
    others = ("ratio", "last", "split", "threshold", "by", "miss_weight", "items_file", "cold_items")
    given += [show_option(name) for name in opts.select_given(options, others)]
    if options["rolling"] and given:
        raise click.UsageError(f"{given[0]} and --rolling do not go together")
    if options["rolling"] and options["plot"] is not None and len(models) > 1:
        raise click.UsageError("--plot draws one model; name one")
    wrong = [name for name in ("every", "plot", "fold_in") if options[name] not in (None, False)]
    if wrong and not options["rolling"]:
        raise click.UsageError(f"{show_option(wrong[0])} goes with --rolling")


def _find_models(names: tuple[str, ...], options: dict[str, Any]) -> list[Any]:
    """Return the one model in a file, or new models of the kinds that are named (none: CSRR)."""
    import csrr

    kinds = [MODELS.find(name) for name in names] or [csrr.CSRR]
    if kinds[0] is None:
        return [_load(Path(names[0]))]
    if len(kinds) == 1:
        return [opts.make_model(kinds[0], options, shared=SHARED)]
    known = {name for kind in kinds for name in list_defaults(kind)}
    given = {show_option(name): name for name in opts.select_given(options, opts.MODEL_NAMES) if name not in SHARED}
    for text, name in (given | {f"-p {text}": opts.read_param(text)[0] for text in options["param"]}).items():
        if name not in known:
            raise click.UsageError(f"{text}: none of the models has such a parameter")
    return [
        opts.make_model(
            kind,
            options | {"param": [text for text in options["param"] if opts.read_param(text)[0] in list_defaults(kind)]},
            shared=opts.MODEL_NAMES,
        )
        for kind in kinds
    ]


def _load(file: Path) -> Any:
    """Return the model in a file whose name is no kind of model."""
    if not file.exists() and not file.suffix:
        hint = opts.explain_no_kind(str(file))
        raise click.UsageError(f"--model {file}: there is no such file, nor such a kind of model{hint}")
    return opts.load_model(file)


def _fit(models: list[Any], train: csrr.Log, line: Line, options: dict[str, Any]) -> dict[str, Any]:
    """Return the models by name, fitted to `train` unless they are, and PopRank."""
    import csrr

    for model in models:
        if not model.is_fitted:
            opts.fit_model(model, train, line, **opts.read_features(model, options))
    named = {type(model).__name__: model for model in models}
    if "PopRank" in named:
        return named
    popular = csrr.PopRank().fit(train)
    # A fitted model's own log has no times any more, but it knows what was popular of late.
    popular.recent_popularity, popular.item_ages = models[0].recent_popularity, models[0].item_ages
    popular.item_table_ = models[0].item_table_
    return named | {"PopRank": popular}


def _evaluate(
    model: Any, train: csrr.Log, test: csrr.Log, at: tuple[int, ...], options: dict[str, Any], candidates: Any = None
) -> Evaluation:
    import csrr

    names = {"threads": "threads", "threshold": "threshold", "miss_weight": "positive_cost", "metrics": "metrics"}
    chosen = {names[name]: value for name, value in opts.select_given(options, names).items()}
    rules: Any = opts.read_rule_options(options, model.items_)
    return csrr.evaluate(model, train, test, at=at, rules=rules, by=options["by"], candidates=candidates, **chosen)


def _compare(found: dict[str, Evaluation], metric: str) -> csrr.Comparison | None:
    """Return the tests against the first model; None where there is nothing to test."""
    import csrr

    first = next(iter(found))
    if len(found) < 2 or found[first].n_users < 2 or metric not in found[first].per_user:
        return None
    return csrr.compare(found, metric, baseline=first)


def _check_usage(models: tuple[str, ...], test: str | None, options: dict[str, Any]) -> None:
    from csrr.ranking.metrics import list_metrics

    files = [name for name in models if MODELS.find(name) is None]
    if files and len(models) > 1:
        raise click.UsageError(f"--model {files[0]}: several models must be kinds to fit: {', '.join(opts.KINDS)}")
    kinds = [MODELS.find(name) for name in models]
    if len(set(kinds)) < len(kinds):
        raise click.UsageError("--model names the same kind twice")
    ways = ["--cold-items"] * (options["cold_items"] is not None)
    opts.check_split(options, *(["--model"] if files else []), *(["--test"] if test is not None else []), *ways)
    _check_rolling(files, models, test, options)
    fits = [name for name in opts.select_given(options, opts.MODEL_NAMES) if name != "threads"]
    params = [*map(show_option, fits), *(f"-p {text}" for text in options["param"])]
    if files and params:
        raise click.UsageError(f"{params[0]} is for fitting; the model is fitted already")
    for name in options["metrics"]:
        if name not in list_metrics():
            hint = suggest_near(name, list_metrics()) or f"; there are {', '.join(list_metrics())}"
            raise click.UsageError(f"--metric {name}: there is no such metric{hint}")
    if options["threshold"] is not None and math.isnan(options["threshold"]):
        raise click.UsageError("--threshold=nan must be a number; scores above it count as recommended")


def _find_parts(model: Any, events: csrr.Log, test: str | None, options: dict[str, Any]) -> tuple[csrr.Log, csrr.Log]:
    """Return (train, test); of a fitted model, what it was fitted to and all events."""
    import csrr

    if model.is_fitted:
        return model.training_log(), events
    if test is not None:
        return events, opts.read_log(test, options)
    if options["cold_items"] is not None:
        train, tested = csrr.split(events, cold_items=options["cold_items"], **opts.select_given(options, ["seed"]))
        return train, tested
    with say_warnings():
        train, tested = csrr.split(events, **opts.read_split(options), **opts.select_given(options, ["seed"]))
    return train, tested


def _choose_lengths(lengths: tuple[int, ...], n_items: int) -> tuple[int, ...]:
    if lengths and max(lengths) > n_items:
        raise click.UsageError(f"-k {max(lengths)}: there are only {n_items:,} items")
    return tuple(sorted(set(lengths))) or tuple(k for k in LENGTHS if k <= n_items) or (n_items,)


def _format_table(found: dict[str, Evaluation]) -> str:
    first = next(iter(found.values()))
    left_out = f" ({first.n_left_out:,} without test events left out)" if first.n_left_out else ""
    lines = [f"mean over {first.n_users:,} users ± 95 % interval{left_out}", _list_means(found)]
    if first.by_history:
        from csrr.evaluation.evaluate import describe_cold

        lines += ["", describe_cold(first)]
    for name, part in first.by_history.items():
        apart = {model: each.by_history[name] for model, each in found.items()}
        lines += ["", f"{name} training events: mean over {part.n_users:,} users", _list_means(apart)]
    return "\n".join(lines)


def _list_means(found: dict[str, Evaluation]) -> str:
    """Return a line for each metric, a column for each model."""
    from csrr.results.table import format_text_table

    means = next(iter(found.values())).means
    return format_text_table(["", *found], [[name, *(each.text(name) for each in found.values())] for name in means])


@click.command(cls=Command)
@opts.log_argument
@opts.kind_option
@click.option(
    "--space",
    default="csrr",
    metavar="csrr|paper|FILE",
    help='What to try: our space, the paper\'s grid, or a file like {"rank": [64, 128], "reg": {"low": 1, "high": 9}}.',
)
@opts.PARAM_OPTION
@click.option("--trials", type=opts.COUNT, help="Stop after this many trials.")
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True), help="Stop after this many minutes.")
@click.option("--metric", default="ndcg@10", help="What makes a model good.")
@opts.split_option
@click.option("--ratio", type=float, help="Fit to this share of each user's events (0.9 if nothing is said).")
@click.option("--last", type=opts.COUNT, help="Validate on each user's last events, this many.")
@click.option("--at", metavar="TIME", help="Validate on events from this time on, such as 2000-12-31.")
@click.option("--folds", type=opts.COUNT, help="Number of random splits to take the mean over.")
@click.option("--storage", type=opts.NewFile(), help="A file that keeps the search, to go on after a stop.")
@click.option("-o", "--output", type=opts.NewFile(), help="Write parameters and trials to this JSON file.")
@click.option("--fit", "fitted", type=opts.NewFile(), help="Fit the best to all of LOG; write it here.")
@click.option("--no-prune", is_flag=True, help="Finish hopeless trials too.")
@click.option("--threads", type=click.IntRange(min=0), help="Number of threads; 0 for all cores.")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Seed of splits and search.")
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
