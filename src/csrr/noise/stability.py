"""`model.stability()`: the share of V and of the suspects that stays after a small change of the model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from csrr._base.arrays import FloatArray
from csrr._base.text import format_html_words
from csrr.noise.scores import RefittableModel, check_popularity, score_noise
from csrr.results.table import ResultTable

SUSPECT = 0.5
"""Events with a larger score are called suspects here."""
_HEADING = f"Share of V and of the suspects that stays (score > {SUSPECT:g}) after a change:"
STEP = 0.05
"""The change of `reg_sparse`."""


class Stability(ResultTable):
    """How much of V and of the suspects stays the same after a refit; one row per change.

    Attributes
    ----------
    columns
        Arrays of shape (n_changes,), NaN where there is nothing to keep:

        - change: the change of the model or its clicks;
        - v_kept: the share of V's nonzero entries that are nonzero again;
        - v_correlation: the correlation of V before and after, over common clicks;
        - suspects_kept: the share of events with a score above 0.5 that have one again.
    types
        The Arrow types of columns whose values may not tell.

    Examples
    --------
    >>> model = csrr.CSRR(reg_low_rank="noise", reg_sparse=0.5, neighbors=0)
    >>> found = model.fit(csrr.synthetic(60, 40, events_per_user=10).log).stability()
    >>> len(found), list(found.columns)
    (6, ['change', 'v_kept', 'v_correlation', 'suspects_kept'])
    """

    def __str__(self) -> str:
        return f"{_HEADING}\n{super().__str__()}"

    def _repr_html_(self) -> str:
        return f"{format_html_words(_HEADING)}\n{super()._repr_html_()}"


class _Change(NamedTuple):
    """A change of the parameters of a model, and which of its events, (n_events,), it is fitted to."""

    words: str
    params: dict[str, Any]
    kept: npt.NDArray[np.bool_]


def find_stability(model: RefittableModel, *, popularity: float = 0.0) -> Stability:
    """Return how much of V, and of the suspects, stays after each change; a row takes one fit, or two."""
    check_popularity(popularity)
    scorer = model.noise_model()
    before, scores = model.specific_on_clicks(), score_noise(scorer.leave_out(), popularity, scorer.seed).scores
    rows = []
    for change, same in zip(_list_changes(model), _list_changes(scorer), strict=True):
        fitted = _refit(model, change)
        after = fitted.specific_on_clicks()
        changed = fitted if scorer is model else _refit(scorer, same)
        again = score_noise(changed.leave_out(), popularity, changed.seed).scores
        mine = before[change.kept]
        kept = _compute_share((after != 0) & (mine != 0), mine != 0)
        suspect = scores[change.kept] > SUSPECT
        rows.append((change.words, kept, _correlate(mine, after), _compute_share((again > SUSPECT) & suspect, suspect)))
    names = ("change", "v_kept", "v_correlation", "suspects_kept")
    return Stability({name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)})


def _refit(model: RefittableModel, change: _Change) -> RefittableModel:
    log = model.costed_log()
    return model.refit(log if change.kept.all() else log.select(change.kept), **change.params)


def _list_changes(model: RefittableModel) -> Iterator[_Change]:
    n_events = len(model.training_log())
    everything = np.ones(n_events, np.bool_)
    yield _Change("another seed", {"seed": model.seed + 1}, everything)
    for factor in (0.9, 1.1):
        yield _Change(f"reg_low_rank x {factor:g}", {"l1": factor * model.l1_}, everything)
    for step in (-STEP, STEP):
        changed = {"reg_sparse": max(0.0, model.own_share + step), "l2": None}
        yield _Change(f"reg_sparse {step:+g}", changed, everything)
    yield _Change("nine tenths of the clicks", {}, np.random.default_rng(model.seed).random(n_events) < 0.9)


def _compute_share(part: npt.NDArray[np.bool_], whole: npt.NDArray[np.bool_]) -> float:
    return float(part.sum() / whole.sum()) if whole.any() else float("nan")


def _correlate(left: FloatArray, right: FloatArray) -> float:
    if left.std() == 0 or right.std() == 0:
        return float("nan")
    return float(np.corrcoef(left, right)[0, 1])
