"""`csrr similar`, `csrr info` and `csrr export`: what a model file holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from csrr._base.progress import show_live_line
from csrr._base.text import describe_size
from csrr.cli import options as opts
from csrr.cli.errors import Failure, as_id, load_model, name_known_ids
from csrr.cli.help import Command
from csrr.cli.output import print_json, say, summarize_model

FOUND = ("rank_", "reg_", "l1_", "l2_")
"""What a fit settles where a parameter leaves it open."""


@click.command(cls=Command)
@opts.model_argument
@click.option("--item", metavar="ID", help="Find items like this one.")
@click.option("--user", metavar="ID", help="Find users like this one.")
@click.option(
    "--by",
    type=click.Choice(["neighbors", "factors", "next"]),
    help="Of CSRR: alike as neighbors or by their factors; next: what comes after, with order=next.",
)
@opts.k_option
@opts.json_option
def similar(model: Path, item: str | None, user: str | None, by: str | None, k: int, as_json: bool) -> None:
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
    if by and item is None:
        raise click.UsageError("--by goes with --item")
    fitted: Any = load_model(model)
    kind = "items" if item is not None else "users"
    opts.check_can(fitted, f"similar_{kind}", f"say which {kind} are alike")
    with name_known_ids(fitted):
        if item is not None:
            found = fitted.similar_items(as_id(item, fitted.items_), k, by=by or "auto")
        else:
            found = fitted.similar_users(as_id(user or "", fitted.users_), k)
    table = found.to_arrow()
    if as_json:
        print_json({"of": found.of, "neighbors": table.to_pylist()})
    else:
        names = [name for name in ("id", "title", "score") if name in table.column_names]
        say(format_text_table(names, [[row[name] for name in names] for row in table.to_pylist()]))


@click.command(cls=Command)
@opts.model_argument
@opts.json_option
def info(model: Path, as_json: bool) -> None:
    """Say what MODEL is: its size, parameters and certificate.

    Examples:
      # What a model was fitted to, and how
      csrr info model.csrr

      # The same for a program
      csrr info model.csrr --json
    """

    fitted: Any = load_model(model)
    neighbors, specific = (getattr(fitted, name, None) for name in ("neighbors_", "specific_"))
    table = fitted.item_table_
    facts = summarize_model(fitted, model) | {
        "event_types": None if fitted.event_types is None else fitted.event_types.describe(),
        "n_specific": None if specific is None else int(specific.nnz),
        "n_neighbors": None if neighbors is None else int(neighbors.nnz),
        "found": {name: getattr(fitted, name) for name in FOUND if getattr(fitted, name, None) is not None},
        "item_columns": None if table is None else {name: each.kind for name, each in table.columns.items()},
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
    notes = getattr(fitted, "costs_", None), fitted.chosen_.note if facts["chosen"] else None
    for each in (*notes, getattr(fitted, "certificate_", None)):
        if each is not None:
            say(str(each))


@click.command(cls=Command)
@opts.model_argument
@click.option(
    "--to",
    type=click.Choice(["faiss", "hnswlib", "parquet"]),
    default="parquet",
    show_default=True,
    help="An index of the items, or the vectors alone.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The folder to write.")
@click.option(
    "--part",
    type=click.Choice(["all", "factors"]),
    default="all",
    show_default=True,
    help="All of the scores, or those of the factors, without neighbors.",
)
@click.option("--dims", type=click.IntRange(min=1), help="Number of dimensions; without it, as few as keep --recall.")
@click.option("--index", metavar="KIND", help="What faiss's index_factory takes; Flat is exact.")
@click.option("-k", type=click.IntRange(min=1), default=20, show_default=True, help="Length of the lists compared.")
@click.option(
    "--recall",
    type=click.FloatRange(min=0, max=1, min_open=True),
    default=0.99,
    show_default=True,
    help="Share of the lists to keep if the model ranks the candidates.",
)
@click.option(
    "--sample", type=click.IntRange(min=1), default=1000, show_default=True, help="Number of users to compare."
)
@opts.json_option
def export(model: Path, output: Path, as_json: bool, **options: Any) -> None:
    """Write the vectors of MODEL to a folder, for vector search.

    A user's vector times an item's is a score. Where scores are more than factors (neighbors, EASE, ItemKNN) all of
    them are approximated. How much of the model's own lists is found again is measured and printed, and how many
    candidates the model has to rank to keep --recall of them.

    Examples:
      # Vectors for any search engine
      csrr export model.csrr -o vectors

      # An index for faiss
      csrr export model.csrr --to faiss -o index --dims 64
    """
    import csrr

    if output.exists() and not output.is_dir():
        raise Failure(f"{output} is a file; -o names a folder")
    with show_live_line() as line:
        line.show(f"reading {model}")
        fitted = load_model(model)
        line.show("making vectors")
        found = csrr.export(fitted, output, **options)
    if as_json:
        print_json(found.summary())
    else:
        say(str(found))
