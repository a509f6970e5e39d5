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

from csrr.data import Log, as_log
from csrr.experiments.spaces import Space, Walk, encode_space, find_model, resolve_space
from csrr.experiments.study import Grid, Params, Study, Trial, make_grid, open_study
from csrr.experiments.validation import Validation, make_validation
from csrr.files import write_text
from csrr.models.recommender import Recommender
from csrr.models.strengths import ParameterError, check_number, check_whole
from csrr.ranking.result_table import ResultTable, TabularResult

if TYPE_CHECKING:
    import optuna

WHOLE_GRID, TRIALS = 60, 40
"""Without a budget: the most points of a grid that is searched as a whole, and the number of trials otherwise."""

_SHOWN = 5


@dataclass(frozen=True, eq=False, repr=False)
class Tuning(TabularResult):
    """What was tried, and the best of it. `best_value` is a validation score: it flatters, a test score is lower.

    `params` are those the model was given, which all trials shared; `total` is how many trials there were to be at
    most, None if only time bounds them.
    """

    kind: type[Recommender]
    metric: str
    seed: int
    trials: list[Trial]
    params: Params = field(default_factory=dict)
    total: int | None = None

    @cached_property
    def best(self) -> Trial:
        """The trial with the best value, of equal ones the first."""
        done = [each for each in self.trials if each.state == "done" and each.value is not None]
        if not done:
            last = next((each.reason for each in reversed(self.trials) if each.reason), "none was run")
            raise ParameterError(f"all {len(self.trials)} trials failed; the last: {last}")
        return max(done, key=lambda each: each.value or 0.0)

    @property
    def best_params(self) -> Params:
        """The parameters to pass to the model; those left out have their defaults."""
        defaults = self.kind._defaults()
        both = {**self.params, **self.best.params}
        return {name: value for name, value in both.items() if value != defaults[name]}

    @property
    def best_value(self) -> float:
        """The validation score of the best parameters."""
        assert self.best.value is not None
        return self.best.value

    def model(self) -> Recommender:
        """Return a new model with the best parameters, not fitted."""
        return self.kind(**self.best_params)

    def leaders(self, n: int = _SHOWN) -> list[Trial]:
        """Return the `n` best of the trials that are done, best first."""
        done = [each for each in self.trials if each.state == "done"]
        return sorted(done, key=lambda each: -(each.value or 0.0))[:n]

    def summary(self) -> dict[str, Any]:
        """Return all of it as plain values, fit for JSON."""
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
        """Write the summary to a JSON file, at once or not at all."""
        write_text(path, json.dumps(self.summary(), indent=1) + "\n")

    def table(self) -> ResultTable:
        """Return a row for each trial: number, state, value, seconds, reason, then the parameters."""
        facts = {
            name: [getattr(each, name) for each in self.trials]
            for name in ("number", "state", "value", "seconds", "reason")
        }
        names = dict.fromkeys(name for each in self.trials for name in each.params)
        params = {name: [each.params.get(name) for each in self.trials] for name in names}
        return ResultTable.from_lists(facts | params, types={"value": pa.float64(), "reason": pa.string()})

    def _display_table(self) -> ResultTable:
        """Return the best few trials, with a column for each parameter."""
        leaders = self.leaders()
        names = dict.fromkeys(name for each in leaders for name in each.params)
        params = {name: [_shorten(each.params.get(name)) for each in leaders] for name in names}
        values: dict[str, list[Any]] = {
            "trial": [each.number for each in leaders],
            self.metric: [each.value for each in leaders],
        }
        return ResultTable.from_lists(values | params)

    def _heading(self) -> str:
        count = {state: sum(each.state == state for each in self.trials) for state in ("done", "pruned", "failed")}
        counts = ", ".join(f"{n} {state}" for state, n in count.items() if n)
        n_trials = f"{len(self.trials)} trial{'' if len(self.trials) == 1 else 's'}"
        return f"Tuning: {n_trials} of {self.kind.__name__} ({counts})"

    def __repr__(self) -> str:
        if not self.leaders():
            return self._heading()
        best = f"best {self.metric} {self.best_value:.4f} on validation: {self.model()!r}"
        return f"{self._heading()}\n{best}\n{format_trials(self)}"


def format_trials(tuning: Tuning) -> str:
    """Return the best few trials as a text, a column for each parameter."""
    return str(tuning._display_table())


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
    """Return the parameters of `model` that rank best what is held out of `train`, and all that was tried.

    `model` is a class, a name like "wrmf", or a model, whose parameters stay where the space does not speak of them.
    `space` is "csrr", "paper" (its grids), or a dict of parameters: a list of choices, (low, high) or a `Range`, or, of
    CSRR, MCShift and BiasMC, a `Walk` along strengths. Held out is a random share 1 - `ratio` of each user's events,
    `folds` times with seeds from `seed` on, or `valid`, a log of your own; keep a test apart before: none is seen here.

    The first trial, unless `defaults` is false, is the model as it is, so that the result is no worse than that on
    validation. A finite space is then gone through in a random order, others by Optuna's TPE, until `trials` or
    `minutes` are up; without either, all of up to 60 points, or 40 trials. A trial that has begun is finished, but
    goes no further along a walk. One that cannot be fitted is kept as failed, one that is hopeless half-way (unless
    `prune` is false) as pruned.

    `storage` is a file that keeps the search: called again in the same way, `tune` goes on where it was, whatever
    ended it. `callback` sees the `Tuning` so far after every trial.
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
        kept = study.trials()
        began = time.perf_counter() - sum(each.seconds for each in kept)
        found = self._so_far(kept)
        while not self._is_over(found.trials, began):
            if found.trials or not self.defaults:
                self._try_next(study, began)
            else:
                self._try_own(study)
            found = self._so_far(study.trials())
            if self.callback is not None:
                self.callback(found)
        _ = found.best
        return found

    def _so_far(self, trials: list[Trial]) -> Tuning:
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
    defaults = model._defaults()
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
    return found.hexdigest()[:16]


def _shorten(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
