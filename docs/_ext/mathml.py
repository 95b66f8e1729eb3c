"""Formulas as MathML, written at build time: pages need no JavaScript and no network.

latex2mathml passes over what it does not know (an unknown command becomes a word, ``aligned`` becomes loose
ampersands), so its output is checked here, and a formula that is not understood stops the build.
"""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.math import get_node_equation_number


def to_mathml(latex: str, display: str) -> str:
    """Give the <math> element of a formula; `display` is "inline" or "block"."""
    braces = re.findall(r"(?<!\\)[{}]", latex)
    if braces.count("{") != braces.count("}"):
        raise ValueError("braces do not match")
    # a bar grows with its neighbours unless told not to
    mathml: str = re.sub(
        r"<mo>(&#x02016;|&#x0007C;)</mo>", r'<mo stretchy="false">\1</mo>', convert(latex, display=display)
    )
    for text in ElementTree.fromstring(mathml).itertext():
        if "\\" in text or "&" in text:
            raise ValueError(f"latex2mathml does not know {text!r}")
    return mathml


def _render(translator: Any, node: nodes.math | nodes.math_block, display: str) -> str:
    latex = node.astext().strip()
    try:
        return to_mathml(latex, display)
    except Exception as error:
        page = translator.builder.current_docname
        reason = str(error) or type(error).__name__
        raise ExtensionError(f"{page}, line {node.line}: bad LaTeX ({reason}): {latex}") from error


def visit_inline(translator: Any, node: nodes.math) -> None:
    """Write an inline formula."""
    translator.body.append(_render(translator, node, "inline"))
    raise nodes.SkipNode


def visit_display(translator: Any, node: nodes.math_block) -> None:
    """Write a formula on a line of its own, with its number if it has one."""
    translator.body.append(translator.starttag(node, "div", CLASS="math-block"))
    translator.body.append(_render(translator, node, "block"))
    if node.get("number"):
        number = get_node_equation_number(translator, node)
        translator.body.append(f'<span class="eqno">({number})</span>')
    translator.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Offer the renderer as ``html_math_renderer = "mathml"``."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
