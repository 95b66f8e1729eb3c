"""Gaussian assumption (the paper's GA): symmetric KL between two normals fitted to the raw scores."""

from __future__ import annotations

from dataclasses import dataclass

from evenrisk._xp import Array, Cells, as_index, detach, namespace, segment_dot, segment_sum, take
from evenrisk.distances._protocol import Distance, Traits

VARIANCE_FLOOR = 1e-8  # relative to the pair's pooled variance


@dataclass(frozen=True)
class GaussianDistance(Distance):
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

    def psi_sums(self, g: Array, cells: Cells) -> Array:
        """Σ w g and Σ w g² over each cell (c, 2)."""
        xp = namespace(g)
        n = cells.n_cells + 1
        code = as_index(cells.code) + 1
        weighted = cells.weight * g
        first, second = segment_sum(weighted, code, n), segment_sum(weighted * g, code, n)
        return xp.stack([first[1:], second[1:]], axis=1)

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

    def gradient(self, g: Array, cells: Cells, D: Array) -> Array:
        """w·(D[cell, 0] + 2g·D[cell, 1]) (n,)."""
        code = as_index(cells.code)
        value = take(D[:, 0], code) + 2 * g * take(D[:, 1], code)
        return namespace(g).where(code < 0, 0 * g, value * cells.weight)

    def jacobian(self, g: Array, cells: Cells, X: Array) -> Array:
        """Σ w x and Σ 2w g x (c, 2, d)."""
        n = cells.n_cells + 1
        code = as_index(cells.code) + 1
        first = segment_dot(cells.weight, code, n, X)
        second = segment_dot(2 * g * cells.weight, code, n, X)
        return namespace(first).stack([first[1:], second[1:]], axis=1)


def _variance(a: Array) -> Array:
    """E g² − (E g)², never below 0."""
    variance = a[..., 1] - a[..., 0] * a[..., 0]
    return namespace(a).where(variance > 0, variance, 0 * variance)
