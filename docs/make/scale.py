"""Large logs: docs/results/scale.json in Markdown, a plot of the growth, and what they come to on paper."""

from __future__ import annotations

import json
from typing import Any

import csrr
from benchmarks.keep import RESULTS


def read_found() -> dict[str, Any]:
    """What was measured, by name."""
    path = RESULTS / "scale.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def list_growth() -> list[dict[str, Any]]:
    """The fits of one process by their number of events."""
    rows = [each for name, each in read_found().items() if name.startswith("growth ")]
    return sorted(rows, key=lambda each: int(each["events"]))


def make_growth() -> str:
    """A row for each size of the log."""
    lines = [
        "| events | users x items | reading | its peak of memory | fit | of that U | peak of memory | load |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for each in list_growth():
        limit = f" (limit {each['time_limit']:.0f} s)" if each.get("time_limit") else ""
        lines.append(
            f"| {each['events']:,} | {each['users']:,} x {each['items']:,} | {each['read_seconds']:.1f} s |"
            f" {each['read_peak_gb']:.2f} GB, the log {each['log_gb']:.2f} | {each['fit_seconds']:.1f} s{limit} |"
            f" {each['u_seconds']:.1f} s | {each['fit_peak_gb']:.2f} GB | {each['load'][0]} |"
        )
    about = (
        "Rank 64, 20 neighbors, given strengths; synthetic events by power laws, two cores that others use too (the"
        " last column: how many processes wanted to run).\n"
    )
    image = "\n![Growth](figures/scale.svg)\n" if len(list_growth()) > 1 else ""
    return "\n".join(lines) + f"\n\n{about}{image}"


def draw_growth() -> str:
    """Seconds and memory by the number of events."""
    rows = list_growth()
    events = [each["events"] for each in rows]
    lines = {
        name: (events, [each[key] / each["events"] * 1e6 * scale for each in rows])
        for name, key, scale in (
            ("reading, seconds", "read_seconds", 1),
            ("fit, seconds", "fit_seconds", 1),
            ("peak of memory, 0.1 GB", "fit_peak_gb", 10),
        )
    }
    return csrr.plot_lines(lines, title="Per million events", x="events", y="per million events", log=True).svg


def make_kills() -> str:
    """A sentence on the campaign of kills."""
    found = read_found().get("kills")
    if found is None:
        return ""
    stages = ", ".join(f"{count} while {name}" for name, count in sorted(found["stages"].items()))
    return (
        f"In a campaign (`python -m benchmarks.scale kills`) {found['kills']} workers of three were killed with -9 at"
        f" random moments of {found['cycles']} fits with saving and lists ({stages}): {found['wrong']} of them ended"
        " with other bits, or with files that should not be there.\n"
    )


def make_measured() -> str:
    """What was measured of Dask beside threads, and of Spark."""
    found = read_found()
    parts = [_describe_same(name, found[f"same {name}"]) for name in ("ml-1m", "gowalla") if f"same {name}" in found]
    for name, each in found.items():
        if name.startswith("dask "):
            peaks = ", ".join(f"{peak:.2f}" for peak in each["worker_peaks_gb"].values())
            lists = f"; lists of 20 for all in {each['list_seconds']:.1f} s" if "list_seconds" in each else ""
            parts.append(
                f"- {each['events']:,} events, rank {each['rank']}, {each['neighbors']} neighbors, two workers of"
                f" {each['memory']}, load {each['load'][0]}: {each['fit_seconds']:.1f} s, of that"
                f" {each['until_first_step']:.1f} until the first step, {each['u_seconds']:.1f} U; workers' own memory"
                f" up to {peaks} GB{lists}."
            )
        if name.startswith("spark ") and "fit_seconds" in each:
            parts.append(
                f"- Spark MLlib's ALS, {each['events']:,} events, rank 64, ten iterations, `local[2]`, load"
                f" {each['load'][0]}: {each['fit_seconds']:.1f} s, and {each['read_seconds']:.1f} s of reading."
            )
    if (each := found.get("spark gowalla")) is not None:
        parts.append(
            f"- Spark MLlib's ALS on Gowalla, rank 128: NDCG@20 {each['ndcg']:.4f}, the best of three weights."
        )
    return "\n".join(parts) + "\n"


def _describe_same(name: str, each: dict[str, Any]) -> str:
    cpu = each["dask_cpu"] + each["workers_cpu"]
    return (
        f"- {name}, rank {each['rank']}, {each['neighbors']} neighbors, load {each['load'][0]}:"
        f" {each['threads_cpu']:.1f} s of processors on threads, {cpu:.1f} s with two workers"
        f" ({each['dask_cpu']:.1f} of them in the process that fits; {cpu / each['threads_cpu']:.1f} times);"
        f" by the clock {each['threads_seconds']:.1f} and {each['dask_seconds']:.1f} s."
        f" Objective {each['objective_threads']:.6g} and {each['objective_dask']:.6g},"
        f" NDCG@20 {each['ndcg_threads']:.4f} and {each['ndcg_dask']:.4f},"
        f" {100 * each['overlap']:.1f} % of the places in lists the same."
    )
