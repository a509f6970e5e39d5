"""`csrr.clean`: a log without the events that look most like noise."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from csrr._base.text import format_html_words
from csrr.data.log import Log
from csrr.noise.suspects import UNTOLD, Suspects, find_suspects_in
from csrr.parameters import check_number
from csrr.results.table import SHOWN, ResultTable, TabularResult

LEAST_SCORE = 0.5
"""By default only events with a larger score are removed."""
LARGEST_SHARE = 0.01
"""The largest share of all events that is removed by default. So at most twice this share of the genuine events is
lost, even if the scores are wrong, unless more than half of the log is noise."""
SHOWN_SCORES = (0.5, 0.8, 0.9, 0.95)
_CHOICES = "With `above`, by the scores:"


@dataclass(frozen=True, eq=False, repr=False)
class Cleaning(TabularResult):
    """The result of `csrr.plan_cleaning`: what `clean` would remove. Print it to see how much, with examples.

    Attributes
    ----------
    suspects
        The events and their scores.
    above
        Events with a larger score are removed; None: the cautious default, see `clean`.

    Examples
    --------
    >>> planned = csrr.plan_cleaning(csrr.synthetic(60, 40, events_per_user=10).log)
    >>> len(planned.log) + len(planned.removed) == len(planned.suspects)
    True
    """

    suspects: Suspects
    above: float | None = None

    @cached_property
    def mask(self) -> npt.NDArray[np.bool_]:
        """Which events would be removed, shape (n_events,)."""
        found = self.suspects
        if self.above is not None:
            return found.above(self.above)
        worst = found.order[found.scores[found.order] > LEAST_SCORE][: int(LARGEST_SHARE * len(found))]
        mask = np.zeros(len(found), np.bool_)
        mask[worst] = True
        return mask

    @property
    def log(self) -> Log:
        """The remaining events, with their weights, times and titles."""
        return self.suspects.log.select(~self.mask)

    @property
    def removed(self) -> ResultTable:
        """The events that would be removed, most suspect first: user, item, title (if known), score, unexplained."""
        return self.suspects.events.take(self.mask[self.suspects.order])

    @property
    def choices(self) -> ResultTable:
        """The effect of other values of `above`: above, removed, share of all events, genuine (by the scores)."""
        scores = self.suspects.scores.astype(np.float64)
        masks = [self.suspects.above(each) for each in SHOWN_SCORES]
        columns = {"above": np.array(SHOWN_SCORES), "removed": np.array([mask.sum() for mask in masks])}
        genuine = np.array([(1 - scores[mask]).mean() if mask.any() else np.nan for mask in masks])
        return ResultTable(columns | {"share": columns["removed"] / len(scores), "genuine": genuine})

    @property
    def warning(self) -> str:
        """A warning if the estimate is unreliable; else empty."""
        if not self.suspects.is_doubtful:
            return ""
        return f"{self.suspects.describe_share()}, so many of the removed events may be genuine"

    def table(self) -> ResultTable:
        """Return the removed events as a table.

        Returns
        -------
        table
            `removed`: most suspect first.
        """
        return self.removed

    def _heading(self) -> str:
        n, total = int(self.mask.sum()), len(self.suspects)
        told = f"{n:,} of {total:,} events ({n / total:.1%}) would be removed, {total - n:,} would remain"
        return f"{told}\n{self.warning or self.suspects.describe_share()}\n{UNTOLD}"

    def __str__(self) -> str:
        shown = [str(self.removed.head(SHOWN))] if len(self.removed) else []
        return "\n".join([self._heading(), *shown, _CHOICES, str(self.choices)])

    def _repr_html_(self) -> str:
        return "\n".join([super()._repr_html_(), format_html_words(_CHOICES), self.choices._repr_html_()])

    def __repr__(self) -> str:
        return f"Cleaning: {int(self.mask.sum()):,} of {len(self.suspects):,} events removed"


def plan_cleaning(data: Any, *, above: float | None = None, popularity: float = 0.0, model: Any = None) -> Cleaning:
    """Show what `clean` would remove from a log, before doing it.

    Parameters
    ----------
    data
        A log, a table with user and item columns, or a users x items matrix.
    above
        As for `clean`.
    popularity
        As for `clean`.
    model
        As for `clean`.

    Returns
    -------
    cleaning
        What would be removed, and `log`, what would remain.

    Raises
    ------
    ParameterError
        As for `clean`.

    Examples
    --------
    >>> planned = csrr.plan_cleaning(csrr.synthetic(60, 40, events_per_user=10).log, above=0.5)
    >>> bool((planned.removed["score"] > 0.5).all())
    True
    """
    if above is not None:
        check_number("above", above, above=0, most=1)
    return Cleaning(find_suspects_in(data, popularity=popularity, model=model), above)


def clean(data: Any, *, above: float | None = None, popularity: float = 0.0, model: Any = None) -> Log:
    """Return a log without the events that look most like noise; warns if the estimate is unreliable.

    The default takes out so little that models hardly change by it: it is there to get rid of the worst. To keep noise
    from a model, let the events count by their scores instead, as `CSRR(denoise="auto")` does.

    Weights, times, titles, and all users and items stay. Use `plan_cleaning` first to see what would be removed.

    Parameters
    ----------
    data
        A log, a table with user and item columns, or a users x items matrix.
    above
        Remove events with a larger score. None is cautious: it removes the most suspect of those above 0.5, at most
        1 % of all events.
    popularity
        Noise is assumed to hit an item in proportion to (its clicks + 1)^popularity.
    model
        A CSRR or CSRRe whose parameters are used for the scores; it is not fitted itself.

    Returns
    -------
    log
        The remaining events.

    Raises
    ------
    ParameterError
        For another model, or an invalid `above` or `popularity`.

    Examples
    --------
    >>> log = csrr.synthetic(60, 40, events_per_user=10).log
    >>> found = csrr.CSRR(reg_low_rank="noise", reg_sparse=0.5, neighbors=0).fit(log).suspects()
    >>> csrr.plan_cleaning(log, above=0.5).log == log.select(~found.above(0.5))
    True
    """
    planned = plan_cleaning(data, above=above, popularity=popularity, model=model)
    if planned.warning:
        warnings.warn(planned.warning, UserWarning, stacklevel=2)
    return planned.log
