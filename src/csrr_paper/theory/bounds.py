"""The paper's bounds as functions, and the versions of them that can be proved with every constant known.

Words. n x m is the matrix, S the number of ones of Y = 1(M > q), rho the share of them that is observed (A), alpha the
cost ratio, epsilon the bound on nuclear norms, delta the probability that a bound fails, C a constant that the paper
does not specify. The class of the paper is {X: ||X||_* <= epsilon, 0 <= X_ij <= 1}. The loss of a cell is
loss(x, 1) = alpha/2*(1 - x)^2 where A is 1 and loss(x, 0) = x^2/2 elsewhere (loss I);

    R^(X) = 1/(mn) * sum_ij loss(X_ij, A_ij)                         the empirical loss, a mean over cells
    R(X)  = E R^(X), over a fresh draw of A with X held fixed        the expected loss
    L(X)  = alpha*#{A = 1, X <= q} + #{A = 0, X > q}                 the cost, a sum over cells

Arguments are numbers or arrays that broadcast; the result has their shape. `docs/theory.md` says which of the printed
bounds follow from their proofs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from csrr._base.arrays import Float64Array
from csrr.parameters import ParameterError

Numbers = float | int | npt.ArrayLike
Bound = Any
"""A float for numbers, an array of float64 for arrays."""


def excess_loss_bound(
    *, n: Numbers, m: Numbers, S: Numbers, epsilon: Numbers, alpha: Numbers, delta: Numbers, C: Numbers = 1.0
) -> Bound:
    """Return the right-hand side of Theorem 3, as printed:

        R(X) - min R^  <=  C*epsilon*alpha*(sqrt(n) + sqrt(m) + S^(1/4))/(mn) + alpha*sqrt(log(2/delta))/sqrt(mn)

    with probability at least 1 - delta over A. The paper assumes: X in the class (0 <= X_ij <= 1, ||X||_* <= epsilon,
    epsilon independent of n and m), alpha > 1, observed ones sampled from those of Y at a rate that is the same for all
    (SCAR). Its proof needs more: A_ij drawn independently, and X the minimizer of R^ over the class. No value of C is
    given, so with C = 1 this shows how the bound moves, not where it lies; `noise_bound` has every constant.
    """
    return _unwrap(_compute_rate(*_check_arrays(n=n, m=m, S=S, epsilon=epsilon, alpha=alpha, delta=delta, C=C)))


def gamma_range(*, q: Numbers) -> tuple[Bound, Bound]:
    """Return the least and the greatest gamma that Lemma 3 allows: min and max of 1/q^2 and 1/(1 - q)^2, 0 < q < 1.

    Its proof needs the greatest: 1/q^2 where a score is above q by mistake, 1/(1 - q)^2 where it is below.
    """
    low, high = _compute_gammas(*_check_arrays(q=q))
    return _unwrap(low), _unwrap(high)


def excess_cost_from_loss(*, excess_loss: Numbers, q: Numbers, gamma: Numbers | None = None) -> Bound:
    """Return the right-hand side of Lemma 3, as printed: E L(X) - min L <= gamma*(R(X) - min R^).

    The paper assumes X in the class, SCAR sampling and gamma in `gamma_range`; without one it is the greatest. As
    printed the lemma is false (L is a sum over cells and R a mean, among other things); `transfer_factor` is what does.
    """
    loss, cut = _check_arrays(excess_loss=excess_loss, q=q)
    return _unwrap(_choose_gamma(cut, gamma) * loss)


def sum_lower_bound(
    *,
    n: Numbers,
    m: Numbers,
    S: Numbers,
    epsilon: Numbers,
    q: Numbers,
    delta: Numbers,
    mu_p: Numbers,
    T_p: Numbers,
    T_n: Numbers,
    least_cost: Numbers = 0.0,
    C: Numbers = 1.0,
    gamma: Numbers | None = None,
) -> Bound:
    """Return the right-hand side of Theorem 4, as printed, with mu_n = 1 - mu_p and alpha = mu_p*T_n/(mu_n*T_p):

        E[mu_p*recall + mu_n*specificity]  >=  1 - mu_n/T_n*min L - gamma*mu_n/T_n*(the bound of Theorem 3)

    `least_cost` is min L, the least cost in the class (0 if some X there makes no mistake). Assumes all that Theorem 3
    and Lemma 3 assume, alpha >= 1, and T_p positive and T_n negative cells that are known beforehand.
    """
    share, positive, negative, least, cut = _check_arrays(mu_p=mu_p, T_p=T_p, T_n=T_n, least_cost=least_cost, q=q)
    alpha = share * negative / ((1 - share) * positive)
    if np.any(alpha < 1):
        raise ParameterError(f"alpha = mu_p*T_n/(mu_n*T_p) = {np.min(alpha):g} must be >= 1; raise mu_p or T_n/T_p")
    rate = _compute_rate(*_check_arrays(n=n, m=m, S=S, epsilon=epsilon, alpha=alpha, delta=delta, C=C))
    return _unwrap(1 - (1 - share) / negative * (least + _choose_gamma(cut, gamma) * rate))


def excess_cost_bound(
    *,
    n: Numbers,
    m: Numbers,
    S: Numbers,
    epsilon: Numbers,
    alpha: Numbers,
    q: Numbers,
    delta: Numbers,
    C: Numbers = 1.0,
    gamma: Numbers | None = None,
) -> Bound:
    """Return the right-hand side of Theorem 5, as printed:

        E cost - min cost  <=  c_n*gamma*(the bound of Theorem 3),   cost = c_p*misses + c_n*false alarms = c_n*L

    with c_p + c_n = 1 and alpha = c_p/c_n, so c_n = 1/(1 + alpha). Assumes all that Theorem 3 and Lemma 3 assume. The
    left side is a count of cells and the right side an average over them: at best it bounds the cost per cell.
    """
    ratio, cut = _check_arrays(alpha=alpha, q=q)
    rate = _compute_rate(*_check_arrays(n=n, m=m, S=S, epsilon=epsilon, alpha=alpha, delta=delta, C=C))
    return _unwrap(_choose_gamma(cut, gamma) / (1 + ratio) * rate)


def noise_bound(
    *, n: Numbers, m: Numbers, S: Numbers, epsilon: Numbers, alpha: Numbers, delta: Numbers, rho: Numbers = 1.0
) -> Bound:
    """Return a bound like Theorem 3's in which every constant is known:

        sup (R(X) - R^(X))  <=  2*alpha*epsilon/(mn) * min(sqrt(rho*S), sqrt(pi/2)*(sqrt(n) + sqrt(m)))
                                + alpha/(mn) * sqrt(S*log(1/delta)/8)

    with probability at least 1 - delta over A; the supremum is over the class, or over all clip(U, 0, 1) with
    ||U||_* <= epsilon. Assumes: each one of Y is observed independently with probability rho; Y and epsilon fixed
    before A is drawn; alpha >= 1; loss I. At the minimizer X of R^ over the class, R(X) - R^(X) is the left side of
    Theorem 3.
    """
    checked = _check_arrays(n=n, m=m, S=S, epsilon=epsilon, alpha=alpha, delta=delta, rho=rho)
    rows, columns, ones, size, ratio, risk, rate = checked
    signs = np.minimum(np.sqrt(rate * ones), np.sqrt(np.pi / 2) * (np.sqrt(rows) + np.sqrt(columns)))
    return _unwrap(ratio / (rows * columns) * (2 * size * signs + np.sqrt(-ones * np.log(risk) / 8)))


def class_loss_bound(*, n: Numbers, m: Numbers, S: Numbers, epsilon: Numbers, alpha: Numbers) -> Bound:
    """Return (epsilon^2 + alpha*S)/(2mn): the expected loss R(X) of every X of the class is at most this.

    It needs no learning and no probability: x^2 adds up to at most ||X||_F^2 <= epsilon^2, and a miss costs alpha/2.
    """
    rows, columns, ones, size, ratio = _check_arrays(n=n, m=m, S=S, epsilon=epsilon, alpha=alpha)
    return _unwrap((size**2 + ratio * ones) / (2 * rows * columns))


def most_positives(*, epsilon: Numbers, q: Numbers) -> Bound:
    """Return (epsilon/q)^2: Y = 1(M > q) has fewer ones than this if ||M||_* <= epsilon, however large the matrix.

    For S*q^2 < ||M||_F^2 <= ||M||_*^2 <= epsilon^2 (S > 0).
    """
    size, cut = _check_arrays(epsilon=epsilon, q=q)
    return _unwrap((size / cut) ** 2)


def transfer_factor(*, q: Numbers, alpha: Numbers, rho: Numbers) -> Bound:
    """Return the least k for which Lemma 3 holds, the minima in expectation and over all matrices:

        (E L(X) - min E L)/(mn)  <=  k*(R(X) - min R)      for every X with entries in [0, 1]

    Cells where Y is 0 need 2/q^2. Where Y is 1 the loss is least at x = alpha*rho/(alpha*rho + 1 - rho); they need
    2*|alpha*rho - (1 - rho)|/((alpha*rho + 1 - rho)*(q - x)^2) if q lies on the side of x that decides right: below it
    when alpha*rho > 1 - rho, else above. On the other side the best loss has not the best cost, and k is infinite.
    q = 1/2 always decides right. Assumes SCAR sampling at rate rho, 0 < q < 1, alpha >= 1; k is the greater of the two.
    """
    cut, ratio, rate = _check_arrays(q=q, alpha=alpha, rho=rho)
    hit, gone = ratio * rate, 1 - rate
    best = hit / (hit + gone)
    right = np.where(hit > gone, cut < best, cut > best)
    with np.errstate(divide="ignore", invalid="ignore"):
        ones = 2 * np.abs(hit - gone) / ((hit + gone) * (cut - best) ** 2)
    ones = np.where(np.isclose(hit, gone), 0.0, np.where(right, ones, np.inf))
    return _unwrap(np.maximum(2 / cut**2, ones))


_LIMITS: dict[str, tuple[float, float, bool, bool]] = {
    # least, most, and whether these themselves are allowed
    "n": (1, np.inf, True, False),
    "m": (1, np.inf, True, False),
    "S": (0, np.inf, True, False),
    "epsilon": (0, np.inf, False, False),
    "alpha": (1, np.inf, True, False),
    "q": (0, 1, False, False),
    "delta": (0, 1, False, False),
    "C": (0, np.inf, False, False),
    "gamma": (0, np.inf, False, False),
    "rho": (0, 1, False, True),
    "mu_p": (0, 1, False, False),
    "T_p": (1, np.inf, True, False),
    "T_n": (1, np.inf, True, False),
    "least_cost": (0, np.inf, True, False),
    "excess_loss": (0, np.inf, True, False),
}


def _check(name: str, value: Numbers) -> Float64Array:
    """Return the numbers as an array; raise ParameterError unless all lie within the limits of `name`."""
    try:
        found = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise ParameterError(f"{name}={value!r} must be a number or an array of numbers") from None
    least, most, with_least, with_most = _LIMITS[name]
    inside = (found >= least if with_least else found > least) & (found <= most if with_most else found < most)
    if not np.all(inside):
        low = f"{'>=' if with_least else '>'} {least:g}"
        high = f" and {'<=' if with_most else '<'} {most:g}" if most < np.inf else " and finite"
        raise ParameterError(f"{name}={found[~inside].flat[0]:g} must be {low}{high}")
    return found


def _check_arrays(**values: Numbers) -> Sequence[Float64Array]:
    """Return the arguments as arrays that broadcast, each within its limits."""
    found = {name: _check(name, value) for name, value in values.items()}
    try:
        np.broadcast_shapes(*(each.shape for each in found.values()))
    except ValueError:
        shapes = ", ".join(f"{name} {each.shape}" for name, each in found.items() if each.ndim)
        raise ParameterError(f"arrays must have shapes that broadcast, not {shapes}") from None
    if "S" in found and np.any(found["S"] > found["n"] * found["m"]):
        raise ParameterError(f"S={np.max(found['S']):g} ones do not fit into n x m cells; S is the number of ones of Y")
    return list(found.values())


def _compute_rate(
    n: Float64Array,
    m: Float64Array,
    S: Float64Array,
    epsilon: Float64Array,
    alpha: Float64Array,
    delta: Float64Array,
    C: Float64Array,
) -> Float64Array:
    noise = C * epsilon * (np.sqrt(n) + np.sqrt(m) + S**0.25) / (m * n)
    return np.asarray(alpha * (noise + np.sqrt(np.log(2 / delta)) / np.sqrt(m * n)))


def _compute_gammas(q: Float64Array) -> tuple[Float64Array, Float64Array]:
    return np.minimum(q**-2, (1 - q) ** -2), np.maximum(q**-2, (1 - q) ** -2)


def _choose_gamma(q: Float64Array, gamma: Numbers | None) -> Float64Array:
    """Return gamma as given, or the greatest that is allowed at q."""
    low, high = _compute_gammas(q)
    if gamma is None:
        return high
    (found,) = _check_arrays(gamma=gamma)
    if np.any(found < low * (1 - 1e-12)) or np.any(found > high * (1 + 1e-12)):
        raise ParameterError.of(
            "gamma", gamma, "must lie between 1/q^2 and 1/(1 - q)^2; gamma_range(q=...) gives the range"
        )
    return found


def _unwrap(found: Float64Array) -> Bound:
    return float(found) if np.ndim(found) == 0 else found
