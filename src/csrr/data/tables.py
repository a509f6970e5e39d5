"""Users x items matrices of any kind -> checked entries."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from csrr._base.arrays import BoolArray, Float64Array, Int64Array
from csrr.data.column_roles import Column, LogColumns, check_column, choose_columns, describe_columns, find_role
from csrr.data.columns import (
    MISSING,
    SKIP_HINT,
    Times,
    as_arrow_array,
    find_bad_ids,
    find_bad_numbers,
    find_bad_times,
    is_number_type,
    is_text,
    read_id_column,
    read_number_column,
    read_text_id_column,
    read_time_column,
    show_type,
)
from csrr.data.errors import DataError, RowNamer, name_table_row, quote_error, quote_names, show_value
from csrr.data.event_types import TypeColumn, code_types, read_weights, spell_types
from csrr.data.sources import BYTES_A_ROW, find_limit
from csrr.parameters import ParameterError, check_number, check_texts


class SparseColumns(Mapping[str, Any]):
    """Columns of which every row has only some: lists of values, None where a row has none."""

    def __init__(self) -> None:
        self._cells: dict[str, tuple[array[int], list[Any]]] = {}
        self._n_rows = 0

    def add(self, row: Mapping[str, Any]) -> None:
        """Put a row under the others."""
        for name, value in row.items():
            if (cells := self._cells.get(name)) is None:
                cells = self._cells[name] = (array("q"), [])
            cells[0].append(self._n_rows)
            cells[1].append(value)
        self._n_rows += 1

    def __getitem__(self, name: str) -> list[Any]:
        rows, values = self._cells[name]
        if len(rows) == self._n_rows:
            return values
        column: list[Any] = [None] * self._n_rows
        for row, value in zip(rows, values, strict=True):
            column[row] = value
        return column

    def __iter__(self) -> Iterator[str]:
        return iter(self._cells)

    def __len__(self) -> int:
        return len(self._cells)


def is_records(data: object) -> bool:
    """Return whether `as_columns` can take `data`: a list of tuples or dicts. A list of lists may be a matrix."""
    return isinstance(data, list | tuple) and bool(data) and isinstance(data[0], tuple | Mapping)


def as_columns(records: Sequence[Any]) -> Mapping[str, Any]:
    """Return the columns of rows: by the keys of dicts, the fields of named tuples, or numbered from 0."""
    first = records[0]
    if isinstance(first, Mapping):
        columns = SparseColumns()
        for row, record in enumerate(records):
            if not isinstance(record, Mapping):
                raise DataError(f"row {row + 1}: {show_value(record)} is not a dict like the rows before it")
            columns.add({str(name): value for name, value in record.items()})
        return columns
    width = len(first)
    for row, record in enumerate(records):
        if not isinstance(record, tuple) or len(record) != width:
            raise DataError(f"row {row + 1}: {show_value(record)} is not a row of {width} values like the first")
    names = getattr(first, "_fields", None) or map(str, range(width))
    return dict(zip(map(str, names), zip(*records, strict=True), strict=True))


def has_names(records: Sequence[Any]) -> bool:
    """Return whether rows say what their columns are called."""
    return isinstance(records[0], Mapping) or hasattr(records[0], "_fields")


OnBadRows = Literal["error", "skip"]
"""What is done about a row without an id, or with a number or time that is none."""


def drop_bad_rows(
    arrays: Mapping[str, pa.Array],
    where: RowNamer,
    missing: Collection[str] | None,
    types: Collection[str],
    note: Callable[[str], object],
) -> tuple[dict[str, pa.Array], RowNamer]:
    """Return the columns of each role without bad rows, and what names the rows that are left.

    `missing` are the texts that stand for no id, None where ids were not read from text; `types` are the types that
    events may have. `note` is told how many rows were left out.
    """
    n_rows = len(arrays["user"])
    bad = np.zeros(n_rows, bool)
    for role, values in arrays.items():
        bad |= np.asarray(_find_bad(role, values, missing, types).to_numpy(zero_copy_only=False))
    if not bad.any():
        return dict(arrays), where
    kept = np.flatnonzero(~bad)
    if not kept.size:
        raise DataError(
            f"no rows are left: all {n_rows:,} are bad; on_bad_rows='error' says what is wrong with the first"
        )
    note(f"skipped {n_rows - kept.size:,} of {n_rows:,} rows that are bad; the first is {where(int(np.argmax(bad)))}")
    chosen = pa.array(~bad)
    return {role: values.filter(chosen) for role, values in arrays.items()}, lambda row: where(int(kept[row]))


def _find_bad(role: str, array: pa.Array, missing: Collection[str] | None, types: Collection[str]) -> pa.Array:
    """Return which values, shape (n,), cannot be what the role asks for."""
    if role in ("user", "item"):
        return find_bad_ids(array, missing)
    if role == "event":
        return pc.invert(pc.is_in(array, pa.array([*types], array.type)))
    if role == "title":
        return pa.array(np.zeros(len(array), bool))
    if role == "time":
        is_stamp = pa.types.is_timestamp(array.type) or pa.types.is_date(array.type)
        return (
            find_bad_times(array) if is_text(array.type) else array.is_null() if is_stamp else find_bad_numbers(array)
        )
    bad = find_bad_numbers(array)
    if role == "weight" and is_number_type(array.type):
        return pc.or_(bad, pc.less(array.cast(pa.float64(), safe=False), 0).fill_null(True))
    if role == "weight" and is_text(array.type):
        return pc.or_(bad, pc.match_substring_regex(array, r"^\s*-").fill_null(True))
    return bad


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is asked of a table of events, checked: the arguments that all readers share.

    `columns` gives the column of a role, or leaves it to be found; `weights` is the weight of each type of events.
    """

    columns: Mapping[str, Column]
    weights: Mapping[str, float] | None = None
    target: Any = None
    min_rating: float | None = None
    min_weight: float | None = None
    on_bad_rows: OnBadRows = "error"
    missing: Collection[str] | None = None

    @classmethod
    def of(
        cls,
        *,
        weights: Any = None,
        target: Any = None,
        min_rating: Any = None,
        min_weight: Any = None,
        on_bad_rows: Any = "error",
        missing: Any = None,
        **columns: Any,
    ) -> Self:
        """Return the arguments; ParameterError for what they cannot be."""
        for role, column in columns.items():
            check_column(role, column)
        for name, bound in (("min_rating", min_rating), ("min_weight", min_weight)):
            if bound is not None:
                check_number(name, bound)
        if not isinstance(on_bad_rows, str) or on_bad_rows not in get_args(OnBadRows):
            raise DataError(f"on_bad_rows={show_value(on_bad_rows)} is not known; choose 'error' or 'skip'")
        if isinstance(missing, str):
            missing = (missing,)
        check_texts("missing", missing, "strings, such as ['-', 'NULL']")
        return cls(
            columns=columns,
            weights=read_weights(columns.get("event"), weights, target),
            target=target,
            min_rating=None if min_rating is None else float(min_rating),
            min_weight=None if min_weight is None else float(min_weight),
            on_bad_rows="skip" if on_bad_rows == "skip" else "error",
            missing=None if missing is None else tuple(missing),
        )

    @property
    def given(self) -> list[str]:
        """The names of the columns that are given, and of the bounds."""
        names = [role for role, column in self.columns.items() if column is not None]
        return names + [name for name in ("min_rating", "min_weight") if getattr(self, name) is not None]


NOTHING_ASKED = Asked(columns={})


@dataclass(frozen=True)
class Events:
    """The columns of a table of n events, each of shape (n,), checked but not yet merged."""

    user: pa.Array
    item: pa.Array
    rating: Float64Array | None
    weight: Float64Array | None
    types: TypeColumn | None
    time: Times | None
    title: pa.Array | None
    names: tuple[str, ...]
    columns: LogColumns
    where: RowNamer
    is_text: bool

    def __len__(self) -> int:
        return len(self.user)

    def select(self, mask: BoolArray) -> Events:
        """Return the events where `mask`, shape (n,), is true."""
        chosen = pa.array(mask)
        return replace(
            self,
            user=self.user.filter(chosen),
            item=self.item.filter(chosen),
            rating=None if self.rating is None else self.rating[mask],
            weight=None if self.weight is None else self.weight[mask],
            types=None if self.types is None else self.types.select(mask),
            time=None if self.time is None else self.time[mask],
            title=None if self.title is None else self.title.filter(chosen),
        )


def is_table(data: object) -> bool:
    """Return whether `read_events` can take `data`."""
    return isinstance(data, Mapping) or hasattr(data, "__arrow_c_stream__") or _is_pandas(data) or is_records(data)


def read_events(
    table: Any,
    asked: Asked = NOTHING_ASKED,
    where: RowNamer = name_table_row,
    *,
    is_text: bool = False,
    notes: Collection[str] = (),
) -> Events:
    """Return the events of a table.

    With `is_text`, ids were read from text: blanks around them are not theirs, one that is empty or that `asked` says
    is missing is so, and they are integers if all look so. `notes` is what was found out about the table before.
    """
    cells, columns = split_columns(table), asked.columns
    told, names = list(notes), tuple(cells)
    absent = MISSING if asked.missing is None else tuple(asked.missing)
    if asked.missing is not None and not is_text:
        raise ParameterError("missing= is for text files; elsewhere a missing id is null, and strings stay as they are")
    if is_records(table) and not has_names(table):
        columns = {"user": 0, "item": 1} | {role: column for role, column in columns.items() if column is not None}
    chosen = choose_columns(names, columns)
    used = {role: name for role, name in chosen.items() if name is not None}
    if asked.on_bad_rows == "skip":
        as_cells = {"event": spell_types}
        arrays = {role: as_cells.get(role, as_arrow_array)(cells[name](), name, where) for role, name in used.items()}
        _check_lengths(used, arrays)
        arrays, where = drop_bad_rows(arrays, where, absent if is_text else None, asked.weights or (), told.append)
        cells |= {used[role]: partial(_return, array) for role, array in arrays.items()}
    as_ids = partial(read_text_id_column, missing=absent, note=told.append) if is_text else read_id_column
    readers: dict[str, Any] = {
        "user": as_ids,
        "item": as_ids,
        "rating": read_number_column,
        "weight": read_number_column,
        "event": spell_types,
        "time": read_time_column,
        "title": read_title_column,
    }
    read = {role: readers[role](cells[name](), name, where) for role, name in used.items()}
    _check_lengths(used, read)
    if is_text:
        _reject_headers(read["user"], read["item"], names, where)
    about = describe_columns(names, chosen, told)
    spelt = read.pop("event", None)
    columns_of = dict.fromkeys(role for role in chosen if role != "event") | read
    found = Events(**columns_of, types=None, names=names, columns=about, where=where, is_text=is_text)
    if len(found) == 0:
        raise DataError(f"the table has no rows; its columns are {quote_names(names)}")
    _check_weights(found, chosen["weight"])
    if spelt is None or asked.weights is None:
        return found
    types = code_types(spelt, used["event"], where, asked.weights, asked.target)
    # A type of weight 0 has the code -1: the last, which is 0.
    by_type = np.array([*(asked.weights[name] for name in types.names), 0.0])[types.codes]
    if types.lacks_target:
        about = replace(about, notes=(*about.notes, f"no event is of the target type {show_value(types.target)}"))
    weighed = replace(
        found, columns=about, weight=by_type if found.weight is None else by_type * found.weight, types=types
    )
    _check_weights(weighed, used.get("weight", used["event"]))
    return weighed


def _check_lengths(used: Mapping[str, str], arrays: Mapping[str, Any]) -> None:
    lengths = {used[role]: len(array) for role, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"columns differ in length: {lengths}")


def _reject_headers(users: pa.Array, items: pa.Array, names: Collection[str], where: RowNamer) -> None:
    """Raise an error naming a row whose ids are names of columns. `users` and `items` are dictionaries, shape (n,)."""
    words = pa.array([name for name in names if find_role(name)], pa.large_string())
    if users.type.value_type != pa.large_string() or items.type.value_type != pa.large_string():
        return
    in_users, in_items = (pc.is_in(ids.dictionary, value_set=words) for ids in (users, items))
    if not (pc.any(in_users).as_py() and pc.any(in_items).as_py()):
        return
    row = pc.index(pc.and_(in_users.take(users.indices), in_items.take(items.indices)), True).as_py()
    if row >= 0:
        raise DataError(
            f"{where(row)} names columns, but is not the first line; where files with different columns were joined,"
            " read them one by one"
        )


def _return(value: Any) -> Any:
    return value


def _is_pandas(data: object) -> bool:
    return type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns")


def split_columns(table: Any) -> dict[str, Callable[[], Any]]:
    """Return a function for each column of any table, by name, that gives it: nothing is read that is not asked for."""
    pairs: list[tuple[str, Callable[[], Any]]]
    if is_records(table):
        table = as_columns(table)
    if isinstance(table, Mapping):
        pairs = [(str(name), partial(table.__getitem__, name)) for name in table]
    elif _is_pandas(table):
        pairs = [(str(name), partial(_take_series, table, i)) for i, name in enumerate(table.columns)]
    else:
        arrow = _as_arrow_table(table)
        pairs = [(name, partial(arrow.column, i)) for i, name in enumerate(arrow.column_names)]
    cells = dict(pairs)
    if len(cells) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"two columns are called {show_value(twice)}; rename one")
    return cells


def _take_series(table: Any, place: int) -> Any:
    return table.iloc[:, place]


def _as_arrow_table(table: Any) -> pa.Table:
    try:
        return pa.table(table)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(f"a {type(table).__name__} cannot be read as a table: {error}") from error


def read_title_column(values: Any, column: str, where: RowNamer) -> pa.Array:
    array = as_arrow_array(values, column, where)
    try:
        titles = array.cast(pa.large_string())
    except pa.ArrowException:
        raise DataError(
            f"column {show_value(column)} holds {show_type(array.type)} values, not titles; pass title=False"
        ) from None
    return pc.if_else(pc.equal(titles, ""), None, titles)


def _check_weights(found: Events, column: str | None) -> None:
    if found.weight is None:
        return
    with np.errstate(over="ignore"):
        bad = np.flatnonzero((found.weight < 0) | ~np.isfinite(found.weight.astype(np.float32)))
    if bad.size:
        row = int(bad[0])
        raise DataError(
            f"column {show_value(column)}, {found.where(row)}:"
            f" the weight {found.weight[row]:g} is not a finite number >= 0; correct it, {SKIP_HINT}"
        )


class Entries(NamedTuple):
    """The entries above 0 of a matrix, row by row: three arrays of shape (n,); and its shape."""

    rows: Int64Array
    columns: Int64Array
    values: Float64Array
    shape: tuple[int, int]


def is_matrix(data: object) -> bool:
    """Return whether `read_entries` can take `data`, or at least say what is wrong with it."""
    return sparse.issparse(data) or isinstance(data, np.ndarray)


def check_sparse(matrix: Any, what: str = "the matrix") -> Any:
    """Return a sparse matrix of two dimensions whose parts go together: itself, or a copy as COO; else a DataError.

    scipy makes a matrix of any arrays, and its compiled loops trust them: one that lies would end the process.
    """
    try:
        if matrix.dtype == np.float16 or not matrix.dtype.isnative:
            raise ValueError(f"its values are {matrix.dtype}, which scipy does not have")
        if matrix.format in ("csr", "csc", "bsr"):
            _check_compressed(matrix)
            if matrix.indptr[-1] < len(matrix.indices):
                # What lies behind the last row is no part of it, but scipy would make entries of it.
                matrix = matrix.copy()
                matrix.prune()
        else:
            if matrix.format == "dia":
                _check_diagonals(matrix)
            if matrix.format == "lil":
                _check_lists(matrix.rows, matrix.data, matrix.shape[0])
            matrix = sparse.coo_array(matrix)
            _check_indices(matrix.row, matrix.shape[0])
            _check_indices(matrix.col, matrix.shape[1])
            if not len(matrix.row) == len(matrix.col) == len(matrix.data):
                raise ValueError("there are not as many values as places")
    except (ValueError, TypeError, IndexError, AttributeError, OverflowError) as error:
        raise DataError(f"{what} is damaged: {quote_error(error)}; make it again from its entries") from None
    return matrix


def _check_compressed(matrix: Any) -> None:
    """Raise ValueError unless the pointers of a CSR, CSC or BSR matrix cut its indices into rows (columns)."""
    pointers, indices, data = (np.asarray(part) for part in (matrix.indptr, matrix.indices, matrix.data))
    block = data.shape[1:]
    if len(block) != (2 if matrix.format == "bsr" else 0) or 0 in block:
        raise ValueError(f"its values have the shape {data.shape}")
    many, other = (-(-size // step) for size, step in zip(matrix.shape, block or (1, 1), strict=True))
    if block and (many * block[0], other * block[1]) != matrix.shape:
        raise ValueError(f"blocks of shape {block} do not fill {matrix.shape}")
    many, other = (other, many) if matrix.format == "csc" else (many, other)
    if pointers.shape != (many + 1,) or pointers.dtype.kind not in "iu" or indices.shape != data.shape[:1]:
        raise ValueError(f"{pointers.size:,} pointers, {indices.size:,} indices and {len(data):,} values")
    if pointers[0] != 0 or pointers[-1] > len(indices) or (pointers[1:] < pointers[:-1]).any():
        raise ValueError(f"its pointers do not rise from 0 to {len(indices):,}")
    _check_indices(indices, other)


def _check_diagonals(matrix: Any) -> None:
    """Raise ValueError unless a DIA matrix has an offset, within its shape, for each diagonal."""
    offsets, (n, m) = matrix.offsets, matrix.shape
    if matrix.data.ndim != 2 or offsets.shape != matrix.data.shape[:1]:
        raise ValueError(f"it has {offsets.size:,} offsets for values of shape {matrix.data.shape}")
    _check_indices(offsets, n + m, first=-n)


def _check_lists(rows: Any, data: Any, many: int) -> None:
    """Raise ValueError unless there is a list of columns, and one of as many values, for each row of a LIL matrix."""
    is_list = {type(each) for each in (*rows, *data)} <= {list}
    if rows.shape != (many,) or data.shape != (many,) or not is_list or list(map(len, rows)) != list(map(len, data)):
        raise ValueError(f"its lists of columns and of values, {rows.shape} and {data.shape}, do not go together")


def _check_indices(indices: Any, size: int, first: int = 0) -> None:
    """Raise ValueError unless these are some of the `size` whole numbers from `first` on."""
    if indices.ndim != 1 or indices.dtype.kind not in "iu":
        raise ValueError(f"its indices are {indices.dtype} of {indices.ndim} dimensions")
    if len(indices) and not (indices.min() >= first and indices.max() < first + size):
        raise ValueError(
            f"its indices go from {indices.min()} to {indices.max()}, and must be from {first} to {first + size - 1}"
        )


def read_entries(
    matrix: Any,
    n_user_ids: int | None = None,
    n_item_ids: int | None = None,
    *,
    min_rating: float | None = None,
    min_weight: float | None = None,
) -> Entries:
    """Return the entries of a sparse or dense users x items matrix that are above 0 and reach both bounds.

    Duplicates are summed first. Where ids are given, there must be as many as rows and columns.
    """
    if matrix.ndim != 2:
        raise DataError(f"a matrix has 2 dimensions, users x items; this one has {matrix.ndim}")
    n_users, n_items = (int(n) for n in matrix.shape)
    if n_users == 0 or n_items == 0:
        raise DataError(f"the matrix is empty: its shape is {n_users} x {n_items}")
    if matrix.dtype.kind not in "buif":
        raise DataError(f"a matrix holds bool, integer or float values; this one holds {matrix.dtype}")
    find_limit().check(BYTES_A_ROW * (n_users + n_items), f"a matrix of {n_users:,} x {n_items:,}, whatever is in it,")
    _check_id_counts((n_users, n_items), n_user_ids, n_item_ids)
    if sparse.issparse(matrix):
        matrix = check_sparse(matrix)
    if matrix.dtype == np.float16 or not matrix.dtype.isnative:  # scipy takes neither
        matrix = matrix.astype(np.float32 if matrix.dtype == np.float16 else matrix.dtype.newbyteorder("="))
    coo = sparse.coo_array(matrix)
    _check_values(coo.row, coo.col, coo.data)
    summed = sparse.csr_array(coo.astype(np.float64)).tocoo()
    bounds = [bound for bound in (min_rating, min_weight) if bound is not None]
    keep = (summed.data.astype(np.float32) > 0) & (summed.data >= max(bounds, default=0))
    if not keep.any():
        condition = f">= {max(bounds):g}" if bounds else "above 0"
        raise DataError(f"no events left: the matrix has no value {condition}")
    rows, columns = (index[keep].astype(np.int64) for index in (summed.row, summed.col))
    return Entries(rows, columns, summed.data[keep], (n_users, n_items))


def _check_id_counts(shape: tuple[int, int], n_user_ids: int | None, n_item_ids: int | None) -> None:
    """Raise DataError unless there is one user id a row and one item id a column, where ids are given."""
    n_users, n_items = shape
    if n_user_ids in (None, n_users) and n_item_ids in (None, n_items):
        return
    counts = [f"{n:,} {kind} ids" for n, kind in ((n_user_ids, "user"), (n_item_ids, "item")) if n is not None]
    seen = f"the matrix is {n_users} x {n_items} but there are {' and '.join(counts)}"
    if n_user_ids in (None, n_items) and n_item_ids in (None, n_users):
        raise DataError(f"the matrix looks transposed: {seen}; pass matrix.T, which has users as rows")
    raise DataError(f"{seen}; give one user id a row and one item id a column")


def _check_values(rows: Any, columns: Any, values: Any) -> None:
    with np.errstate(over="ignore"):
        bad = np.flatnonzero((values < 0) | ~np.isfinite(values.astype(np.float32)))
    if bad.size:
        at = int(bad[0])
        raise DataError(
            f"the matrix has {values[at]} at row {rows[at]}, column {columns[at]} (counted from 0);"
            " values must be finite and >= 0"
        )
