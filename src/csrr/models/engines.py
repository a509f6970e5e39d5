"""The engines by name, and which of them "auto" is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from csrr.numerics.engine import Engine, RankingEngine
from csrr.parameters import ParameterError

HOMES = {
    "threads": ("csrr.numerics.thread_engine", ""),
    "cuda": ("csrr.numerics.cuda_engine", "torch"),
    "dask": ("csrr.numerics.dask_engine", "distributed"),
}
"""The module of each engine, whose `open_engine` returns it, or raises RuntimeError where there is none; and the
package that it needs, for which there is an extra."""


def find_engine(engine: Any) -> Engine:
    """Return the engine of a name, or an engine itself; "auto" is threads of this process.

    ParameterError if there is none of that name here, ImportError if its package is missing.
    """
    if not isinstance(engine, str) and engine is not None:
        found: Engine = engine
        return found
    name = "threads" if engine in (None, "auto") else engine
    home, package = HOMES[name]
    try:
        found = import_module(home).open_engine()
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise ImportError(f"engine={engine!r} needs {package}: pip install 'csrr[{name}]'") from None
    except RuntimeError as error:
        raise ParameterError(f"engine={engine!r}: {error}", parameter="engine", value=engine) from None
    return found


def find_ranking_engine(engine: Any) -> RankingEngine | None:
    """Return the engine of a name, or an engine itself, if it makes lists; else None."""
    found = find_engine(engine)
    return found if isinstance(found, RankingEngine) else None


@contextmanager
def explain_memory(engine: Any) -> Iterator[None]:
    """Turns an error of a device that has no more memory into a ParameterError that says how much was asked for."""
    try:
        yield
    except RuntimeError as error:
        asked = re.search(r"[Tt]ried to allocate (\d+ bytes|[\d.]+ [KMGT]iB)", str(error))
        if asked is None:
            raise
        has = re.search(r"total capacity of ([\d.]+ [KMGT]iB) of which ([\d.]+ [KMGT]iB) is free", str(error))
        there = f" has {has[1]}, {has[2]} of it free, and" if has else ""
        raise ParameterError(
            f"the memory of the engine{there} does not hold {asked[1]} more; lower max_rank or neighbors, leave out"
            ' rare items, or use engine="threads"',
            parameter="engine",
            value=engine,
        ) from None
