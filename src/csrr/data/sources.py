"""Public data sets, where they live and where to get them, and paths -> bytes: files, folders, zip archives."""

from __future__ import annotations

import bz2
import difflib
import gzip
import hashlib
import io
import logging
import lzma
import os
import select
import stat
import struct
import time
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from csrr._base.files import atomic_write, write_text
from csrr._base.text import describe_size, list_names
from csrr.data.errors import DataError, reword_errors

LIMIT_VARIABLE = "CSRR_MAX_BYTES"
MEMORY_SHARE = 8
"""A file may hold this part of the memory: to make a log of a CSV file takes about eight times its size."""
UNPACKED_RATIO = 200
"""A compressed file may hold this many times its size; logs usually shrink by a factor of 3 to 50."""
LEAST_LIMIT = 1 << 28
"""The bytes that are accepted on any machine, from a compressed file of any size, and from a pipe."""
BYTES_A_ROW = 24
"""The bytes that a row counts for at least: however short the text, the log needs numbers for it."""
UNKNOWN_MEMORY = 8 << 30

LONGEST_LINE = 1 << 24
"""The most bytes of a line of columns."""
MOST_COLUMNS = 10_000

_CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@dataclass(frozen=True)
class ByteLimit:
    """The most bytes that a file may hold once unpacked, and the reason."""

    n_bytes: int
    reason: str

    def check(self, n_bytes: int, what: str = "the file") -> None:
        """Raise an error where `n_bytes` are too many."""
        if n_bytes > self.n_bytes:
            raise DataError(
                f"{what} holds more than {describe_size(self.n_bytes)}, {self.reason};"
                f" if that is intended, set the environment variable {LIMIT_VARIABLE} to more bytes"
            )

    def check_rows(self, n_rows: int, what: str = "the file") -> None:
        """Raise an error where there are too many rows."""
        if BYTES_A_ROW * n_rows > self.n_bytes:
            about = f"{what} has {n_rows:,} rows, which count for {BYTES_A_ROW} bytes each: it"
            self.check(BYTES_A_ROW * n_rows, about)


def choose_limit(packed: int | None = None, *, of_pipe: bool = False) -> ByteLimit:
    """Return how many bytes a file or a pipe may hold; `packed` is the size of a file that is packed."""
    if given := os.environ.get(LIMIT_VARIABLE, "").strip():
        with suppress(ValueError, OverflowError):
            if (size := int(float(given))) >= 1:
                return ByteLimit(size, f"the limit that {LIMIT_VARIABLE} sets")
        raise DataError(f"{LIMIT_VARIABLE}={given!r} is not a number of bytes; write it like 8e9, or leave it unset")
    if of_pipe:
        return ByteLimit(LEAST_LIMIT, "the limit for a pipe, which does not tell its size (write a file instead)")
    most = max(measure_memory() // MEMORY_SHARE, LEAST_LIMIT)
    if packed is not None and packed * UNPACKED_RATIO < most:
        return ByteLimit(
            max(packed * UNPACKED_RATIO, LEAST_LIMIT), f"more than {UNPACKED_RATIO} times its compressed size"
        )
    return ByteLimit(most, "an eighth of this machine's memory")


def measure_memory() -> int:
    """Return the bytes of memory that this process may have, as far as the system tells."""
    sizes = [UNKNOWN_MEMORY]
    with suppress(AttributeError, ValueError, OSError):
        sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for file in _CONTAINER_LIMITS:
        with suppress(OSError, ValueError):  # no container, or "max"
            sizes.append(int(Path(file).read_text()))
    return min(size for size in sizes if size > 0)


BLOCK_BYTES = 1 << 20
PIPE_SECONDS = 10.0
"""The time to wait for the first writer of a pipe."""

DAMAGE = (
    OSError,
    EOFError,
    RuntimeError,  # of zipfile: a password is needed; NotImplementedError: an unknown way of packing
    ValueError,  # UnicodeDecodeError among them
    LookupError,
    MemoryError,  # a header that asks for more than there is
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)
"""The errors that the libraries for compressed files raise on damaged bytes."""

_OPENERS: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": lambda file: pa.CompressedInputStream(file, "zstd"),
}
SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
"""How the names of packed files end."""


def read_file(path: Path) -> bytes:
    """Return the bytes of a file or a pipe."""
    about = path.stat()
    if stat.S_ISFIFO(about.st_mode):
        return _read_pipe(path, choose_limit(of_pipe=True))
    if not stat.S_ISREG(about.st_mode):
        raise DataError(f"{path.name} is a device, which may have no end; give a file or a pipe")
    limit = choose_limit()
    limit.check(about.st_size, path.name)
    with path.open("rb") as file:
        # All at once: joining blocks would take twice the memory.
        return file.read(about.st_size) + read_stream(file, limit, path.name)


def read_stream(file: Any, limit: ByteLimit, what: str) -> bytes:
    """Return the rest of a file, unless it is more than the limit."""
    blocks, size = [], 0
    while block := file.read(BLOCK_BYTES):
        blocks.append(block)
        size += len(block)
        limit.check(size, what)
    return blocks[0] if len(blocks) == 1 else b"".join(blocks)


def unpack(content: bytes, what: str) -> bytes:
    """Return gzip, bzip2, xz and zstd unpacked, and anything else as it is; `what` names it in errors."""
    opener = _find_opener(content)
    if opener is None:
        return content
    limit = choose_limit(len(content))
    damaged = reword_errors((*DAMAGE, pa.ArrowException), f"cannot read {what}", "; the file is damaged, get it again")
    with damaged, opener(io.BytesIO(content)) as file:
        unpacked = read_stream(file, limit, what)
    if _find_opener(unpacked) is not None:
        raise DataError(f"{what} is compressed more than once; decompress it first")
    return unpacked


def strip_suffix(name: str) -> str:
    """Return a name without .gz and the like."""
    return name.rpartition(".")[0] if name.lower().endswith(SUFFIXES) else name


def _find_opener(content: bytes) -> Callable[[IO[bytes]], Any] | None:
    if content.startswith(b"BZh") and not content[4:].startswith((b"1AY&SY", b"\x17rE8P\x90")):
        return None  # text may begin so
    return next((opener for magic, opener in _OPENERS.items() if content.startswith(magic)), None)


def _read_pipe(path: Path, limit: ByteLimit) -> bytes:
    """Return all that comes through a pipe; once it is open, its writer may take any time."""
    # Without O_NONBLOCK, opening a pipe would wait for a writer forever.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as file:
        events, first, end = select.poll(), b"", time.monotonic() + PIPE_SECONDS
        events.register(file, select.POLLIN)
        while not first and not events.poll(50):
            try:
                first = os.read(file.fileno(), BLOCK_BYTES)
            except BlockingIOError:  # there is a writer, who has not written yet
                break
            if not first and time.monotonic() > end:
                raise DataError(
                    f"{path.name}: nobody has written to this pipe for {PIPE_SECONDS:.0f} seconds; start the writer"
                )
        os.set_blocking(file.fileno(), True)
        return first + read_stream(file, limit, path.name)


@dataclass(frozen=True)
class FileSet:
    """The files of a folder or a zip archive, or a file (`main`) among its neighbors.

    `members` maps a name, without folders and without endings such as .gz, to the files of that name.
    """

    path: Path
    main: str | None
    members: Mapping[str, tuple[str, ...]]
    zipped: bool

    def find(self, name: str) -> str | None:
        """Return the member called `name`, upper and lower case alike, or None."""
        return next((member for member in self.members if member.lower() == name.lower()), None)

    def read(self, name: str) -> bytes:
        """Return the content of the member `name`, unpacked."""
        files = self.members[name]
        if len(files) > 1:
            raise DataError(f"{self.path} has several files called {name}: {list_names(files)}; pass the path of one")
        with reword_errors(DAMAGE, f"cannot read {name} in {self.path}"):
            content = _read_member(self.path, files[0]) if self.zipped else read_file(Path(files[0]))
        return unpack(content, name)


def open_files(source: str | os.PathLike[str]) -> FileSet:
    """Return the files behind a path, or behind the name of a file or data set in the data folder."""
    if not os.fspath(source):
        raise DataError("the path is empty; give a file or a folder, such as '.' for this one")
    try:
        path = _resolve(source)
        if path.is_dir():
            return FileSet(path, None, _list_folder(path), zipped=False)
        if path.suffix.lower() == ".zip":
            return FileSet(path, None, _list_zip(path), zipped=True)
    except OSError as error:
        raise DataError(f"cannot read {os.fspath(source)}: {error.strerror or error}") from error
    name, neighbors = strip_suffix(path.name), {}
    with suppress(OSError):  # a file in a folder that may be entered, but not listed
        neighbors = _list_folder(path.parent)
    return FileSet(path, name, neighbors | {name: (str(path),)}, zipped=False)


def _resolve(source: str | os.PathLike[str]) -> Path:
    try:
        path = Path(source).expanduser()
    except RuntimeError:
        raise DataError(f"{os.fspath(source)}: there is no such user here; write the folder in full") from None
    if path.exists():
        return path
    bare = path.name == str(path)
    if bare and (found := locate(str(path))) is not None:
        return found
    places = [path.parent.absolute(), *([data_dir()] if bare else [])]
    names = sorted({file.name for place in places if place.is_dir() for file in place.iterdir()})
    near = difflib.get_close_matches(path.name, names, cutoff=0.8)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    known = next((data for data in DATASETS.values() if bare and str(path) in (data.name, data.file)), None)
    if known:
        hint = f"; {known.how_to_get}"
    raise DataError(f"there is no {path.name} in {' or '.join(str(place) for place in places)}{hint}")


def _group_by_name(files: list[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    members: defaultdict[str, list[str]] = defaultdict(list)
    for name, file in files:
        members[strip_suffix(name)].append(file)
    return {name: tuple(found) for name, found in members.items()}


def _list_folder(folder: Path) -> dict[str, tuple[str, ...]]:
    return _group_by_name([(file.name, str(file)) for file in sorted(folder.iterdir()) if file.is_file()])


def _list_zip(path: Path) -> dict[str, tuple[str, ...]]:
    if not path.is_file():
        raise DataError(f"{path} is a pipe or a device; a zip archive must be a file")
    with (
        reword_errors(DAMAGE, f"{path} is not a readable zip archive", "; get it again"),
        zipfile.ZipFile(path) as file,
    ):
        names = file.namelist()
    real = [name for name in names if not name.endswith("/") and not name.startswith("__MACOSX")]
    return _group_by_name([(name.rpartition("/")[2], name) for name in real])


def _read_member(path: Path, name: str) -> bytes:
    with zipfile.ZipFile(path) as archive:
        entry = archive.getinfo(name)
        limit = choose_limit(entry.compress_size)
        limit.check(entry.file_size, name)
        with archive.open(entry) as file:
            return read_stream(file, limit, name)


_logger = logging.getLogger(__name__)

Progress = Callable[[int, int | None], None]
"""A function that is called with the bytes fetched so far and, if known, in total."""

TIMEOUT_SECONDS = 30
MOST_BYTES = 4 << 30
"""No data set is larger; a server that sends more is stopped."""


@dataclass(frozen=True)
class Dataset:
    """A public data set: its archive, and `url` where it can be fetched.

    `md5` is what its publishers print: it finds damage, not malice. No publisher prints a SHA-256; `fetch` keeps that
    of the first download, and takes nothing else afterwards.
    """

    name: str
    file: str
    description: str
    license: str
    url: str | None = None
    md5: str | None = None
    source: str = ""

    @property
    def how_to_get(self) -> str:
        """How to get the archive, in words."""
        fetched = f"`csrr data fetch {self.name}` downloads it, or csrr.fetch({self.name!r})"
        return fetched if self.url else f"it cannot be downloaded: put {self.source} there"


def _movielens(name: str, description: str, md5: str | None = None) -> Dataset:
    return Dataset(
        name,
        f"{name}.zip",
        description,
        "GroupLens terms: research use, no redistribution, no commercial use without permission",
        url=f"https://files.grouplens.org/datasets/movielens/{name}.zip",
        md5=md5,
        source="https://grouplens.org/datasets/movielens/",
    )


DATASETS: dict[str, Dataset] = {
    data.name: data
    for data in (
        _movielens("ml-100k", "100,000 ratings of 1,682 movies", "0e33842e24a9c977be4e0107933c0723"),
        _movielens("ml-1m", "1,000,209 ratings of 3,706 movies", "c4d9eecfca2ab87c1945afe126590906"),
        _movielens("ml-20m", "20,000,263 ratings of 26,744 movies", "cd245b17a1ae2cc31bb14903e1204af3"),
        _movielens("ml-latest-small", "about 100,000 recent ratings; changes over time"),
        Dataset(
            "gowalla",
            "gowalla.zip",
            "1,027,370 check-ins, split into train.txt and test.txt as in the LightGCN paper",
            "as stated by its publishers; research use",
            source="the folder Data/gowalla of https://github.com/gusye1234/LightGCN-PyTorch, zipped",
        ),
        Dataset(
            "eachmovie",
            "eachmovie-heavy.zip",
            "1,009,402 scores of the heavy raters of EachMovie",
            "withdrawn from distribution in 2004",
            source="a copy of your own",
        ),
        Dataset(
            "lastfm",
            "hetrec2011-lastfm-2k.zip",
            "92,834 play counts of 17,632 artists",
            "HetRec 2011 terms: research use",
            source="https://grouplens.org/datasets/hetrec-2011/",
        ),
    )
}


def data_dir() -> Path:
    """Return the folder of data sets: CSRR_DATA_DIR, or csrr in the user's cache folder; it may not exist.

    Returns
    -------
    folder
        Its path.

    Examples
    --------
    >>> (csrr.data_dir() / "ml-100k.zip").name
    'ml-100k.zip'
    """
    if chosen := os.environ.get("CSRR_DATA_DIR"):
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "csrr"


def locate(name: str) -> Path | None:
    """Return where a data set or file is in `data_dir`.

    Parameters
    ----------
    name
        The name of a data set in `DATASETS`, zipped or unpacked, or of a file.

    Returns
    -------
    path
        Its path, or None if it is not there.

    Examples
    --------
    >>> csrr.locate("no such data") is None
    True
    """
    known = DATASETS.get(name)
    names = [known.file, known.file.removesuffix(".zip"), name] if known else [name]
    return next((path for path in (data_dir() / each for each in names) if path.exists()), None)


def fetch(name: str, *, progress: Progress | None = None) -> Path:
    """Return the path of a data set in `data_dir`, downloading and checking it first if it is not there.

    Parameters
    ----------
    name
        One of `DATASETS`.
    progress
        Called with the bytes downloaded so far and, if known, in total.

    Returns
    -------
    path
        The path of the data set.

    Raises
    ------
    DataError
        If it is not known, may not be downloaded, or could not be; nothing that failed a check is kept. The SHA-256
        of the first download is kept beside it; a later one must have the same.

    Examples
    --------
    >>> csrr.read(csrr.fetch("ml-100k"), min_rating=4)  # doctest: +SKIP
    Log: 942 users x 1,447 items, 55,375 events (4.1 %), titles, times
    user 'user', item 'item', rating 'rating', time 'timestamp'; ratings from 4 on count
    >>> csrr.fetch("ml-100")
    Traceback (most recent call last):
    csrr.data.errors.DataError: no data set is called 'ml-100'; known are ml-100k, ...
    """
    if (found := locate(name)) is not None:
        return found
    if name not in DATASETS:
        near = difflib.get_close_matches(name, DATASETS, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise DataError(f"no data set is called {name!r}; known are {', '.join(DATASETS)}{hint}")
    data = DATASETS[name]
    target = data_dir() / data.file
    if data.url is None:
        raise DataError(f"{name} cannot be downloaded ({data.license}); put {data.source} at {target}")
    from http.client import HTTPException
    from urllib.error import HTTPError

    _logger.info("downloading %s (%s)", data.url, data.license)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(target) as file:
            md5, sha256 = _download(data.url, file, progress)
            if data.md5 not in (None, md5):
                what = f"has the md5 {md5}, not the published {data.md5}; nothing was kept, try again"
                raise DataError(f"{data.url} {what}")
            if not zipfile.is_zipfile(file):
                raise DataError(f"{data.url} did not answer with a zip archive; nothing was kept, try again later")
            _pin(data, target, sha256)
    except DataError:
        raise
    except (OSError, HTTPException, ValueError) as error:  # ValueError: an invalid address or header
        if isinstance(error, HTTPError):
            error.close()
        raise DataError(
            f"could not download {data.url} ({getattr(error, 'reason', None) or error});"
            f" get it by hand from {data.source} and put it at {target}"
        ) from error
    return target


def _download(url: str, file: IO[bytes], progress: Progress | None) -> tuple[str, str]:
    """Return the md5 and the SHA-256 of the content of `url`, written to `file`."""
    import urllib.request

    digests = hashlib.md5(usedforsecurity=False), hashlib.sha256()
    # The addresses are those of DATASETS; no user gives one.
    if not url.startswith(("https://", "http://")):
        raise ValueError(f"{url} is not a URL to download from")
    with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
        length = answer.headers.get("Content-Length") or ""
        total, done = int(length) if length.isascii() and length.isdigit() else None, 0
        while block := answer.read(BLOCK_BYTES):
            file.write(block)
            for digest in digests:
                digest.update(block)
            done += len(block)
            if done > MOST_BYTES:
                raise OSError(f"the server sends more than {describe_size(MOST_BYTES)}")
            if progress is not None:
                progress(done, total)
    if total is not None and done < total:
        raise OSError(f"the connection ended after {done:,} of {total:,} bytes")
    return digests[0].hexdigest(), digests[1].hexdigest()


def _pin(data: Dataset, target: Path, sha256: str) -> None:
    """Keep the SHA-256 of the first download, as sha256sum writes it, and raise an error where a later one differs."""
    pin = target.with_name(f"{target.name}.sha256")
    first = pin.read_text().split()[:1] if pin.exists() else []
    if first and first != [sha256]:
        raise DataError(
            f"{data.url} has the SHA-256 {sha256}, not {first[0]} as at the first download;"
            f" nothing was kept; if its publishers have changed it, delete {pin}"
        )
    if not first:
        write_text(pin, f"{sha256}  {target.name}\n")
