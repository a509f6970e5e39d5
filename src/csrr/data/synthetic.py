"""A log whose every event is known to be taste, a user's own peculiarity, or noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from csrr.arrays import Float64Array, Int64Array
from csrr.data.errors import DataError
from csrr.data.ids import IdMap
from csrr.data.log import Log
from csrr.parameters import check_number, check_seed, check_whole

GENRES = (
    "jazz",
    "folk",
    "opera",
    "techno",
    "metal",
    "blues",
    "reggae",
    "salsa",
    "soul",
    "punk",
    "disco",
    "swing",
)
TASTE, SPECIFIC, NOISE = 0, 1, 2
BLOCK = 4
MOST_CELLS = 10**10
"""Number of items in a user's specific choice."""


@dataclass(frozen=True)
class Synthetic:
    """A log with its planted truth.

    Attributes
    ----------
    log
        The log.
    truth
        Why each event happened, shape (n_events,): 0 for taste, 1 for a choice that is the user's own, 2 for noise.
    taste
        The factors behind the 0s: of users, shape (n_users, rank), and of items, shape (n_items, rank). A user is drawn
        to an item in proportion to their product.
    """

    log: Log
    truth: npt.NDArray[np.int8]
    taste: tuple[Float64Array, Float64Array]


def synthetic(
    n_users: int = 600,
    n_items: int = 400,
    *,
    rank: int = 8,
    events_per_user: float = 30,
    specific: float = 0.05,
    noise: float = 0.05,
    seed: int = 0,
) -> Synthetic:
    """Generate a log of about n_users*events_per_user events from a known low-rank taste; return it with the truth.

    A user mixes a few genres; an item belongs mostly to one and has a long-tailed popularity.

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
    seed
        Seed of the random numbers.

    Returns
    -------
    data
        `log`, the log; `truth`, shape (n_events,), the cause of each event: 0 for taste, 1 for a user-specific
        choice, 2 for noise; `taste`, the factors of users, shape (n_users, rank), and of items, shape (n_items, rank).

    Examples
    --------
    >>> data = csrr.synthetic(60, 40, events_per_user=10, seed=1)
    >>> data.log.n_users, len(data.truth) == len(data.log)
    (60, True)
    """
    _check(n_users, n_items, rank, events_per_user, specific, noise)
    check_seed(seed)
    rng = np.random.default_rng(seed)
    genre = np.arange(n_items) % rank
    users = rng.dirichlet(np.full(rank, 0.2), n_users)
    items = _draw_item_taste(genre, rank, rng)
    sizes = _draw_sizes(n_users, n_items, events_per_user, rng)
    kinds = np.full((n_users, n_items), -1, np.int8)
    for user in range(n_users):
        _choose(kinds[user], users[user], items, genre, int(sizes[user]), (specific, noise), rng)
    user_rows, item_rows = np.nonzero(kinds >= 0)
    titles = np.array([_make_title(item, rank) for item in range(n_items)], np.object_)
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
        raise DataError(f"events_per_user={events_per_user}: it must lie between 1 and half of n_items")
    if min(specific, noise) < 0 or specific + noise > 0.5:
        raise DataError(f"specific={specific}, noise={noise}: they must be >= 0 and add up to at most 0.5")


def _make_title(item: int, rank: int) -> str:
    number, genre = divmod(item, rank)
    return f"{GENRES[genre] if genre < len(GENRES) else f'genre {genre}'} {number + 1}"


def _draw_item_taste(genre: Int64Array, rank: int, rng: np.random.Generator) -> Float64Array:
    """Return how much each item has of each genre, times its popularity, shape (n_items, rank)."""
    mixture = 0.97 * np.eye(rank)[genre] + 0.03 * rng.dirichlet(np.ones(rank), len(genre))
    popularity = rng.lognormal(0.0, 0.8, len(genre))
    return np.asarray(mixture * popularity[:, None])


def _draw_sizes(n_users: int, n_items: int, mean: float, rng: np.random.Generator) -> Int64Array:
    """Return the number of events of each user, shape (n_users,): skewed, with about the given mean."""
    spread = 0.5
    sizes = mean * rng.lognormal(-(spread**2) / 2, spread, n_users)
    return np.clip(np.rint(sizes), 1, n_items // 2).astype(np.int64)


def _choose(
    kinds: npt.NDArray[np.int8],
    taste: Float64Array,
    items: Float64Array,
    genre: Int64Array,
    size: int,
    shares: tuple[float, float],
    rng: np.random.Generator,
) -> None:
    """Write the kind of a user's `size` choices into `kinds`, shape (n_items,), where -1 is no choice."""
    specific, noise = shares
    n_noise = rng.binomial(size, noise)
    n_specific = BLOCK if size >= 2 * BLOCK and rng.random() < specific * size / BLOCK else 0
    foreign = rng.choice(np.flatnonzero(taste <= np.median(taste)))
    _draw(kinds, SPECIFIC, n_specific, (genre == foreign).astype(float), rng)
    _draw(kinds, TASTE, max(0, size - n_noise - n_specific), items @ taste, rng)
    _draw(kinds, NOISE, n_noise, np.ones(len(kinds)), rng)


def _draw(kinds: npt.NDArray[np.int8], kind: int, size: int, weights: Float64Array, rng: np.random.Generator) -> None:
    """Mark `size` items that have no kind yet, drawn in proportion to `weights`, shape (n_items,)."""
    if size:
        free = np.where(kinds < 0, weights, 0.0)
        kinds[rng.choice(len(kinds), size, replace=False, p=free / free.sum())] = kind
