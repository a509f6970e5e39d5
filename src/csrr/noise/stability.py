"""A fitted model -> how much of V and of the suspects a small change of seed, strengths or clicks leaves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from csrr.data import Log
from csrr.models.robust import RobustModel
from csrr.models.strengths import check_number
from csrr.noise.noise_scores import judge, like, noise_scores, own_log
from csrr.ranking.result_table import ResultTable

Floats = npt.NDArray[np.floating[Any]]

SUSPECT = 0.5
"""Events with a larger score are called suspects here."""
STEP = 0.05
"""By how much `reg_sparse` is changed."""


class Stability(ResultTable):
    """What is the same after a refit; one row a change, with the columns

    - change: what was done to the model or its clicks;
    - v_kept: the share of V's entries that are not zero again;
    - v_correlation: of V before and after, over the clicks that both have;
    - suspects_kept: the share of events with a score above 0.5 that have one again.

    NaN where there is nothing to keep.
    """

    def __str__(self) -> str:
        return f"What is left of V and of the suspects (score > {SUSPECT:g}) after a change:\n{super().__str__()}"


class _Change(NamedTuple):
    words: str
    model: RobustModel
    log: Log
    kept: npt.NDArray[np.bool_]


def stability(model: RobustModel, *, popularity: float = 0.0) -> Stability:
    """Return how much of V, and of the suspects of the model that judges, survives; a row takes one fit or two."""
    check_number("popularity", popularity, least=0, most=1)
    court = judge(model)
    before, scores = _specific(model), noise_scores(court, popularity)
    rows = []
    for change, appeal in zip(_changes(model), _changes(court), strict=True):
        fitted = change.model.fit(change.log)
        after = _specific(fitted)
        again = noise_scores(fitted if court is model else appeal.model.fit(appeal.log), popularity)
        mine = before[change.kept]
        kept = _share((after != 0) & (mine != 0), mine != 0)
        suspect = scores[change.kept] > SUSPECT
        rows.append((change.words, kept, _correlation(mine, after), _share((again > SUSPECT) & suspect, suspect)))
    names = ("change", "v_kept", "v_correlation", "suspects_kept")
    return Stability({name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)})


def _changes(model: RobustModel) -> Iterator[_Change]:
    log = own_log(model)
    everything = np.ones(len(log), np.bool_)
    yield _Change("another seed", like(model, seed=model.seed + 1), log, everything)
    for factor in (0.9, 1.1):
        yield _Change(f"reg_low_rank x {factor:g}", like(model, l1=factor * model.l1_), log, everything)
    share = 1.0 if model._own_l2 is None else model._own_l2 / model.costs_.ratio
    for step in (-STEP, STEP):
        other = like(model, reg_sparse=max(0.0, share + step), l2=None)
        yield _Change(f"reg_sparse {step:+g}", other, log, everything)
    most = np.random.default_rng(model.seed).random(len(log)) < 0.9
    yield _Change("nine tenths of the clicks", like(model), log.select(most), most)


def _specific(model: RobustModel) -> Floats:
    """Return V on the model's clicks, (n_events,)."""
    rows = np.repeat(np.arange(len(model.users_)), np.diff(model.seen_.indptr))
    return np.asarray(model.specific_[rows, model.seen_.indices]).ravel()


def _share(part: npt.NDArray[np.bool_], whole: npt.NDArray[np.bool_]) -> float:
    return float(part.sum() / whole.sum()) if whole.any() else float("nan")


def _correlation(left: Floats, right: Floats) -> float:
    if left.std() == 0 or right.std() == 0:
        return float("nan")
    return float(np.corrcoef(left, right)[0, 1])
