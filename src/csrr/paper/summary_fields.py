"""Reading a summary: a part that is missing is empty, one that is of the wrong kind is an error that names it.

`where` names the part that a field belongs to, "" the summary itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from csrr.data import DataError

FORMAT = 1
Part = Mapping[str, Any]


def check_summary(summary: Any) -> None:
    """Raise a DataError unless `summary` is an object of the format that the page knows, and says how it was made."""
    if not isinstance(summary, Mapping):
        raise DataError(f"a summary is an object, not a {type(summary).__name__}; make one with csrr reproduce")
    if summary.get("format") != FORMAT:
        found = summary.get("format")
        raise DataError(f"summary: this csrr reads format {FORMAT}, not {found!r}; make it again with csrr reproduce")
    if not isinstance(summary.get("made"), Mapping):
        raise DataError("summary: 'made' is missing; it says when and with what the results were made")


def text(part: Part, name: str, default: str = "") -> str:
    """Return a field as text, `default` where it is missing or null."""
    value = part.get(name)
    return default if value is None else str(value)


def listed(part: Part, name: str, where: str) -> list[Any]:
    """Return a field that is a list, empty where it is missing or null."""
    value = part.get(name)
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        raise DataError(f"{_place(where)}: {name!r} should be a list, and is {_kind(value)}")
    return list(value)


def parts(part: Part, name: str, where: str) -> list[Part]:
    """Return a field that is a list of objects."""
    found = listed(part, name, where)
    for place, each in enumerate(found, start=1):
        if not isinstance(each, Mapping):
            raise DataError(f"{_place(where)}: {name} {place} should be an object, and is {_kind(each)}")
    return found


def mapping(part: Part, name: str, where: str) -> Part:
    """Return a field that is an object, empty where it is missing or null."""
    value = part.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise DataError(f"{_place(where)}: {name!r} should be an object, and is {_kind(value)}")
    return value


def _place(where: str) -> str:
    return f"summary, {where}" if where else "summary"


def _kind(value: Any) -> str:
    return f"{value!r:.40} ({type(value).__name__})"
