"""What every solver takes and gives back.

Conventions
-----------
A solver minimises ``fun(theta) -> (value, gradient)`` over θ (m,), float64 NumPy on the host, and stops when
the largest entry of the gradient is at most `tol`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Function = Callable[[np.ndarray], tuple[float, np.ndarray]]


@dataclass(frozen=True)
class Solution:
    """Where a solver ended."""

    theta: np.ndarray
    value: float
    gradient_norm: float  # largest absolute entry
    n_iter: int
    converged: bool


def log_iteration(name: str, n_iter: int, value: float, gradient_norm: float) -> None:
    """Write one line per iteration where the user reads it, out of the way of piped output."""
    print(f"{name} {n_iter:6d}  objective {value:.10f}  gradient {gradient_norm:.3e}", file=sys.stderr)
