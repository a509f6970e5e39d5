"""Routes: each a function, whose types say what it asks and gives; from them comes the OpenAPI description."""

from __future__ import annotations

import hashlib
import inspect
import mimetypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeVar, get_type_hints
from urllib.parse import parse_qsl

import msgspec

from csrr.serve.guard import Refusal, Right
from csrr.serve.messages import Problem

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
    for plain text; `right` what a key must be for, None where none is needed.
    """

    method: Literal["GET", "POST"]
    path: str
    right: Right | None
    answer: Callable[..., Any]
    status: int = 200

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
    routes: list[Route], method: Literal["GET", "POST"], path: str, right: Right | None = "read", status: int = 200
) -> Callable[[Handler], Handler]:
    """Return a decorator that adds a function to the routes."""

    def add(answer: Handler) -> Handler:
        routes.append(Route(method, path, right, answer, status))
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
    found["responses"] = {str(route.status): {"description": "The answer.", "content": content}}
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
