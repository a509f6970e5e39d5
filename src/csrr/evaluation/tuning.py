"""A model, a space and a budget -> the parameters with the best validation score, and all that was tried."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from csrr._base.files import write_text
from csrr.data import Log, as_log
from csrr.evaluation.spaces import Space, encode_space, find_model, resolve_space
from csrr.evaluation.study import Grid, Params, Study, Trial, Validation, make_grid, make_validation, open_study
from csrr.models.base import Recommender
from csrr.models.search_space import Walk
from csrr.parameters import ParameterError, check_number, check_whole, list_defaults
from csrr.results.table import ResultTable, TabularResult

if TYPE_CHECKING:
    import optuna


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


def format_trials(tuning: Tuning) -> str:
    """Return the best few trials as a text, a column for each parameter."""
    return str(tuning.display_table())


def _shorten(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


WHOLE_GRID, TRIALS = 60, 40
"""Without a budget: the most points of a grid that is searched as a whole, and the number of trials otherwise."""


def tune(
    model: Any,
    train: Any,
    *,
    space: str | Mapping[str, Any] = "csrr",
    metric: str = "ndcg@10",
    trials: int | None = None,
    minutes: float | None = None,
    valid: Any = None,
    ratio: float = 0.9,
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
    ratio
        The share of each user's events for fitting; the rest, drawn at random, is for validation.
    folds
        The number of validation splits, with seeds `seed`, `seed` + 1, ...
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
    own = find_model(model)
    own = type(own)(**own.get_params())
    if threads is not None:
        check_whole("threads", threads, least=0)
        if "threads" in own.get_params():
            own.set_params(threads=threads)
    _check_budget(trials, minutes)
    log = as_log(train)
    validation = make_validation(log, valid, metric, ratio=ratio, folds=folds, seed=seed, threads=threads)
    seed = int(seed)  # JSON knows no numbers of numpy
    resolved = resolve_space(space, own, log)
    grid = make_grid(resolved, own.get_params() if defaults else None, seed)
    split = (
        {"ratio": float(ratio), "folds": int(folds)}
        if valid is None
        else {"valid": hash_log(validation.folds[0].valid)}
    )
    made_for = {
        "csrr": version("csrr"),
        "model": type(own).__name__,
        "params": get_changed_params(own),
        "space": encode_space(resolved),
        "metric": metric,
        "split": split,
        "seed": seed,
        "defaults": defaults,
        "data": hash_log(log),
    }
    total = _count_trials(trials, minutes, grid, int(defaults))
    search = _Search(own, resolved, validation, total, minutes, callback, seed, defaults)
    with open_study(storage, made_for, warm_up=search.warm_up if prune else None) as study:
        return search.run(Study(study, resolved, grid, seed))


@dataclass
class _Search:
    own: Recommender
    space: Space
    validation: Validation
    total: int | None
    minutes: float | None
    callback: Callable[[Tuning], object] | None
    seed: int
    defaults: bool

    def __post_init__(self) -> None:
        self.walk = next(((name, each) for name, each in self.space.items() if isinstance(each, Walk)), None)

    @property
    def warm_up(self) -> int:
        """The first step at which a trial can be hopeless: early on a walk all are."""
        return 0 if self.walk is None else len(self.walk[1].strengths) // 2

    def run(self, study: Study) -> Tuning:
        """Run trials until the budget is used up; return all there are."""
        kept = study.list_trials()
        began = time.perf_counter() - sum(each.seconds for each in kept)
        found = self._collect_so_far(kept)
        while not self._is_over(found.trials, began):
            if found.trials or not self.defaults:
                self._try_next(study, began)
            else:
                self._try_own(study)
            found = self._collect_so_far(study.list_trials())
            if self.callback is not None:
                self.callback(found)
        _ = found.best
        return found

    def _collect_so_far(self, trials: list[Trial]) -> Tuning:
        return Tuning(
            type(self.own), self.validation.metric, self.seed, trials, get_changed_params(self.own), self.total
        )

    def _is_late(self, began: float) -> bool:
        return self.minutes is not None and time.perf_counter() - began >= 60 * self.minutes

    def _is_over(self, trials: list[Trial], began: float) -> bool:
        if not trials:
            return False
        return (self.total is not None and len(trials) >= self.total) or self._is_late(began)

    def _try_own(self, study: Study) -> None:
        """Try the model as it is, which no pruning may end."""
        began = time.perf_counter()
        value, reason = None, None
        try:
            value = self.validation.judge(self.own, None, lambda *_: None, lambda: False).value
        except (ParameterError, np.linalg.LinAlgError) as error:
            reason = str(error)
        params = {name: _to_plain(value) for name, value in self.own.get_params().items() if name in self.space}
        seconds = time.perf_counter() - began
        study.keep_first(Trial(0, "failed" if reason else "done", value, params, seconds, reason))

    def _try_next(self, study: Study, began: float) -> None:
        """Try what the study proposes, and tell it how that went."""
        from optuna import TrialPruned

        trial, params = study.propose()
        start = time.perf_counter()
        model = type(self.own)(**{**self.own.get_params(), **params})
        try:
            score = self.validation.judge(model, self.walk, _make_reporter(trial), lambda: self._is_late(began))
        except TrialPruned:
            reason = "below the median of the trials before it"
            study.tell(trial, "pruned", None, params=params, reason=reason, seconds=time.perf_counter() - start)
        except (ParameterError, np.linalg.LinAlgError) as error:
            study.tell(trial, "failed", None, params=params, reason=str(error), seconds=time.perf_counter() - start)
        else:
            if self.walk is not None:
                params[self.walk[0]] = score.strength
            study.tell(trial, "done", score.value, params=params, seconds=time.perf_counter() - start)


def _make_reporter(trial: optuna.Trial) -> Callable[[int, float], None]:
    from optuna import TrialPruned

    def report(step: int, value: float) -> None:
        trial.report(value, step)
        if trial.should_prune():
            raise TrialPruned

    return report


def _check_budget(trials: Any, minutes: Any) -> None:
    if trials is not None:
        check_whole("trials", trials, least=1)
    if minutes is not None:
        check_number("minutes", minutes, above=0)


def _count_trials(trials: int | None, minutes: float | None, grid: Grid | None, own: int) -> int | None:
    """Return the number of trials at most, the model's own (one or none) included, or None if only time bounds it."""
    points = math.inf if grid is None else len(grid) + own
    if trials is None and minutes is None:
        trials = TRIALS if points > WHOLE_GRID + own else None
    most = min(points, math.inf if trials is None else trials)
    return None if most == math.inf else int(most)


def get_changed_params(model: Recommender) -> Params:
    """Return the parameters of a model that are not its defaults, but for those that change no result."""
    defaults = list_defaults(type(model))
    plain = {name: _to_plain(value) for name, value in model.get_params().items() if name != "threads"}
    return {name: value for name, value in plain.items() if value != defaults[name]}


def _to_plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def hash_log(log: Log) -> str:
    """Return a text that stands for the events of a log: who chose what, and how much."""
    found = hashlib.sha256()
    for ids in (log.users.ids, log.items.ids):
        found.update("\n".join(map(str, ids.tolist())).encode("utf-8", "surrogatepass") + b"\0")
    for array in (log.user_rows, log.item_rows, log.weights):
        found.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
    if log.types is not None:
        found.update(repr((log.types.names, log.types.target)).encode("utf-8", "surrogatepass"))
        found.update(np.ascontiguousarray(log.types.amounts).tobytes())
    return found.hexdigest()[:16]
