"""Files of items: which one of an archive it is, and the names of columns where a file has none."""

from __future__ import annotations

from collections.abc import Collection

from csrr.data.errors import DataError, list_names
from csrr.data.formats import Content, guess_format, load_content, recognise
from csrr.data.limits import find_limit
from csrr.data.sources import Bundle
from csrr.data.text import parse_text

_GENRES = (
    "Unknown Action Adventure Animation Children Comedy Crime Documentary Drama Fantasy Film-Noir Horror Musical"
    " Mystery Romance Sci-Fi Thriller War Western"
)
ITEM_FILES: dict[str, tuple[str, ...] | None] = {
    "u.item": ("item", "title", "released", "video", "url", *_GENRES.split()),
    "movies.dat": ("item", "title", "genres"),
    "movies.csv": None,
    "artists.dat": None,
    "item_info.dat": None,
    **{f"items.{end}": None for end in ("csv", "tsv", "parquet", "arrow", "jsonl")},
}
"""Files that hold items, by name, and their columns where they have no header."""


def load_items(
    bundle: Bundle, member: str | None, *, separator: str | None, header: bool | None, expected: Collection[str]
) -> Content:
    """Return the content of the file of items; `expected` are the column names that were asked for."""
    name = _find_member(bundle, member)
    names = ITEM_FILES.get(name.lower())
    format = guess_format(name)
    if names is None or format != "text":
        content = load_content(bundle, format, name, separator=separator, header=header, expected={*expected, "id"})
        return Content(content.columns, content.where, content.is_text)
    table = parse_text(bundle.read(name), separator=separator, header=header, names=names, expected=expected)
    find_limit().check_rows(table.n_rows)
    return Content(table.columns, table.where, is_text=True)


def _find_member(bundle: Bundle, member: str | None) -> str:
    if member is not None:
        if (found := bundle.find(member.rpartition("/")[2])) is None:
            raise DataError(f"there is no {member}; there are {list_names(list(bundle.members)) or 'no files'}")
        return found
    if bundle.main is not None:
        return bundle.main
    known = [found for name in ITEM_FILES if (found := bundle.find(name))]
    if len(known) == 1:
        return known[0]
    try:
        return recognise(bundle, "text")[1]
    except DataError:
        names = list_names(known or list(bundle.members)) or "no files"
        raise DataError(
            f"it is not clear which file holds the items; there are {names}; name it with member='...'"
        ) from None
