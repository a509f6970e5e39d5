"""A model and a test -> for whom, and for what, it does well or fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from csrr.arrays import AnyArray, Float64Array
from csrr.data import Log
from csrr.experiments.intervals import compute_mean_interval
from csrr.first_look.contest import Contestant, find_metric
from csrr.first_look.fair_test import FairTest
from csrr.plots.number_text import format_number_of
from csrr.ranking.metrics import mark_hits

HEAD, MIDDLE = 0.5, 0.8
"""Popular items have this share of the events, those up to the second the next ones; the others are rare."""


@dataclass(frozen=True)
class Group:
    """What a model comes to for a part of the users, or of the test events.

    Attributes
    ----------
    name
        Which part.
    model
        Whose lists.
    n
        How many users, or events.
    mean, low, high
        The mean and its 95 % interval; NaN where it cannot be told.
    """

    name: str
    model: str
    n: int
    mean: float
    low: float
    high: float


def group_users(contestants: Sequence[Contestant]) -> list[Group]:
    """Return the accuracy of models for new, light, medium and heavy users."""
    found = []
    for each in contestants:
        evaluation = each.evaluation
        assert evaluation is not None
        assert evaluation.n_train is not None
        values, history = evaluation.per_user[find_metric(each)], evaluation.n_train
        for name, which in _part_users(history):
            if which.any():
                mean = float(values[which].mean())
                found.append(Group(name, each.name, int(which.sum()), mean, *compute_mean_interval(values[which])))
    return found


def _part_users(history: AnyArray) -> list[tuple[str, AnyArray]]:
    """Return parts of about equal size by the number of events in train; those without any apart."""
    known = history[history > 0]
    if not len(known):
        return [("new users (no history)", history == 0)]
    low, high = (int(each) for each in np.quantile(known, [1 / 3, 2 / 3], method="lower"))
    return [
        ("new users (no history)", history == 0),
        (
            "light users (1 event)" if low == 1 else f"light users (1 to {low:,} events)",
            (history > 0) & (history <= low),
        ),
        (
            f"medium users ({low + 1:,} to {high:,} events)" if high > low + 1 else f"medium users ({high:,} events)",
            (history > low) & (history <= high),
        ),
        (f"heavy users (more than {format_number_of(high, 'event')})", history > high),
    ]


def group_items(contestants: Sequence[Contestant], test: FairTest) -> list[Group]:
    """Return which share of the test events of users with a history is in their lists, by the popularity of items."""
    rows, relevant, seen = _find_judged_rows(test), test.test.to_csr(), test.train.of_target().to_csr()
    parts = _part_items(test.train)
    found = []
    for each in contestants:
        assert each.model is not None
        items, _ = each.model.top_rows(rows, each.judged.at[0], seen=seen)
        hits = mark_hits(items, relevant, rows)
        for name, which in parts:
            asked = np.asarray(relevant[rows] @ which.astype(np.float64), np.float64)
            if asked.sum():
                mean, values = _linearise_ratio((hits & which[items]).sum(axis=1), asked)
                found.append(Group(name, each.name, int(asked.sum()), mean, *compute_mean_interval(values)))
    return found


def _find_judged_rows(test: FairTest) -> AnyArray:
    rows = test.train.users.rows(test.users)
    known: AnyArray = rows[test.train.user_counts()[rows] > 0]
    return known


def _part_items(train: Log) -> list[tuple[str, AnyArray]]:
    counts = train.item_counts()
    order = np.argsort(-counts, kind="stable")
    before = np.empty(len(counts))
    before[order] = (np.cumsum(counts[order]) - counts[order]) / max(1, len(train))
    known = counts > 0
    popular, medium = known & (before < HEAD), known & (before >= HEAD) & (before < MIDDLE)
    rare = known & (before >= MIDDLE)
    return [
        (f"popular items ({popular.sum():,} with half of the events)", popular),
        (f"medium items ({medium.sum():,})", medium),
        (f"rare items ({rare.sum():,} with the last fifth)", rare),
        (f"new items ({(~known).sum():,} without events)", ~known),
    ]


def _linearise_ratio(hits: AnyArray, asked: Float64Array) -> tuple[float, Float64Array]:
    """Return sum(hits)/sum(asked), and values of users whose mean and spread are its own, to first order."""
    ratio = float(hits.sum() / asked.sum())
    return ratio, ratio + (hits - ratio * asked) / asked.mean()
