"""Logs of made tastes and real ones, all without planted noise: those that finding noise was set by, and fresh ones.

CHOSEN is what the constants of the scores were chosen on. FRESH was made after that, with other kinds of taste, sizes
and seeds, to be looked at once; if a score is changed by what it shows, it belongs to CHOSEN, and a new one is due.
"""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

import csrr
from csrr.data.ids import IdMap

Rng = np.random.Generator
Weights = npt.NDArray[np.float64]
Weigh = Callable[[int], Weights]


def draw(weigh: Weigh, n: int, m: int, typical: float, rng: Rng, spread: float = 0.5) -> csrr.Log:
    """Return a log in which user i has some `typical` distinct items, drawn in proportion to weigh(i)."""
    items = []
    for user in range(n):
        weights = weigh(user)
        most = min(m // 4, int(0.7 * np.count_nonzero(weights)))
        size = min(max(5, int(rng.lognormal(np.log(typical), spread))), most)
        items.append(np.sort(rng.choice(m, size, replace=False, p=weights / weights.sum())))
    rows = np.repeat(np.arange(n), [len(each) for each in items])
    return csrr.Log(IdMap.range(n), IdMap.range(m), rows, np.concatenate(items))


def draw_popularity(m: int, rng: Rng, power: float = 0.8) -> Weights:
    return rng.permutation(np.arange(1, m + 1) ** -power)


def topics(
    seed: int, mix: Callable[[Rng], Weights], n: int, m: int, typical: float = 40, n_topics: int = 20
) -> csrr.Log:
    """Users whose shares of the topics are drawn by `mix`; within a topic items are chosen by popularity."""
    rng = np.random.default_rng(seed)
    topic, popularity = rng.integers(n_topics, size=m), draw_popularity(m, rng)
    within = popularity / np.bincount(topic, popularity, minlength=n_topics)[topic]
    return draw(lambda _: mix(rng)[topic] * within, n, m, typical, rng)


def sharp_topics(seed: int, n: int = 800, m: int = 1000) -> csrr.Log:
    """Users of one to three topics out of twenty; nobody clicks outside of theirs."""

    def mix(rng: Rng) -> Weights:
        mine = rng.choice(20, rng.integers(1, 4), replace=False)
        mixed = np.zeros(20)
        mixed[mine] = rng.dirichlet(np.ones(len(mine)))
        return mixed

    return topics(seed, mix, n, m)


def mixed_topics(seed: int, n: int = 800, m: int = 1000) -> csrr.Log:
    """Users of all twenty topics, but mostly of few: Dirichlet(0.15)."""
    return topics(seed, lambda rng: rng.dirichlet(np.full(20, 0.15)) + 1e-9, n, m)


def diffuse(seed: int, n: int = 800, m: int = 1000, slope: float = 0.35) -> csrr.Log:
    """Low-rank logits of a mild slope, times popularity: hardly anything is quite out of taste."""
    rng = np.random.default_rng(seed)
    users, items, popularity = rng.normal(size=(n, 8)), rng.normal(size=(m, 8)), draw_popularity(m, rng)
    return draw(lambda user: popularity * np.exp(slope * (items @ users[user])), n, m, 40, rng)


def hard_clusters(seed: int, n: int = 800, m: int = 1000) -> csrr.Log:
    """Users of one cluster of items out of ten, all of its items alike."""
    rng = np.random.default_rng(seed)
    clusters = rng.integers(10, size=m)
    return draw(lambda user: (clusters == user % 10).astype(np.float64), n, m, 40, rng)


def breadths(seed: int, n: int = 700, m: int = 1200) -> csrr.Log:
    """Popularity with a power of 1.1, and logits that are steep for some users and flat for others."""
    rng = np.random.default_rng(seed)
    users, items, popularity = rng.normal(size=(n, 12)), rng.normal(size=(m, 12)), draw_popularity(m, rng, 1.1)
    steep = rng.gamma(2.0, 0.3, size=n)
    return draw(lambda user: popularity * np.exp(steep[user] * (items @ users[user])), n, m, 30, rng, 0.8)


def nested_genres(seed: int, n: int = 900, m: int = 800) -> csrr.Log:
    """Five genres of six kinds each: six clicks in ten on one's kind, three on the rest of its genre, one anywhere."""
    rng = np.random.default_rng(seed)
    kind, popularity = rng.integers(30, size=m), draw_popularity(m, rng, 0.6)

    def weigh(_: int) -> Weights:
        mine = rng.integers(30)
        layers = (kind == mine, kind // 6 == mine // 6, np.ones(m))
        return sum(
            (s * w * popularity / (w * popularity).sum() for s, w in zip((0.6, 0.3, 0.1), layers, strict=True)),
            np.zeros(m),
        )

    return draw(weigh, n, m, 35, rng)


def drifting(seed: int, n: int = 700, m: int = 900) -> csrr.Log:
    """Users whose taste moves from one pair of fifteen topics to another, in steps."""

    def mix(rng: Rng) -> Weights:
        start, end = rng.dirichlet(np.full(15, 0.08), size=2)
        return np.mean([(1 - t) * start + t * end for t in np.linspace(0, 1, 4)], axis=0) + 1e-6

    return topics(seed, mix, n, m, 45, n_topics=15)


def sessions(seed: int, n: int = 1000, m: int = 1500) -> csrr.Log:
    """A few sessions each, of neighbors on a line of items around a point that the user likes, or around any."""
    rng = np.random.default_rng(seed)
    place, popularity = rng.random(m), draw_popularity(m, rng, 0.5)

    def weigh(_: int) -> Weights:
        likes = rng.random(2)
        points = np.where(rng.random(5) < 0.8, rng.choice(likes, 5), rng.random(5))
        away = np.abs(place[:, None] - points)
        near = np.exp(-np.minimum(away, 1 - away) / 0.015).sum(axis=1)
        return near * popularity

    return draw(weigh, n, m, 25, rng, 0.7)


def blockbusters(seed: int, n: int = 600, m: int = 700) -> csrr.Log:
    """Half of the clicks on what everybody sees, the other half on a niche of one's own out of forty."""
    rng = np.random.default_rng(seed)
    niche, popularity = rng.integers(40, size=m), draw_popularity(m, rng, 1.3)

    def weigh(_: int) -> Weights:
        mine = (niche == rng.integers(40)) + 1e-12
        return popularity / popularity.sum() + mine / mine.sum()

    return draw(weigh, n, m, 20, rng)


def tiny(seed: int) -> csrr.Log:
    """Sixty users of one or two of five topics."""
    return topics(seed, lambda rng: rng.dirichlet(np.full(5, 0.3)) + 1e-9, 60, 50, 9, n_topics=5)


def places(seed: int, n: int = 750, m: int = 900) -> csrr.Log:
    """Users and items in space; a user likes what is near, within a radius of their own."""
    rng = np.random.default_rng(seed)
    users, items, radius = rng.random((n, 3)), rng.random((m, 3)), rng.uniform(0.1, 0.35, size=n)
    popularity = rng.lognormal(0, 1, size=m)

    def weigh(user: int) -> Weights:
        return popularity * np.exp(-((items - users[user]) ** 2).sum(axis=1) / (2 * radius[user] ** 2)) + 1e-12

    return draw(weigh, n, m, 30, rng, 0.6)


def two_populations(seed: int, n: int = 900, m: int = 1100) -> csrr.Log:
    """Half of the users keep to one of twelve topics, the others follow popularity with mild leanings."""
    rng = np.random.default_rng(seed)
    topic, popularity = rng.integers(12, size=m), draw_popularity(m, rng, 0.7)
    leaning = rng.normal(size=(m, 5))

    def weigh(user: int) -> Weights:
        if user % 2:
            return popularity * np.exp(0.3 * (leaning @ rng.normal(size=5)))
        return popularity * (topic == rng.integers(12))

    return draw(weigh, n, m, 28, rng)


def series(seed: int, n: int = 650, m: int = 960) -> csrr.Log:
    """Items in series of eight; who takes up one takes most of it, and a few single items by popularity."""
    rng = np.random.default_rng(seed)
    number, popularity = np.arange(m) // 8, draw_popularity(m, rng, 1.0)
    known = rng.permutation(np.arange(1, m // 8 + 1) ** -0.6)

    def weigh(_: int) -> Weights:
        mine = rng.choice(m // 8, rng.integers(3, 7), replace=False, p=known / known.sum())
        return np.isin(number, mine) + 0.2 * popularity / popularity.mean() / m * 40

    return draw(weigh, n, m, 24, rng, 0.3)


def regions(seed: int, n: int = 1200, m: int = 1600) -> csrr.Log:
    """Eight regions with items of their own, and one item in twenty that is a hit in all of them."""
    rng = np.random.default_rng(seed)
    region, is_hit, popularity = rng.integers(8, size=m), rng.random(m) < 0.05, draw_popularity(m, rng, 0.9)
    return draw(lambda user: popularity * np.where(is_hit, 2.0, region == user % 8) + 1e-12, n, m, 22, rng, 0.9)


def light_users(seed: int, n: int = 2500, m: int = 600) -> csrr.Log:
    """Many users of some seven clicks each, on two or three of sixteen topics."""
    return topics(seed, lambda rng: rng.dirichlet(np.full(16, 0.1)) + 1e-9, n, m, 7, n_topics=16)


@cache
def _read(file: str, **options: Any) -> csrr.Log:
    return csrr.read(csrr.locate(file), **options)


@cache
def _read_steam(file: str, weight: str | None = None) -> csrr.Log:
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(csrr.locate("steam.zip")) as archive:
        path = archive.extract(f"steam/{file}", folder)
        options = {} if weight is None else {"weight": weight}
        return csrr.read(path, user="User_ID", item="Game_ID", separator="\t", **options)


def some_users(log: csrr.Log, n: int, seed: int) -> csrr.Log:
    """Return the events of `n` users, drawn at random; users and items without an event are gone."""
    chosen = np.isin(log.user_rows, np.random.default_rng(seed).choice(log.n_users, n, replace=False))
    return csrr.read(log.select(chosen).to_arrow().select(["user", "item"]))


Make = Callable[[int], csrr.Log]
CHOSEN: dict[str, Make] = {
    "sharp topics": sharp_topics,
    "mixed topics": mixed_topics,
    "diffuse tastes": diffuse,
    "very diffuse tastes": lambda seed: diffuse(seed, slope=0.2),
    "small and diffuse": lambda seed: diffuse(seed, 200, 150),
    "hard clusters": hard_clusters,
    "csrr.synthetic, 120 x 80": lambda seed: (
        csrr.synthetic(120, 80, rank=4, events_per_user=15, noise=0, seed=seed).log
    ),
    "csrr.synthetic, 400 x 300": lambda seed: csrr.synthetic(400, 300, rank=6, noise=0, seed=seed).log,
    "MovieLens-100K": lambda _: _read("ml-100k", min_rating=3),
    "Steam, purchases": lambda _: _read_steam("game_purchase.dat"),
    "Steam, hours": lambda _: _read_steam("game_play.dat", "Hours"),
}
FRESH: dict[str, Make] = {
    "tastes of all breadths": breadths,
    "nested genres": nested_genres,
    "drifting tastes": drifting,
    "sessions": sessions,
    "blockbusters and niches": blockbusters,
    "tiny": tiny,
    "Last.fm": lambda _: _read("hetrec2011-lastfm-2k.zip"),
    "places on a map": places,
    "sharp and diffuse users": two_populations,
    "series": series,
    "regions and hits": regions,
    "light users": light_users,
    "EachMovie, 1,500 users": lambda seed: some_users(_read("eachmovie-heavy.zip", min_rating=4), 1500, seed),
    "MovieLens-1M, 1,500 users": lambda seed: some_users(_read("ml-1m.zip", min_rating=4), 1500, seed),
}
