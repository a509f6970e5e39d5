"""Scores from item to item, and the ranks of held-out items, against dense numpy."""

import numpy as np
import pytest
from scipy import sparse

from csrr.ranking.loops import rank_rows
from csrr.ranking.topk import add_products, multiply_own, multiply_pairs


@pytest.fixture(scope="module")
def made():
    rng = np.random.default_rng(0)
    clicks = sparse.csr_array((rng.random((12, 9)) < 0.4).astype(np.float32))
    weights = sparse.csr_array(np.where(rng.random((9, 9)) < 0.5, rng.standard_normal((9, 9)), 0).astype(np.float32))
    return clicks, weights, rng.uniform(0.5, 2, 12).astype(np.float32)


def dense(clicks, weights, scale):
    return scale[:, None] * (clicks.toarray() @ weights.toarray())


def test_blocks_pairs_and_own_clicks(made):
    clicks, weights, scale = made
    wanted = dense(*made)
    rows = np.array([3, 0, 3, 11])
    out = np.ones((4, 9), np.float32)
    add_products(out, clicks, rows, weights, scale)
    np.testing.assert_allclose(out, 1 + wanted[rows], rtol=1e-5, atol=1e-6)
    items = np.array([0, 8, 4, 2])
    np.testing.assert_allclose(
        multiply_pairs(clicks, rows, items, weights, scale), wanted[rows, items], rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(multiply_own(clicks, weights, scale), wanted[clicks.nonzero()], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("row", [-1, 12])
def test_rows_that_are_not_there_are_refused(made, row):
    clicks, weights, scale = made
    with pytest.raises(IndexError, match="from 0 to 11"):
        add_products(np.zeros((1, 9), np.float32), clicks, np.array([row]), weights, scale)
    with pytest.raises(IndexError, match="from 0 to 11"):
        multiply_pairs(clicks, np.array([row]), np.array([0]), weights, scale)


def test_ranks_of_held_out_items_ties_counted_half(made):
    clicks, weights, scale = made
    base = np.round(np.random.default_rng(1).standard_normal((12, 9)), 1).astype(np.float32)
    held = sparse.csr_array(((clicks.toarray() == 0) & (np.arange(9) % 2 == 0)).astype(np.float32))
    several = np.stack([weights.data, np.zeros_like(weights.data)])
    ranks = np.empty((2, held.nnz))
    histories, between = (scale, clicks.indptr, clicks.indices), (weights.indptr, weights.indices)
    given = histories, None, between, several, (held.indptr, held.indices)
    rank_rows(0, 12, base, np.arange(12), *given, np.empty(9, np.float32), ranks)
    for found, scores in zip(ranks, (base + dense(*made), base), strict=True):
        scores = np.where(clicks.toarray() > 0, -np.inf, scores)
        for p, (user, item) in enumerate(zip(*held.nonzero(), strict=True)):
            mine, others = scores[user, item], np.delete(scores[user], item)
            np.testing.assert_allclose(found[p], 1 + (others > mine).sum() + (others == mine).sum() / 2)
    assert (ranks[1] % 1 == 0.5).any()
