"""The engine of a GPU, run on the processor: its arrays, blocks and lists, and what it says where it cannot run."""

import sys

import numpy as np
import pytest
from scipy import sparse

import csrr
from csrr.models.estimator import explain_memory
from csrr.numerics.neighbors import Regression, Ridge, find_nearest
from csrr.numerics.problem import Pattern
from csrr.numerics.thread_engine import THREADS
from csrr.ranking.topk import ItemOrder, Products, Restrictions, ScoredItems
from csrr.registry import find_engine

torch = pytest.importorskip("torch")
cuda_engine = pytest.importorskip("csrr.numerics.cuda_engine")
device_arrays = pytest.importorskip("csrr.numerics.device_arrays")


@pytest.fixture
def engine():
    return cuda_engine.CudaEngine("cpu")


def clicks(n=400, m=60, seed=0):
    rng = np.random.default_rng(seed)
    return sparse.csr_array((rng.random((n, m)) < rng.random(m) ** 2 / 2).astype(np.float32))


def test_numpy_answers_with_arrays_of_the_device_and_never_fetches_one(engine):
    x, y = np.random.default_rng(0).standard_normal((2, 5, 5)).astype(np.float32)
    on = engine.put(None, x)
    found = [np.maximum(on, 0), 2 * y - on, np.sqrt(abs(on)), y @ on, on[:, np.arange(5) > 2], on[:, ::-1], on.T / y[0]]
    wanted = [np.maximum(x, 0), 2 * y - x, np.sqrt(abs(x)), y @ x, x[:, np.arange(5) > 2], x[:, ::-1], x.T / y[0]]
    for mine, theirs in zip(found, wanted, strict=True):
        assert isinstance(mine, device_arrays.DeviceArray)
        np.testing.assert_allclose(engine.get(mine), theirs, rtol=1e-5)
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
    for fetch in (np.asarray, np.median, np.exp):
        with pytest.raises(TypeError, match="on a device"):
            fetch(on)


@pytest.mark.parametrize("amounts", [None, np.float32(0.5)])
def test_neighbors_in_small_blocks_are_those_of_threads(engine, amounts, monkeypatch):
    monkeypatch.setitem(cuda_engine._WORK_BYTES, "cpu", 2**14)
    matrix = clicks()
    solved = []
    for each in (THREADS, engine):
        pattern = Pattern.of(matrix, each)
        values = None if amounts is None else each.put_cells(pattern, np.full(pattern.nnz, amounts, np.float32))
        support = find_nearest(pattern, 12, values)
        user = each.put(pattern, np.linspace(0.5, 1, 400).astype(np.float32))
        target = each.put_cells(pattern, np.linspace(0.1, 1, pattern.nnz).astype(np.float32))
        left = each.put(pattern, np.random.default_rng(1).standard_normal((400, 3)).astype(np.float32))
        regression = Regression(pattern, target, user, np.linspace(1, 2, 60).astype(np.float32), support, values)
        u = left, np.random.default_rng(2).standard_normal((60, 3)).astype(np.float32)
        solved.append((support, each.get(regression.solve([u, u], [Ridge(12, 5.0), Ridge(7, 1.0)]))))
    np.testing.assert_array_equal(solved[0][0], solved[1][0])
    np.testing.assert_allclose(solved[0][1], solved[1][1], atol=1e-4)
    assert not solved[1][1][:, 1, :, 7:].any()


def test_lists_are_those_of_threads_ties_and_limits_included(engine):
    rng, matrix = np.random.default_rng(0), clicks()
    # Of whole numbers many scores are equal.
    users, items = (rng.integers(-1, 2, (rows, 4)).astype(np.float32) for rows in matrix.shape)
    weights = sparse.csr_array((rng.random((60, 60)) < 0.1) * rng.integers(1, 3, (60, 60)), dtype=np.float32)
    order = ItemOrder.by_popularity(rng.random(60))
    rows = rng.permutation(400)
    lists = []
    for finder in (None, lambda: engine):
        limits = Restrictions(60)
        limits.leave_out(matrix[rows])
        limits.leave_out(np.arange(7))
        given = ScoredItems(items, weights), users, matrix, np.ones(400, np.float32), None, finder
        lists.append(Products(*given).find_best(rows, 20, limits, order))
    assert not np.isin(lists[0][0], np.arange(7)).any()
    np.testing.assert_array_equal(lists[0][1], lists[1][1])
    # More than eight equal scores may meet the end of a list; elsewhere ties go by the order.
    assert (lists[0][0] == lists[1][0]).mean() > 0.98


def test_a_list_that_runs_short_ends_in_nothing(engine):
    matrix = clicks()
    items = ScoredItems(np.ones((60, 2), np.float32))
    limits = Restrictions(60)
    limits.keep(np.arange(3))
    products = Products.of_factors(np.ones((400, 2), np.float32), items, lambda: engine)
    found, scores = products.find_best(np.arange(400), 5, limits, ItemOrder.by_row(60))
    np.testing.assert_array_equal(found, np.tile([0, 1, 2, -1, -1], (400, 1)))
    assert np.isneginf(scores[:, 3:]).all()
    assert matrix.shape[0] == len(found)


@pytest.mark.parametrize("small", [8, 2048])
def test_the_weights_of_ease_by_halves(engine, small, monkeypatch):
    monkeypatch.setattr(cuda_engine, "_SMALL", small)
    matrix = clicks()
    inverse = np.linalg.inv((matrix.T @ matrix).toarray().astype(np.float64) + 5 * np.eye(60))
    wanted = -inverse / np.diag(inverse)
    np.fill_diagonal(wanted, 0)
    np.testing.assert_allclose(engine.weigh_all_items(matrix, 5.0), wanted, atol=1e-6)
    twice = sparse.csr_array(sparse.hstack([matrix[:, [0]]] * 60))
    with pytest.raises(np.linalg.LinAlgError):
        engine.weigh_all_items(twice, 0.0)


def test_memory_that_is_not_there_is_an_error_with_its_size():
    with (
        pytest.raises(csrr.ParameterError, match=r"does not hold \d+ bytes more; lower max_rank"),
        explain_memory("cuda"),
    ):
        torch.empty(2**50)


def test_without_a_gpu_or_pytorch_the_engine_says_so(monkeypatch):
    if not torch.cuda.is_available():
        with pytest.raises(csrr.ParameterError, match=r"there is no GPU: PyTorch .*; use engine=\"threads\""):
            find_engine("cuda")
    for name in ("csrr.numerics.cuda_engine", "csrr.numerics.device_arrays"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"engine='cuda' needs torch: pip install 'csrr\[cuda\]'"):
        csrr.EASE(reg=1.0, engine="cuda").fit({"user": [1, 2], "item": [1, 2]})
