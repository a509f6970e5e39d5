"""`csrr demo`: the whole way on made-up data whose truth is known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from csrr._base.progress import show_live_line
from csrr.cli.help import Command
from csrr.cli.options import json_option
from csrr.cli.output import print_json, say

if TYPE_CHECKING:
    import csrr
    from csrr.data.synthetic import Synthetic
    from csrr.noise.suspects import Suspects

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
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Other data, other split.")
@json_option
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
        f"csrr evaluate: lists of {LENGTH} and the clicks held back; PopRank is popularity",
        ("model", *METRICS),
        scores,
    )
    recall = {name: metrics[METRICS[1]] for name, metrics in facts["metrics"].items()}
    say(f"  Of a user's clicks held back, {recall['CSRR']:.0%} are in the list; {recall['PopRank']:.0%} by popularity.")
    _print_table(
        "csrr suspects: the clicks that look most like noise",
        ("user", "item", "title", "score"),
        facts["suspects"],
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
