"""Files, pipes and packed bytes -> bytes, never more than the limit."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import select
import stat
import struct
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from csrr.data.errors import DataError, quote_error
from csrr.data.limits import Limit, find_limit

BLOCK_BYTES = 1 << 20
PATIENCE_SECONDS = 10.0
"""How long a pipe is given to find somebody who writes to it."""

DAMAGE = (
    OSError,
    EOFError,
    RuntimeError,  # of zipfile: a password is needed; NotImplementedError: an unknown way of packing
    ValueError,  # UnicodeDecodeError among them
    LookupError,
    MemoryError,  # a header that asks for more than there is
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)
"""What the libraries that unpack raise on damaged bytes."""

_OPENERS: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": lambda file: pa.CompressedInputStream(file, "zstd"),
}
SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
"""How the names of packed files end."""


def read_file(path: Path) -> bytes:
    """Return the bytes of a file or a pipe."""
    about = path.stat()
    if stat.S_ISFIFO(about.st_mode):
        return _read_pipe(path, find_limit(of_pipe=True))
    if not stat.S_ISREG(about.st_mode):
        raise DataError(f"{path.name} is a device, which may have no end; give a file or a pipe")
    limit = find_limit()
    limit.check(about.st_size, path.name)
    with path.open("rb") as file:
        # At once: blocks that are joined take twice the memory for a moment.
        return file.read(about.st_size) + read_stream(file, limit, path.name)


def read_stream(file: Any, limit: Limit, what: str) -> bytes:
    """Return what is left in a file, unless it is more than the limit."""
    blocks, size = [], 0
    while block := file.read(BLOCK_BYTES):
        blocks.append(block)
        size += len(block)
        limit.check(size, what)
    return blocks[0] if len(blocks) == 1 else b"".join(blocks)


def unpack(content: bytes, what: str) -> bytes:
    """Return gzip, bzip2, xz and zstd unpacked, and anything else as it is; `what` names it in errors."""
    opener = _find_opener(content)
    if opener is None:
        return content
    limit = find_limit(len(content))
    try:
        with opener(io.BytesIO(content)) as file:
            unpacked = read_stream(file, limit, what)
    except DataError:
        raise
    except (*DAMAGE, pa.ArrowException) as error:
        raise DataError(f"cannot read {what}: {quote_error(error)}; the file is damaged, get it again") from error
    if _find_opener(unpacked) is not None:
        raise DataError(f"{what} is compressed more than once; decompress it first")
    return unpacked


def strip_suffix(name: str) -> str:
    """Return a name without .gz and the like."""
    return name.rpartition(".")[0] if name.lower().endswith(SUFFIXES) else name


def _find_opener(content: bytes) -> Callable[[IO[bytes]], Any] | None:
    if content.startswith(b"BZh") and not content[4:].startswith((b"1AY&SY", b"\x17rE8P\x90")):
        return None  # text may begin so
    return next((opener for magic, opener in _OPENERS.items() if content.startswith(magic)), None)


def _read_pipe(path: Path, limit: Limit) -> bytes:
    """Return what comes through a pipe. Who writes may take its time; but there must be somebody who does."""
    # Without O_NONBLOCK, to open a pipe waits for a writer for ever.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        first = _wait_for_writer(handle, path)
        os.set_blocking(handle, True)
        with os.fdopen(handle, "rb", closefd=False) as file:
            return first + read_stream(file, limit, path.name)
    finally:
        os.close(handle)


def _wait_for_writer(handle: int, path: Path) -> bytes:
    """Return, once somebody has opened the other end of a pipe, what was read on the way."""
    events = select.poll()
    events.register(handle, select.POLLIN)
    end = time.monotonic() + PATIENCE_SECONDS
    while not events.poll(50):
        try:
            if first := os.read(handle, BLOCK_BYTES):
                return first
        except BlockingIOError:  # there is a writer, who is silent yet
            return b""
        if time.monotonic() > end:
            raise DataError(
                f"{path.name} is a pipe, and nobody has written to it for {PATIENCE_SECONDS:.0f} seconds;"
                " start what writes to it first"
            )
    return b""
