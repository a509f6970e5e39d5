"""The README's table of what is kept under noise: docs/results/robustness.parquet in Markdown."""

from __future__ import annotations

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
