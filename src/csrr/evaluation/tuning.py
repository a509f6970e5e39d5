"""The search for the parameters with the best validation score, and the record of its trials."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa

from csrr._base.files import write_text
from csrr.data.errors import DataError
from csrr.data.log import Log, as_log
from csrr.data.split import By, split
from csrr.evaluation.evaluate import evaluate
from csrr.evaluation.study import (
    Params,
    Space,
    State,
    Study,
    Trial,
    encode_space,
    find_model,
    make_grid,
    open_study,
    resolve_space,
)
from csrr.model_parameters import Walk
from csrr.models.base import Recommender
from csrr.models.bprmf import BPRMF, Epoch
from csrr.models.popularity import PopRank
from csrr.models.scorer import find_unseen_events
from csrr.parameters import ParameterError, check_number, check_whole, list_defaults, list_plain_params
from csrr.ranking.metrics import HIT_METRICS, split_metric
from csrr.results.table import ResultTable, TabularResult

_SHOWN = 5


@dataclass(frozen=True, eq=False, repr=False)
class Tuning(TabularResult):
    """The result of `csrr.tune`. `best_value` is a validation score and thus optimistic: expect a lower test score.

    Attributes
    ----------
    kind
        The class of the models.
    metric
        The metric that was maximized.
    seed
        Seed of splits and search.
    trials
        All trials, in order.
    params
        The fixed parameters of the model.
    total
        The maximal number of trials; None if only time limits them.

    Examples
    --------
    >>> train, test = csrr.split(csrr.synthetic(100, 40, events_per_user=10).log)
    >>> found = csrr.tune("ease", train, space={"reg": [1.0, 10.0, 100.0]}, defaults=False)
    >>> len(found.trials), found.best_value == max(trial.value for trial in found.trials)
    (3, True)
    >>> model = found.model().fit(train)
    """

    kind: type[Recommender]
    metric: str
    seed: int
    trials: list[Trial]
    params: Params = field(default_factory=dict)
    total: int | None = None

    @cached_property
    def best(self) -> Trial:
        """The trial with the best value; the first of equal ones."""
        done = [each for each in self.trials if each.state == "done" and each.value is not None]
        if not done:
            last = next((each.reason for each in reversed(self.trials) if each.reason), "none was run")
            raise ParameterError(f"all {len(self.trials)} trials failed; the last: {last}")
        return max(done, key=lambda each: each.value or 0.0)

    @property
    def best_params(self) -> Params:
        """The parameters to pass to the model; those left out have their defaults."""
        defaults = list_defaults(self.kind)
        both = {**self.params, **self.best.params}
        return {name: value for name, value in both.items() if value != defaults[name]}

    @property
    def best_value(self) -> float:
        """The validation score of the best parameters."""
        assert self.best.value is not None
        return self.best.value

    def model(self) -> Recommender:
        """Return a new model with the best parameters, not fitted.

        Returns
        -------
        model
            The model.
        """
        return self.kind(**self.best_params)

    def leaders(self, n: int = _SHOWN) -> list[Trial]:
        """Return the best completed trials.

        Parameters
        ----------
        n
            The number of trials.

        Returns
        -------
        trials
            Best first.
        """
        done = [each for each in self.trials if each.state == "done"]
        return sorted(done, key=lambda each: -(each.value or 0.0))[:n]

    def summary(self) -> dict[str, Any]:
        """Return everything as plain Python values, ready for JSON.

        Returns
        -------
        summary
            The result, the trials, and the versions of the packages.
        """
        return {
            "model": self.kind.__name__,
            "metric": self.metric,
            "seed": self.seed,
            "best_value": self.best_value,
            "best_params": self.best_params,
            "trials": [asdict(each) for each in self.trials],
            "versions": {name: version(name) for name in ("csrr", "optuna", "numpy")},
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the summary to a JSON file, atomically.

        Parameters
        ----------
        path
            The file.
        """
        write_text(path, json.dumps(self.summary(), indent=1) + "\n")

    def table(self) -> ResultTable:
        """Return the trials as a table.

        Returns
        -------
        table
            A row for each: number, state, value, seconds, reason, then the parameters.
        """
        facts = {
            name: [getattr(each, name) for each in self.trials]
            for name in ("number", "state", "value", "seconds", "reason")
        }
        names = dict.fromkeys(name for each in self.trials for name in each.params)
        params = {name: [each.params.get(name) for each in self.trials] for name in names}
        return ResultTable.from_lists(facts | params, types={"value": pa.float64(), "reason": pa.string()})

    def display_table(self) -> ResultTable:
        """Return the best few trials, with a column for each parameter.

        Returns
        -------
        table
            What LaTeX and HTML show.
        """
        leaders = self.leaders()
        names = dict.fromkeys(name for each in leaders for name in each.params)
        params = {name: [_shorten(each.params.get(name)) for each in leaders] for name in names}
        values: dict[str, list[Any]] = {
            "trial": [each.number for each in leaders],
            self.metric: [each.value for each in leaders],
        }
        return ResultTable.from_lists(values | params)

    def _count_trials(self) -> str:
        count = {state: sum(each.state == state for each in self.trials) for state in ("done", "pruned", "failed")}
        counts = ", ".join(f"{n} {state}" for state, n in count.items() if n)
        n_trials = f"{len(self.trials)} trial{'' if len(self.trials) == 1 else 's'}"
        return f"Tuning: {n_trials} of {self.kind.__name__} ({counts})"

    def _heading(self) -> str:
        if not self.leaders():
            return self._count_trials()
        return f"{self._count_trials()}\nbest {self.metric} {self.best_value:.4f} on validation: {self.model()!r}"


def _shorten(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


LOOKS = (0.5, 0.75)
"""The shares of a training by stochastic steps after which it is scored, to see whether it is worth going on."""
FALLEN, IN_A_ROW = 0.01, 2
"""A walk ends when this many scores in a row lie below its best by more than this share of it. Not in its first third:
fits of rank 1 and 2 may score less than one of rank 0, and cost little."""
WHOLE_GRID, TRIALS = 60, 40
"""Without a budget: the most points of a grid that is searched as a whole, and the number of trials otherwise."""

Report = Callable[[int, float], object]
"""Told the number of a step, from 0, and the score there; may raise to end the trial."""


@dataclass(frozen=True)
class Validation:
    """The comparison of models by a metric, like "ndcg@10": the mean over splits of its mean over users.

    A split is a log to fit to and a log of held-out events, in the same row numbers.
    """

    splits: list[tuple[Log, Log]]
    metric: str
    threads: int | None = None

    def measure(self, model: Recommender, report: Report) -> float:
        """Return the score of new models with the parameters of this one."""
        scores: list[float] = []
        for number, (train, valid) in enumerate(self.splits):
            first = number * (len(LOOKS) + 1)
            scores.append(self._score(self._fit(model, train, valid, report, first), train, valid))
            if number + 1 < len(self.splits):
                report(first + len(LOOKS), float(np.mean(scores)))
        return float(np.mean(scores))

    def measure_walk(
        self, model: Recommender, name: str, walk: Walk, report: Report, is_late: Callable[[], bool]
    ) -> tuple[float, float]:
        """Return the best score along the strengths of the parameter `name`, and its strength; splits go in step.

        The walk ends early behind its best, and when `is_late`.
        """
        best, strength_of_best, n_below = -np.inf, walk.strengths[0], 0
        walks = [_fit_along_walk(model, name, walk, train) for train, _ in self.splits]
        for step, (strength, *models) in enumerate(zip(walk.strengths, *walks, strict=True)):
            scores = [self._score(each, *parts) for each, parts in zip(models, self.splits, strict=True)]
            value = float(np.mean(scores))
            if value > best:
                best, strength_of_best = value, strength
            n_below = n_below + 1 if value < (1 - FALLEN) * best else 0
            report(step, best)
            if (n_below >= IN_A_ROW and 3 * step >= len(walk.strengths)) or is_late():
                break
        return best, strength_of_best

    def _score(self, model: Recommender, train: Log, valid: Log) -> float:
        """Return the metric of a fitted model."""
        name, k = split_metric(self.metric, [*HIT_METRICS, "f1_of_means"])
        needed = ("precision", "recall") if name == "f1_of_means" else (name,)
        return evaluate(model, train, valid, at=k, metrics=needed, threads=self.threads)[self.metric]

    def _fit(self, model: Recommender, train: Log, valid: Log, report: Report, first: int) -> Recommender:
        """Return a new model, fitted; steps from `first` on are for looks at a training that goes on."""
        new = copy_model(model)
        if not isinstance(new, BPRMF):
            return new.fit(train)
        looks = {max(1, round(share * new.epochs)): first + at for at, share in enumerate(LOOKS)}

        def look(epoch: Epoch) -> None:
            if epoch.number in looks:
                report(looks[epoch.number], self._score(epoch.model(), train, valid))

        return new.fit(train, callback=look)


def _fit_along_walk(model: Recommender, name: str, walk: Walk, train: Log) -> Iterator[Recommender]:
    """Yield the model fitted with each strength in turn, each beginning where the one before ended."""
    last: Any = None
    for strength in walk.strengths:
        new: Any = copy_model(model).set_params(**{name: strength})
        # Algorithm 1 begins at zero.
        last = new.fit(train, start=None if getattr(model, "box", "none") == "paper" else last)
        yield last


def make_validation(
    log: Log, valid: Any, metric: str, *, by: By, ratio: float | None, folds: int, seed: int, threads: int | None
) -> Validation:
    """Return the validation on splits of a log, random ones with seeds `seed`, `seed` + 1, ..., or on `valid`."""
    check_whole("folds", folds, least=1)
    check_whole("seed", seed, least=0)
    _, k = split_metric(metric, [*HIT_METRICS, "f1_of_means"])
    if k > log.n_items:
        raise ParameterError.of("metric", metric, f"{k} is more than the {log.n_items:,} items")
    if valid is not None:
        if folds != 1:
            raise ParameterError.of("folds", folds, "does not go with valid: that is one fold")
        unseen = find_unseen_events(as_log(valid), PopRank().fit(log))
        if not len(unseen):
            raise DataError("valid has no event with a user and an item of train that is not in train")
        return Validation([(log, unseen)], metric, threads)
    if folds != 1 and by in ("last", "time"):
        raise ParameterError.of("folds", folds, f"does not go with by={by!r}: there is one such split; leave out folds")
    splits = [split(log, ratio=ratio, seed=seed + number, by=by) for number in range(folds)]
    if not len(splits[0][1]):
        given = "one event a user" if ratio is None else f"ratio={ratio!r}"
        raise DataError(f"{given} leaves no event to validate on; give a smaller ratio, or more events")
    return Validation([(train, held) for train, held in splits], metric, threads)


def copy_model(model: Recommender) -> Recommender:
    """Return a new model with the same parameters."""
    return type(model)(**model.get_params())


def tune(
    model: Any,
    train: Any,
    *,
    space: str | Mapping[str, Any] = "csrr",
    metric: str = "ndcg@10",
    trials: int | None = None,
    minutes: float | None = None,
    valid: Any = None,
    by: By | None = None,
    ratio: float | None = None,
    folds: int = 1,
    seed: int = 0,
    storage: str | os.PathLike[str] | None = None,
    prune: bool = True,
    defaults: bool = True,
    threads: int | None = None,
    callback: Callable[[Tuning], object] | None = None,
) -> Tuning:
    """Search hyperparameters on validation data held out of `train`; return the best, and all trials.

    The first trial uses the model's current parameters. Finite spaces are then searched in random order, others by
    Optuna's TPE, until `trials` or `minutes` are used up; by default, all of up to 60 points, or 40 trials. A running
    trial is finished at the end of the time, without further steps of a walk. Trials that fail are recorded as failed.

    Parameters
    ----------
    model
        A class, a name like "wrmf", or a model, which keeps its parameters outside the space.
    train
        The log to split into training and validation. Split off a test set before.
    space
        "csrr", "paper" (its grids), or a dict of parameters: a list of choices, (low, high) or a `Range`, or, for CSRR,
        MCShift and BiasMC, a `Walk`.
    metric
        The metric to maximize, like "ndcg@10".
    trials
        Number of trials, the first included.
    minutes
        The time after which no new trial starts.
    valid
        Your own validation log, in place of held-out events.
    by
        How events are held out of `train`: as in `csrr.split`. None: as `train` was split off itself, "last" or "time"
        after such a split, else "user".
    ratio
        The share for fitting; the rest is for validation. None: 0.9, or with "last" all but each user's last event,
        unless several of each user's were split off `train`.
    folds
        The number of random validation splits, with seeds `seed`, `seed` + 1, ...
    seed
        Seed of splits and search.
    storage
        A file that stores the search: the same call continues an interrupted search.
    prune
        Whether to stop hopeless trials early.
    defaults
        Whether to try the current parameters first, so that the result is at least as good on validation data.
    threads
        Number of threads; 0 for all cores.
    callback
        Called with the `Tuning` so far after every trial.

    Returns
    -------
    tuning
        The best parameters, and all trials.

    Raises
    ------
    ParameterError
        If the space does not fit the model, or every trial failed.
    DataError
        If no validation events are left, or the file stores another search.

    Examples
    --------
    >>> log = csrr.synthetic(100, 40, events_per_user=10).log
    >>> found = csrr.tune(csrr.ItemKNN, log, space={"neighbors": [5, 20]}, metric="recall@5")
    >>> [trial.state for trial in found.trials]
    ['done', 'done', 'done']
    """
    own = copy_model(find_model(model))
    if threads is not None:
        check_whole("threads", threads, least=0)
        if "threads" in own.get_params():
            own.set_params(threads=threads)
    if trials is not None:
        check_whole("trials", trials, least=1)
    if minutes is not None:
        check_number("minutes", minutes, above=0)
    log = as_log(train)
    if by is None:
        cut = log.cut if log.is_ordered else None
        by = "last" if cut == "share" else cut or "user"
        ratio = 0.9 if ratio is None and cut == "share" else ratio
    if ratio is None and by != "last":
        ratio = 0.9
    how: dict[str, Any] = {"by": by, "ratio": ratio, "folds": folds, "seed": seed}
    validation = make_validation(log, valid, metric, **how, threads=threads)
    seed = int(seed)  # JSON knows no numbers of numpy
    resolved = resolve_space(space, own, log)
    grid = make_grid(resolved, own.get_params() if defaults else None, seed)
    parts: dict[str, Any] = {"ratio": None if ratio is None else float(ratio), "folds": int(folds)}
    parts |= {} if by == "user" else {"by": by}
    if valid is not None:
        parts = {"valid": hash_log(validation.splits[0][1])}
    made_for = {
        "csrr": version("csrr"),
        "model": type(own).__name__,
        "params": get_changed_params(own),
        "space": encode_space(resolved),
        "metric": metric,
        "split": parts,
        "seed": seed,
        "defaults": defaults,
        "data": hash_log(log),
    }
    most = math.inf if grid is None else len(grid) + int(defaults)
    if trials is None and minutes is None:
        trials = TRIALS if most > WHOLE_GRID + int(defaults) else None
    most = min(most, math.inf if trials is None else trials)
    total = None if most == math.inf else int(most)
    search = _Search(own, resolved, validation, total, minutes, callback, seed, defaults)
    with open_study(storage, made_for, warm_up=search.warm_up if prune else None) as study:
        return search.run(Study(study, resolved, grid, seed))


@dataclass
class _Search:
    """Runs the trials of a study until the budget is used up."""

    own: Recommender
    space: Space
    validation: Validation
    total: int | None
    minutes: float | None
    callback: Callable[[Tuning], object] | None
    seed: int
    defaults: bool
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.walk = next(((name, each) for name, each in self.space.items() if isinstance(each, Walk)), None)

    @property
    def warm_up(self) -> int:
        """The first step at which a trial can be hopeless: early on a walk all are."""
        return 0 if self.walk is None else len(self.walk[1].strengths) // 2

    def run(self, study: Study) -> Tuning:
        """Run trials until the budget is used up; return all there are."""
        trials = study.list_trials()
        self.began = time.perf_counter() - sum(each.seconds for each in trials)
        while not trials or not (self.is_late() or (self.total is not None and len(trials) >= self.total)):
            if trials or not self.defaults:
                self._try_next(study)
            else:
                self._try_own(study)
            trials = study.list_trials()
            if self.callback is not None:
                self.callback(self._summarize(trials))
        found = self._summarize(trials)
        _ = found.best
        return found

    def _summarize(self, trials: list[Trial]) -> Tuning:
        changed = get_changed_params(self.own)
        return Tuning(type(self.own), self.validation.metric, self.seed, trials, changed, self.total)

    def is_late(self) -> bool:
        """Return whether the time is used up."""
        return self.minutes is not None and time.perf_counter() - self.began >= 60 * self.minutes

    def _try_own(self, study: Study) -> None:
        """Try the model with its own parameters; this trial is never pruned."""
        params = {name: _to_plain(value) for name, value in self.own.get_params().items() if name in self.space}
        state, value, seconds, reason = _run(lambda: self.validation.measure(self.own, lambda *_: None))
        study.keep_first(Trial(0, state, value, params, seconds, reason))

    def _try_next(self, study: Study) -> None:
        """Try what the study proposes, and tell it how that went."""
        from optuna import TrialPruned

        trial, params = study.propose()
        model = type(self.own)(**{**self.own.get_params(), **params})

        def report(step: int, value: float) -> None:
            trial.report(value, step)
            if trial.should_prune():
                raise TrialPruned

        def measure() -> float:
            if self.walk is None:
                return self.validation.measure(model, report)
            value, params[self.walk[0]] = self.validation.measure_walk(model, *self.walk, report, self.is_late)
            return value

        state, value, seconds, reason = _run(measure)
        facts = {"params": params, "seconds": seconds} | ({} if reason is None else {"reason": reason})
        study.tell(trial, state, value, facts)


def _run(measure: Callable[[], float]) -> tuple[State, float | None, float, str | None]:
    """Return how a trial ended, its score, its seconds, and why it has no score."""
    from optuna import TrialPruned

    start, value, reason = time.perf_counter(), None, None
    state: State = "done"
    try:
        value = measure()
    except TrialPruned:
        state, reason = "pruned", "below the median of the trials before it"
    except (ParameterError, np.linalg.LinAlgError) as error:
        state, reason = "failed", str(error)
    return state, value, time.perf_counter() - start, reason


def get_changed_params(model: Recommender) -> Params:
    """Return the parameters of a model that are not its defaults, but for those that change no result."""
    defaults = list_defaults(type(model))
    plain = {name: _to_plain(value) for name, value in list_plain_params(model).items() if name != "threads"}
    return {name: value for name, value in plain.items() if value != defaults[name]}


def _to_plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def hash_log(log: Log) -> str:
    """Return a hash of the events of a log: users, items and amounts."""
    found = hashlib.sha256()
    for ids in (log.users.ids, log.items.ids):
        found.update("\n".join(map(str, ids.tolist())).encode("utf-8", "surrogatepass") + b"\0")
    for array in (log.user_rows, log.item_rows, log.weights):
        found.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
    if log.types is not None:
        found.update(repr((log.types.names, log.types.target)).encode("utf-8", "surrogatepass"))
        found.update(np.ascontiguousarray(log.types.amounts).tobytes())
    return found.hexdigest()[:16]
