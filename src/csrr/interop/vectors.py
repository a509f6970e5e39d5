"""`csrr.export`: a folder of vectors of a model, an index of the items, and their recall of the model's lists."""

from __future__ import annotations

import json
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa

from csrr._base.arrays import Float32Array, Int32Array, Int64Array, Rows, import_optional
from csrr._base.files import atomic_write, write_text
from csrr._base.text import format_html_facts
from csrr._base.threads import n_threads
from csrr.data.ids import IdMap
from csrr.models.base import Recommender
from csrr.models.recommend import rank_items
from csrr.parameters import Choice, ParameterError, check_number, check_whole
from csrr.ranking.topk import score_blocks, top_k
from csrr.results.table import open_table_file

Part = Literal["all", "factors"]

DIMS = (64, 128, 256, 512, 1024)
"""The numbers of dimensions that are tried if the scores are more than the products of the model's factors."""
AT_ONCE = 256
"""Approximations in fewer dimensions are the first columns of one in this number."""
EXTRA_DIMS, PASSES = 16, 4
"""The additional dimensions of the iteration for an approximation, and its number of passes over all scores."""


@dataclass(frozen=True, eq=False)
class ScoreVectors:
    """Vectors of users, (n_users, d), and items, (n_items, d), float32, whose products are the scores, or near them.

    `covers` names the part of the scores; `is_exact` is whether the products are all of the scores, exactly.
    """

    users: Float32Array
    items: Float32Array
    covers: str
    is_exact: bool

    @property
    def dims(self) -> int:
        """The number of dimensions."""
        return int(self.items.shape[1])

    def score_rows(self, rows: Rows) -> Float32Array:
        """Return the products of user rows with all items, shape (len(rows), n_items)."""
        return self.users[rows] @ self.items.T


def make_score_vectors(
    model: Recommender,
    *,
    part: Part = "all",
    dims: int | None = None,
    seed: int = 0,
    suffice: Callable[[ScoreVectors], bool] = lambda _: True,
) -> ScoreVectors:
    """Return the vectors of a fitted model.

    With `part` "factors", and if the scores are nothing else, they are the model's own factors. Otherwise they are the
    best approximation of all scores in `dims` dimensions, by least squares: without `dims`, in the first number of
    `DIMS` that will `suffice`, or in the last.
    """
    model.check_fitted()
    Choice(name="part", words=get_args(Part)).check(part)
    if dims is not None:
        check_whole("dims", dims, least=1)
    factors_only = is_factored(model)
    if part == "factors" and not model.has_factors:
        raise ParameterError.of("part", part, f'needs factors, and a {type(model).__name__} has none; use part="all"')
    if (part == "factors" or factors_only) and model.item_factors_.shape[1] == 0:
        name = type(model).__name__
        raise ParameterError(
            f"the factors of this {name} have rank 0; fit it with a smaller reg_low_rank or l1, or on more events"
        )
    if part == "factors" or (factors_only and dims is None):
        covers = "all of the scores, exactly" if factors_only else "common taste U alone, without neighbors S"
        return ScoreVectors(model.user_factors_, model.item_factors_, covers, factors_only)
    most = min(model.seen_.shape)
    sizes = [min(dims, most)] if dims is not None else [*(each for each in DIMS if each < most), min(most, DIMS[-1])]
    users = items = np.empty((0, 0), np.float32)
    for each in sizes:
        if each > items.shape[1]:
            width = each if dims is not None else min(max(each, AT_ONCE), most)
            users, items = approximate_scores(model, width, np.random.default_rng(seed))
        covers = f"all of the scores, approximately, in {each} dimensions"
        made = ScoreVectors(np.ascontiguousarray(users[:, :each]), np.ascontiguousarray(items[:, :each]), covers, False)
        if suffice(made):
            break
    return made


def is_factored(model: Recommender) -> bool:
    """Return whether the scores of a fitted model are the products of its factors and nothing else."""
    neighbors: Any = getattr(model, "neighbors_", None)
    if neighbors is not None:
        return bool(neighbors.nnz == 0)
    return model.has_factors and type(model).score_rows is Recommender.score_rows


def approximate_scores(model: Recommender, dims: int, rng: np.random.Generator) -> tuple[Float32Array, Float32Array]:
    """Return users, (n_users, dims), and items, (n_items, dims), whose products are nearest to the scores Z.

    Items are an orthonormal basis B of the largest directions of Z'Z, by block iteration; users are Z*B. Only one block
    of Z is in memory at a time.
    """
    n_users, n_items = model.seen_.shape
    width = min(dims + EXTRA_DIMS, n_items)
    basis = np.linalg.qr(rng.standard_normal((n_items, width), np.float32))[0]
    rows = np.arange(n_users)
    for _ in range(PASSES):
        product = np.zeros_like(basis)
        for _, scores in score_blocks(model.score_rows, rows, n_items):
            product += scores.T @ (scores @ basis)
        if not np.isfinite(product).all():
            raise ParameterError("the scores of this model are too large for vectors of single precision")
        basis = np.linalg.qr(product)[0]
    users = np.empty((n_users, width), np.float32)
    for part, scores in score_blocks(model.score_rows, rows, n_items):
        users[part] = scores @ basis
    _, turned = np.linalg.eigh(users.T.astype(np.float64) @ users)
    best = turned[:, ::-1][:, :dims].astype(np.float32)
    return np.ascontiguousarray(users @ best), np.ascontiguousarray(basis @ best)


LINKS, EF_BUILD, EF_SEARCH = 32, 200, 400
"""Parameters of HNSW: the links of an item, and the numbers of candidates of building and searching."""


class VectorIndex(ABC):
    """An index of items by their vectors, (n_items, d), with the kind of index; it identifies items by their rows."""

    file_name: ClassVar[str]
    kind: str

    @abstractmethod
    def search(self, queries: Float32Array, n: int) -> Int64Array:
        """Return the item rows of the n largest products with each of the queries, (b, n); -1 where fewer are found."""

    @abstractmethod
    def write(self, folder: Path) -> None:
        """Write the index to its file in a folder, atomically."""


class FaissIndex(VectorIndex):
    """An index of faiss, by the description that its `index_factory` takes."""

    file_name: ClassVar[str] = "items.faiss"

    def __init__(self, items: Float32Array, kind: str | None) -> None:
        """Build the index; "Flat" is exact."""
        faiss = import_optional("faiss", "export", "vectors")
        self.kind = kind or f"HNSW{LINKS}"
        try:
            self.index: Any = faiss.index_factory(items.shape[1], self.kind, faiss.METRIC_INNER_PRODUCT)
        except RuntimeError:
            what = (
                f"is no index that faiss makes for {items.shape[1]} dimensions; give what its index_factory takes, such"
            )
            raise ParameterError.of("index", kind, f"{what} as Flat, HNSW32 or IVF256,Flat") from None
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
        faiss = import_optional("faiss", "export", "vectors")
        with atomic_write(folder / self.file_name) as file:
            file.write(faiss.serialize_index(self.index).tobytes())

    def _ask_more(self, name: str, value: int) -> None:
        if hasattr(self.index, "hnsw"):
            setattr(self.index.hnsw, name, value)


class HnswlibIndex(VectorIndex):
    """An index of hnswlib. Its file does not store `ef`, which has to be set after loading."""

    file_name: ClassVar[str] = "items.hnsw"

    def __init__(self, items: Float32Array, kind: str | None) -> None:
        """Build the index."""
        hnswlib = import_optional("hnswlib", "export", "vectors")
        if kind is not None:
            raise ParameterError.of("index", kind, "goes with faiss; hnswlib has one kind")
        self.kind = f"HNSW{LINKS}"
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
            except RuntimeError:  # for one of the queries, fewer items can be reached
                n = n * 9 // 10
        return rows

    def write(self, folder: Path) -> None:
        # hnswlib writes to a path only, so it writes to a temporary file, which then takes the place of the file.
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = os.path.join(scratch, self.file_name)
            self.index.save_index(made)
            os.replace(made, folder / self.file_name)


INDEXES: dict[str, type[FaissIndex] | type[HnswlibIndex]] = {"faiss": FaissIndex, "hnswlib": HnswlibIndex}


FEW = 5
"""Without `dims`, there are as many dimensions as it takes for this number times k candidates to keep the recall."""
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
    Choice(name="to", words=(*INDEXES, "parquet")).check(to)
    if index is not None and to == "parquet":
        raise ParameterError.of("index", index, 'goes with to="faiss"')
    check_whole("k", k, least=1)
    check_whole("sample", sample, least=1)
    check_number("recall", recall, above=0, most=1)
    compared, chosen = _draw_users(model, sample, seed)
    k = min(k, len(model.items_))
    goal = RecallGoal(chosen, rank_items(model, chosen, k, seen=model.seen_)[0], recall)
    vectors = make_score_vectors(
        model, part=part, dims=dims, seed=seed, suffice=lambda each: goal.count_candidates(model, each) <= FEW * k
    )
    made_index = INDEXES[to](vectors.items, index) if to in INDEXES else None
    n_candidates = _count_candidates(model, vectors, made_index, goal)
    of_vectors, of_index, of_candidates = _measure_recalls(model, vectors, made_index, compared, k, n_candidates)
    about = Export(
        path=os.fspath(path),
        to=to,
        kind=made_index.kind if made_index else None,
        model=type(model).__name__,
        n_users=len(model.users_),
        n_items=len(model.items_),
        **{name: getattr(vectors, name) for name in ("dims", "covers", "is_exact")},
        k=k,
        n_compared=len(compared),
        vector_recall=of_vectors,
        index_recall=of_index,
        n_candidates=n_candidates,
        candidate_recall=of_candidates,
        files=("users.parquet", "items.parquet", *([made_index.file_name] if made_index else []), "about.json"),
    )
    _write(Path(path), model, vectors, made_index, about)
    return about


class RecallGoal(NamedTuple):
    """The exact lists, shape (n, k), of user rows, shape (n,), and the share of them that candidates are to keep."""

    rows: Rows
    exact: Int32Array
    recall: float

    def count_candidates(self, model: Recommender, vectors: ScoreVectors) -> int:
        """Return the number of items, the first by exact products, that keep this share."""
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
    # Users without a history get popular items, which vectors do not give.
    known = np.flatnonzero(np.diff(model.seen_.indptr))
    rng = np.random.default_rng(seed)
    compared = np.sort(rng.choice(known, min(sample, len(known)), replace=False))
    others = np.setdiff1d(known, compared)
    chosen = np.sort(rng.choice(others, min(sample, len(others)), replace=False))
    return compared, chosen if len(chosen) else compared


def _count_candidates(model: Recommender, vectors: ScoreVectors, index: VectorIndex | None, goal: RecallGoal) -> int:
    """Return the number of candidates that keeps the share, from the index or by exact products."""
    n, n_items = goal.count_candidates(model, vectors), len(model.items_)
    if index is None:
        return n
    while n < n_items:
        found = search_unseen(index, vectors.users, goal.rows, model.seen_, n)
        if measure_overlap(found, goal.exact) >= goal.recall:
            break
        n = min(n + max(n // 4, 1), n_items)
    return n


def _measure_recalls(
    model: Recommender, vectors: ScoreVectors, index: VectorIndex | None, rows: Rows, k: int, n: int
) -> tuple[float, float | None, float]:
    """Return the shares of some users' lists in the first k of the vectors and of the index, and in n candidates."""
    exact, _ = rank_items(model, rows, k, seen=model.seen_)
    by_product, _ = top_k(vectors.score_rows, rows, len(model.items_), n, seen=model.seen_, order=model.item_order)
    found = by_product if index is None else search_unseen(index, vectors.users, rows, model.seen_, n)
    of_index = None if index is None else measure_overlap(found[:, :k], exact)
    return measure_overlap(by_product[:, :k], exact), of_index, measure_overlap(found, exact)


def search_unseen(index: VectorIndex, users: Float32Array, rows: Rows, seen: Any, n: int) -> Int64Array:
    """Return the items that an index finds for user rows, without those in `seen`, (len(rows), n); -1 for none."""
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


def _write(folder: Path, model: Recommender, vectors: ScoreVectors, index: VectorIndex | None, about: Export) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # The description of an earlier export is not true of this one.
    (folder / "about.json").unlink(missing_ok=True)
    _write_vectors(folder / "users.parquet", model.users_, vectors.users)
    _write_vectors(folder / "items.parquet", model.items_, vectors.items)
    if index is not None:
        index.write(folder)
    plain = about.summary() | {"path": None, "metric": "inner product", "label": "row of items.parquet"}
    plain |= {"ef": EF_SEARCH} if index is not None else {}
    write_text(folder / "about.json", json.dumps(plain, indent=1) + "\n")


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
