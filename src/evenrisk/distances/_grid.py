"""Distances whose feature map is a polynomial of degree q on every bin of a grid.

Of a cell they need only the moments Σ w f^0 … Σ w f^q of the scores in each bin, where f is the position of a
score inside its bin. So ψ is never evaluated row by row: q + 1 segment sums give the sums, and q table
look-ups give the gradient. All our distances are of this kind. A distance says how scores are placed (`Grid`)
and what the moments of bins mean. The work on rows is the same for all, so that a faster way to do it
(compiled loops on every core, a GPU) serves all of them.

Conventions
-----------
x (n,) is the score in units of bins; j (n,) its bin; f = x − j; b bins. The key of a row is
``(cell + 1)·b + j``: the first b keys are of rows in no cell, and their sums are dropped.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

from evenrisk._xp import (
    Array,
    Cells,
    as_index,
    cast,
    concat,
    namespace,
    segment_dot,
    segment_sum,
    sigmoid,
    take,
)
from evenrisk.distances._protocol import Distance


class Grid(NamedTuple):
    """How scores are placed: x = (s − origin)·scale + first, held within low and high; j = ⌊x + half⌋.

    With `raw` there is one bin, and x = g.
    """

    n_bins: int
    degree: int
    scale: float = 1.0
    origin: float = 0.0
    first: float = 0.0
    half: float = 0.0  # 0.5 where the nearest node is wanted, not the bin
    low: float = 0.0
    high: float = 0.0  # not above `low`: nothing is held
    raw: bool = False

    def place(self, g: Array) -> Placed:
        """Return the bins of raw scores, the positions inside them, and df/dg."""
        if self.raw:
            return Placed(0, g, 1.0)
        xp = namespace(g)
        s = sigmoid(g)
        x = (s - self.origin) * self.scale + self.first
        slope = s * (1 - s) * self.scale
        if self.high > self.low:
            slope = xp.where((x > self.low) & (x < self.high), slope, 0 * slope)
            x = xp.where(x < self.low, self.low + 0 * x, xp.where(x > self.high, self.high + 0 * x, x))
        j = as_index(x + self.half)
        return Placed(j, x - cast(j, x.dtype), slope)


class Placed(NamedTuple):
    """Scores placed on a grid, independent of their cells."""

    j: Array | int  # (n,) the bin
    f: Array  # (n,) the position inside it
    slope: Array | float  # (n,) df/dg


class GridDistance(Distance):
    """A distance that is made of the moments of scores in bins."""

    @property
    @abstractmethod
    def grid(self) -> Grid:
        """How scores are placed."""

    @abstractmethod
    def sums_of_moments(self, moments: list[Array]) -> Array:
        """Return Σ w ψ (c, p) from the moments Σ w f^0 … Σ w f^q of all bins, (c, b) each."""

    @abstractmethod
    def coefficients(self, D: Array) -> list[Array]:
        """Return those of Σ_j D[cell, j]·dψ_j/df as a polynomial in f: f^0 … f^(q−1), (c, b) each."""

    @abstractmethod
    def jacobian_of_moments(self, moments: list[Array]) -> Array:
        """Return the derivatives of the sums (c, p, d) from Σ w f^0 x … Σ w f^(q−1) x, (c, b, d) each.

        The weights are those of the rows times df/dg.
        """

    def prepare(self, g: Array) -> Placed:
        """Place the scores on the grid."""
        return self.grid.place(g)

    def psi_sums(self, g: Array | Placed, cells: Cells) -> Array:
        """Σ w ψ over each cell (c, p)."""
        placed, key = self._place(g, cells)
        weight, moments = cells.weight, []
        for q in range(self.grid.degree + 1):
            weight = weight * placed.f if q else weight
            moments.append(self._of_cells(segment_sum(weight, key, self._n_keys(cells))))
        return self.sums_of_moments(moments)

    def gradient(self, g: Array | Placed, cells: Cells, D: Array) -> Array:
        """w·Σ_j D[cell, j]·dψ_j/dg (n,)."""
        placed, key = self._place(g, cells)
        return self.polynomial(placed, key, self.coefficients(D)) * placed.slope * cells.weight

    def jacobian(self, g: Array | Placed, cells: Cells, X: Array) -> Array:
        """Σ w dψ_j/dg x over each cell (c, p, d)."""
        placed, key = self._place(g, cells)
        weight, moments = placed.slope * cells.weight, []
        for q in range(self.grid.degree):
            weight = weight * placed.f if q else weight
            moments.append(self._of_cells(segment_dot(weight, key, self._n_keys(cells), X)))
        return self.jacobian_of_moments(moments)

    def _place(self, g: Array | Placed, cells: Cells) -> tuple[Placed, Array]:
        """Place the scores on the grid; also the key of each row (n,)."""
        placed = g if isinstance(g, Placed) else self.prepare(g)
        return placed, (as_index(cells.code) + 1) * self.grid.n_bins + placed.j

    def _n_keys(self, cells: Cells) -> int:
        return (cells.n_cells + 1) * self.grid.n_bins

    def _of_cells(self, total: Array) -> Array:
        """Return (c, b, …) from the sums of all keys."""
        return total.reshape((-1, self.grid.n_bins, *total.shape[1:]))[1:]

    @staticmethod
    def polynomial(placed: Placed, key: Array, coefficients: list[Array]) -> Array:
        """Σ_q coefficients[q][cell, bin]·f^q for each row (n,); 0 for rows in no cell."""
        xp = namespace(placed.f)
        nobody = 0 * coefficients[0][:1]
        tables = [xp.reshape(concat([nobody, table], 0), (-1,)) for table in coefficients]
        value = take(tables[-1], key)
        for table in tables[-2::-1]:
            value = value * placed.f + take(table, key)
        return value
