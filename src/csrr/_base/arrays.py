"""Names of array types, one meaning each; docstrings say the shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

AnyArray = NDArray[Any]
BoolArray = NDArray[np.bool_]
Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]
Float32Array = NDArray[np.float32]
Float64Array = NDArray[np.float64]
FloatArray = NDArray[np.floating[Any]]
ObjectArray = NDArray[np.object_]

Rows = NDArray[np.integer[Any]]
"""Row numbers of users or of items, of any width."""
