"""Logs of many machines: Parquet files are numbered and sorted into blocks of users by workers, through files.

Each step is a map of files to files, named by what is in them: a worker that is lost costs the files that it had not
finished, and a fit that begins anew in the same folder finds those that are there.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from csrr._base.arrays import Int64Array
from csrr._base.text import show_value
from csrr.data.errors import DataError
from csrr.data.ids import IdMap
from csrr.data.log import Log, merge_repeats
from csrr.data.tables import NAMES, Events, ReadOptions, open_table, read_events
from csrr.parameters import ParameterError

PART_ROWS, BLOCK_ROWS = 2**21, 2**22
"""About so many rows are read at once, a row group never cut; and so many are a block on one machine."""
SAMPLED = 256
"""One row in so many says where blocks of users begin."""
UNTIMED = [False if role == "time" else None for role in NAMES]
"""The columns that a fit without order reads: those recognized, but for times."""
ENDS = (".parquet", ".pq")
"""How the names of Parquet files end."""

Tell = Callable[[int, int], object]


class RunTasks(Protocol):
    """Calls a function with each tuple of arguments, on workers, and returns what it returned."""

    def __call__(
        self, work: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], *, tell: Tell | None = None, size: str = ""
    ) -> list[Any]: ...


class Part(NamedTuple):
    """Row groups of files that are read together: (path, row group) each, and their number of rows."""

    groups: tuple[tuple[str, int], ...]
    rows: int


@dataclass(frozen=True)
class SpreadLog:
    """A log in the files of a folder: block b has `users-b.arrow`, ids in order, and its cells by user.

    Users go on in order from block to block, so that rows and cells are those of the log on one machine. `bounds` are
    the rows at which blocks end, `indptr`, (n_users + 1,), where the cells of each user do. With times, `times-b.npy`
    has those of the cells, and `places-b.npy` what comes later of the same time.
    """

    folder: Path
    items: IdMap
    bounds: tuple[int, ...]
    indptr: Int64Array
    n_repeats: int

    @property
    def n_users(self) -> int:
        """The number of users."""
        return len(self.indptr) - 1

    @property
    def n_items(self) -> int:
        """The number of items."""
        return len(self.items)

    @property
    def n_blocks(self) -> int:
        """The number of blocks."""
        return len(self.bounds) - 1

    @property
    def has_times(self) -> bool:
        """Whether times were read."""
        return (self.folder / "times-0.npy").exists()

    def __len__(self) -> int:
        return int(self.indptr[-1])


def list_files(source: str | os.PathLike[str]) -> list[Path]:
    """Return the Parquet files of a folder, or one file, in order."""
    path = Path(source)
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise DataError(f"{path}: no such folder or file; give a folder of Parquet files that all workers can reach")
    found = sorted(each for each in path.rglob("*") if each.suffix in ENDS and not each.name.startswith((".", "_")))
    if not found:
        raise DataError(f"{path}: no Parquet files (*.parquet) in it; on many machines a log is a folder of those")
    return found


def _list_parts(files: Sequence[Path]) -> Iterator[Part]:
    groups: list[tuple[str, int]] = []
    rows = 0
    for path in files:
        try:
            about = parquet.read_metadata(path)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{path}: not a Parquet file that can be read ({error})") from None
        for group in range(about.num_row_groups):
            groups.append((str(path.absolute()), group))
            rows += about.row_group(group).num_rows
            if rows >= PART_ROWS:
                yield Part(tuple(groups), rows)
                groups, rows = [], 0
    if groups:
        yield Part(tuple(groups), rows)


def spread_log(
    source: str | os.PathLike[str],
    folder: Path,
    run: RunTasks,
    count_blocks: Callable[[int], int],
    *,
    options: ReadOptions | None = None,
    tell: Callable[[str, int, int], object] = lambda *_: None,
) -> SpreadLog:
    """Return the log of a folder of Parquet files, in the files of another `folder`, which all workers reach.

    `count_blocks` says how many blocks a log of so many rows has. What is in the folder already is not made again.
    """
    files = list_files(source)
    parts = list(_list_parts(files))
    if not sum(part.rows for part in parts):
        raise DataError(f"{source}: the files have no rows")
    options = options or ReadOptions(UNTIMED)
    columns = _find_columns(parts, options)
    n_blocks = count_blocks(sum(part.rows for part in parts))
    facts = {
        "files": [[str(each.absolute()), each.stat().st_size, each.stat().st_mtime_ns] for each in files],
        "options": repr((columns, options)),
        "blocks": n_blocks,
    }
    home = folder / f"log-{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]}"
    home.mkdir(parents=True, exist_ok=True)

    def tell_of(stage: str) -> Tell:
        return lambda done, of: tell(stage, done, of)

    # 1. Where blocks of users begin, by some of the rows.
    places = range(len(parts))
    size = f" (parts of up to {max(part.rows for part in parts):,} rows)"
    tasks = [(parts[place], columns, options, str(home), place) for place in places]
    n_blocks = _cut_users(home, lambda: run(sample_users, tasks, tell=tell_of("looking"), size=size), n_blocks)
    # 2. Each part, sorted by block; and its items.
    found = run(spread_part, tasks, tell=tell_of("reading"), size=size)
    _check_kinds("user", [user for user, _ in found])
    _check_kinds("item", [item for _, item in found])
    # 3. The items of all parts, numbered.
    items = _number_items(home, len(parts))
    # 4. Each block: its users, numbered, and their cells.
    blocks = [(str(home), block, len(parts)) for block in range(n_blocks)]
    built = run(build_block, blocks, tell=tell_of("numbering"), size=f" (blocks of {len(parts)} parts)")
    counts = [np.load(home / f"indptr-{block}.npy") for block in range(n_blocks)]
    bounds = np.concatenate(([0], np.cumsum([len(each) - 1 for each in counts])))
    indptr = np.concatenate(([0], np.cumsum(np.concatenate([np.diff(each) for each in counts]))))
    for place in places:
        (home / f"part-{place}.arrow").unlink(missing_ok=True)
    return SpreadLog(home, items, tuple(map(int, bounds)), indptr, sum(built))


def _check_kinds(role: str, kinds: Sequence[str]) -> None:
    if len(types := sorted({*kinds})) > 1:
        raise DataError(f"the {role} ids are {types[0]} in some files and {types[1]} in others; make them the same")


def _find_columns(parts: Sequence[Part], options: ReadOptions) -> dict[str, str]:
    """The columns of users, items and, where they are used, of ratings and times: by names and a look at a part."""
    path, group = parts[0].groups[0]
    first = parquet.ParquetFile(path).read_row_group(group).slice(0, 10_000)
    columns = read_events(open_table(first), options).columns
    used = {"rating": columns.rating if columns.min_rating is not None else None, "time": columns.time}
    return {"user": columns.user, "item": columns.item} | {role: name for role, name in used.items() if name}


@contextmanager
def write_whole(path: Path) -> Iterator[BinaryIO]:
    """Give a file that becomes `path` at the end: whole, or not at all. Two workers may write the same."""
    aside = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        with aside.open("wb") as file:
            yield file
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def _write_arrow(path: Path, batches: Sequence[pa.RecordBatch]) -> None:
    with write_whole(path) as file, pa.ipc.new_file(file, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _open_arrow(path: Path) -> Any:
    return pa.ipc.open_file(pa.memory_map(str(path)))


def _read_part(part: Part, columns: dict[str, str], options: ReadOptions, every: int = 1) -> Events:
    """The events of a part, or of one row in so many."""
    tables = []
    for path, group in part.groups:
        file = parquet.ParquetFile(path)
        if missing := set(columns.values()) - set(file.schema_arrow.names):
            raise DataError(f"{path}: no column {show_value(min(missing))}, which other files have")
        table = file.read_row_group(group, columns=sorted(set(columns.values())))
        tables.append(table if every == 1 else table.take(pa.array(np.arange(0, len(table), every))))
    # Of a few rows none may be liked, or all may be bad.
    strict = every == 1
    named = ReadOptions(
        [columns.get(role, False) for role in options.columns],
        min_rating=options.min_rating if strict else None,
        on_bad_rows=options.on_bad_rows,
    )
    try:
        table = pa.concat_tables(tables)
    except pa.ArrowException as error:
        raise DataError(f"the files hold columns of different types: {error}; make them the same") from None
    try:
        return read_events(open_table(table), named)
    except DataError as error:
        raise DataError(f"{part.groups[0][0]} and on: {error}") from None


def sample_users(part: Part, columns: dict[str, str], options: ReadOptions, *_: Any) -> pa.Array:
    """Return the users of some of the rows of a part."""
    try:
        return _decode(_read_part(part, columns, options, SAMPLED).user)
    except DataError:
        # All rows, with their numbers, say what is wrong; or that these few are bad, and others are not.
        return _decode(_read_part(part, columns, options).user)


def _cut_users(home: Path, sample: Callable[[], list[pa.Array]], n_blocks: int) -> int:
    """Write the first user of each block but the first, so that blocks are about equally large; return their number."""
    path = home / "cuts.arrow"
    if not path.exists():
        parts = sample() if n_blocks > 1 else [pa.array([], pa.int64())]
        _check_kinds("user", [str(each.type) for each in parts])
        users = pa.concat_arrays(parts)
        users = users.take(pc.array_sort_indices(users))
        cuts = pc.unique(
            users.take(pa.array([len(users) * block // n_blocks for block in range(1, n_blocks)], pa.int64()))
        )
        # No block may be empty.
        _write_arrow(
            path, [pa.record_batch({"user": cuts.filter(pc.not_equal(cuts, users[0])) if len(cuts) else cuts})]
        )
    return len(_open_arrow(path).get_batch(0)) + 1


def spread_part(part: Part, columns: dict[str, str], options: ReadOptions, folder: str, place: int) -> tuple[str, str]:
    """Write the events of a part, a batch for each block of users, and its items; return the types of ids."""
    home = Path(folder)
    done = home / f"items-of-{place}.arrow"
    users_of = home / f"part-{place}.arrow"
    if done.exists() and (users_of.exists() or (home / "done-0").exists()):
        kind = _open_arrow(done).schema.metadata
        return kind[b"user"].decode(), kind[b"item"].decode()
    events = _read_part(part, columns, options)
    item = _decode(events.item)
    users, codes = IdMap.encode(events.user)
    cuts = _open_arrow(home / "cuts.arrow").get_batch(0).column(0).to_numpy(zero_copy_only=False)
    comparable = len(cuts) and isinstance(cuts[0], str) == (users.ids.dtype.kind == "O")
    blocks = np.searchsorted(cuts, users.ids, side="right") if comparable else np.zeros(len(users), np.int64)
    of_rows = blocks.astype(np.int32)[codes]
    order = pa.array(np.argsort(of_rows, kind="stable"))
    ends = np.cumsum(np.bincount(of_rows, minlength=len(cuts) + 1))
    given = {"user": _decode(events.user), "item": item}
    table = pa.record_batch(given if events.time is None else given | {"time": pa.array(events.time)}).take(order)
    batches = [table.slice(end - count, count) for end, count in zip(ends, np.diff(ends, prepend=0), strict=True)]
    _write_arrow(users_of, batches)
    kinds = str(given["user"].type), str(item.type)
    own = pa.record_batch({"item": pc.unique(item)})
    _write_arrow(done, [own.replace_schema_metadata(dict(zip(given, kinds, strict=True)))])
    return kinds


def _decode(column: Any) -> pa.Array:
    """A checked column of ids as int64 or large_string."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _number_items(home: Path, n_parts: int) -> IdMap:
    """The items of all parts, in order, which are written for the workers."""
    path = home / "items.arrow"
    if not path.exists():
        known: pa.Array | None = None
        for place in range(n_parts):
            mine = _open_arrow(home / f"items-of-{place}.arrow").get_batch(0).column(0)
            known = mine if known is None else pc.unique(pa.concat_arrays([known, mine]))
        assert known is not None
        _write_arrow(path, [pa.record_batch({"item": known.take(pc.array_sort_indices(known))})])
    return IdMap(_open_arrow(path).get_batch(0).column(0))


def build_block(folder: str, block: int, n_parts: int) -> int:
    """Write a block: the ids of its users, in order, and its cells by user; return the number of repeats."""
    home = Path(folder)
    done = home / f"done-{block}"
    if done.exists():
        return int(done.read_text())
    batches = [_open_arrow(home / f"part-{place}.arrow").get_batch(block) for place in range(n_parts)]
    items = _open_arrow(home / "items.arrow").get_batch(0).column(0)
    users, rows = IdMap.encode(pa.concat_arrays([each.column("user") for each in batches]))
    columns = pc.index_in(pa.concat_arrays([each.column("item") for each in batches]), items).to_numpy()
    is_timed = "time" in batches[0].schema.names
    times = np.concatenate([each.column("time").to_numpy() for each in batches]) if is_timed else None
    del batches
    merged = merge_repeats(rows, columns, None, times, len(items))
    indptr = np.concatenate(([0], np.cumsum(np.bincount(merged.user_rows, minlength=len(users))))).astype(np.int64)
    ids = pa.array(users.ids, pa.int64() if users.ids.dtype.kind == "i" else pa.large_string())
    _write_arrow(home / f"users-{block}.arrow", [pa.record_batch({"user": ids})])
    write_cells(home, block, indptr=indptr, items=merged.item_rows)
    if is_timed:
        write_cells(home, block, times=merged.times, places=merged.places)
    with write_whole(done) as file:
        file.write(str(len(rows) - len(merged.user_rows)).encode())
    return len(rows) - len(merged.user_rows)


def write_cells(folder: Path, block: int, **arrays: Any) -> None:
    """Write arrays of a block by name."""
    for name, array in arrays.items():
        with write_whole(folder / f"{name}-{block}.npy") as file:
            np.save(file, array)


def read_users(folder: str | Path, block: int) -> pa.Array:
    """Return the ids of the users of a block, in the order of their rows."""
    return _open_arrow(Path(folder) / f"users-{block}.arrow").get_batch(0).column(0)


# On one machine


def read_parts(source: str | os.PathLike[str], options: ReadOptions) -> Log:
    """Return the log of a folder of Parquet files, read part by part.

    Besides the log, memory holds a few parts only: blocks of users wait in a temporary folder.
    """
    files = list_files(Path(source).expanduser())
    given = [name for name in ("weight", "event", "title") if options.columns[name]]
    if given or options.ordered:
        name = given[0] if given else "ordered"
        raise ParameterError(
            f"{name}= is for one file: of a folder of Parquet files, users, items, ratings and times are read"
        )
    with tempfile.TemporaryDirectory(prefix="csrr-parts-") as folder:
        log = spread_log(source, Path(folder), _run_here, lambda rows: max(1, rows // BLOCK_ROWS), options=options)
        names = ["items", "times", "places"][: 3 if log.has_times else 1]
        read = {name: _join_blocks(log, name) for name in names}
        users = IdMap(pa.concat_arrays([read_users(log.folder, block) for block in range(log.n_blocks)]))
    rows = np.repeat(np.arange(len(users), dtype=np.int32), np.diff(log.indptr))
    first = parquet.ParquetFile(files[0]).read_row_group(0).slice(0, 1000)
    seen = read_events(open_table(first), options).columns
    unread = tuple(name for name in (seen.weight, seen.title, seen.event) if name is not None)
    note = ("of a folder of parts only users, items, ratings and times are read",) if unread else ()
    left_alone = (*seen.left_alone, *unread)
    columns = replace(
        seen, weight=None, title=None, event=None, left_alone=left_alone, notes=note, n_repeats=log.n_repeats
    )
    return Log(
        users, log.items, rows, read["items"], None, read.get("times"), columns=columns, places=read.get("places")
    )


def _join_blocks(log: SpreadLog, name: str) -> Any:
    """An array of all blocks, whose files are removed one by one."""
    files = [log.folder / f"{name}-{block}.npy" for block in range(log.n_blocks)]
    whole = np.empty(len(log), np.result_type(*(np.load(each, mmap_mode="r").dtype for each in files)))
    for file, (a, b) in zip(files, pairwise(log.bounds), strict=True):
        whole[log.indptr[a] : log.indptr[b]] = np.load(file)
        file.unlink()
    return whole


def _run_here(
    work: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], *, tell: Tell | None = None, size: str = ""
) -> list[Any]:
    return [work(*task) for task in tasks]
