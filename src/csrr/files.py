"""Files that are written at once or not at all, and folders that one process has to itself."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Give a file that takes the place of `path` at the end; if anything goes wrong, what was there stays."""
    target = Path(path)
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    except OSError as error:
        # The name that the caller knows, not that of the part.
        raise type(error)(error.errno, error.strerror, str(target)) from None
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text, at once or not at all."""
    with atomic_write(path) as file:
        file.write(text.encode())


@contextlib.contextmanager
def try_lock(path: str | os.PathLike[str]) -> Iterator[bool]:
    """Hold a lock on `path` and give whether it was free; it ends with the process, however that ends.

    The file stays, empty: to remove it would let one process lock the old file and another a new one.
    """
    try:
        import fcntl
    except ImportError:
        raise OSError(f"a lock on {path} needs a POSIX system") from None

    with Path(path).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
