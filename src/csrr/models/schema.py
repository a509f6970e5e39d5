"""Texts and sparse arrays as plain arrays, which a model file holds, and back."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, Protocol, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import sparse

from csrr.parameters import Number, ParameterError, read_declaration

Arrays = dict[str, npt.NDArray[Any]]
Sizes = dict[str, int]
"""What the dimensions come to: "users" and "items" of every model, and those that its arrays share."""

MOST = 1e15
"""The largest value in size: far beyond any use, and products of two of them are far within float32."""
WHOLE = ("int32", "int64")
FLOATS = ("float32", "float64")


class ModelFileError(ValueError):
    """Raised for a file that is not a complete csrr model."""


class FilePart(Protocol):
    """Something that is kept: one array, or several that make one thing."""

    @property
    def names(self) -> tuple[str, ...]:
        """The arrays that it is made of."""
        ...

    def check(self, arrays: Mapping[str, npt.NDArray[Any]], sizes: Sizes) -> None:
        """Raise ModelFileError unless the arrays are as declared; add what sizes they set."""
        ...


@dataclass(frozen=True)
class Values:
    """An array: its dimensions by name ("events+1" is one more) or number, its types, and where its values lie.

    Finite they are, unless `is_free`; `above` excludes its bound. `optional` says that it may be missing.
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
        return (self.name,)

    def check(self, arrays: Mapping[str, npt.NDArray[Any]], sizes: Sizes) -> None:
        if self.name not in arrays:
            if self.optional:
                return
            raise ModelFileError(f"array {self.name!r} is missing")
        array = arrays[self.name]
        if _name_of(array.dtype) not in self.types:
            raise ModelFileError(f"array {self.name!r} is of type {array.dtype}; it must be {' or '.join(self.types)}")
        _check_shape(self.name, array.shape, self.shape, sizes)
        if self.is_free or array.size == 0:
            return
        # A comparison with NaN is false: that is refused too, and nothing of the array's size is made.
        least, most = array.min(), array.max()
        if not (least >= self.least and most <= self.most and (self.above is None or least > self.above)):
            low = f"> {self.above:g}" if self.above is not None else f">= {self.least:g}"
            found = f"array {self.name!r} has values from {least} to {most}"
            raise ModelFileError(f"{found}; they must be {low} and <= {self.most:g}")


@dataclass(frozen=True)
class SparseArray:
    """A csr array of a shape (rows, columns), with its values or all ones; `events` names the number of its entries.

    Columns rise within a row, as kernels that search them rely on, unless `is_sorted` is not asked for.
    """

    name: str
    shape: tuple[str | int, str | int]
    values: Values | None
    entries: str = ""
    optional: bool = False
    is_sorted: bool = True

    @classmethod
    def of(cls, name: str, shape: tuple[str | int, str | int], *, optional: bool = False) -> SparseArray:
        """One with values."""
        entries = f"entries of {name}"
        return cls(name, shape, Values(f"{name}.data", (entries,)), entries, optional)

    @property
    def names(self) -> tuple[str, ...]:
        return f"{self.name}.indptr", f"{self.name}.indices", *(self.values.names if self.values else ())

    def check(self, arrays: Mapping[str, npt.NDArray[Any]], sizes: Sizes) -> None:
        if self.optional and not arrays.keys() & set(self.names):
            return
        pointers, indices = self.names[:2]
        rows, columns = (each if isinstance(each, int) else sizes[each] for each in self.shape)
        Values(pointers, (rows + 1,), WHOLE).check(arrays, sizes)
        Values(indices, (self.entries,), WHOLE, least=0, most=columns - 1).check(arrays, sizes)
        if self.values is not None:
            self.values.check(arrays, sizes)
        _check_rows(self.name, arrays[pointers], arrays[indices], is_sorted=self.is_sorted)


@dataclass(frozen=True)
class Texts:
    """Strings, some of them perhaps missing: UTF-8 bytes, where each ends, and which are there."""

    name: str
    size: str
    optional: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return f"{self.name}.text", f"{self.name}.ends", f"{self.name}.there"

    def check(self, arrays: Mapping[str, npt.NDArray[Any]], sizes: Sizes) -> None:
        if self.optional and not arrays.keys() & set(self.names):
            return
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
    """Ids, which set the size of their name: whole numbers, or texts."""

    name: str

    @property
    def names(self) -> tuple[str, ...]:
        return self.name, *Texts(self.name, self.name).names

    def check(self, arrays: Mapping[str, npt.NDArray[Any]], sizes: Sizes) -> None:
        if self.name in arrays:
            if arrays.keys() & set(self.names[1:]):
                raise ModelFileError(f"the ids of {self.name} are there twice, as numbers and as texts")
            Values(self.name, (self.name,), ("int64",), is_free=True).check(arrays, sizes)
        else:
            Texts(self.name, self.name).check(arrays, sizes)
            if not arrays[f"{self.name}.there"].all():
                raise ModelFileError(f"an id of {self.name} is missing")


@dataclass(frozen=True)
class NoFacts:
    """Nothing beside arrays."""


@dataclass(frozen=True)
class FileSchema:
    """What a model keeps: its arrays, and a dataclass whose fields are its plain facts.

    A field with a default may be missing, as in files from before there was one.
    """

    arrays: tuple[FilePart, ...]
    facts: type[Any] = NoFacts

    def check(self, arrays: Mapping[str, npt.NDArray[Any]], sizes: Sizes, *, others: bool) -> None:
        """Raise ModelFileError unless the arrays are those declared; `others` may be there too."""
        for part in self.arrays:
            part.check(arrays, sizes)
        if others:
            return
        known = {name for part in self.arrays for name in part.names}
        if unknown := sorted(arrays.keys() - known):
            raise ModelFileError(f"arrays that this csrr does not know: {', '.join(map(repr, unknown[:5]))}")

    def read_facts(self, facts: Any, *, others: bool) -> dict[str, Any]:
        """Return the facts by name, records among them made of plain values; `others` may be there too."""
        found = vars(read_record(self.facts, facts, "facts", others=others))
        return {**facts, **found} if others else dict(found)


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


# Plain values


def read_record(kind: type[Any], value: Any, where: str, *, others: bool = False) -> Any:
    """Return a dataclass or named tuple of plain values, each checked by the type of its field."""
    if not isinstance(value, dict):
        raise ModelFileError(f"{where}: must be names and values, not {_shown(value)}")
    fields: dict[str, tuple[Any, bool]] = _fields_of(kind)  # type: ignore[arg-type]
    if (unknown := sorted(value.keys() - fields.keys())) and not others:
        raise ModelFileError(f"{where}: this csrr does not know {', '.join(map(repr, unknown[:5]))}")
    found = {}
    for name, (hint, is_needed) in fields.items():
        if name in value:
            found[name] = _read_value(hint, value[name], f"{where}, {name}")
        elif is_needed:
            raise ModelFileError(f"{where}: {name!r} is missing")
    return kind(**found)


def write_record(value: Any) -> Any:
    """Return a dataclass or named tuple as plain values; anything else as it is."""
    if hasattr(value, "_asdict"):
        return {name: write_record(each) for name, each in value._asdict().items()}
    if dataclasses.is_dataclass(value):
        return {each.name: write_record(getattr(value, each.name)) for each in dataclasses.fields(value)}
    return value


@cache
def _fields_of(kind: Any) -> dict[str, tuple[Any, bool]]:
    """Return the type of each field by name, and whether a value must be given."""
    hints = get_type_hints(kind, include_extras=True)
    if dataclasses.is_dataclass(kind):
        return {each.name: (hints[each.name], each.default is dataclasses.MISSING) for each in dataclasses.fields(kind)}
    return {name: (hints[name], name not in kind._field_defaults) for name in kind._fields}


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
    """Return a text for a message, cut where it is too long for one."""
    return text if len(text) <= length else f"{text[:length]}..."


def text_arrays(name: str, texts: npt.NDArray[Any]) -> Arrays:
    """Strings or None as UTF-8 bytes, their ends, and which are there."""
    raw = [b"" if text is None else str(text).encode("utf-8", "surrogatepass") for text in texts]
    return {
        f"{name}.text": np.frombuffer(b"".join(raw), np.uint8),
        f"{name}.ends": np.cumsum([len(part) for part in raw], dtype=np.int64),
        f"{name}.there": np.array([text is not None for text in texts], np.bool_),
    }


def text_from(arrays: Arrays, name: str) -> npt.NDArray[np.object_]:
    """What `text_arrays` was given."""
    column = _text_column(arrays, name)
    try:
        column.validate(full=True)
        found: npt.NDArray[np.object_] = column.to_numpy(zero_copy_only=False)
        return found
    except pa.ArrowInvalid:
        # Halves of surrogate pairs, which Python's texts may have and Arrow's not.
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
    """The same as an Arrow array, which costs no object for each."""
    text, ends, there = (arrays[f"{name}.{part}"] for part in ("text", "ends", "there"))
    starts = pa.py_buffer(np.concatenate(([0], ends)).astype(np.int64))
    valid = pa.py_buffer(np.packbits(there, bitorder="little"))
    return pa.LargeStringArray.from_buffers(len(ends), starts, pa.py_buffer(np.ascontiguousarray(text)), valid)


def sparse_arrays(name: str, matrix: Any, *, with_data: bool = True) -> Arrays:
    """The parts of a csr array; without its data, for one that is all ones."""
    parts = {f"{name}.indptr": matrix.indptr, f"{name}.indices": matrix.indices}
    return parts | {f"{name}.data": matrix.data} if with_data else parts


def sparse_from(arrays: Arrays, name: str, shape: Any) -> Any:
    """What `sparse_arrays` was given."""
    indices = arrays[f"{name}.indices"]
    data = arrays.get(f"{name}.data", np.ones(len(indices), np.float32))
    return sparse.csr_array((data, indices, arrays[f"{name}.indptr"]), shape=shape)
