"""A model -> lists of a few users, with reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from csrr.models.recommender import Recommender

N_ITEMS, N_HISTORY, N_REASONS = 5, 6, 2


@dataclass(frozen=True)
class Example:
    """A user, what they chose and what is recommended to them.

    Attributes
    ----------
    user
        The user's id.
    n_events
        How many events there are of them.
    history
        Some of the items, by title or id.
    items
        The recommended items, best first, and the items of the history that speak most for each.
    """

    user: Any
    n_events: int
    history: list[str]
    items: list[tuple[str, list[str]]]


def make_examples(model: Recommender) -> list[Example]:
    """Return lists of a light, a medium and a heavy user."""
    counts = np.diff(model.seen_.indptr)
    order = np.argsort(counts, kind="stable")
    order = order[(counts[order] > 0) & (counts[order] < len(model.items_))]
    places = sorted({int(share * (len(order) - 1)) for share in (0.25, 0.5, 0.9)}) if len(order) else []
    return [_make_example(model, int(order[place])) for place in places]


def _make_example(model: Recommender, row: int) -> Example:
    user = model.users_.ids[row : row + 1].tolist()[0]
    chosen = model.seen_.indices[model.seen_.indptr[row] : model.seen_.indptr[row + 1]]
    # The least popular tell most of a person.
    telling = chosen[np.argsort(model.popularity[chosen], kind="stable")][:N_HISTORY]
    explains = type(model).can("explain")
    items = []
    for each in model.recommend(user, N_ITEMS).rows():
        reasons = model.explain(user, each["item"]).contributions if explains else []  # type: ignore[attr-defined]
        spoken = [_name(item, title) for item, title, amount in reasons[:N_REASONS] if amount > 0]
        items.append((_name(each["item"], each.get("title")), spoken))
    ids, titles = model.name_items(telling)
    names = [_name(item, None if titles is None else titles[place]) for place, item in enumerate(ids.tolist())]
    return Example(user, len(chosen), names, items)


def _name(item: Any, title: Any) -> str:
    return str(item) if title is None else str(title)
