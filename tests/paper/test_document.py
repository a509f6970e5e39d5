"""The page and the Markdown say what the summary says, whichever parts it has."""

import copy
import math
import re
from xml.etree import ElementTree

import pytest

from csrr.data.errors import DataError
from csrr_paper.document import make_document
from csrr_paper.page import render_html, render_markdown, write_page
from csrr_paper.summary_types import Summary
from tests.paper.sample import full_summary, partial_summary

MADE = {"csrr": "0.1.0"}
HOSTILE = '<img src=x onerror="alert(1)">|*x*`y`\n# z & {{ 7 * 7 }}'
RENDERERS = [render_html, render_markdown]
read = Summary.from_json


def hostile(value, keep=("verdict", "group", "key", "data", "protocol")):
    """Return a summary with every text made a hostile one."""
    if isinstance(value, dict):
        return {name: each if name in keep else hostile(each, keep) for name, each in value.items()}
    if isinstance(value, list):
        return [hostile(each, keep) for each in value]
    return f"{HOSTILE} {value}" if isinstance(value, str) else value


TABLE = {"data": "d", "label": "D", "protocol": "numbers", "columns": ["NDCG@5"]}


def one_table(**cell):
    row = {"system": "S", "cells": {"NDCG@5": cell}}
    return {"format": 1, "made": MADE, "comparison": [TABLE | {"rows": [row]}]}


def only_cell(summary):
    return make_document(read(summary)).tables["comparison"][0].groups[0][1][0].cells[0]


@pytest.mark.parametrize("render", RENDERERS)
def test_every_part_is_there(render):
    text = render(read(full_summary()))
    for words in (
        "MovieLens-1M",
        "CSRR-I, V = 0",
        "Cost bias",
        "EASE",
        "Section 5.3.2",
        "csrr reproduce --figure step",
    ):
        assert words in text
    assert "Not run, or not finished" not in text


@pytest.mark.parametrize("render", RENDERERS)
@pytest.mark.parametrize("part", ["comparison", "ablation"])
def test_the_note_of_a_table_is_shown_once(render, part):
    summary = full_summary()
    summary[part][0]["note"] = "Only those with 120 votes."
    assert render(read(summary)).count("Only those with 120 votes.") == 1


@pytest.mark.parametrize("render", RENDERERS)
@pytest.mark.parametrize(
    "name", ["headlines", "claims", "comparison", "ablation", "figures", "missing", "protocols", "today"]
)
def test_every_part_may_be_missing_or_null(render, name):
    summary = full_summary()
    summary[name] = None
    without = {key: value for key, value in summary.items() if key != name}
    assert render(read(summary)) == render(read(without))


@pytest.mark.parametrize("render", RENDERERS)
def test_parts_not_run_are_named_with_their_commands(render):
    text = render(read(partial_summary()))
    for option in ("--table ablation", "--figure step", "--figure strengths"):
        assert f"csrr reproduce {option}" in text
    assert "quick run" in text


def test_only_what_is_absent_counts_as_not_run():
    assert [each.part for each in make_document(read(partial_summary())).missing] == [
        "--figure step",
        "--table ablation",
        "--figure strengths",
    ]


@pytest.mark.parametrize(
    "step", [{"part": "--figure step"}, {"part": "step", "command": "csrr reproduce --figure step"}]
)
def test_a_part_that_is_named_is_not_named_twice(step):
    summary = {"format": 1, "made": MADE, "missing": [step]}
    named = [
        "--figure step" if each.part == step["part"] else each.part for each in make_document(read(summary)).missing
    ]
    assert sorted(named) == [
        "--figure cost",
        "--figure step",
        "--figure strengths",
        "--table ablation",
        "--table comparison",
    ]


def test_a_cell_says_by_how_much_ours_differs():
    cell = only_cell(one_table(mean=0.66, low=0.65, high=0.67, printed=0.6))
    assert (cell.mean, cell.half, cell.printed, cell.difference) == ("0.6600", "±0.0100", "0.6000", "+10.0 %")
    assert cell.sign == "up"
    assert only_cell(one_table(mean=0.54, printed=0.6)).sign == "down"


@pytest.mark.parametrize("nothing", [None, math.nan])
def test_what_is_not_known_is_left_out(nothing):
    cell = only_cell(one_table(mean=0.66, low=nothing, high=0.67, printed=nothing))
    assert (cell.half, cell.printed, cell.difference) == ("", "", "")
    unknown = only_cell(one_table(mean=nothing, printed=0.6))
    assert (unknown.mean, unknown.difference, unknown.best) == ("–", "", False)
    assert "nan" not in render_html(read(one_table(mean=nothing, low=nothing, high=nothing))).lower()


def test_the_best_of_a_column_and_the_ranks():
    summary = one_table()
    values = {"a": (0.5, 0.7), "b": (0.60001, 0.6), "c": (0.60002, 0.5), "d": (0.1, None)}
    summary["comparison"][0]["rows"] = [
        {"system": name, "cells": {"NDCG@5": {"mean": ours, "printed": printed}}}
        for name, (ours, printed) in values.items()
    ]
    table = make_document(read(summary)).tables["comparison"][0]
    assert [row.system for row in table.groups[0][1] if row.cells[0].best] == ["b", "c"]
    assert [(rank.system, rank.measured, rank.printed) for rank in table.ranks] == [
        ("c", 1, 3),
        ("b", 2, 2),
        ("a", 3, 1),
    ]


def test_groups_are_apart_the_paper_first():
    summary = one_table(mean=0.1)
    summary["comparison"][0]["rows"] = [{"system": "new", "group": "today"}, {"system": "old", "group": "paper"}]
    groups = make_document(read(summary)).tables["comparison"][0].groups
    assert [(title, [row.system for row in rows]) for title, rows in groups] == [
        ("Systems of the paper", ["old"]),
        ("Systems that are not in the paper", ["new"]),
    ]


def test_parameters_that_splits_share_are_said_once():
    summary = one_table(mean=0.1)
    summary["comparison"][0]["rows"][0]["params"] = [{"rank": 10, "reg": 0.5}, {"rank": 20, "reg": 0.5}]
    assert make_document(read(summary)).tables["comparison"][0].settings[0].params == "reg 0.5; rank 10, 20 by split"


def figure(*panels, title="F"):
    """A figure of panels (title, y), each with a point whose value is its place."""
    return {
        "title": title,
        "panels": [
            {"title": name, "x": "c", "y": y, "series": [{"name": "s", "points": [{"x": 1, "mean": place}]}]}
            for place, (name, y) in enumerate(panels)
        ],
    }


def show_figures(**figures):
    return make_document(read({"format": 1, "made": MADE, "figures": figures})).figures


def test_panels_that_differ_in_the_metric_alone_are_drawn_once_and_listed_all():
    (shown,) = show_figures(cost=figure(*((f"{data}, {y}", y) for data in "AB" for y in ("F@5", "NDCG@5", "F@15"))))
    assert [each.title for each in shown.panels] == ["A, NDCG@5", "B, NDCG@5"]
    assert [each.rows[0][1][0][0] for each in shown.values] == [f"{place}.0000" for place in range(6)]
    assert [each.title for each in shown.values if each.drawn] == ["A, NDCG@5", "B, NDCG@5"]


def test_without_the_metric_of_the_ranks_the_first_is_drawn():
    (shown,) = show_figures(cost=figure(("A, F@5", "F@5"), ("A, F@15", "F@15")))
    assert [each.title for each in shown.panels] == ["A, F@5"]


def test_of_a_model_tuned_and_not_the_tuned_one_is_drawn():
    (shown,) = show_figures(cleaning=figure(("WRMF", "y"), ("EASE", "y"), ("WRMF, tuned", "y")))
    assert [each.title for each in shown.panels] == ["EASE", "WRMF, tuned"]
    assert len(shown.values) == 3


def test_what_is_kept_is_among_the_values_of_the_noise_or_drawn_alone():
    noise, kept = figure(("Random", "NDCG@10"), title="noise"), figure(("Random", "share kept"), title="kept")
    (shown,) = show_figures(robustness=noise, kept=kept)
    assert shown.title == "noise"
    assert [each.title for each in shown.panels] == ["Random"]
    assert [each.title for each in shown.values] == ["Random", "Random: share kept"]
    assert [(each.title, len(each.panels)) for each in show_figures(kept=kept)] == [("kept", 1)]


def test_one_number_comes_first_and_the_rest_is_folded_or_behind_a_box():
    summary = read(one_table(mean=0.66, low=0.65, high=0.67, printed=0.6))
    page, words = render_html(summary), render_markdown(summary)
    assert '<b>0.6600</b><small class="more">±0.0100</small>' in page
    assert '<input type="checkbox"/>' in page
    shown, folded = words.split("## Comparison")[1].split("<summary>Intervals")
    assert "| S | 0.6600 (best) |" in shown
    assert "| S | ±0.0100; 0.6000, +10.0 % |" in folded


@pytest.mark.parametrize("render", RENDERERS)
def test_tables_of_other_protocols_do_not_hide_a_run_of_one(render):
    summary = one_table(mean=0.66)
    summary["comparison"][0]["protocol"] = "text"
    assert "0.6600" in render(read(summary))
    assert '<details id="comparison-1"' not in render(read(summary))


def test_hostile_text_stays_text_on_the_page():
    page = render_html(read(hostile(full_summary())))
    assert "<img" not in page
    assert "{{ 7 * 7 }}" in page
    assert 'id="overview"' in page
    # No system is CSRR-I here, so that the summary has a chart and a table less.
    plain = render_html(read(full_summary()))
    assert [each.split('id="claims"')[1].count("<table") for each in (page, plain)] == [36, 36]


def test_hostile_text_stays_text_in_markdown():
    lines = render_markdown(read(hostile(full_summary()))).splitlines()
    shown = [line for line in lines if not line.startswith("    ")]
    assert not any("<img" in line or line.startswith("# z") for line in shown)
    widths = [len(re.findall(r"(?<!\\)\|", line)) for line in shown]
    rules = {i for i, line in enumerate(shown) if line.startswith(("| :--", "| --:"))}
    assert rules
    assert all(widths[i - 1] == widths[i] == widths[i + 1] for i in rules)


@pytest.mark.parametrize(
    ("summary", "message"),
    [
        ([], "a summary is an object, not a list"),
        ({"made": MADE}, "reads format 1, not None"),
        ({"format": 2, "made": MADE}, "reads format 1, not 2"),
        ({"format": 1}, "'made' is missing"),
        ({"format": 1, "made": MADE, "claims": {}}, "summary, claims: it should be a list, and is {}"),
        ({"format": 1, "made": MADE, "claims": [{"claim": "a"}]}, "summary, claims 1: 'where' is missing"),
        (
            {"format": 1, "made": MADE, "claims": [{"claim": "a", "where": "b", "verdict": "maybe"}]},
            "summary, claims 1, verdict: 'maybe' is none of holds, partly",
        ),
        (
            {"format": 1, "made": MADE, "comparison": [3]},
            "summary, comparison 1: it should be an object, and is 3 (int)",
        ),
        (
            {"format": 1, "made": MADE, "comparison": [TABLE | {"rows": "x"}]},
            "summary, comparison 1, rows: it should be a list, and is 'x' (str)",
        ),
        (
            one_table(mean="0.5"),
            "summary, comparison 1, rows 1, cells, NDCG@5, mean: it should be a number, and is '0.5'",
        ),
        (one_table(mean=True), "mean: it should be a number, and is True (bool)"),
        ({"format": 1, "made": {"quick": 1}}, "summary, made, quick: it should be true or false, and is 1"),
        ({"format": 1, "made": MADE, "comparison": [TABLE | {"n_users": 1.5}]}, "n_users: it should be a whole number"),
        ({"format": 1, "made": MADE, "headlines": [None]}, "summary, headlines 1: it should be text, and is None"),
        (
            {"format": 1, "made": MADE, "figures": {"cost": []}},
            "summary, figures, cost: it should be an object, and is [] (list)",
        ),
    ],
)
def test_a_bad_summary_is_an_error_that_says_where(summary, message):
    with pytest.raises(DataError, match=re.escape(message)):
        read(summary)


@pytest.mark.parametrize("name", ["out/report.html", "out/report.md", "out/report"])
def test_write_makes_both_files_and_leaves_nothing_else(tmp_path, name):
    page, markdown = write_page(read(partial_summary()), tmp_path / name)
    assert (page, markdown) == (tmp_path / "out" / "report.html", tmp_path / "out" / "report.md")
    assert page.read_text(encoding="utf-8") == render_html(read(partial_summary()))
    assert markdown.read_text(encoding="utf-8") == render_markdown(read(partial_summary()), "report.svg")
    assert "![Summary of the results](report.svg)" in markdown.read_text(encoding="utf-8")
    picture = ElementTree.fromstring(page.with_suffix(".svg").read_text(encoding="utf-8"))
    assert {"PopRank", "MovieLens-100K"} <= {each.text for each in picture.iter("{http://www.w3.org/2000/svg}text")}
    assert len(list(page.parent.iterdir())) == 3


def test_without_results_there_is_no_picture(tmp_path):
    _, markdown = write_page(read({"format": 1, "made": MADE}), tmp_path / "report")
    assert "![" not in markdown.read_text(encoding="utf-8")
    assert len(list(tmp_path.iterdir())) == 2


def test_a_bad_summary_leaves_the_files_as_they_were(tmp_path):
    page, markdown = write_page(read(partial_summary()), tmp_path / "report")
    before = page.read_bytes(), markdown.read_bytes()
    bad = copy.deepcopy(partial_summary())
    panel = next(each for each in bad["figures"]["cost"]["panels"] if each["y"] == "NDCG@5")
    panel["log"], panel["series"][0]["points"][0]["x"] = True, 0.0
    with pytest.raises(DataError, match="x = 0 has no place on a log axis"):
        write_page(read(bad), page)
    assert (page.read_bytes(), markdown.read_bytes()) == before
