"""How much a file may hold: what is read must fit into memory, and a small file must not unpack into a huge one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from csrr.data.errors import DataError
from csrr.printable import describe_size

VARIABLE = "CSRR_MAX_BYTES"
SHARE = 8
"""A file may hold this part of the memory: to make a log of a CSV file takes about eight times its size."""
RATIO = 200
"""A packed file may hold so many times its size; logs are packed 3 to 50 times."""
ALWAYS = 1 << 28
"""So many bytes are accepted on any machine, from a packed file of any size, and from a pipe."""
BYTES_A_ROW = 24
"""What a row counts for at least: the log is made of numbers, however short the text was."""
UNKNOWN_MEMORY = 8 << 30

LONGEST_LINE = 1 << 24
"""The most bytes of a line of columns."""
MOST_COLUMNS = 10_000

_CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@dataclass(frozen=True)
class Limit:
    """The most bytes that a file may hold once unpacked, and the reason."""

    n_bytes: int
    reason: str

    def check(self, n_bytes: int, what: str = "the file") -> None:
        """Raise an error where `n_bytes` are too many."""
        if n_bytes > self.n_bytes:
            raise DataError(
                f"{what} holds more than {describe_size(self.n_bytes)}, {self.reason};"
                f" if that is intended, set the environment variable {VARIABLE} to more bytes"
            )

    def check_rows(self, n_rows: int, what: str = "the file") -> None:
        """Raise an error where so many rows are too many."""
        if BYTES_A_ROW * n_rows > self.n_bytes:
            told = f"{what} has {n_rows:,} rows, which count for {BYTES_A_ROW} bytes each: it"
            self.check(BYTES_A_ROW * n_rows, told)


def find_limit(packed: int | None = None, *, of_pipe: bool = False) -> Limit:
    """Return how many bytes a file or a pipe may hold; `packed` is the size of a file that is packed."""
    if given := os.environ.get(VARIABLE, "").strip():
        return Limit(_read_size(given), f"the limit that {VARIABLE} sets")
    if of_pipe:
        return Limit(ALWAYS, "the limit for a pipe, which does not tell its size (write a file instead)")
    most = max(find_memory() // SHARE, ALWAYS)
    if packed is not None and packed * RATIO < most:
        return Limit(max(packed * RATIO, ALWAYS), f"more than {RATIO} times its compressed size")
    return Limit(most, "an eighth of this machine's memory")


def find_memory() -> int:
    """Return the bytes of memory that this process may have, as far as the system tells."""
    try:
        sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (AttributeError, ValueError, OSError):
        sizes = [UNKNOWN_MEMORY]
    for file in _CONTAINER_LIMITS:
        try:
            sizes.append(int(Path(file).read_text()))
        except (OSError, ValueError):  # no container, or "max"
            continue
    return min(size for size in sizes if size > 0)


def _read_size(text: str) -> int:
    try:
        size = int(float(text))
    except (ValueError, OverflowError):
        size = 0
    if size < 1:
        raise DataError(f"{VARIABLE}={text!r} is not a number of bytes; write it like 8e9, or leave it unset")
    return size
