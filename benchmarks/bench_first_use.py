"""What a new user waits for: the import, and a first fit while nothing is compiled yet.

    python -m benchmarks first-import first-fit-small first-fit

Every time is that of a fresh Python, the least of a few. A first fit begins with an empty folder for what numba
compiles; the same again, in the next process, finds it full, and the difference is what compiling costs. All are times
of the processor: the clock of a busy machine says more about the others.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from benchmarks.measure import Row, Values

ROUNDS = 5
MOST_IMPORT, MOST_COMPILING = 0.5, 2.0
IMPORT = """
import json, time
clock, cpu = time.perf_counter(), time.process_time()
{line}
print(json.dumps([time.perf_counter() - clock, time.process_time() - cpu]))
"""
FIT = """
import json, time
import csrr
from csrr import CSRR
log = {data}
began = time.process_time()
model = CSRR(threads=1).fit(log)
fitted = time.process_time()
model.recommend(k=10)
print(json.dumps([fitted - began, time.process_time() - fitted]))
"""


def run_fresh(code: str, folder: str) -> list[float]:
    """What `code` printed, as JSON, in a Python of its own, with `folder` for what is compiled."""
    # One thread: others that wait for work would count as work.
    env = os.environ | {"NUMBA_CACHE_DIR": folder, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    found: list[float] = json.loads(done.stdout)
    return found


def time_import(line: str) -> dict[str, float]:
    """The least seconds that an import takes, on the clock and of the processor."""
    with tempfile.TemporaryDirectory() as folder:
        found = [run_fresh(IMPORT.format(line=line), folder) for _ in range(2 * ROUNDS)]
    clock, cpu = (min(each) for each in zip(*found, strict=True))
    return {"clock": clock, "cpu": cpu}


def measure_imports() -> Values:
    """The package alone, with its models, and what of that are the libraries under it."""
    found: dict[str, Any] = {
        "package": time_import("import csrr"),
        "models": time_import("from csrr import CSRR, read, evaluate"),
        "libraries": time_import("import numpy, scipy.sparse, pyarrow.compute, pyarrow.parquet"),
    }
    return found | {"reached": found["models"]["cpu"] < MOST_IMPORT}


def measure_first_fit(data: str) -> Values:
    """A fit and a first list, with nothing compiled and with all of it."""
    first, again = [], []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            first.append(run_fresh(FIT.format(data=data), folder))
            again.append(run_fresh(FIT.format(data=data), folder))
    fit, lists = (min(each) for each in zip(*first, strict=True))
    fit_again, lists_again = (min(each) for each in zip(*again, strict=True))
    return {
        "fit": fit,
        "fit_again": fit_again,
        "lists": lists,
        "lists_again": lists_again,
        "compiling": fit - fit_again,
        "reached": fit - fit_again < MOST_COMPILING,
    }


def _make_row(name: str, data: str) -> Row:
    return Row(
        name,
        "`CSRR().fit` in a new installation, and in the next process; the first list likewise; processor seconds",
        "{fit:.1f}, then {fit_again:.1f}; {lists:.1f}, then {lists_again:.2f}",
        "",
        f"{MOST_COMPILING:.0f} s for compiling the fit",
        lambda: measure_first_fit(data),
        is_time=True,
    )


ROWS = {
    "first-import": Row(
        "none",
        "`import csrr`; `from csrr import CSRR, read, evaluate`; processor seconds",
        "{package[cpu]:.3f}; {models[cpu]:.2f}",
        "numpy, scipy.sparse and pyarrow alone: {libraries[cpu]:.2f}",
        f"{MOST_IMPORT} s",
        measure_imports,
        is_time=True,
    ),
    "first-fit-small": _make_row("60 users, 100 items, made", "csrr.synthetic(60, 100, seed=0).log"),
    "first-fit": _make_row("MovieLens-100K", 'csrr.read("ml-100k")'),
}
