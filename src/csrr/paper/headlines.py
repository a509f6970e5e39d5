"""The main findings of a reproduction, in a sentence each."""

from __future__ import annotations

from csrr.paper.claims import Summary, Table, tables_of
from csrr.paper.printed import COLUMNS, PRINTED

CLOSE = 0.05
"""The relative difference from the print that counts as reached."""


def headlines(summary: Summary) -> list[str]:
    """Return the main findings in a sentence each."""
    tables = list(tables_of(summary).values())
    found = [f"{table.label}: {_reached(table)}" for table in tables if table.data != "eachmovie" and _reached(table)]
    found += [
        f"{table.label}: {_at_or_above(table)}" for table in tables if table.data == "ml-1m" and table.has("CSRR-I")
    ]
    return found + [f"{table.label}: {_lead(table)}" for table in tables if _lead(table)]


def _reached(table: Table) -> str:
    """How many of the printed rows the results reach in NDCG@5."""
    printed = PRINTED[table.data]
    ratios = {name: table.value(name, "NDCG@5") / row["NDCG@5"] for name, row in printed.items() if table.has(name)}
    if not ratios:
        return ""
    close = sum(ratio >= 1 - CLOSE for ratio in ratios.values())
    each = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
    return (
        f"{close} of {len(ratios)} systems of the paper come within {100 * CLOSE:.0f} % of their printed NDCG@5 or"
        f" above (ours over printed: {each})."
    )


def _at_or_above(table: Table) -> str:
    """In how many columns the convex models, as in the paper and degree-scaled, are at or above the printed rows."""
    words = []
    for name, row in (("CSRR-I",) * 2, ("CSRR-II",) * 2, ("CSRR, scaled", "CSRR-I"), ("CSRR-II, scaled", "CSRR-II")):
        if table.has(name):
            ratios = {column: table.value(name, column) / value for column, value in PRINTED[table.data][row].items()}
            least = min(ratios, key=lambda column: ratios[column])
            reached = sum(ratio >= 1 for ratio in ratios.values())
            words.append(f"{name} in {reached} (the least: {ratios[least]:.3f} of it, {least})")
    return f"at or above the printed row of CSRR-I or CSRR-II, of {len(COLUMNS)} columns: {'; '.join(words)}."


def _lead(table: Table) -> str:
    """How far degree-scaled CSRR is ahead of the next, or behind the first."""
    tests = [test for test in table.tests if test["a"] == "CSRR, scaled"]
    if not tests:
        return ""
    nearest = min(tests, key=lambda test: test["difference"])
    own = table.rows["CSRR, scaled"]["extra"]["standard NDCG@10"]["mean"]
    wins = nearest["difference"] > 0
    p = max(test["p_t"] for test in tests) if wins else nearest["p_t"]
    return (
        f"degree-scaled CSRR has a standard NDCG@10 of {own:.4f} and is"
        f" {'ahead of every other system; the next is ' if wins else 'behind '}{nearest['b']}"
        f" ({100 * nearest['difference'] / (own - nearest['difference']):+.1f} %, paired t, Holm: p"
        f" {'<' if p < 1e-6 else '='} {max(p, 1e-6):.1g})."
    )
