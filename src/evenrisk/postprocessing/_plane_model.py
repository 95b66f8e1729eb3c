"""The small fair model in the plane: which basis it has, and its fits over η.

It is our fair logistic regression of the basis functions. The data choose how fine the basis is: a size needs
enough rows for its functions, and of the sizes left, the one with the smallest objective on rows held out is
taken. The choice does not depend on η. It is made where the penalty of the plain score is a quarter of its
loss: a weaker penalty needs no fine basis, and a stronger one mostly multiplies the noise of its value.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from evenrisk._estimator import SolverSettings, TrainingData, eta_path
from evenrisk._validation import SmallCellWarning
from evenrisk.distances import Distance
from evenrisk.linear_model import FairLogisticRegression
from evenrisk.losses import LOGISTIC
from evenrisk.objective import LinearProblem, Penalty, ScoreObjective
from evenrisk.postprocessing._base_models import Fold
from evenrisk.postprocessing._plane import PlaneBasis, Size, affordable

RIDGE = 0.3  # over the number of rows
SELECTION_ROWS = 20_000  # at most, on which sizes are compared
SELECTION_PENALTY = 0.25  # of the loss
KEPT_ENTRIES = 50_000_000  # of basis functions that a search keeps: 400 MB


@dataclass(frozen=True)
class PlaneRows:
    """The training rows in the plane."""

    data: TrainingData
    V: np.ndarray  # (n, m) coordinates, out of fold
    c: np.ndarray | None  # (n,) the coin
    half: np.ndarray  # (n,) 0 or 1, for comparing sizes
    weight_of_one_row: float = 1.0

    def alpha(self, rows: Any = slice(None)) -> float:
        """Return the weight of the ridge in a fit to some rows."""
        return RIDGE * self.weight_of_one_row / float(self.data.weight[rows].sum())

    def features(self, basis: PlaneBasis, rows: Any = slice(None)) -> np.ndarray:
        """Return the basis functions of some rows."""
        return basis(self.V[rows], None if self.c is None else self.c[rows])

    def take(self, rows: np.ndarray) -> PlaneRows:
        """Return the rows with these numbers."""
        c = None if self.c is None else self.c[rows]
        data = replace(replace(self.data, X=self.V).take(rows), X=None)
        return PlaneRows(data, self.V[rows], c, self.half[rows], self.weight_of_one_row)

    def only(self, rows: np.ndarray) -> PlaneRows:
        """Return all rows, those without these numbers with a weight of 0."""
        weight = np.zeros_like(self.data.weight)
        weight[rows] = self.data.weight[rows]
        cells = None if self.data.cells is None else self.data.cells._replace(weight=weight)
        return replace(self, data=replace(self.data, weight=weight, cells=cells))

    def objective(self, distance: Distance, eta: float, rows: Any = slice(None)) -> ScoreObjective:
        """Return mean loss + η·E_f as a function of the scores of some rows."""
        data = self.data
        penalty = None if data.cells is None else Penalty(distance, data.cells.rows(rows))
        return ScoreObjective(LOGISTIC, data.y[rows], data.weight[rows], penalty, eta)


def choose_basis(rows: PlaneRows, model: FairLogisticRegression, distance: Distance) -> PlaneBasis:
    """Return the basis whose fit, with this model's settings, has the smallest objective on rows held out."""
    coin = rows.c is not None
    sizes = affordable(len(rows.V), rows.V, coin=coin)
    if rows.data.cells is not None and len(sizes) > 1:
        model = clone(model).set_params(eta=_selection_eta(rows, distance))
        held_out = [_held_out_objective(rows, size, model, distance) for size in sizes]
        sizes = [sizes[int(np.argmin(held_out))]]
    return PlaneBasis(rows.V, sizes[0], coin=coin)


def _selection_eta(rows: PlaneRows, distance: Distance) -> float:
    plain = rows.objective(distance, 0.0)
    loss = float(plain(rows.V[:, 0])[0])
    penalty = plain.penalty.value(rows.V[:, 0]) if plain.penalty is not None else 0.0
    return SELECTION_PENALTY * loss / penalty if penalty > 0 else 0.0


def _held_out_objective(
    rows: PlaneRows, size: Size, model: FairLogisticRegression, distance: Distance
) -> float:
    """Return the sum of the objectives of both halves of the rows, each fitted to the other half."""
    some = np.arange(len(rows.V))
    if len(some) > SELECTION_ROWS:
        some = np.sort(np.random.default_rng(0).permutation(len(some))[:SELECTION_ROWS])
    total, data = 0.0, rows.data
    for held in (0, 1):
        train, test = some[rows.half[some] != held], some[rows.half[some] == held]
        if not (data.is_complete(train) and data.is_complete(test)):
            return np.inf
        basis = PlaneBasis(rows.V[train], size, coin=rows.c is not None)
        fitted = clone(model).set_params(alpha=rows.alpha(train), calibration=None, verbose=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # raised once, by the fit to all rows
            groups = None if data.groups is None else data.groups.take(train)
            F = rows.features(basis, train)
            fitted.fit(F, data.y[train], data.weight[train], sensitive_features=groups)
        g = fitted.decision_function(rows.features(basis, test))
        total += float(rows.objective(distance, model.eta, test)(g)[0])
    return total


def fit_path(
    rows: PlaneRows, basis: PlaneBasis, model: FairLogisticRegression, etas: Sequence[float]
) -> list[FairLogisticRegression]:
    """Fit the model at each η to all rows."""
    data = rows.data
    model = clone(model).set_params(alpha=rows.alpha(), eta=max(etas))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallCellWarning)  # raised already, when the rows were checked
        return model.fit_path(
            rows.features(basis), data.classes[data.y], etas, data.weight, sensitive_features=data.groups
        )


class HeldOutPath:
    """Scores at any η, those of each fold from a plane model that was fitted to the other folds.

    V has the coordinates of all rows for each fold. A fit starts where that at the largest smaller η ended.
    """

    def __init__(
        self,
        rows: PlaneRows,
        V: Sequence[np.ndarray],
        size: Size,
        model: FairLogisticRegression,
        folds: Sequence[Fold],
    ) -> None:
        self.rows, self.V, self.size, self.model, self.folds = rows, V, size, model, folds
        self.warm = True
        self._settings = SolverSettings(model.solver, model.tol, model.max_iter, model.verbose)
        self._found: list[dict[float, np.ndarray]] = [{} for _ in folds]  # η → θ
        self._problems: dict[int, LinearProblem] = {}

    def raw_scores(self, eta: float, distance: Distance) -> np.ndarray:
        """Return g (n,)."""
        g = np.empty(len(self.rows.V))
        for number, (train, test) in enumerate(self.folds):
            if self.model.calibration is not None:
                rows, basis = self._plane(number)
                (fitted,) = fit_path(rows.take(train), basis, self.model, [eta])
                g[test] = fitted.decision_function(rows.features(basis, test))
            else:
                problem = self._problem(number, distance)
                g[test] = problem.raw_scores(self._fit(number, problem, eta))[test]
        return g

    def _plane(self, number: int) -> tuple[PlaneRows, PlaneBasis]:
        """Return all rows in the plane of one fold, and its basis, which does not know the fold."""
        V, (train, _) = self.V[number], self.folds[number]
        return replace(self.rows, V=V), PlaneBasis(V[train], self.size, coin=self.rows.c is not None)

    def _fit(self, number: int, problem: LinearProblem, eta: float) -> np.ndarray:
        """Return θ of one fold's plane model."""
        found = self._found[number]
        below = max((each for each in found if each <= eta), default=None) if self.warm else None
        start = None if below is None else found[below]
        (point,) = eta_path(problem, [eta], self._settings, start, below)
        found[eta] = point.solution.theta
        return found[eta]

    def _problem(self, number: int, distance: Distance) -> LinearProblem:
        """Return the problem of one fold: all rows, those of the fold with a weight of 0."""
        if number in self._problems:
            return self._problems[number]
        rows, basis = self._plane(number)
        F = rows.features(basis)
        others = rows.only(self.folds[number][0])
        scores = others.objective(distance, 1.0)
        problem = LinearProblem(scores, F, alpha=others.alpha(), fit_intercept=True)
        if F.size * len(self.folds) <= KEPT_ENTRIES:
            self._problems[number] = problem
        return problem
