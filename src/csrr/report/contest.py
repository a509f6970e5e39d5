"""A model -> lists of a few users, with reasons."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from csrr._base.arrays import AnyArray, Float64Array, Int64Array
from csrr._base.deadline import TimeUpError, cut_off, limit_time
from csrr._base.text import describe_size, format_duration, format_number_of
from csrr.data import DataError, Log, split
from csrr.data.log import number_pairs
from csrr.evaluation.compare import Comparison, compare
from csrr.evaluation.cost_curve import CostCurve, cost_curve
from csrr.evaluation.evaluate import Evaluation, compute_mean_interval, evaluate
from csrr.models.base import Recommender
from csrr.models.csrr import CSRR
from csrr.models.recommend import name_items, rank_items
from csrr.parameters import ParameterError
from csrr.ranking.metrics import mark_hits
from csrr.registry import MODELS
from csrr.report.examine import format_day

QUANTILE, RATIO = 0.8, 0.8
LEAST_JUDGED = 10
"""Fewer users than these tell nothing."""
ENOUGH_JUDGED, ENOUGH_SHARE = 200, 0.25
"""A cut in time must leave so many users with events on both sides, or in a small log that share of all."""
MOST_JUDGED = 10_000
"""More users than these are a sample of so many."""


@dataclass(frozen=True, eq=False)
class FairTest:
    """What models learn from and what they are asked about.

    Attributes
    ----------
    train, test
        The parts.
    how
        How they were parted, in words.
    users
        The ids of the users who are asked about.
    n_judged
        How many of them have events in train.
    new_item_share
        The share of the test events whose item is in no event of train; no model can find it.
    """

    train: Log
    test: Log
    how: str
    users: AnyArray
    n_judged: int
    new_item_share: float


def hold_out(log: Log, seed: int = 0) -> FairTest:
    """Return the fairest test that a log allows: a cut in time, each user's latest events, or a random fifth of these.

    Raises DataError where too few users have the events for any.
    """
    _check_size(log)
    ways = [_hold_out_at_random(log, seed)] if not _has_order(log) else [_cut_in_time(log), _hold_out_latest(log)]
    for number, (train, test, how) in enumerate(ways):
        judged = _find_judged(train, test)
        enough = min(ENOUGH_JUDGED, max(LEAST_JUDGED, ENOUGH_SHARE * log.n_users))
        if len(judged) >= enough or number == len(ways) - 1:
            return _make_test(train, test, how, judged, seed)
    raise AssertionError("there is a last way")


def find_left_out(log: Log, train: Log) -> Log:
    """Return the events of a log that are not in a part of it, by their types where there are any."""
    pairs, kept = (number_pairs(each.user_rows, each.item_rows, log.n_items) for each in (log, train))
    is_in_train = np.isin(pairs, kept)
    if log.types is None or train.types is None:
        return log.select(~is_in_train)
    cells = np.ones_like(log.types.cells)
    cells[is_in_train] = ~train.types.cells
    return log.select_types(cells)


def _check_size(log: Log) -> None:
    n_users = int((log.user_counts() > 1).sum())
    n_items = int(np.count_nonzero(log.item_counts()))
    if n_users < LEAST_JUDGED:
        people = format_number_of(int(np.count_nonzero(log.user_counts())), "user")
        raise DataError(
            f"no test is possible: it needs {LEAST_JUDGED} users with two events or more, one for training and one for"
            f" the test, and {n_users} of {people} {'has' if n_users == 1 else 'have'} so many; use a longer log, or"
            " check which column is the user"
        )
    if n_items < LEAST_JUDGED:
        raise DataError(
            f"no test is possible: the log has {format_number_of(n_items, 'item')}, and a list of the best needs at"
            f" least {LEAST_JUDGED} to choose from; use a longer log, or check which column is the item"
        )


def _has_order(log: Log) -> bool:
    return log.times is not None and bool(log.times.min() < log.times.max())


def _cut_in_time(log: Log) -> tuple[Log, Log, str]:
    assert log.times is not None
    # Where the last fifth has one time only, the cut is there; the latest of all events is test in any case.
    # With a target, so much of what it is comes before the cut.
    wanted = log.times if log.types is None or log.types.times is None else log.types.times[log.types.target_cells]
    cut = float(np.quantile(wanted, QUANTILE, method="higher"))
    cut = cut if wanted.min() < cut else float(wanted.max())
    train, test = split(log, at=cut)
    how = (
        f"Split in time: models learn from {format_number_of(len(train), 'event')} before {format_day(cut)} and are"
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
        f" {len(test):,}. A single split in time would leave too few users with events on both sides."
    )
    return train, test, how


def _hold_out_at_random(log: Log, seed: int) -> tuple[Log, Log, str]:
    train, test = split(log, ratio=RATIO, seed=seed)
    how = (
        f"A random fifth of each user’s events, {len(test):,} of them; models learn from the other {len(train):,}."
        " There are no times to split at, so the future may be harder than this test."
    )
    return train, test, how


def _find_judged(train: Log, test: Log) -> Int64Array:
    """Return the rows of users with events on both sides."""
    return np.flatnonzero((train.user_counts() > 0) & (test.user_counts() > 0))


def _make_test(train: Log, test: Log, how: str, judged: Int64Array, seed: int) -> FairTest:
    if len(judged) < LEAST_JUDGED:
        raise DataError(
            f"no test is possible: it needs {LEAST_JUDGED} users with an event for training and one for the test, and"
            f" {len(judged)} {'has' if len(judged) == 1 else 'have'} both; most users have too few events: use a longer"
            " log"
        )
    asked = np.flatnonzero(test.user_counts() > 0)
    if len(asked) > MOST_JUDGED:
        asked = np.sort(np.random.default_rng(seed).choice(asked, MOST_JUDGED, replace=False))
        how += f" Of the test users, a random {MOST_JUDGED:,} are evaluated."
    known = train.user_counts()[asked] > 0
    new = float((train.item_counts()[test.item_rows] == 0).mean())
    return FairTest(train, test, how, train.users.ids[asked], int(known.sum()), new)


FLOOR = "PopRank"
CONTESTANTS = (FLOOR, "ItemKNN", "EASE", "WRMF", "CSRR")
LENGTH = 10
METRICS = ("ndcg", "recall", "precision", "hit_rate", "coverage", "novelty")
EASE_SECONDS_PER_CUBE, EASE_BYTES_PER_SQUARE = 2e-10, 12
"""About the seconds that EASE takes for each item cubed, and the memory for each item squared; it cannot be cut off
while it is at it."""
EASE_SHARE = 0.2
"""The share of all time that EASE may take by that estimate."""


@dataclass(frozen=True, eq=False)
class Contestant:
    """A model in the contest.

    Attributes
    ----------
    name
        The kind of model.
    seconds
        What the fit took.
    model
        The fitted model; None where it has not finished.
    evaluation
        What it comes to for all users asked about.
    note
        Why it has not finished, or what else is worth knowing.
    """

    name: str
    seconds: float
    model: Recommender | None = None
    evaluation: Evaluation | None = None
    note: str = ""

    @property
    def judged(self) -> Evaluation:
        """The evaluation of the users with a history, which sets models apart."""
        assert self.evaluation is not None
        return self.evaluation.by_history.get("with", self.evaluation)


def choose_length(log: Log) -> int:
    """Return how long the lists are: ten, or half of the items where these are few."""
    return max(1, min(LENGTH, log.n_items // 2))


def fit_contestant(name: str, test: FairTest, seconds: float, total: float) -> Contestant:
    """Return a model fitted within some seconds, of `total` for everything, and judged; `total` inf: at any cost."""
    if name == "EASE" and EASE_SECONDS_PER_CUBE * test.train.n_items**3 > EASE_SHARE * total:
        return Contestant(name, 0.0, note=f"left out: {_price_ease(test.train.n_items)}")
    began = time.perf_counter()
    model: Recommender = MODELS[name]()
    try:
        fit_within(model, test.train, seconds)
    except TimeUpError:
        more = "--ease (in Python: ease=True) waits for it" if name == "EASE" else "--minutes gives it more"
        return Contestant(name, time.perf_counter() - began, note=f"not finished within {seconds:.0f} s; {more}")
    except (DataError, ParameterError, MemoryError) as error:
        return Contestant(name, time.perf_counter() - began, note=f"left out: {error}")
    took = time.perf_counter() - began
    length = choose_length(test.train)
    found = evaluate(model, test.train, test.test, at=length, users=test.users, metrics=METRICS)
    return Contestant(name, took, model, found, _describe_end(model))


def _price_ease(n_items: int) -> str:
    """Return what EASE would take, and how to have it."""
    took = format_duration(EASE_SECONDS_PER_CUBE * n_items**3)
    memory = describe_size(EASE_BYTES_PER_SQUARE * n_items**2)
    return f"its {n_items:,} items would take about {took} and {memory}; --ease (in Python: ease=True) has it fitted"


def fit_within(model: Recommender, log: Log, seconds: float) -> None:
    """Fit a model; raises TimeUpError where it cannot end within the seconds.

    CSRR ends by itself, with what it has; what it is at then takes a while.
    """
    grace = 1.5 if isinstance(model, CSRR) else 1.0
    with limit_time(seconds), cut_off(grace * seconds):
        model.fit(log)


def _describe_end(model: Recommender) -> str:
    certificate = getattr(model, "certificate_", None)
    return "" if certificate is None else str(certificate)


def compare_contestants(done: list[Contestant], best: Contestant) -> Comparison | None:
    """Return paired tests of all others against the best, on users with a history; None of fewer than two models."""
    if len(done) < 2:
        return None
    return compare({each.name: each.judged for each in done}, find_metric(best), baseline=best.name)


def find_metric(contestant: Contestant) -> str:
    """Return the name of what decides."""
    return f"ndcg@{contestant.judged.at[0]}"


def choose_best(done: list[Contestant]) -> Contestant:
    """Return the one with the best lists; of equals, the simpler one."""
    return max(done, key=lambda each: each.judged[find_metric(each)])


def choose_personal(done: list[Contestant]) -> Contestant | None:
    """Return the best one whose lists differ from person to person; None where none of these finished."""
    personal = [each for each in done if each.name != FLOOR]
    return choose_best(personal) if personal else None


HEAD, MIDDLE = 0.5, 0.8
"""Popular items have this share of the events, those up to the second the next ones; the others are rare."""


@dataclass(frozen=True)
class GroupScore:
    """What a model comes to for a part of the users, or of the test events.

    Attributes
    ----------
    name
        Which part.
    model
        Whose lists.
    n
        How many users, or events.
    mean, low, high
        The mean and its 95 % interval; NaN where it cannot be told.
    """

    name: str
    model: str
    n: int
    mean: float
    low: float
    high: float


def group_users(contestants: Sequence[Contestant]) -> list[GroupScore]:
    """Return the accuracy of models for new, light, medium and heavy users."""
    found = []
    for each in contestants:
        evaluation = each.evaluation
        assert evaluation is not None
        assert evaluation.n_train is not None
        values, history = evaluation.per_user[find_metric(each)], evaluation.n_train
        for name, which in _part_users(history):
            if which.any():
                mean = float(values[which].mean())
                found.append(GroupScore(name, each.name, int(which.sum()), mean, *compute_mean_interval(values[which])))
    return found


def _part_users(history: AnyArray) -> list[tuple[str, AnyArray]]:
    """Return parts of about equal size by the number of events in train; those without any apart."""
    known = history[history > 0]
    if not len(known):
        return [("new users (no history)", history == 0)]
    low, high = (int(each) for each in np.quantile(known, [1 / 3, 2 / 3], method="lower"))
    return [
        ("new users (no history)", history == 0),
        (
            "light users (1 event)" if low == 1 else f"light users (1 to {low:,} events)",
            (history > 0) & (history <= low),
        ),
        (
            f"medium users ({low + 1:,} to {high:,} events)" if high > low + 1 else f"medium users ({high:,} events)",
            (history > low) & (history <= high),
        ),
        (f"heavy users (more than {format_number_of(high, 'event')})", history > high),
    ]


def group_items(contestants: Sequence[Contestant], test: FairTest) -> list[GroupScore]:
    """Return which share of the test events of users with a history is in their lists, by the popularity of items."""
    rows, relevant, seen = _find_judged_rows(test), test.test.to_csr(), test.train.of_target().to_csr()
    parts = _part_items(test.train)
    found = []
    for each in contestants:
        assert each.model is not None
        items, _ = rank_items(each.model, rows, each.judged.at[0], seen=seen)
        hits = mark_hits(items, relevant, rows)
        for name, which in parts:
            asked = np.asarray(relevant[rows] @ which.astype(np.float64), np.float64)
            if asked.sum():
                mean, values = _linearise_ratio((hits & which[items]).sum(axis=1), asked)
                found.append(GroupScore(name, each.name, int(asked.sum()), mean, *compute_mean_interval(values)))
    return found


def _find_judged_rows(test: FairTest) -> AnyArray:
    rows = test.train.users.rows(test.users)
    known: AnyArray = rows[test.train.user_counts()[rows] > 0]
    return known


def _part_items(train: Log) -> list[tuple[str, AnyArray]]:
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


def _linearise_ratio(hits: AnyArray, asked: Float64Array) -> tuple[float, Float64Array]:
    """Return sum(hits)/sum(asked), and values of users whose mean and spread are its own, to first order."""
    ratio = float(hits.sum() / asked.sum())
    return ratio, ratio + (hits - ratio * asked) / asked.mean()


HALF_OF_USERS, HALF_OF_HISTORIES = "half of the users", "half of each history"
PARTS = (HALF_OF_USERS, HALF_OF_HISTORIES)
"""Of the training events, to tell what more users, or longer histories, might give."""
LONGEST = 50
CELLS_A_SECOND = 2e6
"""About how many pairs of user and item a cost curve gets through, all its fits and thresholds together."""


@dataclass(frozen=True)
class Learned:
    """What a model comes to that saw part of the training events, for the same users as with all of them.

    Attributes
    ----------
    part
        Which part: one of `PARTS`.
    n_users, n_events
        How many users and events it has.
    n_judged
        How many users the values are of; they have the whole of their history, or half of it, in the part.
    mean, low, high
        The mean of what decides, and its 95 % interval.
    whole
        The mean with all training events.
    gain, gain_low, gain_high
        `whole` minus `mean`, and its 95 % interval over the users.
    """

    part: str
    n_users: int
    n_events: int
    n_judged: int
    mean: float
    low: float
    high: float
    whole: float
    gain: float
    gain_low: float
    gain_high: float


@dataclass(frozen=True)
class ListCost:
    """What lists of a length come to for a user in the mean.

    Attributes
    ----------
    length
        Of the list.
    found
        The items of it that were chosen.
    in_vain
        The items of it that were not.
    missed
        Chosen items that are not in it.
    cost, low, high
        Misses and false alarms at their costs, with the 95 % interval.
    """

    length: int
    found: float
    in_vain: float
    missed: float
    cost: float
    low: float
    high: float


def learn_from_less(best: Contestant, test: FairTest, part: str, seconds: float, seed: int) -> Learned | None:
    """Return what the kind of model makes of a part of the training events; None where that cannot be told in time.

    Half of the users are drawn. Both parts are judged on these: either the model has only them, with all they chose, or
    it has everybody, with half of what each chose.
    """
    drawn = np.random.default_rng(seed).permutation(test.train.n_users) < test.train.n_users / 2
    users = best.judged.users
    is_drawn = drawn[test.train.users.rows(users)]
    if is_drawn.sum() < LEAST_JUDGED:
        return None
    less = test.train.select(drawn[test.train.user_rows]) if part == HALF_OF_USERS else _halve_histories(test, seed)
    model = MODELS[best.name]()
    try:
        fit_within(model, less, seconds)
        # What was left out is no answer to find: the lists leave out all of train, as those of the best do.
        found = evaluate(model, test.train, test.test, at=best.judged.at, users=users[is_drawn], metrics=["ndcg"])
    except (TimeUpError, DataError):
        return None
    metric = find_metric(best)
    # Both are in the order of the rows.
    gain = best.judged.per_user[metric][is_drawn] - found.per_user[metric]
    whole = found[metric] + float(gain.mean())
    n_users = int(np.count_nonzero(less.user_counts()))
    told = found[metric], *found.interval(metric), whole, float(gain.mean()), *compute_mean_interval(gain)
    return Learned(part, n_users, len(less), found.n_users, *told)


def _halve_histories(test: FairTest, seed: int) -> Log:
    return split(test.train, ratio=0.5, seed=seed)[0]


def price_lists(best: Contestant, test: FairTest, miss: float, false_alarm: float) -> list[ListCost]:
    """Return what lists of several lengths would cost; length 0 stands for no list."""
    assert best.model is not None
    longest = max(1, min(LONGEST, test.train.n_items // 2))
    found = evaluate(best.model, test.train, test.test, at=longest, users=best.judged.users, metrics=["recall"])
    hits = np.cumsum(found.hits, axis=1)
    lengths = sorted({k for k in (1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50) if k <= longest} | {longest})
    priced = []
    for k in (0, *lengths):
        right = hits[:, k - 1] if k else np.zeros(len(hits))
        missed, wrong = found.n_relevant - right, k - right
        costs = miss * missed + false_alarm * wrong
        means = float(right.mean()), float(wrong.mean()), float(missed.mean()), float(costs.mean())
        priced.append(ListCost(k, *means, *compute_mean_interval(costs)))
    return priced


def draw_costs(log: Log, miss: float, false_alarm: float, seconds: float, seed: int) -> CostCurve | None:
    """Return the cost curve of CSRR; None where it would not end within the seconds, or the log is too small."""
    if log.n_users * log.n_items > CELLS_A_SECOND * seconds:
        return None
    try:
        with cut_off(seconds):
            return cost_curve(log, miss=miss, false_alarm=false_alarm, seed=seed)
    except (TimeUpError, DataError):
        return None


N_ITEMS, N_HISTORY, N_REASONS = 5, 6, 2


@dataclass(frozen=True)
class Example:
    """A user, what they chose and what is recommended to them.

    Attributes
    ----------
    user
        The user's id.
    n_events
        How many events there are of them.
    history
        Some of the items, by title or id.
    items
        The recommended items, best first, and the items of the history that speak most for each.
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
    # The least popular tell most of a person.
    telling = chosen[np.argsort(model.popularity[chosen], kind="stable")][:N_HISTORY]
    explains = type(model).can("explain")
    items = []
    for each in model.recommend(user, N_ITEMS).rows():
        reasons = model.explain(user, each["item"]).contributions if explains else []  # type: ignore[attr-defined]
        spoken = [_name(item, title) for item, title, amount in reasons[:N_REASONS] if amount > 0]
        items.append((_name(each["item"], each.get("title")), spoken))
    ids, titles = name_items(model, telling)
    names = [_name(item, None if titles is None else titles[place]) for place, item in enumerate(ids.tolist())]
    return Example(user, len(chosen), names, items)


def _name(item: Any, title: Any) -> str:
    return str(item) if title is None else str(title)
