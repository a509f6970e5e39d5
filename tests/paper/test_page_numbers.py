"""Numbers of the page as text."""

import math

import pytest

from csrr_paper.document import compute_half_width
from csrr_paper.today import compute_relative


def test_a_relative_difference_needs_a_printed_value_that_is_not_zero():
    assert compute_relative(0.11, 0.10) == pytest.approx(0.1)
    assert compute_relative(0.09, 0.10) == pytest.approx(-0.1)
    assert compute_relative(0.1, None) is compute_relative(0.1, 0.0) is compute_relative(math.nan, 0.1) is None


def test_half_an_interval():
    assert compute_half_width(0.1, 0.3) == pytest.approx(0.1)
    assert compute_half_width(None, 0.3) is None
