"""The documentation site: `make docs-site` builds it into build/site, with every warning an error."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from sphinx.application import Sphinx  # noqa: E402

import csrr  # noqa: E402
from docs.make.docstrings import process_docstring  # noqa: E402
from docs.make.reference import write_reference  # noqa: E402

project = "csrr"
author = copyright = "The csrr authors"
version = release = csrr.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc"]
# What is generated here is rst; docs/make holds parts of pages, which are no pages.
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["make", "results"]
# What stands in single backticks in a docstring is code.
default_role = "literal"
smartquotes = False
# What says no language is a formula or a command.
highlight_language = "text"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

# Types and defaults stand beside each parameter (docs/make/docstrings.py).
autodoc_typehints = "none"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80
# The pages list members themselves.
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = f"csrr {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "navigation_depth": 2,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}


def setup(app: Sphinx) -> None:
    """Write the pages of the reference before Sphinx looks for pages, and read docstrings as they are meant."""
    write_reference(Path(__file__).parent / "api")
    # Before numpydoc, whose priority is 500.
    app.connect("autodoc-process-docstring", process_docstring, priority=400)
