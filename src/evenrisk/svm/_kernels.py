"""Kernels, and how a kernel machine becomes a linear model with as many features as the kernel's rank.

Conventions
-----------
k(x, z) a kernel; m landmarks, K (m, m) their kernel matrix. Pivoted Cholesky finds r pivots S among them and
T (r, r) lower triangular with K ≈ k(·, S) T⁻ᵀ T⁻¹ k(S, ·), no entry off by more than a tolerance. So
φ(x) = T⁻¹ k(S, x) are r features, ‖w‖ is the norm of f(x) = wᵀφ(x) in the kernel's space, and
f = Σ_j α_j k(S_j, ·) with α = T⁻ᵀ w. If all points are landmarks this is the exact machine, if some are it is
Nyström's approximation; nothing else differs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel

from evenrisk._xp import is_sparse

Kernel = Callable[[Any, Any], np.ndarray]  # rows of x (n, …), rows of z (r, …) → (n, r)
SCORE_ACCURACY = 10.0  # of the solver's tol: how far the approximation may move a raw score
ASYMMETRY = 1e-6  # of the largest entry
BLOCK_BYTES = 2**24  # of kernel values at a time
KERNELS = ("rbf", "linear", "poly", "precomputed")


def kernel_function(kernel: Any, gamma: float, degree: int, coef0: float) -> Kernel:
    """Return k(X, Z) for rows of features; if precomputed, X holds k already and Z has the column indices."""
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
    """Return γ as a number; "scale" looks at the weighted variance of all entries, as if rows repeated."""
    if not isinstance(gamma, str):
        return float(gamma)
    d = X.shape[1]
    if gamma == "auto":
        return 1 / d
    variance = _variance(X, weight)
    return 1 / (d * variance) if variance > 0 else 1.0


def _rbf(X: Any, Z: Any, gamma: float) -> np.ndarray:
    """exp(−γ‖x − z‖²). Dense rows are centred: far from 0, ‖x‖² would leave no digits for ‖x − z‖²."""
    if not (is_sparse(X) or is_sparse(Z)):
        X, Z = X - Z[:1], Z - Z[:1]
    return rbf_kernel(X, Z, gamma=gamma)


def _variance(X: Any, weight: np.ndarray) -> float:
    """Return the weighted variance of all entries of X; exactly 0 where they are equal up to rounding."""
    share = weight / weight.sum() / X.shape[1]
    mean = float((X.T @ share).sum())
    if is_sparse(X):
        second = float((X.multiply(X).T @ share).sum())
        variance, rounding = second - mean * mean, 1e-14 * second
    else:
        variance, rounding = float(((X - mean) ** 2 @ np.ones(X.shape[1])) @ share), 1e-28 * mean * mean
    return variance if variance > rounding else 0.0


@dataclass(frozen=True)
class KernelFeatures:
    """φ(x) = T⁻¹ k(S, x)."""

    kernel: Kernel
    support: Any  # S, rows
    T: np.ndarray

    @classmethod
    def from_landmarks(cls, kernel: Kernel, landmarks: Any, alpha: float, tol: float) -> KernelFeatures:
        """Reduce to the landmarks' numerical rank.

        A subgradient of the mean hinge has 1-norm at most 1, so the dual coefficients have at most 1/λ, and
        an error in the kernel moves a score by at most 1/λ times as much (with a penalty: by about that).
        """
        K = _values(kernel, landmarks, landmarks)
        _refuse_asymmetric(K)
        m, largest = len(K), float(K.diagonal().max(initial=0.0))
        v = np.random.default_rng(0).choice([-1.0, 1.0], m)
        product = K @ v
        rounding = m * float(np.finfo(np.float64).eps) * largest
        tolerance = max(SCORE_ACCURACY * tol * alpha, rounding)
        factor, pivots, rank, _ = dpstrf(K.T, tol=tolerance, lower=1, overwrite_a=1)  # overwrites K
        kept = pivots[: max(rank, 1)] - 1
        T = np.tril(factor[: len(kept), : len(kept)])
        del K, factor
        if not T.diagonal().all():  # a kernel that is 0 everywhere
            T = np.eye(1)
        features = cls(kernel, landmarks[kept], T)
        phi = features(landmarks)
        _refuse_indefinite(product - phi @ (phi.T @ v), 10 * m * (tolerance + 1e-8 * largest))
        return features

    def __call__(self, X: Any) -> np.ndarray:
        """φ of each row of X (n, r), block by block."""
        out = np.empty((X.shape[0], len(self.T)))
        step = max(BLOCK_BYTES // (8 * len(self.T)), 1)
        for start in range(0, len(out), step):
            block = slice(start, start + step)
            values = _values(self.kernel, X[block], self.support)
            out[block] = solve_triangular(
                self.T, values.T, lower=True, overwrite_b=True, check_finite=False
            ).T
        return out

    def dual_coefficients(self, w: np.ndarray) -> np.ndarray:
        """α = T⁻ᵀ w."""
        return solve_triangular(self.T, w, lower=True, trans="T")


class RepeatedRows:
    """A matrix with repeated rows, X[i] = base[index[i]], that is multiplied without being built."""

    def __init__(self, base: np.ndarray, index: np.ndarray) -> None:
        self.base, self.index = base, index
        self.shape, self.dtype = (len(index), base.shape[1]), base.dtype
        self.T = _Transposed(self)

    def __matmul__(self, w: np.ndarray) -> np.ndarray:
        return (self.base @ w)[self.index]

    def __getitem__(self, rows: Any) -> np.ndarray:
        return self.base[self.index[rows]]


class _Transposed:
    """Xᵀ r adds up r over the rows that share a row of the base."""

    def __init__(self, rows: RepeatedRows) -> None:
        self.rows = rows

    def __matmul__(self, r: np.ndarray) -> np.ndarray:
        base = self.rows.base
        return base.T @ np.bincount(self.rows.index, weights=r, minlength=len(base))


def _values(kernel: Kernel, X: Any, Z: Any) -> np.ndarray:
    """k(x, z) for rows of X and of Z; refuse what cannot be a kernel's values."""
    K = np.asarray(kernel(X, Z), dtype=np.float64)
    expected = (X.shape[0], Z.shape[0])
    if K.shape != expected:
        raise ValueError(
            f"`kernel` must give one value per pair of rows, shape {expected}, got shape {K.shape}"
        )
    if not np.isfinite(K).all():
        raise ValueError("`kernel` must give finite values, got NaN or infinity")
    return K


def _refuse_asymmetric(K: np.ndarray) -> None:
    difference = K - K.T
    worst = float(np.abs(difference, out=difference).max(initial=0.0))
    if worst > ASYMMETRY * max(float(K.max(initial=0.0)), -float(K.min(initial=0.0))):
        raise ValueError(f"`kernel` must be symmetric, got values that differ by {worst:.3g}")


def _refuse_indefinite(error: np.ndarray, tolerance: float) -> None:
    """Raise an error if K is not the product of its Cholesky factors, tested in one direction: O(m²)."""
    worst = float(np.abs(error).max(initial=0.0))
    if worst > tolerance:
        raise ValueError(
            "`kernel` must be positive semi-definite, got one with negative eigenvalues "
            f"(its factor is off by {worst:.3g})"
        )
