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

COLLAPSE_ENTRIES = 2_000_000  # of X: up to here looking for equal rows takes a fraction of a fit


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

    The merged rows are in sorted order, so neither row order nor repeating a row instead of weighting it
    can change a fit, not by one bit.
    """
    code = np.zeros(len(y), np.int32) if groups is None else groups.code
    dense = X.toarray() if sparse.issparse(X) else X
    keys = np.column_stack([dense, y, code])
    _, index, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    merged = np.bincount(inverse.reshape(-1), weights=weight).astype(weight.dtype)
    if groups is not None:
        groups = Groups(code[index], groups.labels)
    return X[index], y[index], merged, groups
