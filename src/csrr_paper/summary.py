"""The summary of a reproduction, computed from its results: cells beside the printed ones, tests, series, claims."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from csrr._base.arrays import AnyArray, Float64Array
from csrr.evaluation.statistics import (
    Interval,
    compare_paired,
    compute_f1_interval,
    compute_mean_interval,
    correct_holm,
)
from csrr.report.svg import Point, Series
from csrr_paper import jobs, printed
from csrr_paper.claims import judge_claims, write_headlines
from csrr_paper.reproduce import Reproduction, plan
from csrr_paper.results import Result, ResultStore
from csrr_paper.summary_types import (
    STANDARD,
    Cell,
    CertificateFacts,
    Figure,
    Made,
    MissingPart,
    PairedTest,
    ResultPanel,
    Summary,
    SystemRow,
    SystemTable,
    Times,
)
from csrr_paper.systems import SYSTEMS

CHAMPIONS = ("CSRR, scaled", "CSRR()")
"""The systems of csrr that are tested against all others."""
FIGURE_COLUMNS = ("F@5", "NDCG@5", "F@15", "NDCG@15")


class SystemResults:
    """The results of one system over the splits so far, and each user's mean over these."""

    def __init__(self, store: ResultStore, found: Sequence[Result]) -> None:
        self.splits = found
        per_split = [store.read_lists(result.task).measure() for result in found]
        self.users: AnyArray = np.unique(np.concatenate([each["users"] for each in per_split]))
        self.values: dict[str, Float64Array] = {}
        for name in per_split[0]:
            if name != "users":
                self.values[name] = self._average((each["users"], each[name]) for each in per_split)

    def _average(self, per_split: Iterable[tuple[Any, Any]]) -> Float64Array:
        """Return the mean of each user, shape (n_users,), over the splits in which they have test items."""
        total, count = np.zeros(len(self.users)), np.zeros(len(self.users))
        for users, values in per_split:
            places = np.searchsorted(self.users, users)
            total[places] += values
            count[places] += 1
        return total / count

    def make_cell(self, metric: str, printed: float | None = None) -> Cell:
        """Return the mean over splits, the 95 % interval over users about it, and what the paper printed."""
        mean = float(np.mean([result.means[metric] for result in self.splits]))
        low, high = self._compute_interval(metric)
        half = (high - low) / 2
        return Cell(mean, mean - half, mean + half, printed)

    def _compute_interval(self, metric: str) -> Interval:
        name, k = metric.split("@")
        if name == "f1_of_means":
            return compute_f1_interval(self.values[f"precision@{k}"], self.values[f"recall@{k}"])
        return compute_mean_interval(self.values[metric])


BySystem = dict[str, SystemResults]


def summarize(run: Reproduction, *, command: str) -> Summary:
    """Return the summary of the results of a run, from which the page is made."""
    found = run.list_results()
    tables: dict[str, Any] = {name: [] for name in jobs.TABLES}
    for each in run.experiments:
        if each.name in tables and (table := _make_table(run, each)):
            tables[each.name].append(table)
    summary = Summary(
        made=Made(
            **_list_made_with(found),
            command=command,
            seconds=_sum_seconds(found),
            quick=run.quick,
            runs=run.store.read_runs(),
        ),
        figures=_make_figures(run),
        missing=_list_missing(run),
        protocols={name: protocol.about for name, protocol in printed.PROTOCOLS.items()},
        **tables,
    )
    judged = replace(summary, claims=judge_claims(summary))
    return replace(judged, headlines=write_headlines(judged))


def _collect_results(run: Reproduction, experiment: jobs.Experiment) -> BySystem:
    """Return the results of an experiment by the names of its jobs."""
    found: dict[str, list[Result]] = {}
    for job in experiment.list_jobs():
        if (result := run.find_result(job)) is not None:
            found.setdefault(job.name, []).append(result)
    return {name: SystemResults(run.store, results) for name, results in found.items()}


def _make_table(run: Reproduction, experiment: jobs.Experiment) -> SystemTable | None:
    results, protocol = _collect_results(run, experiment), printed.PROTOCOLS[experiment.protocol]
    if not results:
        return None
    ndcg_5 = printed.name_metric("NDCG@5", protocol)
    note, tuned = printed.DATA[experiment.data].note, _describe_tuning(results)
    if experiment.name == "comparison":
        rows = [_make_row(name, each, experiment.data, protocol) for name, each in results.items()]
        tests = [test for ours in CHAMPIONS for test in _test(results, "ndcg@10", STANDARD, ours, results)]
        tests += _test(results, ndcg_5, "NDCG@5", "CSRR-I", printed.PRINTED_SYSTEMS)
        note = " ".join(filter(None, (note, _describe_first_split(results, tuned))))
    else:
        rows = [_make_ablation_row(name, each, experiment.data, protocol) for name, each in results.items()]
        tests = _test(results, ndcg_5, "NDCG@5", "CSRR-I", results)
        tests += _test(results, "ndcg@10", STANDARD, "CSRR-I", results)
    size = next(iter(results.values())).splits[0].size
    return SystemTable(
        data=experiment.data,
        label=printed.DATA[experiment.data].label,
        protocol=experiment.protocol,
        note=note,
        n_users=size["users"],
        n_items=size["items"],
        n_events=size["events"],
        splits=sorted({result.task.split for each in results.values() for result in each.splits}),
        tuned=tuned,
        command=experiment.command,
        columns=list(rows[0].cells),
        rows=rows,
        tests=tests,
    )


def _describe_tuning(results: BySystem) -> str:
    splits = {result.tuning["split"] for each in results.values() for result in each.splits if result.tuning}
    return "each split" if len(splits) > 1 else "first split"


def _describe_first_split(results: BySystem, tuned: str) -> str:
    """Return a sentence on whether the first split alone, on which all was tuned, has the same order of systems."""
    first = {
        name: [result.means["ndcg@10"] for result in each.splits if result.task.split == 0]
        for name, each in results.items()
    }
    if tuned != "first split" or not all(first.values()) or all(len(each.splits) == 1 for each in results.values()):
        return ""
    overall = sorted(results, key=lambda name: -results[name].make_cell("ndcg@10").mean)
    alone = sorted(results, key=lambda name: -first[name][0])
    moved = sum(a != b for a, b in zip(alone, overall, strict=True))
    best = "the same" if alone[0] == overall[0] else f"“{alone[0]}”, not “{overall[0]}”"
    ranks = f"{moved} of {len(alone)} systems change their rank by {STANDARD}, and the best is {best}"
    same = f"no system changes its rank by {STANDARD}"
    return f"On the first split alone, whose test events no choice of parameters has seen, {ranks if moved else same}."


def _make_row(name: str, results: SystemResults, data: str, protocol: printed.Protocol) -> SystemRow:
    system, splits = SYSTEMS[name], results.splits
    theirs = printed.PRINTED.get(data, {}).get(system.beside or name, {})
    tunings = {result.tuning["split"]: result.tuning for result in splits if result.tuning}
    params = [result.task.params for result in splits]
    last = splits[-1].certificate
    return SystemRow(
        system=name,
        group=system.group,
        about=system.about,
        cells={
            column: results.make_cell(printed.name_metric(column, protocol), theirs.get(column))
            for column in printed.COLUMNS
        },
        extra={STANDARD: results.make_cell("ndcg@10")},
        params=params[:1] if all(each == params[0] for each in params) else params,
        tried=sum(each["tried"] for each in tunings.values()),
        seconds=Times(
            tune=sum(each["seconds"] for each in tunings.values()),
            fit=float(np.mean([result.seconds["fit"] for result in splits])),
            evaluate=float(np.mean([result.seconds["evaluate"] for result in splits])),
        ),
        certificate=CertificateFacts(last["gap"], last["rank"], last["status"]) if last else None,
    )


def _make_ablation_row(name: str, results: SystemResults, data: str, protocol: printed.Protocol) -> SystemRow:
    theirs = printed.PRINTED_ABLATION.get(data, {}).get(printed.WITHOUT_V if name == jobs.SAME_STRENGTHS else name, {})
    metrics = {column: printed.name_metric(column, protocol) for column in printed.ABLATION_COLUMNS}
    cells = {column: results.make_cell(metric, theirs.get(column)) for column, metric in metrics.items()}
    return SystemRow(system=name, cells=cells, params=[results.splits[0].task.params])


def _test(results: BySystem, metric: str, label: str, a: str, others: Iterable[str]) -> list[PairedTest]:
    """Return the paired tests over users of `a` against each of the others, corrected by Holm together."""
    others = [name for name in others if name != a and name in results]
    if a not in results or not others:
        return []
    found = [compare_paired(*_align(results[a], results[b], metric)) for b in others]
    corrected = zip(
        correct_holm([each.t_p for each in found]), correct_holm([each.wilcoxon_p for each in found]), strict=True
    )
    return [
        PairedTest(
            metric=label,
            a=a,
            b=b,
            p_t=float(p_t),
            p_wilcoxon=float(p_wilcoxon),
            effect=each.effect_size if np.isfinite(each.effect_size) else None,
            n_users=each.n,
            **{name: getattr(each, name) for name in ("difference", "low", "high", "better", "worse")},
        )
        for b, each, (p_t, p_wilcoxon) in zip(others, found, corrected, strict=True)
    ]


def _align(a: SystemResults, b: SystemResults, metric: str) -> tuple[Float64Array, Float64Array]:
    """Return the values of the users in both."""
    _, mine, theirs = np.intersect1d(a.users, b.users, return_indices=True)
    return a.values[metric][mine], b.values[metric][theirs]


def _make_figures(run: Reproduction) -> dict[str, Figure]:
    figures = {}
    for name, make in (("cost", _draw_costs), ("step", _draw_steps), ("strengths", _draw_strengths)):
        experiments = [each for each in run.experiments if each.name == name]
        panels = [panel for each in experiments for panel in make(each, _collect_results(run, each))]
        if panels:
            title, caption = FIGURE_WORDS[name]
            figures[name] = Figure(
                title, f"{caption} {describe_splits(panels)}", jobs.make_command(experiments), panels
            )
    return figures


def _make_series(results: BySystem, name: str, places: Iterable[tuple[float, str]], metric: str) -> Series:
    points = []
    for x, key in places:
        if key in results:
            own = results[key]
            cell = own.make_cell(metric)
            points.append(Point(x, cell.mean, cell.low, cell.high, _describe_solver(own), len(own.splits)))
    return Series(name, points)


def describe_splits(panels: Iterable[ResultPanel]) -> str:
    """Return the number of splits behind the points of a figure, for each data set."""
    counts: dict[str, set[int]] = {}
    for panel in panels:
        found = counts.setdefault(printed.DATA[panel.data].label, set())
        found |= {point.splits for series in panel.series for point in series.points if point.splits is not None}
    each = (f"{' or '.join(map(str, sorted(found)))} on {label}" for label, found in counts.items())
    return f"Number of splits: {', '.join(each)}."


def _describe_solver(results: SystemResults) -> str:
    """Return the note of a point: the rank, the status of the solver, and a bound on the distance to the optimum."""
    last = results.splits[-1].certificate
    if last is None:
        return ""
    gap = "unknown" if last["gap"] is None else f"{max(last['gap'], 0):.2g}"
    return f"rank {last['rank']}, {last['status']}, gap {gap}"


def _draw_panels(
    experiment: jobs.Experiment, results: BySystem, x: str, lines: dict[str, list[tuple[float, str]]], *, log: bool
) -> list[ResultPanel]:
    """Return a panel for each metric of the figures, with a series for each of the lines that has points."""
    data, protocol = experiment.data, experiment.protocol
    how = "" if protocol == "numbers" else f" ({protocol})"
    panels = []
    for column in FIGURE_COLUMNS:
        metric = printed.name_metric(column, printed.PROTOCOLS[protocol])
        series = [_make_series(results, name, places, metric) for name, places in lines.items()]
        drawn = [each for each in series if each.points]
        panels.append(ResultPanel(f"{printed.DATA[data].label}{how}, {column}", x, column, log, drawn, data, protocol))
    return [panel for panel in panels if panel.series]


def _draw_costs(experiment: jobs.Experiment, results: BySystem) -> list[ResultPanel]:
    names = {cost: jobs.name_at_cost(cost) for cost in jobs.COSTS}
    lines = {
        "λ₁, λ₂ fixed": [(cost, kept) for cost, (kept, _) in names.items()],
        "λ₁ tuned at each c_p": [(cost, tuned) for cost, (_, tuned) in names.items()],
    }
    panels = _draw_panels(experiment, results, "c_p", lines, log=False)
    tuned = {cost: results[name] for cost, (_, name) in names.items() if name in results}
    return [*panels, _draw_validation(experiment, tuned)] if tuned else panels


def _draw_validation(experiment: jobs.Experiment, tuned: dict[float, SystemResults]) -> ResultPanel:
    """Return the accuracy of each c_p, λ₁ tuned, on the validation events that choose it and on the test events."""
    chosen_by = [
        Point(
            cost, float(np.mean([each.tuning["value"] for each in own.splits if each.tuning])), splits=len(own.splits)
        )
        for cost, own in tuned.items()
    ]
    on_test = [Point(cost, own.make_cell("ndcg@10").mean, splits=len(own.splits)) for cost, own in tuned.items()]
    series = [
        _divide_by_best(Series("on validation events", chosen_by)),
        _divide_by_best(Series("on test events", on_test)),
    ]
    data, protocol = experiment.data, experiment.protocol
    title = f"{printed.DATA[data].label}, validation and test"
    return ResultPanel(title, "c_p", f"{STANDARD} / maximum", False, series, data, protocol)


def _divide_by_best(series: Series) -> Series:
    best = max(point.mean for point in series.points)
    return Series(series.name, [replace(point, mean=point.mean / best) for point in series.points])


def _draw_steps(experiment: jobs.Experiment, results: BySystem) -> list[ResultPanel]:
    lines = {"CSRR-I": [(factor, jobs.name_at_step(factor)) for factor in jobs.STEPS]}
    return _draw_panels(experiment, results, "step, as a multiple of the safe one", lines, log=True)


def _draw_strengths(experiment: jobs.Experiment, results: BySystem) -> list[ResultPanel]:
    panels = []
    for which, values, label in (
        ("l1", jobs.L1S, f"λ₁ (λ₂ = {jobs.FIXED:g})"),
        ("l2", jobs.L2S, f"λ₂ (λ₁ = {jobs.FIXED:g})"),
    ):
        lines = {"CSRR-I": [(value, jobs.name_at_strength(which, value)) for value in values]}
        panels += _draw_panels(experiment, results, label, lines, log=True)
    return panels


FIGURE_WORDS = {
    "cost": (
        "The cost of a false negative, c_p",
        "CSRR-I for c_p from 0.5 to 0.95: with λ₁ and λ₂ fixed as tuned for the comparison, as the paper seems to have"
        " done, and with λ₁ tuned at each c_p on validation data. Where a panel compares validation and test events,"
        " each curve is divided by its maximum: c_p is chosen on validation events, which may prefer another value.",
    ),
    "step": (
        "The step size",
        f"The paper's Algorithm 1 as printed, with at most {jobs.STEP_ITERATIONS} iterations (a third of that in a"
        " quick run) and multiples of the safe step 1/(2α). The exact solver, used elsewhere for CSRR, has no step"
        " size.",
    ),
    "strengths": (
        "The regularization strengths λ₁ and λ₂",
        "CSRR-I with one strength fixed at 0.1, as in the paper, and the other varied. This is far from the good"
        " region, which is at a λ₁ of about 5 % of the value at which the low-rank part is zero.",
    ),
}
"""The title and the caption of each figure."""


def _list_made_with(results: Sequence[Result]) -> dict[str, Any]:
    """Return the versions, machines and the last day of the results; several of one kind are joined by commas."""
    facts = [{**result.versions, "machine": result.machine} for result in results]
    names = dict.fromkeys(name for each in facts for name in each)
    made = {name: ", ".join(sorted({each[name] for each in facts if name in each})) for name in names}
    return {**made, "date": max((result.made[:10] for result in results), default="")}


def _list_missing(run: Reproduction) -> list[MissingPart]:
    """Return the experiments of the paper that are not in this run, or not finished."""
    done = {each.key for each in run.experiments if all(map(run.find_result, each.list_jobs()))}
    return [
        MissingPart(f"{each.name}, {printed.DATA[each.data].label}, {each.protocol}", each.command)
        for each in plan()
        if each.key not in done
    ]


def _sum_seconds(results: Iterable[Result]) -> float:
    """Return how long tuning, fitting and testing took in all."""
    total, seen = 0.0, set[tuple[Any, ...]]()
    for result in results:
        total += result.seconds["fit"] + result.seconds["evaluate"]
        tuning = result.tuning or {}
        key = (result.task.data, result.task.at_least, tuning.get("split"), tuning.get("value"), tuning.get("seconds"))
        total += 0.0 if key in seen else tuning.get("seconds", 0.0)
        seen.add(key)
    return total
