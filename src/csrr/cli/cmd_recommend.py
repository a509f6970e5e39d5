"""`csrr recommend`, `publish`, `similar`, `info` and `export`: what a model file holds, and what it recommends."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from csrr._base.progress import show_live_line
from csrr._base.text import describe_size, format_cell
from csrr.cli import options as opts
from csrr.cli.help import Command
from csrr.cli.output import Failure, print_json, say, say_warnings, summarize_model
from csrr.parameters import Number

if TYPE_CHECKING:
    from csrr.results.recommendations import Recommendations

REASONS = 3


LIMIT_OPTIONS = (
    click.option("--include-seen", is_flag=True, help="Keep items that the user already has."),
    click.option("--candidate", "candidates", multiple=True, metavar="ID", help="Choose from these items only."),
    click.option("--exclude", multiple=True, metavar="ID", help="Leave this item out."),
    click.option(
        "--min-probability",
        type=opts.DeclaredType(Number(name="min_probability", words=("cost",))),
        metavar="P|cost",
        help="Only items at least as probable (see csrr calibrate); cost: that are worth it, by the model's costs.",
    ),
    click.option("--min-score", type=float, help="Only items with at least this score."),
    click.option(
        "--unknown",
        type=click.Choice(["raise", "ignore"]),
        default="raise",
        help="With ignore, unknown items are left out and unknown users get popular items.",
    ),
    *opts.ITEM_OPTIONS,
    *opts.RULE_OPTIONS,
)
"""What lists may hold."""


@click.command(cls=Command)
@opts.model_argument
@click.option("--user", "users", multiple=True, metavar="ID", help="A user of the model; may be repeated.")
@click.option("--all-users", "--all", "everyone", is_flag=True, help="All users of the model.")
@click.option("--history", multiple=True, metavar="ID,ID,...", help="What someone new has chosen, newest last.")
@opts.k_option
@opts.add_options(*LIMIT_OPTIONS)
@click.option("--columns", metavar="NAME,NAME,...", help="Columns of the item table to show.")
@click.option("--explain", is_flag=True, help="Show the past choices that led to an item.")
@click.option(
    "-o",
    "--output",
    type=opts.NewFile(".csv", ".parquet", ".jsonl", ".arrow"),
    help="Write .csv, .parquet, .jsonl or .arrow instead of printing: all users in little memory.",
)
@opts.spreadsheet_option
@opts.json_option
def recommend(
    model: Path, users: tuple[str, ...], everyone: bool, history: tuple[str, ...], explain: bool, **options: Any
) -> None:
    """Recommend items to users of MODEL, or to someone new.

    Someone new is known by what they chose, with --history. Users without a history get popular items: the column why
    says so, and n_fallback of --json how many they are.

    Conditions, boosts, caps and quotas ask columns of the item table, that of --items or the one that csrr fit --items
    left in MODEL. Scores shown are the model's own.

    Examples:
      # Ten items for one user, and the past choices that led to each
      csrr recommend model.csrr --user 42 --explain

      # For a visitor who is not in the model
      csrr recommend model.csrr --history 17,23 -k 5

      # For everyone, to a file
      csrr recommend model.csrr --all-users -k 20 -o lists.csv

      # Only what can be sold, and three of a category at most
      csrr recommend model.csrr --user 42 --where in_stock=true --at-most category=3
    """
    output, as_json = options["output"], options["as_json"]
    _check_usage(bool(users), everyone, bool(history), explain, output, as_json)
    fitted = opts.load_model(model)
    opts.set_items(fitted, options)
    with opts.name_known_ids(fitted):
        allowed = _read_limits(fitted, options)
        if options["columns"]:
            allowed["columns"] = [name.strip() for name in options["columns"].split(",")]
        if everyone and output is not None:
            _write_everyone(fitted, output, options, allowed)
            return
        with say_warnings():
            if history:
                chosen = opts.as_ids(history, fitted.items_, unknown=options["unknown"])
                recs = fitted.recommend_for(chosen, options["k"], **allowed)
            else:
                ids = None if everyone else [opts.as_id(user, fitted.users_) for user in users]
                recs = fitted.recommend(ids, options["k"], **allowed)
    reasons = _find_reasons(fitted, recs) if explain else None
    if output is not None:
        from csrr.results.table import write_table_file

        write_table_file(output, recs.to_arrow(), spreadsheet=options["spreadsheet"])
        _say_written(output, len(recs), int(recs.fallback.sum()), recs.k, as_json=as_json)
    elif as_json:
        rows = [row | {"user": None} for row in recs.to_list()] if history else recs.to_list()
        if reasons is not None:
            rows = [row | {"because": reason} for row, reason in zip(rows, reasons, strict=True)]
        print_json({"k": recs.k, "n_fallback": int(recs.fallback.sum()), "recommendations": rows})
    else:
        _print_lists(recs, reasons, is_new=bool(history))


@click.command(cls=Command)
@opts.model_argument
@click.argument("database", metavar="DATABASE")
@click.option("--table", default="recommendations", metavar="NAME", help="The table, or schema.table.")
@click.option("-k", type=opts.COUNT, default=20, help="Length of the lists.")
@click.option("--scores/--no-scores", default=True, help="Whether to write scores.")
@click.option("--titles", is_flag=True, help="Write the titles of items.")
@opts.add_options(*LIMIT_OPTIONS)
@opts.json_option
def publish(model: Path, database: str, table: str, k: int, scores: bool, titles: bool, **options: Any) -> None:
    """Write the lists of all users of MODEL into a table of DATABASE.

    DATABASE is postgresql://user@host/name or an SQLite file, which is made if there is none. Passwords are best kept
    in ~/.pgpass or PGPASSWORD. The table has the columns user_id, item_id, rank and score, and is replaced in one
    transaction: who reads it sees the old lists or the new ones, and if anything stops this, the old ones stand. No
    table of another kind is replaced.

    Examples:
      # Twenty items for everyone, in an SQLite file
      csrr publish model.csrr lists.db

      # Only what can be sold, in another table
      csrr publish model.csrr lists.db --table for_sale --where in_stock=true
    """
    import csrr

    fitted = opts.load_model(model)
    opts.set_items(fitted, options)
    total, began = len(fitted.users_), time.perf_counter()
    with opts.name_known_ids(fitted), say_warnings(), show_live_line() as line:
        line.show("recommending")
        written = csrr.publish(
            *(fitted, database, table),
            k=k,
            scores=scores,
            titles=titles,
            callback=lambda n_users: line.show(f"{n_users:,} of {total:,} users", now=False, done=n_users / total),
            **_read_limits(fitted, options),
        )
    seconds, place = time.perf_counter() - began, opts.name_source(database)
    if options["as_json"]:
        told = {"database": place, "table": table, "n_users": written.n_users, "n_rows": written.n_rows}
        print_json(told | {"n_fallback": written.n_fallback, "k": written.k, "seconds": seconds})
    else:
        lists = f"{written.n_users:,} users, up to {written.k} items each"
        say(f"{place}, table {table}: {lists}, {written.n_rows:,} rows, {seconds:.1f} s")


def _read_limits(model: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return what lists may hold, as `Recommender.recommend` takes it."""
    unknown, candidates = options["unknown"], options["candidates"]
    return {
        "exclude_seen": not options["include_seen"],
        "candidates": opts.as_ids(candidates, model.items_, unknown=unknown) if candidates else None,
        "exclude": opts.as_ids(options["exclude"], model.items_, unknown=unknown),
        "min_probability": options["min_probability"],
        "min_score": options["min_score"],
        "unknown": unknown,
        **opts.read_rule_options(options, model.items_),
    }


def _write_everyone(model: Any, output: Path, options: dict[str, Any], allowed: dict[str, Any]) -> None:
    """Write the lists of all users, a batch at a time, and say how far that is."""
    total = len(model.users_)
    with say_warnings(), show_live_line() as line:
        line.show("recommending")
        written = model.recommend_to(
            output,
            k=options["k"],
            spreadsheet=options["spreadsheet"],
            callback=lambda n_users: line.show(f"{n_users:,} of {total:,} users", now=False, done=n_users / total),
            **allowed,
        )
    _say_written(output, written.n_users, written.n_fallback, written.k, as_json=options["as_json"])


def _say_written(output: Path, n_users: int, n_fallback: int, k: int, *, as_json: bool) -> None:
    if as_json:
        print_json({"output": str(output), "n_users": n_users, "n_fallback": n_fallback, "k": k})
    else:
        say(f"{output}: {n_users:,} users, up to {k} items each")


def _check_usage(users: bool, everyone: bool, history: bool, explain: bool, output: Path | None, as_json: bool) -> None:
    if users + everyone + history != 1:
        raise click.UsageError("give one of --user, --history and --all-users")
    if everyone and output is None and not as_json:
        raise click.UsageError("--all-users needs a file to write, with -o, or --json")
    if explain and (everyone or history or output is not None):
        raise click.UsageError("--explain goes with --user, and prints")


def _find_reasons(model: Any, recs: Recommendations) -> list[list[dict[str, Any]]]:
    """Return, for each recommended item, the rows of the user's history that add most to its score."""
    opts.check_can(model, "explain", "explain")
    popular = set(recs.users[recs.fallback].tolist())
    return [
        [] if row["user"] in popular else model.explain(row["user"], row["item"]).rows()[:REASONS]
        for row in recs.rows()
    ]


def _print_lists(recs: Recommendations, reasons: list[list[dict[str, Any]]] | None, *, is_new: bool) -> None:
    """Print the table, unless it is empty, and a line for each user without a recommendation."""
    from csrr.results.table import format_text_table

    table = recs.table()
    if len(table):
        names = ["user"] if len(recs) > 1 else []
        names += [name for name in ("rank", "item", "title", "score", "probability") if name in table.columns]
        names += [name for name in (*recs.columns, "why") if name in table.columns]
        lines = zip(*(table[name].tolist() for name in names), strict=True)
        say(format_text_table(names, lines, None if reasons is None else list(map(_format_reason, reasons))))
    found = set(table["user"].tolist())
    for user in recs.users.tolist():
        if user not in found:
            who = "someone with this history" if is_new else f"user {format_cell(user)}"
            say(f"nothing for {who} is worth recommending")


def _format_reason(reason: list[dict[str, Any]]) -> str:
    reasons = []
    for row in reason:
        shared = f"; both {format_cell(row['shared'], 60)}" if row.get("shared") else ""
        reasons.append(f"{format_cell(row.get('title') or row['item'], 40)} ({row['amount']:+.3f}{shared})")
    return f"      because of {', '.join(reasons)}" if reasons else ""


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
    fitted: Any = opts.load_model(model)
    kind = "items" if item is not None else "users"
    opts.check_can(fitted, f"similar_{kind}", f"say which {kind} are alike")
    with opts.name_known_ids(fitted):
        if item is not None:
            found = fitted.similar_items(opts.as_id(item, fitted.items_), k, by=by or "auto")
        else:
            found = fitted.similar_users(opts.as_id(user or "", fitted.users_), k)
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

    fitted: Any = opts.load_model(model)
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
    help="An index of the items, or the vectors alone.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The folder to write.")
@click.option(
    "--part",
    type=click.Choice(["all", "factors"]),
    default="all",
    help="All of the scores, or those of the factors, without neighbors.",
)
@click.option("--dims", type=opts.COUNT, help="Number of dimensions; without it, as few as keep --recall.")
@click.option("--index", metavar="KIND", help="What faiss's index_factory takes; Flat is exact.")
@click.option("-k", type=opts.COUNT, default=20, help="Length of the lists compared.")
@click.option(
    "--recall", type=opts.SHARE, default=0.99, help="Share of the lists to keep if the model ranks the candidates."
)
@click.option("--sample", type=opts.COUNT, default=1000, help="Number of users to compare.")
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
        fitted = opts.load_model(model)
        line.show("making vectors")
        found = csrr.export(fitted, output, **options)
    if as_json:
        print_json(found.summary())
    else:
        say(str(found))
