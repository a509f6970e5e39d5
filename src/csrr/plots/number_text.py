"""Numbers as a reader likes them: few digits, a real minus sign, a dash for what is not known."""

from __future__ import annotations

import math
from typing import Any

UNKNOWN = "–"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def to_finite(value: Any) -> float | None:
    """Return a finite number as a float, anything else as None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def format_fixed(value: Any, digits: int = 4, *, signed: bool = False) -> str:
    """Return a number with `digits` decimals: 0.1165; with `signed`, +0.0080 or −0.0080."""
    number = to_finite(value)
    if number is None:
        return UNKNOWN
    text = f"{number:{'+' if signed else ''},.{digits}f}"
    return text.replace("-", "−")


def format_short(value: Any) -> str:
    """Return a number with up to four significant digits: 0.07, 2, 1,500 or 2·10⁻⁵."""
    number = to_finite(value)
    if number is None:
        return UNKNOWN
    if number == 0 or 1e-4 <= abs(number) < 1e6:
        return f"{float(f'{number:.4g}'):,.12g}".replace("-", "−")
    digits, exponent = f"{number:.3e}".split("e")
    digits = digits.rstrip("0").rstrip(".")
    factor = "" if digits == "1" else digits.replace("-", "−") + "·"
    return factor + format_power_of_ten(int(exponent))


def format_power_of_ten(exponent: int) -> str:
    """Return a power of ten with its exponent raised: 10⁻³."""
    return "10" + str(exponent).translate(SUPERSCRIPTS)


def compute_half_width(low: float | None, high: float | None) -> float | None:
    """Return half the length of an interval, None where an end is not known."""
    low, high = to_finite(low), to_finite(high)
    return None if low is None or high is None else (high - low) / 2


def compute_relative(mean: float, printed: float | None) -> float | None:
    """Return by how much `mean` differs from `printed`, as a share of it; None where that is not defined."""
    ours, theirs = to_finite(mean), to_finite(printed)
    return None if ours is None or not theirs else (ours - theirs) / abs(theirs)


def format_percent(share: float | None, *, signed: bool = False) -> str:
    """Return a share in percent: 45.0 %; with `signed`, +1.2 %, −1.2 % or 0.0 %."""
    number = to_finite(share)
    if number is None:
        return UNKNOWN
    text = format_fixed(100 * number, 1, signed=signed)
    return ("0.0" if text in ("+0.0", "−0.0") else text) + " %"


def format_p_value(p: Any) -> str:
    """Return a p-value with three decimals, or that it is below the last of them."""
    number = to_finite(p)
    return "< 0.001" if number is not None and number < 0.001 else format_fixed(number, 3)


def format_duration(seconds: Any) -> str:
    """Return a time in words: 0.4 s, 100 s, 12 min, 1 h 5 min."""
    number = to_finite(seconds)
    if number is None:
        return UNKNOWN
    if number < 10:
        return f"{number:.2g} s"
    if number < 120:
        return f"{number:.0f} s"
    minutes = round(number / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def format_number_of(n: int, thing: str) -> str:
    """Return a number of things in words: 1 user, 2,000 users."""
    return f"{n:,} {thing if n == 1 else thing + 's'}"


def format_count(value: Any) -> str:
    """Return a whole number with its thousands apart: 6,039."""
    number = to_finite(value)
    return UNKNOWN if number is None else f"{number:,.0f}"
