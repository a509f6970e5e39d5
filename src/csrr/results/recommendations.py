"""What models return, in the caller's ids: lists of recommended items, and of similar ones, and reasons for scores."""

from __future__ import annotations

import inspect
import opcode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa

from csrr._base.arrays import AnyArray, BoolArray, Float32Array, Int32Array, ObjectArray
from csrr.data.ids import Id, IdMap, Ids
from csrr.results.table import SHOWN, ResultTable, TabularResult

POPULAR = "popular"
"""The reason given for items to users without a history."""
SHOWN_COLUMNS = ("user", "item", "rank", "score", "probability", "title", "why")
"""The columns that a table of recommendations may have of its own."""


@dataclass(frozen=True, eq=False, repr=False)
class Recommendations(TabularResult):
    """Ranked lists of items, one per user, best first.

    For one user, read `recs.items[0]`; iterating gives the recommendations of each user. For JSON, use `to_list` and
    `to_dict`, which return plain Python values. A list shorter than k is filled with item None and score -inf; an array
    of integer ids then has dtype object. The tables leave these entries out.

    Users without a history get popular items: `fallback` marks them. If there are any, the tables have a column `why`,
    with "popular" for them and None for the others.

    Attributes
    ----------
    users
        The users' ids, shape (n,).
    items
        The items' ids, shape (n, k).
    scores
        Their scores, shape (n, k).
    titles
        Their titles, shape (n, k), where known.
    probabilities
        The probability that each is a positive, shape (n, k), of a calibrated model.
    fallback
        Which users got popular items, shape (n,).
    unknown
        Which users the model does not know, shape (n,).
    columns
        The requested columns of the item table, by name, shapes (n, k).

    Examples
    --------
    >>> log = csrr.Log.from_table({"user": ["ann", "bob", "bob", "eve"], "item": [7, 7, 8, 9]})
    >>> recs = csrr.PopRank().fit(log).recommend("ann", k=2)
    >>> recs.items[0].tolist()
    [8, 9]
    >>> recs
    Recommendations: 1 user, k = 2
    user  item  rank   score
    ann      8     1  1.0000
    ann      9     2  1.0000
    """

    users: Ids
    items: Ids
    scores: Float32Array
    titles: ObjectArray | None = None
    probabilities: Float32Array | None = None
    fallback: BoolArray = None  # type: ignore[assignment]
    unknown: BoolArray = None  # type: ignore[assignment]
    columns: Mapping[str, ObjectArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Mark no user, unless it is said which got popular items or are unknown."""
        for name in ("fallback", "unknown"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, np.zeros(len(self.users), np.bool_))

    @classmethod
    def from_rows(
        cls,
        users: Ids,
        item_rows: Int32Array,
        scores: Float32Array,
        items: IdMap,
        titles: ObjectArray | None = None,
        probabilities: AnyArray | None = None,
        fallback: BoolArray | None = None,
    ) -> Recommendations:
        """Return the recommendations for item rows, with your ids.

        Parameters
        ----------
        users
            The users' ids, shape (n,).
        item_rows
            The item rows, shape (n, k), where -1 stands for no item.
        scores
            Their scores, shape (n, k).
        items
            The ids of all items.
        titles
            The titles of all items, shape (n_items,).
        probabilities, fallback
            As the attributes; None for nobody.

        Returns
        -------
        recommendations
            The lists.
        """
        return cls(
            users,
            _look_up(items.ids, item_rows),
            scores,
            None if titles is None else _look_up(titles, item_rows),
            None if probabilities is None else probabilities.astype(np.float32),
            fallback,  # type: ignore[arg-type]
        )

    @property
    def status(self) -> ObjectArray:
        """What is known of each user, shape (n,): "known", "no history" or "unknown"."""
        return np.array(["known", "no history", "unknown"], np.object_)[np.where(self.unknown, 2, self.fallback)]

    @property
    def k(self) -> int:
        """The length of the lists, None entries included."""
        return int(self.items.shape[1])

    def __len__(self) -> int:
        return len(self.users)

    def __getitem__(self, which: int | slice) -> Recommendations:
        """Return the recommendations for one user, by position, or for a slice of the users."""
        if not isinstance(which, slice):
            place = range(len(self))[which]
            which = slice(place, place + 1)
        parts = {name: each[which] for name, each in vars(self).items() if name != "columns" and each is not None}
        return replace(self, **parts, columns={name: column[which] for name, column in self.columns.items()})

    def __iter__(self) -> Iterator[Recommendations]:
        """Return an iterator over the recommendations of each user. Unpacking is an error.

        `ids, scores = model.recommend(users)`, as for `implicit`, would be the lists of two users.
        """
        _refuse_unpacking("items", inspect.currentframe())
        return (self[place] for place in range(len(self)))

    def table(self) -> ResultTable:
        """Return the lists as one table.

        Returns
        -------
        table
            A row for each recommended item: user, item, rank from 1, score; if known, probability and title; requested
            columns of the item table; if a user got popular items, why: "popular" for them, None for others.
        """
        user, place = np.nonzero(self.scores > -np.inf)
        columns: dict[str, AnyArray] = {
            "user": self.users[user],
            "item": self.items[user, place],
            "rank": place + 1,
            "score": self.scores[user, place],
        }
        if self.probabilities is not None:
            columns["probability"] = self.probabilities[user, place]
        if self.titles is not None:
            columns["title"] = self.titles[user, place]
        columns |= {name: column[user, place] for name, column in self.columns.items()}
        if self.fallback.any():
            columns["why"] = np.array([None, POPULAR], np.object_)[self.fallback[user].astype(np.intp)]
        return ResultTable(columns, types={"why": pa.string()})

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a dict for each recommended item.

        Yields
        ------
        row
            The columns of `table`.
        """
        return self.table().rows()

    def to_dict(self) -> dict[Any, list[dict[str, Any]]]:
        """Return the lists by user as plain Python values, ready for JSON.

        Returns
        -------
        lists
            For each user a list of dicts, best first; empty if nothing is recommended.
        """
        rows = ({name: value for name, value in row.items() if name != "user"} for row in self.to_list())
        lengths = (self.scores > -np.inf).sum(axis=1).tolist()
        return {user: list(islice(rows, n)) for user, n in zip(self.users.tolist(), lengths, strict=True)}

    def _heading(self) -> str:
        return f"Recommendations: {len(self):,} user{'' if len(self) == 1 else 's'}, k = {self.k}"

    def __repr__(self) -> str:
        # As many users as rows are shown, if each has an item.
        head = self[:SHOWN].table().head(SHOWN)
        total = int((self.scores > -np.inf).sum())
        more = [f"... {total - SHOWN:,} more"] if total > SHOWN else []
        return "\n".join([self._heading(), str(head), *more])


@dataclass(frozen=True, eq=False, repr=False)
class Neighbors(TabularResult):
    """The items or users most similar to one, best first.

    Attributes
    ----------
    of
        The id of the item or user.
    ids
        The ids of those near it, shape (k,).
    scores
        How near they are, shape (k,).
    titles
        Their titles, shape (k,), where known.
    """

    of: Any
    ids: Ids
    scores: Float32Array
    titles: ObjectArray | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def table(self) -> ResultTable:
        """Return the neighbors as a table.

        Returns
        -------
        table
            A row for each: id, score and, where known, title.
        """
        columns = {"id": self.ids, "score": self.scores}
        return ResultTable(columns if self.titles is None else columns | {"title": self.titles})

    def _heading(self) -> str:
        return f"Neighbors of {self.of!r}"


@dataclass(frozen=True, eq=False, repr=False)
class NeighborLists(TabularResult):
    """The items or users most similar to each of several, best first.

    A list shorter than k is filled with id None and score -inf. `[0]` is the first list, `Neighbors`; iterating gives
    each.

    Attributes
    ----------
    of
        The ids of the items or users, shape (n,).
    ids
        The ids of those near them, shape (n, k).
    scores
        How near they are, shape (n, k).
    titles
        Their titles, shape (n, k), where known.
    """

    of: Ids
    ids: Ids
    scores: Float32Array
    titles: ObjectArray | None = None

    @classmethod
    def from_rows(
        cls, of: Ids, rows: Int32Array, scores: Float32Array, known: IdMap, titles: ObjectArray | None
    ) -> NeighborLists:
        """Return the lists for rows, with your ids.

        Parameters
        ----------
        of
            The ids of the items or users, shape (n,).
        rows, scores
            The rows of those near them, -1 for none, and how near they are, shapes (n, k).
        known
            The ids of all.
        titles
            The titles of all.

        Returns
        -------
        lists
            The lists.
        """
        return cls(of, _look_up(known.ids, rows), scores, None if titles is None else _look_up(titles, rows))

    def __len__(self) -> int:
        return len(self.of)

    def __getitem__(self, place: int) -> Neighbors:
        """Return the neighbors of one, by position."""
        there = self.scores[place] > -np.inf
        ids = self.ids[place][there]
        # Short of None, whole numbers are an array of these again.
        if ids.dtype == np.object_ and len(ids) and isinstance(ids[0], int):
            ids = ids.astype(np.int64)
        titles = None if self.titles is None else self.titles[place][there]
        return Neighbors(self.of[place : place + 1 or None].tolist()[0], ids, self.scores[place][there], titles)

    def __iter__(self) -> Iterator[Neighbors]:
        """Return an iterator over the neighbors of each. Unpacking is an error, as of `Recommendations`."""
        _refuse_unpacking("ids", inspect.currentframe())
        return (self[place] for place in range(len(self)))

    def table(self) -> ResultTable:
        """Return the lists as one table.

        Returns
        -------
        table
            A row for each neighbor: of, rank from 1, id, score and, where known, title.
        """
        of, place = np.nonzero(self.scores > -np.inf)
        columns = {"of": self.of[of], "rank": place + 1, "id": self.ids[of, place], "score": self.scores[of, place]}
        return ResultTable(columns if self.titles is None else columns | {"title": self.titles[of, place]})

    def _heading(self) -> str:
        return f"Neighbors of {len(self):,}"


@dataclass(frozen=True, eq=False)
class Amounts(TabularResult):
    """Items with an amount each, largest first.

    Attributes
    ----------
    items
        The ids of the items, shape (n,).
    titles
        Their titles, shape (n,), or None.
    amounts
        The amounts, shape (n,).
    """

    items: AnyArray
    titles: AnyArray | None
    amounts: Float32Array

    def __len__(self) -> int:
        return len(self.items)

    def table(self) -> ResultTable:
        """Return the items: item, title (where known), amount and what else is known.

        Returns
        -------
        table
            A row for each item.
        """
        return ResultTable.from_lists(self._columns())

    def _columns(self) -> dict[str, list[Any]]:
        columns = {"item": self.items.tolist()}
        if self.titles is not None:
            columns["title"] = self.titles.tolist()
        return columns | {"amount": self.amounts.tolist()}

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of `table`.

        Returns
        -------
        rows
            A dict for each item.
        """
        return list(self.table().rows())


@dataclass(frozen=True, eq=False)
class Explanation(Amounts):
    """The amounts that the items of a user's history add to the score of an item; they sum to `score`.

    Attributes
    ----------
    items
        The ids of the history's items, shape (n,), largest amount first.
    titles
        Their titles, shape (n,), or None.
    amounts
        What each adds, shape (n,).
    user, item
        Whose score it is, and of what.
    title
        The title of that item, or None.
    score
        The score.
    neighbors
        What of each amount comes from item to item, shape (n,); None where a model has no such part.
    ages
        The number of later events of the user, shape (n,), where the order of events counts; else None.
    shared
        What each has in common with that item: categories, tags or words, shape (n,), where a model was fitted with
        features of items; else None.
    """

    user: Id
    item: Id
    score: float
    neighbors: Float32Array | None = None
    title: str | None = None
    ages: Int32Array | None = None
    shared: ObjectArray | None = None

    def _columns(self) -> dict[str, list[Any]]:
        columns = super()._columns()
        more = {"neighbors": self.neighbors, "age": self.ages, "shared": self.shared}
        return columns | {name: values.tolist() for name, values in more.items() if values is not None}

    @property
    def contributions(self) -> list[tuple[Id, str | None, float]]:
        """(item id, title or None, amount), largest first."""
        return [(row["item"], row.get("title"), row["amount"]) for row in self.rows()]

    def _heading(self) -> str:
        named = f"item {self.item}" if self.title is None else f"{self.title} (item {self.item})"
        return f"{named} for user {self.user}: score {self.score:.3f}, of which"

    def __str__(self) -> str:
        return f"{self._heading()}\n{self.table().head(SHOWN)}"

    # For csrr.plot

    @property
    def plot_title(self) -> str:
        """The title of the plot."""
        return f"Why {self.item if self.title is None else self.title} for user {self.user}"

    @property
    def caption(self) -> str:
        """The caption of the plot."""
        parts = "" if self.neighbors is None else ", through common taste and from item to item"
        return f"What each choice of the history adds to a score of {self.score:.3f}{parts}."

    @property
    def panels(self) -> list[dict[str, Any]]:
        """The chart: bars for the largest amounts, and for all others together."""
        through = np.zeros(len(self), np.float32) if self.neighbors is None else self.neighbors
        parts = {"common taste": self.amounts - through} | ({} if self.neighbors is None else {"neighbors": through})
        order = np.argsort(-np.abs(self.amounts), kind="stable")
        groups = {self._name(place): np.array([place]) for place in order[:SHOWN]}
        if len(order) > SHOWN:
            groups[f"{len(order) - SHOWN:,} others"] = order[SHOWN:]
        series = []
        for part, values in parts.items():
            sums = {name: float(values[which].sum()) for name, which in groups.items()}
            # Most items are no neighbors, which needs no bar.
            points = [{"label": name, "mean": sums[name]} for name in sums if sums[name] or part == "common taste"]
            series.append({"name": part, "points": points})
        return [{"title": "Reasons", "x": "choice", "y": "adds to the score", "kind": "bars", "series": series}]

    def _name(self, place: int) -> str:
        """Return the title of an item of the history, with its id where another has the same, or its id."""
        title = None if self.titles is None else self.titles[place]
        if title is None:
            return str(self.items[place])
        return str(title) if (self.titles == title).sum() == 1 else f"{title} ({self.items[place]})"


def _refuse_unpacking(ids: str, frame: FrameType | None) -> None:
    """Raise TypeError if the caller of a frame unpacks: `ids, scores = ...` would be two lists."""
    caller = None if frame is None else frame.f_back
    if caller is not None and caller.f_code.co_code[caller.f_lasti] == opcode.opmap["UNPACK_SEQUENCE"]:
        raise TypeError(
            f"a result cannot be unpacked: it is not a pair of ids and scores. Take result.{ids} and result.scores,"
            " arrays of shape (n, k); for single lists result[0], result[1], ..., or iterate"
        )


def _look_up(values: Any, rows: Int32Array) -> Any:
    """Return `values[rows]`, None for row -1."""
    there = rows >= 0
    if there.all():
        return values[rows]
    found = np.full(rows.shape, None, np.object_)
    found[there] = values[rows[there]]
    return found
