"""Linear scores: what logistic regression and linear machines share."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from evenrisk._estimator._base import FairClassifier
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


class FairLinearClassifier(LinearScores, PenalisedClassifier):
    """Linear scores with the penalty."""

    def _loss(self) -> Loss:
        """Give the loss of the raw scores."""
        raise NotImplementedError

    def _problem(self, data: TrainingData) -> Problem:
        scores = self._score_objective(self._loss(), data)
        objective = LinearObjective(scores, data.X, alpha=self._alpha(data), fit_intercept=self.fit_intercept)
        d, dtype = data.X.shape[1], data.X.dtype

        def attributes(theta: np.ndarray, line: Line) -> dict[str, Any]:
            w, b = line.fold(theta[:d], float(theta[d]) if self.fit_intercept else 0.0)
            return {"coef_": w[None, :].astype(dtype), "intercept_": np.array([b], dtype=dtype)}

        return Problem(objective, attributes, self._start(data))

    def _alpha(self, data: TrainingData) -> float:
        """λ of the paper."""
        return check_number("alpha", self.alpha, low=0)

    def _start(self, data: TrainingData) -> np.ndarray | None:
        """Give the last fit's θ under warm_start, if it fits."""
        coef = getattr(self, "coef_", None) if self.warm_start else None
        if coef is None or coef.shape[1] != data.X.shape[1]:
            return None
        w, b = self._line.unfold(coef[0].astype(np.float64), float(self.intercept_[0]))
        return np.append(w, b) if self.fit_intercept else w
