"""`csrr serve`: a model on the air."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from csrr._base.threads import available_cores
from csrr.cli import interrupts
from csrr.cli import options as opts
from csrr.cli.help import Command
from csrr.cli.output import Failure, say, suggest_near


def read_limits(texts: Sequence[str]) -> dict[str, float]:
    """Return the values of NAME=VALUE; a usage error for others than those of `Limits`."""
    from csrr.serve.guard import Limits

    kinds = {each.name: each.default for each in fields(Limits)}
    found: dict[str, float] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name not in kinds:
            raise click.UsageError(f"--limit {text}: the limits are {', '.join(kinds)}{suggest_near(name, kinds)}")
        try:
            number = int(value) if isinstance(kinds[name], int) else float(value)
        except ValueError:
            number = 0
        if not 0 < number < 1e12:
            raise click.UsageError(f"--limit {text}: give a number above 0, such as {name}={kinds[name] or 100}")
        found[name] = number
    return found


@click.command(cls=Command)
@opts.model_argument
@click.option("--host", default="127.0.0.1", help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, help="The port; 0: any.")
@click.option("--workers", type=click.IntRange(1, 256), help="The number of processes; one a core without it.")
@click.option("--state", type=click.Path(path_type=Path), help="The folder of events and keys; MODEL.state without it.")
@click.option("--events", metavar="DATABASE", help="Put events into a table of PostgreSQL or SQLite, not into files.")
@click.option("--events-table", metavar="TABLE", default="events", help="That table.")
@click.option(
    "--limit",
    "limits",
    metavar="NAME=NUMBER",
    multiple=True,
    help="A limit, such as rate=100, the requests a second of each; may be repeated.",
)
@click.option("--access-log", is_flag=True, help="Log every request: its route, status and time.")
@click.option("--open", "is_open", is_flag=True, help="Let others than this machine ask without a key.")
@click.option("--new-key", type=click.Choice(["read", "write", "both"]), help="Make a key, print it, and end.")
@click.option("--key-name", metavar="NAME", help="What to call the new key.")
def serve(model: Path, host: str, state: Path | None, limits: tuple[str, ...], **options: Any) -> None:
    """Answer requests for recommendations over HTTP, and take events.

    What there is to ask is at /v1/openapi.json. Once the file MODEL is replaced, the new model answers.

    Examples:
      # Serve to this machine: curl "localhost:8000/v1/recommendations?user=42"
      csrr serve model.csrr

      # Make a key for a shop that asks and sends events
      csrr serve model.csrr --new-key both --key-name shop

      # Serve to other machines, which need a key, and limit what each may ask
      csrr serve model.csrr --host 0.0.0.0 --limit rate=200
    """
    try:
        import msgspec  # noqa: F401
        import uvicorn  # noqa: F401

        from csrr.serve import guard, processes
    except ImportError as error:
        raise Failure(f"csrr serve needs {error.name}: pip install 'csrr[serve]'") from None
    folder = state or model.with_name(f"{model.name}.state")
    keys = folder / "keys.json"
    if new_key := options["new_key"]:
        rights = [right for right in guard.RIGHTS if new_key in (right, "both")]
        name = options["key_name"] or f"{new_key}-{os.urandom(3).hex()}"
        say(guard.add_key(keys, name, rights))
        say(f"csrr: the key {name} may {' and '.join(rights)}; it is not shown again", err=True)
        return
    opts.find_model(model)
    if not opts.is_model_file(model):
        raise Failure(f"{model} is not a csrr model; csrr fit makes one")
    is_ours, has_keys = guard.is_loopback(host), bool(guard.read_keys(keys))
    if not is_ours and not options["is_open"] and not has_keys:
        raise Failure(f"{host} can be reached by others, and there are no keys: make one with --new-key, or say --open")
    settings = processes.Settings(
        model=os.fspath(model.resolve()),
        state=os.fspath(folder.resolve()),
        host=host,
        port=options["port"],
        workers=options["workers"] or available_cores(),
        events=options["events"],
        events_table=options["events_table"],
        hosts=(*guard.LOOPBACK_NAMES, host) if is_ours else None,
        needs_key=not is_ours and not options["is_open"],
        access_log=options["access_log"],
        limits=guard.Limits(**read_limits(limits)),  # type: ignore[arg-type]
    )
    interrupts.hand_over()
    raise click.exceptions.Exit(processes.run(settings))
