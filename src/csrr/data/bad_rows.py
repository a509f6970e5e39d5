"""Rows that cannot be events: found all at once, left out and told."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from csrr.data.columns import find_bad_numbers, is_number_type, is_text
from csrr.data.errors import DataError, RowNamer
from csrr.data.id_columns import find_bad_ids
from csrr.data.times import find_bad_times

OnBadRows = Literal["error", "skip"]
"""What is done about a row without an id, or with a number or time that is none."""


def drop_bad_rows(
    arrays: Mapping[str, pa.Array],
    where: RowNamer,
    missing: Collection[str] | None,
    types: Collection[str],
    note: Callable[[str], object],
) -> tuple[dict[str, pa.Array], RowNamer]:
    """Return the columns of each role without bad rows, and what names the rows that are left.

    `missing` are the texts that stand for no id, None where ids were not read from text; `types` are the types that
    events may have. `note` is told how many rows were left out.
    """
    n_rows = len(arrays["user"])
    bad = np.zeros(n_rows, bool)
    for role, array in arrays.items():
        bad |= np.asarray(_find_bad(role, array, missing, types).to_numpy(zero_copy_only=False))
    if not bad.any():
        return dict(arrays), where
    kept = np.flatnonzero(~bad)
    if not kept.size:
        raise DataError(
            f"no rows are left: all {n_rows:,} are bad; on_bad_rows='error' says what is wrong with the first"
        )
    note(f"skipped {n_rows - kept.size:,} of {n_rows:,} rows that are bad; the first is {where(int(np.argmax(bad)))}")
    chosen = pa.array(~bad)
    return {role: array.filter(chosen) for role, array in arrays.items()}, lambda row: where(int(kept[row]))


def _find_bad(role: str, array: pa.Array, missing: Collection[str] | None, types: Collection[str]) -> pa.Array:
    """Return which values, shape (n,), cannot be what the role asks for."""
    if role in ("user", "item"):
        return find_bad_ids(array, missing)
    if role == "event":
        return pc.invert(pc.is_in(array, pa.array([*types], array.type)))
    if role == "title":
        return pa.array(np.zeros(len(array), bool))
    if role == "time":
        is_stamp = pa.types.is_timestamp(array.type) or pa.types.is_date(array.type)
        return (
            find_bad_times(array) if is_text(array.type) else array.is_null() if is_stamp else find_bad_numbers(array)
        )
    bad = find_bad_numbers(array)
    if role == "weight" and is_number_type(array.type):
        return pc.or_(bad, pc.less(array.cast(pa.float64(), safe=False), 0).fill_null(True))
    if role == "weight" and is_text(array.type):
        return pc.or_(bad, pc.match_substring_regex(array, r"^\s*-").fill_null(True))
    return bad
