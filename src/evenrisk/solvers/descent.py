"""L-BFGS and Newton's method: descent with a memory of the last steps.

A step is −M·gradient. M is a guess of the inverse curvature, corrected by the changes of the gradient over
the last steps (the two-loop recursion). L-BFGS keeps one guess; Newton's method takes a new one every
`renew` steps.

The line search accepts a step by slopes, not only by values. SciPy's routine stops as soon as a step no
longer lowers the value in float64. Near a minimum the value falls with the *square* of the gradient, so
that happens at gradients of about 1e-8 (5e-9 on Adult, where the coefficients are then 1e-5 off). Here a
step may also be accepted because the slope along it is right while the value has not visibly risen, after
Hager and Zhang (2005); gradients of 1e-9 and less are reached.

Newton's matrix. Each of our distances is d = ‖r‖², so the objective has the curvature Xᵀℓ''X + λ + 2η·JᵀJ,
J = ∂r/∂θ, plus a remainder, Σ r·∂²r/∂θ², that Gauss–Newton leaves out. With a strong penalty the remainder
is not small, and on a grid of thresholds it is rough: trust-region methods were slow with it and without it
(hundreds of steps on Adult under equalized odds). So the matrix is only the first guess M. The steps taken
correct it for the remainder. The matrix costs as much as several gradients, so it is formed only every
`renew` steps.

Conventions
-----------
A solver minimises ``fun(theta) -> (value, gradient)`` over θ (m,), float64 NumPy on the host, and stops when
the largest entry of the gradient is at most `tol`.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

Function = Callable[[np.ndarray], tuple[float, np.ndarray]]

MEMORY = 20  # steps remembered; the parameter vector is small beside the data
DECREASE, CURVATURE = 0.1, 0.9  # the two Wolfe constants
NOISE = 1e-14  # rounding of the value, relative, in float64
PATIENCE = 20  # steps in a row that change nothing but the last digits
MAX_TRIALS = 40  # evaluations of one line search
RENEW = 20  # steps after which Newton's method takes the curvature again
SINGULAR = 1e-10  # ridge on unit scales: collinear columns (one-hot sets) have directions without curvature
ROUNDING = 1e-15  # times a diagonal entry: the least that may remain of it after elimination

Memory = deque[tuple[np.ndarray, np.ndarray]]  # (step, change of the gradient), the last one last


@dataclass(frozen=True)
class Solution:
    """Where a solver ended."""

    theta: np.ndarray
    value: float
    gradient_norm: float  # largest absolute entry
    n_iter: int
    converged: bool


def log_iteration(name: str, n_iter: int, value: float, gradient_norm: float) -> None:
    """Print one line per iteration to standard error, out of the way of piped output."""
    print(f"{name} {n_iter:6d}  objective {value:.10f}  gradient {gradient_norm:.3e}", file=sys.stderr)


def lbfgs(
    fun: Function,
    theta: np.ndarray,
    *,
    preconditioner: np.ndarray | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
    noise: float = NOISE,
    verbose: int = 0,
) -> Solution:
    """Minimise fun(θ); `preconditioner` guesses the inverse curvature up to a factor: (m, m) or (m,)."""
    guess = np.ones(theta.shape) if preconditioner is None else preconditioner
    limits = _Limits(tol, max_iter, noise, verbose)
    return _descend("lbfgs", fun, theta, lambda _: guess, sys.maxsize, limits)


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
    """Minimise fun(θ); `curvature` returns a positive semi-definite approximation of its Hessian at θ (m, m).

    It is called at the start and after every `renew` steps.
    """
    ridge = max(SINGULAR, noise)
    limits = _Limits(tol, max_iter, noise, verbose)
    return _descend("newton", fun, theta, lambda at: ridged_inverse(curvature(at), ridge), renew, limits)


class _Limits(NamedTuple):
    """When to stop, and how much to print."""

    tol: float
    max_iter: int
    noise: float
    verbose: int


class _Point(NamedTuple):
    theta: np.ndarray
    value: float
    gradient: np.ndarray

    @property
    def norm(self) -> float:
        return float(np.max(np.abs(self.gradient), initial=0.0))


def _descend(
    name: str,
    fun: Function,
    theta: np.ndarray,
    preconditioner: Callable[[np.ndarray], np.ndarray],
    renew: int,
    limits: _Limits,
) -> Solution:
    """Minimise fun(θ); `preconditioner` returns M at a point, (m, m) or its diagonal (m,).

    It is called again after `renew` steps, and where no step along −M·gradient lowers the value.

    If no step lowers the value any more and the predicted decrease is below the rounding of the value
    (`noise`, relative), the solver has converged as far as floating point allows.
    """
    tol, max_iter, noise, verbose = limits
    memory: Memory = deque(maxlen=MEMORY)
    at = _Point(theta, *fun(theta))
    M, age = np.ones(0), renew
    n_iter, idle, mark, at_rounding = 0, 0, at.norm, False
    while at.norm > tol and n_iter < max_iter and not at_rounding:
        if age >= renew:
            M, age = preconditioner(at.theta), 0
        step = _direction(at.gradient, memory, M)
        predicted = -float(at.gradient @ step)
        rounding = noise * max(abs(at.value), 1e-3)
        # without remembered steps M is only a guess: shorten a step with a large predicted decrease
        length = 1.0 if memory else 1 / (1 + max(predicted, 0.0) ** 0.5)
        found = _line_search(fun, at, step, length, rounding)
        if found is None:
            at_rounding = 0 <= predicted <= rounding
            if not memory and age == 0:
                break  # no decrease even with a new M and no memory
            memory.clear()
            age = renew if age else 0
            continue
        memory.append((found.theta - at.theta, found.gradient - at.gradient))
        # a step whose decrease is lost in rounding counts as progress if the gradient has halved since `mark`
        if at.value - found.value > rounding or found.norm <= 0.5 * mark:
            idle, mark = 0, found.norm
        else:
            idle += 1
        at, n_iter, age, at_rounding = found, n_iter + 1, age + 1, idle >= PATIENCE
        if verbose:
            log_iteration(name, n_iter, at.value, at.norm)
    return Solution(at.theta, at.value, at.norm, n_iter, at.norm <= tol or at_rounding)


def _direction(gradient: np.ndarray, memory: Memory, M: np.ndarray) -> np.ndarray:
    """−H·gradient by the two-loop recursion."""
    q = -gradient
    products = []
    for s, y in reversed(memory):
        a = (s @ q) / (s @ y)
        products.append(a)
        q = q - a * y
    q = precondition(M, q)
    if memory:
        s, y = memory[-1]
        q = q * ((s @ y) / (y @ precondition(M, y)))
    for (s, y), a in zip(memory, reversed(products), strict=True):
        q = q + s * (a - (y @ q) / (s @ y))
    return q


def precondition(M: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Mv for M (m, m) or its diagonal (m,); v (m,) or (m, k)."""
    return (M * v.T).T if M.ndim == 1 else M @ v


def _line_search(
    fun: Function, at: _Point, step: np.ndarray, length: float, rounding: float
) -> _Point | None:
    """Return a weak Wolfe point along `step`, found by bracketing, or None if none is found."""
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
    """Whether the value fell enough or, where rounding hides its change, the slope shows that it did."""
    if change <= DECREASE * length * slope:
        return True
    return change <= rounding and new_slope <= (2 * DECREASE - 1) * slope


def _next_length(low: float, slope_low: float, high: float, slope_high: float) -> float:
    """Double while there is no upper bound; then the secant's zero of the slope if possible, else halve."""
    if not np.isfinite(high):
        return 2 * low
    width = high - low
    if np.isfinite(slope_high) and slope_high > 0:
        secant = low + width * slope_low / (slope_low - slope_high)
        return float(np.clip(secant, low + 0.1 * width, high - 0.1 * width))
    return low + 0.5 * width


def ridged_inverse(H: np.ndarray, ridge: float) -> np.ndarray:
    """(H + ridge)⁻¹; the last parameter is eliminated first, and the ridge is added to what remains.

    The last one is the intercept, if there is one. A column far from 0 (a year, an income) is nearly
    collinear with it, and a ridge on the whole matrix would be larger than the column's own variation.
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
    """(H + ridge·diagonal)⁻¹; the ridge grows until the matrix is numerically positive definite.

    By NumPy alone: SciPy's BLAS has threads of its own, which wait for work where NumPy's are still waiting
    after the last product, and a small matrix then takes a hundred times as long.
    """
    root = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    scale = np.outer(root, root)
    while True:
        try:
            inverse_factor = np.linalg.inv(np.linalg.cholesky(H / scale + ridge * np.eye(len(H))))
        except np.linalg.LinAlgError:
            ridge *= 100
        else:
            return np.asarray((inverse_factor.T @ inverse_factor) / scale)
