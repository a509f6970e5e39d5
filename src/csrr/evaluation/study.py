"""The record of a search, kept by Optuna: what was tried, what comes next, and a file that survives a kill."""

from __future__ import annotations

import contextlib
import json
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from csrr._base.files import try_lock
from csrr.data import DataError, Log, as_log, split
from csrr.evaluation.evaluate import evaluate
from csrr.evaluation.spaces import Space
from csrr.models.base import Recommender
from csrr.models.bprmf import BPRMF, Epoch
from csrr.models.popularity import PopRank
from csrr.models.scorer import find_unseen_events
from csrr.models.search_space import Range, Walk
from csrr.parameters import ParameterError, check_whole
from csrr.ranking.metrics import METRICS

if TYPE_CHECKING:
    import optuna


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


MOST_POINTS = 1_000_000
"""A grid of more points is searched as if it had no end."""

BEFORE_PRUNING = 5
"""Number of whole trials that others are compared with, at least."""

_NAME = "csrr"
_MARK = b'{"op_code":'
"""What every line of the record begins with."""

Params = dict[str, Any]


@dataclass(frozen=True)
class Trial:
    """What was tried once.

    Attributes
    ----------
    number
        Its number, from 0.
    state
        How it ended.
    value
        The score; of a pruned trial, that of its last step.
    params
        The parameters that the space has.
    seconds
        How long it took.
    reason
        Why it failed or was pruned.
    points
        How many parameters it tried: of a walk, the strengths that it came by.
    """

    number: int
    state: Literal["done", "pruned", "failed"]
    value: float | None
    params: Params
    seconds: float
    reason: str | None = None
    points: int = 1


class Grid:
    """The points of a finite space in a random order that the seed decides, without `own`, parameters tried before."""

    def __init__(self, space: Space, own: Mapping[str, Any] | None, seed: int) -> None:
        self.choices: dict[str, list[Any]] = {name: each for name, each in space.items() if isinstance(each, list)}
        points: list[tuple[Any, ...]] = list(product(*self.choices.values()))
        walks = any(isinstance(each, Walk) for each in space.values())
        mine = None if own is None else tuple(own[name] for name in self.choices)
        order = np.random.default_rng(seed).permutation(len(points)).tolist()
        self.points: list[tuple[Any, ...]] = [points[place] for place in order if walks or points[place] != mine]

    def __len__(self) -> int:
        return len(self.points)

    def get_params(self, place: int) -> Params:
        """Return the parameters of a point by its place in the order."""
        return dict(zip(self.choices, self.points[place], strict=True))


def make_grid(space: Space, own: Mapping[str, Any] | None, seed: int) -> Grid | None:
    """Return the grid of a space, or None if that has no end, or none worth waiting for."""
    if any(isinstance(each, Range) for each in space.values()):
        return None
    n_points = math.prod(len(each) for each in space.values() if isinstance(each, list))
    return Grid(space, own, seed) if n_points <= MOST_POINTS else None


class Study:
    """What was tried, and what is to be tried next."""

    def __init__(self, study: optuna.Study, space: Space, grid: Grid | None, seed: int) -> None:
        self._study, self._space, self._grid, self._seed = study, space, grid, seed
        self._walks = any(isinstance(each, Walk) for each in space.values())

    def list_trials(self) -> list[Trial]:
        """Return the trials that came to an end, in their order; what a kill cut short is not among them."""
        first = self._study.user_attrs.get("first")
        rows = [] if first is None else [Trial(**first)]
        for each in self._study.get_trials(deepcopy=False):
            if (state := _get_state(each)) is not None:
                facts = each.user_attrs
                points = len(each.intermediate_values) if self._walks else 1
                rows.append(
                    Trial(len(rows), state, each.value, facts["params"], facts["seconds"], facts.get("reason"), points)
                )
        return rows

    def keep_first(self, trial: Trial) -> None:
        """Keep the trial of the model's own parameters, which need not lie in the space."""
        self._study.set_user_attr("first", asdict(trial))

    def propose(self) -> tuple[optuna.Trial, Params]:
        """Return a new trial and its parameters, those to walk along left out."""
        ended = [each for each in self._study.get_trials(deepcopy=False) if _get_state(each) is not None]
        if self._grid is not None:
            tried = {each.user_attrs["place"] for each in ended}
            place = next(place for place in range(len(self._grid)) if place not in tried)
            trial = self._study.ask()
            trial.set_user_attr("place", place)
            return trial, self._grid.get_params(place)
        # A draw depends on the seed and on what was found before alone, so that a search cut short goes on the same.
        self._study.sampler = _make_sampler(self._seed, len(ended))
        trial = self._study.ask(_make_distributions(self._space))
        fixed = {name: each[0] for name, each in self._space.items() if isinstance(each, list) and len(each) == 1}
        return trial, {
            **fixed,
            **{name: _round_to_digits(value, self._space[name]) for name, value in trial.params.items()},
        }

    def tell(
        self, trial: optuna.Trial, state: Literal["done", "pruned", "failed"], value: float | None, **facts: Any
    ) -> None:
        """Keep how a trial ended: its facts first, since an ended trial cannot be changed."""
        from optuna.trial import TrialState

        for name, fact in facts.items():
            trial.set_user_attr(name, fact)
        states = {"done": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}
        self._study.tell(trial, value if state == "done" else None, states[state])


def _get_state(trial: optuna.trial.FrozenTrial) -> Literal["done", "pruned", "failed"] | None:
    """Return how a trial ended, or None if it did not: such a one is closed as failed, without a reason."""
    if not trial.state.is_finished() or "seconds" not in trial.user_attrs:
        return None
    names: dict[str, Literal["done", "pruned", "failed"]] = {"COMPLETE": "done", "PRUNED": "pruned", "FAIL": "failed"}
    if trial.state.name == "FAIL" and "reason" not in trial.user_attrs:
        return None
    return names[trial.state.name]


def _round_to_digits(value: Any, dimension: Any) -> Any:
    """Return a number of a range to four digits, which is all that a score can tell apart and easier to write down."""
    if not isinstance(value, float) or not isinstance(dimension, Range):
        return value
    return min(max(float(f"{value:.4g}"), dimension.low), dimension.high)


def _make_sampler(seed: int, number: int) -> optuna.samplers.BaseSampler:
    from optuna.samplers import TPESampler

    mixed = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
    with warnings.catch_warnings():  # "multivariate" is an experiment to older versions
        warnings.simplefilter("ignore")
        return TPESampler(seed=mixed, multivariate=True, warn_independent_sampling=False)


def _make_distributions(space: Space) -> dict[str, optuna.distributions.BaseDistribution]:
    from optuna.distributions import (
        BaseDistribution,
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    made: dict[str, BaseDistribution] = {}
    for name, each in space.items():
        if isinstance(each, Range):
            whole = isinstance(each.low, int) and isinstance(each.high, int)
            made[name] = (
                IntDistribution(int(each.low), int(each.high), log=each.log)
                if whole
                else FloatDistribution(each.low, each.high, log=each.log)
            )
        elif isinstance(each, list) and len(each) > 1:
            made[name] = CategoricalDistribution(each)
    return made


@contextlib.contextmanager
def open_study(
    storage: str | os.PathLike[str] | None, made_for: dict[str, Any], *, warm_up: int | None
) -> Iterator[optuna.Study]:
    """Give the study in a file, or a new one; `warm_up` is the first step at which trials are pruned, None for never.

    A file of another search, or one that another process is using, is refused. The lock is on an empty file beside it,
    `.NAME.held`, which stays.
    """
    optuna = _import_optuna()
    pruner = (
        optuna.pruners.NopPruner()
        if warm_up is None
        else optuna.pruners.MedianPruner(n_startup_trials=BEFORE_PRUNING, n_warmup_steps=warm_up)
    )
    if storage is None:
        yield _create_study(None, pruner)
        return
    path = Path(storage)
    if not path.parent.is_dir():
        raise DataError(f"storage={str(storage)!r}: there is no folder {path.parent}")
    with try_lock(path.with_name(f".{path.name}.held")) as is_free:
        if not is_free:
            raise DataError(f"{path} is in use by another search; wait for it, or give another file")
        _mend(path)
        backend = optuna.storages.journal.JournalFileBackend(str(path), lock_obj=_NoLock())
        try:
            study = _create_study(optuna.storages.JournalStorage(backend), pruner)
        except json.JSONDecodeError as error:
            raise DataError(f"{path} is damaged, not only at its end ({error}); give another file") from error
        _check_same(study, json.loads(json.dumps(made_for)), path)
        for trial in study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,)):
            study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        yield study


class _NoLock:
    """A lock for Optuna, which writes to a file that we hold already; its own would outlive a kill."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        return


def _import_optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise ImportError("tuning needs Optuna: pip install 'csrr[tune]'") from None
    return optuna


def _create_study(storage: Any, pruner: Any) -> Any:
    optuna = _import_optuna()
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study: Any = optuna.create_study(
            storage=storage,
            study_name=_NAME,
            load_if_exists=True,
            direction="maximize",
            pruner=pruner,
            sampler=optuna.samplers.RandomSampler(seed=0),
        )
    finally:
        optuna.logging.set_verbosity(before)
    return study


def _mend(path: Path) -> None:
    """Cut off a last line that a kill left unfinished; raise DataError if the file is not the record of a search."""
    if not path.exists() or not path.stat().st_size:
        return
    with path.open("r+b") as file:
        first = file.readline()
        # A first line is cut short only if nothing came after it.
        is_begun = not first.endswith(b"\n") and _MARK.startswith(first)
        if not (is_begun or first.startswith(_MARK)):
            raise DataError(f"{path} is not the record of a search; give the name of a new file")
        data = first + file.read()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            file.truncate(whole)


def _check_same(study: optuna.Study, made_for: dict[str, Any], path: Path) -> None:
    """Raise DataError unless the study was made for this search; keep what for if it is new."""
    kept = study.user_attrs.get("made_for")
    if kept is None:
        study.set_user_attr("made_for", made_for)
        return
    differ = [name for name in made_for if kept.get(name) != made_for[name]]
    if differ:
        what = "; ".join(_describe_difference(name, kept.get(name), made_for[name]) for name in differ)
        raise DataError(f"{path} holds another search: {what}; give another file")


def _describe_difference(name: str, was: Any, now: Any) -> str:
    if name == "csrr":
        return f"it was made by csrr {was or 'of an unknown version'}, this is csrr {now}"
    texts = json.dumps(was), json.dumps(now)
    is_short = max(map(len, texts)) <= 80 and name != "data"
    return f"its {name} was {texts[0]}, now {texts[1]}" if is_short else f"its {name} differs"
