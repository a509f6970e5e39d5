"""Results as HTML, for notebooks: tables, facts, words and what folds.

All texts are escaped, nothing runs and nothing is loaded. Colors are those around it, light or dark.
"""

from __future__ import annotations

import html
from collections.abc import Collection, Iterable, Mapping, Sequence

from csrr.printable import find_numeric, format_cell, make_printable

WIDEST = 40
"""The most characters of a cell, whatever the width of a terminal."""
_ROOM = "padding: 0.2em 0.6em"


def format_html_table(
    header: Sequence[str],
    lines: Iterable[Sequence[object]],
    n_more: int = 0,
    bold: Collection[tuple[int, int]] = (),
) -> str:
    """Return the lines under their header as HTML, and how many more there are; cells of `bold` places are bold."""
    body = [list(line) for line in lines]
    flush = ["right" if each else "left" for each in find_numeric(len(header), body)]
    cells = [[html.escape(format_cell(value, WIDEST)) for value in line] for line in body]
    for row, place in bold:
        cells[row][place] = f"<strong>{cells[row][place]}</strong>"
    rows = [f"<tr>{_join_cells('td', line, flush)}</tr>" for line in cells]
    head = f"<thead><tr>{_join_cells('th', (html.escape(make_printable(name)) for name in header), flush)}</tr></thead>"
    more = [f"<p>... {n_more:,} more</p>"] if n_more else []
    return "\n".join(["<table>", head, "<tbody>", *rows, "</tbody>", "</table>", *more])


def format_html_facts(facts: Mapping[str, object]) -> str:
    """Return names and their values as HTML, one below the other."""
    rows = [
        f"<tr>{_join_cells('th', [html.escape(make_printable(name))], ['left'])}"
        f"{_join_cells('td', [html.escape(format_cell(value, WIDEST))], ['left'])}</tr>"
        for name, value in facts.items()
    ]
    return "\n".join(["<table>", "<tbody>", *rows, "</tbody>", "</table>"])


def format_html_words(text: str) -> str:
    """Return a text as a paragraph, with a break at each end of a line."""
    return f"<p>{'<br>'.join(html.escape(make_printable(line)) for line in text.splitlines())}</p>"


def fold_html(title: str, body: str, *, is_open: bool = False) -> str:
    """Return HTML that folds under a title."""
    opening = "<details open>" if is_open else "<details>"
    return f"{opening}<summary>{html.escape(make_printable(title))}</summary>\n{body}\n</details>"


def _join_cells(tag: str, texts: Iterable[str], sides: Sequence[str]) -> str:
    cells = zip(texts, sides, strict=True)
    return "".join(f'<{tag} style="text-align: {side}; {_ROOM}">{text}</{tag}>' for text, side in cells)
