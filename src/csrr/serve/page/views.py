"""What only the page asks: suggestions, a person, an item, the model, and the part of the map that is in view."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import cached_property, lru_cache
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
Answer = dict[str, Any]
"""What only our own page reads is not described further."""

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

    def tell_person(self, user: Id, row: int, recent: list[Event], k: int) -> Answer:
        """Return a person: what they chose, also of late, and what is recommended to them and why."""
        options = {"k": k}
        if recent:
            n_reasons = REASONS if self.n_of_users[row] + len(recent) <= MOST_EXPLAINED else 0
            lists = self.served.list_with(user, recent, options, n_reasons)
        else:
            lists = self.served.list_users([user], options)[0]
        similar: list[Named] = []
        with suppress(NotImplementedError, ParameterError), use_threads(1):
            near = self.model.similar_users(user, 6)
            similar = self.name_users(self.model.users_.find(near.ids), near.scores)
        is_plain = lists.status == "known" and not any(place.because for place in lists.items)
        return {
            "user": user,
            "n": int(self.n_of_users[row]),
            "status": lists.status,
            "history": self.tell_history(row),
            "recommended": self.give_reasons(user, lists.items) if is_plain else self.describe(lists.items),
            "similar": similar,
            "noise": self.made.state("noise"),
            "since": len(recent),
        }

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

    def try_history(self, items: list[Id], k: int) -> Answer:
        """Return the list of somebody new, and by how much each score falls without each of the items."""
        picked = [Event(item=spell(item, self.model.items_)) for item in items]
        with use_threads(1):
            made = self.served.list_with(None, picked, {"k": k}, REASONS if items else 0)
        return {"status": made.status, "recommended": self.describe(made.items)}

    # An item

    def tell_item(self, item: Id) -> Answer:
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
        name = self.name_items(np.array([row]))[0]
        return {
            "id": name.id,
            "title": name.title,
            "n": n,
            "rank": int((self.n_of_items > n).sum()) + 1,
            "facts": facts,
            "near": near,
            "choosers": self.name_users(some),
            "median_events": int(np.median(self.n_of_users[choosers])) if n else 0,
            "median_events_of_all": int(np.median(self.n_of_users)) if len(self.n_of_users) else 0,
            "together": self._find_together(row, sample),
            "company": self._find_company(row),
        }

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

    def _find_company(self, row: int) -> list[Answer]:
        """Return the directions of taste that an item is mostly made of, and the items that go furthest along each."""
        if self.turned is None or not (size := float((self.turned[row] ** 2).sum())):
            return []
        found = []
        for place in np.argsort(-(self.turned[row] ** 2))[:3]:
            value = self.turned[row, place]
            along = self.turned[:, place] * np.sign(value)
            best = [each for each in np.argpartition(-along, min(8, len(along) - 1))[:8] if each != row]
            best = sorted(best, key=lambda each: -along[each])[:6]
            items = self.name_items(np.array(best))
            found.append({"number": int(place) + 1, "share": float(value**2 / size), "items": items})
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

    def draw_map(self, asked: Box) -> Answer:
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
        drawn = [Point(*each) for each in points]
        return {"state": "ready", "n": len(rows), "categories": names, "points": drawn, "problem": None}


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


class Point(msgspec.Struct, array_like=True):
    """An item of the map: id, x, y, events, number of its category, title."""

    id: Id
    x: float
    y: float
    n: int
    category: int
    title: str | None


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


def _is_id(text: str, known: Any) -> bool:
    return known.ids.dtype == np.object_ or (text.strip().isascii() and text.strip().isdigit() and len(text) < 19)


def _list_reasons(why: Any, k: int) -> list[Reason]:
    titles = [None] * len(why) if why.titles is None else why.titles.tolist()
    parts = [None] * len(why) if why.neighbors is None else why.neighbors.tolist()
    rows = zip(why.items.tolist(), why.amounts.tolist(), titles, parts, strict=True)
    return [Reason(*row) for row in list(rows)[:k] if row[1] > 0]


@lru_cache(1)
def _make_views(served: ServedModel) -> Views:
    return Views(served)


def find_views(service: Any) -> Views:
    """Return the views of the model in force."""
    return _make_views(service.served)


@declare(ROUTES, "GET", "/v1/page/home", is_slow=True)
def page_home(service: Any) -> Answer:
    """Say what to begin with: the model's size, popular items, and some people."""
    views = find_views(service)
    model = views.model
    active = np.flatnonzero(views.n_of_users >= 3)
    return {
        "kind": type(model).__name__,
        "n_users": len(model.users_),
        "n_items": len(model.items_),
        "n_events": int(model.seen_.nnz),
        "popular": views.name_items(views.by_popularity[:12]),
        "people": views.name_users(np.random.default_rng(0).choice(active, min(8, len(active)), replace=False)),
        "has_titles": model.titles_ is not None,
    }


@declare(ROUTES, "GET", "/v1/page/search", is_slow=True)
def page_search(service: Any, asked: Text) -> Answer:
    """Find items by title or id, and people by id."""
    views = find_views(service)
    items, users = views.find_items(asked.q, asked.k), views.find_users(asked.q, min(asked.k, 4))
    return {"items": views.name_items(items), "users": views.name_users(users)}


@declare(ROUTES, "GET", "/v1/page/person")
async def page_person(service: Any, asked: OnePerson) -> Answer:
    """Say what a person chose, and what is recommended to them and why."""
    views = find_views(service)
    user = spell(asked.user, views.model.users_)
    row = views.model.users_.row(user)
    recent = list(await service.events.recent(user, None))
    return await asyncio.to_thread(views.tell_person, user, row, recent, asked.k)


@declare(ROUTES, "POST", "/v1/page/build", is_slow=True)
def page_build(service: Any, asked: Picks) -> Answer:
    """Recommend to somebody new who has picked items, and say why."""
    return find_views(service).try_history(asked.history, asked.k)


@declare(ROUTES, "GET", "/v1/page/item", is_slow=True)
def page_item(service: Any, asked: OneItem) -> Answer:
    """Say what is known of an item."""
    return find_views(service).tell_item(asked.item)


@declare(ROUTES, "GET", "/v1/page/map", is_slow=True)
def page_map(service: Any, asked: Box) -> Answer:
    """Draw the most chosen items in a part of the map."""
    views = find_views(service)
    if (state := views.made.state("map")) != "ready":
        return {"state": state, "n": 0, "categories": [], "points": [], "problem": views.made.tell_problem("map")}
    return views.draw_map(asked)


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
def page_made(service: Any, asked: Wanted) -> Answer:
    """Say how far the map, or the search for noise, is."""
    made = find_views(service).made
    return {"state": made.state(asked.kind), "problem": made.tell_problem(asked.kind)}


@declare(ROUTES, "POST", "/v1/page/made", "write")
async def page_make(service: Any, asked: Wanted) -> Answer:
    """Begin to make the map, or to look for noise, in a process of low priority."""
    made = find_views(service).made
    await made.start(asked.kind)
    return {"state": "ready" if made.state(asked.kind) == "ready" else "working", "problem": None}


@declare(ROUTES, "GET", "/v1/page/model", is_slow=True)
def page_model(service: Any) -> Answer:
    """Say how the model was chosen and fitted, and what its probabilities are worth."""
    views = find_views(service)
    model, made = views.model, views.made.state("map")
    certificate, chosen, costs = (getattr(model, name, None) for name in ("certificate_", "chosen_", "costs_"))
    return {
        "kind": type(model).__name__,
        "certificate": None if certificate is None else to_plain(certificate.to_dict()),
        "claim": None if certificate is None else certificate.claim,
        "steps": [
            (step.iteration, step.objective, step.gap, step.rank, step.seconds)
            for step in getattr(model, "history_", [])
        ],
        "singular_values": views.made.map.get("singular_values", np.empty(0)).tolist() if made == "ready" else [],
        "params": to_plain(model.get_params()),
        "settled": to_plain(model.settled_params()) if hasattr(model, "settled_params") else {},
        "tried": [] if chosen is None else to_plain(list(chosen.rows())),
        "taken": None if chosen is None else chosen.taken,
        "note": "" if chosen is None else chosen.note,
        "calibration": _tell_calibration(model),
        "costs": None if costs is None else str(costs),
        "made": made,
    }


def _tell_calibration(model: Any) -> Answer | None:
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
    return {
        "probability": probabilities.tolist(),
        "n_cells": sums[1].tolist(),
        "n_positives": sums[2].tolist(),
        "label_rate": calibration.label_rate,
        "threshold": None if threshold is None else float(threshold),
    }
