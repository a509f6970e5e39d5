"""Paths: each point is the fit of its own strength."""

from dataclasses import replace

import numpy as np
import pytest

from csrr.numerics.solver import Options, solve, solve_path
from tests.numerics.test_problem import clicks, make
from tests.numerics.test_solver import full
from tests.reference import dense

FRACTIONS = (1.01, 0.6, 0.35)


@pytest.mark.parametrize(
    "kind", [{"loss": "II", "alpha": 4.0}, {"loss": "I", "alpha": 1.0}, {"loss": "I", "alpha": 2.0}]
)
def test_each_point_is_its_own_fit(kind):
    problem, reference = make(clicks(), strength=1.0, scaling=0.2, **kind)
    l1s = [f * problem.l1 for f in FRACTIONS]
    options = Options(tol=1e-6, max_iter=100)
    seen = []
    fits = solve_path(problem, l1s, options, callback=seen.append)
    assert seen == fits
    for l1, fit in zip(l1s, fits, strict=True):
        alone = solve(problem.with_strength(l1), options)
        exact = dense.Dense(reference.A, reference.alpha, l1, None, reference.loss, 0.2, 0.2)
        U = full(fit.low_rank)
        np.testing.assert_allclose(U, full(alone.low_rank), atol=2e-3)
        assert fit.certificate.rank == fit.low_rank.rank == alone.low_rank.rank
        assert fit.certificate.primal == pytest.approx(dense.objective_eliminated(U, exact), rel=1e-6)
        by_hand = dense.gap(U, exact) / fit.certificate.primal
        assert by_hand - 1e-7 <= fit.certificate.gap <= 1e-6
        assert fit.certificate.status == "converged"
    assert fits[0].low_rank.rank == 0


def test_the_rank_cap_holds_along_the_path():
    problem, reference = make(clicks(), loss="II", alpha=2.0, strength=1.0)
    fits = solve_path(problem, [f * problem.l1 for f in (0.9, 0.2)], Options(tol=1e-5, rank_cap=2))
    assert [fit.low_rank.rank for fit in fits] == [1, 2]
    free, capped = (fit.certificate for fit in fits)
    assert not free.rank_capped
    assert free.span_dual is None
    assert capped.rank_capped
    exact = replace(reference, l1=0.2 * problem.l1)
    best = dense.solve(exact, tol=1e-9, within=fits[1].low_rank.right).objective
    assert capped.span_dual <= best * (1 + 1e-7) <= capped.primal * (1 + 2e-7)
    assert capped.span_excess < 1e-3 < capped.excess
