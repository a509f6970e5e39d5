"""What a certificate says."""

import pytest

from csrr.numerics.certificate import Certificate


class TestIsGlobal:
    def certificate(self, **changes):
        fields = {"primal": 1.0, "dual": 0.999, "gap": 0.001, "rank": 3, "iterations": 5, "status": "converged"}
        return Certificate(**{**fields, "seconds": 0.1, "gradient_ratio": 1.001, **changes})

    def test_when_converged_with_no_direction_missing(self):
        assert self.certificate().is_global
        assert not self.certificate(status="max_iter").is_global
        assert not self.certificate(gradient_ratio=1.02).is_global
        assert not self.certificate(gradient_ratio=None).is_global

    def test_not_where_the_gap_says_that_the_point_is_not_stationary(self):
        # Larger than the optimum, U has a gradient smaller than l1.
        assert not self.certificate(gradient_ratio=0.6, dual=0.8, gap=0.2).is_global


@pytest.mark.parametrize(
    ("excess", "said"),
    [
        (0.0, "0 %"),
        (0.005741, "at most 0.58 %"),
        (0.0921, "at most 9.3 %"),
        (0.53301, "at most 54 %"),
        (4.201, "at most 430 %"),
    ],
)
def test_what_is_printed_is_a_bound(excess, said):
    told = Certificate(1 + excess, 1.0, excess / (1 + excess), 3, 5, "converged", 0.1)
    assert told.excess == pytest.approx(excess)
    assert f", {said} above the optimum of the low-rank part;" in str(told)


def test_a_bound_of_zero_bounds_nothing():
    told = Certificate(1.0, 0.0, 1.0, 3, 5, "max_iter", 0.1)
    assert told.excess == float("inf")
    assert "any amount above" in str(told)
