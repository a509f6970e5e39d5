"""An experiment with planted noise: the accuracy of systems tuned on noisy data, and the detection of the noise."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from csrr._base.arrays import FloatArray
from csrr.data.errors import DataError
from csrr.data.log import Log, as_log
from csrr.data.split import split
from csrr.data.synthetic import NOISE_KINDS, NoiseKind, Noisy, add_noise, check_noise
from csrr.evaluation.evaluate import evaluate
from csrr.evaluation.tuning import get_changed_params, hash_log, tune
from csrr.models.base import Recommender
from csrr.models.csrr import CSRR
from csrr.models.recommend import rank_items
from csrr.parameters import Choice, ParameterError, check_whole
from csrr_paper.reproduce import Progress
from csrr_paper.results import Lists, Result, ResultStore, Task
from csrr_paper.robustness_results import AUC, CLEAN, HITS, METRIC, RATIO, Robustness
from csrr_paper.systems import CSRR_WITH_V, NOISE_SYSTEMS, System

VALIDATION_RATIO = 0.9
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)


@dataclass(frozen=True)
class NoiseLevel:
    """The noise in a training log: a kind and its share, or no kind and 0."""

    kind: NoiseKind | None
    share: float

    def __str__(self) -> str:
        return "no noise" if self.kind is None else f"{self.kind}, {self.share:.0%}"


def robustness(
    log: Any,
    *,
    kinds: Sequence[NoiseKind] = NOISE_KINDS,
    shares: Sequence[float] = SHARES,
    systems: Sequence[str] = tuple(NOISE_SYSTEMS),
    seeds: int | Sequence[int] = 5,
    folder: str | os.PathLike[str] | None = None,
    callback: Callable[[Progress], object] | None = None,
) -> Robustness:
    """Return how well systems rank and find noise when shares of the training events are planted.

    For each seed the log is split 80 : 20 a user, and noise goes into the training part, on no test cell. Every system
    is tuned on validation data held out of that noisy part, fitted to all of it and tested on the clean rest. Each is
    also fitted without noise.

    Parameters
    ----------
    log
        A log, a table with user and item columns, or a users x items matrix.
    kinds
        Kinds of noise; see `add_noise`.
    shares
        The shares of the noisy training events that are planted; no noise is tried whether or not 0 is among them.
    systems
        Names of `systems.NOISE_SYSTEMS`.
    seeds
        The seeds of the splits; a number of them counts from 0.
    folder
        Where every result is kept as soon as it is there: called again, `robustness` goes on where it was.
    callback
        Sees the `Progress` before each result.

    Returns
    -------
    results
        Tables, and curves that `csrr.plot` draws.

    Raises
    ------
    ParameterError
        For kinds, shares, systems or seeds that make no sense, before anything is fitted.

    Examples
    --------
    >>> log = csrr.synthetic(60, 40, events_per_user=10).log
    >>> found = csrr_paper.robustness(log, kinds=["random"], shares=[0.2], systems=["EASE"], seeds=1)
    >>> [(line.kind, line.share) for line in found.lines]
    [(None, 0.0), ('random', 0.2)]
    """
    clean = as_log(log)
    chosen = _check_seeds(seeds)
    levels, systems = _list_levels(kinds, shares), _check_systems(systems)
    jobs = [(seed, level, system) for seed in chosen for level in levels for system in systems]
    found: list[Result] = []
    with TemporaryDirectory() as temporary, ResultStore.open(temporary if folder is None else folder) as store:
        for seed, level, system in jobs:
            if not found or found[-1].task.split != seed:
                own = _Split(store, clean, seed)
            result = store.find(own.make_task(level, system))
            if result is None:
                if callback is not None:
                    now = f"split {seed}, {level}: {system}"
                    callback(Progress(len(found), len(jobs), now, _estimate_seconds_left(found, len(jobs))))
                result = own.measure(level, system)
            found.append(result)
    return Robustness.of(found)


def _list_levels(kinds: Sequence[NoiseKind], shares: Sequence[float]) -> list[NoiseLevel]:
    """Return the level without noise, then each share of each kind."""
    _check_list("kinds", kinds)
    _check_list("shares", shares)
    for kind in kinds:
        for share in shares:
            check_noise(kind, share)
    noisy = {float(share) for share in shares} - {0.0}
    if not kinds or not noisy:
        what = "give at least one kind of noise and a share above 0"
        raise ParameterError(f"kinds={kinds!r}, shares={shares!r}: {what}", parameter="kinds", value=kinds)
    return [NoiseLevel(None, 0.0)] + [
        NoiseLevel(kind, share) for kind in dict.fromkeys(kinds) for share in sorted(noisy)
    ]


def _check_list(name: str, value: Any) -> None:
    if isinstance(value, str) or not isinstance(value, Sequence | np.ndarray):
        raise ParameterError.of(name, value, "must be a list")


def _check_seeds(seeds: Any) -> list[int]:
    if not isinstance(seeds, Sequence):
        check_whole("seeds", seeds, least=1)
        return list(range(seeds))
    for each in seeds:
        check_whole("seeds", each, least=0)
    if not seeds:
        raise ParameterError.of("seeds", seeds, "must be their number, or a list of at least one")
    return [int(each) for each in dict.fromkeys(seeds)]


def _check_systems(systems: Sequence[str]) -> list[str]:
    _check_list("systems", systems)
    for each in systems:
        Choice(name="systems", words=tuple(NOISE_SYSTEMS)).check(each)
    if not systems:
        raise ParameterError.of("systems", systems, f"must have at least one of {', '.join(NOISE_SYSTEMS)}")
    return list(dict.fromkeys(systems))


def _estimate_seconds_left(found: Sequence[Result], total: int) -> float:
    """Return an estimate of the remaining time, from the times of the results so far; 0 if there are none."""
    taken = sum(sum(result.seconds.values()) for result in found)
    return taken / max(1, len(found)) * (total - len(found))


class _Split:
    """One split of the log, with the systems fitted to its training part, clean and noisy."""

    def __init__(self, store: ResultStore, log: Log, seed: int) -> None:
        self.store, self.log, self.seed = store, log, seed
        self.train, self.test = split(log, ratio=RATIO, seed=seed)
        self.data = hash_log(log)
        self.targets = add_noise(self.train, "push", 0, seed=seed).targets
        self._noisy: tuple[NoiseLevel, Noisy] | None = None
        self._fitted: dict[str, Recommender] = {}

    def make_task(self, level: NoiseLevel, system: str) -> Task:
        """Return the values that identify a result, the search of parameters included."""
        params = {**asdict(level), "tried": NOISE_SYSTEMS[system].describe_search()}
        return Task(self.data, None, self.seed, system, params)

    def plant_noise(self, level: NoiseLevel) -> Noisy:
        """Return the training part with this noise; the last one stays in memory."""
        if self._noisy is None or self._noisy[0] != level:
            kind, share = level.kind or "random", level.share
            self._noisy = level, add_noise(self.train, kind, share, seed=self.seed, avoid=self.test)
        return self._noisy[1]

    def measure(self, level: NoiseLevel, system: str) -> Result:
        """Return the result of a system, tuned and fitted on noisy data and tested on clean data, and save it."""
        noisy = self.plant_noise(level)
        times = [time.perf_counter()]
        model, tuning = self._tune(NOISE_SYSTEMS[system], noisy.log)
        times.append(time.perf_counter())
        model.fit(noisy.log)
        times.append(time.perf_counter())
        found = evaluate(model, noisy.log, self.test, at=10, metrics=("ndcg",))
        if level.kind is None:
            self._fitted[system] = model
        means = {METRIC: found[METRIC], **self._measure_more(level, system, model, noisy)}
        times.append(time.perf_counter())
        result = Result(
            self.make_task(level, system),
            means,
            found.n_users,
            found.n_left_out,
            {"users": noisy.log.n_users, "items": noisy.log.n_items, "events": len(noisy.log)},
            dict(zip(("tune", "fit", "evaluate"), np.diff(times).tolist(), strict=True)),
            tuning,
            None,
            {"kind": type(model).__name__, "params": get_changed_params(model)},
        )
        self.store.keep(result, Lists(found.users, found.hits, found.n_relevant))
        return result

    def _tune(self, system: System, log: Log) -> tuple[Recommender, dict[str, Any] | None]:
        """Return a model with parameters chosen on events held out of `log`, and a description of the choice."""
        space, model = system.list_tried_on(log), system.model(**system.fixed)
        if not space:
            return model, None
        # A trial with V may do best further along its walk than one without: none is given up on the way.
        options: dict[str, Any] = {"metric": METRIC, "ratio": VALIDATION_RATIO, "defaults": False, "prune": False}
        found = tune(model, log, space=space, trials=10_000, seed=self.seed, **options)
        tried = sum(each.points for each in found.trials)
        return found.model(), {"metric": METRIC, "value": found.best_value, "tried": tried}

    def _measure_more(self, level: NoiseLevel, system: str, model: Recommender, noisy: Noisy) -> dict[str, float]:
        """Return the other measurements of a fitted model."""
        more = {CLEAN: self._measure_clean(system, noisy)}
        if level.kind in (None, "push"):
            more[HITS] = measure_target_hits(model, self.train, self.targets)
        if level.kind is not None and system == CSRR_WITH_V:
            assert isinstance(model, CSRR)
            found = score_by_detector(model, noisy.log)
            more |= {AUC + name: auc(scores, noisy.planted) for name, scores in found.items()}
        return more

    def _measure_clean(self, system: str, noisy: Noisy) -> float:
        """Return the metric of the system fitted to clean data, asked for the same items as the one fitted to noisy.

        A planted click is no test item, and nobody is recommended what they have: the more there are, the fewer
        items are left to mistake for test items. That must not pass as robustness.
        """
        if system not in self._fitted:
            kept = self.store.find(self.make_task(NoiseLevel(None, 0.0), system))
            assert kept is not None, "no noise comes first"
            self._fitted[system] = NOISE_SYSTEMS[system].model(**kept.model["params"]).fit(self.train)
        genuine = np.zeros(noisy.log.n_users, np.bool_)
        genuine[noisy.log.users.rows(self.train.users.ids)] = True
        theirs = noisy.log.select(genuine[noisy.log.user_rows])
        return evaluate(self._fitted[system], theirs, self.test, at=10, metrics=("ndcg",))[METRIC]


RELATIVE, ABSOLUTE = "V: relative residual", "absolute residual"
MANY, RARE = "rule: many clicks", "rule: rare item"
SUSPECTS = "suspects()"


def score_by_detector(model: CSRR, log: Log) -> dict[str, FloatArray]:
    """Return the scores of the events of the log that `model` was fitted to, by each way to find planted events.

    Every array has shape (n_events,); larger is more suspicious. In the units of `model`, a click is 1 and its score
    what the common taste explains of it, so 1 - score is what V may take up; times the click's target it is the
    residual of the objective. The rules look at the log alone.
    """
    users, items = log.user_counts()[log.user_rows], log.item_counts()[log.item_rows]
    relative = 1 - model.score_pairs(log.user_rows, log.item_rows)
    target = users.astype(np.float64) ** -model.user_scaling * items.astype(np.float64) ** -model.item_scaling
    return {
        RELATIVE: relative,
        ABSOLUTE: relative * target,
        MANY: users.astype(np.float64),
        RARE: -items.astype(np.float64),
        SUSPECTS: model.suspects().scores,
    }


def auc(scores: npt.ArrayLike, planted: npt.NDArray[np.bool_]) -> float:
    """Return the AUC of scores, (n_events,): how often a planted event has a larger one than a genuine event."""
    from scipy.stats import rankdata

    n_planted = int(planted.sum())
    n_genuine = len(planted) - n_planted
    if not n_planted or not n_genuine:
        raise DataError("an AUC needs planted events and genuine ones")
    above = rankdata(np.asarray(scores))[planted].sum() - n_planted * (n_planted + 1) / 2
    return float(above / (n_planted * n_genuine))


def measure_target_hits(model: Recommender, log: Log, targets: npt.NDArray[np.int64], k: int = 10) -> float:
    """Return the share of the users of `log` with an item row of `targets`, shape (n,), among their `k` best.

    Only users who have none of them yet are asked.
    """
    have = np.unique(log.user_rows[np.isin(log.item_rows, targets)])
    others = np.setdiff1d(np.unique(log.user_rows), have)
    rows = model.users_.rows(log.users.ids[others])
    best, _ = rank_items(model, rows, k, seen=model.seen_)
    return float(np.isin(best, targets).any(axis=1).mean())
