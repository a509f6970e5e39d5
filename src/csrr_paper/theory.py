"""The paper's bounds, the versions of them that can be proved, and a simulation that measures what they bound.

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

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from csrr._base.arrays import BoolArray, Float64Array
from csrr.evaluation.statistics import compute_mean_interval
from csrr.models import CSRR
from csrr.parameters import Number, ParameterError, check_number, check_whole
from csrr.results.table import ResultTable, TabularResult

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


_LIMITS = {
    **dict.fromkeys(("n", "m", "alpha", "T_p", "T_n"), Number(least=1)),
    **dict.fromkeys(("S", "least_cost", "excess_loss"), Number(least=0)),
    **dict.fromkeys(("epsilon", "C", "gamma"), Number(above=0)),
    **dict.fromkeys(("q", "delta", "mu_p"), Number(above=0, below=1)),
    "rho": Number(above=0, most=1),
}


def _check(name: str, value: Numbers) -> Float64Array:
    """Return the numbers as an array; raise ParameterError unless all lie within the limits of `name`."""
    try:
        found = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise ParameterError.of(name, value, "must be a number or an array of numbers") from None
    limit = replace(_LIMITS[name], name=name)
    for each in found.ravel().tolist():
        limit.check(each)
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


RATE = -1.0
"""What the bounds promise: the slope of log excess against log sqrt(mn) in O(alpha/sqrt(mn))."""

SETTINGS = {"fixed epsilon": "Epsilon fixed, the ones thin out", "fixed density": "Density fixed, epsilon grows"}
MEASURES = {"cost": "excess cost", "loss": "excess loss", "loss_bound": "bound on excess loss"}
RANK = 4
DELTA = 0.05
SIDE = 50
"""The rows and columns that hold all the ones where epsilon is fixed."""


@dataclass(frozen=True)
class Measurement:
    """One fit: its planted matrix (n x m, `positives` ones, ||M||_* = `epsilon`), ||U||_* = `size`, and per cell the
    excess cost, the excess loss and the bound on the latter."""

    setting: str
    n: int
    m: int
    repeat: int
    positives: int
    epsilon: float
    size: float
    cost: float
    loss: float
    loss_bound: float


@dataclass(frozen=True)
class Slope:
    """The mean over the repeats of the slope of log excess against log sqrt(mn), and its 95 % t interval.

    An excess of zero or below has no logarithm and is left out.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False, repr=False)
class Simulation(TabularResult):
    """All measurements of `simulate`; `slope` and `interval` are those of the excess cost at a fixed density."""

    rows: list[Measurement]
    alpha: float
    q: float
    rho: float
    seed: int
    title: str = "How fast the excess falls as the matrix grows"

    @cached_property
    def slopes(self) -> dict[tuple[str, str], Slope]:
        """The slopes by setting ("fixed epsilon", "fixed density") and measure ("cost", "loss", "loss_bound")."""
        return {(setting, measure): self._fit_slope(setting, measure) for setting in SETTINGS for measure in MEASURES}

    @property
    def slope(self) -> float:
        """The slope of the excess cost at a fixed density; the bound's rate is -1."""
        return self.slopes["fixed density", "cost"].value

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of `slope`: Student's t over the slopes of the repeats."""
        found = self.slopes["fixed density", "cost"]
        return found.low, found.high

    @property
    def caption(self) -> str:
        """What was planted, fitted and measured, and the slopes."""
        found = "; ".join(
            f"{setting}, {MEASURES[measure]}: {each.value:.2f} ({each.low:.2f} to {each.high:.2f})"
            for (setting, measure), each in self.slopes.items()
        )
        return (
            f"CSRR (loss I, cost ratio {self.alpha:g}, no V, no scaling, automatic strength) on planted tastes of rank "
            f"{RANK}, threshold {self.q:g}, {self.rho:.0%} of the ones observed. Per cell; bars are 95 % t intervals "
            f"over {len({each.repeat for each in self.rows})} repeats. The bound drawn has every constant. Slopes "
            f"against log sqrt(mn), where the paper's rate is -1: {found}."
        )

    @property
    def panels(self) -> list[dict[str, Any]]:
        """One line chart for each setting, on log scales."""
        return [self._draw_panel(setting, title) for setting, title in SETTINGS.items()]

    def table(self) -> ResultTable:
        """Return a table with one row for each fit, the columns those of `Measurement`."""
        return ResultTable.from_rows(asdict(each) for each in self.rows)

    def display_table(self) -> ResultTable:
        """Return the mean of each measure at each size, and its slope."""
        sides = sorted({math.sqrt(each.n * each.m) for each in self.rows})
        lines = [
            [setting, MEASURES[measure]]
            + [f"{np.mean(self._select_values(setting, measure, side)):.1e}" for side in sides]
            + [f"{each.value:.2f}", f"{each.low:.2f} to {each.high:.2f}"]
            for (setting, measure), each in self.slopes.items()
        ]
        header = ["setting", "per cell, at sqrt(mn) =", *(f"{each:g}" for each in sides), "slope", ""]
        return ResultTable.from_rows(dict(zip(header, line, strict=True)) for line in lines)

    def _heading(self) -> str:
        return f"Simulation: {len(self.rows)} fits, alpha={self.alpha:g}, q={self.q:g}, rho={self.rho:g}"

    def _select_values(self, setting: str, measure: str, side: float) -> list[float]:
        chosen = (each for each in self.rows if each.setting == setting and math.sqrt(each.n * each.m) == side)
        return [getattr(each, measure) for each in chosen]

    def _fit_slope(self, setting: str, measure: str) -> Slope:
        chosen = [each for each in self.rows if each.setting == setting]
        slopes = []
        for repeat in sorted({each.repeat for each in chosen}):
            one = [(math.sqrt(each.n * each.m), getattr(each, measure)) for each in chosen if each.repeat == repeat]
            side, excess = np.log(np.array([pair for pair in one if pair[1] > 0])).reshape(-1, 2).T
            slopes.append(np.polyfit(side, excess, 1)[0] if len(side) > 1 else math.nan)
        return Slope(
            float(np.nanmean(slopes)) if np.any(np.isfinite(slopes)) else math.nan, *compute_mean_interval(slopes)
        )

    def _draw_panel(self, setting: str, title: str) -> dict[str, Any]:
        sides = sorted({math.sqrt(each.n * each.m) for each in self.rows})
        series: list[dict[str, Any]] = [
            {"name": name, "points": [_make_point(side, self._select_values(setting, measure, side)) for side in sides]}
            for measure, name in MEASURES.items()
        ]
        first = series[0]["points"][0]["mean"]
        rate = [{"x": side, "mean": first + RATE * math.log10(side / sides[0])} for side in sides]
        series.append({"name": "slope -1, the paper's rate", "points": rate})
        return {"title": title, "x": "sqrt(mn)", "y": "log10 of excess per cell", "log": True, "series": series}


def simulate(
    *,
    sizes: Sequence[int] = (50, 100, 200, 400, 800),
    alpha: float = 4.0,
    q: float = 0.5,
    rho: float = 0.5,
    repeats: int = 10,
    seed: int = 0,
) -> Simulation:
    """Return what CSRR's excess loss and cost are on planted n x n data, for n in `sizes`, in two settings.

    M = P*Q' of rank 4, rows of P mixtures and entries of Q in [0, 1], so that M is in [0, 1]; Y = 1(M > q); each one of
    Y is observed independently with probability rho. "fixed density": M fills the matrix, epsilon = ||M||_* grows like
    sqrt(mn). "fixed epsilon": the same inside the first 50 x 50 cells (fewer if a size is smaller), zero outside.

    U is the fit of loss I, with l1 by `reg_low_rank="noise"`, which sees A only, and X = clip(U, 0, 1). Both measures
    are per cell; expectations are over a fresh A and exact, as each cell's law is known:

        excess loss  R(X) - R^(X)              no less than R(X) - min R^ over the class with epsilon = ||U||_*
        excess cost  (E L(X) - min E L)/(mn)   M is in the class and decides every cell at the least cost (where
                                               alpha*rho < 1 - rho the zero matrix does), so the minimum is exact

    The bound on the excess loss is `noise_bound` at epsilon = ||M||_* and delta = 0.05; it covers U of no larger norm.
    """
    _check_simulation(sizes, alpha, q, rho, repeats, seed)
    side = min(SIDE, *sizes)
    rows = []
    for place, setting in enumerate(SETTINGS):
        for n in sizes:
            for repeat in range(repeats):
                rng = np.random.default_rng([seed, place, n, repeat])
                planted = np.zeros((n, n))
                inner = n if setting == "fixed density" else side
                planted[:inner, :inner] = _plant_tastes(inner, rng)
                rows.append(_measure(setting, repeat, planted, alpha, q, rho, rng))
    return Simulation(rows, float(alpha), float(q), float(rho), seed)


def _plant_tastes(n: int, rng: np.random.Generator) -> Float64Array:
    """Return a random matrix of rank 4 with entries in [0, 1], shape (n, n)."""
    mixtures = rng.dirichlet(np.full(RANK, 0.3), n)
    return np.asarray(mixtures @ rng.beta(0.5, 1.0, (RANK, n)))


def _measure(
    setting: str, repeat: int, planted: Float64Array, alpha: float, q: float, rho: float, rng: np.random.Generator
) -> Measurement:
    """Return one fit to a sample of the ones of Y = 1(planted > q), planted of shape (n, m), and what it is worth."""
    positive = planted > q
    observed = positive & (rng.random(planted.shape) < rho)
    if not observed.any():
        raise ParameterError.of(
            "q", q, f"and rho={rho!r} leave no observed cell in {planted.shape}; lower q or raise rho"
        )
    low_rank: dict[str, Any] = {"reg_low_rank": "noise", "reg_sparse": 1.0, "neighbors": 0}
    model = CSRR("I", alpha, **low_rank, user_scaling=0.0, item_scaling=0.0, tol=1e-4, max_iter=500, threads=1)
    model.fit(csr_array(observed.astype(np.float32)))
    users, items = model.user_factors_.astype(np.float64), model.item_factors_.astype(np.float64)
    scores = np.clip(users @ items.T, 0, 1)
    n, m = planted.shape
    epsilon = float(np.linalg.norm(planted, "nuc"))
    known: dict[str, Any] = {"n": n, "m": m, "S": int(positive.sum()), "alpha": alpha, "rho": rho}
    return Measurement(
        *(setting, n, m, repeat, known["S"], epsilon),
        size=float(np.linalg.norm(np.linalg.qr(users)[1] @ np.linalg.qr(items)[1].T, "nuc")),
        cost=excess_cost(scores, positive, alpha=alpha, q=q, rho=rho),
        loss=expected_loss(scores, positive, alpha=alpha, rho=rho) - empirical_loss(scores, observed, alpha=alpha),
        loss_bound=noise_bound(epsilon=epsilon, delta=DELTA, **known),
    )


def empirical_loss(scores: Float64Array, observed: BoolArray, *, alpha: float) -> float:
    """Return R^(X): the mean of loss I over the cells of `scores`, shape (n, m), `observed` of the same shape."""
    return float(np.where(observed, alpha * (1 - scores) ** 2, scores**2).mean() / 2)


def expected_loss(scores: Float64Array, positive: BoolArray, *, alpha: float, rho: float) -> float:
    """Return R(X): the mean of R^(X) over A, where a share rho of the `positive` cells, shape (n, m), is observed."""
    ones = rho * alpha * (1 - scores) ** 2 + (1 - rho) * scores**2
    return float(np.where(positive, ones, scores**2).mean() / 2)


def expected_cost(scores: Float64Array, positive: BoolArray, *, alpha: float, q: float, rho: float) -> float:
    """Return E L(X)/(mn), L the cost of cutting `scores` at q, `positive` where Y is 1; shapes (n, m)."""
    chosen = scores > q
    return float(np.where(positive, np.where(chosen, 1 - rho, alpha * rho), chosen).mean())


def excess_cost(scores: Float64Array, positive: BoolArray, *, alpha: float, q: float, rho: float) -> float:
    """Return (E L(X) - min E L)/(mn), the minimum over all matrices; arguments as in `expected_cost`."""
    least = min(alpha * rho, 1 - rho) * positive.mean()
    return float(expected_cost(scores, positive, alpha=alpha, q=q, rho=rho) - least)


def _make_point(side: float, values: Sequence[float]) -> dict[str, Any]:
    """Return the mean of log10 of the values that have one, and its 95 % interval."""
    logs = [math.log10(each) for each in values if each > 0]
    low, high = compute_mean_interval(logs)
    return {"x": side, "mean": float(np.mean(logs)) if logs else math.nan, "low": low, "high": high}


def _check_simulation(sizes: Any, alpha: Any, q: Any, rho: Any, repeats: Any, seed: Any) -> None:
    several = sizes if isinstance(sizes, Sequence | np.ndarray) and not isinstance(sizes, str) else ()
    for size in several:
        check_whole("sizes", size, least=10)
    if len(set(several)) < max(2, len(several)):
        raise ParameterError.of(
            "sizes", sizes, "must be at least two different numbers of rows, such as (50, 100, 200)"
        )
    check_number("alpha", alpha, least=1)
    check_number("q", q, above=0, below=1)
    check_number("rho", rho, above=0, most=1)
    check_whole("repeats", repeats, least=2)
    check_whole("seed", seed, least=0)
