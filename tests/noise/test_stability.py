import numpy as np
import pytest

import csrr
from csrr.models.csrr_base import refit
from csrr.noise.scores import score_noise
from csrr.noise.suspects import _list_changes

BY_RULE = {"reg_low_rank": "noise", "neighbors": 0}


@pytest.fixture(scope="module")
def log():
    return csrr.synthetic(200, 120, rank=4, events_per_user=20, noise=0.2, seed=2).log


@pytest.fixture(scope="module")
def model(log):
    return csrr.CSRR(**BY_RULE, threads=1).fit(log)


@pytest.fixture(scope="module")
def found(model):
    return model.stability()


def test_it_says_how_much_survives_each_change(found):
    assert isinstance(found, csrr.Stability)
    assert found["change"].tolist() == [
        "another seed",
        "reg_low_rank x 0.9",
        "reg_low_rank x 1.1",
        "reg_sparse -0.05",
        "reg_sparse +0.05",
        "nine tenths of the clicks",
    ]
    for name in ("v_kept", "v_correlation", "suspects_kept"):
        assert (found[name] > 0).all()
        assert (found[name] <= 1).all()
    assert (found["v_correlation"] < 0.9999).any()
    assert "that stays" in str(found)
    assert len(str(found).splitlines()) == 8


def test_a_row_is_what_two_fits_have_in_common(log, model, found):
    other = csrr.CSRR(neighbors=0, l1=0.9 * model.l1_, threads=1).fit(log)
    before, after = model.specific_ != 0, other.specific_ != 0
    assert found["v_kept"][1] == pytest.approx(before.multiply(after).sum() / before.sum())
    left, right = model.specific_.toarray(), other.specific_.toarray()
    clicked = log.to_csr().toarray() > 0
    assert found["v_correlation"][1] == pytest.approx(np.corrcoef(left[clicked], right[clicked])[0, 1], rel=1e-4)
    scorer = model.noise_model()
    suspect = score_noise(scorer.leave_out()).scores > 0.5
    again = csrr.CSRR(neighbors=0, reg_sparse=0.5, l1=0.9 * scorer.l1_, threads=1).fit(log)
    again = score_noise(again.leave_out()).scores > 0.5
    assert found["suspects_kept"][1] == pytest.approx((again & suspect).sum() / suspect.sum())


def test_fewer_clicks_are_compared_where_both_fits_have_them(log, model, found):
    change = list(_list_changes(model))[-1]
    kept = log.select(change.kept)
    other = csrr.CSRR(**BY_RULE, threads=1).fit(kept)
    both = model.specific_.multiply(other.seen_)
    assert found["v_kept"][-1] == pytest.approx((both != 0).multiply(other.specific_ != 0).sum() / both.count_nonzero())
    suspect = model.suspects().above(0.5)[change.kept]
    again = score_noise(csrr.CSRR(**BY_RULE, reg_sparse=0.5, threads=1).fit(kept).leave_out()).scores > 0.5
    assert found["suspects_kept"][-1] == pytest.approx(again[suspect].mean())


def test_the_seed_matters_least(found):
    assert found["v_correlation"][0] == max(found["v_correlation"])


def test_changes_are_what_they_are_called(log, model):
    changes = list(_list_changes(model))
    seed, weaker, stronger, less, more, fewer = (refit(model, each.kept, each.params) for each in changes)
    assert seed.seed == model.seed + 1
    assert (weaker.l1_, stronger.l1_) == pytest.approx((0.9 * model.l1_, 1.1 * model.l1_))
    assert (less.reg_sparse, more.reg_sparse) == pytest.approx((0.8, 0.9))
    assert fewer.get_params() == model.get_params()
    assert all(each.kept.all() for each in changes[:-1])
    assert changes[-1].kept.sum() == pytest.approx(0.9 * len(log), rel=0.03)


def test_without_v_only_the_suspects_are_compared(log):
    found = csrr.CSRR(**BY_RULE, reg_sparse=1, threads=1).fit(log).stability()
    assert np.isnan(found["v_kept"]).all()
    assert np.isnan(found["v_correlation"]).all()
    assert (found["suspects_kept"] > 0.5).all()


def test_other_models(log):
    assert len(csrr.CSRRe(**BY_RULE, threads=1).fit(log).stability()) == 6
    with pytest.raises(csrr.ParameterError, match="BiasMC has no V"):
        csrr.BiasMC(threads=1).fit(log).stability()
    with pytest.raises(csrr.NotFittedError):
        csrr.CSRR().stability()
