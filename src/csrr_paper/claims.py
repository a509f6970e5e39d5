"""The claims of the paper: verdicts on them, computed from the results, and the main findings in sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from csrr._base.text import format_percent, to_finite
from csrr.report.svg import Point
from csrr_paper.jobs import SAME_STRENGTHS
from csrr_paper.printed import COLUMNS, DATA, PRINTED, PRINTED_FOR_OTHER_USERS, PRINTED_SYSTEMS, WITHOUT_V
from csrr_paper.summary_types import STANDARD, Claim, ResultPanel, Summary, SystemTable, Verdict
from csrr_paper.today import Today, compute_relative, say_places

BASELINES = ("PopRank", "BPRMF", "WRMF", "MC-Shift")
OURS = ("CSRR-I", "CSRR-II", "CSRR-e")
TODAY = ("WRMF, 256 factors", "EASE")
"""A baseline of the paper with a larger dimension, as is usual today, and one that is newer than the paper."""
LEVEL = 0.05
"""The p value below which a difference is significant."""


class Finding(NamedTuple):
    """A verdict, and a sentence with the evidence."""

    verdict: Verdict
    evidence: str


Judge = Callable[[Summary], Finding | None]


def index_tables(tables: Iterable[SystemTable], protocol: str = "numbers") -> dict[str, SystemTable]:
    """Return the tables of one protocol by their data."""
    return {table.data: table for table in tables if table.protocol == protocol}


def _format_percent(share: float) -> str:
    text = f"{100 * share:+.2f}" if abs(share) < 0.01 else f"{100 * share:+.1f}"
    return f"{'0.00' if float(text) == 0 else text.replace('-', '−')} %"


def _judge_count(good: int, all_: int) -> Verdict:
    return "holds" if good == all_ else "partly" if good else "fails"


def _judge_favorable(summary: Summary) -> Finding | None:
    """Compare CSRR-I, which the paper recommends, with the best baseline in each column, and test NDCG@5."""
    words, good, total, is_passed = [], 0, 0, False
    tables = [table for table in index_tables(summary.comparison).values() if table.has_systems("CSRR-I", *BASELINES)]
    for table in tables:
        ahead = sum(
            table.get_mean("CSRR-I", column) >= max(table.get_mean(name, column) for name in BASELINES)
            for column in COLUMNS
        )
        good, total = good + ahead, total + len(COLUMNS)
        best = max(BASELINES, key=lambda name: table.get_mean(name, "NDCG@5"))
        gain = _format_percent(table.compute_gain("NDCG@5", best))
        columns = f"CSRR-I is ahead in {ahead} of {len(COLUMNS)} columns"
        words.append(f"{table.label}: {columns}, NDCG@5 {gain} against {best}{_tell_p(table, best)}")
        if passed := _list_passing(table):
            words.append(passed)
            is_passed = True
    if not words:
        return None
    missing = [each.label for name, each in DATA.items() if name not in {table.data for table in tables}]
    verdict = "partly" if good and (missing or is_passed) else _judge_count(good, total)
    return Finding(verdict, "; ".join(words) + "." + (f" Not run: {', '.join(missing)}." if missing else ""))


def _is_clear(table: SystemTable, other: str) -> bool:
    """Return whether CSRR-I differs from another system in NDCG@5 by a paired test; True if there is no test."""
    found = _list_p(table, other)
    return not found or found[0] < LEVEL


def _list_p(table: SystemTable, other: str) -> list[float]:
    return [test.p_t for test in table.tests if (test.a, test.b, test.metric) == ("CSRR-I", other, "NDCG@5")]


def _tell_p(table: SystemTable, other: str) -> str:
    """Return the p value of CSRR-I against another system in NDCG@5, in brackets, if there is a test."""
    found = _list_p(table, other)
    return f" (p {'<' if found[0] < 1e-6 else '='} {max(found[0], 1e-6):.2g})" if found else ""


def _list_passing(table: SystemTable) -> str:
    """Return the current baselines that are ahead of CSRR-I in standard NDCG@10, in words."""
    present = [name for name in TODAY if table.has_systems(name) and STANDARD in table.get_row(name).extra]
    if not present or STANDARD not in table.get_row("CSRR-I").extra:
        return ""
    own = table.get_mean("CSRR-I", STANDARD)
    ahead = [f"{name} {table.get_mean(name, STANDARD):.4f}" for name in present if table.get_mean(name, STANDARD) > own]
    verb = "is" if len(ahead) == 1 else "are"
    return f"{' and '.join(ahead)} {verb} ahead of it in {STANDARD} ({own:.4f})" if ahead else ""


def _make_improvement_judge(data: str, letter: str, least: float) -> Judge:
    """Compare CSRR-I with BPRMF and WRMF in the columns of one measure."""

    def judge(summary: Summary) -> Finding | None:
        table = index_tables(summary.comparison).get(data)
        if table is None or not table.has_systems("CSRR-I", "BPRMF", "WRMF"):
            return None
        columns = [column for column in COLUMNS if column.startswith(f"{letter}@")]
        gains = {over: [table.compute_gain(column, over) for column in columns] for over in ("BPRMF", "WRMF")}
        reached = sum(gain >= least for each in gains.values() for gain in each)
        words = [
            f"{_format_percent(min(each))} to {_format_percent(max(each))} over {over}"
            + (_tell_p(table, over) if letter == "NDCG" else "")
            for over, each in gains.items()
        ]
        return Finding(_judge_count(reached, 2 * len(columns)), f"CSRR-I gains {' and '.join(words)}.")

    return judge


def _judge_by_that_much(summary: Summary) -> Finding | None:
    table = index_tables(summary.comparison).get("ml-100k")
    claimed = {"PopRank": 0.845, "BPRMF": 0.172, "MC-Shift": 0.0403}
    if table is None or not table.has_systems("CSRR-I", *claimed):
        return None
    rows = PRINTED["ml-100k"]
    printed = {over: rows["CSRR-I"]["NDCG@5"] / rows[over]["NDCG@5"] - 1 for over in claimed}
    gains = {over: table.compute_gain("NDCG@5", over) for over in claimed}
    words = [
        f"{_format_percent(gain)} over {over}{_tell_p(table, over)}, printed {_format_percent(printed[over])}"
        for over, gain in gains.items()
    ]
    reached = sum(gains[over] >= claimed[over] for over in claimed)
    return Finding(_judge_count(reached, len(claimed)), f"{'; '.join(words)}.")


def _judge_first_of_three(summary: Summary) -> Finding | None:
    words, good, total = [], 0, 0
    for table in index_tables(summary.comparison).values():
        if table.has_systems(*OURS) and "CSRR-I" in PRINTED[table.data]:
            values = [table.get_mean(name, "NDCG@5") for name in OURS]
            good += sum(values[0] > value and _is_clear(table, name) for name, value in zip(OURS, values, strict=True))
            total += len(OURS) - 1
            told = [f"{name} {value:.4f}{_tell_p(table, name)}" for name, value in zip(OURS, values, strict=True)]
            words.append(f"{table.label}: {', '.join(told)}")
    return Finding(_judge_count(good, total), f"NDCG@5. {'; '.join(words)}.") if words else None


def _judge_runtime(summary: Summary) -> Finding | None:
    """Compare the times of CSRR-I and CSRR-II with that of CSRR-e."""
    table = index_tables(summary.comparison).get("eachmovie")
    if table is None or not table.has_systems(*OURS):
        return None
    times = [row.seconds.fit for name in OURS if (row := table.get_row(name)).seconds is not None]
    if len(times) < len(OURS):
        return None
    first, second, third = times
    return Finding(
        "holds" if min(first, second) > 3 * third else "fails",
        f"A fit to the available part takes {first:.1f} s for CSRR-I, {second:.1f} s for CSRR-II, both to a certified"
        f" gap, and {third:.1f} s for CSRR-e.",
    )


def _judge_without_v(summary: Summary) -> Finding | None:
    words, obvious, better, total = [], 0, 0, 0
    for table in index_tables(summary.ablation).values():
        for other in (SAME_STRENGTHS, WITHOUT_V):
            if not table.has_systems("CSRR-I", other):
                continue
            gain = table.compute_gain("NDCG@5", other)
            test = next(t for t in table.tests if t.b == other and t.metric == "NDCG@5")
            real = test.p_t < LEVEL and gain > 0
            obvious, better, total = obvious + (real and gain > 0.005), better + real, total + 1
            how = "other parameters the same" if other == SAME_STRENGTHS else "tuned on its own"
            words.append(
                f"{table.label}, V = 0, {how}: V changes NDCG@5 by {_format_percent(gain)} (p = {test.p_t:.2g})"
            )
    if not words:
        return None
    verdict: Verdict = "holds" if obvious == total else "partly" if better else "fails"
    reason = " V absorbs observed cells, which are never recommended." if verdict != "holds" else ""
    return Finding(verdict, f"{'; '.join(words)}.{reason}")


def _select_panels(summary: Summary, figure: str, y: str = "", x: str = "") -> list[ResultPanel]:
    """Return the panels of a figure by the protocol "numbers", of one measure, whose label of x has this beginning."""
    panels = summary.figures[figure].panels if figure in summary.figures else []
    by_numbers = [panel for panel in panels if panel.protocol in ("", "numbers")]
    return [panel for panel in by_numbers if y in ("", panel.y) and panel.x.startswith(x)]


def _judge_small_costs(summary: Summary) -> Finding | None:
    words, good, total = [], 0, 0
    for panel in _select_panels(summary, "cost"):
        for series in panel.series if panel.y in COLUMNS else ():
            points = series.points
            best = max(points, key=lambda point: point.mean)
            loss, end = (points[place].mean / best.mean - 1 for place in (0, -1))
            good, total = good + (loss < -0.01), total + 1
            if panel.y == "NDCG@5":
                words.append(
                    f"{panel.title}, {series.name}: best at c_p = {best.x:g} ({best.mean:.4f}), at"
                    f" {points[0].x:g} {_format_percent(loss)}, at {points[-1].x:g} {_format_percent(end)}"
                )
    how = f" The smallest c_p is more than 1 % below the best in {good} of {total} curves."
    return Finding(_judge_count(good, total), f"{'; '.join(words)}.{how}") if words else None


def _judge_any_step(summary: Summary) -> Finding | None:
    words, good, total = [], 0, 0
    for panel in _select_panels(summary, "step", "NDCG@5"):
        for series in panel.series:
            points = series.points
            best = max(point.mean for point in points)
            near = [point for point in points if point.mean >= 0.98 * best]
            good, total = good + len(near), total + len(points)
            each = ", ".join(f"step × {point.x:g}: {point.mean:.4f}" for point in points)
            words.append(f"{panel.title}: {each}")
    if not words:
        return None
    return Finding(
        _judge_count(good, total), f"{'; '.join(words)}. {good} of {total} steps are within 2 % of the best."
    )


def _select_strength(summary: Summary, x: str) -> tuple[str, list[Point]] | None:
    """Return the title and the points of the figure on a regularization parameter."""
    panels = _select_panels(summary, "strengths", "NDCG@5", x)
    return (panels[0].title, panels[0].series[0].points) if panels else None


def _list_points(points: list[Point]) -> str:
    return ", ".join(f"{point.x:g}: {point.mean:.4f}" for point in points)


def _judge_middle_l1(summary: Summary) -> Finding | None:
    if (found := _select_strength(summary, "λ₁")) is None:
        return None
    title, points = found
    best = max(point.mean for point in points)
    ends = [points[place].mean < 0.99 * best for place in (0, -1)]
    return Finding(_judge_count(sum(ends), 2), f"{title}, λ₁ = {_list_points(points)}.")


def _judge_larger_l2(summary: Summary) -> Finding | None:
    if (found := _select_strength(summary, "λ₂")) is None:
        return None
    title, points = found
    return Finding(
        "partly" if points[-1].mean > points[0].mean else "fails",
        f"{title}, λ₂ = {_list_points(points)}. But a larger λ₂ means a smaller V, and from λ₂ = α on V = 0: accuracy"
        " that rises with λ₂ is evidence against V, not for it.",
    )


_COUNTED = tuple(column for column in COLUMNS if not column.startswith("NDCG"))


def _judge_larger_than_3(summary: Summary) -> Finding | None:
    """Compare PopRank, which needs no tuning, under both protocols, in the columns that are the same in both."""
    words, nearer, total = [], 0, 0
    both = [index_tables(summary.comparison, protocol) for protocol in ("text", "numbers")]
    for data in ("ml-100k", "ml-1m"):
        if all(data in tables and tables[data].has_systems("PopRank") for tables in both):
            off = [_measure_distance(tables[data], data) for tables in both]
            nearer, total = nearer + (off[0] < off[1]), total + 1
            words.append(
                f"{DATA[data].label}: P, R and F of PopRank are on average {100 * off[0]:.1f} % from the printed"
                f" values with ratings > 3, {100 * off[1]:.1f} % with ratings >= 3"
            )
    return Finding(_judge_count(nearer, total), "; ".join(words) + ".") if words else None


def _judge_normalized(summary: Summary) -> Finding | None:
    """Compare PopRank's NDCG@10, standard and normalized by the list, with the printed one."""
    words, nearer, total = [], 0, 0
    for data, table in index_tables(summary.comparison).items():
        if data in ("ml-100k", "ml-1m") and table.has_systems("PopRank"):
            printed, ours = PRINTED[data]["PopRank"]["NDCG@10"], table.get_mean("PopRank", "NDCG@10")
            standard = table.get_mean("PopRank", "standard NDCG@10")
            nearer, total = nearer + (abs(standard - printed) < abs(ours - printed)), total + 1
            words.append(
                f"{table.label}: printed {printed:.4f}, standard {standard:.4f}, normalized by the hits {ours:.4f}"
            )
    return Finding(_judge_count(nearer, total), f"PopRank's NDCG@10. {'; '.join(words)}.") if words else None


def _measure_distance(table: SystemTable, data: str) -> float:
    """The mean relative difference of PopRank from its printed row."""
    printed = PRINTED[data]["PopRank"]
    return sum(abs(table.get_mean("PopRank", column) / printed[column] - 1) for column in _COUNTED) / len(_COUNTED)


def _judge_one_experiment(summary: Summary) -> Finding | None:
    """Compare the variation of P / R over systems, which depends more on the data than on the system, with ours."""
    protocols, wanted = ("numbers", "all-ratings"), ("BPRMF", "WRMF", "MC-Shift")
    tables = {name: index_tables(summary.comparison, name).get("ml-100k") for name in protocols}
    found = {name: table for name, table in tables.items() if table is not None and table.has_systems(*wanted)}
    if "numbers" not in found:
        return None
    printed = {name: _compute_ratio(row["P@5"], row["R@5"]) for name, row in PRINTED["ml-100k"].items()}
    ours = {
        name: {
            system: _compute_ratio(*(table.get_mean(system, c) for c in ("P@5", "R@5")))
            for system in PRINTED_SYSTEMS
            if table.has_systems(system)
        }
        for name, table in found.items()
    }
    spread = [max(each.values()) / min(each.values()) for each in (printed, ours["numbers"])]
    lines = [f"protocol “{name}” {_format_ratios(each)}" for name, each in ours.items()]
    return Finding(
        "fails" if spread[0] - 1 > 2 * (spread[1] - 1) else "holds",
        f"5 P@5 / R@5 on MovieLens-100K is the mean number of test items of a user, weighted by hits: it depends on the"
        f" data more than on the system. Printed: {_format_ratios(printed)}. Measured: {'; '.join(lines)}.",
    )


def _compute_ratio(precision: float, recall: float) -> float:
    return 5 * precision / recall


def _format_ratios(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.1f}" for name, value in values.items())


_CLAIMS: list[tuple[str, str, str, Judge]] = [
    (
        "“CSRR outperforms or at least compares favorably with all other baselines over all the datasets.”",
        "Comparison Results",
        "CSRR-I is at least as good as all baselines",
        _judge_favorable,
    ),
    (
        "“… the improvement over the MF-based methods (BPRMF and WRMF) are significant, e.g. at least 10% improvement"
        " on NDCG@N of MovieLens-100K …”",
        "Comparison Results",
        "10 % more NDCG than BPRMF and WRMF on MovieLens-100K",
        _make_improvement_judge("ml-100k", "NDCG", 0.10),
    ),
    (
        "“… and 5% on F-score@N of MovieLens-1M …”",
        "Comparison Results",
        "5 % more F-score than BPRMF and WRMF on MovieLens-1M",
        _make_improvement_judge("ml-1m", "F", 0.05),
    ),
    (
        "“… CSRR-I outperforms PopRank, BPRMF and MC-Shift by 84.5%, 17.2% and 4.03% on NDCG@5 of MovieLens-100K.”",
        "Comparison Results",
        "the printed gains in NDCG@5 on MovieLens-100K",
        _judge_by_that_much,
    ),
    (
        "The table has CSRR-I ahead of CSRR-II and CSRR-e.",
        "Comparison Results",
        "CSRR-I is ahead of CSRR-II and CSRR-e",
        _judge_first_of_three,
    ),
    (
        "“We only adopt the CSRR-e on EachMovie due to a high runtime of CSRR-I/II.”",
        "Comparison Results",
        "CSRR-I and CSRR-II are much slower than CSRR-e",
        _judge_runtime,
    ),
    (
        "“… the performance without V (CSRR-I/V₀) is obviously degraded …”",
        "Analysis for Robust Matrix Decomposition",
        "without V accuracy is lower",
        _judge_without_v,
    ),
    (
        "“With a small value of c_p, it is observed that the performance is degraded over all metrics by such"
        " cost-insensitive classification.”",
        "Analysis for Cost-Sensitive Bias",
        "with a small c_p accuracy is lower",
        _judge_small_costs,
    ),
    (
        "“… our algorithms perform quite well on a relatively large parameter space of the learning rate.”",
        "Analysis for Learning Rate",
        "the learning rate matters little",
        _judge_any_step,
    ),
    (
        "“… the proposed method does not perform well with either a large or a small value of λ₁.”",
        "Analysis for Robust Matrix Decomposition",
        "both a small and a large λ₁ are bad",
        _judge_middle_l1,
    ),
    (
        "“… the accuracy can be improved when λ₂ is increased, inferring that the learned V is effective to reduce the"
        " gross outliers.”",
        "Analysis for Robust Matrix Decomposition",
        "a larger λ₂ is better",
        _judge_larger_l2,
    ),
    (
        "“… treated the ratings larger than 3 as observed positive feedback.”",
        "Datasets",
        "ratings above 3 are the positives",
        _judge_larger_than_3,
    ),
    (
        "“NDCG@N is the normalized discounted cumulative gain in the ranking.”",
        "Evaluation Metrics",
        "NDCG is the standard one",
        _judge_normalized,
    ),
    (
        "“In order to fairly compare these algorithms, we randomly selected the training samples for each dataset …”",
        "Evaluation Metrics",
        "all systems share one protocol",
        _judge_one_experiment,
    ),
]
"""A claim, its place in the paper, its topic in short, and the function that gives its verdict."""


def judge_claims(summary: Summary) -> list[Claim]:
    """Return the claims of the paper, each with a verdict and the evidence, as far as there are results.

    Results that are no evidence get no verdict: the evidence is what is found in this run.
    """
    unknown = Finding("untestable", "The results it needs are missing.")
    findings = [judge(summary) for *_, judge in _CLAIMS]
    if explain_weakness(summary):
        findings = [each and Finding("untestable", f"In this run: {each.evidence}") for each in findings]
    return [
        Claim(claim, where, *(finding or unknown), short)
        for (claim, where, short, _), finding in zip(_CLAIMS, findings, strict=True)
    ]


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
