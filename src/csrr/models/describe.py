"""Items and users known by what they are: how much that counts, and how a fit, an update and additions use it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from scipy import sparse

from csrr._base.arrays import BoolArray, Float32Array, Float64Array, Int64Array, Rows
from csrr._base.text import quote_names, show_value
from csrr._base.threads import run_ranges
from csrr.data.errors import DataError, DataWarning, warn_caller
from csrr.data.features import Encoded, FeatureSpace, FeatureTable, Kind, join_tables, read_features
from csrr.data.ids import IdMap, join_ids
from csrr.data.items import ItemTable
from csrr.data.log import Log
from csrr.models.features import (
    Features,
    Renumbering,
    Strengths,
    add_cells,
    count_events,
    mark_rows,
    renumber_items,
    renumber_users,
)
from csrr.models.foldin import FoldedItems, make_scorer
from csrr.numerics.feature_ridge import SimilarItems, collect_weights, fit_map
from csrr.numerics.thread_engine import THREADS
from csrr.parameters import ParameterError
from csrr.ranking.loops import rank_rows
from csrr.ranking.topk import measure_held_out_ndcg

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

    @property
    def chosen(self) -> tuple[Strengths, str] | None:
        """The strengths that stay, and how they were chosen; None where they are to be chosen."""
        return (self.before.strengths, self.before.note) if self.stays and self.before is not None else None

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


class KeptSide(NamedTuple):
    """What an update keeps of the items, or users, of a model: their features and ids, and the table it was given."""

    features: Features | None
    ids: IdMap
    table: FeatureTable | None
    kind: Kind

    @classmethod
    def of(cls, model: CSRRBase, features: Features | None, ids: IdMap, source: Any, kind: Kind) -> KeptSide:
        """Return what is kept; ParameterError for a table where the model was fitted without."""
        return cls(features, ids, None if source is None else _read_table(model, features, ids, source, kind)[1], kind)

    def meet(self, ids: IdMap, counts: Int64Array, *, stays: bool) -> Given | None:
        """Return this side for a model fitted anew, with these ids and their numbers of events, (n,)."""
        if self.features is None:
            return None
        joined = join_ids(ids, self.ids, self.kind)[0]
        if self.table is not None:
            joined = join_ids(joined, self.table.ids, self.kind)[0]
        has_events = mark_rows(len(joined), joined.rows(ids.ids, self.kind)[counts > 0])
        return Given(joined, has_events, self.table, self.features, self.ids, stays)


class Kept(NamedTuple):
    """What an update keeps of the features of a model, and the tables that it was given."""

    items: KeptSide
    users: KeptSide
    item_table: ItemTable | None

    def meet(self, log: Log, *, stays: bool = True) -> Sides:
        """Return both sides for a model that was fitted to a log anew."""
        items = self.items.meet(log.items, log.item_counts(), stays=stays)
        return Sides(items, self.users.meet(log.users, log.user_counts(), stays=stays), self.item_table)


def keep_features(model: CSRRBase, items: Any, users: Any) -> Kept:
    """Return what an update keeps, and leave the model only items and users with events."""
    of_items = KeptSide.of(model, model.features_, model.items_, items, "item")
    of_users = KeptSide.of(model, model.user_features_, model.users_, users, "user")
    kept = Kept(of_items, of_users, model.item_table_)
    keep_known(model, items=model.features_ is not None, users=model.user_features_ is not None)
    return kept


def keep_known(model: CSRRBase, *, items: bool, users: bool) -> None:
    """Leave a model only the items, and users, that have events."""
    if items and not (known := count_events(model) > 0).all():
        renumber_items(model, IdMap(model.items_.ids[known]))
    if users and not (known := np.diff(model.seen_.indptr) > 0).all():
        renumber_users(model, IdMap(model.users_.ids[known]))


def _read_table(
    model: CSRRBase, features: Features | None, ids: IdMap, source: Any, kind: Kind
) -> tuple[Features, FeatureTable]:
    """Return a model's features of items, or users, and a table for it; ParameterError if it was fitted without."""
    if features is None:
        raise ParameterError(
            f"this {type(model).__name__} does not know what its {kind}s are like: fit it with {kind}s=, a table of"
            f" those that it knows, and then add others (on the command line, csrr fit --{kind}s)"
        )
    table = read_features(source, kind=kind).match_type(ids, kind)
    features.space.check_overlap(table, kind)
    return features, table


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
        if table is not None:
            at, rows = np.arange(len(before)), model.items_.rows(table.ids.ids, "item")
            before = join_tables(before, table, model.items_, at, rows)
        model.set_items(before)
    elif table is not None and (table.columns or table.titles is not None):
        model.set_items(table.to_item_table())


def _add_item_features(model: CSRRBase, given: Given) -> None:
    space, encoded = given.encode("item")
    own = encoded.take(np.flatnonzero(given.has_events))
    # In the units of the problem, where popularity counts less: that of a new item is not known.
    targets = (model.item_factors_ * model.fitted_.scaling.item[:, None]).astype(np.float32)
    if given.chosen is not None:
        strengths, note = given.chosen
    elif (trial := make_trial(model, own)) is not None:
        strengths, note = choose_strengths(own, targets, trial)
    else:
        # A new item is as popular as items are on average.
        popularity = float((1 / model.fitted_.scaling.item).mean())
        strengths, note = Strengths(factor=popularity, weights=0.05), "by rule: too few items or users to choose on"
    found = fit_map(*own, targets, strengths.reg)
    features = Features(space, encoded, found, strengths, note, SimilarItems(*own))
    if given.chosen is None and model.fitted_.faded is None:
        prior, more = choose_prior(model, features, own, targets)
        features = replace(features, strengths=strengths._replace(prior=prior), note=f"{note}; {more}")
    apply_prior(model, features, own)
    renumber_items(model, given.ids)
    model.features_ = features
    describe_items(model, np.flatnonzero(~given.has_events), given.has_events)


def _add_user_features(model: CSRRBase, given: Given) -> None:
    space, encoded = given.encode("user")
    own = encoded.take(np.flatnonzero(given.has_events))
    targets = (model.user_factors_ * model.fitted_.scaling.user[:, None]).astype(np.float32)
    strengths, note = given.chosen or choose_for_users(model, own, targets)
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
    features, table = _read_table(model, model.features_, model.items_, source, "item")
    new, (ids, places, rows) = features.space.encode(table), join_ids(model.items_, table.ids, "item")
    if not new.is_there.all():
        some = quote_names(table.ids.ids[~new.is_there].tolist())
        warn_caller(
            f"{int((~new.is_there).sum()):,} of {len(table):,} items have no value that the model knows, and are scored"
            f" as the average item: {some}; a new fit learns the values of its table",
            DataWarning,
        )
    moved = Renumbering.moving(places, len(ids))
    renumber_items(model, ids, moved)
    has_events = count_events(model) > 0
    undescribed = rows[~has_events[rows]]
    encoded = Encoded(moved.place_rows(features.encoded.words), moved.place(features.encoded.dense)).overlay(new, rows)
    model.features_ = replace(features, encoded=encoded)
    if (moved.old[rows] >= 0).any():
        _forget_weights(model, undescribed)
    describe_items(model, undescribed, has_events)
    if model.item_table_ is not None:
        model.item_table_ = join_tables(model.item_table_, table, ids, moved.old, rows)
        model.titles_ = model.item_table_.titles
    elif table.titles is not None and model.titles_ is not None:
        model.titles_ = model.titles_.copy()
        model.titles_[rows] = table.titles
    return model


def fold_in_features(model: CSRRBase, source: Any) -> FoldedItems:
    """Return new items by their features, with scores and lists, beside a model."""
    features, table = _read_table(model, model.features_, model.items_, source, "item")
    fitted = model.fitted_
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
    if fitted.faded is not None:
        weights = _repeat(weights, len(fitted.faded.decays))
    score_rows = make_scorer(model, factors, weights, products.scale, products.amounts, products.clicks)
    nobody = sparse.csr_array((len(model.users_), len(table)), dtype=np.float32)
    return FoldedItems(table.ids, nobody, table.titles, model, score_rows, factors, weights)


def _forget_weights(model: CSRRBase, rows: Rows) -> None:
    """Take the weights for items that are described anew."""
    at = mark_rows(len(model.items_), rows)
    fitted, faded = model.fitted_, model.fitted_.faded
    matrix = fitted.neighborhood.weights if faded is None else faded.weights
    if not at[matrix.indices].any():
        return
    kept = ~at[matrix.indices] & np.repeat(np.tile(~at, matrix.shape[0] // len(at)), np.diff(matrix.indptr))
    # Arrays of a loaded model cannot be written to.
    rest = sparse.csr_array((matrix.data * kept, matrix.indices.copy(), matrix.indptr.copy()), shape=matrix.shape)
    rest.eliminate_zeros()
    model.take_problem(_replace_weights(fitted, rest))


def _replace_weights(fitted: FittedProblem, weights: Any) -> FittedProblem:
    """Return the problem with other neighbor weights, of the histories that it has: faded ones or not."""
    if fitted.faded is None:
        return replace(fitted, neighborhood=replace(fitted.neighborhood, weights=weights))
    return replace(fitted, faded=replace(fitted.faded, weights=weights))


def add_users(model: Model, source: Any) -> Model:
    """Add users without events to a model, or give those that it knows other features."""
    features, table = _read_table(model, model.user_features_, model.users_, source, "user")
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
    fitted = replace(fitted, gram=THREADS.cross(Q, Q))
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


def describe_items(model: CSRRBase, rows: Rows, has_events: BoolArray) -> None:
    """Give items without events, at these rows, the factors and weights that their features say.

    It writes into the factors of a model whose items have just been renumbered.
    """
    features = model.features_
    assert features is not None
    fitted, faded = model.fitted_, model.fitted_.faded
    encoded = features.encoded.take(rows)
    factors = features.find_factors(encoded)
    known = np.flatnonzero(has_events)
    weights = find_weights(features, encoded, rows, known, len(model.items_))
    # The arrays are new: their rows have just been placed.
    items = fitted.items
    items[rows] = factors
    if faded is not None:
        right, left = faded.right, faded.left
        left[rows] = factors @ _relate(right[known], left[known])
        right[rows] = factors
        weights = _repeat(weights, len(faded.decays))
        fitted = replace(fitted, faded=replace(faded, left=left, right=right))
    before = fitted.neighborhood.weights if faded is None else faded.weights
    model.take_problem(_replace_weights(replace(fitted, items=items), add_cells(before, weights)))


def _repeat(weights: Any, n_decays: int) -> Any:
    """Return weights, csr (m, n), in equal parts for each decay, csr (n_decays*m, n)."""
    return sparse.vstack([weights * np.float32(1 / n_decays)] * n_decays, format="csr")


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


# How much features count

REGS = (1.0, 3.0, 10.0)
"""Strengths that are tried for the regression of factors on features."""
RIDGES = ((50, 10.0), (200, 10.0))
"""Numbers of items that are most alike, and strengths for the regression on their features, that are tried."""
SHARES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""How much factors may count where neighbor weights count 1, both in units of their standard deviation."""
HIDDEN, LEAST_HIDDEN, MOST_HIDDEN = 0.1, 20, 2000
"""The share of the items that is hidden to choose strengths, and how many these are at least, of up to a quarter of
all, and at most."""
LEAST_USERS, MOST_USERS = 50, 2000

LIST_LENGTH = 20

LEAST_SHARE = 0.02
"""A prior counts for items of which it is at least this share."""


def measure_ndcg(scores: Float32Array, wanted: Any) -> Float64Array:
    """Return the NDCG@20 of each user by scores of items, (n, h), of which those in `wanted`, csr, are to be found."""
    ranks, rows, nothing = np.empty((1, wanted.nnz)), np.arange(len(scores)), np.zeros(len(scores) + 1, np.int32)
    unseen = np.zeros(len(scores), np.float32), nothing, nothing[:0]
    given = unseen, None, (nothing, nothing[:0]), np.empty((1, 0), np.float32), (wanted.indptr, wanted.indices)

    def rank(start: int, stop: int) -> None:
        rank_rows(start, stop, scores, rows, *given, np.empty_like(scores[0]), ranks)

    run_ranges(rank, [*range(0, len(scores), 64), len(scores)])
    return measure_held_out_ndcg(ranks[0], np.diff(wanted.indptr), LIST_LENGTH)


class Trial(NamedTuple):
    """Users to choose by: `users`, (n, r), factors without hidden items, `clicks`, csr (n, m), what histories count for
    in neighbor weights, likewise, and `wanted`, csr (n, h), their events of the `hidden` items, (h,) item rows.
    """

    users: Float32Array
    clicks: Any
    wanted: Any
    hidden: Rows
    scores: Callable[[], Float32Array]
    """The scores of the hidden items by the model that knows them, (n, h)."""
    best_others: Callable[[], Float32Array]
    """The scores of the best other items of each user, as many as a list has, falling, (n, k)."""


def choose_strengths(encoded: Encoded, targets: Float32Array, trial: Trial) -> tuple[Strengths, str]:
    """Return how features count, chosen on hidden items, and a note; `encoded`, `targets`, (m, r), are of all known."""
    others, hidden = np.flatnonzero(~mark_rows(len(targets), trial.hidden)), encoded.take(trial.hidden)
    rest = encoded.take(others)
    known, clicks = SimilarItems(*rest), trial.clicks[:, others]
    best_weights, by_weights = (50, 10.0), np.zeros((len(trial.users), len(trial.hidden)), np.float32)
    weights_value = -1.0
    for k, rho in RIDGES:
        weights = collect_weights(*known.weigh(*hidden, k, rho), len(others))
        scores = (clicks @ weights).toarray()
        if (value := float(measure_ndcg(scores, trial.wanted).mean())) > weights_value:
            weights_value, best_weights, by_weights = value, (k, rho), scores
    best_reg, by_factor, factor_value, found = REGS[0], by_weights, -1.0, None
    for reg in REGS[::-1]:
        found = fit_map(*rest, targets[others], reg, found)
        scores = trial.users @ found(*hidden).T
        if (value := float(measure_ndcg(scores, trial.wanted).mean())) > factor_value:
            factor_value, best_reg, by_factor = value, reg, scores
    factor_unit, weights_unit = (max(float(each.std()), 1e-12) for each in (by_factor, by_weights))
    mixes = [(share / factor_unit, 1 / weights_unit) for share in SHARES]
    mixes += [(1 / factor_unit, 0.0), (0.0, 1 / weights_unit)]
    values = [
        float(measure_ndcg(by_factor * np.float32(a) + by_weights * np.float32(b), trial.wanted).mean())
        for a, b in mixes
    ]
    a, b = mixes[int(np.argmax(values))]
    scale = match_scale(by_factor * np.float32(a) + by_weights * np.float32(b), trial)
    strengths = Strengths(best_reg, *best_weights, a * scale, b * scale)
    note = (
        f"strengths chosen on {len(trial.hidden):,} hidden items by {len(trial.users):,} users: NDCG@{LIST_LENGTH}"
        f" among them {max(values):.4f}, by factors alone {factor_value:.4f}, by neighbor weights alone"
        f" {weights_value:.4f}"
    )
    return strengths, note


def match_scale(scores: Float32Array, trial: Trial) -> float:
    """Return the factor by which hidden items have as many places in lists as by the model that knows them."""
    # What was clicked the model knows to be so; of the rest, the hidden item of rank r + 1 among the hidden ones is in
    # a list of n where it beats the other item of rank n - r.
    rows, columns = np.repeat(np.arange(len(scores)), np.diff(trial.wanted.indptr)), trial.wanted.indices
    rivals = trial.best_others()[:, ::-1]
    best = []
    for each in (trial.scores(), scores.copy()):
        each[rows, columns] = -np.inf
        best.append(_list_best(each, rivals.shape[1]))
    known, estimated = best
    n_listed = int((known > rivals).sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = np.where((estimated > 0) & (rivals > 0), rivals / estimated, np.inf).ravel()
    if n_listed == 0 or not np.isfinite(needed).any():
        return 1.0
    place = min(n_listed, int(np.isfinite(needed).sum())) - 1
    return float(np.partition(needed, place)[place])


def _list_best(scores: Float32Array, k: int) -> Float32Array:
    """Return the k best scores of each row, falling; -inf where there are fewer."""
    found = np.full((len(scores), k), -np.inf, np.float32)
    n = min(k, scores.shape[1])
    found[:, :n] = -np.sort(np.partition(-scores, n - 1, axis=1)[:, :n], axis=1)
    return found


def choose_for_users(model: CSRRBase, encoded: Encoded, targets: Float32Array) -> tuple[Strengths, str]:
    """Return the strength for users, by the events of hidden users; a factor of 0 where popular items do as well."""
    rng = np.random.default_rng(model.seed)
    there = np.flatnonzero(encoded.is_there)
    hidden = np.sort(rng.permutation(there)[: min(int(HIDDEN * len(there)), MOST_USERS)])
    if len(hidden) < LEAST_USERS:
        return Strengths(factor=0.0), "off: too few users to see whether they gain over popular items"
    others, wanted = np.flatnonzero(~mark_rows(len(encoded), hidden)), model.seen_[hidden]
    rest, those = encoded.take(others), encoded.take(hidden)
    by_popularity = np.bincount(model.seen_[others].indices, minlength=len(model.items_)).astype(np.float32)
    popular = measure_ndcg(np.broadcast_to(by_popularity, (len(hidden), len(by_popularity))).copy(), wanted)
    best, best_reg, found = np.zeros(len(hidden)), REGS[-1], None
    for reg in REGS[::-1]:
        found = fit_map(*rest, targets[others], reg, found)
        values = measure_ndcg(found(*those) @ model.item_factors_.T, wanted)
        if values.mean() > best.mean():
            best, best_reg = values, reg
    gain = best - popular
    error = float(gain.std(ddof=1)) / len(gain) ** 0.5
    note = (
        f"by {len(hidden):,} hidden users: NDCG@{LIST_LENGTH} {best.mean():.4f}, of popular items {popular.mean():.4f}"
    )
    if gain.mean() > error:
        return Strengths(best_reg), f"strength chosen {note}"
    return Strengths(best_reg, factor=0.0), f"off {note}"


PRIORS = (0.1, 0.25, 0.5, 1.0, 2.0)
"""Strengths of what features say beside events that are tried, in events."""
FEW_EVENTS, MOST_FEW, MOST_OTHERS, LEAST_ASKED = 5, 400, 1200, 50
"""Items with 2 to one more than so many events have few of them once one is hidden; the most events of these and of
other items that are asked about, and the least."""
MOST_LOSS = 0.002
"""The largest relative loss, with its standard error, for other items, and for the popular half of their events."""


MOST_KNOWN = 50
"""The most neighbors by features of an item that has events."""


def find_shares(counts: Any, prior: float) -> Any:
    """Return how much features count for items of these numbers of events, 0 where that is hardly anything."""
    shares = prior / (prior + counts) if prior else np.zeros(len(counts))
    return np.where(shares >= LEAST_SHARE, shares, 0).astype(np.float32)


def weigh_known(features: Features, own: Encoded, rows: Rows) -> Any:
    """Return the weights that features give to known items at these rows, csr (m, m)."""
    values, items = features.weigh(own.take(rows), rows, MOST_KNOWN)
    places, ranks = np.nonzero((items >= 0) & (values != 0))
    cells: Any = values[places, ranks], (items[places, ranks], rows[places])
    size: Any = (len(own), len(own))
    return sparse.csr_array(cells, shape=size).astype(np.float32)


def choose_prior(model: CSRRBase, features: Features, own: Encoded, targets: Float32Array) -> tuple[float, str]:
    """Return how many events what features say counts for, by hidden events of items with few, and a note; 0: off.

    Scores are those of a model without the event, up to the first order. Events of other items must not fall behind.
    """
    rng = np.random.default_rng(model.seed)
    counts, seen, fitted = count_events(model), model.seen_, model.fitted_
    lengths = np.diff(seen.indptr)
    users = np.repeat(np.arange(len(lengths)), lengths)
    order = rng.permutation(seen.nnz)
    order = order[lengths[users[order]] > 1]
    is_few = (counts >= 2) & (counts <= FEW_EVENTS + 1) & own.is_there
    few, others = order[is_few[seen.indices[order]]], order[counts[seen.indices[order]] > FEW_EVENTS + 1]
    few = few[np.unique(seen.indices[few], return_index=True)[1]]
    few, others = np.sort(rng.permutation(few)[:MOST_FEW]), others[:MOST_OTHERS]
    if len(few) < LEAST_ASKED or not features.strengths.factor + features.strengths.weights:
        return 0.0, "items with few events as without features: too few to choose on"
    others = others[np.argsort(counts[seen.indices[others]], kind="stable")]
    asked, n_few = np.concatenate([few, others]), len(few)
    # 1. Users without the events, and what the events add to their own scores.
    factors, clicks, rest = _fold_without(model, users, asked)
    effects = _measure_effects(model, users[asked], seen.indices[asked], factors, rest)
    # 2. What features say of all items that it may count for, without the items asked about.
    rows, is_asked = np.flatnonzero(find_shares(counts, PRIORS[-1])), mark_rows(len(counts), seen.indices[few])
    unasked = np.flatnonzero(~is_asked)
    found = fit_map(*own.take(unasked), targets[unasked], features.strengths.reg, features.map)
    said = replace(features, map=found)
    estimates = np.zeros((len(counts), factors.shape[1]), np.float32)
    estimates[rows] = said.find_factors(own.take(rows))
    weights, before = weigh_known(said, own, rows), fitted.neighborhood.weights
    # 3. The ranks of the items.
    values = np.empty((len(PRIORS) + 1, len(asked)))
    for first in range(0, len(asked), 128):
        part = slice(first, min(first + 128, len(asked)))
        base = factors[part] @ fitted.items.T + (clicks[part] @ before).toarray()
        more = factors[part] @ estimates.T + (clicks[part] @ weights).toarray()
        items, past = seen.indices[asked[part]], rest[part].tocoo()
        base[np.arange(len(items)), items] -= effects[part]
        base[past.row, past.col] = -np.inf
        for place, prior in enumerate((0.0, *PRIORS)):
            values[place, part] = _measure_ranks(base, more, counts, items, prior, max(n_few - first, 0))
    gains, n_popular = values[1:, :n_few] - values[0, :n_few], len(others) // 2
    errors = gains.std(axis=1, ddof=1) / n_few**0.5
    losses = [_bound_losses(each) for each in (values[:, n_few:], values[:, -n_popular:])]
    fits = (gains.mean(axis=1) > errors) & (np.max(losses, axis=0) <= MOST_LOSS if n_popular else True)
    if not fits.any():
        why = "others lost by what they gained" if (gains.mean(axis=1) > errors).any() else "they did not gain"
        return 0.0, f"items with few events as without features: {why} on {n_few:,} hidden events"
    best, plain = int(np.argmax(np.where(fits, gains.mean(axis=1), -np.inf))), values[0, :n_few].mean()
    note = (
        f"beside events, features count as {PRIORS[best]:g} of them, by {n_few:,} hidden ones of items with few: mean"
        f" of 1/log2(1 + rank) {plain + gains[best].mean():.4f}, without {plain:.4f}"
    )
    return PRIORS[best], note


def _bound_losses(values: Float64Array) -> Float64Array:
    """Return how much less NDCG@20 other rows have than the first, (p,), relative and with one standard error.

    `values` are 1/log2(1 + rank), (p + 1, events).
    """
    listed = np.where(values >= 1 / np.log2(1 + LIST_LENGTH), values, 0)
    lost = listed[0] - listed[1:]
    found: Float64Array = (lost.mean(axis=1) + lost.std(axis=1) / max(lost.shape[1], 1) ** 0.5) / listed[0].mean()
    return found


def _fold_without(model: CSRRBase, users: Rows, asked: Rows) -> tuple[Float32Array, Any, Any]:
    """Return the users of some events without them: factors, (n, r), what their clicks count for in neighbor weights,
    csr (n, m), and their histories, csr (n, m).
    """
    histories = weigh_histories(model)
    rest, mine = (_leave_out(each, users, asked) for each in (histories, model.fitted_.weighed_seen))
    factors = model.fold_users(np.arange(len(asked)), rest).user_factors
    scale = model.fitted_.neighborhood.scale(rest, mine.data)
    return factors, sparse.csr_array(sparse.diags_array(scale) @ mine), rest


def _measure_effects(model: CSRRBase, users: Rows, items: Rows, factors: Float32Array, rest: Any) -> Float64Array:
    """Return what events add to the scores of their own cells, (n,), in units of a click.

    With h_U = p'(P'P + l1*I)^-1 p and h_S = x'(X_N'X_N + rho*I)^-1 x, the shares of their own targets in the two ridge
    regressions of an item, it is h_U + h_S (1 - h_U).
    """
    fitted, settings = model.fitted_, model.chosen_.settings
    P = (fitted.users * fitted.scaling.user[:, None]).astype(np.float64)
    own = (factors * fitted.scaling.user[users][:, None]).astype(np.float64)
    system = P.T @ P + fitted.l1 * np.eye(P.shape[1])
    of_taste = np.clip(np.einsum("nr,nr->n", own, np.linalg.solve(system, P[users].T).T), 0, 1)
    nearby = fitted.neighborhood
    if nearby.is_empty:
        return np.asarray(of_taste)
    counts = np.maximum(np.asarray(fitted.weighed_seen.sum(axis=1)).ravel(), 1)
    user, item = counts**-settings.neighbor_scaling, fitted.scaling.item
    x = sparse.csc_array(sparse.diags_array(user) @ fitted.weighed_seen @ sparse.diags_array(item))
    squares = np.asarray(x.multiply(x).sum(axis=0)).ravel()
    rho = settings.reg_neighbors * float(squares[squares > 0].mean())
    by_item, of_neighbors = nearby.by_item, np.zeros(len(users))
    for at, (row, column) in enumerate(zip(users.tolist(), items.tolist(), strict=True)):
        support = by_item.indices[by_item.indptr[column] : by_item.indptr[column + 1]]
        mine = np.isin(support, rest.indices[rest.indptr[at] : rest.indptr[at + 1]])
        if mine.any():
            some = x[:, support]
            gram = (some.T @ some).toarray()
            gram[np.diag_indices_from(gram)] += rho
            along = user[row] * item[support] * mine
            of_neighbors[at] = along @ np.linalg.solve(gram, along)
    return np.asarray(of_taste + np.clip(of_neighbors, 0, 1) * (1 - of_taste))


def _leave_out(histories: Any, users: Rows, events: Rows) -> Any:
    """Return the histories of the users of some events, a row for each event, without it."""
    found = sparse.csr_array(histories[users[events]])
    found.data = found.data.copy()
    found.data[found.indptr[:-1] + events - histories.indptr[users[events]]] = 0
    found.eliminate_zeros()
    return found


def _measure_ranks(
    base: Float32Array, more: Float32Array, counts: Int64Array, items: Rows, prior: float, n_few: int
) -> Float64Array:
    """Return 1/log2(1 + rank) of an item in each row; the first `n_few` have an event less than `counts` say."""
    scores = base + more * find_shares(counts, prior)
    places, n_few = np.arange(len(items)), min(n_few, len(items))
    few = places[:n_few], items[:n_few]
    scores[few] = base[few] + more[few] * find_shares(counts[items[:n_few]] - 1, prior)
    mine = scores[places, items][:, None]
    ranks = 1 + (scores > mine).sum(axis=1) + ((scores == mine).sum(axis=1) - 1) / 2
    found: Float64Array = 1 / np.log2(1 + ranks)
    return found


def weigh_histories(model: CSRRBase) -> Any:
    """Return the training events, csr (n, m), with weights if the model uses any, as new histories have."""
    seen, values = model.seen_, model.seen_weights_
    if model.history_weight is None:
        return seen
    values = np.full(seen.nnz, model.history_weight, np.float32) if values is None else values
    return sparse.csr_array((values, seen.indices, seen.indptr), shape=seen.shape)


def make_trial(model: CSRRBase, encoded: Encoded) -> Trial | None:
    """Return users and hidden items of a model fitted to items with events only, whose features these are."""
    rng = np.random.default_rng(model.seed)
    there = np.flatnonzero(encoded.is_there)
    n_hidden = min(max(int(HIDDEN * len(there)), min(LEAST_HIDDEN, len(there) // 4)), MOST_HIDDEN)
    hidden = np.sort(rng.permutation(there)[:n_hidden])
    if len(there) < 2 * LEAST_HIDDEN:
        return None
    is_hidden = mark_rows(len(encoded), hidden)
    seen, faded = model.histories, model.fitted_.faded
    counts = np.concatenate(([0], np.cumsum(is_hidden[seen.indices])))
    of_hidden = np.diff(counts[seen.indptr])
    users = np.flatnonzero((of_hidden > 0) & (np.diff(seen.indptr) > of_hidden))
    users = np.sort(rng.permutation(users)[:MOST_USERS])
    if len(users) < LEAST_USERS:
        return None
    mine = seen[users]
    if faded is None:
        wanted = mine
        rest = _drop_columns(weigh_histories(model)[users], is_hidden)
        amounts = _drop_columns(model.fitted_.weighed_seen[users], is_hidden)
        factors = model.fold_users(users, rest).user_factors
        nearby = model.fitted_.neighborhood
        clicks = sparse.csr_array(sparse.diags_array(nearby.scale(rest, amounts.data)) @ amounts)
        weights = nearby.weights
        scored = clicks
    else:
        mine, wanted = _cut_before(mine, is_hidden)
        there = np.diff(mine.indptr) > 0
        mine, wanted = mine[there], wanted[there]
        if len(np.flatnonzero(there)) < LEAST_USERS:
            return None
        ages = mine.data.astype(np.int32) - 1
        factors, scored = faded.find_users(mine, ages), faded.fade(mine, ages)
        m = len(encoded)
        clicks = sparse.csr_array(
            sum(scored[:, c * m : (c + 1) * m] for c in range(len(faded.decays))) / len(faded.decays)
        )
        weights = faded.weights
    items = model.item_factors_

    def score_hidden() -> Float32Array:
        scores: Float32Array = factors @ items[hidden].T + (scored @ weights[:, hidden]).toarray()
        return scores

    def list_others() -> Float32Array:
        # A list of a large part of all items would not tell at which places new ones are.
        length = min(LIST_LENGTH, max(1, len(items) // 10))
        best = np.empty((len(factors), length), np.float32)
        for first in range(0, len(factors), 256):
            part = slice(first, first + 256)
            block = factors[part] @ items.T + (scored[part] @ weights).toarray()
            past = clicks[part].tocoo()
            block[past.row, past.col] = -np.inf
            block[:, hidden] = -np.inf
            best[part] = _list_best(block, length)
        return best

    return Trial(factors, clicks, sparse.csr_array(wanted[:, hidden]), hidden, score_hidden, list_others)


def _drop_columns(matrix: Any, dropped: BoolArray) -> Any:
    """Return a csr matrix without the entries of some columns."""
    kept = ~dropped[matrix.indices]
    starts = np.concatenate(([0], np.cumsum(kept)))[matrix.indptr]
    return sparse.csr_array((matrix.data[kept], matrix.indices[kept], starts), shape=matrix.shape)


def _cut_before(histories: Any, is_hidden: BoolArray) -> tuple[Any, Any]:
    """Return what was before the latest event of a hidden item in each history, without hidden items, and that event.

    Histories have places from the latest, 1, on, and so has the result.
    """
    places, rows = histories.data, np.repeat(np.arange(histories.shape[0]), np.diff(histories.indptr))
    at_hidden = np.where(is_hidden[histories.indices], places, np.inf)
    latest = np.minimum.reduceat(at_hidden, histories.indptr[:-1])[rows]
    wanted = sparse.csr_array(
        (np.ones(int((hit := at_hidden == latest).sum()), np.float32), (rows[hit], histories.indices[hit])),
        histories.shape,
    )
    kept = (places > latest) & ~is_hidden[histories.indices]
    rows, columns, places = rows[kept], histories.indices[kept], places[kept]
    order = np.lexsort((places, rows))
    counts = np.bincount(rows, minlength=histories.shape[0])
    ranks = np.empty(len(rows), np.float32)
    ranks[order] = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    return sparse.csr_array((ranks, (rows, columns)), histories.shape), wanted
