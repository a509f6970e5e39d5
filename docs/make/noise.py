"""What is kept under noise: docs/results/robustness.parquet and docs/results/noise.json in Markdown."""

from __future__ import annotations

import json

from benchmarks.keep import RESULTS
from csrr_paper.robustness_results import TITLES, Robustness
from docs.make.defaults import shorten

SHARES = (0.1, 0.3, 0.5)
RIVALS = ("EASE", "WRMF", "BPRMF")
DEFAULT = "CSRR as it comes"


def make_table(found: Robustness) -> str:
    """What `CSRR()` keeps under noise, beside the best of the tuned rivals."""
    shares = [f"{100 * share:.0f} %" for share in SHARES]
    lines = [f"| noise | {' | '.join(f'`CSRR()`, {each} | best baseline' for each in shares)} |"]
    lines.append("|---" * (1 + 2 * len(SHARES)) + "|")
    for kind in found.kinds:
        cells = []
        for share in SHARES:
            means = {each: _take_mean(found, kind, share, each) for each in (DEFAULT, *RIVALS)}
            best = max(RIVALS, key=means.__getitem__)
            cells += [shorten(means[DEFAULT]), f"{best} {shorten(means[best])}"]
        lines.append(f"| {TITLES[kind]} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _take_mean(found: Robustness, kind: str, share: float, system: str) -> float:
    values = [each.ndcg for each in found.lines if (each.kind, each.share, each.system) == (kind, share, system)]
    return sum(values) / len(values)


KEPT = json.loads((RESULTS / "noise.json").read_text())
_NAMES = {"ml-100k": "MovieLens-100K", "ml-1m": "MovieLens-1M"}
_NOISE: dict[str, str] = {"random": "random clicks", "popular": "clicks on popular items", "push": "a push of one item"}


def _show_share(share: float) -> str:
    """A share to three digits, without its zero."""
    return f"{share:.3f}".lstrip("0")


def list_kept(*data: str, shares: tuple[float, ...] = (0.3, 0.5)) -> str:
    """Which share of NDCG@20 each model keeps: more than `CSRR()` or less, beyond the interval, is marked."""
    rivals = ("EASE", "ItemKNN", "WRMF")
    lines = [f"| noise in the training log | `CSRR()` | {' | '.join(rivals)} |", "|---" * 5 + "|"]
    for key, found in KEPT.items():
        name, level = key.split(", ", 1)
        kind, share = level.split(":")
        if name not in data or float(share) not in shares:
            continue
        models = found["models"]
        where = f"{_NAMES[name]}, " if len(data) > 1 else ""
        cells = [f"{_show_share(models['CSRR']['kept'])} ({shorten(models['CSRR']['noisy'])})"]
        for rival in rivals:
            low, high = models[rival]["CSRR keeps more"]
            mark = " -" if low > 0 else " +" if high < 0 else ""
            cells.append(f"{_show_share(models[rival]['kept'])}{mark} ({shorten(models[rival]['noisy'])})")
        lines.append(f"| {where}{100 * float(share):.0f} % {_NOISE[kind]} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
