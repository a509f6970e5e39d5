"""Evaluations of several models on the same users -> paired tests, and one table with a row for each model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from csrr._base.arrays import Float64Array
from csrr._base.text import find_best
from csrr.data.errors import DataError
from csrr.evaluation.evaluate import Evaluation
from csrr.evaluation.statistics import PairedTest, compare_paired, correct_holm
from csrr.parameters import ParameterError
from csrr.results.table import BestColumns, ResultTable, TabularResult, format_text_table

LOWER_IS_BETTER = ("cost",)


@dataclass(frozen=True)
class ComparedPair:
    """A model against another.

    Attributes
    ----------
    model, against
        Their names.
    paired
        How they differ.
    t_p_holm, wilcoxon_p_holm
        The p-values, corrected by Holm over all pairs.
    """

    model: str
    against: str
    paired: PairedTest
    t_p_holm: float
    wilcoxon_p_holm: float

    def to_dict(self) -> dict[str, Any]:
        """Return the pair as one flat dict.

        Returns
        -------
        values
            Names, differences and p-values, by name.
        """
        names = {"model": self.model, "against": self.against}
        return names | asdict(self.paired) | {"t_p_holm": self.t_p_holm, "wilcoxon_p_holm": self.wilcoxon_p_holm}


@dataclass(frozen=True, repr=False)
class Comparison(TabularResult):
    """Paired tests of models on one metric.

    Attributes
    ----------
    metric
        The metric.
    rows
        A test for each pair, over all users.
    with_history
        The same tests over the users with training events alone, if some have none; else None. Those without get the
        same popular items from every model: their differences are 0, and say nothing of the models.

    Examples
    --------
    >>> train, test = csrr.split(csrr.synthetic(100, 40, events_per_user=10).log)
    >>> models = {"popular": csrr.PopRank(), "ease": csrr.EASE()}
    >>> found = csrr.compare({name: csrr.evaluate(model.fit(train), train, test) for name, model in models.items()})
    >>> found.rows[0].paired.n
    100
    """

    metric: str
    rows: list[ComparedPair]
    with_history: Comparison | None = None

    def summary(self) -> dict[str, Any]:
        """Return everything as plain Python values, ready for JSON.

        Returns
        -------
        summary
            The metric, and one dict per row; `with_history`, if some users have no history.
        """
        apart = {} if self.with_history is None else {"with_history": self.with_history.summary()}
        return {"metric": self.metric, "rows": [row.to_dict() for row in self.rows]} | apart

    def table(self) -> ResultTable:
        """Return the tests as a table.

        Returns
        -------
        table
            A row for each pair: model, against, and the attributes of `PairedTest`; p-values also corrected.
        """
        return ResultTable.from_rows(row.to_dict() for row in self.rows)

    def display_table(self) -> ResultTable:
        """Return the tests with rounded numbers, for people.

        Returns
        -------
        table
            A row for each pair; if some users have no history, first over the users with one, then over all.
        """
        if self.with_history is None:
            return ResultTable.from_rows(_format_pair(row) for row in self.rows)
        parts = {"with history": self.with_history, "all": self}
        return ResultTable.from_rows({"users": n} | _format_pair(row) for n, each in parts.items() for row in each.rows)

    def _heading(self) -> str:
        users = f"{self.rows[0].paired.n:,} users"
        if self.with_history is not None:
            users = f"{self.with_history.rows[0].paired.n:,} users with a history and all {users}"
        return f"Comparison: {self.metric}, mean difference over {users} ± 95 % interval; p corrected by Holm"

    # For csrr.plot

    @property
    def title(self) -> str:
        """The title of the plot."""
        return f"Differences in {self.metric}"

    @property
    def caption(self) -> str:
        """The caption of the plot."""
        return "Mean differences over the same users, user by user; lines are 95 % intervals."

    @property
    def panels(self) -> list[dict[str, Any]]:
        """The chart: a bar for each pair."""
        points = [
            {"label": f"{row.model} - {row.against}", "mean": row.paired.difference}
            | {"low": row.paired.low, "high": row.paired.high, "note": f"p {row.t_p_holm:.4f} (Holm)"}
            for row in self.rows
        ]
        title = f"{self.title}, {self.rows[0].paired.n:,} users"
        chart = {"title": title, "x": "pair", "y": f"difference in {self.metric}", "kind": "bars"}
        apart = [] if self.with_history is None else self.with_history.panels
        return [*apart, chart | {"series": [{"name": "difference", "points": points}]}]


def compare(evaluations: Mapping[str, Evaluation], metric: str = "ndcg@10", baseline: str | None = None) -> Comparison:
    """Compare models on one metric by paired tests over users.

    p-values have Holm's correction over the pairs, separately for each test. Values are those of `per_user`; users
    without a value in either model are left out. Larger values are better, except for "cost". If some users have no
    training events, there are tests over those with a history too.

    Parameters
    ----------
    evaluations
        Evaluations by name, of the same users.
    metric
        The metric to compare.
    baseline
        The model to compare all others with; default: all pairs.

    Returns
    -------
    comparison
        A test for each pair.

    Raises
    ------
    ParameterError
        If there are fewer than two evaluations, or they lack the metric or the baseline.
    DataError
        If they are of different users.

    Examples
    --------
    >>> train, test = csrr.split(csrr.synthetic(100, 40, events_per_user=10).log)
    >>> models = {"popular": csrr.PopRank(), "ease": csrr.EASE(), "knn": csrr.ItemKNN()}
    >>> evaluations = {name: csrr.evaluate(model.fit(train), train, test) for name, model in models.items()}
    >>> found = csrr.compare(evaluations, metric="recall@5", baseline="popular")
    >>> [row.model for row in found.rows]
    ['ease', 'knn']
    """
    if len(evaluations) < 2:
        raise ParameterError("compare needs at least two evaluations: pass a dict of a name and an evaluation each")
    if baseline is not None and baseline not in evaluations:
        raise ParameterError.of("baseline", baseline, f"is no evaluation; there are {', '.join(evaluations)}")
    values = _align_values(evaluations, metric)
    pairs = (
        [(name, baseline) for name in values if name != baseline]
        if baseline is not None
        else [*combinations(values, 2)]
    )
    lower = metric in LOWER_IS_BETTER
    tests = [compare_paired(values[a], values[b], lower_is_better=lower) for a, b in pairs]
    t_ps, wilcoxon_ps = (correct_holm([getattr(test, name) for test in tests]) for name in ("t_p", "wilcoxon_p"))
    corrected = zip(pairs, tests, t_ps.tolist(), wilcoxon_ps.tolist(), strict=True)
    rows = [ComparedPair(a, b, test, t_p, wilcoxon_p) for (a, b), test, t_p, wilcoxon_p in corrected]
    apart = {name: each.by_history.get("with") for name, each in evaluations.items()}
    known = {name: each for name, each in apart.items() if each is not None and each.n_users > 1}
    same = len(known) == len(apart) and len({frozenset(each.users.tolist()) for each in known.values()}) == 1
    return Comparison(metric, rows, compare(known, metric, baseline) if same else None)


def _align_values(evaluations: Mapping[str, Evaluation], metric: str) -> dict[str, Float64Array]:
    """Return each model's values of the metric, shape (n_users,), users in the order of the first."""
    first_name, first = next(iter(evaluations.items()))
    values = {}
    for name, each in evaluations.items():
        if metric not in each.per_user:
            known = ", ".join(each.per_user)
            raise ParameterError.of("metric", metric, f"{name} has no such value per user; it has {known}")
        place = {user: i for i, user in enumerate(each.users.tolist())}
        _check_users(first_name, first, name, each)
        values[name] = each.per_user[metric][[place[user] for user in first.users.tolist()]]
    return values


def _check_users(first_name: str, first: Evaluation, name: str, other: Evaluation) -> None:
    if set(first.users.tolist()) != set(other.users.tolist()):
        raise DataError(
            f"{first_name} and {name} are evaluated on different users ({first.n_users:,} and {other.n_users:,});"
            " evaluate both with the same train and test"
        )


def _format_pair(row: ComparedPair) -> dict[str, str]:
    """Return a row with rounded numbers, for people."""
    found = row.paired
    names = {"model": row.model, "against": row.against}
    difference = f"{found.difference:+.4f} ± {(found.high - found.low) / 2:.4f}"
    ps = (f"{p:.4f}" if p >= 0.0001 else f"{p:.0e}" for p in (row.t_p_holm, row.wilcoxon_p_holm))
    tests = {"difference": difference, **dict(zip(("t p", "Wilcoxon p"), ps, strict=True))}
    shares = {name: f"{getattr(found, name):.0%}" for name in ("better", "worse", "equal")}
    return names | tests | {"d_z": f"{found.effect_size:+.2f}"} | shares


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
        """The best end of each column: "max", or "min" for a cost."""
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

    def _heading(self) -> str:
        first = next(iter(self.evaluations.values()))
        return f"Evaluations: means over {first.n_users:,} users"

    def _best_columns(self) -> BestColumns:
        return self.best

    def __repr__(self) -> str:
        header, body = ["model", *self.metrics], [list(line) for line in self.table().lines()]
        best = find_best(header, body, self.best)
        lines = [
            [model, *(f"{mean:.4f}{'*' if (row, column) in best else ' '}" for column, mean in enumerate(means, 1))]
            for row, (model, *means) in enumerate(body)
        ]
        return f"{self._heading()}; * the best of a column\n{format_text_table(header, lines)}"

    # For csrr.plot

    @property
    def title(self) -> str:
        """The title of the plot."""
        return f"Models by {self.metrics[0]}" if len(self.metrics) == 1 else "Models side by side"

    @property
    def caption(self) -> str:
        """The caption of the plot."""
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
            raise ParameterError.of(
                "metrics", metrics, f"{model} has no {missing[0]!r}; it has {', '.join(each.means)}"
            )
        _check_users(first_name, first, model, each)
    if not names:
        raise ParameterError.of("metrics", metrics, "the evaluations have no metric in common")
    return EvaluationTable(dict(evaluations), names)
