"""Synthetic logs with a known cause of each event, and noise planted in any log."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import sparse

from csrr._base.arrays import BoolArray, Float64Array, Int32Array, Int64Array
from csrr.data.errors import DataError
from csrr.data.ids import IdMap
from csrr.data.log import Log, as_log, merge_repeats, number_pairs
from csrr.parameters import Choice, ParameterError, check_number, check_seed, check_whole, is_number

GENRES = ["jazz", "folk", "opera", "techno", "metal", "blues", "reggae", "salsa", "soul", "punk", "disco", "swing"]
TASTE, SPECIFIC, NOISE, ORDER, REPEAT = range(5)
BLOCK = 4
"""Number of items in a user's specific choice."""
FOLLOWERS = 3
"""Number of items that an item may lead to."""
SPAN = 365 * 86_400
"""The seconds from the first to the last event of a log in order; it begins in 2024."""
MOST_CELLS = 10**10

Rng = np.random.Generator


@dataclass(frozen=True)
class Synthetic:
    """A log with its planted truth.

    Attributes
    ----------
    log
        The log.
    truth
        Why each event happened, shape (n_events,): 0 for taste, 1 for a choice that is the user's own, 2 for noise, 3
        because it follows from what came before.
    taste
        The factors behind the 0s: of users, shape (n_users, rank), and of items, shape (n_items, rank). A user is drawn
        to an item in proportion to their product.
    late_taste
        The factors of users toward which theirs drift, shape (n_users, rank); None without order.
    transitions
        What each item leads to, sparse of shape (n_items, n_items), rows of sum 1; None without order.
    events
        A table of every event, repeats too, by user, then time: user, item, time, cause (as `truth`, 4 for a repeat);
        None without order.
    """

    log: Log
    truth: npt.NDArray[np.int8]
    taste: tuple[Float64Array, Float64Array]
    late_taste: Float64Array | None = None
    transitions: sparse.csr_array[np.float64, tuple[int, int]] | None = None
    events: pa.Table | None = None

    def __repr__(self) -> str:
        shares = np.bincount(self.truth, minlength=4) / len(self.truth)
        causes = zip(
            shares, ("from taste", "choices that are the user's own", "noise", "from what came before"), strict=True
        )
        return f"Synthetic {self.log!r}\n" + ", ".join(f"{100 * share:.0f} % {cause}" for share, cause in causes)


def synthetic(
    n_users: int = 600,
    n_items: int = 400,
    *,
    rank: int = 8,
    events_per_user: float = 30,
    specific: float = 0.05,
    noise: float = 0.05,
    order: float = 0.0,
    decay: float = 0.5,
    drift: float = 0.0,
    repeats: float = 0.0,
    seed: int = 0,
) -> Synthetic:
    """Generate a log of about n_users*events_per_user events from a known low-rank taste; return it with the truth.

    A user mixes a few genres; an item belongs mostly to one and has a long-tailed popularity. With `order`, `drift` or
    `repeats` events have times, a year of them, and what is chosen depends on when, and on what came before.

    Parameters
    ----------
    n_users
        Number of users.
    n_items
        Number of items, at least four per genre.
    rank
        Number of genres.
    events_per_user
        Mean number of events of a user.
    specific
        The share of events in blocks of four items of one genre that is not the user's.
    noise
        The share of events drawn uniformly from all items.
    order
        The share of the other events that follow from what came before: an item is drawn in proportion to the sum, over
        the user's history, of ``decay ** (number of events since)`` times the probability that the item there leads to
        it. Each item leads to three of its genre.
    decay
        How fast the history fades, between 0 and 1.
    drift
        How far a user's taste has moved at the end of the year toward a second one, between 0 and 1.
    repeats
        The share of the other events that repeat an item of the user's history, of late ones rather; their number is
        the weight in the log.
    seed
        Seed of the random numbers.

    Returns
    -------
    data
        `log`, the log; `truth`, shape (n_events,), the cause of each event: 0 for taste, 1 for a user-specific
        choice, 2 for noise, 3 for order; `taste`, the factors of users, shape (n_users, rank), and of items, shape
        (n_items, rank); what else was planted.

    Examples
    --------
    >>> data = csrr.synthetic(60, 40, events_per_user=10, seed=1)
    >>> data.log.n_users, len(data.truth) == len(data.log)
    (60, True)
    >>> train, test = csrr.split(csrr.synthetic(60, 40, events_per_user=10, order=0.8).log, by="last")
    """
    _check(n_users, n_items, rank, events_per_user, specific, noise)
    for name, value in (("order", order), ("decay", decay), ("drift", drift), ("repeats", repeats)):
        check_number(name, value, least=0, most=1)
    if order + repeats > 1 or decay in (0, 1):
        raise DataError(
            f"order={order}, repeats={repeats}, decay={decay}: order and repeats are shares that add up to at most 1,"
            " and decay lies strictly between 0 and 1"
        )
    check_seed(seed)
    rng = np.random.default_rng(seed)
    genre = np.arange(n_items) % rank
    users = rng.dirichlet(np.full(rank, 0.2), n_users)
    items = _draw_item_taste(genre, rank, rng)
    sizes = _draw_sizes(n_users, n_items, events_per_user, rng)
    genres = [*GENRES[:rank], *(f"genre {number}" for number in range(len(GENRES), rank))]
    titles = np.array([f"{genres[item % rank]} {item // rank + 1}" for item in range(n_items)], np.object_)
    planted = _Planted(users, items, genre, specific, noise)
    if order or drift or repeats:
        transitions, late = _draw_transitions(genre, rng), rng.dirichlet(np.full(rank, 0.2), n_users)
        planted = planted._replace(order=order, decay=decay, drift=drift, repeats=repeats)
        return _make_ordered(planted._replace(transitions=transitions, late=late), sizes, titles, rng)
    kinds = np.full((n_users, n_items), -1, np.int8)
    for user in range(n_users):
        _choose(kinds[user], planted, user, int(sizes[user]), rng)
    user_rows, item_rows = np.nonzero(kinds >= 0)
    log = Log(
        IdMap.range(n_users),
        IdMap.range(n_items),
        user_rows.astype(np.int32),
        item_rows.astype(np.int32),
        titles=titles,
    )
    truth = kinds[user_rows, item_rows]
    truth.flags.writeable = False
    return Synthetic(log, truth, (users, items))


def _check(n_users: int, n_items: int, rank: int, events_per_user: float, specific: float, noise: float) -> None:
    for name, value in (("n_users", n_users), ("n_items", n_items), ("rank", rank)):
        check_whole(name, value, least=1)
    for name, number in (("events_per_user", events_per_user), ("specific", specific), ("noise", noise)):
        check_number(name, number)
    if n_users * n_items > MOST_CELLS:
        raise DataError(f"synthetic makes at most {MOST_CELLS:,} cells, users times items")
    if rank < 2 or n_items < BLOCK * rank:
        raise DataError(f"synthetic needs a rank of 2 or more and {BLOCK} items a genre")
    if not 1 <= events_per_user <= n_items / 2:
        raise ParameterError.of("events_per_user", events_per_user, "must lie between 1 and half of n_items")
    if min(specific, noise) < 0 or specific + noise > 0.5:
        raise DataError(f"specific={specific}, noise={noise}: they must be >= 0 and add up to at most 0.5")


def _draw_item_taste(genre: Int64Array, rank: int, rng: Rng) -> Float64Array:
    """Return how much each item has of each genre, times its popularity, shape (n_items, rank)."""
    mixture = 0.97 * np.eye(rank)[genre] + 0.03 * rng.dirichlet(np.ones(rank), len(genre))
    popularity = rng.lognormal(0.0, 0.8, len(genre))
    return np.asarray(mixture * popularity[:, None])


def _draw_sizes(n_users: int, n_items: int, mean: float, rng: Rng) -> Int64Array:
    """Return the number of events of each user, shape (n_users,): skewed, with about the given mean."""
    spread = 0.5
    sizes = mean * rng.lognormal(-(spread**2) / 2, spread, n_users)
    return np.clip(np.rint(sizes), 1, n_items // 2).astype(np.int64)


class _Planted(NamedTuple):
    """The tastes of users and items, the genres of items, the arguments of `synthetic`, what each item leads to."""

    users: Float64Array
    items: Float64Array
    genre: Int64Array
    specific: float
    noise: float
    order: float = 0.0
    decay: float = 0.0
    drift: float = 0.0
    repeats: float = 0.0
    transitions: Any = None
    late: Any = None

    def draw_foreign_genre(self, user: int, rng: Rng) -> int:
        """Return a genre that is not the user's."""
        return int(rng.choice(np.flatnonzero(self.users[user] <= np.median(self.users[user]))))


def _choose(kinds: npt.NDArray[np.int8], planted: _Planted, user: int, size: int, rng: Rng) -> None:
    """Write the kind of a user's `size` choices into `kinds`, shape (n_items,), where -1 is no choice."""
    n_noise = rng.binomial(size, planted.noise)
    n_specific = BLOCK if size >= 2 * BLOCK and rng.random() < planted.specific * size / BLOCK else 0
    foreign = planted.draw_foreign_genre(user, rng)
    _draw(kinds, SPECIFIC, n_specific, (planted.genre == foreign).astype(float), rng)
    _draw(kinds, TASTE, max(0, size - n_noise - n_specific), planted.items @ planted.users[user], rng)
    _draw(kinds, NOISE, n_noise, np.ones(len(kinds)), rng)


def _draw(kinds: npt.NDArray[np.int8], kind: int, size: int, weights: Float64Array, rng: Rng) -> None:
    """Mark `size` items that have no kind yet, drawn in proportion to `weights`, shape (n_items,)."""
    if size:
        free = np.where(kinds < 0, weights, 0.0)
        kinds[rng.choice(len(kinds), size, replace=False, p=free / free.sum())] = kind


def _draw_transitions(genre: Int64Array, rng: Rng) -> sparse.csr_array[np.float64, tuple[int, int]]:
    """Return the probabilities that an item leads to others of its genre, sparse of shape (n_items, n_items)."""
    n = len(genre)
    followers = np.empty((n, FOLLOWERS), np.int64)
    for item in range(n):
        others = np.flatnonzero(genre == genre[item])
        followers[item] = np.sort(rng.choice(others[others != item], FOLLOWERS, replace=False))
    weights = rng.dirichlet(np.ones(FOLLOWERS), n)
    return sparse.csr_array((weights.ravel(), followers.ravel(), np.arange(n + 1) * FOLLOWERS), shape=(n, n))


def _make_ordered(planted: _Planted, sizes: Int64Array, titles: Any, rng: Rng) -> Synthetic:
    """Return a log in order."""
    n_users, n_items = len(planted.users), len(planted.items)
    times = [np.sort(rng.choice(SPAN - 1, size, replace=False)) for size in sizes]
    walks = [_walk(planted, user, times[user] / SPAN, rng) for user in range(n_users)]
    user_rows = np.repeat(np.arange(n_users, dtype=np.int32), sizes)
    item_rows, causes = (np.concatenate([walk[place] for walk in walks]) for place in (0, 1))
    seconds = np.concatenate(times) + int(np.datetime64("2024-01-01", "s").astype(np.int64))
    ones = np.ones(len(item_rows)) if planted.repeats else None
    merged = merge_repeats(user_rows, item_rows, ones, seconds, n_items)
    ids = IdMap.range(n_users), IdMap.range(n_items)
    log = Log(*ids, merged.user_rows, merged.item_rows, merged.weights, merged.times, titles, places=merged.places)
    # The cause of the first of each pair.
    _, first = np.unique(number_pairs(user_rows, item_rows, n_items), return_index=True)
    columns = {"user": user_rows, "item": item_rows, "time": seconds, "cause": causes}
    truth = causes[first]
    truth.flags.writeable = False
    tastes = planted.users, planted.items
    return Synthetic(log, truth, tastes, planted.late, planted.transitions, pa.table(columns))


def _walk(planted: _Planted, user: int, moments: Float64Array, rng: Rng) -> tuple[Int32Array, npt.NDArray[np.int8]]:
    """Return a user's items in order, and why each was chosen, shape (n,) both; `moments`, (n,), from 0 to 1."""
    early, late, items = planted.users[user], planted.late[user], planted.items
    size, n_items = len(moments), len(items)
    causes = np.zeros(size, np.int8)
    causes[rng.random(size) < planted.noise] = NOISE
    if size >= 2 * BLOCK and rng.random() < planted.specific * size / BLOCK:
        causes[rng.choice(size, BLOCK, replace=False)] = SPECIFIC
    foreign = planted.draw_foreign_genre(user, rng)
    of_kind = {SPECIFIC: (planted.genre == foreign).astype(float), NOISE: np.ones(n_items)}
    faded, chosen = np.zeros(n_items), np.empty(size, np.int32)
    is_new = np.ones(n_items, np.bool_)
    at_random = planted.order, planted.repeats, 1 - planted.order - planted.repeats
    for place, moment in enumerate(moments):
        if causes[place] == TASTE and place:
            causes[place] = rng.choice((ORDER, REPEAT, TASTE), p=at_random)
        if causes[place] == REPEAT:
            weights: Any = faded
        else:
            weights = (
                faded @ planted.transitions if causes[place] == ORDER else of_kind.get(causes[place], 0)
            ) * is_new
            if not weights.any():
                causes[place] = TASTE
                weights = items @ (early + planted.drift * moment * (late - early)) * is_new
        chosen[place] = rng.choice(n_items, p=weights / weights.sum())
        is_new[chosen[place]] = False
        faded *= planted.decay
        faded[chosen[place]] = 1
    return chosen, causes


NoiseKind = Literal["random", "accidental", "popular", "crawler", "push"]
NOISE_KINDS: tuple[NoiseKind, ...] = get_args(NoiseKind)

CRAWLED = 0.5
"""The share of all items that a crawler touches."""
RARE = 0.25
"""A push lifts one of the items whose number of events is among this share of the smallest."""


@dataclass(frozen=True, eq=False)
class Noisy:
    """A log with planted events.

    Attributes
    ----------
    log
        The log.
    planted
        Which of its events are planted, shape (n_events,).
    targets
        The rows of the pushed items, shape (n,); empty for other kinds.

    Examples
    --------
    >>> noisy = csrr.add_noise(csrr.synthetic(60, 40, events_per_user=10).log, "random", 0.2)
    >>> f"{noisy.planted.mean():.2f}"
    '0.20'
    >>> clean = noisy.log.select(~noisy.planted)
    """

    log: Log
    planted: BoolArray
    targets: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))


Clicks = tuple[Int64Array, Int64Array]
"""The users and the items of clicks, by row, shapes (n,); users from the log's number on are new."""


def add_noise(log: Any, kind: NoiseKind, share: float, *, seed: int = 0, avoid: Any = None) -> Noisy:
    """Return the log with planted noise events, reproducible by seed.

    New users have integer ids above all others, or are called crawler-1, crawler-2, ...; items keep their rows. Planted
    events have the median weight, and times drawn from the log, if it has them.

    Parameters
    ----------
    log
        A log, a table with user and item columns, or a users x items matrix.
    kind
        The kind of noise:

        - "random": clicks on uniformly drawn cells without an event;
        - "accidental": clicks of its users, in proportion to their events, on any items they do not have;
        - "popular": the same, on items in proportion to their events;
        - "crawler": clicks of new users who touch half of the items each, drawn at random;
        - "push": clicks of new users, each with as many as the median user, who all have one rare item, the target, and
          hide it among items drawn in proportion to their events. It is the same at every share.
    share
        The planted share of all events, from 0 to less than 1.
    seed
        Seed of the random numbers.
    avoid
        A log with the same users and items, such as test data, whose cells are avoided.

    Returns
    -------
    noisy
        The log, and which of its events are planted.

    Raises
    ------
    ParameterError
        If the kind is unknown, or the share is none.
    DataError
        If there is no room for so much noise.

    Examples
    --------
    >>> train, test = csrr.split(csrr.synthetic(60, 40, events_per_user=10).log)
    >>> noisy = csrr.add_noise(train, "crawler", 0.1, avoid=test)
    >>> noisy.log.n_users - train.n_users
    3
    """
    clean = as_log(log)
    check_noise(kind, share)
    check_seed(seed)
    if not len(clean):
        raise DataError("the log has no events; there is nothing to plant noise among")
    other = _check_avoid(avoid, clean)
    n_planted = round(float(share) / (1 - float(share)) * len(clean))
    rng, targets = np.random.default_rng(seed), np.empty(0, np.int64)
    if kind == "crawler":
        clicks = _draw_crawlers(clean, n_planted, rng)
    elif kind == "push":
        if clean.n_items < 2:
            raise DataError("a push hides its item among others, and this log has only one")
        targets = _draw_rare_item(clean, rng)
        clicks = _draw_push(clean, n_planted, targets, rng)
    else:
        clicks = _draw_misclicks(clean, n_planted, other, kind, rng)
    return Noisy(*_join(clean, clicks, kind, rng), targets)


def check_noise(kind: Any, share: Any) -> None:
    """Raise ParameterError unless the kind of noise and the share are valid."""
    Choice(name="kind", words=NOISE_KINDS).check(kind)
    if not is_number(share, least=0, below=1):
        raise ParameterError.of("share", share, "must be a number from 0 to less than 1")


def _check_avoid(avoid: Any, log: Log) -> Log | None:
    if avoid is None:
        return None
    other = as_log(avoid)
    if other.users != log.users or other.items != log.items:
        raise DataError("avoid has other users or items than the log; split one log with csrr.split")
    return other


def _draw_misclicks(log: Log, n_planted: int, avoid: Log | None, kind: NoiseKind, rng: Rng) -> Clicks:
    """Return clicks of the log's users on items that neither the log nor `avoid` has for them."""
    weights = log.item_counts() / len(log) if kind == "popular" else np.ones(log.n_items)
    taken = [each.to_csr() for each in (log, avoid) if each is not None]
    held = sum(np.bincount(each.nonzero()[0][weights[each.indices] > 0], minlength=log.n_users) for each in taken)
    room = np.where(log.user_counts() > 0, np.maximum(np.count_nonzero(weights) - held, 0), 0)
    sizes = _draw_noise_sizes(room if kind == "random" else log.user_counts(), room, n_planted, rng)
    items = [np.empty(0, np.int64)]
    for user in np.flatnonzero(sizes):
        free = weights.copy()
        for each in taken:
            free[each.indices[each.indptr[user] : each.indptr[user + 1]]] = 0
        items.append(_draw_clicks(free, int(sizes[user]), rng))
    return np.repeat(np.arange(log.n_users), sizes), np.concatenate(items)


def _draw_noise_sizes(likely: Int64Array, room: Int64Array, n_planted: int, rng: Rng) -> Int64Array:
    """Return how many clicks each user gets, shape (n_users,): in proportion to `likely`, no more than `room`."""
    if n_planted > room.sum():
        raise DataError(
            f"no room for {n_planted:,} events: the users lack only {room.sum():,} items; take a smaller share"
        )
    sizes = np.zeros(len(likely), np.int64)
    while (left := n_planted - int(sizes.sum())) > 0:
        shares = np.where(sizes < room, likely, 0)
        sizes = np.minimum(sizes + rng.multinomial(left, shares / shares.sum()), room)
    return sizes


def _draw_crawlers(log: Log, n_planted: int, rng: Rng) -> Clicks:
    """Return clicks of new users on half of the items each; the last may have fewer."""
    sizes = _cut_profiles(n_planted, max(1, round(CRAWLED * log.n_items)))
    items = [_draw_clicks(np.ones(log.n_items), size, rng) for size in sizes]
    return _assign_to_new_users(log, items)


def _draw_push(log: Log, n_planted: int, targets: Int64Array, rng: Rng) -> Clicks:
    """Return clicks of new users on the targets and on items drawn by popularity; the last may have fewer."""
    weights = log.item_counts() / len(log)
    weights[targets] = 0
    counts = log.user_counts()
    typical = round(float(np.median(counts[counts > 0])))
    most = len(targets) + int(np.count_nonzero(weights))
    sizes = _cut_profiles(n_planted, min(max(typical, len(targets)), most))
    hidden = (_draw_clicks(weights, max(size - len(targets), 0), rng) for size in sizes)
    return _assign_to_new_users(log, [np.append(targets, camouflage) for camouflage in hidden])


def _draw_rare_item(log: Log, rng: Rng) -> Int64Array:
    """Return the row of one of the items with few events, but some, shape (1,)."""
    counts = log.item_counts()
    few = np.quantile(counts[counts > 0], RARE)
    return rng.choice(np.flatnonzero((counts > 0) & (counts <= few)), 1)


def _cut_profiles(n_planted: int, size: int) -> list[int]:
    """Return the numbers of clicks of as many users as are needed."""
    full, rest = divmod(n_planted, size)
    return [size] * full + [rest] * (rest > 0)


def _assign_to_new_users(log: Log, items: list[Int64Array]) -> Clicks:
    users = np.repeat(log.n_users + np.arange(len(items)), [len(each) for each in items])
    return users, np.concatenate([np.empty(0, np.int64), *items])


def _draw_clicks(weights: Float64Array, size: int, rng: Rng) -> Int64Array:
    """Return `size` distinct places, drawn one after the other in proportion to `weights`, shape (n,)."""
    return rng.choice(len(weights), size, replace=False, p=weights / weights.sum())


def _join(log: Log, clicks: Clicks, kind: str, rng: Rng) -> tuple[Log, BoolArray]:
    """Return the log with the clicks, and which of its events they are."""
    new_users, new_items = clicks
    n_new = int(new_users.max(initial=-1)) + 1 - log.n_users
    new_ids = _make_new_ids(log.users, n_new, kind)
    users = IdMap([*log.users, *new_ids]) if new_ids else log.users
    row_of = users.rows([*log.users, *new_ids])
    user_rows = row_of[np.concatenate([log.user_rows, new_users])]
    item_rows = np.concatenate([log.item_rows, new_items])
    order = np.lexsort((item_rows, user_rows))
    n = len(new_users)
    weights, times = log.weights, log.times
    if weights is not None:
        weights = np.append(weights, np.full(n, np.median(weights), np.float32))[order]
    if times is not None:
        times = np.append(times, rng.choice(times, n))[order]
    types = log.types
    if types is not None:
        # A planted event has the types and the weight of an event drawn from the log.
        types = types.select(np.append(np.arange(len(log)), rng.integers(len(log), size=n))[order])
        weights = None if weights is None else types.sum_weights()
    # An event is planted just before or after one of the log.
    places = log.places
    if places is not None:
        places = np.append(places, rng.choice(places, n))[order]
    noisy = replace(
        log,
        types=types,
        users=users,
        user_rows=user_rows[order].astype(np.int32),
        item_rows=item_rows[order].astype(np.int32),
        weights=weights,
        times=times,
        places=places,
    )
    return noisy, order >= len(log)


def _make_new_ids(users: IdMap, n: int, kind: str) -> list[int] | list[str]:
    """Return `n` ids that no user has."""
    if users.ids.dtype != object:
        largest = int(users.ids[-1])
        return [largest + 1 + number for number in range(n)]
    name = kind
    while any(str(each).startswith(f"{name}-") for each in users):
        name = f"new-{name}"
    return [f"{name}-{number + 1}" for number in range(n)]
