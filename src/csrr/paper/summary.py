"""Results -> the summary of a reproduction: every cell beside the printed one, intervals, tests, series, claims."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from csrr.arrays import Float64Array as Values
from csrr.experiments.compare import compare_paired, correct_holm
from csrr.experiments.intervals import Interval, f1_of_means_interval, mean_interval
from csrr.paper.claims import claims
from csrr.paper.headlines import headlines
from csrr.paper.jobs import (
    COSTS,
    FIXED,
    L1S,
    L2S,
    SAME_STRENGTHS,
    STEP_ITERATIONS,
    STEPS,
    Part,
    command_of,
    cost_names,
    step_name,
    strength_name,
)
from csrr.paper.printed import (
    ABLATION_COLUMNS,
    COLUMNS,
    DATA,
    PRINTED,
    PRINTED_ABLATION,
    PROTOCOLS,
    WITHOUT_V,
    Protocol,
    metric_of,
)
from csrr.paper.reproduce import Reproduction, plan
from csrr.paper.results import Row, Rows
from csrr.paper.systems import SYSTEMS

FORMAT = 1
STANDARD = "standard NDCG@10"
CHAMPION = "CSRR, scaled"
FIGURE_COLUMNS = ("F@5", "NDCG@5", "F@15", "NDCG@15")

Cell = dict[str, Any]


class Result:
    """The rows of one system over the splits that are done, and each user's mean over them."""

    def __init__(self, rows: Rows, found: Sequence[Row]) -> None:
        self.rows = found
        parts = [rows.per_user(row.task) for row in found]
        self.users = np.unique(np.concatenate([part["users"] for part in parts]))
        self.values: dict[str, Values] = {}
        for name in parts[0]:
            if name != "users":
                self.values[name] = self._means([(part["users"], part[name]) for part in parts])

    def _means(self, parts: Iterable[tuple[Any, Any]]) -> Values:
        """Return the mean of each user, shape (n_users,), over the splits in which they have test items."""
        total, count = np.zeros(len(self.users)), np.zeros(len(self.users))
        for users, values in parts:
            places = np.searchsorted(self.users, users)
            total[places] += values
            count[places] += 1
        return total / count

    def cell(self, metric: str, printed: float | None = None) -> Cell:
        """Return the mean over splits, the 95 % interval over users about it, and what the paper printed."""
        mean = float(np.mean([row.means[metric] for row in self.rows]))
        low, high = self._interval(metric)
        half = (high - low) / 2
        return {"mean": mean, "low": mean - half, "high": mean + half, "printed": printed}

    def _interval(self, metric: str) -> Interval:
        name, k = metric.split("@")
        if name == "f1_of_means":
            return f1_of_means_interval(self.values[f"precision@{k}"], self.values[f"recall@{k}"])
        return mean_interval(self.values[metric])


def summarise(run: Reproduction, *, command: str) -> dict[str, Any]:
    """Return all that is there of the parts of a run, as plain values fit for JSON; the page is made of it."""
    all_rows = run.results()
    summary: dict[str, Any] = {
        "format": FORMAT,
        "made": {
            **_made_with(all_rows),
            "command": command,
            "seconds": _seconds(all_rows),
            "quick": run.quick,
        },
        "comparison": [table for part in run.parts if part.name == "comparison" if (table := _comparison(run, part))],
        "ablation": [table for part in run.parts if part.name == "ablation" if (table := _ablation(run, part))],
        "figures": {},
        "missing": _missing(run),
        "protocols": {name: each.about for name, each in PROTOCOLS.items()},
    }
    for name, make in (("cost", _cost_figure), ("step", _step_figure), ("strengths", _strengths_figure)):
        parts = [part for part in run.parts if part.name == name]
        panels = [panel for part in parts for panel in make(run, part)]
        if panels:
            summary["figures"][name] = {
                "title": _WORDS[name]["title"],
                "caption": f"{_WORDS[name]['caption']} {_splits(panels)}",
                "command": command_of(parts),
                "panels": panels,
            }
    summary["claims"] = claims(summary)
    summary["headlines"] = headlines(summary)
    return summary


def _results(run: Reproduction, part: Part) -> dict[str, Result]:
    """Return the results of a part by the names of its jobs."""
    found: dict[str, list[Row]] = {}
    for job in part.jobs():
        if (row := run.finished(job)) is not None:
            found.setdefault(job.name, []).append(row)
    return {name: Result(run.rows, rows) for name, rows in found.items()}


def _comparison(run: Reproduction, part: Part) -> dict[str, Any] | None:
    results, protocol = _results(run, part), PROTOCOLS[part.protocol]
    if not results:
        return None
    rows = [_system_row(name, result, part, protocol) for name, result in results.items()]
    tests = _tests(results, "ndcg@10", STANDARD, CHAMPION, results)
    ndcg_5 = metric_of("NDCG@5", protocol)
    baselines = [name for name in ("PopRank", "BPRMF", "WRMF", "MC-Shift", "CSRR-II") if name in results]
    tests += _tests(results, ndcg_5, "NDCG@5", "CSRR-I", baselines)
    head = _head(run, part, results)
    head["note"] = " ".join(filter(None, (head["note"], _first_split(results, head["tuned"]))))
    return {**head, "columns": list(COLUMNS), "rows": rows, "tests": tests}


def _first_split(results: dict[str, Result], tuned: str) -> str:
    """Return whether the first split alone, on whose training data all was tuned, has the same order of systems."""
    first = {
        name: [row.means["ndcg@10"] for row in result.rows if row.task.split == 0] for name, result in results.items()
    }
    if tuned != "first split" or not all(first.values()) or all(len(result.rows) == 1 for result in results.values()):
        return ""
    overall = sorted(results, key=lambda name: -results[name].cell("ndcg@10")["mean"])
    alone = sorted(results, key=lambda name: -first[name][0])
    if alone == overall:
        order = "the systems come in the same order by standard NDCG@10"
    else:
        order = f"the order by standard NDCG@10 is {', '.join(alone)}; over all splits it is {', '.join(overall)}"
    return f"On the first split alone, whose test events no choice of parameters has seen, {order}."


def _head(run: Reproduction, part: Part, results: dict[str, Result]) -> dict[str, Any]:
    row = next(iter(results.values())).rows[0]
    tuned = {row.tuning["split"] for result in results.values() for row in result.rows if row.tuning}
    return {
        "data": part.data,
        "label": DATA[part.data].label,
        "protocol": part.protocol,
        "note": DATA[part.data].note,
        **{f"n_{name}": number for name, number in row.size.items()},
        "splits": sorted({row.task.split for result in results.values() for row in result.rows}),
        "tuned": "each split" if len(tuned) > 1 else "first split",
        "command": part.command,
    }


def _system_row(name: str, result: Result, part: Part, protocol: Protocol) -> dict[str, Any]:
    system, rows = SYSTEMS[name], result.rows
    printed = PRINTED.get(part.data, {}).get(system.beside or "", {})
    tunings = {row.tuning["split"]: row.tuning for row in rows if row.tuning}
    params = [row.task.params for row in rows]
    last = rows[-1].certificate
    return {
        "system": name,
        "group": system.group,
        "about": system.about,
        "cells": {column: result.cell(metric_of(column, protocol), printed.get(column)) for column in COLUMNS},
        "extra": {STANDARD: result.cell("ndcg@10")},
        "params": params[:1] if all(each == params[0] for each in params) else params,
        "tried": sum(each["tried"] for each in tunings.values()),
        "seconds": {
            "tune": sum(each["seconds"] for each in tunings.values()),
            "fit": float(np.mean([row.seconds["fit"] for row in rows])),
            "evaluate": float(np.mean([row.seconds["evaluate"] for row in rows])),
        },
        "certificate": last and {name: last[name] for name in ("gap", "rank", "status")},
    }


def _tests(results: dict[str, Result], metric: str, label: str, a: str, others: Iterable[str]) -> list[dict[str, Any]]:
    """Return the paired tests over users of `a` against each of the others, corrected by Holm together."""
    others = [name for name in others if name != a and name in results]
    if a not in results or not others:
        return []
    found = [compare_paired(*_aligned(results[a], results[b], metric)) for b in others]
    corrected = zip(
        correct_holm([each.t_p for each in found]), correct_holm([each.wilcoxon_p for each in found]), strict=True
    )
    return [
        {
            "metric": label,
            "a": a,
            "b": b,
            "difference": each.difference,
            "low": each.low,
            "high": each.high,
            "p_t": float(p_t),
            "p_wilcoxon": float(p_wilcoxon),
            "effect": each.effect_size if np.isfinite(each.effect_size) else None,
            "better": each.better,
            "worse": each.worse,
            "n_users": each.n,
        }
        for b, each, (p_t, p_wilcoxon) in zip(others, found, corrected, strict=True)
    ]


def _aligned(a: Result, b: Result, metric: str) -> tuple[Values, Values]:
    """Return the values of the users that both have."""
    _, mine, theirs = np.intersect1d(a.users, b.users, return_indices=True)
    return a.values[metric][mine], b.values[metric][theirs]


def _ablation(run: Reproduction, part: Part) -> dict[str, Any] | None:
    results, protocol = _results(run, part), PROTOCOLS[part.protocol]
    if not results:
        return None
    printed = PRINTED_ABLATION.get(part.data, {})
    rows = [
        {
            "system": name,
            "cells": {
                column: result.cell(
                    metric_of(column, protocol),
                    printed.get(WITHOUT_V if name == SAME_STRENGTHS else name, {}).get(column),
                )
                for column in ABLATION_COLUMNS
            },
            "params": [row.task.params for row in result.rows][:1],
        }
        for name, result in results.items()
    ]
    tests = _tests(results, metric_of("NDCG@5", protocol), "NDCG@5", "CSRR-I", results)
    tests += _tests(results, "ndcg@10", STANDARD, "CSRR-I", results)
    return {**_head(run, part, results), "columns": list(ABLATION_COLUMNS), "rows": rows, "tests": tests}


def _series(
    results: dict[str, Result], name: str, places: Iterable[tuple[float, str]], metric: str
) -> list[dict[str, Any]]:
    """Return one series, as a list of one, or of none where no point is there."""
    there = [(x, results[key]) for x, key in places if key in results]
    points = [{"x": x, **result.cell(metric), "splits": len(result.rows), "note": _note(result)} for x, result in there]
    return [{"name": name, "points": points}] if points else []


def _splits(panels: Iterable[dict[str, Any]]) -> str:
    """Return how many splits the points of a figure are means of, for each data set."""
    counts: dict[str, set[int]] = {}
    for panel in panels:
        found = counts.setdefault(DATA[panel["data"]].label, set())
        found |= {point["splits"] for series in panel["series"] for point in series["points"]}
    each = (f"{' or '.join(map(str, sorted(found)))} on {label}" for label, found in counts.items())
    return f"Points are means of so many splits: {', '.join(each)}."


def _note(result: Result) -> str:
    """Return what is worth knowing of a point: the rank, how the solver ended and how far from the optimum at most."""
    last = result.rows[-1].certificate
    if last is None:
        return ""
    gap = "unknown" if last["gap"] is None else f"{max(last['gap'], 0):.2g}"
    return f"rank {last['rank']}, {last['status']}, gap {gap}"


def _panels(
    part: Part, results: dict[str, Result], x: str, lines: dict[str, list[tuple[float, str]]], *, log: bool
) -> list[dict[str, Any]]:
    """Return a panel for each metric of the figures, with a series for each of the lines."""
    panels = []
    for column in FIGURE_COLUMNS:
        metric = metric_of(column, PROTOCOLS[part.protocol])
        series = [each for name, points in lines.items() for each in _series(results, name, points, metric)]
        how = "" if part.protocol == "numbers" else f" ({part.protocol})"
        title = f"{DATA[part.data].label}{how}, {column}"
        panels.append(
            {
                "title": title,
                "data": part.data,
                "protocol": part.protocol,
                "x": x,
                "y": column,
                "log": log,
                "series": series,
            }
        )
    return [panel for panel in panels if panel["series"]]


def _cost_figure(run: Reproduction, part: Part) -> list[dict[str, Any]]:
    names = {cost: cost_names(cost) for cost in COSTS}
    lines = {
        "λ₁, λ₂ kept": [(cost, kept) for cost, (kept, _) in names.items()],
        "λ₁ tuned again": [(cost, tuned) for cost, (_, tuned) in names.items()],
    }
    return _panels(part, _results(run, part), "c_p", lines, log=False)


def _step_figure(run: Reproduction, part: Part) -> list[dict[str, Any]]:
    lines = {"CSRR-I": [(factor, step_name(factor)) for factor in STEPS]}
    return _panels(part, _results(run, part), "step, as a multiple of the safe one", lines, log=True)


def _strengths_figure(run: Reproduction, part: Part) -> list[dict[str, Any]]:
    results = _results(run, part)
    panels = []
    for which, values, label in (("l1", L1S, f"λ₁ (λ₂ = {FIXED:g})"), ("l2", L2S, f"λ₂ (λ₁ = {FIXED:g})")):
        lines = {"CSRR-I": [(value, strength_name(which, value)) for value in values]}
        panels += _panels(part, results, label, lines, log=True)
    return panels


_WORDS = {
    "cost": {
        "title": "The cost of a miss",
        "caption": "CSRR-I under c_p from .5 to .95. Once with λ₁ and λ₂ as tuned for the comparison, as the paper"
        " seems to have done; once with λ₁ chosen anew at each c_p on validation data.",
    },
    "step": {
        "title": "The step size",
        "caption": f"The paper's Algorithm 1, dense and to the letter, {STEP_ITERATIONS} iterations at most (a quick"
        " run: a third), with multiples of the safe step 1/(2α). The exact solver has no step to choose.",
    },
    "strengths": {
        "title": "The two strengths",
        "caption": "CSRR-I with strengths as the paper gives them, not as fractions: one fixed at 0.1, the other"
        " varied. Far from the good region, which lies at a λ₁ of some 5 % of the value that gives zero.",
    },
}


def _made_with(rows: Sequence[Row]) -> dict[str, str]:
    """Return the versions, machines and last day that the results name, several of one kind with commas."""
    facts = [{**row.versions, "machine": row.machine} for row in rows]
    names = dict.fromkeys(name for each in facts for name in each)
    made = {name: ", ".join(sorted({each[name] for each in facts if name in each})) for name in names}
    return {**made, "date": max((row.made[:10] for row in rows), default="")}


def _missing(run: Reproduction) -> list[dict[str, str]]:
    """Return the parts of the whole that this run leaves out or has not finished."""
    done = {(part.name, part.data, part.protocol) for part in run.parts if all(map(run.finished, part.jobs()))}
    return [
        {"part": f"{part.name}, {DATA[part.data].label}, {part.protocol}", "command": part.command}
        for part in plan()
        if (part.name, part.data, part.protocol) not in done
    ]


def _seconds(rows: Iterable[Row]) -> float:
    """Return how long tuning, fitting and testing took in all."""
    total, seen = 0.0, set[tuple[Any, ...]]()
    for row in rows:
        total += row.seconds["fit"] + row.seconds["evaluate"]
        tuning = row.tuning or {}
        key = (row.task.data, row.task.at_least, tuning.get("split"), tuning.get("value"), tuning.get("seconds"))
        total += 0.0 if key in seen else tuning.get("seconds", 0.0)
        seen.add(key)
    return total
