"""Open-loop load: requests are sent when they are due, whether or not earlier ones are answered."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import uvloop

MOST_CONNECTIONS = 256
GRACE = 10.0
"""Seconds that answers may still take once all requests are sent."""


@dataclass
class Stream:
    """Requests of a kind: so many a second, at random times; `requests` are sent in turn, each once or again."""

    name: str
    rate: float
    requests: Sequence[bytes]


@dataclass
class Answers:
    """What came of the requests of a stream: seconds since they were due, and statuses; 0 is a lost connection.

    `answered` are the places of the requests with status 200, `began` when they were due.
    """

    seconds: list[float] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    due: list[float] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    def summarize(self, after: float = 0.0, before: float = np.inf) -> dict[str, Any]:
        """Return quantiles of the milliseconds of those answered with 200, and how many had which status."""
        due, status = np.array(self.due), np.array(self.statuses)
        mine = (due >= after) & (due < before)
        good = 1e3 * np.array(self.seconds)[mine & (status == 200)]
        quantiles = np.quantile(good, [0.5, 0.9, 0.99, 0.999]) if len(good) else [np.nan] * 4
        names = ("p50", "p90", "p99", "p999")
        found: dict[str, Any] = {name: round(float(q), 2) for name, q in zip(names, quantiles, strict=True)}
        counts = Counter(map(str, status[mine].tolist()))
        return found | {"max": round(float(good.max(initial=0)), 2), "sent": int(mine.sum()), "statuses": dict(counts)}


class _Connection(asyncio.Protocol):
    """One connection, with at most one request under way."""

    def __init__(self, load: _Load) -> None:
        self._load, self._got = load, b""
        self.current: tuple[int, int, float] | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def send(self, stream: int, place: int, due: float) -> None:
        self.current = stream, place, due
        requests = self._load.streams[stream].requests
        self.transport.write(requests[place % len(requests)])

    def data_received(self, data: bytes) -> None:
        self._got += data
        head = self._got.find(b"\r\n\r\n")
        if head < 0:
            return
        lowered = self._got[:head].lower()
        start = lowered.find(b"content-length: ") + 16
        end = lowered.find(b"\r\n", start)
        length = int(lowered[start : end if end >= 0 else head])
        if len(self._got) < head + 4 + length:
            return
        body, self._got = self._got[head + 4 :], b""
        self._finish(int(lowered[9:12]), body)
        if b"connection: close" in lowered:
            self.transport.close()
        else:
            self._load.free(self)

    def _finish(self, status: int, body: bytes = b"") -> None:
        if self.current is not None:
            stream, place, due = self.current
            self.current = None
            self._load.note(stream, place, due, status, body)

    def connection_lost(self, exc: Exception | None) -> None:
        self._load.lose(self)
        self._finish(0)


class _Load:
    def __init__(self, port: int, streams: Sequence[Stream], seconds: float, seed: int, keep: bool) -> None:
        self.streams, self._port, self._seconds, self._keep = streams, port, seconds, keep
        self.answers = [Answers() for _ in streams]
        self._idle: list[_Connection] = []
        self._n, self._waiting = 0, deque[tuple[int, int, float]]()
        rng = np.random.default_rng(seed)
        due, which = [], []
        for number, stream in enumerate(streams):
            n = rng.poisson(stream.rate * seconds)
            due.append(np.sort(rng.random(n) * seconds))
            which.append(np.full(n, number))
        order = np.argsort(np.concatenate(due), kind="stable")
        self._due, self._which = np.concatenate(due)[order].tolist(), np.concatenate(which)[order].tolist()

    def note(self, stream: int, place: int, due: float, status: int, body: bytes) -> None:
        mine = self.answers[stream]
        mine.seconds.append(time.perf_counter() - self._start - due)
        mine.statuses.append(status)
        mine.places.append(place)
        mine.due.append(due)
        if self._keep:
            mine.bodies.append(body)

    def free(self, connection: _Connection) -> None:
        if self._waiting:
            connection.send(*self._waiting.popleft())
        else:
            self._idle.append(connection)

    def lose(self, connection: _Connection) -> None:
        self._n -= 1
        if connection in self._idle:
            self._idle.remove(connection)

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_connection(lambda: _Connection(self), "127.0.0.1", self._port)
        except OSError:
            self._n -= 1
            if self._waiting:
                self.note(*self._waiting.popleft(), 0, b"")
            return
        self.free(connection)

    async def run(self) -> list[Answers]:
        """Send everything, and wait for the answers."""
        connecting = set()
        for _ in range(min(32, MOST_CONNECTIONS)):
            self._n += 1
            await self._connect()
        self._start = time.perf_counter()
        places, at = [0] * len(self.streams), 0
        while at < len(self._due):
            now = time.perf_counter() - self._start
            while at < len(self._due) and self._due[at] <= now:
                stream = self._which[at]
                request = stream, places[stream], self._due[at]
                places[stream] += 1
                at += 1
                if self._idle:
                    self._idle.pop().send(*request)
                    continue
                self._waiting.append(request)
                if self._n < MOST_CONNECTIONS:
                    self._n += 1
                    task = asyncio.create_task(self._connect())
                    connecting.add(task)
                    task.add_done_callback(connecting.discard)
            if at < len(self._due):
                await asyncio.sleep(max(0.0, self._due[at] - (time.perf_counter() - self._start)))
        latest = time.perf_counter() + GRACE
        while sum(len(each.seconds) for each in self.answers) < len(self._due) and time.perf_counter() < latest:
            await asyncio.sleep(0.01)
        return self.answers


def _work(pipe: Any, *args: Any) -> None:
    pipe.send(uvloop.run(_Load(*args).run()))


def send_load(
    port: int,
    streams: Sequence[Stream],
    seconds: float,
    *,
    seed: int = 0,
    keep: bool = False,
    meanwhile: Callable[[], None] | None = None,
) -> list[Answers]:
    """Return the answers to the streams, sent for so many seconds by a process of its own.

    `meanwhile` is called here while it sends; with `keep` the answers keep their bodies.
    """
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(theirs, port, streams, seconds, seed, keep))
    process.start()
    if meanwhile is not None:
        meanwhile()
    found: list[Answers] = mine.recv()
    process.join()
    return found


def get(path: str, key: str | None = None) -> bytes:
    """Return a request for a path."""
    return f"GET {path} HTTP/1.1\r\nhost: localhost\r\n{_authorize(key)}\r\n".encode()


def post(path: str, body: bytes, key: str | None = None) -> bytes:
    """Return a request with a body of JSON."""
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n{_authorize(key)}\r\n".encode() + body


def _authorize(key: str | None) -> str:
    return "" if key is None else f"authorization: Bearer {key}\r\n"
