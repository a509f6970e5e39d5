"""Numbers of the page as text."""

import math

import pytest

from csrr._base.text import UNKNOWN
from csrr_paper.page_tables import compute_half_width, format_p_value
from csrr_paper.today import compute_relative


@pytest.mark.parametrize("value", [None, math.nan, math.inf, "0.1", True])
def test_what_is_no_finite_p_value_is_a_dash(value):
    assert format_p_value(value) == UNKNOWN


def test_a_relative_difference_needs_a_printed_value_that_is_not_zero():
    assert compute_relative(0.11, 0.10) == pytest.approx(0.1)
    assert compute_relative(0.09, 0.10) == pytest.approx(-0.1)
    assert compute_relative(0.1, None) is compute_relative(0.1, 0.0) is compute_relative(math.nan, 0.1) is None


def test_small_p_values_are_bounds():
    assert format_p_value(1e-9) == "< 0.001"
    assert format_p_value(0.04) == "0.040"


def test_half_an_interval():
    assert compute_half_width(0.1, 0.3) == pytest.approx(0.1)
    assert compute_half_width(None, 0.3) is None
