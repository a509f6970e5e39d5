"""Events held out of a training log, to choose "auto" parameters on them; and the choice of a single one, `reg`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from csrr._base.arrays import BoolArray
from csrr._base.text import show_argument
from csrr._base.threads import use_threads
from csrr.data.log import Log, mark_leading
from csrr.model_parameters import HoldOut
from csrr.models.base import Recommender
from csrr.models.recommend import rank_items
from csrr.parameters import ParameterError
from csrr.ranking.metrics import mark_hits, ndcg

LIST_LENGTH = 20
"""Choices maximize NDCG at this length."""
SHARE, MOST_OF_TARGET = 0.1, 0.5
"""The share of each user's events that is held out, and the largest share of their events of the target type."""
LEAST_EVENTS, LEAST_USERS = 3, 150
"""A user with fewer events keeps all of them; a log with fewer users who have held-out events is too small."""
MOST_USERS, MOST_SCORES = 2500, 6 * 10**7
"""The largest number of users, and of their scores of all items; a third of these users is always allowed."""
MOST_STEPS = 8
"""A hill climb ends after so many steps in one direction, even if it still gains."""

_logger = logging.getLogger(__name__)


class HeldOut(NamedTuple):
    """The events to fit, those held out, and how they were taken: "random", "last" or "time"."""

    fitted: Log
    heldout: Log
    way: HoldOut


def hold_out(log: Log, seed: int, way: HoldOut = "auto", share: float = SHARE) -> HeldOut | None:
    """Return a log in two, a share held out, or None where too few users can spare an event.

    Of a log with a target, only pairs of that type are held out, with all their events: if a view of a bought item
    stayed in the log, the purchase would be too easy to predict. Where the last or all from a time on are held out,
    later events of other types are in neither part. With "auto", events are held out as the log's own test was, twice
    the share where that leaves too few users, and at random where that is not enough.
    """
    if way == "auto":
        kind = resolve_way(log, way)
        tries = [(kind, share), (kind, 2 * share)] * (kind != "random") + [("random", share)]
        return next((found for each in tries if (found := hold_out(log, seed, *each)) is not None), None)
    rng = np.random.default_rng(seed)
    if (way == "last" and not log.is_ordered) or (way == "time" and log.times is None):
        also = f", or {show_argument('ordered', True)} if the rows are in order" if way == "last" else ""
        raise ParameterError.of(
            "hold_out", way, f"needs events with times, and these have none; read a time column{also}"
        )
    counts = log.user_counts()
    held = _mark_end(log, share) if way == "time" else _mark_share(log, counts, share, rng, latest=way == "last")
    kept = ~held if way == "random" else _mark_before(log, held, of_all=way == "time")
    spared, left = (np.bincount(log.user_rows[mask], minlength=log.n_users) for mask in (held, kept))
    users = np.flatnonzero((spared > 0) & (left > 0))
    if len(users) < LEAST_USERS:
        return None
    most = min(MOST_USERS, max(MOST_SCORES // log.n_items, MOST_USERS // 3))
    is_chosen = np.zeros(log.n_users, np.bool_)
    is_chosen[rng.permutation(users)[:most]] = True
    return HeldOut(log.select(kept), log.select(held & is_chosen[log.user_rows]), way)


def resolve_way(log: Log, way: HoldOut) -> HoldOut:
    """Return how events are held out of a log; "auto" means: in the same way as its own test."""
    if way != "auto":
        return way
    return "random" if log.cut is None or not log.is_ordered else "time" if log.cut == "time" else "last"


def _mark_share(log: Log, counts: Any, share: float, rng: np.random.Generator, *, latest: bool) -> BoolArray:
    """A share of each user's events, at random or the latest, (n_events,); `counts`, (n_users,), are of all events."""
    is_target = log.is_target
    # On average so many: of 7 events one in seven of ten cases for a tenth. Of rare purchases at most half.
    most_of_target = MOST_OF_TARGET * np.bincount(log.user_rows[is_target], minlength=log.n_users)
    n_held = np.floor(np.minimum(share * counts, most_of_target) + rng.random(log.n_users)).astype(np.int64)
    n_held[counts < LEAST_EVENTS] = 0
    if latest:
        return mark_leading(log, np.lexsort((log.find_ages(), ~is_target, log.user_rows)), n_held)
    drawn = (log.user_rows.astype(np.int64) << 33) | rng.integers(2**32, size=len(log))
    return mark_leading(log, np.argsort(drawn | (~is_target).astype(np.int64) << 32, kind="stable"), n_held)


def _mark_end(log: Log, share: float) -> BoolArray:
    """The last share of all events in time that may be held out, (n_events,)."""
    assert log.times is not None
    of_target = log.times[log.is_target]
    held: BoolArray = log.is_target & (log.times >= np.quantile(of_target, 1 - share, method="higher"))
    return held


def _mark_before(log: Log, held: BoolArray, *, of_all: bool) -> BoolArray:
    """The events before the first held-out one, (n_events,): `of_all` users, or of the user."""
    if of_all:
        assert log.times is not None
        early: BoolArray = log.times < log.times[held].min()
        return early
    ages, first = log.find_ages(), np.full(log.n_users, -1)
    np.maximum.at(first, log.user_rows[held], ages[held])
    return ages > first[log.user_rows]


def find_best_multiple(
    model: Recommender, log: Log, rule: Callable[[Log], float], *, step: float, seed: int = 0, **options: Any
) -> float:
    """Return the power of `step` by which a rule's `reg` is to be multiplied to rank held-out events best.

    Models like `model`, which has the parameters `reg` and `threads`, are fitted to the other events, with `options`,
    with `rule(rest)` times a power of `step`: down from 1, or else up, while the mean over users of the NDCG@20 of the
    held-out events rises. The result for a log that is too small is 1.
    """
    parts, name = hold_out(log, seed), type(model).__name__
    if parts is None:
        _logger.info("%s: reg is the rule's: fewer than %d users have events to hold out", name, LEAST_USERS)
        return 1.0
    rest, heldout, _ = parts
    first, params = rule(rest), model.get_params()

    def score(multiple: float) -> float:
        try:
            fitted = type(model)(**params | {"reg": first * multiple}).fit(rest, **options)
        except ParameterError:
            if multiple == 1:
                raise
            # A penalty so weak that the system is singular in its precision.
            return -np.inf
        # With one thread, BLAS rounds alike on any number of cores.
        with use_threads(params["threads"], blas=1):
            return measure_ndcg(fitted, heldout)

    multiple, n_fits = climb(score, step)
    _logger.info("%s: reg is %g times the rule's, the best of %d fits", name, multiple, n_fits)
    return multiple


def climb(score: Callable[[float], float], step: float) -> tuple[float, int]:
    """Return the power of `step` where a climb from 1 stops gaining, first down, else up, and the number of scores."""
    best, n_scored = score(1.0), 1
    for direction in (-1, 1):
        power = 0
        while abs(power) < MOST_STEPS:
            value = score(step ** (power + direction))
            n_scored += 1
            if value <= best:
                break
            power, best = power + direction, value
        if power:
            return step**power, n_scored
    return 1.0, n_scored


def measure_ndcg(model: Recommender, heldout: Log) -> float:
    """Return the mean, over the users with an event in `heldout`, of the NDCG@20 of a model's lists of unseen items.

    The row numbers of `heldout` are those of the log that the model was fitted to.
    """
    relevant = heldout.to_csr()
    counts = np.diff(relevant.indptr)
    rows = np.flatnonzero(counts)
    items, _ = rank_items(model, rows, LIST_LENGTH, seen=model.seen_)
    return float(ndcg(mark_hits(items, relevant, rows), counts[rows]).mean())
