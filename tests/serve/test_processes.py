"""Real processes on the loopback: workers that end, models that change, requests that never end."""

import contextlib
import json
import os
import shutil
import signal
import socket
import threading
from pathlib import Path

import httpx
import pytest

import csrr
from tests.serve.conftest import serving


@pytest.fixture
def model(model_file, tmp_path):
    """Return a copy of the model file that a test may replace."""
    return shutil.copy(model_file, tmp_path / "model.csrr")


def put(source, target):
    """Replace a file at once, as `save` does."""
    shutil.copy(source, f"{target}.new")
    os.replace(f"{target}.new", target)


def ask_until(server, is_done, errors, answers):
    """Ask all the time, on one connection as long as it lasts."""
    with httpx.Client(base_url=server.url, timeout=60) as client:
        while not is_done.is_set():
            found = client.get("/v1/recommendations", params={"user": 7, "k": 3})
            (answers if found.status_code == 200 else errors).append(found.json())


def read_events(state):
    return [
        json.loads(line)
        for path in (state / "events").glob("*.jsonl")
        for line in path.read_text().splitlines()
        if line
    ]


def test_a_service_lives_through_all_of_it(model, model_file, other_file, tmp_path):
    state = tmp_path / "state"
    first, second = (csrr.load(each).recommend(7, 3).items[0].tolist() for each in (model_file, other_file))
    assert first != second
    with serving(model, "--state", state, workers=2) as server:
        # What both workers are asked at once.
        errors, answers, is_done = [], [], threading.Event()
        askers = [threading.Thread(target=ask_until, args=(server, is_done, errors, answers)) for _ in range(4)]
        for each in askers:
            each.start()

        # 1. The model is replaced under load, without an error and for good.
        names = {server.get("/v1/model").json()["model"]}
        for source, wanted in ((other_file, second), (model_file, first), (other_file, second)):
            put(source, model)
            assert server.post("/v1/model/reload", None).status_code == 200
            server.wait_for(
                lambda wanted=wanted: all(
                    [
                        each["item"]
                        for each in server.get("/v1/recommendations", user=7, k=3).json()["lists"][0]["items"]
                    ]
                    == wanted
                    for _ in range(8)
                ),
                "new model",
            )
            names.add(server.get("/v1/model").json()["model"])
        assert len(names) == 2

        # 2. A broken file changes nothing, and is told of; written over in place too.
        whole = Path(model).read_bytes()
        with open(model, "r+b") as file:
            file.truncate(len(whole) // 2)
        os.kill(server.process.pid, signal.SIGHUP)
        server.wait_for(lambda: all(server.get("/v1/model").json()["problem"] for _ in range(8)), "problem")
        assert server.get("/v1/ready").status_code == 200
        assert "csrr_model_has_problem 1.0" in server.get("/metrics").text

        # 3. Workers are killed: others take their place, and serve the last good model though the file is broken.
        is_done.set()
        for each in askers:
            each.join()
        assert errors == []
        assert len(answers) > 20
        assert {tuple(each["item"] for each in one["lists"][0]["items"]) for one in answers} == {
            tuple(first),
            tuple(second),
        }
        stored = 0
        for n, pid in enumerate(server.workers()):
            for item in range(5):
                event = {"user": 7, "item": item, "time": 1000 * n + item}
                assert server.post("/v1/events", {"events": [event]}).status_code == 200
                stored += 1
            os.kill(pid, signal.SIGKILL)
            server.wait_for(lambda n=n: len(server.find("worker ready")) == 3 + n, "next worker")
        with open(model, "wb") as file:
            file.write(whole)
        server.wait_for(lambda: not server.get("/v1/model").json()["problem"], "model again")
        assert server.get("/v1/model").json()["model"] in names

        # 4. All of it is killed: every event that was acknowledged is there, and counts for the next service.
        os.killpg(server.process.pid, signal.SIGKILL)
    assert sorted(each["time"] for each in read_events(state)) == sorted(
        1000 * n + i for n in range(2) for i in range(5)
    )
    assert stored == 10


def test_requests_that_never_end_are_ended_and_the_rest_is_answered(model, tmp_path):
    with serving(model, "--state", tmp_path / "state", "--limit", "seconds=2", "--limit", "waiting=4") as server:
        heads = [
            b"GET /v1/health HTTP/1.1\r\nhost: local",
            b"POST /v1/events HTTP/1.1\r\nhost: localhost\r\n"
            b"content-type: application/json\r\ncontent-length: 9\r\n\r\n{",
            b"",
        ]
        slow = []
        for head in heads:
            one = socket.create_connection(("127.0.0.1", server.port))
            one.sendall(head)
            slow.append(one)
        assert server.get("/v1/recommendations", user=7).status_code == 200
        for one, said in zip(slow, (b"", b"HTTP/1.1 408", b""), strict=True):
            one.settimeout(30)
            assert one.recv(12) == said
            one.close()

        # Not HTTP at all, and heads that are too large.
        for data in (b"\x16\x03\x01" + bytes(100), b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000):
            with socket.create_connection(("127.0.0.1", server.port)) as one, contextlib.suppress(OSError):
                one.sendall(data)
                one.settimeout(30)
                assert one.recv(12) in (b"HTTP/1.1 400", b"HTTP/1.1 431", b"")

        # More than may wait: one connection sends many without waiting for answers, others find the service busy.
        ask = b"GET /v1/recommendations?user=7 HTTP/1.1\r\nhost: localhost\r\n\r\n"
        many = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(60)]
        os.kill(server.workers()[0], signal.SIGSTOP)
        for one in many:
            one.sendall(ask)
        os.kill(server.workers()[0], signal.SIGCONT)
        found = []
        for one in many:
            one.settimeout(30)
            found.append(one.recv(12)[-3:])
            one.close()
        assert set(found) == {b"200", b"503"}
        assert server.get("/v1/recommendations", user=7).status_code == 200
        # The end: those under way are answered.
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0


def test_it_does_not_begin_with_what_is_no_model(tmp_path):
    path = tmp_path / "model.csrr"
    path.write_bytes(b"CSRRMODL" + bytes(200))
    with (
        pytest.raises(AssertionError, match=r"it ended with 2: .*model\.csrr"),
        serving(path, "--state", tmp_path / "state"),
    ):
        pass
