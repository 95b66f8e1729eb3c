"""Gaussian assumption (the paper's GA): symmetric KL between two normals fitted to the raw scores."""

from __future__ import annotations

from dataclasses import dataclass

from evenrisk._xp import Array, Cells, concat, detach, namespace
from evenrisk.distances._grid import Grid, GridDistance
from evenrisk.distances._protocol import Traits

VARIANCE_FLOOR = 1e-8  # relative to the pair's pooled variance


@dataclass(frozen=True)
class GaussianDistance(GridDistance):
    """d = ½[(δ/σ₀)² + (δ/σ₁)² + (σ₀/σ₁ − σ₁/σ₀)²], δ = μ₀ − μ₁: symmetric KL of two normals.

    ψ(g) = (g, g²) on the **raw** score, minus the pooled mean: without this the variance cancels in float32.
    Each variance gets a floor of 1e-8 times the pair's pooled variance ½(σ₀² + σ₁²) + ¼δ².
    """

    @property
    def traits(self) -> Traits:
        """It depends on the mean and variance of the scores only."""
        return Traits(two_moments=True)

    def shift(self, g: Array, cells: Cells) -> Array | float:
        """Return the weighted mean of g; the distance does not change with it."""
        g = detach(g)
        return (cells.weight @ g) / cells.weight.sum()

    @property
    def grid(self) -> Grid:
        """One bin, in which the position of a score is the score itself."""
        return Grid(n_bins=1, degree=2, raw=True)

    def sums_of_moments(self, moments: list[Array]) -> Array:
        """Σ w g and Σ w g² over each cell (c, 2)."""
        return concat(moments[1:], 1)

    def residual(self, a: Array, b: Array) -> tuple[Array, Array, Array]:
        """r = (δ/σ₀, δ/σ₁, σ₀/σ₁ − σ₁/σ₀)/√2, and its derivatives in (g, g²) of either cell (…, 3, 2)."""
        xp = namespace(a)
        delta = a[..., 0] - b[..., 0]
        v0, v1 = _variance(a), _variance(b)
        pooled = 0.5 * (v0 + v1) + 0.25 * delta * delta
        # where all scores are equal there would be 0/0; the cells are equal and d = 0
        floor = xp.where(pooled > 0, VARIANCE_FLOOR * pooled, 1 + 0 * pooled)
        v0, v1 = v0 + floor, v1 + floor
        r0, r1 = delta / xp.sqrt(2 * v0), delta / xp.sqrt(2 * v1)
        cross = 1 / xp.sqrt(2 * v0 * v1)
        r2 = (v0 - v1) * cross
        zero = 0 * r0
        # columns: derivatives in δ, σ₀² and σ₁², the floor held fixed
        in_delta = xp.stack([1 / xp.sqrt(2 * v0), 1 / xp.sqrt(2 * v1), zero], axis=-1)
        in_v0 = xp.stack([-r0 / (2 * v0), zero, cross - r2 / (2 * v0)], axis=-1)
        in_v1 = xp.stack([zero, -r1 / (2 * v1), -cross - r2 / (2 * v1)], axis=-1)
        in_floor = VARIANCE_FLOOR * (in_v0 + in_v1)
        in_delta = in_delta + in_floor * (0.5 * delta)[..., None]
        in_v0, in_v1 = in_v0 + 0.5 * in_floor, in_v1 + 0.5 * in_floor
        in_a = xp.stack([in_delta - 2 * a[..., :1] * in_v0, in_v0], axis=-1)
        in_b = xp.stack([-in_delta - 2 * b[..., :1] * in_v1, in_v1], axis=-1)
        return xp.stack([r0, r1, r2], axis=-1), in_a, in_b

    def coefficients(self, D: Array) -> list[Array]:
        """D[cell, 0] and 2·D[cell, 1], (c, 1) each."""
        return [D[:, :1], 2 * D[:, 1:]]

    def jacobian_of_moments(self, moments: list[Array]) -> Array:
        """Σ w x and Σ 2w g x (c, 2, d)."""
        return concat([moments[0], 2 * moments[1]], 1)


def _variance(a: Array) -> Array:
    """E g² − (E g)², never below 0."""
    variance = a[..., 1] - a[..., 0] * a[..., 0]
    return namespace(a).where(variance > 0, variance, 0 * variance)
