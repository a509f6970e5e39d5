"""Indexes of item vectors: faiss and hnswlib, built, searched and kept by the same three functions."""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from csrr.arrays import Float32Array, Int64Array
from csrr.files import atomic_write
from csrr.parameters import ParameterError
from csrr.threads import n_threads

LINKS, EF_BUILD, EF_SEARCH = 32, 200, 400
"""Of HNSW: links of an item, and how many candidates building and searching look at."""


class VectorIndex(ABC):
    """Items by their vectors, shape (n_items, d); their numbers are the rows of the items."""

    name: ClassVar[str]
    file_name: ClassVar[str]

    @abstractmethod
    def search(self, queries: Float32Array, n: int) -> Int64Array:
        """Return the item rows of the n largest products with each of the queries, (b, n); -1 where fewer are found."""

    @abstractmethod
    def write(self, folder: Path) -> None:
        """Write the index to its file in a folder, atomically."""


class FaissIndex(VectorIndex):
    """An index of faiss, by the text that its `index_factory` takes."""

    name: ClassVar[str] = "faiss"
    file_name: ClassVar[str] = "items.faiss"

    def __init__(self, items: Float32Array, kind: str | None) -> None:
        """Build the index; "Flat" is exact."""
        faiss = _import("faiss", "faiss-cpu")
        self.kind: str = kind or f"HNSW{LINKS}"
        try:
            self.index: Any = faiss.index_factory(items.shape[1], self.kind, faiss.METRIC_INNER_PRODUCT)
        except RuntimeError:
            raise ParameterError(
                f"index={kind!r}: faiss makes no index of that for {items.shape[1]} dimensions; give what its"
                " index_factory takes, such as Flat, HNSW32 or IVF256,Flat"
            ) from None
        self._ask_more("efConstruction", EF_BUILD)
        if not self.index.is_trained:
            self.index.train(items)
        self.index.add(items)
        self._ask_more("efSearch", EF_SEARCH)

    def search(self, queries: Float32Array, n: int) -> Int64Array:
        self._ask_more("efSearch", max(EF_SEARCH, n))
        _, rows = self.index.search(np.ascontiguousarray(queries), n)
        self._ask_more("efSearch", EF_SEARCH)
        return np.asarray(rows, np.int64)

    def write(self, folder: Path) -> None:
        faiss = _import("faiss", "faiss-cpu")
        with atomic_write(folder / self.file_name) as file:
            file.write(faiss.serialize_index(self.index).tobytes())

    def _ask_more(self, name: str, value: int) -> None:
        if hasattr(self.index, "hnsw"):
            setattr(self.index.hnsw, name, value)


class HnswlibIndex(VectorIndex):
    """An index of hnswlib. Its file does not keep `ef`: who loads it sets it."""

    name: ClassVar[str] = "hnswlib"
    file_name: ClassVar[str] = "items.hnsw"

    def __init__(self, items: Float32Array, kind: str | None) -> None:
        """Build the index."""
        hnswlib = _import("hnswlib", "hnswlib")
        if kind is not None:
            raise ParameterError(f"index={kind!r} goes with faiss; hnswlib has one kind")
        self.kind: str = f"HNSW{LINKS}"
        self.index: Any = hnswlib.Index("ip", items.shape[1])
        self.index.init_index(len(items), ef_construction=EF_BUILD, M=LINKS, random_seed=0)
        self.index.add_items(items, np.arange(len(items)), num_threads=n_threads())

    def search(self, queries: Float32Array, n: int) -> Int64Array:
        rows = np.full((len(queries), n), -1, np.int64)
        while n > 0:
            self.index.set_ef(max(EF_SEARCH, n))
            try:
                rows[:, :n] = self.index.knn_query(queries, k=n, num_threads=n_threads())[0]
                break
            except RuntimeError:  # not as many can be reached, for one of the queries
                n = n * 9 // 10
        return rows

    def write(self, folder: Path) -> None:
        # It writes to a path only: beside the file, then in its place.
        with tempfile.TemporaryDirectory(dir=folder) as beside:
            made = os.path.join(beside, self.file_name)
            self.index.save_index(made)
            os.replace(made, folder / self.file_name)


INDEXES: dict[str, type[FaissIndex] | type[HnswlibIndex]] = {"faiss": FaissIndex, "hnswlib": HnswlibIndex}


def _import(module: str, package: str) -> Any:
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError:
        raise ImportError(f"export needs {package}: pip install 'csrr[vectors]'") from None
