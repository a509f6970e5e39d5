"""ItemKNN: every similarity and weighting against a naive loop, and what the inherited answers owe to its weights."""

import math
import os
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

import csrr
from csrr import ItemKNN, ParameterError
from tests.reference.metrics import best_items

SIMILARITIES = ["cosine", "asymmetric", "jaccard", "dot"]
WEIGHTINGS = ["none", "degree", "tf-idf", "bm25"]


@pytest.fixture(scope="module")
def model(log):
    return ItemKNN(9).fit(log)


def weighted_clicks(clicks, weighting, k1=1.2, b=0.75):
    """Y, by the formulas, one cell at a time."""
    n, m = clicks.shape
    Y = np.zeros((n, m))
    lengths, counts = clicks.sum(axis=1), clicks.sum(axis=0)
    for u in range(n):
        idf = math.log((m + 1) / (lengths[u] + 1))
        user = {"none": 1.0, "degree": 1 / math.sqrt(lengths[u]), "tf-idf": idf, "bm25": idf}[weighting]
        Y[u] = user * clicks[u]
    Y /= math.sqrt((Y**2).sum() / clicks.sum())
    if weighting == "bm25":
        for i in range(m):
            Y[:, i] *= (k1 + 1) / (k1 * (1 - b + b * counts[i] / counts.mean()) + 1)
    return Y


def naive(clicks, neighbours, similarity, weighting, shrink, asymmetry=0.6):
    """The weights, (m, m), by loops over pairs of items."""
    Y = weighted_clicks(clicks, weighting)
    m = Y.shape[1]
    found = np.zeros((m, m), np.float32)
    for j in range(m):
        for i in range(m):
            dot, left, right = Y[:, i] @ Y[:, j], Y[:, i] @ Y[:, i], Y[:, j] @ Y[:, j]
            below = {
                "cosine": math.sqrt(left * right),
                "asymmetric": left**asymmetry * right ** (1 - asymmetry),
                "jaccard": left + right - dot,
                "dot": 1.0,
            }[similarity]
            found[i, j] = dot / (below + shrink) if i != j else 0
        for i in range(m):
            if i not in best_items(found[:, j], neighbours, set()):
                found[i, j] = 0
    return found


class TestTheNeighbours:
    @pytest.mark.parametrize("similarity", SIMILARITIES)
    @pytest.mark.parametrize("weighting", WEIGHTINGS)
    def test_they_are_those_of_a_naive_loop(self, clicks, similarity, weighting):
        few = clicks[:40, :25]
        few = few[few.any(axis=1)]
        params = {"similarity": similarity, "weighting": weighting, "shrink": 2.5}
        model = ItemKNN(6, **params).fit(few)
        np.testing.assert_allclose(model.weights_.toarray(), naive(few, 6, **params), rtol=1e-5, atol=1e-7)

    def test_asymmetry_and_the_numbers_of_bm25_are_heard(self, log):
        weights = [
            ItemKNN(9, **params).fit(log).weights_.toarray()
            for params in (
                {"asymmetry": 0.2},
                {"asymmetry": 0.8},
                {"similarity": "dot", "weighting": "bm25"},
                {"similarity": "dot", "weighting": "bm25", "bm25_k1": 50.0},
                {"similarity": "dot", "weighting": "bm25", "bm25_b": 0.1},
            )
        ]
        assert all(np.abs(a - b).max() > 1e-3 for a, b in pairwise(weights))
        np.testing.assert_array_equal(
            ItemKNN(9, asymmetry=0.5).fit(log).weights_.toarray(),
            ItemKNN(9, similarity="cosine").fit(log).weights_.toarray(),
        )

    def test_ties_go_by_item_row(self):
        # Items 1 to 5 are equally similar to 0, each with a user of its own in common.
        clicks = np.zeros((5, 6))
        clicks[:, 0] = 1
        clicks[np.arange(5), np.arange(1, 6)] = 1
        model = ItemKNN(3, similarity="cosine", weighting="none", shrink=0.0).fit(clicks)
        assert np.flatnonzero(model.weights_.toarray()[:, 0]).tolist() == [1, 2, 3]

    def test_at_most_so_many_a_column_all_positive_and_never_itself(self, model):
        columns = model.weights_.tocsc()
        assert np.diff(columns.indptr).max() == 9
        assert (columns.data > 0).all()
        assert not model.weights_.diagonal().any()
        assert sparse.issparse(model.weights_)
        assert model.weights_.has_sorted_indices

    def test_more_neighbours_than_items(self, log):
        all_of_them, more = (ItemKNN(n).fit(log).weights_ for n in (59, 10**9))
        np.testing.assert_array_equal(all_of_them.toarray(), more.toarray())

    def test_the_number_of_threads_and_the_size_of_a_block_change_no_bit(self, log, monkeypatch):
        one = ItemKNN(9, threads=1).fit(log).weights_
        monkeypatch.setattr("csrr.numerics.neighbors._TOGETHER", 3)
        monkeypatch.setattr("csrr.models.itemknn.choose_block_rows", lambda width: 7)
        two = ItemKNN(9, threads=2).fit(log).weights_
        for part in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(getattr(one, part), getattr(two, part))

    def test_a_user_who_has_everything_says_nothing_under_idf(self):
        assert ItemKNN(weighting="tf-idf").fit(np.ones((4, 3))).weights_.nnz == 0
        assert ItemKNN(weighting="degree").fit(np.ones((4, 3))).weights_.nnz == 6


class TestAnswers:
    def test_scores_are_clicks_times_weights(self, model, clicks):
        expected = clicks @ model.weights_.toarray()
        np.testing.assert_allclose(model.score(range(80)), expected, rtol=1e-4, atol=1e-6)
        users, items = np.repeat(np.arange(80), 60), np.tile(np.arange(60), 80)
        np.testing.assert_allclose(model.score(users, items).reshape(80, 60), expected, rtol=1e-4, atol=1e-6)

    def test_a_training_history_folded_in_is_the_user(self, model, clicks):
        folded = model.fold_in([np.flatnonzero(row).tolist() for row in clicks])
        np.testing.assert_array_equal(folded.score(), model.score(range(80)))

    def test_an_explanation_is_the_weights_and_sums_to_the_score(self, model, clicks):
        item = model.recommend(5, k=1).items[0, 0]
        why = model.explain(5, item)
        assert sorted(why.items) == np.flatnonzero(clicks[5]).tolist()
        np.testing.assert_allclose(why.amounts, model.weights_.toarray()[why.items, item], rtol=1e-5)
        assert why.amounts.sum() == pytest.approx(model.score(5, item)[0], rel=1e-5)
        assert why.score > 0

    def test_similar_items_are_the_stored_neighbours_and_no_others(self, model):
        column = model.weights_.toarray()[:, 8]
        assert model.similar_items(8, k=4).ids.tolist() == best_items(column, 4, {8})
        near = model.similar_items(8, k=50)
        assert near.ids.tolist() == best_items(column, 9, {8})
        np.testing.assert_array_equal(near.scores, column[near.ids])

    def test_a_saved_model_keeps_its_weights(self, model, tmp_path):
        model.save(tmp_path / "m.csrr")
        again = csrr.load(tmp_path / "m.csrr")
        np.testing.assert_array_equal(again.weights_.toarray(), model.weights_.toarray())
        assert again.similar_items(8).ids.tolist() == model.similar_items(8).ids.tolist()
        np.testing.assert_array_equal(again.score([3, 4], [5, 6]), model.score([3, 4], [5, 6]))


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("neighbors", 0),
            ("neighbors", 2.5),
            ("similarity", "euclid"),
            ("weighting", None),
            ("shrink", -1.0),
            ("shrink", float("nan")),
            ("asymmetry", 1.5),
            ("asymmetry", "half"),
            ("bm25_k1", -0.1),
            ("bm25_b", 2),
            ("threads", -1),
        ],
    )
    def test_by_name_and_the_model_stays(self, log, name, value):
        model = ItemKNN(9).fit(log)
        before = model.weights_
        with pytest.raises(ParameterError, match=f"^{name}="):
            model.set_params(**{name: value}).fit({"user": [1, 1], "item": [1, 2]})
        assert model.weights_ is before
        assert len(model.items_) == 60

    def test_no_events(self, log):
        with pytest.raises(ParameterError, match="the log has no events"):
            ItemKNN().fit(log.select(np.zeros(len(log), bool)))


@pytest.mark.skipif("CSRR_DATA_DIR" not in os.environ, reason="CSRR_DATA_DIR is not set")
def test_on_movielens_100k_it_beats_popularity_by_half_and_its_defaults_beat_plain_cosine():
    train, test = csrr.split(csrr.read("ml-100k.zip", min_rating=3), ratio=0.8, seed=0)

    def ndcg(model):
        return csrr.evaluate(model.fit(train), train, test, at=10)["ndcg@10"]

    ours = ndcg(ItemKNN())
    assert ours > 1.5 * ndcg(csrr.PopRank())
    assert ours > ndcg(ItemKNN(similarity="cosine", weighting="none", shrink=0.0))
