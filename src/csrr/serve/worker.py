"""A worker: a process that answers requests, within limits of its own."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from csrr._base.threads import use_threads
from csrr.serve.app import Service, list_paths, make_app
from csrr.serve.processes import NOT_STARTED, Settings, log_as_json
from csrr.serve.routes import Meters

log = logging.getLogger(__name__)
MOST_CONNECTIONS = 1024
"""The connections that a worker holds."""
MOST_HEAD = 2**16
"""The bytes that the head of a request may have."""
SHARED = ("state", "events", "events_table", "hosts", "needs_key", "limits")
"""The settings that the application takes as they are."""
_BUSY = b'{"error":"too many requests are waiting; try again later"}'


def make_protocol(service: Service) -> type[HttpToolsProtocol]:
    """Return the protocol of a worker: it refuses at once what it has no time for, and ends slow connections."""
    limits = service.limits

    async def refuse(scope: Any, receive: Any, send: Any) -> None:
        service.meters.count("csrr_shed_total")
        headers = [(b"content-type", b"application/json"), (b"retry-after", b"1")]
        headers.append((b"content-length", str(len(_BUSY)).encode()))
        await send({"type": "http.response.start", "status": 503, "headers": headers})
        await send({"type": "http.response.body", "body": _BUSY})

    class Protocol(HttpToolsProtocol):
        """HTTP of a worker."""

        _late: asyncio.TimerHandle | None = None
        _head = 0

        def connection_made(self, transport: Any) -> None:
            """Take a connection, unless there are too many; the head of a request must come soon."""
            super().connection_made(transport)
            if len(self.connections) > MOST_CONNECTIONS:
                transport.close()
            else:
                self._wait()

        def _wait(self) -> None:
            if self._late is None:
                self._late = self.loop.call_later(limits.seconds, self.transport.close)

        def _forget(self) -> None:
            if self._late is not None:
                self._late.cancel()
                self._late = None

        def data_received(self, data: bytes) -> None:
            """Read; a head that does not end ends the connection."""
            super().data_received(data)
            self._head = 0 if self._late is None else self._head + len(data)
            if self._head > MOST_HEAD:
                self.transport.close()

        def connection_lost(self, exc: Exception | None) -> None:
            """Forget a connection."""
            self._forget()
            super().connection_lost(exc)

        def on_message_begin(self) -> None:
            """Begin to read a request."""
            self._wait()
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            """Answer a request, or refuse it."""
            self._forget()
            self.scope["csrr.received"] = time.perf_counter()  # type: ignore[typeddict-unknown-key]
            mine = self.app
            # Those that wait for the disk do not wait for this process.
            if len(self.tasks) - service.n_storing >= limits.waiting:
                self.app = refuse
            try:
                super().on_headers_complete()
            finally:
                self.app = mine

    return Protocol


class _Server(uvicorn.Server):
    """uvicorn's server, to which SIGHUP says that the model file is another."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service
        self._reloading: set[asyncio.Task[None]] = set()
        self._parent = os.getppid()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup(sockets)
        if self.started:
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload)
            log.info("worker ready", extra={"model": self._service.served.name})

    async def on_tick(self, counter: int) -> bool:
        """Return whether to end: also where nobody watches any more."""
        return await super().on_tick(counter) or os.getppid() != self._parent

    def _reload(self) -> None:
        task = asyncio.create_task(self._service.reload())
        self._reloading.add(task)
        task.add_done_callback(self._reloading.discard)


def run_worker(settings: Settings, number: int, listening: int, shared: int) -> int:
    """Answer requests until told to end; return the exit code."""
    service = make_app(
        settings.model,
        **{name: getattr(settings, name) for name in SHARED},
        meters=Meters(list_paths(), shared, number, settings.workers),
        worker=number,
    )
    service.on_reload = lambda: os.kill(os.getppid(), signal.SIGHUP)
    if settings.access_log:
        service.on_answer = lambda route, status, seconds: log.info(
            "answered", extra={"route": route, "status": status, "ms": round(1e3 * seconds, 3)}
        )
    config = uvicorn.Config(
        service,
        loop="uvloop",
        http=make_protocol(service),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=10,
    )
    server = _Server(config, service)
    # The thread that writes events runs for microseconds, and is not to wait 5 ms for its turn.
    sys.setswitchinterval(0.0005)
    # One thread: the next core has a worker of its own.
    with use_threads(1):
        server.run([socket.socket(fileno=listening)])
    return 0 if server.started else NOT_STARTED


def main(args: list[str]) -> None:
    """Run the worker that the command line of its process describes."""
    # Until it listens to signals, a reload is no reason to end.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    settings, number, listening, shared = args
    log_as_json()
    sys.exit(run_worker(Settings.read(settings), int(number), int(listening), int(shared)))
