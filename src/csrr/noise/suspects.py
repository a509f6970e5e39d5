"""What looks most like noise: clicks, users and items; how stable that is; a user's own choices; the log without it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from csrr._base.arrays import FloatArray
from csrr._base.text import format_html_words
from csrr.data.ids import Id
from csrr.data.log import Log
from csrr.noise.scores import STRONG, NoiseModel, RefittableModel, check_popularity, score_noise
from csrr.parameters import ParameterError, check_number
from csrr.registry import MODELS
from csrr.results.recommendations import Amounts
from csrr.results.table import SHOWN, HeadedTable, ResultTable, TabularResult

DOUBT = 0.05
"""The scores are in doubt if clicks on the lowest ranks allow a share of noise that is larger by more than this."""
APART = 0.9
"""They are in doubt if the AUC that they promise is smaller than this."""
KNOWN = 5
"""They are in doubt if the median user has fewer genuine clicks: these say too little about a taste."""
UNDETECTED = "Noise on popular items, and of accounts that act together, passes for taste."
"""A warning that holds for every log."""


@dataclass(frozen=True, eq=False, repr=False)
class Suspects(TabularResult):
    """Noise scores of the events of a log: how likely each click is accidental or fake.

    A score is a local false discovery rate under these assumptions, and not a probability if they fail: noise falls
    evenly over the items (or by `popularity`), a user's taste can be predicted from all other clicks, clicks from taste
    become rare toward the lowest-ranked items, and each user and item has a genuine click. So coordinated accounts look
    like a taste, and the first click of a new interest looks like noise. Diffuse taste looks like noise, too: no method
    can tell them apart without such assumptions. `is_doubtful` says if the scores depend strongly on them;
    docs/recipes/noisy-logs.md has the errors on planted data.

    Attributes
    ----------
    log
        The events.
    scores
        The scores, from 0 to 1, shape (n_events,), in the order of the log (by user row, then item row).
    unexplained
        The share of each click that the common taste does not explain, shape (n_events,).
    stability
        How stable V and the scores are under small changes, if requested; or None.
    share_at_bottom
        The share of noise if no genuine click falls on the lowest-ranked items: estimated from the lowest quarter of
        each user's ranking, or from the lowest twentieth if that gives more. Not a bound, since the ranking errs.

    Examples
    --------
    >>> log = csrr.synthetic(60, 40, events_per_user=10).log
    >>> found = csrr.CSRR(reg_low_rank="noise", reg_sparse=0.5, neighbors=0).fit(log).suspects()
    >>> len(found) == len(log), list(found.events.columns)
    (True, ['user', 'item', 'title', 'score', 'unexplained'])
    """

    log: Log
    scores: FloatArray
    unexplained: FloatArray
    stability: Stability | None = None
    share_at_bottom: float = 1.0

    @property
    def noise_share(self) -> float:
        """The estimated share of noise among all events, under the assumptions: the mean score."""
        return float(self.scores.mean())

    @property
    def is_doubtful(self) -> bool:
        """Whether the scores are unreliable; `doubt` says why."""
        return bool(self.doubt)

    @cached_property
    def doubt(self) -> str:
        """Why the scores are unreliable; empty if no reason is known."""
        log = self.log
        if self.share_at_bottom > self.noise_share + DOUBT:
            return "clicks on the lowest-ranked items give conflicting estimates"
        if self.separation < APART:
            return "the scores of noise and taste overlap"
        meant = np.bincount(log.user_rows, 1 - self.scores, minlength=log.n_users)[log.user_counts() > 0]
        return "most users have too few clicks to know their taste" if np.median(meant) < KNOWN else ""

    @property
    def separation(self) -> float:
        """The AUC of noise detection expected if the scores are right; 1 if there is no noise."""
        scores = np.sort(self.scores).astype(np.float64)
        clean = 1 - scores
        pairs = scores.sum() * clean.sum()
        return float(scores @ (np.cumsum(clean) - clean / 2) / pairs) if pairs > 0 else 1.0

    def describe_share(self) -> str:
        """Return a sentence on the share of noise and its assumptions.

        Returns
        -------
        text
            One line.
        """
        share = f"{self.noise_share:.1%} of {len(self):,} events look like noise"
        other = (
            f"{max(self.noise_share, self.share_at_bottom):.1%} if no genuine click falls on the lowest-ranked items"
        )
        return f"{share} ({other})" + (f"; unreliable: {self.doubt}" if self.is_doubtful else "")

    def __len__(self) -> int:
        return len(self.scores)

    def above(self, score: float) -> npt.NDArray[np.bool_]:
        """Return which events have a larger score.

        Parameters
        ----------
        score
            The score.

        Returns
        -------
        mask
            Shape (n_events,).
        """
        mask: npt.NDArray[np.bool_] = self.scores > score
        return mask

    @cached_property
    def order(self) -> npt.NDArray[np.int64]:
        """The row numbers of the events, most suspect first."""
        return np.lexsort((-self.unexplained, -self.scores))

    @cached_property
    def events(self) -> ResultTable:
        """The events, most suspect first: user, item, title (if known), score, unexplained."""
        log, order = self.log, self.order
        columns = {"user": log.users.ids[log.user_rows[order]]} | self._name_items(log.item_rows[order])
        return ResultTable(columns | {"score": self.scores[order], "unexplained": self.unexplained[order]})

    @cached_property
    def users(self) -> ResultTable:
        """The users with events, most suspect first: user, clicks, noise (the share of these that is noise)."""
        order, clicks, noise = self._group_by(self.log.user_rows, self.log.n_users)
        return ResultTable({"user": self.log.users.ids[order], "clicks": clicks, "noise": noise})

    @cached_property
    def items(self) -> ResultTable:
        """The items with events, most suspect first: item, title (if known), clicks, noise (as for users)."""
        order, clicks, noise = self._group_by(self.log.item_rows, self.log.n_items)
        return ResultTable(self._name_items(order) | {"clicks": clicks, "noise": noise})

    def _name_items(self, item_rows: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        columns = {"item": self.log.items.ids[item_rows]}
        return columns if self.log.titles is None else columns | {"title": self.log.titles[item_rows]}

    def _group_by(self, rows: npt.NDArray[Any], n: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any], FloatArray]:
        """Return the rows with events, most suspect first, their numbers of events and mean scores."""
        clicks = np.bincount(rows, minlength=n)
        noise = np.bincount(rows, self.scores, minlength=n) / np.maximum(clicks, 1)
        order = np.lexsort((-clicks, -noise))
        order = order[clicks[order] > 0]
        return order, clicks[order], noise[order]

    def table(self) -> ResultTable:
        """Return the events as a table.

        Returns
        -------
        table
            `events`: most suspect first.
        """
        return self.events

    def _heading(self) -> str:
        assumed = "Scores assume that noise falls evenly over the items, and taste does not."
        return f"{self.describe_share()}.\n{assumed}\n{UNDETECTED}"

    def __str__(self) -> str:
        more = [] if self.stability is None else [str(self.stability)]
        return "\n".join([self._heading(), str(self.events.head(SHOWN)), *more])

    def _repr_html_(self) -> str:
        more = [] if self.stability is None else [self.stability._repr_html_()]
        return "\n".join([super()._repr_html_(), *more])

    def __repr__(self) -> str:
        return f"Suspects: {len(self):,} events, {self.noise_share:.1%} of them noise (estimated)" + (
            ", unreliable" if self.is_doubtful else ""
        )


def find_suspects(model: NoiseModel, *, popularity: float = 0.0, stability: Stability | None = None) -> Suspects:
    """Return how suspect the clicks of a fitted model are, by the model that scores them for it."""
    check_popularity(popularity)
    scorer = model.noise_model()
    scores, bottom = score_noise(scorer.leave_out(), popularity, getattr(scorer, "seed", 0))
    return Suspects(model.training_log(), scores, np.clip(1 - model.explained_shares(), 0, 1), stability, bottom)


def find_suspects_in(data: Any, *, popularity: float = 0.0, model: Any = None) -> Suspects:
    """Return the noise scores of a log, by a new model with the parameters of `model`, or by a CSRR."""
    check_popularity(popularity)
    if model is None:
        model = MODELS["CSRR"](reg_sparse=STRONG, reg_low_rank="noise", neighbors=0)
    if not hasattr(model, "make_strict"):
        raise ParameterError.of("model", model, "must be a CSRR or CSRRe with the parameters to score by")
    model.check_params()
    log = model.read(data)
    found = find_suspects(model.make_strict(log).fit(log), popularity=popularity)
    return replace(found, log=log)


# After small changes of the model

SUSPECT = 0.5
"""Events with a larger score are called suspects here."""
STEP = 0.05
"""The change of `reg_sparse`."""


class Stability(HeadedTable):
    """The share of V and of the suspects that stays after a refit; one row per change.

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

    def _heading(self) -> str:
        return f"Share of V and of the suspects that stays (score > {SUSPECT:g}) after a change:"


class _Change(NamedTuple):
    """A change of the parameters of a model, and which of its events, (n_events,), it is fitted to."""

    words: str
    params: dict[str, Any]
    kept: npt.NDArray[np.bool_]


Refit = Callable[[Any, npt.NDArray[np.bool_], dict[str, Any]], Any]
"""Takes a model, which of its events, (n_events,), and changed parameters, and fits a new model."""


def measure_stability(model: RefittableModel, refit: Refit, *, popularity: float = 0.0) -> Stability:
    """Return how much of V, and of the suspects, stays after each change; a row takes one fit, or two."""
    check_popularity(popularity)
    scorer = model.noise_model()
    before, scores = _get_v(model), score_noise(scorer.leave_out(), popularity, scorer.seed).scores
    rows = []
    for change, same_change in zip(_list_changes(model), _list_changes(scorer), strict=True):
        fitted = refit(model, change.kept, change.params)
        after = _get_v(fitted)
        new = fitted if scorer is model else refit(scorer, same_change.kept, same_change.params)
        again = score_noise(new.leave_out(), popularity, new.seed).scores
        mine = before[change.kept]
        kept = _compute_share((after != 0) & (mine != 0), mine != 0)
        suspect = scores[change.kept] > SUSPECT
        rows.append((change.words, kept, _correlate(mine, after), _compute_share((again > SUSPECT) & suspect, suspect)))
    names = ("change", "v_kept", "v_correlation", "suspects_kept")
    return Stability({name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)})


def _get_v(model: RefittableModel) -> FloatArray:
    """V on the training events, (n_events,)."""
    seen = model.seen_
    rows = np.repeat(np.arange(seen.shape[0]), np.diff(seen.indptr))
    return np.asarray(model.specific_[rows, seen.indices]).ravel()


def _list_changes(model: RefittableModel) -> Iterator[_Change]:
    n_events = len(model.training_log())
    everything = np.ones(n_events, np.bool_)
    yield _Change("another seed", {"seed": model.seed + 1}, everything)
    for factor in (0.9, 1.1):
        yield _Change(f"reg_low_rank x {factor:g}", {"l1": factor * model.l1_}, everything)
    for step in (-STEP, STEP):
        changed = {"reg_sparse": max(0.0, model.fitted_.own_share + step), "l2": None}
        yield _Change(f"reg_sparse {step:+g}", changed, everything)
    yield _Change("nine tenths of the clicks", {}, np.random.default_rng(model.seed).random(n_events) < 0.9)


def _compute_share(part: npt.NDArray[np.bool_], whole: npt.NDArray[np.bool_]) -> float:
    return float(part.sum() / whole.sum()) if whole.any() else float("nan")


def _correlate(left: FloatArray, right: FloatArray) -> float:
    if left.std() == 0 or right.std() == 0:
        return float("nan")
    return float(np.corrcoef(left, right)[0, 1])


# What is a user's own


@dataclass(frozen=True, eq=False)
class Preferences(Amounts):
    """User-specific choices: the entries of V, largest first, in units of a click, each judged.

    Junk that is consistent passes as taste, and the first choice of a new interest as isolated: clicks alone do not
    tell.

    Attributes
    ----------
    items
        The ids of the chosen items, shape (n,), largest amount first.
    titles
        Their titles, shape (n,), or None.
    amounts
        How much of each click is the user's own, shape (n,).
    user
        Whose choices they are.
    kinds
        Shape (n,): "own taste" (company: an unusual but consistent taste), "isolated" (none: perhaps junk) or
        "unclear": between the two, or, with a support of NaN, an item that too few others chose or a user with too few
        choices.
    support
        How much company a choice has, shape (n,): the share of pairs of a user and an item not chosen that have less.
        Company is how alike the item and the three most like it among the user's other choices are, by what everyone
        else chose.
    """

    user: Id
    kinds: npt.NDArray[np.str_]
    support: FloatArray

    def _columns(self) -> dict[str, list[Any]]:
        support = [None if np.isnan(value) else value for value in self.support.tolist()]
        return super()._columns() | {"kind": self.kinds.tolist(), "support": support}

    def _heading(self) -> str:
        return f"user {self.user}: {len(self)} user-specific choices"

    def __str__(self) -> str:
        if not len(self):
            return f"user {self.user} has no user-specific choices"
        return "\n".join([str(self.table()), *self._remarks()])

    def _remarks(self) -> list[str]:
        counts = ", ".join(f"{(self.kinds == kind).sum()} {kind}" for kind in ("own taste", "isolated", "unclear"))
        known = (
            "Clicks alone cannot tell consistent noise from a taste, or the first choice of a new interest from noise."
        )
        return [f"{counts}. {known}"]


# The log without them

LEAST_SCORE = 0.5
"""By default only events with a larger score are removed."""
LARGEST_SHARE = 0.01
"""The largest share of all events that is removed by default. So at most twice this share of the genuine events is
lost, even if the scores are wrong, unless more than half of the log is noise."""
SHOWN_SCORES = (0.5, 0.8, 0.9, 0.95)
_CHOICES = "With other thresholds, by the scores:"


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
        """Marks of the events that would be removed, shape (n_events,)."""
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
        counts = f"{n:,} of {total:,} events ({n / total:.1%}) would be removed, {total - n:,} would remain"
        return f"{counts}\n{self.warning or self.suspects.describe_share()}\n{UNDETECTED}"

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
