"""The regularization path: models of falling strength, from the one that gives rank 0."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from csrr._base.threads import use_threads
from csrr.data.log import Log
from csrr.models.auto import Chosen, choose_settings
from csrr.models.build_problem import RULE, ClickProblem, build_problem, compute_target_norm
from csrr.models.csrr import CSRR
from csrr.models.estimator import weigh
from csrr.numerics.certificate import Certificate
from csrr.numerics.factored import FactoredSolution
from csrr.numerics.solver import Options, Solution, solve_path
from csrr.parameters import ParameterError
from csrr.results.table import ResultTable, TabularResult


@dataclass(frozen=True)
class PathPoint:
    """One strength of a path, as a fraction (`reg_low_rank`) and itself (`l1`), and the certificate of its fit."""

    reg_low_rank: float
    l1: float
    certificate: Certificate

    @property
    def rank(self) -> int:
        """The rank of U there."""
        return self.certificate.rank


class Path(TabularResult, Sequence[PathPoint]):
    """The points of a regularization path, strongest first; `model(i)` is the fitted CSRR of point i."""

    def __init__(
        self,
        points: list[PathPoint],
        log: Log,
        built: ClickProblem,
        fits: list[Solution],
        params: Any,
        chosen: Chosen,
    ) -> None:
        self.points = points
        self._made_of = log, built, fits, params, chosen

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, which: Any) -> Any:
        return self.points[which]

    def table(self) -> ResultTable:
        """Return the points as a table.

        Returns
        -------
        table
            A row for each, strongest first: reg_low_rank, l1, rank, objective, gap, iterations.
        """
        return ResultTable.from_rows(
            {"reg_low_rank": each.reg_low_rank, "l1": each.l1, "rank": each.rank}
            | {"objective": each.certificate.primal, "gap": each.certificate.gap}
            | {"iterations": each.certificate.iterations}
            for each in self.points
        )

    def _heading(self) -> str:
        return repr(self)

    def __repr__(self) -> str:
        first, last = self.points[0], self.points[-1]
        return (
            f"Path: {len(self)} strengths from {first.reg_low_rank:.3g} (rank {first.rank}) "
            f"to {last.reg_low_rank:.3g} (rank {last.rank})"
        )

    # For csrr.plot

    title = "The regularization path"

    @property
    def caption(self) -> str:
        """A sentence below the charts."""
        worst = max(each.certificate.gap for each in self.points)
        return f"Fits of falling strength, each certified to be within {worst:.2g} of its best possible objective."

    @property
    def panels(self) -> list[dict[str, Any]]:
        """The charts: the rank and the objective by strength."""
        empty = self.points[0].certificate.primal or 1.0
        values = {
            ("Rank", "rank of the common taste"): [float(each.rank) for each in self],
            ("Objective", "objective, relative to the strongest"): [each.certificate.primal / empty for each in self],
        }
        panels = []
        for (title, label), column in values.items():
            points = [{"x": each.reg_low_rank, "mean": value} for each, value in zip(self, column, strict=True)]
            series = [{"name": "CSRR", "points": points}]
            panels.append({"title": title, "x": "reg_low_rank", "y": label, "log": True, "series": series})
        return panels

    def model(self, which: int) -> CSRR:
        """Return the fitted model of one point."""
        log, built, fits, params, chosen = self._made_of
        point = self.points[which]
        model = CSRR(**{**params, "reg_low_rank": point.reg_low_rank})
        with use_threads(model.threads, blas=1):
            problem = built.problem.with_strength(point.l1)
            return model.complete(log, replace(built, problem=problem), FactoredSolution.of(fits[which]), chosen)


def path(
    data: Any,
    strengths: Sequence[float] | None = None,
    *,
    n: int = 30,
    weakest: float = 0.05,
    callback: Callable[[Solution], object] | None = None,
    **params: Any,
) -> Path:
    """Fit a regularization path of CSRR: models for decreasing values of `reg_low_rank`.

    Each fit starts from the one before; where one SVD solves the problem (loss II without V, or loss I with cost_ratio
    1 and without V), one SVD gives all of them. All share their neighbors: those given or, with "auto", those that
    `CSRR(**params)` chooses.

    Parameters
    ----------
    data
        A log, a table with user and item columns, or a users x items matrix.
    strengths
        Values of `reg_low_rank`: fractions of the one that gives rank 0.
    n
        Without `strengths`: the number of values from 1 down to `weakest`, evenly spaced on a log scale.
    weakest
        The smallest of these.
    callback
        Called with the solution of each strength.
    **params
        Parameters of `CSRR`, except `reg_low_rank`, `l1` and `box`.

    Returns
    -------
    path
        The points, strongest first, each with its rank and certificate; `path.model(i)` is the fitted model of point i.

    Raises
    ------
    ParameterError
        For invalid strengths or parameters.

    Examples
    --------
    >>> found = csrr.path(csrr.synthetic(60, 40, events_per_user=10).log, n=4, cost_ratio=1, reg_sparse=1, neighbors=0)
    >>> [round(point.reg_low_rank, 2) for point in found], found[0].rank
    ([1.0, 0.37, 0.14, 0.05], 0)
    >>> found.model(3).recommend(5, k=3).items.shape
    (1, 3)
    """
    model = CSRR(**params)
    model.check_params()
    if model.l1 is not None or "reg_low_rank" in params or model.box != "none":
        raise ParameterError("a path chooses the strength itself: leave out reg_low_rank, l1 and box")
    fractions = _choose_fractions(strengths, n, weakest)
    log = model.read(data)
    with use_threads(model.threads, blas=1):
        weighed = weigh(model, log)
        chosen = replace(choose_settings(model, weighed), n_events=len(log))
        settings = chosen.settings
        if model.max_rank == "auto":
            settings = settings._replace(max_rank=RULE.max_rank)
        built = build_problem(model, weighed, settings)
        signal = built.costs.alpha * compute_target_norm(built.problem.pattern, built.weighted_targets, model.seed)
        l1s = [float(fraction * signal) for fraction in fractions]
        fits = solve_path(
            built.problem,
            l1s,
            Options(model.tol, model.max_iter, model.time_limit, settings.max_rank, model.seed),
            callback=callback,
        )
    points = [PathPoint(f, l1, fit.certificate) for f, l1, fit in zip(fractions, l1s, fits, strict=True)]
    return Path(points, log, built, fits, params, chosen)


def _choose_fractions(strengths: Sequence[float] | None, n: int, weakest: float) -> list[float]:
    if strengths is None:
        if n < 2 or not 0 < weakest < 1:
            raise ParameterError.of("n", n, f"must be at least 2 and weakest={weakest!r} between 0 and 1")
        return [float(f) for f in np.geomspace(1, weakest, n)]
    chosen = sorted({float(f) for f in strengths}, reverse=True)
    if not chosen or chosen[-1] <= 0 or not np.isfinite(chosen).all():
        raise ParameterError("strengths must be numbers > 0")
    return chosen
