import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from urllib.parse import urlencode

import httpx
import pytest

import csrr
from csrr.serve.app import make_app
from csrr.serve.guard import Limits

PATIENCE = 60
CODE = "from csrr.cli import main; main()"


@pytest.fixture(scope="session")
def log():
    """Return a log of 60 users and 40 items with integer ids."""
    return csrr.synthetic(60, 40, events_per_user=10).log


@pytest.fixture(scope="session")
def model_file(log, tmp_path_factory):
    """Return the file of a calibrated model with titles, categories and costs."""
    train, held = csrr.split(log, ratio=0.8, seed=0)
    model = csrr.CSRR(max_rank=4, neighbors=5, reg_neighbors=1.0, miss_cost=3, false_alarm_cost=1, seed=0).fit(train)
    model.calibrate(held)
    genres = ["<script>alert(1)</script>", "Rock"] * 20
    model.set_items({"item": range(40), "title": [f"Title {i} <b>" for i in range(40)], "genre": genres})
    path = tmp_path_factory.mktemp("model") / "model.csrr"
    model.save(path)
    return path


@pytest.fixture(scope="session")
def other_file(log, tmp_path_factory):
    """Return the file of another model of the same users and items."""
    path = tmp_path_factory.mktemp("other") / "other.csrr"
    csrr.EASE(reg=5).fit(log).save(path)
    return path


class Client:
    """Asks an application in this process, without a network."""

    def __init__(self, app):
        self.app = app
        self.loop = asyncio.new_event_loop()
        self.loop.run_until_complete(app.open())

    def ask(self, method, path, body=None, *, headers=(), **query):
        """Return the status and the answer: read as JSON, if it is."""
        sent = {}
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()

        async def receive():
            return {"type": "http.request", "body": data}

        async def send(message):
            sent.update(message)

        own = {b"host": b"localhost:8000", b"content-length": str(len(data)).encode()}
        own |= {b"content-type": b"application/json"} if data else {}
        own |= {k.lower().encode(): v.encode() for k, v in dict(headers).items()}
        scope = {"type": "http", "method": method, "path": path, "query_string": urlencode(query).encode()}
        self.loop.run_until_complete(
            self.app(scope | {"headers": [*own.items()], "client": ("127.0.0.1", 1)}, receive, send)
        )
        self.headers = {name.decode(): value.decode() for name, value in sent["headers"]}
        is_json = self.headers.get("content-type", "").startswith("application/json")
        return sent["status"], json.loads(sent["body"]) if is_json else sent["body"]

    def get(self, path, **query):
        return self.ask("GET", path, **query)

    def post(self, path, body, **headers):
        return self.ask("POST", path, body, headers=headers)

    def close(self):
        self.loop.run_until_complete(self.app.close())
        self.loop.close()


@pytest.fixture
def make_client(tmp_path):
    """Return a function that makes clients of applications on a model, with their state in one folder."""
    made = []

    def make(model, *, state=tmp_path / "state", limits=None, **options):
        made.append(Client(make_app(model, state=state, limits=limits or Limits(), **options)))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(scope="module")
def client(model_file, tmp_path_factory):
    """Return a client of an application that several tests share."""
    found = Client(make_app(model_file, state=tmp_path_factory.mktemp("state")))
    yield found
    found.close()


class Server:
    """A real service: its processes, and its lines."""

    def __init__(self, process):
        self.process, self.lines = process, []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(json.loads(line) if line.startswith("{") else {"event": line})

    def wait_for(self, condition, what):
        """Return what a condition returns as soon as it is true."""
        latest = time.monotonic() + PATIENCE
        while time.monotonic() < latest:
            if found := condition():
                return found
            if self.process.poll() is not None:
                self._reader.join()
                raise AssertionError(f"it ended with {self.process.returncode}: {self.lines}")
            time.sleep(0.02)
        raise AssertionError(f"no {what} within {PATIENCE} seconds: {self.lines}")

    def close(self):
        """Read the last lines."""
        self._reader.join()
        self.process.stderr.close()

    def find(self, event):
        return [line for line in self.lines if line["event"] == event]

    def start(self, workers):
        self.port = self.wait_for(lambda: self.find("serving"), "port")[0]["port"]
        self.url = f"http://127.0.0.1:{self.port}"
        self.wait_for(lambda: len(self.find("worker ready")) >= workers, "worker")
        return self

    def workers(self):
        """Return the ids of the processes of the workers."""
        text = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True)
        return [int(each) for each in text.stdout.split()]

    def get(self, path, **query):
        return httpx.get(f"{self.url}{path}", params=query, timeout=PATIENCE)

    def post(self, path, body, **options):
        return httpx.post(f"{self.url}{path}", json=body, timeout=PATIENCE, **options)


@contextmanager
def serving(model, *args, workers=1):
    """Serve a model by real processes in the block."""
    words = [sys.executable, "-c", CODE, "serve", model, "--port", 0, "--workers", workers, *args]
    process = subprocess.Popen(list(map(str, words)), stderr=subprocess.PIPE, text=True, start_new_session=True)
    server = Server(process)
    try:
        yield server.start(workers)
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        finally:
            server.close()
