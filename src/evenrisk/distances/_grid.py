"""Piecewise polynomials of a score on a grid, summed over cells in O(n).

A feature map that is a polynomial of degree q on every bin of a grid needs of a cell only the moments
Σ w f^0 … Σ w f^q of the scores in each bin, f being the place of a score inside its bin. So ψ is never
evaluated row by row: q + 1 segment sums going out, q table look-ups coming back.

Conventions
-----------
x (n,) the score in units of bins; j (n,) its bin; f = x − j; b bins; row n of the result of a sum over the
key ``(cell + 1)·b + j`` belongs to no cell when it is among the first b, and those are dropped.
"""

from __future__ import annotations

from typing import NamedTuple

from evenrisk._types import Array, Cells
from evenrisk._xp import as_index, cast, concat, namespace, segment_dot, segment_sum, take


class Placed(NamedTuple):
    """Scores placed on a grid, whatever cells they are in: what all of a distance's methods begin with."""

    j: Array  # (n,) the bin
    f: Array  # (n,) the place inside it
    slope: Array  # (n,) df/dg


class Binned(NamedTuple):
    """Scores in the bins of their cells."""

    key: Array  # (n,) which bin of which cell
    f: Array  # (n,) the place inside the bin
    n_cells: int
    n_bins: int


def place(x: Array, j: Array, slope: Array) -> Placed:
    """Place scores x into bins j."""
    return Placed(j, x - cast(j, x.dtype), slope)


def binned(placed: Placed, cells: Cells, n_bins: int) -> Binned:
    """Tell the cells' bins apart."""
    key = (as_index(cells.code) + 1) * n_bins + placed.j
    return Binned(key, placed.f, cells.n_cells, n_bins)


def moments(binned: Binned, weight: Array, degree: int) -> list[Array]:
    """Σ w f^q per cell and bin (c, b), for q = 0 … degree."""
    out = []
    for q in range(degree + 1):
        weight = weight * binned.f if q else weight
        total = segment_sum(weight, binned.key, (binned.n_cells + 1) * binned.n_bins)
        out.append(total.reshape((binned.n_cells + 1, binned.n_bins))[1:])
    return out


def polynomial(binned: Binned, coefficients: list[Array]) -> Array:
    """Σ_q coefficients[q][cell, bin]·f^q for each row (n,); 0 for rows in no cell."""
    xp = namespace(binned.f)
    nobody = 0 * coefficients[0][:1]
    tables = [xp.reshape(concat([nobody, table], 0), (-1,)) for table in coefficients]
    value = take(tables[-1], binned.key)
    for table in tables[-2::-1]:
        value = value * binned.f + take(table, binned.key)
    return value


def row_moments(binned: Binned, weight: Array, X: Array, degree: int) -> list[Array]:
    """Σ w f^q x per cell and bin (c, b, d), for q = 0 … degree. X may be sparse."""
    out = []
    for q in range(degree + 1):
        weight = weight * binned.f if q else weight
        total = segment_dot(weight, binned.key, (binned.n_cells + 1) * binned.n_bins, X)
        out.append(total.reshape((binned.n_cells + 1, binned.n_bins, X.shape[1]))[1:])
    return out
