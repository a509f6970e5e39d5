"""The best items found in the order of norms, beside all scores computed and sorted."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from csrr._base.threads import use_threads
from csrr.ranking.topk import ItemOrder, Products, Restrictions, ScoredItems, block_top_k


def make_products(
    seed: int, n: int = 30, m: int = 700, d: int = 40, *, whole: bool = False, density: float = 0.01
) -> Products:
    """Return random products; `whole` ones have small whole numbers, so that many scores tie and none is rounded."""
    rng = np.random.default_rng(seed)

    def draw(*shape: int) -> Any:
        values = rng.integers(-2, 3, shape) if whole else rng.standard_normal(shape)
        return values.astype(np.float32)

    factors = draw(m, d) * (1 if whole else rng.gamma(0.5, size=(m, 1)).astype(np.float32))
    clicks = sparse.csr_array(rng.random((n, m)) < 0.02, dtype=np.float32)
    weights = sparse.csr_array((rng.random((m, m)) < density) * draw(m, m))
    scale = rng.integers(1, 3, n).astype(np.float32)
    users = draw(n, d)
    users[0] = 0
    return Products(ScoredItems(factors, weights), users, clicks, scale)


def limit(products: Products, kind: str, seed: int = 0) -> Restrictions:
    """Return restrictions of all users' lists."""
    rng, shape = np.random.default_rng(seed), products.clicks.shape
    limits = Restrictions(shape[1])
    if kind != "none":
        limits.leave_out(products.clicks)
    if kind == "few":
        limits.keep(rng.choice(shape[1], 50, replace=False))
        limits.leave_out(sparse.csr_array(rng.random(shape) < 0.1))
    if kind == "each":
        limits.keep(sparse.csr_array(rng.random(shape) < 0.05))
        limits.keep(sparse.csr_array(rng.random(shape) < 0.5))
    return limits


def list_all(products: Products, rows: Any, k: int, limits: Restrictions, order: ItemOrder) -> Any:
    """Return the lists by all scores; 0 for row -1."""
    scores = np.where((rows >= 0)[:, None], products(np.maximum(rows, 0)), np.float32(0))
    limits.mask(slice(0, len(rows)), scores)
    return block_top_k(scores, k, order, limits.allowed)


@pytest.mark.parametrize("kind", ["none", "seen", "few", "each"])
@pytest.mark.parametrize("d", [0, 1, 33, 200])
def test_lists_are_those_of_all_scores_ties_among_them(kind: str, d: int) -> None:
    products = make_products(d, d=d, whole=True)
    order = ItemOrder.by_popularity(np.random.default_rng(1).integers(0, 5, 700))
    rows = np.where(np.arange(30) == 7, -1, np.arange(30))
    items, scores = products.find_best(rows, 20, limit(products, kind), order)
    wanted = list_all(products, rows, 20, limit(products, kind), order)
    assert (items == wanted[0]).all()
    assert (scores == wanted[1]).all()
    assert len(np.unique(scores[3][scores[3] > -np.inf])) < 20  # there are ties


@pytest.mark.parametrize("kind", ["none", "seen", "few", "each"])
def test_scores_are_the_same_but_for_rounding(kind: str) -> None:
    products, rows = make_products(3), np.arange(30)
    order = ItemOrder.by_row(700)
    items, scores = products.find_best(rows, 10, limit(products, kind), order)
    wanted, best = list_all(products, rows, 10, limit(products, kind), order)
    assert (items == wanted).all()
    np.testing.assert_allclose(scores, best, rtol=2e-5, atol=1e-5)


def test_a_list_has_the_same_bits_whoever_else_is_asked_about() -> None:
    products, order = make_products(4, n=300, m=900, d=150), ItemOrder.by_row(900)
    together = products.find_best(np.arange(300), 15, Restrictions(900), order)
    with use_threads(1):
        again = products.find_best(np.arange(300)[::-1], 15, Restrictions(900), order)
    for row in range(300):
        alone = products.find_best(np.array([row]), 15, Restrictions(900), order)
        for one, many, reversed_ in zip(alone, together, again, strict=True):
            assert (one[0] == many[row]).all()
            assert (one[0] == reversed_[299 - row]).all()


@pytest.mark.parametrize("seed", range(3))
def test_lists_of_many_users_are_those_of_all_scores(seed: int) -> None:
    products, order = make_products(seed, n=1500, m=900, d=8, whole=True), ItemOrder.by_row(900)
    rows = np.arange(1500)
    with use_threads(1):
        items, scores = products.find_best(rows, 5, limit(products, "seen"), order)
    wanted, best = list_all(products, rows, 5, limit(products, "seen"), order)
    assert (items == wanted).all()
    assert (scores == best).all()


def test_amounts_of_clicks_count() -> None:
    plain = make_products(5, whole=True)
    amounts = np.random.default_rng(0).integers(1, 4, plain.clicks.nnz).astype(np.float32)
    products = Products(plain.items, plain.users, plain.clicks, plain.scale, amounts)
    rows, order = np.arange(30), ItemOrder.by_row(700)
    found = products.find_best(rows, 9, Restrictions(700), order)
    assert (found[1] == list_all(products, rows, 9, Restrictions(700), order)[1]).all()
    assert (found[1] != plain.find_best(rows, 9, Restrictions(700), order)[1]).any()


def test_weights_that_cancel_are_counted_once() -> None:
    weights = np.zeros((5, 5), np.float32)
    weights[:3, 4] = 1, -1, 2
    clicks = sparse.csr_array(np.array([[1, 1, 1, 0, 0]], np.float32))
    products = Products(
        ScoredItems(np.eye(5, 2, dtype=np.float32), sparse.csr_array(weights)),
        np.ones((1, 2), np.float32),
        clicks,
        np.ones(1, np.float32),
    )
    items, scores = products.find_best(np.array([0]), 5, Restrictions(5), ItemOrder.by_row(5))
    assert items.tolist() == [[4, 0, 1, 2, 3]]
    assert scores.tolist() == [[2, 1, 1, 0, 0]]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_score_that_is_no_number_is_refused(bad: float) -> None:
    products = make_products(6)
    products.items.factors[690] = bad
    products.items.factors[690, 0] = -bad
    with pytest.raises(ValueError, match="NaN"):
        products.find_best(np.arange(1, 3), 3, Restrictions(700), ItemOrder.by_row(700))


@pytest.mark.parametrize("user", [0.0, 1.0])
def test_a_weight_that_is_no_number_is_refused(user: float) -> None:
    weights = sparse.csr_array(np.array([[0, np.nan, 1], [0, 0, 0], [0, 0, 0]], np.float32))
    clicks = sparse.csr_array(np.array([[1, 0, 0]], np.float32))
    items = ScoredItems(np.ones((3, 1), np.float32), weights)
    products = Products(items, np.full((1, 1), user, np.float32), clicks, np.ones(1, np.float32))
    with pytest.raises(ValueError, match="NaN"):
        products.find_best(np.arange(1), 2, Restrictions(3), ItemOrder.by_row(3))


def test_a_score_of_minus_infinity_is_in_no_list() -> None:
    items = ScoredItems(np.array([[-3e38], [1]], np.float32))
    products = Products.of_factors(np.full((1, 1), 3e38, np.float32), items)
    found, _ = products.find_best(np.arange(1), 2, Restrictions(2), ItemOrder.by_row(2))
    assert found.tolist() == [[1, -1]]


def test_rows_and_cells_that_are_not_there_are_refused() -> None:
    products, order = make_products(7), ItemOrder.by_row(700)
    with pytest.raises(IndexError, match="rows"):
        products.find_best(np.array([30]), 3, Restrictions(700), order)
    limits = Restrictions(700)
    limits.leave_out(sparse.csr_array((4, 700)))
    with pytest.raises(IndexError, match="shape"):
        products.find_best(np.arange(3), 3, limits, order)
