"""Held-out training events -> what `reg="auto"` comes to: the rule's strength times a power of a step."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from csrr.data import Log
from csrr.models.choose_settings import LEAST_USERS, hold_out
from csrr.models.recommender import Recommender
from csrr.parameters import ParameterError
from csrr.ranking import mark_hits
from csrr.ranking.metrics import ndcg
from csrr.threads import use_threads

_logger = logging.getLogger(__name__)

AT = 20
"""The length of the lists whose NDCG decides."""
MOST_STEPS = 8
"""A walk ends after so many steps, if it still gains."""


def find_best_multiple(
    model: Recommender, log: Log, rule: Callable[[Log], float], *, step: float, seed: int = 0, **options: Any
) -> float:
    """Return the power of `step` by which a rule's `reg` is to be multiplied to rank held-out events best.

    A tenth of the events is held out of the log. Models like `model`, which has the parameters `reg` and `threads`,
    are fitted to the rest, with `options`, with `rule(rest)` times a power of `step`: down from 1, or else up, while
    the mean over users of the NDCG@20 of the held-out events rises. A log that is too small for that gives 1.
    """
    parts, name = hold_out(log, seed), type(model).__name__
    if parts is None:
        _logger.info("%s: reg is the rule's: fewer than %d users have events to hold out", name, LEAST_USERS)
        return 1.0
    rest, heldout = parts
    first, params = rule(rest), model.get_params()

    def score(multiple: float) -> float:
        try:
            fitted = type(model)(**params | {"reg": first * multiple}).fit(rest, **options)
        except ParameterError:
            if multiple == 1:
                raise
            # So weak that the system is singular in its precision.
            return -np.inf
        # One thread of BLAS rounds alike, however many there are.
        with use_threads(params["threads"], blas=1):
            return measure_ndcg(fitted, heldout)

    multiple, n_fits = climb(score, step)
    _logger.info("%s: reg is %g times the rule's, the best of %d fits", name, multiple, n_fits)
    return multiple


def climb(score: Callable[[float], float], step: float) -> tuple[float, int]:
    """Return the power of `step` where a walk from 1 stops gaining, first down, else up, and how many were scored."""
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
    items, _ = model.top_rows(rows, AT, seen=model.seen_)
    return float(ndcg(mark_hits(items, relevant, rows), counts[rows]).mean())
