"""Notices on runs that are too small to judge the paper by."""

from __future__ import annotations

from csrr_paper.summary_types import Summary

FEWEST_SPLITS = 3
"""The least number of random splits for a verdict on a claim."""
FULL_RESULTS = "docs/reproduction.md in the source of csrr"


def explain_weakness(summary: Summary) -> str:
    """Return a notice on a quick run, or too few splits; "" if the results are evidence."""
    most = max((len(table.splits) for table in (*summary.comparison, *summary.ablation)), default=0)
    splits = "few splits" if most == 0 else "1 split" if most == 1 else f"{most} splits"
    if summary.made.quick:
        return f"a quick run, with few parameters and {splits}, is not evidence"
    return f"{splits} {'is' if most == 1 else 'are'} not evidence" if 0 < most < FEWEST_SPLITS else ""


def write_notice(summary: Summary) -> str:
    """Return a notice for the page of results that are not evidence; "" for others."""
    weakness = explain_weakness(summary)
    if not weakness:
        return ""
    return (
        f"{weakness[0].upper()}{weakness[1:]}. This page shows that the experiments run and what the results look like."
        f" It judges no claim, and its numbers can differ from the full results, which are in {FULL_RESULTS}."
    )
