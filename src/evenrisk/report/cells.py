"""How many rows each group has, and each outcome within it."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenrisk._validation import SMALL_CELL
from evenrisk.metrics._inputs import ScoredRows
from evenrisk.report import words


def cells(rows: ScoredRows) -> list[dict[str, Any]]:
    """Count rows, negatives and positives of every group."""
    n = np.bincount(rows.group, minlength=len(rows.groups)).tolist()
    positives: list[Any] = [None] * len(n)
    if rows.label is not None:
        positives = np.bincount(rows.group, rows.label, len(n)).astype(int).tolist()
    return [
        {"group": g, "rows": all_, "negatives": None if p is None else all_ - p, "positives": p}
        for g, all_, p in zip(rows.groups, n, positives, strict=True)
    ]


def named_cells(rows: ScoredRows, label: dict[str, str] | None) -> list[tuple[str, int]]:
    """Every group, and where there are labels every group within a label, with its rows."""
    named = []
    for cell in cells(rows):
        named.append((f"group {cell['group']!r}", cell["rows"]))
        if label is not None and cell["rows"] >= SMALL_CELL:
            named += [
                (f"group {cell['group']!r} among {words.among(stratum, label)}", cell[stratum])
                for stratum in ("negatives", "positives")
            ]
    return named
