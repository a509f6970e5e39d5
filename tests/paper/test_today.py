"""The section on systems of today: who is first follows the numbers, and what is printed elsewhere has its source."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from csrr.data.errors import DataError
from csrr_paper.page import render_html, render_markdown
from csrr_paper.summary_types import Summary
from csrr_paper.today import OURS, TODAY, Today, say_places, show_today
from tests.paper.sample import full_summary, partial_summary, today

RENDERERS = [render_html, render_markdown]


def with_means(**means):
    """The sample with other means of CSRR(): of recall, ndcg and games."""
    plain = today()
    keys = {"recall": "checkins/recall@20", "ndcg": "checkins/ndcg@20", "games": "games/ndcg@10"}
    plain["rows"][0]["values"] |= {keys[name]: value for name, value in means.items()}
    return Today.from_json(plain)


def test_the_sentence_says_where_it_is_behind_and_by_how_much():
    assert say_places(Today.from_json(today())) == (
        "CSRR() is first in 2 of 3 columns, and behind on Games, 5-core, NDCG@10 (EASE 0.6250; CSRR() 0.5000, −20.0 %)."
    )


def test_the_sentence_follows_the_numbers():
    assert say_places(with_means(games=0.7)) == "CSRR() is first in all of 3 columns."
    behind = say_places(with_means(games=0.7, ndcg=0.1))
    assert behind.startswith(
        "CSRR() is first in 2 of 3 columns, and behind on Check-ins, NDCG@20 (LightGCN as printed 0.1554;"
    )
    nowhere = say_places(with_means(recall=0.18, ndcg=0.1, games=0.1))
    assert nowhere.startswith(
        "CSRR() is first in none of 3 columns, and behind on Check-ins, Recall@20 (LightGCN as printed 0.1830;"
    )
    assert nowhere.count("; CSRR() ") == 3


def test_all_who_are_ahead_are_named_the_first_first():
    assert "(LightGCN as printed 0.1830, EASE 0.1725; CSRR() 0.1000, −45.4 %)" in say_places(with_means(recall=0.1))


def test_a_tie_is_first():
    assert say_places(with_means(games=0.625)) == "CSRR() is first in all of 3 columns."


def test_columns_without_its_number_are_not_counted():
    plain = today()
    del plain["rows"][0]["values"]["games/ndcg@10"]
    assert say_places(Today.from_json(plain)) == "CSRR() is first in all of 2 columns."
    plain["rows"][0]["values"] = {}
    assert say_places(Today.from_json(plain)) == "CSRR() was not measured."


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_it_is_first_exactly_where_nobody_has_more(values):
    columns = [{"key": "a", "data": "A", "measure": "NDCG@10"}]
    rows = [
        {"system": OURS if place == 0 else f"S{place}", "values": {"a": value}} for place, value in enumerate(values)
    ]
    said = say_places(Today.from_json({"columns": columns, "rows": rows}))
    ahead = [f"S{place} " for place, value in enumerate(values) if value > values[0]]
    assert said.startswith(f"CSRR() is first in {'none' if ahead else 'all'} of 1 column")
    assert all(each in said for each in ahead)


def test_the_best_of_a_column_may_be_printed_elsewhere():
    shown = show_today(with_means(ndcg=0.1))
    best = {row.system: [cell.best for cell in row.cells] for row in (*shown.rows, *shown.published)}
    assert best == {"CSRR()": [True, False, False], "EASE": [False, False, True], "LightGCN": [False, True]}


def test_what_is_not_there_is_a_dash_and_never_best():
    shown = show_today(Today.from_json(today()))
    (cell,) = [row.cells[1] for row in shown.rows if row.system == "EASE"]
    assert (cell.text, cell.best) == ("–", False)
    alone = Today.from_json({"columns": today()["columns"], "rows": [{"system": "EASE"}]})
    assert not any(cell.best for row in show_today(alone).rows for cell in row.cells)


def test_printed_numbers_stand_in_their_own_columns_alone():
    shown = show_today(Today.from_json(today()))
    assert [each.measure for each in shown.printed_columns] == ["Recall@20", "NDCG@20"]
    assert [len(row.cells) for row in shown.published] == [2]


def test_fewer_splits_are_told():
    shown = show_today(Today.from_json(today()))
    assert [each.splits for each in shown.columns] == ["fixed split", "fixed split", "5 splits"]
    assert [cell.note for row in shown.rows for cell in row.cells] == ["", "", "", "", "", "2 splits"]


@pytest.mark.parametrize("source", ["", "  ", None])
def test_a_printed_number_has_a_source(source):
    plain = today()
    plain["published"][0]["source"] = source
    with pytest.raises(DataError, match="source"):
        Today.from_json(plain)


@pytest.mark.parametrize("part", ["rows", "published"])
def test_a_number_has_a_column(part):
    plain = today()
    plain[part][0]["values"]["games/ndcg@5"] = 0.1
    with pytest.raises(DataError, match=r"'games/ndcg@5' is none of its columns"):
        Today.from_json(plain)


@pytest.mark.parametrize("render", RENDERERS)
def test_a_run_without_it_has_no_such_section(render):
    assert TODAY not in render(Summary.from_json(partial_summary()))
    assert TODAY in render(Summary.from_json(full_summary()))


@pytest.mark.parametrize("render", RENDERERS)
def test_the_section_is_after_the_figures_and_before_the_long_tables(render):
    text = render(Summary.from_json(full_summary()))
    section = text.index("Measured on one machine.")
    assert text.rindex("Cost bias", 0, section) < section < text.index("CSRR-I, V = 0")


def test_numbers_sources_and_the_best_are_on_the_page():
    page, words = (render(Summary.from_json(full_summary())) for render in RENDERERS)
    assert "<b>0.6250</b><small>2 splits</small>" in page
    assert '<a href="https://example.org/LightGCN">example.org/LightGCN</a>' in page
    assert "| EASE | 0.1725 | – | 0.6250 (2 splits) (best) |" in words
    assert "| LightGCN | 0.1830 | 0.1554 | https://example.org/LightGCN |" in words


def test_a_source_that_is_no_address_is_no_link():
    summary = full_summary()
    summary["today"]["published"][0]["source"] = "javascript:alert(1)"
    page = render_html(Summary.from_json(summary))
    assert "javascript:alert(1)" in page
    assert 'href="javascript' not in page


def test_it_is_read_and_written_whole():
    summary = Summary.from_json(full_summary())
    assert Summary.from_json(summary.to_json()) == summary
    assert math.isclose(summary.today.rows[1].values["games/ndcg@10"], 0.625)
