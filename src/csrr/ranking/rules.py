"""Rules for lists beyond score: boosts, caps and quotas by category, diversity. From a block of scores to lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from csrr._base.arrays import AnyArray, BoolArray, Float32Array, Int32Array, Int64Array
from csrr._base.threads import run_ranges
from csrr.ranking.loops import add_bonus_rows, choose_rows
from csrr.ranking.topk import NO_ITEM, ItemOrder, Top, block_top_k, split_rows

WIDTH = 256
"""The most columns of a vector: products of sketches are off by 1/16 or so."""


def normalize_rows(vectors: AnyArray) -> Float32Array:
    """Return vectors, shape (n, d), of length 1, whose products are cosines; a zero vector stays zero."""
    dense = np.asarray(vectors, np.float32)
    lengths = np.sqrt(np.einsum("nd,nd->n", dense, dense))
    return np.asarray(dense / np.where(lengths > 0, lengths, 1)[:, None], np.float32)


def sketch_rows(cells: Any, seed: int = 0) -> Float32Array:
    """Return vectors, shape (n, at most WIDTH), whose products are, or estimate, cosines of the rows of a csr array.

    More columns than WIDTH are added up in WIDTH sums with random signs (a count sketch): the products are right in the
    mean over all `seed`s, with a standard deviation of at most about 1/sqrt(WIDTH).
    """
    m = cells.shape[1]
    lengths = np.sqrt(np.asarray(cells.multiply(cells).sum(axis=1)).ravel())
    if m > WIDTH:
        rng = np.random.default_rng(seed)
        signs, sums = rng.choice(np.array([-1, 1], np.float32), m), rng.integers(0, WIDTH, m)
        cells = cells @ sparse.csr_array((signs, (np.arange(m), sums)), shape=(m, WIDTH))
    dense = cells.toarray().astype(np.float32)
    return np.asarray(dense / np.where(lengths > 0, lengths, 1)[:, None], np.float32)


SPREAD_ITEMS = 100
"""A user's spread is the standard deviation of the scores of so many of their best items."""
POOL, POOL_FACTOR = 50, 5
"""Lists of k are chosen among so many of the best at least, or so many times k; among more where that is too few."""
NO_LIMIT = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of items, csr `members` of shape (n_items, n_groups), and how many of each a list has: `most`, `least`."""

    members: Any
    most: Int64Array
    least: Int64Array

    @classmethod
    def none(cls, n_items: int) -> Groups:
        """Return no groups."""
        return cls(sparse.csr_array((n_items, 0), dtype=np.float32), np.empty(0, np.int64), np.empty(0, np.int64))

    @classmethod
    def join(cls, several: list[Groups]) -> Groups:
        """Return all of several groups as one."""
        members = sparse.hstack([each.members for each in several], format="csr")
        most, least = (np.concatenate([getattr(each, name) for each in several]) for name in ("most", "least"))
        return cls(sparse.csr_array(members), most, least)


@dataclass(frozen=True, eq=False)
class Rules:
    """The rules of lists beyond scores, for n items:

    `allowed`, shape (n,), are those that may be in a list. `bonus`, shape (n,), is added to a user's scores in units of
    that user's spread. `groups` are counted in each list: at most so many of one, and at least. `diversity`, from 0 to
    1, weighs likeness, the products of `vectors`, shape (n, d), against relevance (maximal marginal relevance).
    """

    groups: Groups
    allowed: BoolArray | None = None
    bonus: Float32Array | None = None
    diversity: float = 0.0
    vectors: Float32Array | None = None

    def rank(
        self, scores: Float32Array, k: int, order: ItemOrder | None = None, allowed: BoolArray | None = None
    ) -> Top:
        """Return the lists of a block, as `block_top_k` does; the scores returned are those given."""
        if allowed is None:
            allowed = np.ones(scores.shape[1], np.bool_)
        if self.allowed is not None:
            allowed = allowed & self.allowed
        values = scores if self.bonus is None else _add_bonus(scores, self.bonus, order, allowed)
        if self.diversity > 0 or len(self.groups.most):
            items = self._choose(values, k, order, allowed)
        else:
            items, _ = block_top_k(values, k, order, allowed)
        listed = np.take_along_axis(scores, np.maximum(items, 0), axis=1)
        return items, np.where(items >= 0, listed, np.float32(-np.inf))

    def _choose(self, values: Float32Array, k: int, order: ItemOrder | None, allowed: BoolArray) -> Int32Array:
        """Return lists, shape (b, k), chosen among pools of the best; larger pools for lists that run short."""
        n_allowed = int(allowed.sum())
        first = size = min(max(POOL, POOL_FACTOR * k), n_allowed)
        items = np.full((len(values), k), NO_ITEM, np.int32)
        left = np.arange(len(values))
        while len(left):
            block = values if len(left) == len(values) else values[left]
            pool, best = self._make_pool(block, size, k, order, allowed)
            items[left] = self._choose_among(pool, best, first, k)
            is_short = (items[left] < 0).any(axis=1) & (pool[:, size - 1] >= 0) if size else np.zeros(len(left), bool)
            if size >= n_allowed:
                break
            left, size = left[is_short], min(4 * size, n_allowed)
        return items

    def _make_pool(
        self, values: Float32Array, size: int, k: int, order: ItemOrder | None, allowed: BoolArray
    ) -> tuple[Int32Array, Float32Array]:
        """Return the best items, and those that quotas may ask for behind them; shapes (b, n), best first."""
        pool, best = block_top_k(values, size, order, allowed)
        for group in np.flatnonzero(self.groups.least).tolist():
            mine = np.zeros(len(allowed), np.bool_)
            mine[_find_members(self.groups.members, group)] = True
            more, their = block_top_k(values, min(k, int((mine & allowed).sum())), order, mine & allowed)
            is_new = (more[:, :, None] != pool[:, None, :]).all(axis=2)
            pool = np.concatenate([pool, np.where(is_new, more, np.int32(NO_ITEM))], axis=1)
            best = np.concatenate([best, np.where(is_new, their, np.float32(-np.inf))], axis=1)
        if pool.shape[1] > size:
            places = np.arange(pool.shape[1]) if order is None else order.places[pool]
            sorting = np.lexsort((np.broadcast_to(places, pool.shape), -best, pool < 0), axis=1)
            pool, best = np.take_along_axis(pool, sorting, 1), np.take_along_axis(best, sorting, 1)
        return pool, best

    def _choose_among(self, pool: Int32Array, best: Float32Array, n_scale: int, k: int) -> Int32Array:
        """Return the lists chosen among the items of a pool and their scores, shapes (b, n), best first."""
        places = np.full((len(pool), k), -1, np.int64)
        vectors = np.empty((0, 0), np.float32) if self.vectors is None else self.vectors
        cells = self.groups.members
        scored = np.ascontiguousarray(pool), np.ascontiguousarray(best), n_scale
        counted = cells.indptr, cells.indices, self.groups.most, self.groups.least
        likeness = float(self.diversity), vectors
        run_ranges(lambda a, b: choose_rows(a, b, *scored, *likeness, *counted, places), split_rows(len(pool)))
        if pool.shape[1] == 0:
            return np.full(places.shape, NO_ITEM, np.int32)
        found = np.take_along_axis(pool, np.maximum(places, 0), axis=1)
        return np.where(places >= 0, found, np.int32(NO_ITEM))


def measure_spread(scores: Float32Array, order: ItemOrder | None, allowed: BoolArray) -> Float32Array:
    """Return the standard deviation of the scores of the SPREAD_ITEMS best items of each row, shape (b,); 0 of one."""
    _, best = block_top_k(scores, min(SPREAD_ITEMS, int(allowed.sum())), order, allowed)
    there = best > -np.inf
    n = np.maximum(there.sum(axis=1), 1)
    known = np.where(there, best, 0).astype(np.float64)
    means = known.sum(axis=1) / n
    squares = np.where(there, (known - means[:, None]) ** 2, 0).sum(axis=1)
    spread: Float32Array = np.sqrt(squares / n).astype(np.float32)
    return spread


def _add_bonus(scores: Float32Array, bonus: Float32Array, order: ItemOrder | None, allowed: BoolArray) -> Float32Array:
    spread = measure_spread(scores, order, allowed)
    out = np.empty_like(scores)
    run_ranges(lambda a, b: add_bonus_rows(a, b, scores, spread, bonus, out), split_rows(len(scores)))
    return out


def _find_members(members: Any, group: int) -> Int64Array:
    """Return the items of a group."""
    places = np.flatnonzero(members.indices == group)
    return np.searchsorted(members.indptr, places, side="right") - 1
