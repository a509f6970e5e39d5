"""The results of a reproduction: the tables, figures and claims of the page, and their JSON file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from csrr._base.text import to_plain
from csrr.data.errors import DataError
from csrr.report.charts import read_dataclass
from csrr.report.svg import Panel
from csrr_paper.results import FORMAT, Run
from csrr_paper.today import Today

Verdict = Literal["holds", "partly", "fails", "untestable"]


STANDARD = "standard NDCG@10"
"""The column beside the paper's: NDCG as it is computed today."""


@dataclass(frozen=True)
class Made:
    """The versions, the machine, the date, the command and the times behind the results."""

    python: str = ""
    csrr: str = ""
    numpy: str = ""
    scipy: str = ""
    numba: str = ""
    commit: str = ""
    machine: str = ""
    date: str = ""
    command: str = ""
    seconds: float | None = None
    quick: bool = False
    runs: list[Run] = field(default_factory=list)


@dataclass(frozen=True)
class Cell:
    """A measured mean (NaN if unknown), its interval over users, and the printed value."""

    mean: float = math.nan
    low: float | None = None
    high: float | None = None
    printed: float | None = None


@dataclass(frozen=True)
class Times:
    """Seconds of all tuning, and the mean seconds of a fit and of its evaluation."""

    tune: float = math.nan
    fit: float = math.nan
    evaluate: float = math.nan


@dataclass(frozen=True)
class CertificateFacts:
    """The certificate of the solver: the duality gap, the rank, and the status."""

    gap: float | None = None
    rank: int | None = None
    status: str = ""


@dataclass(frozen=True)
class SystemRow:
    """The results of a system by column; `params` are those of each split, or one for all."""

    system: str
    group: str = ""
    about: str = ""
    cells: dict[str, Cell] = field(default_factory=dict)
    extra: dict[str, Cell] = field(default_factory=dict)
    params: list[dict[str, Any]] = field(default_factory=list)
    tried: int | None = None
    seconds: Times | None = None
    certificate: CertificateFacts | None = None


@dataclass(frozen=True)
class PairedTest:
    """System `a` against `b` over the same users: the mean difference, its interval, p values, shares of users."""

    metric: str
    a: str
    b: str
    difference: float = math.nan
    low: float | None = None
    high: float | None = None
    p_t: float = math.nan
    p_wilcoxon: float = math.nan
    effect: float | None = None
    better: float | None = None
    worse: float | None = None
    n_users: int | None = None


@dataclass(frozen=True)
class SystemTable:
    """Systems by columns on one data set under one protocol."""

    data: str
    label: str
    protocol: str
    note: str = ""
    n_users: int | None = None
    n_items: int | None = None
    n_events: int | None = None
    splits: list[int] = field(default_factory=list)
    tuned: str = ""
    command: str = ""
    columns: list[str] = field(default_factory=list)
    rows: list[SystemRow] = field(default_factory=list)
    tests: list[PairedTest] = field(default_factory=list)

    def has_systems(self, *systems: str) -> bool:
        """Return whether there is a row for each of these."""
        return set(systems) <= {row.system for row in self.rows}

    def get_row(self, system: str) -> SystemRow:
        """Return the row of a system that is there."""
        return next(row for row in self.rows if row.system == system)

    def get_mean(self, system: str, column: str) -> float:
        """Return the measured mean in a column of the paper, or in an additional column."""
        row = self.get_row(system)
        return {**row.extra, **row.cells}[column].mean

    def compute_gain(self, column: str, over: str, system: str = "CSRR-I") -> float:
        """Return the relative difference between two systems."""
        return self.get_mean(system, column) / self.get_mean(over, column) - 1


@dataclass(frozen=True)
class ResultPanel(Panel):
    """A panel of results, on one data set under one protocol if it is a figure of the paper."""

    data: str = ""
    protocol: str = ""


@dataclass(frozen=True)
class Figure:
    """Panels with one legend, and the command that repeats them."""

    title: str
    caption: str = ""
    command: str = ""
    panels: list[ResultPanel] = field(default_factory=list)

    @classmethod
    def from_json(cls, plain: Any) -> Self:
        """Return the figure from plain values of JSON."""
        return read_dataclass(cls, plain, "figure")


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, its place, the verdict, and the evidence; `short` is its topic."""

    claim: str
    where: str
    verdict: Verdict
    evidence: str
    short: str = ""


@dataclass(frozen=True)
class MissingPart:
    """A table or figure that was not run, or not finished, and the command that runs it."""

    part: str
    command: str = ""


@dataclass(frozen=True)
class Summary:
    """All results of a reproduction, `figures` and `protocols` by name.

    `today` and `differences`, sentences on what differs from the paper, are measured apart and merged in.
    """

    made: Made
    comparison: list[SystemTable] = field(default_factory=list)
    ablation: list[SystemTable] = field(default_factory=list)
    figures: dict[str, Figure] = field(default_factory=dict)
    missing: list[MissingPart] = field(default_factory=list)
    protocols: dict[str, str] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)
    headlines: list[str] = field(default_factory=list)
    today: Today | None = None
    differences: list[str] = field(default_factory=list)

    @classmethod
    def from_json(cls, plain: Any) -> Self:
        """Return the summary from plain values of JSON; raise a DataError that names the place of a wrong value."""
        if not isinstance(plain, Mapping):
            raise DataError(f"a summary is an object, not a {type(plain).__name__}; make one with csrr reproduce")
        if plain.get("format") != FORMAT:
            found = plain.get("format")
            raise DataError(
                f"summary: this csrr reads format {FORMAT}, not {found!r}; make it again with csrr reproduce"
            )
        return read_dataclass(cls, plain, "summary")

    def to_json(self) -> dict[str, Any]:
        """Return the summary as plain values for JSON."""
        return {"format": FORMAT, **to_plain(self)}
