"""What the gallery of the site needs to know: the order of the examples, and how plots of csrr become its pictures."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from sphinx_gallery.scrapers import figure_rst

import csrr

ORDER = (
    "first_model",
    "reasons",
    "cold_users",
    "new_items",
    "day_by_day",
    "next",
    "costs",
    "calibration",
    "noisy_clicks",
    "neighbors",
    "regularization_path",
    "item_map",
)
"""The examples, in the order of the gallery: files plot_NAME.py of examples/gallery."""


STAMP = ".made-with"
"""The file of the gallery that says with which csrr its examples were run."""


class GalleryOrder:
    """The place of an example in the gallery; Sphinx-Gallery makes one for each folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, name: str) -> int:
        return ORDER.index(Path(name).stem.removeprefix("plot_"))


def save_plot(block: Any, values: dict[str, Any], settings: dict[str, Any]) -> str:
    """Write the plot that a block ends in as a picture, and return what shows it; nothing where there is none."""
    plot = values["example_globals"].get("___")
    # The last value stays where the next block ends in none.
    if not isinstance(plot, csrr.Plot) or plot is values.get("last_plot"):
        return ""
    values["last_plot"] = plot
    path = Path(next(values["image_path_iterator"])).with_suffix(".svg")
    plot.save(path)
    return figure_rst([str(path)], settings["src_dir"], plot.title)


def sum_sources() -> str:
    """Return a checksum of all that a run of an example depends on, but for the example."""
    package = Path(csrr.__file__).parent
    files = [*package.rglob("*.py"), *package.rglob("*.css"), Path(__file__)]
    found = hashlib.sha256()
    for path in sorted(files):
        found.update(path.read_bytes())
    return found.hexdigest()


def is_stale(folder: Path) -> bool:
    """Return whether the examples were run with another csrr, or not at all."""
    stamp = folder / STAMP
    return not stamp.exists() or stamp.read_text() != sum_sources()


def write_stamp(folder: Path) -> None:
    """Note that the examples were run with this csrr."""
    (folder / STAMP).write_text(sum_sources())
