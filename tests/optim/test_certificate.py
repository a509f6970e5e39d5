"""What a certificate says of a stationary point."""

from csrr.optim.certificate import Certificate


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
