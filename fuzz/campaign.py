"""What an attack is made of: how a case is drawn, and how it is judged."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np


class Finding(Exception):
    """Something that csrr must not do. Any other exception that leaves `check` is a finding too."""


class Campaign(Protocol):
    """One kind of attack. A case is bytes, so that one that failed can be kept as a small file and tried again."""

    name: str
    about: str
    """What is attacked, and what counts as a finding: a line for the list of campaigns."""
    patience: float
    """The seconds after which a case counts as hanging."""

    def prepare(self) -> None:
        """Make what cases are drawn from and compile what they run. Called once a process, before anything else."""
        ...

    def make(self, rng: np.random.Generator) -> bytes:
        """Draw a case. The same generator gives the same bytes."""
        ...

    def check(self, case: bytes, folder: Path) -> None:
        """Try a case, with an empty folder of its own; raise `Finding`, or let an exception through, if it fails."""
        ...


@contextmanager
def limit_memory(most: int, what: str) -> Iterator[None]:
    """A finding where the block holds more than `most` bytes of Python's and numpy's memory at once."""
    already = tracemalloc.is_tracing()
    if not already:
        tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    try:
        yield
    finally:
        peak = tracemalloc.get_traced_memory()[1] - before
        if not already:
            tracemalloc.stop()
    if peak > most:
        raise Finding(f"{what} took {peak:,} bytes of memory, more than {most:,}")


@contextmanager
def set_environment(values: dict[str, str]) -> Iterator[None]:
    """Set variables of the environment for a while."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
