"""The HTML page of a summary, in one file with style and charts and without scripts."""

from __future__ import annotations

import os
from pathlib import Path

from csrr._base.files import write_text
from csrr.report.page import render_template
from csrr_paper import method
from csrr_paper.document import VERDICTS, make_document
from csrr_paper.markdown import render_markdown
from csrr_paper.overview import draw_picture, make_overview
from csrr_paper.page_tables import RANKED_BY, TEST_COLUMNS
from csrr_paper.summary_types import Summary
from csrr_paper.today import PRINTED_ELSEWHERE, TODAY


def render_html(summary: Summary) -> str:
    """Return the page of a summary."""
    return render_template(
        "csrr_paper",
        "page.html",
        doc=make_document(summary),
        method=method,
        verdicts=VERDICTS,
        ranked_by=RANKED_BY,
        test_columns=TEST_COLUMNS,
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
    overview = make_overview(summary)
    texts = {page: render_html(summary), markdown: render_markdown(summary, picture.name if overview else "")}
    if overview:
        texts[picture] = draw_picture(overview)
    target.parent.mkdir(parents=True, exist_ok=True)
    for file, text in texts.items():
        write_text(file, text)
    return page, markdown
