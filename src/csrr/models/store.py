"""A model file: a header in JSON, then arrays, with a checksum; written from a model, and read back."""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import stat
import struct
from collections.abc import Container, Mapping
from dataclasses import astuple, fields
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from csrr._base.files import atomic_write
from csrr.data.errors import DataError
from csrr.data.event_types import MOST_TYPES, EventTypes
from csrr.data.ids import IdMap
from csrr.data.items import KINDS, Categories, ItemColumn, ItemTable, find_far_dates
from csrr.models.schema import (
    FLOATS,
    Arrays,
    FilePart,
    FileSchema,
    Ids,
    ModelFileError,
    OptionalGroup,
    Sizes,
    SparseArray,
    Texts,
    Values,
    shorten,
    sparse_arrays,
    sparse_from,
    text_arrays,
    text_from,
    write_record,
)
from csrr.numerics.solver import Step
from csrr.parameters import ParameterError, list_defaults, list_plain_params
from csrr.ranking.calibration import Calibration
from csrr.registry import HOMES, MODELS

if TYPE_CHECKING:
    from csrr.models.base import Recommender
    from csrr.models.estimator import Estimator


MAGIC = b"CSRRMODL"
VERSION = 1
LARGEST_HEADER = 2**22
"""The largest number of bytes of a header: far beyond any model's."""
_START = struct.Struct("<8sIQ")
_DIGEST = 32
_PREFIX = _START.size + _DIGEST
_ALIGN = 64
_BLOCK = 2**20
_NAMES = ("bool", "float16", "float32", "float64", *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)))
TYPES = {name: np.dtype(name).newbyteorder("<") for name in _NAMES}
_DAMAGED = "the file is cut short or altered; save it again"


def write(path: str | os.PathLike[str], header: dict[str, Any], arrays: Arrays) -> None:
    """Write a model file; an existing file stays as it is if anything goes wrong."""
    places, offset = [], 0
    for name, array in arrays.items():
        if array.dtype.name not in TYPES:
            raise TypeError(f"an array of type {array.dtype}, {name!r}, cannot be saved")
        places.append({"name": name, "dtype": array.dtype.name, "shape": array.shape, "offset": offset})
        offset += _padded(array.nbytes)
    text = json.dumps({**header, "arrays": places}, allow_nan=False).encode()
    text += b" " * (-(len(text) + _PREFIX) % _ALIGN)
    if len(text) > LARGEST_HEADER:
        raise ValueError(f"parameters and facts of {len(text):,} bytes cannot be saved; keep large ones as arrays")
    with atomic_write(path) as file:
        _write_parts(file, text, arrays)


def _write_parts(file: BinaryIO, text: bytes, arrays: Arrays) -> None:
    start = _START.pack(MAGIC, VERSION, len(text))
    digest = hashlib.sha256(start + text)
    file.write(start + b"\0" * _DIGEST + text)
    for array in arrays.values():
        data = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(-1).view(np.uint8)
        for part in (data.data, b"\0" * (-data.nbytes % _ALIGN)):
            digest.update(part)
            file.write(part)
    file.seek(_START.size)
    file.write(digest.digest())


def check_digest(path: str | os.PathLike[str]) -> bytes:
    """Return the checksum of a model file; ModelFileError unless the file is whole."""
    with open(path, "rb", buffering=0) as file:
        start = file.read(_PREFIX)
        if start[:8] != MAGIC:
            raise ModelFileError(f"{os.fspath(path)}: not a csrr model; csrr fit and save write models")
        digest = hashlib.sha256(start[: _START.size])
        while block := file.read(_BLOCK):
            digest.update(block)
    if digest.digest() != start[_START.size :]:
        raise ModelFileError(f"{os.fspath(path)}: the checksum does not match: {_DAMAGED}")
    return digest.digest()


def read(path: str | os.PathLike[str], *, mapped: bool = False) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays of a model file, checked; the arrays are read-only views of its bytes.

    These are read or, if `mapped`, mapped into memory.
    """
    # Before it is opened, because opening a pipe would wait.
    if not stat.S_ISREG(mode := os.stat(path).st_mode) and not stat.S_ISDIR(mode):
        raise ModelFileError("not a file")
    with open(path, "rb", buffering=0) as file:  # a buffer would have the bytes twice
        start = file.read(_PREFIX)
        if start[:8] != MAGIC:
            raise ModelFileError("not a csrr model (its first bytes are not ours); csrr fit and save write models")
        if len(start) < _PREFIX:
            raise ModelFileError("the file is cut short; copy or save it again")
        _, version, length = _START.unpack_from(start)
        if version > VERSION:
            raise ModelFileError(f"written by a newer csrr (format {version}, this one reads up to {VERSION})")
        size = os.fstat(file.fileno()).st_size
        if not 0 < length <= LARGEST_HEADER or (_PREFIX + length) % _ALIGN or version < 1:
            raise ModelFileError(f"a header of {length:,} bytes is none of ours (format {version}); {_DAMAGED}")
        # The arrays are read only after the header has been checked against the size of the file.
        if len(text := file.read(length)) < length:
            raise ModelFileError("the file is cut short; copy or save it again")
        try:
            header = read_header(text)
            layout = _lay_out(header.pop("arrays"), size - _PREFIX - length)
        except ModelFileError as error:
            raise ModelFileError(f"{error}; {_DAMAGED}") from None
        payload: bytes | memoryview
        if mapped:
            payload = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))[_PREFIX + length :]
        else:
            # A file that changes later must not change the model.
            payload = file.read()
    digest = hashlib.sha256(start[: _START.size] + text)
    digest.update(payload)
    if digest.digest() != start[_START.size :]:
        raise ModelFileError(f"the checksum does not match: {_DAMAGED}")
    return header, {place.name: place.take(payload) for place in layout}


def read_header(text: bytes) -> dict[str, Any]:
    """Return the header in a text: the name of a model, params, facts and the places of arrays."""
    try:
        header = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except ModelFileError:
        raise
    except RecursionError:
        raise ModelFileError("the header has lists in lists without end") from None
    except ValueError as error:  # also of text that is not UTF-8, and of numbers with thousands of digits
        raise ModelFileError(f"the header cannot be read: {error}") from None
    kinds = {"model": str, "params": dict, "facts": dict, "arrays": list}
    if not isinstance(header, dict) or header.keys() != kinds.keys():
        raise ModelFileError(f"the header does not hold {', '.join(kinds)}")
    for name, kind in kinds.items():
        if not isinstance(header[name], kind):
            raise ModelFileError(f"the header's {name} is of type {type(header[name]).__name__}, not {kind.__name__}")
    return header


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ModelFileError("the header has a name twice")
    return found


def _refuse_constant(text: str) -> None:
    raise ModelFileError(f"the header has a number that is {text}")


class _Place(NamedTuple):
    """The place of an array in the payload."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int

    @property
    def size(self) -> int:
        """The number of its bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def take(self, payload: bytes | memoryview) -> npt.NDArray[Any]:
        """Return the array, a view of the payload."""
        array = np.frombuffer(memoryview(payload)[self.offset : self.offset + self.size], self.dtype)
        if self.dtype == np.bool_ and self.size and int(array.view(np.uint8).max()) > 1:
            raise ModelFileError(f"array {self.name!r} has values that are neither true nor false")
        return array.reshape(self.shape)


def _lay_out(places: list[Any], length: int) -> list[_Place]:
    """Return the places of arrays, checked: each begins where the one before ends, and together they fill the file."""
    found: list[_Place] = []
    offset = 0
    for place in places:
        one = _check_place(place, {each.name for each in found}, length)
        if one.offset != offset or offset + one.size > length:
            raise ModelFileError(f"array {one.name!r} of {one.size:,} bytes is not where it must be, at {offset:,}")
        found.append(one)
        offset += _padded(one.size)
    if offset != length:
        raise ModelFileError(f"the arrays take {offset:,} bytes, and there are {length:,}")
    return found


def _check_place(place: Any, before: Container[str], length: int) -> _Place:
    """Return the place of an array, checked against the length of the payload."""
    if not isinstance(place, dict) or place.keys() != {"name", "dtype", "shape", "offset"}:
        raise ModelFileError("an array is not said by name, dtype, shape and offset")
    name, dtype, shape, offset = place["name"], place["dtype"], place["shape"], place["offset"]
    if not isinstance(name, str) or name in before:
        raise ModelFileError(f"an array has the name {str(name)[:100]!r}, which is no name, or there twice")
    if not isinstance(dtype, str) or dtype not in TYPES:
        raise ModelFileError(f"array {name!r} has the unknown type {str(dtype)[:100]!r}")
    # Beside a dimension of 0 the others take no space in the file, but they may in memory.
    is_size = isinstance(shape, list) and len(shape) <= 8 and all(type(n) is int and 0 <= n <= length for n in shape)
    if not is_size:
        raise ModelFileError(f"array {name!r} has the shape {str(shape)[:100]}, which no array in this file can have")
    if type(offset) is not int:
        raise ModelFileError(f"array {name!r} begins at {str(offset)[:100]}, which is no whole number")
    return _Place(name, TYPES[dtype], tuple(shape), offset)


def _padded(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, timedelta):
        return value / timedelta(days=1)
    raise TypeError(f"a parameter of type {type(value).__name__} cannot be saved")


ITEM_TABLE = "item_table."
_ITEM_NAMES, _ITEM_KINDS = f"{ITEM_TABLE}names", f"{ITEM_TABLE}kinds"
_TYPES = {"number": "float64", "whole": "int64", "flag": "bool", "date": "int64"}


def item_table_arrays(table: ItemTable) -> Arrays:
    """Return the columns of an item table as arrays; its titles are saved with the model."""
    arrays: Arrays = text_arrays(_ITEM_NAMES, np.array(list(table.columns), np.object_))
    arrays[_ITEM_KINDS] = np.array([KINDS.index(column.kind) for column in table.columns.values()], np.int8)
    for place, column in enumerate(table.columns.values()):
        name = f"{ITEM_TABLE}{place}"
        if column.is_text:
            arrays |= text_arrays(f"{name}.names", column.values.names)
            arrays |= sparse_arrays(f"{name}.members", column.values.members, with_data=False)
        else:
            arrays[name] = column.values.astype(np.int64) if column.kind == "date" else column.values
    return arrays


def item_table_parts(arrays: Mapping[str, npt.NDArray[Any]]) -> tuple[FilePart, ...]:
    """Return the declaration of the arrays of an item table, by the kinds of its columns; empty without a table."""
    if not any(name.startswith(ITEM_TABLE) for name in arrays):
        return ()
    kinds = Values(_ITEM_KINDS, ("item columns",), ("int8",), least=0, most=len(KINDS) - 1)
    kinds.check(arrays, {})
    parts: list[FilePart] = [kinds, Texts(_ITEM_NAMES, "item columns")]
    for place, kind in enumerate(arrays[_ITEM_KINDS].tolist()):
        name, kind = f"{ITEM_TABLE}{place}", KINDS[kind]
        if kind in _TYPES:
            parts.append(Values(name, ("items",), (_TYPES[kind],), is_free=True))
            continue
        size = f"categories of item column {place}"
        most = 1 if kind == "category" else None
        entries = f"entries of item column {place}"
        parts.append(Texts(f"{name}.names", size))
        parts.append(SparseArray(f"{name}.members", ("items", size), None, entries, most_in_row=most))
    return tuple(parts)


def item_table_from(arrays: Arrays, items: IdMap, titles: npt.NDArray[np.object_] | None) -> ItemTable | None:
    """Return the table that `item_table_arrays` made arrays of, or None; the arrays are checked before."""
    if _ITEM_KINDS not in arrays:
        return None
    names = text_from(arrays, _ITEM_NAMES).tolist()
    if len(set(names)) < len(names) or None in names:
        raise ModelFileError(f"array '{_ITEM_NAMES}.text' does not name the columns of items, each once")
    kinds = [KINDS[kind] for kind in arrays[_ITEM_KINDS].tolist()]
    columns = {
        name: _read_column(arrays, f"{ITEM_TABLE}{place}", kinds[place], items) for place, name in enumerate(names)
    }
    return ItemTable(items, columns, titles)


def _read_column(arrays: Arrays, name: str, kind: Any, items: IdMap) -> ItemColumn:
    if kind == "date":
        dates = arrays[name].astype("datetime64[s]")
        if find_far_dates(dates).any():
            raise ModelFileError(f"array {name!r} holds what is no date")
        return ItemColumn(kind, dates)
    if kind in _TYPES:
        return ItemColumn(kind, arrays[name])
    names = text_from(arrays, f"{name}.names")
    texts = names.tolist()
    if None in texts or any(a >= b for a, b in pairwise(texts)):
        raise ModelFileError(f"the categories '{name}.names' are not in order, each once")
    return ItemColumn(kind, Categories(names, sparse_from(arrays, f"{name}.members", (len(items), len(names)))))


_COLUMNS = 2**24
"""The number of columns that a sparse array of a model of your own may have in a file of any size."""

FLOAT32_MOST, FLOAT64_MOST = (float(np.finfo(each).max) for each in (np.float32, np.float64))

ModelState = tuple[Arrays, dict[str, Any]]

# The training log, in the file of any model

COMMON: tuple[FilePart, ...] = (
    Ids("users"),
    Ids("items"),
    OptionalGroup(Texts("titles", "items")),
    SparseArray("seen", ("users", "items"), None, "events"),
    Values("seen.weights", ("events",), above=0, most=FLOAT32_MOST, optional=True),
    Values("seen.ages", ("events",), ("int32",), least=0, optional=True),
    Values("item_counts", ("items",), ("int64",), least=0, optional=True),
    OptionalGroup(
        Values("seen.times", ("events",), ("int32", "int64", "float64"), least=-FLOAT64_MOST, most=FLOAT64_MOST),
        Values("recent_popularity", ("items",), ("float64",), least=0),
        Values("item_ages", ("items",), ("float64",), least=0, most=np.inf),
    ),
    OptionalGroup(
        Texts("seen.types", "types"),
        Values("seen.types.amounts", ("events", "types"), least=0, most=FLOAT32_MOST),
        Values("seen.types.target", (1,), ("int64",), least=-1, most=MOST_TYPES),
    ),
)
_BIN = ("edges+1",)
_GROUP = ("activity ends+1", "popularity ends+1", "edges+1")
CALIBRATION = OptionalGroup(
    Values("calibration.edges", ("edges",), least=-np.inf, most=np.inf),
    Values("calibration.n_cells", _BIN, ("int64",), least=0),
    Values("calibration.n_positives", _BIN, ("int64",), least=0),
    Values("calibration.probabilities", _BIN, ("float64",), least=0, most=1),
    Values("calibration.numbers", (2,), ("float64",), least=0),
    OptionalGroup(
        Values("calibration.groups.popularity", ("items",), ("int64",), least=0),
        Values("calibration.groups.popularity_ends", ("popularity ends",), ("int64",), least=0),
        Values("calibration.groups.activity_ends", ("activity ends",), ("int64",), least=0),
        Values("calibration.groups.n_cells", _GROUP, ("int64",), least=0),
        Values("calibration.groups.n_positives", _GROUP, ("int64",), least=0),
        Values("calibration.groups.probabilities", _GROUP, ("float64",), least=0, most=1),
    ),
)
STEPS = Values("history", ("steps", len(fields(Step))), ("float64",), is_free=True)


def factors(rank: str = "rank") -> tuple[FilePart, ...]:
    """Return the declaration of factors of users and items, float32 of shapes (n_users, d) and (n_items, d)."""
    return Values("user_factors", ("users", rank)), Values("item_factors", ("items", rank))


def ids_arrays(name: str, ids: IdMap) -> Arrays:
    """Return the ids of a map as arrays."""
    return {name: ids.ids} if ids.ids.dtype.kind == "i" else text_arrays(name, ids.ids)


def ids_from(arrays: Arrays, name: str) -> IdMap:
    """Return the map that `ids_arrays` made arrays of. Ids must be sorted, or they would be of other rows."""
    found = arrays[name] if name in arrays else text_from(arrays, name)
    ids = IdMap(found)
    if not np.array_equal(ids.ids, found):
        raise ModelFileError(f"the ids of {name} are not in order")
    return ids


def step_arrays(history: list[Step]) -> Arrays:
    """Return the steps of a fit as an array, a row each."""
    return {"history": np.array([astuple(step) for step in history], np.float64).reshape(-1, len(fields(Step)))}


def steps_from(arrays: Arrays) -> list[Step]:
    """Return the steps that `step_arrays` made an array of."""
    if not (np.abs(arrays["history"][:, [0, 3]]) < 2**53).all():
        raise ModelFileError("array 'history' counts steps and ranks by what is no number")
    return [Step(int(i), o, g, int(r), t) for i, o, g, r, t in arrays["history"].tolist()]


# A model


def list_shared_parts(arrays: Arrays) -> tuple[FilePart, ...]:
    """Return the parts of a file that any model may have."""
    return (*COMMON, CALIBRATION, *item_table_parts(arrays))


def make_schema(model: Estimator, arrays: Arrays) -> FileSchema:
    """Return what a file of the model may hold; a model that is not ours may hold anything beside."""
    own = FileSchema(()) if model.file_schema is None else model.file_schema
    is_open = model.file_schema is None or type(model).__name__ not in HOMES
    return FileSchema((*list_shared_parts(arrays), *own.arrays), own.facts, is_open)


def write_model(path: str | os.PathLike[str], model: Estimator) -> None:
    """Write a fitted model: its parameters, its training events, and its own state."""
    own, facts = model.state()
    arrays: Arrays = {**ids_arrays("users", model.users_), **ids_arrays("items", model.items_)}
    if model.titles_ is not None:
        arrays |= text_arrays("titles", model.titles_)
    arrays |= sparse_arrays("seen", model.seen_, with_data=False)
    columns = {"seen.weights": model.seen_weights_, "seen.times": _narrow_times(model.seen_times_)}
    columns |= {
        "seen.ages": model.seen_ages_,
        "recent_popularity": model.recent_popularity,
        "item_ages": model.item_ages,
        "item_counts": model.item_counts,
    }
    arrays |= {name: column for name, column in columns.items() if column is not None}
    if model.event_types is not None:
        arrays |= _type_arrays(model.event_types)
    if model.item_table_ is not None:
        arrays |= item_table_arrays(model.item_table_)
    if model.calibration_ is not None:
        arrays |= model.calibration_.arrays()
    arrays |= own
    # A file that could not be read again is not written.
    model.check_params()
    schema = make_schema(model, arrays)
    _check_sizes(model, schema.check(arrays))
    params = _as_json(list_plain_params(model))
    facts = _as_json({name: write_record(each) for name, each in facts.items()})
    schema.read_facts(facts)
    write(path, {"model": type(model).__name__, "params": params, "facts": facts}, arrays)


def _as_json(values: dict[str, Any]) -> dict[str, Any]:
    """Return values by name as they are read back; raise ModelFileError for a number that JSON does not have."""
    found = {}
    for name, value in values.items():
        try:
            found[name] = json.loads(json.dumps(value, allow_nan=False, default=_plain))
        except ValueError:
            what = f"{name}={shorten(repr(value))} holds a number that is not finite"
            raise ModelFileError(f"{what}; a model file cannot have it") from None
    return found


def _type_arrays(types: EventTypes) -> Arrays:
    """Return the types of the training events as arrays; the target is a place among their names, -1 for none."""
    target = -1 if types.target is None else types.names.index(types.target)
    return {
        **text_arrays("seen.types", np.array(types.names, np.object_)),
        "seen.types.amounts": types.amounts,
        "seen.types.target": np.array([target], np.int64),
    }


def _types_from(arrays: Arrays) -> EventTypes | None:
    """Return the types that `_type_arrays` made arrays of."""
    if "seen.types.text" not in arrays:
        return None
    names = tuple(text_from(arrays, "seen.types").tolist())
    target, amounts = int(arrays["seen.types.target"][0]), arrays["seen.types.amounts"]
    if len(set(names)) < len(names) or None in names or not 1 <= len(names) <= MOST_TYPES or target >= len(names):
        raise ModelFileError("the event types are not distinct names, one of them the target")
    if not (amounts > 0).any(axis=1).all():
        raise ModelFileError("an event is of no type")
    return EventTypes(names, amounts, None, None if target < 0 else names[target])


def _narrow_times(times: Any) -> Any:
    """Return times in 32 bits if they fit, as whole seconds until 2038 do."""
    if times is None or times.dtype != np.int64:
        return times
    narrow = times.astype(np.int32)
    return narrow if np.array_equal(narrow, times) else times


def restore_model(model: Estimator, arrays: Arrays, facts: dict[str, Any]) -> None:
    """Set the fitted state of a model from a file, after a check against the declaration."""
    schema = make_schema(model, arrays)
    sizes, facts = schema.check(arrays), schema.read_facts(facts)
    model.users_, model.items_ = ids_from(arrays, "users"), ids_from(arrays, "items")
    model.titles_ = text_from(arrays, "titles") if "titles.text" in arrays else None
    model.seen_ = sparse_from(arrays, "seen", (sizes["users"], sizes["items"]))
    model.seen_weights_, model.seen_times_ = arrays.get("seen.weights"), arrays.get("seen.times")
    model.seen_ages_ = _check_ages(arrays.get("seen.ages"), model.seen_.indptr)
    model.event_types = _types_from(arrays)
    model.recent_popularity, model.item_ages = arrays.get("recent_popularity"), arrays.get("item_ages")
    model.item_counts = arrays.get("item_counts")
    model.item_table_ = item_table_from(arrays, model.items_, model.titles_)
    model.calibration_ = Calibration.from_arrays(arrays)
    shared = {name for part in list_shared_parts(arrays) for name in part.names}
    model.restore({name: array for name, array in arrays.items() if name not in shared}, facts)
    _check_sizes(model, sizes)


def _check_ages(ages: Any, indptr: Any) -> Any:
    """Return the numbers of later events, shape (n_events,); ModelFileError unless each user has 0, 1, 2, ... once."""
    if ages is not None:
        counts, found = np.diff(indptr), np.zeros(len(ages), np.bool_)
        if (ages < np.repeat(counts, counts)).all():
            found[np.repeat(indptr[1:], counts) - 1 - ages] = True
        if not found.all():
            raise ModelFileError("'seen.ages' does not number the events of each user from the latest to the oldest")
    return ages


def _check_sizes(model: Estimator, sizes: Sizes) -> None:
    """Raise ModelFileError for a model without events, and for undeclared factors of the wrong shape."""
    is_item_side = model.item_counts is not None and sizes["users"] == 0 and model.item_counts.any()
    if sizes["events"] == 0 and not is_item_side:
        raise ModelFileError("holds no training events; a model is fitted to one at least")
    if model.has_factors and model.file_schema is None:
        own = {name: getattr(model, f"{name}_", np.empty(0)) for name in ("user_factors", "item_factors")}
        for name, rows in (("user_factors", "users"), ("item_factors", "items")):
            Values(name, (rows, "rank"), FLOATS).check(own, sizes)


def read_plain_shape(arrays: Arrays, name: str, value: dict[str, Any]) -> tuple[int, int]:
    """Return the shape of a csr array of any type, from a fact; the arrays are checked against it."""
    shape = value.get("shape")
    # Rows and entries have their bytes; columns have none, and may be many only in a large file.
    most = max(_COLUMNS, sum(array.nbytes for array in arrays.values()))
    is_shape = isinstance(shape, list) and len(shape) == 2 and all(type(n) is int and 0 <= n <= most for n in shape)
    if value.keys() != {"shape"} or shape is None or not is_shape:
        raise ModelFileError(f"the fact {name!r} is not the shape of a sparse array")
    entries = f"entries of {name}"
    data = Values(f"{name}.data", (entries,), tuple(TYPES), is_free=True)
    SparseArray(name, (shape[0], shape[1]), data, entries, is_sorted=False).check(arrays, {})
    return shape[0], shape[1]


def load(path: str | os.PathLike[str], *, mmap: bool = False) -> Recommender:
    """Load a model that `save` wrote. Nothing in the file is executed.

    Parameters
    ----------
    path
        The file that `save` wrote.
    mmap
        Whether to map the file's arrays into memory as they are, so that processes share them. The file may be replaced
        or removed, as `save` does, but nothing may write into it as long as the model is in use.

    Returns
    -------
    model
        The fitted model.

    Raises
    ------
    ModelFileError
        For a file that is not a complete model, or of a class that this csrr does not know.

    Examples
    --------
    >>> csrr.EASE(reg=10).fit(csrr.synthetic(60, 40, events_per_user=10).log).save("ease.csrr")
    >>> csrr.load("ease.csrr")
    EASE(reg=10), fitted to 60 users x 40 items
    """
    try:
        header, arrays = read(path, mapped=mmap)
        model = _make_model(header["model"], header["params"])
        restore_model(model, arrays, header["facts"])
    except (OSError, MemoryError):
        raise
    except (ModelFileError, DataError, ParameterError) as error:
        raise ModelFileError(f"{path}: {shorten(str(error), 1000)}") from None
    except Exception as error:
        # For what the checks do not find: they know little of a model of your own.
        what = shorten(f"{type(error).__name__}: {error}", 1000)
        raise ModelFileError(f"{path}: cannot be made a model of ({what})") from error
    return model


def _make_model(name: str, params: dict[str, Any]) -> Recommender:
    """Return a model, not fitted, with checked parameters."""
    if name not in MODELS:
        raise ModelFileError(
            f"holds a model {name[:100]!r}, which this csrr does not know; if it is your own, call csrr.register with"
            " its class first"
        )
    kind = MODELS[name]
    if unknown := sorted(params.keys() - list_defaults(kind).keys()):
        raise ModelFileError(f"a {kind.__name__} with parameters that this csrr does not know: {_list(unknown)}")
    model: Recommender = kind(**params)
    model.check_params()
    return model


def _list(names: list[str]) -> str:
    """Return names of a file for a message, quoted unless they are identifiers."""
    return shorten(", ".join(name if name.isidentifier() else repr(name) for name in names))
