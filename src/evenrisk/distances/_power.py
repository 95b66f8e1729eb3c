"""The p-norm of a gap u over thresholds with masses w: d = S^(2/p), S = Σ_j w_j·abs(u_j)^p.

`GapDistance` uses one of these two classes on both of its scales. `SquareNorm` is p = 2, where nearly every
method is the identity.

Conventions
-----------
u (…, m). A norm is homogeneous, so u is divided by its `unit` first and d is multiplied by its square
afterwards: high powers of small gaps would underflow. h with h² = abs(u)^p makes d a sum of squares, for
Gauss–Newton.
"""

from __future__ import annotations

from dataclasses import dataclass

from evenrisk._xp import Array, detach, namespace


class SquareNorm:
    """p = 2."""

    def unit(self, u: Array) -> Array:
        """Return 1: squares need no scaling."""
        return 1 + 0 * u[..., :1]

    def power(self, u: Array) -> Array:
        """Return u²."""
        return u * u

    def power_slope(self, u: Array) -> Array:
        """Return the derivative of u²."""
        return 2 * u

    def squared_norm(self, S: Array) -> tuple[Array, Array]:
        """Return S, and its derivative with one more axis."""
        return S, (1 + 0 * S)[..., None]

    def half_power(self, u: Array) -> tuple[Array, Array]:
        """Return h = u and its derivative."""
        return u, 1 + 0 * u

    def residual(self, unit: Array, q: Array, in_a: Array, in_b: Array) -> tuple[Array, Array, Array]:
        """Return r = q, ‖q‖² = S, and its derivatives."""
        return q, in_a, in_b


@dataclass(frozen=True)
class PowerNorm(SquareNorm):
    """p above 2."""

    p: float

    def unit(self, u: Array) -> Array:
        """Return the largest abs(u) (…, 1), or 1 where all are 0."""
        xp = namespace(u)
        largest = detach(xp.max(xp.abs(u), axis=-1)[..., None])
        return xp.where(largest > 0, largest, 1 + 0 * largest)

    def power(self, u: Array) -> Array:
        """Return abs(u)^p."""
        return namespace(u).abs(u) ** self.p

    def power_slope(self, u: Array) -> Array:
        """Return the derivative of abs(u)^p."""
        return self.p * u * namespace(u).abs(u) ** (self.p - 2)

    def squared_norm(self, S: Array) -> tuple[Array, Array]:
        """Return S^(2/p), and its derivative with one more axis; both 0 where S is."""
        xp = namespace(S)
        safe = xp.where(S > 0, S, 1 + 0 * S)
        d = xp.where(S > 0, safe ** (2 / self.p), 0 * S)
        return d, (2 / self.p * d / safe)[..., None]

    def half_power(self, u: Array) -> tuple[Array, Array]:
        """Return h = u·abs(u)^(p/2 − 1), whose square is abs(u)^p, and its derivative."""
        steep = namespace(u).abs(u) ** (self.p / 2 - 1)
        return u * steep, self.p / 2 * steep

    def residual(self, unit: Array, q: Array, in_a: Array, in_b: Array) -> tuple[Array, Array, Array]:
        """Return r = unit·q·S^e, ‖q‖² = S and e = 1/p − ½, and its derivatives from those of q."""
        xp = namespace(q)
        S = xp.sum(q * q, axis=-1)[..., None]
        safe = xp.where(S > 0, S, 1 + 0 * S)
        e = 1 / self.p - 0.5
        scale = safe**e

        def scaled(in_x: Array) -> Array:
            along = xp.sum(q[..., :, None] * in_x, axis=-2)[..., None, :]
            return (in_x + (2 * e * q / safe)[..., None] * along) * scale[..., None]

        return unit * q * scale, scaled(in_a), scaled(in_b)
