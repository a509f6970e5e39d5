"""The service under load: docs/results/serving.json in Markdown."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.keep import RESULTS


def _show(found: dict[str, Any], *names: str) -> str:
    return " / ".join(f"{found[name]:,.1f}" for name in names)


def _count_statuses(found: dict[str, Any]) -> str:
    texts = {"200": "answered", "503": "refused (503)", "0": "connections lost"}
    parts = [f"{n:,} {texts.get(status, status)}" for status, n in sorted(found.items(), key=lambda each: -each[1])]
    return ", ".join(parts)


def make_table() -> str:
    """A row for each kind of load."""
    found = json.loads((RESULTS / "serving.json").read_text())
    rows = []

    def add(load: str, rate: str, one: dict[str, Any]) -> None:
        rows.append(f"| {load} | {rate} | {_show(one, 'p50', 'p99')} ms | {_count_statuses(one['statuses'])} |")

    known = found["known"]
    add("known users", f"{known['rates']['known']:,}", known["known"])
    add("beside them, events synced to the disk", f"{known['rates']['events']:,}", known["events"])
    add("histories in the request", f"{found['history']['rate']:,}", found["history"]["history"])
    for rate, one in found["overload"]["by_rate"].items():
        add("known users alone, up to overload", f"{int(rate):,}", one)
    for rate, one in found["bare"]["by_rate"].items():
        add("a FastAPI handler that calls `recommend`", f"{int(rate):,}", one)
    return "\n".join(["| load | a second | p50 / p99 | |", "|---|---|---|---|", *rows]) + "\n"


def make_text() -> str:
    """The rest in sentences."""
    found = json.loads((RESULTS / "serving.json").read_text())
    known, swaps, faults, single = (found[name] for name in ("known", "swaps", "faults", "single"))
    n_faults = ", ".join(f"{n} x {kind}" for kind, n in sorted(faults["faults"].items()))
    lost = sum(each.get("0", 0) for each in faults["statuses"].values())
    refused = sum(each.get("503", 0) for each in faults["statuses"].values())
    n_sent = sum(sum(each.values()) for each in faults["statuses"].values())
    before, after = swaps["megabytes_before_and_after"]
    return (
        f"- A request takes {known['cpu_ms_a_request']:.2f} ms of processor time on average; the two workers and the"
        f" process that watches them take {known['megabytes']:,.0f} MB, with what they share counted once.\n"
        f"- {swaps['swaps']} swaps of the model within {swaps['seconds']:.0f} s, at 500 requests a second:"
        f" {swaps['failed']} of {swaps['sent']:,} requests failed; {before:,.0f} MB before, {after:,.0f} MB after.\n"
        f"- {faults['seconds'] / 60:.0f} minutes of mixed load with faults ({n_faults}): of {n_sent:,} requests"
        f" {refused:,} were refused with 503, and {lost:,} lost their connection with a worker that was killed;"
        f" {faults['acknowledged']:,} events were acknowledged, of which {faults['missing']} were missing.\n"
        f"- In process, `recommend([user])` of {single['users']:,} users with text ids: p50 {single['p50']:.2f} ms, p99"
        f" {single['p99']:.2f} ms.\n"
    )
