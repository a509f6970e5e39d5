"""The choice of settings for a log: which ones a model's parameters leave open, and their search on held-out events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from csrr._base.arrays import FloatArray
from csrr._base.text import format_html_words
from csrr._base.threads import TimeUpError, cut_off, seconds_left
from csrr.data.log import Log
from csrr.models.build_problem import RULE, Settings, build_problem, estimate_genuine_events
from csrr.models.held_out import LEAST_USERS, LIST_LENGTH, hold_out
from csrr.models.order import IGNORE, FadedScores, OrderFacts, OrderSettings, knows_order, list_sequences
from csrr.models.order_search import FIRST_DECAY, NEXT_RULE, ORDER_COLUMNS, Ahead, OrderSearch, Point, cut_ahead
from csrr.models.schema import FLOATS, WHOLE, Arrays, Values
from csrr.models.search import COST_COLUMN, TRIAL_COLUMNS, Search, SearchSpace, compute_error
from csrr.models.store import ModelState
from csrr.results.table import ResultTable, format_text_table

if TYPE_CHECKING:
    from csrr.models.csrr_base import CSRRBase

NOTICED = 0.05
"""The estimated share of noise from which on the search tries whether it helps to heed it."""
POWERS = (1.0, 0.5)
"""The powers of the probabilities of being genuine that are tried."""
HASTY_RANK = 64
"""The largest rank where the time limit leaves no time for a search: a small rank can still be fitted well."""


_OPTIONAL = (COST_COLUMN, *ORDER_COLUMNS)
CHOSEN_PARTS = tuple(
    Values(f"chosen.{name}", ("trials",), (*FLOATS, *WHOLE), is_free=True, optional=name in _OPTIONAL)
    for name in (*TRIAL_COLUMNS, *_OPTIONAL)
)
"""The arrays of a choice in a file."""


@dataclass(frozen=True, eq=False, repr=False)
class Chosen(ResultTable):
    """The trials on held-out training events, a row each:

    - rank: of U;
    - cost_ratio: what a miss costs;
    - strength: l1 in noise levels, the norm of the targets with random signs;
    - max_rank (0: none), reg_sparse, neighbors, reg_neighbors, neighbor_scaling, denoise: as the parameters;
    - decay, decay_2, decay_3 (0: none), horizon, history_scaling, rare_scaling, where the order of events was tried;
    - ndcg: the mean over users of the NDCG@20 of their held-out events, and its standard error, `error`.

    `settings` is what the fit took, `order` how it used the order of events, `note` how it came to it. Without
    rows nothing was searched. `n_events` is the size of the log at the choice (0: not known), `n_now` that after
    updates, which keep the choice.
    """

    settings: Settings = RULE
    note: str = ""
    n_events: int = 0
    n_now: int = 0
    order: OrderSettings = IGNORE

    def state(self) -> ModelState:
        """Return arrays and facts, for saving."""
        arrays = {f"chosen.{name}": column for name, column in self.columns.items()}
        facts = {"settings": self.settings, "chosen": self.note, "chosen_events": self.n_events}
        return arrays, facts if self.order.kind == "ignore" else facts | {"order": OrderFacts.of(self.order)}

    @classmethod
    def from_state(cls, arrays: Arrays, facts: dict[str, Any], n_now: int, faded: FadedScores | None) -> Chosen:
        """Return the choice whose `state` these are, of a model with these scores of histories that fade."""
        names = (*TRIAL_COLUMNS[:-2], *ORDER_COLUMNS, *TRIAL_COLUMNS[-2:], COST_COLUMN)
        columns = {name: arrays[key] for name in names if (key := f"chosen.{name}") in arrays}
        order = facts["order"].make_settings(faded)
        return cls(columns, facts["settings"], facts["chosen"], facts["chosen_events"], n_now, order)

    @property
    def growth(self) -> float | None:
        """The share by which the log has grown since the choice; None if that is not known."""
        return self.n_now / self.n_events - 1 if self.n_events else None

    @property
    def growth_note(self) -> str:
        """A sentence on the growth of the log since the choice; empty without growth."""
        if self.n_now == self.n_events or self.growth is None:
            return ""
        return f"chosen when the log had {self.n_events:,} events; it has grown by {100 * self.growth:.2g} % since"

    def summary(self) -> dict[str, Any]:
        """Return everything as plain Python values, ready for JSON."""
        return {
            "settings": self.settings._asdict(),
            "order": self.order.list_params(),
            "note": self.note,
            "n_events": self.n_events,
            "growth": self.growth,
            "tried": list(self.rows()),
        }

    @property
    def taken(self) -> int | None:
        """The row of the settings that the fit took, from 0; None if they are in no row."""
        settings: dict[str, Any] = self.settings._replace(max_rank=self.settings.max_rank or 0)._asdict()
        if ORDER_COLUMNS[0] in self.columns:
            settings |= dict(zip(ORDER_COLUMNS, list_order(self.order), strict=True))
        same = [np.asarray(self[name]) == value for name, value in settings.items()] if len(self) else []
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


def list_order(order: OrderSettings) -> tuple[float, ...]:
    """Return how the order of events is used as values of ORDER_COLUMNS."""
    decays = (*order.decays, 0.0, 0.0, 0.0)[:3]
    return (*decays, *order[2:])


def read_search_space(model: CSRRBase, kind: str | None = None) -> SearchSpace:
    """Return the settings that a model's parameters give, and the names of those that they leave open.

    `kind` is the kind of order of the fit; None: as the parameter says.
    """
    rule = NEXT_RULE if (kind or model.order) == "next" else RULE
    names = ("reg_sparse", "neighbors", "reg_neighbors", "denoise")
    given = {name: getattr(model, name) for name in names if getattr(model, name) != "auto"}
    settings, left = rule._replace(neighbor_scaling=model.neighbor_scaling, **given), set(names) - set(given)
    if model.l1 is None and model.reg_low_rank == "auto":
        left.add("strength")
    if model.l2 is not None or "strength" not in left:
        # The problem of U is given, or nearly so.
        left -= {"reg_sparse", "denoise"}
    if {"strength", "reg_sparse"} <= left and model.loss == "I" and not model.cost_spec.gives_weight:
        left.add("cost_ratio")
    if model.max_rank != "auto":
        settings = settings._replace(max_rank=model.max_rank)
    elif "strength" in left:
        left.add("max_rank")
    return SearchSpace(settings, frozenset(left))


def choose_settings(model: CSRRBase, log: Log, user_costs: Any = None, item_costs: Any = None) -> Chosen:
    """Return the settings of a fit to a log: given, or chosen on its own held-out events, or by rule."""
    if model.fixed_settings is not None:
        return choose_by_rule(model.fixed_settings, "as given by another fit")
    if model.order != "ignore" and (model.order != "auto" or knows_order(log)):
        return _choose_order(model, log, user_costs, item_costs)
    space = read_search_space(model)
    if space.is_complete or model.is_paper_form or not model.has_v:
        return choose_by_rule(space.given, "nothing was left to choose" if space.is_complete else "chosen by rule")

    take_parts = cache(lambda seed: hold_out(log, seed, model.hold_out))

    def start_search(seed: int, denoise: float = 0.0, genuine: FloatArray | None = None) -> Search | None:
        parts = take_parts(seed)
        if parts is None:
            return None
        fitted, heldout = parts.fitted.to_csr(), parts.heldout.to_csr()
        if fitted.multiply(heldout).nnz:
            raise AssertionError("a held-out event is among those that are fitted")
        given = space.given._replace(denoise=denoise or space.given.denoise)
        built = build_problem(model, parts.fitted, given, user_costs, item_costs, genuine)
        return Search(built, fitted, heldout, space, parts.way)

    try:
        with cut_off(seconds_left(0.5)):
            search = start_search(model.seed)
            if search is None:
                note = (
                    f"by rule: too few of {log.n_users:,} users have events to hold out ({LEAST_USERS} are needed for"
                )
                return choose_by_rule(space.given, f"{note} a search); {_describe(space.given, space)}")
            settings, found_by = search.run(), search
            if {"denoise", "reg_sparse"} & space.open and not search.is_cut and search.built.genuine is None:
                settings, found_by = _heed_noise(search, settings, start_search)
            if search.goes_by_cost and not search.is_cut and (cheaper := found_by.lower_cost(settings)) != settings:
                # One of many settings may seem to cost less by chance: the costs on other events decide.
                second = start_search(model.seed + 1, settings.denoise)
                settings = settings if second is None else second.find_cheaper(settings, cheaper)
            search.trials |= found_by.trials
            note = describe_search(search, settings)
            return Chosen(search.list_columns(), settings, note)
    except TimeUpError:
        hasty = space.given._replace(max_rank=HASTY_RANK) if "max_rank" in space else space.given
        note = f"by rule: the time limit left no time for a search; {_describe(hasty, space)}"
        return choose_by_rule(hasty, note)


def choose_by_rule(settings: Settings, note: str, order: OrderSettings = IGNORE) -> Chosen:
    """Return settings that were found without a search."""
    return Chosen({name: np.empty(0) for name in TRIAL_COLUMNS}, settings, note, order=order)


def resolve_order(model: CSRRBase, kind: Any, chosen: OrderSettings = IGNORE) -> tuple[OrderSettings, frozenset[str]]:
    """Return how a model's parameters use the order, and which of them are open; `chosen` has values for these."""
    if kind == "ignore":
        return IGNORE, frozenset()
    values: dict[str, Any] = {
        "decays": model.decay,
        "horizon": model.horizon,
        "history_scaling": model.history_scaling,
        "rare_scaling": model.rare_scaling,
    }
    given = {name: value for name, value in values.items() if value != "auto"}
    if "decays" in given:
        decay = given["decays"]
        given["decays"] = tuple(sorted(map(float, decay))) if isinstance(decay, list | tuple) else (float(decay),)
    left = {"decay" if name == "decays" else name for name in values.keys() - given.keys()}
    rule = chosen if chosen.decays else OrderSettings(decays=(FIRST_DECAY,))
    return rule._replace(kind=kind, **given), frozenset(left)


def keep_settings(model: CSRRBase) -> tuple[Settings, OrderSettings]:
    """Return the settings for an update of a model: those of its parameters, and the chosen ones for what is open."""
    chosen = model.chosen_
    order, _ = resolve_order(model, chosen.order.kind if model.order == "auto" else model.order, chosen.order)
    space = read_search_space(model, order.kind)
    return space.given._replace(**{name: getattr(chosen.settings, name) for name in space.open}), order


def _choose_order(model: CSRRBase, log: Log, user_costs: Any, item_costs: Any) -> Chosen:
    """Settings and the use of the order: given, or chosen on each user's last training event or events."""
    kinds = ("ignore", "recent", "next") if model.order == "auto" else (model.order,)
    space = read_search_space(model)
    order, left = resolve_order(model, kinds[-1])
    list_sequences(log)  # whether there is an order
    if not left and space.is_complete and len(kinds) == 1:
        return choose_by_rule(space.given, "nothing was left to choose", order)
    by_rule = IGNORE if len(kinds) > 1 else order
    try:
        with cut_off(seconds_left(0.5)):
            parts = cut_ahead(log, model.seed, model.hold_out)
            if parts is None:
                note = f"by rule: fewer than {LEAST_USERS} users have events enough to hold out their last"
                return choose_by_rule(space.given, note, by_rule)
            kept, heldout, has_several = parts
            built = build_problem(model, kept, space.given, user_costs, item_costs)
            plain = Search(built, kept.to_csr(), heldout.to_csr(), space)
            return search_order(model, plain, Ahead.of(kept, heldout, has_several=has_several), kinds)
    except TimeUpError:
        return choose_by_rule(space.given, "by rule: the time limit left no time for a search", by_rule)


def search_order(model: CSRRBase, plain: Search, ahead: Ahead, kinds: tuple[Any, ...]) -> Chosen:
    """Return the settings and the use of the order that rank best what comes next; `plain` is the search without."""
    space, built, of_next = plain.space, plain.built, read_search_space(model, "next")
    order, left = resolve_order(model, kinds[-1])
    given = of_next.given._replace(
        strength=of_next.given.strength if "strength" in space else built.problem.l1 / built.noise,
        max_rank=min(of_next.given.max_rank or NEXT_RULE.max_rank or 1, *built.problem.pattern.shape),
    )
    search = OrderSearch(plain, ahead, Point(given, order), left | of_next.open, float(model.user_scaling))
    point = search.run(kinds)
    rows = [
        (t.rank, *p._replace(max_rank=p.max_rank or 0), *list_order(o), t.scores.mean(), compute_error(t.scores))
        for (p, o), t in search.trials.items()
    ]
    names = (*TRIAL_COLUMNS[:-2], *ORDER_COLUMNS, *TRIAL_COLUMNS[-2:])
    columns = {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    which = f"the last {ahead.heldout.nnz:,} events" if ahead.has_several else "the last event"
    note = f"chosen on {which} of {len(ahead.rows):,} users: {_describe_order(point.order)}"
    note += f"{_describe(point.settings, of_next if point.order.kind == 'next' else space)}"
    note += f"; NDCG@{LIST_LENGTH} {search.trials[point].mean:.4f} there"
    if (ignored := search.best_without) is not None and point.order.kind != "ignore":
        note += f", without order {search.trials[ignored].mean:.4f}"
    if search.is_cut:
        note += f"; the time limit ended the search after {len(search.trials)} tries"
    return Chosen(columns, point.settings, note, order=point.order)


def _describe_order(order: OrderSettings) -> str:
    if order.kind == "ignore":
        return "order ignored, "
    decays = " and ".join(f"{decay:g}" for decay in order.decays)
    more = [f"{name} {value:g}" for name, value in zip(order._fields[2:], order[2:], strict=True) if value]
    return ", ".join([f'order "{order.kind}", decay {decays}', *more, ""])


StartSearch = Callable[[int, float, FloatArray | None], Search | None]
"""Takes a seed, the power of the probabilities that events are genuine, and these if they are known."""


def _heed_noise(search: Search, best: Settings, start: StartSearch) -> tuple[Settings, Search]:
    """The best settings, also among those for a log with noise, and their search.

    With V, or with less weight for events that look like noise. Whether these are tried at all is decided by a rough
    estimate from the SVD that the search has anyway, and by what it does for U alone: other logs hardly take more time.
    """
    try:
        rough = search.estimate_genuine(NOTICED)
        probe = None if rough is None else start(search.built.seed, POWERS[-1], rough)
        if probe is None or not search.gains_by(probe):
            return best, search
        if "reg_sparse" in search.space:
            best = search.try_v(best)
        if "denoise" not in search.space:
            return best, search
        genuine = estimate_genuine_events(search.built)
        # Held-out events contain noise, too. But noise that falls evenly over the items favors no way of ranking.
        tried = [each for power in POWERS if (each := start(search.built.seed, power, genuine)) is not None]
        others = [tried[0].run()]
        others += [each.find_best([others[0]._replace(denoise=each.built.settings.denoise)]) for each in tried[1:]]
        for each in tried:
            search.trials |= each.trials
        found = search.find_better(best, *others, errors=0.0)
        return found, search if found == best else tried[others.index(found)]
    except TimeUpError:
        search.is_cut = True
        return best, search


def describe_search(search: Search, settings: Settings) -> str:
    """Return a text on how a search found the settings."""
    which = {"last": ", each user's last,", "time": ", the last in time,"}.get(search.way, "")
    n_users = np.count_nonzero(np.diff(search.heldout.indptr))
    note = f"chosen on {search.heldout.nnz:,} held-out events{which} of {n_users:,} users: "
    note += _describe(settings, search.space)
    if (best := search.trials.get(settings)) is not None:
        note += f"; NDCG@{LIST_LENGTH} {best.mean:.4f} there"
        if best.costs is not None:
            note += f"; decisions cost {best.costs.mean():.4f} of what showing nothing does"
        elif why := search.explain_taken(settings):
            note += f" ({why})"
    if search.is_cut:
        note += f"; the time limit ended the search after {len(search.trials)} tries"
    return note


def _describe(settings: Settings, space: SearchSpace) -> str:
    """The settings under the names of the parameters; without the strength and the weight where these are given."""
    neighbors = f"{settings.neighbors} neighbors (reg_neighbors {settings.reg_neighbors:g})"
    parts = [
        f"strength {settings.strength:g} x noise" if "strength" in space else "",
        f"max_rank {settings.max_rank}",
        f"cost_ratio {settings.cost_ratio:g}" if "cost_ratio" in space else "",
        f"reg_sparse {settings.reg_sparse:g}",
        neighbors if settings.neighbors else "no neighbors",
        f"denoise {settings.denoise:g}" if settings.denoise else "",
    ]
    return ", ".join(filter(None, parts))
