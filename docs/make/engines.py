"""Fits by engine, the main operations of a GPU, and fits by threads: docs/results/engines.json in Markdown."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.engines import THREADS
from benchmarks.keep import RESULTS


def _read(part: str) -> dict[str, dict[str, Any]]:
    """What was measured in a part, by name."""
    found = json.loads((RESULTS / "engines.json").read_text()).get(part, {})
    return {name: values for name, values in found.items() if name not in ("machine", "peaks, measured")}


def _show(value: float | None, unit: str = " s") -> str:
    return "" if value is None else f"{value:.2g}{unit}" if value < 10 else f"{value:.0f}{unit}"


def make_fits() -> str:
    """Return a row for each fit: seconds on threads and on the GPU, both NDCG@20, and the memory on the device."""
    lines = ["| fit | threads | GPU | NDCG@20, threads | NDCG@20, GPU | GPU memory |", "|---|---|---|---|---|---|"]
    for name, values in _read("gpu").items():
        ndcg = [f"{values[key]:.4f}".lstrip("0") if key in values else "" for key in ("ndcg_threads", "ndcg")]
        memory = _show(values.get("peak_gb"), " GB")
        times = [_show(values.get(key)) for key in ("threads", "cuda")]
        lines.append(f"| {name} | {' | '.join([*times, *ndcg, memory])} |")
    return "\n".join(lines) + "\n"


def make_kernels() -> str:
    """Return a row for each operation: milliseconds, and the share of the device's peak that it reaches."""
    lines = ["| operation | ms | share of the peak |", "|---|---|---|"]
    for name, values in _read("kernels").items():
        share = next((f"{_show_share(values[key])} of {of}" for key, of in PEAKS.items() if key in values), "")
        lines.append(f"| {name} | {_show(values['ms'], '')} | {share} |")
    return "\n".join(lines) + "\n"


def _show_share(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 else "less than 1 %"


PEAKS = {"of_memory": "memory", "of_fp64": "arithmetic"}


def make_cores() -> str:
    """Return a row for each fit: seconds by the number of threads."""
    lines = [f"| | {' | '.join(map(str, THREADS))} threads |", f"|---|{'---|' * len(THREADS)}"]
    for name, values in _read("cores").items():
        if "seconds" in values:
            lines.append(f"| {name} |{' |' * (len(THREADS) - 1)} {_show(values['seconds'])} |")
        else:
            lines.append(f"| {name} | {' | '.join(_show(values.get(str(each))) for each in THREADS)} |")
    return "\n".join(lines) + "\n"
