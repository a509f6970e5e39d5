"""The business rules of lists, each declared once: `recommend`, `evaluate` and the command line read them from here.

A rule is a class: `meaning` documents the values that it takes, `apply` says what a value does to lists, `options` are
its options on the command line, and `read` turns those into a value. Its name is a field of `RuleOptions`, which type
checkers read. `RuledLists` (`models/recommend.py`) has what a rule may ask of the model, and do to lists.

numpy and the rest of csrr are imported where a rule is applied, so that the command line can list the options at once.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypedDict, get_type_hints

from csrr._base.text import show_value
from csrr.parameters import ParameterError, check_number, count_days, is_float, is_number, is_whole

if TYPE_CHECKING:
    from csrr._base.arrays import Float64Array, Int64Array
    from csrr.models.recommend import RuledLists

NEW_FACTOR = 2.0
"""The factor of an item that is new."""
ReadItem = Callable[[str], Any]
"""Turns the text of an item's id into an id of the model."""


@dataclass(frozen=True)
class RuleOption:
    """An option of the command line: `fresh_by` is --fresh-by; `repeated` says that it may be given several times."""

    name: str
    metavar: str
    help: str
    repeated: bool = False
    type: type | None = None

    @property
    def flag(self) -> str:
        """The option as it is typed."""
        return f"--{self.name.replace('_', '-')}"


class Rule(ABC):
    """A business rule; `meaning` and `options` are as the module says."""

    meaning: ClassVar[str]
    options: ClassVar[tuple[RuleOption, ...]]

    def read(self, given: Mapping[str, Any], as_item: ReadItem) -> Any:
        """Return the value of the options that are given, by name; None without any, ParameterError if they are wrong.

        Without a method of its own, a rule has one option, and takes its value.
        """
        return given[self.options[0].name]

    @abstractmethod
    def apply(self, value: Any, lists: RuledLists) -> None:
        """Apply the rule to lists."""


class Where(Rule):
    """Conditions on columns."""

    meaning = (
        '``where={"in_stock": True, "price": (None, 20)}``: only items that meet all conditions, see `ItemTable.match`.'
    )
    options = (
        RuleOption(
            *("where", "CONDITION"),
            "Only items with COLUMN=VALUE[,VALUE], COLUMN<=NUMBER or COLUMN>=NUMBER; may be repeated.",
            repeated=True,
        ),
    )

    def read(self, given: Mapping[str, Any], as_item: ReadItem) -> Any:
        """Return the conditions by column."""
        found: dict[str, Any] = {}
        for text in given["where"]:
            parts = re.fullmatch(r"(.+?)(<=|>=|=)(.+)", text)
            if parts is None:
                raise ParameterError(f"--where {text}: write COLUMN=VALUE, COLUMN<=NUMBER or COLUMN>=NUMBER")
            name, sign, value = (part.strip() for part in parts.groups())
            if sign == "=":
                values = [_read_value(each.strip()) for each in value.split(",")]
                condition: Any = values if len(values) > 1 else values[0]
            else:
                before = found.pop(name, (None, None))
                if not isinstance(before, tuple):
                    raise ParameterError(f"--where {text}: {name} has a condition already")
                condition = (before[0], _read_value(value)) if sign == "<=" else (_read_value(value), before[1])
            if name in found:
                raise ParameterError(f"--where {text}: {name} has a condition already; write {name}=ONE,OTHER")
            found[name] = condition
        return found or None

    def apply(self, value: Any, lists: RuledLists) -> None:
        """Leave out items that do not meet the conditions."""
        lists.keep(lists.table("where").match(value))


class Boost(Rule):
    """Factors of items: a factor f adds ln f, in units of a user's spread of scores."""

    meaning = (
        '``boost={"genre": {"Indie": 1.2}}``, ``{item: 2.0}`` or ``"margin"`` (a column of factors): a factor f'
        " adds ln f times the user's spread, the standard deviation of their 100 best scores. Factors of one item"
        " multiply; a factor common to all items changes nothing."
    )
    options = (
        RuleOption(
            *("boost", "WHAT=FACTOR"),
            "COLUMN:CATEGORY=1.2, item:ID=2, or COLUMN of factors; may be repeated.",
            repeated=True,
        ),
    )

    def read(self, given: Mapping[str, Any], as_item: ReadItem) -> Any:
        """Return the factors by item, or by column and category; or the name of a column of factors."""
        texts = given["boost"]
        if len(texts) == 1 and "=" not in texts[0]:
            return texts[0]
        found: dict[Any, Any] = {}
        for text in texts:
            column, category, factor = _split_pair(text)
            if factor is None or category is None:
                raise ParameterError(
                    f"--boost {text}: write COLUMN:CATEGORY=FACTOR, item:ID=FACTOR, or one column alone"
                )
            value = _read_number("--boost", text, factor)
            if column == "item":
                found[as_item(category)] = value
            else:
                found.setdefault(column, {})[category] = value
        return found or None

    def apply(self, value: Any, lists: RuledLists) -> None:
        """Add the logarithms of the factors."""
        import numpy as np

        if isinstance(value, str):
            lists.add(self._read_column(value, lists))
            return
        if not isinstance(value, Mapping) and hasattr(value, "to_dict") and getattr(value, "ndim", 2) == 1:
            value = value.to_dict()
        if not isinstance(value, Mapping):
            raise ParameterError.of(
                "boost",
                value,
                "must be factors by item, {column: {category: factor}} or a column of factors",
            )
        bonus = np.zeros(len(lists.model.items_))
        for name, factors in value.items():
            if isinstance(factors, Mapping):
                categories = lists.categories("boost", name)
                for category, factor in factors.items():
                    weights = np.zeros(len(categories.names))
                    place = categories.find(name, category)
                    weights[place] = self._read_factor(factor, f"of {show_value(name)} {show_value(category)}")
                    bonus += categories.members @ weights
        single = {item: factor for item, factor in value.items() if not isinstance(factor, Mapping)}
        for row, (item, factor) in zip(lists.find_items(list(single), "boost"), single.items(), strict=True):
            log_factor = self._read_factor(factor, f"of item {show_value(item)}")
            if row >= 0:
                bonus[row] += log_factor
        lists.add(bonus)

    def _read_factor(self, factor: Any, of_what: str) -> float:
        import numpy as np

        if not is_number(factor, above=0):
            raise ParameterError(
                f"boost: the factor {of_what}, {show_value(factor)}, must be a number > 0; exclude or where leave out"
            )
        return float(np.log(float(factor)))

    def _read_column(self, name: str, lists: RuledLists) -> Float64Array:
        """Return the logarithms of a column of factors; those missing have the mean of the others."""
        import numpy as np

        column = lists.table("boost")[name]
        if column.is_text or column.kind == "date":
            example = f"{{{show_value(name)}: {{category: factor}}}}"
            raise ParameterError.of("boost", name, f"holds {column.kind} values, not factors; give {example}")
        factors = column.to_numbers()
        known = ~np.isnan(factors)
        if (wrong := known & ~((factors > 0) & np.isfinite(factors))).any():
            row = int(wrong.argmax())
            item = lists.model.items_.ids[row : row + 1].tolist()[0]
            raise ParameterError.of(
                "boost", name, f"gives item {show_value(item)} the factor {factors[row]:g}; it must be > 0"
            )
        logs = np.log(np.where(known, factors, 1))
        return np.where(known, logs, logs[known].mean() if known.any() else 0.0)


class Fresh(Rule):
    """A boost of new items that halves with their age."""

    meaning = (
        '``fresh="30d"``: a new item has the factor 2, whose logarithm halves with that age (a number is in the unit of'
        ' the log\'s times). Or ``{"half_life": "30d", "factor": 3, "by": "released"}``.'
    )
    options = (
        RuleOption("fresh", "HALF-LIFE", "Prefer new items: 30d, or a number in the unit of the log's times."),
        RuleOption("fresh_by", "COLUMN", "Column of dates that says what is new; else when first seen."),
        RuleOption("fresh_factor", "FACTOR", "The boost of what is new (2 if nothing is said).", type=float),
    )

    def read(self, given: Mapping[str, Any], as_item: ReadItem) -> Any:
        """Return the half-life, factor and column."""
        if given["fresh"] is None:
            for option in self.options:
                if given[option.name] is not None:
                    raise ParameterError(f"{option.flag} goes with --fresh")
            return None
        asked = {"half_life": _read_value(given["fresh"]), "by": given["fresh_by"], "factor": given["fresh_factor"]}
        return {name: value for name, value in asked.items() if value is not None}

    def apply(self, value: Any, lists: RuledLists) -> None:
        """Add the logarithm of the factor, halved with each half-life of an item's age."""
        import numpy as np

        asked = dict(value) if isinstance(value, Mapping) else {"half_life": value}
        if "half_life" not in asked or set(asked) - {"half_life", "factor", "by"}:
            raise ParameterError.of("fresh", value, "must have half_life, and perhaps factor and by")
        half_life = self._read_half_life(asked["half_life"])
        check_number("fresh: factor", factor := asked.get("factor", NEW_FACTOR), above=0)
        ages = self._find_ages(asked.get("by"), lists)
        with np.errstate(over="ignore"):
            lists.add(np.log(factor) * np.exp2(-ages / half_life))

    def _read_half_life(self, value: Any) -> float:
        """Return a number as it is, and a text or timedelta in seconds."""
        if (days := count_days(value)) is None:
            raise ParameterError(
                f"fresh: the half-life {show_value(value)} must be a number > 0 in the unit of the log's times, or,"
                " where these are seconds, a text like 30d (s, min, h, d, w, y)"
            )
        return days if is_number(value) else 86_400 * days

    def _find_ages(self, by: str | None, lists: RuledLists) -> Float64Array:
        """Return the ages of items, shape (n_items,), inf where unknown."""
        import numpy as np

        if by is None and (ages := lists.model.item_ages) is not None:
            return ages
        if by is None:
            raise ParameterError(
                "fresh: the model does not know when items were first seen, because its training log had no times; fit"
                " it to a log with times, or name a column of dates of the item table:"
                ' fresh={"half_life": "30d", "by": "released"}'
            )
        column = lists.table("fresh")[by]
        if column.is_text:
            raise ParameterError(f"fresh: the column {show_value(by)} holds texts; write dates like 2000-12-31")
        moments = column.to_numbers()
        known = np.isfinite(moments)
        # In halves: the difference of two numbers may be beyond all numbers.
        halves = np.where(known, moments, 0.0) / 2
        ages = halves.max(where=known, initial=halves.min()) - halves
        return np.where(known, 2 * np.minimum(ages, np.finfo(np.float64).max / 2), np.inf)


class CategoryRule(Rule):
    """A rule that takes numbers by column, or by column and category."""

    def read(self, given: Mapping[str, Any], as_item: ReadItem) -> Any:
        """Return the numbers by column, or by column and category."""
        flag, found = self.options[0].flag, dict[str, Any]()
        for text in given[self.options[0].name]:
            column, category, number = _split_pair(text)
            if number is None:
                raise ParameterError(f"{flag} {text}: write COLUMN=N or COLUMN:CATEGORY=N")
            count = _read_number(flag, text, number)
            count = int(count) if count == int(count) else count
            if category is None:
                found[column] = count
            elif isinstance(found.setdefault(column, {}), dict):
                found[column][category] = count
            else:
                raise ParameterError(f"{flag} {text}: {column} has a number for all categories already")
        return found or None


class AtMost(CategoryRule):
    """Caps by category."""

    meaning = (
        '``at_most={"genre": 2}``: at most two of each category in a list, or ``{"genre": {"RPG": 1}}``: of one'
        " category. Lists are filled as long as an item is allowed."
    )
    options = (
        RuleOption(
            *("at_most", "COLUMN=N"),
            "At most N items of each category in a list; COLUMN:CATEGORY=N of one. May be repeated.",
            repeated=True,
        ),
    )

    def apply(self, value: Any, lists: RuledLists) -> None:
        """Cap how many items of a category a list has."""
        from csrr.ranking.rules import NO_LIMIT

        for name, most in _check_columns("at_most", value).items():
            if most is not None:
                lists.limit(name, most=_count_by_category("at_most", name, most, lists, NO_LIMIT))


class AtLeast(CategoryRule):
    """Quotas by category."""

    meaning = '``at_least={"genre": {"Indie": 1}}``: the last places are reserved for missing categories.'
    options = (
        RuleOption(
            *("at_least", "COLUMN:CATEGORY=N"),
            "At least N items of a category, where there are so many; may be repeated.",
            repeated=True,
        ),
    )

    def apply(self, value: Any, lists: RuledLists) -> None:
        """Reserve places for a category that a list lacks."""
        for name, least in _check_columns("at_least", value).items():
            if least is not None and not isinstance(least, Mapping):
                raise ParameterError(
                    f"at_least: {show_value(name)} needs numbers by category: {{{show_value(name)}: {{category: 1}}}}"
                )
            lists.limit(name, least=_count_by_category("at_least", name, least or {}, lists, 0))


class Diversity(Rule):
    """Maximal marginal relevance."""

    meaning = (
        "``diversity=0.3``: maximal marginal relevance among the best 5 k items, at least 50: each place gets the"
        " largest (1 - d) * relevance - d * similarity, where relevance is scaled to [0, 1] among them, and similarity"
        " is the largest cosine (`item_vectors`) to the items above."
    )
    options = (RuleOption("diversity", "0..1", "Weigh how unlike the items of a list are.", type=float),)

    def apply(self, value: Any, lists: RuledLists) -> None:
        """Weigh how unlike the items of a list are."""
        check_number("diversity", value, least=0, most=1)
        lists.diversity = float(value)


class DiversityBy(Rule):
    """A column by which items are alike."""

    meaning = '``diversity_by="genre"``: this similarity is that of the categories of a column.'
    options = (RuleOption("diversity_by", "COLUMN", "Column whose categories make items alike."),)

    def apply(self, value: Any, lists: RuledLists) -> None:
        """Take categories for what makes items alike."""
        from csrr.ranking.rules import sketch_rows

        if not lists.diversity:
            raise ParameterError("diversity_by says by what items are alike; give diversity too, a number from 0 to 1")
        lists.vectors = sketch_rows(lists.categories("diversity_by", value).members)


class RuleOptions(TypedDict, total=False):
    """The rules of `Recommender.recommend`, where they are explained, in the order in which they are applied."""

    where: Annotated[Mapping[str, Any] | None, Where()]
    boost: Annotated[Any, Boost()]
    fresh: Annotated[Any, Fresh()]
    at_most: Annotated[Mapping[str, Any] | None, AtMost()]
    at_least: Annotated[Mapping[str, Any] | None, AtLeast()]
    diversity: Annotated[float | None, Diversity()]
    diversity_by: Annotated[str | None, DiversityBy()]


RULES: dict[str, Rule] = {
    name: hint.__metadata__[0] for name, hint in get_type_hints(RuleOptions, include_extras=True).items()
}
"""The rules by name."""


def _check_columns(rule: str, value: Any) -> Mapping[str, Any]:
    """Return what a rule asks of columns."""
    if not isinstance(value, Mapping):
        raise ParameterError(f"{rule}={show_value(value)}: give a dict from columns of the item table to numbers")
    return value


def _count_by_category(rule: str, name: str, given: Any, lists: RuledLists, otherwise: int) -> Int64Array:
    """Return the number that is asked of each category of a column: one for all, or by category, or `otherwise`."""
    import numpy as np

    categories = lists.categories(rule, name)
    counts = np.full(len(categories.names), otherwise, np.int64)
    for category, number in given.items() if isinstance(given, Mapping) else ((None, given),):
        if not is_whole(number, 1):
            raise ParameterError(f"{rule}: {show_value(name)} has {show_value(number)}; it must be a whole number >= 1")
        counts[slice(None) if category is None else categories.find(name, category)] = number
    return counts


# What options of the command line stand for


def _split_pair(text: str) -> tuple[str, str | None, str | None]:
    """Return the column, the category and the number of COLUMN:CATEGORY=NUMBER, None for those that it lacks."""
    what, is_pair, number = text.rpartition("=")
    column, is_split, category = what.partition(":")
    return column, category if is_split else None, number if is_pair else None


def _read_number(option: str, text: str, number: str) -> float:
    if not is_float(number) or not is_number(float(number)):
        raise ParameterError(f"{option} {text}: {number!r} is not a number")
    return float(number)


def _read_value(text: str) -> Any:
    """Return a number, true or false as such, and any other text as it is."""
    try:
        value = json.loads(text.lower() if text.lower() in ("true", "false") else text)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | float) else text
