"""The contract every estimator shares: fit's door, the warm path, the warnings, prediction without groups.

Conventions
-----------
X (n, d) dense or CSR; y (n,) in {0, 1} (int8); weight (n,) in the dtype of X; g (n,) raw scores;
θ = (w, b). Here, and only here, parity, losses, distances and solvers meet.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from evenrisk._types import Cells
from evenrisk._validation import (
    CollapseWarning,
    Groups,
    MajorityRateWarning,
    MissingSensitiveFeatures,
    ReversedRankingWarning,
    check_binary,
    check_cells,
    check_choice,
    check_groups,
    check_length,
    check_member,
    check_number,
    check_weight,
)
from evenrisk._xp import sigmoid
from evenrisk.curves import auc
from evenrisk.distances import DISTANCES, Distance
from evenrisk.losses import Loss
from evenrisk.objective import LinearObjective, Penalty, ScoreObjective
from evenrisk.parity import PARITIES, Parity, cell_codes, make_cells
from evenrisk.solvers import Solution, ladder, lbfgs, momentum, warm_path

SOLVERS = ("auto", "lbfgs", "momentum")
COLLAPSED = 0.01  # sd of the risk scores: all people within about one or two points
AUC_ROWS = 100_000  # the check for a reversed ranking looks at no more rows than this
COLLAPSE_ENTRIES = 2_000_000  # of X: up to here looking for equal rows takes a fraction of a fit
ON_THE_WAY = 1e-4  # the path's earlier points are solved to this gradient: enough to stay in the basin


@dataclass(frozen=True)
class TrainingData:
    """What passed the door."""

    X: Any
    y: np.ndarray
    weight: np.ndarray
    classes: np.ndarray
    groups: Groups | None
    cells: Cells | None


class FairClassifier(ClassifierMixin, BaseEstimator):
    """Fit with groups, predict without them."""

    # with metadata routing on, pipelines and searches pass the groups through without being told
    __metadata_request__fit: ClassVar = {"sensitive_features": True}

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            The features. The protected attribute should not be among them.
        y : array-like of shape (n,)
            Two labels of any kind; the second in sorted order is the positive class.
        sample_weight : array-like of shape (n,), default=None
            Weight of each row, in the loss and in the penalty. A row of weight 2 counts like two rows.
        sensitive_features : array-like of shape (n,) or (n, m), default=None
            The group of each row; several columns are crossed. Aligned with X by position. Required
            when ``eta > 0``; never needed to predict.

        Returns
        -------
        self
            The fitted estimator.
        """
        before = dict(self.__dict__)
        try:
            data = self._check_fit(X, y, sample_weight, sensitive_features)
            self._fit(data)
        except Exception:  # a model that was fitted before stays as it was
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        self.classes_ = data.classes
        self.__dict__.pop("groups_", None)
        if data.groups is not None:
            self.groups_ = data.groups.labels
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Give the label of each row: the positive class where the risk is above 0.5.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            The features.

        Returns
        -------
        ndarray of shape (n,)
            Labels, as they were given to `fit`.
        """
        positive = self.decision_function(X) > 0
        return self.classes_[positive.astype(np.intp)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Give 1 − s and s = sigmoid(g) for each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            The features.

        Returns
        -------
        ndarray of shape (n, 2)
            In the order of ``classes_``.
        """
        g = self.decision_function(X)
        return np.column_stack([sigmoid(-g), sigmoid(g)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags

    def _check_fit(self, X: Any, y: Any, sample_weight: Any, sensitive_features: Any) -> TrainingData:
        """Open the door: check everything once and give clean arrays."""
        self._check_parameters()
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32])
        n = X.shape[0]
        target, classes = check_binary(y)
        check_length("y", len(target), n)
        weight = check_weight(sample_weight, n, X.dtype)
        groups = None
        if sensitive_features is not None:
            groups = check_groups(sensitive_features, n)
        elif self.eta > 0:
            raise MissingSensitiveFeatures(
                f"`sensitive_features` is required when eta > 0, got None with eta={self.eta}. Pass the "
                "group of each row to fit (it is not needed to predict), or set eta=0 for no penalty"
            )
        if not weight.all():
            kept = np.flatnonzero(weight)
            X, target, weight = X[kept], target[kept], weight[kept]
            if target.all() or not target.any():
                raise ValueError("`y` must have 2 classes among rows of positive weight, got 1 class")
            groups = None if groups is None else groups.keep(kept)
        if groups is not None and self.eta > 0:
            self._check_cell_sizes(target, groups)
        if X.shape[0] * X.shape[1] <= COLLAPSE_ENTRIES:
            X, target, weight, groups = _collapse(X, target, weight, groups)
        cells = None
        if groups is not None:
            cells = make_cells(self._parity, target, groups.code, len(groups.labels), weight)
        return TrainingData(X, target, weight, classes, groups, cells)

    def _check_parameters(self) -> None:
        """Check the constructor's arguments; scikit-learn wants that done in `fit`."""
        check_number("eta", self.eta, low=0)
        check_number("tol", self.tol, low=0, strict=True)
        check_number("max_iter", self.max_iter, low=1, whole=True)
        check_choice("solver", self.solver, SOLVERS)
        self._parity: Parity = check_member("parity", self.parity, PARITIES, Parity)
        self._distance: Distance = check_member("distance", self.distance, DISTANCES, Distance)

    def _check_cell_sizes(self, y: np.ndarray, groups: Groups) -> None:
        """Refuse empty cells and name small ones."""
        n_cells = len(self._parity.strata) * len(groups.labels)
        code = cell_codes(self._parity, y, groups.code, len(groups.labels))
        counts = np.bincount(code + 1, minlength=n_cells + 1)[1:]
        check_cells(counts, self._parity.cell_names([repr(name) for name in groups.names]), stacklevel=4)

    def _fit(self, data: TrainingData) -> None:
        """Set the fitted attributes; each kind of model does it its own way."""
        raise NotImplementedError

    def _score_objective(self, loss: Loss, data: TrainingData) -> ScoreObjective:
        """Mean loss + η·E_f in the scores."""
        penalty = None if data.cells is None else Penalty(self._distance, data.cells)
        return ScoreObjective(loss, data.y, data.weight, penalty, self.eta)

    def _solve(self, objective: LinearObjective, start: np.ndarray | None) -> Solution:
        """Minimise, walking η upwards from the η = 0 fit unless a start is given.

        The way there is L-BFGS whatever the solver, so that all solvers begin at the same point.
        """
        metric = objective.metric()
        eps = float(np.finfo(objective.X.dtype).eps)
        tol = max(self.tol, 100 * eps)  # float32 has no finer gradient
        shared: dict[str, Any] = {"max_iter": self.max_iter, "verbose": self.verbose}
        quasi_newton: dict[str, Any] = {"metric": metric, "noise": 50 * eps, **shared}

        def solve(eta: float, theta: np.ndarray) -> Solution:
            return lbfgs(objective.with_eta(eta), theta, tol=max(tol, ON_THE_WAY), **quasi_newton)

        theta = np.zeros(len(metric)) if start is None else start
        on_the_way = [0.0, *ladder(self.eta)] if start is None and self.eta > 0 else []
        n_iter = 0
        for solution in warm_path(solve, on_the_way, theta):
            theta, n_iter = solution.theta, n_iter + solution.n_iter
        if self.solver == "momentum":
            solution = momentum(objective, theta, tol=tol, **shared)
        else:
            solution = lbfgs(objective, theta, tol=tol, **quasi_newton)
        self.n_iter_ = n_iter + solution.n_iter
        if not solution.converged:
            warnings.warn(
                f"the solver stopped after {solution.n_iter} iterations with a gradient of "
                f"{solution.gradient_norm:.1e}, above tol={tol:.1e}. Raise max_iter (now {self.max_iter}) "
                "or tol, or standardise the features",
                ConvergenceWarning,
                stacklevel=4,
            )
        return solution

    def _diagnose(self, g: np.ndarray, data: TrainingData) -> None:
        """Say loudly when the penalty has won: collapse, worse than a constant, reversed ranking."""
        if self.eta == 0:
            return
        y, weight = data.y, data.weight
        s = sigmoid(g)
        mean = np.average(s, weights=weight)
        sd = float(np.sqrt(np.average((s - mean) ** 2, weights=weight)))
        if sd < COLLAPSED:
            warnings.warn(
                f"all risk scores are squeezed together (standard deviation {sd:.1e}): a gap at 0.5 then "
                f"says little. Lower eta (now {self.eta})",
                CollapseWarning,
                stacklevel=4,
            )
        accuracy = float(np.average((g > 0) == y, weights=weight))
        positive = float(np.average(y, weights=weight))
        if accuracy < max(positive, 1 - positive) - 1e-12:
            warnings.warn(
                f"training accuracy {accuracy:.3f} is under the majority rate "
                f"{max(positive, 1 - positive):.3f}: at 0.5 a constant answer does better. Lower eta (now "
                f"{self.eta}) or move the threshold",
                MajorityRateWarning,
                stacklevel=4,
            )
        some = slice(None, None, -(-len(g) // AUC_ROWS))
        area = auc(g[some], y[some], weight[some])
        if area < 0.5:
            warnings.warn(
                f"training AUC {area:.3f} is under 0.5: the scores rank people worse than chance. Lower eta "
                f"(now {self.eta})",
                ReversedRankingWarning,
                stacklevel=4,
            )


class FairLinearClassifier(FairClassifier):
    """g = Xw + b."""

    _loss: ClassVar[Loss]

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

    def _fit(self, data: TrainingData) -> None:
        scores = self._score_objective(self._loss, data)
        alpha = self._alpha(data)
        objective = LinearObjective(scores, data.X, alpha=alpha, fit_intercept=self.fit_intercept)
        solution = self._solve(objective, self._start(data))
        g = objective.raw_scores(solution.theta)
        d = data.X.shape[1]
        self.coef_ = solution.theta[None, :d].astype(data.X.dtype)
        b = solution.theta[d] if self.fit_intercept else 0.0
        self.intercept_ = np.array([b], dtype=data.X.dtype)
        self.objective_ = solution.value
        self.penalty_ = 0.0 if scores.penalty is None else scores.penalty.value(g)
        self._diagnose(g, data)

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


def _collapse(
    X: Any, y: np.ndarray, weight: np.ndarray, groups: Groups | None
) -> tuple[Any, np.ndarray, np.ndarray, Groups | None]:
    """Merge equal (x, y, group) rows into one that carries their weight (COMPAS: 3,694 → about 1,260).

    The merged rows are in sorted order, so neither row order nor repeating a row instead of weighting it
    can change a fit, not by one bit.
    """
    code = np.zeros(len(y), np.int32) if groups is None else groups.code
    dense = X.toarray() if sparse.issparse(X) else X
    keys = np.column_stack([dense, y, code])
    _, index, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    merged = np.bincount(inverse.reshape(-1), weights=weight).astype(weight.dtype)
    if groups is not None:
        groups = Groups(code[index], groups.labels)
    return X[index], y[index], merged, groups
