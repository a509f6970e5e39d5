"""The file of a saved model: one file, no pickle, written at once or not at all, refused if altered.

Layout: 8 bytes magic, version (uint32), length of the header (uint64), SHA-256 of all else, the header (JSON: model,
parameters, facts, and name, type, shape and place of each array), then the arrays, 64-byte aligned.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
import struct
from collections.abc import Container
from datetime import timedelta
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from csrr.files import atomic_write
from csrr.models.kept import Arrays, ModelFileError

MAGIC = b"CSRRMODL"
VERSION = 1
LARGEST_HEADER, DEEPEST = 2**22, 32
"""Bytes of the header, and how deep its lists and objects may lie in each other: both far beyond any model's."""
_START = struct.Struct("<8sIQ")
_DIGEST = 32
_PREFIX = _START.size + _DIGEST
_ALIGN = 64
_NAMES = ("bool", "float16", "float32", "float64", *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)))
TYPES = {name: np.dtype(name).newbyteorder("<") for name in _NAMES}
_DAMAGED = "the file is cut short or altered; save it again"
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\Z)', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")


def write(path: str | os.PathLike[str], header: dict[str, Any], arrays: Arrays) -> None:
    """Write a model file; whatever goes wrong, a file that was there before stays as it was."""
    places, offset = [], 0
    for name, array in arrays.items():
        if array.dtype.name not in TYPES:
            raise TypeError(f"an array of type {array.dtype}, {name!r}, cannot be saved")
        places.append({"name": name, "dtype": array.dtype.name, "shape": array.shape, "offset": offset})
        offset += _padded(array.nbytes)
    text = json.dumps({**header, "arrays": places}, allow_nan=False, default=_plain).encode()
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


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays of a model file, once it has proved whole: views of its bytes, read-only."""
    # Looked at before it is opened: to open a pipe would wait.
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
        # The arrays are read when the header has told that they are what the file holds: it may be of any size.
        if len(text := file.read(length)) < length:
            raise ModelFileError("the file is cut short; copy or save it again")
        try:
            header = read_header(text)
            layout = _lay_out(header.pop("arrays"), size - _PREFIX - length)
        except ModelFileError as error:
            raise ModelFileError(f"{error}; {_DAMAGED}") from None
        # They are read, not mapped: a file that changed under a map would change, or end, the model.
        payload = file.read()
    digest = hashlib.sha256(start[: _START.size] + text)
    digest.update(payload)
    if digest.digest() != start[_START.size :]:
        raise ModelFileError(f"the checksum does not match: {_DAMAGED}")
    return header, {place.name: place.take(payload) for place in layout}


def read_header(text: bytes) -> dict[str, Any]:
    """Return the header that a text is: the name of a model, params, facts and the places of arrays."""
    # The reader of JSON calls itself for what lies inside: it must not be led too deep.
    brackets = _TEXT.sub(b"", text).translate(_STEPS, _NOT_BRACKETS)
    if np.frombuffer(brackets, np.int8).cumsum(dtype=np.int64).max(initial=0) > DEEPEST:
        raise ModelFileError(f"the header has lists in lists more than {DEEPEST} deep")
    try:
        header = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except ModelFileError:
        raise
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
    """Where an array lies in the payload."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int

    @property
    def size(self) -> int:
        """The number of its bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def take(self, payload: bytes) -> npt.NDArray[Any]:
        """Return the array, a view of the payload."""
        array = np.frombuffer(memoryview(payload)[self.offset : self.offset + self.size], self.dtype)
        if self.dtype == np.bool_ and self.size and int(array.view(np.uint8).max()) > 1:
            raise ModelFileError(f"array {self.name!r} has values that are neither true nor false")
        return array.reshape(self.shape)


def _lay_out(places: list[Any], length: int) -> list[_Place]:
    """Return the places of arrays; each begins where the one before it ends, and together they are the payload."""
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
    """Return the place of an array that could be in a payload of this length."""
    if not isinstance(place, dict) or place.keys() != {"name", "dtype", "shape", "offset"}:
        raise ModelFileError("an array is not said by name, dtype, shape and offset")
    name, dtype, shape, offset = place["name"], place["dtype"], place["shape"], place["offset"]
    if not isinstance(name, str) or name in before:
        raise ModelFileError(f"an array has the name {str(name)[:100]!r}, which is no name, or there twice")
    if not isinstance(dtype, str) or dtype not in TYPES:
        raise ModelFileError(f"array {name!r} has the unknown type {str(dtype)[:100]!r}")
    # A dimension of 0 makes the others free of cost in the file, not in memory.
    is_size = isinstance(shape, list) and len(shape) <= 8 and all(type(n) is int and 0 <= n <= length for n in shape)
    if not is_size:
        raise ModelFileError(f"array {name!r} has the shape {str(shape)[:100]}, which no array in this file can have")
    return _Place(name, TYPES[dtype], tuple(shape), offset)


def _padded(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, timedelta):
        return value / timedelta(days=1)
    raise TypeError(f"a parameter of type {type(value).__name__} cannot be saved")
