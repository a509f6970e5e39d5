import gc
import hashlib
import io
import threading
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from csrr.data.errors import DataError
from csrr.data.read import read
from csrr.data.sources import DATASETS, data_dir, fetch, locate


def archive():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr(zipfile.ZipInfo("ml-100k/u.data"), "1\t10\t5\t7\n")
    return buffer.getvalue()


ARCHIVE = archive()
MD5 = hashlib.md5(ARCHIVE).hexdigest()
SHA256 = hashlib.sha256(ARCHIVE).hexdigest()
OTHER = ARCHIVE + b"more"
LENGTHS = {
    "/short.zip": str(len(ARCHIVE) + 10),
    "/word.zip": "many",
    "/negative.zip": "-5",
    "/huge.zip": "9" * 5000,
    "/signs.zip": "\u00b2",
}
REDIRECTS = {
    "/moved.zip": "/good.zip",
    "/loop.zip": "/loop.zip",
    "/file.zip": "file:///etc/passwd",
    "/broken.zip": "http://[::1/x.zip",
    "/port.zip": "http://127.0.0.1:99999/x.zip",
    "/blank.zip": "http://127.0.0.1:1/a b\x7f.zip",
}
"""What a server may say of itself and should not."""


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path in REDIRECTS:
            self.send_response(302)
            self.send_header("Location", REDIRECTS[self.path])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        content = {"/page.zip": b"<html>", "/other.zip": OTHER, "/missing.zip": None}.get(self.path, ARCHIVE)
        self.send_response(404 if content is None else 200)
        if self.path in LENGTHS:
            self.send_header("Content-Length", LENGTHS[self.path])
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a data folder that does not exist yet."""
    path = tmp_path / "deep" / "data"
    monkeypatch.setenv("CSRR_DATA_DIR", str(path))
    return path


@pytest.fixture
def serve(server, folder, monkeypatch):
    """Return a function that lets ml-100k come from a path of the local server."""

    def at(path, md5=MD5):
        data = replace(DATASETS["ml-100k"], url=server + path, md5=md5)
        monkeypatch.setitem(DATASETS, "ml-100k", data)

    return at


def test_the_data_dir_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CSRR_DATA_DIR", "~/mine")
    assert data_dir() == tmp_path / "mine"
    monkeypatch.delenv("CSRR_DATA_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_dir() == tmp_path / "cache" / "csrr"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert data_dir() == tmp_path / ".cache" / "csrr"


def test_locate_finds_archives_folders_and_files(folder):
    assert locate("ml-1m") is None
    (folder / "ml-1m").mkdir(parents=True)
    assert locate("ml-1m") == folder / "ml-1m"
    (folder / "ml-1m.zip").touch()
    (folder / "mine.csv").touch()
    assert locate("ml-1m") == folder / "ml-1m.zip"
    assert locate("mine.csv") == folder / "mine.csv"
    assert locate("other.csv") is None


def test_fetch_downloads_once_and_reports_progress(serve, folder):
    serve("/good.zip")
    calls = []
    path = fetch("ml-100k", progress=lambda done, total: calls.append((done, total)))
    assert path == folder / "ml-100k.zip"
    assert path.read_bytes() == ARCHIVE
    assert sorted(file.name for file in folder.iterdir()) == ["ml-100k.zip", "ml-100k.zip.sha256"]
    assert calls[-1] == (len(ARCHIVE), len(ARCHIVE))
    serve("/missing.zip")
    assert fetch("ml-100k") == path
    assert len(read("ml-100k")) == 1


def test_an_archive_without_a_published_checksum_is_only_checked_to_be_one(serve):
    serve("/good.zip", md5=None)
    assert fetch("ml-100k").exists()


@pytest.mark.parametrize(
    ("path", "md5", "words"),
    [
        ("/good.zip", "0" * 32, f"has the md5 {MD5}, not the published {'0' * 32}"),
        ("/page.zip", None, "did not answer with a zip archive"),
        *((path, None, "could not download") for path in ("/short.zip", "/huge.zip")),
        *((path, None, "could not download") for path in REDIRECTS if path != "/moved.zip"),
        ("/missing.zip", MD5, "(Not Found); get it by hand from https://grouplens.org/datasets/movielens/"),
    ],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_failed_download_leaves_nothing_behind(serve, folder, path, md5, words):
    serve(path, md5)
    with pytest.raises(DataError) as caught:
        fetch("ml-100k")
    assert words in str(caught.value)
    del caught
    gc.collect()  # urllib leaves a socket open where a redirection leads to no address
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("path", ["/word.zip", "/negative.zip", "/signs.zip", "/moved.zip"])
def test_a_length_that_is_none_is_not_believed(serve, folder, path):
    serve(path)
    assert fetch("ml-100k").read_bytes() == ARCHIVE


def test_the_first_download_is_pinned_by_its_sha256(serve, folder):
    serve("/good.zip")
    fetch("ml-100k").unlink()
    pin = folder / "ml-100k.zip.sha256"
    assert pin.read_text() == f"{SHA256}  ml-100k.zip\n"
    serve("/other.zip", md5=None)
    with pytest.raises(DataError, match=f"not {SHA256} as at the first download; .* delete {pin}"):
        fetch("ml-100k")
    assert list(folder.iterdir()) == [pin]
    pin.unlink()
    assert fetch("ml-100k").read_bytes() == OTHER


def test_a_server_that_does_not_stop_is_stopped(serve, folder, monkeypatch):
    monkeypatch.setattr("csrr.data.sources.MOST_BYTES", 50)
    serve("/good.zip")
    with pytest.raises(DataError, match="the server sends more than 50 bytes"):
        fetch("ml-100k")
    assert list(folder.iterdir()) == []


def test_without_a_network_the_error_says_what_to_do(folder, monkeypatch):
    monkeypatch.setitem(DATASETS, "ml-100k", replace(DATASETS["ml-100k"], url="http://127.0.0.1:1/x.zip"))
    with pytest.raises(DataError, match=rf"could not download http://127.0.0.1:1/x.zip .* put it at {folder}"):
        fetch("ml-100k")


def test_a_data_dir_that_cannot_be_made(serve, folder):
    folder.parent.touch()
    serve("/good.zip")
    with pytest.raises(DataError, match="could not download"):
        fetch("ml-100k")


def test_what_cannot_be_downloaded_says_where_to_put_it(folder):
    with pytest.raises(DataError, match=rf"gowalla cannot be downloaded .* at {folder / 'gowalla.zip'}"):
        fetch("gowalla")
    with pytest.raises(DataError, match="no data set is called 'ml-2m'; known are ml-100k, ml-1m"):
        fetch("ml-2m")


def test_every_data_set_can_be_had_somehow():
    for name, data in DATASETS.items():
        assert data.name == name
        assert data.source
        assert data.license
        assert data.url is None or data.url.endswith(Path(data.file).name)
