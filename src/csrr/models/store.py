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
from dataclasses import astuple, fields
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import sparse

from csrr.data import IdMap
from csrr.files import atomic_write
from csrr.models.kept import (
    FLOATS,
    Arrays,
    Ids,
    Kept,
    ModelFileError,
    Part,
    Sizes,
    Sparse,
    Texts,
    Values,
    write_record,
)
from csrr.optim.solver import Step
from csrr.parameters import fitted_names, is_fitted_name
from csrr.ranking.calibration import Calibration
from csrr.registry import HOMES

if TYPE_CHECKING:
    from csrr.models.recommender import Recommender

MAGIC = b"CSRRMODL"
VERSION = 1
LARGEST_HEADER, DEEPEST = 2**22, 32
"""Bytes of the header, and how deep its lists and objects may lie in each other: both far beyond any model's."""
_START = struct.Struct("<8sIQ")
_DIGEST = 32
_PREFIX = _START.size + _DIGEST
_ALIGN = 64
_TYPES = {
    "bool",
    "float16",
    "float32",
    "float64",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
}
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\Z)', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")

State = tuple[Arrays, dict[str, Any]]

# What every model keeps of its training log

COMMON: tuple[Part, ...] = (
    Ids("users"),
    Ids("items"),
    Texts("titles", "items", optional=True),
    Sparse("seen", ("users", "items"), None, "events"),
)
_BIN = ("edges+1",)
CALIBRATION: tuple[Part, ...] = (
    Values("calibration.edges", ("edges",), least=-np.inf, most=np.inf),
    Values("calibration.n_cells", _BIN, ("int64",), least=0),
    Values("calibration.n_positives", _BIN, ("int64",), least=0),
    Values("calibration.probabilities", _BIN, ("float64",), least=0, most=1),
    Values("calibration.numbers", (2,), ("float64",), least=0),
)
STEPS = Values("history", ("steps", len(fields(Step))), ("float64",), is_free=True)


def factors(rank: str = "rank") -> tuple[Part, ...]:
    """Return the parts that factors of users and items are, float32 of shapes (n_users, d) and (n_items, d)."""
    return Values("user_factors", ("users", rank)), Values("item_factors", ("items", rank))


# The file


def write(path: str | os.PathLike[str], header: dict[str, Any], arrays: Arrays) -> None:
    """Write a model file; whatever goes wrong, a file that was there before stays as it was."""
    places, offset = [], 0
    for name, array in arrays.items():
        if array.dtype.name not in _TYPES:
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
            raise ModelFileError("not a csrr model (its first bytes are not ours)")
        # The bytes are read, not mapped: a file that changed under a map would change, or end, the model.
        body = file.read()
    if len(start) < _PREFIX:
        raise ModelFileError("the file is cut short; copy or save it again")
    _, version, length = _START.unpack_from(start)
    if version > VERSION:
        raise ModelFileError(f"written by a newer csrr (format {version}, this one reads up to {VERSION})")
    digest = hashlib.sha256(start[: _START.size])
    digest.update(body)
    if digest.digest() != start[_START.size :]:
        raise ModelFileError("the checksum does not match: the file is cut short or altered; save it again")
    if not 0 < length <= min(len(body), LARGEST_HEADER) or (_PREFIX + length) % _ALIGN or version < 1:
        raise ModelFileError(f"a header of {length:,} bytes is none of ours (format {version})")
    header = read_header(body[:length])
    return header, _find_arrays(memoryview(body)[length:], header.pop("arrays"))


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


def _find_arrays(payload: memoryview, places: list[Any]) -> Arrays:
    """Return the arrays by name; each begins where the one before it ends, and together they are the payload."""
    arrays: Arrays = {}
    offset = 0
    for place in places:
        name, dtype, shape = _check_place(place, arrays, len(payload))
        size = math.prod(shape) * dtype.itemsize
        if place["offset"] != offset or offset + size > len(payload):
            raise ModelFileError(f"array {name!r} of {size:,} bytes is not where it must be, at {offset:,}")
        arrays[name] = np.frombuffer(payload[offset : offset + size], dtype).reshape(shape)
        if dtype == np.bool_ and size and int(arrays[name].view(np.uint8).max()) > 1:
            raise ModelFileError(f"array {name!r} has values that are neither true nor false")
        offset += _padded(size)
    if offset != len(payload):
        raise ModelFileError(f"the arrays take {offset:,} bytes, and there are {len(payload):,}")
    return arrays


def _check_place(place: Any, before: Arrays, length: int) -> tuple[str, np.dtype[Any], tuple[int, ...]]:
    """Return name, type and shape of an array that could be in a payload of this length."""
    if not isinstance(place, dict) or place.keys() != {"name", "dtype", "shape", "offset"}:
        raise ModelFileError("an array is not said by name, dtype, shape and offset")
    name, dtype, shape = place["name"], place["dtype"], place["shape"]
    if not isinstance(name, str) or name in before:
        raise ModelFileError(f"an array has the name {str(name)[:100]!r}, which is no name, or there twice")
    if not isinstance(dtype, str) or dtype not in _TYPES:
        raise ModelFileError(f"array {name!r} has the unknown type {str(dtype)[:100]!r}")
    # A dimension of 0 makes the others free of cost in the file, not in memory.
    is_size = isinstance(shape, list) and len(shape) <= 8 and all(type(n) is int and 0 <= n <= length for n in shape)
    if not is_size:
        raise ModelFileError(f"array {name!r} has the shape {str(shape)[:100]}, which no array in this file can have")
    return name, np.dtype(dtype).newbyteorder("<"), tuple(shape)


def _padded(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a parameter of type {type(value).__name__} cannot be saved")


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


def ids_arrays(name: str, ids: IdMap) -> Arrays:
    """The ids of a map, integers or strings."""
    return {name: ids.ids} if ids.ids.dtype.kind == "i" else text_arrays(name, ids.ids)


def ids_from(arrays: Arrays, name: str) -> IdMap:
    """What `ids_arrays` was given; ids that are in no order would stand for other rows."""
    found = arrays[name] if name in arrays else text_from(arrays, name)
    ids = IdMap(found)
    if not np.array_equal(ids.ids, found):
        raise ModelFileError(f"the ids of {name} are not in order")
    return ids


def step_arrays(history: list[Step]) -> Arrays:
    """The steps of a fit, a row each."""
    return {"history": np.array([astuple(step) for step in history], np.float64).reshape(-1, len(fields(Step)))}


def steps_from(arrays: Arrays) -> list[Step]:
    """What `step_arrays` was given."""
    if not (np.abs(arrays["history"][:, [0, 3]]) < 2**53).all():
        raise ModelFileError("array 'history' counts steps and ranks by what is no number")
    return [Step(int(i), o, g, int(r), t) for i, o, g, r, t in arrays["history"].tolist()]


def sparse_arrays(name: str, matrix: Any, *, with_data: bool = True) -> Arrays:
    """The parts of a csr array; without its data, for one that is all ones."""
    parts = {f"{name}.indptr": matrix.indptr, f"{name}.indices": matrix.indices}
    return parts | {f"{name}.data": matrix.data} if with_data else parts


def sparse_from(arrays: Arrays, name: str, shape: Any) -> Any:
    """What `sparse_arrays` was given."""
    indices = arrays[f"{name}.indices"]
    data = arrays.get(f"{name}.data", np.ones(len(indices), np.float32))
    return sparse.csr_array((data, indices, arrays[f"{name}.indptr"]), shape=shape)


# A model


def kept_by(model: Recommender, arrays: Arrays) -> tuple[Kept, bool]:
    """Return what a file of the model may hold, and whether others may be there: a model of one's own says itself."""
    common = COMMON + (CALIBRATION if any(name.startswith("calibration.") for name in arrays) else ())
    own = model.kept
    is_ours = own is not None and type(model).__name__ in HOMES
    return (Kept(common) if own is None else Kept(common + own.arrays, own.facts)), not is_ours


def write_model(path: str | os.PathLike[str], model: Recommender) -> None:
    """Write a fitted model: its parameters, what recommending needs of the training log, and its own state."""
    own, facts = model.state()
    arrays: Arrays = {**ids_arrays("users", model.users_), **ids_arrays("items", model.items_)}
    if model.titles_ is not None:
        arrays |= text_arrays("titles", model.titles_)
    arrays |= sparse_arrays("seen", model.seen_, with_data=False)
    if model.calibration_ is not None:
        arrays |= model.calibration_.arrays()
    arrays |= own
    # What could not be read again is not written.
    model.check_params()
    kept, others = kept_by(model, arrays)
    kept.check(arrays, {}, others=others)
    facts = {name: write_record(value) for name, value in facts.items()}
    write(path, {"model": type(model).__name__, "params": model.get_params(), "facts": facts}, arrays)


def restore_model(model: Recommender, arrays: Arrays, facts: dict[str, Any]) -> None:
    """Set what `write_model` wrote of a fitted model, but for its parameters, once it is what the model declares."""
    kept, others = kept_by(model, arrays)
    sizes: Sizes = {}
    kept.check(arrays, sizes, others=others)
    facts = kept.read_facts(facts, others=others)
    model.users_, model.items_ = ids_from(arrays, "users"), ids_from(arrays, "items")
    model.titles_ = text_from(arrays, "titles") if "titles.text" in arrays else None
    model.seen_ = sparse_from(arrays, "seen", (sizes["users"], sizes["items"]))
    model.calibration_ = Calibration.from_arrays(arrays)
    model.restore(arrays, facts)
    if model.has_factors and model.kept is None:
        own = {name: getattr(model, f"{name}_", np.empty(0)) for name in ("user_factors", "item_factors")}
        for name, rows in (("user_factors", "users"), ("item_factors", "items")):
            Values(name, (rows, "rank"), FLOATS).check(own, sizes)


def plain_state(model: Recommender) -> State:
    """Return the fitted attributes of a model, as far as they are arrays, sparse arrays or plain values."""
    arrays: Arrays = {}
    facts: dict[str, Any] = {}
    for name in fitted_names(model):
        value: Any = getattr(model, name)
        if isinstance(value, sparse.csr_array):
            arrays |= sparse_arrays(name, value)
            facts[name] = {"shape": list(value.shape)}
        elif isinstance(value, np.ndarray):
            arrays[name] = value
        elif value is None or isinstance(value, bool | int | float | str | np.generic):
            facts[name] = value
        else:
            raise NotImplementedError(
                f"{type(model).__name__}.{name}, a {type(value).__name__}, cannot be saved as it is: write the methods"
                " state and restore"
            )
    return arrays, facts


def restore_plain(model: Recommender, arrays: Arrays, facts: dict[str, Any]) -> None:
    """Set what `plain_state` returned, and nothing else: a file must not set what is no fitted attribute."""
    taken = {name for part in COMMON + CALIBRATION for name in part.names}
    for name, value in facts.items():
        if not is_fitted_name(name) or name in arrays:
            raise ModelFileError(f"a fact {name!r} is no fitted attribute of a {type(model).__name__}")
        if isinstance(value, dict):
            taken |= {f"{name}.{part}" for part in ("indptr", "indices", "data")}
            setattr(model, name, sparse_from(arrays, name, _check_plain_sparse(arrays, name, value)))
        elif value is None or isinstance(value, bool | int | float | str):
            setattr(model, name, value)
        else:
            raise ModelFileError(f"the fact {name!r} is a {type(value).__name__}, not a plain value")
    for name in arrays.keys() - taken:
        if not is_fitted_name(name):
            raise ModelFileError(f"an array {name!r} is no fitted attribute of a {type(model).__name__}")
        setattr(model, name, arrays[name])


def _check_plain_sparse(arrays: Arrays, name: str, value: dict[str, Any]) -> tuple[int, int]:
    """Return the shape of a csr array of any type."""
    shape = value.get("shape")
    is_shape = isinstance(shape, list) and len(shape) == 2 and all(type(n) is int and 0 <= n < 2**31 for n in shape)
    if value.keys() != {"shape"} or shape is None or not is_shape:
        raise ModelFileError(f"the fact {name!r} is not the shape of a sparse array")
    entries = f"entries of {name}"
    data = Values(f"{name}.data", (entries,), tuple(_TYPES), is_free=True)
    Sparse(name, (shape[0], shape[1]), data, entries, is_sorted=False).check(arrays, {})
    return shape[0], shape[1]
