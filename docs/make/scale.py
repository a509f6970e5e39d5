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
        "| events | users x items | reading | its peak of memory | fit | of that U | peak of memory |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in list_growth():
        limit = f" (limit {each['time_limit']:.0f} s)" if each.get("time_limit") else ""
        lines.append(
            f"| {each['events']:,} | {each['users']:,} x {each['items']:,} |"
            f" {each['read_cpu']:.1f} ({each['read_seconds']:.1f}) s |"
            f" {each['read_peak_gb']:.2f} GB, the log {each['log_gb']:.2f} |"
            f" {each['fit_cpu']:.1f} ({each['fit_seconds']:.1f}) s{limit} | {each['u_seconds']:.1f} s by the clock |"
            f" {each['fit_peak_gb']:.2f} GB |"
        )
    about = (
        "Rank 64, 20 neighbors, given strengths; synthetic events by power laws; seconds of processors and, in"
        " brackets, by the clock of two cores that up to twenty other processes wanted, too.\n"
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
            ("reading, seconds of processors", "read_cpu", 1),
            ("fit, seconds of processors", "fit_cpu", 1),
            ("peak of memory, 0.1 GB", "fit_peak_gb", 10),
        )
    }
    return csrr.plot_lines(lines, title="Per million events", x="events", y="per million events", log=True).svg


def make_kills() -> str:
    """What came of the campaign of kills."""
    found = read_found().get("kills")
    if found is None:
        return ""

    def list_stages(name: str) -> str:
        return ", ".join(f"{count} in {stage}" for stage, count in sorted(found[name].items()))

    return (
        f"In a campaign (`python -m benchmarks.scale kills`) {found['kills']} workers of three were killed with -9 at"
        f" random moments of {found['cycles']} fits, with neighbors or with order, each with saving and lists"
        f" ({list_stages('killed')}); {sum(found['stopped'].values())} were stopped for two seconds"
        f" ({list_stages('stopped')}). {found['wrong']} fits ended with other bits or with files that should not be"
        f" there, {len(found['failures'])} with an error. {found['scheduler_kills']} schedulers were killed (in"
        f" {', '.join(found['scheduler_stages'])}): {found['scheduler_wrong']} of the resumed fits had another optimum."
        f" A worker with too little memory: *{found['full']}*.\n"
    )


def make_measured() -> str:
    """What was measured of Dask beside threads, and of Spark."""
    found = read_found()
    lines = [
        "Two workers beside the threads engine, from the same Parquet files, reading included; seconds are those of"
        " processors, since the machine was shared.\n",
        "| log | rank | neighbors | threads | workers and process | ratio | NDCG@20 | same places in lists |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for what, about in (("same", "given"), ("search", "chosen")):
        measured = {name: found[f"{what} {name}"] for name in ("ml-1m", "gowalla") if f"{what} {name}" in found}
        lines += [_describe_same(f"{name}, {about}", each) for name, each in measured.items()]
    lines.append("")
    for name, each in found.items():
        if name.startswith("dask "):
            peaks = ", ".join(f"{peak:.2f}" for peak in each["worker_peaks_gb"].values())
            lists = f"; lists of 20 for all in {each['list_seconds']:.1f} s" if "list_seconds" in each else ""
            lines.append(
                f"- {each['events']:,} events, rank {each['rank']}, {each['neighbors']} neighbors, two workers of"
                f" {each['memory']}, load {each['load'][0]}: {each['fit_seconds']:.1f} s ({each['fit_cpu']:.1f} of"
                f" processors), reading included; workers' own memory up to {peaks} GB{lists}."
            )
        if name.startswith("spark ") and "fit_seconds" in each:
            lines.append(
                f"- Spark MLlib's ALS, {each['events']:,} events, rank 64, {each['iterations']} iterations,"
                f" `local[2]`, load {each['load'][0]}: {each['fit_seconds']:.1f} s ({each['fit_cpu']:.1f} of"
                f" processors), and {each['read_seconds']:.1f} s ({each['read_cpu']:.1f}) of reading."
            )
    if (each := found.get("spark gowalla")) is not None:
        lines.append(
            f"- Spark MLlib's ALS on Gowalla, rank 128: NDCG@20 {each['ndcg']:.4f}, the best of three weights."
        )
    return "\n".join(lines) + "\n"


def _describe_same(name: str, each: dict[str, Any]) -> str:
    threads, workers = each["threads_cpu"], each["dask_cpu"] + each["workers_cpu"]
    settings = each["settings_dask"]
    return (
        f"| {name} | {settings['max_rank']} | {settings['neighbors']} | {threads:.1f} s | {workers:.1f} s |"
        f" {workers / threads:.2f} | {each['ndcg_threads']:.4f}, {each['ndcg_dask']:.4f} | {each['overlap']:.1%} |"
    )
