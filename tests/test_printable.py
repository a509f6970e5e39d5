import pytest

from csrr._base.text import describe_size, make_printable
from csrr.results.table import format_text_table


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Amélie (2001) 日本 \U0001f600", "Amélie (2001) 日本 \U0001f600"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("\u202eabc\u202c", "\\u202eabc\\u202c"),
        ("a\nb\tc\rd", "a\\x0ab\\x09c\\x0dd"),
        ("\x85\u2028\x00\x7f\x9b", "\\x85\\u2028\\x00\\x7f\\x9b"),
        ("\ud800 \U000e0041", "\\ud800 \\U000e0041"),
        ("👩\u200d🔬", "👩\u200d🔬"),
    ],
)
def test_what_a_terminal_would_obey_is_spelt_out(text, shown):
    assert make_printable(text) == shown


def test_what_is_kept():
    assert make_printable("a\nb\x1b", keep="\n") == "a\nb\\x1b"


def test_a_table_is_a_line_a_row_whatever_its_cells_hold():
    table = format_text_table(["id", "title\n"], [["a\nb", "\x1b[31m" + "x" * 200_000], ["c", "\u202e" * 100]])
    assert len(table.splitlines()) == 3
    assert table.isprintable() or all(line.isprintable() for line in table.split("\n"))
    assert max(map(len, table.split("\n"))) < 100


def test_sizes_in_words():
    assert [describe_size(n) for n in (0, 999, 1000, 3_100_000, 5 * 10**9)] == [
        *("0 bytes", "999 bytes", "1.0 kB", "3.1 MB", "5.0 GB")
    ]
