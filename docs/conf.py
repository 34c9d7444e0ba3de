"""Sphinx configuration."""

import os
import re
import sys
from pathlib import Path

import nbclient
import nbformat
from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml

import sfumato

sys.path[:0] = [os.path.abspath(".."), os.path.abspath(".")]
import reference

project = "Sfumato"
author = "the Sfumato developers"
copyright = "2026, the Sfumato developers"
version = release = sfumato.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx_gallery.gen_gallery",
]
# Links to other projects need their inventories from the network; without it the names stay plain.
intersphinx_mapping = (
    {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
    }
    if os.environ.get("SFUMATO_DOCS_ONLINE")
    else {}
)
suppress_warnings = ["myst.header"]  # benchmarks/RESULTS.md goes from the first level to the third
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "lists.rst", "gallery/README.rst", "**/GALLERY_HEADER.rst"]
html_theme = "pydata_sphinx_theme"
html_title = "Sfumato"
html_static_path = ["_static"]
templates_path = ["_templates"]
html_show_sourcelink = False
html_css_files = ["wide.css"]
html_math_renderer = "mathml"
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 9,
    # Wide tables take the room of the list of headings.
    "secondary_sidebar_items": {"**": ["page-toc"], "works-on": [], "comparison": []},
}
html_sidebars = {
    page: []
    for page in (
        "index",
        "start",
        "choose",
        "trust",
        "api",
        "generated/*",
    )
}
# Stubs are made from the page as it reads once its lists are filled in.
_here = Path(__file__).parent
_page = reference.expand((_here / "api.md").read_text(encoding="utf-8"))
(_here / "lists.rst").write_text(_page, encoding="utf-8")
autosummary_generate = ["lists.rst"]
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": "plot_",
    "remove_config_comments": True,
    "show_memory": False,
    "min_reported_time": 1000,
    "write_computation_times": False,
    "within_subsection_order": "FileNameSortKey",
    "nested_sections": True,
    "show_signature": False,
    "capture_repr": ("_repr_html_",),
}


def escape(app, what, name, obj, options, lines):
    """Norms are written |x|, which reStructuredText takes for substitutions, and initials look like
    numbered lists: escape both.
    """
    for place, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = line.split("``")
            parts[::2] = [part.replace("|", "\\|") for part in parts[::2]]
            lines[place] = re.sub(r"^(\s*\.\. \[\d+\] [A-Z])\.", r"\1\\.", "``".join(parts))


def leave_out_foreign(app, what, name, obj, skip, options):
    """What scikit-learn gives to every estimator is described there."""
    return True if (getattr(obj, "__module__", "") or "").startswith("sklearn") else None


def show_math(block):
    """Formulas as MathML, which browsers draw by themselves.

    The pages load nothing from elsewhere.
    """

    def visit(self, node):
        braced = re.sub(
            r"(\\[td]?frac)(\d)(\d)", r"\1{\2}{\3}", node.astext()
        )  # docutils reads \frac12 as twelve over what follows
        self.body.append(tex2mathml(braced, as_block=block))
        raise SkipNode

    return visit


def fill_in_names(app, page, source):
    """The lists of the API page."""
    source[0] = reference.expand(source[0])


def execute_notebooks(app):
    """The notebooks of the ten jobs, which the gallery writes without their results."""
    for path in sorted((_here / "gallery" / "jobs").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        if not any(cell.get("outputs") for cell in notebook.cells):
            nbclient.NotebookClient(notebook, timeout=600).execute()
            nbformat.write(notebook, path)


def setup(app):
    app.connect("builder-inited", execute_notebooks, priority=900)  # after the gallery
    app.connect("source-read", fill_in_names)
    app.connect("autodoc-process-docstring", escape, priority=1)
    app.connect("autodoc-skip-member", leave_out_foreign)
    app.add_html_math_renderer(
        "mathml", (show_math(block=False), None), (show_math(block=True), None)
    )
