"""What passes the door of `fit`.

Conventions
-----------
X (n, d) dense or CSR; y (n,) in {0, 1} (int8); weight (n,) in the dtype of X.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from evenrisk._estimator._columns import Columns
from evenrisk._types import Cells
from evenrisk._validation import Groups

COLLAPSE_ENTRIES = 500_000  # of X: up to here looking for equal rows takes a fraction of a fit


@dataclass(frozen=True)
class TrainingData:
    """What passed the door."""

    X: Any
    y: np.ndarray
    weight: np.ndarray
    classes: np.ndarray
    groups: Groups | None
    cells: Cells | None
    row: float = 1.0  # the weight that counts as one row where rows are counted
    columns: Columns | None = None  # how X came from the X that was given; None where it is that X


def collapse(
    X: Any, y: np.ndarray, weight: np.ndarray, groups: Groups | None
) -> tuple[Any, np.ndarray, np.ndarray, Groups | None]:
    """Merge equal (x, y, group) rows into one that carries their weight (COMPAS: 3,694 → 2,100).

    Rows of weight 0 are dropped. The merged rows are in an order of their own, so neither row order nor
    repeating a row instead of weighting it can change a fit, not by one bit.
    """
    if not weight.all():
        present = np.flatnonzero(weight)
        X, y, weight = X[present], y[present], weight[present]
        groups = None if groups is None else groups.take(present)
    code = np.zeros(len(y), np.int32) if groups is None else groups.code
    dense = X.toarray() if sparse.issparse(X) else X
    index, inverse = distinct_rows(np.column_stack([dense, y, code]))
    merged = np.bincount(inverse, weights=weight).astype(weight.dtype)
    return X[index], y[index], merged, None if groups is None else groups.take(index)


def summed_duplicates(X: Any) -> Any:
    """Sum the entries of a sparse matrix that come twice, in a copy; give anything else as it is.

    Libraries and products entry by entry would each read such a matrix in a way of their own.
    """
    if not (sparse.issparse(X) and X.format in ("csr", "csc", "bsr")) or X.has_canonical_format:
        return X  # the other formats have no such entries, or sum them on their way to CSR
    X = X.copy()
    X.sum_duplicates()
    return X


def distinct_rows(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Give the place of one row of each kind, and for every row its kind. Sparse rows count as distinct."""
    if sparse.issparse(X):
        everyone = np.arange(X.shape[0])
        return everyone, everyone
    keys = np.ascontiguousarray(X + 0)  # −0 becomes 0
    # comparing bytes is several times faster than np.unique(keys, axis=0)
    width = keys.itemsize * int(np.prod(keys.shape[1:]))
    rows = keys.reshape(len(keys), -1).view(np.dtype((np.void, width))).ravel()
    _, index, inverse = np.unique(rows, return_index=True, return_inverse=True)
    return index, inverse.reshape(-1)
