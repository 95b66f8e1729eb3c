"""How many rows each group has, each outcome within it, and which groups have enough to be compared."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenrisk._validation import SMALL_CELL, check_codes
from evenrisk.metrics._inputs import ScoredRows
from evenrisk.report import words

FEWEST = 2  # rows of a compared cell; the rate of one person is 0 or 1 and would set every gap
# the stratum whose rows a rate is a share of; positives and negatives need outcomes
STRATUM_OF = {
    "selection_rate": "everybody",
    "tpr": "positives",
    "fpr": "negatives",
    "ppv": "everybody",
    "accuracy": "everybody",
}


@dataclass(frozen=True)
class Compared:
    """What a rule compares: the groups with `FEWEST` rows or more in every cell of it, and their rows."""

    rows: ScoredRows  # of the groups that are compared
    left_out: list[dict[str, Any]]  # the other groups: their rows, and those of each cell


def compared(rows: ScoredRows, parity: Any) -> Compared:
    """Leave out the groups that have too few rows for a rule; the others are as if these were not there."""
    under = rows.under(parity)
    check_codes(under.code, under.n_cells)
    strata, k = under.parity.strata, len(rows.groups)
    counts = np.bincount(under.code[under.code >= 0], minlength=under.n_cells).reshape(len(strata), k)
    total = np.bincount(rows.group, minlength=k)
    enough = counts.min(axis=0) >= FEWEST
    left_out = [
        {
            "group": rows.groups[j],
            "rows": int(total[j]),
            "cells": [
                {"stratum": stratum, "rows": int(counts[i, j]), "too_few": bool(counts[i, j] < FEWEST)}
                for i, stratum in enumerate(strata)
            ],
        }
        for j in np.flatnonzero(~enough)
    ]
    if left_out:
        kept = under.take(enough[under.group])
        place = (np.cumsum(enough) - 1).astype(kept.group.dtype)
        names = tuple(name for name, is_kept in zip(rows.groups, enough, strict=True) if is_kept)
        under = replace(kept, groups=names, group=place[kept.group]).under(parity)
    return Compared(under, left_out)


def needed(rule: Any) -> str:
    """How many rows a group must have for a rule to compare it, in words."""
    which = " of each outcome" if len(rule.strata) > 1 else " of the outcome that it looks at"
    return f"at least {FEWEST} rows{which if rule.needs_label else ''}"


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


def rates_compared(rows: ScoredRows, parities: tuple[Any, ...]) -> dict[str, list[int]]:
    """Which groups count in the highest and the lowest of each rate at one cut-off.

    Those that every rule on the same people compares, and that have enough such people at all.
    """
    counted = cells(rows)
    left_out = [(rows.rule(parity).strata, compared(rows, parity).left_out) for parity in parities]
    out = {}
    for rate, stratum in STRATUM_OF.items():
        if rows.label is None and rate != "selection_rate":
            continue
        gone = {entry["group"] for strata, left in left_out if stratum in strata for entry in left}
        key = "rows" if stratum == "everybody" else stratum
        out[rate] = [j for j, cell in enumerate(counted) if cell[key] >= FEWEST and cell["group"] not in gone]
    return out


def sentences(rows: ScoredRows, parities: tuple[Any, ...], label: dict[str, str] | None) -> list[str]:
    """Name every small cell, and every group that a rule leaves out."""
    by_rule = {rows.rule(parity): compared(rows, parity).left_out for parity in parities}
    told = {
        (each["group"], cell["stratum"])
        for left in by_rule.values()
        for each in left
        for cell in each["cells"]
        if cell["too_few"]
    }
    everywhere = set.intersection(*({each["group"] for each in left} for left in by_rule.values()))
    small = [
        (name, n)
        for group, stratum, name, n in _named_cells(rows, label)
        if n < SMALL_CELL and group not in everywhere and (group, stratum) not in told
    ]
    left_out = [
        words.left_out(rule.name, left, label, needed(rule)) for rule, left in by_rule.items() if left
    ]
    return [*words.small_cells(small, SMALL_CELL), *left_out]


def _named_cells(rows: ScoredRows, label: dict[str, str] | None) -> list[tuple[str, str, str, int]]:
    """Every group, and where there are labels every group within a label: what it is called, its rows."""
    named = []
    for cell in cells(rows):
        name = words.quoted_group(cell["group"])
        named.append((cell["group"], "everybody", name, cell["rows"]))
        if label is not None and cell["rows"] >= SMALL_CELL:
            named += [
                (cell["group"], stratum, f"{name} among {words.among(stratum, label)}", cell[stratum])
                for stratum in ("negatives", "positives")
            ]
    return named
