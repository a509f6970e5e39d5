"""The cost of recommending by models with several cost ratios: fitted along a path, measured on held-out data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from csrr._base.arrays import Float64Array
from csrr.data.errors import DataError
from csrr.data.log import Log, as_log
from csrr.data.split import split
from csrr.evaluation.statistics import compute_mean_interval
from csrr.model_parameters import LEAST_COST, MOST_COST
from csrr.models.csrr import CSRR
from csrr.parameters import ParameterError, check_number, check_whole
from csrr.ranking.calibration import Calibration
from csrr.ranking.metrics import CellCounts
from csrr.ranking.topk import Cells
from csrr.results.table import ResultTable, TabularResult

RATIOS = (1.0, 2.0, 5.0)
TRAINING = 0.6


@dataclass(frozen=True)
class CostPoint:
    """A weight of clicks, and the cost of recommending every item above a threshold, on other held-out data.

    Attributes
    ----------
    cost_ratio
        The weight of clicks in the fit.
    threshold
        The score above which items are recommended.
    expected
        The mean cost of a user, as the probabilities say it.
    cost
        The same, as it was.
    low, high
        Its 95 % interval.
    best_cost
        The cost of the best threshold in hindsight.
    recall, specificity
        Over all cells.
    items
        Number of recommendations a user.
    gap, rank
        Of the fit.
    """

    cost_ratio: float
    threshold: float
    expected: float
    cost: float
    low: float
    high: float
    best_cost: float
    recall: float
    specificity: float
    items: float
    gap: float
    rank: int


@dataclass(frozen=True, eq=False, repr=False)
class CostCurve(TabularResult, Sequence[CostPoint]):
    """Cost, recall and specificity of CSRR for increasing weights of clicks, at given costs.

    Attributes
    ----------
    points
        The points.
    miss, false_alarm
        The cost of a miss and of a false alarm.
    nothing
        The mean cost per user without any recommendation.
    best
        The index of the recommended point, chosen on the data that chose the thresholds, not on the test data.
    alike
        The indices of the points whose costs do not differ significantly from its cost (paired over users, 95 %).
    pays
        Whether the recommended point costs significantly less than `nothing` (the same test).

    Examples
    --------
    >>> log = csrr.synthetic(100, 40, events_per_user=15).log
    >>> curve = csrr.cost_curve(log, miss=5, false_alarm=1, ratios=[1, 4], reg_low_rank=0.3, neighbors=0)
    >>> [point.cost_ratio for point in curve]
    [1.0, 4.0]
    """

    points: list[CostPoint]
    miss: float
    false_alarm: float
    nothing: float
    best: int
    alike: list[int]
    pays: bool = True

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, which: Any) -> Any:
        return self.points[which]

    @property
    def recommended(self) -> CostPoint:
        """The recommended point."""
        return self.points[self.best]

    @property
    def recommendation(self) -> str:
        """The recommendation as a sentence."""
        point = self.recommended
        if not self.pays:
            return f"recommend nothing, at {self.nothing:.4g} per user: nothing costs significantly less"
        words = (
            f"fit with miss_cost={self.miss:g}, false_alarm_cost={self.false_alarm:g} and cost_ratio="
            f"{point.cost_ratio:g}, and recommend above a score of {point.threshold:.4g}:"
            f" {point.items:.3g} items and a cost of {point.cost:.4g} per user,"
            f" {1 - point.cost / self.nothing:.1%} less than with none"
        )
        others = [f"{self.points[place].cost_ratio:g}" for place in self.alike if place != self.best]
        return words + (f"; weights of {', '.join(others)} do not differ significantly" if others else "")

    def table(self) -> ResultTable:
        """Return the points as a table.

        Returns
        -------
        table
            A row for each point, with the attributes of `CostPoint` as columns.
        """
        return ResultTable.from_rows(asdict(point) for point in self.points)

    def display_table(self) -> ResultTable:
        names = ("cost_ratio", "threshold", "expected", "cost", "best_cost", "recall", "specificity", "items")
        return ResultTable.from_lists({name: [getattr(point, name) for point in self.points] for name in names})

    def _heading(self) -> str:
        costs = f"{self.miss:g} per miss, {self.false_alarm:g} per false alarm"
        return f"CostCurve: {costs}; {self.nothing:.4g} per user without recommendations"

    def _remarks(self) -> list[str]:
        return [self.recommendation]

    # For csrr.plot

    @property
    def title(self) -> str:
        """The title of the plot."""
        return f"Cost by the weight of clicks: {self.miss:g} per miss, {self.false_alarm:g} per false alarm"

    @property
    def caption(self) -> str:
        """The caption of the plot."""
        return (
            f"Thresholds were chosen on one held-out part, costs counted on another (bars: 95 %); no recommendation"
            f" would cost {self.nothing:.4g} per user. "
            f"{self.recommendation[:1].upper()}{self.recommendation[1:]}."
        )

    @property
    def panels(self) -> list[dict[str, Any]]:
        """The charts."""
        charts = {
            "Cost": ("cost per user", {"chosen threshold": "cost", "best threshold in hindsight": "best_cost"}),
            "Recall": ("recall", {"recall": "recall"}),
            "Specificity": ("specificity", {"specificity": "specificity"}),
        }
        return [
            {
                "title": title,
                "y": label,
                "series": [{"name": name, "points": self._draw(value)} for name, value in lines.items()],
                "x": "weight of clicks in the fit",
                "log": True,
            }
            for title, (label, lines) in charts.items()
        ]

    def _draw(self, name: str) -> list[dict[str, float]]:
        """Return the points of a line; only costs have intervals."""
        low, high = ("low", "high") if name == "cost" else (name, name)
        names = {"x": "cost_ratio", "mean": name, "low": low, "high": high}
        return [{key: getattr(point, each) for key, each in names.items()} for point in self.points]


def cost_curve(
    data: Any,
    *,
    miss: float,
    false_alarm: float,
    ratios: Sequence[float] = RATIOS,
    seed: int = 0,
    callback: Callable[[int, int], object] | None = None,
    **params: Any,
) -> CostCurve:
    """Measure cost, recall and specificity of CSRR for several weights of clicks, with warm starts.

    Of each user's events, three fifths are for training, one fifth chooses the threshold for the given costs, and one
    fifth measures the cost: a miss is one of these events that was not recommended, a false alarm a recommendation that
    is not one of them.

    Parameters
    ----------
    data
        A log, a table with user and item columns, or a users x items matrix.
    miss
        The cost of an event that was not recommended.
    false_alarm
        The cost of a recommendation that is not an event.
    ratios
        The weights of clicks in the fits (`cost_ratio`).
    seed
        Seed of the split.
    callback
        Called with the number of fits done and the total.
    **params
        Parameters of `CSRR`. "auto" parameters are chosen by the first fit, for all.

    Returns
    -------
    curve
        A point for each ratio, and the recommended one.

    Raises
    ------
    ParameterError
        If a cost or ratio is not valid, or `params` have costs.
    DataError
        If there are too few events.

    Examples
    --------
    >>> log = csrr.synthetic(100, 40, events_per_user=15).log
    >>> curve = csrr.cost_curve(log, miss=5, false_alarm=1, ratios=[1, 4], reg_low_rank=0.3, neighbors=0)
    >>> curve.recommended.cost <= max(point.cost for point in curve)
    True
    """
    check_number("miss", miss, above=0)
    check_number("false_alarm", false_alarm, above=0)
    check_whole("seed", seed, least=0)
    if {"cost_ratio", "positive_cost", "miss_cost", "false_alarm_cost", "recall_weight"} & params.keys():
        raise ParameterError("a cost curve chooses the cost ratio itself: give miss, false_alarm and ratios")
    log, chosen = as_log(data), _check_ratios(ratios)
    train, held = split(log, ratio=TRAINING, seed=seed)
    choose, check = split(held, ratio=0.5, seed=seed)
    if not len(choose) or not len(check):
        raise DataError(f"{len(log):,} events are too few to hold out two parts; a cost curve needs users with five")
    measured, model, shared, l1 = [], None, dict(params), 0.0
    for number, ratio in enumerate(chosen):
        # What the first fit chose holds for all, but for the strength, which grows with the costs.
        shared |= {"l1": l1 * ratio} if l1 else {}
        model = CSRR(**shared | {"cost_ratio": ratio}).fit(train, start=model)
        if number == 0:
            shared |= model.settled_params()
            l1 = shared.get("l1", 0.0) / ratio
        measured.append(_TestedFit.of(model, train, choose, check, miss, false_alarm))
        if callback is not None:
            callback(number + 1, len(chosen))
    best = int(np.argmin([each.chosen_at for each in measured]))
    apart = [compute_mean_interval(each.costs - measured[best].costs) for each in measured]
    alike = [place for place, (low, high) in enumerate(apart) if low <= 0 <= high]
    nothing = miss * np.diff(check.to_csr().indptr)
    pays = bool(compute_mean_interval(measured[best].costs - nothing)[1] < 0)
    points = [each.point for each in measured]
    return CostCurve(points, float(miss), float(false_alarm), float(nothing.mean()), best, alike, pays)


def _check_ratios(ratios: Any) -> list[float]:
    if not isinstance(ratios, Sequence | np.ndarray):
        raise ParameterError.of("ratios", ratios, "must be a list of cost ratios")
    for each in ratios:
        check_number("ratios", each, least=LEAST_COST, most=MOST_COST)
    if not len(ratios):
        raise ParameterError.of("ratios", ratios, "must have at least one cost ratio")
    return sorted({float(each) for each in ratios})


@dataclass(frozen=True, eq=False)
class _TestedFit:
    """A point of the curve, the cost on the data that chose its threshold, and each user's cost, shape (n_users,)."""

    point: CostPoint
    chosen_at: float
    costs: Float64Array

    @classmethod
    def of(cls, model: CSRR, train: Log, choose: Log, check: Log, miss: float, false_alarm: float) -> _TestedFit:
        rows, n_items = np.arange(choose.n_users), choose.n_items
        # Of all positives that will ever be shown, these two parts show so many; their numbers are all that is used.
        share = (len(train) + len(choose)) / (len(train) + len(choose) + len(check))
        cells = Cells(model.score_rows, rows, n_items, choose.to_csr(), model.seen_of_target)
        known = train.of_target().to_csr() + choose.to_csr()
        chosen = Calibration.of(cells)
        left = chosen.assuming(share).remaining()
        threshold = left.threshold(miss, false_alarm)
        worth = chosen.worth(miss, false_alarm)
        on_first = miss * chosen.n_positives[~worth].sum()
        on_first += false_alarm * (chosen.n_cells - chosen.n_positives)[worth].sum()
        # The best in hindsight is one of the steps that the same counts of the other data have.
        cells = cells._replace(relevant=check.to_csr(), seen=known)
        hindsight = Calibration.of(cells)
        other = CellCounts.of(cells, [threshold, hindsight.threshold(miss, false_alarm)])
        costs = miss * other.missed[:, 0] + false_alarm * other.false_alarms[:, 0]
        best = miss * other.missed[:, 1].sum() + false_alarm * other.false_alarms[:, 1].sum()
        n_users = len(rows)
        low, high = compute_mean_interval(costs)
        hits = int(other.positives.sum() - other.missed[:, 0].sum())
        pooled = other.pool(miss / (miss + false_alarm))
        mean = float(costs.mean())
        point = CostPoint(
            cost_ratio=model.costs_.alpha,
            threshold=threshold,
            expected=left.expected_cost(miss, false_alarm) / n_users,
            cost=mean,
            low=low,
            high=high,
            best_cost=float(best) / n_users,
            recall=float(pooled.cell_recall[0]),
            specificity=float(pooled.specificity[0]),
            items=(hits + int(other.false_alarms[:, 0].sum())) / n_users,
            gap=model.certificate_.gap,
            rank=model.rank_,
        )
        return cls(point, float(on_first) / n_users, costs)
