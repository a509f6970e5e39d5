"""Files that are written atomically, and folders that one process has to itself."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

PARTS: set[str] = set()
"""The temporary files of this process: `cli/interrupts.py` removes them where it ends the process at once."""

_DAY = 86_400.0


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Give a file that replaces `path` at the end; after an error the old file stays.

    A link is followed. The new file has the permissions of the one it replaces. A pipe or a terminal is written to at
    the end. Temporary files that a killed process left of the same file are removed.
    """
    with _name_in_errors(path):
        mode = _find_mode(Path(path))
    if mode is not None and not stat.S_ISREG(mode):
        with _name_in_errors(path):
            yield from _write_through(Path(path))
        return
    target = Path(os.path.realpath(path))
    with _name_in_errors(path):
        _sweep(target)
        part, handle = _open_part(target, 0o666 if mode is None else stat.S_IMODE(mode))
    try:
        with _name_in_errors(path, part), os.fdopen(handle, "w+b") as file:
            yield file
            file.flush()
            if mode is not None and hasattr(os, "fchmod"):  # what the umask took
                os.fchmod(file.fileno(), stat.S_IMODE(mode))
            os.fsync(file.fileno())
            if os.name == "posix":
                # While it is locked, no other process removes it; elsewhere an open file cannot be moved.
                os.replace(part, target)
        with _name_in_errors(path, part):
            if os.name != "posix":
                os.replace(part, target)
        _sync_folder(target.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise
    finally:
        PARTS.discard(str(part))


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file atomically."""
    with atomic_write(path) as file:
        file.write(text.encode())


@contextlib.contextmanager
def try_lock(path: str | os.PathLike[str]) -> Iterator[bool]:
    """Hold a lock on `path` and give whether it was free; it ends with the process, however that ends.

    The file stays, empty: to remove it would let one process lock the old file and another a new one.
    """
    with Path(path).open("ab") as file:
        with _name_in_errors(path):
            is_free = _lock(file.fileno())
        yield is_free


def _lock(handle: int, *, wait: bool = False) -> bool:
    """Lock an open file until it is closed; return whether it was free. POSIX and Windows have calls of their own."""
    try:
        import fcntl
    except ImportError:
        return _lock_on_windows(handle)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def _lock_on_windows(handle: int) -> bool:
    try:
        import msvcrt
    except ImportError:
        raise OSError(errno.ENOLCK, "this system has no locks on files") from None
    locking, at_once = getattr(msvcrt, "locking"), getattr(msvcrt, "LK_NBLCK")  # noqa: B009
    os.lseek(handle, 0, os.SEEK_SET)
    try:
        locking(handle, at_once, 1)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            return False
        raise
    return True


# Parts


def _open_part(target: Path, mode: int) -> tuple[Path, int]:
    """Return a new file beside the target, open and locked as long as it is open, with permissions as by the umask."""
    # Not inherited, nor changed on the way: both flags are Windows's.
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0)
    while True:
        part = target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")
        PARTS.add(str(part))  # before it is there: a signal may come between
        handle = os.open(part, flags, mode)
        try:
            with contextlib.suppress(OSError):
                if os.name == "posix":
                    _lock(handle, wait=True)
            # Another process may have removed it before it was locked: try again.
            if part.exists():
                return part, handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _sweep(target: Path) -> None:
    """Remove the parts of a target that no process writes any more."""
    ours = re.compile(re.escape(f".{target.name}.") + r"[0-9a-f]{16}\.part")
    names: list[str] = []
    with contextlib.suppress(OSError):  # a folder that may be written to, not read
        names = os.listdir(target.parent)
    for name in filter(ours.fullmatch, names):
        with contextlib.suppress(OSError):
            _remove_stale(target.with_name(name))


def _remove_stale(part: Path) -> None:
    if os.name != "posix":
        # What is open cannot be removed; between its close and its move a part is young.
        if time.time() - part.stat().st_mtime > _DAY:
            part.unlink()
        return
    with part.open("rb") as file:
        # Who writes a part holds its lock until it has another name.
        if _lock(file.fileno()):
            part.unlink()


def _write_through(target: Path) -> Iterator[BinaryIO]:
    """Give a file in memory, and write it to what is no file: a pipe, a terminal."""
    kept = io.BytesIO()
    yield kept
    with target.open("wb") as file:
        file.write(kept.getbuffer())


def _find_mode(target: Path) -> int | None:
    """Return type and permissions of what is there; None for nothing, an error for a folder or links in a circle."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return mode


def _sync_folder(folder: Path) -> None:
    """Write the new name to disk, so that it survives a loss of power, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def _name_in_errors(path: str | os.PathLike[str], part: Path | None = None) -> Iterator[None]:
    """Name the file that the caller knows, not its part, in an error about it."""
    try:
        yield
    except OSError as error:
        is_ours = part is None or error.filename is None or os.fspath(error.filename) == os.fspath(part)
        if error.errno is None or not is_ours:
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
