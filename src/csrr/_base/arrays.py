"""Names of array types, one meaning each (docstrings say the shapes); Arrow tables for pandas; optional modules."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

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


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Return an Arrow table as a pandas DataFrame."""
    import_optional("pandas", "to_frame", "pandas")
    frame: pd.DataFrame = table.to_pandas()
    return frame


def import_optional(module: str, needed_for: str, extra: str) -> Any:
    """Return a module that csrr does not need otherwise; an ImportError says how to install it."""
    try:
        return import_module(module)
    except ImportError:
        raise ImportError(f"{needed_for} needs {module}: pip install 'csrr[{extra}]'") from None
