"""Parquet and Arrow files -> tables, each column of which is checked in full when it is read.

Such a file says itself how long its parts are and where they lie. Arrow trusts that once a column is read, so a
damaged file could crash the process; hence every column is validated before anything else looks at it. A file of a few
bytes can also claim billions of rows: sizes are checked against the limit before they are allocated.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from csrr.data.errors import DataError, reword_errors, show_value
from csrr.data.sources import ByteLimit, choose_limit
from csrr.data.tables import Table, check_names

FILE_MAGIC = b"ARROW1"
_UNREADABLE = (pa.ArrowException, OSError, EOFError, ValueError, LookupError, TypeError, struct.error)
"""The errors that Arrow raises on damaged bytes."""
_DAMAGED = "the file is damaged or of another format"


def open_parquet(data: bytes) -> Table:
    """Return the table of a Parquet file."""
    limit = choose_limit(len(data))
    with reword_errors(_UNREADABLE, _DAMAGED):
        file = parquet.ParquetFile(pa.BufferReader(data))
        schema = file.schema_arrow
        # Text stays in its dictionary until its size is known: a long text may be repeated a million times.
        texts = [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_binary(field.type)]
        file = parquet.ParquetFile(pa.BufferReader(data), read_dictionary=texts)
        # More of the metadata must not be touched: of columns in a damaged file, pyarrow ends the process.
        about = file.metadata
        n_rows, size = about.num_rows, sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
        names, kinds = schema.names, schema.types

    def read(place: int) -> pa.ChunkedArray:
        name = names[place]
        if kinds[place].num_fields:  # nested values may be far more than there are rows
            raise DataError(
                f"column {show_value(name)} is of type {kinds[place]}; read from a Parquet file are integers, numbers,"
                " texts and times: of an item table, choose others with columns=[...], write lists as texts like a|b,"
                " or pass the table itself"
            )
        return file.read(columns=[name]).column(name)

    limit.check_rows(n_rows)
    limit.check(size)
    return _make_table(names, read, limit)


def open_arrow(data: bytes) -> Table:
    """Return the table of an Arrow file or stream (Feather 2, IPC)."""
    limit = choose_limit(len(data))
    with reword_errors(_UNREADABLE, _DAMAGED):
        buffer = pa.py_buffer(data)
        is_file = data.startswith(FILE_MAGIC)
        reader = pa.ipc.open_file(buffer) if is_file else pa.ipc.open_stream(buffer)
        messages = _list_file_messages(buffer) if is_file else pa.ipc.MessageReader.open_stream(buffer)
        limit.check(sum(_measure_message(message) for message in messages))
        table = reader.read_all()
        names = table.column_names
    return _make_table(names, table.column, limit)


def _make_table(names: list[str], read: Callable[[int], pa.ChunkedArray], limit: ByteLimit) -> Table:
    """Return the table of a file; each column is validated and checked against the limit when it is read."""
    check_names(names)

    def read_checked(place: int, name: str) -> pa.ChunkedArray:
        title = f"column {show_value(name)}"
        with reword_errors(_UNREADABLE, f"{title} is damaged", "; get the file again", name):
            column = read(place)
            limit.check_rows(len(column))
            column.validate(full=True)
            limit.check(sum(map(_measure_array, column.chunks)), title)
        return column

    return Table({name: partial(read_checked, place, name) for place, name in enumerate(names)})


def _measure_array(array: pa.Array) -> int:
    """Return how many bytes an array takes, at most, once repeated values are written out."""
    if isinstance(array, pa.ExtensionArray):
        return _measure_array(array.storage)
    if pa.types.is_run_end_encoded(array.type):
        return len(array) * _find_widest(array.values)
    if pa.types.is_dictionary(array.type):
        lengths = _measure_texts(array.dictionary)
        if lengths is None:
            return len(array) * _find_widest(array.dictionary)
        return (pc.sum(lengths.take(array.indices)).as_py() or 0) + 8 * len(array)
    return int(array.nbytes)


def _find_widest(values: pa.Array) -> int:
    """Return how many bytes a value takes at most."""
    lengths = _measure_texts(values)
    if lengths is None:
        return max(8, _measure_array(values) if values.type.num_fields else 32)
    return (pc.max(lengths).as_py() or 0) + 8


def _measure_texts(values: pa.Array) -> pa.Array | None:
    """Return the length of each text as int64, shape (n,), or None where they are no texts."""
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    if pa.types.is_string_view(values.type):
        values = values.cast(pa.large_string())
    if not any(kind(values.type) for kind in kinds):
        return None
    return pc.binary_length(values).cast(pa.int64())


# An Arrow file is made of flatbuffers. The functions below read only how large packed buffers
# will be: Arrow's own reader has verified their structure before.


def _list_file_messages(buffer: pa.Buffer) -> Iterator[pa.ipc.Message]:
    """Yield the messages that the footer of an Arrow file names."""
    (size,) = struct.unpack_from("<i", buffer, buffer.size - 10)
    footer = memoryview(buffer)[buffer.size - 10 - size : buffer.size - 10]
    root = struct.unpack_from("<I", footer)[0]
    for field in (2, 3):  # dictionaries, record batches
        for at in _list_structs(footer, root, field, 24):
            offset, head, body = struct.unpack_from("<qi4xq", footer, at)
            yield pa.ipc.read_message(buffer.slice(offset, head + body))


def _measure_message(message: pa.ipc.Message) -> int:
    """Return how many bytes the buffers of a message take once unpacked."""
    if message.body is None:
        return 0
    head = message.metadata
    batch = _follow(head, struct.unpack_from("<I", head)[0], 2)
    if message.type == "dictionary" and batch:
        batch = _follow(head, batch, 1)
    size = int(message.body.size)
    if batch is None or _follow(head, batch, 3) is None:  # not packed
        return size
    for at in _list_structs(head, batch, 2, 16):
        offset, length = struct.unpack_from("<qq", head, at)
        if length >= 8 and 0 <= offset <= message.body.size - length:
            size += max(0, struct.unpack_from("<q", message.body, offset)[0])
    return size


def _follow(data: Any, table: int, field: int) -> int | None:
    """Return where a field of a flatbuffers table points to, or None where the table has it not."""
    shape = table - struct.unpack_from("<i", data, table)[0]
    entry = 4 + 2 * field
    if entry >= struct.unpack_from("<H", data, shape)[0]:
        return None
    offset = struct.unpack_from("<H", data, shape + entry)[0]
    if not offset:
        return None
    at = int(table + offset)
    return at + int(struct.unpack_from("<I", data, at)[0])


def _list_structs(data: Any, table: int, field: int, width: int) -> Iterator[int]:
    """Yield where the structs of a vector begin."""
    start = _follow(data, table, field)
    if start is not None:
        (length,) = struct.unpack_from("<I", data, start)
        yield from range(start + 4, start + 4 + width * length, width)
