"""CSRR with neighbours: scores, answers and files are those of U + X*S, computed densely."""

import numpy as np
import pytest
from scipy import sparse

import csrr
from csrr import CSRR, CSRRe, ParameterError
from csrr.data.log import Log
from csrr.data.synthetic import synthetic

GIVEN = {"reg_low_rank": 0.3, "neighbors": 6, "reg_neighbors": 0.5}


@pytest.fixture(scope="module", params=[CSRR, CSRRe], ids=["CSRR", "CSRRe"])
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def fitted(kind, log):
    return kind(**GIVEN).fit(log)


@pytest.fixture(scope="module")
def low_rank(kind, log):
    return kind(**GIVEN | {"neighbors": 0}).fit(log)


def through(model, clicks):
    """What neighbours add to the scores of everybody with these clicks, (n_users, n_items)."""
    counts = np.maximum(clicks.sum(axis=1, keepdims=True), 1)
    return counts ** (model.user_scaling - model.neighbor_scaling) * (clicks @ model.neighbors_.toarray())


class TestScores:
    def test_they_are_common_taste_and_neighbours(self, fitted, clicks):
        common = fitted.user_factors_ @ fitted.item_factors_.T
        wanted = common + through(fitted, clicks)
        np.testing.assert_allclose(fitted.score(fitted.users_.ids), wanted, atol=1e-5)
        assert np.abs(wanted - common).max() > 0.05
        users, items = np.arange(80), np.arange(80) % 60
        np.testing.assert_allclose(fitted.score(users, items), wanted[users, items], atol=1e-5)

    @pytest.mark.parametrize("alpha", [1.0, 20.0])
    def test_the_weights_are_the_best_for_what_a_balanced_u_leaves_over(self, kind, log, clicks, alpha):
        fitted = kind(**GIVEN, cost_ratio=alpha, reg_sparse=1.0, tol=1e-5).fit(log)
        user, item = (np.maximum(clicks.sum(axis=axis), 1) ** -0.3 for axis in (1, 0))
        W = fitted.neighbors_.toarray().astype(float)
        S = W / item[:, None] * item
        X, T = clicks * item, user[:, None] * clicks * item
        # Whatever clicks weigh in the fit, here they count as other cells do.
        left, s, right = np.linalg.svd(T, full_matrices=False)
        U = left * np.maximum(s - fitted.l1_ / alpha, 0) @ right
        gram = X.T @ X
        counts = clicks.sum(axis=0)
        rho = 0.5 * gram.diagonal()[counts > 0].mean()
        for j in range(60):
            near = np.flatnonzero(W[:, j])
            assert j not in near
            assert len(near) <= 6
            wanted = np.linalg.solve(gram[np.ix_(near, near)] + rho * np.eye(len(near)), X[:, near].T @ (T - U)[:, j])
            np.testing.assert_allclose(S[near, j], wanted, atol=1e-3)

    def test_none_is_low_rank_alone(self, fitted, low_rank):
        assert low_rank.neighbors_.nnz == 0
        np.testing.assert_array_equal(low_rank.user_factors_, fitted.user_factors_)
        np.testing.assert_array_equal(low_rank.item_factors_, fitted.item_factors_)
        assert low_rank.certificate_.primal == fitted.certificate_.primal

    def test_lists_follow_the_scores(self, fitted, clicks):
        scores = np.where(clicks > 0, -np.inf, fitted.score(fitted.users_.ids))
        np.testing.assert_array_equal(fitted.recommend(k=1).items[:, 0], scores.argmax(axis=1))

    def test_users_of_x_may_be_scaled_too(self, kind, log, clicks):
        model = kind(**GIVEN, neighbor_scaling=0.3).fit(log)
        wanted = model.user_factors_ @ model.item_factors_.T + through(model, clicks)
        np.testing.assert_allclose(model.score(model.users_.ids), wanted, atol=1e-5)
        assert not np.allclose(model.neighbors_.toarray(), kind(**GIVEN).fit(log).neighbors_.toarray())

    def test_the_number_of_threads_changes_no_bit(self, kind, log, monkeypatch):
        monkeypatch.setattr("csrr._base.threads.available_cores", lambda: 2)
        one, two = (kind(**GIVEN, threads=threads).fit(log) for threads in (1, 2))
        np.testing.assert_array_equal(one.neighbors_.toarray(), two.neighbors_.toarray())


class TestAnswers:
    def test_explanations_name_neighbours_and_add_up(self, fitted, low_rank, clicks):
        W = fitted.neighbors_.toarray()
        for user, item in ((3, 7), (11, 40), (60, 2)):
            found = fitted.explain(user, item)
            history = np.flatnonzero(clicks[user])
            factor = len(history) ** (fitted.user_scaling - fitted.neighbor_scaling)
            order = np.argsort(found.items)
            np.testing.assert_allclose(found.neighbors[order], factor * W[history, item], atol=1e-6)
            assert found.amounts.sum() == pytest.approx(fitted.score(user, item)[0], abs=1e-5)
            common = low_rank.explain(user, item)
            np.testing.assert_allclose(
                (found.amounts - found.neighbors)[order], common.amounts[np.argsort(common.items)], atol=1e-4
            )
        assert "neighbors" in found.to_frame().columns
        assert "neighbors" in str(found)
        assert low_rank.explain(3, 7).neighbors is None

    def test_a_new_history_goes_through_them_too(self, fitted, clicks):
        histories = [np.flatnonzero(row).tolist() for row in clicks[:20]]
        folded = fitted.fold_in(histories)
        common = folded.user_factors @ fitted.item_factors_.T
        np.testing.assert_allclose(folded.score(), common + through(fitted, clicks[:20]), atol=1e-5)
        # Seen and new are treated alike.
        np.testing.assert_allclose(folded.score(), fitted.score(np.arange(20)), atol=5e-3)
        best = fitted.recommend_for(histories[0], k=3)
        np.testing.assert_array_equal(best.items[0], folded.recommend(k=3).items[0])

    def test_v_is_what_neither_explains(self, fitted, clicks):
        explained = fitted.score(fitted.users_.ids)
        wanted = np.where(clicks > 0, np.maximum(1 - explained - 0.85, 0), 0)
        np.testing.assert_allclose(fitted.specific_.toarray(), wanted, atol=1e-4)
        assert wanted.any()

    def test_similar_items(self, fitted, low_rank):
        weights = fitted.neighbors_.toarray()[:, 5]
        found = fitted.similar_items(5, k=3)
        order = np.argsort(-weights, kind="stable")[:3]
        np.testing.assert_array_equal(found.ids, order)
        np.testing.assert_allclose(found.scores, weights[order])
        by_taste = fitted.similar_items(5, k=3, by="factors")
        np.testing.assert_array_equal(by_taste.ids, low_rank.similar_items(5, k=3).ids)
        assert len(fitted.similar_items(5, k=50)) == (weights > 0).sum()
        assert len(low_rank.similar_items(5, k=3, by="neighbors")) == 0
        with pytest.raises(ParameterError, match="by='cosine'"):
            fitted.similar_items(5, by="cosine")

    def test_a_file_holds_them(self, fitted, clicks, tmp_path):
        fitted.save(tmp_path / "model.csrr")
        loaded = csrr.load(tmp_path / "model.csrr")
        np.testing.assert_array_equal(loaded.score(fitted.users_.ids), fitted.score(fitted.users_.ids))
        np.testing.assert_array_equal(loaded.neighbors_.toarray(), fitted.neighbors_.toarray())
        assert loaded.chosen_.settings == fitted.chosen_.settings
        assert loaded.chosen_.note == fitted.chosen_.note
        history = np.flatnonzero(clicks[0]).tolist()
        np.testing.assert_array_equal(
            loaded.fold_in([history]).specific.toarray(), fitted.fold_in([history]).specific.toarray()
        )


class TestCosts:
    def test_weighted_events_and_dear_items(self, kind, log):
        weights = np.random.default_rng(0).uniform(1, 5, len(log)).astype(np.float32)
        weighted = Log(log.users, log.items, log.user_rows, log.item_rows, weights=weights)
        model = kind(**GIVEN, event_weights="log").fit(weighted, item_costs={5: 3.0})
        common = model.user_factors_ @ model.item_factors_.T
        np.testing.assert_allclose(
            model.score(model.users_.ids), common + through(model, log.to_csr().toarray()), atol=1e-5
        )
        assert model.neighbors_.nnz > 0
        found = model.explain(3, 7)
        assert found.amounts.sum() == pytest.approx(found.score, abs=1e-5)

    def test_calibrated(self, kind, log):
        train, test = csrr.split(log, ratio=0.7, seed=0)
        model = kind(**GIVEN).fit(train)
        model.calibrate(test)
        found = model.probability([1, 2])
        assert (np.diff(found[0][np.argsort(model.score(1)[0])]) >= -1e-12).all()

    def test_along_a_path(self, log):
        path = csrr.path(log, [0.5, 0.3], neighbors=6, reg_neighbors=0.5, tol=1e-4)
        again = CSRR(**GIVEN, tol=1e-4).fit(log)
        np.testing.assert_allclose(path.model(1).score(np.arange(80)), again.score(np.arange(80)), atol=2e-3)
        assert path.model(0).neighbors_.nnz > 0


class TestBadInput:
    @pytest.mark.parametrize("value", [-1, 2.5, True, "some", None])
    def test_what_is_no_number_of_neighbours(self, kind, log, value):
        with pytest.raises(ParameterError, match=r'neighbors=.* must be a whole number >= 0 or "auto"'):
            kind(neighbors=value).fit(log)

    @pytest.mark.parametrize("value", [-0.1, "some", float("nan"), float("inf")])
    def test_what_is_no_strength(self, kind, log, value):
        with pytest.raises(ParameterError, match="reg_neighbors="):
            kind(neighbors=5, reg_neighbors=value).fit(log)

    def test_more_than_there_are_items(self, kind, log):
        all_others = kind(**GIVEN | {"neighbors": 59}).fit(log)
        more = kind(**GIVEN | {"neighbors": 10**6}).fit(log)
        np.testing.assert_array_equal(more.neighbors_.toarray(), all_others.neighbors_.toarray())

    def test_no_penalty_on_a_singular_system(self, kind):
        clicks = sparse.csr_array(np.array([[1, 1, 1, 0], [1, 1, 0, 1], [0, 0, 1, 1], [1, 1, 1, 1]], np.float32))
        with pytest.raises(ParameterError, match=r"reg_neighbors=0.* is too small.*linearly dependent"):
            kind(reg_low_rank=0.5, neighbors=3, reg_neighbors=0).fit(clicks)
        # The same where it is found while choosing.
        twice = synthetic(500, 40, rank=3, events_per_user=9).log
        doubled = sparse.hstack([twice.to_csr(), twice.to_csr()[:, :5]]).tocsr()
        with pytest.raises(ParameterError, match=r"reg_neighbors=0.* is too small.*linearly dependent"):
            kind(reg_neighbors=0).fit(doubled)

    @pytest.mark.parametrize("shape", [(1, 5), (5, 1), (1, 1)])
    def test_one_user_or_one_item(self, kind, shape):
        model = kind(reg_low_rank=0.5, neighbors=3, reg_neighbors=1).fit(np.ones(shape, np.float32))
        assert np.isfinite(model.score(0)).all()
        assert model.recommend(0, exclude_seen=False).items.shape == (1, min(10, shape[1]))

    def test_items_without_neighbours(self, kind):
        clicks = np.eye(6, dtype=np.float32)
        clicks[0, 1] = 1
        model = kind(reg_low_rank=0.5, neighbors=2, reg_neighbors=1).fit(sparse.csr_array(clicks))
        assert set(zip(*(each.tolist() for each in model.neighbors_.nonzero()), strict=True)) <= {(0, 1), (1, 0)}
        assert np.isfinite(model.score(np.arange(6))).all()

    def test_the_paper_has_none(self, log):
        assert CSRR(box="paper", max_iter=3).fit(log).neighbors_.nnz == 0
        assert CSRRe(factors="nonnegative", rank=3, max_iter=3).fit(log).neighbors_.nnz == 0
        big = synthetic(600, 100, rank=4, events_per_user=12).log
        assert CSRRe(factors="nonnegative", rank=3, max_iter=3).fit(big).neighbors_.nnz == 0
        assert csrr.MCShift().fit(big).neighbors_.nnz == 0
