"""CSRR-e: CSRR's solution in factors where the rank allows, the paper's bounds where asked for."""

import numpy as np
import pytest

import csrr
from csrr import CSRR, WRMF, CSRRe, NotFittedError, ParameterError
from csrr.models import scorer
from csrr.models.estimator import resolve_rank
from tests.reference import dense

EXACT = {"dtype": "float64", "reg_low_rank": 0.25, "reg_sparse": 0.6}
PLAIN = {"user_scaling": 0.0, "item_scaling": 0.0}
FORMS = pytest.mark.parametrize("factors", ["free", "nonnegative"])


@pytest.fixture(scope="module")
def forms(log):
    """Both forms, fitted closely."""
    return {
        "free": CSRRe(reg_low_rank=0.25, reg_sparse=0.6, tol=1e-5).fit(log),
        "nonnegative": CSRRe(
            factors="nonnegative", rank=10, reg_low_rank=0.25, reg_sparse=0.6, tol=1e-6, max_iter=5000
        ).fit(log),
    }


@pytest.fixture(params=["free", "nonnegative"])
def model(request, forms):
    return forms[request.param]


@pytest.fixture(scope="module")
def convex(log):
    return CSRR(**EXACT, tol=1e-8, max_iter=500).fit(log)


def U(model):
    return model.score(np.arange(len(model.users_)))


class TestFree:
    @pytest.mark.parametrize("loss", ["I", "II"])
    def test_it_is_csrr(self, loss, log):
        convex = CSRR(loss, **EXACT, tol=1e-7, max_iter=500).fit(log)
        factored = CSRRe(loss, **EXACT, tol=1e-8).fit(log)
        assert factored.l1_ == convex.l1_
        assert factored.l2_ == pytest.approx(convex.l2_)
        assert factored.certificate_.is_global
        assert factored.certificate_.primal == pytest.approx(convex.certificate_.primal, rel=1e-5)
        np.testing.assert_allclose(U(factored), U(convex), atol=0.01)
        np.testing.assert_allclose(factored.specific_.toarray(), convex.specific_.toarray(), atol=0.02)
        assert factored.specific_.nnz > 10

    def test_against_the_specification(self, clicks):
        a, b = 0.2, 0.4
        model = CSRRe("I", 3.0, **EXACT, user_scaling=a, item_scaling=b, tol=1e-8).fit(clicks)
        exact = dense.solve(dense.Dense(clicks, 3.0, model.l1_, model.l2_, "I", a, b), tol=1e-8)
        unit = clicks.sum(1, keepdims=True) ** -a * np.maximum(clicks.sum(0, keepdims=True), 1) ** -b
        np.testing.assert_allclose(U(model), exact.U / unit, atol=0.02 * (exact.U / unit).max())
        assert model.certificate_.primal == pytest.approx(exact.objective, rel=1e-6)

    def test_a_rank_too_small_is_said(self, log):
        model = CSRRe(**EXACT, rank=2, tol=1e-6).fit(log)
        assert model.user_factors_.shape == (80, 2)
        assert model.item_factors_.shape == (60, 2)
        assert model.rank_ == model.certificate_.rank == 2
        assert model.certificate_.rank_capped
        assert not model.certificate_.is_global
        assert model.certificate_.gap > 0.05

    def test_the_default_rank_is_what_the_matrix_has_up_to_128(self, log):
        assert CSRRe().fit(log).item_factors_.shape == (60, 60)
        assert resolve_rank(None, 128, (500, 300)) == 128
        assert resolve_rank(7, 128, (500, 300)) == 7

    def test_costs_may_be_given_in_each_way(self, log):
        ways = (
            {"cost_ratio": 4.0},
            {"positive_cost": 0.8},
            {"miss_cost": 2.0, "false_alarm_cost": 0.1, "cost_ratio": 4.0},
        )
        scores = [U(CSRRe(**way, seed=1).fit(log)) for way in ways]
        np.testing.assert_allclose(scores[1], scores[0], atol=1e-4)
        np.testing.assert_allclose(scores[2], scores[0], atol=1e-4)
        assert np.abs(U(CSRRe(seed=1).fit(log)) - scores[0]).max() > 1e-2


class TestNonnegative:
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize("step", ["auto", 0.05])
    @pytest.mark.parametrize("rank", [3, 10, 30])
    def test_scores_between_nothing_and_one_without_tolerance(self, dtype, step, rank):
        A = (np.random.default_rng(0).random((40, 30)) < 0.7).astype(float)
        model = CSRRe(
            "II", 5.0, factors="nonnegative", rank=rank, step=step, dtype=dtype, **PLAIN, reg_low_rank=0.01, tol=1e-4
        ).fit(A)
        assert min(model.user_factors_.min(), model.item_factors_.min()) >= 0
        for scores in (model.user_factors_ @ model.item_factors_.T, U(model), model.fold_in(A).score()):
            assert scores.min() >= 0
            assert 0.999 < scores.max() <= 1

    def test_a_given_step_and_a_safe_one_end_alike(self, log):
        fixed = {"factors": "nonnegative", "rank": 5, "reg_low_rank": 0.25, "dtype": "float64", "max_iter": 20_000}
        safe = CSRRe(**fixed, tol=1e-6).fit(log).certificate_
        given = CSRRe(**fixed, tol=1e-6, step=0.1).fit(log).certificate_
        assert given.status == safe.status == "converged"
        assert given.primal == pytest.approx(safe.primal, rel=0.01)

    def test_its_gap_is_to_the_convex_problem(self, log, convex):
        model = CSRRe(**EXACT, factors="nonnegative", tol=1e-5, max_iter=5000).fit(log)
        assert model.certificate_.primal > convex.certificate_.primal
        assert model.certificate_.dual <= convex.certificate_.primal

    def test_max_iter_counts_gradient_steps(self, log):
        model = CSRRe(factors="nonnegative", rank=5, tol=1e-12, max_iter=3).fit(log)
        assert model.certificate_.status == "max_iter"


class TestWarmStarts:
    def test_from_the_convex_solution(self, log, convex):
        params = {**EXACT, "tol": 1e-7}
        cold, warm = CSRRe(**params).fit(log), CSRRe(**params).fit(log, start=convex)
        assert warm.certificate_.iterations < cold.certificate_.iterations
        assert warm.certificate_.primal == pytest.approx(convex.certificate_.primal, rel=1e-5)

    def test_to_the_convex_solution(self, log, convex):
        factored = CSRRe(**EXACT, tol=1e-9, max_iter=3000).fit(log)
        warm = CSRR(**EXACT, tol=1e-8, max_iter=500).fit(log, start=factored)
        assert warm.certificate_.iterations < convex.certificate_.iterations
        assert warm.certificate_.primal == pytest.approx(convex.certificate_.primal, rel=1e-7)

    def test_nonnegative_factors_are_kept(self, log, forms):
        first = forms["nonnegative"]
        params = {**first.get_params(), "max_iter": 1, "step": 1e-12}
        again = CSRRe(**params).fit(log, start=first)
        np.testing.assert_allclose(again.user_factors_, first.user_factors_, atol=1e-5)
        np.testing.assert_allclose(again.item_factors_, first.item_factors_, atol=1e-5)

    def test_nonnegative_from_free_and_back(self, log, forms):
        one = CSRRe(factors="nonnegative", rank=10, reg_low_rank=0.25, reg_sparse=0.6).fit(log, start=forms["free"])
        assert min(one.user_factors_.min(), one.item_factors_.min()) >= 0
        two = CSRRe(reg_low_rank=0.25, reg_sparse=0.6).fit(log, start=forms["nonnegative"])
        assert two.certificate_.primal == pytest.approx(forms["free"].certificate_.primal, rel=0.01)

    @FORMS
    def test_a_model_of_nothing_is_no_place_to_begin(self, factors, log):
        cold = CSRRe(reg_low_rank=0.25, factors=factors).fit(log)
        for start in (CSRRe(reg_low_rank=1.5, factors=factors), CSRRe(l1=1e10), CSRR(reg_low_rank=1.5)):
            warm = CSRRe(reg_low_rank=0.25, factors=factors).fit(log, start=start.fit(log))
            assert warm.certificate_.primal == pytest.approx(cold.certificate_.primal, rel=0.01)

    @FORMS
    def test_what_cannot_be_begun_with(self, factors, log, forms, clicks):
        with pytest.raises(ParameterError, match="start was fitted to 80 users x 60 items, the data has 20 x 60"):
            CSRRe(factors=factors, rank=5).fit(clicks[:20], start=forms["free"])
        with pytest.raises(ParameterError, match="start=WRMF"):
            CSRRe(factors=factors).fit(log, start=WRMF(rank=3).fit(log))
        with pytest.raises(NotFittedError):
            CSRRe(factors=factors).fit(log, start=CSRR())


class TestAnswers:
    def test_a_training_history_folded_in_is_its_owner(self, model, log):
        folded = model.fold_in(log)
        scores = U(model)
        np.testing.assert_allclose(folded.score(), scores, atol=2e-3 * scores.max())
        np.testing.assert_allclose(folded.specific.toarray(), model.specific_.toarray(), atol=5e-3)
        assert np.abs(folded.score()[1:] - scores[:-1]).max() > 0.1 * scores.max()

    def test_new_people(self, model, log):
        history = log.history(7)
        recs = model.recommend_for(history, k=6)
        np.testing.assert_array_equal(recs.items, model.fold_in([history]).recommend(6).items)
        assert not set(recs.items[0]) & set(history)

    def test_amounts_of_an_explanation_sum_to_the_score(self, model, log):
        for user in (0, 7, 33):
            for item in (2, 40):
                why = model.explain(user, item)
                assert sorted(why.items) == sorted(log.history(user))
                assert why.score == pytest.approx(float(model.score(user, item)[0]), abs=1e-6)
                assert why.amounts.sum() == pytest.approx(why.score, abs=1e-5)

    def test_what_an_explanation_spreads_is_little(self, forms, log, monkeypatch):
        seen = []
        plain = scorer.spread_amounts

        def spy(amounts, score, neighbors):
            assert neighbors is None
            seen.append((amounts.sum(), score))
            return plain(amounts, score, neighbors)

        monkeypatch.setattr(scorer, "spread_amounts", spy)
        for model in forms.values():
            for user in range(0, 80, 3):
                model.explain(user, 2)
                model.explain(user, 49)
        found, scores = np.array(seen).T
        np.testing.assert_allclose(found, scores, atol=1e-3 * np.abs(scores).max())

    def test_own_choices(self, model):
        row = model.specific_[[7]].toarray()[0]
        mine = model.specific_preferences(7)
        assert sorted(mine.items) == np.flatnonzero(row).tolist()
        np.testing.assert_array_equal(mine.amounts, np.sort(row[row > 0])[::-1])
        assert len(mine) > 0

    def test_saved_and_loaded(self, model, log, tmp_path):
        model.save(tmp_path / "m.csrr")
        again = csrr.load(tmp_path / "m.csrr")
        assert again.get_params() == model.get_params()
        assert again.certificate_ == model.certificate_
        assert repr(again.history_) == repr(model.history_)
        np.testing.assert_array_equal(U(again), U(model))
        np.testing.assert_array_equal(again.specific_.toarray(), model.specific_.toarray())
        np.testing.assert_array_equal(again.fold_in(log).score(), model.fold_in(log).score())
        assert again.explain(3, 5).rows() == model.explain(3, 5).rows()

    def test_later_parameters_do_not_touch_what_was_fitted(self, log):
        model = CSRRe(factors="nonnegative", rank=5).fit(log)
        before = model.fold_in([[1, 2, 3]]).score()
        model.set_params(factors="free", user_scaling=1.0, cost_ratio=9.0, loss="II")
        np.testing.assert_array_equal(model.fold_in([[1, 2, 3]]).score(), before)
        assert before.min() >= 0


@FORMS
def test_threads_move_rounding_only_and_the_seed_is_all_the_chance_there_is(factors, log):
    one, two, again, other = (
        U(CSRRe(factors=factors, rank=10, tol=1e-5, threads=threads, seed=seed).fit(log))
        for threads, seed in ((1, 0), (2, 0), (1, 0), (1, 1))
    )
    np.testing.assert_array_equal(one, again)
    np.testing.assert_allclose(two, one, atol=1e-3 * one.max())
    assert not np.array_equal(other, one)


@FORMS
@pytest.mark.parametrize("data", [np.ones((1, 5)), np.ones((5, 1)), np.ones((1, 1)), np.ones((12, 9)), np.eye(7)])
def test_the_smallest_and_the_fullest_matrices(factors, data):
    model = CSRRe(factors=factors).fit(data)
    assert model.certificate_.status == "converged"
    assert 0 < U(model).max() < 2
    assert np.isfinite(model.fold_in(data).score()).all()


@FORMS
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("params", [{"cost_ratio": 1e-4}, {"cost_ratio": 1e4}, {"l1": 1e-10}, {"l1": 1e15}])
def test_extremes_stay_finite(factors, dtype, params, log):
    model = CSRRe(factors=factors, dtype=dtype, **params).fit(log)
    assert np.isfinite(U(model)).all()
    assert model.certificate_.dual <= model.certificate_.primal * (1 + 1e-4)
    if params == {"l1": 1e15}:
        assert np.abs(U(model)).max() < 1e-20
        assert model.certificate_.gap < 1e-3


def test_is_global_is_not_claimed_of_a_point_far_from_rest(log):
    start = CSRRe(reg_low_rank=0.3, factors="nonnegative").fit(log)
    # Steps so short that nothing moves pass for rest.
    model = CSRRe(reg_low_rank=0.45, factors="nonnegative", step=1e-9).fit(log, start=start)
    assert model.certificate_.gap > 0.02
    assert not model.certificate_.is_global


BAD = {
    "rank": [0, -1, 2.5, True, "3", 61],
    "factors": ["signed", None, 1],
    "step": [0, -1, "fast", None, np.nan, np.inf, 1e300],
    "loss": ["III"],
    "cost_ratio": [0, -1, np.nan],
    "reg_low_rank": [0, -0.1, np.nan, "best"],
    "reg_sparse": [-0.1, np.nan],
    "l1": [0, -1],
    "tol": [0, -1, 2],
    "max_iter": [0, -1, 2.5, True],
    "time_limit": [0, -1],
    "dtype": ["float16"],
    "threads": [-1],
    "seed": [-1],
}


class TestBadParameters:
    @pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in BAD.items() for v in values])
    def test_are_refused_by_name_and_the_model_stays(self, name, value, log, forms):
        model = forms["nonnegative"]
        before, params = U(model), model.get_params()
        try:
            with pytest.raises(ParameterError, match=name):
                model.set_params(**{name: value}).fit(log)
        finally:
            model.set_params(**params)
        np.testing.assert_array_equal(U(model), before)

    def test_a_step_belongs_to_the_nonnegative_form(self, log):
        with pytest.raises(ParameterError, match='step goes with factors="nonnegative"'):
            CSRRe(step=0.1).fit(log)

    def test_a_rank_beyond_the_matrix_says_what_there_is(self, log):
        with pytest.raises(ParameterError, match="rank=61 is beyond the matrix, 80 users x 60 items: at most 60"):
            CSRRe(rank=61).fit(log)

    def test_an_empty_log(self, log):
        with pytest.raises(ParameterError, match="no events"):
            CSRRe().fit(log.select(np.zeros(len(log), bool)))


@FORMS
def test_an_interrupted_fit_leaves_the_model_as_it_was(factors, log, clicks):
    def interrupt(step):
        raise KeyboardInterrupt

    model = CSRRe(factors=factors, rank=5)
    with pytest.raises(KeyboardInterrupt):
        model.fit(log, callback=interrupt)
    assert not model.is_fitted
    before = U(model.fit(log))
    with pytest.raises(KeyboardInterrupt):
        model.fit(clicks[:20], callback=interrupt)
    np.testing.assert_array_equal(U(model), before)


@FORMS
def test_time_limits(factors, log):
    model = CSRRe(factors=factors, rank=5, tol=1e-12, max_iter=10**8, time_limit=1e-9).fit(log)
    assert model.certificate_.status == "timeout"
    assert np.isfinite(U(model)).all()


def test_the_single_step_on_v_goes_with_the_papers_form(log):
    how = {"factors": "nonnegative", "rank": 6, "reg_low_rank": 0.02, "reg_sparse": 0.3, "step": 0.02, **PLAIN}
    best, step = (CSRRe(**how, v_update=each, max_iter=60).fit(log) for each in ("best", "step"))
    assert step.specific_.nnz > 0
    assert np.abs(U(step) - U(best)).max() > 1e-4
    with pytest.raises(ParameterError, match="v_update"):
        CSRRe(v_update="step").fit(log)
