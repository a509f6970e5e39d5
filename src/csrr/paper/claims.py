"""What the paper claims, held against the results: each verdict is computed, with the numbers that made it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from csrr.paper.jobs import SAME_STRENGTHS
from csrr.paper.printed import COLUMNS, DATA, PRINTED, SYSTEMS, WITHOUT_V

BASELINES = ("PopRank", "BPRMF", "WRMF", "MC-Shift")
OURS = ("CSRR-I", "CSRR-II", "CSRR-e")
Summary = dict[str, Any]


class Finding(NamedTuple):
    """A verdict ("holds", "partly", "fails") and the sentence that bears it out."""

    verdict: str
    evidence: str


class Table:
    """A table of a summary, by system and column."""

    def __init__(self, table: dict[str, Any]) -> None:
        self.data, self.label = table["data"], table["label"]
        self.rows = {row["system"]: row for row in table["rows"]}
        self.tests = table["tests"]

    def has(self, *systems: str) -> bool:
        return all(system in self.rows for system in systems)

    def value(self, system: str, column: str) -> float:
        return float(self.rows[system]["cells"][column]["mean"])

    def gain(self, column: str, over: str, system: str = "CSRR-I") -> float:
        """How much better a system is than another, relatively."""
        return self.value(system, column) / self.value(over, column) - 1


def tables_of(summary: Summary, part: str = "comparison", protocol: str = "numbers") -> dict[str, Table]:
    return {each["data"]: Table(each) for each in summary.get(part, []) if each["protocol"] == protocol}


def _percent(share: float) -> str:
    text = f"{100 * share:+.2f}" if abs(share) < 0.01 else f"{100 * share:+.1f}"
    return f"{'0.00' if float(text) == 0 else text} %"


def _judge(good: int, all_: int) -> str:
    return "holds" if good == all_ else "partly" if good else "fails"


def _favourable(summary: Summary) -> Finding | None:
    """The best CSRR of the paper against the best baseline, column by column."""
    words, good, total = [], 0, 0
    tables = [table for table in tables_of(summary).values() if table.has("CSRR-I", *BASELINES)]
    for table in tables:
        ours = [name for name in OURS if table.has(name)]
        ahead = sum(max(table.value(s, c) for s in ours) >= max(table.value(s, c) for s in BASELINES) for c in COLUMNS)
        good, total = good + ahead, total + len(COLUMNS)
        best = max(BASELINES, key=lambda name: table.value(name, "NDCG@5"))
        gain = max(table.gain("NDCG@5", best, name) for name in ours)
        columns = f"ahead in {ahead} of {len(COLUMNS)} columns"
        words.append(f"{table.label}: {columns}, NDCG@5 {_percent(gain)} against {best}")
    if not words:
        return None
    missing = [each.label for name, each in DATA.items() if name not in {table.data for table in tables}]
    verdict = "partly" if good and missing else _judge(good, total)
    return Finding(verdict, "; ".join(words) + "." + (f" Not run: {', '.join(missing)}." if missing else ""))


def _improvement(data: str, letter: str, least: float) -> Callable[[Summary], Finding | None]:
    """CSRR-I against BPRMF and WRMF in the columns of one measure."""

    def found(summary: Summary) -> Finding | None:
        table = tables_of(summary).get(data)
        if table is None or not table.has("CSRR-I", "BPRMF", "WRMF"):
            return None
        columns = [column for column in COLUMNS if column.startswith(f"{letter}@")]
        gains = {over: [table.gain(column, over) for column in columns] for over in ("BPRMF", "WRMF")}
        reached = sum(gain >= least for each in gains.values() for gain in each)
        words = [f"{_percent(min(each))} to {_percent(max(each))} over {over}" for over, each in gains.items()]
        return Finding(_judge(reached, 2 * len(columns)), f"CSRR-I gains {' and '.join(words)}.")

    return found


def _by_that_much(summary: Summary) -> Finding | None:
    table = tables_of(summary).get("ml-100k")
    claimed = {"PopRank": 0.845, "BPRMF": 0.172, "MC-Shift": 0.0403}
    if table is None or not table.has("CSRR-I", *claimed):
        return None
    rows = PRINTED["ml-100k"]
    printed = {over: rows["CSRR-I"]["NDCG@5"] / rows[over]["NDCG@5"] - 1 for over in claimed}
    gains = {over: table.gain("NDCG@5", over) for over in claimed}
    words = [
        f"{_percent(gain)} over {over} (the printed rows: {_percent(printed[over])})" for over, gain in gains.items()
    ]
    return Finding(_judge(sum(gains[over] >= claimed[over] for over in claimed), len(claimed)), f"{'; '.join(words)}.")


def _first_of_three(summary: Summary) -> Finding | None:
    words, good, total = [], 0, 0
    for table in tables_of(summary).values():
        if table.has(*OURS) and "CSRR-I" in PRINTED[table.data]:
            values = [table.value(name, "NDCG@5") for name in OURS]
            good, total = good + (values[0] == max(values)), total + 1
            words.append(f"{table.label}: {', '.join(f'{n} {v:.4f}' for n, v in zip(OURS, values, strict=True))}")
    return Finding(_judge(good, total), f"NDCG@5. {'; '.join(words)}.") if words else None


def _runtime(summary: Summary) -> Finding | None:
    """Whether CSRR-I and CSRR-II take much longer than CSRR-e."""
    table = tables_of(summary).get("eachmovie")
    if table is None or not table.has(*OURS):
        return None
    first, second, third = (table.rows[name]["seconds"]["fit"] for name in OURS)
    return Finding(
        "holds" if min(first, second) > 3 * third else "fails",
        f"A fit to the part we have takes {first:.1f} s for CSRR-I, {second:.1f} s for CSRR-II, both to a certified"
        f" gap, and {third:.1f} s for CSRR-e.",
    )


def _without_v(summary: Summary) -> Finding | None:
    words, obvious, better, total = [], 0, 0, 0
    for table in tables_of(summary, "ablation").values():
        for other in (SAME_STRENGTHS, WITHOUT_V):
            if not table.has("CSRR-I", other):
                continue
            gain = table.gain("NDCG@5", other)
            test = next(t for t in table.tests if t["b"] == other and t["metric"] == "NDCG@5")
            real = test["p_t"] < 0.05 and gain > 0
            obvious, better, total = obvious + (real and gain > 0.005), better + real, total + 1
            how = "the rest the same" if other == SAME_STRENGTHS else "tuned on its own"
            words.append(f"{table.label}, V = 0, {how}: V is worth {_percent(gain)} NDCG@5 (p = {test['p_t']:.2g})")
    if not words:
        return None
    verdict = "holds" if obvious == total else "partly" if better else "fails"
    reason = " V takes up cells that are observed, and so never recommended." if verdict != "holds" else ""
    return Finding(verdict, f"{'; '.join(words)}.{reason}")


def _panels(summary: Summary, figure: str, y: str, x: str = "") -> list[dict[str, Any]]:
    panels = summary.get("figures", {}).get(figure, {}).get("panels", [])
    by_numbers = [panel for panel in panels if panel.get("protocol", "numbers") == "numbers"]
    return [panel for panel in by_numbers if y in ("", panel["y"]) and panel["x"].startswith(x)]


def _small_costs(summary: Summary) -> Finding | None:
    words, good, total = [], 0, 0
    for panel in _panels(summary, "cost", ""):
        for series in panel["series"]:
            points = series["points"]
            best = max(points, key=lambda point: point["mean"])
            loss, end = (points[place]["mean"] / best["mean"] - 1 for place in (0, -1))
            good, total = good + (loss < -0.01), total + 1
            if panel["y"] == "NDCG@5":
                words.append(
                    f"{panel['title']}, {series['name']}: best at c_p = {best['x']:g} ({best['mean']:.4f}), at"
                    f" {points[0]['x']:g} {_percent(loss)}, at {points[-1]['x']:g} {_percent(end)}"
                )
    how = f" The smallest c_p is more than 1 % below the best in {good} of {total} lines."
    return Finding(_judge(good, total), f"{'; '.join(words)}.{how}") if words else None


def _any_step(summary: Summary) -> Finding | None:
    words, good, total = [], 0, 0
    for panel in _panels(summary, "step", "NDCG@5"):
        for series in panel["series"]:
            points = series["points"]
            best = max(point["mean"] for point in points)
            near = [point for point in points if point["mean"] >= 0.98 * best]
            good, total = good + len(near), total + len(points)
            each = ", ".join(f"x {point['x']:g}: {point['mean']:.4f}" for point in points)
            words.append(f"{panel['title']}: {each}")
    if not words:
        return None
    return Finding(_judge(good, total), f"{'; '.join(words)}. {good} of {total} steps are within 2 % of the best.")


def _series(summary: Summary, x: str) -> tuple[str, list[dict[str, Any]]] | None:
    """The title and the points of the figure on a strength."""
    panels = _panels(summary, "strengths", "NDCG@5", x)
    return (panels[0]["title"], panels[0]["series"][0]["points"]) if panels else None


def _listed(points: list[dict[str, Any]]) -> str:
    return ", ".join(f"{point['x']:g}: {point['mean']:.4f}" for point in points)


def _middle_l1(summary: Summary) -> Finding | None:
    if (found := _series(summary, "λ₁")) is None:
        return None
    title, points = found
    best = max(point["mean"] for point in points)
    ends = [points[place]["mean"] < 0.99 * best for place in (0, -1)]
    return Finding(_judge(sum(ends), 2), f"{title}, λ₁ = {_listed(points)}.")


def _larger_l2(summary: Summary) -> Finding | None:
    if (found := _series(summary, "λ₂")) is None:
        return None
    title, points = found
    return Finding(
        "partly" if points[-1]["mean"] > points[0]["mean"] else "fails",
        f"{title}, λ₂ = {_listed(points)}. But a larger λ₂ means a smaller V, and from λ₂ = α on V = 0: where accuracy"
        " rises with λ₂, that speaks against V, not for it.",
    )


_COUNTED = tuple(column for column in COLUMNS if not column.startswith("NDCG"))


def _larger_than_3(summary: Summary) -> Finding | None:
    """PopRank, which has nothing to tune, by both protocols, in the columns that both compute alike."""
    words, nearer, total = [], 0, 0
    by_text, by_numbers = tables_of(summary, protocol="text"), tables_of(summary)
    for data in ("ml-100k", "ml-1m"):
        if data in by_text and data in by_numbers and all(t[data].has("PopRank") for t in (by_text, by_numbers)):
            off = [_distance(tables[data], data) for tables in (by_text, by_numbers)]
            nearer, total = nearer + (off[0] < off[1]), total + 1
            words.append(
                f"{DATA[data].label}: P, R and F of PopRank are on average {100 * off[0]:.1f} % off the print with"
                f" ratings > 3, {100 * off[1]:.1f} % with ratings >= 3"
            )
    return Finding(_judge(nearer, total), "; ".join(words) + ".") if words else None


def _normalised(summary: Summary) -> Finding | None:
    """PopRank's NDCG@10, standard and normalised by the list, against the print."""
    words, nearer, total = [], 0, 0
    for data, table in tables_of(summary).items():
        if data in ("ml-100k", "ml-1m") and table.has("PopRank"):
            printed, ours = PRINTED[data]["PopRank"]["NDCG@10"], table.value("PopRank", "NDCG@10")
            standard = table.rows["PopRank"]["extra"]["standard NDCG@10"]["mean"]
            nearer, total = nearer + (abs(standard - printed) < abs(ours - printed)), total + 1
            words.append(
                f"{table.label}: printed {printed:.4f}, standard {standard:.4f}, by the list's hits {ours:.4f}"
            )
    return Finding(_judge(nearer, total), f"PopRank's NDCG@10. {'; '.join(words)}.") if words else None


def _distance(table: Table, data: str) -> float:
    """The mean relative difference of PopRank from its printed row."""
    printed = PRINTED[data]["PopRank"]
    return sum(abs(table.value("PopRank", column) / printed[column] - 1) for column in _COUNTED) / len(_COUNTED)


def _one_experiment(summary: Summary) -> Finding | None:
    """Whether the ratio of P to R, which hangs on the data more than on the system, varies no more than ours."""
    tables = {name: tables_of(summary, protocol=name).get("ml-100k") for name in ("numbers", "all-ratings")}
    found = {
        name: table for name, table in tables.items() if table is not None and table.has("BPRMF", "WRMF", "MC-Shift")
    }
    if "numbers" not in found:
        return None
    printed = {name: _ratio(row["P@5"], row["R@5"]) for name, row in PRINTED["ml-100k"].items()}
    ours = {
        name: {
            system: _ratio(*(table.value(system, c) for c in ("P@5", "R@5"))) for system in SYSTEMS if table.has(system)
        }
        for name, table in found.items()
    }
    spread = [max(each.values()) / min(each.values()) for each in (printed, ours["numbers"])]
    lines = [f"by {name} {_ratios(each)}" for name, each in ours.items()]
    return Finding(
        "fails" if spread[0] - 1 > 2 * (spread[1] - 1) else "holds",
        f"5 P@5 / R@5 on MovieLens-100K, a mean of the users' numbers of test items weighted by hits. Printed:"
        f" {_ratios(printed)}; ours: {'; '.join(lines)}.",
    )


def _ratio(precision: float, recall: float) -> float:
    return 5 * precision / recall


def _ratios(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.1f}" for name, value in values.items())


_CLAIMS: list[tuple[str, str, Callable[[Summary], Finding | None]]] = [
    (
        "“CSRR outperforms or at least compares favorably with all other baselines over all the datasets.”",
        "Comparison Results",
        _favourable,
    ),
    (
        "“… the improvement over the MF-based methods (BPRMF and WRMF) are significant, e.g. at least 10% improvement"
        " on NDCG@N of MovieLens-100K …”",
        "Comparison Results",
        _improvement("ml-100k", "NDCG", 0.10),
    ),
    ("“… and 5% on F-score@N of MovieLens-1M …”", "Comparison Results", _improvement("ml-1m", "F", 0.05)),
    (
        "“… CSRR-I outperforms PopRank, BPRMF and MC-Shift by 84.5%, 17.2% and 4.03% on NDCG@5 of MovieLens-100K.”",
        "Comparison Results",
        _by_that_much,
    ),
    ("The table has CSRR-I ahead of CSRR-II and CSRR-e.", "Comparison Results", _first_of_three),
    (
        "“We only adopt the CSRR-e on EachMovie due to a high runtime of CSRR-I/II.”",
        "Comparison Results",
        _runtime,
    ),
    (
        "“… the performance without V (CSRR-I/V₀) is obviously degraded …”",
        "Analysis for Robust Matrix Decomposition",
        _without_v,
    ),
    (
        "“With a small value of c_p, it is observed that the performance is degraded over all metrics by such"
        " cost-insensitive classification.”",
        "Analysis for Cost-Sensitive Bias",
        _small_costs,
    ),
    (
        "“… our algorithms perform quite well on a relatively large parameter space of the learning rate.”",
        "Analysis for Learning Rate",
        _any_step,
    ),
    (
        "“… the proposed method does not perform well with either a large or a small value of λ₁.”",
        "Analysis for Robust Matrix Decomposition",
        _middle_l1,
    ),
    (
        "“… the accuracy can be improved when λ₂ is increased, inferring that the learned V is effective to reduce the"
        " gross outliers.”",
        "Analysis for Robust Matrix Decomposition",
        _larger_l2,
    ),
    ("“… treated the ratings larger than 3 as observed positive feedback.”", "Datasets", _larger_than_3),
    ("“NDCG@N is the normalized discounted cumulative gain in the ranking.”", "Evaluation Metrics", _normalised),
    (
        "“In order to fairly compare these algorithms, we randomly selected the training samples for each dataset …”",
        "Evaluation Metrics",
        _one_experiment,
    ),
]


def claims(summary: Summary) -> list[dict[str, str]]:
    """Return every claim that the results of a summary can speak to, with verdict and evidence."""
    found = [(claim, where, judge(summary)) for claim, where, judge in _CLAIMS]
    return [
        {"claim": claim, "where": where, "verdict": each.verdict, "evidence": each.evidence}
        if each is not None
        else {"claim": claim, "where": where, "verdict": "untestable", "evidence": "The results for it are not there."}
        for claim, where, each in found
    ]
