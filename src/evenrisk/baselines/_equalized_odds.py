"""Zafar et al. (WWW 2017): bounds on the covariance of group and mistake, both kinds of mistake together."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from evenrisk._estimator import TrainingData
from evenrisk._validation import CollapseWarning, tell
from evenrisk.baselines._bounded import CovarianceBound, independent, inside
from evenrisk.baselines._mistakes import Mistakes, convex_concave, solvers

HELD = 0.01  # relative: a spread this little under the guard's is on it; the last step to the bound moves it


class ZafarEO(CovarianceBound):
    """Logistic regression with −c ≤ cov(z, min(0, y'·g)) ≤ c, among negatives and among positives.

    Minimises mean log loss + alpha/2·‖w‖² under the bounds of Zafar et al. (2017b) for false-positive and
    false-negative rates: y' = ±1, z is group membership and each covariance is (1/n)·Σ (z − z̄)·min(0, y'·g)
    over the rows of one label. The protected attribute is needed for training only.

    *Norm guard.* The covariances are proportional to θ, so shrinking all weights meets any bound and leaves
    every decision as it was. Here the standard deviation of g stays at ``min_spread`` of the plain model's at
    least. On COMPAS that rules out the merely shrunken plain model for c < 0.0046, and leaves the best
    solutions known for c ≥ 0.001 alone, which keep 0.25 or more. Where the guard cannot be held together with
    the bound, the bound wins and a :class:`~evenrisk.exceptions.CollapseWarning` says so.

    Parameters
    ----------
    c : float, default=0.005
        Largest absolute covariance on the training data. ``np.inf`` is plain logistic regression and needs
        no ``sensitive_features``. On the shipped COMPAS data the plain model has covariances of 0.011 and
        0.018.
    min_spread : float, default=0.25
        The norm guard, from 0 (off: the published problem) to 1.
    alpha : float, default=0.0
        Weight of the ridge term, not applied to the intercept; ``C = 1/(alpha·n)`` in scikit-learn.
    fit_intercept : bool, default=True
        Whether to fit b in g = Xw + b.
    max_iter : int, default=50
        Most convex–concave steps. The plain fit they start from may take twenty times as many iterations.
    tol : float, default=1e-6
        The plain fit stops when no entry of the gradient is larger (1.2e-5 at the least where X is
        float32); the steps stop when the objective changes by ten times as much at most.

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
    covariance_ : ndarray of shape (2, k)
        The covariance of each group with false positives (first row) and false negatives on the training
        data, where groups were given.
    spread_ : float
        Standard deviation of g on the training data as a share of the plain model's.
    objective_ : float
        The objective at the solution.
    n_iter_ : int
        Iterations of the plain fit and convex–concave steps.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (d,)
        Column names of X, where it had any.

    See Also
    --------
    ZafarDP : The same for demographic parity; convex, and faster.
    evenrisk.FairLogisticRegression : Scores that are fair at every threshold.

    Notes
    -----
    A finite c needs cvxpy and dccp: ``pip install cvxpy dccp``. The problem is not convex; the
    convex–concave procedure starts at the plain fit and returns the local minimum it comes to. With more
    than two groups each is bounded against the rest. Sparse X is made dense: each distinct row is two
    exponential cones to the solver, which ends the matter long before memory does.

    References
    ----------
    M. B. Zafar, I. Valera, M. Gomez Rodriguez, K. P. Gummadi. Fairness beyond disparate treatment and
    disparate impact: learning classification without disparate mistreatment. WWW 2017.
    """

    _rule: ClassVar[str] = "equalized_odds"

    def __init__(
        self,
        c: float = 0.005,
        *,
        min_spread: float = 0.25,
        alpha: float = 0.0,
        fit_intercept: bool = True,
        max_iter: int = 50,
        tol: float = 1e-6,
    ) -> None:
        self.c = c
        self.min_spread = min_spread
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol

    def _check_parameters(self) -> None:
        super()._check_parameters()
        value = self.min_spread
        good = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
        if not (good and 0 <= value <= 1):
            raise ValueError(f"`min_spread` must be a number from 0 to 1, got {value!r}")
        if np.isfinite(self.c):
            solvers()

    def _fit(self, data: TrainingData) -> None:
        objective, settings = self._objective(data), self._settings(data)
        settings["max_iter"] *= 20
        solution = self._plain(objective, settings)
        theta, self.n_iter_ = solution.theta, solution.n_iter
        self.spread_ = 1.0
        self.__dict__.pop("covariance_", None)
        if data.groups is not None:
            mistakes = Mistakes.of(data, self.fit_intercept)
            at = mistakes.into(theta)
            if np.abs(mistakes.covariance(at)).max() > self.c:
                at = self._bounded(at, mistakes.among(independent(len(data.groups.labels))))
                theta = mistakes.back(at)
            self.covariance_ = mistakes.covariance(at).reshape(2, -1)
        self._keep(theta, objective, data)

    def _bounded(self, plain: np.ndarray, mistakes: Mistakes) -> np.ndarray:
        """Fit under the bound and the guard, from the plain θ; without the guard where it cannot be held."""
        reference = mistakes.spread(plain)
        least = self.min_spread * reference * (1 - HELD)
        theta, failure = self._steps(plain, mistakes, self.min_spread * reference)
        if mistakes.spread(theta) < least:
            theta, failure = self._steps(plain, mistakes, 0.0)
        if reference > 0:  # scores that were all the same have no spread to keep
            self.spread_ = mistakes.spread(theta) / reference
        if mistakes.spread(theta) < least:
            tell(
                f"min_spread={self.min_spread} cannot be held together with c={self.c}: the scores' standard "
                f"deviation is {self.spread_:.2g} of the plain model's. The bound may be met by shrinking "
                "alone. Raise c or lower min_spread",
                CollapseWarning,
            )
        if failure:
            tell(
                f"the fit under |covariance| <= {self.c} {failure} within {self.max_iter} convex–concave "
                "steps. It was brought inside the bound but may not be a minimum. Raise max_iter, tol or c",
                ConvergenceWarning,
            )
        return theta

    def _steps(self, plain: np.ndarray, mistakes: Mistakes, min_sd: float) -> tuple[np.ndarray, str]:
        """Take the convex–concave steps, and the last one inside the bound."""
        steps = convex_concave(
            mistakes,
            plain,
            c=float(self.c),
            min_sd=min_sd,
            alpha=self.alpha,
            max_iter=int(self.max_iter),
            change=10 * self.tol,
        )
        self.n_iter_ += steps.n_iter
        theta = inside(steps.theta, mistakes.covariance, mistakes.jacobian, mistakes.metric(), float(self.c))
        return theta, steps.failure
