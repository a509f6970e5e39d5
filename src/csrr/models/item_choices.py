"""Items given for everyone or for each person, in any form -> item rows, or cells in a row for each person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from csrr.arrays import BoolArray, Rows
from csrr.data import IdMap, Log
from csrr.data.errors import show_value
from csrr.data.matrices import check_sparse
from csrr.models.asked_ids import IdReader, find_rows, is_one_id, list_ids
from csrr.parameters import ParameterError
from csrr.ranking.restrictions import Items, Restrictions, take_rows

_FORMS = "a dict from users to items, a table with user and item columns, or a sparse users x items matrix"


@dataclass(frozen=True, eq=False)
class People:
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
    people: People, items: IdMap, reader: IdReader, *, seen: Any, candidates: Any, exclude: Any
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


def read_items(given: Any, name: str, people: People, items: IdMap, reader: IdReader) -> Items:
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


def _read_matrix(given: Any, name: str, people: People, n_items: int) -> Any:
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


def _read_mapping(given: Mapping[Any, Any], name: str, people: People, items: IdMap, reader: IdReader) -> Any:
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


def _read_table(given: Any, name: str, people: People, items: IdMap, reader: IdReader) -> Any:
    """Return the cells of a table with user and item columns; others do not matter."""
    log = given
    if not isinstance(given, Log):
        log = Log.from_table(given, rating=False, weight=False, time=False, title=False)
    own_rows, users = _find_people(log.users.ids, people, reader, name)
    columns = reader.find(items, log.items.ids, "item", name)
    reader.count(name, int((columns < 0).sum()), len(columns))
    return _collect(users[log.user_rows], columns[log.item_rows], own_rows, (log.n_users, len(items)))


def _find_people(named: Any, people: People, reader: IdReader, name: str) -> tuple[Rows, Rows]:
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


def _are_strangers(names: IdMap, people: People) -> BoolArray:
    strangers = people.known.find(names.ids) < 0
    asked = find_rows(names, people.ids)
    strangers[asked[asked >= 0]] = False
    return strangers


def _collect(rows: Rows, columns: Rows, own_rows: Rows, shape: tuple[int, int]) -> Any:
    """Return cells as csr, for each person the row that is theirs."""
    known = columns >= 0
    cells = sparse.coo_array((np.ones(int(known.sum()), np.bool_), (rows[known], columns[known])), shape=shape).tocsr()
    return take_rows(cells, own_rows)
