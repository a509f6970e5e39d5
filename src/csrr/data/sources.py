"""Paths -> bytes: files, folders, zip archives."""

from __future__ import annotations

import difflib
import os
import zipfile
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from csrr.data.catalog import DATASETS, data_dir, locate
from csrr.data.errors import DataError, list_names, quote_error
from csrr.data.limits import find_limit
from csrr.data.unpack import DAMAGE, read_file, read_stream, strip_suffix, unpack


@dataclass(frozen=True)
class Bundle:
    """The files of a folder or a zip archive, or a file (`main`) among its neighbors.

    `members` maps a name without folders and without .gz and the like to the files that bear it.
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
        try:
            content = _read_member(self.path, files[0]) if self.zipped else read_file(Path(files[0]))
        except DataError:
            raise
        except DAMAGE as error:
            raise DataError(f"cannot read {name} in {self.path}: {quote_error(error)}") from error
        return unpack(content, name)


def open_bundle(source: str | os.PathLike[str]) -> Bundle:
    """Return the files behind a path, or behind the name of a file or data set in the data folder."""
    if not os.fspath(source):
        raise DataError("the path is empty; give a file or a folder, such as '.' for this one")
    try:
        path = _resolve(source)
        if path.is_dir():
            return Bundle(path, None, _list_folder(path), zipped=False)
        if path.suffix.lower() == ".zip":
            return Bundle(path, None, _list_zip(path), zipped=True)
    except OSError as error:
        raise DataError(f"cannot read {os.fspath(source)}: {error.strerror or error}") from error
    name = strip_suffix(path.name)
    try:
        neighbours = _list_folder(path.parent)
    except OSError:  # a file in a folder that may be entered, but not listed
        neighbours = {}
    return Bundle(path, name, neighbours | {name: (str(path),)}, zipped=False)


def _resolve(source: str | os.PathLike[str]) -> Path:
    try:
        path = Path(source).expanduser()
    except RuntimeError:
        raise DataError(
            f"{os.fspath(source)}: there is no such user on this machine; write the folder in full"
        ) from None
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
    if known and known.url:
        hint = f"; csrr.fetch({known.name!r}) downloads it"
    elif known:
        hint = f"; it cannot be downloaded: put {known.source} there"
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
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except DAMAGE as error:
        raise DataError(f"{path} is not a readable zip archive ({quote_error(error)}); get it again") from error
    real = [name for name in names if not name.endswith("/") and not name.startswith("__MACOSX")]
    return _group_by_name([(name.rpartition("/")[2], name) for name in real])


def _read_member(path: Path, name: str) -> bytes:
    with zipfile.ZipFile(path) as archive:
        entry = archive.getinfo(name)
        limit = find_limit(entry.compress_size)
        limit.check(entry.file_size, name)
        with archive.open(entry) as file:
            return read_stream(file, limit, name)
