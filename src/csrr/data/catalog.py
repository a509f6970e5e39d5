"""Public data sets: where they live on this machine and where to get them."""

from __future__ import annotations

import difflib
import hashlib
import logging
import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from csrr._base.files import atomic_write, write_text
from csrr._base.text import describe_size
from csrr.data.errors import DataError

_logger = logging.getLogger(__name__)

Progress = Callable[[int, int | None], None]
"""A function that is called with the bytes fetched so far and, if known, in total."""

TIMEOUT_SECONDS = 30
BLOCK_BYTES = 1 << 18
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
