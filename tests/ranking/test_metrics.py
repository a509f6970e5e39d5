from math import log2
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import csrr
from csrr.ranking.metrics import (
    HIT_METRICS,
    Coverage,
    Diversity,
    EvaluatedLists,
    LongTail,
    Novelty,
    average_precision,
    f1,
    find_metric,
    hit_rate,
    list_ndcg,
    mark_hits,
    measure_users,
    ndcg,
    precision,
    recall,
    reciprocal_rank,
)
from tests.reference import metrics as reference

HITS = np.array([[1, 0, 1, 0], [0, 0, 0, 0], [0, 1, 0, 0]], bool)
N_RELEVANT = np.array([3, 2, 8])


def test_hand_written_fractions():
    np.testing.assert_allclose(precision(HITS, N_RELEVANT), [2 / 4, 0, 1 / 4])
    np.testing.assert_allclose(recall(HITS, N_RELEVANT), [2 / 3, 0, 1 / 8])
    np.testing.assert_allclose(f1(HITS, N_RELEVANT), [4 / 7, 0, 2 / 12])
    gains = [1, 1 / log2(3), 1 / 2, 1 / log2(5)]
    np.testing.assert_allclose(ndcg(HITS, N_RELEVANT), [1.5 / sum(gains[:3]), 0, gains[1] / sum(gains)], rtol=1e-15)
    np.testing.assert_allclose(list_ndcg(HITS, N_RELEVANT), [1.5 / (1 + gains[1]), 0, gains[1]], rtol=1e-15)


def test_hand_written_fractions_of_places():
    hits = np.array([[1, 0, 1, 1], [0, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0]], bool)
    relevant = np.array([9, 2, 1, 2])
    expected = [(1 / 1 + 2 / 3 + 3 / 4) / 4, 0, (1 / 2) / 1, (1 / 1 + 2 / 2) / 2]
    np.testing.assert_allclose(average_precision(hits, relevant), expected, rtol=1e-15)
    np.testing.assert_allclose(reciprocal_rank(hits, relevant), [1, 0, 1 / 2, 1])
    np.testing.assert_allclose(hit_rate(hits, relevant), [1, 0, 1, 1])


def measure(metric, items, seen):
    """Return a metric of lists of item rows, where the training events are `seen`."""
    items = np.array(items, np.int32)
    return metric.measure(EvaluatedLists(items, np.zeros(items.shape, bool), None, sparse.csr_array(seen)))


def test_novelty_counts_users_and_takes_an_item_of_nobody_as_of_one():
    seen = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0], [1, 0, 0], [1, 0, 0]], np.float32)
    # Four users have something: 4, 1 and 0 of them these items, which are 0, 2 and 2 bits.
    found = measure(Novelty(), [[0, 0], [1, 1], [2, 2], [0, 1], [2, -1], [-1, -1]], seen)
    np.testing.assert_array_equal(found.per_user, [0, 2, 2, 1, 2, np.nan])
    assert found.mean == 7 / 5


def test_coverage_counts_items_in_any_list():
    for items, share in (([[0, 3], [3, -1]], 2 / 5), ([[4, -1]], 1 / 5), ([[-1]], 0)):
        assert measure(Coverage(), items, np.zeros((2, 5))) == (None, share, None)


def test_diversity_is_one_less_the_mean_cosine_of_all_pairs():
    seen = csrr.synthetic(80, 60, rank=4, events_per_user=12).log.to_csr()
    dense = seen.toarray()
    lengths = np.linalg.norm(dense, axis=0)
    cosines = dense.T @ dense / np.maximum(np.outer(lengths, lengths), 1)
    pairs = [(3, 5), (3, 9), (3, 11), (5, 9), (5, 11), (9, 11)]
    expected = [1 - np.mean([cosines[a, b] for a, b in pairs]), 1 - cosines[1, 2], np.nan, np.nan]
    found = measure(Diversity(), [[3, 5, 9, 11], [1, 2, -1, -1], [7, -1, -1, -1], [-1, -1, -1, -1]], seen)
    np.testing.assert_allclose(found.per_user, expected, atol=1e-6)


def test_an_item_that_nobody_has_is_like_no_other():
    found = measure(Diversity(), [[0, 1], [0, 2], [2, 3]], np.array([[1, 1, 0, 0], [1, 1, 0, 0]]))
    np.testing.assert_allclose(found.per_user, [0, 1, 1], atol=1e-12)


def test_the_long_tail_begins_where_four_fifths_of_the_events_end():
    counts = [50, 25, 10, 5, 4, 3, 2, 1]  # of 100: 50, 75 and 85 are at the ends of the first three
    cells = np.zeros((50, 8))
    for item, count in enumerate(counts):
        cells[:count, item] = 1
    assert measure(LongTail(), np.arange(8)[:, None], cells).per_user.tolist() == [0] * 3 + [1] * 5
    found = measure(LongTail(), [[0, 1, 5, 7], [0, -1, -1, -1], [-1, -1, -1, -1]], cells)
    np.testing.assert_array_equal(found.per_user, [0.5, 0.0, np.nan])


def test_several_k_come_from_the_longest_list():
    found = measure_users(HITS, N_RELEVANT, (1, 4), ["precision", "ndcg"])
    assert list(found) == ["precision@1", "precision@4", "ndcg@1", "ndcg@4"]
    assert found["precision@1"].tolist() == found["ndcg@1"].tolist() == [1, 0, 0]


def test_a_perfect_list_has_ndcg_1():
    hits = np.array([[1, 1, 0, 0], [1, 1, 1, 1]], bool)
    np.testing.assert_allclose(ndcg(hits, np.array([2, 9])), 1)


def test_users_without_relevant_items_are_in_no_mean():
    found = measure_users(HITS, np.array([3, 0, 8]), (4,))
    for values in found.values():
        assert np.isnan(values).tolist() == [False, True, False]
    lists = EvaluatedLists(np.zeros_like(HITS, np.int32), HITS, SimpleNamespace(positives=np.array([3, 0, 8])), None)
    assert find_metric("precision").measure(lists).mean == (2 / 4 + 1 / 4) / 2


@given(st.data())
def test_every_metric_equals_the_naive_loop(data):
    n_items = data.draw(st.integers(1, 12))
    ranked = data.draw(st.permutations(range(n_items)))
    relevant = data.draw(st.sets(st.integers(0, n_items - 1), min_size=1))
    k = data.draw(st.integers(1, n_items))
    held_out = sparse.csr_array(np.isin(np.arange(n_items), list(relevant))[None].astype(np.float32))
    hits = mark_hits(np.array([ranked], np.int32), held_out, np.array([0]))
    found = measure_users(hits, np.array([len(relevant)]), (k,), list(HIT_METRICS))
    for name, value in reference.metrics(ranked, relevant, k).items():
        assert found[f"{name}@{k}"][0] == pytest.approx(value, abs=1e-12)
        assert 0 <= value <= 1 + 1e-12


def test_an_independent_library_agrees():
    ir_measures = pytest.importorskip("ir_measures")
    rng = np.random.default_rng(0)
    n, m, k = 60, 30, 7
    held_out = sparse.csr_array((rng.random((n, m)) < rng.choice([0.05, 0.5], (n, 1))).astype(np.float32))
    ranked = rng.permuted(np.tile(np.arange(m, dtype=np.int32), (n, 1)), axis=1)[:, :10]
    n_relevant = np.diff(held_out.indptr).astype(np.int64)
    qrels = {str(u): {str(i): 1 for i in np.flatnonzero(held_out.toarray()[u])} for u in range(n) if n_relevant[u]}
    run = {u: {str(i): float(-place) for place, i in enumerate(ranked[int(u)])} for u in qrels}
    # Their AP@k divides by all relevant items, ours by those that fit.
    measures = {"ndcg": "nDCG@7", "map": "AP@7", "mrr": "RR@7", "precision": "P@7", "recall": "R@7"}
    measures["hit_rate"] = "Success@7"
    found = measure_users(mark_hits(ranked, held_out, np.arange(n)), n_relevant, (k,), list(measures))
    found["map@7"] *= np.minimum(n_relevant, k) / np.maximum(n_relevant, 1)
    for name, theirs in measures.items():
        values = {m.query_id: m.value for m in ir_measures.iter_calc([ir_measures.parse_measure(theirs)], qrels, run)}
        assert len(values) == len(qrels) > 40
        ours = {u: found[f"{name}@7"][int(u)] for u in qrels}
        assert ours == pytest.approx(values, abs=1e-6), name


def test_scikit_learn_has_the_same_ndcg():
    sklearn = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(1)
    relevant, scores = rng.random((20, 15)) < 0.4, rng.permuted(np.tile(np.arange(15.0), (20, 1)), axis=1)
    relevant[:, 0] = True
    items = np.argsort(-scores, axis=1).astype(np.int32)
    hits = mark_hits(items, sparse.csr_array(relevant.astype(np.float32)), np.arange(20))
    ours = ndcg(hits[:, :6], relevant.sum(axis=1))
    theirs = [sklearn.ndcg_score(relevant[[u]], scores[[u]], k=6) for u in range(20)]
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_hits_follow_the_rows_and_skip_padding():
    held_out = sparse.csr_array(np.array([[0, 0, 0], [1, 0, 1]], np.float32))
    items = np.array([[0, 1, -1], [2, 0, -1]], np.int32)
    assert mark_hits(items, held_out, np.array([1, 0])).tolist() == [[True, False, False], [False] * 3]
    assert mark_hits(items, held_out, np.array([1, 1])).tolist()[1] == [True, True, False]
