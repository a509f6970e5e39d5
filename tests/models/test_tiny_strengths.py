"""Strengths so small, and weights so large, that rounding is all there is: bounds hold, and nothing breaks."""

import numpy as np
import pytest

import csrr
from csrr.numerics.certificate import compute_gap
from csrr.numerics.problem import LowRank
from tests.numerics.test_problem import make
from tests.reference import dense


def draw_pattern(seed):
    r = np.random.default_rng(seed)
    X = (r.random((r.integers(2, 20), r.integers(2, 20))) < 0.4).astype(float)
    X[0, 0] = 1
    return X


def find_optimum(model, X):
    """The optimum of the fitted problem, from above, in dense arrays of double precision."""
    scaling = {"user_scaling": model.user_scaling, "item_scaling": model.item_scaling}
    problem = dense.Dense(X, model.costs_.ratio, model.l1_, model.l2_, model.loss, **scaling)
    best = dense.solve(problem, tol=1e-13, max_iter=200_000)
    return best.objective


@pytest.mark.parametrize("seed", [27, 3, 8])
@pytest.mark.parametrize("strength", [1e-4, 1e-6])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_fit_claims_more_than_the_optimum(seed, strength, dtype):
    X = draw_pattern(seed)
    model = csrr.CSRR(reg_low_rank=strength, dtype=dtype).fit(X)
    found, best = model.certificate_, find_optimum(model, X)
    assert found.gap >= 0
    assert found.dual <= best * (1 + 1e-9)
    assert best <= found.primal * (1 + 1e-3)
    assert (found.gap <= model.tol) == (found.status == "converged")


@pytest.mark.parametrize("strength", [1e-300, 1e-30, 1e-12])
@pytest.mark.parametrize("pattern", [np.eye(4), np.ones((3, 5)), np.tril(np.ones((6, 6))), draw_pattern(27)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_smallest_strengths_can_be_fitted(strength, pattern, dtype):
    model = csrr.CSRR(reg_low_rank=strength, dtype=dtype).fit(pattern)
    assert np.isfinite(model.score(np.arange(len(pattern)))).all()
    assert 0 <= model.certificate_.gap <= 1
    assert "diverged" not in str(model.certificate_)


@pytest.mark.parametrize("rank", [5e-324, 1])
@pytest.mark.parametrize("sparse", [0, 1])
def test_strengths_at_their_ends(rank, sparse):
    model = csrr.CSRR(reg_low_rank=rank, reg_sparse=sparse).fit(draw_pattern(27))
    assert np.isfinite(model.score(np.arange(len(model.users_)))).all()


def test_a_bound_that_is_mostly_rounding_says_so():
    model = csrr.CSRR(reg_low_rank=1e-12).fit(draw_pattern(27))
    assert model.certificate_.status == "max_iter"
    exact = csrr.CSRR(reg_low_rank=1e-15, dtype="float64").fit(draw_pattern(27)).certificate_
    assert exact.rounding > 0.1
    assert "(most of it is rounding)" in str(exact)


def test_the_allowance_covers_what_single_precision_loses():
    problem, reference = make(draw_pattern(8), alpha=2.0, strength=1e-3, dtype=np.float32)
    best = dense.solve(reference)
    left, s, right = np.linalg.svd(best.U, full_matrices=False)
    low_rank = LowRank(left.astype(np.float32), s, right.T.astype(np.float32).copy())
    gap = compute_gap(problem, low_rank, np.random.default_rng(0), rtol=1.0)  # not worth double precision
    assert 0 < gap.rounding < 1e-2 * gap.primal
    assert gap.dual <= best.objective <= gap.primal + gap.rounding


def test_weights_whose_squares_leave_single_precision():
    X = draw_pattern(27)
    model = csrr.WRMF(confidence=1e10, reg="auto").fit(X)
    assert np.isfinite(model.score(np.arange(len(X)))).all()


def test_explaining_without_a_penalty():
    X = np.ones((3, 4))
    X[0, 3] = 0
    model = csrr.WRMF(rank=3, reg=1e-300).fit(X)
    assert np.isfinite(model.explain(0, 3).amounts).all()


def test_steps_too_long_are_refused():
    log = csrr.synthetic(60, 40, events_per_user=10).log
    with pytest.raises(csrr.ParameterError, match="learning_rate=5 is too long a step"):
        csrr.BPRMF(learning_rate=5, reg=1.0, reg_negative=1.0, epochs=200).fit(log)


@pytest.mark.parametrize("kind", [csrr.CSRR, csrr.CSRRe, csrr.MCShift])
def test_a_model_of_the_smallest_strength_is_saved(kind, tmp_path):
    model = kind(reg_low_rank=5e-324).fit(draw_pattern(27))
    model.save(tmp_path / "m")
    assert csrr.load(tmp_path / "m").certificate_ == model.certificate_
    assert model.certificate_.gradient_ratio is None
    assert not model.certificate_.is_global


@pytest.mark.parametrize("kind", [csrr.CSRR, csrr.CSRRe])
@pytest.mark.parametrize("l2", [1e-44, 1e-42, 1e-38, 1e-36])
def test_no_gap_below_zero_however_small_the_penalty_of_v(kind, l2):
    params = {"neighbors": 0, "user_scaling": 0.5, "max_iter": 20, "l2": l2}
    for seed in range(6):
        for l1 in (1e-3, 1e-10):
            with pytest.raises(csrr.ParameterError, match=r'beyond float32; .* or dtype="float64"'):
                kind(l1=l1, **params).fit(draw_pattern(seed))
            assert kind(l1=l1, dtype="float64", **params).fit(draw_pattern(seed)).certificate_.gap >= 0


@pytest.mark.parametrize("order", ["ignore", "auto"])
def test_what_is_left_open_is_chosen_beside_the_smallest_strength(order):
    log = csrr.synthetic(200, 60, events_per_user=10, order=0.5, seed=1).log
    model = csrr.CSRR(l1=5e-324, order=order, max_iter=5).fit(log)
    assert model.l1_ == 5e-324
    assert np.isfinite(model.score_rows(np.arange(200))).all()
