"""`csrr export`: vectors of a model, and an index of them for vector search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from csrr._base.progress import show_live_line
from csrr.cli.errors import Failure, load_model
from csrr.cli.help import Command
from csrr.cli.options import json_option, model_argument
from csrr.cli.output import print_json, say


@click.command(cls=Command)
@model_argument
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
@json_option
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
        try:
            found = csrr.export(fitted, output, **options)
        except ImportError as error:
            raise Failure(str(error)) from None
    if as_json:
        print_json(found.summary())
    else:
        say(str(found))
