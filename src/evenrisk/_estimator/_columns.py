"""The columns of X as a linear model with an intercept is fitted to them, and the way back to X.

A column that is the same in every row says what the intercept says: the two share one direction in which the
objective is flat, and a solver that divides by the column's variance, which is rounding, is lost in it. Such
a column is left out, and its coefficient is 0; that is the minimum for any ridge, whose intercept is free.
A column that varies by little beside its size (a year, an amount of memory) leaves few digits for the part
that matters. It is measured from its smallest value, which takes nothing but a constant out of the scores.
Both are exact, so that a fit is the same, bit for bit, as without these columns or from another origin.

Conventions
-----------
X (n, d) dense or CSR; w (d,) and b the parameters of X; v those of the columns as fitted:
g = Xw + b = (X − origin)[:, kept]·v + (b + origin·w).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenrisk._xp import blocks, is_sparse

FAR = 0.01  # of a column's largest value: below this range it is measured from its smallest one
# Scores lose eps·max/range of their digits where b cancels w·x. At eps^⅔ that is about 2e-5 of a raw score in
# float64 and 2e-2 in float32, and what is left of a column's range is its own rounding.
CONSTANT = 2 / 3


@dataclass(frozen=True)
class Columns:
    """Where each column is measured from, and whether it is kept."""

    origin: np.ndarray  # (d,) float64, 0 for most
    kept: np.ndarray  # (d,) bool

    @classmethod
    def of(cls, X: Any, weight: np.ndarray, fit_intercept: bool) -> Columns:
        """Look at the rows that carry weight; without an intercept every column stays as it is."""
        d = X.shape[1]
        if not fit_intercept:
            return cls(np.zeros(d), np.ones(d, dtype=bool))
        low, high = _sparse_range(X, weight) if is_sparse(X) else _range(X, weight)
        constant = _within(low, high, float(np.finfo(X.dtype).eps) ** CONSTANT)
        return cls(np.where(_within(low, high, FAR), low, 0.0), ~constant)

    def into(self, X: Any) -> Any:
        """(X − origin)[:, kept]; X itself where that changes nothing."""
        if not self.kept.all():
            X = X[:, np.flatnonzero(self.kept)]
        origin = self.origin[self.kept].astype(X.dtype)
        if not origin.any():
            return X
        if not is_sparse(X):
            return X - origin
        X = X.copy()
        X.sum_duplicates()
        X.data -= origin[X.indices]  # a column far from 0 has an entry in every row
        return X

    def back(self, v: np.ndarray, b: float, dtype: Any) -> tuple[np.ndarray, float]:
        """Give w, in the dtype it will have, and the intercept that goes with it."""
        w = np.zeros(len(self.kept), dtype=dtype)
        w[self.kept] = v
        return w, b - float(self.origin @ w)

    def parameters(self, w: np.ndarray, b: float) -> tuple[np.ndarray, float]:
        """Undo `back`."""
        return w[self.kept], b + float(self.origin @ w)


def _within(low: np.ndarray, high: np.ndarray, share: float) -> np.ndarray:
    """Whether a column's range is at most this share of its largest absolute value (d,)."""
    with np.errstate(over="ignore"):  # from −1e308 to 1e308
        return high - low <= share * np.maximum(np.abs(low), np.abs(high))


def _range(X: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest value of each column, of as many rows as it takes to see that no column is far.

    More rows never lower the range's share of the largest value: what raises the value widens the range.
    """
    low, high = np.full(X.shape[1], np.inf), np.full(X.shape[1], -np.inf)
    for block in blocks(weight):
        rows = X[block] if weight[block].all() else X[block][weight[block] > 0]
        if len(rows):
            low, high = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
            if not _within(low, high, FAR).any():
                break
    return low, high


def _sparse_range(X: Any, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest value of each column; 0 and 1 for those with some entries but not all."""
    d = X.shape[1]
    rows = X if weight.all() else X[np.flatnonzero(weight)]
    entries = np.bincount(rows.indices, minlength=d)
    low, high = np.zeros(d), np.where(entries > 0, 1.0, 0.0)
    full = np.flatnonzero(entries >= rows.shape[0])
    if len(full):
        some = rows[:, full].tocsc()
        low[full], high[full] = (each(axis=0).toarray().ravel() for each in (some.min, some.max))
    return low, high
