"""Routes: each a function, whose types say what it asks and gives; their OpenAPI description, and their counters."""

from __future__ import annotations

import hashlib
import inspect
import mimetypes
import mmap
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, TypeVar, get_type_hints
from urllib.parse import parse_qsl

import msgspec

from csrr.serve.guard import Refusal, Right
from csrr.serve.messages import Problem
from csrr.serve.processes import SHARED_BYTES

Handler = TypeVar("Handler", bound=Callable[..., Any])
PROBLEMS = {
    400: "The request is not JSON.",
    401: "There is no valid key.",
    403: "The key has not this right.",
    404: "An id is unknown.",
    408: "The request came too slowly.",
    413: "The request is too large.",
    415: "The body is not application/json.",
    422: "A value is not valid.",
    429: "There are too many requests.",
    503: "The service cannot answer now.",
}


@dataclass(frozen=True)
class Route:
    """What answers a method and a path: `answer(service, asked)`, or `answer(service)`, which may be a coroutine.

    `asks` is the type of the query (GET) or of the body (POST), None for neither; `gives` that of the answer, `Text`
    for plain text; `right` what a key must be for, None where none is needed. What `is_slow` is answered on a thread,
    while others are answered too.
    """

    method: Literal["GET", "POST"]
    path: str
    right: Right | None
    answer: Callable[..., Any]
    is_slow: bool = False

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self.answer)

    @cached_property
    def asks(self) -> type | None:
        """The type of what is asked."""
        return self._hints.get("asked")

    @property
    def gives(self) -> Any:
        """The type of the answer."""
        return self._hints["return"]

    @cached_property
    def is_async(self) -> bool:
        """Whether the answer has to be awaited."""
        return inspect.iscoroutinefunction(self.answer)

    @cached_property
    def decode(self) -> Callable[[bytes], Any]:
        """Return what a body asks."""
        assert self.asks is not None
        return msgspec.json.Decoder(self.asks).decode

    def read_query(self, query: bytes) -> Any:
        """Return what a query asks."""
        try:
            pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, max_num_fields=100)
        except ValueError:
            raise Refusal(422, "the query cannot be read") from None
        given = dict(pairs)
        if len(given) < len(pairs):
            raise Refusal(422, "the query has a name twice")
        return msgspec.convert(given, self.asks, strict=False)


def declare(
    routes: list[Route], method: Literal["GET", "POST"], path: str, right: Right | None = "read", is_slow: bool = False
) -> Callable[[Handler], Handler]:
    """Return a decorator that adds a function to the routes."""

    def add(answer: Handler) -> Handler:
        routes.append(Route(method, path, right, answer, is_slow))
        return answer

    return add


def describe(routes: Sequence[Route]) -> dict[str, Any]:
    """Return the OpenAPI description of routes."""
    types = [kind for route in routes for kind in (route.asks if route.method == "POST" else None, route.gives)]
    kinds = [kind for kind in [*types, Problem] if kind is not None and kind is not str]
    _, parts = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _describe_route(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "csrr", "version": version("csrr"), "description": "Recommendations, and events."},
        "paths": paths,
        "components": {"schemas": parts, "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
    }


def _describe_route(route: Route) -> dict[str, Any]:
    doc = inspect.getdoc(route.answer) or ""
    found: dict[str, Any] = {"summary": doc.split("\n")[0], "operationId": route.answer.__name__}
    statuses = [404, 422, 503] if route.asks is not None else [503]
    if route.right is not None:
        found["security"] = [{"key": []}, {}]
        statuses += [401, 403, 429]
    if route.method == "POST":
        statuses += [400, 408, 413, 415]
    if route.asks is not None and route.method == "POST":
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": _refer(route.asks)}}}
    elif route.asks is not None:
        parts = msgspec.json.schema(route.asks)
        schema = parts["$defs"][route.asks.__name__]
        found["parameters"] = [
            {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": kind}
            for name, kind in schema["properties"].items()
        ]
    is_text = route.gives is str
    content = {"text/plain": {"schema": {"type": "string"}}} if is_text else _as_json(route.gives)
    found["responses"] = {"200": {"description": "The answer.", "content": content}}
    found["responses"] |= {
        str(status): {"description": PROBLEMS[status], "content": _as_json(Problem)} for status in sorted(statuses)
    }
    return found


def _as_json(kind: Any) -> dict[str, Any]:
    return {"application/json": {"schema": _refer(kind)}}


def _refer(kind: Any) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"} if isinstance(kind, type) and kind is not dict else {}


@dataclass(frozen=True)
class StaticFile:
    """A file that is sent as it is: its bytes, its headers, and the tag by which a browser knows it again."""

    body: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    tag: bytes


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self';"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What pages of the service may load: what comes from it, and no script in a text."""


def read_static(folder: Path, prefix: str) -> dict[str, StaticFile]:
    """Return the files of a folder by path; `index.html` is also the path of its folder."""
    found: dict[str, StaticFile] = {}
    for path in sorted(each for each in folder.rglob("*") if each.is_file() and each.suffix not in (".py", ".pyc")):
        body = path.read_bytes()
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'.encode()
        charset = "; charset=utf-8" if kind.startswith("text/") or kind.endswith(("javascript", "json")) else ""
        headers = [(b"content-type", f"{kind}{charset}".encode()), (b"etag", tag), (b"cache-control", b"no-cache")]
        headers += [(b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer")]
        headers += [(b"content-security-policy", POLICY.encode())]
        file = StaticFile(body, tuple(headers), tag)
        name = path.relative_to(folder).as_posix()
        found[f"{prefix}/{name}"] = file
        if path.name == "index.html":
            found[f"{prefix}/{name.removesuffix('index.html')}"] = file
            found[f"{prefix}/{name.removesuffix('index.html')}".rstrip("/")] = file
    return found


BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""The upper bounds of the histogram of seconds."""
STATUSES = (200, 202, 400, 401, 403, 404, 405, 408, 409, 413, 415, 422, 429, 500, 503)
COUNTERS = {
    "csrr_worker_starts_total": "Workers started.",
    "csrr_events_stored_total": "Events stored.",
    "csrr_events_refused_total": "Events that could not be stored.",
    "csrr_shed_total": "Requests refused because too many were waiting.",
    "csrr_model_replaced_total": "Times a worker took a newer model.",
    "csrr_model_problems_total": "Times a worker could not load a newer file.",
}


class Meters:
    """Counters of one worker, and the sums over all.

    Parameters
    ----------
    routes
        The names of the routes.
    shared
        The descriptor of a file of zeros that all workers have, so many bytes for each; -1 for memory of its own.
    worker, n_workers
        The number of this worker, and how many there are.
    """

    def __init__(self, routes: Sequence[str], shared: int = -1, worker: int = 0, n_workers: int = 1) -> None:
        self._routes = {name: place for place, name in enumerate(routes)}
        self._statuses = {status: place for place, status in enumerate(STATUSES)}
        self._own = {name: place for place, name in enumerate(COUNTERS)}
        # Of each route: requests by status, buckets of seconds, and their sum.
        self._of_route = len(STATUSES) + len(BOUNDS) + 2
        self._all = memoryview(mmap.mmap(shared, SHARED_BYTES * n_workers)).cast("d")
        self._step, self._n_workers = SHARED_BYTES // 8, n_workers
        if len(COUNTERS) + len(routes) * self._of_route > self._step:
            raise ValueError(f"{len(routes)} routes are more than there is room for counters")
        self._mine = self._all[worker * self._step : (worker + 1) * self._step]

    def count(self, name: str, n: float = 1) -> None:
        """Add to a counter."""
        self._mine[self._own[name]] += n

    @property
    def has_begun(self) -> bool:
        """Whether a worker ever began."""
        return self._sum(self._own["csrr_worker_starts_total"]) > 0

    def see(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        start = len(COUNTERS) + self._routes[route] * self._of_route
        self._mine[start + self._statuses.get(status, len(STATUSES) - 2)] += 1
        start += len(STATUSES)
        self._mine[start + bisect_left(BOUNDS, seconds)] += 1
        self._mine[start + len(BOUNDS) + 1] += seconds

    def _sum(self, place: int) -> float:
        return sum(self._all[place + worker * self._step] for worker in range(self._n_workers))

    def write(self, **gauges: float) -> str:
        """Return all of it as text for Prometheus; `gauges` are those of the worker that is asked."""
        lines = []
        for name, text in COUNTERS.items():
            lines += [f"# HELP {name} {text}", f"# TYPE {name} counter", f"{name} {self._sum(self._own[name]):g}"]
        for name, value in gauges.items():
            lines += [f"# TYPE {name} gauge", f"{name} {value!r}"]
        lines += ["# HELP csrr_requests_total Requests answered.", "# TYPE csrr_requests_total counter"]
        for route, place in self._routes.items():
            start = len(COUNTERS) + place * self._of_route
            for status, at in self._statuses.items():
                if n := self._sum(start + at):
                    lines.append(f'csrr_requests_total{{route="{route}",status="{status}"}} {n:.0f}')
        lines += ["# HELP csrr_request_seconds Seconds to answer.", "# TYPE csrr_request_seconds histogram"]
        for route, place in self._routes.items():
            start = len(COUNTERS) + place * self._of_route + len(STATUSES)
            sums = list(accumulate(self._sum(start + at) for at in range(len(BOUNDS) + 1)))
            if sums[-1]:
                labels = [f"{bound:g}" for bound in BOUNDS] + ["+Inf"]
                for label, n in zip(labels, sums, strict=True):
                    lines.append(f'csrr_request_seconds_bucket{{route="{route}",le="{label}"}} {n:.0f}')
                lines.append(f'csrr_request_seconds_sum{{route="{route}"}} {self._sum(start + len(BOUNDS) + 1):g}')
                lines.append(f'csrr_request_seconds_count{{route="{route}"}} {sums[-1]:.0f}')
        return "\n".join(lines) + "\n"
