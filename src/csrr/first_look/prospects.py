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
from csrr.first_look.fair_test import LEAST_JUDGED, FairTest
from csrr.registry import MODELS

HALF_OF_USERS, HALF_OF_HISTORIES = "half of the users", "half of each history"
PARTS = (HALF_OF_USERS, HALF_OF_HISTORIES)
"""Of the training events, to tell what more users, or longer histories, might give."""
LONGEST = 50
CELLS_A_SECOND = 2e6
"""About how many pairs of user and item a cost curve gets through, all its fits and thresholds together."""


@dataclass(frozen=True)
class Learned:
    """What a model comes to that saw part of the training events, for the same users as with all of them.

    Attributes
    ----------
    part
        Which part: one of `PARTS`.
    n_users, n_events
        How many users and events it has.
    n_judged
        How many users the values are of; they have the whole of their history, or half of it, in the part.
    mean, low, high
        The mean of what decides, and its 95 % interval.
    whole
        The mean with all training events.
    gain, gain_low, gain_high
        `whole` minus `mean`, and its 95 % interval over the users.
    """

    part: str
    n_users: int
    n_events: int
    n_judged: int
    mean: float
    low: float
    high: float
    whole: float
    gain: float
    gain_low: float
    gain_high: float


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


def learn_from_less(best: Contestant, test: FairTest, part: str, seconds: float, seed: int) -> Learned | None:
    """Return what the kind of model makes of a part of the training events; None where that cannot be told in time.

    Half of the users are drawn. Both parts are judged on these: either the model has only them, with all they chose, or
    it has everybody, with half of what each chose.
    """
    drawn = np.random.default_rng(seed).permutation(test.train.n_users) < test.train.n_users / 2
    users = best.judged.users
    is_drawn = drawn[test.train.users.rows(users)]
    if is_drawn.sum() < LEAST_JUDGED:
        return None
    less = test.train.select(drawn[test.train.user_rows]) if part == HALF_OF_USERS else _halve_histories(test, seed)
    model = MODELS[best.name]()
    try:
        fit_within(model, less, seconds)
        # What was left out is no answer to find: the lists leave out all of train, as those of the best do.
        found = evaluate(model, test.train, test.test, at=best.judged.at, users=users[is_drawn], metrics=["ndcg"])
    except (TimeUpError, DataError):
        return None
    metric = find_metric(best)
    # Both are in the order of the rows.
    gain = best.judged.per_user[metric][is_drawn] - found.per_user[metric]
    whole = found[metric] + float(gain.mean())
    n_users = int(np.count_nonzero(less.user_counts()))
    told = found[metric], *found.interval(metric), whole, float(gain.mean()), *compute_mean_interval(gain)
    return Learned(part, n_users, len(less), found.n_users, *told)


def _halve_histories(test: FairTest, seed: int) -> Log:
    return split(test.train, ratio=0.5, seed=seed)[0]


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
