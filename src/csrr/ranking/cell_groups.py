"""Cells by how popular their item and how active their user is, and the curve of each such group."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from csrr.arrays import AnyArray, Float64Array, Int64Array, Rows
from csrr.data import DataError

N_GROUPS = 5
"""The number of groups by popularity, and by activity, that are reported where a calibration has none."""
PRIOR_POSITIVES = 100.0
"""The common curve counts as much as so many positives in each group: measured, see docs/math.md."""


@dataclass(frozen=True, eq=False)
class CellGroups:
    """Groups of cells: by the number of their item's training events, and by that of their user's.

    Attributes
    ----------
    popularity
        The number of training events of each item, shape (n_items,).
    popularity_ends
        The most events of an item in each group but the last, increasing, shape (n_popularity - 1,).
    activity_ends
        The same of users, shape (n_activity - 1,).
    """

    popularity: Int64Array
    popularity_ends: Int64Array
    activity_ends: Int64Array

    @classmethod
    def of(cls, seen: Any, n_groups: int) -> CellGroups:
        """Return groups of about equally many items, and of about equally many users.

        Parameters
        ----------
        seen
            The training events, csr of shape (n_users, n_items).
        n_groups
            The number of groups of each; equal counts stay together, so there may be fewer.

        Returns
        -------
        groups
            The groups.
        """
        popularity = np.bincount(seen.indices, minlength=seen.shape[1]).astype(np.int64)
        return cls(popularity, _find_ends(popularity, n_groups), _find_ends(np.diff(seen.indptr), n_groups))

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of groups by activity and by popularity."""
        return len(self.activity_ends) + 1, len(self.popularity_ends) + 1

    def of_users(self, activity: npt.ArrayLike) -> Rows:
        """Return the groups of users.

        Parameters
        ----------
        activity
            Their numbers of training events, of any shape.

        Returns
        -------
        groups
            Of the same shape.
        """
        return np.searchsorted(self.activity_ends, np.asarray(activity))

    def of_items(self, item_rows: Rows | None = None) -> Rows:
        """Return the groups of items.

        Parameters
        ----------
        item_rows
            Their rows, of any shape; None for all.

        Returns
        -------
        groups
            Of the same shape, or (n_items,).
        """
        counts = self.popularity if item_rows is None else self.popularity[item_rows]
        return np.searchsorted(self.popularity_ends, counts)


@dataclass(frozen=True, eq=False)
class GroupCurves:
    """A calibration for each group of cells: a probability that never falls with the score.

    The curve of a group is the isotonic regression of its rates, each drawn to the common curve as though that had been
    seen in PRIOR_POSITIVES further positives; a bin without cells of the group has the common probability.

    Attributes
    ----------
    groups
        Which cells go together.
    n_cells, n_positives
        The numbers of cells and of positives, shape (n_activity, n_popularity, n_bins).
    probabilities
        The probability of a bin's cells, of the same shape.
    """

    groups: CellGroups
    n_cells: Int64Array
    n_positives: Int64Array
    probabilities: Float64Array

    @classmethod
    def of(cls, groups: CellGroups, n_cells: Int64Array, n_positives: Int64Array, common: Float64Array) -> GroupCurves:
        """Return the curves of counted cells.

        Parameters
        ----------
        groups
            Which cells go together.
        n_cells, n_positives
            The counts, shape (n_activity, n_popularity, n_bins).
        common
            The probabilities of all cells, shape (n_bins,).

        Returns
        -------
        curves
            The curves.
        """
        probabilities = np.empty(n_cells.shape)
        for group in np.ndindex(groups.shape):
            probabilities[group] = _fit_curve(n_cells[group], n_positives[group], common)
        return cls(groups, n_cells, n_positives, probabilities)

    def find(self, bins: Rows, activity: npt.ArrayLike, item_rows: Rows) -> Float64Array:
        """Return the probabilities of cells.

        Parameters
        ----------
        bins
            The bins of their scores, of any shape.
        activity
            The numbers of training events of their users, of a shape that goes with it.
        item_rows
            The rows of their items, likewise.

        Returns
        -------
        probabilities
            Of the shape of `bins`.
        """
        return self.probabilities[self.groups.of_users(activity), self.groups.of_items(item_rows), bins]

    def divided_by(self, label_rate: float) -> GroupCurves:
        """Return the same where a positive is shown with this chance.

        Parameters
        ----------
        label_rate
            The chance.

        Returns
        -------
        curves
            With larger probabilities, cut at 1.
        """
        return replace(self, probabilities=np.clip(self.probabilities / label_rate, 0, 1))

    def remaining(self, label_rate: float) -> GroupCurves:
        """Return the curves of the cells that are no held-out events; see `Calibration.remaining`.

        Parameters
        ----------
        label_rate
            The chance that a positive was shown.

        Returns
        -------
        curves
            Of the other cells.
        """
        p = self.probabilities
        left = p * (1 - label_rate) / (1 - label_rate * p)
        none = np.zeros_like(self.n_positives)
        return replace(self, n_cells=self.n_cells - self.n_positives, n_positives=none, probabilities=left)

    def arrays(self) -> dict[str, AnyArray]:
        """Return all of it as arrays, for saving.

        Returns
        -------
        arrays
            By name.
        """
        groups = self.groups
        own = groups.popularity, groups.popularity_ends, groups.activity_ends
        parts: tuple[AnyArray, ...] = (*own, self.n_cells, self.n_positives, self.probabilities)
        return {f"calibration.groups.{name}": part for name, part in zip(_PARTS, parts, strict=True)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, AnyArray]) -> GroupCurves | None:
        """Return what `arrays` was made of.

        Parameters
        ----------
        arrays
            Arrays by name, others among them.

        Returns
        -------
        curves
            None where there are none among them.

        Raises
        ------
        DataError
            If they are not those of curves.
        """
        if f"calibration.groups.{_PARTS[0]}" not in arrays:
            return None
        popularity, *ends, n_cells, n_positives, probabilities = (arrays[f"calibration.groups.{p}"] for p in _PARTS)
        if not all((each[1:] > each[:-1]).all() for each in ends):
            raise DataError("groups of a calibration whose ends fall are none")
        if not ((probabilities[..., 1:] >= probabilities[..., :-1]).all() and (n_positives <= n_cells).all()):
            raise DataError("a calibration of groups whose probabilities fall or counts do not go together is none")
        return cls(CellGroups(popularity, *ends), n_cells, n_positives, probabilities)


_PARTS = ("popularity", "popularity_ends", "activity_ends", "n_cells", "n_positives", "probabilities")


def _find_ends(counts: AnyArray, n_groups: int) -> Int64Array:
    """Return where to cut sorted counts, shape (n,), into groups: none of them is empty."""
    ordered = np.sort(counts)
    ends = np.unique(ordered[[len(ordered) * place // n_groups - 1 for place in range(1, n_groups)]])
    found: Int64Array = ends[ends < ordered[-1]].astype(np.int64)
    return found


def _fit_curve(n_cells: Int64Array, n_positives: Int64Array, common: Float64Array) -> Float64Array:
    """Return the probabilities of one group, shape (n_bins,), from its counts and the common ones."""
    from scipy.optimize import isotonic_regression

    expected = float(n_cells @ common)
    if expected == 0:
        return common
    share = expected / (expected + PRIOR_POSITIVES)
    rates = share * (n_positives / np.maximum(n_cells, 1)) + (1 - share) * common
    # A bin without cells must not bend the others.
    weights = np.where(n_cells > 0, n_cells, 1e-9)
    fitted = isotonic_regression(np.where(n_cells > 0, rates, common), weights=weights).x
    return np.clip(fitted, 0, 1)
