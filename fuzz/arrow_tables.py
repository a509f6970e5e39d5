"""Tables of events whose columns are of any type that Arrow has, with any values."""

from __future__ import annotations

import io
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

NAMES = ("user", "item", "rating", "weight", "time", "title", "user_id", "extra")
TEXTS = ("a", "b", "7", "007", "", "é", "x" * 300, "\x00", "\u202e", "2000-12-31", "1e5", "nan", "-1", " 3 ")
NUMBERS = (0, 1, -1, 2, 3, 7, 127, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63))
FLOATS = (0.0, -0.0, 1.0, 2.5, float("nan"), float("inf"), -float("inf"), 1e300, 1e-300, 3e38, 2.0**63, 1e-45)
DECIMALS = (Decimal("1.5"), Decimal("-0.01"), Decimal("99999"), Decimal("0"))
UNITS = ("s", "ms", "us", "ns")
ZONES = (None, None, "UTC", "Europe/Berlin", "+05:30", "No/Where")
INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())


class _Label(pa.ExtensionType):  # type: ignore[misc]
    """A type of somebody else's, around text."""

    def __init__(self) -> None:
        super().__init__(pa.string(), "fuzz.label")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: Any) -> _Label:
        return cls()


def draw_table_file(rng: np.random.Generator) -> tuple[str, bytes]:
    """Return the name and the bytes of a Parquet or Arrow file of made columns."""
    n = int(rng.choice([0, 1, 2, 5, 30]))
    names = ["user", "item", *rng.permutation(NAMES[2:])[: int(rng.integers(4))].tolist()]
    columns = {}
    for name in names:
        plain = rng.random() < (0.7 if name in ("user", "item") else 0.3)
        maker = _draw_plain if plain else MAKERS[int(rng.integers(len(MAKERS)))]
        columns[name] = _put_in_wrapping(maker(rng, n), rng)
    table = pa.table(columns)
    if rng.random() < 0.2:
        table = pa.concat_tables([table, table])
    file = io.BytesIO()
    if rng.random() < 0.5:
        try:
            parquet.write_table(
                table,
                file,
                compression=str(rng.choice(["none", "snappy", "zstd", "gzip"])),
                use_dictionary=bool(rng.random() < 0.6),
                data_page_version=str(rng.choice(["1.0", "2.0"])),
                row_group_size=int(rng.choice([2, 100])),
            )
        except (pa.ArrowException, ValueError):  # a type that Parquet has not
            file = io.BytesIO()
        else:
            return "log.parquet", file.getvalue()
    packing = pa.ipc.IpcWriteOptions(compression=[None, None, "lz4", "zstd"][int(rng.integers(4))])
    opener, name = (pa.ipc.new_file, "log.feather") if rng.random() < 0.5 else (pa.ipc.new_stream, "log.arrow")
    with opener(file, table.schema, options=packing) as writer:
        writer.write_table(table)
    return name, file.getvalue()


def _pick(values: tuple[Any, ...], rng: np.random.Generator, n: int, nulls: float = 0.02) -> list[Any]:
    some = [values[int(i)] for i in rng.integers(len(values), size=max(1, min(n, 4)))]
    missing = rng.random(n) < nulls if rng.random() < 0.3 else np.zeros(n, bool)
    return [None if missing[i] else some[int(rng.integers(len(some)))] for i in range(n)]


def _draw_plain(rng: np.random.Generator, n: int) -> pa.Array:
    if rng.random() < 0.5:
        return pa.array(rng.integers(5, size=n))
    return pa.array([f"u{i}" for i in rng.integers(5, size=n)], pa.string())


def _draw_integers(rng: np.random.Generator, n: int) -> pa.Array:
    kind = INTEGERS[int(rng.integers(len(INTEGERS)))]
    low, high = (0, 2**kind.bit_width) if "u" in str(kind) else (-(2 ** (kind.bit_width - 1)), 2**kind.bit_width // 2)
    return pa.array(_pick(tuple(v for v in (*NUMBERS, high - 1) if low <= v < high), rng, n), kind)


def _draw_floats(rng: np.random.Generator, n: int) -> pa.Array:
    with np.errstate(over="ignore"):
        values = [None if v is None else np.float16(v) for v in _pick(FLOATS, rng, n)]
    kind = (pa.float16(), pa.float32(), pa.float64())[int(rng.integers(3))]
    return pa.array(values if kind == pa.float16() else _pick(FLOATS, rng, n), kind)


def _draw_texts(rng: np.random.Generator, n: int) -> pa.Array:
    kinds = (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view())
    return pa.array(_pick(TEXTS, rng, n), kinds[int(rng.integers(len(kinds)))])


def _draw_times(rng: np.random.Generator, n: int) -> pa.Array:
    unit, zone = UNITS[int(rng.integers(4))], ZONES[int(rng.integers(len(ZONES)))]
    half = pa.time32(UNITS[int(rng.integers(2))]) if rng.random() < 0.5 else pa.time64(UNITS[2 + int(rng.integers(2))])
    kinds = (pa.timestamp(unit, zone), pa.timestamp(unit, zone), pa.date32(), pa.date64(), pa.duration(unit), half)
    kind = kinds[int(rng.integers(len(kinds)))]
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    values = [v if v is None or abs(v) < 2 ** (kind.bit_width - 1) else 5 for v in _pick(NUMBERS, rng, n)]
    return pa.array(values, width).view(kind)


def _draw_intervals(rng: np.random.Generator, n: int) -> pa.Array:
    return pa.array([(1, 2, 3)] * n, pa.month_day_nano_interval())


def _draw_decimals(rng: np.random.Generator, n: int) -> pa.Array:
    kinds = (pa.decimal128(10, 3), pa.decimal256(60, 5), pa.decimal128(38, 0))
    values = _pick(DECIMALS, rng, n)
    if (kind := kinds[int(rng.integers(3))]).scale == 0:
        values = [None if v is None else Decimal(10**37) for v in values]
    return pa.array(values, kind)


def _draw_nested(rng: np.random.Generator, n: int) -> pa.Array:
    kind = int(rng.integers(5))
    if kind == 0:
        return pa.array([[1, 2]] * n, pa.list_(pa.int64()))
    if kind == 1:
        return pa.array([{"user": 1}] * n, pa.struct([("user", pa.int64())]))
    if kind == 2:
        return pa.array([[("a", 1), ("a", 2)]] * n, pa.map_(pa.string(), pa.int64()))
    if kind == 3:
        return pa.array([[1.0, 2.0]] * n, pa.list_(pa.float64(), 2))
    return pa.array([[["x"]]] * n, pa.large_list(pa.list_(pa.string())))


def _draw_odd(rng: np.random.Generator, n: int) -> pa.Array:
    kind = int(rng.integers(4))
    if kind == 0:
        return pa.nulls(n)
    if kind == 1:
        return pa.array([bool(i % 2) for i in range(n)])
    if kind == 2:
        return pa.array([b"abcd"] * n, pa.binary(4))
    return pa.ExtensionArray.from_storage(_Label(), pa.array(_pick(TEXTS, rng, n), pa.string()))


MAKERS: tuple[Callable[[np.random.Generator, int], pa.Array], ...] = (
    *(_draw_integers, _draw_floats, _draw_texts, _draw_times, _draw_times, _draw_decimals, _draw_nested),
    *(_draw_intervals, _draw_odd),
)


def _put_in_wrapping(array: pa.Array, rng: np.random.Generator) -> pa.Array:
    """Return the values as they are, in a dictionary or as runs."""
    kind = rng.random()
    try:
        if kind < 0.15:
            return array.dictionary_encode()
        if kind < 0.22 and len(array):
            return pa.compute.run_end_encode(array)
        if kind < 0.24 and len(array):
            return pa.RunEndEncodedArray.from_arrays(pa.array([100_000], pa.int32()), array[:1])[: len(array)]
    except pa.ArrowException:
        pass
    return array
