"""Models with η·E_f in their objective: the settings they share, one fit and the whole path."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import clone

from evenrisk._estimator._base import FairClassifier
from evenrisk._estimator._data import TrainingData
from evenrisk._estimator._diagnosis import COLLAPSED, diagnose, spread, tell_of_collapse, without_penalty
from evenrisk._estimator._hinge import constant_is_least
from evenrisk._estimator._path import SOLVERS, Point, Settings, walk
from evenrisk._estimator._unseen import unseen_scores
from evenrisk._validation import check_choice, check_class_weight, check_flag, check_member, check_number
from evenrisk.calibration import CALIBRATIONS, IDENTITY, Line, Steps
from evenrisk.distances import DISTANCES, Distance
from evenrisk.losses import HINGE, Loss
from evenrisk.objective import LinearObjective, Penalty, ScoreObjective
from evenrisk.parity import PARITIES, Parity


class Problem(NamedTuple):
    """What is minimised, and how a minimum becomes a fitted model."""

    objective: LinearObjective
    attributes: Callable[[np.ndarray, Line], dict[str, Any]]  # θ, a map to fold in → the fitted attributes
    start: np.ndarray | None = None  # θ of an earlier fit


class PenalisedClassifier(FairClassifier):
    """A classifier with `parity`, `distance`, `eta` and a solver."""

    _no_constraint: ClassVar[str] = "eta=0"
    n_features_in_: int
    feature_names_in_: np.ndarray
    calibration_: Line | Steps | None

    def fit_path(
        self,
        X: Any,
        y: Any,
        etas: Sequence[float],
        sample_weight: Any = None,
        *,
        sensitive_features: Any = None,
    ) -> list[Self]:
        """Fit one model for each of several eta, sharing all work that does not depend on it.

        Parameters
        ----------
        X, y, sample_weight, sensitive_features
            As in `fit`.
        etas : sequence of float
            Values of eta, in any order; this estimator's own is not used.

        Returns
        -------
        list
            Fitted copies of this estimator, in the order of `etas`. Each starts where the next smaller one
            ended, so a fine path can stay in a minimum that a single fit at the same eta does not find.
        """
        if np.ndim(etas) != 1:
            raise ValueError(f"`etas` must be a sequence of numbers, got {etas!r}")
        etas = [float(check_number("etas", eta, low=0)) for eta in etas]
        if not etas:
            raise ValueError("`etas` must have at least 1 value, got 0")
        strictest = clone(self).set_params(eta=max(etas))
        data = strictest._check_fit(X, y, sample_weight, sensitive_features)
        models: dict[float, Self] = {}
        for point, problem in strictest._points(data, etas):
            model = clone(self).set_params(eta=point.eta)
            model._inherit(strictest)
            model._keep(problem, point, data)
            models[point.eta] = model
        return [copy(models[eta]) for eta in etas]  # an eta may come twice

    def _check_parameters(self) -> None:
        check_number("eta", self.eta, low=0)
        check_flag("warm_start", self.warm_start)
        check_flag("fit_intercept", self.fit_intercept)
        check_number("tol", self.tol, low=0, strict=True)
        check_number("max_iter", self.max_iter, low=1, whole=True)
        check_choice("solver", self.solver, SOLVERS)
        check_choice("calibration", self.calibration, tuple(CALIBRATIONS), or_none=True)
        self._parity: Parity = check_member("parity", self.parity, PARITIES, Parity)
        self._distance: Distance = check_member("distance", self.distance, DISTANCES, Distance)

    def _constraint(self) -> str:
        return f"when eta > 0, got None with eta={self.eta}" if self.eta > 0 else ""

    def _fit(self, data: TrainingData) -> None:
        for point, problem in self._points(data, [float(self.eta)]):
            self._keep(problem, point, data)

    def _points(self, data: TrainingData, etas: list[float]) -> Iterator[tuple[Point, Problem]]:
        """Solve the problem of these rows at each η."""
        problem = self._problem(data)
        settings = Settings(self.solver, self.tol, self.max_iter, self.verbose)
        for point in walk(problem.objective, problem.start, etas, settings):
            yield point, problem

    def _problem(self, data: TrainingData) -> Problem:
        """Set the problem up; each kind of model does it its own way."""
        raise NotImplementedError

    def _keep(self, problem: Problem, point: Point, data: TrainingData) -> None:
        """Set the fitted attributes."""
        theta = point.solution.theta
        g = problem.objective.raw_scores(theta)
        penalty = problem.objective.scores.penalty
        self.calibration_ = None
        if self.calibration is not None:
            unseen = self._unseen_scores(problem, point, data)
            self.calibration_ = CALIBRATIONS[self.calibration](unseen, data.y, data.weight / data.row)
        self.__dict__.update(problem.attributes(theta, self._line))
        self.n_iter_ = point.n_iter
        self.objective_ = point.solution.value
        self.penalty_ = 0.0 if penalty is None else penalty.value(g)
        self._diagnose(problem, point, g, data)
        self._remember(data)

    def _diagnose(self, problem: Problem, point: Point, g: np.ndarray, data: TrainingData) -> None:
        """Say loudly what is wrong with the fit."""
        objective, scores, sd, why = problem.objective, problem.objective.scores, spread(g, data.weight), ""
        if sd < COLLAPSED and point.plain is not None:
            constant = scores.loss is HINGE and constant_is_least(objective, point.plain)
            if constant or spread(objective.raw_scores(point.plain), data.weight) < COLLAPSED:
                why = without_penalty(self.class_weight, constant=constant)
            if constant and self.eta == 0:
                tell_of_collapse(sd, why)
        if self.eta > 0 and (calibration := self.calibration_) is not None:
            diagnose(g, calibration(g), data, self.eta, why)
        elif self.eta > 0:
            # 0.5 is then where a mistake costs the same either way in the loss, class weights and all
            diagnose(g, g, replace(data, weight=scores.weight), self.eta, why)

    def _unseen_scores(self, problem: Problem, point: Point, data: TrainingData) -> np.ndarray:
        """Give the scores to calibrate on, each row's from a model that has not seen it."""
        rows = data.weight / data.row
        return unseen_scores(problem.objective.with_eta(point.eta), point.solution.theta, rows)

    @property
    def _line(self) -> Line:
        """The map that is folded into the fitted coefficients."""
        calibration = getattr(self, "calibration_", None)
        return calibration if isinstance(calibration, Line) else IDENTITY

    def _stepped(self, g: np.ndarray) -> np.ndarray:
        """Map the scores of the fitted coefficients where the map is not folded into them."""
        return self.calibration_(g) if isinstance(self.calibration_, Steps) else g

    def _inherit(self, checked: Self) -> None:
        """Take over what the door learned about the columns."""
        self._parity, self._distance = checked._parity, checked._distance
        self.n_features_in_ = checked.n_features_in_
        if hasattr(checked, "feature_names_in_"):
            self.feature_names_in_ = checked.feature_names_in_

    def _score_objective(self, loss: Loss, data: TrainingData) -> ScoreObjective:
        """Mean loss + η·E_f in the scores.

        Class weights change what a mistake costs, not who is compared: the cells keep the rows' own weights.
        """
        penalty = None if data.cells is None else Penalty(self._distance, data.cells)
        weight = data.weight
        if self.class_weight is not None:
            mass = np.bincount(data.y, weights=weight, minlength=2)
            factors = check_class_weight(self.class_weight, data.classes, mass)
            weight = weight * factors.astype(weight.dtype)[data.y]
        return ScoreObjective(loss, data.y, weight, penalty, float(self.eta))
