"""Zafar et al. (WWW 2017): bounds on the covariance of group and mistake, both kinds of mistake together.

Conventions
-----------
m distinct rows u of X, on unit scales and with the intercept's 1 last; θ is in their coordinates, g = Uθ. An
actual negative's mistake is min(0, −g) = −max(0, g), an actual positive's −max(0, −g). The rows of one u are
added up first: cov_FP = −Σ q₀·max(0, g) and cov_FN = −Σ q₁·max(0, −g), with q (2, k, m) of either sign.
Groups cancel within a u, so that as few terms as possible are replaced by tangents (without this, one COMPAS
split of three met c = 0.005 by shrinking), and the loss has one term per u.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from evenrisk._estimator import TrainingData, all_or_nothing, forget
from evenrisk._validation import CollapseWarning, install_hint, warn_user
from evenrisk.baselines._bounded import CovarianceBound, bounded_groups, group_shares, move_inside_bound

SPREAD_TOLERANCE = 0.01  # relative, because the last step to the bound changes the spread
SOLVER = "CLARABEL"
# A unit of slack in a bound costs τ, which grows above any gain (c is worth about 10 in log loss on COMPAS).
# If τ starts that large, the first step shrinks θ and the next ones stay in that basin: one COMPAS split at
# c = 0.005 ends at 0.6507 with the plain model's decisions, instead of 0.6462.
TAU_INI, MU, TAU_MAX = 2.0, 1.3, 1e4
MAX_SLACK = 1e-7
ROUNDING = 1e-14  # times E u²: less variance than this is rounding
MIN_BOUND = 1e-5  # bound of the steps where c is smaller: an interior-point solver needs an interior


class ZafarEO(CovarianceBound):
    """Logistic regression with −c ≤ cov(z, min(0, y'·g)) ≤ c, among negatives and among positives.

    Minimises mean log loss + alpha/2·‖w‖² under the bounds of Zafar et al. (2017b) for false-positive and
    false-negative rates: y' = ±1, z is group membership and each covariance is (1/n)·Σ (z − z̄)·min(0, y'·g)
    over the rows of one label. The protected attribute is needed for training only.

    *Norm guard.* The covariances are proportional to θ, so shrinking all weights meets any bound and leaves
    every decision as it was. Here the standard deviation of g must be at least ``min_spread`` times the plain
    model's. On COMPAS that excludes the merely shrunken plain model for c < 0.0046. It does not affect the
    best solutions known for c ≥ 0.001, which keep 0.25 or more. Where guard and bound cannot both hold, the
    bound is kept and a :class:`~evenrisk.exceptions.CollapseWarning` says so.

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
        Largest number of convex–concave steps. The plain fit before them may take twenty times as many
        iterations.
    tol : float, default=1e-6
        The plain fit stops when no entry of the gradient is larger (not below 1.2e-5 where X is float32). The
        steps stop when the objective changes by at most ten times this.

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
    convex–concave procedure starts at the plain fit and returns the local minimum it reaches. With more
    than two groups, the covariance of each group against the rest is bounded. Sparse X is made dense: each
    distinct row is two exponential cones for the solver, which limits the size long before memory does.

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
            import_cvxpy()

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
            settings["max_iter"] *= 20
            solution = self._fit_without_bound(problem, settings)
            theta, self.n_iter_, self.spread_ = solution.theta, solution.n_iter, 1.0
            forget(self, "covariance_")
            if data.groups is not None:
                mistakes = MistakeCovariances.from_rows(problem.X, data, self.fit_intercept)
                at = mistakes.to_unit_scale(theta)
                if np.abs(mistakes.covariance(at)).max() > self.c:
                    at = self._bounded(at, mistakes.for_groups(bounded_groups(len(data.groups.labels))))
                    theta = mistakes.from_unit_scale(at)
                self.covariance_ = mistakes.covariance(at).reshape(2, -1)
            self._store_fit(theta, problem, data)
        return self

    def _bounded(self, plain: np.ndarray, mistakes: MistakeCovariances) -> np.ndarray:
        """Fit under the bound and the guard, from the plain θ; without the guard where both cannot hold."""
        reference = mistakes.spread(plain)
        least = self.min_spread * reference * (1 - SPREAD_TOLERANCE)
        theta, failure = self._steps(plain, mistakes, self.min_spread * reference)
        if mistakes.spread(theta) < least:
            theta, failure = self._steps(plain, mistakes, 0.0)
        if reference > 0:  # scores that were all the same have no spread to keep
            self.spread_ = mistakes.spread(theta) / reference
        if mistakes.spread(theta) < least:
            warn_user(
                f"min_spread={self.min_spread} cannot be held together with c={self.c}: the scores' standard "
                f"deviation is {self.spread_:.2g} of the plain model's. The bound may be met by shrinking "
                "alone. Raise c or lower min_spread",
                CollapseWarning,
            )
        if failure:
            warn_user(
                f"the fit under |covariance| <= {self.c} {failure} within {self.max_iter} convex–concave "
                "steps. It was brought inside the bound but may not be a minimum. Raise max_iter, tol or c",
                ConvergenceWarning,
            )
        return theta

    def _steps(
        self, plain: np.ndarray, mistakes: MistakeCovariances, min_sd: float
    ) -> tuple[np.ndarray, str]:
        """Take the convex–concave steps, then move θ to within the bound."""
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
        theta = move_inside_bound(
            steps.theta, mistakes.covariance, mistakes.jacobian, mistakes.preconditioner(), float(self.c)
        )
        return theta, steps.failure


@dataclass(frozen=True)
class MistakeCovariances:
    """Distinct rows u, their weights for the loss, and q for the covariances of mistakes."""

    U: np.ndarray  # (m, p)
    share: np.ndarray  # (m,)
    positive: np.ndarray  # (m,) the part of `share` with y = 1
    q: np.ndarray  # (2, k, m)
    centre: np.ndarray  # (d,) of the columns of X; 0 without an intercept
    scale: np.ndarray  # (d,)

    @classmethod
    def from_rows(cls, X: Any, data: TrainingData, fit_intercept: bool) -> MistakeCovariances:
        """Merge equal x and put every column on unit scale."""
        assert data.groups is not None
        share, size = group_shares(data)
        dense = X.toarray() if sparse.issparse(X) else X
        x, row = np.unique(dense.astype(np.float64) + 0.0, axis=0, return_inverse=True)
        row, m = row.reshape(-1), len(x)
        merged = np.bincount(row, weights=share, minlength=m)
        centre, scale = _centre_and_scale(x, merged, fit_intercept)
        z = np.eye(len(size))[data.groups.code] - size
        q = [
            [np.bincount(row, weights=share * each * (data.y == label), minlength=m) for each in z.T]
            for label in (0, 1)
        ]
        U = (x - centre) / scale
        return cls(
            U=np.column_stack([U, np.ones(m)]) if fit_intercept else U,
            share=merged,
            positive=np.bincount(row, weights=share * data.y, minlength=m),
            q=np.array(q),
            centre=centre,
            scale=scale,
        )

    def for_groups(self, groups: slice) -> MistakeCovariances:
        """Keep some groups."""
        return replace(self, q=self.q[:, groups])

    def to_unit_scale(self, theta: np.ndarray) -> np.ndarray:
        """Return θ of X in the coordinates of U."""
        d = len(self.scale)
        return np.append(theta[:d] * self.scale, theta[d:] + self.centre @ theta[:d])[: self.U.shape[1]]

    def from_unit_scale(self, theta: np.ndarray) -> np.ndarray:
        """Return θ of U in the coordinates of X."""
        w = theta[: len(self.scale)] / self.scale
        return np.append(w, theta[len(w) :] - self.centre @ w)[: len(theta)]

    def covariance(self, theta: np.ndarray) -> np.ndarray:
        """−Σ q·max(0, ±g) (2k,): false positives of every group, then false negatives."""
        g = self.U @ theta
        return np.concatenate([-self.q[0] @ np.maximum(g, 0), -self.q[1] @ np.maximum(-g, 0)])

    def jacobian(self, theta: np.ndarray) -> np.ndarray:
        """Its derivative (2k, p)."""
        g = self.U @ theta
        return np.concatenate([-(self.q[0] * (g > 0)) @ self.U, (self.q[1] * (g < 0)) @ self.U])

    def spread_matrix(self) -> np.ndarray:
        """R (d, d) with sd(g) = ‖Rw‖, w in the coordinates of U."""
        U = self.U[:, : len(self.scale)]
        least = ROUNDING * float(self.share @ (U * U).sum(axis=1))
        U = U - self.share @ U
        values, vectors = np.linalg.eigh((U * self.share[:, None]).T @ U)
        return np.sqrt(np.where(values > least, values, 0.0))[:, None] * vectors.T

    def spread(self, theta: np.ndarray) -> float:
        """sd(g), weighted."""
        return float(np.linalg.norm(self.spread_matrix() @ theta[: len(self.scale)]))

    def preconditioner(self) -> np.ndarray:
        """Inverse of E uuᵀ (p, p)."""
        return np.linalg.pinv((self.U * self.share[:, None]).T @ self.U, hermitian=True)


class ConvexConcave(NamedTuple):
    """Where the convex–concave steps ended."""

    theta: np.ndarray
    n_iter: int
    failure: str  # empty where they converged


def import_cvxpy() -> tuple[Any, Any, Any, Any]:
    """Import cvxpy and dccp, or explain how to install them."""
    try:
        import cvxpy
        from dccp.problem import DCCP
        from dccp.utils import DCCPSettings, NonDCCPError
    except ImportError as error:
        hint = install_hint("paper", "cvxpy", "dccp")
        raise ImportError(f"ZafarEO with a finite c needs cvxpy and dccp: {hint}") from error
    return cvxpy, DCCP, DCCPSettings, NonDCCPError


def convex_concave(
    mistakes: MistakeCovariances,
    start: np.ndarray,
    *,
    c: float,
    min_sd: float,
    alpha: float,
    max_iter: int,
    change: float,
) -> ConvexConcave:
    """Minimise log loss + α/2‖w‖² under |covariance| ≤ c and sd(g) ≥ min_sd, from `start`.

    In each step dccp replaces the convex function on the wrong side by its tangent, and cvxpy solves.
    """
    cp, DCCP, DCCPSettings, NonDCCPError = import_cvxpy()
    theta = cp.Variable(len(start), value=start)
    problem = _problem(cp, theta, mistakes, max(c, MIN_BOUND), min_sd, alpha)
    settings = DCCPSettings(
        max_iter=max_iter - 1,  # dccp does one more
        tau_ini=TAU_INI,
        mu=MU,
        tau_max=TAU_MAX,
        max_slack=MAX_SLACK,
        ep=change,
    )
    steps = 1
    with warnings.catch_warnings():  # "may be inaccurate" and the like: the caller checks the result
        warnings.simplefilter("ignore")
        try:
            if problem.is_dcp():  # no row's q has the other sign
                problem.solve(solver=SOLVER)
            else:
                procedure = DCCP(problem, settings=settings, solver=SOLVER)
                procedure()
                steps = procedure.iter.k
            failure = "" if problem.status == "optimal" else "had not settled"
        except (cp.error.SolverError, NonDCCPError) as error:  # θ still has the value of the step before
            failure = f"ended in a failure ({error})"
    return ConvexConcave(start if theta.value is None else theta.value, steps, failure)


def _problem(cp: Any, theta: Any, mistakes: MistakeCovariances, c: float, min_sd: float, alpha: float) -> Any:
    """State the problem for cvxpy, every constraint as convex ≤ convex."""
    g = mistakes.U @ theta
    w = theta[: len(mistakes.scale)]
    loss = mistakes.share @ cp.logistic(g) - (mistakes.positive @ mistakes.U) @ theta
    if alpha > 0:
        loss += 0.5 * alpha * cp.sum_squares(cp.multiply(1 / mistakes.scale, w))
    size, constraints = cp.abs(g), []
    for q, sign in zip(mistakes.q, (1, -1), strict=True):
        for each in 0.5 * q:
            # max(0, ±g) = ½|g| ± ½g; with ½g on the left no tangent is 0, which dccp 1.1 cannot handle
            plus, minus, linear = np.maximum(each, 0), np.maximum(-each, 0), sign * (each @ mistakes.U)
            constraints += [
                plus @ size + linear @ theta <= c + minus @ size,
                minus @ size - linear @ theta <= c + plus @ size,
            ]
    if min_sd > 0:
        constraints.append(min_sd <= cp.norm(mistakes.spread_matrix() @ w, 2))
    return cp.Problem(cp.Minimize(loss), constraints)


def _centre_and_scale(x: np.ndarray, share: np.ndarray, fit_intercept: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return centre and scale of every column; 1 where it does not vary."""
    centre = share @ x * float(fit_intercept)
    scale = np.sqrt(share @ (x - centre) ** 2)
    return centre, np.where(scale > 1e-12 * np.abs(x).max(axis=0), scale, 1.0)
