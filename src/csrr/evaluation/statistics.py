"""Statistics of values of users: intervals of means, and tests of paired differences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from csrr._base.arrays import Float64Array
from csrr.parameters import ParameterError

Interval = tuple[float, float]


def compute_mean_interval(values: npt.ArrayLike, level: float = 0.95, *, overlap: float = 0.0) -> Interval:
    """Return Student's t interval (low, high) of the mean of `values`, shape (n,), NaN left out.

    It is (NaN, NaN) of fewer than two values. `overlap` is for random splits of the same data: see `compute_error`.
    """
    from scipy.special import stdtrit

    if not 0 < level < 1:
        raise ParameterError.of("level", level, "must lie strictly between 0 and 1, such as 0.95")
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

    By the delta method: the t interval of the change that each user makes, to first order.
    """
    return compute_mean_interval(linearize_f1(precision, recall), level)


def linearize_f1(precision: npt.ArrayLike, recall: npt.ArrayLike) -> Float64Array:
    """Return values of users, shape (n,), with the mean F1 of the means, whose spread gives its interval: F + dF."""
    p, r = np.asarray(precision, np.float64), np.asarray(recall, np.float64)
    if p.shape != r.shape or p.ndim != 1:
        raise ParameterError(f"precision and recall need one value per user each, not shapes {p.shape} and {r.shape}")
    mean_p, mean_r = p.mean(), r.mean()
    # Of nothing but zeros it is 0, whatever it is divided by.
    both = mean_p + mean_r or 1.0
    moves = (mean_r / both) ** 2 * (p - mean_p) + (mean_p / both) ** 2 * (r - mean_r)
    return np.asarray(combine_f1(mean_p, mean_r) + 2 * moves)


def combine_f1(precision: float, recall: float) -> float:
    """Return the harmonic mean of mean precision and mean recall, which differs from the mean of the users' F1."""
    both = precision + recall
    return 2 * precision * recall / both if both else 0.0


@dataclass(frozen=True)
class PairedTest:
    """Differences between two values of the same users.

    Attributes
    ----------
    n
        Number of users.
    mean, mean_against
        The means of both.
    difference
        The mean difference.
    low, high
        Its 95 % interval, by Student's t.
    t_p
        The two-sided p-value of the paired t test, that the mean difference is 0.
    wilcoxon_p
        That of Wilcoxon's signed-rank test, that differences lie evenly about 0, where the ranks of zeros go half to
        either side.
    effect_size
        Cohen's d_z, mean difference / standard deviation of differences.
    better, worse, equal
        Shares of users.
    """

    n: int
    mean: float
    mean_against: float
    difference: float
    low: float
    high: float
    t_p: float
    wilcoxon_p: float
    effect_size: float
    better: float
    worse: float
    equal: float


def compare_paired(
    a: npt.ArrayLike, b: npt.ArrayLike, *, lower_is_better: bool = False, overlap: float = 0.0
) -> PairedTest:
    """Return the tests of `a` minus `b`, values of the same users in the same order, shapes (n,).

    A user with a NaN is left out. Differences that are all the same leave no doubt: p is 1 where they are 0, else the
    t test's p is 0 and the effect size infinite. Values of random splits of the same data, in place of users, need
    their `overlap` (`compute_error`): interval and t test are then those of Nadeau and Bengio.
    """
    mine, theirs = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if mine.shape != theirs.shape or mine.ndim != 1:
        raise ParameterError(f"a and b need one value per user each, not shapes {mine.shape} and {theirs.shape}")
    known = ~(np.isnan(mine) | np.isnan(theirs))
    mine, theirs = mine[known], theirs[known]
    if len(mine) < 2:
        raise ParameterError(f"a paired test needs at least two users with both values, not {len(mine)}")
    d = mine - theirs
    better, worse = (d < 0, d > 0) if lower_is_better else (d > 0, d < 0)
    means = float(mine.mean()), float(theirs.mean()), float(d.mean())
    shares = (float(which.mean()) for which in (better, worse, d == 0))
    return PairedTest(
        len(d),
        *means,
        *compute_mean_interval(d, overlap=overlap),
        _compute_t_p(d, overlap),
        _compute_wilcoxon_p(d),
        _compute_effect_size(d),
        *shares,
    )


def correct_holm(p_values: npt.ArrayLike) -> Float64Array:
    """Return the p-values, shape (n,), corrected by Holm: compare them with the level that all together should keep.

    The i-th smallest of n is multiplied by n - i + 1, made at least as large as the one before and at most 1.
    """
    p = np.asarray(p_values, np.float64)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise ParameterError("p-values must be a list of numbers from 0 to 1")
    order = np.argsort(p, kind="stable")
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1)
    return adjusted


def _compute_effect_size(d: Float64Array) -> float:
    mean, spread = float(d.mean()), float(d.std(ddof=1))
    if spread == 0:
        return float(np.copysign(np.inf, mean)) if mean else 0.0
    return mean / spread


def _compute_t_p(d: Float64Array, overlap: float = 0.0) -> float:
    from scipy.special import stdtr

    return float(2 * stdtr(len(d) - 1, -abs(_compute_effect_size(d)) / np.sqrt(1 / len(d) + overlap)))


def _compute_wilcoxon_p(d: Float64Array) -> float:
    from scipy.stats import wilcoxon

    return float(wilcoxon(d, zero_method="zsplit").pvalue)
