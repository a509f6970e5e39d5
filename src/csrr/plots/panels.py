"""What a chart shows: a panel of series of points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

PanelKind = Literal["lines", "points", "bars"]
"""Points joined by lines; points alone; or a bar for each point, from 0 to its mean."""


@dataclass(frozen=True)
class Point:
    """A mean at `x`, its interval, and what else is worth knowing; a point whose place is not known is not drawn.

    `label` is written beside a point that stands alone, where there is room, and before a bar. `splits` is how many
    splits of the data the mean is of, where it is of any.
    """

    x: float = math.nan
    mean: float = math.nan
    low: float | None = None
    high: float | None = None
    note: str = ""
    splits: int | None = None
    label: str = ""

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of the interval, both the mean where it has none."""
        if self.low is None or self.high is None or not math.isfinite(self.low + self.high):
            return self.mean, self.mean
        return self.low, self.high


@dataclass(frozen=True)
class Series:
    """A line of a chart."""

    name: str = ""
    points: list[Point] = field(default_factory=list)

    def select_drawn(self) -> list[Point]:
        """Return the points that have a place, by x."""
        drawn = [point for point in self.points if math.isfinite(point.x) and math.isfinite(point.mean)]
        return sorted(drawn, key=lambda point: point.x)


@dataclass(frozen=True)
class Panel:
    """One chart: its title, the labels of its axes and its series; with `log`, x is on a log scale.

    Bars lie one below the other, a row for each label of a point: `x` says what the rows are, `y` what the lengths.
    """

    title: str = ""
    x: str = ""
    y: str = ""
    log: bool = False
    series: list[Series] = field(default_factory=list)
    kind: PanelKind = field(default="lines", kw_only=True)


@dataclass(frozen=True)
class DotRow:
    """A line of a dot chart: what it is of, and a point with its interval for each series, by name."""

    label: str
    points: dict[str, Point]


def list_series_names(panels: Sequence[Panel]) -> list[str]:
    """Return the names of all series of some panels, each once, in the order they come."""
    return list(dict.fromkeys(each.name for panel in panels for each in panel.series))
