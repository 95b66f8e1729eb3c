"""The path over η: from the unpenalised fit upwards, each point starting where the last one ended.

Why a path. GA is singular where all scores tie, and no distance has a gradient there, so no fit may start at
w = 0 with the penalty on. And the objective is not convex for η > 0: the path stays in the minimum that is
connected with the unpenalised fit.

Which points. Those asked for, and some of 0.01, 0.0316, 0.1, … in between where the next step would be too
large. These are fixed numbers, so that two fits share all of them below both. They are solved roughly, and by
the solver "auto" whatever the user chose, so that all solvers begin at the same point. Where there are many
rows, a sample of them is enough for that, η = 0 included. Each η asked for is then solved on all rows.

Which solver. "auto" is Newton's method where a penalty is on and its matrices are small, else L-BFGS. A hinge
has kinks and goes to `HingeSolver`. Newton's matrices are kept along the path: see `CurvatureCache`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from evenrisk._estimator._hinge import HingeSolver
from evenrisk._kernels import one_blas_thread
from evenrisk._validation import warn_user
from evenrisk.objective import LinearObjective
from evenrisk.solvers import RENEW, Solution, lbfgs, momentum, newton

SOLVERS = ("auto", "lbfgs", "newton", "momentum")
FEW_FEATURES, FEW_PAIRS = 256, 50  # up to which "auto" forms curvature matrices
DAMPING = 1e-5  # times a column's variance: least curvature along the column
INTERMEDIATE_TOL = 1e-3  # gradient tolerance at an η that was not asked for: enough to stay in the basin
FIRST_ETA, ETA_RATIO = 0.01, 10**0.5
MAX_RATIO = 4.0  # of two η with none needed between them, a little above ETA_RATIO


class SolverSettings(NamedTuple):
    """The parameters of an estimator that concern the solver."""

    solver: str
    tol: float
    max_iter: int
    verbose: int


class PathPoint(NamedTuple):
    """A point of the path: η, its solution, and the iterations spent since the point before."""

    eta: float
    solution: Solution
    n_iter: int
    plain: np.ndarray | None = None  # θ at η = 0, where the path began there


def eta_path(
    problem: LinearObjective,
    etas: Sequence[float],
    settings: SolverSettings,
    start: np.ndarray | None = None,
    start_eta: float | None = None,
) -> Iterator[PathPoint]:
    """Yield the minimum at each η, in ascending order, from the η = 0 fit or from `start`.

    With `start_eta`, the η of `start`, the steps from there are no larger than from 0; without, the first
    goes straight to the first η.
    """
    tol = max(settings.tol, 100 * problem.eps)  # float32 has no finer gradient
    rough_tol = max(tol, INTERMEDIATE_TOL)
    minimise = _minimiser(problem, settings, 50 * problem.eps)
    nothing = np.zeros(problem.n_parameters)
    if start is not None and not start[: problem.n_features].any():
        start = None  # no distance has a gradient at w = 0
    theta, first, n_iter = nothing if start is None else start, None, 0
    asked = set(etas)
    if start is None:
        steps = [0.0, *_steps(asked - {0.0}, 0.0)]
    else:
        steps = sorted(asked) if start_eta is None else _steps(asked, start_eta)
    few = None if start is not None and asked.issuperset(steps) else problem.sample()
    rough = problem if few is None else few
    minimise_rough = minimise if few is None else _minimiser(few, settings, 50 * few.eps)
    for eta in steps:
        if eta not in asked or (eta == 0 and few is not None and start is None):
            solution = minimise_rough(rough.with_eta(eta), theta, rough_tol, "auto")
            theta, n_iter = solution.theta, n_iter + solution.n_iter
        if eta in asked:
            here = problem.with_eta(eta)
            solution = minimise(here, theta, tol, settings.solver)
            n_iter += solution.n_iter
            if first is not None and solution.value > here(nothing)[0]:
                # worse than θ = 0: the path has stayed in a basin that it should have left
                solvers = ("momentum",) if settings.solver == "momentum" else ("lbfgs", "newton")
                others = [minimise(here, first, tol, solver) for solver in solvers]
                n_iter += sum(other.n_iter for other in others)
                solution = min(solution, *others, key=lambda each: each.value)
            theta = solution.theta
        first = theta if first is None else first
        if eta in asked:
            _warn_if_not_converged(solution, eta, tol, settings.max_iter)
            yield PathPoint(eta, solution, n_iter, first if start is None else None)
            n_iter = 0


def intermediate_etas(eta: float) -> list[float]:
    """Return those of 0.01, 0.0316, 0.1, … that are below η."""
    found: list[float] = []
    while FIRST_ETA * ETA_RATIO ** len(found) < eta * (1 - 1e-9):
        found.append(FIRST_ETA * ETA_RATIO ** len(found))
    return found


def _steps(asked: set[float], below: float) -> list[float]:
    """Return the η asked for, all at least `below`, and others between where a step would be too large."""
    steps: list[float] = []
    for eta in sorted(asked):
        if eta > MAX_RATIO * below:
            steps += [each for each in intermediate_etas(eta) if each > below * (1 + 1e-9)]
        steps.append(eta)
        below = eta
    return steps


def _minimiser(
    problem: LinearObjective, settings: SolverSettings, noise: float
) -> Callable[[LinearObjective, np.ndarray, float, str], Solution]:
    """Return the function that solves one point: (problem, start, tol, solver) → solution."""
    max_iter, verbose = settings.max_iter, settings.verbose
    kinked = problem.scores.loss.kinked
    hinge = HingeSolver(noise, verbose)
    preconditioner = cache(problem.preconditioner)  # reads all rows: computed only where it is used
    cheap, curvature = newton_is_cheap(problem), CurvatureCache(problem)

    def minimise(here: LinearObjective, theta: np.ndarray, tol: float, solver: str) -> Solution:
        # all of it, small matrices too: BLAS's threads would wait for more where ours want to work
        with one_blas_thread(here.scores.in_parts):
            return solve(here, theta, tol, solver)

    def solve(here: LinearObjective, theta: np.ndarray, tol: float, solver: str) -> Solution:
        if verbose:
            print(f"eta {here.scores.eta:g}", file=sys.stderr)
        if solver == "momentum":
            found = momentum(here, theta, tol=tol, max_iter=max_iter, verbose=verbose)
            # the subgradient does not vanish at a kink: momentum takes all its steps, and that is no failure
            return replace(found, converged=True) if kinked else found
        if kinked:
            return hinge(here, theta, tol=tol, max_iter=max_iter)
        common: dict[str, Any] = {"tol": tol, "noise": noise, "verbose": verbose}
        before = 0
        if solver == "newton" or (solver == "auto" and cheap and here.scores.eta > 0):
            found = curvature.minimise(here, theta, max_iter=max_iter, **common)
            if found.converged or found.n_iter >= max_iter:
                return found
            theta, before = found.theta, found.n_iter  # Newton's method found no step: continue with L-BFGS
        found = lbfgs(here, theta, preconditioner=preconditioner(), max_iter=max_iter - before, **common)
        return replace(found, n_iter=found.n_iter + before)

    return minimise


class CurvatureCache:
    """Curvature matrices along a path: loss part + 2η·JᵀJ, both parts kept from one η to the next.

    A matrix costs as much as several gradients, and a point of the path starts where the last one ended. So
    the matrix for the next η is made from the parts computed for the last one, and the rows are not read.

    Rows far out on the sigmoid have hardly any curvature. A rare column may have no other rows, and Newton's
    step along it would be unbounded. So every column keeps a small share of its variance as `damping`.
    """

    def __init__(self, problem: LinearObjective) -> None:
        self.problem = problem
        self.parts: tuple[np.ndarray, np.ndarray] | None = None
        self.n_iter_since = 0  # iterations since the parts were computed
        self.last_theta: np.ndarray | None = None  # where the last point ended
        self._reuse_next = False  # whether the next matrix may be made from the kept parts

    @cached_property
    def damping(self) -> np.ndarray:
        """The diagonal matrix that is added to every matrix (m, m)."""
        damping = np.zeros(self.problem.n_parameters)
        damping[: self.problem.n_features] = DAMPING * self.problem.variances
        return np.diag(damping)

    def minimise(self, problem: LinearObjective, theta: np.ndarray, **settings: Any) -> Solution:
        """Run Newton's method from θ; its first matrix may be the kept one."""
        here = self.last_theta is not None and np.array_equal(theta, self.last_theta)
        self._reuse_next = here and self.n_iter_since < RENEW
        solution = newton(problem, theta, curvature=lambda at: self._matrix(problem, at), **settings)
        self.n_iter_since += solution.n_iter
        self.last_theta = solution.theta
        return solution

    def _matrix(self, problem: LinearObjective, theta: np.ndarray) -> np.ndarray:
        if self.parts is None or not self._reuse_next or not self.parts[1].any():
            self.parts, self.n_iter_since = problem.curvature_parts(theta), 0
        self._reuse_next = False  # a second call at the same point asks for the matrix at another θ
        loss_part, gram = self.parts
        return loss_part + 2 * problem.scores.eta * gram + self.damping


def newton_is_cheap(problem: LinearObjective) -> bool:
    """Whether forming the curvature costs little beside the steps it saves: few features, few pairs."""
    penalty = problem.scores.penalty
    pairs = 0 if penalty is None else len(penalty.cells.pairs)
    return problem.n_features <= FEW_FEATURES and pairs <= FEW_PAIRS


def _warn_if_not_converged(solution: Solution, eta: float, tol: float, max_iter: int) -> None:
    if not solution.converged:
        steep = solution.gradient_norm > tol
        where = f"a gradient of {solution.gradient_norm:.1e}, above" if steep else "the hinge not within"
        warn_user(
            f"the solver stopped after {solution.n_iter} iterations at eta={eta:g} with {where} "
            f"tol={tol:.1e}. Raise max_iter (now {max_iter}) or tol, or standardise the features",
            ConvergenceWarning,
        )
