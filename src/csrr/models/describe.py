"""Items and users known by what they are: a fit, an update and additions give them factors and neighbor weights."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from scipy import sparse

from csrr._base.arrays import BoolArray, Float32Array, Int64Array, Rows
from csrr._base.text import show_value
from csrr.data.errors import DataError
from csrr.data.features import Encoded, FeatureSpace, FeatureTable, Kind, join_tables, read_features
from csrr.data.ids import IdMap, join_ids
from csrr.data.items import ItemTable
from csrr.data.log import Log
from csrr.models.feature_strengths import (
    choose_for_users,
    choose_prior,
    choose_strengths,
    find_shares,
    make_trial,
    weigh_known,
)
from csrr.models.features import Features, add_cells, count_events, mark_rows, renumber_items, renumber_users
from csrr.models.foldin import FoldedItems
from csrr.numerics.feature_ridge import SimilarItems, collect_weights, fit_map
from csrr.parameters import ParameterError
from csrr.ranking.topk import add_products, multiply_factors

if TYPE_CHECKING:
    from csrr.models.csrr_base import CSRRBase
    from csrr.models.fitted_problem import FittedProblem


class Given(NamedTuple):
    """One side of a fit, or an update: all ids, which of them have events, the table, and the features that ids had
    before; with `stays`, so do space and strengths."""

    ids: IdMap
    has_events: BoolArray
    table: FeatureTable | None
    before: Features | None = None
    ids_before: IdMap | None = None
    stays: bool = False

    def encode(self, kind: Kind) -> tuple[FeatureSpace, Encoded]:
        """Return the space, and the features of all ids."""
        if self.before is None or self.ids_before is None:
            assert self.table is not None
            space = FeatureSpace.learn(self.table)
            return space, space.encode(self.table).take(self.table.ids.find(self.ids.ids, kind))
        space, kept = self.before.space, self.before.encoded.take(self.ids_before.find(self.ids.ids, kind))
        if self.table is None:
            return space, kept
        space.check_overlap(self.table, kind)
        return space, kept.overlay(space.encode(self.table), self.ids.rows(self.table.ids.ids, kind))


class Sides(NamedTuple):
    """What is known of the items and of the users of a fit; `item_table` is that of the model before an update."""

    items: Given | None
    users: Given | None
    item_table: ItemTable | None = None


def read_given(log: Log, items: Any, users: Any) -> Sides:
    """Return the tables that a fit was given, None for none."""
    return Sides(
        None if items is None else _read_side(log.items, log.item_counts(), items, "item"),
        None if users is None else _read_side(log.users, log.user_counts(), users, "user"),
    )


def _read_side(ids: IdMap, counts: Int64Array, source: Any, kind: Kind) -> Given:
    """Return a table for a fit, with all ids; DataError where it has none of those with events."""
    table = read_features(source, kind=kind).match_type(ids, kind)
    rows = table.ids.find(ids.ids, kind)
    if not ((rows >= 0) & (counts > 0)).any():
        raise DataError(
            f"the {kind}s' table has none of the {kind}s of the log: its ids are like"
            f" {show_value(table.ids.ids[:3].tolist())}, theirs like {show_value(ids.ids[:3].tolist())}"
        )
    FeatureSpace.learn(table)  # whether it says anything, before the fit
    joined, known, _ = join_ids(ids, table.ids, kind)
    return Given(joined, mark_rows(len(joined), known[counts > 0]), table)


class Kept(NamedTuple):
    """What an update keeps of the features of a model, and the tables that it was given."""

    items: tuple[Features | None, IdMap, FeatureTable | None]
    users: tuple[Features | None, IdMap, FeatureTable | None]
    item_table: ItemTable | None

    def meet(self, log: Log, *, stays: bool = True) -> Sides:
        """Return both sides for a model that was fitted to a log anew."""
        found: list[Given | None] = []
        counts = log.item_counts(), log.user_counts()
        for side, ids, n, kind in zip(
            (self.items, self.users), (log.items, log.users), counts, ("item", "user"), strict=True
        ):
            before, ids_before, table = side
            if before is None:
                found.append(None)
                continue
            joined = join_ids(ids, ids_before, kind)[0]
            joined = joined if table is None else join_ids(joined, table.ids, kind)[0]
            has_events = mark_rows(len(joined), joined.rows(ids.ids, kind)[n > 0])
            found.append(Given(joined, has_events, table, before, ids_before, stays))
        return Sides(found[0], found[1], self.item_table)


def keep_features(model: CSRRBase, items: Any, users: Any) -> Kept:
    """Return what an update keeps, and leave the model only items and users with events.

    ParameterError for a table where the model was fitted without.
    """
    sides: list[Any] = []
    asked: tuple[tuple[Features | None, IdMap, Any, Kind], ...] = (
        (model.features_, model.items_, items, "item"),
        (model.user_features_, model.users_, users, "user"),
    )
    for features, ids, source, kind in asked:
        table = None
        if source is not None:
            check_has_features(model, features, kind)
            table = read_features(source, kind=kind).match_type(ids, kind)
        sides.append((features, ids, table))
    kept = Kept(sides[0], sides[1], model.item_table_)
    keep_known(model, items=model.features_ is not None, users=model.user_features_ is not None)
    return kept


def keep_known(model: CSRRBase, *, items: bool, users: bool) -> None:
    """Leave a model only the items, and users, that have events."""
    if items and not (known := count_events(model) > 0).all():
        renumber_items(model, IdMap(model.items_.ids[known]))
    if users and not (known := np.diff(model.seen_.indptr) > 0).all():
        renumber_users(model, IdMap(model.users_.ids[known]))


def check_has_features(model: CSRRBase, features: Features | None, kind: Kind) -> None:
    """Raise ParameterError for a model that was fitted without a table of items, or users."""
    if features is None:
        raise ParameterError(
            f"this {type(model).__name__} does not know what its {kind}s are like: fit it with {kind}s=, a table of"
            f" those that it knows, and then add others (on the command line, csrr fit --{kind}s)"
        )


Model = TypeVar("Model", bound="CSRRBase")


def add_features(model: Model, sides: Sides) -> Model:
    """Give a model, fitted to a log as without tables, all items and users of these, and return it."""
    keep_known(model, items=sides.items is not None, users=sides.users is not None)
    if sides.items is not None:
        _add_item_features(model, sides.items)
        _add_columns(model, sides.items.table, sides.item_table)
    if sides.users is not None:
        _add_user_features(model, sides.users)
    return model


def _add_columns(model: CSRRBase, table: FeatureTable | None, before: ItemTable | None) -> None:
    """Give a model the columns of a table, for rules and to be shown."""
    if before is not None and len(before):
        before = before.align(model.items_)
        model.set_items(before if table is None else join_tables(before, table, model.items_))
    elif table is not None and (table.columns or table.titles is not None):
        model.set_items(table.to_item_table())


def _add_item_features(model: CSRRBase, given: Given) -> None:
    space, encoded = given.encode("item")
    own = encoded.take(np.flatnonzero(given.has_events))
    # In the units of the problem, where popularity counts less: that of a new item is not known.
    targets = (model.item_factors_ * model.fitted_.scaling.item[:, None]).astype(np.float32)
    if given.before is not None and given.stays:
        strengths, note = given.before.strengths, given.before.note
    else:
        strengths, note = choose_strengths(own, targets, make_trial(model, own))
    found = fit_map(*own, targets, strengths.reg)
    features = Features(space, encoded, found, strengths, note, SimilarItems(*own))
    if not (given.before is not None and given.stays) and model.fitted_.faded is None:
        prior, more = choose_prior(model, features, own, targets)
        features = replace(features, strengths=strengths._replace(prior=prior), note=f"{note}; {more}")
    apply_prior(model, features, own)
    renumber_items(model, given.ids)
    model.features_ = features
    describe_items(model, np.flatnonzero(~given.has_events))


def _add_user_features(model: CSRRBase, given: Given) -> None:
    space, encoded = given.encode("user")
    own = encoded.take(np.flatnonzero(given.has_events))
    targets = (model.user_factors_ * model.fitted_.scaling.user[:, None]).astype(np.float32)
    if given.before is not None and given.stays:
        strengths, note = given.before.strengths, given.before.note
    else:
        strengths, note = choose_for_users(model, own, targets)
    found = fit_map(*own, targets, strengths.reg)
    renumber_users(model, given.ids)
    model.user_features_ = Features(space, encoded, found, strengths, note)
    describe_users(model, np.flatnonzero(~given.has_events))


def describe_users(model: CSRRBase, rows: Rows) -> None:
    """Give users without events, at these rows, the factors that their features say."""
    features = model.user_features_
    assert features is not None
    users = model.fitted_.users.copy()
    users[rows] = features.find_factors(features.encoded.take(rows))
    model.take_problem(replace(model.fitted_, users=users, has_described=True))


def add_items(model: Model, source: Any) -> Model:
    """Add items without events to a model, or give those that it knows other features."""
    features = model.features_
    check_has_features(model, features, "item")
    assert features is not None
    table = read_features(source).match_type(model.items_, "item")
    features.space.check_overlap(table, "item")
    new, before, ids = features.space.encode(table), model.items_, join_ids(model.items_, table.ids, "item")[0]
    moved = renumber_items(model, ids)
    rows = ids.rows(table.ids.ids, "item")
    is_new = count_events(model)[rows] == 0
    encoded = Encoded(moved.place_rows(features.encoded.words), moved.place(features.encoded.dense)).overlay(new, rows)
    model.features_ = replace(features, encoded=encoded)
    if (before.find(table.ids.ids, "item") >= 0).any():
        _forget_weights(model, rows[is_new])
    describe_items(model, rows[is_new])
    if model.item_table_ is not None:
        model.item_table_ = join_tables(model.item_table_, table, ids)
        model.titles_ = model.item_table_.titles
    elif table.titles is not None and model.titles_ is not None:
        model.titles_ = model.titles_.copy()
        model.titles_[rows] = table.titles
    return model


def fold_in_features(model: CSRRBase, source: Any) -> FoldedItems:
    """Return new items by their features, with scores and lists, beside a model."""
    features, fitted = model.features_, model.fitted_
    check_has_features(model, features, "item")
    assert features is not None
    table = read_features(source).match_type(model.items_, "item")
    features.space.check_overlap(table, "item")
    if (known := model.items_.find(table.ids.ids, "item") >= 0).any():
        first = show_value(table.ids.ids[known].tolist()[0])
        raise ParameterError(f"item {first} is known to the model; fold in new items only, or add_items them")
    encoded = features.space.encode(table)
    values, items = features.weigh(encoded)
    rows = np.flatnonzero(count_events(model) > 0)
    weights = collect_weights(values, items, len(rows))
    place: Any = np.ones(len(rows), np.float32), (rows, np.arange(len(rows)))
    weights = sparse.csr_array(sparse.csr_array(place, shape=(len(model.items_), len(rows))) @ weights)
    factors = features.find_factors(encoded)
    products = model.make_products()
    parts = products.clicks, products.scale, products.amounts
    if fitted.faded is not None:
        n_decays = len(fitted.faded.decays)
        weights = sparse.vstack([weights * np.float32(1 / n_decays)] * n_decays, format="csr")

    def score_rows(rows: Rows) -> Float32Array:
        scores = multiply_factors(model.user_factors_[rows], factors)
        add_products(scores, parts[0], rows, weights, parts[1], parts[2])
        return scores

    nobody = sparse.csr_array((len(model.users_), len(table)), dtype=np.float32)
    return FoldedItems(table.ids, nobody, table.titles, model, score_rows, factors, weights)


def _forget_weights(model: CSRRBase, rows: Rows) -> None:
    """Take the weights for items that are described anew."""
    at = mark_rows(len(model.items_), rows)
    fitted, faded = model.fitted_, model.fitted_.faded
    matrix = fitted.neighborhood.weights if faded is None else faded.weights
    if not at[matrix.indices].any():
        return
    kept = (~at[matrix.indices]).astype(np.float32)
    kept *= np.repeat(np.tile(~at, matrix.shape[0] // len(at)), np.diff(matrix.indptr))
    rest = sparse.csr_array((matrix.data * kept, matrix.indices, matrix.indptr), shape=matrix.shape)
    rest.eliminate_zeros()
    model.take_problem(_replace_weights(fitted, rest))


def _replace_weights(fitted: FittedProblem, weights: Any) -> FittedProblem:
    """Return the problem with other neighbor weights, of the histories that it has: faded ones or not."""
    if fitted.faded is None:
        return replace(fitted, neighborhood=replace(fitted.neighborhood, weights=weights))
    return replace(fitted, faded=replace(fitted.faded, weights=weights))


def add_users(model: Model, source: Any) -> Model:
    """Add users without events to a model, or give those that it knows other features."""
    features = model.user_features_
    check_has_features(model, features, "user")
    assert features is not None
    table = read_features(source, kind="user").match_type(model.users_, "user")
    given = Given(join_ids(model.users_, table.ids, "user")[0], np.empty(0, np.bool_), table, features, model.users_)
    _, encoded = given.encode("user")
    renumber_users(model, given.ids)
    model.user_features_ = replace(features, encoded=encoded)
    describe_users(model, np.flatnonzero(np.diff(model.seen_.indptr) == 0))
    return model


def apply_prior(model: CSRRBase, features: Features, own: Encoded) -> None:
    """Add what features say of items with few events to their factors and weights; `own` are their features."""
    fitted = model.fitted_
    Q = fitted.items * fitted.scaling.item[:, None]
    fitted = replace(fitted, gram=fitted.engine.cross(Q, Q))
    shares = find_shares(count_events(model), features.strengths.prior)
    if len(rows := np.flatnonzero(shares)):
        items, nearby = fitted.items.copy(), fitted.neighborhood
        items[rows] += features.find_factors(own.take(rows)) * shares[rows][:, None]
        weights = weigh_known(features, own, rows)
        weights.data *= shares[weights.indices]
        nearby = replace(nearby, weights=sparse.csr_array(nearby.weights + weights))
        fitted = replace(fitted, items=items, neighborhood=nearby)
    model.take_problem(fitted)


BLOCK = 2**16


"""Items whose weights are computed together."""


MOST_NEAR = 20


"""How many known items gain by a new item in a history: those that are most like it."""


def describe_items(model: CSRRBase, rows: Rows) -> None:
    """Give items without events, at these rows, the factors and weights that their features say.

    It writes into the factors of a model whose items have just been renumbered.
    """
    features = model.features_
    assert features is not None
    fitted, faded = model.fitted_, model.fitted_.faded
    encoded = features.encoded.take(rows)
    factors = features.find_factors(encoded)
    known = np.flatnonzero(count_events(model) > 0)
    weights = find_weights(features, encoded, rows, known, len(model.items_))
    # The arrays are new: their rows have just been placed.
    items = fitted.items
    items[rows] = factors
    if faded is not None:
        right, left = faded.right, faded.left
        left[rows] = factors @ _relate(right[known], left[known])
        right[rows] = factors
        share = np.float32(1 / len(faded.decays))
        weights = sparse.vstack([weights * share] * len(faded.decays), format="csr")
        fitted = replace(fitted, faded=replace(faded, left=left, right=right))
    before = fitted.neighborhood.weights if faded is None else faded.weights
    model.take_problem(_replace_weights(replace(fitted, items=items), add_cells(before, weights)))


def _relate(right: Float32Array, left: Float32Array) -> Float32Array:
    """Return the matrix, (r, r), by which factors become those by which histories count, by least squares."""
    gram = right.T.astype(np.float64) @ right
    gram[np.diag_indices_from(gram)] += 1e-6 * max(float(np.trace(gram)) / max(len(gram), 1), 1e-12)
    found: Float32Array = np.linalg.solve(gram, right.T.astype(np.float64) @ left).astype(np.float32)
    return found


def find_weights(features: Features, encoded: Encoded, columns: Rows, known: Rows, n_items: int) -> Any:
    """Return the weights of known items, at the rows `known`, for items of `columns`, and of these for those most like
    them, csr (n_items, n_items).
    """
    parts = []
    for first in range(0, len(encoded), BLOCK):
        some = slice(first, first + BLOCK)
        values, items = features.weigh(Encoded(encoded.words[some], encoded.dense[some]))
        places, ranks = np.nonzero((items >= 0) & (values != 0))
        parts.append((values[places, ranks], known[items[places, ranks]], columns[some][places]))
        # In a history a new item counts for the known ones that are most like it.
        near = ranks < MOST_NEAR
        places, ranks = places[near], ranks[near]
        parts.append((values[places, ranks], columns[some][places], known[items[places, ranks]]))
    found: Any = [np.concatenate(each) for each in zip(*parts, strict=True)] if parts else [[], [], []]
    matrix: Any = sparse.csr_array((found[0], (found[1], found[2])), shape=(n_items, n_items), dtype=np.float32)
    return matrix
