"""Rules as they are asked for -> `Rules` on item rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from csrr.arrays import Float32Array, Float64Array
from csrr.data import ItemTable
from csrr.data.errors import show_value
from csrr.data.item_columns import Categories
from csrr.data.item_conditions import find_name
from csrr.models.asked_ids import IdReader
from csrr.parameters import ParameterError, check_number, refuse_names
from csrr.ranking.item_vectors import sketch_rows
from csrr.ranking.rules import NO_LIMIT, Groups, Rules

if TYPE_CHECKING:
    from csrr.models.recommender import Recommender

NEW_FACTOR = 2.0
"""The factor of an item that is new."""
_FAR = float(np.finfo(np.float64).max) / 2
_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 31_557_600}


class RuleOptions(TypedDict, total=False):
    """The rules of `Recommender.recommend`, where they are explained."""

    where: Mapping[str, Any] | None
    boost: Any
    fresh: Any
    at_most: Mapping[str, Any] | None
    at_least: Mapping[str, Any] | None
    diversity: float | None
    diversity_by: str | None


def read_rules(model: Recommender, asked: RuleOptions, k: int, reader: IdReader) -> Rules | None:
    """Return what is asked of lists of length k; None where that is nothing."""
    refuse_names("rules", asked, RuleOptions.__annotations__)
    given: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    if not given:
        return None
    check_number("diversity", diversity := given.get("diversity", 0.0), least=0, most=1)
    if "diversity_by" in given and diversity == 0:
        raise ParameterError("diversity_by says by what items are alike; give diversity too, a number from 0 to 1")
    where = given.get("where")
    bonuses = [_read_boost(model, given["boost"], reader)] if "boost" in given else []
    bonuses += [_read_fresh(model, given["fresh"])] if "fresh" in given else []
    return Rules(
        groups=_read_groups(model, given.get("at_most") or {}, given.get("at_least") or {}, k),
        allowed=None if where is None else need_table(model, "where").match(where),
        bonus=np.sum(bonuses, axis=0).astype(np.float32) if bonuses else None,
        diversity=float(diversity),
        vectors=_find_vectors(model, given.get("diversity_by")) if diversity else None,
    )


def need_table(model: Recommender, rule: str) -> ItemTable:
    """Return the item table of a model; an error that names what asks for it where there is none."""
    if model.item_table_ is None:
        raise ParameterError(
            f"{rule} asks for columns of an item table, and the model has none: call set_items(table) first (on the"
            " command line, --items FILE)"
        )
    return model.item_table_


def find_categories(model: Recommender, rule: str, name: str) -> Categories:
    """Return the categories of the items by a column."""
    column = need_table(model, rule)[name]
    found = column.to_categories()
    if found is None:
        raise ParameterError(
            f"{rule}: the column {show_value(name)} holds {column.kind} values, not categories; use a column of"
            " texts or"
            " whole numbers"
        )
    return found


# Boosts: the logarithm of a factor, in units of each user's spread


def _read_boost(model: Recommender, boost: Any, reader: IdReader) -> Float64Array:
    if isinstance(boost, str):
        return _read_factor_column(model, boost)
    if not isinstance(boost, Mapping) and hasattr(boost, "to_dict") and getattr(boost, "ndim", 2) == 1:
        boost = boost.to_dict()
    if not isinstance(boost, Mapping):
        raise ParameterError(
            f"boost={show_value(boost)}: give a dict from items to factors, {{column: {{category: factor}}}}, or the"
            " name of"
            " a column of factors"
        )
    bonus = np.zeros(len(model.items_))
    for name, factors in boost.items():
        if isinstance(factors, Mapping):
            categories = find_categories(model, "boost", name)
            for category, factor in factors.items():
                place = find_name(categories.names, name, category)
                weights = np.zeros(len(categories.names))
                weights[place] = _read_factor(factor, f"of {show_value(name)} {show_value(category)}")
                bonus += categories.members @ weights
    single = {item: factor for item, factor in boost.items() if not isinstance(factor, Mapping)}
    rows = reader.find(model.items_, list(single), "item", "boost") if single else np.empty(0, np.int64)
    reader.count("boost", int((rows < 0).sum()), len(rows))
    for row, (item, factor) in zip(rows, single.items(), strict=True):
        log_factor = _read_factor(factor, f"of item {show_value(item)}")
        if row >= 0:
            bonus[row] += log_factor
    return bonus


def _read_factor(factor: Any, of_what: str) -> float:
    is_number = isinstance(factor, int | float | np.number) and not isinstance(factor, bool)
    if not is_number or not 0 < factor < np.inf:
        raise ParameterError(
            f"boost: the factor {of_what}, {show_value(factor)}, must be a number > 0; 1 changes nothing, less than"
            " 1 lowers,"
            " and what must not be in a list is for exclude or where"
        )
    return float(np.log(factor))


def _read_factor_column(model: Recommender, name: str) -> Float64Array:
    """Return the logarithms of a column of factors; those missing have the mean of the others."""
    column = need_table(model, "boost")[name]
    if column.is_text or column.kind == "date":
        raise ParameterError(
            f"boost={show_value(name)}: the column holds {column.kind} values, not factors; for categories, give"
            f" {{{show_value(name)}: {{category: factor}}}}"
        )
    factors = column.to_numbers()
    known = ~np.isnan(factors)
    if (wrong := known & ~((factors > 0) & np.isfinite(factors))).any():
        row = int(wrong.argmax())
        raise ParameterError(
            f"boost={show_value(name)}: item {show_value(model.items_.ids[row : row + 1].tolist()[0])} has the factor"
            f" {factors[row]:g}, and factors must be > 0"
        )
    logs = np.log(np.where(known, factors, 1))
    return np.where(known, logs, logs[known].mean() if known.any() else 0.0)


# Freshness


def _read_fresh(model: Recommender, fresh: Any) -> Float64Array:
    asked = dict(fresh) if isinstance(fresh, Mapping) else {"half_life": fresh}
    if "half_life" not in asked or set(asked) - {"half_life", "factor", "by"}:
        raise ParameterError(f"fresh={show_value(fresh)}: give half_life, and perhaps factor and by")
    half_life = read_duration(asked["half_life"])
    check_number("fresh: factor", factor := asked.get("factor", NEW_FACTOR), above=0)
    ages = _find_ages(model, asked.get("by"))
    with np.errstate(over="ignore"):
        return np.asarray(np.log(factor) * np.exp2(-ages / half_life))


def _find_ages(model: Recommender, by: str | None) -> Float64Array:
    """Return the ages of items, shape (n_items,), inf where unknown."""
    if by is not None:
        column = need_table(model, "fresh")[by]
        if column.is_text:
            raise ParameterError(
                f"fresh: the column {show_value(by)} holds texts, not dates; write them like 2000-12-31"
            )
        moments = column.to_numbers()
        known = np.isfinite(moments)
        # In halves: the difference of two numbers may be beyond all numbers.
        halves = np.where(known, moments, 0.0) / 2
        return np.where(known, 2 * np.minimum(halves.max(where=known, initial=halves.min()) - halves, _FAR), np.inf)
    if (ages := model.item_ages) is None:
        raise ParameterError(
            "fresh: the model does not know when items were first seen, because its training log had no times; fit"
            " it to"
            " a log with times, or name a column of dates of the item table:"
            ' fresh={"half_life": "30d", "by": "released"}'
        )
    return ages


def read_duration(value: Any) -> float:
    """Return a length of time: a number as it is, 30d and the like, or a timedelta, in seconds."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, str) and (found := re.fullmatch(r"\s*([0-9.]+)\s*(s|min|h|d|w|y)\s*", value)):
        number, unit = found.groups()
        value = float(number) * _UNITS[unit] if number.count(".") < 2 and number != "." else value
    if isinstance(value, bool | str) or not isinstance(value, int | float | np.number) or not 0 < value < np.inf:
        raise ParameterError(
            f"fresh: the half-life {show_value(value)} must be a number > 0 in the unit of the log's times, or,"
            " where these"
            " are seconds, a text like 30d (s, min, h, d, w, y)"
        )
    return float(value)


# Caps, quotas, likeness


def _read_groups(model: Recommender, at_most: Any, at_least: Any, k: int) -> Groups:
    for rule, given in (("at_most", at_most), ("at_least", at_least)):
        if not isinstance(given, Mapping):
            raise ParameterError(f"{rule}={show_value(given)}: give a dict from columns of the item table to numbers")
    several = [
        _read_column_groups(model, name, at_most.get(name), at_least.get(name)) for name in {**at_most, **at_least}
    ]
    groups = Groups.join(several) if several else Groups.none(len(model.items_))
    if (n := int(groups.least.sum())) > k:
        raise ParameterError(f"at_least asks for {n} items in all, and lists have {k}; ask for fewer, or a larger k")
    return groups


def _read_column_groups(model: Recommender, name: str, most: Any, least: Any) -> Groups:
    categories = find_categories(model, "at_least" if most is None else "at_most", name)
    n = len(categories.names)
    caps, quotas = np.full(n, NO_LIMIT, np.int64), np.zeros(n, np.int64)
    if isinstance(most, Mapping):
        for category, number in most.items():
            caps[find_name(categories.names, name, category)] = _read_count("at_most", name, number)
    elif most is not None:
        caps[:] = _read_count("at_most", name, most)
    if least is not None and not isinstance(least, Mapping):
        raise ParameterError(
            f"at_least: {show_value(name)} needs a number for each category, such as {{{show_value(name)}:"
            f" {{category: 1}}}}"
        )
    for category, number in (least or {}).items():
        place = find_name(categories.names, name, category)
        quotas[place] = _read_count("at_least", name, number)
        if quotas[place] > caps[place]:
            raise ParameterError(
                f"{show_value(name)} {show_value(category)}: at_least {quotas[place]} and at_most {caps[place]}"
                " contradict"
                " each other"
            )
    return Groups(categories.members, caps, quotas)


def _read_count(rule: str, name: str, number: Any) -> int:
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 1:
        raise ParameterError(
            f"{rule}: {show_value(name)} has {show_value(number)}; it must be a whole number, at least 1 (what must"
            " not be in"
            " a list at all is for exclude or where)"
        )
    return int(number)


def _find_vectors(model: Recommender, by: str | None) -> Float32Array:
    return model.item_vectors if by is None else sketch_rows(find_categories(model, "diversity_by", by).members)
