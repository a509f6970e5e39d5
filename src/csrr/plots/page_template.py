"""Pages of one look: a template, with the style sheets and what draws charts."""

from __future__ import annotations

from typing import Any

from csrr.plots.charts import draw_marker
from csrr.plots.plot import read_colour_sheet, read_page_sheet
from csrr.printable import make_printable


def render_template(package: str, name: str, **values: Any) -> str:
    """Return the page that a template of a package, such as "csrr_paper", makes of values.

    All text is escaped, and controls and marks that turn text around are spelled out.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: make_printable(value, keep="\n\t") if type(value) is str else value,
    )
    # The charts escape their own text.
    return environment.get_template(name).render(
        colours=Markup(read_colour_sheet()),  # noqa: S704
        style=Markup(read_page_sheet()),  # noqa: S704
        drawn=Markup,
        marker=lambda place: Markup(draw_marker(place)),  # noqa: S704
        **values,
    )
