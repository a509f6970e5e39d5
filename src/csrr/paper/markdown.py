"""A summary -> Markdown: the content of the page, figures as tables of their values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from csrr.paper import method
from csrr.paper.document import VERDICTS, Document, ShownFigure, make_document
from csrr.paper.page_tables import RANKED_BY, TEST_COLUMNS, ShownCell, ShownRow, ShownTable
from csrr.paper.summary_types import Cell, Summary, SystemRow
from csrr.paper.today import PRINTED_ELSEWHERE, TODAY, ShownToday, TodayCell
from csrr.plots.number_text import UNKNOWN, format_fixed, to_finite

README_COLUMNS = ("R@5", "P@5", "NDCG@5")
README_EXTRA = "standard NDCG@10"


def render_markdown(summary: Summary) -> str:
    """Return the Markdown of a summary."""
    doc = make_document(summary)
    blocks = [f"# {_escape(doc.title)}", *_write_opening(doc), *_write_claims(doc)]
    for name, tables in doc.tables.items():
        blocks += [f"## {name.capitalize()}", *_write_tables(tables)]
        blocks += ["## Paired tests", *_write_tests(tables)] if name == "comparison" else _write_tests(tables, none="")
    blocks += _write_today(doc.today)
    blocks += ["## Figures", *(block for figure in doc.figures for block in _write_figure(figure))]
    blocks += [*([] if doc.figures else ["Not run."]), *_write_method(doc), *_write_missing(doc)]
    return "\n\n".join(block for block in blocks if block) + "\n"


def render_readme_table(summary: Summary) -> str:
    """Return a short Markdown table of the data sets with protocol "numbers": ours / printed."""
    tables = [table for table in summary.comparison if table.protocol == "numbers"]
    lines = [
        ["" if place else table.label, row.system, *_show_readme_cells(row)]
        for table in tables
        for place, row in enumerate(table.rows)
    ]
    if not lines:
        return "No data set was run under the protocol “numbers”.\n"
    header = ("Data", "System", *(f"{name}, ours / printed" for name in README_COLUMNS), README_EXTRA)
    return _make_table(header, lines, left=2) + "\n"


def _show_readme_cells(row: SystemRow) -> list[str]:
    cells = [row.cells.get(name, Cell()) for name in README_COLUMNS]
    both = [" / ".join(format_fixed(each) for each in (cell.mean, cell.printed) if to_finite(each)) for cell in cells]
    return [*both, format_fixed(row.extra.get(README_EXTRA, Cell()).mean)]


def _escape(words: str) -> str:
    """Return text on one line that Markdown shows as it is, in a table too."""
    flat = " ".join(words.split())
    flat = re.sub(r"([\\`*_\[\]|#~])", r"\\\1", flat)
    return flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _make_table(header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Return a Markdown table; the first `left` columns are set to the left, the others to the right."""
    rule = [":--" if place < left else "--:" for place in range(len(header))]
    shown = [[_escape(each) for each in header], rule, *([_escape(each) for each in row] for row in rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in shown)


def _indent(command: str) -> str:
    """Return a command as a block of code, indented so that nothing in it can end the block."""
    return "\n".join(f"    {line}" for line in command.splitlines())


def _write_opening(doc: Document) -> list[str]:
    quick = "**A quick run: a look at the results, not figures to quote.**" if doc.quick else ""
    return [
        quick,
        "\n".join(f"- {_escape(each)}" for each in doc.headlines),
        _make_table(("Made", ""), doc.made, left=2),
    ]


def _write_claims(doc: Document) -> list[str]:
    rows = [(claim.claim, claim.where, VERDICTS[claim.verdict][1], claim.evidence) for claim in doc.claims]
    shown = _make_table(("Claim", "Where", "Verdict", "Evidence"), rows, left=4) if rows else "None were judged."
    return ["## The paper's claims", shown]


def _write_tables(tables: Sequence[ShownTable]) -> list[str]:
    if not tables:
        return ["Not run."]
    return [block for each in tables for block in _write_table(each)]


def _write_table(each: ShownTable) -> list[str]:
    rows = [row for title, group in each.groups for row in ([ShownRow(title, [])] if title else []) + group]
    lines = [[row.system, *(_write_cell(cell) for cell in row.cells)] for row in rows]
    lines = [line + [""] * (1 + len(each.columns) - len(line)) for line in lines]
    blocks = [
        f"### {_escape(each.title)}",
        _escape(each.facts),
        _make_table(("System", *each.columns), lines),
        _escape(each.note),
    ]
    if each.ranks:
        places = [(rank.system, str(rank.ours), str(rank.printed)) for rank in each.ranks]
        blocks += [f"Places by {RANKED_BY}:", _make_table(("System", "Ours", "Printed"), places)]
    if each.settings:
        header = ("System", "About", "Parameters", "Points tried", "Tune", "Fit", "Evaluate", "Certificate")
        blocks += ["Parameters and times:", _make_table(header, each.settings, left=3)]
    return [*blocks, _indent(each.command)]


def _write_cell(cell: ShownCell) -> str:
    ours = f"{cell.mean} {cell.half}".strip() + (" (best)" if cell.best else "")
    return f"{ours}; printed {cell.printed}, {cell.difference}" if cell.printed else ours


def _write_tests(tables: Sequence[ShownTable], none: str = "Not run.") -> list[str]:
    blocks = [
        block
        for each in tables
        if each.tests
        for block in (f"### Tests on {_escape(each.title)}", _make_table(TEST_COLUMNS, each.tests, left=2))
    ]
    return blocks or [none]


def _write_today(today: ShownToday | None) -> list[str]:
    if today is None:
        return []
    header = ("System", *(f"{each.data}, {each.measure} ({each.splits})" for each in today.columns))
    rows = [(row.system, *map(_write_today_cell, row.cells)) for row in today.rows]
    blocks = [f"## {TODAY}", _escape(today.verdict), _make_table(header, rows)]
    if today.published:
        names = ("System", *(f"{each.data}, {each.measure}" for each in today.printed_columns), "Printed in")
        printed = [(row.system, *map(_write_today_cell, row.cells), row.source) for row in today.published]
        blocks += [f"{PRINTED_ELSEWHERE}:", _make_table(names, printed)]
    about = "\n".join(f"- **{_escape(system)}**: {_escape(words)}" for system, words in today.abouts)
    return [*blocks, about, *map(_escape, today.notes), _indent(today.command)]


def _write_today_cell(cell: TodayCell) -> str:
    return cell.text + (f" ({cell.note})" if cell.note else "") + (" (best)" if cell.best else "")


def _write_figure(figure: ShownFigure) -> list[str]:
    blocks = [f"### {_escape(figure.title)}", _escape(figure.caption)]
    for panel in figure.panels:
        rows = [(x, *values) for x, values in panel.values] or [(UNKNOWN, *(UNKNOWN for _ in panel.series))]
        blocks += [f"**{_escape(panel.title)}**", _make_table((panel.x, *panel.series), rows)]
    return [*blocks, _indent(figure.command)]


def _write_method(doc: Document) -> list[str]:
    terms = {"Protocols": doc.protocols, "Data sets": doc.data_sets, "Metrics": method.METRICS}
    blocks = ["## How each number was obtained"]
    for title, pairs in terms.items():
        if pairs:
            lines = "\n".join(f"- **{_escape(name)}**: {_escape(words)}" for name, words in pairs)
            blocks += [f"### {title}", lines]
    blocks += ["### Tuning", _escape(method.TUNING), "### Reading the tables", _escape(method.INTERVALS)]
    blocks += ["### Differences from the paper", "\n".join(f"- {_escape(each)}" for each in method.DIFFERENCES)]
    if doc.commands:
        blocks += ["### Commands", _make_table(("Part", "Command"), doc.commands, left=2)]
    return blocks


def _write_missing(doc: Document) -> list[str]:
    if not doc.missing:
        return []
    rows = [(each.part, each.command) for each in doc.missing]
    return ["## Not run, or not finished", _make_table(("Part", "Command"), rows, left=2)]
