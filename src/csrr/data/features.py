"""What items, or people, are: tables, tags, texts and vectors -> rows of numbers of unit length."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from csrr._base.arrays import AnyArray, BoolArray, Float32Array, Float64Array, Int64Array, ObjectArray, Rows
from csrr._base.text import quote_names, show_argument, show_value
from csrr.data.columns import Column, is_number_type, name_column, read_ids, read_text_ids
from csrr.data.errors import DataError, name_in_errors
from csrr.data.formats import TextOptions
from csrr.data.ids import IdMap
from csrr.data.items import (
    Categories,
    ColumnKind,
    ItemColumn,
    ItemTable,
    check_distinct,
    find_ids,
    make_item_table,
    match_id_type,
    open_item_file,
)
from csrr.data.matrix import check_sparse, is_matrix
from csrr.data.sources import choose_limit, open_files
from csrr.data.tables import ColumnKey, Table, is_table, normalize_name, open_table
from csrr.parameters import Choice, ParameterError

Kind = Literal["item", "user"]
MOST_FEATURES = 30_000
"""The most categories and words that are used: those of most items."""
MOST_STANDARD = 3.0
"""Standardized numbers end here."""
LARGEST = 1e100
"""Of larger numbers no standard deviation can be computed."""
NUMBER_SHARE = 0.5
"""The length of all numbers of an item together, where its categories have 1: they say less."""
FEW_NAMES, WORDY = 3, 2.5
"""A column of texts is split into words if there are fewer than so many items to a text, of so many words or more."""
_NO_WORD = r"[^\p{L}\p{N}]+"
TITLE = "title"


class Encoded(NamedTuple):
    """The features of n items: `words`, csr float32 (n, p), and `dense`, (n, q); of each, rows of length 1 at most."""

    words: Any
    dense: Float32Array

    def __len__(self) -> int:
        return len(self.dense)

    def take(self, rows: Rows) -> Encoded:
        """Return the features of some items, none for row -1."""
        there = rows >= 0
        if there.all():
            return Encoded(sparse.csr_array(self.words[rows]), self.dense[rows])
        place = sparse.csr_array(
            (np.ones(int(there.sum()), np.float32), (np.flatnonzero(there), rows[there])), (len(rows), len(self))
        )
        words = sparse.csr_array(place @ self.words)
        words.sort_indices()
        return Encoded(words, np.where(there[:, None], self.dense[rows], 0))

    def overlay(self, other: Encoded, rows: Rows) -> Encoded:
        """Return these features, with those of `other` at some rows, rising, in place of what was there."""
        dense = self.dense.copy()
        dense[rows] = other.dense
        return Encoded(replace_rows(self.words, rows, other.words), dense)

    @property
    def is_there(self) -> BoolArray:
        """Which items have any feature, (n,)."""
        there: BoolArray = (np.diff(self.words.indptr) > 0) | (self.dense != 0).any(axis=1)
        return there


def insert_rows(array: Any, places: Rows, values: Any) -> Any:
    """Return an array with values, or one for all, before rows at some places, rising: `np.insert`, fast for few."""
    found = np.empty((len(array) + len(places), *array.shape[1:]), array.dtype)
    at = places + np.arange(len(places))
    if len(places) > FEW_PLACES:
        is_old = np.ones(len(found), np.bool_)
        is_old[at] = False
        found[is_old] = array
    else:
        starts, ends = [0, *places.tolist()], [*places.tolist(), len(array)]
        for shift, (start, end) in enumerate(zip(starts, ends, strict=True)):
            found[start + shift : end + shift] = array[start:end]
    found[at] = values
    return found


FEW_PLACES = 1000


def replace_rows(matrix: Any, rows: Rows, new: Any) -> Any:
    """Return a csr matrix with other rows at some places, rising."""
    lengths, old = np.diff(matrix.indptr), matrix
    if lengths[rows].any():
        kept = np.ones(len(lengths), np.bool_)
        kept[rows] = False
        entries = np.repeat(kept, lengths)
        starts = np.concatenate(([0], np.cumsum(np.where(kept, lengths, 0)))).astype(matrix.indptr.dtype)
        old = sparse.csr_array((matrix.data[entries], matrix.indices[entries], starts), shape=matrix.shape)
    lengths = np.diff(old.indptr)
    lengths[rows] = np.diff(new.indptr)
    places = np.repeat(old.indptr[rows], np.diff(new.indptr))
    data, indices = insert_rows(old.data, places, new.data), insert_rows(old.indices, places, new.indices)
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(matrix.indptr.dtype)
    return sparse.csr_array((data, indices, starts), shape=matrix.shape)


@dataclass(frozen=True, eq=False, repr=False)
class FeatureTable:
    """What is known of items, or of users: a row for each, by column; made by `csrr.read_features`.

    Attributes
    ----------
    ids
        The ids, in the order of the rows.
    columns
        Categories, words, numbers, flags and dates by column, as those of an `ItemTable`.
    vectors
        Vectors by column, shapes (n, d); rows of 0 where there is none.
    titles
        The titles, shape (n,), if known; their words are features too.

    Examples
    --------
    >>> csrr.read_features({"item": [7, 7, 8], "tag": ["space", "horror", "comedy"]})
    FeatureTable: 2 rows, tag (3 categories)
    """

    ids: IdMap
    columns: Mapping[str, ItemColumn]
    vectors: Mapping[str, Float32Array]
    titles: ObjectArray | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        table = repr(ItemTable(self.ids, self.columns, self.titles)).replace("ItemTable", "FeatureTable", 1)
        vectors = [f", {name} (vectors of {each.shape[1]:,})" for name, each in self.vectors.items()]
        return table.replace(f"{len(self):,} items", f"{len(self):,} rows", 1) + "".join(vectors)

    def to_item_table(self) -> ItemTable:
        """Return the columns, without vectors, as an item table.

        Returns
        -------
        table
            For rules, and to be shown.
        """
        return ItemTable(self.ids, self.columns, self.titles)

    def take(self, rows: Rows) -> FeatureTable:
        """Return the table of some rows, in the order of their ids.

        Parameters
        ----------
        rows
            The rows, rising, shape (n,).

        Returns
        -------
        table
            Its other rows are left out.
        """
        return FeatureTable(
            IdMap(self.ids.ids[rows]),
            {name: column.take(rows) for name, column in self.columns.items()},
            {name: each[rows] for name, each in self.vectors.items()},
            None if self.titles is None else self.titles[rows],
        )

    def has_features(self) -> bool:
        """Return whether the table says what some of its rows have in common.

        Returns
        -------
        has
            Where it does not, a fit refuses it.
        """
        try:
            FeatureSpace.learn(self)
        except DataError:
            return False
        return True

    def match_type(self, known: IdMap, kind: Kind = "item") -> FeatureTable:
        """Return the table with ids of the type of others: 7 and "7" are the same item.

        Parameters
        ----------
        known
            The other ids.
        kind
            What the rows are, for messages: "item" or "user".

        Returns
        -------
        table
            With the same rows.

        Raises
        ------
        DataError
            If an id cannot be of that type.
        """
        if not len(known) or self.ids.ids.dtype == known.ids.dtype:
            return self
        ids = match_id_type(self.ids, known)
        if ids.dtype != np.object_ and (ids == -(2**63)).any():
            text = show_value(self.ids.ids[ids == -(2**63)].tolist()[0])
            raise DataError(
                f"the {kind}s' table has ids such as {text}, and those of the log are integers such as"
                f" {known.ids.tolist()[0]}; make them of one type"
            )
        mapped = IdMap(ids)
        rows = np.empty(len(ids), np.int64)
        rows[mapped.rows(ids, kind)] = np.arange(len(ids))
        return replace(self.take(rows), ids=mapped)


def read_features(
    source: Any,
    *,
    ids: Any = None,
    names: Sequence[str] | None = None,
    id: ColumnKey = None,
    kind: Kind = "item",
    categories: str | None = "|",
) -> FeatureTable:
    """Read what items, or users, are like: for `fit(log, items=table)`, which accepts all of these sources itself.

    Parameters
    ----------
    source
        A path or a table in memory with a row for each item, as for `csrr.read_items`; columns of lists of numbers
        are vectors. Or a table of two columns, item and tag, in which an item may have several rows. Or a dict, or a
        JSON file, from items to lists of their attributes. Or, with `ids`, a sparse matrix of items x features, or an
        array of vectors.
    ids
        The ids of the rows of a matrix or an array; None: their numbers.
    names
        The names of the columns of a sparse matrix.
    id
        The column of ids, by name or position; recognized as in a log, or called id.
    kind
        Whether the rows are items or users.
    categories
        The separator between the categories of one item, as in Action|Comedy; None: no separator.

    Returns
    -------
    table
        The features as they were read; a fit encodes them.

    Raises
    ------
    DataError
        If the source cannot be used; the message says where and what to do.

    Examples
    --------
    >>> csrr.read_features({7: ["space", "horror"], 8: ["comedy"]})
    FeatureTable: 2 rows, attribute (3 categories)
    >>> csrr.read_features(np.eye(2, 3), ids=["a", "b"])
    FeatureTable: 2 rows, vector (vectors of 3)
    """
    Choice(name="kind", words=("item", "user")).check(kind)
    if is_matrix(source):
        return _read_matrix(source, ids, names, kind)
    if ids is not None or names is not None:
        raise ParameterError("ids and names are those of a matrix or an array; a table has its own")
    if isinstance(source, FeatureTable):
        return source
    if isinstance(source, ItemTable):
        return FeatureTable(source.items, source.columns, {}, source.titles)
    if isinstance(source, str | os.PathLike):
        with name_in_errors(os.path.basename(os.fspath(source))):
            return _read_file(source, id, kind, categories)
    if isinstance(source, Mapping) and _is_by_id(source, id, kind):
        return _read_lists(source, kind)
    if not is_table(source):
        raise DataError(
            f"cannot use a {type(source).__name__} as a table of {kind}s; accepted are a path, a pandas, polars or"
            " pyarrow table, a dict of columns, a dict from ids to lists, a sparse matrix, and an array of vectors"
        )
    return _read_table(open_table(source), id, kind, categories)


def _read_file(path: Any, id: ColumnKey, kind: Kind, categories: str | None) -> FeatureTable:
    files = open_files(path)
    if files.main is not None and files.main.lower().endswith(".json"):
        data = files.read(files.main)
        text = data.lstrip(b"\xef\xbb\xbf \t\r\n")
        if text.startswith(b"{") and b"[" in text[:1000]:
            try:
                found = json.loads(text)
            except (ValueError, RecursionError):
                found = None  # JSON lines
            if isinstance(found, dict) and _is_by_id(found, id, kind):
                return _read_lists(found, kind, is_text=True)
    expected = {each for each in (id,) if isinstance(each, str)}
    table = open_item_file(files, None, TextOptions(expected={*expected, "user", "id"}))
    return _read_table(table, id, kind, categories, choose_limit())


def _is_by_id(source: Mapping[Any, Any], id: ColumnKey, kind: Kind) -> bool:
    """Return whether a dict has a list for each id, and is no dict of columns."""
    lists = [value for _, value in zip(range(100), source.values(), strict=False)]
    if not lists or not all(isinstance(each, list | tuple | set | frozenset) for each in lists):
        return False
    names = tuple(map(str, source))
    return (
        id is None and not any(normalize_name(name) == "id" for name in names) and find_ids(None, names, kind) is None
    )


def _read_lists(source: Mapping[Any, Any], kind: Kind, *, is_text: bool = False) -> FeatureTable:
    """Return a dict from ids to lists of attributes."""
    given = Column.read(list(source), kind)
    ids = read_text_ids(given).dictionary_decode() if is_text else read_ids(given)
    for id, own in source.items():
        if isinstance(own, Mapping | str) or not hasattr(own, "__iter__"):
            raise DataError(f"{kind} {show_value(id)} has {show_value(own)}; give a list of attributes")
    texts = [str(each) for own in source.values() for each in own if each is not None]
    lengths = [sum(each is not None for each in own) for own in source.values()]
    known = IdMap(ids)
    rows = np.repeat(known.rows(ids, kind), lengths)
    found = Categories.collect(rows, pa.array(texts, pa.large_string()), len(known))
    return FeatureTable(known, {"attribute": ItemColumn("categories", found)}, {})


def _read_table(table: Table, key: ColumnKey, kind: Kind, categories: str | None, limit: Any = None) -> FeatureTable:
    names = tuple(table.columns)
    id_name = find_ids(key, names, kind)
    if id_name is None:
        name_it = f"name it with {show_argument('id', '...')}" if kind == "item" else 'rename it "user" or "id"'
        raise DataError(
            f"no column looks like the {kind}; the columns are {quote_names(names)}; {name_it}", column=kind
        )
    given = table.read(id_name, kind)
    ids = read_text_ids(given).dictionary_decode() if table.is_text else read_ids(given)
    others = [name for name in names if name != id_name]
    if len(others) == 1 and len(pc.unique(ids)) < len(ids):
        return _read_pairs(ids, table.read(others[0]), others[0])
    more = f", or give two columns, {kind} and tag, where several rows of one {kind} are meant"
    check_distinct(ids, id_name, table.where, kind, more)
    vectors, rows = {}, pc.array_sort_indices(ids).to_numpy()
    for name in others:
        column = table.read(name)
        if _holds_vectors(column):
            vectors[name] = _read_vectors(column)[rows]
    rest = [name for name in others if name not in vectors]
    title = None if kind == "item" else False
    found = make_item_table(table, id_name, title, rest, categories, limit)
    return FeatureTable(found.items, found.columns, vectors, found.titles)


def _read_pairs(ids: pa.Array, column: Column, name: str) -> FeatureTable:
    """Return a table of an id and a tag a row."""
    if not (column.is_text or is_number_type(column.kind)):
        raise column.make_type_error("; several rows an item are for tags: texts or whole numbers")
    texts = pc.utf8_trim_whitespace(column.array.cast(pa.large_string()))
    known, rows = IdMap.encode(ids)
    there = pc.not_equal(texts, "").fill_null(False)
    kept = rows[there.to_numpy(zero_copy_only=False)]
    return FeatureTable(
        known, {name: ItemColumn("categories", Categories.collect(kept, texts.filter(there), len(known)))}, {}
    )


def _holds_vectors(column: Column) -> bool:
    kind = column.kind
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return is_list and bool(pa.types.is_floating(kind.value_type))


def _read_vectors(column: Column) -> Float32Array:
    """Return lists of numbers as vectors, (n, d), rows of 0 for missing ones."""
    lengths = pc.list_value_length(column.array)
    sizes = [each for each in pc.unique(lengths).to_pylist() if each is not None]
    if len(sizes) != 1 or sizes[0] == 0:
        if len(sizes) < 2:
            raise column.make_type_error(", which are all empty")
        row = pc.index(pc.not_equal(lengths, sizes[0]).fill_null(False), True).as_py()
        raise column.make_error(row, f"a vector of {lengths[row]} numbers, where the first has {sizes[0]}")
    found = np.zeros((len(column), sizes[0]), np.float32)
    there = np.asarray(column.array.is_valid().to_numpy(zero_copy_only=False))
    flat = pc.list_flatten(column.array).cast(pa.float32())
    found[there] = flat.fill_null(np.nan).to_numpy(zero_copy_only=False).reshape(-1, sizes[0])
    if (bad := ~np.isfinite(found).all(axis=1)).any():
        raise column.make_error(int(bad.argmax()), "the vector has a number that is missing or infinite; correct it")
    return found


def _read_matrix(matrix: Any, ids: Any, names: Sequence[str] | None, kind: Kind) -> FeatureTable:
    """Return a sparse matrix with names of its columns, or vectors."""
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise DataError(f"features have a row for each {kind} and at least one column; this has shape {matrix.shape}")
    if matrix.dtype.kind not in "buif":
        raise DataError(f"features are numbers; this holds {matrix.dtype}")
    known = IdMap.range(matrix.shape[0]) if ids is None else IdMap(ids)
    if len(known) != matrix.shape[0]:
        raise DataError(f"there are {len(known):,} ids for {matrix.shape[0]:,} rows")
    rows: Any = slice(None)
    if ids is not None:
        rows = np.empty(len(known), np.int64)
        rows[known.rows(ids, kind)] = np.arange(len(known))
    is_sparse = bool(sparse.issparse(matrix))
    if not is_sparse:
        if names is not None:
            raise ParameterError("names are those of the columns of a sparse matrix; the columns of a vector have none")
        if (bad := ~np.isfinite(matrix).all(axis=1)).any():
            row = int(bad.argmax())
            raise DataError(f"the vector in row {row} has a number that is missing or infinite; correct it", row=row)
        return FeatureTable(known, {}, {"vector": np.asarray(matrix, np.float32)[rows]})
    members = sparse.csr_array(check_sparse(matrix, "the features"), dtype=np.float32)[rows]
    if not np.isfinite(members.data).all() or (members.data < 0).any():
        raise DataError("a sparse matrix of features holds amounts: finite, and none below 0; give others as an array")
    members.sum_duplicates()
    members.eliminate_zeros()
    texts = [str(n) for n in (range(matrix.shape[1]) if names is None else names)]
    if len(texts) != matrix.shape[1] or len(set(texts)) < len(texts):
        raise DataError(f"there are {len(set(texts)):,} different names for {matrix.shape[1]:,} columns")
    order = np.argsort(np.array(texts, np.object_), kind="stable")
    categories = Categories(np.array(texts, np.object_)[order], sparse.csr_array(members[:, order]))
    return FeatureTable(known, {"feature": ItemColumn("categories", categories)}, {})


# Encoding


@dataclass(frozen=True, eq=False)
class FeatureSpace:
    """How tables become numbers: the categories and words that are used, with a weight each, and what numbers are like.

    `texts`, (p,), are categories and words, each of the column at `places`, (p,), of `columns`, in whose order they
    are; `idf`, (p,), is what each counts for. `worded` are the columns split into words. `numbers` are columns, of mean
    `centers` and standard deviation `spreads`, (q,). `vectors` has the length of vectors by column.
    """

    columns: tuple[str, ...]
    worded: frozenset[str]
    texts: ObjectArray
    places: Int64Array
    idf: Float64Array
    numbers: tuple[str, ...]
    centers: Float64Array
    spreads: Float64Array
    vectors: Mapping[str, int]
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> tuple[int, int]:
        """The numbers of columns of `Encoded`."""
        return len(self.texts), len(self.numbers) + sum(self.vectors.values())

    @cached_property
    def _starts(self) -> Int64Array:
        return np.searchsorted(self.places, np.arange(len(self.columns) + 1))

    @classmethod
    def learn(cls, table: FeatureTable) -> FeatureSpace:
        """Return the space of a table; what says nothing is left out, which the notes tell."""
        texts, worded, numbers, notes = _sort_columns(table)
        kept: list[tuple[str, ObjectArray, Float64Array]] = []
        for name, categories in texts.items():
            if not len(categories.names):
                notes.append(f"{name}: no values")
            counts = np.bincount(categories.members.indices, minlength=len(categories.names))
            n_items = int((np.diff(categories.members.indptr) > 0).sum())
            is_kept = (counts > 1) & (counts < max(len(table), n_items))
            notes += _describe_left_out(name, counts, len(table), is_word=name in worded)
            idf = np.log(max(len(table), 1) / np.maximum(counts, 1))
            kept.append((name, categories.names[is_kept], np.where(is_kept, idf, 0)[is_kept]))
        kept = [each for each in kept if len(each[1])]
        kept, cut = _keep_frequent(kept)
        notes += cut
        centers, spreads, used = [], [], []
        for name, values in numbers.items():
            there = values[np.isfinite(values)]
            if np.isinf(values).any():
                raise DataError(f"{name_column(name)} has a number that is infinite; correct it", column=name)
            if len(there) and np.abs(there).max() > LARGEST:
                raise DataError(f"{name_column(name)} has a number of more than {LARGEST:g}; correct it", column=name)
            if len(there) < 2 or not (spread := float(there.std())) > 1e-12 * float(np.abs(there).max()):
                notes.append(f"{name}: constant, left out")
                continue
            used.append(name)
            centers.append(float(there.mean()))
            spreads.append(spread)
        vectors = {name: each.shape[1] for name, each in table.vectors.items() if each.any()}
        notes += [f"{name}: only zeros, left out" for name in table.vectors if name not in vectors]
        if not (kept or used or vectors):
            raise DataError(
                f"no column of the table says what two rows have in common: {'; '.join(notes) or 'it has no columns'}"
            )
        return cls(
            tuple(name for name, *_ in kept),
            frozenset(worded),
            np.concatenate([names for _, names, _ in kept]) if kept else np.empty(0, np.object_),
            np.repeat(np.arange(len(kept)), [len(names) for _, names, _ in kept]),
            np.concatenate([idf for *_, idf in kept]) if kept else np.empty(0),
            tuple(used),
            np.array(centers, np.float64),
            np.array(spreads, np.float64),
            vectors,
            tuple(notes),
        )

    def encode(self, table: FeatureTable) -> Encoded:
        """Return the features of the rows of a table; what the space does not know is left out."""
        n, found = len(table), []
        texts = _list_texts(table, self.worded) if self.columns else {}
        for place, name in enumerate(self.columns):
            mine = slice(self._starts[place], self._starts[place + 1])
            found.append(self._place(texts.get(name), mine, n))
        words = sparse.csr_array(sparse.hstack(found, format="csr") if found else (n, 0), dtype=np.float32)
        words.sort_indices()
        dense = []
        for name, center, spread in zip(self.numbers, self.centers, self.spreads, strict=True):
            column = table.columns.get(name)
            values = np.full(n, center) if column is None or column.is_text else column.to_numbers()
            standard = np.clip(
                (np.where(np.isfinite(values), values, center) - center) / spread, -MOST_STANDARD, MOST_STANDARD
            )
            dense.append(NUMBER_SHARE * standard[:, None] / len(self.numbers) ** 0.5)
        for name, size in self.vectors.items():
            vectors = table.vectors.get(name, np.zeros((n, size), np.float32))
            if vectors.shape[1] != size:
                raise DataError(
                    f"{name_column(name)} has vectors of {vectors.shape[1]} numbers; the model's have {size}"
                )
            dense.append(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30))
        return Encoded(_scale_rows(words), np.concatenate([np.zeros((n, 0)), *dense], axis=1).astype(np.float32))

    def check_overlap(self, table: FeatureTable, kind: Kind) -> None:
        """Raise DataError for a table that has none of the columns."""
        mine = {*self.columns, *self.numbers, *self.vectors}
        theirs = {*table.columns, *table.vectors} | ({TITLE} if table.titles is not None else set())
        if not mine & theirs:
            raise DataError(
                f"the {kind}s' table has none of the columns that the model knows, {quote_names(sorted(mine))}; it has"
                f" {quote_names(sorted(theirs))}"
            )

    def _place(self, categories: Categories | None, mine: slice, n: int) -> Any:
        """Return the amounts of the categories of one column, csr (n, its number)."""
        names, idf = self.texts[mine], self.idf[mine]
        if categories is None or not len(categories.names):
            return sparse.csr_array((n, len(names)), dtype=np.float32)
        places = np.minimum(np.searchsorted(names, categories.names), len(names) - 1)
        is_known = names[places] == categories.names
        entries = categories.members.tocoo()
        kept = is_known[entries.col]
        columns = places[entries.col[kept]]
        amounts = entries.data[kept] * idf[columns]
        return sparse.csr_array((amounts, (entries.row[kept], columns)), shape=(n, len(names)))

    def name(self, place: int) -> str:
        """Return a category or word with its column, such as genre Horror."""
        return f"{self.columns[self.places[place]]} {self.texts[place]}"


def _scale_rows(words: Any) -> Any:
    """Return rows of length 1, or 0."""
    lengths = np.sqrt(np.asarray(words.multiply(words).sum(axis=1))).ravel()
    words.data /= np.repeat(np.where(lengths > 0, lengths, 1), np.diff(words.indptr)).astype(np.float32)
    return words


def _sort_columns(table: FeatureTable) -> tuple[dict[str, Categories], list[str], dict[str, Float64Array], list[str]]:
    """Return the texts and the numbers by column, which columns were split into words, and notes."""
    worded, numbers, notes = list[str](), dict[str, Float64Array](), list[str]()
    for name, column in table.columns.items():
        if column.kind == "category" and _is_wordy(column.values):
            worded.append(name)
        elif not column.is_text and not _is_code(name, column):
            numbers[name] = column.to_numbers()
    if table.titles is not None:
        worded.append(TITLE)
    return _list_texts(table, frozenset(worded)), worded, numbers, notes


def _is_code(name: str, column: ItemColumn) -> bool:
    """Return whether whole numbers only name things."""
    return column.kind == "flag" or (column.kind == "whole" and normalize_name(name).endswith(("id", "code")))


def _is_wordy(categories: Categories) -> bool:
    """Return whether texts are sentences rather than categories: most are of few items, and have several words."""
    if not len(categories.names) or categories.members.nnz >= FEW_NAMES * len(categories.names):
        return False
    texts = pa.array(categories.names.tolist(), pa.large_string())
    n_words = pc.mean(pc.count_substring_regex(texts, r"[\p{L}\p{N}]+")).as_py()
    return bool(n_words >= WORDY)


def _list_texts(table: FeatureTable, worded: frozenset[str]) -> dict[str, Categories]:
    """Return the categories, or the words, of the columns that have some."""
    found: dict[str, Any] = {}
    for name, column in table.columns.items():
        if name in worded:
            found[name] = (
                _split_words(column.values)
                if column.is_text
                else Categories.collect(np.empty(0, np.int64), pa.array([], pa.large_string()), len(table))
            )
        elif column.is_text or _is_code(name, column):
            found[name] = column.to_categories()
    if TITLE in worded and table.titles is not None and TITLE not in table.columns:
        there = np.array([title is not None for title in table.titles])
        rows, texts = np.flatnonzero(there), pa.array(table.titles[there].tolist(), pa.large_string())
        found[TITLE] = _split_words(Categories.collect(rows, texts, len(table)))
    return found


def _split_words(categories: Categories) -> Categories:
    """Return the words of texts, each once an item."""
    texts = pc.utf8_lower(pa.array(categories.names.tolist(), pa.large_string()))
    lists = pc.split_pattern_regex(texts, _NO_WORD)
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    words = pc.list_flatten(lists)
    there = pc.greater(pc.utf8_length(words), 1)
    of_text = np.repeat(np.arange(len(texts)), lengths)[there.to_numpy(zero_copy_only=False)]
    by_text = Categories.collect(of_text, words.filter(there), len(texts))
    members = sparse.csr_array(categories.members @ by_text.members)
    members.data[:] = 1
    return Categories(by_text.names, members)


def _describe_left_out(name: str, counts: AnyArray, n: int, *, is_word: bool) -> list[str]:
    once, always, what = int((counts == 1).sum()), int((counts >= n).sum()), "words" if is_word else "values"
    notes = []
    if once:
        all_of_them = once == len(counts)
        why = ": a column of ids, or of names that say nothing of others" if all_of_them else ""
        notes.append(f"{name}: {once:,} of {len(counts):,} {what} are of one row only and are left out{why}")
    if always:
        notes.append(f"{name}: {always:,} of {len(counts):,} {what} are of all rows and are left out")
    return notes


def _keep_frequent(kept: list[tuple[str, ObjectArray, Float64Array]]) -> tuple[list[Any], list[str]]:
    """Return categories and words, at most MOST_FEATURES of them: those of most items, whose idf is least."""
    n = sum(len(names) for _, names, _ in kept)
    if n <= MOST_FEATURES:
        return kept, []
    is_kept = np.zeros(n, np.bool_)
    is_kept[np.argsort(np.concatenate([idf for *_, idf in kept]), kind="stable")[:MOST_FEATURES]] = True
    parts = np.split(is_kept, np.cumsum([len(names) for _, names, _ in kept])[:-1])
    cut = [(name, names[mine], idf[mine]) for (name, names, idf), mine in zip(kept, parts, strict=True)]
    left = sum(len(names) for _, names, _ in cut)
    return [each for each in cut if len(each[1])], [f"{left:,} of {n:,} values and words are used: those of most rows"]


def join_tables(known: ItemTable, new: FeatureTable, joined: IdMap, at: Rows, rows: Rows) -> ItemTable:
    """Return the columns of a model's item table for all ids, of which each was at a row of it, `at`, or -1.

    The columns of new items, which are at `rows`, are added, if of the same kind.
    """
    found = {}
    for name, each in known.columns.items():
        placed = each.take(at) if not each.is_text else ItemColumn(each.kind, _place_rows(each.values, at))
        found[name] = _join_columns(placed, new.columns.get(name), rows)
    titles = None
    if known.titles is not None or new.titles is not None:
        none = np.full(len(known), None, np.object_)
        titles = (none if known.titles is None else known.titles)[np.maximum(at, 0)]
        titles[at < 0] = None
        if new.titles is not None:
            titles[rows] = new.titles
    return ItemTable(joined, found, titles)


def _join_columns(column: ItemColumn, new: ItemColumn | None, rows: Rows) -> ItemColumn:
    """Return a column with the values of new items at their rows, rising; as it is if these are of another kind."""
    if new is None or column.is_text != new.is_text or (column.kind == "date") != (new.kind == "date"):
        return column
    if column.is_text:
        names, members = column.values
        theirs, their_members = new.values
        places = np.minimum(np.searchsorted(names, theirs), max(len(names) - 1, 0))
        if not len(names) or (names[places] != theirs).any():
            every = np.array(sorted({*names.tolist(), *theirs.tolist()}), np.object_)
            members = _move_columns(members, np.searchsorted(every, names), len(every))
            names, places = every, np.searchsorted(every, theirs)
        their_members = _move_columns(their_members, places, len(names))
        kind: ColumnKind = "categories" if "categories" in (column.kind, new.kind) else "category"
        return ItemColumn(kind, Categories(names, replace_rows(members, rows, their_members)))
    if column.kind == new.kind:
        values = column.values.copy()
        values[rows] = new.values
        return ItemColumn(column.kind, values)
    numbers = column.to_numbers().copy()
    numbers[rows] = new.to_numbers()
    return ItemColumn("number", numbers)


def _place_rows(categories: Categories, at: Rows) -> Categories:
    """Return the categories of rows that all are among others, in their order; none for row -1."""
    lengths = np.where(at >= 0, np.diff(categories.members.indptr)[np.maximum(at, 0)], 0)
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(categories.members.indptr.dtype)
    parts = categories.members.data, categories.members.indices, starts
    return Categories(categories.names, sparse.csr_array(parts, shape=(len(at), len(categories.names))))


def _move_columns(matrix: Any, places: Rows, n: int) -> Any:
    """Return a csr matrix with its columns at other places of n, rising."""
    indices = places[matrix.indices].astype(matrix.indices.dtype)
    return sparse.csr_array((matrix.data, indices, matrix.indptr), shape=(matrix.shape[0], n))
