"""The main findings of a reproduction in five sentences, each computed from the results."""

from __future__ import annotations

from collections.abc import Sequence

from csrr._base.text import format_percent, to_finite
from csrr_paper.claims import index_tables
from csrr_paper.evidence import FULL_RESULTS, explain_weakness
from csrr_paper.printed import PRINTED_FOR_OTHER_USERS
from csrr_paper.summary_types import STANDARD, Claim, Summary, SystemTable
from csrr_paper.today import Today, compute_relative, say_places

CLOSE = 0.05
"""The largest relative difference from a printed number that counts as near."""
NEAR_IN = "NDCG@5"
PAPERS_BEST = "CSRR-I"


def write_headlines(summary: Summary) -> list[str]:
    """Return five sentences: claims that hold, those that do not, how near the numbers are, and the best systems."""
    weakness = explain_weakness(summary)
    tables = list(index_tables(summary.comparison).values())
    begin = "In this run, " if weakness else ""
    return [
        *_say_verdicts(summary.claims, weakness),
        _capitalize(f"{begin}{_say_nearness(tables)}"),
        _capitalize(f"{begin}{_say_best(tables)}"),
        _say_other_data(summary.today),
    ]


def _capitalize(words: str) -> str:
    return words[:1].upper() + words[1:]


def _join(words: Sequence[str]) -> str:
    """Return "a", "a and b" or "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _say_verdicts(claims: Sequence[Claim], weakness: str) -> tuple[str, str]:
    """Return a sentence on the claims that hold, and one on the others."""
    by_verdict = {
        verdict: [each for each in claims if each.verdict == verdict]
        for verdict in ("holds", "partly", "fails", "untestable")
    }
    holds, partly, fails, open_ = by_verdict.values()
    if len(open_) == len(claims):
        reason = weakness or "the results they need are missing"
        return f"None of the paper's claims is judged here: {reason}.", f"The full results are in {FULL_RESULTS}."
    held = f"{_count(holds)}{_name(holds)} and {_count(partly)} in part{_name(partly)}"
    left = f"; {len(open_)} {'is' if len(open_) == 1 else 'are'} not judged" if open_ else ""
    against = f"contradict {len(fails)}{_name(fails)}" if fails else "contradict none"
    return f"Of {len(claims)} claims of the paper, {held}.", f"The results {against}{left}."


def _count(claims: Sequence[Claim]) -> str:
    return "1 holds" if len(claims) == 1 else f"{len(claims) or 'none'} hold"


def _quote(name: str) -> str:
    """Return a name, in quotation marks if it has a comma."""
    return f"“{name}”" if "," in name else name


def _name(claims: Sequence[Claim]) -> str:
    """Return the topics of claims in brackets, if all have one."""
    return f" ({'; '.join(each.short for each in claims)})" if claims and all(each.short for each in claims) else ""


def _say_nearness(tables: Sequence[SystemTable]) -> str:
    """Return for how many systems the measured value is near the printed one, on the data sets of the paper."""
    words = []
    for table in tables:
        differences = list_differences(table)
        if differences:
            near = sum(abs(each) <= CLOSE for each in differences.values())
            farthest = max(differences, key=lambda name: abs(differences[name]))
            named = [name for name in dict.fromkeys((PAPERS_BEST, farthest)) if name in differences]
            told = [
                f"{'the farthest, ' if name == farthest else ''}{_quote(name)}:"
                f" {format_percent(differences[name], signed=True)}"
                for name in named
            ]
            words.append(f"for {near} of {len(differences)} systems on {table.label} ({'; '.join(told)})")
    if not words:
        return "no printed number was measured on the data that the paper used."
    return f"{NEAR_IN} is within {100 * CLOSE:.0f} % of the printed value {_join(words)}."


def list_differences(table: SystemTable) -> dict[str, float]:
    """Return the relative difference of each system from its printed `NEAR_IN`; none if the printed users differ."""
    if table.data in PRINTED_FOR_OTHER_USERS:
        return {}
    cells = {row.system: row.cells[NEAR_IN] for row in table.rows if NEAR_IN in row.cells}
    found = {name: compute_relative(cell.mean, cell.printed) for name, cell in cells.items()}
    return {name: each for name, each in found.items() if each is not None}


def list_standard(table: SystemTable) -> dict[str, float]:
    """Return the standard NDCG@10 of each system that has one."""
    means = {row.system: to_finite(row.extra[STANDARD].mean) for row in table.rows if STANDARD in row.extra}
    return {name: mean for name, mean in means.items() if mean is not None}


def _say_best(tables: Sequence[SystemTable]) -> str:
    """Return the best system on each data set, current ones included, and the distance of CSRR-I from it."""
    words = []
    for table in tables:
        if means := list_standard(table):
            best = max(means, key=lambda name: means[name])
            behind = compute_relative(means.get(PAPERS_BEST, float("nan")), means[best])
            gap = (
                ""
                if behind is None or best == PAPERS_BEST
                else f" ({PAPERS_BEST}: {format_percent(behind, signed=True)})"
            )
            words.append(f"{_quote(best)} on {table.label}{gap}")
    if not words:
        return f"no {STANDARD} was measured by the protocol of the printed numbers."
    return f"by {STANDARD}, the best of the systems compared is {_join(words)}."


def _say_other_data(today: Today | None) -> str:
    if today is None:
        return "Systems of today on other data are not part of this run."
    return f"On data that the paper did not use, this library's default model {say_places(today)}"
