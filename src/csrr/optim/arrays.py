"""Names for the kinds of arrays, and arrays of their parts."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
"""Single or double precision, as the data came."""
Singles = NDArray[np.float32]
Doubles = NDArray[np.float64]
Ints = NDArray[np.int32]
"""Row and column numbers."""
Places = NDArray[np.int64]
"""Places in a long array, and counts."""

Kind = TypeVar("Kind", bound=np.generic)


def join_parts(parts: list[NDArray[Kind]]) -> NDArray[Kind]:
    """The parts, each (rows, ...), put together in order, (all rows, ...).

    Takes them out of the list, so that hardly more than one is there twice.
    """
    if len(parts) == 1:
        return parts.pop()
    end = sum(len(part) for part in parts)
    whole = np.empty((end, *parts[0].shape[1:]), parts[0].dtype)
    while parts:
        part = parts.pop()
        whole[end - len(part) : end] = part
        end -= len(part)
    return whole
