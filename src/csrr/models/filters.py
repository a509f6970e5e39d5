"""Rules as they are asked for -> `Rules` on item rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set, ValuesView
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np
import numpy.typing as npt
from scipy import sparse

from csrr._base.arrays import AnyArray, BoolArray, Float32Array, Float64Array, Rows
from csrr.data import IdMap, ItemTable, Log, UnknownIdError
from csrr.data.errors import UnknownIdWarning, show_value, warn_caller
from csrr.data.ids import convert_ids
from csrr.data.items import Categories, find_name
from csrr.data.matrix import check_sparse
from csrr.parameters import ParameterError, check_number, refuse_names
from csrr.ranking.rules import NO_LIMIT, Groups, Rules, sketch_rows
from csrr.ranking.topk import Items, Restrictions, take_rows

if TYPE_CHECKING:
    from csrr.models.base import Recommender


Unknown = Literal["raise", "ignore"]
"""What to do with unknown ids: raise an error, or leave out items and give users popular items."""

_WAY_OUT = {
    "item": 'unknown="ignore" leaves out unknown items',
    "user": 'unknown="ignore" gives unknown users popular items',
}


class IdLookup:
    """Finds the rows of ids; unknown ones are an error or, where they are to be ignored, counted for one warning."""

    def __init__(self, unknown: Unknown) -> None:
        if unknown not in ("raise", "ignore"):
            raise ParameterError(f'unknown={unknown!r}: it must be "raise" or "ignore"')
        self.ignores: bool = unknown == "ignore"
        self._left_out: dict[str, tuple[int, int]] = {}

    def find(self, known: IdMap, ids: Any, kind: Literal["user", "item"] = "user", place: str = "") -> Rows:
        """Return the row of each id, -1 for one that is unknown and to be ignored; `place` says where ids stand."""
        if self.ignores:
            return find_rows(known, ids, kind)
        try:
            return known.rows(ids, kind)
        except UnknownIdError as error:
            where = f"{place}: " if place else ""
            raise UnknownIdError(f"{where}{error}; {_WAY_OUT[kind]}", ids=error.ids, kind=kind) from None

    def find_known(self, known: IdMap, ids: Any, kind: Literal["user", "item"], place: str) -> Rows:
        """Return the rows of those ids that are known; the others are counted as left out."""
        rows = self.find(known, ids, kind, place)
        self.count(place, int((rows < 0).sum()), len(rows))
        return rows[rows >= 0]

    def count(self, place: str, n_unknown: int, n_asked: int) -> None:
        """Count ids that were left out, of all that stand in a place."""
        if n_unknown:
            before = self._left_out.get(place, (0, 0))
            self._left_out[place] = before[0] + n_unknown, before[1] + n_asked

    def warn(self) -> None:
        """Say once what was left out."""
        if self._left_out:
            told = ", ".join(f"{n:,} of {asked:,} in {place}" for place, (n, asked) in self._left_out.items())
            warn_caller(f"unknown ids were left out: {told}", UnknownIdWarning)
            self._left_out = {}


def read_asked(ids: Any, reader: IdLookup) -> AnyArray:
    """Return the ids of users as they are asked for, shape (n,); of both types only where strangers are ignored."""
    if reader.ignores and _has_both_types(ids):
        mixed = np.empty(len(ids), np.object_)
        mixed[:] = ids
        return mixed
    return convert_ids(ids)


def find_rows(known: IdMap, ids: Any, kind: str = "user") -> Rows:
    """Return the row of each id, -1 for one that is unknown, as those of the other type are in a list of both."""
    if not _has_both_types(ids):
        return known.find(ids, kind)
    is_text = known.ids.dtype == np.object_
    mine = np.array([isinstance(each, str) == is_text for each in ids])
    rows = np.full(len(ids), -1, np.int64)
    rows[mine] = known.find([each for each, is_mine in zip(ids, mine, strict=True) if is_mine], kind)
    return rows


def _has_both_types(ids: Any) -> bool:
    """Return whether integers and strings stand in one list."""
    is_list = isinstance(ids, list | tuple) or getattr(ids, "dtype", None) == np.object_
    return is_list and len({isinstance(each, str) for each in ids if each is not None}) > 1


def is_one_id(ids: Any) -> bool:
    """Return whether this is one id, not several."""
    return isinstance(ids, str | int | float | np.generic)


def list_ids(ids: Any) -> Any:
    """Return one id or several as several."""
    if isinstance(ids, IdMap):
        return ids.ids
    if isinstance(ids, Set | ValuesView | Iterator | range):
        return list(ids)
    return [ids] if is_one_id(ids) else ids


_FORMS = "a dict from users to items, a table with user and item columns, or a sparse users x items matrix"


@dataclass(frozen=True, eq=False)
class UserBatch:
    """Those whose lists are asked for, in their order.

    `ids`, shape (n,); `rows`, theirs among the `known` ids, -1 for someone unknown, shape (n,); `seen`, their
    histories, csr of shape (n, n_items); `done`, what of these lists leave out, all of it if None.
    """

    ids: npt.NDArray[Any]
    rows: Rows
    known: IdMap
    seen: Any
    done: Any = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def activity(self) -> npt.NDArray[np.integer[Any]]:
        """How many events of each are known, shape (n,)."""
        lengths: npt.NDArray[np.integer[Any]] = np.diff(self.seen.indptr)
        return lengths


def restrict(
    people: UserBatch, items: IdMap, reader: IdLookup, *, seen: Any, candidates: Any, exclude: Any
) -> Restrictions:
    """Return what the lists of `people` may hold; the arguments are those of `Recommender.recommend`."""
    limits = Restrictions(len(items))
    if candidates is not None:
        limits.keep(read_items(candidates, "candidates", people, items, reader))
    if exclude is not None:
        limits.leave_out(read_items(exclude, "exclude", people, items, reader))
    if isinstance(seen, bool | int | np.bool_):
        if seen:
            limits.leave_out(people.seen if people.done is None else people.done)
    elif not is_for_each(seen):
        raise ParameterError(f"exclude_seen={show_value(seen)}: it must be True, False, {_FORMS}")
    else:
        limits.leave_out(read_items(seen, "exclude_seen", people, items, reader))
    return limits


def read_items(given: Any, name: str, people: UserBatch, items: IdMap, reader: IdLookup) -> Items:
    """Return the rows of items that are meant for everyone, or cells of shape (n, n_items) where each has their own.

    A mapping, a table or a matrix is about each; whoever it does not name has nothing.
    """
    if sparse.issparse(given):
        return _read_matrix(given, name, people, len(items))
    if isinstance(given, Mapping):
        return _read_mapping(given, name, people, items, reader)
    if is_for_each(given):
        return _read_table(given, name, people, items, reader)
    ids = list_ids(given)
    if isinstance(ids, list | tuple) and any(not is_one_id(each) and each is not None for each in ids[:1]):
        raise ParameterError(f"{name}: a list of lists does not say whose they are; give {_FORMS}")
    if getattr(ids, "ndim", 1) != 1:
        raise ParameterError(f"{name}: an array of shape {ids.shape} is not a list of item ids; give one, or {_FORMS}")
    return reader.find_known(items, ids, "item", name)


def is_for_each(given: Any) -> bool:
    """Return whether items are given for each person."""
    return sparse.issparse(given) or isinstance(given, Mapping | Log) or hasattr(given, "columns")


def _read_matrix(given: Any, name: str, people: UserBatch, n_items: int) -> Any:
    """Return the cells of a matrix with a row for each person asked for, or for each that is known."""
    n, n_known = len(people), len(people.known)
    in_order = np.array_equal(people.rows, np.arange(n_known))
    if given.ndim != 2 or given.shape[1] != n_items or given.shape[0] not in (n, n_known):
        wanted = f"({n}, {n_items}), a row for each user asked for"
        wanted += f", or ({n_known}, {n_items}), a row for each of the model's" if n != n_known else ""
        raise ParameterError(f"{name}: the matrix has shape {given.shape}; it must be {wanted}")
    if n == n_known and not in_order:
        raise ParameterError(
            f"{name}: the matrix has {n} rows, and it is not clear whether they are in the model's order or in"
            " that of the users asked for; give a dict or a table"
        )
    cells = sparse.csr_array(check_sparse(given, name), copy=True)
    cells.sum_duplicates()
    cells.eliminate_zeros()
    return cells if given.shape[0] == n else take_rows(cells, people.rows)


def _read_mapping(given: Mapping[Any, Any], name: str, people: UserBatch, items: IdMap, reader: IdLookup) -> Any:
    """Return the cells of a mapping from users to their items."""
    for user, own in given.items():
        if own is None or isinstance(own, Mapping) or not (is_one_id(own) or hasattr(own, "__len__")):
            raise ParameterError(
                f"{name}: what is given for user {show_value(user)} is not a list of item ids: {show_value(own)}"
            )
    try:
        own_rows, users = _find_people(list(given), people, reader, name)
    except KeyError as error:
        is_columns = {"user", "item"} <= set(map(str, given))
        more = "; a dict gives items by user: for a dict of columns, csrr.Log.from_table" if is_columns else ""
        raise type(error)(f"{error}{more}") from None
    lists = [list(list_ids(own)) for own in given.values()]
    columns = reader.find(items, [item for own in lists for item in own], "item", name)
    reader.count(name, int((columns < 0).sum()), len(columns))
    return _collect(np.repeat(users, [len(own) for own in lists]), columns, own_rows, (len(given), len(items)))


def _read_table(given: Any, name: str, people: UserBatch, items: IdMap, reader: IdLookup) -> Any:
    """Return the cells of a table with user and item columns; others do not matter."""
    log = given
    if not isinstance(given, Log):
        log = Log.from_table(given, rating=False, weight=False, time=False, title=False)
    own_rows, users = _find_people(log.users.ids, people, reader, name)
    columns = reader.find(items, log.items.ids, "item", name)
    reader.count(name, int((columns < 0).sum()), len(columns))
    return _collect(users[log.user_rows], columns[log.item_rows], own_rows, (log.n_users, len(items)))


def _find_people(named: Any, people: UserBatch, reader: IdLookup, name: str) -> tuple[Rows, Rows]:
    """Return the row of each of `people` among those named, -1 for one who is not, and the row of each who is named.

    Somebody who is neither asked for nor known is a mistake, or is to be ignored.
    """
    names = IdMap(named)
    strangers = _are_strangers(names, people)
    if strangers.any():
        ids = names.ids[strangers]
        reader.find(people.known, ids, "user", name)
        reader.count(f"the users of {name}", len(ids), len(names))
    return find_rows(names, people.ids), names.rows(named)


def _are_strangers(names: IdMap, people: UserBatch) -> BoolArray:
    strangers = people.known.find(names.ids) < 0
    asked = find_rows(names, people.ids)
    strangers[asked[asked >= 0]] = False
    return strangers


def _collect(rows: Rows, columns: Rows, own_rows: Rows, shape: tuple[int, int]) -> Any:
    """Return cells as csr, for each person the row that is theirs."""
    known = columns >= 0
    cells = sparse.coo_array((np.ones(int(known.sum()), np.bool_), (rows[known], columns[known])), shape=shape).tocsr()
    return take_rows(cells, own_rows)


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


def read_rules(model: Recommender, asked: RuleOptions, k: int, reader: IdLookup) -> Rules | None:
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


def _read_boost(model: Recommender, boost: Any, reader: IdLookup) -> Float64Array:
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
