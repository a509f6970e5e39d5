"""What is asked and answered over HTTP: the types that requests are checked against and the description is made of."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from csrr.serve.events import Event, Id

OneId = Annotated[Id, Meta(description="An id, as in the training data.", examples=[42])]
Ids = list[OneId]
K = Annotated[int, Meta(ge=1, description="The length of the list.")]


class Asked(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a request may hold; other names are refused."""


class Rules(Asked, omit_defaults=True):
    """Business rules, as for `recommend` of the library; a range is {"least": ..., "most": ...}."""

    where: dict[str, Any] | None = None
    boost: dict[str, Any] | str | None = None
    fresh: float | str | dict[str, Any] | None = None
    at_most: dict[str, Any] | None = None
    at_least: dict[str, Any] | None = None
    diversity: Annotated[float, Meta(ge=0, le=1)] | None = None
    diversity_by: str | None = None


class ListOptions(Asked):
    """How a list is to be."""

    k: K = 10
    explain: Annotated[int, Meta(ge=0, description="How many reasons to give for each item.")] = 0
    exclude_seen: bool = True
    min_probability: Annotated[float, Meta(ge=0, le=1)] | Literal["cost"] | None = None
    min_score: float | None = None


class OneUser(ListOptions):
    """Whose list is asked for: a user's, or that of a running session."""

    user: OneId | None = None
    session: str | None = None


class Someone(OneUser):
    """Whose lists are asked for, one of four; and how they are to be."""

    users: Ids | None = None
    history: Annotated[Ids, Meta(description="What somebody chose, the newest last.")] | None = None
    candidates: Annotated[Ids, Meta(description="The only items that a list may have.")] | None = None
    exclude: Annotated[Ids, Meta(description="Items that no list may have.")] | None = None
    columns: list[str] = []
    rules: Rules | None = None


class Near(Asked):
    """Items near one, or users near one."""

    id: OneId
    k: K = 10


class Pair(Asked):
    """A user and an item."""

    user: OneId
    item: OneId


class Events(Asked):
    """Events, oldest first."""

    events: Annotated[list[Event], Meta(min_length=1)]


class Reason(msgspec.Struct, omit_defaults=True):
    """An item of the history, and what it adds to the score; `neighbors` is the part that comes from item to item.

    With a history that the model was not fitted to, it is what the score would lose without the item.
    """

    item: Id
    amount: float
    title: str | None = None
    neighbors: float | None = None


class Place(msgspec.Struct, omit_defaults=True):
    """One recommended item."""

    item: Id
    score: float
    probability: float | None = None
    title: str | None = None
    columns: dict[str, Any] | None = None
    because: list[Reason] | None = None


class List(msgspec.Struct, omit_defaults=True):
    """The recommendations for one, best first; `status` says where they come from."""

    items: list[Place]
    status: Literal["known", "history", "no history", "unknown"]
    user: Id | None = None


class Lists(msgspec.Struct):
    """Recommendations, in the order of the users, and the model that made them."""

    model: str
    lists: list[List]


class NearOne(msgspec.Struct, omit_defaults=True):
    """An item or user, and how near it is."""

    id: Id
    score: float
    title: str | None = None


class Neighborhood(msgspec.Struct):
    """What is near one, nearest first."""

    model: str
    of: Id
    neighbors: list[NearOne]


class Reasons(msgspec.Struct):
    """What each item of a user's history adds to the score of an item, largest first; the amounts sum to the score."""

    model: str
    user: Id
    item: Id
    score: float
    because: list[Reason]


class Chance(msgspec.Struct):
    """The probability that a user chooses an item, and from which on recommending it pays."""

    model: str
    user: Id
    item: Id
    probability: float
    threshold: float | None
    recommend: bool | None


class Stored(msgspec.Struct):
    """How many events were stored, and how many of these are of items that the model does not know yet."""

    stored: int
    unknown_items: int


class ModelInfo(msgspec.Struct):
    """The model that answers, and what came of the last attempt to replace it."""

    model: str
    kind: str
    path: str
    loaded: Annotated[float, Meta(description="Seconds since 1970.")]
    n_users: int
    n_items: int
    n_events: int
    calibrated: bool
    uses_order: bool
    id_types: dict[str, Literal["integer", "string"]]
    params: dict[str, Any]
    certificate: dict[str, Any] | None
    problem: Annotated[str | None, Meta(description="Why a newer file is not served; null if there is none.")]


class Health(msgspec.Struct):
    """Whether the service is there, and ready."""

    status: Literal["ok", "not ready"]


class Problem(msgspec.Struct):
    """What is wrong with a request."""

    error: str
