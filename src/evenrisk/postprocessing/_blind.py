"""Repair of a score that exists, without the attribute at prediction."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from joblib import hash as checksum
from sklearn.base import clone
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted

from evenrisk._estimator import FairClassifier, TrainingData, all_or_nothing, forget
from evenrisk._validation import (
    ArgumentError,
    RepairWarning,
    check_choice,
    check_flag,
    check_member,
    check_number,
    listed,
    warn_user,
)
from evenrisk.calibration import CALIBRATIONS
from evenrisk.distances import DISTANCES, Distance
from evenrisk.linear_model import FairLogisticRegression
from evenrisk.parity import PARITIES, Parity
from evenrisk.postprocessing._base_models import (
    BaseModels,
    Classifier,
    CrossFitting,
    ProbabilityColumns,
    ScoreColumn,
    Source,
    Target,
    check_classifier,
    check_rows_per_fold,
    cross_fit,
    is_prefit,
    rows_as_given,
    warn_of_useless_model,
    weight_argument,
    with_seeds,
)
from evenrisk.postprocessing._coin import Coin
from evenrisk.postprocessing._plane import PlaneBasis
from evenrisk.postprocessing._plane_model import PlaneRows, choose_basis, fit_path


@dataclass(frozen=True)
class Plane:
    """The base models, and the training rows in their plane: what does not depend on η."""

    rows: PlaneRows
    models: BaseModels
    coin: Coin | None
    basis: PlaneBasis
    checksum: str  # of what was given to fit


class BlindRepair(FairClassifier):
    """Any classifier, made fair at every threshold without retraining it; predictions need X alone.

    A model of the label and a model of the group place every person in a plane: risk and probability of the
    group. A small fair logistic model in that plane gives the repaired score. No score that does not look at
    the attribute can do better than one that depends on these numbers only, so the small model does about as
    well as a fair model trained from scratch, in seconds, for as many eta as wanted.

    Parameters
    ----------
    estimator : classifier, or a column of X
        Any classifier of y with `predict_proba`, pipelines included. It is fitted once for each fold and once
        to all rows. Or the name (or number) of a column of X with a score that exists already, such as a
        vendor's; larger must mean riskier.
    parity : str or Parity, default="demographic_parity"
        Who is compared with whom: "demographic_parity", "equalized_odds", "equal_opportunity" (positives
        only), "predictive_equality" (negatives only), or a :class:`~evenrisk.Parity`.
    distance : str or Distance, default="gap"
        "gap", "histogram", "gaussian", or an instance with its own settings. ``GapDistance(power=8)`` keeps
        more AUC at a given max gap and takes longer.
    eta : float, default=1.0
        Weight of the penalty. 0 is the calibrated base model and needs no ``sensitive_features``. See
        :class:`~evenrisk.FairLogisticRegression`; :class:`~evenrisk.BudgetSearchCV` finds it.
    attribute_estimator : classifier, columns of X or None, default=None
        Any classifier of the group with `predict_proba`; None is a copy of `estimator`. Under a rule that
        compares people with the same label there is one for each such label, fitted to its people. Or a
        column of X with the probability of the second of two groups, or a list of columns, one for each group
        in sorted order. With ``cv="prefit"`` also a dict from label to fitted classifier.
    cv : int, splitter, iterable or "prefit", default=5
        Folds for predictions of rows that a base model has not seen: their number, each with its share of
        every label in every group, or what scikit-learn takes; every row must be held out once. "prefit": the
        base models are fitted already, and the rows given to `fit` are new to them.
    coin : bool, default=True
        Whether people at the same place in the plane may be told apart by a fixed random projection of X.
        Without it a crowd at one place, unequal by group, leaves a gap that no eta can close. The same X
        always has the same score.
    calibration : {"sigmoid", "isotonic"} or None, default=None
        One strictly increasing map of the repaired scores for all groups, so that they are risks again.
    max_iter : int, default=1000
        Largest number of iterations at each point of the path over eta.
    tol : float, default=1e-5
        Stop when no entry of the gradient of the plane model's objective is larger.
    warm_start : bool, default=False
        Keep the base models and the rows in their plane, and use them again in the next `fit` if it is given
        the same rows: only the plane model is then fitted.
    n_jobs : int, default=None
        How many folds to fit at once; the result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Shuffles the rows into folds and draws the projection. Base models whose own `random_state` is None
        get one from it.
    verbose : int, default=0
        1 writes one line per iteration of the plane model to standard error.

    Attributes
    ----------
    estimator_ : classifier
        The model of the label, fitted to all rows; not set where `estimator` is a column.
    attribute_estimators_ : list of classifiers
        The models of the group, fitted to all rows: one, or one for each label compared. They predict group
        codes, 0, 1, … in the order of ``groups_``.
    plane_model_ : FairLogisticRegression
        The fair model of the basis functions.
    classes_ : ndarray of shape (2,)
        The labels; the second is the positive class.
    groups_ : ndarray of shape (k,)
        The groups seen, where any were given; tuples where several columns were crossed.
    calibration_ : Line, Steps or None
        The map from the minimised raw score to the calibrated one, a callable.
    objective_, penalty_ : float
        The plane model's objective and E_f at the solution, before calibration.
    n_iter_ : int
        Iterations of the plane model over the whole path.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (d,)
        Column names of X, where it had any.

    See Also
    --------
    BarycenterRepair : For a score whose users know the group at prediction.

    Notes
    -----
    An explicit estimate of the group takes part in every prediction. Some rules read that as use of the
    attribute by proxy; a model trained with the penalty does so at most implicitly.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from evenrisk.datasets import load_compas
    >>> from evenrisk.metrics import max_demographic_parity_difference
    >>> from evenrisk.postprocessing import BlindRepair
    >>> X, y, race = load_compas()
    >>> forest = RandomForestClassifier(50, min_samples_leaf=20, random_state=0)
    >>> for eta in (0, 10):
    ...     repaired = BlindRepair(forest, eta=eta, random_state=0).fit(X, y, sensitive_features=race)
    ...     s = repaired.predict_proba(X)[:, 1]
    ...     print(round(max_demographic_parity_difference(y, s, sensitive_features=race), 1))
    0.3
    0.1
    """

    _plain_setting: ClassVar[str] = "eta=0"
    keeps_base_models: ClassVar[bool] = True  # from one fit to the next with warm_start; searches look at it

    def __init__(
        self,
        estimator: Any,
        parity: str | Parity = "demographic_parity",
        *,
        distance: str | Distance = "gap",
        eta: float = 1.0,
        attribute_estimator: Any = None,
        cv: Any = 5,
        coin: bool = True,
        calibration: str | None = None,
        max_iter: int = 1000,
        tol: float = 1e-5,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.parity = parity
        self.distance = distance
        self.eta = eta
        self.attribute_estimator = attribute_estimator
        self.cv = cv
        self.coin = coin
        self.calibration = calibration
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any = None) -> Self:
        """Fit the base models and the fair model in their plane.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            The features, as the base models take them; missing values and categories are theirs to handle.
            The protected attribute should not be among them.
        y : array-like of shape (n,)
            Two labels of any kind; the second in sorted order is the positive class.
        sample_weight : array-like of shape (n,), default=None
            Weight of each row, in the base models that take weights and in the plane model.
        sensitive_features : array-like of shape (n,) or (n, m), default=None
            The group of each row; several columns are crossed. Required where ``eta > 0``; never needed to
            predict.

        Returns
        -------
        self
            The fitted estimator.
        """
        with all_or_nothing(self):
            data = self._check_rows(X, y, sample_weight, sensitive_features)
            plane = self._plane(data)
            (model,) = fit_path(plane.rows, plane.basis, self._plane_model(), [float(self.eta)])
            self._store_fit(plane, model)
        return self

    def fit_path(
        self,
        X: Any,
        y: Any,
        etas: Sequence[float],
        sample_weight: Any = None,
        *,
        sensitive_features: Any = None,
    ) -> list[Self]:
        """Repair at each of several eta; the base models are fitted once.

        Parameters
        ----------
        X, y, sample_weight, sensitive_features
            As in `fit`.
        etas : sequence of float
            Values of eta, in any order; this estimator's own is not used.

        Returns
        -------
        list
            Fitted copies of this estimator, in the order of `etas`. They share the base models.
        """
        if np.ndim(etas) != 1 or not len(etas):
            raise ArgumentError("etas", f"must be a sequence of at least 1 number, got {etas!r}")
        etas = [float(check_number("etas", eta, low=0)) for eta in etas]
        strictest = clone(self).set_params(eta=max(etas))
        data = strictest._check_rows(X, y, sample_weight, sensitive_features)
        plane = strictest._plane(data)
        models = fit_path(plane.rows, plane.basis, self._plane_model(), etas)
        repaired = []
        for eta, model in zip(etas, models, strict=True):
            each = copy(strictest).set_params(eta=eta)
            each._store_fit(plane, model)
            repaired.append(each)
        return repaired

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the repaired raw score of each row.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            The features, as in `fit`.

        Returns
        -------
        ndarray of shape (n,)
            Positive where the positive class is predicted.
        """
        check_is_fitted(self)
        X = rows_as_given(self, X, reset=False)
        c = None if self._coin is None else self._coin(X)
        return self.plane_model_.decision_function(self._basis(self._models.coordinates(X), c))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "fit"):
            base = get_tags(self.estimator).input_tags
            tags.input_tags = base
        return tags

    # ---------------------------------------------------------------- checking

    def _check_parameters(self) -> None:
        check_number("eta", self.eta, low=0)
        check_number("tol", self.tol, low=0, strict=True)
        check_number("max_iter", self.max_iter, low=1, whole=True)
        check_flag("coin", self.coin)
        check_flag("warm_start", self.warm_start)
        check_choice("calibration", self.calibration, tuple(CALIBRATIONS), or_none=True)
        self._parity: Parity = check_member("parity", self.parity, PARITIES, Parity)
        self._distance: Distance = check_member("distance", self.distance, DISTANCES, Distance)
        _check_source("estimator", self.estimator, prefit=is_prefit(self.cv))
        if self.attribute_estimator is not None:
            for each in self._attribute_sources():
                _check_source("attribute_estimator", each, prefit=is_prefit(self.cv))
        elif not hasattr(self.estimator, "fit") or is_prefit(self.cv):
            why = "cv='prefit'" if is_prefit(self.cv) else f"a score column, {self.estimator!r}"
            if self.eta > 0:
                raise ValueError(
                    f"`attribute_estimator` must be given with {why}, got None: there is nothing to copy for "
                    "a model of the group"
                )

    def _attribute_sources(self) -> list[Any]:
        given = self.attribute_estimator
        return list(given.values()) if isinstance(given, dict) else [given]

    def _why_groups(self) -> str:
        return f"when eta > 0, got None with eta={self.eta}" if self.eta > 0 else ""

    def _may_merge_rows(self) -> bool:
        return False

    def _check_X(self, X: Any) -> Any:
        return rows_as_given(self, X, reset=True)

    # ---------------------------------------------------------------- base models

    def _plane(self, data: TrainingData) -> Plane:
        """Fit the base models and place every row by models that have not seen it."""
        given = checksum((data.X, data.y, data.weight, None if data.groups is None else data.groups.code))
        kept = getattr(self, "_kept_plane", None)
        if self.warm_start and kept is not None and kept.checksum == given:
            return kept
        rng = check_random_state(self.random_state)
        how = self._cross_fitting(data, rng)
        data = data.drop_zero_weights()
        risk, p = self._risk(data, how, rng)
        groups, q = self._group_models(data, how, rng)
        mass = np.zeros(1) if data.groups is None else np.bincount(data.groups.code, weights=data.weight)
        models = BaseModels(risk, groups, int(mass.argmax()))
        coin = None
        if self.coin and groups:
            coin = Coin(data.X, data.weight, int(rng.randint(2**31 - 1)))
        c = None if coin is None else coin(data.X)
        # X is not needed any more, and may be large
        rows = PlaneRows(replace(data, X=None), models.placed(p, q), c, how.fold_of_row % 2)
        return Plane(rows, models, coin, choose_basis(rows, self._plane_model(), self._distance), given)

    def _cross_fitting(self, data: TrainingData, rng: np.random.RandomState) -> CrossFitting:
        """Return the folds, or refuse a group that has too few rows for them."""
        if is_prefit(self.cv):
            return CrossFitting.plan(2, data, rng)  # for the choice of a size
        how = CrossFitting.plan(self.cv, data, rng, self.n_jobs)
        if data.groups is not None:
            check_rows_per_fold(len(how.folds), data, self._labels())
        return how

    def _labels(self) -> list[int | None]:
        """Return the labels within which groups are compared; [None] where the rule does not look at them."""
        if not self._parity.needs_label:
            return [None]
        stratum = np.asarray(self._parity.stratum(np.array([0, 1])))
        return [label for label in (0, 1) if stratum[label] >= 0]

    def _risk(
        self, data: TrainingData, how: CrossFitting, rng: np.random.RandomState
    ) -> tuple[Source, np.ndarray]:
        if not hasattr(self.estimator, "fit"):
            column = ScoreColumn.fit(data.X, self.estimator, data.weight)
            return column, column.probabilities(data.X)
        if is_prefit(self.cv):
            fitted = Classifier(self.estimator, data.classes, "estimator")
            return fitted, fitted.probabilities(data.X)
        everybody = np.ones(len(data.y), dtype=bool)
        target = Target("estimator", data.classes[data.y], data.classes, everybody)
        return self._cross_fit(self.estimator, data, target, how, rng)

    def _group_models(
        self, data: TrainingData, how: CrossFitting, rng: np.random.RandomState
    ) -> tuple[list[Source], list[np.ndarray]]:
        if data.groups is None:
            return [], []
        given = self.estimator if self.attribute_estimator is None else self.attribute_estimator
        n_groups = len(data.groups.labels)
        if not (hasattr(given, "fit") or isinstance(given, dict)):
            names = given if isinstance(given, list) else [given]
            if len(names) != n_groups and (n_groups, len(names)) != (2, 1):
                raise ValueError(
                    f"`attribute_estimator` must name one column of X for each of {n_groups} groups, got "
                    f"{len(names)}"
                )
            columns = ProbabilityColumns(names, n_groups)
            return [columns], [columns.probabilities(data.X)]
        if is_prefit(self.cv):
            return self._prefit_group_models(given, data)
        found = []
        for label in self._labels():
            rows = np.ones(len(data.y), dtype=bool) if label is None else data.y == label
            target = Target("attribute_estimator", data.groups.code, np.arange(n_groups), rows)
            found.append(self._cross_fit(given, data, target, how, rng))
        return [model for model, _ in found], [p for _, p in found]

    def _prefit_group_models(self, given: Any, data: TrainingData) -> tuple[list[Source], list[np.ndarray]]:
        assert data.groups is not None
        models = [given]
        if isinstance(given, dict):
            wanted = [data.classes[label] for label in self._labels() if label is not None]
            if set(given) != set(wanted):
                raise ValueError(
                    f"`attribute_estimator` must have a model for each label compared, {listed(wanted)}, got "
                    f"{listed(given)}"
                )
            models = [given[label] for label in wanted]
        crossed = isinstance(data.groups.labels[0], tuple)
        classes = np.arange(len(data.groups.labels)) if crossed else data.groups.labels
        fitted: list[Source] = [Classifier(model, classes, "attribute_estimator") for model in models]
        return fitted, [each.probabilities(data.X) for each in fitted]

    def _cross_fit(
        self,
        estimator: Any,
        data: TrainingData,
        target: Target,
        how: CrossFitting,
        rng: np.random.RandomState,
    ) -> tuple[Source, np.ndarray]:
        estimator = with_seeds(estimator, self.random_state, rng)
        if (data.weight != 1).any() and not weight_argument(estimator, data.weight):
            warn_user(
                f"`{target.role}`, a {type(estimator).__name__}, takes no `sample_weight`: the weights count "
                "in the repair, not in this model",
                RepairWarning,
            )
        model, unseen = cross_fit(estimator, data.X, target, data.weight, how)
        warn_of_useless_model(model, unseen, data.X, target, data.weight)
        return model, unseen

    def _plane_model(self) -> FairLogisticRegression:
        """Return the plane model, not fitted, with the settings that are this estimator's."""
        return FairLogisticRegression(
            self.parity,
            distance=self.distance,
            calibration=self.calibration,
            max_iter=self.max_iter,
            tol=self.tol,
            verbose=self.verbose,
        )

    def _store_fit(self, plane: Plane, model: FairLogisticRegression) -> None:
        """Set the fitted attributes."""
        forget(self, "estimator_", "attribute_estimators_", "_kept_plane")
        if isinstance(plane.models.risk, Classifier):
            self.estimator_ = plane.models.risk.model
        self.attribute_estimators_ = [
            each.model for each in plane.models.groups if isinstance(each, Classifier)
        ]
        self._models, self._coin, self._basis = plane.models, plane.coin, plane.basis
        if self.warm_start:
            self._kept_plane = plane
        self.plane_model_, self.calibration_ = model, model.calibration_
        self.objective_, self.penalty_, self.n_iter_ = model.objective_, model.penalty_, model.n_iter_
        self._store_labels(plane.rows.data)


def _check_source(role: str, given: Any, *, prefit: bool) -> None:
    """Check that a base model is a classifier, or names columns of X."""
    named = isinstance(given, (str, int, np.integer, list)) and not isinstance(given, bool)
    if not (named or hasattr(given, "fit")):
        raise ArgumentError(role, f"must be a classifier or the name of a column of X, got {given!r:.80}")
    if not named:
        check_classifier(role, given, prefit=prefit)
