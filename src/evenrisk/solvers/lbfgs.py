"""L-BFGS with a diagonal start and a line search that ends on slopes, not on values.

SciPy's routine stops as soon as a step no longer lowers the value in float64. Near a minimum the value
falls with the *square* of the gradient, so that happens at gradients of about 1e-8 (5e-9 on Adult, where
the coefficients are then 1e-5 off). Here a step may also be accepted because the slope along it has turned
out right while the value has not visibly risen, after Hager and Zhang (2005); 1e-9 and less are reached.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from evenrisk.solvers._solution import Function, Solution, log_iteration

MEMORY = 20  # steps remembered; the parameter vector is small beside the data
DECREASE, CURVATURE = 0.1, 0.9  # the two Wolfe constants
VALUE_NOISE = 1e-14  # rounding of the mean loss, relative
MAX_TRIALS = 40  # evaluations of one line search


class _Point(NamedTuple):
    theta: np.ndarray
    value: float
    gradient: np.ndarray

    @property
    def norm(self) -> float:
        return float(np.max(np.abs(self.gradient), initial=0.0))


def lbfgs(
    fun: Function,
    theta: np.ndarray,
    *,
    scale: np.ndarray | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
    verbose: int = 0,
) -> Solution:
    """Minimise fun(θ); scale² (m,) is a first guess of the inverse curvature, up to a factor."""
    inverse = np.ones(theta.shape) if scale is None else scale**2
    memory: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=MEMORY)
    at = _Point(theta, *fun(theta))
    n_iter = 0
    while at.norm > tol and n_iter < max_iter:
        step = _direction(at.gradient, memory, inverse)
        found = _line_search(fun, at, step, first=1.0 if memory else 1 / (1 + np.linalg.norm(step)))
        if found is None and not memory:
            break  # not even straight downhill: rounding has the last word
        if found is None:
            memory.clear()
            continue
        memory.append((found.theta - at.theta, found.gradient - at.gradient))
        at, n_iter = found, n_iter + 1
        if verbose:
            log_iteration("lbfgs", n_iter, at.value, at.norm)
    return Solution(at.theta, at.value, at.norm, n_iter, at.norm <= tol)


def _direction(
    gradient: np.ndarray, memory: deque[tuple[np.ndarray, np.ndarray]], inverse: np.ndarray
) -> np.ndarray:
    """−H·gradient by the two-loop recursion."""
    q = -gradient
    products = []
    for s, y in reversed(memory):
        a = (s @ q) / (s @ y)
        products.append(a)
        q = q - a * y
    if memory:
        s, y = memory[-1]
        inverse = inverse * ((s @ y) / (y @ (inverse * y)))
    q = inverse * q
    for (s, y), a in zip(memory, reversed(products), strict=True):
        q = q + s * (a - (y @ q) / (s @ y))
    return q


def _line_search(fun: Function, at: _Point, step: np.ndarray, *, first: float) -> _Point | None:
    """Find a weak Wolfe point along `step` by bracketing; None if there is none to be had."""
    slope = float(at.gradient @ step)
    if not slope < 0:
        return None
    low, slope_low, high, slope_high = 0.0, slope, np.inf, np.inf
    length = first
    for _ in range(MAX_TRIALS):
        theta = at.theta + length * step
        trial = _Point(theta, *fun(theta))
        slope_here = float(trial.gradient @ step)
        if not _low_enough(at.value, slope, trial.value, slope_here, length):
            high, slope_high = length, slope_here
        elif slope_here < CURVATURE * slope:
            low, slope_low = length, slope_here
        elif not np.array_equal(trial.theta, at.theta):
            return trial
        else:
            return None
        length = _next_length(low, slope_low, high, slope_high)
    return None


def _low_enough(value: float, slope: float, new_value: float, new_slope: float, length: float) -> bool:
    """Whether the value fell as it should; or, within rounding of the old one, the slope says so."""
    if new_value <= value + DECREASE * length * slope:
        return True
    noise = VALUE_NOISE * max(abs(value), 1e-3)
    return new_value <= value + noise and new_slope <= (2 * DECREASE - 1) * slope


def _next_length(low: float, slope_low: float, high: float, slope_high: float) -> float:
    """Double while nothing bounds the step; then the zero of the slope by secant, kept inside; else halve."""
    if not np.isfinite(high):
        return 2 * low
    width = high - low
    if np.isfinite(slope_high) and slope_high > 0:
        secant = low + width * slope_low / (slope_low - slope_high)
        return float(np.clip(secant, low + 0.1 * width, high - 0.1 * width))
    return low + 0.5 * width
