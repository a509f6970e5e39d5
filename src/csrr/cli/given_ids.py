"""Ids on a command line: what they are in the model, and what its ids are like where one is unknown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import csrr
    from csrr.data import IdMap
    from csrr.data.ids import Id


def as_id(text: str, known: IdMap) -> Id:
    """Return an id as the model has it: an integer where ids are integers and `text` is one."""
    is_integer = known.ids.dtype != object and re.fullmatch(r"\s*-?[0-9]+\s*", text)
    return int(text) if is_integer else text


@contextmanager
def tell_known_ids(model: csrr.Recommender) -> Iterator[None]:
    """Say of an unknown id what those of the model are like."""
    import csrr
    from csrr.data.errors import show_value

    try:
        yield
    except csrr.UnknownIdError as error:
        kind = "item" if "unknown item" in str(error) else "user"
        ids = getattr(model, f"{kind}s_").ids
        some = ", ".join(show_value(each) for each in ids[:3].tolist())
        raise csrr.UnknownIdError(f"{error}; the model has {len(ids):,} {kind}s, such as {some}") from None


def as_ids(texts: Iterable[str], known: IdMap, *, unknown: str) -> list[Id]:
    """Return several ids of items, each given alone or, where that is no id itself, in a list with commas."""
    found: list[Id] = []
    for text in texts:
        parts = [text] if as_id(text, known) in known else [part.strip() for part in text.split(",")]
        found += [as_id(part, known) for part in parts if part]
    if unknown == "raise" and known.ids.dtype != object and (strangers := [id for id in found if isinstance(id, str)]):
        known.rows(strangers, "item")
    return found
