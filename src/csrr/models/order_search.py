"""The search for the best use of the order of events: on each user's last training events, given all before them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from csrr._base.arrays import AnyArray, Float32Array, Float64Array, Int32Array
from csrr._base.threads import TimeUpError, run_ranges
from csrr.data.log import Log
from csrr.model_parameters import HoldOut
from csrr.models.build_problem import Settings
from csrr.models.fitted_problem import Neighborhood
from csrr.models.held_out import LEAST_EVENTS, LEAST_USERS, LIST_LENGTH, hold_out, resolve_way
from csrr.models.order import IGNORE, FadedScores, OrderSettings, divide_rare, fade_scores, list_sequences, make_taste
from csrr.models.search import LEAST_GAIN, LIKELY, NEIGHBORS, SettingsTrial, compute_error
from csrr.numerics.factored import Factors
from csrr.numerics.transitions import NextItems, Sequences, Taste, rank_next
from csrr.parameters import ParameterError
from csrr.ranking.topk import measure_held_out_ndcg

if TYPE_CHECKING:
    from csrr.models.search import Search

FIRST_DECAY, DECAYS = 0.8, (0.3, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98)
"""The decay that is tried first, and those between which the search then moves."""
SEVERAL = ((0.33, 2.0), (0.2, 1.0, 7.0))
"""Several decays that are tried, by the factors on the memory of the best one, -1/ln d."""
FIRST, NEAR, MORE_WEIGHTS = (1 / 3, 1, 3, 10), (1 / 3, 1, 3), (1, 3)
"""The factors on the penalty on neighbors that are tried first, with every later point, and with more weights. Where
the first or the last of them is best, the search goes on from there."""
HORIZONS = (0.0, 0.5, 0.7, 0.8, 0.9)
"""The horizons between which the search moves, where several events of a user are to be predicted."""
RARE = (0.0, 0.1, 0.2, 0.3)
"""The `rare_scaling` that are tried with everything else."""
HISTORY_SCALINGS, NEXT_STRENGTHS, MORE = (0.0, 0.3), (0.35, 0.5, 0.72), (100,)
"""The `history_scaling`, the strengths on the rank and the larger numbers of neighbors that are tried."""
NEXT_RULE = Settings(cost_ratio=1.0, reg_sparse=1.0, max_rank=128, neighbors=NEIGHBORS, reg_neighbors=3.0)
"""The settings of a fit for the next event without a search: U by one SVD."""
MOST_SCORES, LEAST_MEASURED, MOST_WORK = 2.5e8, 2500, 2.5e10
"""The largest number of scores of a trial, the users that are measured in any case, and the largest number of
multiplications that solving for neighbors may take to be tried."""
SHARE_AHEAD = 0.2
"""The share of the events that is held out where several of each user are to be predicted."""
ORDER_COLUMNS = ("decay", "decay_2", "decay_3", *OrderSettings._fields[2:])
"""The columns of trials that say how the order is used."""
_USERS_AT_ONCE = 64


class Point(NamedTuple):
    """The settings of a trial."""

    settings: Settings
    order: OrderSettings = IGNORE


class Ahead(NamedTuple):
    """The `sequences` of all users without what comes next and, of the users `rows`, (r,), that: `heldout`, csr (r, m).

    `clicks`, csr (r, m), is what these had before, and `ages` says how many of it came later, for each event.
    """

    sequences: Sequences
    rows: AnyArray
    clicks: Any
    ages: Int32Array
    heldout: Any
    has_several: bool = False

    @classmethod
    def of(cls, log: Log, heldout: Log, *, has_several: bool) -> Ahead:
        """Return a log without the events of another."""
        rows = np.flatnonzero(heldout.user_counts())
        ages = log.find_ages()[np.isin(log.user_rows, rows)]
        return cls(list_sequences(log), rows, log.to_csr()[rows], ages, heldout.to_csr()[rows], has_several)


def cut_ahead(log: Log, seed: int, way: HoldOut = "auto") -> tuple[Log, Log, bool] | None:
    """Return a log up to each user's last event of the target type, and these events; None where they are too few.

    No event that came later stays. Users with less than LEAST_EVENTS keep all. Where the log's own test has several
    events of a user, or where `way` asks for it, `hold_out` says which are cut off instead. The last value returned:
    whether a user may have several.
    """
    if way == "random":
        hint = "must be 'last' or 'time' with an order: random events do not tell what comes next"
        raise ParameterError.of("hold_out", way, hint)
    if way != "auto" or log.cut in ("share", "time"):
        parts = hold_out(log, seed, resolve_way(log, way), SHARE_AHEAD)
        if parts is not None or way != "auto":
            return None if parts is None else (parts.fitted, parts.heldout, True)
    ages, is_target, users = log.find_ages(), log.is_target, log.user_rows
    last = np.full(log.n_users, np.iinfo(np.int32).max)
    np.minimum.at(last, users[is_target], ages[is_target])
    # What is left of the history of a user must be a history.
    has_enough = (log.user_counts() - last >= LEAST_EVENTS)[users]
    held = has_enough & is_target & (ages == last[users])
    if held.sum() < LEAST_USERS:
        return None
    most = max(LEAST_MEASURED, int(MOST_SCORES // log.n_items))
    measured = np.sort(np.random.default_rng(seed).permutation(np.flatnonzero(held))[:most])
    is_measured = np.zeros(len(log), np.bool_)
    is_measured[measured] = True
    return log.select(~has_enough | (ages > last[users])), log.select(is_measured), False


@dataclass(eq=False)
class OrderSearch:
    """A search over decays, neighbors and strengths, one after another, for what ranks the events ahead best.

    `search` is that without order, on the same events, whose SVD gives U. What is `open` is chosen; the `given` rest
    stays. A point is replaced only if the gain exceeds its standard error.
    """

    search: Search
    ahead: Ahead
    given: Point
    open: frozenset[str]
    user_scaling: float
    trials: dict[Point, SettingsTrial] = field(default_factory=dict)
    _best: dict[Point, Point] = field(default_factory=dict)
    _tastes: dict[Any, tuple[Float32Array, Float32Array]] = field(default_factory=dict)
    _shared: dict[Any, Taste] = field(default_factory=dict)
    _found: tuple[Any, NextItems] | None = None
    is_cut: bool = False

    def run(self, kinds: Sequence[str]) -> Point:
        """Return the best point of these kinds of order, of those that there was time to try."""
        found: list[Point] = []
        try:
            if "ignore" in kinds or "recent" in kinds:
                found += self._choose_recent(kinds)
            if "next" in kinds:
                found.append(self._choose_next())
        except TimeUpError:
            self.is_cut = True
            if not (tried := [point for point in self.trials if point.order.kind in kinds]):
                raise
            found = [max(tried, key=lambda point: self.trials[point].mean)]
        # The first is replaced only by what is surely better.
        best = found[0]
        for other in found[1:]:
            best = self._take(best, other)
        return best

    # What comes next

    def _choose_next(self) -> Point:
        point = self._try(self.given, FIRST)
        if "history_scaling" in self.open:
            others = [_change(point, history_scaling=power) for power in HISTORY_SCALINGS]
            point = self._take(point, *map(self._try, others))
        if "decay" in self.open:
            point = self._walk(point, DECAYS, lambda p, decay: _change(p, decays=(decay,)), FIRST_DECAY)
        if "horizon" in self.open and self.ahead.has_several:
            point = self._walk(point, HORIZONS, lambda p, each: _change(p, horizon=each), point.order.horizon)
        if "strength" in self.open:
            middle = point.settings.strength
            point = self._walk(point, NEXT_STRENGTHS, lambda p, each: _change(p, strength=each), middle)
        if "decay" in self.open:
            memory = -1 / np.log(point.order.decays[0])
            for factors in SEVERAL:
                decays = tuple(float(f"{np.exp(-1 / (memory * factor)):.2g}") for factor in factors)
                point = self._take_larger(point, _change(point, decays=decays))
        if "neighbors" in self.open:
            for more in MORE:
                if point.settings.neighbors == more // 2 and more < self.ahead.sequences.n_items:
                    point = self._take_larger(point, _change(point, neighbors=more))
        if "max_rank" in self.open:
            most = min(self.search.built.problem.pattern.shape)
            while self.trials[point].rank == (bound := point.settings.max_rank or most) and bound < most:
                wider = self._take(point, self._try(_change(point, max_rank=min(2 * bound, most))), gain=LEAST_GAIN)
                if wider == point:
                    break
                point = wider
        return point

    def _take_larger(self, point: Point, other: Point) -> Point:
        """The other point, with more weights, if that surely gains, and its systems take little enough to be tried."""
        decays = other.order.decays
        if len(set(decays)) < len(decays) or not 0 < decays[0] <= decays[-1] < 1:
            return point
        widths = (self._find_next(other).support >= 0).sum(axis=1)
        if float((widths**3.0).sum()) / 3 > MOST_WORK:
            return point
        return self._take(point, self._try(other, MORE_WEIGHTS), gain=LEAST_GAIN)

    def _walk(self, point: Point, ladder: Sequence[float], change: Any, middle: float) -> Point:
        """The point with the best value of a ladder, from the middle on in both directions while that gains."""
        if middle not in ladder:
            return point
        best, at = point, ladder.index(middle)
        for step in (-1, 1):
            place = at + step
            while 0 <= place < len(ladder):
                other = self._try(change(point, ladder[place]))
                if self.trials[other].mean <= self.trials[best].mean:
                    break
                best, place = other, place + step
            if best != point:
                break
        return self._take(point, best)

    def _take(self, point: Point, *others: Point, gain: float = 0.0) -> Point:
        """The best of several points, but the first if the gain is not more than its standard error and a share."""
        best = max(others, key=lambda each: self.trials[each].mean)
        gains = self.trials[best].scores - self.trials[point].scores
        least = max(LIKELY * compute_error(gains), gain * self.trials[point].mean)
        return best if gains.mean() > least else point

    def _try(self, base: Point, factors: Sequence[float] = NEAR) -> Point:
        """The point with the best penalty, near that of the base, and scaling of rare items, both tried together."""
        key = _change(base, reg_neighbors=0.0, rare_scaling=0.0)
        if key not in self._best:
            has_open = "reg_neighbors" in self.open and base.settings.neighbors
            mine = base.settings.reg_neighbors
            ridges = [_scale(mine, factor) for factor in factors] if has_open else [mine]
            best = self._measure_next(base, ridges)
            while has_open and 0.05 < best.settings.reg_neighbors < 1000:
                if best.settings.reg_neighbors not in (ridges[0], ridges[-1]):
                    break
                at_end = best.settings.reg_neighbors == ridges[-1]
                ridges = [_scale(ridges[-1], 3) if at_end else _scale(ridges[0], 1 / 3)]
                best = max(best, self._measure_next(base, ridges), key=lambda each: self.trials[each].mean)
            self._best[key] = best
        return self._best[key]

    def _measure_next(self, base: Point, ridges: Sequence[float]) -> Point:
        """The best of some penalties, and of all scalings of rare items, for a base; all are now among the trials."""
        order, found = base.order, self._find_next(base)
        taste = self._find_shared(base, found)
        rares = RARE if "rare_scaling" in self.open else (order.rare_scaling,)
        parts, weights = (np.zeros(1, np.int64), np.empty(0, np.int32)), np.zeros((1, 0), np.float32)
        if base.settings.neighbors:
            unit = found.compute_mean_diagonal(order.history_scaling)
            solved = found.solve(taste, order.history_scaling, [ridge * unit for ridge in ridges])
            indptr, indices, places = found.by_predictor
            parts, weights = (indptr, indices), solved.reshape(len(ridges), -1)[:, places]
        else:
            ridges, parts = ridges[:1], (np.zeros(len(order.decays) * len(taste.right) + 1, np.int64), parts[1])
        left, _ = self._find_taste(base.settings)
        scores = FadedScores(order.decays, taste.shares, left, taste.right, None)
        bonus = np.stack([divide_rare(self.ahead.sequences, power) for power in rares])
        ranks = self._rank(scores, *parts, weights, bonus)
        tried = []
        for ridge, by_ridge in zip(ridges, ranks, strict=True):
            for rare, each in zip(rares, by_ridge, strict=True):
                tried.append(_change(base, reg_neighbors=ridge, rare_scaling=rare))
                self.trials[tried[-1]] = SettingsTrial(taste.right.shape[1] // len(order.decays), self._grade(each))
        return max(tried, key=lambda point: self.trials[point].mean)

    def _rank(self, scores: FadedScores, indptr: Any, indices: Any, weights: Any, bonus: Float32Array) -> Float64Array:
        """The rank of each held-out item for several weights, (w, nnz), and factors on items, (b, m): (w, b, items)."""
        users, faded = (
            scores.find_users(self.ahead.clicks, self.ahead.ages),
            scores.fade(self.ahead.clicks, self.ahead.ages),
        )
        seen, held = self.ahead.clicks, self.ahead.heldout
        ranks = np.empty((len(weights), len(bonus), held.nnz))

        def rank(start: int, stop: int) -> None:
            base, mine = users[start:stop] @ scores.right.T, slice(start, stop + 1)
            given = base, faded.indptr[mine], faded.indices, faded.data, indptr, indices, weights, bonus
            rank_next(0, stop - start, *given, seen.indptr[mine], seen.indices, held.indptr[mine], held.indices, ranks)

        run_ranges(rank, [*range(0, len(users), _USERS_AT_ONCE), len(users)])
        return ranks

    def _grade(self, ranks: Float64Array) -> Float64Array:
        """The NDCG of each user, by the ranks of their held-out events."""
        return measure_held_out_ndcg(ranks, np.diff(self.ahead.heldout.indptr), LIST_LENGTH)

    def _find_taste(self, settings: Settings) -> tuple[Float32Array, Float32Array]:
        """U of a strength as a map of histories."""
        key = settings.strength, settings.max_rank
        if key not in self._tastes:
            plain = NEXT_RULE._replace(strength=settings.strength, max_rank=settings.max_rank)
            u, l1 = self.search.threshold(plain)
            self._tastes = {
                key: make_taste(
                    self.search.built.problem.engine.get(Factors.of(u.trim()).items), l1, self.search.built.scaling.item
                )
            }
        return self._tastes[key]

    def _find_shared(self, point: Point, found: NextItems) -> Taste:
        """Common taste with the shares of the decays, for U of a point."""
        settings, order = point
        key = settings.strength, settings.max_rank, settings.neighbors, order.decays, order.horizon
        if key not in self._shared:
            self._shared = {key: found.find_taste(*self._find_taste(settings))}
        return self._shared[key]

    def _find_next(self, point: Point) -> NextItems:
        """The regression of a point; only the latest is kept."""
        key = point.order.decays, point.settings.neighbors, point.order.horizon
        if self._found is None or self._found[0] != key:
            self._found = key, NextItems(self.ahead.sequences, *key)
        return self._found[1]

    # As without order, of all that was or of what was recently

    def _choose_recent(self, kinds: Sequence[str]) -> list[Point]:
        """The best points without order, and with recent histories, in the order of these kinds."""
        settings = self.search.run()
        plain = Point(settings)
        self.trials |= {Point(each): trial for each, trial in self.search.trials.items()}
        found = [plain] if "ignore" in kinds else []
        if "recent" not in kinds:
            return found
        u, l1 = self.search.threshold(settings)
        built = self.search.built.with_settings(settings._replace(cost_ratio=1.0, reg_sparse=1.0))
        neighborhood = Neighborhood.of(built, u.split(), self.user_scaling)
        taste = make_taste(self.search.built.problem.engine.get(Factors.of(u.trim()).items), l1, built.scaling.item)
        given, weights, ones = (
            self.given.order,
            neighborhood.weights,
            np.ones((1, self.ahead.sequences.n_items), np.float32),
        )

        def measure(decays: tuple[float, ...]) -> Point:
            point = Point(settings, OrderSettings("recent", decays))
            scores = fade_scores(taste, weights, neighborhood.power, decays)
            given = scores.weights.indptr, scores.weights.indices, scores.weights.data[None]
            self.trials[point] = SettingsTrial(taste[1].shape[1], self._grade(self._rank(scores, *given, ones)[0, 0]))
            return point

        tried = [measure(given.decays)]
        if "decay" in self.open:
            tried += [measure((decay,)) for decay in DECAYS if (decay,) != given.decays]
        return [*found, max(tried, key=lambda point: self.trials[point].mean)]

    @property
    def best_without(self) -> Point | None:
        """The best of the points without order; None if there are none."""
        found = [point for point in self.trials if point.order.kind == "ignore"]
        return max(found, key=lambda point: self.trials[point].mean) if found else None


def _change(point: Point, **changes: Any) -> Point:
    """The point with other settings by name."""
    of_order = {name: changes.pop(name) for name in list(changes) if name in OrderSettings._fields}
    return Point(point.settings._replace(**changes), point.order._replace(**of_order))


def _scale(ridge: float, factor: float) -> float:
    return float(f"{ridge * factor:.2g}")
