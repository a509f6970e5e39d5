"""Predicted against observed rates of cells: of all, and by the popularity of items and the activity of users."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from csrr._base.arrays import AnyArray, Float64Array, Int64Array
from csrr.results.table import ResultTable, TabularResult

N_BINS = 15
_NORMAL_95 = 1.959964


@dataclass(frozen=True, eq=False, repr=False)
class Reliability(TabularResult):
    """Predicted against observed rates, in equal-width bins of [0, 1]; a bin without cells has NaN.

    Attributes
    ----------
    n_cells
        Number of cells, shape (n_bins,).
    n_positives
        Number of positives among them, shape (n_bins,).
    mean_probability
        The mean predicted probability of a bin, shape (n_bins,).
    rate
        The observed rate, shape (n_bins,): n_positives / n_cells / label_rate.
    low, high
        Its 95 % interval, by Wilson, shapes (n_bins,).
    label_rate
        The probability that a positive is observed in the data.
    by_popularity, by_activity
        The same by groups of items and of users, from few to many training events; None if not available.

    Examples
    --------
    >>> said, came_true = [0.1, 0.1, 0.9, 0.9], [0, 0, 1, 0]
    >>> found = csrr.Reliability.of(said, came_true, n_bins=2)
    >>> found.rate.tolist(), round(found.ece, 2)
    ([0.0, 0.5], 0.25)
    """

    n_cells: Int64Array
    n_positives: Int64Array
    mean_probability: Float64Array
    rate: Float64Array
    low: Float64Array
    high: Float64Array
    label_rate: float = 1.0
    by_popularity: GroupReliability | None = None
    by_activity: GroupReliability | None = None

    @classmethod
    def of(
        cls,
        probabilities: npt.ArrayLike,
        n_positives: npt.ArrayLike,
        n_cells: npt.ArrayLike = 1,
        *,
        label_rate: float = 1.0,
        n_bins: int = N_BINS,
    ) -> Reliability:
        """Return the bins of groups of cells.

        Parameters
        ----------
        probabilities
            The probability of each group, shape (n,).
        n_positives
            Its number of positives, shape (n,); of single cells, their labels, 0 or 1.
        n_cells
            Its number of cells, shape (n,).
        label_rate
            The probability that a positive is observed in the data.
        n_bins
            Number of bins.

        Returns
        -------
        reliability
            The bins.
        """
        said, positives, cells = np.broadcast_arrays(np.asarray(probabilities, np.float64), n_positives, n_cells)
        if not ((said >= 0) & (said <= 1)).all():
            raise ValueError("probabilities must lie between 0 and 1")
        place = np.minimum((said * n_bins).astype(np.int64), n_bins - 1)
        total, k, expected = (np.bincount(place, each, n_bins) for each in (cells, positives, said * cells))
        n = np.where(total > 0, total, np.nan)
        center = (k + _NORMAL_95**2 / 2) / (n + _NORMAL_95**2)
        half = _NORMAL_95 / (n + _NORMAL_95**2) * np.sqrt(np.maximum(k * (n - k) / n, 0) + _NORMAL_95**2 / 4)
        low, high = (np.clip(end, 0, 1) / label_rate for end in (center - half, center + half))
        # Sums of whole numbers in float64.
        n_cells_in, n_positives_in = (np.rint(each).astype(np.int64) for each in (total, k))
        return cls(n_cells_in, n_positives_in, expected / n, k / n / label_rate, low, high, label_rate)

    @property
    def ece(self) -> float:
        """The expected calibration error: the mean over cells of |mean_probability - rate| of their bin.

        In sparse data nearly all cells have a probability near 0 and dominate the mean: look at the other bins too.
        """
        gaps = np.abs(self.mean_probability - self.rate)
        return float(np.nansum(gaps * self.n_cells) / self.n_cells.sum())

    def pooled(self) -> Reliability:
        """Return all cells as one bin.

        Returns
        -------
        reliability
            One bin with the predicted and observed rates of all cells.
        """
        full = self.n_cells > 0
        counts = self.n_positives[full], self.n_cells[full]
        return Reliability.of(self.mean_probability[full], *counts, label_rate=self.label_rate, n_bins=1)

    def table(self) -> ResultTable:
        """Return the bins as a table.

        Returns
        -------
        table
            A row for each bin that has cells: from, to, cells, positives, probability, rate, low, high.
        """
        edges = np.linspace(0, 1, len(self.n_cells) + 1)
        columns: dict[str, AnyArray] = {
            "from": edges[:-1],
            "to": edges[1:],
            "cells": self.n_cells,
            "positives": self.n_positives,
            "probability": self.mean_probability,
            "rate": self.rate,
            "low": self.low,
            "high": self.high,
        }
        return ResultTable(columns).take(self.n_cells > 0)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a dict for each bin that has cells.

        Yields
        ------
        row
            The columns of `table`.
        """
        return self.table().rows()

    def _heading(self) -> str:
        return f"Reliability: ECE {self.ece:.4f}, {self.n_cells.sum():,} cells"

    # For csrr.plot

    title = "Reliability"

    @property
    def caption(self) -> str:
        """The caption of the plot."""
        shown = "" if self.label_rate == 1 else f" Rates count {1 / self.label_rate:.3g} positives for each one shown."
        return (
            f"{self.n_cells.sum():,} cells in {len(self.n_cells)} bins of probability, {self.n_positives.sum():,} of"
            f" them positive; expected calibration error {self.ece:.4f}. Bars are 95 % intervals (Wilson).{shown}"
        )

    @property
    def panels(self) -> list[dict[str, Any]]:
        """The one panel of the plot: rates against probabilities, beside the diagonal."""
        points = [
            {"x": row["probability"], "mean": row["rate"], "low": row["low"], "high": row["high"]}
            | {"note": f"{row['positives']:,} of {row['cells']:,} cells"}
            for row in self.rows()
        ]
        end = max(0.01, *(math.ceil(100 * point["x"]) / 100 for point in points))
        diagonal = [{"x": place, "mean": place} for place in (0.0, end)]
        series = [{"name": "perfect", "points": diagonal}, {"name": "observed", "points": points}]
        return [{"title": self.title, "x": "probability", "y": "share of positives", "series": series}]


@dataclass(frozen=True, eq=False, repr=False)
class GroupReliability(TabularResult):
    """Predicted against observed rates, by the popularity of items or by the activity of users.

    Attributes
    ----------
    by
        "popularity" or "activity".
    ends
        The most training events in each group but the last, shape (n_groups - 1,).
    parts
        The reliability of each group, n_groups of them.

    Examples
    --------
    >>> train, rest = csrr.split(csrr.synthetic(100, 40, events_per_user=10).log)
    >>> model = csrr.PopRank().fit(train)
    >>> calibration = model.calibrate(rest, users=range(50))
    >>> found = model.reliability(rest, users=range(50, 100))
    >>> found.by_activity.table().columns["positives"].sum() == found.n_positives.sum()
    True
    """

    by: str
    ends: Int64Array
    parts: tuple[Reliability, ...]

    @property
    def ece(self) -> Float64Array:
        """The calibration error of each group, shape (n_groups,); NaN where it has no cells."""
        return np.array([part.ece if part.n_cells.any() else np.nan for part in self.parts])

    @property
    def worst(self) -> dict[str, Any]:
        """The row of `table` with the largest calibration error."""
        return max(self.table().rows(), key=lambda row: row["ece"])

    def table(self) -> ResultTable:
        """Return the groups as a table.

        Returns
        -------
        table
            A row for each that has cells: from and to how many training events (the last has no end: None), cells,
            positives, probability (what was said), rate (what came true), its 95 % interval low and high, ece.
        """
        starts, ends = [0, *(self.ends + 1).tolist()], [*self.ends.tolist(), None]
        names, rows = ("from", "to", "cells", "positives", "probability", "rate", "low", "high", "ece"), []
        for first, last, part in zip(starts, ends, self.parts, strict=True):
            if not part.n_cells.any():
                continue
            [(_, _, *values)] = part.pooled().table().lines()
            rows.append(dict(zip(names, (first, last, *values, part.ece), strict=True)))
        return ResultTable.from_rows(rows, types={"to": pa.int64()})

    def _heading(self) -> str:
        row = self.worst
        rates = f"{row['probability']:.4f} said, {row['rate']:.4f} true"
        return f"Reliability by {self.by}: worst ECE {row['ece']:.4f}, {rates}"
