"""The data sets that defaults are measured on: how each is read and split."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import csrr


class Dataset(NamedTuple):
    """What it is called, how it is read, and the measures to report; `seeds` is 1 where its split is fixed."""

    name: str
    read: Callable[[int], tuple[csrr.Log, csrr.Log]]
    measures: tuple[str, ...]
    reach: float
    seeds: int = 5


def five_core(log: csrr.Log) -> csrr.Log:
    """Return the log of users and items with at least five events, again and again until all have them."""
    while True:
        enough = (log.user_counts() >= 5)[log.user_rows] & (log.item_counts() >= 5)[log.item_rows]
        if enough.all():
            frame = log.to_frame()
            return csrr.read(frame[["user", "item"]])
        log = log.select(enough)


@cache
def read_whole(name: str) -> csrr.Log:
    """Return all events of a data set that has no split of its own."""
    return {
        "ml-100k": lambda: csrr.read("ml-100k.zip", min_rating=3),
        "ml-1m": lambda: csrr.read("ml-1m.zip", min_rating=3),
        "eachmovie": lambda: csrr.read("eachmovie-heavy.zip", min_rating=4),
        "lastfm": lambda: five_core(csrr.read("hetrec2011-lastfm-2k.zip")),
        "steam": _steam,
        "steam-5": lambda: five_core(_steam()),
        "citeulike-a": lambda: five_core(csrr.read("citeulike-a.zip")),
    }[name]()


def _steam() -> csrr.Log:
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(csrr.locate("steam.zip")) as archive:
            archive.extract("steam/game_purchase.dat", folder)
        path = Path(folder) / "steam" / "game_purchase.dat"
        return csrr.read(path, user="User_ID", item="Game_ID", separator="\t")


def _random(name: str) -> Callable[[int], tuple[csrr.Log, csrr.Log]]:
    return lambda seed: csrr.split(read_whole(name), ratio=0.8, seed=seed)


def _in_time(name: str) -> Callable[[int], tuple[csrr.Log, csrr.Log]]:
    def read(seed: int) -> tuple[csrr.Log, csrr.Log]:
        train, test = csrr.split(read_whole(name), time_quantile=0.8)
        known = (train.user_counts() > 0)[test.user_rows] & (train.item_counts() > 0)[test.item_rows]
        return train, test.select(known)

    return read


def _fixed(file: str) -> Callable[[int], tuple[csrr.Log, csrr.Log]]:
    return lambda seed: csrr.read_split(file)


DATASETS = {
    "ml-100k": Dataset("MovieLens-100K, rating >= 3", _random("ml-100k"), ("ndcg@10",), 1.025),
    "ml-1m": Dataset("MovieLens-1M, rating >= 3", _random("ml-1m"), ("ndcg@10",), 1.025),
    "ml-1m-time": Dataset("MovieLens-1M, cut in time", _in_time("ml-1m"), ("ndcg@10",), 1.0, 1),
    "steam-5": Dataset("Steam, 5-core", _random("steam-5"), ("ndcg@10", "ndcg@20"), 1.02),
    "steam": Dataset("Steam, all purchases", _random("steam"), ("ndcg@10", "ndcg@20"), 1.0),
    "eachmovie": Dataset("EachMovie, heavy raters, score >= 4", _random("eachmovie"), ("ndcg@10",), 1.01),
    "lastfm": Dataset("Last.fm, 5-core", _random("lastfm"), ("ndcg@10",), 1.01),
    "amazon-cds": Dataset("Amazon-CDs, fixed split", _fixed("amazon-cds.zip"), ("ndcg@20", "recall@20"), 1.01, 1),
    "citeulike-a": Dataset("CiteULike-a, 5-core", _random("citeulike-a"), ("ndcg@20",), 1.0),
    "gowalla": Dataset("Gowalla, fixed split", _fixed("gowalla.zip"), ("recall@20", "ndcg@20"), 1.0, 1),
}
