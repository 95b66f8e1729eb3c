"""AUC of each group, and the area between their ROC curves (ABROCA).

Conventions
-----------
negatives and positives: weight at or above each distinct score, descending, so that an ROC curve runs from
(0, 0) to (1, 1); ties are its slanted parts. The interval of an AUC is Wilson's, with the number of rows that
a rate would need to be as uncertain (θ(1−θ) / variance): it stays in [0, 1] and does not vanish at AUC 1.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from evenrisk._validation import SMALL_CELL
from evenrisk.curves import auc, cell_curves
from evenrisk.metrics._inputs import ScoredRows
from evenrisk.metrics._resampling import Binned, generator
from evenrisk.metrics._results import Discrimination, Interval
from evenrisk.metrics.inference import MANY_GROUPS, unseen, upper_quantile, wilson

GRID = 512  # false-positive rates at which resampled ROC curves are compared


def discrimination(rows: ScoredRows, level: float, n_resamples: int, random_state: Any) -> Discrimination:
    """Measure AUC and ABROCA with their intervals."""
    if rows.label is None or rows.label.min() == rows.label.max():
        came = "none" if rows.label is None else "one label only"
        raise ValueError(f"`y_true` must hold two labels where AUC is asked for, got {came}")
    k = len(rows.groups)
    counts = np.bincount(rows.group * 2 + rows.label, minlength=2 * k).reshape(k, 2)
    both = counts.min(axis=1) > 0
    areas = {
        name: _auc_interval(rows.take(rows.group == i), level) if both[i] else None
        for i, name in enumerate(rows.groups)
    }
    between = _abroca(rows, np.flatnonzero(both), level, n_resamples, random_state) if both.sum() > 1 else {}
    return Discrimination(_auc_interval(rows, level), areas, between, level)


def _auc_interval(rows: ScoredRows, level: float) -> Interval:
    """AUC with Wilson's interval at DeLong's variance, or at the largest possible one in small cells."""
    assert rows.label is not None
    value = auc(rows.score, rows.label, rows.weight)
    mine = [rows.label == label for label in (0, 1)]
    sizes = [rows.weight[m].sum() ** 2 / (rows.weight[m] ** 2).sum() for m in mine]
    n = min(sizes)  # Birnbaum: the variance is at most θ(1−θ) / min(n₀, n₁)
    if min(np.count_nonzero(m) for m in mine) >= SMALL_CELL:
        variance = _delong(rows)
        n = max(n, value * (1 - value) / variance) if variance > 0 else n
    low, high = wilson(np.asarray(value), np.asarray(n), level)
    return Interval(value, float(low), float(high))


def _delong(rows: ScoredRows) -> float:
    """Variance of the AUC: Σ ŵ² (place − AUC)² over both labels, a row's place being the share it beats."""
    curves = cell_curves(rows.score, rows.label, rows.weight, 2)
    at = np.searchsorted(curves.thresholds, rows.score)
    variance = 0.0
    for label, other in ((1, 0), (0, 1)):
        share = curves.mass[other] / curves.mass[other].sum()
        place = (1 - curves.above[other] - share / 2)[at]  # P(other < score) + ½P(other = score)
        mine = rows.label == label
        weight = rows.weight[mine] / rows.weight[mine].sum()
        centred = place[mine] - weight @ place[mine]
        squares = weight**2
        variance += float(squares @ centred**2 / (1 - squares.sum()))  # n / (n − 1), for any weights
    return variance


def _abroca(
    rows: ScoredRows, kept: np.ndarray, level: float, n_resamples: int, random_state: Any
) -> dict[tuple[str, str], Interval]:
    """∫ |ROC_a − ROC_b| of every pair; its interval is as wide as that area between resampled moves."""
    curves = [roc(rows.take(rows.group == i)) for i in kept]
    names = [rows.groups[i] for i in kept]
    pairs = list(combinations(range(len(kept)), 2))
    sizes = _effective(rows)
    moved = _roc_moves(rows, kept, n_resamples, random_state)  # (n_resamples, groups, GRID)
    alone = np.abs(moved).mean(axis=2)
    out = {}
    for a, b in pairs:
        if len(kept) > MANY_GROUPS:
            areas = alone[:, a] + alone[:, b]
        else:
            areas = np.abs(moved[:, a] - moved[:, b]).mean(axis=1)
        fewest = min(sizes[kept[a]], sizes[kept[b]])
        width = max(upper_quantile(areas, level), float(unseen(np.asarray(fewest), level)))
        value = area_between(curves[a], curves[b])
        out[names[a], names[b]] = Interval(value, max(value - width, 0.0), min(value + width, 1.0))
    return out


def _effective(rows: ScoredRows) -> np.ndarray:
    """Effective rows of the rarer label in each group (k,)."""
    assert rows.label is not None
    cell, n = rows.group * 2 + rows.label, 2 * len(rows.groups)
    total, squares = np.bincount(cell, rows.weight, n), np.bincount(cell, rows.weight**2, n)
    return (total**2 / np.maximum(squares, np.finfo(float).tiny)).reshape(-1, 2).min(axis=1)


def _roc_moves(rows: ScoredRows, kept: np.ndarray, n_resamples: int, random_state: Any) -> np.ndarray:
    """ROC* − ROC of every group on a grid of false-positive rates (n_resamples, groups, GRID)."""
    code = np.full(len(rows.groups), -1)
    code[kept] = np.arange(len(kept))
    mine = rows.take(np.isin(rows.group, kept))
    mine = replace(mine, groups=tuple(rows.groups[i] for i in kept), group=code[mine.group])
    binned = Binned.of(mine.under("equalized_odds"))
    below = np.cumsum(binned.mass, axis=1) / binned.mass.sum(axis=1, keepdims=True)
    x = (np.arange(GRID) + 0.5) / GRID
    k = len(kept)
    start = _on_grid(below[None, :k], below[None, k:], x)
    parts = []
    for deviation in binned.deviations(n_resamples, generator(random_state)):
        deviation += below
        parts.append(_on_grid(deviation[:, :k], deviation[:, k:], x) - start)
    return np.concatenate(parts)


def _on_grid(negatives: np.ndarray, positives: np.ndarray, x: np.ndarray) -> np.ndarray:
    """ROC curves at the false-positive rates x, from distribution functions (b, k, m) → (b, k, GRID)."""
    out = np.empty((*negatives.shape[:2], len(x)))
    for i, j in np.ndindex(*negatives.shape[:2]):
        fpr = np.maximum.accumulate(1 - negatives[i, j, ::-1])
        out[i, j] = np.interp(x, np.append(fpr, 1.0), np.append(1 - positives[i, j, ::-1], 1.0))
    return out


def roc(rows: ScoredRows) -> tuple[np.ndarray, np.ndarray]:
    """False- and true-positive rate at every distinct score, from (0, 0) to (1, 1)."""
    above = cell_curves(rows.score, rows.label, rows.weight, 2).above
    return tuple(np.append(above[label, ::-1], 1.0) for label in (0, 1))  # type: ignore[return-value]


def area_between(a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray]) -> float:
    """∫₀¹ |ROC_a(x) − ROC_b(x)| dx, exact: both are straight between the false-positive rates of either."""
    x = np.union1d(a[0], b[0])
    left, right = (_inside(a, x, side) - _inside(b, x, side) for side in ("left", "right"))
    size = np.abs(left) + np.abs(right)
    crossing = left * right < 0
    with np.errstate(invalid="ignore", divide="ignore"):
        area = np.where(crossing, (left**2 + right**2) / (2 * size), size / 2)
    return float(area @ np.diff(x))


def _inside(curve: tuple[np.ndarray, np.ndarray], x: np.ndarray, side: str) -> np.ndarray:
    """Values at one end of every interval of x, taken from within it: a curve may jump at the end itself."""
    fpr, tpr = curve
    ends = x[:-1] if side == "left" else x[1:]
    piece = np.searchsorted(fpr, x[:-1], side="right") - 1  # last point at or before the interval's start
    share = (ends - fpr[piece]) / (fpr[piece + 1] - fpr[piece])
    return tpr[piece] + share * (tpr[piece + 1] - tpr[piece])
