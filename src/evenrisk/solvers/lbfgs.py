"""L-BFGS that starts from one guess of the curvature."""

from __future__ import annotations

import sys

import numpy as np

from evenrisk.solvers._descent import NOISE, Settings, descend
from evenrisk.solvers._solution import Function, Solution


def lbfgs(
    fun: Function,
    theta: np.ndarray,
    *,
    metric: np.ndarray | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
    noise: float = NOISE,
    verbose: int = 0,
) -> Solution:
    """Minimise fun(θ); `metric` guesses the inverse curvature up to a factor, (m, m) or its diagonal (m,)."""
    guess = np.ones(theta.shape) if metric is None else metric
    settings = Settings(tol, max_iter, noise, verbose)
    return descend("lbfgs", fun, theta, lambda _: guess, sys.maxsize, settings)
