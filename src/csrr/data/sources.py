"""Paths -> bytes: files, folders, zip archives, gzip."""

from __future__ import annotations

import difflib
import gzip
import os
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from csrr.data.catalog import DATASETS, data_dir, locate
from csrr.data.errors import DataError

GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True)
class Bundle:
    """The files of a folder or a zip archive, or a file (`main`) among its neighbours.

    `members` maps a name without folders and without .gz to the files that bear it.
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
            raise DataError(f"{self.path} has several files called {name}: {', '.join(files)}; pass the path of one")
        try:
            if self.zipped:
                with zipfile.ZipFile(self.path) as archive:
                    content = archive.read(files[0])
            else:
                content = Path(files[0]).read_bytes()
            return gzip.decompress(content) if content.startswith(GZIP_MAGIC) else content
        except (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
            raise DataError(f"cannot read {name} in {self.path}: {error}") from error


def open_bundle(source: str | os.PathLike[str]) -> Bundle:
    """Return the files behind a path, or behind the name of a file or data set in the data folder."""
    path = _resolve(source)
    if path.is_dir():
        return Bundle(path, None, _list_folder(path), zipped=False)
    if path.suffix.lower() == ".zip":
        return Bundle(path, None, _list_zip(path), zipped=True)
    members = _list_folder(path.parent) | {_strip_gz(path.name): (str(path),)}
    return Bundle(path, _strip_gz(path.name), members, zipped=False)


def _resolve(source: str | os.PathLike[str]) -> Path:
    path = Path(source).expanduser()
    if path.exists():
        return path
    bare = path.name == str(path)
    if bare and (found := locate(str(path))) is not None:
        return found
    places = [path.parent.absolute(), *([data_dir()] if bare else [])]
    names = sorted({file.name for place in places if place.is_dir() for file in place.iterdir()})
    near = difflib.get_close_matches(path.name, names)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    known = next((data for data in DATASETS.values() if bare and str(path) in (data.name, data.file)), None)
    if known and known.url:
        hint = f"; csrr.fetch({known.name!r}) downloads it"
    elif known:
        hint = f"; it cannot be downloaded: put {known.source} there"
    raise DataError(f"there is no {path.name} in {' or '.join(str(place) for place in places)}{hint}")


def _strip_gz(name: str) -> str:
    return name[:-3] if name.lower().endswith(".gz") else name


def _group_by_name(files: list[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    members: defaultdict[str, tuple[str, ...]] = defaultdict(tuple)
    for name, file in files:
        members[_strip_gz(name)] += (file,)
    return dict(members)


def _list_folder(folder: Path) -> dict[str, tuple[str, ...]]:
    return _group_by_name([(file.name, str(file)) for file in sorted(folder.iterdir()) if file.is_file()])


def _list_zip(path: Path) -> dict[str, tuple[str, ...]]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is not a readable zip archive ({error}); get it again") from error
    real = [name for name in names if not name.endswith("/") and not name.startswith("__MACOSX")]
    return _group_by_name([(name.rpartition("/")[2], name) for name in real])
