"""What only the page asks: suggestions, a person, an item, the model, and the part of the map that is in view."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta

from csrr._base.text import to_plain
from csrr._base.threads import use_threads
from csrr.parameters import ParameterError
from csrr.serve.events import Event, Id
from csrr.serve.messages import Asked, OneId, Place, Reason
from csrr.serve.page.made import KINDS, Made
from csrr.serve.routes import Route, declare
from csrr.serve.served import MOST_EXPLAINED, ServedModel, spell

ROUTES: list[Route] = []

SHOWN, REASONS, CHOOSERS, SAMPLE = 20, 4, 12, 2000
MOST_HISTORY, MOST_POINTS, MOST_CATEGORIES, MOST_BINS = 300, 3000, 8, 80
MOST_PICKED = 50
Query = Annotated[str, Meta(max_length=200)]


class Named(msgspec.Struct, omit_defaults=True):
    """An item or a user, and how many events it has."""

    id: Id
    n: int
    title: str | None = None
    score: float | None = None


class Views:
    """What the page looks up in one model; indexes are made when they are first needed, off the event loop."""

    def __init__(self, served: ServedModel) -> None:
        self.served, self.model, self.made = served, served.model, Made(served.file)

    @cached_property
    def n_of_items(self) -> Any:
        """The number of events of each item, shape (n_items,)."""
        return np.bincount(self.model.seen_.indices, minlength=len(self.model.items_))

    @cached_property
    def n_of_users(self) -> Any:
        """The number of events of each user, shape (n_users,)."""
        return np.diff(self.model.seen_.indptr)

    @cached_property
    def by_popularity(self) -> Any:
        """The rows of items, the most chosen first."""
        return np.argsort(-self.n_of_items, kind="stable")

    @cached_property
    def by_item(self) -> Any:
        """The events by item, csc of shape (n_users, n_items)."""
        return self.model.seen_.tocsc()

    @cached_property
    def texts(self) -> Any:
        """The titles of items in the order of popularity, in small letters; the ids where there are none."""
        texts = self.model.items_.ids if self.model.titles_ is None else self.model.titles_
        named = [str(text or "") for text in texts[self.by_popularity].tolist()]
        return pc.utf8_lower(pa.array(named, pa.large_string()))

    def name_items(self, rows: Any, scores: Any = None) -> list[Named]:
        """Return items by row, with their titles."""
        model = self.model
        titles = [None] * len(rows) if model.titles_ is None else model.titles_[rows].tolist()
        values = [None] * len(rows) if scores is None else np.asarray(scores, float).tolist()
        counts = self.n_of_items[rows].tolist()
        parts = zip(model.items_.ids[rows].tolist(), counts, titles, values, strict=True)
        return [Named(*each) for each in parts]

    def name_users(self, rows: Any, scores: Any = None) -> list[Named]:
        """Return users by row."""
        values = [None] * len(rows) if scores is None else np.asarray(scores, float).tolist()
        ids, counts = self.model.users_.ids[rows].tolist(), self.n_of_users[rows].tolist()
        return [Named(id, n, None, value) for id, n, value in zip(ids, counts, values, strict=True)]

    def find_items(self, text: str, k: int) -> Any:
        """Return the rows of items whose id is `text`, whose title begins with it, and whose title has it."""
        model, wanted = self.model, text.strip().lower()
        if not wanted:
            return self.by_popularity[:k]
        exact = model.items_.find([spell(text.strip(), model.items_)], "item") if _is_id(text, model.items_) else []
        found = [row for row in exact if row >= 0]
        for match in (pc.starts_with, pc.match_substring):
            places = np.flatnonzero(match(self.texts, wanted).to_numpy(zero_copy_only=False))[: 2 * k]
            found += self.by_popularity[places].tolist()
        return np.array(list(dict.fromkeys(found))[:k], np.int64)

    def find_users(self, text: str, k: int) -> Any:
        """Return the rows of users whose id begins with `text`, that id itself first."""
        ids, text = self.model.users_.ids, text.strip()
        if not text or not _is_id(text, self.model.users_):
            return np.empty(0, np.int64)
        if ids.dtype == np.object_:
            first = int(np.searchsorted(ids, text))
            last = min(first + k, len(ids))
            return np.array([row for row in range(first, last) if ids[row].startswith(text)], np.int64)
        number, found = int(text), list[int]()
        for digits in range(19):
            low, high = number * 10**digits, (number + 1) * 10**digits
            if len(found) >= k or high >= 2**63 or (number == 0 and digits):
                break
            rows = np.searchsorted(ids, [low, high])
            found += range(int(rows[0]), min(int(rows[1]), int(rows[0]) + k))
        return np.array(found[:k], np.int64)

    # A person

    def order_history(self, row: int) -> Any:
        """Return the places of a user's events in `seen_`, the newest first where that is known."""
        model = self.model
        places = np.arange(model.seen_.indptr[row], model.seen_.indptr[row + 1])
        if model.seen_ages_ is not None:
            return places[np.argsort(model.seen_ages_[places], kind="stable")]
        if model.seen_times_ is not None:
            return places[np.argsort(-model.seen_times_[places], kind="stable")]
        return places[np.argsort(-self.n_of_items[model.seen_.indices[places]], kind="stable")]

    def tell_history(self, row: int) -> list[Choice]:
        """Return the choices of a user."""
        model = self.model
        places = self.order_history(row)[:MOST_HISTORY]
        rows = model.seen_.indices[places]
        found = [Choice(each.id, each.n, each.title) for each in self.name_items(rows)]
        if model.seen_times_ is not None:
            for each, time in zip(found, model.seen_times_[places].tolist(), strict=True):
                each.time = float(time)
        if self.made.state("noise") == "ready":
            noise = self.made.noise
            for each, place in zip(found, places, strict=True):
                each.suspect, each.own = (round(float(noise[name][place]), 4) for name in ("scores", "unexplained"))
                if "kinds" in noise and noise["kinds"][place]:
                    each.kind = KINDS[noise["kinds"][place]]
        return found

    def give_reasons(self, user: Id, places: list[Place]) -> list[Recommended]:
        """Return recommended items with what adds to their scores: common taste, neighbors, and which choices."""
        found = []
        for each in self.describe(places):
            if type(self.model).can("explain"):
                why = self.model.explain(user, each.item)
                each.because = _list_reasons(why, REASONS)
                if why.neighbors is not None:
                    each.neighbors = float(why.neighbors.sum())
                    each.common = each.score - each.neighbors
            found.append(each)
        return found

    def describe(self, places: list[Place]) -> list[Recommended]:
        """Return recommended items with how often each was chosen."""
        rows = self.model.items_.find([place.item for place in places], "item")
        counts = self.n_of_items[rows].tolist()
        return [
            Recommended(
                *(place.item, place.score, n, place.title, place.probability),
                because=[why for why in place.because or [] if why.amount > 0],
            )
            for place, n in zip(places, counts, strict=True)
        ]

    def try_history(self, items: list[Id], k: int) -> Built:
        """Return the list of somebody new, and by how much each score falls without each of the items."""
        picked = [Event(item=spell(item, self.model.items_)) for item in items]
        with use_threads(1):
            made = self.served.list_with(None, picked, {"k": k}, REASONS if items else 0)
        return Built(made.status, self.describe(made.items))

    # An item

    def tell_item(self, item: Id) -> ItemView:
        """Return what is known of an item."""
        model = self.model
        row = model.items_.row(spell(item, model.items_), "item")
        n, rng = int(self.n_of_items[row]), np.random.default_rng(row)
        choosers = self.by_item.indices[self.by_item.indptr[row] : self.by_item.indptr[row + 1]]
        sample = choosers if n <= SAMPLE else rng.choice(choosers, SAMPLE, replace=False)
        some = sample if n <= CHOOSERS else rng.choice(sample, CHOOSERS, replace=False)
        some = some[np.argsort(-self.n_of_users[some], kind="stable")]
        facts = {}
        if model.item_table_ is not None:
            for name, column in model.item_table_.columns.items():
                if (value := column.show(np.array([row]))[0]) is not None:
                    facts[name] = to_plain(value)
        near: list[Named] = []
        with suppress(NotImplementedError), use_threads(1):
            found = model.similar_items(model.items_.ids[row : row + 1].tolist()[0], SHOWN)
            near = self.name_items(model.items_.find(found.ids, "item"), found.scores)
        own = int(np.median(self.n_of_users[choosers])) if n else 0
        rank = int((self.n_of_items > n).sum()) + 1
        everyone = int(np.median(self.n_of_users)) if len(self.n_of_users) else 0
        name = self.name_items(np.array([row]))[0]
        return ItemView(
            *(name.id, name.title, n, rank, facts, near, self.name_users(some), own, everyone),
            *(self._find_together(row, sample), self._find_company(row)),
        )

    def _find_together(self, row: int, users: Any) -> list[Named]:
        """Return what those who chose an item chose more often than others do: by how many times."""
        counts = np.bincount(self.model.seen_[users].indices, minlength=len(self.n_of_items)).astype(float)
        counts[row] = 0
        expected = len(users) * (self.n_of_items + 5) / max(1, len(self.n_of_users))
        lift = np.where(counts >= min(3, len(users)), counts / np.maximum(expected, 1e-9), 0)
        best = np.argsort(-lift, kind="stable")[:10]
        return self.name_items(best[lift[best] > 1], lift[best[lift[best] > 1]])

    @cached_property
    def turned(self) -> Any:
        """The item factors along their directions of most variance, shape (n_items, d), or None without factors."""
        if not self.model.has_factors:
            return None
        factors = np.asarray(self.model.item_factors_)
        return factors @ np.linalg.eigh(factors.T @ factors)[1][:, ::-1]

    def _find_company(self, row: int) -> list[Company]:
        """Return the directions of taste that an item is mostly made of, and the items that go furthest along each."""
        if self.turned is None or not (size := float((self.turned[row] ** 2).sum())):
            return []
        found = []
        for place in np.argsort(-(self.turned[row] ** 2))[:3]:
            value = self.turned[row, place]
            along = self.turned[:, place] * np.sign(value)
            best = [each for each in np.argpartition(-along, min(8, len(along) - 1))[:8] if each != row]
            best = sorted(best, key=lambda each: -along[each])[:6]
            found.append(Company(int(place) + 1, float(value**2 / size), self.name_items(np.array(best))))
        return found

    # The map

    @cached_property
    def categories(self) -> tuple[list[str], Any]:
        """The largest categories of the item table's first fitting column, and that of each item, -1 for another."""
        table = self.model.item_table_
        for column in () if table is None else table.columns.values():
            found = column.to_categories() if column.is_text else None
            if found is None or len(found.names) < 2:
                continue
            sizes = np.asarray(found.members.sum(axis=0)).ravel()
            largest = np.argsort(-sizes, kind="stable")[:MOST_CATEGORIES]
            if sizes[largest].sum() < len(table) / 4:
                continue
            members, of = found.members.tocsc(), np.full(len(table), -1, np.int64)
            for place in range(len(largest))[::-1]:
                of[members.indices[members.indptr[largest[place]] : members.indptr[largest[place] + 1]]] = place
            return found.names[largest].tolist(), of
        return [], np.full(len(self.model.items_), -1)

    def draw_map(self, asked: Box) -> MapView:
        """Return the most chosen items of a part of the map."""
        places = self.made.map["places"]
        x, y = places.T
        inside = (x >= asked.x0) & (x <= asked.x1) & (y >= asked.y0) & (y <= asked.y1)
        rows = self.by_popularity[inside[self.by_popularity]]
        names, of = self.categories
        shown = rows[: min(asked.k, MOST_POINTS)]
        points = zip(
            *(self.model.items_.ids[shown].tolist(), np.round(x[shown], 5).tolist(), np.round(y[shown], 5).tolist()),
            *(self.n_of_items[shown].tolist(), of[shown].tolist(), [each.title for each in self.name_items(shown)]),
            strict=True,
        )
        return MapView("ready", len(rows), names, [Point(*each) for each in points])


class Choice(msgspec.Struct, omit_defaults=True):
    """A choice of a person: `suspect`, how much it looks like noise; `own`, the share that others do not explain."""

    item: Id
    n: int
    title: str | None = None
    time: float | None = None
    suspect: float | None = None
    own: float | None = None
    kind: str | None = None


class Recommended(msgspec.Struct, omit_defaults=True):
    """A recommended item; its score is the sum of `common` taste and `neighbors`, where these are known."""

    item: Id
    score: float
    n: int
    title: str | None = None
    probability: float | None = None
    common: float | None = None
    neighbors: float | None = None
    because: list[Reason] = []


class Person(msgspec.Struct):
    """A person: what they chose, and what is recommended to them."""

    user: Id
    n: int
    status: str
    history: list[Choice]
    recommended: list[Recommended]
    similar: list[Named]
    noise: str
    since: int


class Built(msgspec.Struct):
    """The list of somebody new."""

    status: str
    recommended: list[Recommended]


class Company(msgspec.Struct):
    """A direction of taste: its number, the share of the item that lies along it, and items that go furthest."""

    number: int
    share: float
    items: list[Named]


class ItemView(msgspec.Struct):
    """An item: how often chosen, what is near, who chooses it, and its factors' company."""

    id: Id
    title: str | None
    n: int
    rank: int
    facts: dict[str, Any]
    near: list[Named]
    choosers: list[Named]
    median_events: int
    median_events_of_all: int
    together: list[Named]
    company: list[Company]


class Point(msgspec.Struct, array_like=True):
    """An item of the map: id, x, y, events, number of its category, title."""

    id: Id
    x: float
    y: float
    n: int
    category: int
    title: str | None


class MapView(msgspec.Struct):
    """A part of the map: how many items it has, the names of the categories, and its most chosen items."""

    state: str
    n: int = 0
    categories: list[str] = []
    points: list[Point] = []
    problem: str | None = None


class Found(msgspec.Struct):
    """What a text may mean."""

    items: list[Named]
    users: list[Named]


class Text(Asked):
    """A text that is looked for; an empty one gives popular items."""

    q: Query = ""
    k: Annotated[int, Meta(ge=1, le=50)] = 8


class OneItem(Asked):
    """An item."""

    item: OneId


class OnePerson(Asked):
    """A user."""

    user: OneId
    k: Annotated[int, Meta(ge=1, le=50)] = SHOWN


class Picks(Asked):
    """What somebody new has picked, the newest last."""

    history: Annotated[list[OneId], Meta(max_length=MOST_PICKED)]
    k: Annotated[int, Meta(ge=1, le=50)] = SHOWN


class Box(Asked):
    """A part of the map, which lies in the square from 0 to 1."""

    x0: float = 0.0
    y0: float = 0.0
    x1: float = 1.0
    y1: float = 1.0
    k: Annotated[int, Meta(ge=1, le=MOST_POINTS)] = 1500


class Wanted(Asked):
    """What is to be made of the model: the map, or which clicks look like noise."""

    kind: Literal["map", "noise"]


class MadeState(msgspec.Struct):
    """How far it is."""

    state: str
    problem: str | None = None


class Home(msgspec.Struct):
    """What to begin with: the model's size, popular items, and some people."""

    kind: str
    n_users: int
    n_items: int
    n_events: int
    popular: list[Named]
    people: list[Named]
    has_titles: bool


class Curve(msgspec.Struct):
    """The calibration: bins of probability, the largest first, with their cells and positives in the held-out data."""

    probability: list[float]
    n_cells: list[int]
    n_positives: list[int]
    label_rate: float
    threshold: float | None


class ModelView(msgspec.Struct):
    """The model: how it was chosen and fitted, and what it is worth."""

    kind: str
    certificate: dict[str, Any] | None
    claim: str | None
    steps: list[tuple[int, float, float, int, float]]
    singular_values: list[float]
    params: dict[str, Any]
    settled: dict[str, Any]
    tried: list[dict[str, Any]]
    taken: int | None
    note: str
    calibration: Curve | None
    costs: str | None
    made: str


def _is_id(text: str, known: Any) -> bool:
    return known.ids.dtype == np.object_ or (text.strip().isascii() and text.strip().isdigit() and len(text) < 19)


def _list_reasons(why: Any, k: int) -> list[Reason]:
    titles = [None] * len(why) if why.titles is None else why.titles.tolist()
    parts = [None] * len(why) if why.neighbors is None else why.neighbors.tolist()
    rows = zip(why.items.tolist(), why.amounts.tolist(), titles, parts, strict=True)
    return [Reason(*row) for row in list(rows)[:k] if row[1] > 0]


def find_views(service: Any) -> Views:
    """Return the views of the model in force."""
    served = service.served
    if getattr(service, "page_views", None) is None or service.page_views.served is not served:
        service.page_views = Views(served)
    views: Views = service.page_views
    return views


async def _ask(work: Callable[..., Any], *given: Any) -> Any:
    """Return what a look that takes some time finds, on a thread, so that requests for lists are answered meanwhile."""
    return await asyncio.to_thread(work, *given)


@declare(ROUTES, "GET", "/v1/page/home")
async def page_home(service: Any) -> Home:
    """Say what to begin with."""
    views = find_views(service)
    model = views.model

    def look() -> Home:
        active = np.flatnonzero(views.n_of_users >= 3)
        some = np.random.default_rng(0).choice(active, min(8, len(active)), replace=False)
        sizes = len(model.users_), len(model.items_), int(model.seen_.nnz)
        popular = views.name_items(views.by_popularity[:12])
        return Home(type(model).__name__, *sizes, popular, views.name_users(some), model.titles_ is not None)

    found: Home = await _ask(look)
    return found


@declare(ROUTES, "GET", "/v1/page/search")
async def page_search(service: Any, asked: Text) -> Found:
    """Find items by title or id, and people by id."""
    views = find_views(service)

    def look() -> Found:
        items, users = views.find_items(asked.q, asked.k), views.find_users(asked.q, min(asked.k, 4))
        return Found(views.name_items(items), views.name_users(users))

    found: Found = await _ask(look)
    return found


@declare(ROUTES, "GET", "/v1/page/person")
async def page_person(service: Any, asked: OnePerson) -> Person:
    """Say what a person chose, and what is recommended to them and why."""
    views = find_views(service)
    user = spell(asked.user, views.model.users_)
    row = views.model.users_.row(user)
    recent = list(await service.events.recent(user, None))

    def look() -> Person:
        model, options = views.model, {"k": asked.k}
        n_reasons = REASONS if views.n_of_users[row] + len(recent) <= MOST_EXPLAINED else 0
        lists = (
            views.served.list_with(user, recent, options, n_reasons)
            if recent
            else views.served.list_users([user], options)[0]
        )
        similar: list[Named] = []
        with suppress(NotImplementedError, ParameterError), use_threads(1):
            near = model.similar_users(user, 6)
            similar = views.name_users(model.users_.find(near.ids), near.scores)
        is_plain = lists.status == "known" and not any(place.because for place in lists.items)
        told = views.give_reasons(user, lists.items) if is_plain else views.describe(lists.items)
        n, noise = int(views.n_of_users[row]), views.made.state("noise")
        return Person(user, n, lists.status, views.tell_history(row), told, similar, noise, len(recent))

    found: Person = await _ask(look)
    return found


@declare(ROUTES, "POST", "/v1/page/build")
async def page_build(service: Any, asked: Picks) -> Built:
    """Recommend to somebody new who has picked items, and say why."""
    views = find_views(service)
    found: Built = await _ask(views.try_history, asked.history, asked.k)
    return found


@declare(ROUTES, "GET", "/v1/page/item")
async def page_item(service: Any, asked: OneItem) -> ItemView:
    """Say what is known of an item."""
    found: ItemView = await _ask(find_views(service).tell_item, asked.item)
    return found


@declare(ROUTES, "GET", "/v1/page/map")
async def page_map(service: Any, asked: Box) -> MapView:
    """Draw the most chosen items in a part of the map."""
    views = find_views(service)
    if (state := views.made.state("map")) != "ready":
        return MapView(state, problem=views.made.tell_problem("map"))
    found: MapView = await _ask(views.draw_map, asked)
    return found


@declare(ROUTES, "GET", "/v1/page/place")
async def page_place(service: Any, asked: OneItem) -> Point:
    """Say where an item is on the map."""
    views = find_views(service)
    if views.made.state("map") != "ready":
        raise ParameterError("there is no map yet")
    row = views.model.items_.row(spell(asked.item, views.model.items_), "item")
    (x, y), named = views.made.map["places"][row].tolist(), views.name_items(np.array([row]))[0]
    return Point(named.id, x, y, named.n, int(views.categories[1][row]), named.title)


@declare(ROUTES, "GET", "/v1/page/made")
def page_made(service: Any, asked: Wanted) -> MadeState:
    """Say how far the map, or the search for noise, is."""
    made = find_views(service).made
    return MadeState(made.state(asked.kind), made.tell_problem(asked.kind))


@declare(ROUTES, "POST", "/v1/page/made", "write")
async def page_make(service: Any, asked: Wanted) -> MadeState:
    """Begin to make the map, or to look for noise, in a process of low priority."""
    made = find_views(service).made
    await made.start(asked.kind)
    return MadeState("ready" if made.state(asked.kind) == "ready" else "working")


@declare(ROUTES, "GET", "/v1/page/model")
async def page_model(service: Any) -> ModelView:
    """Say how the model was chosen and fitted, and what its probabilities are worth."""
    found: ModelView = await _ask(_tell_model, find_views(service))
    return found


def _tell_model(views: Views) -> ModelView:
    model = views.model
    certificate, chosen = getattr(model, "certificate_", None), getattr(model, "chosen_", None)
    made = views.made.state("map")
    values = views.made.map.get("singular_values", np.empty(0)) if made == "ready" else np.empty(0)
    steps = [
        (step.iteration, step.objective, step.gap, step.rank, step.seconds) for step in getattr(model, "history_", [])
    ]
    settled = model.settled_params() if hasattr(model, "settled_params") else {}
    costs = getattr(model, "costs_", None)
    return ModelView(
        type(model).__name__,
        None if certificate is None else to_plain(certificate.to_dict()),
        None if certificate is None else certificate.claim,
        steps,
        values.tolist(),
        to_plain(model.get_params()),
        to_plain(settled),
        [] if chosen is None else to_plain(list(chosen.rows())),
        None if chosen is None else chosen.taken,
        "" if chosen is None else chosen.note,
        _tell_calibration(model),
        None if costs is None else str(costs),
        made,
    )


def _tell_calibration(model: Any) -> Curve | None:
    """Return the bins of a calibration, the most probable first, at most MOST_BINS of them."""
    calibration = model.calibration_
    if calibration is None:
        return None
    order = np.argsort(-calibration.probabilities, kind="stable")
    cells, positives = calibration.n_cells[order], calibration.n_positives[order]
    said = calibration.probabilities[order] * cells
    # As many positives in each of the bins that are left.
    ends = np.unique(np.searchsorted(np.cumsum(positives), np.linspace(0, positives.sum(), MOST_BINS + 1)[1:]))
    starts = np.concatenate(([0], ends[:-1] + 1))
    starts = starts[starts < len(cells)]
    sums = [np.add.reduceat(each, starts) for each in (said, cells, positives)]
    probabilities = sums[0] / np.maximum(sums[1], 1)
    threshold = model.decision_probability
    return Curve(
        *(probabilities.tolist(), sums[1].tolist(), sums[2].tolist(), calibration.label_rate),
        None if threshold is None else float(threshold),
    )
