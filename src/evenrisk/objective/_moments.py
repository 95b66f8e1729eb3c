"""First and second moments of the features, over all rows and cell by cell.

Conventions
-----------
X (n, d); share (n,) the rows' weights, adding up to 1; μ (d,) the mean of all rows, or 0 where the model has
no intercept to take it up. Moments are about μ and in float64: a column such as a year or an income leaves
no digits for its spread in E x².
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from evenrisk._types import Array
from evenrisk._xp import blocks, cast, is_sparse, namespace, to_numpy
from evenrisk.objective._scores import Penalty

ENTRIES = 4_000_000  # of the cells' covariance matrices: 32 MB, a thousand features in four cells


def second_moments(X: Array, share: Array, *, centred: bool) -> tuple[np.ndarray, np.ndarray]:
    """Give μ and E (x − μ)(x − μ)ᵀ; μ = 0 unless `centred`. X stays as sparse as it is."""
    d = X.shape[1]
    if is_sparse(X):
        X = X.tocsr().astype(np.float64)  # a copy
        X.sum_duplicates()
        mean = X.T @ share * float(centred)
        # a column with an entry in every row can be taken about its mean and stay as sparse as it is
        full = np.bincount(X.indices, minlength=d) == X.shape[0]
        X.data -= np.where(full, mean, 0.0)[X.indices]
        rest = X.T @ share * float(centred)
        return mean, (X.multiply(share[:, None]).T @ X).toarray() - np.outer(rest, rest)
    xp = namespace(share)
    centre = (X.T @ share) * float(centred)
    second = np.zeros((d, d))
    for block in blocks(share):
        rows = cast(X[block] - centre, xp.float64)
        second += to_numpy((rows * cast(share[block], xp.float64)[:, None]).T @ rows)
    return np.asarray(to_numpy(centre), dtype=np.float64), second


class CellMoments:
    """E_f as a function of w alone, for a distance that sees (g, g²) only: free of the number of rows.

    With m_c, S_c the mean and covariance of the features in cell c, the scores g = Xw + b have the mean
    m_cᵀw + b and the variance wᵀS_c w there; b moves all cells alike and drops out.
    """

    def __init__(self, penalty: Penalty, X: Array) -> None:
        self.penalty, self.X = penalty, X

    @classmethod
    def where_they_pay(cls, penalty: Penalty | None, X: Any) -> CellMoments | None:
        """Give them if the distance needs no more and the matrices are small."""
        if penalty is None or not penalty.distance.of_two_moments:
            return None
        on_host = isinstance(X, np.ndarray) or is_sparse(X)
        small = penalty.cells.n_cells * X.shape[1] ** 2 <= ENTRIES
        return cls(penalty, X) if on_host and small else None

    def __call__(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """E_f and its gradient in w."""
        means, slopes = self._psi(w)
        value, D = self.penalty.of_means(means)
        return value, np.einsum("cp,cpd->d", D, slopes)

    def gram(self, w: np.ndarray) -> np.ndarray:
        """JᵀJ (d, d), J = ∂r/∂w."""
        return self.penalty.gram(*self._psi(w))

    def _psi(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give the cells' means of (g, g²) (c, 2), about the mean score, and their derivatives (c, 2, d)."""
        centre, covariance = self._moments
        first, along = centre @ w, covariance @ w
        means = np.stack([first, along @ w + first**2], axis=1)
        return means, np.stack([centre, 2 * (along + first[:, None] * centre)], axis=1)

    @cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """m_c − μ (c, d), μ their weighted mean, and S_c (c, d, d): one pass over the rows, cell by cell."""
        code, weight = self.penalty.cells.code, self.penalty.cells.weight
        totals = np.asarray(to_numpy(self.penalty.cell_weights[0]), dtype=np.float64)
        origin = _dense(self.X[:1])  # a column that does not vary is exactly 0 from there
        moments = [_of_cell(self.X, origin, code, weight, cell, total) for cell, total in enumerate(totals)]
        centre = np.stack([mean for mean, _ in moments])
        return centre - (totals / totals.sum()) @ centre, np.stack([covariance for _, covariance in moments])


def _of_cell(
    X: Any, origin: np.ndarray, code: np.ndarray, weight: np.ndarray, cell: int, total: float
) -> tuple[np.ndarray, np.ndarray]:
    """Mean, from the origin, and covariance of the rows of one cell, a dense block of them at a time."""
    d = X.shape[1]
    mean = np.zeros(d)
    for rows, share in _blocks_of_cell(code, weight, cell, total):
        mean += share @ (_dense(X[rows]) - origin)
    covariance = np.zeros((d, d))
    for rows, share in _blocks_of_cell(code, weight, cell, total):
        root = (_dense(X[rows]) - origin - mean) * np.sqrt(share)[:, None]
        covariance += root.T @ root
    return mean, covariance


def _dense(rows: Any) -> np.ndarray:
    """Rows of X as a float64 array."""
    return np.asarray(rows.toarray() if is_sparse(rows) else rows, dtype=np.float64)


def _blocks_of_cell(
    code: np.ndarray, weight: np.ndarray, cell: int, total: float
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Give the cell's rows in each block, and their shares of its weight."""
    for block in blocks(code):
        rows = block.start + np.flatnonzero(code[block] == cell)
        yield rows, weight[rows].astype(np.float64) / total
