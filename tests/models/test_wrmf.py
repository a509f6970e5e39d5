"""WRMF: weighted least squares over all cells, against closed forms, a dense objective and another library."""

import warnings

import numpy as np
import pytest
from scipy import sparse

import csrr
from csrr import WRMF, ParameterError
from csrr.data.log import Log
from csrr.models import wrmf
from tests.reference.factored import best_rows, weighted_als

EXPONENTS = pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])


@pytest.fixture(scope="module")
def model(log):
    return WRMF(rank=10, confidence=4.0, tol=1e-5, max_iter=200).fit(log)


@pytest.fixture(scope="module")
def heavy(clicks):
    """The events with weights from 1 to 5, and the matrix of them."""
    matrix = clicks * np.random.default_rng(0).integers(1, 6, clicks.shape)
    return Log.from_matrix(sparse.csr_array(matrix)), matrix


@pytest.fixture(scope="module")
def parts():
    """Training and test events for which the rule of "auto" is too weak, 400 users x 200 items."""
    return csrr.split(csrr.synthetic(400, 200, rank=4, events_per_user=8, seed=1).log, ratio=0.8, seed=0)


@pytest.fixture(scope="module")
def auto(parts):
    return WRMF(rank=32).fit(parts[0])


def strengths(model, weight):
    """reg*(f/mean f)^exponent for users and for items, (80,) and (60,)."""
    sums = weight.sum(1), weight.sum(0)
    return tuple(model.reg_ * (f / f.mean()) ** model.reg_exponent for f in sums)


def objective(model, weight, target):
    """The objective of the docstring, densely."""
    P, Q = model.user_factors_.astype(float), model.item_factors_.astype(float)
    users, items = strengths(model, weight)
    error = (weight * (target - P @ Q.T) ** 2).sum()
    return error + (users * (P**2).sum(1)).sum() + (items * (Q**2).sum(1)).sum()


def U(model):
    return model.score(np.arange(len(model.users_)))


def rises(model):
    values = np.array([step.objective for step in model.history_])
    return (np.diff(values) / values[:-1]).max()


@pytest.mark.parametrize("confidence", [0.5, 4.0, 1000.0])
@EXPONENTS
def test_users_solve_their_normal_equations(confidence, exponent, log, clicks):
    model = WRMF(rank=10, confidence=confidence, reg=3.0, reg_exponent=exponent).fit(log)
    weight = 1 + confidence * clicks
    exact = best_rows(model.item_factors_.astype(float), weight, clicks, strengths(model, weight)[0])
    np.testing.assert_allclose(model.user_factors_, exact, rtol=1e-3, atol=1e-4 * np.abs(exact).max())


def test_users_solve_them_with_weights(heavy, clicks):
    log, matrix = heavy
    model = WRMF(rank=10, confidence=2.0, reg=3.0, reg_exponent=1.0, event_weights="linear").fit(log)
    weight = 1 + 2.0 * matrix
    exact = best_rows(model.item_factors_.astype(float), weight, clicks, strengths(model, weight)[0])
    np.testing.assert_allclose(model.user_factors_, exact, rtol=1e-3, atol=1e-4 * np.abs(exact).max())
    assert np.abs(U(model) - U(WRMF(rank=10, confidence=2.0, reg=3.0, reg_exponent=1.0).fit(log))).max() > 0.01


@EXPONENTS
@pytest.mark.parametrize("weights", ["ignore", "linear"])
def test_the_history_is_half_the_objective_and_ends_at_its_least(exponent, weights, heavy, clicks):
    log, matrix = heavy
    model = WRMF(
        rank=12, confidence=1.0, reg=4.0, reg_exponent=exponent, event_weights=weights, tol=1e-7, max_iter=500
    ).fit(log)
    weight = 1 + (matrix if weights == "linear" else clicks)
    value = objective(model, weight, clicks)
    assert 2 * model.history_[-1].objective == pytest.approx(value, rel=1e-4)
    P, Q = weighted_als(weight, clicks, strengths(model, weight), rank=12, sweeps=100)
    assert value <= (
        (weight * (clicks - P @ Q.T) ** 2).sum()
        + sum((r * (f**2).sum(1)).sum() for r, f in zip(strengths(model, weight), (P, Q), strict=True))
    ) * (1 + 1e-3)


def test_the_scores_are_those_of_exact_alternating_least_squares(log, clicks):
    model = WRMF(rank=15, confidence=1.0, reg=6.0, reg_exponent=0.0, tol=1e-8, max_iter=2000).fit(log)
    weight = 1 + clicks
    P, Q = weighted_als(weight, clicks, strengths(model, weight), rank=15, sweeps=400)
    np.testing.assert_allclose(U(model), P @ Q.T, atol=0.01)


def test_the_scores_are_those_of_implicit(log, clicks):
    als = pytest.importorskip("implicit.als")
    model = WRMF(rank=15, confidence=3.0, reg=6.0, reg_exponent=0.0, tol=1e-8, max_iter=2000).fit(log)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Its observed cells weigh alpha, ours 1 + confidence; it keeps the factors in float64 here.
        other = als.AlternatingLeastSquares(
            15, 6.0, 4.0, dtype=np.float64, use_cg=False, use_gpu=False, iterations=300, num_threads=1, random_state=0
        )
        other.fit(sparse.csr_matrix(clicks), show_progress=False)
    np.testing.assert_allclose(U(model), other.user_factors @ other.item_factors.T, atol=0.01)


@EXPONENTS
@pytest.mark.parametrize("confidence", [0.5, 20.0])
def test_the_objective_never_rises(exponent, confidence, log):
    model = WRMF(rank=20, confidence=confidence, reg_exponent=exponent, tol=0.0, max_iter=60).fit(log)
    assert len(model.history_) > 5
    assert rises(model) <= 1e-5


def test_auto_of_a_small_log_is_a_share_of_the_norm_of_noise(log, clicks):
    model = WRMF(rank=5, confidence=4.0).fit(log)
    rng = np.random.default_rng(1)
    noise = [np.linalg.norm(5 * clicks * rng.choice([-1, 1], clicks.shape), 2) for _ in range(20)]
    assert model.reg_ == pytest.approx(0.5 * np.mean(noise) * np.sqrt(2 / 5), rel=0.1)
    assert WRMF(rank=5, reg=2.5).fit(log).reg_ == 2.5


class TestAutoOfALargerLog:
    def test_it_ranks_new_events_better_than_the_rule(self, parts, auto):
        train, test = parts
        rule = WRMF(rank=32, reg=WRMF().build_problem(train).l1).fit(train)
        steps = np.log(auto.reg_ / rule.reg_) / np.log(wrmf.STEP)
        assert steps == pytest.approx(round(steps))
        ours, theirs = (csrr.evaluate(model, train, test, at=20)["ndcg@20"] for model in (auto, rule))
        assert ours > 1.05 * theirs

    def test_the_model_is_that_of_all_events_with_the_strength_chosen(self, parts, auto):
        given = WRMF(rank=32, reg=auto.reg_).fit(parts[0])
        np.testing.assert_array_equal(auto.seen_.toarray(), parts[0].to_csr().toarray())
        np.testing.assert_array_equal(auto.user_factors_, given.user_factors_)
        np.testing.assert_array_equal(auto.item_factors_, given.item_factors_)

    @pytest.mark.parametrize("threads", [1, 2])
    def test_it_is_the_same_again_and_for_any_number_of_threads(self, parts, auto, threads):
        again = WRMF(rank=32, threads=threads).fit(parts[0])
        assert again.reg_ == auto.reg_
        np.testing.assert_array_equal(again.user_factors_, auto.user_factors_)

    def test_the_events_held_out_are_those_of_the_seed(self, parts, monkeypatch):
        seeds = []
        monkeypatch.setattr(wrmf, "find_best_multiple", lambda *_, seed, **__: seeds.append(seed) or 1.0)
        WRMF(rank=4, seed=3).fit(parts[0])
        assert seeds == [3]

    def test_the_callback_sees_the_last_fit_alone(self, parts):
        steps = []
        model = WRMF(rank=4).fit(parts[0], callback=steps.append)
        assert steps == model.history_

    def test_weights_stay_with_the_events_that_are_fitted(self, parts):
        matrix = parts[0].to_csr()
        matrix.data = np.random.default_rng(0).integers(1, 6, matrix.nnz).astype(np.float32)
        log = Log.from_matrix(matrix)
        heavy = WRMF(rank=4, event_weights="linear").fit(log)
        steps = np.log2(heavy.reg_ / WRMF(event_weights="linear").build_problem(log).l1)
        assert steps == pytest.approx(round(steps))

    def test_a_number_is_not_searched(self, parts, monkeypatch):
        monkeypatch.setattr(wrmf, "find_best_multiple", lambda *_, **__: pytest.fail("a number was searched"))
        assert WRMF(rank=4, reg=2.5).fit(parts[0]).reg_ == 2.5


def test_shapes(log):
    model = WRMF().fit(log)
    assert model.user_factors_.shape == (80, 60)
    assert model.item_factors_.shape == (60, 60)
    assert model.user_factors_.dtype == model.item_factors_.dtype == np.float32


class TestAnswers:
    @EXPONENTS
    def test_a_training_history_folded_in_is_its_owner(self, exponent, log):
        model = WRMF(rank=10, confidence=20.0, reg_exponent=exponent).fit(log)
        np.testing.assert_allclose(model.fold_in(log).score(), U(model), atol=1e-3 * U(model).max())
        assert np.abs(model.fold_in(log).score()[1:] - U(model)[:-1]).max() > 0.1

    def test_amounts_of_an_explanation_sum_to_the_score(self, model, log):
        for user in (0, 7, 33):
            for item in (2, 40):
                why = model.explain(user, item)
                assert sorted(why.items) == sorted(log.history(user))
                assert why.amounts.sum() == pytest.approx(float(model.score(user, item)[0]), abs=1e-5)

    @EXPONENTS
    def test_an_explanation_is_the_closed_form(self, exponent, log, clicks):
        model = WRMF(rank=6, confidence=4.0, reg=3.0, reg_exponent=exponent).fit(log)
        Q, user, item = model.item_factors_.astype(float), 7, 2
        weight = 1 + 4.0 * clicks
        system = Q.T @ (weight[user][:, None] * Q) + strengths(model, weight)[0][user] * np.eye(6)
        amounts = weight[user] * (Q @ np.linalg.solve(system, Q[item])) * clicks[user]
        why = model.explain(user, item)
        np.testing.assert_allclose(why.amounts, amounts[why.items], atol=1e-4 * np.abs(amounts).max())

    def test_new_people(self, model, log):
        history = log.history(7)
        recs = model.recommend_for(history, k=6)
        np.testing.assert_array_equal(recs.items, model.fold_in([history]).recommend(6).items)
        assert not set(recs.items[0]) & set(history)

    def test_saved_and_loaded(self, model, log, tmp_path):
        model.save(tmp_path / "m.csrr")
        again = csrr.load(tmp_path / "m.csrr")
        np.testing.assert_array_equal(U(again), U(model))
        np.testing.assert_array_equal(again.fold_in(log).score(), model.fold_in(log).score())
        assert again.reg_ == model.reg_
        assert repr(again.history_) == repr(model.history_)
        assert again.explain(3, 5).rows() == model.explain(3, 5).rows()

    def test_later_parameters_do_not_touch_what_was_fitted(self, log):
        model = WRMF(rank=5, reg_exponent=1.0).fit(log)
        before = model.fold_in([[1, 2, 3]]).score()
        model.set_params(confidence=50.0, reg=9.0, reg_exponent=0.0)
        np.testing.assert_array_equal(model.fold_in([[1, 2, 3]]).score(), before)


def test_threads_move_rounding_only_and_the_seed_is_all_the_chance_there_is(log):
    one, two, again, other = (
        U(WRMF(rank=10, tol=1e-5, max_iter=200, threads=threads, seed=seed).fit(log))
        for threads, seed in ((1, 0), (2, 0), (1, 0), (1, 1))
    )
    np.testing.assert_array_equal(one, again)
    np.testing.assert_allclose(two, one, atol=1e-3 * one.max())
    assert not np.array_equal(other, one)


@pytest.mark.parametrize("data", [np.ones((1, 5)), np.ones((5, 1)), np.ones((1, 1)), np.ones((12, 9)), np.eye(7)])
def test_the_smallest_and_the_fullest_matrices(data):
    model = WRMF().fit(data)
    assert 0 < U(model).max() < 1.5
    np.testing.assert_allclose(model.fold_in(data).score(), U(model), atol=1e-4)


@pytest.mark.parametrize("params", [{"confidence": 1e-6}, {"confidence": 1e8}, {"reg": 1e-10}, {"reg": 1e15}])
def test_extremes_stay_finite(params, log):
    model = WRMF(rank=10, **params).fit(log)
    assert np.isfinite(U(model)).all()
    assert (np.abs(U(model)).max() < 1e-6) == (params == {"reg": 1e15})


BAD = {
    "rank": [0, -1, 2.5, True, "3", 61],
    "confidence": [0, -1, np.nan, np.inf, "a", None],
    "reg": [0, -1, np.nan, np.inf, "best", None],
    "reg_exponent": [-0.1, 2.1, np.nan, "a"],
    "tol": [-1, 2, np.nan],
    "max_iter": [0, -1, 2.5, True],
    "threads": [-1, 1.5],
    "seed": [-1, 1.5],
}


class TestBadParameters:
    @pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in BAD.items() for v in values])
    def test_are_refused_by_name_and_the_model_stays(self, name, value, log, model):
        before, params = U(model), model.get_params()
        try:
            with pytest.raises(ParameterError, match=name):
                model.set_params(**{name: value}).fit(log)
        finally:
            model.set_params(**params)
        np.testing.assert_array_equal(U(model), before)

    def test_weights_that_are_not_there(self, log):
        with pytest.raises(ParameterError, match='event_weights="linear" needs events with weights'):
            WRMF(event_weights="linear").fit(log)

    @pytest.mark.parametrize("weights", ["no", 1, None])
    def test_weights_are_ignored_or_linear(self, log, weights):
        with pytest.raises(ParameterError, match=f"event_weights={weights!r} must be one of auto, ignore, linear"):
            WRMF(event_weights=weights).fit(log)

    def test_weights_beyond_single_precision(self, log):
        heavy = {"user": [1, 1, 2], "item": [1, 2, 2], "weight": [1.0, 1.0, 1e30]}
        with pytest.raises(ParameterError, match=r"confidence=1e\+09 times the largest weight, 1e\+30, is beyond"):
            WRMF(event_weights="linear", confidence=1e9).fit(heavy)

    def test_an_empty_log(self, log):
        with pytest.raises(ParameterError, match="no events"):
            WRMF().fit(log.select(np.zeros(len(log), bool)))


def test_an_interrupted_fit_leaves_the_model_as_it_was(log, clicks):
    def interrupt(step):
        raise KeyboardInterrupt

    model = WRMF(rank=5)
    with pytest.raises(KeyboardInterrupt):
        model.fit(log, callback=interrupt)
    assert not model.is_fitted
    before = U(model.fit(log))
    with pytest.raises(KeyboardInterrupt):
        model.fit(clicks[:20], callback=interrupt)
    np.testing.assert_array_equal(U(model), before)


def test_weights_count_for_new_people_and_in_explanations(heavy, tmp_path):
    log, _ = heavy
    model = WRMF(rank=10, reg=3.0, event_weights="linear").fit(log)
    folded = model.fold_in(log).score()
    own = model.score(model.users_.ids)
    np.testing.assert_allclose(folded, own, atol=1e-3 * np.abs(own).max())
    plain = model.fold_in([log.history(user).tolist() for user in log.users.ids]).score()
    assert np.abs(plain - own).max() > 0.05 * np.abs(own).max()
    model.save(tmp_path / "m.csrr")
    for fitted in (model, csrr.load(tmp_path / "m.csrr")):
        item = fitted.recommend(3, k=1).items[0, 0]
        seen = fitted.seen_[[3]]
        seen.data = log.to_csr(weighted=True)[[3]].data
        problem = fitted._build(seen, fitted._confidence, fitted._penalty.reg)
        Q = fitted.item_factors_.astype(float)
        system = (Q.T * (1 + fitted.confidence * log.to_csr(weighted=True)[[3]].toarray()[0])) @ Q
        system += fitted._penalty.list_strengths(problem)[0] * np.eye(10)
        exact = problem.weight * (Q[problem.pattern.indices] @ np.linalg.solve(system, Q[item]))
        amounts = dict(zip(problem.pattern.indices.tolist(), exact, strict=True))
        told = fitted.explain(3, item)
        for where, amount in zip(told.items.tolist(), told.amounts, strict=True):
            assert amount == pytest.approx(amounts[where], abs=1e-3)
