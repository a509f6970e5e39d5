"""`csrr data`: public data sets on this machine."""

from __future__ import annotations

from typing import Any

import click

from csrr._base.progress import show_live_line
from csrr._base.text import describe_size
from csrr.cli.help import Group
from csrr.cli.options import json_option
from csrr.cli.output import print_json, say


@click.group(cls=Group, invoke_without_command=True)
@click.pass_context
def data(context: click.Context) -> None:
    """List, find and fetch public data sets.

    Examples:
      # Which there are, and which are here
      csrr data list

      # Get one, and use it by its name
      csrr data fetch ml-100k
    """
    if context.invoked_subcommand is None:
        context.invoke(list_, as_json=False)


@data.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the data sets that csrr knows by name.

    Examples:
      # Which there are, and which are here
      csrr data list

      # The same for a program
      csrr data list --json
    """
    from csrr.data.catalog import DATASETS, locate

    rows: list[dict[str, Any]] = [
        {
            "name": each.name,
            "path": None if (path := locate(each.name)) is None else str(path),
            "description": each.description,
            "license": each.license,
            "can_be_fetched": each.url is not None,
        }
        for each in DATASETS.values()
    ]
    if as_json:
        print_json({"data_sets": rows})
        return
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        state = _describe_state(row["path"], row["can_be_fetched"])
        say(f"{row['name']:{width}}  {state:8}  {row['description']} ({row['license']})", hang=width + 12)


def _describe_state(path: str | None, can_be_fetched: bool) -> str:
    return "here" if path else "to fetch" if can_be_fetched else "by hand"


@data.command()
@json_option
def where(as_json: bool) -> None:
    """Print the folder of data sets.

    It is what CSRR_DATA_DIR says, or csrr in the cache folder.

    Examples:
      # Where data sets are
      csrr data where

      # Somewhere else
      CSRR_DATA_DIR=data csrr data where
    """
    from csrr.data.catalog import data_dir

    folder = data_dir()
    if as_json:
        print_json({"folder": str(folder), "exists": folder.is_dir()})
    else:
        say(str(folder))


@data.command()
@click.argument("name")
@json_option
def fetch(name: str, as_json: bool) -> None:
    """Download the data set NAME, and print its path.

    One that is here already is not downloaded again. What comes is checked.

    Examples:
      # Get a data set, and use it by its name
      csrr data fetch ml-100k

      # Its path for a program
      csrr data fetch ml-100k --json
    """
    from csrr.data.catalog import fetch as fetch_data

    with show_live_line() as line:
        path = fetch_data(name, progress=line.show_bytes)
    if as_json:
        print_json({"name": name, "path": str(path), "bytes": path.stat().st_size})
    else:
        say(f"{path} ({describe_size(path.stat().st_size)})" if path.is_file() else str(path))
