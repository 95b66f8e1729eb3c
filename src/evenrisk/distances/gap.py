"""The gap itself: squared difference of two distribution functions of s, over all thresholds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenrisk._types import Array, Cells
from evenrisk._xp import as_array, as_index, concat, cumsum, namespace, sigmoid
from evenrisk.distances._grid import Binned, moments, place, polynomial, row_moments
from evenrisk.distances._protocol import Distance

# Nodes kept free on either side of the window: what lies outside it is parked there, three nodes away,
# where it touches no threshold and no node inside.
MARGIN = 3


@dataclass(frozen=True)
class GapDistance(Distance):
    """d = ∫ (F₀(t) − F₁(t))² dt over all thresholds t: the thing we want small, itself.

    A step has no gradient, so every score is spread on a grid of step Δ with quadratic B-spline weights:
    ψ_j(s) = B(s/Δ − j). The cumulative sum U of the difference of two cells' means is the gap between
    their distribution functions at the thresholds t_j = (j + ½)Δ, and d = Σ_j Δ·U_j². As the grid gets
    finer, d tends to half the squared energy distance.

    Parameters
    ----------
    n_thresholds : int, default=400
        Number of thresholds on the grid over the window.
    window : (float, float), default=(0, 1)
        The thresholds that matter, for users who will only ever cut between, say, 0.2 and 0.6.
    scale : {"score", "rank"}, default="score"
        "score" integrates over thresholds dt, and falls when all scores are merely squeezed together.
        "rank" integrates over the people, ∫ (F₀ − F₁)² dH with H = ½(F₀ + F₁) (Cramér–von Mises), so
        that squeezing gains nothing as long as the sd of s is at least ten grid steps. The window stays
        in units of s.
    """

    n_thresholds: int = 400
    window: tuple[float, float] = (0.0, 1.0)
    scale: str = "score"

    def __post_init__(self) -> None:
        if not (isinstance(self.n_thresholds, (int, np.integer)) and self.n_thresholds >= 2):
            raise ValueError(f"`n_thresholds` must be a whole number, 2 or more, got {self.n_thresholds!r}")
        if self.scale not in ("score", "rank"):
            raise ValueError(f"`scale` must be 'score' or 'rank', got {self.scale!r}")
        try:
            low, high = (float(edge) for edge in self.window)
        except (TypeError, ValueError):
            low, high = np.nan, np.nan
        if not 0 <= low < high <= 1:
            raise ValueError(f"`window` must be (low, high) with 0 <= low < high <= 1, got {self.window!r}")
        object.__setattr__(self, "window", (low, high))  # a list or an array would not be hashable

    @property
    def step(self) -> float:
        """Δ, the distance between neighbouring thresholds."""
        return (self.window[1] - self.window[0]) / self.n_thresholds

    @property
    def n_nodes(self) -> int:
        """Nodes of the grid: n_thresholds + 1 in the window, the margins, and one for rounding."""
        return self.n_thresholds + 2 * MARGIN + 2

    def psi_sums(self, g: Array, cells: Cells) -> Array:
        """Σ w ψ(s) over each cell (c, nodes), from the moments of the scores around their nearest node."""
        m0, m1, m2 = moments(self._place(g, cells)[0], cells.weight, 2)
        return _to_nodes(m0 / 8 - m1 / 2 + m2 / 2, 0.75 * m0 - m2, m0 / 8 + m1 / 2 + m2 / 2)

    def residual(self, a: Array, b: Array) -> tuple[Array, Array, Array]:
        """r_j = √Δ·U_j on the score scale, √m_j·u_j on the rank scale (see `compare`)."""
        xp = namespace(a)
        below = np.tri(self.n_nodes)  # U_j = Σ_{i ≤ j}
        if self.scale == "score":
            rows = as_array(self.step**0.5 * below[self._kept], a) + 0 * a[..., None, :1]
            return self.step**0.5 * cumsum(a - b, -1)[..., self._kept], rows, -rows
        mass, u = self._ranks(a, b)
        root = xp.sqrt(mass)
        positive = mass > 0
        # ψ'² ≤ 2ψ, so where a node holds no mass its derivative holds none either
        in_mass = xp.where(positive, u / (4 * xp.where(positive, root, 1 + 0 * root)), 0 * u)
        in_u = as_array(below[self._kept] - 0.5 * np.eye(self.n_nodes)[self._kept], a) * root[..., None]
        diagonal = as_array(np.eye(self.n_nodes)[self._kept], a) * in_mass[..., None]
        return root * u, diagonal + in_u, diagonal - in_u

    def residual_rows(self, a: Array, b: Array, A: Array, B: Array) -> Array:
        """∂r/∂θ; on the score scale a cumulative sum instead of a matrix product."""
        if self.scale == "score":
            return self.step**0.5 * cumsum(A - B, 0)[self._kept]
        return super().residual_rows(a, b, A, B)

    def compare(self, a: Array, b: Array) -> tuple[Array, Array, Array]:
        """d and its derivatives, by cumulative sums instead of the residual's matrices.

        Score: Σ_j Δ·U_j². Rank: Σ_j m_j·u_j² with m = ½(a + b) and u_j = ½(U_{j−1} + U_j), differentiated
        through m too.
        """
        xp = namespace(a)
        if self.scale == "score":
            U = cumsum(a - b, -1)[..., self._kept]
            in_a = self._above(2 * self.step * U)
            return self.step * xp.sum(U * U, axis=-1), in_a, -in_a
        mass, u = self._ranks(a, b)
        v = 2 * mass * u
        through_mass = self._padded(0.5 * u * u)
        through_u = self._above(v) - self._padded(0.5 * v)
        return xp.sum(mass * u * u, axis=-1), through_mass + through_u, through_mass - through_u

    def pull(self, g: Array, cells: Cells, D: Array) -> Array:
        """w·Σ_j D[cell, j] ψ_j'(s)·s' (n,).

        With j the nearest node the sum is ½(D_{j+1} − D_{j−1}) + f·(D_{j−1} − 2D_j + D_{j+1}).
        """
        binned, slope = self._place(g, cells)
        edge = 0 * D[:, :1]
        before, after = concat([edge, D[:, :-1]], 1), concat([D[:, 1:], edge], 1)
        return polynomial(binned, [0.5 * (after - before), before - 2 * D + after]) * slope * cells.weight

    def rows(self, g: Array, cells: Cells, X: Array) -> Array:
        """Σ w ψ_j'(s)·s' x (c, nodes, d)."""
        binned, slope = self._place(g, cells)
        m0, m1 = row_moments(binned, slope * cells.weight, X, 1)
        return _to_nodes(m1 - m0 / 2, -2 * m1, m1 + m0 / 2)

    def _place(self, g: Array, cells: Cells) -> tuple[Binned, Array]:
        """Place the scores at their nearest node; also dx/dg (n,), x the score in grid steps."""
        xp = namespace(g)
        s = sigmoid(g)
        x = (s - self.window[0]) / self.step + MARGIN
        slope = s * (1 - s) / self.step
        if tuple(self.window) != (0, 1):
            low, high = 0.5, self.n_thresholds + 2 * MARGIN - 0.5
            slope = xp.where((x > low) & (x < high), slope, 0 * slope)
            x = xp.where(x < low, low + 0 * x, xp.where(x > high, high + 0 * x, x))
        return place(x, as_index(x + 0.5), cells, self.n_nodes), slope

    @property
    def _kept(self) -> slice:
        """Which entries count: thresholds inside the window, or (rank) nodes up to one step outside it."""
        extra = 0 if self.scale == "score" else 1
        return slice(MARGIN - extra, MARGIN + self.n_thresholds + 2 * extra)

    def _ranks(self, a: Array, b: Array) -> tuple[Array, Array]:
        """m_j and u_j at the kept nodes."""
        difference = a - b
        u = cumsum(difference, -1) - 0.5 * difference
        return (0.5 * (a + b))[..., self._kept], u[..., self._kept]

    def _padded(self, kept: Array) -> Array:
        """Put zeros at the nodes that do not count."""
        zero = 0 * kept[..., :1]
        front = [zero] * self._kept.start
        return concat([*front, kept, *[zero] * (self.n_nodes - self._kept.stop)], -1)

    def _above(self, kept: Array) -> Array:
        """Σ_{j ≥ i} of the kept entries, for every node i."""
        padded = self._padded(kept)
        running = cumsum(padded, -1)
        return running[..., -1:] - running + padded


def _to_nodes(left: Array, centre: Array, right: Array) -> Array:
    """Add what each bin gives to the node before it, to its own, and to the node after it."""
    edge = 0 * left[:, :1]
    return centre + concat([left[:, 1:], edge], 1) + concat([edge, right[:, :-1]], 1)
