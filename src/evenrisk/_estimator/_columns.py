"""The columns of X as a linear model with an intercept is fitted to them, and the way back to X.

A column that is the same in every row says what the intercept says: the two share one direction in which the
objective is flat, and a solver that divides by the column's variance, which is rounding, is lost in it. Such
a column is left out, and its coefficient is 0; that is the minimum for any ridge, whose intercept is free.
A column that varies by little beside its size (a year, an amount of memory) leaves few digits for the part
that matters. It is measured from its smallest value, which takes nothing but a constant out of the scores.
Both are exact, so that a fit is the same, bit for bit, as without these columns or from another origin.
What stays of the column's size is its rounding (in float32 an amount of 1e9 is off by up to 32). Where the
other columns already say all the rest of it, a fit would take this rounding for a feature, with coefficients
of thousands that cancel. Such a column is replaced by what the others say of it.

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
from evenrisk.objective import second_moments

FAR = 0.01  # of a column's largest value: below this range it is measured from its smallest one
# Scores lose eps·max/range of their digits where b cancels w·x. At eps^⅔ that is about 2e-5 of a raw score in
# float64 and 2e-2 in float32, and what is left of a column's range is its own rounding.
CONSTANT = 2 / 3
NOISY = 1e-4  # of a column's range: while what counts as constant is less, rounding does no harm
WIDTH = 4  # standard deviations in a range
MOST = 256  # columns among which collinear ones are looked for
COLLINEAR = 1e-11  # of a unit variance: what is left of a column that the others say all of


@dataclass(frozen=True)
class Columns:
    """Where each column is measured from, and whether it is kept."""

    origin: np.ndarray  # (d,) float64, 0 for most
    kept: np.ndarray  # (d,) bool
    resolution: np.ndarray  # (d,) float64: a range as small as this is lost in the column's rounding
    noisy: np.ndarray  # (d,) bool: whether that is much beside the range it has

    @classmethod
    def of(cls, X: Any, weight: np.ndarray, fit_intercept: bool) -> Columns:
        """Look at the rows that carry weight; without an intercept every column stays as it is."""
        d = X.shape[1]
        if not fit_intercept:
            return cls(np.zeros(d), np.ones(d, dtype=bool), np.zeros(d), np.zeros(d, dtype=bool))
        lost = float(np.finfo(X.dtype).eps) ** CONSTANT
        far = max(FAR, lost / NOISY)
        low, high = _sparse_range(X, weight) if is_sparse(X) else _range(X, weight, far)
        return cls(
            origin=np.where(_within(low, high, far), low, 0.0),
            kept=~_within(low, high, lost),
            resolution=lost * np.maximum(np.abs(low), np.abs(high)).astype(np.float64),
            noisy=_within(low, high, lost / NOISY),
        )

    def into(self, X: Any, weight: np.ndarray) -> Any:
        """(X − origin)[:, kept], noisy columns from the others where those say all of them; or X itself."""
        if not self.kept.all():
            X = X[:, np.flatnonzero(self.kept)]
        origin = self.origin[self.kept].astype(X.dtype)
        noisy = np.flatnonzero(self.noisy[self.kept])
        if not (origin.any() or len(noisy)):
            return X
        if is_sparse(X):
            X = X.copy()
            X.sum_duplicates()
            X.data -= origin[X.indices]  # a column far from 0 has an entry in every row
        else:
            X = X - origin
        if len(noisy) > 0 and X.shape[1] <= MOST:
            _without_rounding(X, weight, noisy, self.resolution[self.kept])
        return X

    def back(self, v: np.ndarray, b: float, dtype: Any) -> tuple[np.ndarray, float]:
        """Give w, in the dtype it will have, and the intercept that goes with it."""
        w = np.zeros(len(self.kept), dtype=dtype)
        w[self.kept] = v
        return w, b - float(self.origin @ w)

    def parameters(self, w: np.ndarray, b: float) -> tuple[np.ndarray, float]:
        """Undo `back`."""
        return w[self.kept], b + float(self.origin @ w)


def _without_rounding(X: Any, weight: np.ndarray, noisy: np.ndarray, resolution: np.ndarray) -> None:
    """Replace in X those of the noisy columns that are a sum of other columns, but for their rounding.

    From the finest to the coarsest, each is compared with the clean ones and those before it.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # a column of 1e200
        mean, second = second_moments(X, weight / weight.sum(), centred=True)
    if not np.isfinite(second).all():
        return
    root = np.sqrt(np.where(second.diagonal() > 0, second.diagonal(), 1.0))
    second /= np.outer(root, root)
    coarse = resolution / (WIDTH * root)
    others = np.setdiff1d(np.arange(X.shape[1]), noisy)
    for j in noisy[np.argsort(coarse[noisy], kind="stable")]:
        share = np.linalg.pinv(second[np.ix_(others, others)], COLLINEAR, hermitian=True) @ second[others, j]
        left = second[j, j] - second[j, others] @ share
        if left <= max(coarse[j] ** 2, COLLINEAR):
            slope = share * root[j] / root[others]
            _replace(X, j, (X[:, others] @ slope) + (mean[j] - mean[others] @ slope))
        others = np.append(others, j)


def _replace(X: Any, j: int, values: np.ndarray) -> None:
    """X[:, j] = values; in a sparse X the column has an entry in every row."""
    if is_sparse(X):
        X.data[X.indices == j] = values  # one entry a row, in the order of the rows
    else:
        X[:, j] = values


def _within(low: np.ndarray, high: np.ndarray, share: float) -> np.ndarray:
    """Whether a column's range is at most this share of its largest absolute value (d,)."""
    with np.errstate(over="ignore"):  # from −1e308 to 1e308
        return high - low <= share * np.maximum(np.abs(low), np.abs(high))


def _range(X: np.ndarray, weight: np.ndarray, far: float) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest value of each column, of as many rows as it takes to see that no column is far.

    More rows never lower the range's share of the largest value: what raises the value widens the range.
    """
    low, high = np.full(X.shape[1], np.inf), np.full(X.shape[1], -np.inf)
    for block in blocks(weight):
        rows = X[block] if weight[block].all() else X[block][weight[block] > 0]
        if len(rows):
            low, high = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
            if not _within(low, high, far).any():
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
