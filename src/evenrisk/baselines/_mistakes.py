"""The covariances of groups with mistakes, and the convex–concave procedure that bounds them.

Conventions
-----------
m distinct rows u of X, on unit scales and with the intercept's 1 last; θ is in their coordinates, g = Uθ. An
actual negative's mistake is min(0, −g) = −max(0, g), an actual positive's −max(0, −g). The rows of one u are
added up first: cov_FP = −Σ q₀·max(0, g) and cov_FN = −Σ q₁·max(0, −g), with q (2, k, m) of either sign.
Groups cancel within a u, so that as little as possible is left to tangents (without this, one COMPAS split of
three met c = 0.005 by shrinking), and the loss has one term per u.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from evenrisk._estimator import TrainingData
from evenrisk._validation import install_hint
from evenrisk.baselines._bounded import group_shares

SOLVER = "CLARABEL"
# A unit of slack in a bound costs τ, which grows above any gain (c is worth about 10 in log loss on COMPAS).
# Where it begins there, the first step shrinks θ and the next ones stay in that basin: one COMPAS split at
# c = 0.005 ends at 0.6507 with the plain model's decisions, instead of 0.6462.
TAU_INI, MU, TAU_MAX = 2.0, 1.3, 1e4
MAX_SLACK = 1e-7
ROUNDING = 1e-14  # of E u²: a direction with less variance has none
THINNEST = 1e-5  # bound of the steps where c is smaller: an interior-point solver needs an interior


@dataclass(frozen=True)
class Mistakes:
    """Distinct rows, what the loss needs of them, and q."""

    U: np.ndarray  # (m, p)
    share: np.ndarray  # (m,)
    positive: np.ndarray  # (m,) the part of it with y = 1
    q: np.ndarray  # (2, k, m)
    centre: np.ndarray  # (d,) of the columns of X; 0 without an intercept
    scale: np.ndarray  # (d,)

    @classmethod
    def of(cls, data: TrainingData, fit_intercept: bool) -> Mistakes:
        """Merge equal x and put every column on unit scale."""
        assert data.groups is not None
        share, size = group_shares(data)
        dense = data.X.toarray() if sparse.issparse(data.X) else data.X
        x, row = np.unique(dense.astype(np.float64) + 0.0, axis=0, return_inverse=True)
        row, m = row.reshape(-1), len(x)
        merged = np.bincount(row, weights=share, minlength=m)
        centre, scale = _unit(x, merged, fit_intercept)
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

    def among(self, groups: slice) -> Mistakes:
        """Keep some groups."""
        return replace(self, q=self.q[:, groups])

    def into(self, theta: np.ndarray) -> np.ndarray:
        """Give θ of X in the coordinates of U."""
        d = len(self.scale)
        return np.append(theta[:d] * self.scale, theta[d:] + self.centre @ theta[:d])[: self.U.shape[1]]

    def back(self, theta: np.ndarray) -> np.ndarray:
        """Give θ of U in the coordinates of X."""
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

    def root(self) -> np.ndarray:
        """R (d, d) with sd(g) = ‖Rw‖, w in the coordinates of U."""
        U = self.U[:, : len(self.scale)]
        least = ROUNDING * float(self.share @ (U * U).sum(axis=1))
        U = U - self.share @ U
        values, vectors = np.linalg.eigh((U * self.share[:, None]).T @ U)
        return np.sqrt(np.where(values > least, values, 0.0))[:, None] * vectors.T

    def spread(self, theta: np.ndarray) -> float:
        """sd(g), weighted."""
        return float(np.linalg.norm(self.root() @ theta[: len(self.scale)]))

    def metric(self) -> np.ndarray:
        """Inverse of E uuᵀ (p, p)."""
        return np.linalg.pinv((self.U * self.share[:, None]).T @ self.U, hermitian=True)


class Steps(NamedTuple):
    """Where the convex–concave steps ended."""

    theta: np.ndarray
    n_iter: int
    failure: str  # nothing where they converged


def solvers() -> tuple[Any, Any, Any, Any]:
    """Import cvxpy and dccp, or say how to get them."""
    try:
        import cvxpy
        from dccp.problem import DCCP
        from dccp.utils import DCCPSettings, NonDCCPError
    except ImportError as error:
        hint = install_hint("paper", "cvxpy", "dccp")
        raise ImportError(f"ZafarEO with a finite c needs cvxpy and dccp: {hint}") from error
    return cvxpy, DCCP, DCCPSettings, NonDCCPError


def convex_concave(
    mistakes: Mistakes,
    start: np.ndarray,
    *,
    c: float,
    min_sd: float,
    alpha: float,
    max_iter: int,
    change: float,
) -> Steps:
    """Minimise log loss + α/2‖w‖² under |covariance| ≤ c and sd(g) ≥ min_sd, from `start`.

    In each step dccp replaces the convex side that is on the wrong side by its tangent, and cvxpy solves.
    """
    cp, DCCP, DCCPSettings, NonDCCPError = solvers()
    theta = cp.Variable(len(start), value=start)
    problem = _problem(cp, theta, mistakes, max(c, THINNEST), min_sd, alpha)
    settings = DCCPSettings(
        max_iter=max_iter - 1,  # dccp does one more
        tau_ini=TAU_INI,
        mu=MU,
        tau_max=TAU_MAX,
        max_slack=MAX_SLACK,
        ep=change,
    )
    steps = 1
    with warnings.catch_warnings():  # "may be inaccurate" and the like: the caller measures what came
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
    return Steps(start if theta.value is None else theta.value, steps, failure)


def _problem(cp: Any, theta: Any, mistakes: Mistakes, c: float, min_sd: float, alpha: float) -> Any:
    """State the problem for cvxpy, every constraint as convex ≤ convex."""
    g = mistakes.U @ theta
    w = theta[: len(mistakes.scale)]
    loss = mistakes.share @ cp.logistic(g) - (mistakes.positive @ mistakes.U) @ theta
    if alpha > 0:
        loss += 0.5 * alpha * cp.sum_squares(cp.multiply(1 / mistakes.scale, w))
    size, constraints = cp.abs(g), []
    for q, sign in zip(mistakes.q, (1, -1), strict=True):
        for each in 0.5 * q:
            # max(0, ±g) = ½|g| ± ½g; with ½g on the left no tangent is 0, over which dccp 1.1 stumbles
            plus, minus, linear = np.maximum(each, 0), np.maximum(-each, 0), sign * (each @ mistakes.U)
            constraints += [
                plus @ size + linear @ theta <= c + minus @ size,
                minus @ size - linear @ theta <= c + plus @ size,
            ]
    if min_sd > 0:
        constraints.append(min_sd <= cp.norm(mistakes.root() @ w, 2))
    return cp.Problem(cp.Minimize(loss), constraints)


def _unit(x: np.ndarray, share: np.ndarray, fit_intercept: bool) -> tuple[np.ndarray, np.ndarray]:
    """Give centre and scale of every column; 1 where it does not vary."""
    centre = share @ x * float(fit_intercept)
    scale = np.sqrt(share @ (x - centre) ** 2)
    return centre, np.where(scale > 1e-12 * np.abs(x).max(axis=0), scale, 1.0)
