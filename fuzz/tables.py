"""Matrices that lie and tables of any values, in memory: a log and lists, or an error that says what is wrong."""

from __future__ import annotations

import importlib.util
import io
import json
import warnings
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from scipy import sparse

import csrr
from csrr._base.threads import use_threads
from csrr.models.recommend import rank_items
from fuzz.arrow_tables import draw_table_file
from fuzz.campaign import Finding, set_environment
from fuzz.logs import check_log

FORMATS = ("csr", "csr", "csc", "coo", "bsr", "lil", "dia", "dense")
TYPES = ("bool", "int8", "uint8", "int32", "int64", "uint64", "float16", "float32", "float64", "complex64", ">f4")
ODD = (0, 1, -1, 2, 3, 5, 7, 100, 2**31 - 1, 2**31, -(2**31), 2**62, -(2**63), 2**63 - 1)
ODD_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, float("nan"), float("inf"), -float("inf"), 1e-45, 5e-324, 1e300, 3e38)
PARTS = {"csr": ("indptr", "indices", "data"), "coo": ("row", "col", "data"), "dia": ("offsets", "data")}
PARTS |= {"csc": PARTS["csr"], "bsr": PARTS["csr"], "lil": ("rows", "data"), "dense": ("data",)}
SIMPLE = (pa.types.is_integer, pa.types.is_floating, pa.types.is_string, pa.types.is_boolean, pa.types.is_date32)


def _to_polars(table: pa.Table) -> Any:
    """A frame of simple types: of others polars panics, which is loud."""
    import polars as pl

    return pl.from_arrow(table) if all(any(test(kind) for test in SIMPLE) for kind in table.schema.types) else None


def _to_pandas_of_arrow(table: pa.Table) -> Any:
    import pandas as pd

    return table.to_pandas(types_mapper=pd.ArrowDtype)


VIEWS: dict[str, Callable[[pa.Table], Any]] = {
    "arrow": lambda table: table,
    "pandas": lambda table: table.to_pandas(),
    "pandas of arrow": _to_pandas_of_arrow,
    "polars": _to_polars,
    "columns": lambda table: table.to_pydict(),
    "numpy": lambda table: {name: table[name].to_numpy() for name in table.column_names},
    "records": lambda table: table.to_pylist(),
    "tuples": lambda table: list(zip(*table.to_pydict().values(), strict=True)),
}
WORDS = (csrr.DataError, csrr.ParameterError, csrr.UnknownIdError)


class Tables:
    """A matrix or a table, read, fitted and asked with. A case is a line of JSON and, of a table, a file of Arrow."""

    name = "tables"
    about = "matrices that lie and tables of any type, in memory: sound logs and lists, or errors with words; no crash"
    patience = 20.0

    @property
    def left_out(self) -> str:
        """The libraries that are not installed, whose tables are not tried."""
        return " and ".join(name for name in ("pandas", "polars") if importlib.util.find_spec(name) is None)

    def prepare(self) -> None:
        """Fit the model that matrices are asked of, and compile what a case runs."""
        warnings.simplefilter("ignore")
        X = np.eye(6, 4) + np.eye(6, 4, 1)
        self._known = csrr.EASE(reg=1.0, threads=1).fit(sparse.csr_array(X))
        _use_matrix(self._known, sparse.csr_array(X))
        check_log(csrr.read(X), is_matrix=True)

    def make(self, rng: np.random.Generator) -> bytes:
        """Draw a matrix, mostly with parts that do not go together, or a table."""
        if rng.random() < 0.7:
            return json.dumps(_draw_matrix(rng)).encode()
        name, data = draw_table_file(rng)
        view = str(rng.choice(list(VIEWS)))
        about = {"view": view, "name": name} | ({"ordered": True} if rng.random() < 0.2 else {})
        return json.dumps(about).encode() + b"\n" + data

    def check(self, case: bytes, folder: Path) -> None:
        """Give it to all that takes such data."""
        head, _, data = case.partition(b"\n")
        about = json.loads(head)
        with use_threads(1), set_environment({"CSRR_MAX_BYTES": str(1 << 26)}), answering():
            if "view" in about:
                table = _view(about, data)
                if table is not None:
                    check_log(csrr.read(table, ordered=about.get("ordered", False)))
                return
            _use_matrix(self._known, matrix := _build(about))
            check_log(csrr.read(matrix), is_matrix=True)


@contextmanager
def answering() -> Any:
    """An error in words is an answer; a word is not an empty one."""
    try:
        yield
    except WORDS as error:
        if not str(error) or len(str(error)) > 2000:
            raise Finding(f"a message of {len(str(error)):,} characters: {str(error)[:300]}") from error


def _view(about: dict[str, str], data: bytes) -> Any:
    """The table as a library has it; None where that has none such."""
    file = io.BytesIO(data)
    openers = {"log.parquet": parquet.read_table, "log.feather": lambda f: pa.ipc.open_file(f).read_all()}
    # What these libraries make of odd types is not ours to judge.
    with suppress(Exception):
        table = openers.get(about["name"], lambda f: pa.ipc.open_stream(f).read_all())(file)
        # pyarrow crashes where it gives runs to pandas.
        has_runs = any(map(pa.types.is_run_end_encoded, table.schema.types))
        return None if has_runs and about["view"] != "arrow" else VIEWS[about["view"]](table)
    return None


def _use_matrix(model: Any, matrix: Any) -> None:
    """Ask a model of 6 users x 4 items with the matrix in every place."""
    n_users, n_items = model.seen_.shape
    for name in ("exclude", "candidates", "exclude_seen"):
        # A dense matrix is a list of lists there.
        if sparse.issparse(matrix):
            with answering():
                found = model.recommend(k=4, **{name: matrix})
                if (found.scores == np.inf).any() or np.isnan(found.scores).any():
                    raise Finding("a recommendation's score is not finite")
            with answering():
                list(model.recommend_batches(k=2, batch_users=4, **{name: matrix}))
    if sparse.issparse(matrix) and matrix.shape == (n_users, n_items):
        with answering():
            rank_items(model, np.arange(n_users), 2, seen=matrix)
    for ask in (lambda: model.fold_in(matrix).score(), lambda: csrr.EASE(reg=1.0).fit(matrix).score_rows(np.arange(1))):
        with answering():
            if not np.isfinite(ask()).all():
                raise Finding("a score is not finite")


# Matrices


def _draw_matrix(rng: np.random.Generator) -> dict[str, Any]:
    """The parts of a matrix, as JSON: those of a sound one, some of them then changed."""
    format = str(rng.choice(FORMATS))
    shape = (6, 4) if rng.random() < 0.7 else tuple(int(n) for n in rng.integers(0, 9, 2))
    kind = str(rng.choice(TYPES[:9] if rng.random() < 0.9 else TYPES))
    dense = np.where(rng.random(shape) < 0.5, rng.integers(1, 4, shape), 0)
    parts = _take_apart(format, dense)
    for _ in range(int(rng.choice([0, 1, 1, 1, 2]))):
        name = str(rng.choice(PARTS[format]))
        parts[name] = _harm(parts[name], rng, is_value=name == "data")
    if rng.random() < 0.05:
        shape = tuple(int(rng.choice([*shape, 2**31, 2**40, 2**62, 1000])) for _ in shape)
    return {"format": format, "shape": shape, "dtype": kind, "index": str(rng.choice(["int32", "int64"])), **parts}


def _take_apart(format: str, dense: Any) -> dict[str, Any]:
    if format == "dense":
        return {"data": dense.tolist()}
    matrix = sparse.coo_array(dense).asformat(format)
    if format == "lil":
        return {"rows": [list(map(int, row)) for row in matrix.rows], "data": [list(map(int, v)) for v in matrix.data]}
    return {name: np.asarray(getattr(matrix, name)).tolist() for name in PARTS[format]}


def _harm(part: list[Any], rng: np.random.Generator, *, is_value: bool) -> Any:
    """A part with a number changed, or cut, or grown, or in another order."""
    part, kind = list(part), int(rng.integers(7))
    place = int(rng.integers(len(part))) if part else 0
    if kind == 0 or not part:
        return part[:place]
    if kind == 1:
        return part + part[: place + 1]
    if kind == 2:
        return [part[int(i)] for i in rng.permutation(len(part))]
    if kind == 3 and isinstance(part[0], int):
        return [[each] for each in part]
    values = ODD_FLOATS if is_value and rng.random() < 0.7 else ODD
    if isinstance(part[place], list):
        part[place] = _harm(part[place], rng, is_value=is_value)
    else:
        part[place] = values[int(rng.integers(len(values)))]
    return part


def _build(about: dict[str, Any]) -> Any:
    """The matrix of the parts, as they are: nothing of it is checked by scipy."""
    format, shape = about["format"], tuple(about["shape"])
    with np.errstate(all="ignore"):
        if format == "lil":
            return _build_lil(about, shape)
        arrays = {name: _as_array(about[name], about["dtype" if name == "data" else "index"]) for name in PARTS[format]}
    if format == "dense":
        return arrays["data"]
    matrix = getattr(sparse, f"{format}_array")((6, 4))
    vars(matrix)["_shape"] = shape
    if format == "coo":
        matrix.coords, matrix.data = (arrays["row"], arrays["col"]), arrays["data"]
        return matrix
    for name, array in arrays.items():
        setattr(matrix, name, array)
    return matrix


def _as_array(values: Any, dtype: str) -> Any:
    try:
        return np.array(values).astype(dtype)
    except (ValueError, TypeError, OverflowError):  # lists of several lengths
        return np.array([0, 1], dtype)


def _build_lil(about: dict[str, Any], shape: Any) -> Any:
    matrix = sparse.lil_array((6, 4))
    for name in ("rows", "data"):
        column = np.empty(len(about[name]), object)
        column[:] = [each if isinstance(each, list) else [each] for each in about[name]]
        setattr(matrix, name, column)
    vars(matrix)["_shape"] = shape
    return matrix
