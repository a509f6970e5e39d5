"""Rules for lists against a slow specification, and what each of them promises."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from csrr._base.threads import use_threads
from csrr.ranking import rules as module
from csrr.ranking.rules import NO_LIMIT, Groups, Rules, measure_spread, normalize_rows, sketch_rows
from csrr.ranking.topk import ItemOrder, block_top_k
from tests.reference.rules import list_by_rules, spread_of


def grouped(codes, most=None, least=None):
    """Groups of which each item has one, by number."""
    n = int(max(codes)) + 1
    members = sparse.csr_array((np.ones(len(codes), np.float32), (np.arange(len(codes)), codes)), shape=(len(codes), n))
    caps = np.full(n, NO_LIMIT) if most is None else np.broadcast_to(most, n).astype(np.int64).copy()
    return Groups(members, caps, np.zeros(n, np.int64) if least is None else np.asarray(least, np.int64))


@st.composite
def problems(draw):
    n_items, k = draw(st.integers(1, 30)), draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scores = rng.standard_normal((3, n_items)).astype(np.float32)
    if draw(st.booleans()):
        scores = np.round(scores)  # ties
    scores[rng.random(scores.shape) < 0.2] = -np.inf
    n_groups = draw(st.integers(0, 4))
    groups = rng.random((n_items, n_groups)) < draw(st.sampled_from([0.2, 0.6]))
    most = rng.choice([1, 2, 3, NO_LIMIT], n_groups).astype(np.int64)
    least = np.minimum(rng.integers(0, 3, n_groups), most) if draw(st.booleans()) else np.zeros(n_groups, np.int64)
    bonus = rng.standard_normal(n_items).astype(np.float32) if draw(st.booleans()) else None
    diversity = draw(st.sampled_from([0.0, 0.3, 0.8, 1.0]))
    vectors = normalize_rows(rng.standard_normal((n_items, 5)))
    return scores, k, rng.random(n_items) < 0.8, bonus, diversity, vectors, groups, most, least, rng.random(n_items)


@given(problems(), st.sampled_from([1, 2]))
@settings(max_examples=150)
def test_lists_are_those_of_the_specification(problem, threads):
    scores, k, allowed, bonus, diversity, vectors, groups, most, least, popularity = problem
    order = ItemOrder.by_popularity(popularity)
    rules = Rules(Groups(sparse.csr_array(groups.astype(np.float32)), most, least), None, bonus, diversity, vectors)
    with use_threads(threads):
        items, listed = rules.rank(scores.copy(), k, order, allowed)
    cosines = (vectors @ vectors.T).astype(np.float64)
    for row in range(len(scores)):
        wanted = list_by_rules(
            *(scores[row], k),
            allowed=allowed,
            bonus=np.zeros(len(allowed), np.float32) if bonus is None else bonus,
            diversity=diversity,
            cosines=cosines,
            groups=groups,
            most=most,
            least=least,
            places=order.places,
        )
        found = items[row][items[row] >= 0].tolist()
        np.testing.assert_array_equal(listed[row, : len(found)], scores[row, found])
        assert (items[row, len(found) :] == -1).all()
        assert (listed[row, len(found) :] == -np.inf).all()
        assert found == [int(item) for item in wanted]


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 3))
@settings(max_examples=60)
def test_caps_on_single_categories_give_the_best_list_there_is(seed, k, cap):
    rng = np.random.default_rng(seed)
    scores, codes = rng.standard_normal(9).astype(np.float32), rng.integers(0, 3, 9)
    items, listed = Rules(grouped(codes, most=cap)).rank(scores[None], k)
    fits = [
        chosen
        for size in range(k + 1)
        for chosen in combinations(range(9), size)
        if np.bincount(codes[list(chosen)], minlength=3).max(initial=0) <= cap
    ]
    longest = max(map(len, fits))
    best = max(scores[list(chosen)].sum() for chosen in fits if len(chosen) == longest)
    found = items[0][items[0] >= 0]
    assert len(found) == longest
    np.testing.assert_allclose(scores[found].sum(), best, rtol=1e-5)
    assert (np.diff(listed[0, : len(found)]) <= 0).all()


@pytest.mark.parametrize("sizes", [(1, 1), (2, 1), (50, 5)])
def test_a_pool_that_is_too_small_grows(monkeypatch, sizes):
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((20, 400)).astype(np.float32)
    # The first 300 items, best of all, are of one category: a cap of 2 leaves places for far-off items.
    codes = np.where(np.arange(400) < 300, 0, np.arange(400) - 299)
    scores[:, :300] += 20
    groups = grouped(codes, most=2)
    monkeypatch.setattr(module, "POOL", 400)
    whole, _ = Rules(groups).rank(scores, 10)
    monkeypatch.setattr(module, "POOL", sizes[0])
    monkeypatch.setattr(module, "POOL_FACTOR", sizes[1])
    items, _ = Rules(groups).rank(scores, 10)
    np.testing.assert_array_equal(items, whole)
    assert (items >= 0).all()
    assert ((items < 300).sum(axis=1) == 2).all()


def test_a_quota_reaches_items_far_below_the_pool(monkeypatch):
    monkeypatch.setattr(module, "POOL", 5)
    monkeypatch.setattr(module, "POOL_FACTOR", 1)
    scores = -np.arange(200, dtype=np.float32)[None]
    codes = np.zeros(200, int)
    codes[[150, 160, 199]] = 1
    items, _ = Rules(grouped(codes, least=[0, 2])).rank(scores, 4)
    assert items[0].tolist() == [0, 1, 150, 160]


def test_a_quota_that_nothing_can_meet_leaves_the_list_full():
    scores = -np.arange(10, dtype=np.float32)[None]
    codes = np.array([0] * 9 + [1])
    scores[0, 9] = -np.inf
    items, _ = Rules(grouped(codes, least=[0, 1])).rank(scores, 3)
    assert items[0].tolist() == [0, 1, 2]


def test_a_bonus_is_in_units_of_the_spread_of_the_hundred_best():
    rng = np.random.default_rng(1)
    scores = rng.standard_normal((4, 300)).astype(np.float32)
    allowed = rng.random(300) < 0.9
    spread = measure_spread(scores, None, allowed)
    np.testing.assert_allclose(spread, [spread_of(row, allowed) for row in scores], rtol=1e-5)
    bonus = np.zeros(300, np.float32)
    low = int(np.argsort(scores[0])[150])
    best = scores[0][allowed].max()
    # Just enough, and just too little, to be first.
    for extra, is_first in ((1.01, True), (0.99, False)):
        bonus[low] = extra * (best - scores[0, low]) / spread[0]
        items, listed = Rules(Groups.none(300), bonus=bonus).rank(scores, 5, None, allowed | (np.arange(300) == low))
        assert (items[0, 0] == low) == is_first
        assert listed[0, 0] == (scores[0, low] if is_first else best)


@given(st.floats(-3, 3), st.floats(0.01, 100), st.integers(0, 2**32 - 1))
@settings(max_examples=40)
def test_boosts_do_not_depend_on_where_scores_begin_or_their_unit(shift, unit, seed):
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((2, 60)).astype(np.float32)
    rules = Rules(Groups.none(60), bonus=rng.standard_normal(60).astype(np.float32))
    first = rules.rank(scores, 10)[0]
    second = rules.rank((unit * (scores + np.float32(shift))).astype(np.float32), 10)[0]
    assert (first == second).mean() > 0.8  # rounding may swap neighbours


def test_a_larger_factor_never_lowers_an_item():
    rng = np.random.default_rng(2)
    scores = rng.standard_normal((1, 40)).astype(np.float32) - 5  # all negative
    places = []
    for factor in np.log([0.1, 0.5, 1, 2, 10, 1000]):
        bonus = np.zeros(40, np.float32)
        bonus[7] = factor
        items, _ = Rules(Groups.none(40), bonus=bonus).rank(scores, 40)
        places.append(items[0].tolist().index(7))
    assert places == sorted(places, reverse=True)
    assert places[-1] == 0 < places[0]


def test_no_diversity_is_no_rule_and_more_makes_lists_less_alike():
    rng = np.random.default_rng(3)
    scores, vectors = rng.standard_normal((50, 200)).astype(np.float32), normalize_rows(rng.standard_normal((200, 4)))
    plain, _ = block_top_k(scores, 10)
    likeness = []
    for d in (0.0, 0.2, 0.5, 0.9):
        items, _ = Rules(Groups.none(200), diversity=d, vectors=vectors).rank(scores, 10)
        assert (items[:, 0] == plain[:, 0]).all()
        chosen = vectors[items]
        cosines = np.einsum("ukd,uld->ukl", chosen, chosen)
        likeness.append((cosines.sum(axis=(1, 2)) - 10).mean())
        if d == 0:
            np.testing.assert_array_equal(items, plain)
    assert likeness == sorted(likeness, reverse=True)


def test_sketches_estimate_cosines():
    rng = np.random.default_rng(4)
    cells = sparse.csr_array((rng.random((40, 3000)) < rng.random(40)[:, None] * 0.3).astype(np.float32))
    dense = normalize_rows(cells.toarray())
    off = sketch_rows(cells) @ sketch_rows(cells).T - dense @ dense.T
    assert sketch_rows(cells).shape == (40, 256)
    assert np.abs(off[~np.eye(40, dtype=bool)]).std() < 2 / 16
    few = sparse.csr_array(cells[:, :30])
    np.testing.assert_allclose(
        sketch_rows(few) @ sketch_rows(few).T,
        normalize_rows(few.toarray()) @ normalize_rows(few.toarray()).T,
        atol=1e-6,
    )
    assert not sketch_rows(sparse.csr_array((2, 3), dtype=np.float32)).any()
