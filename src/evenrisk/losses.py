"""Losses in raw scores: value, gradient and curvature of ℓ(y, g), row by row.

Conventions
-----------
y (n,) in {0, 1}; g (n,) raw scores; m = (2y − 1)·g the margin. Rows are weighted by the caller, who works
block by block: ``loss.rows(block)`` is the loss of those rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from evenrisk._xp import Array, namespace, sigmoid


class Loss(NamedTuple):
    """ℓ(y, g) with its derivatives in g."""

    name: str
    value_gradient: Callable[[Array, Array], tuple[Array, Array]]  # (y, g) → ℓ, ∂ℓ/∂g
    curvature: Callable[[Array, Array], Array]  # (y, g) → ∂²ℓ/∂g², a non-negative stand-in at kinks
    kinked: bool = False  # whether the slope jumps somewhere, and the curvature is 0
    kind: int | None = None  # its number among the compiled loops, `evenrisk._kernels`

    def rows(self, block: Any) -> Loss:
        """Return the loss of some rows; these losses are the same for all."""
        return self


def _logistic(y: Array, g: Array) -> tuple[Array, Array]:
    """ℓ = log(1 + e^g) − y·g and s − y, from one exponential."""
    xp = namespace(g)
    e = xp.exp(-xp.abs(g))
    positive = xp.where(g > 0, g, 0 * g)
    s = xp.where(g > 0, 1 / (1 + e), e / (1 + e))
    return positive + xp.log1p(e) - y * g, s - y


def _logistic_curvature(y: Array, g: Array) -> Array:
    s = sigmoid(g)
    return s * (1 - s)


def _slack(y: Array, g: Array) -> tuple[Array, Array]:
    """max(0, 1 − m) and the sign 2y − 1."""
    xp = namespace(g)
    sign = 2 * y - 1
    slack = 1 - sign * g
    return xp.where(slack > 0, slack, 0 * slack), sign


def _hinge(y: Array, g: Array) -> tuple[Array, Array]:
    """ℓ = max(0, 1 − m); at the kink the subgradient 0."""
    xp = namespace(g)
    slack, sign = _slack(y, g)
    return slack, xp.where(slack > 0, -sign + 0 * g, 0 * g)


def _hinge_curvature(y: Array, g: Array) -> Array:
    return 0 * g


def _squared_hinge(y: Array, g: Array) -> tuple[Array, Array]:
    """ℓ = max(0, 1 − m)²."""
    slack, sign = _slack(y, g)
    return slack * slack, -2 * sign * slack


def _squared_hinge_curvature(y: Array, g: Array) -> Array:
    xp = namespace(g)
    slack, _ = _slack(y, g)
    return xp.where(slack > 0, 2 + 0 * g, 0 * g)


class SmoothedHinge(NamedTuple):
    """ℓ = max over u in [0, 1] of u·(1 − m) − μ/2·(u − a)², below the hinge everywhere and smooth.

    u = clip(a + (1 − m)/μ, 0, 1) is the slope, a (n,) a guess of the hinge's own subgradient at its kinks.
    Moving a to u after each minimisation is the method of multipliers: the minimum becomes the hinge's own
    while μ stays at values a solver can handle. μ → 0 alone would make the curvature, 1/μ, explode.
    """

    mu: float
    a: Array
    kinked: bool = False
    kind: int | None = 3

    def rows(self, block: Any) -> SmoothedHinge:
        """Return the loss of some rows."""
        return SmoothedHinge(self.mu, self.a[block])

    def slope(self, y: Array, g: Array) -> Array:
        """Return u, between 0 (margin kept) and 1 (margin violated)."""
        xp = namespace(g)
        u = self.a + (1 - (2 * y - 1) * g) / self.mu
        return xp.where(u < 0, 0 * u, xp.where(u > 1, 1 + 0 * u, u))

    def value_gradient(self, y: Array, g: Array) -> tuple[Array, Array]:
        """ℓ and −(2y − 1)·u."""
        u, sign = self.slope(y, g), 2 * y - 1
        return u * (1 - sign * g) - 0.5 * self.mu * (u - self.a) ** 2, -sign * u

    def curvature(self, y: Array, g: Array) -> Array:
        """1/μ where 0 < u < 1."""
        u = self.slope(y, g)
        return namespace(g).where((u > 0) & (u < 1), 1 / self.mu + 0 * u, 0 * u)


LOGISTIC = Loss("logistic", _logistic, _logistic_curvature, kind=0)
HINGE = Loss("hinge", _hinge, _hinge_curvature, kinked=True, kind=1)
SQUARED_HINGE = Loss("squared_hinge", _squared_hinge, _squared_hinge_curvature, kind=2)
