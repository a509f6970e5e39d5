"""A verdict follows from the numbers: turn them round and it turns."""

import copy

import pytest

from csrr_paper.claims import judge_claims
from csrr_paper.jobs import SAME_STRENGTHS
from csrr_paper.printed import COLUMNS, DATA, PRINTED, PRINTED_ABLATION, PRINTED_SYSTEMS, WITHOUT_V
from csrr_paper.summary_types import Summary


def cells(values):
    return {column: {"mean": value} for column, value in values.items()}


def table(data, protocol="numbers"):
    """The printed table as if it were a result."""
    rows = [
        {"system": name, "cells": cells(values), "seconds": {"fit": 2.0}, "extra": {"standard NDCG@10": {"mean": 0.4}}}
        for name, values in PRINTED[data].items()
    ]
    rows.append(rows[-1] | {"system": "CSRR, scaled"})
    tests = [
        {"metric": "standard NDCG@10", "a": "CSRR, scaled", "b": name, "difference": 0.01, "p_t": 1e-9}
        for name in PRINTED_SYSTEMS
    ]
    return {"data": data, "label": DATA[data].label, "protocol": protocol, "rows": rows, "tests": tests}


def ablation(data, p=1e-6):
    rows = [{"system": name, "cells": cells(values)} for name, values in PRINTED_ABLATION[data].items()]
    rows.append(rows[0] | {"system": SAME_STRENGTHS})
    tests = [{"metric": "NDCG@5", "a": "CSRR-I", "b": name, "p_t": p} for name in (WITHOUT_V, SAME_STRENGTHS)]
    return {"data": data, "label": DATA[data].label, "protocol": "numbers", "rows": rows, "tests": tests}


def panel(x, values, xs=(0.5, 0.7, 0.9)):
    points = [{"x": at, "mean": value} for at, value in zip(xs, values, strict=True)]
    return {"title": "MovieLens-100K, NDCG@5", "x": x, "y": "NDCG@5", "series": [{"name": "CSRR-I", "points": points}]}


def figures(cost=(0.5, 0.6, 0.62), step=(0.6, 0.61, 0.6), l1=(0.3, 0.6, 0.1), l2=(0.2, 0.4, 0.5)):
    return {
        "cost": {"title": "Costs", "panels": [panel("c_p", cost)]},
        "step": {"title": "Steps", "panels": [panel("step", step)]},
        "strengths": {"title": "Strengths", "panels": [panel("λ₁ (λ₂ = 0.1)", l1), panel("λ₂ (λ₁ = 0.1)", l2)]},
    }


def printed():
    return {
        "comparison": [table(data) for data in ("ml-100k", "ml-1m")],
        "ablation": [ablation(data) for data in PRINTED_ABLATION],
        "figures": figures(),
    }


def read(parts):
    """A summary with these parts alone."""
    return Summary.from_json({"format": 1, "made": {}, **parts})


def judged(parts, words):
    (found,) = [each for each in judge_claims(read(parts)) if words in each.claim]
    return found


def verdict(parts, words):
    return judged(parts, words).verdict


def test_the_paper_s_own_numbers_bear_out_what_it_says_of_them():
    summary = printed()
    assert verdict(summary, "at least 10% improvement") == "holds"
    assert verdict(summary, "5% on F-score") == "holds"
    assert verdict(summary, "obviously degraded") == "holds"
    assert verdict(summary, "CSRR-I ahead of CSRR-II") == "holds"
    assert verdict(summary, "small value of c_p") == "holds"
    assert verdict(summary, "learning rate") == "holds"
    assert verdict(summary, "either a large or a small") == "holds"


def test_a_lead_that_its_test_does_not_tell_from_chance_counts_in_part_only():
    summary = printed()
    (table,) = [each for each in summary["comparison"] if each["data"] == "ml-100k"]
    numbers = {
        "difference": 0.01,
        "low": -0.01,
        "high": 0.03,
        "p_wilcoxon": 0.3,
        "better": 0.5,
        "worse": 0.4,
        "n_users": 9,
    }
    for p, expected in ((0.3, "partly"), (0.01, "holds")):
        table["tests"] = [{"metric": "NDCG@5", "a": "CSRR-I", "b": "CSRR-e", "p_t": p, **numbers}]
        assert verdict(summary, "CSRR-I ahead of CSRR-II") == expected


def test_on_ml_100k_wrmf_has_the_best_printed_recall():
    assert verdict(printed(), "compares favorably") == "partly"


def test_without_results_nothing_is_claimed():
    assert {each.verdict for each in judge_claims(read({}))} == {"untestable"}


def change(summary, data, system, factor):
    """Return the summary with all cells of a system multiplied."""
    changed = copy.deepcopy(summary)
    for each in changed["comparison"]:
        for row in each["rows"]:
            if each["data"] == data and row["system"] == system:
                for cell in row["cells"].values():
                    cell["mean"] *= factor
    return changed


def test_a_better_wrmf_takes_the_gain_away():
    assert verdict(change(printed(), "ml-100k", "WRMF", 1.2), "at least 10% improvement") == "partly"
    assert verdict(change(printed(), "ml-1m", "WRMF", 1.2), "5% on F-score") == "partly"
    both = change(change(printed(), "ml-1m", "WRMF", 1.3), "ml-1m", "BPRMF", 1.3)
    assert verdict(both, "5% on F-score") == "fails"


def test_a_better_csrr_ii_takes_the_lead():
    assert verdict(change(printed(), "ml-1m", "CSRR-II", 1.1), "CSRR-I ahead") == "partly"


def test_v_is_worth_something_only_with_a_test_behind_it():
    assert verdict(printed() | {"ablation": [ablation("ml-1m", p=0.5)]}, "obviously degraded") == "fails"


@pytest.mark.parametrize(
    ("series", "words", "expected"),
    [
        ({"cost": (0.6, 0.6, 0.59)}, "small value of c_p", "fails"),
        ({"step": (0.6, 0.61, 0.01)}, "learning rate", "partly"),
        ({"l1": (0.6, 0.5, 0.1)}, "either a large or a small", "partly"),
        ({"l1": (0.6, 0.601, 0.6)}, "either a large or a small", "fails"),
        ({"l2": (0.5, 0.4, 0.3)}, "λ₂ is increased", "fails"),
        ({}, "λ₂ is increased", "partly"),
    ],
)
def test_the_figures_decide(series, words, expected):
    assert verdict(printed() | {"figures": figures(**series)}, words) == expected


def test_which_ratings_count_is_what_fits_the_print():
    text = table("ml-1m", "text")
    for row in text["rows"]:
        row["cells"] = cells({column: 0.7 * PRINTED["ml-1m"]["PopRank"][column] for column in COLUMNS})
    summary = {"comparison": [table("ml-1m"), text]}
    assert verdict(summary, "larger than 3") == "fails"
    swapped = {"comparison": [text | {"protocol": "numbers"}, table("ml-1m", "text")]}
    assert verdict(swapped, "larger than 3") == "holds"


def test_the_printed_ndcg_is_the_one_that_fits_the_print():
    summary = {"comparison": [table("ml-1m")]}
    assert verdict(summary, "NDCG@N is the normalized") == "fails"
    row = summary["comparison"][0]["rows"][0]
    row["extra"]["standard NDCG@10"]["mean"] = row["cells"]["NDCG@10"]["mean"]
    row["cells"]["NDCG@10"]["mean"] *= 2
    assert verdict(summary, "NDCG@N is the normalized") == "holds"


def test_rows_that_vary_more_than_ours_are_not_one_experiment():
    summary = {"comparison": [table("ml-100k")]}
    assert verdict(summary, "fairly compare") == "holds", "ours are the printed ones here"
    for row in summary["comparison"][0]["rows"]:
        row["cells"] = cells(PRINTED["ml-100k"]["WRMF"])
    assert verdict(summary, "fairly compare") == "fails"


def test_without_all_data_a_claim_about_all_of_them_holds_in_part_at_most():
    summary = {"comparison": [table("ml-1m")]}
    found = judged(summary, "compares favorably")
    assert found.verdict == "partly"
    assert "Not run: MovieLens-100K, EachMovie, heavy raters." in found.evidence


def test_the_slow_are_slower_only_if_they_are():
    summary = {"comparison": [table("ml-1m") | {"data": "eachmovie", "label": "EachMovie"}]}
    assert verdict(summary, "high runtime") == "fails"
    for row in summary["comparison"][0]["rows"]:
        row["seconds"]["fit"] = 1.0 if row["system"] == "CSRR-e" else 10.0
    summary["comparison"][0]["rows"][4]["seconds"] = {"fit": 0.5}
    assert verdict(summary, "high runtime") == "holds"


def favourable(standard=None, p=0.001):
    """A summary in which CSRR-I is ahead everywhere, on all data; `standard` are means of standard NDCG@10."""
    tables = []
    for name in DATA:
        each = copy.deepcopy(table("ml-1m")) | {"data": name, "label": name}
        each["tests"] = [{"metric": "NDCG@5", "a": "CSRR-I", "b": "MC-Shift", "p_t": p}]
        for row in each["rows"]:
            factor = 2.0 if row["system"] == "CSRR-I" else 1.0
            for cell in row["cells"].values():
                cell["mean"] *= factor
            row["extra"] = {"standard NDCG@10": {"mean": 0.4}}
        for system, mean in (standard or {}).items():
            each["rows"].append({"system": system, "cells": {}, "extra": {"standard NDCG@10": {"mean": mean}}})
        tables.append(each)
    return {"comparison": tables}


def test_csrr_i_alone_must_be_ahead_and_its_test_is_told():
    found = judged(favourable(), "compares favorably")
    assert found.verdict == "holds"
    assert "against MC-Shift (p = 0.001)" in found.evidence
    assert verdict(change(favourable(), "ml-100k", "CSRR-I", 0.1), "compares favorably") == "partly"
    # What CSRR-e or CSRR-II reach does not help.
    behind = favourable()
    for data in DATA:
        behind = change(change(behind, data, "CSRR-I", 0.1), data, "CSRR-e", 5.0)
    assert verdict(behind, "compares favorably") == "fails"


def test_a_baseline_as_it_is_done_today_may_be_ahead():
    assert verdict(favourable({"EASE": 0.39}), "compares favorably") == "holds"
    found = judged(favourable({"EASE": 0.41, "WRMF, 256 factors": 0.39}), "compares favorably")
    assert found.verdict == "partly"
    assert "; EASE 0.4100 is ahead of it in standard NDCG@10 (0.4000)" in found.evidence
