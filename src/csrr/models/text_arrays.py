"""Texts and sparse arrays as plain arrays, which a model file holds, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import sparse

from csrr.models.kept import Arrays, ModelFileError


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
