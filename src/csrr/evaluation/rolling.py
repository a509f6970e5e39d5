"""The aging of a model: fits until several times, each evaluated in all later windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np

from csrr._base.arrays import Float64Array, Int64Array
from csrr._base.text import format_duration, format_number_of, show_argument
from csrr.data.columns import format_cuts, parse_time
from csrr.data.errors import DataError, DataWarning, warn_caller
from csrr.data.log import Log, as_log
from csrr.data.split import cut_at, describe_loaded_times, get_target_times
from csrr.evaluation.evaluate import evaluate
from csrr.evaluation.statistics import compute_mean_interval
from csrr.evaluation.study import find_model
from csrr.evaluation.tuning import copy_model
from csrr.models.base import Recommender
from csrr.parameters import ParameterError, read_days
from csrr.ranking.metrics import HIT_METRICS, split_metric
from csrr.results.table import ResultTable, TabularResult

WINDOWS, MOST_WINDOWS = 6, 60
OF_ORDER = ("auc", "full_mrr")
"""Metrics over all items, which have no length."""
TOLERANCE = 0.02
"""The share of the metric that a fit may lose to a new one before it is time for the new one."""
_DAY = 86_400.0


@dataclass(frozen=True)
class WindowScore:
    """The metric of a fit in a window of time.

    Attributes
    ----------
    fitted_until
        The time before which the model was fitted, in seconds since 1970.
    start, end
        The window that it is judged on; `end` is not in it.
    age
        The number of windows between the fit and this one: 0 where the fit is new.
    n_users
        The number of users that are judged.
    mean, low, high
        The mean of the metric over them, and its 95 % interval.
    """

    fitted_until: float
    start: float
    end: float
    age: int
    n_users: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class AgeEffect:
    """The loss of a fit of some age against a new one, for the same users in the same windows.

    Attributes
    ----------
    age
        The number of windows since the fit.
    days
        The same in days, at the start of the window.
    n_users
        The number of users; of each the mean over the windows counts.
    fresh, mean
        The mean of the metric by new fits, and by those of this age.
    change, low, high
        The difference, and its 95 % interval over users.
    """

    age: int
    days: float
    n_users: int
    fresh: float
    mean: float
    change: float
    low: float
    high: float


@dataclass(frozen=True, eq=False, repr=False)
class Rolling(TabularResult):
    """The aging of a model, by windows in time.

    Attributes
    ----------
    model
        The name of the kind of model.
    metric
        What is measured.
    every
        The length of a window, in days.
    windows
        Every fit in every window from its time on.
    ages
        What a fit loses by its age.

    Examples
    --------
    >>> log = csrr.synthetic(100, 40, events_per_user=15, drift=1).log
    >>> found = csrr.evaluate_rolling("ease", log, every="45d", metric="ndcg@5")
    >>> [each.age for each in found.ages]
    [1, 2, 3]
    """

    model: str
    metric: str
    every: float
    windows: list[WindowScore]
    ages: list[AgeEffect]

    @property
    def recommendation(self) -> str:
        """A sentence on how often to fit again."""
        if not self.ages:
            return "there is no older fit to compare with: take shorter windows, or an earlier first cut"
        late = [each for each in self.ages if each.change < -TOLERANCE * each.fresh and each.high < 0]
        if not late:
            longest = _show_days(self.ages[-1].days)
            most = f"{100 * TOLERANCE:g} % of {self.metric}"
            return f"up to an age of {longest} a fit shows no loss of more than {most} that is beyond chance"
        first = late[0]
        loss, half = (100 * each / first.fresh for each in (-first.change, (first.high - first.low) / 2))
        return (
            f"fit again at least every {_show_days(first.days)}: a fit of that age loses {loss:.1f} ± {half:.1f} % of"
            f" {self.metric} to a new one"
        )

    def summary(self) -> dict[str, Any]:
        """Return everything as plain Python values, ready for JSON.

        Returns
        -------
        summary
            The model, the metric, the length of a window, its scores, what fits lose by age, and the recommendation.
        """
        own = {"model": self.model, "metric": self.metric, "every": self.every, "recommendation": self.recommendation}
        return own | {"windows": self.to_list(), "ages": [asdict(each) for each in self.ages]}

    def table(self) -> ResultTable:
        """Return every fit in every window.

        Returns
        -------
        table
            A row for each, with the attributes of `WindowScore`.
        """
        return ResultTable.from_rows(asdict(each) for each in self.windows)

    def display_table(self) -> ResultTable:
        """Return what a fit loses by its age, with rounded numbers.

        Returns
        -------
        table
            A row for each age.
        """
        return ResultTable.from_rows(
            {
                "age of the fit": _show_days(each.days),
                "users": f"{each.n_users:,}",
                "new fit": f"{each.fresh:.4f}",
                "this fit": f"{each.mean:.4f}",
                "difference": f"{each.change:+.4f} ± {(each.high - each.low) / 2:.4f}",
                "in %": f"{100 * each.change / each.fresh:+.1f}" if each.fresh else "",
            }
            for each in self.ages
        )

    def _heading(self) -> str:
        n, ends = len({each.start for each in self.windows}), [self.windows[0].start, self.windows[-1].end]
        return (
            f"{self.model} on {format_number_of(n, 'window')} of {_show_days(self.every)} from"
            f" {' to '.join(format_cuts(np.array(ends)))}: {self.metric}, mean difference over users ± 95 % interval"
        )

    def _remarks(self) -> list[str]:
        return [self.recommendation]

    # For csrr.plot

    @property
    def title(self) -> str:
        """The title of the plot."""
        return f"How {self.model} ages"

    @property
    def caption(self) -> str:
        """The caption of the plot."""
        return f"Windows of {_show_days(self.every)}; lines are 95 % intervals. {self.recommendation.capitalize()}."

    @property
    def panels(self) -> list[dict[str, Any]]:
        """The charts: the metric in each window by a new fit and by the first, and what a fit loses by its age."""
        begin = self.windows[0].start
        series = {
            "fitted again before each window": [each for each in self.windows if each.age == 0],
            "fitted once": [each for each in self.windows if each.fitted_until == begin],
        }
        lines = [
            {
                "name": name,
                "points": [
                    {"x": (each.start - begin) / _DAY, "mean": each.mean, "low": each.low, "high": each.high}
                    | {"note": f"{each.n_users:,} users"}
                    for each in scores
                ],
            }
            for name, scores in series.items()
        ]
        losses = [{"x": each.days, "mean": each.change, "low": each.low, "high": each.high} for each in self.ages]
        first = {"title": f"{self.metric} by window", "x": "days since the first fit", "y": self.metric}
        second = {"title": "Loss by age", "x": "days since the fit", "y": f"difference in {self.metric}"}
        return [first | {"series": lines}, second | {"series": [{"name": "older fit less new fit", "points": losses}]}]


def _show_days(days: float) -> str:
    return f"{days:.3g} days" if days >= 1 else format_duration(days * _DAY)


def evaluate_rolling(
    model: Any,
    log: Any,
    *,
    every: float | str | timedelta | None = None,
    first: float | str | date | None = None,
    metric: str = "ndcg@10",
    fold_in: bool = False,
    threads: int | None = None,
    callback: Callable[[str], object] | None = None,
) -> Rolling:
    """Evaluate how a model ages: fit it until a time, judge it on the windows after, move on by a window, fit again.

    Each window is judged by a new fit and by all older ones, for the same users: those with events in it. Lists leave
    out all that a user had before the window. Older fits don't know items that came after them. They answer as they
    were fitted, or, with `fold_in`, by the histories until the window, as a service that folds in does; users without a
    history get what was popular.

    Parameters
    ----------
    model
        A class, a name like "wrmf", or a model; each fit is of a new one with its parameters, and chooses anew what is
        "auto".
    log
        A log with times, or anything that `csrr.read` takes.
    every
        The length of a window in days, a string like "30d" or "12h", or a timedelta; None: a sixth of the time after
        the first cut. A rest at the end that is shorter is left out.
    first
        The first cut: a number, a date or a string like 2000-12-31; None: the time before which half of the events lie.
    metric
        What to measure: a metric of lists at a length, or "full_mrr" or "auc".
    fold_in
        Whether older fits are asked with the histories until the window, in place of those that they were fitted to.
    threads
        Number of threads; 0 for all cores.
    callback
        Called with a line of text before every fit.

    Returns
    -------
    rolling
        The metric of every fit in every window, what a fit loses by its age, and how often to fit again.

    Raises
    ------
    DataError
        If the log has no times, or they leave no window.
    ParameterError
        If an argument cannot be what it is.

    Warns
    -----
    DataWarning
        If most users have most of their events at one time.

    Examples
    --------
    >>> log = csrr.synthetic(100, 40, events_per_user=15, drift=1).log
    >>> found = csrr.evaluate_rolling(csrr.ItemKNN(), log, every="30d")
    >>> csrr.plot(found).save("ages.svg")
    """
    own, events = copy_model(find_model(model)), as_log(log)
    if "@" in str(metric) or metric not in OF_ORDER:
        name, k = split_metric(metric, HIT_METRICS)
    else:
        name, k = metric, 1
    cuts = _place_cuts(events, every, first)
    if (doubt := describe_loaded_times(events)) is not None:
        warn_caller(doubt, DataWarning)
    if k > events.n_items:
        raise ParameterError.of("metric", metric, f"the log has only {events.n_items:,} items")
    values: dict[tuple[int, int], tuple[Int64Array, Float64Array]] = {}
    for fitted in range(len(cuts) - 1):
        if callback is not None:
            callback(f"fit {fitted + 1} of {len(cuts) - 1}, until {format_cuts(cuts)[fitted]}")
        new = copy_model(own).fit(cut_at(events, cuts[fitted])[0])
        for window in range(fitted, len(cuts) - 1):
            ends = float(cuts[window]), float(cuts[window + 1])
            folds = fold_in and window > fitted
            found = _measure_window(new, events, ends, name, k, folds=folds, threads=threads)
            if found is not None:
                values[fitted, window] = found
    if not values:
        raise DataError("no window has an event of a user that is not in their history; take longer windows")
    scores = [_score(cuts, *place, found) for place, (_, found) in sorted(values.items())]
    days = float(cuts[1] - cuts[0]) / _DAY
    return Rolling(type(own).__name__, metric, days, scores, list(_compare_ages(values, len(cuts) - 1, days)))


def _place_cuts(log: Log, every: Any, first: Any) -> Float64Array:
    """Return the starts of the windows, and the end of the last, shape (n_windows + 1,)."""
    if log.times is None or not len(log):
        raise DataError("the log has no times, so nothing can be said of how a model ages; read it with a time column")
    times = get_target_times(log)
    start = float(np.quantile(times, 0.5, method="higher") if first is None else parse_time(first))
    # The last event lies before the end.
    left = float(times.max()) + 1 - start
    if first is None and np.ptp(log.times) == 0:
        raise DataError("all events have the same time, so nothing can be said of how a model ages")
    if not times.min() < start or left <= 0:
        low, high = format_cuts(np.array([times.min(), times.max()]))
        given = show_argument("first", first)
        raise DataError(f"{given} must lie within the times of the log, after {low} and up to {high}")
    length = left / WINDOWS if every is None else read_days("every", every) * _DAY
    n = WINDOWS if every is None else int(left / length + 1e-9)
    if not 1 <= n <= MOST_WINDOWS:
        raise ParameterError.of(
            *("every", every),
            f"must make 1 to {MOST_WINDOWS} windows of the {left / _DAY:.3g} days after the first cut, of"
            f" {left / _DAY / MOST_WINDOWS:.3g} days or more each",
        )
    cuts: Float64Array = start + length * np.arange(n + 1, dtype=np.float64)
    return cuts


def _measure_window(
    model: Recommender, log: Log, ends: tuple[float, float], name: str, k: int, *, folds: bool, threads: int | None
) -> tuple[Int64Array, Float64Array] | None:
    """Return the rows of the users with events in a window, and the metric for them; None without such users."""
    start, end = ends
    times = get_target_times(log)
    if not ((times >= start) & (times < end)).any():
        return None
    before, after = cut_at(log, start)
    if folds:
        folded: Any = model.fold_in(before)
        model = copy(model)
        model.seen_, model.score_rows = before.to_csr(), folded.score_rows  # type: ignore[method-assign]
    found = evaluate(model, before, after.select(get_target_times(after) < end), at=k, metrics=[name], threads=threads)
    return log.users.rows(found.users).astype(np.int64), next(iter(found.per_user.values()))


def _score(cuts: Float64Array, fitted: int, window: int, values: Float64Array) -> WindowScore:
    until, start, end = (float(cuts[place]) for place in (fitted, window, window + 1))
    mean, interval = float(values.mean()), compute_mean_interval(values)
    return WindowScore(until, start, end, window - fitted, len(values), mean, *interval)


def _compare_ages(
    values: dict[tuple[int, int], tuple[Int64Array, Float64Array]], n_windows: int, days: float
) -> Iterator[AgeEffect]:
    """Yield what fits of each age lose to new ones; of a user, the mean over windows."""
    for age in range(1, n_windows):
        pairs = [(values[at, at], values[at - age, at]) for at in range(age, n_windows) if (at - age, at) in values]
        if not pairs:
            continue
        users = np.concatenate([rows for (rows, _), _ in pairs])
        own, place = np.unique(users, return_inverse=True)
        both = (np.concatenate([pair[which][1] for pair in pairs]) for which in (0, 1))
        fresh, old = (np.bincount(place, each) / np.bincount(place) for each in both)
        change = old - fresh
        means = float(fresh.mean()), float(old.mean()), float(change.mean())
        yield AgeEffect(age, age * days, len(own), *means, *compute_mean_interval(change))
