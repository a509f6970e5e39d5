"""Planted tastes in growing matrices -> how fast the excess loss and cost of a fit fall, beside the bound's rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from csrr._base.arrays import BoolArray, Float64Array
from csrr.evaluation.statistics import compute_mean_interval
from csrr.models import CSRR
from csrr.parameters import ParameterError, check_number, check_whole
from csrr.results.table import ResultTable, TabularResult
from csrr_paper.theory.bounds import noise_bound

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
    _check(sizes, alpha, q, rho, repeats, seed)
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


def _check(sizes: Any, alpha: Any, q: Any, rho: Any, repeats: Any, seed: Any) -> None:
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
