"""Which thresholds a page shows: few of many, the maximum always among them."""

from __future__ import annotations

import numpy as np

BUCKETS = 240  # along the threshold and again along the share selected; a plot is some 600 pixels wide
FEW = 50  # distinct scores; up to here a score is taken for a scale of so many notches
NUMBERS = 80_000  # counts on one page, all groups and columns together
MOST_STEPS = 1000


def thinned(
    thresholds: np.ndarray, share: np.ndarray, curves: np.ndarray, buckets: int = BUCKETS
) -> np.ndarray:
    """Index of the thresholds to draw: in every bucket the last, and the highest of each curve (h, m)."""
    if len(thresholds) <= 2 * buckets:
        return np.arange(len(thresholds))
    kept = [np.array([0])]
    for along in (thresholds, 1 - share):
        span = along[-1] - along[0]
        bucket = np.floor((along - along[0]) / (span or 1.0) * (buckets - 1e-9)).astype(int)
        last = np.flatnonzero(np.diff(bucket, append=-1))
        first = np.concatenate([[0], last[:-1] + 1])
        kept.append(last)
        for curve in curves:
            highest = np.maximum.reduceat(curve, first)
            at = np.flatnonzero(curve == np.repeat(highest, last - first + 1))
            kept.append(at[np.diff(bucket[at], prepend=-1) > 0])  # one per bucket, the first of equals
    return np.unique(np.concatenate(kept))


def steps(thresholds: np.ndarray, low: float, high: float, most: int, always: list[float]) -> np.ndarray:
    """Thresholds a slider stops at: all distinct scores if few, else round numbers and quantiles."""
    if len(thresholds) <= most:
        wanted = [thresholds, [low]]
    else:
        quantiles = np.linspace(0, len(thresholds) - 1, most // 2).round().astype(int)
        wanted = [round_numbers(low, high, most // 2), thresholds[quantiles]]
    return np.unique(np.concatenate([*wanted, always]).astype(float))


def round_numbers(low: float, high: float, most: int) -> np.ndarray:
    """At most `most` multiples of 1, 2 or 5 times a power of ten that cover [low, high]."""
    if not high > low:
        return np.array([low])
    raw = (high - low) / max(most - 3, 1)
    power = 10.0 ** np.floor(np.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))
    count = np.arange(np.floor(low / step + 1e-9), np.ceil(high / step - 1e-9) + 1)
    digits = max(0, int(-np.floor(np.log10(step) + 1e-9)))
    return np.round(count * step, digits)


def buckets(n_columns: int) -> int:
    """How finely each of so many columns is drawn."""
    return int(np.clip(4 * BUCKETS // n_columns, 40, BUCKETS))


def most_steps(n_lists: int) -> int:
    """How many steps a column gets, so that the counts of all columns and groups fit on a page."""
    return int(np.clip(NUMBERS // max(n_lists, 1), 60, MOST_STEPS))
