"""How much features count: numbers chosen on hidden items, on hidden events of items with few, and on hidden users."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from csrr._base.arrays import BoolArray, Float32Array, Float64Array, Int64Array, Rows
from csrr._base.lazy_jit import compile_loop
from csrr._base.threads import run_ranges
from csrr.data.features import Encoded
from csrr.models.features import Features, Strengths, count_events, mark_rows
from csrr.numerics.feature_ridge import SimilarItems, collect_weights, fit_map

if TYPE_CHECKING:
    from csrr.models.csrr_base import CSRRBase


REGS = (1.0, 3.0, 10.0)

"""Strengths that are tried for the regression of factors on features."""

RIDGES = ((50, 10.0), (200, 10.0))

"""Numbers of items that are most alike, and strengths for the regression on their features, that are tried."""

SHARES = (0.25, 0.5, 1.0, 2.0, 4.0)

"""How much factors may count where neighbor weights count 1, both in units of their standard deviation."""

HIDDEN, LEAST_HIDDEN, MOST_HIDDEN = 0.1, 20, 2000

"""The share of the items that is hidden to choose strengths, and how many these are at least and at most."""

LEAST_USERS, MOST_USERS = 50, 2000

LIST_LENGTH = 20

LEAST_SHARE = 0.02

"""A prior counts for items of which it is at least this share."""


def measure_ndcg(scores: Float32Array, wanted: Any) -> Float64Array:
    """Return the NDCG@20 of each user by scores of items, (n, h), of which those in `wanted`, csr, are to be found."""
    ranks = np.empty(wanted.nnz)
    run_ranges(
        lambda a, b: _rank_wanted(a, b, scores, wanted.indptr, wanted.indices, ranks),
        [*range(0, len(scores), 64), len(scores)],
    )
    counts = np.diff(wanted.indptr)
    gains = np.where(ranks <= LIST_LENGTH, 1 / np.log2(1 + ranks), 0)
    ideal = np.cumsum(1 / np.log2(np.arange(2, LIST_LENGTH + 2)))[np.minimum(counts, LIST_LENGTH) - 1]
    found: Float64Array = np.add.reduceat(gains, np.cumsum(counts) - counts) / ideal
    return found


@compile_loop()
def _rank_wanted(start, stop, scores, indptr, indices, ranks):  # type: ignore[no-untyped-def]
    # ranks[p] = 1 + the number of items that score above indices[p]; of equal ones half are above
    for u in range(start, stop):
        mine = scores[u]
        for p in range(indptr[u], indptr[u + 1]):
            own, above, equal = mine[indices[p]], 0, 0
            for j in range(len(mine)):
                if mine[j] > own:
                    above += 1
                elif mine[j] == own:
                    equal += 1
            ranks[p] = 1 + above + (equal - 1) / 2


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
    bars: Callable[[], Float32Array]
    """The score that a list of LIST_LENGTH of the other items begins at, (n,)."""


def choose_strengths(encoded: Encoded, targets: Float32Array, trial: Trial | None) -> tuple[Strengths, str]:
    """Return how features count, chosen on hidden items, and a note; `encoded` and `targets`, (m, r), are of all known.

    Without enough items and users the choice is by rule.
    """
    if trial is None:
        return Strengths(weights=0.05), "by rule: too few items or users to choose on"
    kept = np.ones(len(targets), np.bool_)
    kept[trial.hidden] = False
    others, hidden = np.flatnonzero(kept), encoded.take(trial.hidden)
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
    scale = _match_scale(by_factor * np.float32(a) + by_weights * np.float32(b), trial)
    strengths = Strengths(best_reg, *best_weights, a * scale, b * scale)
    note = (
        f"strengths chosen on {len(trial.hidden):,} hidden items by {len(trial.users):,} users: NDCG@{LIST_LENGTH}"
        f" among them {max(values):.4f}, by factors alone {factor_value:.4f}, by neighbor weights alone"
        f" {weights_value:.4f}"
    )
    return strengths, note


def _match_scale(scores: Float32Array, trial: Trial) -> float:
    """Return the factor by which hidden items are in as many lists as by the model that knows them."""
    bars, known = trial.bars()[:, None], trial.scores()
    # Of the cells that either may list: what was clicked the model knows to be so.
    rows, columns = np.repeat(np.arange(len(scores)), np.diff(trial.wanted.indptr)), trial.wanted.indices
    known[rows, columns] = -np.inf
    n_listed = int((known > bars).sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = np.where((scores > 0) & (bars > 0), bars / scores, np.inf)
    needed[rows, columns] = np.inf
    needed = needed.ravel()
    if n_listed == 0 or not np.isfinite(needed).any():
        return 1.0
    place = min(n_listed, int(np.isfinite(needed).sum())) - 1
    return float(np.partition(needed, place)[place])


def choose_for_users(model: CSRRBase, encoded: Encoded, targets: Float32Array) -> tuple[Strengths, str]:
    """Return the strength for users, by the events of hidden users; a factor of 0 where popular items do as well."""
    rng = np.random.default_rng(model.seed)
    there = np.flatnonzero(encoded.is_there)
    hidden = np.sort(rng.permutation(there)[: min(int(HIDDEN * len(there)), MOST_USERS)])
    if len(hidden) < LEAST_USERS:
        return Strengths(factor=0.0), "off: too few users to see whether they gain over popular items"
    kept = np.ones(len(encoded), np.bool_)
    kept[hidden] = False
    others, wanted = np.flatnonzero(kept), model.seen_[hidden]
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
        return 0.0, f"items with few events as without features, which did not gain on {n_few:,} hidden events"
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
    n_hidden = min(max(int(HIDDEN * len(there)), LEAST_HIDDEN), MOST_HIDDEN)
    hidden = np.sort(rng.permutation(there)[:n_hidden])
    if len(there) < 4 * LEAST_HIDDEN:
        return None
    is_hidden = np.zeros(len(encoded), np.bool_)
    is_hidden[hidden] = True
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

    def find_bars() -> Float32Array:
        bars = np.empty(len(factors), np.float32)
        for first in range(0, len(factors), 256):
            part = slice(first, first + 256)
            block = factors[part] @ items.T + (scored[part] @ weights).toarray()
            past = clicks[part].tocoo()
            block[past.row, past.col] = -np.inf
            block[:, hidden] = -np.inf
            k = min(LIST_LENGTH, block.shape[1])
            bars[part] = -np.partition(-block, k - 1, axis=1)[:, k - 1]
        return bars

    return Trial(factors, clicks, sparse.csr_array(wanted[:, hidden]), hidden, score_hidden, find_bars)


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
