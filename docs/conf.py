"""Sphinx configuration. Everything a page needs is in the build; nothing is loaded from the internet."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "_ext")]

import figures  # noqa: E402

import evenrisk  # noqa: E402

project = "evenrisk"
author = "The evenrisk developers"
release = version = evenrisk.__version__

extensions = [
    "mathml",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
numpydoc_show_class_members = False
autodoc_typehints = "none"  # the docstrings say it in words

html_theme = "pydata_sphinx_theme"
html_title = "evenrisk"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["evenrisk.css"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = dict.fromkeys(["index", "guide", "limits", "data", "changelog"], [])  # nothing to list there
html_theme_options = {
    "logo": {"text": "evenrisk"},
    "show_toc_level": 2,
    "show_prev_next": False,
    "footer_start": [],
    "footer_end": [],
}


def _generate(app: object) -> None:
    """Draw the pictures afresh; pages of names that are gone must go too."""
    generated = HERE / "generated"
    shutil.rmtree(generated, ignore_errors=True)
    figures.draw(generated / "figures")


def setup(app: object) -> None:
    """Run before autosummary writes its pages, which it does at the usual priority of 500."""
    app.connect("builder-inited", _generate, priority=100)  # type: ignore[attr-defined]
