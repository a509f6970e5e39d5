from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from csrr.ranking import mark_hits, mean_metrics, per_user_metrics
from csrr.ranking.metrics import METRICS, f1, list_ndcg, ndcg, precision, recall
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


def test_several_k_come_from_the_longest_list():
    found = per_user_metrics(HITS, N_RELEVANT, (1, 4), ["precision", "ndcg"])
    assert list(found) == ["precision@1", "precision@4", "ndcg@1", "ndcg@4"]
    assert found["precision@1"].tolist() == found["ndcg@1"].tolist() == [1, 0, 0]


def test_a_perfect_list_has_ndcg_1():
    hits = np.array([[1, 1, 0, 0], [1, 1, 1, 1]], bool)
    np.testing.assert_allclose(ndcg(hits, np.array([2, 9])), 1)


def test_users_without_relevant_items_are_in_no_mean():
    found = per_user_metrics(HITS, np.array([3, 0, 8]), (4,))
    for values in found.values():
        assert np.isnan(values).tolist() == [False, True, False]
    assert mean_metrics(found)["precision@4"] == (2 / 4 + 1 / 4) / 2


def test_both_f1_are_given():
    means = mean_metrics(per_user_metrics(HITS, N_RELEVANT, (4,)))
    p, r = (2 / 4 + 1 / 4) / 3, (2 / 3 + 1 / 8) / 3
    assert means["f1@4"] == pytest.approx((4 / 7 + 2 / 12) / 3)
    assert means["f1_of_means@4"] == pytest.approx(2 * p * r / (p + r))
    assert mean_metrics(per_user_metrics(HITS[1:2], N_RELEVANT[1:2], (4,)))["f1_of_means@4"] == 0


def test_f1_of_means_comes_with_precision_and_recall():
    assert list(mean_metrics(per_user_metrics(HITS, N_RELEVANT, (4,), ["f1"]))) == ["f1@4"]
    found = mean_metrics(per_user_metrics(HITS, N_RELEVANT, (4,), ["recall", "precision"]))
    assert found["f1_of_means@4"] == mean_metrics(per_user_metrics(HITS, N_RELEVANT, (4,)))["f1_of_means@4"]


@given(st.data())
@settings(deadline=None)
def test_every_metric_equals_the_naive_loop(data):
    n_items = data.draw(st.integers(1, 12))
    ranked = data.draw(st.permutations(range(n_items)))
    relevant = data.draw(st.sets(st.integers(0, n_items - 1), min_size=1))
    k = data.draw(st.integers(1, n_items))
    held_out = sparse.csr_array(np.isin(np.arange(n_items), list(relevant))[None].astype(np.float32))
    hits = mark_hits(np.array([ranked], np.int32), held_out, np.array([0]))
    found = per_user_metrics(hits, np.array([len(relevant)]), (k,), list(METRICS))
    for name, value in reference.metrics(ranked, relevant, k).items():
        assert found[f"{name}@{k}"][0] == pytest.approx(value, abs=1e-12)
        assert 0 <= value <= 1 + 1e-12


def test_hits_follow_the_rows_and_skip_padding():
    held_out = sparse.csr_array(np.array([[0, 0, 0], [1, 0, 1]], np.float32))
    items = np.array([[0, 1, -1], [2, 0, -1]], np.int32)
    assert mark_hits(items, held_out, np.array([1, 0])).tolist() == [[True, False, False], [False] * 3]
    assert mark_hits(items, held_out, np.array([1, 1])).tolist()[1] == [True, True, False]
