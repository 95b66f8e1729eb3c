"""The warm path over η, to the solver's end or to a warning."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from evenrisk.objective import LinearObjective
from evenrisk.solvers import Solution, ladder, lbfgs, momentum, warm_path

SOLVERS = ("auto", "lbfgs", "momentum")
ON_THE_WAY = 1e-4  # the path's earlier points are solved to this gradient: enough to stay in the basin


def solve(
    objective: LinearObjective,
    start: np.ndarray | None,
    *,
    eta: float,
    solver: str,
    tol: float,
    max_iter: int,
    verbose: int,
) -> tuple[Solution, int]:
    """Minimise, walking η upwards from the η = 0 fit unless a start is given; also count all iterations.

    The way there is L-BFGS whatever the solver, so that all solvers begin at the same point.
    """
    metric = objective.metric()
    eps = float(np.finfo(objective.X.dtype).eps)
    tol = max(tol, 100 * eps)  # float32 has no finer gradient
    shared: dict[str, Any] = {"max_iter": max_iter, "verbose": verbose}
    quasi_newton: dict[str, Any] = {"metric": metric, "noise": 50 * eps, **shared}

    def point(eta_here: float, theta: np.ndarray) -> Solution:
        if verbose:
            print(f"eta {eta_here:g}", file=sys.stderr)
        if eta_here == eta and solver == "momentum":
            return momentum(objective, theta, tol=tol, **shared)
        tol_here = tol if eta_here == eta else max(tol, ON_THE_WAY)
        return lbfgs(objective.with_eta(eta_here), theta, tol=tol_here, **quasi_newton)

    nothing = np.zeros(len(metric))
    on_the_way = [0.0, *ladder(eta)] if start is None and eta > 0 else []
    solutions = list(warm_path(point, [*on_the_way, eta], nothing if start is None else start))
    solution = solutions[-1]
    if on_the_way and solution.value > objective(nothing)[0]:
        # worse than having learned nothing: the path followed a basin that should have been left
        solutions.append(point(eta, solutions[0].theta))
        solution = min(solutions[-2:], key=lambda each: each.value)
    if not solution.converged:
        warnings.warn(
            f"the solver stopped after {solution.n_iter} iterations with a gradient of "
            f"{solution.gradient_norm:.1e}, above tol={tol:.1e}. Raise max_iter (now {max_iter}) "
            "or tol, or standardise the features",
            ConvergenceWarning,
            stacklevel=4,
        )
    return solution, sum(each.n_iter for each in solutions)
