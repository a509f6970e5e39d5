"""Dataclasses from the plain values of JSON, checked, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from csrr.data import DataError

T = TypeVar("T")
_SCALARS: dict[Any, tuple[type, str]] = {
    str: (str, "text"),
    bool: (bool, "true or false"),
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
}


def read_dataclass(kind: type[T], value: Any, where: str) -> T:
    """Return a dataclass from plain values; `where` names them in errors.

    A missing value and null mean the default of the field. Names without a field are ignored.
    """
    given = _check(value, Mapping, "an object", where)
    found = {}
    for name, (hint, required) in _list_fields(cast(Any, kind)).items():
        if (own := given.get(name)) is not None:
            found[name] = _read(hint, own, f"{where}, {name}")
        elif required:
            raise DataError(f"{where}: {name!r} is missing")
    return kind(**found)


def write_plain(value: Any) -> Any:
    """Return dataclasses as plain values, with None for numbers that are not finite."""
    if is_dataclass(value):
        return {each.name: write_plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {name: write_plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [write_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@cache
def _list_fields(kind: Any) -> dict[str, tuple[Any, bool]]:
    """Return the type of each field by name, and whether a value must be given."""
    hints = get_type_hints(kind)
    return {
        each.name: (hints[each.name], each.default is MISSING and each.default_factory is MISSING)
        for each in fields(kind)
    }


def _read(hint: Any, value: Any, where: str) -> Any:
    if is_dataclass(hint) and isinstance(hint, type):
        return read_dataclass(hint, value, where)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is UnionType:
        (hint,) = (each for each in arguments if each is not NoneType)
        return _read(hint, value, where)
    if origin is list:
        several = _check(value, list | tuple, "a list", where)
        return [_read(arguments[0], each, f"{where} {place}") for place, each in enumerate(several, start=1)]
    if origin is dict:
        named = _check(value, Mapping, "an object", where)
        return {str(name): _read(arguments[1], each, f"{where}, {name}") for name, each in named.items()}
    if origin is Literal:
        if value not in arguments:
            raise DataError(f"{where}: {value!r} is none of {', '.join(arguments)}")
        return value
    return hint(_check(value, *_SCALARS[hint], where)) if hint in _SCALARS else value


def _check(value: Any, kinds: Any, words: str, where: str) -> Any:
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
        raise DataError(f"{where}: it should be {words}, and is {value!r:.40} ({type(value).__name__})")
    return value
