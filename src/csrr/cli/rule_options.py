"""Options for item tables and for rules of lists, and what they come to in Python."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from csrr.cli.failures import Failure
from csrr.cli.given_ids import as_id
from csrr.cli.help_pages import SectionOption
from csrr.cli.options import parse_column

if TYPE_CHECKING:
    import csrr
    from csrr.data import IdMap

_item_option = partial(click.option, cls=SectionOption, section="Facts about items")
_rule_option = partial(click.option, cls=SectionOption, section="Rules for the lists, about columns of the item table")
ITEM_OPTIONS = (
    _item_option("--items", "items_file", metavar="FILE", help="An item table: titles, categories, prices, dates."),
    _item_option(
        "--items-id", type=parse_column, metavar="NAME|POSITION", help="Column of ids in the item table, if not found."
    ),
)
RULE_OPTIONS = (
    _rule_option(
        *("--where", "where"),
        multiple=True,
        metavar="CONDITION",
        help="Only items with COLUMN=VALUE[,VALUE], COLUMN<=NUMBER or COLUMN>=NUMBER; may be repeated.",
    ),
    _rule_option(
        *("--boost", "boost"),
        multiple=True,
        metavar="WHAT=FACTOR",
        help="COLUMN:CATEGORY=1.2, item:ID=2, or COLUMN of factors; may be repeated.",
    ),
    _rule_option(
        "--fresh", metavar="HALF-LIFE", help="Prefer new items: 30d, or a number in the unit of the log's times."
    ),
    _rule_option("--fresh-by", metavar="COLUMN", help="Column of dates that says what is new; else when first seen."),
    _rule_option(
        "--fresh-factor", type=float, metavar="FACTOR", help="The boost of what is new (2 if nothing is said)."
    ),
    _rule_option(
        *("--at-most", "at_most"),
        multiple=True,
        metavar="COLUMN=N",
        help="At most N items of each category in a list; COLUMN:CATEGORY=N of one. May be repeated.",
    ),
    _rule_option(
        *("--at-least", "at_least"),
        multiple=True,
        metavar="COLUMN:CATEGORY=N",
        help="At least N items of a category, where there are so many; may be repeated.",
    ),
    _rule_option("--diversity", type=float, metavar="0..1", help="Weigh how unlike the items of a list are."),
    _rule_option("--diversity-by", metavar="COLUMN", help="Column whose categories make items alike."),
)


def set_items(model: csrr.Recommender, options: Mapping[str, Any]) -> None:
    """Give a model the item table of --items, where there is one."""
    table = read_item_table(options)
    if table is not None:
        model.set_items(table)


def read_item_table(options: Mapping[str, Any]) -> csrr.ItemTable | None:
    """Return the item table of --items, where there is one."""
    import csrr

    if options["items_file"] is not None:
        try:
            return csrr.read_items(options["items_file"], item=options["items_id"])
        except csrr.DataError as error:
            message = re.sub(r"(?<![\w-])item=", "--items-id=", str(error))
            raise Failure(message.replace("name it with member='...'", "unpack it, and give the path of one")) from None
    if options["items_id"] is not None:
        raise click.UsageError("--items-id goes with --items")
    return None


def read_rule_options(options: Mapping[str, Any], known: IdMap) -> dict[str, Any]:
    """Return the rules that were given, as `Recommender.recommend` takes them."""
    rules: dict[str, Any] = {
        "where": _read_where(options["where"]),
        "boost": _read_boost(options["boost"], known),
        "fresh": _read_fresh(options),
        "at_most": _read_counts("--at-most", options["at_most"]),
        "at_least": _read_counts("--at-least", options["at_least"]),
        "diversity": options["diversity"],
        "diversity_by": options["diversity_by"],
    }
    return {name: value for name, value in rules.items() if value is not None}


def _read_where(texts: tuple[str, ...]) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    for text in texts:
        parts = re.fullmatch(r"(.+?)(<=|>=|=)(.+)", text)
        if parts is None:
            raise click.UsageError(f"--where {text}: write COLUMN=VALUE, COLUMN<=NUMBER or COLUMN>=NUMBER")
        name, sign, value = (part.strip() for part in parts.groups())
        if sign == "=":
            values = [_read_value(each.strip()) for each in value.split(",")]
            condition: Any = values if len(values) > 1 else values[0]
        else:
            before = found.pop(name, (None, None))
            if not isinstance(before, tuple):
                raise click.UsageError(f"--where {text}: {name} has a condition already")
            condition = (before[0], _read_value(value)) if sign == "<=" else (_read_value(value), before[1])
        if name in found:
            raise click.UsageError(
                f"--where {text}: {name} has a condition already; write {name}=ONE,OTHER for several"
            )
        found[name] = condition
    return found or None


def _read_boost(texts: tuple[str, ...], known: IdMap) -> dict[Any, Any] | str | None:
    if len(texts) == 1 and "=" not in texts[0]:
        return texts[0]
    found: dict[Any, Any] = {}
    for text in texts:
        what, is_pair, factor = text.rpartition("=")
        column, is_split, category = what.partition(":")
        if not is_pair or not is_split:
            raise click.UsageError(
                f"--boost {text}: write COLUMN:CATEGORY=FACTOR or item:ID=FACTOR; a column of factors stands alone"
            )
        value = _read_number("--boost", text, factor)
        if column == "item":
            found[as_id(category, known)] = value
        else:
            found.setdefault(column, {})[category] = value
    return found or None


def _read_fresh(options: Mapping[str, Any]) -> dict[str, Any] | None:
    if options["fresh"] is None:
        for name in ("fresh_by", "fresh_factor"):
            if options[name] is not None:
                raise click.UsageError(f"--{name.replace('_', '-')} goes with --fresh")
        return None
    asked = {"half_life": _read_value(options["fresh"]), "by": options["fresh_by"], "factor": options["fresh_factor"]}
    return {name: value for name, value in asked.items() if value is not None}


def _read_counts(option: str, texts: tuple[str, ...]) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    for text in texts:
        what, is_pair, number = text.rpartition("=")
        column, is_split, category = what.partition(":")
        if not is_pair:
            raise click.UsageError(f"{option} {text}: write COLUMN=N or COLUMN:CATEGORY=N")
        count = _read_number(option, text, number)
        count = int(count) if count == int(count) else count
        if not is_split:
            found[column] = count
        elif isinstance(found.setdefault(column, {}), dict):
            found[column][category] = count
        else:
            raise click.UsageError(f"{option} {text}: {column} has a number for all categories already")
    return found or None


def _read_number(option: str, text: str, number: str) -> float:
    try:
        value = float(number)
    except ValueError:
        value = float("inf")
    if abs(value) == float("inf") or value != value:
        raise click.UsageError(f"{option} {text}: {number!r} is not a number")
    return value


def _read_value(text: str) -> Any:
    """Return a number, true or false as such, and any other text as it is."""
    try:
        value = json.loads(text.lower() if text.lower() in ("true", "false") else text)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | float) else text
