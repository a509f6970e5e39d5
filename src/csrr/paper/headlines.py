"""The main findings of a reproduction, in a sentence each."""

from __future__ import annotations

from csrr.paper.claims import index_tables
from csrr.paper.printed import COLUMNS, PRINTED
from csrr.paper.summary_types import Summary, SystemTable

CLOSE = 0.05
"""The relative difference from the print that counts as reached."""


def write_headlines(summary: Summary) -> list[str]:
    """Return the main findings in a sentence each."""
    tables = list(index_tables(summary.comparison).values())
    found = [(table, _count_reached(table)) for table in tables if table.data != "eachmovie"]
    found += [(table, _count_columns(table)) for table in tables if table.data == "ml-1m"]
    found += [(table, _say_lead(table, *ours)) for ours in _LEADS for table in tables]
    return [f"{table.label}: {words}" for table, words in found if words]


def _count_reached(table: SystemTable) -> str:
    """Return how many of the printed rows the results reach in NDCG@5."""
    printed = {name: row["NDCG@5"] for name, row in PRINTED[table.data].items() if table.has_systems(name)}
    ratios = {name: table.get_mean(name, "NDCG@5") / value for name, value in printed.items()}
    if not ratios:
        return ""
    close = sum(ratio >= 1 - CLOSE for ratio in ratios.values())
    each = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
    return (
        f"{close} of {len(ratios)} systems of the paper come within {100 * CLOSE:.0f} % of their printed NDCG@5 or"
        f" above (ours over printed: {each})."
    )


def _count_columns(table: SystemTable) -> str:
    """Return in how many columns our models, as in the paper and scaled, are at or above the printed rows."""
    if not table.has_systems("CSRR-I"):
        return ""
    words = []
    for name, row in (
        *((name, name) for name in ("CSRR-I", "CSRR-II", "CSRR-e")),
        ("CSRR, scaled", "CSRR-I"),
        ("CSRR-II, scaled", "CSRR-II"),
    ):
        if table.has_systems(name):
            printed = PRINTED[table.data][row]
            ratios = {column: table.get_mean(name, column) / value for column, value in printed.items()}
            least = min(ratios, key=lambda column: ratios[column])
            reached = sum(ratio >= 1 for ratio in ratios.values())
            words.append(f"{name} in {reached} (the least: {ratios[least]:.3f} of it, {least})")
    rows = "its printed row (scaled: that of CSRR-I or CSRR-II)"
    return f"at or above {rows}, of {len(COLUMNS)} columns: {'; '.join(words)}."


_LEADS = (
    ("CSRR, scaled", "degree-scaled CSRR"),
    ("CSRR()", "this library's default, CSRR() with neighbours, which is no model of the paper's,"),
)
"""Those of ours whose lead is told, and what they are called."""


def _say_lead(table: SystemTable, system: str, called: str) -> str:
    """Return how far a system of ours is ahead of the next, or behind the first."""
    tests = [test for test in table.tests if test.a == system]
    if not tests:
        return ""
    nearest = min(tests, key=lambda test: test.difference)
    own = table.get_mean(system, "standard NDCG@10")
    wins = nearest.difference > 0
    p = max(test.p_t for test in tests) if wins else nearest.p_t
    return (
        f"{called} has a standard NDCG@10 of {own:.4f} and is"
        f" {'ahead of every other system; the next is ' if wins else 'behind '}{nearest.b}"
        f" ({100 * nearest.difference / (own - nearest.difference):+.1f} %, paired t, Holm: p"
        f" {'<' if p < 1e-6 else '='} {max(p, 1e-6):.1g})."
    )
