"""`csrr.plot`: results and arrays as plots, each a whole SVG document."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from html import escape
from importlib.resources import files
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Protocol, TypeVar, cast, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from csrr._base.files import write_text
from csrr.data.errors import DataError
from csrr.parameters import ParameterError
from csrr.report.svg import Chart, Panel, PanelKind, Point, Series, draw_marker, draw_panel, list_series_names

SUFFIXES = (".svg", ".html")
MARGIN, GAP, LINE = 20, 28, 19
LEAST_WIDTH, WIDE = 480, 600
"""The least width of a plot, and the width of charts that do not stand beside each other."""
CHARACTER = 8.2
"""The width of a character of 13 px, rounded up: fonts differ."""


class Plottable(Protocol):
    """A result that can be drawn: panels as plain objects with the fields of `Panel`, a title and a caption.

    `plot_title`, if there is one, takes the place of a `title` that means something else.
    """

    @property
    def title(self) -> str:
        """The title."""

    @property
    def caption(self) -> str:
        """A sentence on what the panels show."""

    @property
    def panels(self) -> list[dict[str, Any]]:
        """The panels."""


@dataclass(frozen=True, repr=False)
class Plot:
    """A drawn plot.

    Attributes
    ----------
    title
        Its title.
    svg
        A whole SVG document; a notebook shows it.

    Examples
    --------
    >>> class Costs:
    ...     title, caption = "Costs", "What a miss costs."
    ...     panels = [{"x": "ratio", "y": "cost", "series": [{"name": "CSRR", "points": [{"x": 1, "mean": 2}]}]}]
    >>> drawn = csrr.plot(Costs())
    >>> drawn.save("costs.html")
    >>> drawn
    Plot: Costs; save(path) writes it as .svg or .html
    """

    title: str
    svg: str

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plot to a file, atomically.

        Parameters
        ----------
        path
            A file ending in .svg, or in .html for a page.

        Raises
        ------
        ParameterError
            For another extension.
        """
        ending = Path(path).suffix.lower()
        if ending not in SUFFIXES:
            raise ParameterError(f"{path}: a plot is written as .svg or .html; end the name in one of the two")
        before, after = read_file("plot.html").split("{svg}")
        page = f"{before.replace('{title}', escape(self.title))}{self.svg}{after}"
        write_text(path, self.svg if ending == ".svg" else page)

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"Plot: {self.title}; save(path) writes it as .svg or .html"


def plot(what: Plottable, path: str | os.PathLike[str] | None = None) -> Plot:
    """Draw a result of csrr as SVG, and return the plot.

    Parameters
    ----------
    what
        A result of csrr, such as a cost curve, or anything that has a `title`, a `caption` and `panels`.
    path
        A file to write it to, ending in .svg or .html; None for none.

    Returns
    -------
    plot
        The plot, whose `svg` is a whole SVG document.

    Raises
    ------
    ParameterError
        If it cannot be drawn, or the file has another extension.

    Examples
    --------
    >>> class Costs:
    ...     title, caption = "Costs", "What a miss costs."
    ...     panels = [{"x": "ratio", "y": "cost", "series": [{"name": "CSRR", "points": [{"x": 1, "mean": 2}]}]}]
    >>> csrr.plot(Costs(), "costs.svg").svg[:4]
    '<svg'
    """
    if lacking := [name for name in ("title", "caption", "panels") if not hasattr(what, name)]:
        raise ParameterError(f"a {type(what).__name__} cannot be plotted: it has no {' and no '.join(lacking)}")
    panels = [read_dataclass(Panel, each, f"panel {place}") for place, each in enumerate(what.panels, start=1)]
    drawn = _draw(getattr(what, "plot_title", what.title), what.caption, panels)
    if path is not None:
        drawn.save(path)
    return drawn


def _draw(title: str, caption: str, panels: Sequence[Panel]) -> Plot:
    names = list_series_names(panels)
    charts = [(panel.title, draw_panel(panel, names, alone=len(panels) == 1)) for panel in panels]
    kind = panels[0].kind if panels else "lines"
    return Plot(title, draw_document(title, charts, names, caption, kind))


def draw_document(
    title: str,
    charts: Sequence[tuple[str, Chart]],
    names: Sequence[str],
    caption: str = "",
    kind: PanelKind = "lines",
    *,
    in_page: bool = False,
) -> str:
    """Return charts, each under its title if there are several, with a legend, as an SVG document in light colors.

    With `in_page`, the page has the title, and a single series has a legend too.
    """
    widest = max((chart.size[0] for _, chart in charts), default=0)
    columns = 2 if len(charts) > 1 and widest < WIDE else 1
    width = max(LEAST_WIDTH, columns * widest + (columns - 1) * GAP + 2 * MARGIN)
    parts, y = _draw_words("" if in_page else title, "title", MARGIN + 12, width, 1.4)
    if len(names) > 1 or in_page:
        legend, y = _draw_legend(names, y, width, kind)
        parts += legend
    for first in range(0, len(charts), columns):
        y += GAP / 2 if first else 0
        row = charts[first : first + columns]
        x = (width - sum(chart.size[0] for _, chart in charts[:columns]) - (columns - 1) * GAP) / 2
        top = y + (LINE if len(charts) > 1 else 0)
        for name, (svg, (wide, high)) in row:
            if len(charts) > 1:
                parts.append(f'<text x="{x + 4:g}" y="{y + 10:g}" class="heading">{escape(name)}</text>')
            parts.append(_place(svg, x, top, f'width="{wide:g}" height="{high:g}" '))
            x += wide + GAP
        y = top + max(chart.size[1] for _, chart in row)
    words, y = _draw_words(caption, "caption", y + LINE, width)
    height, sheet = y - LINE + MARGIN, read_file("colors.css")
    colors = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", sheet[: sheet.index("@media")]))
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="csrr-plot" viewBox="0 0 {width:g} {height:g}"'
        f' width="{width:g}" height="{height:g}" role="img" aria-label="{escape(title)}">'
        f"<style>\n{read_file('plot.css')}</style>"
        f'<rect width="{width:g}" height="{height:g}" fill="var(--page)"/>{"".join([*parts, *words])}</svg>\n'
    )
    return re.sub(r"var\(--([\w-]+)\)", lambda found: colors.get(found[1], found[0]), svg)


def _draw_words(words: str, kind: str, y: float, width: float, size: float = 1) -> tuple[list[str], float]:
    """Return lines of text from `y` on, broken to the width, and the place of the next line."""
    lines = textwrap.wrap(words, int((width - 2 * MARGIN) / (CHARACTER * size)))
    found = [
        f'<text x="{MARGIN}" y="{y + place * LINE * size:g}" class="{kind}">{escape(line)}</text>'
        for place, line in enumerate(lines)
    ]
    return found, y + len(lines) * LINE * size


def _draw_legend(names: Sequence[str], y: float, width: float, kind: PanelKind) -> tuple[list[str], float]:
    """Return a marker and a name for each series, in rows from `y` on, and the place of the next row."""
    found, x = [], float(MARGIN)
    for place, name in enumerate(names):
        room = 32 + CHARACTER * len(name) + 14
        if x > MARGIN and x + room > width - MARGIN:
            x, y = float(MARGIN), y + LINE
        found.append(_place(draw_marker(place, kind), x, y - 10))
        found.append(f'<text x="{x + 32:g}" y="{y:g}" class="name">{escape(name)}</text>')
        x += room
    return found, y + LINE


def _place(svg: str, x: float, y: float, size: str = "") -> str:
    """Return an SVG element with a place in another one, and with a size."""
    return svg.replace("<svg ", f'<svg {size}x="{x:g}" y="{y:g}" ', 1)


@cache
def read_file(name: str) -> str:
    """Return a file of this package: plot.html, colors.css, or page.css or plot.css, which use these colors."""
    return files("csrr.report").joinpath(name).read_text("utf-8")


def plot_lines(
    lines: Mapping[str, Sequence[npt.ArrayLike]],
    *,
    title: str = "",
    x: str = "",
    y: str = "",
    caption: str = "",
    log: bool = False,
) -> Plot:
    """Return lines through points, drawn.

    Parameters
    ----------
    lines
        By name, the values of x and of y, shape (n,) each; after them, if known, the lower and the upper ends of the
        intervals of y. A value that is not finite leaves its point out.
    title
        What the plot is of.
    x, y
        The labels of the axes.
    caption
        What to know of it.
    log
        Whether x is on a log scale.

    Returns
    -------
    plot
        A notebook shows it, `save` writes it to a file.

    Raises
    ------
    ParameterError
        For a line that has no y, or arrays that are not of numbers or not of one length.

    Examples
    --------
    >>> csrr.plot_lines({"CSRR": ([1, 2, 4], [0.1, 0.2, 0.3])}, title="NDCG by rank", x="rank", y="NDCG@10")
    Plot: NDCG by rank; save(path) writes it as .svg or .html
    """
    series = []
    for name, columns in lines.items():
        if len(columns) not in (2, 4):
            raise ParameterError(f"lines: {name!r} needs x and y, or x, y, low and high; it has {len(columns)} of them")
        numbers = _read_columns(f"lines: {name!r}", columns)
        series.append(Series(str(name), [Point(*row) for row in numbers.tolist()]))
    return _draw(title, caption, [Panel(title, x, y, log, series)])


def plot_points(
    points: Mapping[str, npt.ArrayLike],
    *,
    labels: Mapping[str, Sequence[str | None]] | None = None,
    title: str = "",
    x: str = "",
    y: str = "",
    caption: str = "",
) -> Plot:
    """Return points on a plane, drawn: a color and a shape for each group.

    Parameters
    ----------
    points
        The places of each group's points by its name, shape (n, 2). A place that is not finite leaves its point out.
    labels
        Texts beside the points of some groups, equally many; None for a point without. Each is drawn where there is
        room for it; where a plot is shown in a browser, pointing at a point tells it in any case.
    title
        What the plot is of.
    x, y
        The labels of the axes. Without both the plot is a map: one scale for both directions, and no axes.
    caption
        What to know of it.

    Returns
    -------
    plot
        A notebook shows it, `save` writes it to a file.

    Raises
    ------
    ParameterError
        For points that are not pairs of numbers, or labels that do not go with them.

    Examples
    --------
    >>> csrr.plot_points({"jazz": [[0, 0], [1, 2]]}, labels={"jazz": ["jazz 1", None]}, title="A map")
    Plot: A map; save(path) writes it as .svg or .html
    """
    series, named = [], dict(labels or {})
    if strange := [name for name in named if name not in points]:
        raise ParameterError(f"labels: there are no points of {strange[0]!r}; there are {', '.join(map(str, points))}")
    for name, places in points.items():
        numbers = np.asarray(places)
        if numbers.ndim != 2 or numbers.shape[1] != 2:
            raise ParameterError(f"points: {name!r} must be pairs, shape (n, 2), and has shape {numbers.shape}")
        numbers = _read_columns(f"points: {name!r}", list(numbers.T))
        texts = named.get(name, [None] * len(numbers))
        if len(texts) != len(numbers):
            raise ParameterError(f"labels: {name!r} has {len(texts)} labels for {len(numbers)} points")
        pairs = zip(numbers.tolist(), texts, strict=True)
        drawn = [Point(across, up, label="" if text is None else str(text)) for (across, up), text in pairs]
        series.append(Series(str(name), drawn))
    return _draw(title, caption, [Panel(title, x, y, series=series, kind="points")])


def _read_columns(where: str, columns: Sequence[npt.ArrayLike]) -> npt.NDArray[np.float64]:
    """Return columns of one length side by side, shape (n, number of columns)."""
    try:
        read = [np.asarray(each, np.float64) for each in columns]
    except (TypeError, ValueError):
        raise ParameterError(f"{where} holds something that is no number") from None
    if any(each.ndim != 1 for each in read) or len({len(each) for each in read}) > 1:
        raise ParameterError(f"{where} has shapes {', '.join(str(each.shape) for each in read)}; give one length")
    return np.stack(read, axis=1)


# Panels from plain values

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
