"""Evaluations of several models on the same users -> one table, a row a model, the best of each column marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from csrr.data import DataError
from csrr.experiments.compare import LOWER_IS_BETTER
from csrr.experiments.evaluate import Evaluation
from csrr.parameters import ParameterError
from csrr.ranking.result_table import ResultTable, TabularResult
from csrr.ranking.text_tables import BestColumns, format_text_table


@dataclass(frozen=True, eq=False, repr=False)
class EvaluationTable(TabularResult):
    """Metrics of several models in one table; the best of each column has a star, or is bold in LaTeX and HTML.

    Attributes
    ----------
    evaluations
        The evaluations by the names of the models.
    metrics
        The names of the means that are shown.

    Examples
    --------
    >>> train, test = csrr.split(csrr.synthetic(100, 40, events_per_user=10).log)
    >>> models = {"popular": csrr.PopRank(), "ease": csrr.EASE(10)}
    >>> found = {name: csrr.evaluate(model.fit(train), train, test) for name, model in models.items()}
    >>> print(csrr.tabulate(found, ["recall@5", "ndcg@5"]).to_latex().splitlines()[2])
    model & recall@5 & ndcg@5 \\\\
    """

    evaluations: Mapping[str, Evaluation]
    metrics: tuple[str, ...]

    @property
    def best(self) -> dict[str, Any]:
        """What is best in each column: "max", or "min" for a cost."""
        return {name: "min" if name in LOWER_IS_BETTER else "max" for name in self.metrics}

    def table(self) -> ResultTable:
        """Return the means as a table.

        Returns
        -------
        table
            A row for each model: its name, then the metrics.
        """
        means = {name: [each[name] for each in self.evaluations.values()] for name in self.metrics}
        return ResultTable.from_lists({"model": list(self.evaluations), **means})

    def to_html(self, *, best: BestColumns | None = None) -> str:
        """Return the table as HTML.

        Parameters
        ----------
        best
            As for `to_latex`.

        Returns
        -------
        text
            Numbers to four digits, long texts cut, all escaped.
        """
        return super().to_html(best=self.best if best is None else best)

    def to_latex(self, *, best: BestColumns | None = None) -> str:
        r"""Return the table as a LaTeX tabular, for a document with \usepackage{booktabs}.

        Parameters
        ----------
        best
            The columns in which the best number is bold, each "max" or "min"; default: all; {}: none.

        Returns
        -------
        text
            Numbers to four digits, all else escaped.
        """
        return super().to_latex(best=self.best if best is None else best)

    def _heading(self) -> str:
        first = next(iter(self.evaluations.values()))
        return f"Evaluations: means over {first.n_users:,} users"

    def _best_columns(self) -> BestColumns:
        return self.best

    def __repr__(self) -> str:
        shown = {name: [f"{mean:.4f}" for mean in self.table()[name].tolist()] for name in self.metrics}
        best = {
            name: f"{(max if end == 'max' else min)(self.table()[name].tolist()):.4f}"
            for name, end in self.best.items()
        }
        lines = [
            [model, *(f"{shown[name][row]}{'*' if shown[name][row] == best[name] else ' '}" for name in self.metrics)]
            for row, model in enumerate(self.evaluations)
        ]
        return f"{self._heading()}; * the best of a column\n{format_text_table(['model', *self.metrics], lines)}"

    # For csrr.plot

    @property
    def title(self) -> str:
        """What the plot is of."""
        return f"Models by {self.metrics[0]}" if len(self.metrics) == 1 else "Models side by side"

    @property
    def caption(self) -> str:
        """What to know of the plot."""
        first = next(iter(self.evaluations.values()))
        return f"Means over {first.n_users:,} users; lines are 95 % intervals of the means, not of differences."

    @property
    def panels(self) -> list[dict[str, Any]]:
        """The charts: for each metric a bar for each model."""
        charts = []
        for metric in self.metrics:
            points = []
            for model, each in self.evaluations.items():
                low, high = each.interval(metric)
                points.append({"label": model, "mean": each[metric], "low": low, "high": high})
            series = [{"name": "mean", "points": points}]
            charts.append({"title": metric, "x": "model", "y": metric, "kind": "bars", "series": series})
        return charts


def tabulate(evaluations: Mapping[str, Evaluation], metrics: Sequence[str] | None = None) -> EvaluationTable:
    """Return evaluations of several models as one table.

    Parameters
    ----------
    evaluations
        Evaluations by name, of the same users.
    metrics
        The metrics to show, such as "ndcg@10"; default: all that every evaluation has.

    Returns
    -------
    table
        The table; it converts to LaTeX, pandas and JSON.

    Raises
    ------
    ParameterError
        If there is no evaluation, or one lacks a metric.
    DataError
        If they are of different users.

    Examples
    --------
    >>> train, test = csrr.split(csrr.synthetic(100, 40, events_per_user=10).log)
    >>> models = {"popular": csrr.PopRank(), "ease": csrr.EASE(10)}
    >>> found = {name: csrr.evaluate(model.fit(train), train, test) for name, model in models.items()}
    >>> list(csrr.tabulate(found, ["ndcg@5"]).to_arrow().column_names)
    ['model', 'ndcg@5']
    """
    if not evaluations:
        raise ParameterError("tabulate needs an evaluation: pass a dict of a name and an evaluation each")
    first_name, first = next(iter(evaluations.items()))
    shared = [name for name in first.means if all(name in each.means for each in evaluations.values())]
    names = tuple(shared if metrics is None else dict.fromkeys(metrics))
    for model, each in evaluations.items():
        if missing := [name for name in names if name not in each.means]:
            raise ParameterError(f"metrics: {model} has no {missing[0]!r}; it has {', '.join(each.means)}")
        if set(each.users.tolist()) != set(first.users.tolist()):
            raise DataError(
                f"{first_name} and {model} are evaluated on different users ({first.n_users:,} and {each.n_users:,});"
                " evaluate both with the same train and test"
            )
    if not names:
        raise ParameterError("metrics: the evaluations have no metric in common")
    return EvaluationTable(dict(evaluations), names)
