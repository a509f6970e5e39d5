"""`csrr fit`: a log becomes a model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from csrr.cli.errors import Failure
from csrr.cli.options import (
    LOG_OPTIONS,
    MODEL_NAMES,
    MODEL_OPTIONS,
    check_writable,
    given,
    json_option,
    read_log,
    with_options,
)
from csrr.cli.output import amount, live_line, print_json

if TYPE_CHECKING:
    import csrr


@click.command()
@click.argument("log")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The model file to write.")
@with_options(*LOG_OPTIONS, *MODEL_OPTIONS, json_option)
@click.option("--force", is_flag=True, help="Write over a file even if it is no model.")
def fit(log: str, output: Path, as_json: bool, force: bool, **options: Any) -> None:
    """Fit a model to LOG and write it to a file.

    LOG is a file, folder or zip archive (MovieLens, Last.fm, CSV, TSV, Parquet, ...), or the name of a data
    set (see `csrr data list`). The last line printed says how far the fit is, at most, from the optimum.
    Options that are left out have the defaults of csrr.CSRR; `csrr info` prints them.
    """
    import csrr

    check_writable(output)
    if not force:
        _check_expendable(output)
    model = csrr.CSRR(**given(options, MODEL_NAMES))
    with live_line() as line:
        line.show(f"reading {log}")
        events = read_log(log, options)
        line.show(f"fitting {events.n_users:,} users x {events.n_items:,} items, {len(events):,} events")
        model.fit(events, callback=line.step)
        line.show(f"writing {output}")
        model.save(output)
    if as_json:
        print_json(_summary(model, events, output))
    else:
        click.echo(
            f"{output}: {events.n_users:,} users x {events.n_items:,} items, {len(events):,} events, ",
            nl=False,
        )
        click.echo(amount(output.stat().st_size))
        click.echo(str(model.certificate_))


def _check_expendable(path: Path) -> None:
    """Raise an error if `path` holds something that is not a model: perhaps the log."""
    from csrr.models.store import MAGIC

    if path.exists() and _start(path, len(MAGIC)) not in (MAGIC, b""):
        raise Failure(f"{path} exists and is no model; give another name, or --force to write over it")


def _start(path: Path, n_bytes: int) -> bytes:
    with path.open("rb") as file:
        return file.read(n_bytes)


def _summary(model: csrr.CSRR, events: csrr.Log, output: Path) -> dict[str, Any]:
    return {
        "model": str(output),
        "bytes": output.stat().st_size,
        "n_users": events.n_users,
        "n_items": events.n_items,
        "n_events": len(events),
        "params": model.get_params(),
        "certificate": model.certificate_.to_dict(),
    }
