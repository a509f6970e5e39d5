"""The file of a saved model: one file, no pickle, written at once or not at all, refused if altered.

Layout: 8 bytes magic, version (uint32), length of the header (uint64), SHA-256 of all else, the header (JSON: model,
parameters, facts, and name, type, shape and place of each array), then the arrays, 64-byte aligned.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from dataclasses import astuple, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt
from scipy import sparse

from csrr.data import IdMap
from csrr.files import atomic_write
from csrr.optim.solver import Step
from csrr.parameters import list_fitted_names
from csrr.ranking.calibration import Calibration

if TYPE_CHECKING:
    from csrr.models.recommender import Recommender

MAGIC = b"CSRRMODL"
VERSION = 1
_START = struct.Struct("<8sIQ")
_DIGEST = 32
_PREFIX = _START.size + _DIGEST
_ALIGN = 64
_TYPES = {"float32", "float64", "int32", "int64", "uint8", "bool"}

Arrays = dict[str, npt.NDArray[Any]]
State = tuple[Arrays, dict[str, Any]]


class ModelFileError(ValueError):
    """A file that is not a model of ours, or not a whole one."""


def write(path: str | os.PathLike[str], header: dict[str, Any], arrays: Arrays) -> None:
    """Write a model file; whatever goes wrong, a file that was there before stays as it was."""
    places, offset = [], 0
    for name, array in arrays.items():
        places.append({"name": name, "dtype": array.dtype.name, "shape": array.shape, "offset": offset})
        offset += -(-array.nbytes // _ALIGN) * _ALIGN
    text = json.dumps({**header, "arrays": places}, allow_nan=False, default=_plain).encode()
    text += b" " * (-(len(text) + _PREFIX) % _ALIGN)
    with atomic_write(path) as file:
        _write_parts(file, text, arrays)


def _write_parts(file: BinaryIO, text: bytes, arrays: Arrays) -> None:
    start = _START.pack(MAGIC, VERSION, len(text))
    digest = hashlib.sha256(start + text)
    file.write(start + b"\0" * _DIGEST + text)
    for array in arrays.values():
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        for part in (data.data, b"\0" * (-data.nbytes % _ALIGN)):
            digest.update(part)
            file.write(part)
    file.seek(_START.size)
    file.write(digest.digest())


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays of a model file, once it has proved whole."""
    data = Path(path).read_bytes()
    if data[:8] != MAGIC:
        raise ModelFileError(f"{path}: not a csrr model (its first bytes are not ours)")
    if len(data) < _PREFIX:
        raise ModelFileError(f"{path}: the file is cut short; copy or save it again")
    _, version, length = _START.unpack_from(data)
    if version > VERSION:
        raise ModelFileError(f"{path}: written by a newer csrr (format {version}, this one reads up to {VERSION})")
    body = memoryview(data)[_PREFIX:]
    digest = hashlib.sha256(data[: _START.size])
    digest.update(body)
    if digest.digest() != data[_START.size : _PREFIX]:
        raise ModelFileError(f"{path}: the checksum does not match: the file is cut short or altered; save it again")
    header = json.loads(bytes(body[:length]))
    return header, {place["name"]: _array(path, body[length:], place) for place in header.pop("arrays")}


def _array(path: str | os.PathLike[str], payload: memoryview, place: dict[str, Any]) -> npt.NDArray[Any]:
    if place["dtype"] not in _TYPES:
        raise ModelFileError(f"{path}: array {place['name']!r} has the unknown type {place['dtype']!r}")
    count = int(np.prod(place["shape"], dtype=np.int64))
    flat = np.frombuffer(payload, place["dtype"], count=count, offset=place["offset"])
    return flat.reshape(place["shape"])


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
    data, ends = arrays[f"{name}.text"].tobytes(), arrays[f"{name}.ends"].tolist()
    starts = [0, *ends[:-1]]
    out = np.empty(len(ends), np.object_)
    for place, (start, end, there) in enumerate(zip(starts, ends, arrays[f"{name}.there"].tolist(), strict=True)):
        out[place] = data[start:end].decode("utf-8", "surrogatepass") if there else None
    return out


def ids_arrays(name: str, ids: IdMap) -> Arrays:
    """The ids of a map, integers or strings."""
    return {name: ids.ids} if ids.ids.dtype.kind == "i" else text_arrays(name, ids.ids)


def ids_from(arrays: Arrays, name: str) -> IdMap:
    """What `ids_arrays` was given."""
    return IdMap(arrays[name] if name in arrays else text_from(arrays, name))


def step_arrays(history: list[Step]) -> Arrays:
    """The steps of a fit, a row each."""
    return {"history": np.array([astuple(step) for step in history], np.float64).reshape(-1, len(fields(Step)))}


def steps_from(arrays: Arrays) -> list[Step]:
    """What `step_arrays` was given."""
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


def write_model(path: str | os.PathLike[str], model: Recommender) -> None:
    """Write a fitted model: its parameters, what recommending needs of the training log, and its own state."""
    arrays, facts = model.state()
    common: Arrays = {**ids_arrays("users", model.users_), **ids_arrays("items", model.items_)}
    if model.titles_ is not None:
        common |= text_arrays("titles", model.titles_)
    common |= sparse_arrays("seen", model.seen_, with_data=False)
    if model.calibration_ is not None:
        common |= model.calibration_.arrays()
    header = {"model": type(model).__name__, "params": model.get_params(), "facts": facts}
    write(path, header, {**common, **arrays})


def restore_model(model: Recommender, arrays: Arrays, facts: dict[str, Any]) -> None:
    """Set what `write_model` wrote of a fitted model, but for its parameters."""
    model.users_, model.items_ = ids_from(arrays, "users"), ids_from(arrays, "items")
    model.titles_ = text_from(arrays, "titles") if "titles.text" in arrays else None
    model.seen_ = sparse_from(arrays, "seen", (len(model.users_), len(model.items_)))
    model.calibration_ = Calibration.from_arrays(arrays)
    model.restore(arrays, facts)


def plain_state(model: Recommender) -> State:
    """Return the fitted attributes of a model, as far as they are arrays, sparse arrays or plain values."""
    arrays: Arrays = {}
    facts: dict[str, Any] = {}
    for name in list_fitted_names(model):
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
    """Set what `plain_state` returned."""
    for name, value in facts.items():
        setattr(model, name, sparse_from(arrays, name, value["shape"]) if isinstance(value, dict) else value)
    for name in arrays:
        if name.endswith("_"):
            setattr(model, name, arrays[name])
