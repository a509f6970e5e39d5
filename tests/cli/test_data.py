import hashlib
import http.server
import threading
import zipfile
from dataclasses import replace

import pytest

from csrr.data.sources import DATASETS
from tests.cli.conftest import as_json, in_process


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CSRR_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def site(tmp_path):
    """Serve the folder `site` on this machine; return the folder and its address."""
    root = tmp_path / "site"
    root.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(root))

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield root, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_where(folder):
    assert as_json("data", "where") == {"folder": str(folder), "exists": False}
    assert in_process("data", "where").stdout == f"{folder}\n"


def test_list_says_what_is_here(folder):
    folder.mkdir()
    (folder / "ml-1m.zip").touch()
    rows = {row["name"]: row for row in as_json("data", "list")["data_sets"]}
    assert rows.keys() == DATASETS.keys()
    assert rows["ml-1m"]["path"] == str(folder / "ml-1m.zip")
    assert rows["ml-100k"]["path"] is None
    states = {line.split()[0]: line for line in in_process("data", "list").stdout.splitlines()}
    assert " here " in states["ml-1m"]
    assert " to fetch " in states["ml-100k"]
    assert " by hand " in states["gowalla"]
    assert DATASETS["ml-1m"].license in states["ml-1m"]


def offer(site, monkeypatch, md5=None):
    root, address = site
    with zipfile.ZipFile(root / "ml-100k.zip", "w") as archive:
        archive.writestr("ml-100k/u.data", "1\t2\t3\t4\n")
    md5 = md5 or hashlib.md5((root / "ml-100k.zip").read_bytes()).hexdigest()
    changed = replace(DATASETS["ml-100k"], url=f"{address}/ml-100k.zip", md5=md5)
    monkeypatch.setitem(DATASETS, "ml-100k", changed)


def test_fetch_downloads_once(folder, site, monkeypatch):
    offer(site, monkeypatch)
    told = as_json("data", "fetch", "ml-100k")
    assert told["path"] == str(folder / "ml-100k.zip")
    assert told["bytes"] == (site[0] / "ml-100k.zip").stat().st_size
    (site[0] / "ml-100k.zip").unlink()
    assert in_process("data", "fetch", "ml-100k").stdout.startswith(told["path"])


def test_fetch_refuses_what_has_another_checksum(folder, site, monkeypatch):
    offer(site, monkeypatch, md5="0" * 32)
    result = in_process("data", "fetch", "ml-100k")
    assert (result.exit_code, "md5" in result.stderr) == (2, True)
    assert list(folder.iterdir()) == []


def test_without_a_network_it_says_what_to_do_by_hand(folder, monkeypatch):
    unreachable = replace(DATASETS["ml-100k"], url="http://127.0.0.1:9/ml-100k.zip")
    monkeypatch.setitem(DATASETS, "ml-100k", unreachable)
    result = in_process("data", "fetch", "ml-100k")
    assert result.exit_code == 2
    assert "could not download" in result.stderr
    assert f"put it at {folder / 'ml-100k.zip'}" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(("name", "message"), [("nope", "no data set is called"), ("gowalla", "cannot be downloaded")])
def test_what_cannot_be_fetched(folder, name, message):
    result = in_process("data", "fetch", name)
    assert (result.exit_code, message in result.stderr) == (2, True)


def test_alone_it_lists():
    assert in_process("data").stdout == in_process("data", "list").stdout
    assert in_process("data", "lost").exit_code == 2
