"""Names for the kinds of arrays."""

from __future__ import annotations

from typing import Any

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
Array = NDArray[Any]
"""Of any kind."""
