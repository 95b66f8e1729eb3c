"""A coin made from x: what spreads people who share one place in the plane.

A score that is a function of risk and group probability alone gives everybody at one place the same score. A
crowd there, unequal by group, then leaves a gap that no penalty can close. The best blind score would toss a
coin for each of them. `Coin` is a coin that falls the same way for the same x, today and tomorrow.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import ndtri

from evenrisk.postprocessing._quantiles import Quantiles

RANKS = 256  # points of the distribution function


class Coin:
    """A number in [0, 1] for each row: the rank of a random projection of x among the training rows.

    Numbers are standardised. Any other value (a word, a missing number) has a random weight made from its
    text. People who are alike in x have similar numbers.
    """

    def __init__(self, X: Any, weight: np.ndarray, seed: int) -> None:
        self.seed = seed
        columns = _columns(X)
        self.mean, self.scale = columns.mean_and_scale(weight)
        self.direction = np.random.default_rng(seed).standard_normal(len(self.mean))
        self.distribution = Quantiles.of(self._project(columns), weight, most=RANKS)

    def __call__(self, X: Any) -> np.ndarray:
        """Return the number of each row (n,)."""
        return self.distribution.share(self._project(_columns(X)))

    def _project(self, columns: _Columns) -> np.ndarray:
        return columns.project(self.mean, self.direction / self.scale) + columns.words(self.seed)


@dataclass(frozen=True)
class _Columns:
    """Columns of numbers, and columns of anything else as (place, codes, distinct values)."""

    numbers: Any  # (n, d), sparse or dense
    others: list[tuple[int, np.ndarray, list[str]]]

    def mean_and_scale(self, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return weighted means and standard deviations of the numbers that are there; 1 for a constant."""
        Z = self.numbers
        total = weight.sum()
        if sparse.issparse(Z):
            mean = (Z.T @ weight) / total
            square = (Z.multiply(Z).T @ weight) / total
            variance = np.maximum(square - mean**2, 0)
        else:
            there = np.isfinite(Z)
            mass = np.maximum(weight @ there, np.finfo(float).tiny)
            mean = (weight @ np.where(there, Z, 0)) / mass
            variance = (weight @ np.where(there, Z - mean, 0) ** 2) / mass
        scale = np.sqrt(variance)
        return mean, np.where(scale > 1e-12 * np.abs(mean), scale, 1.0)

    def project(self, mean: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """Return (x − mean)·direction of each row; a missing number counts as the mean."""
        if sparse.issparse(self.numbers):
            return np.asarray(self.numbers @ direction) - mean @ direction
        Z = self.numbers - mean
        # not a matrix product: its last digits may depend on the other rows, and a rank tells them apart
        return np.einsum("ij,j->i", np.where(np.isfinite(Z), Z, 0), direction)

    def words(self, seed: int) -> np.ndarray:
        """Return the sum of the random weights of the other values, row by row."""
        n = self.numbers.shape[0]
        missing = np.zeros((n, 0)) if sparse.issparse(self.numbers) else ~np.isfinite(self.numbers)
        weights = np.array([_weight(seed, j, "missing") for j in range(missing.shape[1])])
        total = missing @ weights if missing.any() else np.zeros(n)
        for place, codes, values in self.others:
            total = total + np.array([_weight(seed, place, value) for value in values])[codes]
        return total


def _columns(X: Any) -> _Columns:
    """Split X, of any kind that a classifier takes, into numbers and other values."""
    if sparse.issparse(X):
        return _Columns(X.tocsr().astype(np.float64), [])
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "biuf":
        return _Columns(X.astype(np.float64), [])
    import pandas as pd

    frame = pd.DataFrame(X)
    numbers, others = [], []
    for place, (_, column) in enumerate(frame.items()):
        if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_complex_dtype(column.dtype):
            numbers.append(column.to_numpy(dtype=np.float64, na_value=np.nan))
        else:
            codes, values = pd.factorize(column.astype(object).where(column.notna(), "missing").astype(str))
            others.append((place, codes, values.tolist()))
    table = np.column_stack(numbers) if numbers else np.zeros((len(frame), 0))
    return _Columns(table, others)


def _weight(seed: int, place: int, value: str) -> float:
    """Return a standard normal number made from a value of a column."""
    digest = blake2b(f"{seed} {place} {value}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return float(ndtri((int.from_bytes(digest) + 0.5) / 2**64))
