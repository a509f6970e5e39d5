"""The arrays and facts that a model file may hold, and their checks."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import sparse

from csrr.parameters import Number, ParameterError, read_declaration

Arrays = dict[str, npt.NDArray[Any]]
Sizes = dict[str, int]
"""The length of each dimension: "users" and "items" of every model, and those that arrays of a model share."""

MOST = 1e15
"""The largest value in size: far beyond any use, and products of two of them are far within float32."""
WHOLE = ("int32", "int64")
FLOATS = ("float32", "float64")


class ModelFileError(ValueError):
    """Raised for a file that is not a complete csrr model."""


@dataclass(frozen=True)
class Values:
    """An array: its dimensions by name ("events+1" is one more) or number, its types, and where its values lie.

    They are finite, unless `is_free`; `above` excludes its bound. An `optional` array may be missing.
    """

    name: str
    shape: tuple[str | int, ...]
    types: tuple[str, ...] = ("float32",)
    least: float = -MOST
    most: float = MOST
    above: float | None = None
    is_free: bool = False
    optional: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The arrays of this part of a file."""
        return (self.name,)

    def check(self, arrays: Mapping[str, npt.NDArray[Any]], sizes: Sizes) -> None:
        """Raise ModelFileError unless the arrays are as declared; add the sizes that they set."""
        if self.name not in arrays and self.optional:
            return
        if self.name not in arrays:
            raise ModelFileError(f"array {self.name!r} is missing")
        array = arrays[self.name]
        if _name_of(array.dtype) not in self.types:
            raise ModelFileError(f"array {self.name!r} is of type {array.dtype}; it must be {' or '.join(self.types)}")
        _check_shape(self.name, array.shape, self.shape, sizes)
        if self.is_free or array.size == 0:
            return
        # A comparison with NaN is false: that is refused too, without another array of this size.
        least, most = array.min(), array.max()
        if not (least >= self.least and most <= self.most and (self.above is None or least > self.above)):
            low = f"> {self.above:g}" if self.above is not None else f">= {self.least:g}"
            found = f"array {self.name!r} has values from {least} to {most}"
            raise ModelFileError(f"{found}; they must be {low} and <= {self.most:g}")


@dataclass(frozen=True)
class SparseArray:
    """A csr array of a shape (rows, columns), with its values or all ones; `entries` names the number of its entries.

    Columns rise within a row, as kernels that search them need, if `is_sorted`. A row has at most `most_in_row`.
    Every entry is also one of the sparse array `inside`, which is sorted, of the same shape, and declared before.
    """

    name: str
    shape: tuple[str | int, str | int]
    values: Values | None
    entries: str = ""
    is_sorted: bool = True
    most_in_row: int | None = None
    inside: str | None = None

    @classmethod
    def of(cls, name: str, shape: tuple[str | int, str | int], inside: str | None = None) -> SparseArray:
        """Return the declaration of one with values."""
        entries = f"entries of {name}"
        return cls(name, shape, Values(f"{name}.data", (entries,)), entries, inside=inside)

    @property
    def names(self) -> tuple[str, ...]:
        """The arrays of this part of a file."""
        return f"{self.name}.indptr", f"{self.name}.indices", *(self.values.names if self.values else ())

    def check(self, arrays: Mapping[str, npt.NDArray[Any]], sizes: Sizes) -> None:
        """Raise ModelFileError unless the arrays are as declared; add the sizes that they set."""
        pointers, indices = self.names[:2]
        rows, columns = (each if isinstance(each, int) else sizes[each] for each in self.shape)
        Values(pointers, (rows + 1,), WHOLE).check(arrays, sizes)
        Values(indices, (self.entries,), WHOLE, least=0, most=columns - 1).check(arrays, sizes)
        if self.values is not None:
            self.values.check(arrays, sizes)
        _check_rows(self.name, arrays[pointers], arrays[indices], is_sorted=self.is_sorted)
        if self.most_in_row is not None and (np.diff(arrays[pointers]) > self.most_in_row).any():
            raise ModelFileError(f"array {pointers!r} has rows of more than {self.most_in_row} entries")
        if self.inside is not None and len(arrays[indices]):
            mine, others = (_number_cells(arrays, name, columns) for name in (self.name, self.inside))
            places = np.minimum(np.searchsorted(others, mine), len(others) - 1)
            if (is_outside := others[places] != mine if len(others) else np.ones(len(mine), np.bool_)).any():
                row = mine[is_outside.argmax()] // columns
                raise ModelFileError(f"array {indices!r} has entries of row {row} that {self.inside!r} does not have")


@dataclass(frozen=True)
class Texts:
    """Strings, of which some may be missing: UTF-8 bytes, the end of each string, and which strings there are."""

    name: str
    size: str

    @property
    def names(self) -> tuple[str, ...]:
        """The arrays of this part of a file."""
        return f"{self.name}.text", f"{self.name}.ends", f"{self.name}.there"

    def check(self, arrays: Mapping[str, npt.NDArray[Any]], sizes: Sizes) -> None:
        """Raise ModelFileError unless the arrays are as declared; add the sizes that they set."""
        text, ends, there = self.names
        Values(text, (f"bytes of {self.name}",), ("uint8",), is_free=True).check(arrays, sizes)
        Values(ends, (self.size,), ("int64",)).check(arrays, sizes)
        Values(there, (self.size,), ("bool",), is_free=True).check(arrays, sizes)
        bounds = arrays[ends]
        length = int(bounds[-1]) if len(bounds) else 0
        is_rising = not len(bounds) or (bounds[0] >= 0 and bool((bounds[1:] >= bounds[:-1]).all()))
        if length != len(arrays[text]) or not is_rising:
            raise ModelFileError(f"array {ends!r} does not cut {len(arrays[text])} bytes into texts")


@dataclass(frozen=True)
class Ids:
    """Ids, whole numbers or texts; their number is the size of that name."""

    name: str

    @property
    def names(self) -> tuple[str, ...]:
        """The arrays of this part of a file."""
        return self.name, *Texts(self.name, self.name).names

    def check(self, arrays: Mapping[str, npt.NDArray[Any]], sizes: Sizes) -> None:
        """Raise ModelFileError unless the arrays are as declared; add the sizes that they set."""
        if self.name in arrays:
            if arrays.keys() & set(self.names[1:]):
                raise ModelFileError(f"the ids of {self.name} are there twice, as numbers and as texts")
            Values(self.name, (self.name,), ("int64",), is_free=True).check(arrays, sizes)
        else:
            Texts(self.name, self.name).check(arrays, sizes)
            if not arrays[f"{self.name}.there"].all():
                raise ModelFileError(f"an id of {self.name} is missing")


class OptionalGroup:
    """Parts that a file has together or not at all."""

    def __init__(self, *parts: FilePart) -> None:
        self.parts = parts
        self.names: tuple[str, ...] = tuple(name for part in parts for name in part.names)

    def check(self, arrays: Mapping[str, npt.NDArray[Any]], sizes: Sizes) -> None:
        """Raise ModelFileError if there are any of the arrays, and they are not as declared."""
        if arrays.keys() & set(self.names):
            for part in self.parts:
                part.check(arrays, sizes)


FilePart = Values | SparseArray | Texts | Ids | OptionalGroup


@dataclass(frozen=True)
class NoFacts:
    """The facts of a model whose state is arrays alone."""


@dataclass(frozen=True)
class FileSchema:
    """The declaration of a model's file: arrays, and the fields of a dataclass, which are its facts.

    A file may hold other arrays and facts too if `is_open`.
    """

    arrays: tuple[FilePart, ...]
    facts: type[Any] = NoFacts
    is_open: bool = False

    def check(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Sizes:
        """Return the sizes of the dimensions; raise ModelFileError unless the arrays are those declared."""
        sizes: Sizes = {}
        for part in self.arrays:
            part.check(arrays, sizes)
        known = {name for part in self.arrays for name in part.names}
        if not self.is_open and (unknown := sorted(arrays.keys() - known)):
            raise ModelFileError(f"arrays that this csrr does not know: {', '.join(map(repr, unknown[:5]))}")
        return sizes

    def read_facts(self, facts: Any) -> dict[str, Any]:
        """Return the facts by name, records among them made of plain values."""
        found = vars(read_record(self.facts, facts, "facts", is_open=self.is_open))
        return {**facts, **found} if self.is_open else dict(found)


@cache
def _name_of(dtype: np.dtype[Any]) -> str:
    return dtype.name


def _check_shape(name: str, shape: tuple[int, ...], wanted: tuple[str | int, ...], sizes: Sizes) -> None:
    """Raise ModelFileError unless a shape is as wanted; a dimension whose size is not known sets it."""
    found = []
    for length, dimension in zip(shape, wanted, strict=False):
        if isinstance(dimension, int):
            found.append(dimension)
            continue
        base, _, more = dimension.partition("+")
        found.append(sizes.setdefault(base, max(length - int(more or 0), 0)) + int(more or 0))
    if len(shape) != len(wanted) or tuple(found) != shape:
        words = f"({', '.join(map(str, wanted))}{',' * (len(wanted) == 1)})"
        meant = f" = {tuple(found)}" if len(found) == len(wanted) else ""
        raise ModelFileError(f"array {name!r} has shape {shape}; it must be {words}{meant}")


def _check_rows(name: str, pointers: npt.NDArray[Any], indices: npt.NDArray[Any], *, is_sorted: bool) -> None:
    """Raise ModelFileError unless pointers cut indices into rows, and these rise within a row."""
    if pointers[0] != 0 or pointers[-1] != len(indices) or not bool((pointers[1:] >= pointers[:-1]).all()):
        raise ModelFileError(f"array '{name}.indptr' does not cut {len(indices)} entries into rows")
    if is_sorted and len(indices) > 1:
        rises = indices[1:] > indices[:-1]
        starts = pointers[1:-1]
        rises[starts[(starts > 0) & (starts < len(indices))] - 1] = True
        if not rises.all():
            at = int(rises.argmin()) + 1
            raise ModelFileError(f"array '{name}.indices' does not rise within a row, at entry {at}")


def _number_cells(arrays: Mapping[str, npt.NDArray[Any]], name: str, columns: int) -> npt.NDArray[np.int64]:
    """Return row * columns + column of each entry of a sparse array, (n_entries,)."""
    pointers = arrays[f"{name}.indptr"]
    cells = np.repeat(np.arange(len(pointers) - 1, dtype=np.int64) * columns, np.diff(pointers))
    cells += arrays[f"{name}.indices"]
    return cells


# Plain values


def read_record(kind: type[Any], value: Any, where: str, *, is_open: bool = False) -> Any:
    """Return a dataclass or named tuple of plain values, each checked by the type of its field."""
    if not isinstance(value, dict):
        raise ModelFileError(f"{where}: must be names and values, not {_shown(value)}")
    hints: dict[str, Any] = _list_fields(kind)  # type: ignore[arg-type]
    if (unknown := sorted(value.keys() - hints.keys())) and not is_open:
        raise ModelFileError(f"{where}: this csrr does not know {', '.join(map(repr, unknown[:5]))}")
    # What a file of an older csrr did not have.
    later = (
        {each.name for each in dataclasses.fields(kind) if each.default is not dataclasses.MISSING}
        if dataclasses.is_dataclass(kind)
        else set()
    )
    if missing := [name for name in hints if name not in value and name not in later]:
        raise ModelFileError(f"{where}: {missing[0]!r} is missing")
    there = {name: hint for name, hint in hints.items() if name in value}
    return kind(**{name: _read_value(hint, value[name], f"{where}, {name}") for name, hint in there.items()})


def write_record(value: Any) -> Any:
    """Return a dataclass or named tuple as plain values; anything else as it is."""
    if hasattr(value, "_asdict"):
        return {name: write_record(each) for name, each in value._asdict().items()}
    if dataclasses.is_dataclass(value):
        return {each.name: write_record(getattr(value, each.name)) for each in dataclasses.fields(value)}
    return value


@cache
def _list_fields(kind: Any) -> dict[str, Any]:
    """Return the type of each field by name."""
    hints = get_type_hints(kind, include_extras=True)
    names = kind._fields if hasattr(kind, "_fields") else [each.name for each in dataclasses.fields(kind)]
    return {name: hints[name] for name in names}


_NUMBER = Number()


def _read_value(hint: Any, value: Any, where: str) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        declared = read_declaration(hint, where.split(", ")[-1])
        try:
            declared.check(value)
        except ParameterError as error:
            raise ModelFileError(f"{where}: {shorten(str(error))}") from None
        return float(value) if isinstance(declared, Number) and isinstance(value, int) else value
    if origin is types.UnionType:
        if value is None and types.NoneType in inner:
            return None
        (hint,) = (each for each in inner if each is not types.NoneType)
        return _read_value(hint, value, where)
    if isinstance(hint, type) and hint not in (bool, int, float, str):
        return read_record(hint, value, where)
    if not _is_plain(hint, value):
        words = {bool: "true or false", int: "a whole number", float: "a finite number", str: "a text"}
        wanted = words[hint] if origin is not Literal else f"one of {', '.join(map(repr, inner))}"
        raise ModelFileError(f"{where}: must be {wanted}, not {_shown(value)}")
    return float(value) if hint is float else value


def _is_plain(hint: Any, value: Any) -> bool:
    if get_origin(hint) is Literal:
        return isinstance(value, str) and value in get_args(hint)
    if hint is float:
        return _NUMBER.allows(value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    return isinstance(value, hint)


def _shown(value: Any) -> str:
    return shorten(repr(value))


def shorten(text: str, length: int = 200) -> str:
    """Return a text for a message, cut to a length."""
    return text if len(text) <= length else f"{text[:length]}..."


def text_arrays(name: str, texts: npt.NDArray[Any]) -> Arrays:
    """Return strings, or None, as arrays: UTF-8 bytes, the end of each, and which are there."""
    raw = [b"" if text is None else str(text).encode("utf-8", "surrogatepass") for text in texts]
    return {
        f"{name}.text": np.frombuffer(b"".join(raw), np.uint8),
        f"{name}.ends": np.cumsum([len(part) for part in raw], dtype=np.int64),
        f"{name}.there": np.array([text is not None for text in texts], np.bool_),
    }


def text_from(arrays: Arrays, name: str) -> npt.NDArray[np.object_]:
    """Return the strings that `text_arrays` made arrays of."""
    column = _text_column(arrays, name)
    try:
        column.validate(full=True)
        found: npt.NDArray[np.object_] = column.to_numpy(zero_copy_only=False)
        return found
    except pa.ArrowInvalid:
        # Halves of surrogate pairs, which strings of Python may have, and those of Arrow may not.
        return _lone_surrogates(arrays, name)


def _lone_surrogates(arrays: Arrays, name: str) -> npt.NDArray[np.object_]:
    data, ends, there = (arrays[f"{name}.{part}"] for part in ("text", "ends", "there"))
    out = np.empty(len(ends), np.object_)
    raw, start = data.tobytes(), 0
    for place, end in enumerate(ends.tolist()):
        try:
            out[place] = raw[start:end].decode("utf-8", "surrogatepass") if there[place] else None
        except UnicodeDecodeError:
            raise ModelFileError(f"array '{name}.text' holds bytes that are no text, at {start}") from None
        start = end
    return out


def _text_column(arrays: Arrays, name: str) -> pa.Array:
    """Return the strings as an Arrow array, which needs no Python object for each."""
    text, ends, there = (arrays[f"{name}.{part}"] for part in ("text", "ends", "there"))
    starts = pa.py_buffer(np.concatenate(([0], ends)).astype(np.int64))
    valid = pa.py_buffer(np.packbits(there, bitorder="little"))
    return pa.LargeStringArray.from_buffers(len(ends), starts, pa.py_buffer(np.ascontiguousarray(text)), valid)


def sparse_arrays(name: str, matrix: Any, *, with_data: bool = True) -> Arrays:
    """Return the arrays of a csr array; without its data if these are all ones."""
    parts = {f"{name}.indptr": matrix.indptr, f"{name}.indices": matrix.indices}
    return parts | {f"{name}.data": matrix.data} if with_data else parts


def sparse_from(arrays: Arrays, name: str, shape: Any) -> Any:
    """Return the csr array that `sparse_arrays` made arrays of."""
    indices = arrays[f"{name}.indices"]
    data = arrays.get(f"{name}.data", np.ones(len(indices), np.float32))
    return sparse.csr_array((data, indices, arrays[f"{name}.indptr"]), shape=shape)
