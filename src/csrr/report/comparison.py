"""A comparison of models on a held-out test: accuracy by group of users and items, and costs of the lists."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from csrr._base.arrays import AnyArray
from csrr._base.text import describe_size, format_duration, format_number_of
from csrr._base.threads import TimeUpError, cut_off, limit_time
from csrr.data.errors import DataError
from csrr.data.features import FeatureTable
from csrr.data.log import Log, number_pairs
from csrr.data.split import describe_loaded_times, split
from csrr.evaluation.cost_curve import CostCurve, cost_curve
from csrr.evaluation.evaluate import Evaluation, evaluate
from csrr.evaluation.statistics import compute_mean_interval
from csrr.models.base import Recommender
from csrr.models.csrr import CSRR
from csrr.models.recommend import name_items, rank_items
from csrr.parameters import ParameterError
from csrr.ranking.metrics import linearize_ratio, mark_hits
from csrr.registry import MODELS
from csrr.report.log_facts import format_day

QUANTILE, RATIO = 0.8, 0.8
LEAST_USERS = 10
"""A test needs this number of users."""
ENOUGH_USERS, ENOUGH_SHARE = 200, 0.25
"""A split in time must leave this number of users with events on both sides, or in a small log this share of all."""
MOST_USERS = 10_000
"""If there are more users, a sample of this size is evaluated."""


@dataclass(frozen=True, eq=False)
class HeldOutTest:
    """The events that models learn from, and those they are tested on.

    Attributes
    ----------
    train, test
        The two parts of the log.
    how
        A sentence on how they were split.
    users
        The ids of the users to evaluate.
    n_with_history
        The number of these users with events in train.
    new_item_share
        The share of the test events whose item has no event in train, so that no model can find it.
    """

    train: Log
    test: Log
    how: str
    users: AnyArray
    n_with_history: int
    new_item_share: float


def hold_out(log: Log, seed: int = 0) -> HeldOutTest:
    """Return the fairest test that a log allows: a split in time, each user's latest events, or a random fifth of each.

    Times of loading rows, in place of the times of events, are ignored.
    Raises DataError if too few users have enough events for any of them.
    """
    _check_size(log)
    if not log.is_ordered or describe_loaded_times(log) or (log.times is not None and np.ptp(log.times) == 0):
        train, test, how = _hold_out_at_random(log, seed)
    elif log.times is None:
        train, test, how = _hold_out_latest(log)
    else:
        train, test, how = _split_in_time(log)
        enough = min(ENOUGH_USERS, max(LEAST_USERS, ENOUGH_SHARE * log.n_users))
        if _count_known(train, test) < enough:
            train, test, how = _hold_out_latest(log)
    if (n := _count_known(train, test)) < LEAST_USERS:
        raise DataError(
            f"no test is possible: it needs {LEAST_USERS} users with an event for training and one for the test, and"
            f" {n} {'has' if n == 1 else 'have'} both; most users have too few events: use a longer log"
        )
    rows = np.flatnonzero(test.user_counts() > 0)
    if len(rows) > MOST_USERS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, MOST_USERS, replace=False))
        how += f" Of the test users, a random {MOST_USERS:,} are evaluated."
    known = int((train.user_counts()[rows] > 0).sum())
    new = float((train.item_counts()[test.item_rows] == 0).mean())
    return HeldOutTest(train, test, how, train.users.ids[rows], known, new)


def _check_size(log: Log) -> None:
    n_users = int((log.user_counts() > 1).sum())
    n_items = int(np.count_nonzero(log.item_counts()))
    if n_users < LEAST_USERS:
        people = format_number_of(int(np.count_nonzero(log.user_counts())), "user")
        raise DataError(
            f"no test is possible: it needs {LEAST_USERS} users with two events or more, one for training and one for"
            f" the test, and {n_users} of {people} {'has' if n_users == 1 else 'have'} so many; use a longer log, or"
            " check which column is the user"
        )
    if n_items < LEAST_USERS:
        raise DataError(
            f"no test is possible: the log has {format_number_of(n_items, 'item')}, and a list of the best needs at"
            f" least {LEAST_USERS} to choose from; use a longer log, or check which column is the item"
        )


def _split_in_time(log: Log) -> tuple[Log, Log, str]:
    assert log.times is not None
    # The quantile of the target's events, if there is a target. If it is the earliest time, the split is at the latest.
    times = log.times if log.types is None or log.types.times is None else log.types.times[log.types.target_cells]
    at = float(np.quantile(times, QUANTILE, method="higher"))
    at = at if times.min() < at else float(times.max())
    train, test = split(log, at=at)
    how = (
        f"Split in time: models learn from {format_number_of(len(train), 'event')} before {format_day(at)} and are"
        f" tested on the {len(test):,} from then on."
    )
    return train, test, how


def _hold_out_latest(log: Log) -> tuple[Log, Log, str]:
    counts = log.user_counts()
    last = int(np.clip(round((1 - RATIO) * float(np.median(counts[counts > 1]))), 1, 10))
    train, test = split(log, last=last)
    events = "event" if last == 1 else f"{last} events"
    how = (
        f"Each user’s latest {events}: models learn from the {len(train):,} before and are tested on these"
        f" {len(test):,}."
    )
    if log.times is not None:
        how += " A single split in time would leave too few users with events on both sides."
    return train, test, how


def _hold_out_at_random(log: Log, seed: int) -> tuple[Log, Log, str]:
    train, test = split(log, ratio=RATIO, seed=seed)
    how = (
        f"A random fifth of each user’s events, {len(test):,} of them; models learn from the other {len(train):,}."
        f" There are no times {'' if log.times is None else 'of the events '}to split at, so the future may be harder"
        " than this test."
    )
    return train, test, how


def _count_known(train: Log, test: Log) -> int:
    """Return the number of users with events on both sides."""
    return int(np.count_nonzero((train.user_counts() > 0) & (test.user_counts() > 0)))


def subtract_log(log: Log, train: Log) -> Log:
    """Return the events of a log that are not in a part of it, by type if events have types."""
    pairs, kept = (number_pairs(each.user_rows, each.item_rows, log.n_items) for each in (log, train))
    is_in_train = np.isin(pairs, kept)
    if log.types is None or train.types is None:
        return log.select(~is_in_train)
    cells = np.ones_like(log.types.cells)
    cells[is_in_train] = ~train.types.cells
    return log.select_types(cells)


BASELINE = "PopRank"
COMPARED = (BASELINE, "ItemKNN", "EASE", "WRMF", "CSRR")
NEXT = 'CSRR(order="next")'
"""The model that knows what came last, which competes where a test is in time."""
LENGTH = 10
METRICS = ("ndcg", "recall", "precision", "hit_rate", "coverage", "novelty")
EASE_SECONDS_PER_CUBE, EASE_BYTES_PER_SQUARE = 2e-10, 12
"""About the seconds that EASE takes for each item cubed, and its memory for each item squared. It cannot be
interrupted."""
EASE_SHARE = 0.2
"""The largest share of all time for EASE, by that estimate."""


@dataclass(frozen=True, eq=False)
class ModelResult:
    """A model of the comparison.

    Attributes
    ----------
    name
        The kind of model.
    seconds
        The time of the fit.
    model
        The fitted model; None if the fit did not finish.
    evaluation
        The evaluation over all test users.
    note
        Why the fit did not finish, or the certificate of the model.
    """

    name: str
    seconds: float
    model: Recommender | None = None
    evaluation: Evaluation | None = None
    note: str = ""

    @property
    def with_history(self) -> Evaluation:
        """The evaluation over the users with a history, by which models are compared."""
        assert self.evaluation is not None
        return self.evaluation.by_history.get("with", self.evaluation)

    @property
    def metric(self) -> str:
        """The name of the metric by which models are compared."""
        return f"ndcg@{self.with_history.at[0]}"


def list_models(test: HeldOutTest) -> tuple[str, ...]:
    """Return the names of the models that are compared on a test."""
    return COMPARED if test.train.cut is None else (*COMPARED, NEXT)


def make_model(name: str) -> Recommender:
    """Return a model of a comparison by its name, not fitted."""
    return CSRR(order="next") if name == NEXT else MODELS[name]()


def choose_length(log: Log) -> int:
    """Return the length of the lists: ten, or half of the items if there are few."""
    return max(1, min(LENGTH, log.n_items // 2))


def fit_and_evaluate(name: str, test: HeldOutTest, seconds: float, total: float) -> ModelResult:
    """Return a model, fitted within some seconds and evaluated; EASE only if it takes a small part of `total`."""
    n_items, needed = test.train.n_items, EASE_SECONDS_PER_CUBE * test.train.n_items**3
    if name == "EASE" and needed > EASE_SHARE * total:
        both = f"{format_duration(needed)} and {describe_size(EASE_BYTES_PER_SQUARE * n_items**2)}"
        note = f"left out: its {n_items:,} items would take about {both}; --ease (in Python: ease=True) has it fitted"
        return ModelResult(name, 0.0, note=note)
    began = time.perf_counter()
    model = make_model(name)
    try:
        fit_within(model, test.train, seconds)
    except TimeUpError:
        more = "--ease (in Python: ease=True) waits for it" if name == "EASE" else "--minutes gives it more"
        return ModelResult(name, time.perf_counter() - began, note=f"not finished within {seconds:.0f} s; {more}")
    except (DataError, ParameterError, MemoryError) as error:
        return ModelResult(name, time.perf_counter() - began, note=f"left out: {error}")
    took = time.perf_counter() - began
    found = evaluate(model, test.train, test.test, at=choose_length(test.train), users=test.users, metrics=METRICS)
    return ModelResult(name, took, model, found, str(getattr(model, "certificate_", None) or ""))


def fit_within(model: Recommender, log: Log, seconds: float) -> None:
    """Fit a model; raise TimeUpError if it cannot finish within the seconds.

    CSRR stops by itself, with the best result so far, but may take half of the time more to finish its current step.
    """
    grace = 1.5 if isinstance(model, CSRR) else 1.0
    with limit_time(seconds), cut_off(grace * seconds):
        model.fit(log)


def choose_best(done: Sequence[ModelResult]) -> ModelResult:
    """Return the model with the best lists; the simplest one of equals."""
    return max(done, key=lambda each: each.with_history[each.metric])


def choose_personal(done: Sequence[ModelResult]) -> ModelResult | None:
    """Return the best model whose lists differ between users; None if none of these finished."""
    personal = [each for each in done if each.name != BASELINE]
    return choose_best(personal) if personal else None


HEAD, MIDDLE = 0.5, 0.8
"""Popular items have this share of the events; medium items are the next ones, up to the second share."""


@dataclass(frozen=True)
class GroupScore:
    """The accuracy of a model for a group of users, or of test events.

    Attributes
    ----------
    name
        The group.
    model
        The name of the model.
    n
        The number of users, or events.
    mean, low, high
        The mean and its 95 % interval; NaN if there is no interval.
    """

    name: str
    model: str
    n: int
    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, name: str, model: str, n: int, values: AnyArray) -> Self:
        """Return the score of values, shape (number of users,)."""
        return cls(name, model, n, float(values.mean()), *compute_mean_interval(values))


def group_users(results: Sequence[ModelResult]) -> list[GroupScore]:
    """Return the accuracy of models for new, light, medium and heavy users."""
    found = []
    for each in results:
        assert each.evaluation is not None
        assert each.evaluation.n_train is not None
        values = each.evaluation.per_user[each.metric]
        for name, group in _group_by_history(each.evaluation.n_train):
            if group.any():
                found.append(GroupScore.of(name, each.name, int(group.sum()), values[group]))
    return found


def _group_by_history(history: AnyArray) -> Iterator[tuple[str, AnyArray]]:
    """Yield groups of about equal size by the number of events in train, after the users without any."""
    known = history[history > 0]
    yield "new users (no history)", history == 0
    if not len(known):
        return
    low, high = (int(each) for each in np.quantile(known, [1 / 3, 2 / 3], method="lower"))
    light = "light users (1 event)" if low == 1 else f"light users (1 to {low:,} events)"
    medium = f"medium users ({low + 1:,} to {high:,} events)" if high > low + 1 else f"medium users ({high:,} events)"
    yield light, (history > 0) & (history <= low)
    yield medium, (history > low) & (history <= high)
    yield f"heavy users (more than {format_number_of(high, 'event')})", history > high


def group_items(results: Sequence[ModelResult], test: HeldOutTest) -> list[GroupScore]:
    """Return the share of the test events that are in the lists of users with a history, by the popularity of items."""
    rows = test.train.users.rows(test.users)
    rows = rows[test.train.user_counts()[rows] > 0]
    relevant, seen = test.test.to_csr(), test.train.of_target().to_csr()
    groups = _group_by_popularity(test.train)
    found = []
    for each in results:
        assert each.model is not None
        items, _ = rank_items(each.model, rows, each.with_history.at[0], seen=seen)
        hits = mark_hits(items, relevant, rows)
        for name, group in groups:
            events = np.asarray(relevant[rows] @ group.astype(np.float64), np.float64)
            if events.sum():
                shares = linearize_ratio((hits & group[items]).sum(axis=1), events)
                found.append(GroupScore.of(name, each.name, int(events.sum()), shares))
    return found


def _group_by_popularity(train: Log) -> list[tuple[str, AnyArray]]:
    counts = train.item_counts()
    order = np.argsort(-counts, kind="stable")
    before = np.empty(len(counts))
    before[order] = (np.cumsum(counts[order]) - counts[order]) / max(1, len(train))
    known = counts > 0
    popular, medium = known & (before < HEAD), known & (before >= HEAD) & (before < MIDDLE)
    rare = known & (before >= MIDDLE)
    return [
        (f"popular items ({popular.sum():,} with half of the events)", popular),
        (f"medium items ({medium.sum():,})", medium),
        (f"rare items ({rare.sum():,} with the last fifth)", rare),
        (f"new items ({(~known).sum():,} without events)", ~known),
    ]


HALF_OF_USERS, HALF_OF_HISTORIES = "half of the users", "half of each history"
HALVES = (HALF_OF_USERS, HALF_OF_HISTORIES)
"""The parts of the training events that tell whether more users, or longer histories, would help."""


@dataclass(frozen=True)
class LearningPoint:
    """The accuracy of a model fitted to a part of the training events, for the same users as with all of them.

    Attributes
    ----------
    part
        One of `HALVES`.
    n_users, n_events
        The numbers of users and events in the part.
    n_compared
        The number of users that are evaluated; the part has the whole of their history, or half of it.
    mean, low, high
        The mean of the main metric, and its 95 % interval.
    whole
        The mean with all training events.
    gain, gain_low, gain_high
        `whole` minus `mean`, and its 95 % interval over the users.
    """

    part: str
    n_users: int
    n_events: int
    n_compared: int
    mean: float
    low: float
    high: float
    whole: float
    gain: float
    gain_low: float
    gain_high: float


def learn_from_half(best: ModelResult, test: HeldOutTest, part: str, seconds: float, seed: int) -> LearningPoint | None:
    """Return the accuracy of a model of the same kind, fitted to half of the training events; None without the time.

    Half of the users are drawn, and evaluated for both parts: the model learns either from these users alone, with
    their whole histories, or from all users, with half of each history: a random half, or the latest if the model uses
    the order.
    """
    train = test.train
    drawn = np.random.default_rng(seed).permutation(train.n_users) < train.n_users / 2
    users = best.with_history.users
    is_drawn = drawn[train.users.rows(users)]
    if is_drawn.sum() < LEAST_USERS:
        return None
    model = make_model(best.name)
    if part == HALF_OF_USERS:
        less = train.select(drawn[train.user_rows])
    else:
        # Where what came last counts, a half with holes would lose more than its length: the latest half.
        less = split(train, ratio=0.5, by="last")[1] if model.uses_order else split(train, ratio=0.5, seed=seed)[0]
    try:
        fit_within(model, less, seconds)
        # The lists leave out all of train, as those of the best model do: events left out of the fit are no hits.
        found = evaluate(model, train, test.test, at=best.with_history.at, users=users[is_drawn], metrics=["ndcg"])
    except (TimeUpError, DataError):
        return None
    # Both are in the order of the rows.
    gains = best.with_history.per_user[best.metric][is_drawn] - found.per_user[best.metric]
    mean, gain = found[best.metric], float(gains.mean())
    n_users = int(np.count_nonzero(less.user_counts()))
    means = mean, *found.interval(best.metric), mean + gain
    return LearningPoint(part, n_users, len(less), found.n_users, *means, gain, *compute_mean_interval(gains))


LONGEST = 50
CELLS_A_SECOND = 2e6
"""About the number of pairs of user and item that a cost curve gets through, with all its fits and thresholds."""


@dataclass(frozen=True)
class ListCost:
    """The mean cost of lists of some length, for a user.

    Attributes
    ----------
    length
        The length of the lists.
    found
        The number of items in the list that were chosen.
    in_vain
        The number of items in the list that were not chosen.
    missed
        The number of chosen items that are not in the list.
    cost, low, high
        The cost of misses and false alarms, with its 95 % interval.
    """

    length: int
    found: float
    in_vain: float
    missed: float
    cost: float
    low: float
    high: float


def compute_list_costs(best: ModelResult, test: HeldOutTest, miss: float, false_alarm: float) -> list[ListCost]:
    """Return the costs of lists of several lengths; length 0 means no list."""
    assert best.model is not None
    longest = max(1, min(LONGEST, test.train.n_items // 2))
    users = best.with_history.users
    found = evaluate(best.model, test.train, test.test, at=longest, users=users, metrics=["recall"])
    hits = np.cumsum(np.pad(found.hits, ((0, 0), (1, 0))), axis=1)
    costs = []
    for k in (*(k for k in (0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50) if k < longest), longest):
        right = hits[:, k]
        wrong, missed = k - right, found.n_relevant - right
        cost = miss * missed + false_alarm * wrong
        means = float(right.mean()), float(wrong.mean()), float(missed.mean()), float(cost.mean())
        costs.append(ListCost(k, *means, *compute_mean_interval(cost)))
    return costs


def compute_cost_curve(log: Log, miss: float, false_alarm: float, seconds: float, seed: int) -> CostCurve | None:
    """Return the cost curve of CSRR; None if there is no time for it, or the log is too small."""
    if log.n_users * log.n_items > CELLS_A_SECOND * seconds:
        return None
    try:
        with cut_off(seconds):
            return cost_curve(log, miss=miss, false_alarm=false_alarm, seed=seed)
    except (TimeUpError, DataError):
        return None


@dataclass(frozen=True)
class NewItems:
    """What an item table says of items without events.

    Attributes
    ----------
    n_hidden
        The number of items that were hidden with all their events.
    recall, chance
        The share of people's choices among them that are in lists of `length` of them: by the table, and at random.
    length
        The length of the lists.
    """

    n_hidden: int
    recall: float
    chance: float
    length: int = 10


def judge_features(log: Log, items: FeatureTable, params: dict[str, Any], seconds: float, seed: int) -> NewItems | None:
    """Return how well CSRR with these parameters finds hidden items by a table; None if there is no time for it."""
    try:
        with limit_time(seconds):
            train, test = split(log, cold_items=0.1, seed=seed)
            model = CSRR(**params).fit(train, items=items)
        hidden = test.items.ids[test.item_counts() > 0]
        length = min(NewItems.length, len(hidden))
        found = evaluate(model, train, test, at=length, metrics=["recall"], candidates=hidden)
    except (TimeUpError, DataError, ParameterError):
        return None
    return NewItems(len(hidden), float(found[f"recall@{length}"]), length / len(hidden), length)


N_ITEMS, N_HISTORY, N_REASONS = 5, 6, 2


@dataclass(frozen=True)
class Example:
    """A user, a part of their history, and what is recommended to them.

    Attributes
    ----------
    user
        The user's id.
    n_events
        The number of the user's events.
    history
        Some of the user's items, by title or id.
    items
        The recommended items, best first, each with the items of the history that contribute most to it.
    """

    user: Any
    n_events: int
    history: list[str]
    items: list[tuple[str, list[str]]]


def make_examples(model: Recommender) -> list[Example]:
    """Return lists of a light, a medium and a heavy user."""
    counts = np.diff(model.seen_.indptr)
    order = np.argsort(counts, kind="stable")
    order = order[(counts[order] > 0) & (counts[order] < len(model.items_))]
    places = sorted({int(share * (len(order) - 1)) for share in (0.25, 0.5, 0.9)}) if len(order) else []
    return [_make_example(model, int(order[place])) for place in places]


def _make_example(model: Recommender, row: int) -> Example:
    user = model.users_.ids[row : row + 1].tolist()[0]
    chosen = model.seen_.indices[model.seen_.indptr[row] : model.seen_.indptr[row + 1]]
    # The least popular items say most about a person.
    telling = chosen[np.argsort(model.popularity[chosen], kind="stable")][:N_HISTORY]
    explains = type(model).can("explain")
    items = []
    for each in model.recommend(user, N_ITEMS).rows():
        reasons = model.explain(user, each["item"]).contributions if explains else []  # type: ignore[attr-defined]
        named = [_name(item, title) for item, title, amount in reasons[:N_REASONS] if amount > 0]
        items.append((_name(each["item"], each.get("title")), named))
    ids, titles = name_items(model, telling)
    pairs = zip(ids.tolist(), [None] * len(ids) if titles is None else titles, strict=True)
    return Example(user, len(chosen), [_name(*pair) for pair in pairs], items)


def _name(item: Any, title: Any) -> str:
    return str(item) if title is None else str(title)
