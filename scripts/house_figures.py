"""Figures of the source: how many of our files a fit or an audit passes through, modules, lines, ancestry.

    python scripts/house_figures.py

A file counts where one of its functions runs, after all imports.
"""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import evenrisk
from evenrisk import FairKernelSVC, FairLinearSVC, FairLogisticRegression
from evenrisk.baselines import ZafarDP, ZafarEO
from evenrisk.boosting import FairLGBMClassifier, FairXGBClassifier
from evenrisk.neural_network import FairMLPClassifier

HOME = Path(evenrisk.__file__).parent


def files_of(run: Callable[[], Any]) -> list[str]:
    """Our own files in which a function runs; `run` is called once before, for its imports."""
    run()
    seen: set[str] = set()

    def look(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            seen.add(frame.f_code.co_filename)

    sys.setprofile(look)
    try:
        run()
    finally:
        sys.setprofile(None)
    return sorted(str(Path(name).relative_to(HOME)) for name in seen if name.startswith(str(HOME)))


def ancestry(kind: type) -> list[str]:
    return [each.__name__ for each in kind.__mro__ if each.__module__.startswith("evenrisk")]


def source() -> dict[str, int]:
    """Counts over src/evenrisk."""
    modules = sorted(HOME.rglob("*.py"))
    give = 0
    for path in modules:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                give += (ast.get_docstring(node) or "").startswith("Give")
    lines = sum(len(path.read_text().splitlines()) for path in modules)
    return {"modules": len(modules), "lines": lines, "docstrings that begin with Give": give}


def main() -> None:
    from click.testing import CliRunner

    from evenrisk.cli import main as command

    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    group = np.where(rng.random(300) < 0.4, "a", "b")
    y = (X[:, 0] + (group == "a") + rng.logistic(size=300) > 0).astype(int)
    runner = CliRunner()
    rows = zip(1 / (1 + np.exp(-X[:, 0])), y, group, strict=True)
    table = "score,label,group\n" + "".join(f"{s},{label},{g}\n" for s, label, g in rows)

    def audit() -> None:
        with runner.isolated_filesystem():
            Path("t.csv").write_text(table)
            options = ["--score", "score", "--label", "label", "--group", "group", "--html", "page.html"]
            assert runner.invoke(command, ["audit", "t.csv", *options]).exit_code == 0

    walks: dict[str, Callable[[], Any]] = {
        "FairLogisticRegression(eta=5).fit": lambda: FairLogisticRegression(eta=5).fit(
            X, y, sensitive_features=group
        ),
        "FairMLPClassifier().fit": lambda: FairMLPClassifier(max_iter=3, random_state=0).fit(
            X, y, sensitive_features=group
        ),
        "evenrisk audit --html": audit,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, run in walks.items():
            files = files_of(run)
            print(f"{name}: {len(files)} files\n    {' '.join(files)}")
    kinds = (FairLogisticRegression, FairLinearSVC, FairKernelSVC, FairMLPClassifier)
    for kind in (*kinds, FairLGBMClassifier, FairXGBClassifier, ZafarDP, ZafarEO):
        print(f"{kind.__name__}: {len(ancestry(kind))} classes of ours: {' '.join(ancestry(kind))}")
    print(", ".join(f"{name} {count:,}" for name, count in source().items()))


if __name__ == "__main__":
    main()
