"""Small good files of every format that `csrr.read` takes, and ways to pack them."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import zipfile
from functools import cache

import numpy as np
import pyarrow as pa
from pyarrow import feather, parquet

Files = dict[str, bytes]
"""Files by name; the first is the log."""

METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


@cache
def make_good_files() -> list[Files]:
    """Return files, or a few that belong together."""
    rng = np.random.default_rng(0)
    n = 12
    table = {
        "user": rng.integers(1, 6, n).tolist(),
        "item": rng.integers(1, 9, n).tolist(),
        "rating": rng.integers(1, 6, n).tolist(),
        "timestamp": (880_000_000 + rng.integers(10**6, size=n)).tolist(),
    }
    words = {
        "user_id": [f"u{i}" for i in table["user"]],
        "movieId": table["item"],
        "count": [0.5 * r for r in table["rating"]],
        "date": [f"2001-0{r}-11 12:00" for r in table["rating"]],
        "title": [f"Film {i}, the {'é' if i % 2 else '“B”'}" for i in table["item"]],
    }
    titles = {i: words["title"][k] for k, i in enumerate(table["item"])}
    bare = _join(table, "\t", header=False)
    lists = "".join(f"{u} {' '.join(map(str, range(u, 9)))}\n" for u in range(5)).encode()
    movies = "".join(f"{i}::{titles[i]}::Drama\n" for i in titles).encode("latin-1", "replace")
    pairs = zip(table["user"], table["item"], strict=True)
    rows = [dict(zip(words, row, strict=True)) for row in zip(*words.values(), strict=True)]
    return [
        {"log.csv": _join(table, ",")},
        {"log.csv": _join(words, ",", quote=True)},
        {"log.csv": _join(words, ",", quote=True) + _join(words, ",", quote=True)},
        {"log.csv": _join(table, ";").replace(b"1;", b"1.0;").replace(b";2;", b"; 2;") + b"NULL;2;1,5;\n"},
        {"log.tsv": _join(words, "\t")},
        {"log.txt": _join(table, ";").replace(b"\n", b"\r\n")},
        {"log.csv": _join(words, "|").decode().encode("utf-16")},
        {"log.inter": b"user_id:token\titem_id:token\trating:float\ttimestamp:float\n" + bare},
        {"u.data": bare, "u.item": "".join(f"{i}|{titles[i]}|x\n" for i in titles).encode("latin-1", "replace")},
        {"ratings.dat": _join(table, "::", header=False), "movies.dat": movies},
        {
            "ratings.csv": _join(table, ",").replace(b"user,item", b"userId,movieId"),
            "movies.csv": b"movieId,title\n" + "".join(f'{i},"{titles[i]}"\n' for i in titles).encode(),
        },
        {
            "user_artists.dat": _join(
                {"userID": table["user"], "artistID": table["item"], "weight": table["rating"]}, "\t"
            )
        },
        {"vote.txt": b"".join(b"%d\t%d\t0.4\t1\t10/30/96 0:00:00\n" % pair for pair in pairs)},
        {"train.txt": lists, "test.txt": b"0 20 21\n3 22\n"},
        {"train.txt": lists},
        {"log.jsonl": "\n".join(map(json.dumps, rows)).encode()},
        {"log.json": "\n".join(json.dumps(row, ensure_ascii=False) for row in rows).encode()},
        *({name: data} for name, data in _make_binary(pa.table(table))),
        *({name: data} for name, data in _make_binary(pa.table(words))),
        *(
            {name: data}
            for name, data in _make_binary(
                pa.table(words | {"user_id": pa.array(words["user_id"]).dictionary_encode()})
            )
        ),
    ]


def pack(files: Files, rng: np.random.Generator) -> tuple[str, bytes]:
    """Return a file as it is or packed, and several as a zip archive."""
    name, data = next(iter(files.items()))
    kind = int(rng.integers(10))
    if len(files) > 1 or kind >= 7:
        return f"{name.partition('.')[0]}.zip", _zip(files, METHODS[int(rng.integers(4))])
    if kind == 4:
        return f"{name}.bz2", bz2.compress(data)
    if kind == 5:
        return f"{name}.xz", lzma.compress(data, preset=0)
    if kind == 6:
        return f"{name}.zst", pa.compress(data, "zstd", asbytes=True)
    return (f"{name}.gz", gzip.compress(data, 1, mtime=0)) if kind == 3 else (name, data)


@cache
def make_bombs() -> list[tuple[str, bytes]]:
    """Return small files that unpack into large ones."""
    zeros = bytes(6 << 20)
    rows = b"user,item\n" + b"1,2\n" * (9 << 17)
    column = pa.table({"user": pa.array(np.zeros(1 << 20, np.int64)), "item": pa.array(np.zeros(1 << 20, np.int64))})
    packed, stored = io.BytesIO(), io.BytesIO()
    with pa.ipc.new_file(packed, column.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(column)
    parquet.write_table(column, stored)
    texts = pa.table({"user": pa.array(["x" * 100_000]).dictionary_encode().take(pa.array(np.zeros(9000, int)))})
    texts = texts.append_column("item", pa.array(np.arange(9000)))
    wide, wide_parquet = io.BytesIO(), io.BytesIO()
    feather.write_feather(texts, wide, compression="zstd")
    parquet.write_table(texts, wide_parquet)
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2**31 - 1], pa.int32()), pa.array(["a"]))
    endless, keys = io.BytesIO(), b"".join(b'{"user":1,"item":%d,"k%d":1}\n' % (i, i) for i in range(3000))
    with pa.ipc.new_stream(endless, pa.schema({"user": runs.type, "item": pa.null()})) as writer:
        writer.write_batch(pa.record_batch({"user": runs, "item": pa.Array.from_buffers(pa.null(), 2**31 - 1, [None])}))
    return [
        ("log.csv.gz", gzip.compress(zeros, 9, mtime=0)),
        ("log.csv.gz", gzip.compress(gzip.compress(rows, 9, mtime=0), mtime=0)),
        ("log.csv.bz2", bz2.compress(zeros)),
        ("log.csv.xz", lzma.compress(rows, preset=0)),
        ("log.csv.zst", pa.compress(rows, "zstd", asbytes=True)),
        *(("log.zip", _zip({"log.csv": zeros}, method)) for method in METHODS[1:]),
        ("log.arrow", packed.getvalue()),
        ("log.parquet", stored.getvalue()),
        ("log.feather", wide.getvalue()),
        ("log.parquet", wide_parquet.getvalue()),
        ("log.arrow", endless.getvalue()),
        ("log.jsonl", keys),
        ("log.csv", b"user,item" + b",a" * 400_000 + b"\n1,2\n"),
        ("log.csv", b"user,item\n1," + b"x" * 3_000_000 + b"\n"),
        ("train.txt", b"0 " + b"1 " * 1_000_000),
    ]


def _join(table: dict[str, list[object]], separator: str, *, header: bool = True, quote: bool = False) -> bytes:
    mark = '"' if quote else ""
    lines = [
        *([separator.join(table)] if header else []),
        *(
            separator.join(f"{mark}{value}{mark}" if isinstance(value, str) else str(value) for value in row)
            for row in zip(*table.values(), strict=True)
        ),
    ]
    return "".join(f"{line}\n" for line in lines).encode()


def _make_binary(table: pa.Table) -> list[tuple[str, bytes]]:
    found = []
    for packing in ("none", "zstd"):
        file = io.BytesIO()
        parquet.write_table(table, file, compression=packing)
        found.append(("log.parquet", file.getvalue()))
        file = io.BytesIO()
        feather.write_feather(table, file, compression="uncompressed" if packing == "none" else "lz4")
        found.append(("log.feather", file.getvalue()))
        file = io.BytesIO()
        options = pa.ipc.IpcWriteOptions(compression=None if packing == "none" else packing)
        with pa.ipc.new_stream(file, table.schema, options=options) as stream:
            stream.write_table(table)
        found.append(("log.arrow", file.getvalue()))
    return found


def _zip(files: Files, method: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(f"folder/{name}", (1996, 1, 1, 0, 0, 0))
            entry.compress_type = method
            archive.writestr(entry, data)
    return file.getvalue()
