"""What both baselines share: the parameters, the plain fit, and the final correction to within the bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from evenrisk._estimator import FairClassifier, TrainingData
from evenrisk._validation import check_flag, check_number, warn_user
from evenrisk.losses import LOGISTIC
from evenrisk.objective import LinearObjective, LinearProblem, ScoreObjective
from evenrisk.parity import PARITIES
from evenrisk.solvers import Solution, lbfgs, precondition

ROUNDING = 1e-9  # covariances this far outside the bound count as on it
MAX_CORRECTIONS = 20  # most Newton steps to the bound; the covariance is piecewise linear, so few are needed


class CovarianceBound(FairClassifier):
    """Logistic regression with |covariance| ≤ c."""

    _plain_setting: ClassVar[str] = "c=np.inf"
    _rule: ClassVar[str]  # the parity rule that the covariance approximates

    c: float
    alpha: float
    fit_intercept: bool
    max_iter: int
    tol: float
    coef_: np.ndarray
    intercept_: np.ndarray

    def _check_parameters(self) -> None:
        _check_bound(self.c)
        check_number("alpha", self.alpha, low=0)
        check_flag("fit_intercept", self.fit_intercept)
        check_number("max_iter", self.max_iter, low=1, whole=True)
        check_number("tol", self.tol, low=0, strict=True)
        self._parity = PARITIES[self._rule]

    def _why_groups(self) -> str:
        return f"when c is finite, got None with c={self.c}" if np.isfinite(self.c) else ""

    def _problem(self, data: TrainingData) -> LinearProblem:
        """Return mean log loss + α/2‖w‖², without the bound."""
        scores = ScoreObjective(LOGISTIC, data.y, data.weight)
        return LinearProblem(scores, data.X, alpha=self.alpha, fit_intercept=self.fit_intercept)

    def _settings(self, problem: LinearObjective) -> dict[str, Any]:
        """Return L-BFGS's stopping rule; float32 has no finer gradient than 100 roundings."""
        eps = problem.eps
        return {"tol": max(self.tol, 100 * eps), "max_iter": int(self.max_iter), "noise": 50 * eps}

    def _fit_without_bound(self, objective: LinearObjective, settings: dict[str, Any]) -> Solution:
        """Fit without the bound."""
        M = objective.preconditioner()
        solution = lbfgs(objective, np.zeros(len(M)), preconditioner=M, **settings)
        if not solution.converged:
            warn_user(
                f"the fit without the bound stopped after {solution.n_iter} iterations with a gradient of "
                f"{solution.gradient_norm:.1e}, above tol={settings['tol']:.1e}. Raise max_iter (now "
                f"{self.max_iter}) or tol, or standardise the features",
                ConvergenceWarning,
            )
        return solution

    def _store_fit(self, theta: np.ndarray, problem: LinearProblem, data: TrainingData) -> None:
        """Set the fitted attributes that both models have."""
        for name, value in problem.attributes(theta).items():
            setattr(self, name, value)
        self.objective_ = problem(theta)[0]
        self._store_labels(data)


def group_shares(data: TrainingData) -> tuple[np.ndarray, np.ndarray]:
    """Return share (n,) and z̄ of every group (k,), in float64."""
    assert data.groups is not None
    share = data.weight.astype(np.float64) / float(data.weight.sum(dtype=np.float64))
    return share, np.bincount(data.groups.code, weights=share, minlength=len(data.groups.labels))


def bounded_groups(k: int) -> slice:
    """Return the groups whose covariances are bounded: one of two, or all."""
    return slice(1, 2) if k == 2 else slice(0, k)


def move_inside_bound(
    theta: np.ndarray,
    covariance: Callable[[np.ndarray], np.ndarray],
    jacobian: Callable[[np.ndarray], np.ndarray],
    M: np.ndarray,
    c: float,
) -> np.ndarray:
    """Move θ by the change of least δᵀM⁻¹δ, M a preconditioner, that brings every |covariance| down to c.

    A solver stops within its tolerance of the bound; this function removes the excess. If Newton's steps do
    not reach the bound, θ is scaled down: the covariances are homogeneous in it.
    """
    for _ in range(MAX_CORRECTIONS):
        t = covariance(theta)
        excess = t - np.clip(t, -c, c)
        if np.abs(excess).max(initial=0.0) <= ROUNDING * min(c, 1.0):
            return theta
        J = jacobian(theta)
        MJ = precondition(M, J.T)
        theta = theta - MJ @ (np.linalg.pinv(J @ MJ, hermitian=True) @ excess)
    worst = float(np.abs(covariance(theta)).max())
    return theta * min(1.0, (c + ROUNDING) / worst) if worst > c + ROUNDING else theta


def _check_bound(c: Any) -> None:
    """Check that c is 0, a positive number or infinity."""
    good = isinstance(c, (int, float, np.integer, np.floating)) and not isinstance(c, bool)
    if not (good and c >= 0):
        raise ValueError(f"`c` must be a number of at least 0, or np.inf for no bound, got {c!r}")
