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

from evenrisk._estimator import TrainingData, distinct_rows
from evenrisk._validation import RepairWarning, warn_user
from evenrisk.parity import Parity, compared_names
from evenrisk.postprocessing._quantiles import Quantiles

RANKS = 256  # points of the distribution function
SMALL_CROWD = 0.01  # of all rows; smaller crowds are not looked at
SMALL_GAP = 0.02  # that a crowd may leave without a warning
EXPECTED = 10  # people of a cell in a crowd, at least, if groups did not matter: fewer say nothing
FALSE_ALARMS = 0.003  # chance of a warning where groups do not differ, over all comparisons


class Coin:
    """A number in [0, 1] for each row: the rank of a random projection of x among the training rows.

    Numbers are standardised. Any other value (a word, a missing number) has a random weight made from its
    text. People who are alike in x have similar numbers.
    """

    def __init__(self, X: Any, weight: np.ndarray, seed: int) -> None:
        self.seed = seed
        self.words = None
        columns = self._columns(X)
        self.words = [place for place, _, _ in columns.others]
        self.mean, self.scale = columns.mean_and_scale(weight)
        self.direction = np.random.default_rng(seed).standard_normal(len(self.mean))
        self.distribution = Quantiles.of(self._project(columns), weight, most=RANKS)

    def __call__(self, X: Any) -> np.ndarray:
        """Return the number of each row (n,)."""
        return self.distribution.share(self._project(self._columns(X)))

    def _columns(self, X: Any) -> _Columns:
        """Split X as the training rows were split, whatever the types of its columns are now."""
        return _columns(X, self.words)

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


def _columns(X: Any, words: list[int] | None = None) -> _Columns:
    """Split X, of any kind that a classifier takes, into numbers and other values.

    `words` are the places of the columns of other values; None where their types tell.
    """
    if sparse.issparse(X):
        Z = X.tocsr().astype(np.float64)
        Z.data[~np.isfinite(Z.data)] = 0  # a missing number counts as 0 there, which most numbers are
        return _Columns(Z, [])
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "biuf" and not words:
        return _Columns(X.astype(np.float64), [])
    import pandas as pd

    frame = pd.DataFrame(X)
    numbers, others = [], []
    for place, (_, column) in enumerate(frame.items()):
        kind = pd.api.types
        numeric = kind.is_numeric_dtype(column.dtype) and not kind.is_complex_dtype(column.dtype)
        if numeric if words is None else place not in words:
            column = column if numeric else pd.to_numeric(column, errors="coerce")
            numbers.append(column.to_numpy(dtype=np.float64, na_value=np.nan))
        else:
            codes, values = pd.factorize(column.astype(object).where(column.notna(), "missing").map(_text))
            others.append((place, codes, values.tolist()))
    table = np.column_stack(numbers) if numbers else np.zeros((len(frame), 0))
    return _Columns(table, others)


def _text(value: Any) -> str:
    """Return a value as text, 1 and 1.0 as the same."""
    return repr(float(value)) if isinstance(value, (int, float, np.number)) else str(value)


def _weight(seed: int, place: int, value: str) -> float:
    """Return a standard normal number made from a value of a column."""
    digest = blake2b(f"{seed} {place} {value}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return float(ndtri((int.from_bytes(digest) + 0.5) / 2**64))


def warn_of_crowd(V: np.ndarray, c: np.ndarray | None, data: TrainingData, parity: Parity) -> None:
    """Warn of people who share one place, V and coin, if that leaves a gap whatever the penalty.

    All of them have the same score. The difference of two groups' distribution functions jumps there by the
    difference of the groups' shares in the crowd, so on one side of the jump it is at least half as large.
    """
    if data.cells is None or data.groups is None:
        return
    places = distinct_rows(V if c is None else np.column_stack([V, c]))[1]
    crowds = np.flatnonzero(np.bincount(places) >= SMALL_CROWD * len(places))
    names = compared_names(parity, data.groups)
    mass, squares = (data.cells.union_sums(w) for w in (data.weight, data.weight**2))
    n_effective = mass**2 / squares
    beyond = -ndtri(FALSE_ALARMS / 2 / max(1, len(crowds) * len(data.cells.pairs)))  # standard errors
    left, found = SMALL_GAP, None
    for crowd in crowds:
        share = data.cells.union_sums(np.where(places == crowd, data.weight, 0.0)) / mass
        for i, j in data.cells.pairs:
            between = (mass[i] * share[i] + mass[j] * share[j]) / (mass[i] + mass[j])
            noise = np.sqrt(between * (1 - between) * (1 / n_effective[i] + 1 / n_effective[j]))
            enough = between * min(n_effective[i], n_effective[j]) >= EXPECTED
            if enough and abs(share[i] - share[j]) > max(2 * left, beyond * noise):
                left, found = abs(share[i] - share[j]) / 2, (share[i], names[i], share[j], names[j])
    if found is None:
        return
    advice = "" if c is not None else ". With coin=True those whose X differ could be told apart"
    where = "one place in the plane" if c is None else "one place in the plane and one fall of the coin"
    warn_user(
        f"a crowd leaves a gap: {found[0]:.1%} of {found[1]} and {found[2]:.1%} of {found[3]} share {where}, "
        f"and with it their score, so no eta brings the max gap below {left:.3f} on these rows{advice}",
        RepairWarning,
    )
