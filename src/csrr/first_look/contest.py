"""A test -> the baseline, the classics and CSRR, each fitted within its time and judged on the same users."""

from __future__ import annotations

import time
from dataclasses import dataclass

from csrr.data import DataError, Log
from csrr.deadline import TimeUpError, cut_off, limit_time
from csrr.experiments.compare import Comparison, compare
from csrr.experiments.evaluate import Evaluation, evaluate
from csrr.first_look.fair_test import FairTest
from csrr.models.csrr import CSRR
from csrr.models.recommender import Recommender
from csrr.parameters import ParameterError
from csrr.plots.number_text import format_duration
from csrr.printable import describe_size
from csrr.registry import MODELS

FLOOR = "PopRank"
CONTESTANTS = (FLOOR, "ItemKNN", "EASE", "WRMF", "CSRR")
LENGTH = 10
METRICS = ("ndcg", "recall", "precision", "hit_rate", "coverage", "novelty")
EASE_SECONDS_PER_CUBE, EASE_BYTES_PER_SQUARE = 2e-10, 12
"""About the seconds that EASE takes for each item cubed, and the memory for each item squared; it cannot be cut off
while it is at it."""
EASE_SHARE = 0.2
"""The share of all time that EASE may take by that estimate."""


@dataclass(frozen=True, eq=False)
class Contestant:
    """A model in the contest.

    Attributes
    ----------
    name
        The kind of model.
    seconds
        What the fit took.
    model
        The fitted model; None where it has not finished.
    evaluation
        What it comes to for all users asked about.
    note
        Why it has not finished, or what else is worth knowing.
    """

    name: str
    seconds: float
    model: Recommender | None = None
    evaluation: Evaluation | None = None
    note: str = ""

    @property
    def judged(self) -> Evaluation:
        """The evaluation of the users with a history, which sets models apart."""
        assert self.evaluation is not None
        return self.evaluation.by_history.get("with", self.evaluation)


def choose_length(log: Log) -> int:
    """Return how long the lists are: ten, or half of the items where these are few."""
    return max(1, min(LENGTH, log.n_items // 2))


def fit_contestant(name: str, test: FairTest, seconds: float, total: float) -> Contestant:
    """Return a model fitted within some seconds, of `total` for everything, and judged; `total` inf: at any cost."""
    if name == "EASE" and EASE_SECONDS_PER_CUBE * test.train.n_items**3 > EASE_SHARE * total:
        return Contestant(name, 0.0, note=f"left out: {_price_ease(test.train.n_items)}")
    began = time.perf_counter()
    model: Recommender = MODELS[name]()
    try:
        fit_within(model, test.train, seconds)
    except TimeUpError:
        more = "--ease (in Python: ease=True) waits for it" if name == "EASE" else "--minutes gives it more"
        return Contestant(name, time.perf_counter() - began, note=f"not finished within {seconds:.0f} s; {more}")
    except (DataError, ParameterError, MemoryError) as error:
        return Contestant(name, time.perf_counter() - began, note=f"left out: {error}")
    took = time.perf_counter() - began
    length = choose_length(test.train)
    found = evaluate(model, test.train, test.test, at=length, users=test.users, metrics=METRICS)
    return Contestant(name, took, model, found, _describe_end(model))


def _price_ease(n_items: int) -> str:
    """Return what EASE would take, and how to have it."""
    took = format_duration(EASE_SECONDS_PER_CUBE * n_items**3)
    memory = describe_size(EASE_BYTES_PER_SQUARE * n_items**2)
    return f"its {n_items:,} items would take about {took} and {memory}; --ease (in Python: ease=True) has it fitted"


def fit_within(model: Recommender, log: Log, seconds: float) -> None:
    """Fit a model; raises TimeUpError where it cannot end within the seconds.

    CSRR ends by itself, with what it has; what it is at then takes a while.
    """
    grace = 1.5 if isinstance(model, CSRR) else 1.0
    with limit_time(seconds), cut_off(grace * seconds):
        model.fit(log)


def _describe_end(model: Recommender) -> str:
    certificate = getattr(model, "certificate_", None)
    return "" if certificate is None else str(certificate)


def compare_contestants(done: list[Contestant], best: Contestant) -> Comparison | None:
    """Return paired tests of all others against the best, on users with a history; None of fewer than two models."""
    if len(done) < 2:
        return None
    return compare({each.name: each.judged for each in done}, find_metric(best), baseline=best.name)


def find_metric(contestant: Contestant) -> str:
    """Return the name of what decides."""
    return f"ndcg@{contestant.judged.at[0]}"


def choose_best(done: list[Contestant]) -> Contestant:
    """Return the one with the best lists; of equals, the simpler one."""
    return max(done, key=lambda each: each.judged[find_metric(each)])


def choose_personal(done: list[Contestant]) -> Contestant | None:
    """Return the best one whose lists differ from person to person; None where none of these finished."""
    personal = [each for each in done if each.name != FLOOR]
    return choose_best(personal) if personal else None
