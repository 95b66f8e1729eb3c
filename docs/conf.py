"""Sphinx configuration. Everything a page needs is in the build; nothing is loaded from the internet."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from sphinx.application import Sphinx

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "_ext")]

import audit_page  # noqa: E402
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
exclude_patterns = ["reproduction_tables.md", "_build"]
templates_path = ["_templates"]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
numpydoc_show_class_members = False
autodoc_typehints = "none"  # the docstrings say it in words
toc_object_entries_show_parents = "hide"

# records that functions make: how to construct one is nobody's business
RECORDS = (
    "metrics.ThresholdProfile",
    "metrics.RiskDistribution",
    "metrics.NoiseFloor",
    "metrics.Band",
    "metrics.Certificate",
    "metrics.Decisions",
    "metrics.Discrimination",
    "metrics.Interval",
    "metrics.Intervals",
    "metrics.PermutationTest",
    "report.AuditReport",
    "datasets.Dataset",
)

html_theme = "pydata_sphinx_theme"
html_title = "evenrisk"
html_math_renderer = "mathml"
html_static_path = ["_static"]
(HERE / "generated" / "pages").mkdir(parents=True, exist_ok=True)  # Sphinx looks before anything is generated
html_extra_path = ["generated/pages"]
html_css_files = ["evenrisk.css"]
html_show_sourcelink = False
html_copy_source = False
# these pages have no pages below them to list
html_sidebars = {page: [] for page in ("index", "guide", "audit", "limits", "data", "changelog")}
html_theme_options = {
    "logo": {"text": "evenrisk"},
    "show_toc_level": 2,
    "show_prev_next": False,
    "footer_start": [],
    "footer_end": [],
}


def _generate(app: Sphinx) -> None:
    """Draw the pictures afresh; pages of names that are gone must go too."""
    generated = HERE / "generated"
    shutil.rmtree(generated, ignore_errors=True)
    figures.draw(generated / "figures")
    audit_page.write(generated / "pages" / "compas_audit.html")


def _signature(app: Sphinx, what: str, name: str, *_: object) -> tuple[str, None] | None:
    """Show no constructor for records."""
    return ("", None) if name in {f"evenrisk.{record}" for record in RECORDS} else None


def setup(app: Sphinx) -> None:
    """Generate before autosummary writes its pages, which it does at the usual priority of 500."""
    app.connect("builder-inited", _generate, priority=100)
    app.connect("autodoc-process-signature", _signature)
