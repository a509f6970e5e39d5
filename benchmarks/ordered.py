"""Ordered data: how they are read, and cut into what is known and what comes next."""

from __future__ import annotations

import io
import zipfile
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd

import csrr
from csrr._base.arrays import BoolArray, Float64Array, Int64Array
from csrr.data.ids import IdMap
from csrr.data.log import Log
from csrr.numerics.transitions import Sequences
from csrr.ranking.topk import RowScorer, score_blocks

LEAST_RATINGS = 5
"""Films with fewer ratings are left out, as in the papers."""


@cache
def read_sequences(name: str) -> Sequences:
    """Return the events of a data set, oldest first: "toys", "sports", "ml-1m" or "ml-100k"."""
    return _read_lists(f"amazon-{name}") if name in ("toys", "sports") else _read_ratings(name)


def _read_lists(name: str) -> Sequences:
    """Lines of a user's id and items."""
    with zipfile.ZipFile(csrr.locate(f"{name}.zip")) as archive:
        lines = [line.split()[1:] for line in archive.read(f"{name}/sequences.txt").splitlines()]
    starts = np.concatenate(([0], np.cumsum([len(line) for line in lines])))
    ids = np.array([int(item) for line in lines for item in line])
    return _number(starts, ids)


def _read_ratings(name: str) -> Sequences:
    """All ratings by time, those of the same second in the order of the file."""
    file, separator = ("u.data", b"\t") if name == "ml-100k" else ("ratings.dat", b"::")
    with zipfile.ZipFile(csrr.locate(f"{name}.zip")) as archive:
        text = archive.read(f"{name}/{file}").replace(separator, b"\t")
    users, items, _, times = pd.read_csv(io.BytesIO(text), sep="\t", header=None).to_numpy().T
    often = np.bincount(items)[items] >= LEAST_RATINGS
    users, items, times = users[often], items[often], times[often]
    order = np.lexsort((times, users))
    lengths = np.bincount(np.unique(users, return_inverse=True)[1])
    return _number(np.concatenate(([0], np.cumsum(lengths))), items[order])


def _number(starts: Int64Array, ids: Int64Array) -> Sequences:
    known, items = np.unique(ids, return_inverse=True)
    return Sequences(starts, items.astype(np.int32), len(known))


class Cut(NamedTuple):
    """What is known, and for each user the events that follow."""

    known: Sequences
    following: Sequences


def cut_last(own: Sequences) -> Cut:
    """Cut off the last event of each user with at least two."""
    return _cut_off(own, (np.diff(own.starts) > 1).astype(np.int64))


def cut_fifth(own: Sequences) -> Cut:
    """Cut off the last fifth of the events of each user."""
    return _cut_off(own, np.diff(own.starts) // 5)


def cut_random(own: Sequences) -> Cut:
    """Cut off a fifth of the events of each user at random: for most of them a later event is known."""
    draw = np.random.default_rng(0).random(len(own.items))
    ranks = np.empty(len(draw), np.int64)
    ranks[np.lexsort((draw, own.users))] = own.ages
    return _divide(own, ranks >= (np.diff(own.starts) // 5)[own.users])


def cut_shuffled(own: Sequences) -> Cut:
    """Cut off the last event of each user, and shuffle what is known: its order says nothing."""
    known, following = cut_last(own)
    return Cut(_shuffle(known), following)


def _shuffle(own: Sequences) -> Sequences:
    """Return the events of each user in a random order."""
    draw = np.random.default_rng(0).random(len(own.items))
    return Sequences(own.starts, own.items[np.lexsort((draw, own.users))], own.n_items)


def _cut_off(own: Sequences, n_last: Int64Array) -> Cut:
    return _divide(own, own.ages >= n_last[own.users])


def _divide(own: Sequences, is_known: BoolArray) -> Cut:
    counts = (np.bincount(own.users[mask], minlength=len(own.starts) - 1) for mask in (is_known, ~is_known))
    items = own.items[is_known], own.items[~is_known]
    return Cut(*(Sequences.of(n, each, own.n_items) for n, each in zip(counts, items, strict=True)))


def make_log(own: Sequences) -> Log:
    """Return sequences as a log whose times are places; of repeats the last counts."""
    places = np.arange(len(own.items)) - own.starts[:-1][own.users]
    order = np.lexsort((-places, own.items, own.users))
    users, items = own.users[order], own.items[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (users[1:] != users[:-1]) | (items[1:] != items[:-1])
    ids = IdMap.range(len(own.starts) - 1), IdMap.range(own.n_items)
    return Log(*ids, users[first], items[first], times=places[order][first])


def rank_last(scores: RowScorer, known: Log, following: Sequences) -> Float64Array:
    """Return the rank, from 1, of each user's next event among the items not in the history, (n,).

    Of items with equal scores half rank before. Users without a history or a new item next are left out.
    """
    asked = np.flatnonzero((np.diff(following.starts) == 1) & (known.user_counts() > 0))
    wanted = following.items[following.starts[asked]]
    ranks, seen = np.zeros(len(asked)), known.to_csr()
    for part, block in score_blocks(scores, asked, known.n_items, seen=seen):
        mine = block[np.arange(len(block)), wanted[part]][:, None]
        above, equal = (block > mine).sum(1), (block == mine).sum(1)
        ranks[part] = np.where(np.isfinite(mine[:, 0]), 1 + above + (equal - 1) / 2, np.nan)
    return ranks[np.isfinite(ranks)]
