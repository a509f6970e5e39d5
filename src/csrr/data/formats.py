"""Known file layouts: which file holds the events, what its columns are, where the titles are."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from csrr.data.errors import DataError, RowNamer, name_table_row
from csrr.data.event_tables import Column
from csrr.data.sources import Bundle
from csrr.data.text import parse_text, to_utf8

RATINGS = ("user", "item", "rating", "timestamp")
PARTS = ("train", "test")


@dataclass(frozen=True)
class Layout:
    """A text file of events known by its name: its columns, if it has no header, and the file of titles."""

    file: str
    names: tuple[str, ...] | None
    titles: str
    without: tuple[str, ...] = ()


LAYOUTS = {
    "ml-100k": Layout("u.data", RATINGS, "u.item"),
    "ml-1m": Layout("ratings.dat", RATINGS, "movies.dat"),
    "ml-csv": Layout("ratings.csv", None, "movies.csv"),
    # Its weight says how reliable a score is, not how often something happened.
    "eachmovie": Layout("vote.txt", ("person", "movie", "score", "weight", "date"), "movie.txt", ("weight",)),
    "eachmovie-heavy": Layout("ratings.tsv", ("user", "movie", "score"), "movie.txt"),
    "lastfm": Layout("user_artists.dat", ("user", "artist", "weight"), "artists.dat"),
}
TEXT = ("csv", "tsv", "txt", "dat", "data", "base", "test", "inter", "tab")
JSON = ("json", "jsonl", "ndjson")
ARROW = ("arrow", "feather", "ipc")
PARQUET = ("parquet", "pq")
FORMATS = (*LAYOUTS, "user-lists", "text", "json", "arrow", "parquet")
ALIASES = {"csv": "text", "tsv": "text", "inter": "text", "lightgcn": "user-lists", "jsonl": "json"}


@dataclass(frozen=True)
class Content:
    """A table of events, as read: its columns, what is known about them, and titles by item id."""

    columns: Any
    where: RowNamer = name_table_row
    is_text: bool = False
    roles: Mapping[str, Column] = field(default_factory=dict)
    titles: dict[str, str] | None = None


def recognise(bundle: Bundle, format: str | None) -> tuple[str, str]:
    """Return the format of a bundle and the member that holds its events."""
    format = ALIASES.get(format, format) if format else None
    if format is not None and format not in FORMATS:
        raise DataError(f"format={format!r} is not known; choose one of {', '.join(FORMATS)}")
    if bundle.main is not None:
        return format or _guess_format(bundle.main), bundle.main
    if format in (None, "user-lists") and (lists := bundle.find("train.txt") or bundle.find("test.txt")):
        return "user-lists", lists
    for name, layout in LAYOUTS.items():
        if format in (None, name) and (member := bundle.find(layout.file)):
            return name, member
    candidates = [name for name in bundle.members if _get_suffix(name) in (*TEXT, *JSON, *ARROW, *PARQUET)]
    if len(candidates) != 1:
        found = ", ".join(candidates or bundle.members) or "no files"
        raise DataError(f"it is not clear which file holds the events; there are {found}; pass the path of one file")
    return format or _guess_format(candidates[0]), candidates[0]


def load_content(
    bundle: Bundle,
    format: str,
    member: str,
    *,
    separator: str | None,
    header: bool | None,
    expected: Collection[str],
) -> Content:
    """Return the content of a member; `expected` are the column names that were asked for."""
    data = bundle.read(member)
    if format == "json":
        return _parse_json(data)
    if format == "parquet":
        return Content(_parse_binary(data, parquet.read_table))
    if format == "arrow":
        return Content(_parse_binary(data, _read_ipc))
    if format == "user-lists":
        return parse_user_lists(data)
    layout = LAYOUTS.get(format)
    names = layout.names if layout else None
    table = parse_text(data, separator=separator, header=header, names=names, expected=expected)
    roles: dict[str, Column] = dict.fromkeys(layout.without, False) if layout else {}
    if not table.has_header and names is None:
        roles |= {"user": 0, "item": 1}
    columns = table.columns
    if format == "eachmovie" and "date" in columns:
        columns = columns | {"date": _parse_eachmovie_dates(columns["date"])}
    titles = bundle.find(layout.titles) if layout else None
    return Content(columns, table.where, True, roles, _read_titles(bundle, titles) if titles else None)


def parse_user_lists(data: bytes) -> Content:
    """Return the events of a text with a line a user: the user's id, then item ids, separated by blanks."""
    lines = [line.split() for line in to_utf8(data).decode().split("\n")]
    first = next((line for line in lines if line), [])
    if any(mark in "".join(first) for mark in ",;|:"):
        raise DataError("a line of a user list holds ids separated by blanks; for columns pass format='text'")
    sizes = np.array([max(0, len(line) - 1) for line in lines], np.int64)
    users = pa.array([line[0] if line else "" for line in lines], pa.large_string())
    items = pa.array([item for line in lines for item in line[1:]], pa.large_string())
    return Content({"user": users.take(pa.array(np.repeat(np.arange(len(lines)), sizes))), "item": items}, is_text=True)


def _get_suffix(name: str) -> str:
    return name.rpartition(".")[2].lower()


def _guess_format(name: str) -> str:
    """Return the format of a single file by its name."""
    if name.lower() in ("train.txt", "test.txt"):
        return "user-lists"
    if re.fullmatch(r"u[1-5ab]\.(base|test)", name):
        return "ml-100k"
    known = next((format for format, layout in LAYOUTS.items() if layout.file == name.lower()), None)
    kinds = {"json": JSON, "arrow": ARROW, "parquet": PARQUET}
    by_suffix = next((format for format, suffixes in kinds.items() if _get_suffix(name) in suffixes), "text")
    return known or by_suffix


def _parse_json(data: bytes) -> Content:
    lines = [(number, line) for number, line in enumerate(to_utf8(data).decode().split("\n"), 1) if line.strip()]
    rows = []
    for number, line in lines:
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            row = None
        if not isinstance(row, dict):
            raise DataError(f"line {number} ({line[:60]!r}) is not a JSON object; each line must be one")
        rows.append(row)
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [row.get(name) for row in rows] for name in names}
    return Content(columns, lambda row: f"line {lines[row][0]}")


def _parse_binary(data: bytes, reader: Any) -> pa.Table:
    try:
        return reader(pa.BufferReader(data))
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"the file is damaged or of another format: {error}") from error


def _read_ipc(buffer: pa.BufferReader) -> pa.Table:
    try:
        return pa.ipc.open_file(buffer).read_all()
    except pa.ArrowInvalid:
        buffer.seek(0)
        return pa.ipc.open_stream(buffer).read_all()


def _parse_eachmovie_dates(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return dates like 10/30/96 0:00:00 as timestamps, and a column of anything else unchanged."""
    try:
        return pc.strptime(column, format="%m/%d/%y %H:%M:%S", unit="s")
    except pa.ArrowInvalid:
        return column


def _read_titles(bundle: Bundle, member: str) -> dict[str, str]:
    """Return titles by item id, as written, from a file whose first two fields they are."""
    text = to_utf8(bundle.read(member)).decode()
    if member.lower().endswith(".csv"):
        rows: Any = csv.reader(io.StringIO(text, newline=""))
    else:
        separator = {"u.item": "|", "movies.dat": "::"}.get(member.lower(), "\t")
        rows = (line.split(separator) for line in text.split("\n"))
    return {row[0]: row[1].strip() for row in rows if len(row) > 1 and row[1].strip()}
