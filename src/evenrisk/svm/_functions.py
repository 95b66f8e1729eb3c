"""Kernel functions by name, and their γ."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel

from evenrisk._xp import is_sparse
from evenrisk.svm._reduction import Kernel

KERNELS = ("rbf", "linear", "poly", "precomputed")


def kernel_function(kernel: Any, gamma: float, degree: int, coef0: float) -> Kernel:
    """Give k(X, Z) for rows of features; precomputed, X holds k already and Z says which columns."""
    if callable(kernel):
        return lambda X, Z: np.asarray(kernel(X, Z), dtype=np.float64)
    if kernel == "precomputed":
        return lambda X, support: X[:, support]
    if kernel == "linear":
        return lambda X, Z: linear_kernel(X, Z, dense_output=True)
    if kernel == "rbf":
        return lambda X, Z: _rbf(X, Z, gamma)
    return lambda X, Z: polynomial_kernel(X, Z, degree=degree, gamma=gamma, coef0=coef0)


def gamma_value(gamma: Any, X: Any, weight: np.ndarray) -> float:
    """γ as a number; "scale" looks at the weighted variance of all entries, as a repeated row would."""
    if not isinstance(gamma, str):
        return float(gamma)
    d = X.shape[1]
    if gamma == "auto":
        return 1 / d
    variance = _variance(X, weight)
    return 1 / (d * variance) if variance > 0 else 1.0


def _rbf(X: Any, Z: Any, gamma: float) -> np.ndarray:
    """exp(−γ‖x − z‖²), dense rows about one of them: far from 0, ‖x‖² leaves no digits for ‖x − z‖²."""
    if not (is_sparse(X) or is_sparse(Z)):
        X, Z = X - Z[:1], Z - Z[:1]
    return rbf_kernel(X, Z, gamma=gamma)


def _variance(X: Any, weight: np.ndarray) -> float:
    """Weighted variance of all entries of X; exactly 0 where they are equal up to rounding."""
    share = weight / weight.sum() / X.shape[1]
    mean = float((X.T @ share).sum())
    if is_sparse(X):
        second = float((X.multiply(X).T @ share).sum())
        variance, rounding = second - mean * mean, 1e-14 * second
    else:
        variance, rounding = float(((X - mean) ** 2 @ np.ones(X.shape[1])) @ share), 1e-28 * mean * mean
    return variance if variance > rounding else 0.0
