"""Tables that fit a terminal: what is cut, what is folded, and what never is."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from csrr._base.text import cut_text, fit_tables, make_printable, measure_width
from csrr.results.table import format_text_table

TEXTS = st.text(st.characters(codec="utf-8"), max_size=90)


def format_in(width, *args):
    with fit_tables(width):
        return format_text_table(*args)


@pytest.mark.parametrize(
    ("text", "width"),
    [("lamp", 4), ("ランプ", 6), ("e\u0301a", 2), ("", 0)],
)
def test_width_is_that_of_the_screen(text, width):
    assert measure_width(text) == width


@given(TEXTS, st.integers(5, 60), st.booleans())
def test_a_cut_text_fits_and_keeps_as_much_as_it_can(text, width, keep_end):
    cut = cut_text(text, width, keep_end=keep_end)
    assert measure_width(cut) <= width
    if measure_width(text) <= width and len(text) <= 2 * width:
        assert cut == text
    else:
        head, _, end = cut.partition("...")
        assert text.startswith(head)
        assert text.endswith(end) or not keep_end
        assert len(text) > 2 * width or measure_width(cut) >= width - 2


def test_of_an_id_both_ends_are_kept():
    assert cut_text("abcdefghijklmnopqrstuvwxyz", 11, keep_end=True) == "abcd...wxyz"
    assert cut_text("abcdefghijklmnopqrstuvwxyz", 11) == "abcdefgh..."


ROWS = [
    ("0b5c2e5e-7b1f-4e0e-9a55-2f5e6f0c1d2e", "A chair with a title that goes on and on until no one reads it", 0.25, 1),
    ("f3a9c0de-0000-4e0e-9a55-2f5e6f0c1d2e", "ランプ" * 20, 0.125, 2),
]
NAMES = ("item", "title", "score", "rank")


def test_titles_are_cut_before_ids_and_numbers_never():
    lines = format_in(80, NAMES, ROWS).splitlines()
    assert {measure_width(line) for line in lines} == {80}
    assert ROWS[0][0] in lines[1]
    assert re.search(r"A chair with .*\.\.\.  0\.2500     1$", lines[1])
    narrow = format_in(50, NAMES, ROWS)
    assert max(map(measure_width, narrow.splitlines())) <= 50
    assert "0.2500" in narrow
    assert ROWS[0][0] not in narrow


def test_in_a_file_nothing_is_cut():
    text = format_in(None, NAMES, ROWS)
    assert all(cell in text for row in ROWS for cell in row[:2])
    assert max(map(measure_width, text.splitlines())) > 100


def test_outside_of_a_command_cells_are_short_and_tables_as_wide_as_they_are():
    text = format_text_table(NAMES, ROWS)
    assert ROWS[0][0] in text
    assert ROWS[0][1][:37] + "..." in text


def test_a_table_that_is_too_wide_loses_a_blank_and_is_folded_then():
    names = ["", *(f"model {place}" for place in range(5))]
    lines = [("ndcg@10", *(f"0.{place}123 ± 0.0456" for place in range(5)))]
    wide = len(format_text_table(names, lines).splitlines()[1])
    assert len(format_in(wide - 3, names, lines).splitlines()) == 2
    folded = format_in(64, names, lines)
    parts = folded.split("\n\n")
    assert [part.splitlines()[1].split("  ")[0] for part in parts] == ["ndcg@10"] * 2
    assert [cell for cell in lines[0][1:] if cell not in folded] == []
    assert [name for name in names if name not in folded] == []


def test_notes_stand_under_their_lines_also_in_a_folded_table():
    names = ["item", *(f"column {place}" for place in range(12))]
    lines = [[item, *range(12)] for item in (1, 2)]
    text = format_in(60, names, lines, ["  of one", ""])
    first = text.split("\n\n")[0].splitlines()
    assert first[2] == "  of one"
    assert len(first) == 4
    assert text.count("of one") == 1


@given(
    st.integers(40, 120).flatmap(
        lambda width: st.tuples(
            st.just(width),
            st.lists(
                st.tuples(TEXTS, TEXTS, st.floats(0, 1), st.integers(0, 10**6), TEXTS),
                min_size=1,
                max_size=4,
            ),
        )
    )
)
def test_a_table_fits_whatever_is_in_it(case):
    width, rows = case
    text = format_in(width, ("user", "title", "score", "count", "what"), rows)
    assert max(map(measure_width, text.split("\n"))) <= width
    assert make_printable(text, keep="\n") == text
    for row in rows:
        assert f"{row[2]:.4f}" in text
