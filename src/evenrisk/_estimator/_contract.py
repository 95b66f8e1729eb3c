"""What every estimator shares: checking the rows, predicting without groups, keeping a fit.

A fit reads the same everywhere. Each public estimator shows it in its own module::

    with all_or_nothing(self):
        data = self._check_rows(X, y, sample_weight, sensitive_features)  # clean arrays
        problem = self._problem(data)                                     # what is minimised
        for point in eta_path(problem, [float(self.eta)], self._settings(), self._start(problem)):  # solve
            self._store_fit(problem, point, data)                         # fitted attributes, warnings

`FairClassifier` is for all of them, `PenalisedClassifier` for those with η·E_f in their objective.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted, validate_data

from evenrisk._estimator._hinge import constant_is_least
from evenrisk._estimator._path import SOLVERS, PathPoint, SolverSettings, eta_path
from evenrisk._estimator._unseen import cross_fitted_scores, left_out_scores
from evenrisk._validation import (
    CollapseWarning,
    Comparison,
    Groups,
    MajorityRateWarning,
    MissingSensitiveFeatures,
    ReversedRankingWarning,
    check_alignment,
    check_binary,
    check_choice,
    check_class_weight,
    check_comparison,
    check_features,
    check_flag,
    check_length,
    check_member,
    check_number,
    check_weight,
    warn_user,
)
from evenrisk._xp import Cells, sigmoid, to_numpy
from evenrisk.calibration import CALIBRATIONS, IDENTITY, Line, Steps, weight_of_one_row
from evenrisk.curves import auc
from evenrisk.distances import DISTANCES, Distance
from evenrisk.losses import Loss
from evenrisk.objective import Penalty, Problem, ScoreObjective, linear_scores
from evenrisk.parity import PARITIES, Parity, check_compared, check_compared_groups, group_cells

MERGE_ENTRIES = 500_000  # of X: up to here looking for equal rows takes a fraction of a fit
COLLAPSED = 0.01  # sd of the risk scores: all people within about one or two points
AUC_ROWS = 100_000  # the check for a reversed ranking looks at no more rows than this


# ---------------------------------------------------------------- the rows of a fit


@dataclass(frozen=True)
class TrainingData:
    """Rows that have been checked."""

    X: Any
    y: np.ndarray  # (n,) in {0, 1}
    weight: np.ndarray  # (n,)
    classes: np.ndarray  # (2,) the labels
    groups: Groups | None
    cells: Cells | None
    weight_of_one_row: float = 1.0  # for calibrations, which count rows

    @property
    def row_counts(self) -> np.ndarray:
        """How many original rows each row stands for (n,)."""
        return self.weight / self.weight_of_one_row

    def take(self, rows: np.ndarray) -> TrainingData:
        """Return the rows at these indices; the list of groups stays as it is."""
        return replace(
            self,
            X=_safe_indexing(self.X, rows),
            y=self.y[rows],
            weight=self.weight[rows],
            groups=None if self.groups is None else self.groups.take(rows),
            cells=None if self.cells is None else self.cells.rows(rows),
        )

    def drop_zero_weights(self) -> TrainingData:
        """Return the rows of positive weight."""
        return self if self.weight.all() else self.take(np.flatnonzero(self.weight))

    def merge_equal_rows(self) -> TrainingData:
        """Return the data with equal (x, y, group) rows merged, their weights added (COMPAS: 3,694 → 2,100).

        Rows of weight 0 are dropped. The order of the merged rows depends on their values only, so neither
        row order nor repeating a row instead of weighting it changes a fit by even one bit. Where looking for
        equal rows would take long, the data stay as they are.
        """
        if self.X.shape[0] * self.X.shape[1] > MERGE_ENTRIES:
            return self
        data = self.drop_zero_weights()
        code = np.zeros(len(data.y), np.int32) if data.groups is None else data.groups.code
        if data.groups is not None and data.groups.share is not None:
            code = data.groups.share
        dense = data.X.toarray() if sparse.issparse(data.X) else data.X
        index, inverse = distinct_rows(np.column_stack([dense, data.y, code]))
        weight = np.bincount(inverse, weights=data.weight).astype(data.weight.dtype)
        merged = data.take(index)
        cells = None if merged.cells is None else merged.cells._replace(weight=weight)
        return replace(merged, weight=weight, cells=cells)

    def is_complete(self, rows: np.ndarray) -> bool:
        """Whether the rows at these indices that have positive weight have every label and all compared."""
        rows = rows[self.weight[rows] > 0]
        if len(np.unique(self.y[rows])) < 2:
            return False
        if self.cells is None:
            return True
        return bool((self.cells.rows(rows).union_sums(np.ones(len(rows))) > 0).all())


def distinct_rows(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return one index per distinct row, and which of these equals each row; sparse rows all differ."""
    if sparse.issparse(X):
        everyone = np.arange(X.shape[0])
        return everyone, everyone
    keys = np.ascontiguousarray(X + 0)  # −0 becomes 0
    # comparing bytes is several times faster than np.unique(keys, axis=0)
    width = keys.itemsize * int(np.prod(keys.shape[1:]))
    rows = keys.reshape(len(keys), -1).view(np.dtype((np.void, width))).ravel()
    _, index, inverse = np.unique(rows, return_index=True, return_inverse=True)
    return index, inverse.reshape(-1)


def summed_duplicates(X: Any) -> Any:
    """Return a copy of a sparse matrix with duplicate entries summed; return anything else as it is.

    Otherwise other libraries and entrywise products would read duplicates in different ways.
    """
    if not (sparse.issparse(X) and X.format in ("csr", "csc", "bsr")) or X.has_canonical_format:
        return X  # the other formats have no such entries, or sum them on their way to CSR
    X = X.copy()
    X.sum_duplicates()
    return X


# ---------------------------------------------------------------- the estimators


@contextmanager
def all_or_nothing(model: Any) -> Iterator[None]:
    """Restore the attributes of a model if its fit fails or is interrupted."""
    before = dict(vars(model))
    try:
        yield
    except BaseException:
        vars(model).clear()
        vars(model).update(before)
        raise


def forget(model: Any, *names: str) -> None:
    """Delete those of the named attributes that an earlier fit has set."""
    for name in names:
        if name in vars(model):
            delattr(model, name)


class FairClassifier(ClassifierMixin, BaseEstimator):
    """Base class of all estimators: fit with groups, predict without them."""

    comparison: str | Comparison = "crossed"  # those without this parameter compare every pair of groups
    _parity: Parity
    _plain_setting: ClassVar[str]  # the setting of the plain model, for messages

    # with metadata routing on, pipelines and searches pass the groups through without a request
    __metadata_request__fit: ClassVar = {"sensitive_features": True}

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the raw score g of each row; of a linear model, g = Xw + b.

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
        return self._calibrated(self._raw_scores(self._validated(X, reset=False)))

    def predict(self, X: Any) -> np.ndarray:
        """Return the label of each row: the positive class where the risk is above 0.5.

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
        """Return 1 − s and s = sigmoid(g) for each row.

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

    def set_params(self, **params: Any) -> Self:
        """Change settings; those of a distance by names such as ``distance__scale``.

        Parameters
        ----------
        **params
            Names and values.

        Returns
        -------
        self
            The estimator.
        """
        of_distance = [name for name in params if name.startswith("distance__")]
        if of_distance and hasattr(self, "distance"):
            distance = params.get("distance", self.distance)
            if not hasattr(distance, "set_params"):
                raise ValueError(
                    f"`{of_distance[0]}` must be a setting of a distance that is given as an instance, such "
                    f"as distance=GapDistance(), got distance={distance!r}"
                )
            params["distance"] = deepcopy(distance)  # another model may hold the same one
        return super().set_params(**params)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags

    # hooks for subclasses; those that have a default have it for a linear model

    def _check_parameters(self) -> None:
        """Check the constructor's arguments (in `fit`, as scikit-learn requires) and set `_parity`."""
        raise NotImplementedError

    def _without_groups(self) -> str:
        """Return what to do for a model without groups, for a message."""
        return f"(it is not needed to predict), or set {self._plain_setting} for a plain model"

    def _why_groups(self) -> str:
        """Return why groups are required, for a message ("when eta > 0, got None with eta=1.0"), or ""."""
        raise NotImplementedError

    def _may_merge_rows(self) -> bool:
        """Whether equal rows may be merged into one."""
        return True

    def _raw_scores(self, X: Any) -> np.ndarray:
        """Return g, before an isotonic calibration, of rows that have been checked."""
        return linear_scores(X, self.coef_[0], self.intercept_[0])

    def _calibrated(self, g: np.ndarray) -> np.ndarray:
        """Apply the calibration to raw scores where it is not folded into the coefficients."""
        calibration = getattr(self, "calibration_", None)
        return calibration(g) if isinstance(calibration, Steps) else g

    def _dtypes(self) -> Any:
        """Return the types of numbers that X may have; others are converted to the first."""
        return [np.float64, np.float32]

    # checking

    def _check_rows(self, X: Any, y: Any, sample_weight: Any, sensitive_features: Any) -> TrainingData:
        """Check the parameters and all rows, once, and return clean arrays."""
        self._check_parameters()
        check_alignment(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        X = self._check_X(X)
        n = X.shape[0]
        target, classes = check_binary(y)
        check_length("y", len(target), n)
        dtype = getattr(X, "dtype", None)  # others come where X is left as it was given
        weight = check_weight(sample_weight, n, np.float32 if dtype == np.float32 else np.float64)
        groups = None
        if sensitive_features is not None:
            groups = check_compared_groups(
                self._parity, target, sensitive_features, weight, comparison=self.comparison
            )
        elif self._why_groups():
            raise MissingSensitiveFeatures(
                f"`sensitive_features` is required {self._why_groups()}. Pass the group of each row to fit "
                f"{self._without_groups()}"
            )
        present = weight > 0
        if not present.all():
            if len(np.unique(target[present])) < 2:
                raise ValueError("`y` must have 2 classes among rows of positive weight, got 1 class")
            groups = None if groups is None else groups.among(present)
        cells = None
        if groups is not None:
            cells = group_cells(self._parity, target, groups, weight)
            check_compared(self._parity, cells, groups, present, warn=bool(self._why_groups()))
        one = 1.0
        if getattr(self, "calibration", None) is not None:
            one = weight_of_one_row(weight)  # before equal rows are merged
        data = TrainingData(X, target, weight, classes, groups, cells, one)
        return data.merge_equal_rows() if self._may_merge_rows() else data

    def _check_X(self, X: Any) -> Any:
        """Check the features to fit, and remember their number and names."""
        return self._validated(X, reset=True)

    def _validated(self, X: Any, *, reset: bool, **settings: Any) -> Any:
        """Check X as scikit-learn does; `reset` stores its columns, otherwise they must be those stored."""
        check_features(X)
        formats = "csr" if self.__sklearn_tags__().input_tags.sparse else False
        common = {"dtype": self._dtypes(), "accept_sparse": formats, "reset": reset}
        return validate_data(self, summed_duplicates(X), **common, **settings)

    def _store_labels(self, data: TrainingData) -> None:
        """Keep the labels of classes and groups."""
        self.classes_ = data.classes
        forget(self, "groups_", "comparison_")
        if data.groups is not None:
            self.groups_, self.comparison_ = data.groups.labels, data.groups.comparison


class PenalisedClassifier(FairClassifier):
    """Base class of classifiers with `parity`, `distance`, `eta` and a solver."""

    _plain_setting: ClassVar[str] = "eta=0"
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
        etas = [float(check_number(f"etas[{i}]", eta, low=0)) for i, eta in enumerate(etas)]
        if not etas:
            raise ValueError("`etas` must have at least 1 value, got 0")
        strictest = clone(self).set_params(eta=max(etas))
        data = strictest._check_rows(X, y, sample_weight, sensitive_features)
        models: dict[float, Self] = {}
        problem = strictest._problem(data)
        for point in strictest._points(problem, data, etas):
            model = clone(self).set_params(eta=point.eta)
            model._copy_checked(strictest)
            model._store_fit(problem, point, data)
            models[point.eta] = model
        return [copy(models[eta]) for eta in etas]  # an eta may come twice

    def _problem(self, data: TrainingData) -> Any:
        """Return the `Problem` of these rows; each kind of model has its own."""
        raise NotImplementedError

    def _points(self, problem: Any, data: TrainingData, etas: Sequence[float]) -> Iterator[Any]:
        """Solve the problem at each η."""
        return eta_path(problem, etas, self._settings(), self._start(problem))

    def _settings(self) -> SolverSettings:
        return SolverSettings(self.solver, self.tol, self.max_iter, self.verbose)

    def _start(self, problem: Any) -> np.ndarray | None:
        """Return θ of the last fit if warm_start is set and shapes agree, else None."""
        if not (self.warm_start and hasattr(self, "coef_")):
            return None
        w, b = self._folded_line.unfold(self.coef_[0].astype(np.float64), float(self.intercept_[0]))
        return problem.theta_of(w, b)

    def _check_parameters(self) -> None:
        check_number("eta", self.eta, low=0)
        check_flag("warm_start", self.warm_start)
        check_flag("fit_intercept", self.fit_intercept)
        check_number("tol", self.tol, low=0, strict=True)
        check_number("max_iter", self.max_iter, low=1, whole=True)
        check_choice("solver", self.solver, SOLVERS)
        check_choice("calibration", self.calibration, tuple(CALIBRATIONS), or_none=True)
        check_comparison(self.comparison)
        self._parity: Parity = check_member("parity", self.parity, PARITIES, Parity)
        self._distance: Distance = check_member("distance", self.distance, DISTANCES, Distance)

    def _why_groups(self) -> str:
        return f"when eta > 0, got None with eta={self.eta}" if self.eta > 0 else ""

    def _score_objective(self, loss: Loss, data: TrainingData) -> ScoreObjective:
        """Return mean loss + η·E_f in the scores.

        Class weights change the cost of a mistake, not the comparison: the cells keep the rows' own weights.
        """
        penalty = None if data.cells is None else Penalty(self._distance, data.cells)
        weight = data.weight
        if self.class_weight is not None:
            mass = np.bincount(data.y, weights=weight, minlength=2)
            factors = check_class_weight(self.class_weight, data.classes, mass)
            weight = weight * factors.astype(weight.dtype)[data.y]
        return ScoreObjective(loss, data.y, weight, penalty, float(self.eta))

    def _store_fit(self, problem: Problem, point: PathPoint, data: TrainingData) -> None:
        """Set the fitted attributes, and warn if the fit is of little use."""
        theta = point.solution.theta
        g = problem.raw_scores(theta)
        penalty = problem.scores.penalty
        self.calibration_ = None
        if self.calibration is not None:
            unseen = self._unseen_scores(problem, point, data)
            self.calibration_ = CALIBRATIONS[self.calibration](unseen, data.y, data.row_counts)
        self._set_coefficients(problem, theta)
        self.n_iter_ = point.n_iter
        self.objective_ = point.solution.value
        self.penalty_ = 0.0 if penalty is None else penalty.value(g)
        self._diagnose(problem, point, to_numpy(g), data)
        self._store_labels(data)

    def _set_coefficients(self, problem: Problem, theta: np.ndarray) -> None:
        line = self._folded_line
        for name, value in problem.attributes(theta, line.slope, line.intercept).items():
            setattr(self, name, value)

    def _diagnose(self, problem: Any, point: PathPoint, g: np.ndarray, data: TrainingData) -> None:
        """Call `diagnose`, with the reason if scores are squeezed together already at η = 0."""
        sd, why = _spread(g, data.weight), ""
        if sd < COLLAPSED and point.plain is not None:
            constant = problem.scores.loss.kinked and constant_is_least(problem, point.plain)
            if constant or _spread(to_numpy(problem.raw_scores(point.plain)), data.weight) < COLLAPSED:
                why = _without_penalty(self.class_weight, constant=constant)
            if constant and self.eta == 0:
                _warn_of_collapse(sd, why)
        if self.eta == 0:
            return
        n_features = getattr(problem, "n_features", None)  # columns that vary; linear models only
        if (calibration := self.calibration_) is not None:
            diagnose(g, calibration(g), data, self.eta, why, n_features=n_features)
        else:
            # uncalibrated, 0.5 is where both mistakes cost the same in the loss, class weights included
            counted = replace(data, weight=problem.scores.weight)
            diagnose(g, g, counted, self.eta, why, n_features=n_features)

    def _unseen_scores(self, problem: Any, point: PathPoint, data: TrainingData) -> np.ndarray:
        """Return the scores to calibrate on, each row's from a model that has not seen it."""
        return left_out_scores(problem.with_eta(point.eta), point.solution.theta, data.row_counts)

    def _cross_fitted(self, g: np.ndarray, eta: float, data: TrainingData, fold: np.ndarray) -> np.ndarray:
        """Return each row's raw score from a copy of this model fitted without the rows of its fold."""
        part = clone(self).set_params(calibration=None, eta=eta, warm_start=False, verbose=0)
        part._copy_checked(self)
        part.calibration_ = None

        def refit(train: np.ndarray, test: np.ndarray) -> np.ndarray:
            rows = data.take(train)
            rows = replace(rows, X=self._columns_used(rows.X, train))
            problem = part._problem(rows)
            for point in part._points(problem, rows, [eta]):
                part._set_coefficients(problem, point.solution.theta)
            return part._raw_scores(self._columns_used(_safe_indexing(data.X, test), train))

        return cross_fitted_scores(data, g, fold, refit)

    def _columns_used(self, X: Any, train: np.ndarray) -> Any:
        """Return the columns of X that a fit to the rows `train` uses: all, unless X is a kernel matrix."""
        return X

    @property
    def _folded_line(self) -> Line:
        """The map that is folded into the fitted coefficients."""
        calibration = getattr(self, "calibration_", None)
        return calibration if isinstance(calibration, Line) else IDENTITY

    def _copy_checked(self, checked: Self) -> None:
        """Copy the attributes that `_check_rows` has set on another model."""
        self._parity, self._distance = checked._parity, checked._distance
        self.n_features_in_ = checked.n_features_in_
        if hasattr(checked, "feature_names_in_"):
            self.feature_names_in_ = checked.feature_names_in_


# ---------------------------------------------------------------- warnings after a fit


def diagnose(
    g: np.ndarray,
    calibrated: np.ndarray,
    data: TrainingData,
    eta: float,
    plain: str = "",
    *,
    n_features: int | None = None,
) -> None:
    """Warn when the penalty is too strong: collapsed scores, low accuracy, reversed ranking.

    Accuracy is low if a constant prediction has a higher one. Calibration stretches collapsed scores but does
    not separate people, so collapse is judged by g, and accuracy by the calibrated scores. `plain` is the
    reason to report where the scores are squeezed together even without the penalty.
    """
    y, weight = data.y, data.weight
    sd = _spread(g, weight)
    if n_features == 0:
        warn_user(
            "all risk scores are the same: no column of X varies, so that nobody can be told apart",
            CollapseWarning,
        )
    elif sd < COLLAPSED:
        _warn_of_collapse(sd, plain or f": a gap at 0.5 then says little. Lower eta (now {eta})")
    accuracy = float(np.average((calibrated > 0) == y, weights=weight))
    positive = float(np.average(y, weights=weight))
    if accuracy < max(positive, 1 - positive) - 1e-12:
        warn_user(
            f"training accuracy {accuracy:.3f} is under the majority rate "
            f"{max(positive, 1 - positive):.3f}: at 0.5 a constant answer does better. Lower eta (now "
            f"{eta}) or move the threshold",
            MajorityRateWarning,
        )
    some: Any = slice(None)
    if len(g) > AUC_ROWS:  # at random: every k-th row could have the same label
        some = np.random.default_rng(0).integers(0, len(g), AUC_ROWS)
    area = auc(g[some], y[some], weight[some])
    if area < 0.5:
        warn_user(
            f"training AUC {area:.3f} is under 0.5: the scores rank people worse than chance. Lower eta "
            f"(now {eta})",
            ReversedRankingWarning,
        )


def _warn_of_collapse(sd: float, why: str) -> None:
    """Warn that the scores are nearly the same, and say why."""
    warn_user(
        f"all risk scores are squeezed together (standard deviation {sd:.1e}){why}",
        CollapseWarning,
    )


def _without_penalty(class_weight: Any, *, constant: bool) -> str:
    """Return why scores are squeezed together already at η = 0; `constant`: because of the hinge itself."""
    why = "the hinge loss alone is least at a constant score" if constant else "all risks are alike"
    remedies = ["loss='squared_hinge'"] if constant else []
    remedies += [] if isinstance(class_weight, str) else ["class_weight='balanced'"]
    advice = f". Set {' or '.join(remedies)}" if remedies else ""
    return f", at eta=0 too: where one label is rare, alpha large or X says little, {why}{advice}"


def _spread(g: np.ndarray, weight: np.ndarray) -> float:
    """Return the weighted standard deviation of s = sigmoid(g)."""
    s = sigmoid(g)
    mean = np.average(s, weights=weight)
    return float(np.sqrt(np.average((s - mean) ** 2, weights=weight)))
