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

from csrr._base.arrays import AnyArray, Int64Array
from csrr._base.lazy_jit import compile_loop
from csrr._base.text import show_value
from csrr.data.errors import DataError
from csrr.data.ids import IdMap
from csrr.data.log import Log
from csrr.data.tables import ReadOptions, open_table, read_events
from csrr.parameters import ParameterError

PART_ROWS, BLOCK_ROWS = 2**21, 2**22
"""About so many rows are read at once, a row group never cut; and so many are a block on one machine."""
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

    `bounds` are the rows at which blocks end, `indptr`, (n_users + 1,), where the cells of each user do.
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
    columns = _find_columns(parts, options or ReadOptions())
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

    # 1. Each part, sorted by block; and its items.
    places = range(len(parts))
    size = f" (parts of up to {max(part.rows for part in parts):,} rows)"
    tasks = [(parts[place], columns, options or ReadOptions(), n_blocks, str(home), place) for place in places]
    kinds = {kind for found in run(spread_part, tasks, tell=tell_of("reading"), size=size) for kind in found}
    for role in ("user", "item"):
        if len(types := sorted({kind for name, kind in kinds if name == role})) > 1:
            raise DataError(f"the {role} ids are {types[0]} in some files and {types[1]} in others; make them the same")
    # 2. The items of all parts, numbered.
    items = _number_items(home, len(parts))
    # 3. Each block: its users, numbered, and their cells.
    blocks = [(str(home), block, len(parts)) for block in range(n_blocks)]
    built = run(build_block, blocks, tell=tell_of("numbering"), size=f" (blocks of {len(parts)} parts)")
    counts = [np.load(home / f"indptr-{block}.npy") for block in range(n_blocks)]
    bounds = np.concatenate(([0], np.cumsum([len(each) - 1 for each in counts])))
    indptr = np.concatenate(([0], np.cumsum(np.concatenate([np.diff(each) for each in counts]))))
    for place in places:
        (home / f"part-{place}.arrow").unlink(missing_ok=True)
    return SpreadLog(home, items, tuple(map(int, bounds)), indptr, sum(built))


def _find_columns(parts: Sequence[Part], options: ReadOptions) -> dict[str, str]:
    """The columns of users, items and, where it is used, of ratings: by their names, and a look at the first part."""
    path, group = parts[0].groups[0]
    first = parquet.ParquetFile(path).read_row_group(group).slice(0, 10_000)
    columns = read_events(open_table(first), options).columns
    roles = {"user": columns.user, "item": columns.item}
    return roles if columns.min_rating is None or columns.rating is None else roles | {"rating": columns.rating}


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


def spread_part(
    part: Part, columns: dict[str, str], options: ReadOptions, n_blocks: int, folder: str, place: int
) -> list[tuple[str, str]]:
    """Write the events of a part, a batch for each block of users, and its items; return the types of ids."""
    home = Path(folder)
    done = home / f"items-of-{place}.arrow"
    users_of = home / f"part-{place}.arrow"
    if done.exists() and (users_of.exists() or (home / "done-0").exists()):
        kind = _open_arrow(done).schema.metadata
        return [("user", kind[b"user"].decode()), ("item", kind[b"item"].decode())]
    tables = []
    for path, group in part.groups:
        file = parquet.ParquetFile(path)
        if missing := set(columns.values()) - set(file.schema_arrow.names):
            raise DataError(f"{path}: no column {show_value(min(missing))}, which other files have")
        tables.append(file.read_row_group(group, columns=sorted(set(columns.values()))))
    named = ReadOptions(
        [columns.get(role, False) for role in options.columns],
        min_rating=options.min_rating,
        on_bad_rows=options.on_bad_rows,
    )
    try:
        table = pa.concat_tables(tables)
    except pa.ArrowException as error:
        raise DataError(f"the files hold columns of different types: {error}; make them the same") from None
    try:
        events = read_events(open_table(table), named)
    except DataError as error:
        raise DataError(f"{part.groups[0][0]} and on: {error}") from None
    del tables, table
    user, item = (_decode(each) for each in (events.user, events.item))
    blocks = find_blocks(user, n_blocks)
    order = np.argsort(blocks, kind="stable")
    ends = np.cumsum(np.bincount(blocks, minlength=n_blocks))
    table = pa.record_batch({"user": user, "item": item}).take(pa.array(order))
    batches = [table.slice(end - count, count) for end, count in zip(ends, np.diff(ends, prepend=0), strict=True)]
    _write_arrow(users_of, batches)
    kinds = {"user": str(user.type), "item": str(item.type)}
    own = pa.record_batch({"item": pc.unique(item)}).replace_schema_metadata(kinds)
    _write_arrow(done, [own])
    return list(kinds.items())


def _decode(column: Any) -> pa.Array:
    """A checked column of ids as int64 or large_string."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def find_blocks(ids: pa.Array, n_blocks: int) -> AnyArray:
    """Return the block of each id, (n,), by a hash that is the same everywhere."""
    if pa.types.is_integer(ids.type):
        mixed = ids.to_numpy().astype(np.uint64)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        mixed ^= mixed >> np.uint64(31)
    else:
        encoded = ids.dictionary_encode()
        texts = encoded.dictionary.cast(pa.large_string())
        _, offsets, data = texts.buffers()
        ends = np.frombuffer(offsets, np.int64, len(texts) + 1, 8 * texts.offset)
        letters = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        hashed = np.empty(len(texts), np.uint64)
        _hash_texts(ends, letters, hashed)
        mixed = hashed[encoded.indices.to_numpy()]
    found: AnyArray = (mixed % np.uint64(n_blocks)).astype(np.int32)
    return found


@compile_loop()
def _hash_texts(ends, letters, out):  # type: ignore[no-untyped-def]
    # FNV-1a of 64 bits, its upper half mixed into the lower one
    for i in range(len(out)):
        value = np.uint64(14695981039346656037)
        for place in range(ends[i], ends[i + 1]):
            value = (value ^ np.uint64(letters[place])) * np.uint64(1099511628211)
        out[i] = value ^ (value >> np.uint64(32))


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
    column = pa.concat_arrays([each.column(0) for each in batches])
    users, rows = IdMap.encode(column)
    columns = pc.index_in(pa.concat_arrays([each.column(1) for each in batches]), items).to_numpy()
    del batches, column
    pairs = rows.astype(np.int64) * max(len(items), 1) + columns
    del rows, columns
    n_rows = len(pairs)
    pairs = np.unique(pairs)
    rows, columns = np.divmod(pairs, max(len(items), 1))
    indptr = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=len(users))))).astype(np.int64)
    ids = pa.array(users.ids, pa.int64() if users.ids.dtype.kind == "i" else pa.large_string())
    _write_arrow(home / f"users-{block}.arrow", [pa.record_batch({"user": ids})])
    write_cells(home, block, indptr, columns.astype(np.int32))
    with write_whole(done) as file:
        file.write(str(n_rows - len(pairs)).encode())
    return n_rows - len(pairs)


def write_cells(folder: Path, block: int, indptr: Int64Array, items: AnyArray) -> None:
    """Write the cells of a block by user."""
    for name, array in (("indptr", indptr), ("items", items)):
        with write_whole(folder / f"{name}-{block}.npy") as file:
            np.save(file, array)


def read_users(folder: str | Path, block: int) -> pa.Array:
    """Return the ids of the users of a block, in the order of their rows."""
    return _open_arrow(Path(folder) / f"users-{block}.arrow").get_batch(0).column(0)


# Events held out


class Held(NamedTuple):
    """Users of a block with events held out: their rows, how many events each keeps and has held out, and these."""

    draws: AnyArray
    rows: Int64Array
    n_kept: AnyArray
    kept: AnyArray
    n_held: AnyArray
    held: AnyArray


def hold_out_block(folder: str, target: str, block: int, share: float, least: int, most: int, seed: int) -> Held:
    """Hold out a random share of the events of each user, write the others to `target`, and return some users.

    Those with fewer than `least` events keep all. It returns `most` users at most, drawn at random.
    """
    home = Path(folder)
    indptr, items = (np.load(home / f"{name}-{block}.npy") for name in ("indptr", "items"))
    rng, counts = np.random.default_rng((seed, block)), np.diff(indptr)
    n_held = np.floor(share * counts + rng.random(len(counts))).astype(np.int64)
    n_held[counts < least] = 0
    rows = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((rng.random(len(items)), rows))
    is_held = np.empty(len(items), np.bool_)
    is_held[order] = np.arange(len(items)) - np.repeat(indptr[:-1], counts) < np.repeat(n_held, counts)
    kept_indptr = np.concatenate(([0], np.cumsum(counts - n_held)))
    if not (Path(target) / f"items-{block}.npy").exists():
        write_cells(Path(target), block, kept_indptr, items[~is_held])
    draws = rng.random(len(counts))
    able = np.flatnonzero(n_held > 0)
    chosen = np.sort(able[np.argsort(draws[able], kind="stable")[:most]])
    mine = np.isin(rows, chosen)
    parts = (counts - n_held)[chosen], items[mine & ~is_held], n_held[chosen], items[mine & is_held]
    return Held(draws[chosen], chosen, *parts)


# On one machine


def read_parts(source: str | os.PathLike[str], options: ReadOptions) -> Log:
    """Return the log of a folder of Parquet files, read part by part.

    Besides the log, memory holds a few parts only: blocks of users wait in a temporary folder.
    """
    files = list_files(Path(source).expanduser())
    given = [name for name in ("weight", "event", "time", "title") if options.columns[name]]
    if given or options.ordered:
        name = given[0] if given else "ordered"
        raise ParameterError(
            f"{name}= is for one file: of a folder of Parquet files, users, items and ratings are read"
        )
    with tempfile.TemporaryDirectory(prefix="csrr-parts-") as folder:
        log = spread_log(source, Path(folder), _run_here, lambda rows: max(1, rows // BLOCK_ROWS), options=options)
        ids = pa.concat_arrays([read_users(log.folder, block) for block in range(log.n_blocks)])
        order = pc.array_sort_indices(ids).to_numpy()
        users, counts = IdMap(ids.take(pa.array(order))), np.diff(log.indptr)
        ends = np.cumsum(counts[order])
        starts = np.empty(len(order), np.int64)
        starts[order] = ends - counts[order]
        items = np.empty(len(log), np.int32)
        for block, (a, b) in enumerate(pairwise(log.bounds)):
            mine = np.load(log.folder / f"items-{block}.npy", mmap_mode="r")
            places = np.repeat(starts[a:b] - (log.indptr[a:b] - log.indptr[a]), counts[a:b])
            places += np.arange(len(mine))
            items[places] = mine
    rows = np.repeat(np.arange(len(users), dtype=np.int32), counts[order])
    first = parquet.ParquetFile(files[0]).read_row_group(0).slice(0, 1000)
    seen = read_events(open_table(first), options).columns
    unread = tuple(name for name in (seen.weight, seen.time, seen.title, seen.event) if name is not None)
    note = ("of a folder of parts only users, items and ratings are read",) if unread else ()
    columns = replace(
        seen,
        weight=None,
        time=None,
        title=None,
        event=None,
        left_alone=(*seen.left_alone, *unread),
        notes=note,
        n_repeats=log.n_repeats,
    )
    return Log(users, log.items, rows, items, columns=columns)


def _run_here(
    work: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], *, tell: Tell | None = None, size: str = ""
) -> list[Any]:
    return [work(*task) for task in tasks]
