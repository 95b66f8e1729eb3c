"""Zafar et al. (AISTATS 2017): a bound on the covariance of group and score.

The covariance Σ q·(Xw + b) = a·w is linear, a = Σ q·x, and the intercept drops out. The problem is convex and
is solved to convergence by the method of multipliers around L-BFGS, so X may be sparse, wide or in float32.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from evenrisk._estimator import TrainingData, all_or_nothing, forget
from evenrisk._validation import warn_user
from evenrisk._xp import segment_dot
from evenrisk.baselines._bounded import CovarianceBound, bounded_groups, group_shares, move_inside_bound
from evenrisk.objective import LinearObjective
from evenrisk.solvers import Solution, lbfgs, precondition

RHO = 10.0  # ρ; the curvature is at most ¼ per unit, so a round divides the error by 40 or more
ROUNDS = 50
SETTLED = 1e-8  # change of a covariance, in units of the score's root mean square, that ends the rounds


class ZafarDP(CovarianceBound):
    """Logistic regression with −c ≤ cov(z, g) ≤ c between group membership z and raw score g.

    Minimises mean log loss + alpha/2·‖w‖² under the bound, the fairness constraint of Zafar et al. (2017a)
    for demographic parity. It equalises the groups' mean scores and nothing else about their
    distributions. The protected attribute is needed for training only.

    Parameters
    ----------
    c : float, default=0.05
        Largest absolute covariance between belonging to a group and the raw score, on the training data.
        0 makes the groups' mean scores equal; ``np.inf`` is plain logistic regression and needs no
        ``sensitive_features``. On the shipped COMPAS data the plain model has a covariance of 0.14.
    alpha : float, default=0.0
        Weight of the ridge term, not applied to the intercept; ``C = 1/(alpha·n)`` in scikit-learn.
    fit_intercept : bool, default=True
        Whether to fit b in g = Xw + b.
    max_iter : int, default=1000
        Largest number of iterations of each round of the solver.
    tol : float, default=1e-6
        Stop when no entry of the gradient is larger; not below 1.2e-5 where X is float32.

    Attributes
    ----------
    coef_ : ndarray of shape (1, d)
        The weights w.
    intercept_ : ndarray of shape (1,)
        The intercept b; 0 without one.
    classes_ : ndarray of shape (2,)
        The labels; the second is the positive class.
    groups_ : ndarray of shape (k,)
        The groups seen, where any were given; tuples where several columns were crossed.
    covariance_ : ndarray of shape (k,)
        The covariance of each group with the score on the training data, where groups were given.
    objective_ : float
        The objective at the solution.
    n_iter_ : int
        Iterations over all rounds.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (d,)
        Column names of X, where it had any.

    See Also
    --------
    ZafarEO : The same for false-positive and false-negative rates.
    evenrisk.FairLogisticRegression : Scores that are fair at every threshold.

    Notes
    -----
    With more than two groups, the covariance of each group against the rest is bounded.

    References
    ----------
    M. B. Zafar, I. Valera, M. Gomez Rodriguez, K. P. Gummadi. Fairness constraints: mechanisms for fair
    classification. AISTATS 2017.

    Examples
    --------
    >>> from evenrisk.baselines import ZafarDP
    >>> from evenrisk.datasets import load_compas
    >>> from evenrisk.metrics import threshold_profile
    >>> X, y, race = load_compas()
    >>> X = (X - X.mean()) / X.std()
    >>> for c in (0.1, 0.01):
    ...     clf = ZafarDP(c=c).fit(X, y, sensitive_features=race)
    ...     profile = threshold_profile(y, clf.predict_proba(X)[:, 1], sensitive_features=race)
    ...     print(clf.covariance_.round(3), round(profile.at(0.5), 2))
    [ 0.1 -0.1] 0.23
    [ 0.01 -0.01] 0.11
    """

    _rule: ClassVar[str] = "demographic_parity"

    def __init__(
        self,
        c: float = 0.05,
        *,
        alpha: float = 0.0,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-6,
    ) -> None:
        self.c = c
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            The features. The protected attribute should not be among them.
        y : array-like of shape (n,)
            Two labels of any kind; the second in sorted order is the positive class.
        sample_weight : array-like of shape (n,), default=None
            Weight of each row, in the loss and in the penalty. A row of weight 2 counts like two rows.
        sensitive_features : array-like of shape (n,) or (n, m), default=None
            The group of each row; several columns are crossed. Aligned with X by position. Required
            wherever there is a penalty (``eta > 0``) or a bound; never needed to predict.

        Returns
        -------
        self
            The fitted estimator.
        """
        with all_or_nothing(self):
            data = self._check_rows(X, y, sample_weight, sensitive_features)
            problem = self._problem(data)
            settings = self._settings(problem)
            solution = self._fit_without_bound(problem, settings)
            theta, self.n_iter_ = solution.theta, solution.n_iter
            forget(self, "covariance_")
            if data.groups is not None:
                A = covariance_rows(problem.X, data, self.fit_intercept)
                if np.abs(A @ theta).max() > self.c:
                    bounded = multipliers(problem, theta, A[bounded_groups(len(A))], float(self.c), settings)
                    theta, self.n_iter_ = bounded.theta, self.n_iter_ + bounded.n_iter
                    self._warn_if_not_converged(bounded, settings)
                self.covariance_ = A @ theta
            self._store_fit(theta, problem, data)
        return self

    def _warn_if_not_converged(self, bounded: Solution, settings: dict[str, Any]) -> None:
        if not bounded.converged:
            warn_user(
                f"the fit under |covariance| <= {self.c} stopped after {bounded.n_iter} iterations with a "
                f"gradient of {bounded.gradient_norm:.1e} (tol={settings['tol']:.1e}) before it had settled. "
                f"Raise max_iter (now {self.max_iter}) or tol, or standardise the features",
                ConvergenceWarning,
            )


def covariance_rows(X: Any, data: TrainingData, fit_intercept: bool) -> np.ndarray:
    """a = Σ q·x of every group (k, m): its covariance is a·θ. The intercept's entry is 0."""
    assert data.groups is not None
    share, size = group_shares(data)
    sums = segment_dot(share, data.groups.code, len(size), X)
    A = sums - size[:, None] * sums.sum(axis=0)
    return np.hstack([A, np.zeros((len(size), 1))]) if fit_intercept else A


def multipliers(
    objective: LinearObjective, theta: np.ndarray, A: np.ndarray, c: float, settings: dict[str, Any]
) -> Solution:
    """Minimise F(θ) under |Aθ| ≤ c: F + ρ/2·‖t − clip(t, ±c)‖² with t = Aθ + λ/ρ, then λ = ρ·(t − clip t).

    Rows of A are put on the scale a·M·a = 1, M the preconditioner, so that ρ means the same for all data.
    """
    M = objective.preconditioner()
    MA = precondition(M, A.T)
    scale = np.sqrt(np.einsum("jm,mj->j", A, MA))
    rows = scale > 0  # a group whose means are those of all rows has no covariance to bound
    B, MB, bound = A[rows] / scale[rows, None], MA[:, rows] / scale[rows], c / scale[rows]
    stiff = M
    if M.ndim == 2:  # the inverse of M⁻¹ + 4ρBᵀB: M stands for ¼ of the largest curvature
        stiff = M - MB @ np.linalg.solve(np.eye(len(B)) / (4 * RHO) + B @ MB, MB.T)
    multiplier, n_iter = np.zeros(len(B)), 0

    def excess(theta: np.ndarray) -> np.ndarray:
        t = B @ theta + multiplier / RHO
        return t - np.clip(t, -bound, bound)

    def augmented(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective(theta)
        over = excess(theta)
        return value + 0.5 * RHO * float(over @ over), gradient + RHO * (over @ B)

    settled = False
    for _ in range(ROUNDS):
        solution = lbfgs(augmented, theta, preconditioner=stiff, **settings)
        theta, n_iter = solution.theta, n_iter + solution.n_iter
        old, multiplier = multiplier, RHO * excess(theta)
        # no iteration: within `tol` the old multipliers are as good as the new ones
        settled = solution.n_iter == 0 or bool(np.abs(multiplier - old).max() <= RHO * SETTLED)
        if settled or solution.n_iter == settings["max_iter"]:
            break
    theta = move_inside_bound(theta, lambda at: A @ at, lambda at: A, M, c)
    return replace(solution, theta=theta, n_iter=n_iter, converged=solution.converged and settled)
