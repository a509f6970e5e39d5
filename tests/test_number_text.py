"""Numbers as text."""

import math

import pytest

from csrr._base.text import (
    UNKNOWN,
    format_duration,
    format_fixed,
    format_p_value,
    format_percent,
    format_short,
)


@pytest.mark.parametrize("value", [None, math.nan, math.inf, "0.1", True])
def test_what_is_no_finite_number_is_a_dash(value):
    assert format_fixed(value) == format_short(value) == format_duration(value) == format_p_value(value) == UNKNOWN


def test_decimals_and_signs():
    assert format_fixed(0.11651) == "0.1165"
    assert format_fixed(-0.5, 1) == "−0.5"
    assert format_fixed(0.008, 3, signed=True) == "+0.008"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (0.07, "0.07"), (2.0, "2"), (1500, "1,500"), (1e-5, "10⁻⁵"), (2.5e-7, "2.5·10⁻⁷"), (-3e8, "−3·10⁸")],
)
def test_few_digits(value, shown):
    assert format_short(value) == shown


def test_percent_has_a_sign_only_where_there_is_a_difference():
    assert format_percent(0.0123, signed=True) == "+1.2 %"
    assert format_percent(-0.0123, signed=True) == "−1.2 %"
    assert format_percent(-0.0001, signed=True) == "0.0 %"
    assert format_percent(0.45) == "45.0 %"


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.4, "0.4 s"), (100, "100 s"), (720, "12 min"), (3900, "1 h 5 min"), (3599, "1 h 0 min")]
)
def test_times_in_words(seconds, words):
    assert format_duration(seconds) == words


def test_small_p_values_are_bounds():
    assert format_p_value(1e-9) == "< 0.001"
    assert format_p_value(0.04) == "0.040"
