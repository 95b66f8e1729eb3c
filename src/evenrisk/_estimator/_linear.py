"""Linear scores: what logistic regression and linear machines share."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from evenrisk._estimator._data import TrainingData
from evenrisk._estimator._diagnosis import diagnose
from evenrisk._estimator._path import solve
from evenrisk._estimator._penalised import PenalisedClassifier
from evenrisk._validation import check_flag, check_number
from evenrisk.losses import Loss
from evenrisk.objective import LinearObjective


class LinearScores:
    """g = Xw + b from `coef_` and `intercept_`."""

    coef_: np.ndarray
    intercept_: np.ndarray

    def decision_function(self, X: Any) -> np.ndarray:
        """Give the raw score g = Xw + b of each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            The features.

        Returns
        -------
        ndarray of shape (n,)
            Positive where the positive class is predicted.
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return np.asarray(X @ self.coef_[0] + self.intercept_[0])


class FairLinearClassifier(LinearScores, PenalisedClassifier):
    """Linear scores with the penalty."""

    _loss: ClassVar[Loss]

    def _fit(self, data: TrainingData) -> None:
        check_flag("fit_intercept", self.fit_intercept)
        scores = self._score_objective(self._loss, data)
        alpha = self._alpha(data)
        objective = LinearObjective(scores, data.X, alpha=alpha, fit_intercept=self.fit_intercept)
        solution, self.n_iter_ = solve(
            objective,
            self._start(data),
            eta=self.eta,
            solver=self.solver,
            tol=self.tol,
            max_iter=self.max_iter,
            verbose=self.verbose,
        )
        g = objective.raw_scores(solution.theta)
        d = data.X.shape[1]
        self.coef_ = solution.theta[None, :d].astype(data.X.dtype)
        b = solution.theta[d] if self.fit_intercept else 0.0
        self.intercept_ = np.array([b], dtype=data.X.dtype)
        self.objective_ = solution.value
        self.penalty_ = 0.0 if scores.penalty is None else scores.penalty.value(g)
        if self.eta > 0:
            diagnose(g, data, self.eta)

    def _alpha(self, data: TrainingData) -> float:
        """λ of the paper."""
        return check_number("alpha", self.alpha, low=0)

    def _start(self, data: TrainingData) -> np.ndarray | None:
        """Give the last fit's θ under warm_start, if it fits."""
        coef = getattr(self, "coef_", None) if self.warm_start else None
        if coef is None or coef.shape[1] != data.X.shape[1]:
            return None
        theta = np.append(coef[0], self.intercept_) if self.fit_intercept else coef[0]
        return np.asarray(theta, dtype=np.float64)
