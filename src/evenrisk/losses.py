"""Losses in raw scores: value, gradient and curvature of ℓ(y, g), row by row.

Conventions
-----------
y (n,) in {0, 1}; g (n,) raw scores; m = (2y − 1)·g the margin. Rows are weighted by the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from evenrisk._types import Array
from evenrisk._xp import namespace, sigmoid


class Loss(NamedTuple):
    """ℓ(y, g) with its derivatives in g."""

    name: str
    value_gradient: Callable[[Array, Array], tuple[Array, Array]]  # (y, g) → ℓ, ∂ℓ/∂g
    curvature: Callable[[Array, Array], Array]  # (y, g) → ∂²ℓ/∂g², a non-negative stand-in at kinks


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


LOGISTIC = Loss("logistic", _logistic, _logistic_curvature)
HINGE = Loss("hinge", _hinge, _hinge_curvature)
SQUARED_HINGE = Loss("squared_hinge", _squared_hinge, _squared_hinge_curvature)
