"""The page of a summary: HTML in one file without scripts, and its main parts as Markdown, with figures as tables."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from csrr._base.files import write_text
from csrr._base.text import UNKNOWN
from csrr.report.findings import render_template
from csrr_paper import document
from csrr_paper.summary_types import Summary
from csrr_paper.today import PRINTED_ELSEWHERE, TODAY, ShownToday, TodayCell


def render_html(summary: Summary) -> str:
    """Return the page of a summary."""
    return render_template(
        "csrr_paper",
        "page.html",
        doc=document.make_document(summary),
        method=document,
        verdicts=document.VERDICTS,
        ranked_by=document.RANKED_BY,
        test_columns=document.TEST_COLUMNS,
        today_title=TODAY,
        printed_elsewhere=PRINTED_ELSEWHERE,
    )


def write_page(summary: Summary, path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Write the page and the Markdown beside each other and return their paths, `path` ending in .html and in .md.

    The figure that the Markdown shows lies beside them, `path` ending in .svg. Each file is written whole or not at
    all.
    """
    target = Path(path)
    if target.suffix in (".html", ".md"):
        target = target.with_suffix("")
    page, markdown, picture = (target.with_name(target.name + end) for end in (".html", ".md", ".svg"))
    overview = document.make_overview(summary)
    texts = {page: render_html(summary), markdown: render_markdown(summary, picture.name if overview else "")}
    if overview:
        texts[picture] = document.draw_picture(overview)
    target.parent.mkdir(parents=True, exist_ok=True)
    for file, text in texts.items():
        write_text(file, text)
    return page, markdown


ELSEWHERE = (
    "Charts, paired tests, the other protocols, all metrics of the figures, parameters, times and certificates are on"
    " the HTML page that is written beside this file (in the source of csrr `docs/reproduction.html`, which `make docs`"
    " builds)."
)


def render_markdown(summary: Summary, picture: str = "") -> str:
    """Return the Markdown of a summary; `picture` is the file of its figure, "" if there is none."""
    doc = document.make_document(summary)
    blocks = [f"# {_escape(doc.title)}", *_write_opening(doc, picture), *_write_claims(doc), *_write_figures(doc)]
    blocks += _write_today(doc.today)
    for name, tables in doc.tables.items():
        blocks += [f"## {name.capitalize()}", *_write_tables(tables)]
    blocks += [*_write_method(doc), *_write_missing(doc)]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _escape(words: str) -> str:
    """Return a text on one line, escaped for Markdown and its tables."""
    flat = re.sub(r"[ \t\n\r\f\v]+", " ", words).strip()
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


def _fold(title: str, *blocks: str) -> list[str]:
    """Return blocks that open when a reader clicks their title."""
    shown = [block for block in blocks if block]
    return [f"<details>\n<summary>{_escape(title)}</summary>", *shown, "</details>"] if shown else []


def _write_opening(doc: document.Document, picture: str) -> list[str]:
    blocks = [f"**{_escape(doc.notice)}**" if doc.notice else ""]
    blocks.append("\n".join(f"- {_escape(each)}" for each in doc.headlines))
    if doc.overview:
        values = _write_overview(doc.overview)
        blocks += [f"![Summary of the results]({picture})", *_fold("Values", *values)] if picture else values
    made = _make_table(("Made", ""), doc.made, left=2) if doc.made else ""
    return [*blocks, ELSEWHERE, *_fold("How these results were made", made)]


def _write_overview(overview: document.Overview) -> list[str]:
    blocks = []
    for part in overview.parts:
        rows = [(system, *values) for system, values in part.rows]
        blocks += [f"**{_escape(part.title)}.** {_escape(part.caption)}", _make_table(("System", *part.names), rows)]
    return blocks


def _write_claims(doc: document.Document) -> list[str]:
    if not doc.claims:
        return ["## The paper's claims", "None were judged."]
    rows = [(document.VERDICTS[claim.verdict][1], claim.claim) for claim in doc.claims]
    evidence = [(claim.claim, claim.where, claim.evidence) for claim in doc.claims]
    folded = _fold("The evidence", _make_table(("Claim", "Where", "Evidence"), evidence, left=3))
    return ["## The paper's claims", _make_table(("Verdict", "Claim"), rows, left=2), *folded]


def _write_tables(tables: Sequence[document.ShownTable]) -> list[str]:
    """Return the tables of the first protocol."""
    if not tables:
        return ["Not run."]
    blocks = []
    for each in tables:
        if each.protocol == tables[0].protocol:
            more = _fold("Intervals, printed values and differences from them", _write_cells(each, _write_more))
            means = _write_cells(each, _write_mean)
            blocks += [f"### {_escape(each.title)}", _escape(each.facts), means, _escape(each.note), *more]
            blocks.append(_indent(each.command))
    left = [each.title for each in tables if each.protocol != tables[0].protocol]
    return [*blocks, f"On the HTML page alone: {_escape('; '.join(left))}." if left else ""]


def _write_cells(each: document.ShownTable, write: Callable[[document.ShownCell], str]) -> str:
    rows = [row for title, group in each.groups for row in ([document.ShownRow(title, [])] if title else []) + group]
    lines = [[row.system, *map(write, row.cells)] for row in rows]
    return _make_table(("System", *each.columns), [line + [""] * (1 + len(each.columns) - len(line)) for line in lines])


def _write_mean(cell: document.ShownCell) -> str:
    return cell.mean + (" (best)" if cell.best else "")


def _write_more(cell: document.ShownCell) -> str:
    printed = f"{cell.printed}, {cell.difference}" if cell.printed else ""
    return "; ".join(each for each in (cell.half, printed) if each)


def _write_figures(doc: document.Document) -> list[str]:
    blocks = ["## Figures"]
    for figure in doc.figures:
        drawn = [block for panel in figure.values if panel.drawn for block in _write_values(panel)]
        blocks += [f"### {_escape(figure.title)}", _escape(figure.caption), *_fold("Values", *drawn)]
        blocks.append(_indent(figure.command))
    return blocks if doc.figures else [*blocks, "Not run."]


def _write_values(panel: document.ShownValues) -> list[str]:
    rows = [(x, *(value for value, _ in points)) for x, points in panel.rows]
    rows = rows or [(UNKNOWN, *(UNKNOWN for _ in panel.series))]
    return [f"**{_escape(panel.title)}**", _make_table((panel.x, *panel.series), rows)]


def _write_today(today: ShownToday | None) -> list[str]:
    if today is None:
        return []
    header = ("System", *(f"{each.data}, {each.measure} ({each.splits})" for each in today.columns))
    rows = [(row.system, *map(_write_today_cell, row.cells)) for row in today.rows]
    blocks = [f"## {TODAY}", _escape(today.verdict), _make_table(header, rows)]
    if today.published:
        names = ("System", *(f"{each.data}, {each.measure}" for each in today.printed_columns), "Source")
        printed = [(row.system, *map(_write_today_cell, row.cells), row.source) for row in today.published]
        blocks += [f"{PRINTED_ELSEWHERE}:", _make_table(names, printed)]
    about = "\n".join(f"- **{_escape(system)}**: {_escape(words)}" for system, words in today.abouts)
    folded = _fold("What each system is, and the commands", about, _indent(today.command))
    return [*blocks, *map(_escape, today.notes), *folded]


def _write_today_cell(cell: TodayCell) -> str:
    return cell.text + (f" ({cell.note})" if cell.note else "") + (" (best)" if cell.best else "")


def _write_method(doc: document.Document) -> list[str]:
    terms = {"Protocols": doc.protocols, "Metrics": document.METRICS}
    blocks = ["## How each number was obtained"]
    for title, pairs in terms.items():
        if pairs:
            lines = "\n".join(f"- **{_escape(name)}**: {_escape(words)}" for name, words in pairs)
            blocks += [f"### {title}", lines]
    blocks += ["### Tuning", _escape(document.TUNING), "### Reading the tables", _escape(document.INTERVALS)]
    blocks += ["### Differences from the paper", "\n".join(f"- {_escape(each)}" for each in doc.differences)]
    return blocks


def _write_missing(doc: document.Document) -> list[str]:
    if not doc.missing:
        return []
    rows = [(each.part, each.command) for each in doc.missing]
    return ["## Not run, or not finished", _make_table(("Part", "Command"), rows, left=2)]
