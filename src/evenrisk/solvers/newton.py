"""Newton's method on a sum of squares: Gauss and Newton's curvature, corrected by the steps taken.

Each of our distances is d = ‖r‖², so the objective has the curvature Xᵀℓ''X + λ + 2η·JᵀJ, J = ∂r/∂θ, and a
rest, Σ r·∂²r/∂θ², that Gauss and Newton leave out. At a strong penalty the rest is not small, and on a grid
of thresholds it is rough: trust regions crept both with it and without it (hundreds of steps on Adult under
equalized odds). So the matrix is the base of the two-loop recursion: the steps taken tell of the rest what
matters, and the matrix, which costs as much as several gradients, is formed anew only now and then.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from evenrisk.solvers._descent import NOISE, Settings, descend
from evenrisk.solvers._solution import Function, Solution

RENEW = 20  # steps after which the curvature is taken anew
SINGULAR = 1e-10  # ridge on unit scales: collinear columns (one-hot sets) have directions without curvature
ROUNDING = 1e-15  # of a diagonal entry: what is left of it after elimination is no less


def newton(
    fun: Function,
    theta: np.ndarray,
    *,
    curvature: Callable[[np.ndarray], np.ndarray],
    renew: int = RENEW,
    tol: float = 1e-6,
    max_iter: int = 1000,
    noise: float = NOISE,
    verbose: int = 0,
) -> Solution:
    """Minimise fun(θ); `curvature` gives a positive semi-definite stand-in for its Hessian at θ (m, m).

    It is asked where the descent begins and after every `renew` steps.
    """
    ridge = max(SINGULAR, noise)
    settings = Settings(tol, max_iter, noise, verbose)
    return descend("newton", fun, theta, lambda at: ridged_inverse(curvature(at), ridge), renew, settings)


def ridged_inverse(H: np.ndarray, ridge: float) -> np.ndarray:
    """(H + ridge)⁻¹; the last parameter is eliminated first and the ridge put on what is left of the others.

    The last one is the intercept, where there is one: a column far from 0 (a year, an income) looks like it,
    and a ridge on the whole matrix would drown what the column has of its own.
    """
    if not np.isfinite(H).all():
        return np.ones(len(H))
    corner = H[-1, -1]
    if len(H) == 1 or corner <= 0:
        return _inverse(H, H.diagonal(), ridge)
    along = H[:-1, -1] / corner
    rest = H[:-1, :-1] - np.outer(along, H[:-1, -1])
    A = _inverse(rest, np.maximum(rest.diagonal(), ROUNDING * H.diagonal()[:-1]), ridge)
    side = -(A @ along)[:, None]
    return np.block([[A, side], [side.T, np.atleast_2d(1 / corner + along @ A @ along)]])


def _inverse(H: np.ndarray, diagonal: np.ndarray, ridge: float) -> np.ndarray:
    """(H + ridge·diagonal)⁻¹; the ridge grows until rounding lets the matrix be positive."""
    root = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    scale = np.outer(root, root)
    while True:
        factor, failed = dpotrf(H / scale + ridge * np.eye(len(H)), lower=1, overwrite_a=1)
        if not failed:
            lower = np.tril(dpotri(factor, lower=1, overwrite_c=1)[0])
            return (lower + np.tril(lower, -1).T) / scale
        ridge *= 100
