"""What rules for lists cost: the same users with and without them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from csrr.arrays import Float64Array
from csrr.experiments.intervals import compute_mean_interval
from csrr.ranking.result_table import ResultTable, TabularResult


@dataclass(frozen=True, eq=False, repr=False)
class RuleCost(TabularResult):
    """The mean of each metric with and without rules, and its paired difference over users.

    Attributes
    ----------
    metrics
        Their names, like "ndcg@10".
    without, with_rules
        The means, shapes (n,).
    difference
        With the rules less without, shape (n,).
    low, high
        Its 95 % interval over users, shapes (n,); NaN for a single user.
    """

    metrics: tuple[str, ...]
    without: Float64Array
    with_rules: Float64Array
    difference: Float64Array
    low: Float64Array
    high: Float64Array

    def table(self) -> ResultTable:
        """Return a row for each metric.

        Returns
        -------
        table
            metric, without, with, difference, low, high.
        """
        names = np.array(self.metrics, np.object_)
        means = {"metric": names, "without": self.without, "with": self.with_rules, "difference": self.difference}
        return ResultTable(means | {"low": self.low, "high": self.high})

    def display_table(self) -> ResultTable:
        """Return the same, with the difference and half the width of its interval as one text."""
        lines = [
            {"": name, "without": f"{before:.4f}", "with": f"{after:.4f}", "difference": _show(change, high - low)}
            for name, before, after, change, low, high in self.table().lines()
        ]
        return ResultTable.from_rows(lines)

    def _heading(self) -> str:
        return "What the rules change: mean over users ± 95 % interval of the difference"


def measure_rule_cost(before: Mapping[str, Float64Array], after: Mapping[str, Float64Array]) -> RuleCost:
    """Return how values of users by metric, shapes (n_users,), differ; users without one of both are left out."""
    rows = []
    for name in after:
        both = ~(np.isnan(before[name]) | np.isnan(after[name]))
        old, new = before[name][both], after[name][both]
        change = float(np.mean(new - old)) if len(old) else np.nan
        means = (float(np.mean(old)), float(np.mean(new))) if len(old) else (np.nan, np.nan)
        rows.append((*means, change, *compute_mean_interval(new - old)))
    columns = np.array(rows, np.float64).reshape(-1, 5).T
    return RuleCost(tuple(after), *columns)


def _show(change: float, width: float) -> str:
    return f"{change:+.4f}" if np.isnan(width) else f"{change:+.4f} ± {width / 2:.4f}"
