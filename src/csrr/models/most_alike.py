"""The items or users that are most like others: what `similar_items` and `similar_users` do, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict

import numpy as np
from scipy import sparse

from csrr.arrays import Float32Array, Int32Array, Rows
from csrr.data import IdMap
from csrr.data.ids import Ids
from csrr.models.asked_ids import IdReader, Unknown, is_one_id, list_ids, read_asked
from csrr.models.best_lists import check_k
from csrr.models.item_choices import is_for_each
from csrr.models.read_rules import need_table
from csrr.parameters import ParameterError
from csrr.ranking import NeighborLists, Neighbors, top_k
from csrr.ranking.item_order import ItemOrder
from csrr.ranking.restrictions import Restrictions
from csrr.ranking.score_blocks import RowScorer

if TYPE_CHECKING:
    from csrr.models.recommender import Recommender


class LikeOptions(TypedDict, total=False):
    """The options of `Recommender.similar_users`."""

    candidates: Any
    exclude: Any
    unknown: Unknown


class ItemLikeOptions(LikeOptions, total=False):
    """The options of `Recommender.similar_items`."""

    where: Mapping[str, Any] | None


class LikenessOptions(NamedTuple):
    """What is asked of neighbors: the options of `similar_items`, or of `similar_users`, which has no `where`."""

    candidates: Any
    exclude: Any
    unknown: Unknown
    where: Mapping[str, Any] | None = None


def find_similar_items(
    model: Recommender, items: Any, k: int, score_rows: RowScorer, wanted: LikenessOptions
) -> Neighbors | NeighborLists:
    """Return the items most like one, or like each of several; `score_rows` gives similarities, -inf for none."""
    _check_can(model, "similar_items")
    limits = Restrictions(len(model.items_))
    if wanted.where is not None:
        limits.keep(np.flatnonzero(need_table(model, "where").match(wanted.where)))
    found = _find_alike(model.items_, "item", items, k, score_rows, wanted, limits, model.item_order)
    lists = NeighborLists.from_rows(*found, model.items_, model.titles_)
    return lists[0] if is_one_id(items) else lists


def find_similar_users(model: Recommender, users: Any, k: int, wanted: LikenessOptions) -> Neighbors | NeighborLists:
    """Return the users most like one, or like each of several."""
    _check_can(model, "similar_users")
    limits = Restrictions(len(model.users_))
    found = _find_alike(model.users_, "user", users, k, model.score_similar_users, wanted, limits)
    lists = NeighborLists.from_rows(*found, model.users_, None)
    return lists[0] if is_one_id(users) else lists


def _check_can(model: Recommender, ability: str) -> None:
    model.check_fitted()
    if not model.can(ability):
        raise NotImplementedError(f"a {type(model).__name__} has no factors to compute similarities from")


def _find_alike(
    known: IdMap,
    kind: Literal["item", "user"],
    asked: Any,
    k: int,
    score_rows: RowScorer,
    wanted: LikenessOptions,
    limits: Restrictions,
    order: ItemOrder | None = None,
) -> tuple[Ids, Int32Array, Float32Array]:
    """Return the ids asked for, shape (n,), and the rows and scores of what is most like each, shapes (n, k)."""
    reader, n_known, k = IdReader(wanted.unknown), len(known), check_k(k)
    ids = read_asked(list_ids(asked), reader)
    place = f"the {kind}{'' if is_one_id(asked) else 's'} asked for"
    rows = reader.find(known, ids, kind, place)
    reader.count(place, int((rows < 0).sum()), len(rows))
    there = np.flatnonzero(rows >= 0)
    limits.leave_out(sparse.csr_array((np.ones(len(there)), (there, rows[there])), shape=(len(rows), n_known)))
    for name, apply in (("candidates", limits.keep), ("exclude", limits.leave_out)):
        given = getattr(wanted, name)
        if is_for_each(given):
            raise ParameterError(f"{name}: give a list of {kind} ids, the same for all")
        if given is not None:
            apply(reader.find_known(known, list_ids(given), kind, name))

    def score(places: Rows) -> Float32Array:
        scores = np.full((len(places), n_known), -np.inf, np.float32)
        mine = rows[places]
        scores[mine >= 0] = score_rows(mine[mine >= 0])
        return scores

    found = top_k(
        score, np.arange(len(rows)), n_known, min(k, limits.count_left(), n_known - 1), limits=limits, order=order
    )
    reader.warn()
    return ids, *found


def compute_cosines(factors: Float32Array, rows: Rows) -> Float32Array:
    """Return the cosines of some rows of factors with all, shape (len(rows), n); with a zero row they are 0."""
    norms = np.linalg.norm(factors, axis=1)
    products = norms[rows, None] * norms
    cosines: Float32Array = np.zeros_like(products)
    np.divide(factors[rows] @ factors.T, products, out=cosines, where=products > 0)
    return cosines


def compute_history_cosines(seen: Any, rows: Rows) -> Float32Array:
    """Return the cosines of some users' histories with those of all, shape (len(rows), n_users); -inf for 0."""
    lengths = np.sqrt(np.maximum(np.diff(seen.indptr), 1)).astype(np.float32)
    return mark_nothing((seen[rows] @ seen.T).toarray() / (lengths[rows, None] * lengths))


def mark_nothing(weights: Float32Array) -> Float32Array:
    """Return weights, -inf in place of 0: that is none."""
    marked: Float32Array = np.where(weights == 0, np.float32(-np.inf), weights)
    return marked
