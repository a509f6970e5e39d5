"""MC-Shift and BiasMC: the minimisers of their own losses, found by a core that was written for others."""

import numpy as np
import pytest

import csrr
from csrr import BiasMC, CSRRe, MCShift, ParameterError
from tests.reference import positive_unlabelled as reference

KINDS = pytest.mark.parametrize("kind", [MCShift, BiasMC])
RHOS = pytest.mark.parametrize("rho", [0.0, 0.3, 0.8])
EXACT = {"dtype": "float64", "tol": 1e-8, "max_iter": 500}


def U(model):
    return model.score(np.arange(len(model.users_)))


@RHOS
def test_mcshift_minimises_the_shifted_loss(rho, clicks):
    model = MCShift(rho, l1=5.0, **EXACT).fit(clicks)
    X = reference.minimise(reference.shifted_slope, clicks, rho, 5.0, curvature=2.0)
    np.testing.assert_allclose(U(model), X, atol=1e-5 * X.max())
    # The core's objective is the same up to a constant: that of completing the square.
    constant = clicks.sum() / 2 * (1 / (1 - rho) ** 2 - 1 / (1 - rho))
    value = reference.objective(reference.shifted_loss, X, clicks, rho, 5.0)
    assert model.certificate_.primal == pytest.approx(value + constant, rel=1e-7)
    assert model.certificate_.gap == pytest.approx(0, abs=1e-8)
    assert model.certificate_.iterations == 0
    assert 0 < model.rank_ < 60


@RHOS
def test_biasmc_minimises_the_biased_loss(rho, clicks):
    model = BiasMC(rho, l1=6.0, **EXACT).fit(clicks)
    X = reference.minimise(reference.biased_slope, clicks, rho, 6.0, curvature=(1 + rho) / (1 - rho))
    np.testing.assert_allclose(U(model), X, atol=1e-3 * X.max())
    value = reference.objective(reference.biased_loss, X, clicks, rho, 6.0)
    assert model.certificate_.primal == pytest.approx(value, rel=1e-7)
    assert model.certificate_.gap == pytest.approx(0, abs=1e-8)


@pytest.mark.parametrize(
    ("loss", "slope"),
    [(reference.shifted_loss, reference.shifted_slope), (reference.biased_loss, reference.biased_slope)],
)
def test_the_reference_slopes_are_those_of_the_losses(loss, slope, clicks):
    rng = np.random.default_rng(0)
    X, move = rng.standard_normal(clicks.shape), rng.standard_normal(clicks.shape)
    numeric = (loss(X + 1e-6 * move, clicks, 0.3) - loss(X - 1e-6 * move, clicks, 0.3)) / 2e-6
    assert numeric == pytest.approx((slope(X, clicks, 0.3) * move).sum(), rel=1e-6)


def test_the_shifted_loss_is_unbiased(clicks):
    # Of a world of ones and zeros, hide a share rho of the ones: the mean loss is the loss of the whole.
    rng, rho = np.random.default_rng(0), 0.4
    X = rng.standard_normal(clicks.shape)
    hidden = [clicks * (rng.random(clicks.shape) >= rho) for _ in range(2000)]
    mean = np.mean([reference.shifted_loss(X, A, rho) for A in hidden])
    assert mean == pytest.approx(((X - clicks) ** 2).sum() / 2, rel=0.01)


class TestWhatRhoDoes:
    @pytest.mark.parametrize("reg", [0.2, "auto"])
    def test_with_relative_strengths_it_scales_the_scores_of_mcshift_and_no_more(self, reg, log):
        low, high = (MCShift(rho, reg_low_rank=reg, **EXACT).fit(log) for rho in (0.2, 0.7))
        np.testing.assert_allclose(U(low) * 0.8, U(high) * 0.3, atol=1e-5)
        assert low.rank_ == high.rank_
        np.testing.assert_array_equal(low.recommend(k=5).items, high.recommend(k=5).items)

    def test_only_l1_times_what_is_left_counts(self, log):
        one, two = MCShift(0.5, l1=6.0, **EXACT).fit(log), MCShift(0.75, l1=12.0, **EXACT).fit(log)
        np.testing.assert_allclose(U(one) * 0.5, U(two) * 0.25, atol=1e-5)
        other = MCShift(0.75, l1=6.0, **EXACT).fit(log)
        assert np.abs(U(one) * 0.5 - U(other) * 0.25).max() > 0.01

    def test_it_is_a_weight_in_biasmc(self, log):
        low, high = (BiasMC(rho, reg_low_rank=0.2).fit(log) for rho in (0.2, 0.7))
        assert np.corrcoef(U(low).ravel(), U(high).ravel())[0, 1] < 0.999

    def test_nothing_hidden_makes_them_one(self, log):
        np.testing.assert_allclose(U(MCShift(0.0, l1=5.0).fit(log)), U(BiasMC(0.0, l1=5.0).fit(log)), atol=1e-6)


@KINDS
class TestAnswers:
    def test_a_training_history_folded_in_is_its_owner(self, kind, log):
        model = kind(tol=1e-4).fit(log)
        np.testing.assert_allclose(model.fold_in(log).score(), U(model), atol=1e-3 * U(model).max())
        assert np.abs(model.fold_in(log).score()[1:] - U(model)[:-1]).max() > 0.1

    def test_amounts_of_an_explanation_sum_to_the_score(self, kind, log):
        model = kind().fit(log)
        for user in (0, 7, 33):
            why = model.explain(user, 40)
            assert sorted(why.items) == sorted(log.history(user))
            assert why.amounts.sum() == pytest.approx(float(model.score(user, 40)[0]), abs=1e-5)

    def test_no_choices_of_ones_own_without_v(self, kind, log):
        model = kind().fit(log)
        assert model.specific_.nnz == 0
        assert model.l2_ is None
        assert len(model.specific_preferences(7)) == 0

    def test_saved_and_loaded(self, kind, log, tmp_path):
        model = kind(0.3).fit(log)
        model.save(tmp_path / "m.csrr")
        again = csrr.load(tmp_path / "m.csrr")
        assert type(again) is kind
        assert again.certificate_ == model.certificate_
        np.testing.assert_array_equal(again.fold_in(log).score(), model.fold_in(log).score())

    def test_a_start_saves_steps(self, kind, log):
        model = kind(reg_low_rank=0.2, **EXACT).fit(log)
        again = kind(reg_low_rank=0.2, **EXACT).fit(log, start=model)
        # One step may go into directions that a model does not keep.
        assert again.certificate_.iterations <= max(1, model.certificate_.iterations - 1)
        assert again.certificate_.primal == pytest.approx(model.certificate_.primal, rel=1e-7)
        assert kind(reg_low_rank=0.2).fit(log, start=CSRRe().fit(log)).certificate_.gap <= 0.01

    def test_the_rank_may_be_capped(self, kind, log):
        model = kind(reg_low_rank=0.1, max_rank=3).fit(log)
        assert model.rank_ == 3
        assert model.certificate_.rank_capped

    def test_a_strength_that_leaves_nothing(self, kind, log):
        assert not U(kind(reg_low_rank=1.0).fit(log)).any()
        assert U(kind(reg_low_rank=0.95).fit(log)).any()

    def test_threads_move_rounding_only(self, kind, log):
        one, two, again = (U(kind(tol=1e-4, threads=threads).fit(log)) for threads in (1, 2, 1))
        np.testing.assert_array_equal(one, again)
        np.testing.assert_allclose(two, one, atol=1e-2 * one.max())

    @pytest.mark.parametrize("data", [np.ones((1, 5)), np.ones((5, 1)), np.ones((1, 1)), np.ones((12, 9)), np.eye(7)])
    def test_the_smallest_and_the_fullest_matrices(self, kind, data):
        model = kind().fit(data)
        assert model.certificate_.status == "converged"
        assert 0 < U(model).max() < 2


BAD = {
    "rho": [1.0, -0.1, np.nan, np.inf, "a", None, True],
    "reg_low_rank": [0, -0.1, np.nan, "best"],
    "l1": [0, -1, np.nan],
    "max_rank": [0, -1, 2.5, True],
    "tol": [0, -1, 2, "tight"],
    "max_iter": [0, 2.5],
    "time_limit": [0, -1],
    "dtype": ["float16"],
    "threads": [-1],
    "seed": [-1],
}


@KINDS
@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in BAD.items() for v in values])
def test_bad_parameters_are_refused_by_name_and_the_model_stays(kind, name, value, log):
    model = kind(max_rank=3, tol=0.1).fit(log)
    before = U(model)
    with pytest.raises(ParameterError, match=name):
        model.set_params(**{name: value}).fit(log)
    np.testing.assert_array_equal(U(model), before)
