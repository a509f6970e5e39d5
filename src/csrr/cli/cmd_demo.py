"""`csrr demo`: the whole way on made-up data whose truth is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from csrr.cli.help_pages import Command
from csrr.cli.options import json_option
from csrr.cli.output import print_json, say
from csrr.progress import show_live_line

if TYPE_CHECKING:
    import csrr
    from csrr.data import Synthetic

LENGTH = 10
SHOWN = 5
TOP = 100
METRICS = (f"ndcg@{LENGTH}", f"recall@{LENGTH}")


@click.command(
    cls=Command,
    examples=(
        ("The whole way in a few seconds", "csrr demo"),
        ("With other data, for a program", "csrr demo --seed 1 --json"),
    ),
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Other data, other split.")
@json_option
def demo(seed: int, as_json: bool) -> None:
    """Show what csrr does, on made-up data.

    Each choice in these data is known to be common taste, a peculiarity of the user, or noise.
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
        facts = _collect_facts(model, made, len(train), len(test))
    facts["metrics"] = {name: {metric: each[metric] for metric in METRICS} for name, each in scores.items()}
    if as_json:
        print_json(facts)
    else:
        _print(facts, str(model.certificate_))


def _collect_facts(model: csrr.CSRR, made: Synthetic, n_train: int, n_test: int) -> dict[str, Any]:
    """Return what the demo tells of a fitted model, as plain values."""
    user = made.log.users.ids[_find_most_peculiar(model)].item()
    recommended = list(model.recommend(user, SHOWN).rows())
    return {
        "n_users": made.log.n_users,
        "n_items": made.log.n_items,
        "n_train": n_train,
        "n_test": n_test,
        "certificate": model.certificate_.to_dict(),
        "user": user,
        "recommendations": recommended,
        "because": model.explain(user, recommended[0]["item"]).rows()[:SHOWN],
        "specific": model.specific_preferences(user).rows()[:SHOWN],
        "planted": _count_planted(model, made),
    }


def _find_most_peculiar(model: csrr.CSRR) -> int:
    """Return the row of the user with the most in V."""
    import numpy as np

    return int(np.argmax(np.asarray(model.specific_.sum(axis=1)).ravel()))


def _count_planted(model: csrr.CSRR, made: Synthetic) -> dict[str, Any]:
    """Return how many of the largest entries of V are planted, beside the share of all training events."""
    import numpy as np
    from scipy import sparse

    log = made.log
    planted = sparse.csr_array(
        ((made.truth > 0).astype(np.int8), (log.user_rows, log.item_rows)), shape=(log.n_users, log.n_items)
    )
    cells = model.specific_.tocoo()
    top = np.argsort(-cells.data, kind="stable")[:TOP]
    seen = model.seen_.tocoo()
    return {
        "n_top": len(top),
        "share_of_top": float(planted[cells.row[top], cells.col[top]].mean()) if len(top) else None,
        "share_of_all": float(planted[seen.row, seen.col].mean()),
    }


def _print(facts: dict[str, Any], certificate: str) -> None:
    """Print the demo as a story."""
    user, best = facts["user"], facts["recommendations"][0]
    say(
        f"Made-up data: {facts['n_users']:,} users x {facts['n_items']:,} items,"
        f" {facts['n_train']:,} choices to learn from, {facts['n_test']:,} to test on."
    )
    say(f"\nThe fit, with a certificate of how far it is from the optimum at most:\n  {certificate}")
    _print_table(f"Recommendations for user {user}", ("rank", "item", "title", "score"), facts["recommendations"])
    _print_table(f"Why {best['title']}: what user {user} chose before", ("item", "title", "amount"), facts["because"])
    own = ("item", "title", "amount", "kind")
    _print_table(f"User {user}'s own choices, beyond common taste", own, facts["specific"])
    planted = facts["planted"]
    if planted["share_of_top"] is not None:
        say(
            f"\nOf the {planted['n_top']} largest such entries of all users, {planted['share_of_top']:.0%}"
            f" were planted as peculiarity or noise; of all choices, {planted['share_of_all']:.0%} were."
        )
    rows = [{"model": name, **metrics} for name, metrics in facts["metrics"].items()]
    _print_table("On the choices held back", ("model", *METRICS), rows)
    say("\nNow your own data: csrr fit log.csv -o model.csrr")


def _print_table(title: str, names: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    from csrr.ranking.text_tables import format_text_table

    say(f"\n{title}:")
    for line in format_text_table(names, [[row[name] for name in names] for row in rows]).splitlines():
        say(f"  {line}")
