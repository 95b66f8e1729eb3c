"""The warm path over η, to the solver's end or to a warning."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from evenrisk._estimator._hinge import HingeSolver
from evenrisk._validation import tell
from evenrisk.losses import HINGE
from evenrisk.objective import LinearObjective
from evenrisk.solvers import RENEW, WIDE, Solution, ladder, lbfgs, momentum, newton

SOLVERS = ("auto", "lbfgs", "newton", "momentum")
FEW_FEATURES, FEW_PAIRS = 256, 50  # up to which "auto" forms curvature matrices
DAMPING = 1e-5  # of the curvature that a column's spread would give it
ON_THE_WAY = 1e-3  # points that nobody asked for are solved to this gradient: enough to stay in the basin


class Settings(NamedTuple):
    """What the user may say about the solver."""

    solver: str
    tol: float
    max_iter: int
    verbose: int


class Point(NamedTuple):
    """A point of the path: η, its solution, and the iterations spent since the point before."""

    eta: float
    solution: Solution
    n_iter: int
    plain: np.ndarray | None = None  # θ at η = 0, where the path began there


def walk(
    objective: LinearObjective, start: np.ndarray | None, etas: Sequence[float], settings: Settings
) -> Iterator[Point]:
    """Yield the minimum at each η, walking upwards from the η = 0 fit unless a start is given.

    The way there is "auto" whatever the solver, so that all solvers begin at the same point.
    """
    eps = float(np.finfo(objective.X.dtype).eps)
    tol = max(settings.tol, 100 * eps)  # float32 has no finer gradient
    minimise = _minimiser(objective, settings, 50 * eps)
    nothing = np.zeros(objective.n_features + objective.fit_intercept)
    if start is not None and not start[: objective.n_features].any():
        start = None  # every distance is blind at w = 0
    theta, first, n_iter = nothing if start is None else start, None, 0
    wanted = set(etas)
    for eta in _steps(wanted) if start is None else sorted(wanted):
        here = objective.with_eta(eta)
        exact = tol if eta in wanted else max(tol, ON_THE_WAY)
        last = settings.solver if eta in wanted else "auto"
        solution = minimise(here, theta, exact, last)
        n_iter += solution.n_iter
        if eta in wanted and first is not None and solution.value > here(nothing)[0]:
            # worse than having learned nothing: the path followed a basin that should have been left
            solvers = ("momentum",) if last == "momentum" else ("lbfgs", "newton")
            others = [minimise(here, first, exact, solver) for solver in solvers]
            n_iter += sum(other.n_iter for other in others)
            solution = min(solution, *others, key=lambda each: each.value)
        theta = solution.theta
        first = theta if first is None else first
        if eta in wanted:
            _say_if_not_converged(solution, eta, tol, settings.max_iter)
            yield Point(eta, solution, n_iter, first if start is None else None)
            n_iter = 0


def _steps(wanted: set[float]) -> list[float]:
    """Give 0, then the wanted η, with rungs of the ladder where the next step would be too wide."""
    steps, below = [0.0], 0.0
    for eta in sorted(wanted - {0.0}):
        if eta > WIDE * below:
            steps += [rung for rung in ladder(eta) if rung > below]
        steps.append(eta)
        below = eta
    return steps


def _minimiser(
    objective: LinearObjective, settings: Settings, noise: float
) -> Callable[[LinearObjective, np.ndarray, float, str], Solution]:
    """Give what solves one point: (objective, start, tol, solver) → solution."""
    max_iter, verbose = settings.max_iter, settings.verbose
    kinked = objective.scores.loss is HINGE
    hinge = HingeSolver(noise, verbose)
    metric = cache(objective.metric)  # a look at all rows: only where it is used
    pays, kept = newton_pays(objective), KeptCurvature(objective)

    def minimise(here: LinearObjective, theta: np.ndarray, tol: float, solver: str) -> Solution:
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
        if solver == "newton" or (solver == "auto" and pays and here.scores.eta > 0):
            found = kept.minimise(here, theta, max_iter=max_iter, **common)
            if found.converged or found.n_iter >= max_iter:
                return found
            theta, before = found.theta, found.n_iter  # no step along its matrix: go on without
        found = lbfgs(here, theta, metric=metric(), max_iter=max_iter - before, **common)
        return replace(found, n_iter=found.n_iter + before)

    return minimise


class KeptCurvature:
    """Curvature matrices along a path: loss part + 2η·JᵀJ, both parts kept from one η to the next.

    A matrix costs as much as several gradients, and a point of the path begins where the last one ended: the
    parts taken for the last η give the next one's matrix without another look at the rows.

    A row far out on the sigmoid bends nothing any more, and a rare column is all such rows: Newton's step
    along it would have no bound. So every column keeps a little of the curvature its spread would give it.
    """

    def __init__(self, objective: LinearObjective) -> None:
        self.objective = objective
        self.parts: tuple[np.ndarray, np.ndarray] | None = None
        self.age = 0  # iterations since they were taken
        self.end: np.ndarray | None = None  # where the last point ended

    @cached_property
    def damping(self) -> np.ndarray:
        """What is added to every matrix (m, m)."""
        damping = np.zeros(self.objective.n_features + self.objective.fit_intercept)
        damping[: self.objective.n_features] = DAMPING * self.objective.row_moments[1].diagonal()
        return np.diag(damping)

    def minimise(self, objective: LinearObjective, theta: np.ndarray, **settings: Any) -> Solution:
        """Newton from θ; its first matrix may be the kept one."""
        asked = 0
        elsewhere = self.end is None or not np.array_equal(theta, self.end)

        def curvature(theta: np.ndarray) -> np.ndarray:
            nonlocal asked
            old = asked or elsewhere or self.age >= RENEW
            if self.parts is None or old or not self.parts[1].any():
                self.parts, self.age = objective.curvature_parts(theta), 0
            asked += 1
            bend, gram = self.parts
            return bend + 2 * objective.scores.eta * gram + self.damping

        solution = newton(objective, theta, curvature=curvature, **settings)
        self.age += solution.n_iter
        self.end = solution.theta
        return solution


def newton_pays(objective: LinearObjective) -> bool:
    """Whether forming the curvature costs little beside the steps it saves: few features, few pairs."""
    penalty = objective.scores.penalty
    pairs = 0 if penalty is None else len(penalty.cells.pairs)
    return objective.n_features <= FEW_FEATURES and pairs <= FEW_PAIRS


def _say_if_not_converged(solution: Solution, eta: float, tol: float, max_iter: int) -> None:
    if not solution.converged:
        steep = solution.gradient_norm > tol
        where = f"a gradient of {solution.gradient_norm:.1e}, above" if steep else "the hinge not within"
        tell(
            f"the solver stopped after {solution.n_iter} iterations at eta={eta:g} with {where} "
            f"tol={tol:.1e}. Raise max_iter (now {max_iter}) or tol, or standardise the features",
            ConvergenceWarning,
        )
