"""Values of users -> confidence intervals of their means."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from csrr.arrays import Float64Array
from csrr.parameters import ParameterError

Interval = tuple[float, float]


def compute_mean_interval(values: npt.ArrayLike, level: float = 0.95, *, overlap: float = 0.0) -> Interval:
    """Return Student's t interval (low, high) of the mean of `values`, shape (n,), NaN left out.

    It is (NaN, NaN) of fewer than two values. `overlap` is for random splits of the same data: see `compute_error`.
    """
    from scipy.special import stdtrit

    if not 0 < level < 1:
        raise ParameterError(f"level={level!r} must lie strictly between 0 and 1, such as 0.95")
    known = np.asarray(values, np.float64)
    known = known[~np.isnan(known)]
    if len(known) < 2:
        return float("nan"), float("nan")
    mean, error = known.mean(), compute_error(known, overlap)
    half = stdtrit(len(known) - 1, (1 + level) / 2) * error
    return float(mean - half), float(mean + half)


def compute_error(values: Float64Array, overlap: float = 0.0) -> float:
    """Return the standard error of the mean of `values`, shape (n,).

    Random splits of the same data share training events, so that their results vary less than fresh data would make
    them. With `overlap` = test events / training events the error is Nadeau and Bengio's (2003),
    s*sqrt(1/n + overlap).
    """
    return float(values.std(ddof=1) * np.sqrt(1 / len(values) + overlap))


def compute_f1_interval(precision: npt.ArrayLike, recall: npt.ArrayLike, level: float = 0.95) -> Interval:
    """Return the interval (low, high) of the harmonic mean of mean `precision` and mean `recall`, shapes (n,).

    By the delta method: the t interval of what each user moves it by, to first order.
    """
    return compute_mean_interval(linearise_f1(precision, recall), level)


def linearise_f1(precision: npt.ArrayLike, recall: npt.ArrayLike) -> Float64Array:
    """Return values of each user, shape (n,), whose mean is the F1 of the means, and whose spread its: F + dF."""
    p, r = np.asarray(precision, np.float64), np.asarray(recall, np.float64)
    if p.shape != r.shape or p.ndim != 1:
        raise ParameterError(f"precision and recall need one value per user each, not shapes {p.shape} and {r.shape}")
    mean_p, mean_r = p.mean(), r.mean()
    both = mean_p + mean_r
    if not both:
        return np.zeros(len(p))
    f1 = 2 * mean_p * mean_r / both
    return np.asarray(f1 + 2 * ((mean_r / both) ** 2 * (p - mean_p) + (mean_p / both) ** 2 * (r - mean_r)))
