"""Loops compile when they are first called, and nothing imports numba before."""

import ast
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from csrr.compiled import Loop, compile_loop, compile_part

SOURCE = Path(__file__).parents[1] / "src" / "csrr"


@compile_part()
def _square(x):
    return x * x


@compile_loop()
def _sum_squares(values):
    total = 0.0
    for value in values:
        total += _square(value)
    return total


@compile_loop()
def _double(values, out):
    for i in range(len(values)):
        out[i] = 2 * values[i]


def test_a_loop_calls_its_parts_whichever_thread_is_first():
    values = np.arange(5.0)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: _sum_squares(values), range(8))) == [30.0] * 8


def test_a_loop_is_compiled_once_for_each_kind_of_argument():
    assert isinstance(_double, Loop)
    for dtype in (np.float32, np.int64, np.float32):
        out = np.empty(3, dtype)
        _double(np.arange(3, dtype=dtype), out)
        assert out.tolist() == [0, 2, 4]
    assert len(_double.compile().signatures) == 2
    assert _double.compile() is _double.compile()


def test_python_cannot_call_a_part():
    _sum_squares(np.arange(3.0))
    with pytest.raises(TypeError, match="_square is for compiled loops"):
        _square(2.0)


def imports_numba(path):
    """Whether a file imports numba, anywhere."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return any(name.split(".")[0] == "numba" for name in names)


def test_one_file_alone_imports_numba():
    assert [path.name for path in SOURCE.rglob("*.py") if imports_numba(path)] == ["compiled.py"]


@pytest.mark.parametrize(
    ("work", "needs_it"),
    [
        ("from csrr import *", False),
        ("csrr.CSRR().get_params()", False),
        ("csrr.split(csrr.synthetic(80, 60, events_per_user=12).log, ratio=0.8)", False),
        ("csrr.CSRR(neighbors=0, reg_low_rank='noise').fit(csrr.synthetic(80, 60, events_per_user=12).log)", True),
    ],
)
def test_numba_is_imported_with_the_first_loop(work, needs_it):
    code = f"import sys, csrr\n{work}\nprint('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{needs_it}\n"
