"""A summary with the words of the code: titles, captions and descriptions, in place of those in the file of results."""

from __future__ import annotations

from dataclasses import replace

from csrr_paper.printed import PROTOCOLS
from csrr_paper.summary import FIGURE_WORDS, describe_splits
from csrr_paper.summary_types import Figure, Summary, SystemTable
from csrr_paper.systems import SYSTEMS


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
    if name not in FIGURE_WORDS:
        return figure
    title, caption = FIGURE_WORDS[name]
    return replace(figure, title=title, caption=f"{caption} {describe_splits(figure.panels)}")
