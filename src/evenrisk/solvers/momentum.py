"""The paper's solver: gradient descent with momentum 0.9 and a learning rate falling from 0.1 to 0.0001."""

from __future__ import annotations

import numpy as np

from evenrisk.solvers.descent import Function, Solution, log_iteration

FRICTION = 0.9
FIRST_RATE, LAST_RATE = 0.1, 0.0001
RUNAWAY = 1e20  # a larger gradient has diverged, and the next one may overflow


def momentum(
    fun: Function,
    theta: np.ndarray,
    *,
    tol: float = 1e-6,
    max_iter: int = 1000,
    verbose: int = 0,
) -> Solution:
    """v ← 0.9·v − rate·∇F(θ), θ ← θ + v, the rate falling geometrically over max_iter steps.

    If the steps diverge because the curvature is too large, the start is returned.
    """
    start, velocity = theta, np.zeros(theta.shape)
    n_iter = 0
    while True:
        value, gradient = fun(theta)
        norm = float(np.max(np.abs(gradient), initial=0.0))
        if verbose and n_iter:
            log_iteration("momentum", n_iter, value, norm)
        if not norm <= RUNAWAY:
            value, gradient = fun(start)
            return Solution(start, value, float(np.max(np.abs(gradient))), n_iter, False)
        if norm <= tol or n_iter == max_iter:
            return Solution(theta, value, norm, n_iter, norm <= tol)
        rate = FIRST_RATE * (LAST_RATE / FIRST_RATE) ** (n_iter / max(max_iter - 1, 1))
        velocity = FRICTION * velocity - rate * gradient
        theta = theta + velocity
        n_iter += 1
