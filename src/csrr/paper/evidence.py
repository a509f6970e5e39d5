"""Whether the results of a run are enough to judge the paper by."""

from __future__ import annotations

from csrr.paper.summary_types import Summary

FEWEST_SPLITS = 3
"""With fewer random splits of the data, no claim is judged."""
FULL_RESULTS = "docs/reproduction.md in the source of csrr"


def explain_weakness(summary: Summary) -> str:
    """Return why the results are no evidence: too few splits, or a quick run; "" where they are."""
    most = max((len(table.splits) for table in (*summary.comparison, *summary.ablation)), default=0)
    splits = "" if most == 0 else "1 split" if most == 1 else f"{most} splits"
    if summary.made.quick:
        return f"a quick run tries few parameters on {splits or 'few splits'}"
    return f"there is only {splits}" if most == 1 else f"there are only {splits}" if 0 < most < FEWEST_SPLITS else ""


def write_notice(summary: Summary) -> str:
    """Return what a reader of results that are no evidence must know; "" for the others."""
    weakness = explain_weakness(summary)
    if not weakness:
        return ""
    return (
        f"Not evidence: {weakness}. This page shows that the experiments run and what they look like. It judges no"
        f" claim, and its numbers can differ from those of the full results, which are in {FULL_RESULTS}."
    )
