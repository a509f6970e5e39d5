"""`csrr similar` and `csrr info`: what a model file holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from csrr._base.text import describe_size
from csrr.cli.errors import as_id, load_model, tell_known_ids
from csrr.cli.help import Command
from csrr.cli.options import check_can, json_option, k_option, model_argument
from csrr.cli.output import print_json, say

FOUND = ("rank_", "reg_", "l1_", "l2_")
"""What a fit settles where a parameter leaves it open."""


@click.command(cls=Command)
@model_argument
@click.option("--item", metavar="ID", help="Find items like this one.")
@click.option("--user", metavar="ID", help="Find users like this one.")
@k_option
@json_option
def similar(model: Path, item: str | None, user: str | None, k: int, as_json: bool) -> None:
    """Find the items or users of MODEL that are most like one.

    Examples:
      # Items that go with one item
      csrr similar model.csrr --item 17

      # Users with the same taste
      csrr similar model.csrr --user 42 -k 5
    """
    from csrr.results.table import format_text_table

    if (item is None) == (user is None):
        raise click.UsageError("give one of --item and --user")
    fitted: Any = load_model(model)
    wanted = "items" if item is not None else "users"
    check_can(fitted, f"similar_{wanted}", f"say which {wanted} are alike")
    with tell_known_ids(fitted):
        if item is not None:
            found = fitted.similar_items(as_id(item, fitted.items_), k)
        else:
            found = fitted.similar_users(as_id(user or "", fitted.users_), k)
    table = found.to_arrow()
    if as_json:
        print_json({"of": found.of, "neighbours": table.to_pylist()})
    else:
        names = [name for name in ("id", "title", "score") if name in table.column_names]
        say(format_text_table(names, [[row[name] for name in names] for row in table.to_pylist()]))


@click.command(cls=Command)
@model_argument
@json_option
def info(model: Path, as_json: bool) -> None:
    """Say what MODEL is: its size, parameters and certificate.

    Examples:
      # What a model was fitted to, and how
      csrr info model.csrr

      # The same for a program
      csrr info model.csrr --json
    """

    fitted: Any = load_model(model)
    facts = {
        "model": str(model),
        "kind": type(fitted).__name__,
        "bytes": model.stat().st_size,
        "n_users": len(fitted.users_),
        "n_items": len(fitted.items_),
        "n_events": int(fitted.seen_.nnz),
        "event_types": None if fitted.event_types is None else fitted.event_types.describe(),
        "n_specific": int(fitted.specific_.nnz) if hasattr(fitted, "specific_") else None,
        "params": fitted.get_params(),
        "found": {name: getattr(fitted, name) for name in FOUND if getattr(fitted, name, None) is not None},
        "costs": str(fitted.costs_) if hasattr(fitted, "costs_") else None,
        "certificate": fitted.certificate_.to_dict() if hasattr(fitted, "certificate_") else None,
        "chosen": fitted.chosen_.summary() if hasattr(fitted, "chosen_") else None,
        "n_neighbors": int(fitted.neighbors_.nnz) if hasattr(fitted, "neighbors_") else None,
        "item_columns": None
        if (table := fitted.item_table_) is None
        else {n: c.kind for n, c in table.columns.items()},
    }
    if as_json:
        print_json(facts)
        return
    say(f"{facts['kind']} in {model}, {describe_size(facts['bytes'])}")
    counts = [f"{facts['n_users']:,} users x {facts['n_items']:,} items", f"{facts['n_events']:,} events"]
    counts += [] if facts["n_specific"] is None else [f"{facts['n_specific']:,} of them specific in part"]
    counts += [f"{facts['n_neighbors']:,} weights between items"] if facts["n_neighbors"] else []
    say(", ".join(counts))
    if facts["event_types"] is not None:
        say(f"event types: {facts['event_types']}")
    if table is not None:
        say(repr(table))
    for name, value in facts["params"].items():
        say(f"  {name} = {value}")
    for name, value in facts["found"].items():
        say(f"  {name} = {value:g} (found by the fit)")
    if facts["costs"] is not None:
        say(str(fitted.costs_))
    if facts["chosen"] is not None:
        say(fitted.chosen_.note)
    if facts["certificate"] is not None:
        say(str(fitted.certificate_))
