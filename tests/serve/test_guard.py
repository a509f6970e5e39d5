"""Keys, names of hosts, rates; and pages that cannot be made to do harm."""

import json
import stat

import pytest

from csrr.data.errors import DataError
from csrr.serve import guard as module
from csrr.serve.guard import Guard, Limits, Refusal, add_key, read_keys

ASK = {"user": 7, "k": 3}
EVENT = {"events": [{"user": 7, "item": 3}]}


def bearer(key):
    return {"authorization": f"Bearer {key}"}


def test_a_key_opens_what_it_is_for(make_client, model_file, tmp_path):
    keys = tmp_path / "keys.json"
    read, write = add_key(keys, "site", ["read"]), add_key(keys, "shop", ["write"])
    client = make_client(model_file, keys=keys)
    for headers, status in (({}, 401), (bearer("csrr_wrong"), 401), (bearer(""), 401), ({"authorization": read}, 401)):
        assert client.post("/v1/recommendations", ASK, **headers)[0] == status
    assert client.headers["www-authenticate"] == "Bearer"
    assert client.post("/v1/recommendations", ASK, **bearer(read))[0] == 200
    assert client.post("/v1/recommendations", ASK, **bearer(write))[0] == 403
    assert client.post("/v1/events", EVENT, **bearer(read))[0] == 403
    assert client.post("/v1/events", EVENT, **bearer(write))[0] == 200
    assert client.post("/v1/model/reload", None, **bearer(read))[0] == 403
    assert client.ask("GET", "/metrics")[0] == 401
    assert client.ask("GET", "/v1/health")[0] == 200


def test_a_new_key_counts_without_a_restart(tmp_path):
    guard = Guard(tmp_path / "keys.json")
    assert guard.admit("read", {b"host": b"localhost:80"}, "") is None
    key = add_key(tmp_path / "keys.json", "late", ["read"])
    guard.refresh()
    with pytest.raises(Refusal):
        guard.admit("read", {b"host": b"localhost:80"}, "")
    assert guard.admit("read", {b"authorization": f"bearer {key}".encode()}, "") == "late"


def test_a_file_of_keys_that_is_lost_opens_nothing(tmp_path):
    path, guards = tmp_path / "keys.json", []
    guards.append(Guard(path, None, needs_key=True))
    add_key(path, "site", ["read"])
    guards.append(Guard(path, None))
    path.unlink()
    for guard in guards:
        guard.refresh()
        with pytest.raises(Refusal) as refused:
            guard.admit("read", {}, "")
        assert refused.value.status == 401


def test_only_hashes_are_kept_and_only_for_the_owner(tmp_path):
    path = tmp_path / "state" / "keys.json"
    key = add_key(path, "site", ["read"])
    assert key not in path.read_text()
    assert key.removeprefix("csrr_") not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_keys(path)[0].hash != key
    with pytest.raises(DataError, match="already"):
        add_key(path, "site", ["write"])


@pytest.mark.parametrize(
    "text", ["{", "[1]", '[{"name": "a"}]', '[{"name": "a", "hash": "", "rights": ["x"], "made": 0}]']
)
def test_a_file_that_holds_no_keys_opens_nothing(tmp_path, text):
    (tmp_path / "keys.json").write_text(text)
    with pytest.raises(DataError):
        Guard(tmp_path / "keys.json")


def test_all_keys_are_compared_in_constant_time(tmp_path, monkeypatch):
    compared = []
    monkeypatch.setattr(module.hmac, "compare_digest", lambda a, b: compared.append(b) or a == b)
    keys = [add_key(tmp_path / "keys.json", str(n), ["read"]) for n in range(3)]
    Guard(tmp_path / "keys.json").admit("read", {b"authorization": f"Bearer {keys[0]}".encode()}, "")
    assert len(compared) == 3


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [("localhost:1", True), ("127.0.0.1", True), ("[::1]:80", True), ("evil.example", False), ("", False)],
)
def test_a_page_elsewhere_cannot_ask_in_the_name_of_this_host(tmp_path, host, is_ours):
    guard = Guard(tmp_path / "keys.json")
    if is_ours:
        guard.admit("write", {b"host": host.encode()}, "")
    else:
        with pytest.raises(Refusal, match="own name"):
            guard.admit("write", {b"host": host.encode()}, "")


@pytest.mark.parametrize(
    ("origin", "is_ours"),
    [("http://localhost:1", True), ("http://localhost:2", False), ("https://evil.example", False), ("null", False)],
)
def test_a_page_of_another_host_cannot_send_events(tmp_path, origin, is_ours):
    guard, headers = Guard(tmp_path / "keys.json"), {b"host": b"localhost:1", b"origin": origin.encode()}
    if is_ours:
        guard.admit("write", headers, "")
    else:
        with pytest.raises(Refusal, match="other hosts"):
            guard.admit("write", headers, "")


def test_rates_are_of_each(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    guard, refused = Guard(tmp_path / "keys.json", None, 2.0), []

    def count(address):
        for n in range(9):
            try:
                guard.admit("read", {}, address)
            except Refusal as error:
                refused.append((error.status, error.headers["retry-after"]))
                return n
        return None

    assert [count("a"), count("b"), count("a")] == [2, 2, 0]
    now[0] = 0.5
    assert count("a") == 1
    now[0] = 100
    assert count("a") == 2
    assert set(refused) == {(429, "1")}


def test_answers_are_no_pages(client):
    client.get("/v1/recommendations", user=7)
    assert client.headers["content-type"] == "application/json"
    assert client.headers["x-content-type-options"] == "nosniff"
    assert client.headers["cache-control"] == "no-store"
    for path in ("/v1/<script>alert(1)</script>", "/v1/similar/items"):
        client.get(path, id="<script>")
        assert client.headers["content-type"] == "application/json"


def test_files_of_pages_allow_no_script_in_them(tmp_path, make_client, model_file):
    from csrr.serve.routes import read_static

    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "index.html").write_text("<p>")
    (tmp_path / "page" / "code.js").write_text("1")
    (tmp_path / "page" / "__init__.py").write_text("1")
    client = make_client(model_file)
    client.app.static = read_static(tmp_path / "page", "/ui")
    assert set(client.app.static) == {"/ui", "/ui/", "/ui/index.html", "/ui/code.js"}
    status, _ = client.get("/ui/")
    policy = client.headers["content-security-policy"]
    assert (status, "unsafe" in policy, "default-src 'none'" in policy) == (200, False, True)
    tag = client.headers["etag"]
    assert client.ask("GET", "/ui/", headers={"if-none-match": tag})[0] == 304


def test_nothing_of_a_person_is_logged(make_client, model_file, caplog):
    client = make_client(model_file, limits=Limits(history=1))
    client.post("/v1/recommendations", {"history": [1, 2]})
    client.get("/v1/similar/users", id="anna.smith@example.com")
    client.app.events.append = None
    client.post("/v1/events", {"events": [{"session": "anna.smith@example.com", "item": 3}]})
    assert "a request failed" in caplog.text
    assert "anna" not in json.dumps([record.getMessage() for record in caplog.records])
    assert "anna" not in caplog.text
