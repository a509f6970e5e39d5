"""Arrays of one's own, drawn: lines, and points on a plane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from csrr.parameters import ParameterError
from csrr.plots.panels import PanelKind
from csrr.plots.plot import Plot, plot


class _Drawing(NamedTuple):
    """What `plot` draws."""

    title: str
    caption: str
    panels: list[dict[str, Any]]


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
        keys = ("x", "mean", "low", "high")[: len(columns)]
        series.append({"name": str(name), "points": [dict(zip(keys, row, strict=True)) for row in numbers.tolist()]})
    return _plot(series, "lines", title, x, y, caption, log)


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
        found = [{"x": across, "mean": up, "label": text} for (across, up), text in pairs]
        series.append({"name": str(name), "points": found})
    return _plot(series, "points", title, x, y, caption)


def _plot(
    series: list[dict[str, Any]], kind: PanelKind, title: str, x: str, y: str, caption: str, log: bool = False
) -> Plot:
    panel = {"title": title, "x": x, "y": y, "log": log, "series": series, "kind": kind}
    return plot(_Drawing(title, caption, [panel]))


def _read_columns(where: str, columns: Sequence[npt.ArrayLike]) -> npt.NDArray[np.float64]:
    """Return columns of one length side by side, shape (n, number of columns)."""
    try:
        read = [np.asarray(each, np.float64) for each in columns]
    except (TypeError, ValueError):
        raise ParameterError(f"{where} holds something that is no number") from None
    if any(each.ndim != 1 for each in read) or len({len(each) for each in read}) > 1:
        raise ParameterError(
            f"{where} has arrays of shapes {', '.join(str(each.shape) for each in read)}; give one length"
        )
    return np.stack(read, axis=1)
