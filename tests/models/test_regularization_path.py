"""The regularisation path: its models are those that fits of their own would give."""

import numpy as np
import pytest

import csrr
from csrr import CSRR, ParameterError


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("params", [{"loss": "II", "reg_sparse": 1.0}, {"cost_ratio": 2.0, "reg_sparse": 0.7}])
def test_each_model_is_its_own_fit(log, params):
    params = params | {"tol": 1e-4}
    found = csrr.path(log, [0.2, 0.5, 1.05], **params)
    assert [p.reg_low_rank for p in found] == [1.05, 0.5, 0.2]
    assert found[0].rank == 0
    assert found[1].rank <= found[2].rank
    for place, point in enumerate(found):
        alone, model = CSRR(reg_low_rank=point.reg_low_rank, **params).fit(log), found.model(place)
        assert point.l1 == pytest.approx(alone.l1_, rel=1e-6) == pytest.approx(model.l1_, rel=1e-6)
        assert model.rank_ == point.rank == point.certificate.rank
        assert point.certificate.primal == pytest.approx(alone.certificate_.primal, rel=1e-4)
        scores, expected = (m.score(np.arange(80)) for m in (model, alone))
        np.testing.assert_allclose(scores, expected, atol=0.02 * max(expected.max(), 1e-3))
        assert model.get_params() == alone.get_params()


def test_default_strengths(log):
    found = csrr.path(log, n=4, weakest=0.2, loss="II", reg_sparse=1.0)
    assert len(found) == 4
    np.testing.assert_allclose([p.reg_low_rank for p in found], np.geomspace(1, 0.2, 4))
    assert "4 strengths from 1 (rank 0) to 0.2" in repr(found)
    assert [p.rank for p in found] == sorted(p.rank for p in found)


def test_the_callback_sees_every_fit(log):
    seen = []
    found = csrr.path(log, [0.9, 0.5], cost_ratio=2.0, callback=seen.append)
    assert [s.certificate for s in seen] == [p.certificate for p in found]


def test_a_model_of_a_path_can_be_saved(log, tmp_path):
    model = csrr.path(log, [0.9, 0.4], loss="II", reg_sparse=1.0).model(0)
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(csrr.load(tmp_path / "m").recommend(k=4).items, model.recommend(k=4).items)


@pytest.mark.parametrize("params", [{"reg_low_rank": 0.2}, {"l1": 2.0}, {"box": "paper"}])
def test_a_path_chooses_the_strength_itself(log, params):
    with pytest.raises(ParameterError, match="a path chooses the strength itself"):
        csrr.path(log, **params)


@pytest.mark.parametrize("strengths", [[], [0.5, 0.0], [-1.0], [np.nan], [np.inf]])
def test_bad_strengths(log, strengths):
    with pytest.raises(ParameterError, match="strengths must be numbers > 0"):
        csrr.path(log, strengths)


@pytest.mark.parametrize("params", [{"n": 1}, {"weakest": 0}, {"weakest": 1.5}])
def test_bad_grids(log, params):
    with pytest.raises(ParameterError, match=next(iter(params))):
        csrr.path(log, **params)


def test_bad_parameters_of_the_model(log):
    with pytest.raises(ParameterError, match="tol=-1"):
        csrr.path(log, tol=-1)
