"""Histogram approximation (the paper's HA): symmetric KL between smoothed histograms of s."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil

import numpy as np

from evenrisk._xp import Array, as_array, namespace
from evenrisk.distances._grid import Grid, GridDistance

# Bins of the fine grid per bandwidth: cubic Hermite pieces are then within 1e-8 of the Gaussian bump ψ_j.
FINE_PER_BANDWIDTH = 32
SMALLEST_BANDWIDTH = 0.001  # narrower bumps contain no scores, and their table takes much memory


@dataclass(frozen=True)
class HistogramDistance(GridDistance):
    """d = Σ_j (p_j − q_j)·log(p_j/q_j), the symmetric KL divergence of two smoothed histograms.

    ψ_j(s) = exp(−(s − c_j)²/2σ²) with c_j = (j − ½)/N; h is the mean of ψ scaled to sum 1, and
    p = (h + floor)/(1 + N·floor).

    Parameters
    ----------
    n_bins : int, default=20
        N of the paper.
    bandwidth : float, default=None
        σ_c of the paper. None means 1/n_bins.
    floor : float, default=1e-6
        Share added to every bin, empty ones too: without it the divergence is infinite where a bin is empty.
        It is part of the definition of d.

    Notes
    -----
    ψ is tabulated as a cubic Hermite spline on a fine grid, so one evaluation costs O(n) and not O(n·N).
    Value and gradient belong to the spline, which is within 1e-8 of the formula.
    """

    n_bins: int = 20
    bandwidth: float | None = None
    floor: float = 1e-6

    def __post_init__(self) -> None:
        if not (isinstance(self.n_bins, (int, np.integer)) and self.n_bins >= 2):
            raise ValueError(f"`n_bins` must be a whole number, 2 or more, got {self.n_bins!r}")
        if not (self.bandwidth is None or _positive(self.bandwidth)):
            raise ValueError(f"`bandwidth` must be a positive number or None, got {self.bandwidth!r}")
        if self.sigma < SMALLEST_BANDWIDTH:
            raise ValueError(f"`bandwidth` must be at least {SMALLEST_BANDWIDTH}, got {self.sigma!r}")
        if not _positive(self.floor):
            raise ValueError(
                f"`floor` must be a positive number (an empty bin has infinite KL), got {self.floor!r}"
            )

    @property
    def sigma(self) -> float:
        """The bandwidth in use."""
        return 1 / self.n_bins if self.bandwidth is None else self.bandwidth

    @property
    def grid(self) -> Grid:
        """The fine grid on which ψ is tabulated, over [0, 1]; the last bin is s = 1."""
        n_bins = _hermite_table(self.n_bins, self.sigma).shape[1]
        return Grid(n_bins=n_bins, degree=3, scale=n_bins - 1)

    def sums_of_moments(self, moments: list[Array]) -> Array:
        """Σ w ψ(s) over each cell (c, N)."""
        table = self._table(moments[0])
        return sum(m @ t for m, t in zip(moments, table, strict=True))

    def residual(self, a: Array, b: Array) -> tuple[Array, Array, Array]:
        """r_j = (p_j − q_j)/√L(p_j, q_j), L the logarithmic mean.

        With ρ = (p − q)/(p + q) and φ = artanh(ρ)/ρ this is ρ·√(2(p + q)φ): no 0/0 where p = q.
        """
        xp = namespace(a)
        p, p_in_a = self._shares(a)
        q, q_in_b = self._shares(b)
        rho = (p - q) / (p + q)
        square = rho * rho
        series = 1 + square * (1 / 3 + square * (1 / 5 + square * (1 / 7 + square / 9)))
        small = square < 1e-3  # the next term of the series is below 1e-16
        safe = xp.where(small, 0.5 + 0 * rho, rho)  # keeps autograd away from 0/0
        phi = xp.where(small, series, 0.5 * (xp.log(p) - xp.log(q)) / safe)
        root = xp.sqrt(2 * (p + q) * phi)
        in_p = (2 * phi + (p + q) / p) / (2 * root)
        in_q = -(2 * phi + (p + q) / q) / (2 * root)
        return rho * root, in_p[..., None] * p_in_a, in_q[..., None] * q_in_b

    def coefficients(self, D: Array) -> list[Array]:
        """Those of the derivative of the cubic pieces, (c, b) each."""
        table = self._table(D)
        return [q * (D @ table[q].T) for q in (1, 2, 3)]

    def jacobian_of_moments(self, moments: list[Array]) -> Array:
        """Σ w ψ_j'(s)·s' x (c, N, d)."""
        table = self._table(moments[0])
        return sum(q * (table[q].T @ moments[q - 1]) for q in (1, 2, 3))

    def _table(self, like: Array) -> list[Array]:
        """Return the pieces' coefficients, 4 of (b, N), where `like` lives."""
        return [as_array(piece, like) for piece in _hermite_table(self.n_bins, self.sigma)]

    def _shares(self, a: Array) -> tuple[Array, Array]:
        """p = (h + floor)/(1 + N·floor), h = a/Σa (…, N), and its derivative in a (…, N, N)."""
        xp = namespace(a)
        total = xp.sum(a, axis=-1)[..., None]
        scale = 1 / (1 + self.n_bins * self.floor)
        h = a / total
        identity = as_array(np.eye(self.n_bins), a)
        return (h + self.floor) * scale, (identity - h[..., :, None]) * (scale / total)[..., None]


def _positive(value: object) -> bool:
    return isinstance(value, (int, float, np.number)) and 0 < float(value) < np.inf


@lru_cache(maxsize=16)
def _hermite_table(n_bins: int, sigma: float) -> np.ndarray:
    """Tabulate ψ_j = Σ_q table[q, bin, j]·f^q on a fine grid of [0, 1]: (4, b, N). The last bin is s = 1."""
    n_fine = max(ceil(FINE_PER_BANDWIDTH / sigma), FINE_PER_BANDWIDTH)
    centre = (np.arange(n_bins) + 0.5) / n_bins
    z = (np.linspace(0, 1, n_fine + 1)[:, None] - centre) / sigma
    psi = np.exp(-0.5 * z * z)
    slope = -z * psi / (sigma * n_fine)
    y0, y1, m0, m1 = psi[:-1], psi[1:], slope[:-1], slope[1:]
    table = np.zeros((4, n_fine + 1, n_bins))
    table[:, :-1] = y0, m0, 3 * (y1 - y0) - 2 * m0 - m1, 2 * (y0 - y1) + m0 + m1
    table[0, -1] = psi[-1]
    return table
