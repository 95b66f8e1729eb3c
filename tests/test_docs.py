"""Every Python block of the documentation runs, and prints what the page says it prints.

The blocks of one page run in order in one namespace, with warnings as errors. A block marked ``output`` right
after a Python block is what that block prints.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import sklearn

import evenrisk
from optional import need

ROOT = Path(__file__).parents[1]
PAGES = (
    *("README.md", "docs/index.md", "docs/guide.md", "docs/audit.md", "docs/limits.md"),
    *("docs/comparisons.md", "docs/pytorch.md", "docs/boosting.md", "docs/repair.md"),
)
NEEDS = {"docs/pytorch.md": ["torch"], "docs/boosting.md": ["lightgbm", "xgboost"]}
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```$(?:\n\s*\n```output\n(?P<output>.*?)^```$)?", re.MULTILINE | re.DOTALL
)


def blocks(text: str) -> list[tuple[str, str | None]]:
    """Python blocks, each at its own line of the page so that tracebacks point there; and their output."""
    return [
        ("\n" * text.count("\n", 0, match.start("code")) + match["code"], match["output"])
        for match in BLOCK.finditer(text)
    ]


@pytest.mark.parametrize("page", PAGES)
def test_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in NEEDS.get(page, []):
        need(package)
    monkeypatch.chdir(tmp_path)
    found = blocks((ROOT / page).read_text(encoding="utf-8"))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with sklearn.config_context(), warnings.catch_warnings():
        warnings.simplefilter("error")
        for code, output in found:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, str(ROOT / page), "exec"), namespace)
            if output is not None:
                assert printed.getvalue() == output
    if pyplot := sys.modules.get("matplotlib.pyplot"):  # pages that draw nothing should not load it
        pyplot.close("all")


# the modules that users import from; of the distances the classes, the rest being arithmetic of our own
MODULES = [*evenrisk._SUBMODULES, "distances"]


def listed() -> set[tuple[str, str]]:
    """(module, name) of every line of the API page's tables."""
    found, module = set(), ""
    for line in (ROOT / "docs/api.rst").read_text(encoding="utf-8").splitlines():
        if line.startswith(".. currentmodule::"):
            module = line.split()[-1]
        elif re.fullmatch(r"   \w+", line):
            found.add((module, line.strip()))
    return found


def public(module: str) -> list[str]:
    """Read the names in ``__all__`` without importing what may not be installed."""
    if module == "metrics":  # its scorers are made from the parity rules
        return list(evenrisk.metrics.__all__)
    path = Path(evenrisk.__file__).parent / module
    source = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8")
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    raise AssertionError(f"{module} has no __all__")


def test_every_public_name_is_on_the_api_page() -> None:
    shown = {name for _, name in listed()}
    assert not {name for name in evenrisk.__all__ if name not in evenrisk._SUBMODULES} - shown
    for module in MODULES:
        names = [name for name in public(module) if not name.isupper()]  # modules share constants
        if module == "distances":
            names = [name for name in names if name.istitle() or name.endswith("Distance")]
            assert "Distance" in names
        assert not set(names) - shown, module


def test_every_name_on_the_api_page_is_public() -> None:
    assert len(listed()) > 50
    for module, name in listed():
        below = module.removeprefix("evenrisk").lstrip(".")
        assert name in (public(below) if below else evenrisk.__all__), f"{module}.{name}"


def test_blocks_are_found_with_their_line_and_output() -> None:
    first = "a\n```python\nprint(1)\n```\n\n```output\n1\n```\n"
    page = first + "b\n```python\nx = 2\n```\ntext\n\n```output\n3\n```\n"
    assert blocks(page) == [("\n\nprint(1)\n", "1\n"), ("\n" * 10 + "x = 2\n", None)]


@pytest.mark.parametrize("page", PAGES[1:])
def test_pages_show_code(page: str) -> None:
    assert blocks((ROOT / page).read_text(encoding="utf-8"))
