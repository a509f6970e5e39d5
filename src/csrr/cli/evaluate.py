"""`csrr evaluate`: a model against popularity, on events it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from csrr.cli.options import (
    LOG_OPTIONS,
    MODEL_NAMES,
    MODEL_OPTIONS,
    PARAM_OPTION,
    find_kind,
    fit_model,
    given,
    json_option,
    made_model,
    model_kinds,
    read_log,
    with_options,
)
from csrr.cli.output import live_line, print_json

if TYPE_CHECKING:
    import csrr
    from csrr.experiments import Evaluation

LENGTHS = (5, 10, 20)
SPLITS = ("ratio", "last", "at")


@click.command()
@click.argument("log")
@click.option(
    "--model", metavar="NAME|FILE", help="The kind to fit, or a fitted model to test on what it has not seen."
)
@PARAM_OPTION
@click.option("--test", metavar="LOG2", help="Fit to LOG and test on this log.")
@click.option("--ratio", type=float, help="Fit to this share of each user's events (0.8 if nothing is said).")
@click.option("--last", type=click.IntRange(min=1), help="Test on each user's last events, this many.")
@click.option("--at", metavar="TIME", help="Test on events from this time on, such as 2000-12-31.")
@click.option("-k", "lengths", type=click.IntRange(min=1), multiple=True, help="Length of a list; may be repeated.")
@with_options(*LOG_OPTIONS, *MODEL_OPTIONS, json_option)
def evaluate(
    log: str, model: str | None, test: str | None, lengths: tuple[int, ...], as_json: bool, **options: Any
) -> None:
    """Compare a model with PopRank, which recommends to everyone what most people have.

    Without a model file, CSRR, or what --model names, and PopRank are fitted to a part of LOG and tested on the
    rest: a random fifth of each user's events unless --ratio, --last, --at or --test say otherwise. --seed decides
    the random split too. A file that is called like a kind of model needs its folder: ./ease.
    """
    import csrr
    from csrr.experiments.unseen import unseen_events

    kind = csrr.CSRR if model is None else find_kind(model)
    file = Path(model) if model is not None and kind is None else None
    _check_usage(file, test, options)
    fitted: Any = _loaded(file) if kind is None else made_model(kind, options, shared=("seed", "threads"))
    with live_line() as line:
        line.show(f"reading {log}")
        events = read_log(log, options)
        train, test_log = _parts(fitted, events, test, options)
        at = _checked_lengths(lengths, train.n_items)
        if not fitted.is_fitted:
            fit_model(fitted, train, line)
        asked = unseen_events(test_log, fitted)
        line.show("testing")
        models = {type(fitted).__name__: fitted, "PopRank": csrr.PopRank().fit(train)}
        found = {
            name: csrr.evaluate(each, train, asked, at=at, threads=options["threads"]) for name, each in models.items()
        }
    certificate = getattr(fitted, "certificate_", None)
    if as_json:
        print_json(
            _summary(train, asked, len(test_log), found) | {"certificate": certificate and certificate.to_dict()}
        )
    else:
        click.echo(_table(found) if certificate is None else f"{_table(found)}\n{certificate}")


def _loaded(file: Path | None) -> Any:
    """Return the model in a file whose name is no kind of model."""
    import csrr

    if file is None or not file.exists():
        kinds = ", ".join(model_kinds())
        raise click.UsageError(f"--model {file}: there is no such file, nor such a kind of model; there are {kinds}")
    return csrr.load(file)


def _check_usage(file: Path | None, test: str | None, options: dict[str, Any]) -> None:
    ways = {"model": file, "test": test} | {name: options[name] for name in SPLITS}
    chosen = [f"--{name}" for name, value in ways.items() if value is not None]
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(chosen)} do not go together")
    params = [f"--{name.replace('_', '-')}" for name in given(options, MODEL_NAMES) if name != "threads"]
    params += [f"-p {text}" for text in options["param"]]
    if file is not None and params:
        raise click.UsageError(f"{params[0]} is for fitting; the model is fitted already")


def _parts(model: Any, events: csrr.Log, test: str | None, options: dict[str, Any]) -> tuple[csrr.Log, csrr.Log]:
    """Return (train, test); of a fitted model, what it was fitted to and all events."""
    import csrr
    from csrr.experiments.unseen import training_log

    if model.is_fitted:
        return training_log(model), events
    if test is not None:
        return events, read_log(test, options)
    chosen = given(options, (*SPLITS, "seed"))
    if "at" in chosen:
        chosen["at"] = _time(chosen["at"])
    train, asked = csrr.split(events, **chosen)
    return train, asked


def _time(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _checked_lengths(lengths: tuple[int, ...], n_items: int) -> tuple[int, ...]:
    if lengths and max(lengths) > n_items:
        raise click.UsageError(f"-k {max(lengths)}: there are only {n_items:,} items")
    return tuple(sorted(set(lengths))) or tuple(k for k in LENGTHS if k <= n_items) or (n_items,)


def _summary(train: csrr.Log, test: csrr.Log, n_read: int, found: dict[str, Evaluation]) -> dict[str, Any]:
    return {
        "n_users": train.n_users,
        "n_items": train.n_items,
        "n_train": len(train),
        "n_test": len(test),
        "n_test_left_out": n_read - len(test),
        "models": {name: each.summary() for name, each in found.items()},
    }


def _table(found: dict[str, Evaluation]) -> str:
    from csrr.ranking.tables import text_table

    first = next(iter(found.values()))
    left_out = f" ({first.n_left_out:,} without test events left out)" if first.n_left_out else ""
    lines = [[metric, *(float(each[metric]) for each in found.values())] for metric in first.means]
    return f"mean over {first.n_users:,} users{left_out}\n{text_table(['', *found], lines)}"
