"""The figures of the pages are those that docs/make/figures.py draws, but for their numbers."""

import re
from xml.etree import ElementTree

import pytest

from docs.make.figures import FIGURES, FOLDER


def read_words(svg):
    """Return the texts of a figure without their numbers, which another processor may round otherwise."""
    texts = ["".join(each.itertext()) for each in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    return {re.sub(r"[\d.,%]+", "#", text) for text in texts if re.search(r"[^\W\d]", text)}


def test_every_figure_is_kept_and_no_other():
    assert {path.name for path in FOLDER.iterdir()} == {"page.jpg", *(f"{name}.svg" for name in FIGURES)}


@pytest.mark.parametrize("name", ["parts", "own", "certificate", "reliability"])
def test_a_figure_says_what_is_drawn(name):
    words = read_words(FIGURES[name]())
    assert len(words) >= 4
    assert read_words((FOLDER / f"{name}.svg").read_text()) == words


def test_the_parts_are_all_there():
    svg = (FOLDER / "parts.svg").read_text()
    assert {"clicks", "common taste", "neighbors", "user-specific"} <= read_words(svg)
    shades = {colour: set() for colour in re.findall(r'fill="(#\w+)"', svg)}
    for colour, shade in re.findall(r'fill="(#\w+)" fill-opacity="([\d.]+)"', svg):
        shades[colour].add(shade)
    assert len(shades) == 4
    assert min(len(each) for each in shades.values()) >= 2
