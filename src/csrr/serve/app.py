"""The service as an ASGI application: who asks what, checked, answered in the event loop, counted."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from csrr.data.errors import DataError, UnknownIdError
from csrr.parameters import ParameterError
from csrr.serve import messages as m
from csrr.serve.events import Event, EventFiles, EventStore, EventTable, Id, StoreError, prepare_tables
from csrr.serve.guard import LOOPBACK_NAMES, Guard, Limits, Refusal
from csrr.serve.page.views import ROUTES as PAGE_ROUTES
from csrr.serve.routes import Meters, Route, StaticFile, declare, describe, read_static
from csrr.serve.served import ModelHolder, ServedModel, spell

log = logging.getLogger(__name__)
Headers = dict[bytes, bytes]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

POLL = 1.0
"""Seconds between looks at the model file and the keys."""
JSON_HEADERS = (
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)
_encode = msgspec.json.Encoder().encode
ROUTES: list[Route] = []
"""The interface, from the most asked on."""


class Service:
    """The service: an ASGI application.

    Parameters
    ----------
    holder
        The model.
    events
        Where events go.
    guard
        Who may ask.
    limits
        How much.
    meters
        What is counted.
    routes
        What is answered.
    static
        Files, by path.
    prepare
        Gets the store of events ready for a model, before it is opened.
    """

    def __init__(
        self,
        holder: ModelHolder,
        events: EventStore,
        guard: Guard,
        limits: Limits,
        meters: Meters,
        routes: Sequence[Route],
        static: Mapping[str, StaticFile] | None = None,
        prepare: Callable[[Any], None] | None = None,
    ) -> None:
        self._prepare = prepare
        self.holder, self.events, self.guard, self.limits, self.meters = holder, events, guard, limits, meters
        self.routes, self.static = routes, static or {}
        self.is_open = False
        self.on_reload: Callable[[], None] = lambda: None
        self.on_answer: Callable[[str, int, float], None] = lambda route, status, seconds: None
        self.n_storing = 0
        self._by_path: dict[str, dict[str, Route]] = {}
        for route in routes:
            self._by_path.setdefault(route.path, {})[route.method] = route
        self._watching: asyncio.Task[None] | None = None

    @property
    def served(self) -> ServedModel:
        """The model in force."""
        return self.holder.served

    # Life

    async def open(self) -> None:
        """Load the model, open the store of events, and begin to watch the model's file."""
        self.holder.open()
        try:
            if self._prepare is not None:
                with self.holder.locked():
                    await asyncio.to_thread(self._prepare, self.served.model)
            await self.events.open()
        except DataError:
            # A worker that takes another's place does not wait for a database that is away.
            if not self.meters.has_begun:
                raise
            log.exception("the store of events cannot be opened")
        self.meters.count("csrr_worker_starts_total")
        self._watching = asyncio.create_task(self._watch())
        self.is_open = True

    async def close(self) -> None:
        """Store what waits."""
        self.is_open = False
        if self._watching is not None:
            self._watching.cancel()
        await self.events.close()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(POLL)
            try:
                await self.reload(force=False)
                self.guard.refresh()
            except Exception:
                log.exception("the model file or the keys cannot be looked at")

    async def reload(self, *, force: bool = True) -> None:
        """Replace the model if its file is another."""
        served, problem = self.holder.served, self.holder.problem
        await self.holder.refresh(force=force)
        if self.holder.served is not served:
            self.meters.count("csrr_model_replaced_total")
        elif self.holder.problem not in (None, problem):
            self.meters.count("csrr_model_problems_total")

    # Requests

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:
            raise NotImplementedError(f"the service speaks HTTP, not {scope['type']}")

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.open()
        except Exception as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        began = scope.get("csrr.received") or time.perf_counter()
        path: str = scope["path"].removeprefix(scope.get("root_path", ""))
        method: str = scope["method"]
        headers: Headers = dict(scope["headers"])
        if (file := self.static.get(path)) is not None and method in ("GET", "HEAD"):
            await _send_file(file, headers, method, send)
            return
        routes = self._by_path.get(path)
        route = None if routes is None else routes.get("GET" if method == "HEAD" else method)
        more: dict[str, str] = {}
        try:
            if routes is None:
                raise Refusal(404, "there is nothing at this path; /v1/openapi.json describes what there is")
            if route is None:
                raise Refusal(405, f"this path takes {', '.join(routes)}", allow=", ".join([*routes, "HEAD"]))
            if time.perf_counter() - began > self.limits.seconds:
                raise Refusal(503, "the request has waited too long", **{"retry-after": "1"})
            status, body = 200, await self._find(route, scope, headers, receive)
        except Refusal as error:
            status, body, more = error.status, _encode(m.Problem(str(error))), error.headers
        except _Gone:
            return
        except Exception as error:
            status, body = _explain(error)
            if status == 503:
                more = {"retry-after": "1"}
        if route is not None:
            seconds = time.perf_counter() - began
            self.meters.see(route.path, status, seconds)
            self.on_answer(route.path, status, seconds)
        own = JSON_HEADERS if status != 200 or route is None or route.gives is not str else TEXT_HEADERS
        sent = [*own, (b"content-length", str(len(body)).encode())]
        sent += [(name.encode(), value.encode()) for name, value in more.items()]
        await send({"type": "http.response.start", "status": status, "headers": sent})
        await send({"type": "http.response.body", "body": b"" if method == "HEAD" else body})

    async def _find(self, route: Route, scope: dict[str, Any], headers: Headers, receive: Receive) -> bytes:
        """Return the body of the answer."""
        client = scope.get("client")
        self.guard.admit(route.right, headers, client[0] if client else "")
        if not self.is_open and route.right is not None:
            raise Refusal(503, "the service is not ready", **{"retry-after": "1"})
        if route.method == "POST":
            body = await self._read_body(headers, receive)
            asked = (route.decode(body),) if route.asks is not None else ()
        else:
            asked = (route.read_query(scope["query_string"]),) if route.asks is not None else ()
        if route.is_slow:
            answer = await asyncio.to_thread(route.answer, self, *asked)
        else:
            answer = route.answer(self, *asked)
        if route.is_async:
            answer = await answer
        return answer.encode() if isinstance(answer, str) else _encode(answer)

    async def _read_body(self, headers: Headers, receive: Receive) -> bytes:
        """Return a body, unless it is too large, comes too slowly or is not said to be JSON."""
        most = self.limits.body
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        # What browsers send for other pages without asking is of another type, or of none.
        if kind != b"application/json" and not (kind == b"" and headers.get(b"content-length", b"0") == b"0"):
            raise Refusal(415, "send a body of type application/json")
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > most:
            raise Refusal(413, f"a body may have {most:,} bytes", connection="close")
        parts, size = [], 0
        try:
            async with asyncio.timeout(self.limits.seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _Gone
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > most:
                        raise Refusal(413, f"a body may have {most:,} bytes", connection="close")
                    if not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            raise Refusal(408, f"the request did not come within {self.limits.seconds:g} seconds") from None


TEXT_HEADERS = ((b"content-type", b"text/plain; version=0.0.4; charset=utf-8"), *JSON_HEADERS[1:])


class _Gone(Exception):
    """Who asked has gone."""


def _explain(error: Exception) -> tuple[int, bytes]:
    """Return the status and the body for an error."""
    if isinstance(error, msgspec.ValidationError):
        status, text = 422, str(error)
    elif isinstance(error, msgspec.DecodeError | UnicodeDecodeError | RecursionError):
        status, text = 400, f"the body cannot be read: {error}"
    elif isinstance(error, UnknownIdError):
        status, text = 404, str(error.args[0])
    elif isinstance(error, ParameterError | DataError | NotImplementedError):
        status, text = 422, str(error)
    elif isinstance(error, StoreError):
        status, text = 503, str(error)
    else:
        log.exception("a request failed")
        status, text = 500, "this is a fault of the service; its log says more"
    return status, _encode(m.Problem(text))


async def _send_file(file: StaticFile, headers: Headers, method: str, send: Send) -> None:
    is_known = headers.get(b"if-none-match") == file.tag
    body = b"" if is_known or method == "HEAD" else file.body
    sent = [*file.headers, (b"content-length", str(len(file.body if method == "HEAD" else body)).encode())]
    await send({"type": "http.response.start", "status": 304 if is_known else 200, "headers": sent})
    await send({"type": "http.response.body", "body": body})


# What is answered


@declare(ROUTES, "POST", "/v1/recommendations")
async def recommend(service: Service, asked: m.Someone) -> m.Lists:
    """Recommend to a user, several users, a running session or somebody with a history."""
    served, limits = service.served, service.limits
    who = [asked.user, asked.users, asked.session, asked.history]
    if sum(each is not None for each in who) != 1:
        raise ParameterError("give one of user, users, session and history")
    _check_most("users", asked.users, limits.users)
    _check_most("history", asked.history, limits.history)
    options = _read_options(served, asked, limits)
    for name, ids in (("candidates", asked.candidates), ("exclude", asked.exclude)):
        if ids is not None:
            _check_most(name, ids, limits.items)
            options[name] = [spell(each, served.model.items_) for each in ids]
    if asked.columns:
        options["columns"] = asked.columns
    if asked.rules is not None:
        options |= {
            name: _read_range(value) for name, value in msgspec.structs.asdict(asked.rules).items() if value is not None
        }
    if asked.history is not None:
        lists = [served.list_with(None, [Event(item=item) for item in asked.history], options, asked.explain)]
    elif asked.users is None:
        lists = await _list_one(service, asked, options)
    else:
        users = [spell(user, served.model.users_) for user in asked.users]
        recent = [await service.events.recent(user, None) for user in users]
        asked_of = list(zip(users, recent, strict=True))
        plain = iter(served.list_users([user for user, some in asked_of if not some], options))
        lists = [
            served.list_with(user, some, options, asked.explain) if some else next(plain) for user, some in asked_of
        ]
    return _give(served, lists, asked)


@declare(ROUTES, "GET", "/v1/recommendations")
async def recommend_one(service: Service, asked: m.OneUser) -> m.Lists:
    """Recommend to a user or a running session."""
    if (asked.user is None) == (asked.session is None):
        raise ParameterError("give one of user and session")
    served = service.served
    return _give(served, await _list_one(service, asked, _read_options(served, asked, service.limits)), asked)


async def _list_one(service: Service, asked: m.OneUser | m.Someone, options: dict[str, Any]) -> list[m.List]:
    served = service.served
    user = None if asked.user is None else spell(asked.user, served.model.users_)
    recent = await service.events.recent(user, asked.session)
    if user is not None and not recent:
        return served.list_users([user], options)
    return [served.list_with(user, recent, options, asked.explain)]


def _give(served: ServedModel, lists: list[m.List], asked: m.ListOptions) -> m.Lists:
    if asked.explain:
        served.add_reasons(lists, asked.explain)
    return m.Lists(served.name, lists)


def _read_options(served: ServedModel, asked: m.ListOptions, limits: Limits) -> dict[str, Any]:
    _check_k(asked.k, limits)
    options: dict[str, Any] = {"k": asked.k, "exclude_seen": asked.exclude_seen}
    for name in ("min_probability", "min_score"):
        if (value := getattr(asked, name)) is not None:
            options[name] = value
    return options


def _check_k(k: int, limits: Limits) -> None:
    if k > limits.k:
        raise ParameterError(f"k={k}: a list may have {limits.k} items")


def _check_most(name: str, given: Sequence[Any] | None, most: int) -> None:
    if given is not None and len(given) > most:
        raise ParameterError(f"{name}: {len(given):,} are given, and a request may have {most:,}")


def _read_range(value: Any) -> Any:
    """Return a rule's value with ranges as the library has them."""
    if isinstance(value, dict):
        if value and value.keys() <= {"least", "most"}:
            return value.get("least"), value.get("most")
        return {name: _read_range(each) for name, each in value.items()}
    return value


@declare(ROUTES, "GET", "/v1/similar/items")
def similar_items(service: Service, asked: m.Near) -> m.Neighborhood:
    """Find the items nearest to an item."""
    _check_k(asked.k, service.limits)
    return service.served.find_near("item", asked.id, asked.k)


@declare(ROUTES, "GET", "/v1/similar/users")
def similar_users(service: Service, asked: m.Near) -> m.Neighborhood:
    """Find the users nearest to a user."""
    _check_k(asked.k, service.limits)
    return service.served.find_near("user", asked.id, asked.k)


@declare(ROUTES, "GET", "/v1/explanation")
def explain(service: Service, asked: m.Pair) -> m.Reasons:
    """Say what each item of a user's history adds to the score of an item."""
    return service.served.explain(asked.user, asked.item)


@declare(ROUTES, "GET", "/v1/probability")
def probability(service: Service, asked: m.Pair) -> m.Chance:
    """Say how probable it is that a user chooses an item, and from which probability on recommending it pays."""
    return service.served.find_chance(asked.user, asked.item)


@declare(ROUTES, "POST", "/v1/events", "write")
async def store_events(service: Service, asked: m.Events) -> m.Stored:
    """Store events; they are on the disk when this is answered, and count at once."""
    served = service.served
    _check_most("events", asked.events, service.limits.events)
    now = time.time()
    events = [_check_event(served, event, now) for event in asked.events]
    service.n_storing += 1
    try:
        await service.events.append(events)
    except StoreError:
        service.meters.count("csrr_events_refused_total", len(events))
        raise
    finally:
        service.n_storing -= 1
    service.meters.count("csrr_events_stored_total", len(events))
    return m.Stored(len(events), served.count_unknown(events))


def _check_event(served: ServedModel, event: Event, now: float) -> Event:
    if (event.user is None) == (event.session is None):
        raise ParameterError("an event has one of user and session")
    model = served.model
    user, item = event.user, spell(event.item, model.items_)
    if user is not None:
        user = spell(user, model.users_)
        _check_type(user, model.users_, "user")
    _check_type(item, model.items_, "item")
    at = now if event.time is None else event.time
    return Event(user=user, session=event.session, item=item, time=at, weight=event.weight, type=event.type)


def _check_type(id: Id, known: Any, kind: str) -> None:
    if known.ids.dtype != object and not (isinstance(id, int) and -(2**63) <= id < 2**63):
        raise ParameterError(f"{kind} {str(id)[:50]!r}: the {kind} ids of this model are integers")


@declare(ROUTES, "GET", "/v1/model")
def model_info(service: Service) -> m.ModelInfo:
    """Say which model answers, and whether a newer file could not be loaded."""
    return service.holder.describe()


@declare(ROUTES, "POST", "/v1/model/reload", "write")
async def reload_model(service: Service) -> m.ModelInfo:
    """Load the model file again, in all workers; say which model answers now."""
    service.on_reload()
    await service.reload()
    return service.holder.describe()


@declare(ROUTES, "GET", "/v1/health", None)
def health(service: Service) -> m.Health:
    """Say that the service runs."""
    return m.Health("ok")


@declare(ROUTES, "GET", "/v1/ready", None)
def ready(service: Service) -> m.Health:
    """Say whether requests are answered; 503 before the model is loaded and while the service ends."""
    if not service.is_open:
        raise Refusal(503, "not ready")
    return m.Health("ok")


@declare(ROUTES, "GET", "/v1/openapi.json", None)
def openapi(service: Service) -> dict[str, Any]:
    """Describe the interface."""
    return describe(service.routes)


@declare(ROUTES, "GET", "/metrics")
def metrics(service: Service) -> str:
    """Return counters of all workers, for Prometheus."""
    return service.meters.write(
        csrr_model_loaded_timestamp_seconds=service.served.loaded,
        csrr_model_has_problem=float(service.holder.problem is not None),
    )


def make_app(
    model: Path | str,
    *,
    state: Path | str | None = None,
    events: EventStore | str | None = None,
    events_table: str = "events",
    keys: Path | str | None = None,
    hosts: Sequence[str] | None = LOOPBACK_NAMES,
    needs_key: bool = False,
    limits: Limits | None = None,
    meters: Meters | None = None,
    worker: int = 0,
) -> Service:
    """Return the service as an ASGI application.

    Parameters
    ----------
    model
        The model file; when it changes, the new model is served.
    state
        The folder for events, keys and copies of the model; None: beside the model.
    events
        Where events go: None for files in `state`, the address of a database, or a store of your own.
    events_table
        The table in that database; made if it is not there.
    keys
        The file of keys; None: the one in `state`.
    hosts
        The names by which a service without keys may be called; None for any.
    needs_key
        Whether nobody is answered without a key, though there may be none yet.
    limits
        What a request may ask for.
    meters
        Counters that workers share; None for one worker.
    worker
        The number of this worker.

    Returns
    -------
    service
        The application.
    """
    path = Path(model)
    folder = Path(state) if state is not None else path.with_name(f"{path.name}.state")
    limits = limits or Limits()
    guard = Guard(Path(keys) if keys is not None else folder / "keys.json", hosts, limits.rate, needs_key)
    prepare = None
    if isinstance(events, str):
        prepare = partial(prepare_tables, events, events_table)
        store: EventStore = EventTable(events, events_table)
    else:
        store = EventFiles(folder / "events", worker) if events is None else events
    static = read_static(Path(__file__).parent / "page", "/ui")
    counted = meters or Meters(list_paths())
    routes = [*ROUTES, *PAGE_ROUTES]
    holder = ModelHolder(path, folder / "models")
    return Service(holder, store, guard, limits, counted, routes, static, prepare)


def list_paths() -> list[str]:
    """Return all paths that have routes."""
    return list(dict.fromkeys(route.path for route in [*ROUTES, *PAGE_ROUTES]))
