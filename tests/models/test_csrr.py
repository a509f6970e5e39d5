"""CSRR: the model is the solution of its problem, and its answers follow from it."""

import numpy as np
import pytest

import csrr
from csrr import CSRR, PopRank
from csrr.data.synthetic import NOISE, TASTE
from tests.reference import dense

EXACT = {"dtype": "float64", "tol": 1e-5, "max_iter": 60}


@pytest.fixture(scope="module")
def model(log):
    return CSRR(reg_low_rank=0.25, reg_sparse=0.6).fit(log)


@pytest.mark.parametrize("loss", ["I", "II"])
def test_scores_are_u_of_the_specification(loss, clicks):
    model = CSRR(loss, 2.0, reg_low_rank=0.3, reg_sparse=1.0, user_scaling=0.0, item_scaling=0.0, **EXACT).fit(clicks)
    exact = dense.solve(dense.Dense(clicks, 2.0, model.l1_, None, loss))
    assert model.l1_ == pytest.approx(0.3 * 2 * np.linalg.norm(clicks, 2), rel=1e-3)
    product = model.user_factors_ @ model.item_factors_.T
    np.testing.assert_allclose(product, exact.U, atol=1e-3 * exact.U.max())
    np.testing.assert_allclose(model.score(np.arange(80)), product, atol=1e-6)
    assert model.certificate_.primal == pytest.approx(exact.objective, rel=1e-6)
    assert model.specific_.nnz == 0


@pytest.mark.parametrize("loss", ["I", "II"])
def test_scaling_and_v_against_the_specification(loss, clicks):
    a, b = 0.2, 0.4
    model = CSRR(
        loss, 3.0, reg_low_rank=0.3, reg_sparse=0.5, user_scaling=a, item_scaling=b, dtype="float64", tol=1e-5
    ).fit(clicks)
    assert model.l2_ == pytest.approx(1.5)
    reference = dense.Dense(clicks, 3.0, model.l1_, model.l2_, loss, a, b)
    exact = dense.solve(reference, tol=1e-9)
    # In units of a click: divided by the target of a cell
    unit = clicks.sum(1, keepdims=True) ** -a * np.maximum(clicks.sum(0, keepdims=True), 1) ** -b
    np.testing.assert_allclose(model.score(np.arange(80)), exact.U / unit, atol=0.02 * (exact.U / unit).max())
    V = model.specific_.toarray()
    np.testing.assert_allclose(V, exact.V / unit, atol=0.02)
    assert model.specific_.nnz > 10
    assert not V[clicks == 0].any()


def test_amounts_of_an_explanation_sum_to_the_score(model, log):
    for user in (0, 7, 33):
        for item in (2, 40):
            why = model.explain(user, item)
            assert sorted(why.items) == sorted(log.history(user))
            assert why.score == pytest.approx(float(model.score(user, item)[0]), abs=1e-6)
            assert why.amounts.sum() == pytest.approx(why.score, abs=1e-5)
            assert (np.diff(why.amounts) <= 0).all()
            assert why.titles.tolist() == log.titles[why.items].tolist()
            assert [row[2] for row in why.contributions] == why.amounts.tolist()


def test_explanations_need_no_correction_at_the_optimum(log):
    """The amounts before the rest is spread: c_j q_j (Q'Q + l1 I)^-1 q_i."""
    model = CSRR(reg_low_rank=0.3, reg_sparse=0.6, dtype="float64", tol=1e-6).fit(log)
    side, scaling = model.fitted_.side, model.fitted_.scaling
    user, item = 5, 9
    pulled = model.explain(user, item)
    q = side.factors
    p = model.user_factors_[user].astype(np.float64) * scaling.user[user]
    history = log.history(user)
    u = q[history] @ p
    t = scaling.user[user] * scaling.item[history]
    c = np.minimum(2.0 * (t - u), model.l2_ * t) + u
    amounts = c * (q[history] @ side.inverse @ q[item]) / (scaling.user[user] * scaling.item[item])
    by_item = dict(zip(pulled.items.tolist(), pulled.amounts.tolist(), strict=True))
    np.testing.assert_allclose(amounts, [by_item[i] for i in history.tolist()], atol=2e-3 * np.abs(amounts).max())


def test_a_training_user_comes_back_by_their_history(model, log):
    largest = np.abs(model.score(np.arange(80))).max()
    for user in (0, 7, 33):
        recs = model.recommend_for(log.history(user).tolist(), k=10)
        expected = model.recommend(user, k=10)
        np.testing.assert_allclose(recs.scores, expected.scores, atol=2e-3 * largest)
        folded = model.fold_in([log.history(user).tolist()]).score()[0]
        np.testing.assert_allclose(folded, model.score(user)[0], atol=2e-3 * largest)
        assert not set(recs.items[0]) & set(log.history(user))


def test_a_log_of_new_users_keeps_its_ids(model):
    table = {"user": ["ann", "bob", "ann", "bob"], "item": [3, 4, 5, 4]}
    folded = model.fold_in(table)
    assert folded.users.tolist() == ["ann", "bob"]
    assert len(folded) == 2
    lists = model.fold_in([[3, 5], [4]])
    np.testing.assert_allclose(folded.user_factors, lists.user_factors, atol=1e-6)
    recs = folded.recommend(k=4)
    assert recs.users.tolist() == ["ann", "bob"]
    np.testing.assert_array_equal(recs.items, lists.recommend(k=4).items)
    assert 4 in folded.recommend(k=60, exclude_seen=False).items[1]
    assert set(folded.recommend(k=3, candidates=[9, 10, 11]).items[0]) == {9, 10, 11}
    np.testing.assert_allclose(model.fold_in([[3, 5, 3]]).user_factors, lists.user_factors[:1], atol=1e-6)


def test_specific_preferences_are_a_row_of_v(model, log):
    dense_v = model.specific_.toarray()
    user = int(np.argmax((dense_v > 0).sum(1)))
    own = model.specific_preferences(user)
    assert len(own) == (dense_v[user] > 0).sum() > 1
    np.testing.assert_array_equal(own.amounts, dense_v[user, own.items])
    assert (np.diff(own.amounts) <= 0).all()
    assert own.titles.tolist() == log.titles[own.items].tolist()
    assert set(own.items) <= set(log.history(user))
    assert list(own.to_frame().columns) == ["item", "title", "amount", "kind", "support"]


def test_similar_items_leave_out_the_item(model):
    near = model.similar_items(8, k=100)
    assert sorted(near.ids) == [i for i in range(60) if i != 8]
    f = model.item_factors_
    cosine = f[near.ids[0]] @ f[8] / np.linalg.norm(f[near.ids[0]]) / np.linalg.norm(f[8])
    assert near.scores[0] == pytest.approx(float(cosine), rel=1e-4)


def test_the_weight_of_clicks_given_three_ways_is_one_model(log):
    ways = (
        {"cost_ratio": 3.0},
        {"positive_cost": 0.75},
        {"miss_cost": 9.0, "false_alarm_cost": 2.0, "cost_ratio": 3.0},
    )
    one, *others = (CSRR(reg_low_rank=0.3, **way).fit(log) for way in ways)
    for other in others:
        assert other.l1_ == one.l1_
        np.testing.assert_array_equal(other.recommend(k=5).items, one.recommend(k=5).items)
    default, two = CSRR().fit(log), CSRR(cost_ratio=2.0).fit(log)
    np.testing.assert_array_equal(default.user_factors_, two.user_factors_)


def test_absolute_strengths_equal_relative_ones(log):
    relative = CSRR(reg_low_rank=0.3, reg_sparse=0.6, cost_ratio=3.0).fit(log)
    absolute = CSRR(l1=relative.l1_, l2=0.6 * 3.0, cost_ratio=3.0).fit(log)
    assert absolute.l2_ == pytest.approx(relative.l2_) == pytest.approx(1.8)
    np.testing.assert_allclose(absolute.score(np.arange(80)), relative.score(np.arange(80)), atol=1e-5)


def test_the_automatic_strength_is_half_the_norm_of_random_signs(clicks):
    """For random signs the norm is close to the same for all draws."""
    model = CSRR(reg_low_rank="auto", user_scaling=0.0, item_scaling=0.0, cost_ratio=1.0, reg_sparse=1.0).fit(clicks)
    draws = [np.linalg.norm(clicks * np.random.default_rng(s).choice([-1, 1], clicks.shape), 2) for s in range(8)]
    assert 0.4 * min(draws) <= model.l1_ <= 0.6 * max(draws)


@pytest.mark.parametrize("loss", ["I", "II"])
def test_strengths_that_give_nothing(loss, clicks):
    params = {"loss": loss, "cost_ratio": 3.0, "dtype": "float64", "tol": 1e-8}
    # The norm is taken from above, to 1e-4
    assert CSRR(reg_low_rank=1.0, reg_sparse=1.0, **params).fit(clicks).rank_ == 0
    assert CSRR(reg_low_rank=0.99, reg_sparse=1.0, **params).fit(clicks).rank_ == 1
    assert CSRR(reg_low_rank=1.0, reg_sparse=1.0, **params).fit(clicks).specific_.nnz == 0
    assert CSRR(reg_low_rank=1.1, reg_sparse=0.99, **params).fit(clicks).specific_.nnz == clicks.sum()


def test_strengths_on_small_data():
    A = (np.random.default_rng(0).random((30, 40)) < 0.2).astype(float)
    model = CSRR(reg_low_rank=0.99, reg_sparse=1.0, user_scaling=0.0, item_scaling=0.0).fit(A)
    assert model.l1_ == pytest.approx(0.99 * 2 * np.linalg.norm(A, 2), rel=1e-3)


@pytest.mark.parametrize("loss", ["I", "II"])
def test_the_paper_s_box(loss, clicks):
    model = CSRR(loss, 2.0, box="paper", reg_low_rank=0.2, reg_sparse=0.6, user_scaling=0.0, item_scaling=0.0).fit(
        clicks
    )
    scores = model.score(np.arange(80))
    assert scores.min() >= -1e-4
    assert scores.max() <= 1 + 1e-4
    assert model.specific_.data.min() >= 0
    assert model.specific_.data.max() <= 1
    assert model.certificate_.status == "converged"
    assert len(model.history_) == model.certificate_.iterations
    unboxed = CSRR(loss, 2.0, reg_low_rank=0.2, reg_sparse=0.6, user_scaling=0.0, item_scaling=0.0).fit(clicks)
    assert unboxed.score(np.arange(80)).min() < -1e-3  # so the box did something


def test_the_callback_sees_the_steps_of_the_box_too(clicks):
    seen = []
    CSRR(box="paper", max_iter=5).fit(clicks, callback=seen.append)
    assert seen


def test_the_rank_cap_cuts_the_result_of_the_box(clicks):
    model = CSRR(box="paper", max_rank=2, max_iter=5).fit(clicks)
    assert model.rank_ == 2
    assert model.certificate_.rank_capped


def test_permuted_users_and_items_permute_the_solution(clicks):
    r = np.random.default_rng(0)
    users, items = r.permutation(80), r.permutation(60)
    params = {"reg_low_rank": 0.3, "reg_sparse": 0.7, "dtype": "float64", "tol": 1e-5}
    one, two = CSRR(**params).fit(clicks), CSRR(**params).fit(clicks[users][:, items])
    U, W = one.score(np.arange(80)), two.score(np.arange(80))
    np.testing.assert_allclose(W, U[users][:, items], atol=0.02 * U.max())
    assert one.certificate_.primal == pytest.approx(two.certificate_.primal, rel=1e-4)


def test_the_rank_cap(log):
    model = CSRR(reg_low_rank=0.1, max_rank=2).fit(log)
    assert model.rank_ == model.user_factors_.shape[1] == 2
    assert model.certificate_.rank_capped


def test_a_start_and_the_trace(log, clicks):
    params = {"reg_low_rank": 0.3, "tol": 1e-4}
    first = CSRR(**params).fit(log)
    seen = []
    again = CSRR(**params).fit(log, start=first, callback=seen.append)
    assert seen == again.history_
    assert again.certificate_.iterations <= 2
    nothing = CSRR(reg_low_rank=2.0).fit(log)
    assert CSRR(**params).fit(clicks, start=nothing).certificate_.gap <= 1e-4


@pytest.mark.parametrize("change", [{"user_scaling": 1.0}, {"cost_ratio": 9.0}, {"loss": "II"}])
def test_what_was_fitted_stays_until_the_next_fit(log, change):
    model = CSRR(reg_low_rank=0.2).fit(log)
    before = model.fold_in([[1, 2, 3]]).score()
    model.set_params(**change)
    np.testing.assert_array_equal(model.fold_in([[1, 2, 3]]).score(), before)


def test_one_thread_or_two(log):
    one, two = (CSRR(threads=n, reg_low_rank=0.2, tol=1e-4).fit(log) for n in (1, 2))
    a, b = (m.score(np.arange(80)) for m in (one, two))
    assert np.linalg.norm(a - b) <= 1e-4 * np.linalg.norm(a)


def auc(scores, positive):
    """The chance that a positive scores above a negative."""
    ranks = np.argsort(np.argsort(scores)) + 1.0
    n = positive.sum()
    return (ranks[positive].sum() - n * (n + 1) / 2) / (n * (~positive).sum())


@pytest.fixture(scope="module")
def planted():
    return csrr.synthetic(400, 200, rank=6, events_per_user=24, noise=0.15, specific=0.0, seed=3)


class TestPlantedTruth:
    def test_beats_popularity_by_far(self, planted):
        train, test = csrr.split(planted.log, ratio=0.8, seed=0)
        ours, theirs = (csrr.evaluate(m.fit(train), train, test, at=(10,))["ndcg@10"] for m in (CSRR(), PopRank()))
        assert ours > 1.5 * theirs
        assert theirs > 0

    def test_finds_the_planted_noise(self, planted):
        log = planted.log
        model = CSRR(reg_sparse=0.5).fit(log)
        wrong = planted.truth == NOISE
        assert (planted.truth[~wrong] == TASTE).all()
        misfit = 1 - model.score(log.user_rows, log.item_rows)
        assert auc(misfit, wrong) > 0.75
        V = np.asarray(model.specific_[log.user_rows, log.item_rows]).ravel()
        assert auc(V + 1e-6 * misfit, wrong) > 0.75
        shuffled = np.random.default_rng(0).permutation(wrong)
        assert abs(auc(misfit, shuffled) - 0.5) < 0.05
