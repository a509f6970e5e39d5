import json
import sys

import numpy as np
import pytest
from pyarrow import parquet

import csrr
from csrr.interop import vectors as score_vectors
from csrr.interop.vectors import approximate_scores, is_factored, make_score_vectors, measure_overlap
from csrr.parameters import ParameterError
from tests.cli.conftest import as_json, in_process

NEIGHBORS = {"cost_ratio": 2.0, "reg_low_rank": 0.3, "neighbors": 5, "reg_neighbors": 1.0, "threads": 1}
MODELS = {
    "WRMF": lambda: csrr.WRMF(4, max_iter=3),
    "BPRMF": lambda: csrr.BPRMF(4, epochs=3),
    "EASE": lambda: csrr.EASE(10),
    "PopRank": lambda: csrr.PopRank(),
    "U alone": lambda: csrr.CSRR(**NEIGHBORS | {"neighbors": 0}),
    "U and S": lambda: csrr.CSRR(**NEIGHBORS),
}


@pytest.fixture(scope="module")
def log():
    return csrr.synthetic(120, 90, rank=4, events_per_user=12).log


@pytest.fixture(scope="module", params=MODELS)
def model(request, log):
    return MODELS[request.param]().fit(log)


@pytest.fixture(scope="module")
def with_neighbors(log):
    return MODELS["U and S"]().fit(log)


def read_vectors(folder, name):
    table = parquet.read_table(folder / f"{name}.parquet")
    return table["id"].to_pylist(), np.array(table["vector"].to_pylist(), np.float32)


def test_products_are_scores_with_as_many_dimensions_as_they_have(model):
    scores = model.score_rows(np.arange(120))
    assert is_factored(model) == (type(model).__name__ in ("WRMF", "BPRMF") or getattr(model, "neighbors", 1) == 0)
    vectors = make_score_vectors(model, dims=None if is_factored(model) else 90)
    assert vectors.is_exact == is_factored(model)
    assert vectors.users @ vectors.items.T == pytest.approx(scores, abs=1e-3 * float(np.abs(scores).max()))


def test_an_approximation_is_the_best_there_is(with_neighbors):
    scores = with_neighbors.score_rows(np.arange(120)).astype(np.float64)
    singular = np.linalg.svd(scores, compute_uv=False)
    for dims in (1, 5, 20):
        users, items = approximate_scores(with_neighbors, dims, np.random.default_rng(0))
        assert users.shape == (120, dims)
        left = np.linalg.norm(scores - users.astype(np.float64) @ items.T)
        assert left == pytest.approx(np.linalg.norm(singular[dims:]), rel=1e-3)


def test_the_part_of_the_factors_leaves_neighbors_out_and_says_so(with_neighbors, log):
    vectors = make_score_vectors(with_neighbors, part="factors")
    assert vectors.users is with_neighbors.user_factors_
    assert (vectors.is_exact, vectors.covers) == (False, "common taste U alone, without neighbors S")
    with pytest.raises(ParameterError, match="needs factors, and a EASE has none"):
        make_score_vectors(csrr.EASE(10).fit(log), part="factors")


def test_the_folder_holds_ids_vectors_and_what_they_are(model, tmp_path):
    found = csrr.export(model, tmp_path / "new" / "folder", k=5, sample=40)
    folder = tmp_path / "new" / "folder"
    users, user_vectors = read_vectors(folder, "users")
    items, item_vectors = read_vectors(folder, "items")
    assert (users, items) == (model.users_.ids.tolist(), model.items_.ids.tolist())
    assert sorted(path.name for path in folder.iterdir()) == sorted(found.files)
    about = json.loads((folder / "about.json").read_text())
    assert about["covers"] == found.covers
    assert about["dims"] == user_vectors.shape[1] == item_vectors.shape[1] == found.dims
    # The recall, again, by hand.
    rows = np.sort(np.random.default_rng(0).choice(120, 40, replace=False))
    scores = user_vectors[rows] @ item_vectors.T
    scores[model.seen_[rows].toarray() > 0] = -np.inf
    mine = np.argsort(-scores, axis=1, kind="stable")[:, :5]
    exact = model.recommend(rows.tolist(), 5).items
    by_hand = np.mean([len(set(a) & set(b)) / 5 for a, b in zip(mine.tolist(), exact.tolist(), strict=True)])
    assert found.vector_recall == pytest.approx(by_hand, abs=0.01)
    assert (found.n_compared, found.k, found.index_recall) == (40, 5, None)
    assert found.candidate_recall >= found.vector_recall
    assert f">{found.vector_recall:.4f}<" in found._repr_html_()
    assert not found.is_exact or found.vector_recall == 1


@pytest.mark.parametrize("to", ["parquet", "faiss"])
def test_as_many_candidates_as_keep_the_lists(log, tmp_path, to):
    if to == "faiss":
        pytest.importorskip("faiss")
    model = csrr.EASE(10).fit(log)
    few, many = (csrr.export(model, tmp_path, to=to, dims=4, k=5, recall=share, sample=60) for share in (0.5, 0.99))
    assert 5 <= few.n_candidates < many.n_candidates < 90
    assert (few.candidate_recall > 0.45, many.candidate_recall > 0.97) == (True, True)
    assert f"of {many.n_candidates} candidates {many.candidate_recall:.3f} ({many.n_candidates / 90:.0%} of" in str(
        many
    )
    assert json.loads((tmp_path / "about.json").read_text())["n_candidates"] == many.n_candidates
    # Fewer lose more than was asked for, by the users that it was chosen by.
    judged = np.random.default_rng(0).choice(120, 60, replace=False)
    chosen = np.setdiff1d(np.arange(120), judged)
    users, items = make_score_vectors(model, dims=4).users[chosen], make_score_vectors(model, dims=4).items
    products = np.where(model.seen_[chosen].toarray() > 0, -np.inf, users @ items.T)
    order, exact = np.argsort(-products, axis=1, kind="stable"), model.recommend(chosen.tolist(), 5).items
    kept = [np.mean([np.isin(a, b[:n]).mean() for a, b in zip(exact, order, strict=True)]) for n in range(1, 91)]
    if to == "parquet":
        assert many.n_candidates == 1 + int(np.argmax(np.array(kept) > 0.99 - 1e-9))


def test_as_many_dimensions_as_few_candidates_need(log, tmp_path, monkeypatch):
    monkeypatch.setattr(score_vectors, "DIMS", (2, 8, 16, 32))
    monkeypatch.setattr(score_vectors, "AT_ONCE", 8)
    model = csrr.EASE(10).fit(log)
    free = csrr.export(model, tmp_path, k=5, recall=0.9)
    fixed = {dims: csrr.export(model, tmp_path, k=5, recall=0.9, dims=dims) for dims in (2, 8, 16, 32)}
    assert free.dims == min(dims for dims, each in fixed.items() if each.n_candidates <= 25) > 2
    assert free.n_candidates <= 25
    assert csrr.export(model, tmp_path, k=5, recall=1).dims == 32


def test_people_without_a_history_are_not_compared(log, tmp_path):
    clicks = log.to_csr().tolil()
    clicks[10:] = 0
    found = csrr.export(csrr.WRMF(4, max_iter=3).fit(csrr.Log.from_matrix(clicks.tocsr())), tmp_path, k=5)
    assert (found.n_users, found.n_compared, found.vector_recall) == (120, 10, 1)


def test_ids_of_text(tmp_path):
    table = {"user": ["ann", "ann", "bob", "bob"], "item": ["a", "b", "b", "c"]}
    csrr.export(csrr.WRMF(2).fit(table), tmp_path)
    assert read_vectors(tmp_path, "items")[0] == ["a", "b", "c"]


def test_a_faiss_index_finds_the_lists_again(model, tmp_path):
    faiss = pytest.importorskip("faiss")
    flat = csrr.export(model, tmp_path / "flat", to="faiss", index="Flat", k=5)
    assert flat.index_recall == pytest.approx(flat.vector_recall, abs=0.01)
    hnsw = csrr.export(model, tmp_path / "hnsw", to="faiss", k=5)
    assert (hnsw.kind, hnsw.index_recall > 0.9 * flat.index_recall) == ("HNSW32", True)
    index = faiss.read_index(str(tmp_path / "flat" / "items.faiss"))
    _, users = read_vectors(tmp_path / "flat", "users")
    scores, rows = index.search(users[:7], 10)
    assert scores == pytest.approx(np.sort(users[:7] @ read_vectors(tmp_path / "flat", "items")[1].T)[:, ::-1][:, :10])
    assert index.ntotal == 90
    assert rows.max() < 90


def test_an_hnswlib_index_finds_the_lists_again(model, tmp_path):
    hnswlib = pytest.importorskip("hnswlib")
    found = csrr.export(model, tmp_path, to="hnswlib", k=5)
    assert found.index_recall > 0.9 * found.vector_recall
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(found.files)
    index = hnswlib.Index("ip", found.dims)
    index.load_index(str(tmp_path / "items.hnsw"))
    index.set_ef(json.loads((tmp_path / "about.json").read_text())["ef"])
    _, users = read_vectors(tmp_path, "users")
    _, items = read_vectors(tmp_path, "items")
    labels, distances = index.knn_query(users[:7], k=5)
    products = np.take_along_axis(users[:7] @ items.T, labels.astype(int), axis=1)
    assert 1 - distances == pytest.approx(products, abs=1e-3 * float(np.abs(products).max()))


def test_overlap():
    exact = np.array([[1, 2], [3, -1], [-1, -1]])
    assert measure_overlap(np.array([[2, 9], [3, 1], [5, 6]]), exact) == 0.75
    assert measure_overlap(np.array([[9, 9], [-1, -1], [5, 6]]), exact) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"to": "annoy"}, "to='annoy' must be one of faiss, hnswlib, parquet"),
        ({"part": "V"}, "part='V' must be"),
        ({"dims": 0}, "dims=0"),
        ({"index": "Flat"}, "index='Flat' goes with to=\"faiss\""),
        ({"to": "faiss", "index": "Nonsense7"}, "index='Nonsense7' is no index that faiss makes"),
        ({"to": "hnswlib", "index": "Flat"}, "index='Flat' goes with faiss"),
        ({"k": 0}, "k=0"),
        ({"sample": 0}, "sample=0"),
        ({"recall": 0}, "recall=0 must be a number > 0 and <= 1"),
    ],
)
def test_what_cannot_be_exported_leaves_nothing(log, tmp_path, options, message):
    if options.get("to") in ("faiss", "hnswlib"):
        pytest.importorskip(options["to"])
    with pytest.raises(ParameterError) as error:
        csrr.export(csrr.WRMF(2, max_iter=1).fit(log), tmp_path / "out", **options)
    assert message in str(error.value)
    assert not (tmp_path / "out").exists()


def test_without_the_library_it_is_said_which(log, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    csrr.WRMF(2, max_iter=1).fit(log).save(tmp_path / "m.csrr")
    result = in_process("export", tmp_path / "m.csrr", "--to", "faiss", "-o", tmp_path / "out")
    assert result.exit_code == 2
    assert "export needs faiss: pip install 'csrr[vectors]'" in result.stderr


def test_the_command_prints_the_recall(with_neighbors, tmp_path):
    with_neighbors.save(tmp_path / "m.csrr")
    result = in_process("export", tmp_path / "m.csrr", "-o", tmp_path / "out", "--dims", 30, "-k", 5)
    assert result.exit_code == 0, result.stderr
    assert "all of the scores, approximately, in 30 dimensions" in result.stdout
    told = as_json("export", tmp_path / "m.csrr", "-o", tmp_path / "out", "--part", "factors", "-k", 5)
    assert told["covers"] == "common taste U alone, without neighbors S"
    assert told["vector_recall"] == csrr.export(with_neighbors, tmp_path / "b", part="factors", k=5).vector_recall
    result = in_process("export", tmp_path / "m.csrr", "-o", tmp_path / "m.csrr")
    assert (result.exit_code, "is a file; -o names a folder" in result.stderr) == (2, True)


@pytest.mark.parametrize("to", ["parquet", "faiss"])
def test_factors_of_rank_0_are_refused(log, tmp_path, to):
    model = csrr.MCShift(l1=1e6).fit(log)
    assert model.rank_ == 0
    with pytest.raises(ParameterError, match="the factors of this MCShift have rank 0"):
        csrr.export(model, tmp_path / "vectors", to=to)
    neighbors = csrr.CSRR(**NEIGHBORS | {"reg_low_rank": 2.0}).fit(log)
    assert csrr.export(neighbors, tmp_path / "vectors", dims=4).dims == 4
