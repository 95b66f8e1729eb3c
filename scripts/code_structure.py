"""Print figures of the source: the files that a fit or an audit passes through, lines, base classes.

    python scripts/code_structure.py

A file counts where one of its functions runs, after all imports.
"""

from __future__ import annotations

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

SOURCE = Path(evenrisk.__file__).parent


def files_of(run: Callable[[], Any]) -> list[str]:
    """Return our own files in which a function runs; `run` is called once before, for its imports."""
    run()
    seen: set[str] = set()

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            seen.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return sorted(str(Path(name).relative_to(SOURCE)) for name in seen if name.startswith(str(SOURCE)))


def own_classes(kind: type) -> list[str]:
    """Return the classes of ours that a class is made of."""
    return [each.__name__ for each in kind.__mro__ if each.__module__.startswith("evenrisk")]


def size() -> dict[str, int]:
    """Return counts over src/evenrisk."""
    modules = sorted(SOURCE.rglob("*.py"))
    lines = sum(len(path.read_text().splitlines()) for path in modules)
    return {"modules": len(modules), "lines": lines}


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

    runs: dict[str, Callable[[], Any]] = {
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
        for name, run in runs.items():
            files = files_of(run)
            print(f"{name}: {len(files)} files\n    {' '.join(files)}")
    kinds = (FairLogisticRegression, FairLinearSVC, FairKernelSVC, FairMLPClassifier)
    for kind in (*kinds, FairLGBMClassifier, FairXGBClassifier, ZafarDP, ZafarEO):
        print(f"{kind.__name__}: {len(own_classes(kind))} classes of ours: {' '.join(own_classes(kind))}")
    print(", ".join(f"{name} {count:,}" for name, count in size().items()))


if __name__ == "__main__":
    main()
