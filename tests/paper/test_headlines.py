"""The five sentences and the figure of the summary follow the results, whichever there are."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from csrr_paper.claims import FULL_RESULTS, explain_weakness, judge_claims, write_headlines, write_notice
from csrr_paper.document import make_overview
from csrr_paper.page import render_html, render_markdown
from csrr_paper.summary_types import Summary
from tests.paper.sample import full_summary, partial_summary

MADE = {"format": 1, "made": {}}
TODAY = "On data that the paper did not use, this library's default model CSRR() is first in 2 of 3 columns, and behind"


def read(parts):
    return Summary.from_json({**MADE, **parts})


def claims(**counts):
    """Claims with so many of each verdict; their topics are the verdict and a number."""
    return [
        {"claim": "c", "where": "w", "verdict": verdict, "evidence": "e", "short": f"{verdict} {place}"}
        for verdict, count in counts.items()
        for place in range(count)
    ]


def table(data="ml-1m", label="MovieLens-1M", **systems):
    """A table of systems with (NDCG@5, printed, standard NDCG@10)."""
    rows = [
        {
            "system": name.replace("_", "-"),
            "group": "today" if name.startswith("new") else "paper",
            "cells": {"NDCG@5": {"mean": mean, "printed": printed}},
            "extra": {"standard NDCG@10": {"mean": standard}},
        }
        for name, (mean, printed, standard) in systems.items()
    ]
    return {"data": data, "label": label, "protocol": "numbers", "columns": ["NDCG@5"], "rows": rows}


def test_of_the_whole_sample():
    held, failed, near, best, other = write_headlines(read(full_summary()))
    assert held == "Of 4 claims of the paper, 1 holds and 1 holds in part."
    assert failed == "The results contradict 1; 1 is not judged."
    assert re.fullmatch(
        r"NDCG@5 is within 5 % of the printed value for \d of 7 systems on MovieLens-100K \(.+\) and for \d of 7"
        r" systems on MovieLens-1M \(.+\)\.",
        near,
    )
    assert "EachMovie" not in near, "its printed numbers are for other users"
    assert best.startswith("By standard NDCG@10, the best of the systems compared is ")
    assert best.count(" on ") == 3
    assert other.startswith(TODAY)


@given(st.fixed_dictionaries({verdict: st.integers(0, 3) for verdict in ("holds", "partly", "fails", "untestable")}))
def test_every_claim_is_counted_once_under_its_verdict(counts):
    held, failed, *_ = write_headlines(read({"claims": claims(**counts)}))
    if sum(counts.values()) == counts["untestable"]:
        assert (held, failed) == (
            "None of the paper's claims is judged here: the results they need are missing.",
            f"The full results are in {FULL_RESULTS}.",
        )
        return
    assert held.startswith(f"Of {sum(counts.values())} claims of the paper, {counts['holds'] or 'none'} hold")
    assert f" and {counts['partly'] or 'none'} hold" in held
    assert f"contradict {counts['fails'] or 'none'}" in failed
    assert (f"; {counts['untestable']} " in failed) == (counts["untestable"] > 0)
    for verdict, words in (("holds", held), ("partly", held), ("fails", failed)):
        assert len(re.findall(rf"{verdict} \d", words)) == counts[verdict]


def test_how_near_says_who_is_farthest_and_where_csrr_i_is():
    systems = {"PopRank": (0.5, 0.5, 0.1), "WRMF": (0.4, 0.5, 0.2), "CSRR_I": (0.53, 0.5, 0.3)}
    *_, near, best, other = write_headlines(read({"comparison": [table(**systems)]}))
    assert near == (
        "NDCG@5 is within 5 % of the printed value for 1 of 3 systems on MovieLens-1M (CSRR-I: +6.0 %; the farthest,"
        " WRMF: −20.0 %)."
    )
    assert best == "By standard NDCG@10, the best of the systems compared is CSRR-I on MovieLens-1M."
    assert other == "Systems of today on other data are not part of this run."


def test_the_best_is_named_with_the_distance_of_csrr_i():
    systems = {"CSRR_I": (0.5, 0.5, 0.3), "new, scaled": (0.5, None, 0.4)}
    best = write_headlines(read({"comparison": [table(**systems)]}))[3]
    assert best.endswith("is “new, scaled” on MovieLens-1M (CSRR-I: −25.0 %).")
    without = write_headlines(read({"comparison": [table(WRMF=(0.5, 0.5, 0.3))]}))[3]
    assert without.endswith("is WRMF on MovieLens-1M.")


@pytest.mark.parametrize("parts", [{}, {"comparison": [table()]}, {"comparison": [table(WRMF=(None, 0.5, None))]}])
def test_without_results_the_sentences_say_so(parts):
    summary = read(parts)
    assert write_headlines(replace(summary, claims=judge_claims(summary))) == [
        "None of the paper's claims is judged here: the results they need are missing.",
        f"The full results are in {FULL_RESULTS}.",
        "No printed number was measured on the data that the paper used.",
        "No standard NDCG@10 was measured by the protocol of the printed numbers.",
        "Systems of today on other data are not part of this run.",
    ]
    assert make_overview(summary) is None


def test_a_part_of_the_results_has_five_sentences_too():
    summary = read(full_summary() | {"comparison": full_summary()["comparison"][:1], "claims": None, "today": None})
    sentences = write_headlines(summary)
    assert len(sentences) == 5
    assert all(re.fullmatch(r"[A-Z].*[a-zA-Z0-9\)]\.", each) for each in sentences)


# Results that are no evidence


def with_splits(count, **made):
    parts = full_summary()
    for each in parts["comparison"]:
        each["splits"] = list(range(count))
    return read(parts | {"made": made})


def test_a_quick_run_is_no_evidence_and_says_so():
    summary = read(partial_summary())
    assert explain_weakness(summary) == "a quick run, with few parameters and 5 splits, is not evidence"
    assert (
        explain_weakness(with_splits(2, quick=True)) == "a quick run, with few parameters and 2 splits, is not evidence"
    )
    assert explain_weakness(with_splits(2)) == "2 splits are not evidence"
    assert explain_weakness(with_splits(1)) == "1 split is not evidence"
    assert explain_weakness(with_splits(3)) == write_notice(with_splits(3)) == ""
    assert FULL_RESULTS in write_notice(summary)


def test_a_quick_run_judges_no_claim_and_shows_its_numbers():
    parts = full_summary()
    for each in parts["comparison"]:
        each["data"] = {"movielens-100k": "ml-100k", "movielens-1m": "ml-1m"}.get(each["data"], each["data"])
    parts["ablation"] = None
    whole, quick = read(parts), read(parts | {"made": {"quick": True}})
    judged, open_ = judge_claims(whole), judge_claims(quick)
    assert {"holds", "partly", "fails"} & {each.verdict for each in judged}
    assert {each.verdict for each in open_} == {"untestable"}
    for full, each in zip(judged, open_, strict=True):
        assert each.evidence == (f"In this run: {full.evidence}" if full.verdict != "untestable" else full.evidence)
    sentences = write_headlines(replace(quick, claims=open_))
    assert sentences[0].startswith("None of the paper's claims is judged here: a quick run")
    assert all(each.startswith("In this run, ") for each in sentences[2:4])


@pytest.mark.parametrize("render", [render_html, render_markdown])
def test_the_notice_is_on_the_page_of_a_quick_run_alone(render):
    assert "A quick run, with few parameters and 5 splits, is not evidence." in render(read(partial_summary()))
    assert "not evidence" not in render(read(full_summary()))


# The figure


def test_the_figure_has_every_system_against_print_and_against_csrr_i():
    tables = [
        table(CSRR_I=(0.45, 0.5, 0.4), WRMF=(0.5, 0.5, 0.4), new=(0.6, None, 0.5)),
        table("eachmovie", "EachMovie", CSRR_I=(0.45, 0.5, 0.4), new=(0.6, None, 0.3)),
    ]
    overview = make_overview(read({"comparison": tables}))
    assert overview.names == ["MovieLens-1M", "EachMovie"]
    near, today = overview.parts
    assert (near.names, near.rows) == (["MovieLens-1M"], [("CSRR-I", ["−10.0 %"]), ("WRMF", ["0.0 %"])])
    assert (today.names, today.rows) == (["MovieLens-1M", "EachMovie"], [("new", ["+25.0 %", "−25.0 %"])])
    assert "MovieLens-1M, CSRR-I: −10.0 %" in near.chart.svg
    assert near.chart.svg.count('class="point"') == 2


def test_the_figure_leaves_out_what_was_not_measured():
    overview = make_overview(read({"comparison": [table(WRMF=(0.5, 0.5, 0.4), new=(0.6, None, 0.5))]}))
    assert [part.title for part in overview.parts] == ["NDCG@5, measured against printed"]
