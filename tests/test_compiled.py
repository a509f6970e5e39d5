"""Loops compile when they are first called, and nothing imports numba before."""

import ast
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from runpy import run_path

import numpy as np
import pytest

from csrr._base import lazy_jit
from csrr._base.lazy_jit import Loop, compile_loop, compile_part

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


LOOPS = """
from csrr._base.lazy_jit import compile_loop, compile_part

@compile_part()
def half(x):
    return x / 2

@compile_loop()
def halve(x):
    return half(x)
"""


@pytest.fixture
def halve(tmp_path, monkeypatch):
    """The loop of LOOPS as a new process would have it, and the folder where its compiled form is kept."""
    import numba

    path = tmp_path / "loops.py"
    path.write_text(LOOPS)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "kept"))

    def run(x):
        loop = run_path(str(path))["halve"]
        assert loop(x) == x / 2
        return loop.compile().stats

    assert sum(run(3.0).cache_misses.values()) == 1
    return run


def spoil(path, how):
    """Damage a file as a full disk, a crash or a bad sector would."""
    data = path.read_bytes()
    middle = len(data) // 2
    path.write_bytes(
        {
            "empty": b"",
            "garbage": b"garbage" * 50,
            "cut": data[:middle],
            "flipped": data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :],
            "zeros": bytes(len(data)),
        }[how]
    )


@pytest.mark.parametrize("how", ["empty", "garbage", "cut", "flipped", "zeros"])
@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_what_is_damaged_is_compiled_again(halve, tmp_path, kind, how):
    assert sum(halve(3.0).cache_hits.values()) == 1
    files = list((tmp_path / "kept").rglob(f"*.{kind}"))
    assert len(files) == 2
    for path in files:
        spoil(path, how)
    assert sum(halve(5.0).cache_misses.values()) == 1
    assert sum(halve(7.0).cache_hits.values()) == 1


def without_privilege():
    """Before a child starts: root obeys permissions too (PR_CAPBSET_DROP of CAP_DAC_OVERRIDE)."""
    if os.geteuid() == 0:
        import ctypes

        ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)


@contextmanager
def read_only(folder):
    """Have nobody write into a folder and those in it."""
    folders = [folder, *(path for path in folder.rglob("*") if path.is_dir() and not path.is_symlink())]
    for each in folders:
        each.chmod(0o555)
    try:
        yield
    finally:
        for each in folders:
            each.chmod(0o755)


@pytest.mark.skipif(sys.platform != "linux", reason="capabilities are Linux's")
@pytest.mark.parametrize("kept", [False, True], ids=["empty", "compiled before"])
def test_what_cannot_be_written_is_read_and_said_once(tmp_path, kept):
    work = tmp_path / "work"
    (work / "nothing").mkdir(parents=True)
    (work / "loops.py").write_text(LOOPS)
    code = "from loops import halve; print(halve(3.0), *halve.compile().stats.cache_hits.values(), halve(3))"
    command = [sys.executable, "-c", code]
    home = {"HOME": str(work / "nothing"), "PYTHONPATH": str(SOURCE.parent)}
    env = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA", "XDG"))} | home
    options = {"cwd": work, "env": env, "capture_output": True, "text": True, "check": True}
    if kept:
        assert subprocess.run(command, **options).stderr == ""
    with read_only(work):
        done = subprocess.run(command, **options, preexec_fn=without_privilege)
    assert done.stdout == ("1.5 1 1.5\n" if kept else "1.5 1.5\n")
    assert done.stderr.count("cannot be kept") == (not kept)


def imports_numba(path):
    """Whether a file imports numba, anywhere."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return any(name.split(".")[0] == "numba" for name in names)


def test_one_file_alone_imports_numba():
    assert [path.name for path in SOURCE.rglob("*.py") if imports_numba(path)] == ["lazy_jit.py"]


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


def test_two_processes_that_compile_at_once_keep_apart(tmp_path, monkeypatch):
    """Each read an empty index, and the second replaces that of the first: nobody gets the other's code."""
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    one, other = (lazy_jit._cache_class()(spoil)._cache_file for _ in range(2))
    load = other._load_index
    other._load_index = dict
    one.save(("one",), b"one")
    other.save(("other",), b"other")
    other._load_index = load
    assert (other.load(("one",)), other.load(("other",))) == (None, b"other")
    one.save(("one",), b"one")
    assert (one.load(("one",)), one.load(("other",))) == (b"one", b"other")
    other._save_index({("one",): one._load_index()[("one",)]})
    assert other.load(("one",)) == b"one"
