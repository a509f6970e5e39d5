"""Known file formats: which file holds the events, which columns it has, and where the titles are."""

from __future__ import annotations

import io
import json
import re
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from csrr.data.arrow import open_arrow, open_parquet
from csrr.data.columns import join_dictionaries
from csrr.data.errors import DataError, list_names, name_in_errors, show_value
from csrr.data.sources import LONGEST_LINE, FileSet, choose_limit
from csrr.data.tables import ColumnKey, Table, hold_columns, stack_rows
from csrr.data.text import BLOCK_BYTES, parse_text, split_rows, to_utf8, unify_line_ends
from csrr.parameters import ParameterError

RATINGS = ("user", "item", "rating", "timestamp")
PARTS = ("train", "test")
SQLITE_MAGIC = b"SQLite format 3\x00"


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


def recognize(files: FileSet, format: str | None) -> tuple[str, str]:
    """Return the format of files and the member that holds its events."""
    format = ALIASES.get(format, format) if format else None
    if format is not None and format not in FORMATS:
        raise DataError(f"format={format!r} is not known; choose one of {', '.join(FORMATS)}")
    if files.main is not None:
        return format or guess_format(files.main), files.main
    if format in (None, "user-lists") and (lists := files.find("train.txt") or files.find("test.txt")):
        return "user-lists", lists
    for name, layout in KNOWN_FILES.items():
        if format in (None, name) and (member := files.find(layout.file)):
            return name, member
    candidates = [name for name in files.members if _get_suffix(name) in (*TEXT, *JSON, *ARROW, *PARQUET)]
    if len(candidates) != 1:
        found = list_names(candidates or list(files.members)) or "no files"
        raise DataError(f"it is not clear which file holds the events; there are {found}; pass the path of one file")
    return format or guess_format(candidates[0]), candidates[0]


def open_member(
    files: FileSet,
    format: str,
    member: str,
    *,
    separator: str | None,
    header: bool | None,
    expected: Collection[str],
    skip_bad: bool = False,
) -> Table:
    """Return the table in a member; `expected` are the column names that the user gave.

    With `skip_bad`, lines of text with too few or too many fields are left out.
    """
    data, known = files.read(member), KNOWN_FILES.get(format)
    if data.startswith(SQLITE_MAGIC):
        raise DataError("this is an SQLite database; pass query='SELECT ...' (--sql on the command line)")
    name = member if files.main is None else None
    parse = {"json": _parse_json, "user-lists": parse_user_lists, "parquet": open_parquet, "arrow": open_arrow}.get(
        format
    )
    with name_in_errors(name):
        if parse is not None:
            if separator is not None or header is not None:
                option = "header" if separator is None else "separator"
                raise ParameterError(f"{option}= is for text with a line a row; leave it out for a {format} file")
            return replace(parse(data), member=name)
        names = known.names if known else None
        table = parse_text(data, separator=separator, header=header, names=names, expected=expected, skip_bad=skip_bad)
    if known is None:
        return replace(table, member=name)
    columns, titles = dict(table.columns), files.find(known.titles)
    if format == "eachmovie" and "date" in columns:
        columns["date"] = partial(_parse_eachmovie_dates, table.columns["date"])
    roles: dict[str, ColumnKey] = {**table.roles, **dict.fromkeys(known.without, False)}
    return replace(
        table, columns=columns, roles=roles, titles=_read_titles(files, titles) if titles else None, member=name
    )


def parse_user_lists(data: bytes) -> Table:
    """Return the events of a text with a line a user: the user's id, then item ids, separated by blanks."""
    text = unify_line_ends(to_utf8(data))
    first = next((line for line in io.BytesIO(text[:LONGEST_LINE]) if line.strip()), b"")
    if any(mark in first for mark in b",;|:"):
        raise DataError("a line of a user list holds ids separated by blanks; for columns pass format='text'")
    counts, users, items, limit, n_rows = [], [], [], choose_limit(), 0
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
    user_ids, item_ids = pa.DictionaryArray.from_arrays(numbers, pa.concat_arrays(users)), join_dictionaries(items)
    return Table(
        hold_columns({"user": user_ids, "item": item_ids}),
        lambda row: f"line {int(np.searchsorted(ends, row, side='right')) + 1}",
        is_text=True,
    )


def read_part(files: FileSet, part: str) -> Table:
    """Return the events of one of the two files of user lists, "train" or "test"."""
    member = files.find(f"{part}.txt")
    if member is None:
        raise DataError(f"there is no {part}.txt; user lists come as train.txt and test.txt")
    with name_in_errors(member):
        return parse_user_lists(files.read(member))


def join_parts(parts: Mapping[str, Table]) -> Table:
    """Return user lists, by the names of their files, as one table."""
    names, tables = list(parts), list(parts.values())
    joined = {name: join_dictionaries([table.columns[name]() for table in tables]) for name in ("user", "item")}
    ends = np.cumsum([len(table.columns["item"]()) for table in tables])

    def where(row: int) -> str:
        place = int(np.searchsorted(ends, row, side="right"))
        return f"{names[place]}.txt, {tables[place].where(row - int(ends[place - 1]) if place else row)}"

    return Table(hold_columns(joined), where, is_text=True)


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
    return known or next((format for format, suffixes in kinds.items() if _get_suffix(name) in suffixes), "text")


def _parse_json(data: bytes) -> Table:
    numbers, limit = array("q"), choose_limit()

    def read_rows() -> Iterator[dict[str, Any]]:
        for number, line in enumerate(io.BytesIO(unify_line_ends(to_utf8(data))), 1):
            if (text := line.decode()).strip():
                numbers.append(number)
                limit.check_rows(len(numbers))
                yield _parse_json_line(text, number)

    return Table(stack_rows(read_rows()), lambda row: f"line {numbers[row]}")


def _parse_json_line(line: str, number: int) -> dict[str, Any]:
    wrong = "is not a JSON object; each line must be one"
    try:
        if isinstance(row := json.loads(line), dict):
            return row
    except RecursionError:
        wrong = "is nested too deeply"
    except ValueError as error:
        if not isinstance(error, json.JSONDecodeError):
            wrong = "holds a number with too many digits; write it as text"
    raise DataError(f"line {number} ({show_value(line.strip())}) {wrong}")


def _parse_eachmovie_dates(read: Callable[[], pa.ChunkedArray]) -> pa.ChunkedArray:
    """Return dates like 10/30/96 0:00:00 as timestamps, and a column of anything else unchanged."""
    column = read()
    try:
        return pc.strptime(column, format="%m/%d/%y %H:%M:%S", unit="s")
    except pa.ArrowInvalid:
        return column


def _read_titles(files: FileSet, member: str) -> dict[str, str]:
    """Return titles by item id, as written, from a file whose first two fields they are."""
    text = to_utf8(files.read(member))
    known = {"u.item": "|", "movies.dat": "::"}
    separator = "," if member.lower().endswith(".csv") else known.get(member.lower(), "\t")
    try:
        rows = (row.fields for row in split_rows(text, separator))
        return {row[0]: row[1].strip() for row in rows if len(row) > 1 and row[1].strip()}
    except DataError as error:
        raise DataError(f"the titles in {member}: {error}; correct them, or move the file away") from None
