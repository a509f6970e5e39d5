"""Scores -> probabilities: how often cells of about one score are positives, by isotonic regression on held-out data.

The cells are those of the given rows that are not in `seen`; the positives are the ones stored in `relevant`. They are
counted in bins of the score, a block at a time, so that no users x items array ever exists; on request also by the
popularity of their item and the activity of their user, with a curve for each such group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from csrr._base.arrays import AnyArray, BoolArray, Float32Array, Float64Array, Int64Array, Rows
from csrr.data.errors import DataError
from csrr.ranking.reliability import N_BINS, GroupReliability, Reliability
from csrr.ranking.topk import Cells
from csrr.results.table import ResultTable, TabularResult

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
        return cls(popularity, _place_ends(popularity, n_groups), _place_ends(np.diff(seen.indptr), n_groups))

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

    def arrays(self) -> dict[str, AnyArray]:
        """Return all of it as arrays, for saving.

        Returns
        -------
        arrays
            By name.
        """
        arrays = vars(self.groups) | {name: array for name, array in vars(self).items() if name != "groups"}
        return {f"calibration.groups.{name}": array for name, array in arrays.items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, AnyArray]) -> GroupCurves | None:
        """Return the curves that `arrays` was made of.

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
        names = [field.name for kind in (CellGroups, cls) for field in fields(kind) if field.name != "groups"]
        if f"calibration.groups.{names[0]}" not in arrays:
            return None
        popularity, *ends, n_cells, n_positives, probabilities = (arrays[f"calibration.groups.{p}"] for p in names)
        if not all((each[1:] > each[:-1]).all() for each in ends):
            raise DataError("groups of a calibration whose ends fall are none")
        if not ((probabilities[..., 1:] >= probabilities[..., :-1]).all() and (n_positives <= n_cells).all()):
            raise DataError("a calibration of groups whose probabilities fall or counts do not go together is none")
        return cls(CellGroups(popularity, *ends), n_cells, n_positives, probabilities)


def _place_ends(counts: AnyArray, n_groups: int) -> Int64Array:
    """Return the largest count of each group but the last, of counts of shape (n,); no group is empty."""
    ordered = np.sort(counts)
    ends = np.unique(ordered[[len(ordered) * place // n_groups - 1 for place in range(1, n_groups)]])
    found: Int64Array = ends[ends < ordered[-1]].astype(np.int64)
    return found


Curves = TypeVar("Curves", "Calibration", GroupCurves)


def _divide(curves: Curves, label_rate: float) -> Curves:
    """Return curves for data that shows a positive with this chance: larger probabilities, cut at 1."""
    return replace(curves, probabilities=np.clip(curves.probabilities / label_rate, 0, 1))


def _take_shown_away(curves: Curves, label_rate: float) -> Curves:
    """Return the curves of the cells that are no held-out events; see `Calibration.remaining`."""
    p = curves.probabilities
    left = p * (1 - label_rate) / (1 - label_rate * p)
    none = np.zeros_like(curves.n_positives)
    return replace(curves, n_cells=curves.n_cells - curves.n_positives, n_positives=none, probabilities=left)


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


def _score_positives(cells: Cells) -> Iterator[tuple[slice, Float32Array, Any, Float32Array]]:
    """Yield which rows a block has, its scores, its positives (coo) and theirs.

    Scores are of shape (b, n_items), seen cells -inf; those of positives of shape (p,).
    """
    for part, scores in cells.score():
        mine = cells.relevant[cells.rows[part]].tocoo()
        yield part, scores, mine, scores[mine.row, mine.col]


def _count_in_bins(edges: Float32Array, groups: CellGroups, cells: Cells) -> tuple[Int64Array, Int64Array]:
    """Return the numbers of cells and of positives in each group and bin, shapes (n_activity, n_popularity, b)."""
    rows, seen = cells.rows, cells.seen
    n_cells, n_positives = np.zeros((2, *groups.shape, len(edges) + 1), np.int64)
    of_user, of_item = groups.of_users(np.diff(seen.indptr)[rows]), groups.of_items()
    for part, scores, mine, positives in _score_positives(cells):
        place = of_user[part][mine.row], of_item[mine.col], np.searchsorted(edges, positives)
        np.add.at(n_positives, place, 1)
        # Last: it sorts the very scores.
        for user, item, inside in _split_block(scores, of_user[part], of_item):
            n_cells[user, item] += _fill_histogram(inside, edges)
    # Seen cells are -inf, in the first bin.
    past = seen[rows].tocoo()
    np.subtract.at(n_cells, (of_user[past.row], of_item[past.col], 0), 1)
    return n_cells, n_positives


def _split_block(scores: Float32Array, of_user: Rows, of_item: Rows) -> Iterator[tuple[int, int, Float32Array]]:
    """Yield each group of a block and its scores, shape (n,)."""
    users, items = np.unique(of_user), np.unique(of_item)
    if len(users) == len(items) == 1:
        yield int(users[0]), int(items[0]), scores.reshape(-1)
        return
    columns = [np.flatnonzero(of_item == item) for item in items]
    for user in users:
        mine = scores[of_user == user]
        for item, chosen in zip(items, columns, strict=True):
            yield int(user), int(item), mine[:, chosen].reshape(-1)


def _fill_histogram(scores: Float32Array, edges: Float32Array) -> Int64Array:
    """Return the number of scores in each bin, shape (n_bins,); `scores`, shape (n,), are sorted in place."""
    scores.sort()
    if len(scores) and np.isnan(scores[-1]):
        raise ValueError("a score is NaN: there is no probability for it")
    return np.diff(np.searchsorted(scores, edges, side="right"), prepend=0, append=len(scores))


MOST_BINS = 1000
ROUNDING = np.float32(2.0**-19)
"""The share of the largest score by which edges lie below the scores of positives."""


@dataclass(frozen=True, eq=False, repr=False)
class Calibration(TabularResult):
    """Maps scores to the probability that an unseen item is chosen: a nondecreasing step function.

    Bin b holds the scores in (edges[b-1], edges[b]]. An edge lies just below the score of a positive, by more than
    scores are rounded: there and nowhere else can the isotonic regression of single cells step. With at most MOST_BINS
    distinct scores of positives every one has its bin, and this is that regression; with more, they share bins evenly.
    At the top it may rest on few cells.

    Held-out data shows only some of the positives among the unseen cells. Where the log, training and held-out events
    together, shows a share `observed_share` of all positives, (n_training + H)/observed_share - n_training positives
    are unseen, of which it shows H: each with the chance `label_rate`, if which ones are shown does not depend on the
    cell ("selected completely at random"). Then P(positive | score) = P(shown | score)/label_rate, cut at 1. With an
    observed_share of 1 the probability is that of an event that such held-out data would show.

    Attributes
    ----------
    edges
        The ends of the bins, shape (n_bins - 1,).
    n_cells
        Number of cells, shape (n_bins,).
    n_positives
        Number of positives among them, shape (n_bins,).
    probabilities
        The probability of a bin's cells, shape (n_bins,).
    n_training
        Number of the users' training events.
    observed_share
        The share of all positives that the log shows.
    curves
        The curves of groups of cells, by the popularity of items and the activity of users; or None.

    Examples
    --------
    >>> train, heldout = csrr.split(csrr.synthetic(100, 40, events_per_user=10).log)
    >>> model = csrr.PopRank().fit(train)
    >>> calibration = model.calibrate(heldout)
    >>> bool((np.diff(calibration.probability([0, 10, 20, 40])) >= 0).all())
    True
    """

    edges: Float32Array
    n_cells: Int64Array
    n_positives: Int64Array
    probabilities: Float64Array
    n_training: int
    observed_share: float = 1.0
    curves: GroupCurves | None = None

    @classmethod
    def of(cls, cells: Cells, *, observed_share: float = 1.0, n_groups: int = 1) -> Calibration:
        """Return the calibration on cells.

        Parameters
        ----------
        cells
            The unseen cells of some users, with their scores.
        observed_share
            The share of all positives that the log shows.
        n_groups
            Number of groups of items by their events in `seen`, and of users by theirs: each pair has its own curve
            beside the common one. With 1 there is the common one only.

        Returns
        -------
        calibration
            What turns scores into probabilities.

        Raises
        ------
        DataError
            If there are no positives to learn from.
        """
        from scipy.optimize import isotonic_regression

        n_shown, n_training = (int(np.diff(each.indptr)[cells.rows].sum()) for each in (cells.relevant, cells.seen))
        if n_shown == 0:
            raise DataError("calibration needs positives: none of these users has a held-out event that is not seen")
        groups = CellGroups.of(cells.seen, n_groups)
        # The very blocks that are counted: in others, products may be rounded another way.
        edges = _place_edges(np.concatenate([positives for *_, positives in _score_positives(cells)]))
        counts = _count_in_bins(edges, groups, cells)
        n_cells, n_positives = (each.sum((0, 1)) for each in counts)
        # Only the first bin can be empty: it lies below all positives.
        weights = np.maximum(n_cells, 1)
        rates = isotonic_regression(n_positives / weights, weights=weights).x
        common = np.clip(rates, 0, 1)
        curves = None if n_groups == 1 else GroupCurves.of(groups, *counts, common)
        return cls(edges, n_cells, n_positives, common, n_training, curves=curves).assuming(observed_share)

    def assuming(self, observed_share: float) -> Calibration:
        """Return the calibration, learned with an `observed_share` of 1, corrected for a smaller share.

        Parameters
        ----------
        observed_share
            The share that it shows.

        Returns
        -------
        calibration
            With larger probabilities.
        """
        if not 0 < observed_share <= 1:
            raise DataError(f"observed_share={observed_share!r}: a share of all positives, it must lie in (0, 1]")
        rate = _compute_label_rate(int(self.n_positives.sum()), self.n_training, observed_share)
        curves = None if self.curves is None else _divide(self.curves, rate)
        return replace(_divide(self, rate), observed_share=float(observed_share), curves=curves)

    @property
    def label_rate(self) -> float:
        """The probability that a positive among the unseen cells was observed."""
        return _compute_label_rate(int(self.n_positives.sum()), self.n_training, self.observed_share)

    def probability(
        self, scores: npt.ArrayLike, activity: npt.ArrayLike | None = None, item_rows: Rows | None = None
    ) -> Float64Array:
        """Return the probability of scores.

        Parameters
        ----------
        scores
            An array of any shape, or a number.
        activity, item_rows
            The number of training events of each score's user, and its item's row, of shapes that go with `scores`.
            With both, the curve is that of their group, where there are groups; without, the common one.

        Returns
        -------
        probabilities
            Of the same shape. Below the scores of all positives it is 0, above them that of the last bin; NaN stays
            NaN.
        """
        values = np.asarray(scores, np.float32)
        bins = np.searchsorted(self.edges, values)
        if self.curves is None or activity is None or item_rows is None:
            found = self.probabilities[bins]
        else:
            found = self.curves.find(bins, activity, item_rows)
        return np.where(np.isnan(values), np.nan, found)

    def threshold(self, miss: float, false_alarm: float) -> float:
        """Return the score above which recommending costs less than not recommending: p*miss > (1 - p)*false_alarm.

        Parameters
        ----------
        miss
            What it costs not to recommend a positive.
        false_alarm
            What it costs to recommend another.

        Returns
        -------
        score
            By the common curve. It is inf where no score is worth it. On the very cells that were counted, and with an
            observed_share of 1, no threshold costs less.
        """
        worth = self.worth(miss, false_alarm)
        if not worth.any():
            return float("inf")
        first = int(worth.argmax())
        return float(self.edges[first - 1]) if first else float("-inf")

    def worth(self, miss: float, false_alarm: float) -> BoolArray:
        """Return the bins in which recommending costs less than not recommending.

        Parameters
        ----------
        miss, false_alarm
            As for `threshold`.

        Returns
        -------
        worth
            Of each bin, shape (n_bins,): the last ones, or none.
        """
        for name, cost in (("miss", miss), ("false_alarm", false_alarm)):
            if not 0 < cost < np.inf:
                raise DataError(f"{name}={cost!r}: a cost must be a finite number above 0")
        worth: BoolArray = self.probabilities * miss > (1 - self.probabilities) * false_alarm
        return worth

    def expected_cost(self, miss: float, false_alarm: float) -> float:
        """Return what the counted cells are expected to cost in all, if those worth it are recommended.

        Parameters
        ----------
        miss, false_alarm
            As for `threshold`.

        Returns
        -------
        cost
            Of misses among the others and false alarms among these.
        """
        worth, said = self.worth(miss, false_alarm), self.probabilities
        return float(np.sum(self.n_cells * np.where(worth, (1 - said) * false_alarm, said * miss)))

    def remaining(self) -> Calibration:
        """Return the calibration of the cells that are neither training nor held-out events.

        Of a cell with probability p, shown with the chance c*p (c the label rate) but not shown, it is p*(1 - c)/(1 -
        c*p): Elkan and Noto's for the unlabeled. It differs from p where much was shown, at the top.

        Returns
        -------
        calibration
            Of the other cells.
        """
        if self.observed_share == 1:
            raise DataError("observed_share=1: the log shows every positive, so none remains; calibrate with less")
        c, n_training = self.label_rate, self.n_training + int(self.n_positives.sum())
        curves = None if self.curves is None else _take_shown_away(self.curves, c)
        return replace(_take_shown_away(self, c), n_training=n_training, curves=curves)

    def reliability(self, n_bins: int = N_BINS) -> Reliability:
        """Return the reliability on the cells that the calibration was learned from; `ece` is then too optimistic.

        Parameters
        ----------
        n_bins
            Number of bins of probability.

        Returns
        -------
        reliability
            Predicted and observed rates.
        """
        if not self.n_positives.any():
            raise DataError("what remains has no positives to compare with; use check with other held-out data")
        found = self if self.curves is None else self.curves
        said, *counts = (each.reshape(-1) for each in (found.probabilities, found.n_positives, found.n_cells))
        return Reliability.of(said, *counts, label_rate=self.label_rate, n_bins=n_bins)

    def check(self, cells: Cells, *, observed_share: float | None = None, n_bins: int = N_BINS) -> Reliability:
        """Return the reliability on other held-out data.

        Parameters
        ----------
        cells
            As for `of`.
        observed_share
            That of this data; without it, the calibration's own.
        n_bins
            Number of bins of probability.

        Returns
        -------
        reliability
            Predicted and observed rates: of all cells, and by popularity of items and activity of users.
        """
        groups = CellGroups.of(cells.seen, N_GROUPS) if self.curves is None else self.curves.groups
        n_cells, n_positives = _count_in_bins(self.edges, groups, cells)
        share = self.observed_share if observed_share is None else observed_share
        label_rate = _compute_label_rate(
            int(n_positives.sum()), int(np.diff(cells.seen.indptr)[cells.rows].sum()), share
        )
        said = np.broadcast_to(self.probabilities if self.curves is None else self.curves.probabilities, n_cells.shape)
        counted = said, n_positives, n_cells

        def measure(each: Iterable[AnyArray]) -> Reliability:
            return Reliability.of(*(array.reshape(-1) for array in each), label_rate=label_rate, n_bins=n_bins)

        by = {
            name: GroupReliability(name, ends, tuple(map(measure, zip(*parts, strict=True))))
            for name, ends, parts in (
                ("popularity", groups.popularity_ends, [np.moveaxis(each, 1, 0) for each in counted]),
                ("activity", groups.activity_ends, counted),
            )
        }
        if self.curves is None:
            counted = self.probabilities, n_positives.sum((0, 1)), n_cells.sum((0, 1))
        return replace(measure(counted), by_popularity=by["popularity"], by_activity=by["activity"])

    def arrays(self) -> dict[str, AnyArray]:
        """Return all of it as arrays, for saving.

        Returns
        -------
        arrays
            By name.
        """
        numbers = np.array([self.n_training, self.observed_share])
        parts: tuple[AnyArray, ...] = (self.edges, self.n_cells, self.n_positives, self.probabilities, numbers)
        common = {f"calibration.{name}": part for name, part in zip(_PARTS, parts, strict=True)}
        return common if self.curves is None else common | self.curves.arrays()

    @classmethod
    def from_arrays(cls, arrays: dict[str, AnyArray]) -> Calibration | None:
        """Return the calibration that `arrays` was made of.

        Parameters
        ----------
        arrays
            Arrays by name, others among them.

        Returns
        -------
        calibration
            None where there is none among them.

        Raises
        ------
        DataError
            If they are not those of a calibration.
        """
        if f"calibration.{_PARTS[0]}" not in arrays:
            return None
        edges, n_cells, n_positives, probabilities, numbers = (arrays[f"calibration.{name}"] for name in _PARTS)
        n_training, share, n_shown = int(numbers[0]), float(numbers[1]), int(n_positives.sum())
        if not ((edges[1:] > edges[:-1]).all() and (probabilities[1:] >= probabilities[:-1]).all()):
            raise DataError("a calibration whose edges or probabilities fall is none")
        # Of what remains once the held-out events are known there are no positives; some of it must be hidden then.
        is_counted = n_shown > 0 or (share < 1 and n_training > 0)
        if not (0 < share <= 1 and is_counted and (n_positives <= n_cells).all()):
            raise DataError("a calibration whose counts do not go together is none")
        curves = GroupCurves.from_arrays(arrays)
        if curves is not None and not np.array_equal(curves.n_cells.sum((0, 1)), n_cells):
            raise DataError("a calibration whose groups are not all its cells is none")
        return cls(edges, n_cells, n_positives, probabilities, n_training, share, curves)

    def table(self) -> ResultTable:
        """Return the bins as a table.

        Returns
        -------
        table
            A row for each: the scores from (excluded) and to, cells, positives, probability.
        """
        ends = np.concatenate(([-np.inf], self.edges, [np.inf])).astype(np.float32)
        columns: dict[str, AnyArray] = {
            "from": ends[:-1],
            "to": ends[1:],
            "cells": self.n_cells,
            "positives": self.n_positives,
            "probability": self.probabilities,
        }
        return ResultTable(columns)

    def _heading(self) -> str:
        return repr(self)

    def __repr__(self) -> str:
        share = "" if self.observed_share == 1 else f", observed_share {self.observed_share:g}"
        groups = (
            "" if self.curves is None else ", in {} x {} groups of users and items".format(*self.curves.groups.shape)
        )
        return (
            f"Calibration: {self.n_cells.sum():,} cells, {self.n_positives.sum():,} positives{share}{groups};"
            f" probabilities up to {self.probabilities[-1]:.4f} in {len(np.unique(self.probabilities)):,} steps"
        )


_PARTS = ("edges", "n_cells", "n_positives", "probabilities", "numbers")


def _compute_label_rate(n_shown: int, n_training: int, observed_share: float) -> float:
    # At a share of 1 this is 1 exactly, whatever is rounded.
    return n_shown / ((n_training + n_shown) / observed_share - n_training)


def _place_edges(positives: Float32Array) -> Float32Array:
    """Return edges just below each of at most MOST_BINS scores of positives, increasing.

    They are below by more than rounding: scores of lists, and of one user, have other last bits than those of blocks.
    """
    distinct = np.unique(positives)
    if len(distinct) > MOST_BINS:
        ordered = np.sort(positives)
        distinct = np.unique(ordered[np.arange(MOST_BINS) * len(ordered) // MOST_BINS])
    largest = np.abs(distinct[np.isfinite(distinct)]).max(initial=0)
    edges = np.unique(np.minimum(np.nextafter(distinct, np.float32(-np.inf)), distinct - ROUNDING * largest))
    return edges[edges > -np.inf]
