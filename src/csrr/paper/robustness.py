"""Noise planted in training data -> what it costs each system, tuned as its user would, and what finds it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from csrr.data import Log, as_log, split
from csrr.data.add_noise import NOISE_KINDS, NoiseKind, Noisy, add_noise, check_noise
from csrr.experiments.evaluate import evaluate
from csrr.experiments.tuning import get_changed_params, hash_log, tune
from csrr.models.csrr import CSRR
from csrr.models.recommender import Recommender
from csrr.models.strengths import ParameterError, check_whole
from csrr.paper.contestants import CONTESTANTS, WITH_V, Contestant
from csrr.paper.detection import auc, detectors, target_hits
from csrr.paper.reproduce import Progress
from csrr.paper.results import Row, Rows, Task
from csrr.paper.robustness_results import AUC, CLEAN, HITS, METRIC, Robustness

RATIO, VALIDATION_RATIO = 0.8, 0.9
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)


@dataclass(frozen=True)
class Setting:
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
    systems: Sequence[str] = tuple(CONTESTANTS),
    seeds: int | Sequence[int] = 5,
    folder: str | os.PathLike[str] | None = None,
    callback: Callable[[Progress], object] | None = None,
) -> Robustness:
    """Return how well systems rank and find noise when `shares` of the training events are planted.

    For each of `seeds` (a number of them counts from 0) the log is split 80 : 20 a user, and noise of each kind (see
    `add_noise`) goes into the training part, on no test cell. Every system is tuned on validation data held out of
    that noisy part, fitted to all of it and tested on the clean rest. `systems` are names of
    `contestants.CONTESTANTS`. Each is also fitted without noise, whether or not 0 is among the shares.

    `folder` keeps every result as soon as it is there: called again, `robustness` goes on where it was. `callback`
    sees the `Progress` before each result.
    """
    clean = as_log(log)
    chosen = _checked_seeds(seeds)
    settings, systems = _settings(kinds, shares), _checked_systems(systems)
    jobs = [(seed, setting, system) for seed in chosen for setting in settings for system in systems]
    found: list[Row] = []
    with _opened(folder) as rows:
        for seed, setting, system in jobs:
            if not found or found[-1].task.split != seed:
                own = _Split(rows, clean, seed)
            row = rows.find(own.task(setting, system))
            if row is None:
                if callback is not None:
                    now = f"split {seed}, {setting}: {system}"
                    callback(Progress(len(found), len(jobs), now, _seconds_left(found, len(jobs))))
                row = own.measure(setting, system)
            found.append(row)
    return Robustness.of(found)


def _settings(kinds: Sequence[NoiseKind], shares: Sequence[float]) -> list[Setting]:
    """Return no noise, then each share of each kind; no noise is the same of all kinds."""
    _check_list("kinds", kinds)
    _check_list("shares", shares)
    for kind in kinds:
        for share in shares:
            check_noise(kind, share)
    noisy = {float(share) for share in shares} - {0.0}
    if not kinds or not noisy:
        raise ParameterError(f"kinds={kinds!r}, shares={shares!r}: give at least one kind of noise and a share above 0")
    return [Setting(None, 0.0)] + [Setting(kind, share) for kind in dict.fromkeys(kinds) for share in sorted(noisy)]


def _check_list(name: str, value: Any) -> None:
    if isinstance(value, str) or not isinstance(value, Sequence | np.ndarray):
        raise ParameterError(f"{name}={value!r} must be a list")


def _checked_seeds(seeds: Any) -> list[int]:
    if not isinstance(seeds, Sequence):
        check_whole("seeds", seeds, least=1)
        return list(range(seeds))
    for each in seeds:
        check_whole("seeds", each, least=0)
    if not seeds:
        raise ParameterError("seeds is empty; give their number, or at least one")
    return [int(each) for each in dict.fromkeys(seeds)]


def _checked_systems(systems: Sequence[str]) -> list[str]:
    _check_list("systems", systems)
    for each in systems:
        if each not in CONTESTANTS:
            raise ParameterError(f"there is no system {each!r}; there are {', '.join(CONTESTANTS)}")
    if not systems:
        raise ParameterError(f"systems={systems!r}: give at least one of {', '.join(CONTESTANTS)}")
    return list(dict.fromkeys(systems))


@contextmanager
def _opened(folder: str | os.PathLike[str] | None) -> Iterator[Rows]:
    """Give the results in `folder`, or in one that is gone afterwards."""
    if folder is not None:
        with Rows.open(folder) as rows:
            yield rows
        return
    with TemporaryDirectory() as temporary, Rows.open(temporary) as rows:
        yield rows


def _seconds_left(found: Sequence[Row], total: int) -> float:
    """Return roughly how long the rest takes, by what those that are found have taken; 0 where there are none."""
    taken = sum(sum(row.seconds.values()) for row in found)
    return taken / max(1, len(found)) * (total - len(found))


class _Split:
    """One split of the log: the systems fitted to its clean training part, and what noise makes of them."""

    def __init__(self, rows: Rows, log: Log, seed: int) -> None:
        self.rows, self.log, self.seed = rows, log, seed
        self.train, self.test = split(log, ratio=RATIO, seed=seed)
        self.data = hash_log(log)
        self.targets = add_noise(self.train, "push", 0, seed=seed).targets
        self._noisy: tuple[Setting, Noisy] | None = None
        self._fitted: dict[str, Recommender] = {}

    def task(self, setting: Setting, system: str) -> Task:
        """Return what identifies a result: what is tried is part of it."""
        return Task(self.data, None, self.seed, system, {**asdict(setting), "tried": CONTESTANTS[system].plain()})

    def noisy(self, setting: Setting) -> Noisy:
        """Return the training part with this noise; the last one is kept."""
        if self._noisy is None or self._noisy[0] != setting:
            kind, share = setting.kind or "random", setting.share
            self._noisy = setting, add_noise(self.train, kind, share, seed=self.seed, avoid=self.test)
        return self._noisy[1]

    def measure(self, setting: Setting, system: str) -> Row:
        """Return the result of tuning and fitting a system to noisy data and testing it on clean; it is kept."""
        noisy = self.noisy(setting)
        times = [time.perf_counter()]
        model, tuning = self._chosen(CONTESTANTS[system], noisy.log)
        times.append(time.perf_counter())
        model.fit(noisy.log)
        times.append(time.perf_counter())
        found = evaluate(model, noisy.log, self.test, at=10, metrics=("ndcg",))
        if setting.kind is None:
            self._fitted[system] = model
        means = {METRIC: found[METRIC], **self._more(setting, system, model, noisy)}
        times.append(time.perf_counter())
        row = Row(
            self.task(setting, system),
            means,
            found.n_users,
            found.n_left_out,
            {"users": noisy.log.n_users, "items": noisy.log.n_items, "events": len(noisy.log)},
            dict(zip(("tune", "fit", "evaluate"), np.diff(times).tolist(), strict=True)),
            tuning,
            None,
            {"kind": type(model).__name__, "params": get_changed_params(model)},
        )
        users = found.users if found.users.dtype != object else found.users.astype(str)
        self.rows.keep(row, {"users": users, METRIC: found.per_user[METRIC].astype(np.float32)})
        return row

    def _chosen(self, contestant: Contestant, log: Log) -> tuple[Recommender, dict[str, Any] | None]:
        """Return a contestant with its parameters chosen on validation data held out of `log`, and how, if any are."""
        space, model = contestant.searched(log), contestant.model(**contestant.fixed)
        if not space:
            return model, None
        # A trial with V may do best further along its walk than one without: none is given up on the way.
        options: dict[str, Any] = {"metric": METRIC, "ratio": VALIDATION_RATIO, "defaults": False, "prune": False}
        found = tune(model, log, space=space, trials=10_000, seed=self.seed, **options)
        tried = sum(each.points for each in found.trials)
        return found.model(), {"metric": METRIC, "value": found.best_value, "tried": tried}

    def _more(self, setting: Setting, system: str, model: Recommender, noisy: Noisy) -> dict[str, float]:
        """Return what else is measured of a fitted model."""
        more = {CLEAN: self._clean_value(system, noisy)}
        if setting.kind in (None, "push"):
            more[HITS] = target_hits(model, self.train, self.targets)
        if setting.kind is not None and system == WITH_V:
            assert isinstance(model, CSRR)
            more |= {AUC + name: auc(each, noisy.planted) for name, each in detectors(model, noisy.log).items()}
        return more

    def _clean_value(self, system: str, noisy: Noisy) -> float:
        """Return the metric of the system fitted to clean data, asked for the same items as the one fitted to noisy.

        A planted click is no test item, and nobody is recommended what they have: the more there are, the fewer
        items are left to mistake for test items. That must not pass as robustness.
        """
        if system not in self._fitted:
            kept = self.rows.find(self.task(Setting(None, 0.0), system))
            assert kept is not None, "no noise comes first"
            self._fitted[system] = CONTESTANTS[system].model(**kept.model["params"]).fit(self.train)
        genuine = np.zeros(noisy.log.n_users, np.bool_)
        genuine[noisy.log.users.rows(self.train.users.ids)] = True
        theirs = noisy.log.select(genuine[noisy.log.user_rows])
        return evaluate(self._fitted[system], theirs, self.test, at=10, metrics=("ndcg",))[METRIC]
