"""The process that watches over the workers, which share its socket, counters and the memory of the model.

It imports nothing heavy: it is small, and does nothing that could fail.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from csrr.serve.guard import Limits

log = logging.getLogger(__name__)
BACKLOG = 1024
SHARED_BYTES = 2**16
"""The bytes that counters of a worker may take."""
NOT_STARTED = 3
"""The exit code of a worker that could not begin."""
LOOK_UP, GRACE = 0.1, 15.0
"""Seconds between looks at the workers, and those that they have to end."""
SOON, LONGEST = 5.0, 5.0
"""A worker that ends within so many seconds is started again after a wait, which grows up to so many."""
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Settings:
    """What `csrr serve` was told."""

    model: str
    state: str
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    events: str | None = None
    events_table: str = "events"
    hosts: tuple[str, ...] | None = None
    needs_key: bool = False
    access_log: bool = False
    limits: Limits = field(default_factory=Limits)

    @classmethod
    def read(cls, text: str) -> Settings:
        """Return settings that another process wrote as JSON."""
        given = json.loads(text)
        hosts = given["hosts"]
        return cls(**given | {"limits": Limits(**given["limits"]), "hosts": hosts and tuple(hosts)})


class JsonLines(logging.Formatter):
    """A line of JSON for each record: no ids, no addresses, nothing that a request holds."""

    _usual = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "color_message"}  # noqa: RUF012

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        found = {"time": round(record.created, 3), "level": record.levelname.lower(), "event": record.getMessage()}
        found |= {"worker": os.environ.get("CSRR_WORKER", "-")}
        found |= {name: value for name, value in vars(record).items() if name not in self._usual}
        if record.exc_info:
            found["trace"] = self.formatException(record.exc_info)
        return json.dumps(found, default=str)


def log_as_json() -> None:
    """Log to stderr, a line of JSON each."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    # What uvicorn says of requests names addresses.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)


def run(settings: Settings) -> int:
    """Start the workers, and start again those that end; until SIGTERM or Ctrl-C. Return the exit code."""
    log_as_json()
    state = Path(settings.state)
    state.mkdir(parents=True, exist_ok=True)
    with (state / "lock").open("w") as lock, tempfile.TemporaryFile() as shared:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OSError(0, f"{state} is in use by another csrr serve; --state takes another folder") from None
        shared.truncate(SHARED_BYTES * settings.workers)
        with _listen(settings.host, settings.port) as listening:
            return _Supervisor(settings, listening, shared.fileno()).run()


def _listen(host: str, port: int) -> socket.socket:
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen(BACKLOG)
    except OSError as error:
        found.close()
        why = f"cannot listen on {host}, port {port}: {error.strerror}; --port takes another"
        raise OSError(error.errno, why) from None
    return found


class _Supervisor:
    """The workers, by number."""

    def __init__(self, settings: Settings, listening: socket.socket, shared: int) -> None:
        self._settings, self._listening, self._shared = settings, listening, shared
        self._workers: dict[int, subprocess.Popen[bytes]] = {}
        self._began: dict[int, float] = {}
        # When to start those that are not there.
        self._due = dict.fromkeys(range(settings.workers), 0.0)
        self._failures = 0
        self._is_ending = False

    def run(self) -> int:
        """Watch until the end."""
        for one in (signal.SIGTERM, signal.SIGINT):
            signal.signal(one, self._end)
        signal.signal(signal.SIGHUP, self._pass_on)
        host, port = self._listening.getsockname()[:2]
        log.info("serving", extra={"host": host, "port": port, "workers": self._settings.workers})
        while not self._is_ending:
            now = time.monotonic()
            for number in [each for each, due in self._due.items() if due <= now]:
                self._start(number)
            time.sleep(LOOK_UP)
            for number, process in list(self._workers.items()):
                if process.poll() is not None and not self._is_ending:
                    self._note_end(number, process.returncode)
                    if process.returncode == NOT_STARTED and not self._has_begun():
                        return self._wait(2)
        return self._wait(0)

    def _start(self, number: int) -> None:
        code = "import sys; from csrr.serve.worker import main; main(sys.argv[1:])"
        handed = self._listening.fileno(), self._shared
        self._workers[number] = subprocess.Popen(
            [sys.executable, "-c", code, json.dumps(asdict(self._settings)), str(number), *map(str, handed)],
            pass_fds=handed,
            env=os.environ | ONE_THREAD | {"CSRR_WORKER": str(number)},
        )
        self._began[number] = time.monotonic()
        del self._due[number]

    def _note_end(self, number: int, code: int) -> None:
        """Note that a worker ended; another takes its place, at once unless workers keep ending."""
        log.warning("worker ended", extra={"number": number, "code": code})
        now = time.monotonic()
        self._failures = self._failures + 1 if now - self._began[number] < SOON else 0
        self._due[number] = now + min(LONGEST, 0.5 * self._failures)
        del self._workers[number]

    def _has_begun(self) -> bool:
        """Return whether any worker ever answered: the first number that each of them shares counts its starts."""
        places = range(0, SHARED_BYTES * self._settings.workers, SHARED_BYTES)
        return any(os.pread(self._shared, 8, place) != bytes(8) for place in places)

    def _pass_on(self, *_: object) -> None:
        for process in self._workers.values():
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGHUP)

    def _end(self, *_: object) -> None:
        self._is_ending = True

    def _wait(self, code: int) -> int:
        """End the workers, which first answer what they have begun; return the code."""
        for process in self._workers.values():
            process.terminate()
        latest = time.monotonic() + GRACE
        for process in self._workers.values():
            try:
                process.wait(max(0.1, latest - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
        log.info("ended")
        return code
