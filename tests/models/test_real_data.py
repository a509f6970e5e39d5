"""On MovieLens-100K: the certificate, the dense reference, and what the defaults are worth."""

import os

import numpy as np
import pytest

import csrr
from tests.reference import dense

pytestmark = pytest.mark.skipif("CSRR_DATA_DIR" not in os.environ, reason="CSRR_DATA_DIR is not set")


@pytest.fixture(scope="module")
def parts():
    return csrr.split(csrr.read("ml-100k.zip", min_rating=3), ratio=0.8, seed=0)


def test_a_gap_of_1e_5_within_40_iterations_and_the_dense_reference_agrees(parts):
    train, _ = parts
    model = csrr.CSRR(tol=1e-5, cost_ratio=2.0).fit(train)
    assert model.certificate_.status == "converged"
    assert 0 <= model.certificate_.gap <= 1e-5
    assert model.certificate_.iterations <= 40
    clicks = train.to_csr().toarray()
    # As the problem has it, not in units of a click. The reference needs no solver of its own to say how far off it is.
    unit = clicks.sum(1, keepdims=True) ** -0.3 * np.maximum(clicks.sum(0, keepdims=True), 1) ** -0.3
    U = model.user_factors_ @ model.item_factors_.T * unit
    problem = dense.Dense(clicks, 2.0, model.l1_, model.l2_, "I", 0.3, 0.3)
    objective = dense.objective_eliminated(U, problem)
    assert model.certificate_.primal == pytest.approx(objective, rel=1e-5)
    assert dense.gap(U, problem) <= 1e-5 * objective


def test_no_lower_bound_is_above_the_objective(parts):
    train, _ = parts
    for tol in (1e-3, 1e-5):
        certificate = csrr.CSRR(reg_low_rank="noise", neighbors=0, tol=tol).fit(train).certificate_
        assert 0 <= certificate.gap <= tol
        assert certificate.gradient_ratio >= 1


def test_the_defaults_beat_popularity_by_half(parts):
    train, test = parts
    ours = csrr.evaluate(csrr.CSRR().fit(train), train, test, at=10)["ndcg@10"]
    floor = csrr.evaluate(csrr.PopRank().fit(train), train, test, at=10)["ndcg@10"]
    assert ours > 1.5 * floor
    assert ours > 0.4
