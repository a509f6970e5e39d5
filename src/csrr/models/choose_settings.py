"""Held-out training events -> what "auto" comes to: strength, rank and neighbors.

A tenth of each user's events is held out of the log. What is left is fitted with several strengths, ranks and
neighbors, and what ranks the held-out events best is taken for the fit to the whole log. All of it is seeded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from csrr.arrays import BoolArray, FloatArray
from csrr.data import Log
from csrr.deadline import TimeUpError, cut_off, seconds_left
from csrr.html_text import format_html_words
from csrr.model_parameters import HoldOut
from csrr.models.build_problem import build_problem, judge_events
from csrr.models.settings import RULE, Settings
from csrr.models.settings_search import AT, NAMES, Search, Wanted
from csrr.parameters import ParameterError
from csrr.ranking.result_table import ResultTable
from csrr.ranking.text_tables import format_text_table

if TYPE_CHECKING:
    from csrr.models.robust import RobustModel

SHARE = 0.1
"""The share of each user's events that is held out."""
MOST_OF_TARGET = 0.5
"""The share of each user's events of the target type that is held out at most."""
LEAST_EVENTS, LEAST_USERS = 3, 150
"""A user with fewer events spares none; a log with fewer users to ask is too small to choose by."""
ENOUGH_USERS = 450
"""With fewer users to ask of the end of a log, unasked, more of them at random tell more."""
MOST_USERS, CELLS = 2500, 6 * 10**7
"""How many users are asked at most, and how many scores that may take, unless these are a third of them or fewer."""

NOTICED = 0.05
"""The share of noise, by estimate, from which on it is tried to count events less that look like it."""
POWERS = (1.0, 0.5)
"""The powers of the probabilities of being genuine that are tried."""
HASTY_RANK = 64
"""The largest rank where the time limit leaves no time to choose one: a small rank that is solved beats a large one."""


@dataclass(frozen=True, eq=False, repr=False)
class Chosen(ResultTable):
    """What was tried on held-out training events, a row each:

    - rank: of U;
    - cost_ratio: what a miss costs;
    - strength: l1 in noise levels, the norm of the targets with random signs;
    - max_rank (0: none), reg_sparse, neighbors, reg_neighbors, neighbor_scaling, denoise: as the parameters;
    - ndcg: the mean over users of the NDCG@20 of their held-out events, and its standard error, `error`.

    `settings` is what the fit took, `note` how it came to it. Without rows nothing was searched. `n_events` is the size
    of the log at the choice (0: not known), `n_now` that after updates, which keep the choice.
    """

    settings: Settings = RULE
    note: str = ""
    n_events: int = 0
    n_now: int = 0

    @property
    def growth(self) -> float | None:
        """By what share the log has grown since the choice, or None where that is not known."""
        return self.n_now / self.n_events - 1 if self.n_events else None

    @property
    def growth_note(self) -> str:
        """The same in words; nothing where it has not grown."""
        if self.n_now == self.n_events or self.growth is None:
            return ""
        return f"chosen when the log had {self.n_events:,} events; it has grown by {100 * self.growth:.2g} % since"

    def summary(self) -> dict[str, Any]:
        """Return everything as plain Python values, ready for JSON."""
        return {
            "settings": self.settings._asdict(),
            "note": self.note,
            "n_events": self.n_events,
            "growth": self.growth,
            "tried": list(self.rows()),
        }

    @property
    def taken(self) -> int | None:
        """The row that the fit took, from 0; None if it is none of them."""
        wanted = self.settings._replace(max_rank=self.settings.max_rank or 0)._asdict()
        same = [np.asarray(self[name]) == value for name, value in wanted.items()] if len(self) else []
        rows: Any = np.flatnonzero(np.all(same, axis=0)) if same else []
        return int(rows[0]) if len(rows) else None

    def __str__(self) -> str:
        if not len(self):
            return "\n".join(self._notes)
        lines = [("*" if row == self.taken else "", *line) for row, line in enumerate(self.lines())]
        star = [] if self.taken is None else ["* what the fit took"]
        return "\n".join([format_text_table(["", *self.columns], lines), *star, *self._notes])

    def __repr__(self) -> str:
        return str(self)

    @property
    def _notes(self) -> list[str]:
        return [each for each in (self.note, self.growth_note) if each]

    def _repr_html_(self) -> str:
        return "\n".join([super()._repr_html_()] * bool(len(self)) + [format_html_words(each) for each in self._notes])


def _mark_tenth(log: Log, counts: Any, rng: np.random.Generator, *, latest: bool) -> BoolArray:
    """A tenth of each user's events, drawn at random or the latest, (n_events,); `counts`, (n_users,), is of all."""
    is_target = log.is_target
    # A tenth of 7 events is one, in seven of ten cases; of rare purchases at most half are taken.
    most_of_target = MOST_OF_TARGET * np.bincount(log.user_rows[is_target], minlength=log.n_users)
    taken = np.floor(np.minimum(SHARE * counts, most_of_target) + rng.random(log.n_users)).astype(np.int64)
    taken[counts < LEAST_EVENTS] = 0
    if latest:
        assert log.times is not None
        order = np.lexsort((-log.times, ~is_target, log.user_rows))
    else:
        drawn = (log.user_rows.astype(np.int64) << 33) | rng.integers(2**32, size=len(log))
        order = np.argsort(drawn | (~is_target).astype(np.int64) << 32, kind="stable")
    place = np.arange(len(log)) - np.repeat(np.cumsum(counts) - counts, counts)
    held = np.empty(len(log), np.bool_)
    held[order] = place < taken[log.user_rows[order]]
    return held


def _mark_latest(log: Log) -> BoolArray:
    """The last tenth of all events in time that may be asked for, (n_events,)."""
    assert log.times is not None
    of_target = log.times[log.is_target]
    held: BoolArray = log.is_target & (log.times >= np.quantile(of_target, 1 - SHARE, method="higher"))
    return held


def choose_settings(model: RobustModel, log: Log, user_costs: Any = None, item_costs: Any = None) -> Chosen:
    """Return what the parameters that say "auto" come to for a log: by its own held-out events, or by rule."""
    wanted = model.wanted()
    if wanted.settled is not None:
        return choose_by_rule(wanted.settled, "as given by another fit")
    if wanted.is_complete or not model.searches:
        return choose_by_rule(wanted.given, "nothing was left to choose" if wanted.is_complete else "chosen by rule")

    def start_search(seed: int, denoise: float = 0.0, judged: FloatArray | None = None) -> Search | None:
        parts = hold_out(log, seed, model.hold_out)
        if parts is None:
            return None
        fitted, asked = (part.to_csr() for part in parts)
        if fitted.multiply(asked).nnz:
            raise AssertionError("an event that is asked for is among those that are fitted")
        given = wanted.given._replace(denoise=denoise or wanted.given.denoise)
        return Search(build_problem(model, parts[0], given, user_costs, item_costs, judged), fitted, asked, wanted)

    try:
        with cut_off(seconds_left(0.5)):
            search = start_search(model.seed)
            if search is None:
                return choose_by_rule(wanted.given, _explain_too_small(log, wanted))
            settings, found_by = search.run(), search
            if "denoise" in wanted and not search.is_cut:
                settings, found_by = try_denoised(search, settings, start_search)
            if search.goes_by_cost and not search.is_cut and (cheaper := found_by.cheapen(settings)) != settings:
                second = start_search(model.seed + 1, settings.denoise)
                settings = settings if second is None else second.confirm(settings, cheaper)
            search.trials |= found_by.trials
            search.costs |= found_by.costs
            return _keep_search(search, settings, find_way(log, model.hold_out))
    except TimeUpError:
        hasty = wanted.given._replace(max_rank=HASTY_RANK) if "max_rank" in wanted else wanted.given
        note = f"by rule: the time limit left no time for a search; {_describe(hasty, wanted)}"
        return choose_by_rule(hasty, note)


def _keep_search(search: Search, settings: Settings, way: HoldOut) -> Chosen:
    """Return what a search tried and the settings it led to."""
    which = {"last": ", each user's last,", "time": ", the last in time,"}.get(way, "")
    where = f"{search.asked.nnz:,} held-out events{which} of {np.count_nonzero(np.diff(search.asked.indptr)):,} users"
    note = f"chosen on {where}: {_describe(settings, search.wanted)}"
    if (best := search.trials.get(settings)) is not None:
        note += f"; NDCG@{AT} {best.mean:.4f} there"
        if settings not in search.costs and (why := search.explain_taken(settings)):
            note += f" ({why})"
    if (costs := search.costs.get(settings)) is not None:
        note += f"; decisions cost {costs.mean():.4f} of what showing nothing does"
    if search.is_cut:
        note += f"; the time limit ended the search after {len(search.trials)} tries"
    return Chosen(search.list_columns(), settings, note)


StartSearch = Callable[[int, float, FloatArray | None], Search | None]
"""From a seed, a power of the probabilities that events are genuine, and these if they are known, to a search."""


def try_denoised(search: Search, best: Settings, start: StartSearch) -> tuple[Settings, Search]:
    """Return the settings that rank best, once events that look like noise may count less, and the search they are of.

    Two looks tell whether that is tried at all: a rough one at what the search has of common taste anyway, then that of
    `suspects`. A log in which these find little noise takes no time beyond.
    """
    try:
        if search.estimate_noise() < NOTICED:
            return best, search
        judged = judge_events(search.built)
        if 1 - judged.mean() < NOTICED:
            return best, search
        # The noise is in the held-out events, too. But where it falls evenly no way of ranking them gains by it.
        tried = [each for power in POWERS if (each := start(search.seed, power, judged)) is not None]
        others = [tried[0].run()]
        others += [each.try_only(others[0]._replace(denoise=each.built.settings.denoise)) for each in tried[1:]]
        for each in tried:
            search.trials |= each.trials
        found = search.find_better(best, *others, errors=0.0)
        return found, search if found == best else tried[others.index(found)]
    except TimeUpError:
        search.is_cut = True
        return best, search


def _describe(settings: Settings, wanted: Wanted) -> str:
    """What a fit takes, in the words of its parameters; those in place of which others are given are left out."""
    neighbors = f"{settings.neighbors} neighbors (reg_neighbors {settings.reg_neighbors:g})"
    words = [
        f"strength {settings.strength:g} x noise" if "strength" in wanted else "",
        f"max_rank {settings.max_rank}",
        f"cost_ratio {settings.cost_ratio:g}" if "cost_ratio" in wanted else "",
        f"reg_sparse {settings.reg_sparse:g}",
        neighbors if settings.neighbors else "no neighbors",
        f"denoise {settings.denoise:g}" if settings.denoise else "",
    ]
    return ", ".join(filter(None, words))


def choose_by_rule(settings: Settings, note: str) -> Chosen:
    """Return settings that no search led to."""
    return Chosen({name: np.empty(0) for name in NAMES}, settings, note)


def _explain_too_small(log: Log, wanted: Wanted) -> str:
    """Return why nothing was chosen on held-out events of a log."""
    return (
        f"by rule: too few of {log.n_users:,} users have events to hold out ({LEAST_USERS} are needed for a search); "
        f"{_describe(wanted.given, wanted)}"
    )


def find_way(log: Log, way: HoldOut) -> HoldOut:
    """Return which events are held out of a log: with "auto", as those of its own test were."""
    return way if way != "auto" else (None if log.times is None else log.cut) or "random"


def hold_out(log: Log, seed: int, way: HoldOut = "auto") -> tuple[Log, Log] | None:
    """Return what is fitted and what is asked for, or None where too few users can spare an event.

    Of a log with a target, what is asked for is of that type, and no event of these pairs is fitted: what a user viewed
    and bought would be found too easily. With "auto" events are held out the way the log's own test was; at random
    where too few users are left that way.
    """
    rng = np.random.default_rng(seed)
    if way in ("last", "time") and log.times is None:
        raise ParameterError(f'hold_out="{way}" needs events with times, and these have none; read a time column')
    counts = log.user_counts()
    kind = find_way(log, way)
    held = _mark_latest(log) if kind == "time" else _mark_tenth(log, counts, rng, latest=kind == "last")
    spared = np.bincount(log.user_rows[held], minlength=log.n_users)
    users = np.flatnonzero((spared > 0) & (spared < counts))
    if way == "auto" and kind != "random" and len(users) < ENOUGH_USERS:
        return hold_out(log, seed, "random")
    if len(users) < LEAST_USERS:
        return None
    most = min(MOST_USERS, max(CELLS // log.n_items, MOST_USERS // 3))
    is_asked = np.zeros(log.n_users, np.bool_)
    is_asked[rng.permutation(users)[:most]] = True
    return log.select(~held), log.select(held & is_asked[log.user_rows])
