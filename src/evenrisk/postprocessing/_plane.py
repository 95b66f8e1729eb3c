"""The plane of a repair: its coordinates, its basis functions, and a picture of it.

Conventions
-----------
V (n, m) coordinates. V[:, 0] is the log-odds of the positive label, u. The others are log-odds of groups, v:
under demographic parity those of P(a|x), k − 1 of them; under a rule that looks at labels those of P(a|x, y)
for each label that it compares. c (n,) in [0, 1] is the coin.

The raw score of the repaired model is linear in basis functions of (V, c)::

    g = b + w₀·u + Σ w·B(V) + (c − ½)·Σ w·C(V)

B are splines of each coordinate and their products in pairs. C are a few piecewise linear functions.

*Saturation.* Log-odds beyond those of a risk of `CLIP` are compressed to `SLOPE` of their size. The penalty
compares sigmoid scores, so a crowd of people at −9 would have no slope by which to be moved.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.spatial import KDTree
from scipy.special import logit
from sklearn.preprocessing import SplineTransformer

CLIP = 0.01  # a risk; log-odds up to here stay as they are
SLOPE = 0.3
SMALLEST = 1e-6  # probabilities are kept this far from 0 and 1
RIDGE_FREE = 10.0  # the factor of u: its weight is then small, and the ridge hardly holds it back
COIN_KNOTS = 3  # of each coordinate
FAR = 0.05  # of the axes: nothing is shown farther from everybody
NEAR = 0.04  # of the axes: the standard deviation of the weights of people around a point
MOST_PEOPLE = 20_000  # of whom means are taken


def log_odds(probability: np.ndarray) -> np.ndarray:
    """Return logit P, compressed beyond the risks CLIP and 1 − CLIP."""
    u = logit(np.clip(probability, SMALLEST, 1 - SMALLEST))
    end = logit(1 - CLIP)
    inner = np.clip(u, -end, end)
    return inner + SLOPE * (u - inner)


# ---------------------------------------------------------------- basis functions


@dataclass(frozen=True)
class Size:
    """How fine the basis is: knots of each coordinate, alone and in products."""

    alone: int
    in_products: int

    @property
    def name(self) -> str:
        """The size in words, for messages."""
        return f"{self.alone} knots, {self.in_products} in products"


# from coarse to fine; a size needs so many rows for each of its basis functions
SIZES = (Size(2, 2), Size(3, 3), Size(5, 4), Size(7, 5))
ROWS_PER_FUNCTION = 20


class PlaneBasis:
    """The basis functions of a plane, with knots from its training rows.

    Knots are equally spaced between the ends of a coordinate: quantiles would put most of them into a crowd.
    A coordinate that does not vary has no functions.
    """

    def __init__(self, V: np.ndarray, size: Size, *, coin: bool) -> None:
        self.size, self.coin = size, coin
        ends = np.column_stack([V.min(axis=0), V.max(axis=0)])
        self.varying = [j for j, (low, high) in enumerate(ends) if high > low]
        two = V.shape[1] == 2  # one surface over the plane instead of curves and products
        self._alone = [] if two else [_splines(ends[j], size.alone, 3) for j in self.varying]
        in_products = (size.alone, 3) if two else (size.in_products, 2)
        self._products = {j: _splines(ends[j], *in_products) for j in self.varying}
        self._coarse = {j: _splines(ends[j], COIN_KNOTS + (1 if two else 0), 1) for j in self.varying}

    def __call__(self, V: np.ndarray, c: np.ndarray | None) -> np.ndarray:
        """Return the basis functions of every row (n, p)."""
        columns = {j: V[:, [j]] for j in self.varying}
        parts = [RIDGE_FREE * V[:, :1]]
        parts += [each.transform(columns[j]) for j, each in zip(self.varying, self._alone, strict=False)]
        fine = {j: each.transform(columns[j]) for j, each in self._products.items()}
        pairs = list(combinations(self.varying, 2))
        parts += [_products(fine[i], fine[j]) for i, j in pairs]
        if not pairs and not self._alone:
            parts += list(fine.values())
        if self.coin and c is not None:
            coarse = {j: each.transform(columns[j]) for j, each in self._coarse.items()}
            spread = (c - 0.5)[:, None]
            with_risk = [pair for pair in pairs if pair[0] == 0]
            parts += [_products(coarse[i], coarse[j]) * spread for i, j in with_risk]
            if not with_risk:
                parts += [each * spread for each in coarse.values()]
        return np.hstack(parts)


def _splines(ends: np.ndarray, n_knots: int, degree: int) -> SplineTransformer:
    """Return B-splines on equally spaced knots, constant beyond the ends."""
    knots = np.linspace(ends[0], ends[1], n_knots)[:, None]
    transformer = SplineTransformer(degree=degree, knots=knots, extrapolation="constant")
    return transformer.fit(knots)


def _products(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return all products of a column of A with a column of B."""
    return (A[:, :, None] * B[:, None, :]).reshape(len(A), -1)


def affordable(n_rows: float, V: np.ndarray, *, coin: bool) -> list[Size]:
    """Return the sizes that so many rows can support, coarse to fine; the coarsest always."""
    c = np.zeros(2) if coin else None
    some = np.vstack([V.min(axis=0), V.max(axis=0)])
    n_functions = [PlaneBasis(V, size, coin=coin)(some, c).shape[1] for size in SIZES]
    enough = [size for size, n in zip(SIZES, n_functions, strict=True) if n * ROWS_PER_FUNCTION <= n_rows]
    return enough or [SIZES[0]]


# ---------------------------------------------------------------- a picture


class RepairSurface(NamedTuple):
    """The mean repaired risk of people by their risk and one other coordinate, and where they are.

    Attributes
    ----------
    x, y : ndarray of shape (m,)
        The grid: risks, and values of the other coordinate.
    risk : ndarray of shape (m, m)
        The mean repaired risk of the people around, weighted by their distance (a normal weight with a
        standard deviation of 4 % of the axes), one row for each y; NaN where nobody is within 5 %.
    people : ndarray of shape (n, 2)
        Places of people.
    names : pair of str
        What the two coordinates are.
    """

    x: np.ndarray
    y: np.ndarray
    risk: np.ndarray
    people: np.ndarray
    names: tuple[str, str]


def mean_nearby(people: np.ndarray, risk: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the mean risk of people (n, 2) around each point of a grid, NaN where nobody is (m, m)."""
    extent = np.ptp(people, axis=0)
    extent[extent == 0] = 1
    grid = np.column_stack([np.tile(x, len(y)), np.repeat(y, len(x))])
    away = KDTree(people / extent).query(grid / extent)[0].reshape(len(y), len(x))
    some = slice(None, None, -(-len(people) // MOST_PEOPLE))
    across, up = (
        np.exp(-0.5 * ((axis[:, None] - column) / (NEAR * width)) ** 2)
        for axis, column, width in zip((x, y), people[some].T, extent, strict=True)
    )
    total = up @ across.T
    with np.errstate(invalid="ignore"):
        mean = (up * risk[some]) @ across.T / total
    return np.where((away <= FAR) & (total > 0), mean, np.nan)
