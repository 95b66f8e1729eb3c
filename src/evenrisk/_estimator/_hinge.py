"""The hinge by the method of multipliers: a few smooth problems whose minima converge to that of the hinge.

The hinge has no curvature and a kink at every margin, where gradient methods stall. `SmoothedHinge` lies
below it. Each round minimises with it, sets the multipliers to the slopes found and lowers μ. Where the
objective is convex, the smoothed minimum is a lower bound of the hinge's, so the difference of the two values
bounds the remaining error. The rounds end when it is below `tol` of the value.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from evenrisk._xp import Array, as_array, namespace, to_numpy
from evenrisk.losses import HINGE, SmoothedHinge
from evenrisk.objective import LinearObjective
from evenrisk.solvers import Solution, lbfgs, newton

FIRST_MU, NEXT_MU = 0.1, 0.03  # for a fresh start, and for a start with multipliers
SHRINK, LEAST_MU = 1 / 3, 1e-5  # shrinking faster moves too many kinks at once
ROUND_TOL = 1e-3  # times μ: gradient tolerance of a round, where above `tol`
CHECK_EVERY = 50  # iterations between two checks whether the value still falls
FLOOR = 1e-3  # times E x²: added to the curvature, which may be 0 in loss and penalty
FULL_CURVATURE = 1024  # parameters up to which the curvature matrix is formed
ROUNDS = 40
SMALL_RANGE = 1e-3  # range of the raw scores below which a constant score is tried instead


@dataclass
class HingeSolver:
    """Minimises an objective with the hinge; remembers the multipliers from one η to the next."""

    noise: float
    verbose: int = 0
    multipliers: Array | None = field(default=None, init=False)

    def __call__(
        self, objective: LinearObjective, theta: np.ndarray, *, tol: float, max_iter: int
    ) -> Solution:
        """Return the minimum; its value is the hinge objective's."""
        scores = objective.scores
        fresh = self.multipliers is None
        if not fresh and not theta[: objective.n_features].any():
            return _constant(objective)  # it was the minimum at a smaller η
        a = self.multipliers
        if a is None:
            a = as_array(np.full(len(scores.y), 0.5), scores.weight, dtype=namespace(scores.weight).float64)
        mu, n_iter = FIRST_MU if fresh else NEXT_MU, 0
        for left in reversed(range(ROUNDS)):
            smooth = objective.with_loss(SmoothedHinge(mu, a))
            round_tol = max(tol, ROUND_TOL * mu)
            found = self._minimise(smooth, theta, round_tol, tol, max_iter - n_iter)
            theta, n_iter = found.theta, n_iter + found.n_iter
            a = SmoothedHinge(mu, a).slope(scores.y, objective.raw_scores(theta))
            value = objective.with_loss(HINGE)(theta)[0]
            close = value - found.value <= tol * abs(value)
            # above `round_tol` it has converged by rounding or by idling: another round would not help
            done = close and (found.gradient_norm <= tol or found.gradient_norm > round_tol)
            if done or not found.converged or not left or n_iter >= max_iter:
                break
            mu = max(mu * SHRINK, LEAST_MU)
        self.multipliers = a
        found = replace(found, value=value, n_iter=n_iter, converged=done and found.converged)
        if np.ptp(to_numpy(objective.raw_scores(theta))) > SMALL_RANGE:
            return found
        return min(found, replace(_constant(objective), n_iter=n_iter), key=lambda each: each.value)

    def _minimise(
        self, smooth: LinearObjective, theta: np.ndarray, round_tol: float, tol: float, max_iter: int
    ) -> Solution:
        """Run the solver `CHECK_EVERY` iterations at a time until the value hardly falls.

        The gradient alone is no stopping rule: where GA pulls the weights to 0, it grows without bound.
        """
        n_iter, before = 0, smooth(theta)[0]
        while True:
            solution = self._iterate(smooth, theta, round_tol, max(min(CHECK_EVERY, max_iter - n_iter), 1))
            n_iter += solution.n_iter
            stuck = solution.n_iter == 0
            idle = solution.n_iter == CHECK_EVERY and before - solution.value <= tol * abs(solution.value)
            if solution.converged or idle or stuck or n_iter >= max_iter:
                return replace(solution, n_iter=n_iter, converged=solution.converged or idle)
            theta, before = solution.theta, solution.value

    def _iterate(self, smooth: LinearObjective, theta: np.ndarray, tol: float, max_iter: int) -> Solution:
        """Run Newton's method; with many parameters L-BFGS, which is slow at kinks but needs no matrix."""
        common: dict[str, Any] = {
            "tol": tol,
            "max_iter": max_iter,
            "noise": self.noise,
            "verbose": self.verbose,
        }
        if len(theta) > FULL_CURVATURE:
            return lbfgs(smooth, theta, preconditioner=smooth.preconditioner(), **common)
        floor = FLOOR * smooth.mean_square()
        floor = np.diag(np.where(floor > 0, floor, 1.0))
        return newton(
            smooth, theta, curvature=lambda at: smooth.curvature(at) + floor, renew=CHECK_EVERY, **common
        )


def _constant(objective: LinearObjective) -> Solution:
    """Return w = 0 and the best constant score, ±1 as the majority. All scores are equal, so E_f = 0."""
    scores = objective.scores
    theta = np.zeros(objective.n_parameters)
    if objective.fit_intercept:
        theta[-1] = np.sign(2 * float((scores.weight * scores.y).sum()) / scores.total - 1)
    return Solution(theta, objective.with_eta(0.0)(theta)[0], 0.0, 0, True)


def constant_is_least(objective: LinearObjective, plain: np.ndarray) -> bool:
    """Whether θ = `plain`, found without a penalty, is no better than one score for all.

    This happens where one label is rare: violating all of its margins costs less than any slope.
    """
    return objective.with_eta(0.0)(plain)[0] >= _constant(objective).value
