"""Probabilities against what happened, for rare and popular items and for light and heavy users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from csrr.arrays import Float64Array, Int64Array
from csrr.ranking.cell_groups import CellGroups
from csrr.ranking.reliability import N_BINS, Reliability
from csrr.ranking.result_table import ResultTable, TabularResult


@dataclass(frozen=True, eq=False, repr=False)
class GroupReliability(TabularResult):
    """What was said and what came true, by the popularity of items or by the activity of users.

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

    @classmethod
    def of(
        cls,
        by: str,
        groups: CellGroups,
        probabilities: Float64Array,
        n_positives: Int64Array,
        n_cells: Int64Array,
        *,
        label_rate: float = 1.0,
        n_bins: int = N_BINS,
    ) -> GroupReliability:
        """Return the reliability of each group.

        Parameters
        ----------
        by
            "popularity" or "activity".
        groups
            Which cells go together.
        probabilities, n_positives, n_cells
            What was said of the cells of a group and bin, and their counts, shapes (n_activity, n_popularity, b).
        label_rate, n_bins
            As for `Reliability.of`.

        Returns
        -------
        reliability
            That of each group.
        """
        axis, ends = (1, groups.popularity_ends) if by == "popularity" else (0, groups.activity_ends)
        counted = [np.moveaxis(each, axis, 0) for each in (probabilities, n_positives, n_cells)]
        parts = tuple(
            Reliability.of(*(each.reshape(-1) for each in group), label_rate=label_rate, n_bins=n_bins)
            for group in zip(*counted, strict=True)
        )
        return cls(by, ends, parts)

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
        rows = []
        for first, last, part in zip(starts, ends, self.parts, strict=True):
            if not part.n_cells.any():
                continue
            whole = part.pooled()
            numbers = {
                "from": first,
                "to": last,
                "cells": int(whole.n_cells[0]),
                "positives": int(whole.n_positives[0]),
            }
            told = {"probability": whole.mean_probability, "rate": whole.rate, "low": whole.low, "high": whole.high}
            rows.append(numbers | {name: float(each[0]) for name, each in told.items()} | {"ece": part.ece})
        return ResultTable.from_rows(rows, types={"to": pa.int64()})

    def _heading(self) -> str:
        row = self.worst
        told = f"{row['probability']:.4f} said, {row['rate']:.4f} true"
        return f"Reliability by {self.by}: worst ECE {row['ece']:.4f}, {told}"
