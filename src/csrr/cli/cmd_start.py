"""`csrr start`, `demo` and `data`: from a file to an answer, the whole way on made-up data, and public data sets."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from csrr._base.progress import show_live_line
from csrr._base.text import describe_size
from csrr.cli import options as opts
from csrr.cli.help import Command, Group
from csrr.cli.interrupts import NOTHING_WRITTEN
from csrr.cli.output import describe_written, print_json, say, say_command, stoppable

if TYPE_CHECKING:
    import csrr
    from csrr.data.synthetic import Synthetic
    from csrr.noise.suspects import Suspects


@click.command(cls=Command)
@opts.log_argument
@click.option("-o", "--output", type=click.Path(path_type=Path), default="first-look", help="Folder to write to.")
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    help="How long it may take, about.  [default: what it needs, ten at most]",
)
@click.option("--miss", type=float, default=10.0, help="What a wanted item costs that is not shown.")
@click.option("--false-alarm", type=float, default=1.0, help="What an item costs that is shown in vain.")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Of what is drawn at random.")
@click.option("--ease", is_flag=True, help="Fit EASE however long it takes, beyond --minutes.")
@opts.add_options(*opts.LOG_OPTIONS, *opts.ITEM_OPTIONS, opts.json_option)
def start(log: str, output: Path, as_json: bool, **options: Any) -> None:
    """Find the best model for LOG, and write a page about it.

    Says what the log is and what is odd in it, holds out a test, fits popularity, the classics and CSRR, compares them,
    and keeps the best, fitted to all events. The folder has page.html, which needs nothing else, summary.json and
    model.csrr. After Ctrl-C it has what was known by then.

    Examples:
      # The best model for your clicks, and a page about it
      csrr start clicks.csv

      # Columns of other names, five minutes at most
      csrr start orders.csv --user-column customer --item-column sku --minutes 5

      # Titles from another file
      csrr start clicks.csv --items items.csv

      # Only ratings of 4 and more count as liked
      csrr start ratings.csv --min-rating 4 -o ratings-look
    """
    from csrr.report.findings import PAGE, check_folder, list_commands
    from csrr.report.start import start as start_look

    with show_live_line() as line, stoppable(describe_kept(output)):
        check_folder(output)
        items = opts.read_item_table(options)
        events = opts.read_log(log, options)
        given = {name: options[name] for name in ("minutes", "miss", "false_alarm", "ease", "seed")}
        spelled = shlex.join(opts.spell_log_options(options))
        look = start_look(events, folder=output, items=items, callback=line.show, source=log, options=spelled, **given)
    if as_json:
        print_json(look.summary())
        return
    say(repr(look))
    for each in look.anomalies:
        say(f"odd: {each.what} {each.action}")
    for command in list_commands(look):
        say(command.what)
        say_command(shlex.split(command.line))
    say(f"the page: {output / PAGE}")


def describe_kept(output: Path) -> Callable[[], str]:
    """Return a function that says what was written to the folder since it was made."""
    from csrr.report.findings import PAGE, SUMMARY

    written = describe_written(output / SUMMARY)

    def message() -> str:
        if (said := written()) == NOTHING_WRITTEN:
            return said
        found = json.loads((output / SUMMARY).read_text("utf-8"))
        done = [each["model"] for each in found["models"] if each["means"] is not None]
        return f"interrupted: {output / PAGE} tells what was found by then, of {', '.join(done) or 'the log alone'}"

    return message


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
@opts.json_option
def list_(as_json: bool) -> None:
    """List the data sets that csrr knows by name.

    Examples:
      # Which there are, and which are here
      csrr data list

      # The same for a program
      csrr data list --json
    """
    from csrr.data.sources import DATASETS, locate

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
@opts.json_option
def where(as_json: bool) -> None:
    """Print the folder of data sets.

    It is what CSRR_DATA_DIR says, or csrr in the cache folder.

    Examples:
      # Where data sets are
      csrr data where

      # Somewhere else
      CSRR_DATA_DIR=data csrr data where
    """
    from csrr.data.sources import data_dir

    folder = data_dir()
    if as_json:
        print_json({"folder": str(folder), "exists": folder.is_dir()})
    else:
        say(str(folder))


@data.command()
@click.argument("name")
@opts.json_option
def fetch(name: str, as_json: bool) -> None:
    """Download the data set NAME, and print its path.

    One that is here already is not downloaded again. What comes is checked.

    Examples:
      # Get a data set, and use it by its name
      csrr data fetch ml-100k

      # Its path for a program
      csrr data fetch ml-100k --json
    """
    from csrr.data.sources import fetch as fetch_data

    with show_live_line() as line:
        path = fetch_data(name, progress=line.show_bytes)
    if as_json:
        print_json({"name": name, "path": str(path), "bytes": path.stat().st_size})
    else:
        say(f"{path} ({describe_size(path.stat().st_size)})" if path.is_file() else str(path))


LENGTH = 10
SHOWN = 5
TOP = 100
METRICS = (f"ndcg@{LENGTH}", f"recall@{LENGTH}")
NEXT = """
Now your own clicks: a CSV file with a header and a row for each click, such as
  user,item
  anna,lamp
  ben,chair

  csrr start clicks.csv
    finds the best model and writes a page about it
  csrr recommend first-look/model.csrr --user anna
    recommends with that model
  csrr update first-look/model.csrr new.csv -o first-look/model.csrr
    adds the clicks of tomorrow

All commands: csrr --help. The first steps in Python: docs/getting-started.md."""
"""How to go on."""


@click.command(cls=Command)
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Other data, other split.")
@opts.json_option
def demo(seed: int, as_json: bool) -> None:
    """Show what csrr does, on made-up data.

    Taste, peculiarities and noise are planted in these data, so that what the model finds can be checked.

    Examples:
      # The whole way in a few seconds
      csrr demo

      # With other data, for a program
      csrr demo --seed 1 --json
    """
    import csrr

    with show_live_line() as line:
        line.show("making data, compiling (the first run takes longer)")
        made = csrr.synthetic(seed=seed)
        train, test = csrr.split(made.log, ratio=0.8, seed=seed)
        # So small a problem gains nothing from more threads, and loses much on a busy machine.
        model = csrr.CSRR(threads=1).fit(train, callback=line.step)
        line.show("testing")
        models = {"CSRR": model, "PopRank": csrr.PopRank().fit(train)}
        scores = {name: csrr.evaluate(each, train, test, at=LENGTH, threads=1) for name, each in models.items()}
        facts = _collect_facts(model, made, train, test)
    facts["metrics"] = {name: {metric: each[metric] for metric in METRICS} for name, each in scores.items()}
    if as_json:
        print_json(facts)
    else:
        _print(facts, str(model.certificate_))


def _collect_facts(model: csrr.CSRR, made: Synthetic, train: csrr.Log, test: csrr.Log) -> dict[str, Any]:
    """Return the facts of the demo about a fitted model, as plain values."""
    # The user whose first recommendation has the highest score.
    user = max(model.recommend(None, 1).rows(), key=lambda row: row["score"])["user"]
    later = set(test.items.ids[test.item_rows[test.user_rows == test.users.row(user)]].tolist())
    recommended = [row | {"chosen": row["item"] in later} for row in model.recommend(user, SHOWN).rows()]
    best = recommended[0]["item"]
    suspects = model.suspects()
    return {
        "n_users": made.log.n_users,
        "n_items": made.log.n_items,
        "n_train": len(train),
        "n_test": len(test),
        "certificate": model.certificate_.to_dict(),
        "user": user,
        "recommendations": recommended,
        "because": model.explain(user, best).rows()[:SHOWN],
        "similar": model.similar_items(best, SHOWN).to_list(),
        "suspects": suspects.events.head(SHOWN).to_list(),
        "planted": _count_planted(suspects, made),
    }


def _count_planted(suspects: Suspects, made: Synthetic) -> dict[str, Any]:
    """Return the share of planted clicks among the most suspect ones, beside that among all training events."""
    planted = set(_list_pairs(made.log.select(made.truth > 0)))
    found = [pair in planted for pair in _list_pairs(suspects.log)]
    top = [found[place] for place in suspects.order[:TOP]]
    return {"n_top": len(top), "share_of_top": sum(top) / len(top), "share_of_all": sum(found) / len(found)}


def _list_pairs(log: csrr.Log) -> Iterator[tuple[int, int]]:
    return zip(log.user_rows.tolist(), log.item_rows.tolist(), strict=True)


def _print(facts: dict[str, Any], certificate: str) -> None:
    """Print the demo as a story."""
    user, best, planted = facts["user"], facts["recommendations"][0]["title"], facts["planted"]
    say(f"Made-up data: {facts['n_users']:,} users x {facts['n_items']:,} items, who clicked on what.")
    say(f"A model learns from {facts['n_train']:,} clicks; {facts['n_test']:,} others are held back to test it.")
    say("\ncsrr fit: the model, and how far it is from the best fit possible, at most")
    say(f"  {certificate}")
    rows = [row | {"held back": "yes" if row["chosen"] else "no"} for row in facts["recommendations"]]
    _print_table(
        f"csrr recommend: items for user {user}, and which were among those held back",
        ("rank", "item", "title", "score", "held back"),
        rows,
    )
    _print_table(
        f"csrr recommend --explain: why {best}? What user {user} chose before adds up",
        ("item", "title", "amount"),
        facts["because"],
    )
    _print_table(f"csrr similar: the items most like {best}", ("id", "title", "score"), facts["similar"])
    scores = [{"model": name, **metrics} for name, metrics in facts["metrics"].items()]
    _print_table(
        f"csrr evaluate: lists of {LENGTH} and the clicks held back; PopRank is popularity", ("model", *METRICS), scores
    )
    recall = {name: metrics[METRICS[1]] for name, metrics in facts["metrics"].items()}
    say(f"  Of a user's clicks held back, {recall['CSRR']:.0%} are in the list; {recall['PopRank']:.0%} by popularity.")
    _print_table(
        "csrr suspects: the clicks that look most like noise", ("user", "item", "title", "score"), facts["suspects"]
    )
    say(
        f"  Of the {planted['n_top']} most suspect, {planted['share_of_top']:.0%} were planted as noise or as a whim of"
        f" the user; of all clicks, {planted['share_of_all']:.0%}."
    )
    say(NEXT)


def _print_table(title: str, names: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    from csrr.results.table import format_text_table

    say(f"\n{title}")
    for line in format_text_table(names, [[row[name] for name in names] for row in rows]).splitlines():
        say(f"  {line}")
