"""A summary -> Markdown: the content of the page, figures as tables of their values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from csrr.paper import method
from csrr.paper.document import Document, Figure, read_document
from csrr.paper.page_tables import RANKED_BY, TEST_COLUMNS, Cell, Row, Table
from csrr.paper.summary_fields import mapping, parts, text
from csrr.plots.number_text import UNKNOWN, fixed

README_COLUMNS = ("R@5", "P@5", "NDCG@5")
README_EXTRA = "standard NDCG@10"


def render_markdown(summary: Any) -> str:
    """Return the Markdown of a summary."""
    doc = read_document(summary)
    blocks = [f"# {escaped(doc.title)}", *_opening(doc), *_claims(doc)]
    blocks += ["## Comparison", *_tables(doc.comparison)]
    blocks += ["## Paired tests", *_tests(doc.comparison)]
    blocks += ["## Ablation", *_tables(doc.ablation), *_tests(doc.ablation, none="")]
    blocks += ["## Figures", *(block for figure in doc.figures for block in _figure(figure))]
    blocks += [*([] if doc.figures else ["Not run."]), *_method(doc), *_missing(doc)]
    return "\n\n".join(block for block in blocks if block) + "\n"


def readme_table(summary: Any) -> str:
    """Return a short Markdown table of the data sets with protocol "numbers": ours / printed."""
    read_document(summary)
    lines: list[Sequence[str]] = []
    for part in parts(summary, "comparison", ""):
        if text(part, "protocol") != "numbers":
            continue
        label = text(part, "label", text(part, "data"))
        for row in parts(part, "rows", label):
            lines.append([label, text(row, "system"), *_readme_cells(row, label)])
            label = ""
    if not lines:
        return "No data set was run under the protocol “numbers”.\n"
    header = ("Data", "System", *(f"{name}, ours / printed" for name in README_COLUMNS), README_EXTRA)
    return table(header, lines, left=2) + "\n"


def _readme_cells(row: Any, label: str) -> list[str]:
    cells, extra = mapping(row, "cells", label), mapping(row, "extra", label)
    own = [mapping(cells, name, label) for name in README_COLUMNS]
    both = [" / ".join(fixed(cell[name]) for name in ("mean", "printed") if cell.get(name)) for cell in own]
    standard = fixed(mapping(extra, README_EXTRA, label).get("mean"))
    return [*both, standard]


def escaped(words: str) -> str:
    """Return text on one line that Markdown shows as it is, in a table too."""
    flat = " ".join(words.split())
    flat = re.sub(r"([\\`*_\[\]|#~])", r"\\\1", flat)
    return flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def table(header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Return a Markdown table; the first `left` columns are set to the left, the others to the right."""
    rule = [":--" if place < left else "--:" for place in range(len(header))]
    shown = [[escaped(each) for each in header], rule, *([escaped(each) for each in row] for row in rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in shown)


def code(command: str) -> str:
    """Return a command as a block of code, indented so that nothing in it can end the block."""
    return "\n".join(f"    {line}" for line in command.splitlines())


def _opening(doc: Document) -> list[str]:
    quick = "**A quick run: a look at the results, not figures to quote.**" if doc.quick else ""
    return [
        quick,
        "\n".join(f"- {escaped(each)}" for each in doc.headlines),
        table(("Made", ""), doc.made, left=2),
    ]


def _claims(doc: Document) -> list[str]:
    rows = [(claim.claim, claim.where, claim.words, claim.evidence) for claim in doc.claims]
    shown = table(("Claim", "Where", "Verdict", "Evidence"), rows, left=4) if rows else "None were judged."
    return ["## The paper's claims", shown]


def _tables(tables: Sequence[Table]) -> list[str]:
    if not tables:
        return ["Not run."]
    return [block for each in tables for block in _table(each)]


def _table(each: Table) -> list[str]:
    rows = [row for title, group in each.groups for row in ([Row(title, [])] if title else []) + group]
    lines = [[row.system, *(_cell(cell) for cell in row.cells)] for row in rows]
    lines = [line + [""] * (1 + len(each.columns) - len(line)) for line in lines]
    blocks = [
        f"### {escaped(each.title)}",
        escaped(each.facts),
        table(("System", *each.columns), lines),
        escaped(each.note),
    ]
    if each.ranks:
        places = [(rank.system, str(rank.ours), str(rank.printed)) for rank in each.ranks]
        blocks += [f"Places by {RANKED_BY}:", table(("System", "Ours", "Printed"), places)]
    if each.settings:
        header = ("System", "About", "Parameters", "Points tried", "Tune", "Fit", "Evaluate", "Certificate")
        settings = [
            (s.system, s.about, s.params, s.tried, s.tune, s.fit, s.evaluate, s.certificate) for s in each.settings
        ]
        blocks += ["Parameters and times:", table(header, settings, left=3)]
    return [*blocks, code(each.command)]


def _cell(cell: Cell) -> str:
    ours = f"{cell.mean} {cell.half}".strip() + (" (best)" if cell.best else "")
    return f"{ours}; printed {cell.printed}, {cell.difference}" if cell.printed else ours


def _tests(tables: Sequence[Table], none: str = "Not run.") -> list[str]:
    blocks = [
        block
        for each in tables
        if each.tests
        for block in (f"### Tests on {escaped(each.title)}", table(TEST_COLUMNS, each.tests, left=2))
    ]
    return blocks or [none]


def _figure(figure: Figure) -> list[str]:
    blocks = [f"### {escaped(figure.title)}", escaped(figure.caption)]
    for panel in figure.panels:
        rows = [(x, *values) for x, values in panel.values] or [(UNKNOWN, *(UNKNOWN for _ in panel.series))]
        blocks += [f"**{escaped(panel.title)}**", table((panel.x, *panel.series), rows)]
    return [*blocks, code(figure.command)]


def _method(doc: Document) -> list[str]:
    terms = {"Protocols": doc.protocols, "Data sets": doc.data_sets, "Metrics": method.METRICS}
    blocks = ["## How each number was obtained"]
    for title, pairs in terms.items():
        if pairs:
            lines = "\n".join(f"- **{escaped(name)}**: {escaped(words)}" for name, words in pairs)
            blocks += [f"### {title}", lines]
    blocks += ["### Tuning", escaped(method.TUNING), "### Reading the tables", escaped(method.INTERVALS)]
    blocks += ["### Differences from the paper", "\n".join(f"- {escaped(each)}" for each in method.DIFFERENCES)]
    if doc.commands:
        blocks += ["### Commands", table(("Part", "Command"), doc.commands, left=2)]
    return blocks


def _missing(doc: Document) -> list[str]:
    if not doc.missing:
        return []
    rows = [(each.part, each.command) for each in doc.missing]
    return ["## Not run, or not finished", table(("Part", "Command"), rows, left=2)]
