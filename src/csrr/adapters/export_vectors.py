"""A model -> a folder of vectors and an index of them, with how many of the model's lists these find again."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from csrr.adapters.score_vectors import Part, ScoreVectors, make_score_vectors
from csrr.adapters.vector_index import EF_SEARCH, INDEXES, VectorIndex
from csrr.arrays import Float32Array, Int32Array, Int64Array, Rows
from csrr.data import IdMap
from csrr.files import write_text
from csrr.html_text import format_html_facts
from csrr.models.recommender import Recommender
from csrr.parameters import ParameterError, check_number, check_whole
from csrr.ranking import top_k
from csrr.ranking.score_blocks import score_blocks
from csrr.ranking.table_files import open_table_file

FEW = 5
"""So many times k candidates are few: without `dims`, there are as many dimensions as few candidates need."""
USERS_AT_ONCE = 256
VECTOR_ROWS = 2**15


@dataclass(frozen=True)
class Export:
    """The result of `csrr.export`: what was written, and its recall.

    Attributes
    ----------
    path
        The folder.
    to
        "faiss", "hnswlib" or "parquet".
    kind
        The kind of index, or None.
    model
        The kind of model.
    n_users, n_items, dims
        The numbers of users, of items, and of dimensions.
    covers
        The part of the scores that the inner products give.
    is_exact
        Whether they are all of the scores.
    k
        The length of the lists that were compared.
    n_compared
        The number of users whose lists were compared, drawn at random from those with a history.
    vector_recall
        The share of the model's own lists, seen items left out, that exact inner products recover.
    index_recall
        The share that the index recovers; None without an index.
    n_candidates
        The number of candidates to take from the index (or by inner products), items that the user has not counted,
        and to let the model rank: as many as keep the share `recall` that was asked for.
    candidate_recall
        The share that is among these: what is left if the model ranks them. Measured on other users than those by
        whom `n_candidates` was chosen, if there are enough.
    files
        The names of the files in the folder.

    Examples
    --------
    >>> model = csrr.EASE(10).fit(csrr.synthetic(60, 40, events_per_user=10).log)
    >>> print(csrr.export(model, "vectors", dims=8, k=5).covers)
    all of the scores, approximately, in 8 dimensions
    """

    path: str
    to: str
    kind: str | None
    model: str
    n_users: int
    n_items: int
    dims: int
    covers: str
    is_exact: bool
    k: int
    n_compared: int
    vector_recall: float
    index_recall: float | None
    n_candidates: int
    candidate_recall: float
    files: tuple[str, ...]

    def summary(self) -> dict[str, Any]:
        """Return everything as plain Python values, ready for JSON.

        Returns
        -------
        summary
            The attributes by name.
        """
        return asdict(self) | {"files": list(self.files)}

    def _repr_html_(self) -> str:
        return format_html_facts(self.summary() | {"files": ", ".join(self.files)})

    def __str__(self) -> str:
        index = "" if self.index_recall is None else f", of the {self.to} index ({self.kind}) {self.index_recall:.3f}"
        return (
            f"{self.path}: {self.n_users:,} users and {self.n_items:,} items in {self.dims} dimensions\n"
            f"the products are {self.covers}\n"
            f"recall@{self.k} of the exact lists of {self.n_compared:,} users: of the vectors {self.vector_recall:.3f}"
            f"{index}, of {self.n_candidates:,} candidates {self.candidate_recall:.3f}"
            f" ({self.n_candidates / self.n_items:.0%} of the items; let the model rank these)"
        )


def export(
    model: Recommender,
    path: str | os.PathLike[str],
    *,
    to: Literal["faiss", "hnswlib", "parquet"] = "parquet",
    part: Part = "all",
    dims: int | None = None,
    index: str | None = None,
    k: int = 20,
    recall: float = 0.99,
    sample: int = 1000,
    seed: int = 0,
) -> Export:
    """Export user and item vectors, and an index of the items, to a folder; return a summary with recalls.

    The inner product of a user's and an item's vector equals or approximates the model's score. `users.parquet` and
    `items.parquet` have id and vector, in the order of the model's rows; the index identifies items by these rows;
    `about.json`, written last, describes the export. An index does not leave out items that the user has.

    Parameters
    ----------
    model
        A fitted model.
    path
        The folder; created if missing.
    to
        "faiss" or "hnswlib" for an index of the items beside the vectors, "parquet" for the vectors alone.
    part
        "all" of the scores; or "factors": without the neighbors, for a model that has both.
    dims
        The number of dimensions. Default: the factors themselves if they give the scores exactly, else an
        approximation in the fewest of 64, 128, 256, 512 and 1,024 dimensions in which 5k candidates keep the share
        `recall` of the lists; in 1,024 if none does.
    index
        The kind of index, as faiss's `index_factory` takes it; "Flat" is exact. Without it, "HNSW32".
    k
        The length of the lists for the recalls.
    recall
        The share of the model's own lists that is to be kept if it ranks the candidates: `n_candidates` says how many
        that takes.
    sample
        The number of users whose lists are compared, and of others by whom dimensions and candidates are chosen.
    seed
        Seed of the sample, and of the approximation.

    Returns
    -------
    export
        What was written, and the recalls.

    Raises
    ------
    ParameterError
        For what the model does not have, or faiss does not know.
    ImportError
        If faiss or hnswlib is not installed.

    Examples
    --------
    >>> model = csrr.WRMF(4).fit(csrr.synthetic(60, 40, events_per_user=10).log)
    >>> found = csrr.export(model, "vectors", k=5)
    >>> found.is_exact, found.vector_recall, found.files
    (True, 1.0, ('users.parquet', 'items.parquet', 'about.json'))
    """
    model.check_fitted()
    if to not in (*INDEXES, "parquet"):
        raise ParameterError(f"to={to!r} must be faiss, hnswlib or parquet")
    if index is not None and to == "parquet":
        raise ParameterError(f'index={index!r} goes with to="faiss"')
    check_whole("k", k, least=1)
    check_whole("sample", sample, least=1)
    check_number("recall", recall, above=0, most=1)
    judged, chosen = _draw_users(model, sample, seed)
    k = min(k, len(model.items_))
    wanted = Wanted(chosen, model.top_rows(chosen, k, seen=model.seen_)[0], recall)
    vectors = make_score_vectors(
        model, part=part, dims=dims, seed=seed, suffice=lambda each: wanted.count_candidates(model, each) <= FEW * k
    )
    built = INDEXES[to](vectors.items, index) if to in INDEXES else None
    found = _judge(model, vectors, built, judged, k, _count_candidates(model, vectors, built, wanted))
    names = ("users.parquet", "items.parquet", *([built.file_name] if built else []), "about.json")
    told = Export(
        path=os.fspath(path),
        to=to,
        kind=built.kind if built else None,
        model=type(model).__name__,
        n_users=len(model.users_),
        n_items=len(model.items_),
        dims=vectors.dims,
        covers=vectors.covers,
        is_exact=vectors.is_exact,
        files=names,
        **found._asdict(),
    )
    _write(Path(path), model, vectors, built, told)
    return told


class Wanted(NamedTuple):
    """The exact lists, shape (n, k), of user rows, shape (n,), and the share of them that candidates are to keep."""

    rows: Rows
    exact: Int32Array
    recall: float

    def count_candidates(self, model: Recommender, vectors: ScoreVectors) -> int:
        """Return how many items, the first by exact products, keep that share."""
        k, order, places, found = self.exact.shape[1], model.item_order.items, np.arange(len(model.items_)), []
        for part, scores in score_blocks(vectors.score_rows, self.rows, len(order), seen=model.seen_):
            for mine, listed in zip(scores, self.exact[part], strict=True):
                places[order[np.argsort(-mine[order], kind="stable")]] = np.arange(len(order))
                found.append(places[listed[listed >= 0]])
        every = np.concatenate(found) if found else places[:0]
        n = int(np.quantile(every, self.recall, method="inverted_cdf")) + 1 if len(every) else 0
        return n if n > k else k


def _draw_users(model: Recommender, sample: int, seed: int) -> tuple[Rows, Rows]:
    """Return the rows of users to compare, and of others to choose by: the same if there are no others."""
    # Whoever has no history gets what is popular; no vector tells that.
    known = np.flatnonzero(np.diff(model.seen_.indptr))
    rng = np.random.default_rng(seed)
    judged = np.sort(rng.choice(known, min(sample, len(known)), replace=False))
    others = np.setdiff1d(known, judged)
    chosen = np.sort(rng.choice(others, min(sample, len(others)), replace=False))
    return judged, chosen if len(chosen) else judged


def _count_candidates(model: Recommender, vectors: ScoreVectors, index: VectorIndex | None, wanted: Wanted) -> int:
    """Return how many candidates keep the share that is wanted, of the index or by exact products."""
    n, n_items = wanted.count_candidates(model, vectors), len(model.items_)
    if index is None:
        return n
    while n < n_items:
        found = search_unseen(index, vectors.users, wanted.rows, model.seen_, n)
        if measure_overlap(found, wanted.exact) >= wanted.recall:
            break
        n = min(n + max(n // 4, 1), n_items)
    return n


class Recalls(NamedTuple):
    """What of the exact lists is found again; see `Export`."""

    k: int
    n_compared: int
    vector_recall: float
    index_recall: float | None
    n_candidates: int
    candidate_recall: float


def _judge(model: Recommender, vectors: ScoreVectors, index: VectorIndex | None, rows: Rows, k: int, n: int) -> Recalls:
    """Return what vectors, index and `n` candidates find again of the lists of some users."""
    exact, _ = model.top_rows(rows, k, seen=model.seen_)
    by_product, _ = top_k(vectors.score_rows, rows, len(model.items_), n, seen=model.seen_, order=model.item_order)
    of_vectors = measure_overlap(by_product[:, :k], exact)
    if index is None:
        return Recalls(k, len(rows), of_vectors, None, n, measure_overlap(by_product, exact))
    found = search_unseen(index, vectors.users, rows, model.seen_, n)
    return Recalls(k, len(rows), of_vectors, measure_overlap(found[:, :k], exact), n, measure_overlap(found, exact))


def search_unseen(index: VectorIndex, users: Float32Array, rows: Rows, seen: Any, n: int) -> Int64Array:
    """Return what an index finds for user rows, less what they have in `seen`: shape (len(rows), n), -1 for none."""
    found = np.full((len(rows), n), -1, np.int64)
    for first in range(0, len(rows), USERS_AT_ONCE):
        part = rows[first : first + USERS_AT_ONCE]
        most = int(np.diff(seen.indptr)[part].max())
        for place, near in enumerate(index.search(users[part], min(n + most, seen.shape[1])), first):
            own = seen.indices[seen.indptr[rows[place]] : seen.indptr[rows[place] + 1]]
            new = near[(near >= 0) & ~np.isin(near, own)][:n]
            found[place, : len(new)] = new
    return found


def measure_overlap(found: Int64Array | Int32Array, exact: Int32Array) -> float:
    """Return the mean share of each row of `exact`, (b, k), that is in the same row of `found`, where -1 is no item."""
    hit = [np.isin(want[want >= 0], have).mean() for want, have in zip(exact, found, strict=True) if want[0] >= 0]
    return float(np.mean(hit)) if hit else 1.0


def _write(folder: Path, model: Recommender, vectors: ScoreVectors, index: VectorIndex | None, told: Export) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # What stood here before says nothing of what is being written.
    (folder / "about.json").unlink(missing_ok=True)
    _write_vectors(folder / "users.parquet", model.users_, vectors.users)
    _write_vectors(folder / "items.parquet", model.items_, vectors.items)
    if index is not None:
        index.write(folder)
    about = told.summary() | {"path": None, "metric": "inner product", "label": "row of items.parquet"}
    about |= {"ef": EF_SEARCH} if index is not None else {}
    write_text(folder / "about.json", json.dumps(about, indent=1) + "\n")


def _write_vectors(path: Path, ids: IdMap, vectors: Float32Array) -> None:
    """Write ids and their vectors, lists of a fixed length, some rows at a time."""
    kind = pa.list_(pa.float32(), vectors.shape[1])
    id_kind = pa.int64() if ids.ids.dtype != object else pa.string()
    with open_table_file(path, pa.schema({"id": id_kind, "vector": kind})) as write:
        for first in range(0, len(vectors), VECTOR_ROWS):
            part = slice(first, first + VECTOR_ROWS)
            values = pa.array(np.ascontiguousarray(vectors[part]).ravel())
            rows = pa.FixedSizeListArray.from_arrays(values, type=kind)
            write(pa.table({"id": pa.array(ids.ids[part], id_kind), "vector": rows}))
