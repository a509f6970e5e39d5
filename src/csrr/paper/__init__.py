"""Report: results -> one self-contained page, and the same as Markdown."""

from csrr.paper.markdown import readme_table, render_markdown
from csrr.paper.page import render_html, write

__all__ = ["readme_table", "render_html", "render_markdown", "write"]
