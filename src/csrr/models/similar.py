"""Items that are most similar to items, and users to users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np
from scipy import sparse

from csrr._base.arrays import Float32Array, Rows
from csrr.models.recommend import IdLookup, Unknown, check_k, is_for_each, is_one_id, list_ids, need_table, read_asked
from csrr.parameters import ParameterError
from csrr.ranking.topk import Restrictions, RowScorer, top_k
from csrr.results.recommendations import NeighborLists, Neighbors

if TYPE_CHECKING:
    from csrr.models.base import Recommender


class SimilarUsersOptions(TypedDict, total=False):
    """The options of `Recommender.similar_users`."""

    candidates: Any
    exclude: Any
    unknown: Unknown


class SimilarItemsOptions(SimilarUsersOptions, total=False):
    """The options of `Recommender.similar_items`."""

    by: Literal["auto", "neighbors", "factors", "next"]
    where: Mapping[str, Any] | None


def find_similar(
    model: Recommender,
    kind: Literal["item", "user"],
    queries: Any,
    k: int,
    score_rows: RowScorer,
    options: SimilarItemsOptions,
) -> Neighbors | NeighborLists:
    """Return the items (or users) most similar to one, or to each of several.

    `score_rows` gives similarities, shape (len(rows), n), -inf for none; the rest is as for
    `Recommender.similar_items`.
    """
    model.check_fitted()
    if not model.can(f"similar_{kind}s"):
        raise NotImplementedError(f"a {type(model).__name__} has no factors to compute similarities from")
    known, titles, order = model.users_, None, None
    if kind == "item":
        known, titles, order = model.items_, model.titles_, model.item_order
    reader, n_known, k = IdLookup(options["unknown"]), len(known), check_k(k)
    limits = Restrictions(n_known)
    if (where := options.get("where")) is not None:
        limits.keep(np.flatnonzero(need_table(model, "where").match(where)))
    ids = read_asked(list_ids(queries), reader, kind)
    place = f"the {kind}{'' if is_one_id(queries) else 's'} asked for"
    rows = reader.find(known, ids, kind, place)
    reader.count(place, int((rows < 0).sum()), len(rows))
    there = np.flatnonzero(rows >= 0)
    limits.leave_out(sparse.csr_array((np.ones(len(there)), (there, rows[there])), shape=(len(rows), n_known)))
    for name, apply in (("candidates", limits.keep), ("exclude", limits.leave_out)):
        given = options.get(name)
        if is_for_each(given):
            raise ParameterError(f"{name}: give a list of {kind} ids, the same for all")
        if given is not None:
            apply(reader.find_known(known, list_ids(given), kind, name))

    def score(places: Rows) -> Float32Array:
        scores = np.full((len(places), n_known), -np.inf, np.float32)
        mine = rows[places]
        scores[mine >= 0] = score_rows(mine[mine >= 0])
        return scores

    n_most = min(k, limits.count_left(), n_known - 1)
    found = top_k(score, np.arange(len(rows)), n_known, n_most, limits=limits, order=order)
    reader.warn()
    lists = NeighborLists.from_rows(ids, *found, known, titles)
    return lists[0] if is_one_id(queries) else lists


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
    """Return weights with -inf in place of 0, which means no weight."""
    marked: Float32Array = np.where(weights == 0, np.float32(-np.inf), weights)
    return marked
