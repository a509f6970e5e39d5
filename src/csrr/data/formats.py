"""Known file layouts: which file holds the events, what its columns are, where the titles are."""

from __future__ import annotations

import io
import json
import re
from array import array
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from csrr.data.arrow import ArrowColumns, ParquetColumns
from csrr.data.column_roles import Column
from csrr.data.columns import join_dictionaries
from csrr.data.errors import DataError, RowNamer, list_names, name_in_errors, name_table_row, show_value
from csrr.data.sources import LONGEST_LINE, Bundle, find_limit
from csrr.data.tables import SparseColumns
from csrr.data.text import BLOCK_BYTES, end_lines, parse_text, split_rows, to_utf8
from csrr.parameters import ParameterError

RATINGS = ("user", "item", "rating", "timestamp")
PARTS = ("train", "test")


@dataclass(frozen=True)
class KnownFile:
    """A text file of events known by its name: its columns, if it has no header, and the file of titles."""

    file: str
    names: tuple[str, ...] | None
    titles: str
    without: tuple[str, ...] = ()


KNOWN_FILES = {
    "ml-100k": KnownFile("u.data", RATINGS, "u.item"),
    "ml-1m": KnownFile("ratings.dat", RATINGS, "movies.dat"),
    "ml-csv": KnownFile("ratings.csv", None, "movies.csv"),
    # Its weight says how reliable a score is, not how often something happened.
    "eachmovie": KnownFile("vote.txt", ("person", "movie", "score", "weight", "date"), "movie.txt", ("weight",)),
    "eachmovie-heavy": KnownFile("ratings.tsv", ("user", "movie", "score"), "movie.txt"),
    "lastfm": KnownFile("user_artists.dat", ("user", "artist", "weight"), "artists.dat"),
}
TEXT = ("csv", "tsv", "txt", "dat", "data", "base", "test", "inter", "tab")
JSON = ("json", "jsonl", "ndjson")
ARROW = ("arrow", "feather", "ipc")
PARQUET = ("parquet", "pq")
FORMATS = (*KNOWN_FILES, "user-lists", "text", "json", "arrow", "parquet")
ALIASES = {"csv": "text", "tsv": "text", "inter": "text", "lightgcn": "user-lists", "jsonl": "json"}


@dataclass(frozen=True)
class Content:
    """A table of events, as read: its columns, what is known about them, and titles by item id.

    `member` is the file, where it is one of several or in an archive.
    """

    columns: Any
    where: RowNamer = name_table_row
    is_text: bool = False
    roles: Mapping[str, Column] = field(default_factory=dict)
    titles: dict[str, str] | None = None
    notes: tuple[str, ...] = ()
    member: str | None = None


def recognise(bundle: Bundle, format: str | None) -> tuple[str, str]:
    """Return the format of a bundle and the member that holds its events."""
    format = ALIASES.get(format, format) if format else None
    if format is not None and format not in FORMATS:
        raise DataError(f"format={format!r} is not known; choose one of {', '.join(FORMATS)}")
    if bundle.main is not None:
        return format or guess_format(bundle.main), bundle.main
    if format in (None, "user-lists") and (lists := bundle.find("train.txt") or bundle.find("test.txt")):
        return "user-lists", lists
    for name, layout in KNOWN_FILES.items():
        if format in (None, name) and (member := bundle.find(layout.file)):
            return name, member
    candidates = [name for name in bundle.members if _get_suffix(name) in (*TEXT, *JSON, *ARROW, *PARQUET)]
    if len(candidates) != 1:
        found = list_names(candidates or list(bundle.members)) or "no files"
        raise DataError(f"it is not clear which file holds the events; there are {found}; pass the path of one file")
    return format or guess_format(candidates[0]), candidates[0]


def load_content(
    bundle: Bundle,
    format: str,
    member: str,
    *,
    separator: str | None,
    header: bool | None,
    expected: Collection[str],
    skip_bad: bool = False,
) -> Content:
    """Return the content of a member; `expected` are the column names that were asked for.

    With `skip_bad`, lines of text with too few or too many fields are left out.
    """
    data, layout = bundle.read(member), KNOWN_FILES.get(format)
    if data.startswith(b"SQLite format 3\x00"):
        raise DataError("this is an SQLite database; pass query='SELECT ...' (--sql on the command line)")
    name = member if bundle.main is None else None
    with name_in_errors(name):
        if format in ("json", "parquet", "arrow", "user-lists"):
            if separator is not None or header is not None:
                option = "header" if separator is None else "separator"
                raise ParameterError(f"{option}= is for text with a line a row; leave it out for a {format} file")
            return replace(_parse_plain(data, format), member=name)
        names = layout.names if layout else None
        table = parse_text(data, separator=separator, header=header, names=names, expected=expected, skip_bad=skip_bad)
        find_limit().check_rows(table.n_rows)
    roles: dict[str, Column] = dict.fromkeys(layout.without, False) if layout else {}
    if not table.has_header and names is None:
        roles |= {"user": 0, "item": 1}
    columns = table.columns
    if format == "eachmovie" and "date" in columns:
        columns = columns | {"date": _parse_eachmovie_dates(columns["date"])}
    titles = bundle.find(layout.titles) if layout else None
    known = _read_titles(bundle, titles) if titles else None
    return Content(columns, table.where, True, roles, known, table.notes, name)


def _parse_plain(data: bytes, format: str) -> Content:
    """Return the content of a file that says itself where its columns are."""
    if format == "json":
        return _parse_json(data)
    if format == "user-lists":
        return parse_user_lists(data)
    return Content(ParquetColumns(data) if format == "parquet" else ArrowColumns(data))


def parse_user_lists(data: bytes) -> Content:
    """Return the events of a text with a line a user: the user's id, then item ids, separated by blanks."""
    text = end_lines(to_utf8(data))
    first = next((line for line in io.BytesIO(text[:LONGEST_LINE]) if line.strip()), b"")
    if any(mark in first for mark in b",;|:"):
        raise DataError("a line of a user list holds ids separated by blanks; for columns pass format='text'")
    counts, users, items, limit, n_rows = [], [], [], find_limit(), 0
    # Some lines at a time, as numbers of distinct words: the words of the whole would take many times its size.
    for block in _cut_lines(text):
        lines = pc.list_flatten(pc.split_pattern(pa.array([block.decode()], pa.large_string()), "\n"))
        words = pc.utf8_split_whitespace(pc.utf8_trim_whitespace(lines))
        sizes = pc.list_value_length(words).to_numpy()
        flat, starts = words.flatten(), np.cumsum(sizes) - sizes
        is_item = np.ones(len(flat), bool)
        is_item[starts] = False
        counts.append(sizes - 1)
        users.append(flat.take(pa.array(starts[sizes > 1])))
        items.append(flat.filter(pa.array(is_item)).dictionary_encode())
        limit.check_rows(n_rows := n_rows + len(items[-1]))
    n_items = np.concatenate(counts)
    ends, n_items = np.cumsum(n_items), n_items[n_items > 0]
    numbers = pa.array(np.repeat(np.arange(len(n_items), dtype=np.int32), n_items))
    return Content(
        {"user": pa.DictionaryArray.from_arrays(numbers, pa.concat_arrays(users)), "item": join_dictionaries(items)},
        lambda row: f"line {int(np.searchsorted(ends, row, side='right')) + 1}",
        is_text=True,
    )


def _cut_lines(text: bytes) -> Iterator[bytes]:
    """Yield a text in blocks of whole lines, without the line end after each."""
    start = 0
    while start <= len(text):
        stop = text.find(b"\n", start + BLOCK_BYTES)
        stop = len(text) if stop < 0 else stop
        yield text[start:stop]
        start = stop + 1


def _get_suffix(name: str) -> str:
    return name.rpartition(".")[2].lower()


def guess_format(name: str) -> str:
    """Return the format of a single file by its name."""
    if name.lower() in ("train.txt", "test.txt"):
        return "user-lists"
    if re.fullmatch(r"u[1-5ab]\.(base|test)", name):
        return "ml-100k"
    known = next((format for format, layout in KNOWN_FILES.items() if layout.file == name.lower()), None)
    kinds = {"json": JSON, "arrow": ARROW, "parquet": PARQUET}
    by_suffix = next((format for format, suffixes in kinds.items() if _get_suffix(name) in suffixes), "text")
    return known or by_suffix


def _parse_json(data: bytes) -> Content:
    columns, numbers, limit = SparseColumns(), array("q"), find_limit()
    for number, line in enumerate(io.BytesIO(end_lines(to_utf8(data))), 1):
        if not (text := line.decode()).strip():
            continue
        columns.add(_parse_json_line(text, number))
        numbers.append(number)
        limit.check_rows(len(numbers))
    return Content(columns, lambda row: f"line {numbers[row]}")


def _parse_json_line(line: str, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
        wrong = None if isinstance(row, dict) else "is not a JSON object; each line must be one"
    except json.JSONDecodeError:
        wrong = "is not a JSON object; each line must be one"
    except RecursionError:
        wrong = "is nested too deeply"
    except ValueError:
        wrong = "holds a number with too many digits; write it as text"
    if wrong:
        raise DataError(f"line {number} ({show_value(line.strip())}) {wrong}")
    return cast(dict[str, Any], row)


def _parse_eachmovie_dates(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return dates like 10/30/96 0:00:00 as timestamps, and a column of anything else unchanged."""
    try:
        return pc.strptime(column, format="%m/%d/%y %H:%M:%S", unit="s")
    except pa.ArrowInvalid:
        return column


def _read_titles(bundle: Bundle, member: str) -> dict[str, str]:
    """Return titles by item id, as written, from a file whose first two fields they are."""
    text = to_utf8(bundle.read(member))
    known = {"u.item": "|", "movies.dat": "::"}
    separator = "," if member.lower().endswith(".csv") else known.get(member.lower(), "\t")
    try:
        rows = (row.fields for row in split_rows(text, separator))
        return {row[0]: row[1].strip() for row in rows if len(row) > 1 and row[1].strip()}
    except DataError as error:
        raise DataError(f"the titles in {member}: {error}; correct them, or move the file away") from None
