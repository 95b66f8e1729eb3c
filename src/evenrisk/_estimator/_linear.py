"""Linear scores: what logistic regression and linear machines share."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from evenrisk._estimator._base import FairClassifier
from evenrisk._estimator._columns import Columns
from evenrisk._estimator._data import TrainingData
from evenrisk._estimator._penalised import PenalisedClassifier, Problem
from evenrisk._validation import check_number
from evenrisk._xp import is_sparse
from evenrisk.calibration import Line
from evenrisk.losses import Loss
from evenrisk.objective import LinearObjective


class LinearScores(FairClassifier):
    """g = Xw + b from `coef_` and `intercept_`."""

    coef_: np.ndarray
    intercept_: np.ndarray
    fit_intercept: bool

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
        X = self._validated(X, reset=False)
        w = self.coef_[0]
        # equal rows must tie: BLAS adds up in another order at the edges of its tiles, an ulp apart. As fast
        g = X @ w if is_sparse(X) else np.einsum("ij,j->i", X, w)
        return self._stepped(np.asarray(g + self.intercept_[0]))

    def _columns(self, X: Any, weight: np.ndarray) -> Columns:
        return Columns.of(X, weight, self.fit_intercept)

    def _coefficients(self, data: TrainingData, w: np.ndarray, b: float) -> dict[str, Any]:
        """Give the fitted attributes for the X that was given, from w and b of the columns as fitted."""
        assert data.columns is not None
        dtype = data.X.dtype
        w, b = data.columns.back(w, b, dtype)
        return {"coef_": w[None, :], "intercept_": np.array([b], dtype=dtype)}


class FairLinearClassifier(LinearScores, PenalisedClassifier):
    """Linear scores with the penalty."""

    def _loss(self) -> Loss:
        """Give the loss of the raw scores."""
        raise NotImplementedError

    def _problem(self, data: TrainingData) -> Problem:
        scores = self._score_objective(self._loss(), data)
        objective = LinearObjective(
            scores, data.X, alpha=self._alpha(scores.total), fit_intercept=self.fit_intercept
        )
        d = data.X.shape[1]

        def attributes(theta: np.ndarray, line: Line) -> dict[str, Any]:
            w, b = line.fold(theta[:d], float(theta[d]) if self.fit_intercept else 0.0)
            return self._coefficients(data, w, b)

        return Problem(objective, attributes, self._start(data))

    def _alpha(self, total: float) -> float:
        """λ of the paper; `total` is the weight of the loss."""
        return check_number("alpha", self.alpha, low=0)

    def _start(self, data: TrainingData) -> np.ndarray | None:
        """Give the last fit's θ under warm_start, if it fits."""
        coef = getattr(self, "coef_", None) if self.warm_start else None
        assert data.columns is not None
        if coef is None or coef.shape[1] != len(data.columns.kept):
            return None
        w, b = data.columns.parameters(coef[0].astype(np.float64), float(self.intercept_[0]))
        w, b = self._line.unfold(w, b)
        return np.append(w, b) if self.fit_intercept else w
