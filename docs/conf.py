"""The documentation site: `make docs-site` builds it into build/site, with every warning an error."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from docutils import nodes  # noqa: E402
from docutils.utils.math.latex2mathml import tex2mathml  # noqa: E402
from sphinx.application import Sphinx  # noqa: E402
from sphinx.writers.html5 import HTML5Translator  # noqa: E402

import csrr  # noqa: E402
from docs.make.docstrings import process_docstring  # noqa: E402
from docs.make.gallery import is_stale, write_stamp  # noqa: E402
from docs.make.reference import write_reference  # noqa: E402

project = "csrr"
author = copyright = "The csrr authors"
version = release = csrr.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc", "sphinx_gallery.gen_gallery"]
# What is generated here is rst; docs/make holds parts of pages, which are no pages.
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["make", "results"]
# What stands in single backticks in a docstring is code.
default_role = "literal"
smartquotes = False
# What says no language is a formula or a command.
highlight_language = "text"

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# Types and defaults stand beside each parameter (docs/make/docstrings.py).
autodoc_typehints = "none"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80
# The pages list members themselves.
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

GALLERY = Path(__file__).parent / "gallery"
# Examples are run where they, or csrr, have changed since; what they gave is kept in docs/gallery.
sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "within_subsection_order": "docs.make.gallery.GalleryOrder",
    "image_scrapers": ("docs.make.gallery.save_plot",),
    "ignore_repr_types": "csrr.report.charts.Plot",
    "run_stale_examples": is_stale(GALLERY),
    "reset_modules": (),
    "abort_on_example_error": True,
    "show_signature": False,
    "write_computation_times": False,
}

# Browsers draw MathML themselves; MathJax would come from the network.
html_math_renderer = "mathml"

html_theme = "pydata_sphinx_theme"
html_title = f"csrr {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "navigation_depth": 2,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}


def show_formula(self: HTML5Translator, node: nodes.math | nodes.math_block) -> None:
    """Write a formula as MathML, with bars and braces as high as they are written."""
    written = tex2mathml(node.astext(), as_block=isinstance(node, nodes.math_block))
    self.body.append(re.sub(r"<mo(?: class=\"mathopen\")?>([‖{}])</mo>", r'<mo stretchy="false">\1</mo>', written))
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Write the pages of the reference before Sphinx looks for pages, and read docstrings as they are meant."""
    app.add_html_math_renderer("mathml", (show_formula, None), (show_formula, None))
    # After the gallery, whose priority is that of most.
    app.connect("builder-inited", lambda _: write_stamp(GALLERY), priority=900)
    write_reference(Path(__file__).parent / "api")
    # Before numpydoc, whose priority is 500.
    app.connect("autodoc-process-docstring", process_docstring, priority=400)
