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


def collapse(
    X: Any, y: np.ndarray, weight: np.ndarray, groups: Groups | None
) -> tuple[Any, np.ndarray, np.ndarray, Groups | None]:
    """Merge equal (x, y, group) rows into one that carries their weight (COMPAS: 3,694 → about 1,260).

    Rows of weight 0 are dropped. The merged rows are in an order of their own, so neither row order nor
    repeating a row instead of weighting it can change a fit, not by one bit.
    """
    if not weight.all():
        present = np.flatnonzero(weight)
        X, y, weight = X[present], y[present], weight[present]
        groups = None if groups is None else groups.take(present)
    code = np.zeros(len(y), np.int32) if groups is None else groups.code
    dense = X.toarray() if sparse.issparse(X) else X
    keys = np.column_stack([dense, y, code]) + 0.0  # −0 becomes 0
    # comparing bytes is several times faster than np.unique(keys, axis=0)
    rows = np.ascontiguousarray(keys).view(np.dtype((np.void, keys.itemsize * keys.shape[1]))).ravel()
    _, index, inverse = np.unique(rows, return_index=True, return_inverse=True)
    merged = np.bincount(inverse.reshape(-1), weights=weight).astype(weight.dtype)
    return X[index], y[index], merged, None if groups is None else groups.take(index)
