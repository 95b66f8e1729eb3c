"""Downhill with a memory: what L-BFGS and Newton share.

A step is −M·gradient, M a guess of the inverse curvature, corrected by what the last steps have shown of it
(the two-loop recursion). The line search ends on slopes, not on values: SciPy's routine stops as soon as a
step no longer lowers the value in float64. Near a minimum the value falls with the *square* of the gradient,
so that happens at gradients of about 1e-8 (5e-9 on Adult, where the coefficients are then 1e-5 off). Here a
step may also be accepted because the slope along it has turned out right while the value has not visibly
risen, after Hager and Zhang (2005); 1e-9 and less are reached.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from evenrisk.solvers._solution import Function, Solution, log_iteration

MEMORY = 20  # steps remembered; the parameter vector is small beside the data
DECREASE, CURVATURE = 0.1, 0.9  # the two Wolfe constants
NOISE = 1e-14  # rounding of the value, relative, in float64
PATIENCE = 20  # steps in a row that change nothing but the last digits
MAX_TRIALS = 40  # evaluations of one line search

Memory = deque[tuple[np.ndarray, np.ndarray]]  # (step, change of the gradient), the last one last


class _Point(NamedTuple):
    theta: np.ndarray
    value: float
    gradient: np.ndarray

    @property
    def norm(self) -> float:
        return float(np.max(np.abs(self.gradient), initial=0.0))


class Settings(NamedTuple):
    """When to stop, and what to say meanwhile."""

    tol: float
    max_iter: int
    noise: float
    verbose: int


def descend(
    name: str,
    fun: Function,
    theta: np.ndarray,
    metric: Callable[[np.ndarray], np.ndarray],
    renew: int,
    settings: Settings,
) -> Solution:
    """Minimise fun(θ); `metric` gives M at a point, (m, m) or its diagonal (m,).

    It is asked again after `renew` steps, and where no step along it lowers the value.

    Where no step lowers the value any more and the best one promises less than the value's own rounding
    (`noise`, relative), the solver has converged as far as the arithmetic goes.
    """
    tol, max_iter, noise, verbose = settings
    memory: Memory = deque(maxlen=MEMORY)
    at = _Point(theta, *fun(theta))
    M, age = np.ones(0), renew
    n_iter, idle, mark, at_rounding = 0, 0, at.norm, False
    while at.norm > tol and n_iter < max_iter and not at_rounding:
        if age >= renew:
            M, age = metric(at.theta), 0
        step = _direction(at.gradient, memory, M)
        promise = -float(at.gradient @ step)
        rounding = noise * max(abs(at.value), 1e-3)
        # with nothing to remember M is a guess, and a step that promises much is a bold one
        length = 1.0 if memory else 1 / (1 + max(promise, 0.0) ** 0.5)
        found = _line_search(fun, at, step, length, rounding)
        if found is None:
            at_rounding = 0 <= promise <= rounding
            if not memory and age == 0:
                break  # not even straight downhill
            memory.clear()
            age = renew if age else 0
            continue
        memory.append((found.theta - at.theta, found.gradient - at.gradient))
        # a step within rounding is still a good one if it and its like bring the gradient down
        if at.value - found.value > rounding or found.norm <= 0.5 * mark:
            idle, mark = 0, found.norm
        else:
            idle += 1
        at, n_iter, age, at_rounding = found, n_iter + 1, age + 1, idle >= PATIENCE
        if verbose:
            log_iteration(name, n_iter, at.value, at.norm)
    return Solution(at.theta, at.value, at.norm, n_iter, at.norm <= tol or at_rounding)


def _direction(gradient: np.ndarray, memory: Memory, metric: np.ndarray) -> np.ndarray:
    """−H·gradient by the two-loop recursion."""
    q = -gradient
    products = []
    for s, y in reversed(memory):
        a = (s @ q) / (s @ y)
        products.append(a)
        q = q - a * y
    q = _apply(metric, q)
    if memory:
        s, y = memory[-1]
        q = q * ((s @ y) / (y @ _apply(metric, y)))
    for (s, y), a in zip(memory, reversed(products), strict=True):
        q = q + s * (a - (y @ q) / (s @ y))
    return q


def _apply(metric: np.ndarray, v: np.ndarray) -> np.ndarray:
    return metric * v if metric.ndim == 1 else metric @ v


def _line_search(
    fun: Function, at: _Point, step: np.ndarray, length: float, rounding: float
) -> _Point | None:
    """Find a weak Wolfe point along `step` by bracketing; None if there is none to be had."""
    slope = float(at.gradient @ step)
    if not slope < 0:
        return None
    low, slope_low, high, slope_high = 0.0, slope, np.inf, np.inf
    for _ in range(MAX_TRIALS):
        theta = at.theta + length * step
        trial = _Point(theta, *fun(theta))
        slope_here = float(trial.gradient @ step)
        if not _low_enough(trial.value - at.value, slope, slope_here, length, rounding):
            high, slope_high = length, slope_here
        elif slope_here < CURVATURE * slope:
            low, slope_low = length, slope_here
        elif not np.array_equal(trial.theta, at.theta):
            return trial
        else:
            return None
        length = _next_length(low, slope_low, high, slope_high)
    return None


def _low_enough(change: float, slope: float, new_slope: float, length: float, rounding: float) -> bool:
    """Whether the value fell as it should; or, within rounding of the old one, the slope says so."""
    if change <= DECREASE * length * slope:
        return True
    return change <= rounding and new_slope <= (2 * DECREASE - 1) * slope


def _next_length(low: float, slope_low: float, high: float, slope_high: float) -> float:
    """Double while nothing bounds the step; then the zero of the slope by secant, kept inside; else halve."""
    if not np.isfinite(high):
        return 2 * low
    width = high - low
    if np.isfinite(slope_high) and slope_high > 0:
        secant = low + width * slope_low / (slope_low - slope_high)
        return float(np.clip(secant, low + 0.1 * width, high - 0.1 * width))
    return low + 0.5 * width
