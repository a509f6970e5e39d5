"""A summary with the words of today: numbers are measured once, but what is said of them may be said better."""

from __future__ import annotations

from dataclasses import replace

from csrr_paper.printed import PROTOCOLS
from csrr_paper.summary import FIGURE_WORDS, describe_splits
from csrr_paper.summary_types import Figure, Summary, SystemTable
from csrr_paper.systems import SYSTEMS

PHRASES = {
    "Cleaning a log for others": "Cleaning the log for other models",
    "What csrr.clean is worth to other models when": "NDCG@10 of other models after csrr.clean, when",
    "As they come, and tuned": "Models with default settings, and tuned",
    "λ₁, λ₂ kept": "λ₁, λ₂ fixed",
    "λ₁ tuned again": "λ₁ tuned at each c_p",
}
"""What captions and names of lines in files say, and what they are to say."""


def renew_words(summary: Summary) -> Summary:
    """The summary with what the code says now of protocols, systems and figures, in place of what the file says."""
    return replace(
        summary,
        protocols={
            name: PROTOCOLS[name].about if name in PROTOCOLS else about for name, about in summary.protocols.items()
        },
        comparison=[_renew_rows(table) for table in summary.comparison],
        ablation=[_renew_rows(table) for table in summary.ablation],
        figures={name: _renew_figure(name, figure) for name, figure in summary.figures.items()},
    )


def _renew_rows(table: SystemTable) -> SystemTable:
    rows = [
        replace(row, about=SYSTEMS[row.system].about) if row.about and row.system in SYSTEMS else row
        for row in table.rows
    ]
    return replace(table, rows=rows)


def _renew_figure(name: str, figure: Figure) -> Figure:
    panels = [
        replace(panel, series=[replace(each, name=PHRASES.get(each.name, each.name)) for each in panel.series])
        for panel in figure.panels
    ]
    if name in FIGURE_WORDS:
        title, caption = FIGURE_WORDS[name]
        return replace(figure, title=title, caption=f"{caption} {describe_splits(panels)}", panels=panels)
    title, caption = figure.title, figure.caption
    for phrase, better in PHRASES.items():
        title, caption = title.replace(phrase, better), caption.replace(phrase, better)
    return replace(figure, title=title, caption=caption, panels=panels)
