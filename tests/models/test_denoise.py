"""Events that count by the probability that they are genuine: all is that of the weighted matrix A*q, densely."""

import numpy as np
import pytest

import csrr
from csrr import CSRR, CSRRe

GIVEN = {"cost_ratio": 1.0, "reg_low_rank": 0.2, "reg_sparse": 1.0, "neighbors": 6, "reg_neighbors": 0.5, "tol": 1e-5}


@pytest.fixture(scope="module")
def noisy():
    """250 users x 90 items with sharp tastes, 30 % of the events random."""
    return csrr.add_noise(csrr.synthetic(250, 90, rank=3, events_per_user=14, noise=0, seed=2).log, "random", 0.3)


@pytest.fixture(scope="module")
def log(noisy):
    return noisy.log


@pytest.fixture(scope="module")
def fitted(log):
    return CSRR(denoise=1, **GIVEN).fit(log)


@pytest.fixture(scope="module")
def q(fitted):
    """The matrix A*q."""
    found = fitted.fitted_.weighed_seen.toarray().astype(np.float64)
    assert ((found > 0) == (fitted.seen_.toarray() > 0)).all()
    assert 0.05 < (found[found > 0] < 0.5).mean() < 0.6
    return found


def scale(q):
    return (np.maximum(q.sum(axis=axis), 1) ** -0.3 for axis in (1, 0))


def compute_scores(model, q):
    """U + (A*q)S of everybody, by dense products."""
    through = np.maximum(q.sum(axis=1), 1)[:, None] ** 0.3 * (q @ model.neighbors_.toarray())
    return model.user_factors_ @ model.item_factors_.T + through


class TestTheProblem:
    def test_planted_events_count_less(self, fitted, noisy):
        counts = fitted.fitted_.genuine
        assert counts[noisy.planted].mean() < 0.7 * counts[~noisy.planted].mean()

    def test_common_taste_is_the_thresholded_svd_of_what_is_weighed(self, fitted, q):
        user, item = scale(q)
        left, s, right = np.linalg.svd(user[:, None] * q * item)
        kept = np.maximum(s - fitted.l1_, 0)
        wanted = (left[:, : len(kept)] * kept) @ right / user[:, None] / item
        assert fitted.rank_ > 1
        np.testing.assert_allclose(fitted.user_factors_ @ fitted.item_factors_.T, wanted, atol=0.01)
        assert fitted.certificate_.gap < 1e-5

    def test_the_weights_are_the_best_for_what_u_leaves_over(self, fitted, q):
        user, item = scale(q)
        W = fitted.neighbors_.toarray().astype(float)
        S, X, T = W / item[:, None] * item, q * item, user[:, None] * q * item
        U = user[:, None] * (fitted.user_factors_.astype(float) @ fitted.item_factors_.T) * item
        gram = X.T @ X
        rho = 0.5 * gram.diagonal().mean()
        cosines = (q.T @ q) / np.linalg.norm(q, axis=0) / np.linalg.norm(q, axis=0)[:, None]
        for j in range(90):
            near = np.flatnonzero(W[:, j])
            assert set(near) == set(np.argsort(-np.where(np.arange(90) == j, -1, cosines[:, j]))[:6])
            wanted = np.linalg.solve(gram[np.ix_(near, near)] + rho * np.eye(len(near)), X[:, near].T @ (T - U)[:, j])
            np.testing.assert_allclose(S[near, j], wanted, atol=1e-4)

    def test_half_the_power_is_the_root(self, fitted, log):
        other = CSRR(**GIVEN | {"denoise": 0.5}).fit(log)
        np.testing.assert_allclose(other.fitted_.genuine, fitted.fitted_.genuine**0.5, rtol=1e-5)

    def test_zero_is_the_plain_problem(self, log):
        plain, none = (CSRR(**GIVEN, **given).fit(log) for given in ({}, {"denoise": 0}))
        assert none.fitted_.genuine is None
        np.testing.assert_array_equal(plain.user_factors_, none.user_factors_)

    @pytest.mark.parametrize("kind", [CSRR, CSRRe])
    def test_the_same_with_any_number_of_threads(self, kind, log):
        one, three = (kind(**GIVEN | {"tol": 1e-3, "denoise": 1}, threads=n).fit(log) for n in (1, 3))
        np.testing.assert_array_equal(one.fitted_.genuine, three.fitted_.genuine)
        np.testing.assert_array_equal(one.score(one.users_.ids), three.score(three.users_.ids))


class TestAnswers:
    def test_scores_of_rows_and_of_pairs(self, fitted, q):
        wanted = compute_scores(fitted, q)
        plain = compute_scores(fitted, (q > 0).astype(float))
        assert np.abs(wanted - plain).max() > 0.02
        np.testing.assert_allclose(fitted.score(fitted.users_.ids), wanted, atol=1e-5)
        users, items = np.arange(90), np.arange(90)[::-1]
        np.testing.assert_allclose(fitted.score(users, items), wanted[users, items], atol=1e-5)

    def test_what_was_seen_is_not_recommended_however_little_it_counts(self, fitted, log):
        items = fitted.recommend(k=20).items
        seen = set(zip(log.user_rows.tolist(), log.item_rows.tolist(), strict=True))
        assert not seen & {(user, item) for user, row in enumerate(items.tolist()) for item in row}

    @pytest.mark.parametrize("user", [0, 77])
    def test_explanations_sum_to_the_score_and_what_counts_little_adds_little(self, fitted, q, user):
        for item in (3, 50):
            found = fitted.explain(user, item)
            np.testing.assert_allclose(found.amounts.sum(), fitted.score([user], [item])[0], rtol=1e-4, atol=1e-6)
            history = fitted.seen_.indices[fitted.seen_.indptr[user] : fitted.seen_.indptr[user + 1]]
            place = {item: at for at, item in enumerate(found.items.tolist())}
            through = np.array([found.neighbors[place[each]] for each in history.tolist()])
            scale = max(q[user].sum(), 1) ** 0.3
            wanted = scale * q[user, history] * fitted.neighbors_.toarray()[history, item]
            np.testing.assert_allclose(through, wanted, atol=1e-6)

    def test_events_of_new_histories_count_fully(self, fitted, log, q):
        clicks = fitted.seen_[:20]
        factors = fitted.fold_users(np.arange(20), clicks).user_factors
        through = np.diff(clicks.indptr)[:, None] ** 0.3 * (clicks @ fitted.neighbors_).toarray()
        wanted = factors @ fitted.item_factors_.T + through
        lists = [clicks.indices[a:b].tolist() for a, b in zip(clicks.indptr, clicks.indptr[1:], strict=False)]
        found = fitted.fold_in(lists).recommend(k=5)
        for row, (items, scores) in enumerate(zip(found.items, found.scores, strict=True)):
            np.testing.assert_allclose(scores, wanted[row, items], atol=1e-5)

    def test_new_items_are_scored_by_what_histories_count(self, fitted, q):
        chosen = fitted.fold_in_items({"user": list(range(0, 40, 2)), "item": [1000] * 20})
        weights, counts = chosen.weights.toarray()[:, 0], np.maximum(q.sum(axis=1), 1) ** 0.3
        wanted = fitted.user_factors_ @ chosen.item_factors[0] + counts * (q @ weights)
        np.testing.assert_allclose(chosen.score()[:, 0], wanted, atol=1e-5)

    def test_suspects_judge_the_log_as_it_is(self, fitted, log):
        mine, plain = fitted.suspects().scores, CSRR(**GIVEN).fit(log).suspects().scores
        assert np.corrcoef(mine, plain)[0, 1] > 0.999


class TestKeeping:
    def test_saved_and_loaded(self, fitted, tmp_path):
        fitted.save(tmp_path / "model.csrr")
        loaded = csrr.load(tmp_path / "model.csrr")
        np.testing.assert_array_equal(loaded.fitted_.genuine, fitted.fitted_.genuine)
        np.testing.assert_array_equal(loaded.score(loaded.users_.ids), fitted.score(fitted.users_.ids))
        np.testing.assert_array_equal(loaded.explain(3, 7).amounts, fitted.explain(3, 7).amounts)
        assert loaded.chosen_.settings.denoise == 1

    def test_an_update_judges_all_events_again(self, log):
        held = np.arange(len(log)) % 10 == 0
        model = CSRR(denoise=1, **GIVEN).fit(log.select(~held)).update(log.select(held))
        whole = CSRR(denoise=1, **GIVEN).fit(log)
        np.testing.assert_allclose(model.fitted_.genuine, whole.fitted_.genuine, atol=1e-6)
        np.testing.assert_allclose(model.score(model.users_.ids), whole.score(whole.users_.ids), atol=0.01)


def make_groups(seed=0):
    """600 users who choose among the items of their own of five groups alone, 20 items each."""
    rng = np.random.default_rng(seed)
    items = [20 * (user % 5) + rng.choice(20, 12, replace=False) for user in range(600)]
    return csrr.read({"user": np.repeat(np.arange(600), 12), "item": np.concatenate(items)})


class TestTheChoice:
    def test_noise_is_weighed_down_and_lists_get_better(self):
        train, test = csrr.split(make_groups(), seed=0)
        noisy = csrr.add_noise(train, "random", 0.4, seed=0, avoid=test).log
        plain, found = (CSRR(**given).fit(noisy) for given in ({"denoise": 0}, {}))
        assert found.chosen_.settings.denoise in (0.5, 1.0)
        assert set(found.chosen_.columns["denoise"]) == {0.0, 0.5, 1.0}
        assert f"denoise {found.chosen_.settings.denoise:g}" in found.chosen_.note
        values = [csrr.evaluate(each, noisy, test, at=20, metrics=("ndcg",))["ndcg@20"] for each in (plain, found)]
        assert values[1] > values[0]
        assert found.settled_params()["denoise"] == found.chosen_.settings.denoise

    def test_a_log_without_noise_is_searched_once(self):
        found = CSRR().fit(make_groups())
        assert found.chosen_.settings.denoise == 0
        assert found.fitted_.genuine is None
        assert not found.chosen_.columns["denoise"].any()
