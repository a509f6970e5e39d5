"""Parameters -> a validation score: the folds, the metric, the walk along strengths, the looks at a training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from csrr.data import DataError, Log, as_log, split
from csrr.experiments.evaluate import evaluate
from csrr.experiments.spaces import Walk
from csrr.models.bprmf import BPRMF, Epoch
from csrr.models.heldout import find_unseen_events
from csrr.models.popularity import PopRank
from csrr.models.recommender import Recommender
from csrr.parameters import ParameterError, check_whole
from csrr.ranking.metrics import METRICS

LOOKS = (0.5, 0.75)
"""The shares of a training by stochastic steps after which it is scored, to see whether it is worth going on."""

FALLEN, IN_A_ROW = 0.01, 2
"""A walk ends when this many scores in a row lie below its best by more than this share of it. Not in its first third:
fits of rank 1 and 2 may score less than one of rank 0, and cost little."""

Report = Callable[[int, float], object]
"""Told the number of a step, from 0, and the score there; may raise to end the trial."""


class Fold(NamedTuple):
    """What is fitted and what is asked for, in the same row numbers."""

    train: Log
    valid: Log


class Score(NamedTuple):
    """The score of a trial and, where it walked, the strength that had it."""

    value: float
    strength: float | None = None


@dataclass(frozen=True)
class Validation:
    """How models are judged: a metric, like "ndcg@10", as the mean over folds of its mean over users."""

    folds: list[Fold]
    metric: str
    threads: int | None = None

    def score(self, model: Recommender, fold: Fold) -> float:
        """Return the metric of a model fitted to the fold's train part."""
        name, k = self.metric.split("@")
        needed = ("precision", "recall") if name == "f1_of_means" else (name,)
        found = evaluate(model, fold.train, fold.valid, at=int(k), metrics=needed, threads=self.threads)
        return found[self.metric]

    def judge(
        self, model: Recommender, walk: tuple[str, Walk] | None, report: Report, late: Callable[[], bool]
    ) -> Score:
        """Return the score of a model with these parameters; it is left unfitted.

        With `walk`, a parameter and its strengths, the best score along them; the walk also ends when it is `late`.
        """
        if walk is not None:
            return self._judge_walk(model, *walk, report, late)
        scores: list[float] = []
        for number, fold in enumerate(self.folds):
            first = number * (len(LOOKS) + 1)
            scores.append(self.score(self._fit_fold(model, fold, report, first), fold))
            if number + 1 < len(self.folds):
                report(first + len(LOOKS), float(np.mean(scores)))
        return Score(float(np.mean(scores)))

    def _fit_fold(self, model: Recommender, fold: Fold, report: Report, first: int) -> Recommender:
        """Return the model fitted to a fold; steps from `first` on are for looks at a training that goes on."""
        fresh = copy_model(model)
        if not isinstance(fresh, BPRMF):
            return fresh.fit(fold.train)
        looks = {max(1, round(share * fresh.epochs)): first + at for at, share in enumerate(LOOKS)}

        def look(epoch: Epoch) -> None:
            if epoch.number in looks:
                report(looks[epoch.number], self.score(epoch.model(), fold))

        return fresh.fit(fold.train, callback=look)

    def _judge_walk(self, model: Recommender, name: str, walk: Walk, report: Report, late: Callable[[], bool]) -> Score:
        """Return the best of the scores along the strengths, all folds going in step."""
        best, below = Score(-np.inf), 0
        walks = [fit_along_walk(model, name, walk, fold.train) for fold in self.folds]
        for step, (strength, *models) in enumerate(zip(walk.strengths, *walks, strict=True)):
            value = float(np.mean([self.score(each, fold) for each, fold in zip(models, self.folds, strict=True)]))
            if value > best.value:
                best = Score(value, strength)
            below = below + 1 if value < (1 - FALLEN) * best.value else 0
            report(step, best.value)
            if (below >= IN_A_ROW and 3 * step >= len(walk.strengths)) or late():
                break
        return best


def fit_along_walk(model: Recommender, name: str, walk: Walk, train: Log) -> Iterator[Recommender]:
    """Yield the model fitted with each strength in turn, each beginning where the one before ended."""
    last: Any = None
    for strength in walk.strengths:
        fresh: Any = copy_model(model).set_params(**{name: strength})
        # Algorithm 1 begins at zero.
        start = None if getattr(model, "box", "none") == "paper" else last
        last = fresh.fit(train, start=start)
        yield last


def make_validation(
    train: Any, valid: Any, metric: str, *, ratio: float, folds: int, seed: int, threads: int | None
) -> Validation:
    """Return the validation on random splits of `train`, seeds `seed`, `seed` + 1, ..., or on `valid`."""
    check_whole("folds", folds, least=1)
    check_whole("seed", seed, least=0)
    log = as_log(train)
    _check_metric(metric, log.n_items)
    if valid is not None:
        if folds != 1:
            raise ParameterError(f"folds={folds!r} does not go with valid: that is one fold")
        asked = find_unseen_events(as_log(valid), PopRank().fit(log))
        if not len(asked):
            raise DataError("valid has no event with a user and an item of train that is not in train")
        return Validation([Fold(log, asked)], metric, threads)
    parts = [Fold(*split(log, ratio=ratio, seed=seed + number)) for number in range(folds)]
    if not len(parts[0].valid):
        raise DataError(f"ratio={ratio!r} leaves no event to validate on; give a smaller one, or more events")
    return Validation(parts, metric, threads)


def _check_metric(metric: Any, n_items: int) -> None:
    name, _, k = str(metric).partition("@")
    known = (*METRICS, "f1_of_means")
    if not isinstance(metric, str) or name not in known or not k.isdecimal():
        raise ParameterError(f"metric={metric!r} must be like ndcg@10, one of {', '.join(known)} at a length")
    if not 1 <= int(k) <= n_items:
        raise ParameterError(f"metric={metric!r}: {k} does not lie between 1 and the number of items, {n_items:,}")


def copy_model(model: Recommender) -> Recommender:
    """Return a new model with the same parameters."""
    return type(model)(**model.get_params())
