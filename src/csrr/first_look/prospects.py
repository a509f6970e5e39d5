"""What lists cost, and what more data might give."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from csrr.data import DataError, Log, split
from csrr.deadline import TimeUpError, cut_off
from csrr.experiments.cost_curve import CostCurve, cost_curve
from csrr.experiments.evaluate import evaluate
from csrr.experiments.intervals import compute_mean_interval
from csrr.first_look.contest import Contestant, find_metric, fit_within
from csrr.first_look.fair_test import FairTest
from csrr.registry import MODELS

SHARES = (0.25, 0.5)
"""Of the training events, for the learning curve; all of them are there already."""
LONGEST = 50
CELLS_A_SECOND = 2e6
"""About how many pairs of user and item a cost curve gets through, all its fits and thresholds together."""


@dataclass(frozen=True)
class Learned:
    """What a model comes to that saw a share of the training events.

    Attributes
    ----------
    share
        Of the training events.
    n_events
        How many they are.
    mean, low, high
        The mean of what decides, over users with a history in all of train, and its 95 % interval.
    """

    share: float
    n_events: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class ListCost:
    """What lists of a length come to for a user in the mean.

    Attributes
    ----------
    length
        Of the list.
    found
        The items of it that were chosen.
    in_vain
        The items of it that were not.
    missed
        Chosen items that are not in it.
    cost, low, high
        Misses and false alarms at their costs, with the 95 % interval.
    """

    length: int
    found: float
    in_vain: float
    missed: float
    cost: float
    low: float
    high: float


def learn_from_less(best: Contestant, test: FairTest, share: float, seconds: float, seed: int) -> Learned | None:
    """Return what the best kind of model makes of a share of the training events; None where the time is up."""
    part, _ = split(test.train, ratio=share, by="log", seed=seed)
    model = MODELS[best.name]()
    try:
        fit_within(model, part, seconds)
    except (TimeUpError, DataError):
        return None
    users = best.judged.users
    # What was left out of the part is no answer to find: the lists leave out all of train, as those of the best do.
    found = evaluate(model, test.train, test.test, at=best.judged.at, users=users, metrics=["ndcg"])
    metric = find_metric(best)
    return Learned(share, len(part), found[metric], *found.interval(metric))


def summarise_whole(best: Contestant, test: FairTest) -> Learned:
    """Return the end of the learning curve: all training events."""
    metric = find_metric(best)
    return Learned(1.0, len(test.train), best.judged[metric], *best.judged.interval(metric))


def price_lists(best: Contestant, test: FairTest, miss: float, false_alarm: float) -> list[ListCost]:
    """Return what lists of several lengths would cost; length 0 stands for no list."""
    assert best.model is not None
    longest = max(1, min(LONGEST, test.train.n_items // 2))
    found = evaluate(best.model, test.train, test.test, at=longest, users=best.judged.users, metrics=["recall"])
    hits = np.cumsum(found.hits, axis=1)
    lengths = sorted({k for k in (1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50) if k <= longest} | {longest})
    priced = []
    for k in (0, *lengths):
        right = hits[:, k - 1] if k else np.zeros(len(hits))
        missed, wrong = found.n_relevant - right, k - right
        costs = miss * missed + false_alarm * wrong
        means = float(right.mean()), float(wrong.mean()), float(missed.mean()), float(costs.mean())
        priced.append(ListCost(k, *means, *compute_mean_interval(costs)))
    return priced


def draw_costs(log: Log, miss: float, false_alarm: float, seconds: float, seed: int) -> CostCurve | None:
    """Return the cost curve of CSRR; None where it would not end within the seconds, or the log is too small."""
    if log.n_users * log.n_items > CELLS_A_SECOND * seconds:
        return None
    try:
        with cut_off(seconds):
            return cost_curve(log, miss=miss, false_alarm=false_alarm, seed=seed)
    except (TimeUpError, DataError):
        return None
