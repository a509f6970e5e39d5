"""The results under noise as tables and curves, and the gain from V."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from csrr._base.arrays import to_pandas
from csrr._base.text import format_html_table, format_html_words, to_plain
from csrr.data.synthetic import NOISE_KINDS
from csrr.evaluation.statistics import compare_paired, compute_mean_interval, correct_holm
from csrr.parameters import ParameterError
from csrr.report.svg import Panel, Point, Series
from csrr.results.table import format_text_table
from csrr_paper.results import Result, ResultsError, ResultStore
from csrr_paper.systems import CSRR_AS_IT_COMES, CSRR_WITH_V, CSRR_WITHOUT_V, NOISE_SYSTEMS

if TYPE_CHECKING:
    import pandas as pd

RATIO = 0.8
"""The share of each user's events in the training part."""
OVERLAP = (1 - RATIO) / RATIO
"""Test events for each training event, for errors over splits (`compute_error`)."""

METRIC, CLEAN, HITS, AUC = "ndcg@10", "clean ndcg@10", "target hits", "auc, "
"""Names of means in a result; the name of a detector follows the last one."""

TITLES = {
    "random": "Random clicks",
    "accidental": "Accidental clicks",
    "popular": "Clicks on popular items",
    "crawler": "Crawlers",
    "push": "A push of one item",
}
SHARE = "planted share of the training log"


@dataclass(frozen=True)
class NoisyResult:
    """A result: a system under a share of a kind of noise (None: none) in one split.

    `clean_ndcg` is what the system reaches when it is fitted without the noise and asked for the same items: those
    that neither the user nor the noise has clicked for them. `target_hits` is the share of genuine users with the
    target of a push among their ten best, `aucs` how well each detector finds the planted events.
    """

    kind: str | None
    share: float
    seed: int
    system: str
    ndcg: float
    clean_ndcg: float
    target_hits: float | None
    aucs: dict[str, float]
    params: dict[str, Any]
    seconds: float

    @classmethod
    def from_result(cls, kept: Result) -> NoisyResult:
        """Return the result from a saved one."""
        task, means = kept.task, kept.means
        return cls(
            task.params["kind"],
            task.params["share"],
            task.split,
            task.system,
            means[METRIC],
            means[CLEAN],
            means.get(HITS),
            {name.removeprefix(AUC): value for name, value in means.items() if name.startswith(AUC)},
            kept.model["params"],
            sum(kept.seconds.values()),
        )

    @property
    def kept(self) -> float | None:
        """The share of `clean_ndcg` that is left; None if `clean_ndcg` is 0."""
        return self.ndcg / self.clean_ndcg if self.clean_ndcg else None


Value = Callable[[NoisyResult], float | None]


@dataclass(frozen=True, eq=False, repr=False)
class Robustness:
    """All results, and the curves of them; intervals are 95 % ones of the mean over splits, by Student's t.

    Attributes
    ----------
    lines
        A result for each system, noise and split.
    about
        The data, in words.

    Examples
    --------
    >>> log = csrr.synthetic(60, 40, events_per_user=10).log
    >>> found = csrr_paper.robustness(log, kinds=["random"], shares=[0.2], systems=["EASE"], seeds=1)
    >>> found.kinds, found.systems, found.to_arrow().num_rows
    (['random'], ['EASE'], 2)
    """

    lines: list[NoisyResult]
    about: str = ""

    @classmethod
    def of(cls, results: Iterable[Result]) -> Robustness:
        """Return what results that were kept say.

        Parameters
        ----------
        results
            Those of one log.

        Returns
        -------
        results
            A line for each.
        """
        results = list(results)
        clean = next(each.size for each in results if each.task.params["kind"] is None)
        seeds = sorted({each.task.split for each in results})
        about = (
            f"Data: {clean['users']:,} users x {clean['items']:,} items, {clean['events']:,} training events without"
            f" noise; splits with the seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}."
        )
        return cls([NoisyResult.from_result(each) for each in results], about)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Robustness:
        """Return the results that `robustness` kept.

        Parameters
        ----------
        folder
            Where it kept them.

        Returns
        -------
        results
            Those of the systems as they are now.

        Raises
        ------
        ResultsError
            Where there are none, or those of several logs.
        """
        found = [each for each in ResultStore(Path(folder)).read_all() if CLEAN in each.means]
        tried = {name: system.describe_search() for name, system in NOISE_SYSTEMS.items()}
        current = [each for each in found if each.task.params["tried"] == tried.get(each.task.system)]
        if not current:
            raise ResultsError(f"{folder}: it holds no results of csrr robustness, of this version's systems")
        if len({each.task.data for each in current}) > 1:
            raise ResultsError(f"{folder}: it holds results of several logs; give each a folder of its own")
        order = list(NOISE_SYSTEMS)
        return cls.of(sorted(current, key=lambda each: (order.index(each.task.system), each.task.split)))

    @classmethod
    def from_arrow(cls, table: pa.Table) -> Robustness:
        """Return the results of a table that `to_arrow` made.

        Parameters
        ----------
        table
            The table.

        Returns
        -------
        results
            A line for each row.
        """
        names = [name for name in table.column_names if name.startswith(AUC)]
        lines = []
        for row in table.to_pylist():
            aucs = {name.removeprefix(AUC): row[name] for name in names if row[name] is not None}
            facts = {each.name: row[each.name] for each in fields(NoisyResult) if each.name in row}
            lines.append(NoisyResult(**facts | {"aucs": aucs, "params": json.loads(row["params"])}))
        return cls(lines, (table.schema.metadata or {}).get(b"about", b"").decode())

    @property
    def kinds(self) -> list[str]:
        """The kinds of noise."""
        found = {line.kind for line in self.lines}
        return [kind for kind in NOISE_KINDS if kind in found]

    @property
    def shares(self) -> list[float]:
        """The shares of noise above 0."""
        return sorted({line.share for line in self.lines if line.kind is not None})

    @property
    def systems(self) -> list[str]:
        """The systems."""
        return list(dict.fromkeys(line.system for line in self.lines))

    @property
    def detectors(self) -> list[str]:
        """The ways to find planted events."""
        return list(dict.fromkeys(name for line in self.lines for name in line.aucs))

    # What csrr.plot draws

    @property
    def title(self) -> str:
        """The title of the first figure."""
        return WORDS["robustness"][0]

    @property
    def caption(self) -> str:
        """The caption of the first figure."""
        return f"{WORDS['robustness'][1]} {self.about}"

    @property
    def panels(self) -> list[dict[str, Any]]:
        """The panels of the first figure: NDCG@10 against the share, a panel a kind of noise."""
        found: list[dict[str, Any]] = self.figures()["robustness"]["panels"]
        return found

    def figures(self) -> dict[str, dict[str, Any]]:
        """Return the figures by name; those without points are left out.

        Returns
        -------
        figures
            Title, caption, command and panels of each, as plain values that the page can show.
        """
        return {
            name: {
                "title": WORDS[name][0],
                "caption": f"{WORDS[name][1]} {self.about}",
                "command": "csrr robustness LOG",
                "panels": to_plain(panels),
            }
            for name, panels in self._draw_figures().items()
        }

    def _draw_figures(self) -> dict[str, list[Panel]]:
        """Return the panels of each figure that has points: a line a system, or a detector that asks CSRR's model."""

        def read_auc(name: str) -> Value:
            return lambda line: line.aucs.get(name)

        def draw(y: str, value: Value) -> list[Panel]:
            return self._draw_panels(y, {SHOWN_NAMES.get(system, system): (system, value) for system in self.systems})

        asked = {name: (CSRR_WITH_V, read_auc(name)) for name in self.detectors}
        found = {
            "robustness": draw("NDCG@10 on clean test data", lambda line: line.ndcg),
            "kept": draw("share of NDCG@10 kept", lambda line: line.kept),
            "detection": self._draw_panels("AUC, planted against genuine", asked),
            "push": draw("users with the target in their ten best", lambda line: line.target_hits),
        }
        return {name: panels for name, panels in found.items() if panels}

    def _draw_panels(self, y: str, lines: dict[str, tuple[str, Value]]) -> list[Panel]:
        """Return a panel a kind that has points; `lines` are, by name, the system and what is drawn of its results."""
        panels = []
        for kind in self.kinds:
            series = [Series(name, self._average(kind, *each)) for name, each in lines.items()]
            drawn = [each for each in series if any(point.x for point in each.points)]
            panels += [Panel(TITLES[kind], SHARE, y, False, drawn)] if drawn else []
        return panels

    def _average(self, kind: str, system: str, value: Value) -> list[Point]:
        """Return the means over splits of a value at each share, no noise first."""
        points = []
        for share in (0.0, *self.shares):
            values = [each for line in self._select(kind, share, system) if (each := value(line)) is not None]
            if values:
                low, high = (None if np.isnan(end) else end for end in compute_mean_interval(values, overlap=OVERLAP))
                points.append(Point(share, float(np.mean(values)), low, high, splits=len(values)))
        return points

    def _select(self, kind: str | None, share: float, system: str) -> list[NoisyResult]:
        """Return the lines of a system, one a split in their order; without noise there is no kind."""
        wanted = (kind if share else None, share, system)
        found = [line for line in self.lines if (line.kind, line.share, line.system) == wanted]
        return sorted(found, key=lambda line: line.seed)

    # Tables

    def worth_of_v(self) -> pa.Table:
        """Return what V adds to NDCG@10: CSRR minus CSRR without V, both tuned, by a paired t test over the splits.

        Splits share training events, so the test is Nadeau and Bengio's; `t_p_holm` is corrected over all rows.

        Returns
        -------
        table
            A row without noise, then for each kind one a share and one over the means of these (share null).

        Raises
        ------
        ParameterError
            Where one of the two systems is missing, or a second split.
        """
        if not {CSRR_WITH_V, CSRR_WITHOUT_V} <= set(self.systems):
            raise ParameterError(f"what V is worth takes the systems {CSRR_WITH_V!r} and {CSRR_WITHOUT_V!r}")
        if not self._can_pair:
            raise ParameterError("what V is worth takes at least two splits; give seeds of 2 or more")
        compared: list[tuple[str | None, float | None, Any]] = [(None, 0.0, self._collect_pair(None, [0.0]))]
        for kind in self.kinds:
            compared += [(kind, share, self._collect_pair(kind, [share])) for share in self.shares]
            compared.append((kind, None, self._collect_pair(kind, self.shares)))
        names = ("n", "mean", "mean_against", "difference", "low", "high", "t_p", "better", "worse")
        rows = []
        for which, share_or_all, pair in compared:
            if len(pair[0]) < 2:
                continue
            test = compare_paired(*pair, overlap=OVERLAP)
            rows.append({"kind": which, "share": share_or_all, **{name: getattr(test, name) for name in names}})
        corrected = correct_holm([row["t_p"] for row in rows]).tolist()
        return pa.Table.from_pylist([row | {"t_p_holm": p} for row, p in zip(rows, corrected, strict=True)])

    def _collect_pair(self, kind: str | None, shares: Sequence[float]) -> list[list[float]]:
        """Return NDCG@10 with V and without, a mean over shares for every split that has all of them."""
        found = [
            [{line.seed: line.ndcg for line in self._select(kind, share, system)} for share in shares]
            for system in (CSRR_WITH_V, CSRR_WITHOUT_V)
        ]
        seeds = sorted(set.intersection(*(set(each) for system in found for each in system)))
        return [[float(np.mean([each[seed] for each in system])) for seed in seeds] for system in found]

    def to_arrow(self) -> pa.Table:
        """Return a table of the results.

        Returns
        -------
        table
            A row for each; the parameters that were chosen are JSON.
        """
        rows = []
        for line in self.lines:
            facts = {name: value for name, value in vars(line).items() if name not in ("aucs", "params")}
            found = {f"{AUC}{name}": line.aucs.get(name) for name in self.detectors}
            rows.append({**facts, "kept": line.kept, **found, "params": json.dumps(line.params)})
        return pa.Table.from_pylist(rows).replace_schema_metadata({"about": self.about})

    def to_frame(self) -> pd.DataFrame:
        """Return the table of `to_arrow` as a pandas DataFrame.

        Returns
        -------
        frame
            The table.
        """
        return to_pandas(self.to_arrow())

    def summary(self) -> dict[str, Any]:
        """Return the figures, and what V is worth where that can be said.

        Returns
        -------
        values
            Plain values for JSON.
        """
        return {"figures": self.figures(), "worth_of_v": self.worth_of_v().to_pylist() if self._can_pair else []}

    @property
    def _can_pair(self) -> bool:
        return {CSRR_WITH_V, CSRR_WITHOUT_V} <= set(self.systems) and len({line.seed for line in self.lines}) > 1

    def _heading(self) -> str:
        n_splits = len({line.seed for line in self.lines})
        return f"Robustness: {n_splits} split{'s' if n_splits > 1 else ''}, {len(self.lines)} results"

    def _list_tables(self) -> list[tuple[str, list[str], list[list[Any]]]]:
        """Return the tables that people read: the words above, the header and the lines of each."""
        found = [(panels[0].y, *_make_curve_table(panels)) for panels in self._draw_figures().values()]
        if self._can_pair:
            words = f"{CSRR_WITH_V} - {CSRR_WITHOUT_V}, NDCG@10, 95 % interval over splits"
            found.append((words, *_make_worth_table(self.worth_of_v())))
        return found

    def __repr__(self) -> str:
        tables = [f"{words}\n{format_text_table(header, lines)}" for words, header, lines in self._list_tables()]
        return "\n\n".join([self._heading(), *tables])

    def _repr_html_(self) -> str:
        tables = [
            f"{format_html_words(words)}\n{format_html_table(header, lines)}"
            for words, header, lines in self._list_tables()
        ]
        return "\n".join([format_html_words(self._heading()), *tables])


def _make_curve_table(panels: Sequence[Panel]) -> tuple[list[str], list[list[Any]]]:
    """Return the header and lines of a table of the means: a line a panel and share, a column a series."""
    lines = []
    for panel in panels:
        means = [{point.x: point.mean for point in each.points} for each in panel.series]
        places = sorted({x for each in means for x in each})
        lines += [[panel.title, f"{x:.0%}", *(each.get(x) for each in means)] for x in places]
    return ["noise", "share", *(each.name for each in panels[0].series)], lines


def _make_worth_table(table: pa.Table) -> tuple[list[str], list[list[Any]]]:
    lines = [
        [
            "No noise" if row["kind"] is None else TITLES[row["kind"]],
            "all" if row["share"] is None else f"{row['share']:.0%}",
            f"{row['difference']:+.4f}",
            f"{row['low']:+.4f} to {row['high']:+.4f}",
            f"{row['t_p']:.4f}",
            f"{row['t_p_holm']:.4f}",
        ]
        for row in table.to_pylist()
    ]
    return ["noise", "share", "difference", "interval", "t p", "Holm"], lines


SHOWN_NAMES = {CSRR_AS_IT_COMES: "CSRR()"}
"""The labels of systems in figures, if they differ from their names."""
WORDS = {
    "robustness": (
        "Noise in the training data",
        "NDCG@10 on clean test data when a share of the training log is planted noise. Every system is tuned on"
        " validation data held out of the noisy log; CSRR() has its default settings. Clicked items, noise included,"
        " are not recommended. Noise among genuine users thus leaves fewer wrong items to recommend, which raises the"
        " curves, most of all for clicks on popular items. The share of NDCG@10 kept is free of this effect.",
    ),
    "kept": (
        "NDCG@10 kept under noise",
        "NDCG@10 as a share of what the same system reaches among the same items when it is fitted without noise.",
    ),
    "detection": (
        "Detecting the noise",
        "AUC: how often a planted event gets a higher noise score than a genuine one, by the tuned CSRR and by rules"
        " that use counts alone. 0.5 is chance; below it, genuine events get the higher scores.",
    ),
    "push": (
        "Success of a push attack",
        "The share of genuine users, of those without the pushed item, who get it among their ten recommendations.",
    ),
}
"""The title and the caption of each figure."""
