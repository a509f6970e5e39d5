"""The regression for the next item, beside its dense form with every position written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from csrr.numerics.neighbors import SingularError
from csrr.numerics.transitions import TASTE_RIDGE, NextItems, Sequences, fade_histories, rank_next

DECAYS = (0.5, 0.8)


@pytest.fixture(autouse=True)
def whole_histories(monkeypatch: pytest.MonkeyPatch) -> None:
    """No event is too far back to be a predictor."""
    monkeypatch.setattr("csrr.numerics.transitions.WINDOW_SHARE", 1e-12)


def make_sequences(n_users: int = 60, n_items: int = 12, seed: int = 0) -> Sequences:
    """Histories of distinct items, one of them empty and one of a single item."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, n_items, n_users)
    lengths[:2] = 0, 1
    items = np.concatenate([rng.permutation(n_items)[:length] for length in lengths]).astype(np.int32)
    return Sequences(np.concatenate(([0], np.cumsum(lengths))), items, n_items)


def write_out(own: Sequences, decays: tuple[float, ...], horizon: float = 0.0) -> tuple[Any, Any]:
    """All positions: the faded histories before each event, (events, C*m), and the faded futures, (events, m)."""
    xs, ys = [], []
    for first, stop in zip(own.starts[:-1], own.starts[1:], strict=True):
        x = np.zeros((len(decays), own.n_items))
        for t in range(first, stop):
            xs.append(x.ravel().copy())
            ys.append(np.zeros(own.n_items))
            for s in range(t, stop):
                ys[-1][own.items[s]] += (1 - horizon) * horizon ** (s - t)
            x = x * np.array(decays)[:, None]
            x[:, own.items[t]] += 1
    return np.array(xs), np.array(ys)


def write_out_tastes(x: Any, left: Any) -> Any:
    """What common taste makes of all positions, (events, C*r)."""
    parts = x.reshape(len(x), -1, len(left))
    return (parts @ left).reshape(len(x), -1)


def solve_dense(own: Sequences, left: Any, taste: Any, found: NextItems, power: float, rho: float) -> Any:
    """S of (m, P) by plain linear algebra on the positions written out."""
    x, y = write_out(own, found.decays, found.horizon)
    left_over = y - write_out_tastes(x, left) @ taste.right.T
    counts = np.maximum(np.bincount(own.items, minlength=own.n_items), 1)
    scale = np.tile(counts**-power, len(found.decays))
    weights = np.zeros(found.support.shape)
    for j, row in enumerate(found.support):
        row = row[row >= 0]
        scaled = x[:, row] * scale[row]
        solved = np.linalg.solve(scaled.T @ scaled + rho * np.eye(len(row)), scaled.T @ left_over[:, j])
        weights[j, : len(row)] = solved * scale[row]
    return weights


@pytest.mark.parametrize("decays", [(0.7,), DECAYS])
@pytest.mark.parametrize(("power", "horizon"), [(0.0, 0.0), (0.3, 0.0), (0.3, 0.6), (0.0, 0.8)])
def test_the_regression_equals_the_one_with_all_positions_written_out(
    decays: tuple[float, ...], power: float, horizon: float
) -> None:
    own, rng = make_sequences(), np.random.default_rng(1)
    left, right = (rng.normal(size=(own.n_items, 3)).astype(np.float32) / 3 for _ in range(2))
    found = NextItems(own, decays, 4, horizon)
    taste = found.find_taste(left, right)
    rhos = [2.0, 5.0]
    for rho, weights in zip(rhos, found.solve(taste, power, rhos), strict=True):
        np.testing.assert_allclose(weights, solve_dense(own, left, taste, found, power, rho), atol=2e-5)
    # It does depend on the order.
    backwards = Sequences(own.starts, own.items[::-1].copy(), own.n_items)
    assert np.abs(NextItems(backwards, decays, 4, horizon).solve(taste, power, rhos)[0] - weights).max() > 0.01


@pytest.mark.parametrize("horizon", [0.0, 0.7])
def test_gram_and_predictors_equal_their_definitions(horizon: float) -> None:
    own = make_sequences()
    found, (x, y) = NextItems(own, DECAYS, 3, horizon), write_out(own, DECAYS, horizon)
    np.testing.assert_allclose(found.diagonal, np.diag(x.T @ x), rtol=1e-9)
    likeness = (x.T @ y) / np.sqrt(np.diag(x.T @ x))[:, None]
    m = own.n_items
    for j, row in enumerate(found.support):
        for c in range(len(DECAYS)):
            mine = likeness[c * m : (c + 1) * m, j].copy()
            mine[j] = -1
            there = [i - c * m for i in row if c * m <= i < (c + 1) * m]
            np.testing.assert_allclose(np.sort(mine[there]), np.sort(mine)[-3:], rtol=1e-6)
    assert found.compute_mean_diagonal(0) == pytest.approx(np.diag(x.T @ x).mean())


@pytest.mark.parametrize("horizon", [0.0, 0.7])
def test_taste_is_turned_to_what_comes_next_by_ridge_regression(
    monkeypatch: pytest.MonkeyPatch, horizon: float
) -> None:
    # With a horizon there is no room for all images at once.
    monkeypatch.setattr("csrr.numerics.transitions._GRAM_BYTES", 1000 if horizon else 2**28)
    monkeypatch.setattr("csrr.numerics.transitions._PANEL", 3)
    own, rng = make_sequences(), np.random.default_rng(2)
    left, right = (rng.normal(size=(own.n_items, 8)).astype(np.float32) / 5 for _ in range(2))
    taste = NextItems(own, DECAYS, 2, horizon).find_taste(left, right)
    x, y = write_out(own, DECAYS, horizon)
    z = write_out_tastes(x, left)
    columns = [(part @ right.T).ravel() for part in np.split(z, 2, axis=1)]
    shares = np.linalg.lstsq(np.stack(columns, axis=1), y.ravel(), rcond=None)[0]
    np.testing.assert_allclose(taste.shares, shares, rtol=1e-3)
    # In the basis in which the columns of `right` are orthonormal.
    turn = np.linalg.qr(right.astype(np.float64))[1]
    z = write_out_tastes(x, left @ turn.T)
    drawn_to = np.hstack([share * right @ np.linalg.inv(turn) for share in shares])
    gram = z.T @ z
    ridge = TASTE_RIDGE * np.trace(gram) / len(gram)
    expected = np.linalg.solve(gram + ridge * np.eye(len(gram)), z.T @ y + ridge * drawn_to.T).T
    found = np.hstack([part @ np.linalg.inv(turn) for part in np.split(taste.right, 2, axis=1)])
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
    # It predicts better than before it was turned.
    assert ((y - z @ expected.T) ** 2).sum() < 0.98 * ((y - z @ drawn_to.T) ** 2).sum()


def test_items_in_parts_and_together_have_the_same_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    own = make_sequences(200, 40)
    none = np.zeros((own.n_items, 0), np.float32)
    together = NextItems(own, DECAYS, 5)
    expected = together.solve(together.find_taste(none, none), 0.2, [1.0])
    monkeypatch.setattr("csrr.numerics.transitions._GRAM_BYTES", 1000)
    monkeypatch.setattr("csrr.numerics.transitions._LEAST_ITEMS", 7)
    parts = NextItems(own, DECAYS, 5)
    assert np.array_equal(parts.solve(parts.find_taste(none, none), 0.2, [1.0]), expected)


def test_more_predictors_than_items_are_all_items() -> None:
    own = make_sequences(30, 10)
    every, more = NextItems(own, DECAYS, own.n_items), NextItems(own, DECAYS, 10**9)
    assert np.array_equal(more.support, every.support)
    assert np.array_equal(more.crossed, every.crossed)


def test_a_singular_system_is_refused() -> None:
    # One event back, all decays give the same weight.
    own = Sequences(np.array([0, 2, 4]), np.array([0, 1, 0, 1], np.int32), 2)
    found, none = NextItems(own, DECAYS, 1), np.zeros((2, 0), np.float32)
    with pytest.raises(SingularError, match="item row 1"):
        found.solve(found.find_taste(none, none), 0.0, [1e-12])


def test_ranks_are_those_of_the_scores_written_out() -> None:
    own, rng = make_sequences(), np.random.default_rng(3)
    m, n = own.n_items, len(own.starts) - 1
    histories = sparse.csr_array((np.ones(len(own.items), np.float32), own.items, own.starts), shape=(n, m))
    x = fade_histories(histories, own.ages, DECAYS)
    s = sparse.random_array((2 * m, m), density=0.4, format="csr", rng=rng, dtype=np.float32)
    variants, bonus = np.stack([s.data, -s.data]), np.stack([np.ones(m), rng.random(m)]).astype(np.float32)
    base = rng.normal(size=(n, m)).astype(np.float32)
    users = np.flatnonzero(np.diff(own.starts) < m - 1)
    unseen = [[i for i in range(m) if i not in histories[[u]].indices][: 1 + u % 2] for u in users]
    starts, held = np.cumsum([0, *map(len, unseen)]), np.concatenate(unseen)
    x, base = x[users], base[users]
    seen = histories[users]
    ranks = np.empty((2, 2, len(held)))
    rank_next(
        0, len(users), base, x.indptr, x.indices, x.data, s.indptr, s.indices, variants, bonus, seen.indptr,
        seen.indices, starts, held, ranks,
    )  # fmt: skip
    asked = np.repeat(np.arange(len(users)), np.diff(starts))
    for v in range(2):
        scores = base + x @ sparse.csr_array((variants[v], s.indices, s.indptr), s.shape)
        for w in range(2):
            final = np.where(seen.toarray() > 0, -np.inf, scores * bonus[w])[asked]
            mine = final[np.arange(len(held)), held]
            assert np.array_equal(ranks[v, w], 1 + (final > mine[:, None]).sum(axis=1))
