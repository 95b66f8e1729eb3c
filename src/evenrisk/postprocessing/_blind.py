"""Repair of a score that exists, without the attribute at prediction."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted

from evenrisk._estimator import FairClassifier, TrainingData, all_or_nothing, forget
from evenrisk._validation import (
    ArgumentError,
    Comparison,
    MissingSensitiveFeatures,
    check_choice,
    check_comparison,
    check_flag,
    check_member,
    check_number,
    listed,
)
from evenrisk.calibration import CALIBRATIONS, weight_of_one_row
from evenrisk.distances import DISTANCES, Distance
from evenrisk.linear_model import FairLogisticRegression
from evenrisk.parity import PARITIES, Parity
from evenrisk.postprocessing._base_models import (
    BaseModels,
    Classifier,
    CrossFitting,
    FittedSource,
    Fold,
    GroupTarget,
    ProbabilityColumns,
    ScoreColumn,
    Target,
    check_classifier,
    check_probabilities,
    check_rows_per_fold,
    checksum_of,
    clone_with_fitted_models,
    cross_fit_classifier,
    is_prefit,
    rows_as_given,
    warn_of_rows_it_has_seen,
    warn_of_useless_model,
    warn_of_weights_left_out,
    with_seeds,
)
from evenrisk.postprocessing._coin import Coin, warn_of_crowd
from evenrisk.postprocessing._distill import Distillation, check_imitator, distill
from evenrisk.postprocessing._plane import PlaneBasis, RepairSurface, log_odds, mean_nearby
from evenrisk.postprocessing._plane_model import HeldOutPath, PlaneRows, choose_basis, fit_path

PREFIT_FOLDS = 5  # for what is fitted to rows that are new to the base models
MANY_ROWS = 20_000  # from which on searches leave folds out one at a time
PLANE_SETTINGS = (  # on which the plane depends
    *("estimator", "parity", "comparison", "distance", "attribute_estimator"),
    *("cv", "coin", "max_iter", "tol", "random_state"),
)


@dataclass(frozen=True)
class Plane:
    """The base models, and the training rows in their plane: what does not depend on η."""

    rows: PlaneRows
    how: CrossFitting
    models: BaseModels
    coin: Coin | None
    basis: PlaneBasis
    checksum: str | None  # of what was given to fit
    without: list[np.ndarray] | None = None  # the coordinates for each fold, as in `CrossFitted`


class HeldOutRepair:
    """A repair at any η of the same rows: scores of rows held out, and the repair fitted to all rows."""

    def __init__(self, repair: BlindRepair, plane: Plane, folds: Sequence[Fold]) -> None:
        # a later fit that starts warm has folds of its own
        self._repair, self._plane = repair, replace(plane, without=None, checksum=None)
        V = plane.without or [plane.rows.V] * len(folds)
        self._path = HeldOutPath(plane.rows, V, plane.basis.size, repair._plane_model(), folds)

    def raw_scores(self, eta: float) -> np.ndarray:
        """Return the score of each row of positive weight from models that were not fitted to it."""
        return self._path.raw_scores(eta, self._repair._distance)

    def fit_from_scratch(self) -> None:
        """Start none of the next fits where another one ended."""
        self._path.warm = False

    def fitted(self, eta: float) -> BlindRepair:
        """Return the repair fitted to all rows."""
        plane = self._plane
        (model,) = fit_path(plane.rows, plane.basis, self._repair._plane_model(), [eta])
        fitted = copy(self._repair).set_params(eta=eta)
        fitted._store_fit(plane, model)
        return fitted


class BlindRepair(FairClassifier):
    """Any classifier, made fair at every threshold without changing its kind; predictions need X alone.

    A model of the label and a model of the group place every person in a plane: risk and probability of the
    group. A small fair logistic model in that plane gives the repaired score. If the two models were exact,
    no score that does not look at the attribute could do better than one that depends on these numbers only.
    So the small model does about as well as a fair model trained from scratch, for many eta in seconds.

    Parameters
    ----------
    estimator : classifier, or a column of X
        Any classifier of y with `predict_proba`, pipelines included. It is fitted once for each fold and once
        to all rows. Or the name (or number) of a column of X with a score that exists already, such as a
        vendor's; larger must mean riskier.
    parity : str or Parity, default="demographic_parity"
        Among which people groups are compared: "demographic_parity", "equalized_odds", "equal_opportunity"
        (positives only), "predictive_equality" (negatives only), or a :class:`~evenrisk.Parity`.
    comparison : str or Comparison, default="crossed"
        Which groups are compared, as in :class:`~evenrisk.FairLogisticRegression`; not "probabilities". Every
        attribute has models and coordinates of its own, an ordered one a single coordinate.
    distance : str or Distance, default="gap"
        "gap", "histogram", "gaussian", or an instance with its own settings. ``GapDistance(power=8)`` keeps
        more AUC at a given max gap and takes longer.
    eta : float, default=1.0
        Weight of the penalty. 0 needs no ``sensitive_features`` and leaves the base model's order nearly as
        it is. See
        :class:`~evenrisk.FairLogisticRegression`; :class:`~evenrisk.BudgetSearchCV` finds it.
    attribute_estimator : classifier, columns of X or None, default=None
        Any classifier of the group with `predict_proba`; None is a copy of `estimator`. Under a rule that
        compares people with the same label there is one for each such label, fitted to its people. Or a
        column of X with the probability of the second of two groups, or a list of columns, one for each group
        in sorted order. With ``cv="prefit"`` also a dict from label to fitted classifier.
    cv : int, splitter, iterable or "prefit", default=5
        Folds for predictions of rows that a base model has not seen: their number, stratified by label and
        group, or any of scikit-learn's splitters; every row must be held out once. "prefit": the
        base models are fitted already, and the rows given to `fit` are new to them.
    coin : bool, default=True
        Whether people at the same place in the plane may be told apart by their coin, the rank of a random
        projection of X that is drawn once by `fit`. Without it, many people at one place leave a gap that no
        eta can close if the groups have different proportions there. The same X always has the same score.
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
        The model of the label, fitted to all rows (the given one with ``cv="prefit"``); not set where
        `estimator` is a column.
    attribute_estimators_ : list of classifiers
        The models of the group: one, or one for each label compared, of each attribute. They are fitted to
        all rows and predict group codes, 0, 1, … in the order of ``groups_``; with ``cv="prefit"`` they are
        the given ones, which must predict the groups themselves (codes where several columns are crossed).
    plane_model_ : FairLogisticRegression
        The fair model of the basis functions.
    place_names_ : list of str
        What each coordinate of the plane is: the risk, then the probabilities of all groups but the largest.
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

    The objective of the plane model is not convex for ``eta > 0``. The fit is the minimum that the path over
    eta leads to, as in :class:`~evenrisk.FairLogisticRegression`.

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
        comparison: str | Comparison = "crossed",
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
        self.comparison = comparison
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
            The group of each row, in one column or several. Required where ``eta > 0``; never needed to
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
        etas = [float(check_number(f"etas[{i}]", eta, low=0)) for i, eta in enumerate(etas)]
        strictest = copy(self).set_params(eta=max(etas))
        data = strictest._check_rows(X, y, sample_weight, sensitive_features)
        plane = strictest._plane(data)
        models = fit_path(plane.rows, plane.basis, self._plane_model(), etas)
        repaired = []
        for eta, model in zip(etas, models, strict=True):
            each = copy(strictest).set_params(eta=eta)
            each._store_fit(plane, model)
            repaired.append(each)
        return repaired

    def held_out(
        self,
        X: Any,
        y: Any,
        folds: Sequence[Fold],
        sample_weight: Any = None,
        *,
        sensitive_features: Any,
        n_jobs: int | None = None,
    ) -> HeldOutRepair | None:
        """Return what scores rows held out at any eta, without fitting a base model again.

        Searches use it. They hold out each fold in turn and need, for each, a repair that knows nothing of
        it; only the number of splines is chosen once, on all rows. The repair takes the folds that are left
        as its own, and a base model that is fitted without two folds serves both of them: with five folds 16
        fits of each base model instead of 36. From 20,000 rows on, folds are left out one at a time: 6 fits.
        The coordinates in a plane then come from models that know the fold held out, which changes measured
        gaps and AUC by less than their standard errors.

        Parameters
        ----------
        X, y, sample_weight, sensitive_features
            As in `fit`.
        folds : sequence of (train, test)
            The folds of the search, as arrays of row numbers.
        n_jobs : int, default=None
            How many folds to fit at once; None is this estimator's own.

        Returns
        -------
        HeldOutRepair or None
            None where the repair must have other folds: unless `cv` is their number or "prefit", where they
            do not hold out every row once, and where two of few rows have all rows of a cell.
        """
        times = np.bincount(np.concatenate([test for _, test in folds]), minlength=len(y))
        number = isinstance(self.cv, (int, np.integer)) and not isinstance(self.cv, bool)
        same = number and self.cv == len(folds)
        if not ((same or is_prefit(self.cv)) and (times == 1).all()):
            return None
        repair = clone(self).set_params(eta=1.0, warm_start=False)
        repair.set_params(n_jobs=self.n_jobs if n_jobs is None else n_jobs)
        data = repair._check_rows(X, y, sample_weight, sensitive_features)
        in_pairs = same and len(data.y) < MANY_ROWS
        how = CrossFitting.plan(folds, data, check_random_state(0), repair.n_jobs, in_pairs=in_pairs)
        if in_pairs and not how.pairs_are_complete(data.drop_zero_weights()):
            return None
        plane = repair._plane(data, how)
        repair.set_params(warm_start=self.warm_start, n_jobs=self.n_jobs)
        return HeldOutRepair(repair, plane, how.folds)

    def distill(
        self, estimator: Any, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any
    ) -> Distillation:
        """Fit the repair, then one plain model of X that imitates its score.

        What is deployed is then one ordinary model, without an estimate of the group and without evenrisk.

        Parameters
        ----------
        estimator : regressor or classifier
            What the model is to be. A regressor learns the repaired raw score; a classifier, whose `fit` must
            take weights, learns the repaired risk.
        X, y, sample_weight, sensitive_features
            As in `fit`, but the groups are always required. With ``warm_start=True``, after a `fit` to the
            same rows, the base models are not fitted again.

        Returns
        -------
        Distillation
            Its `model`, and AUC and max gap on rows held out, of the model and of the repair.

        Examples
        --------
        >>> from sklearn.ensemble import HistGradientBoostingRegressor
        >>> from sklearn.linear_model import LogisticRegression
        >>> from evenrisk.datasets import load_compas
        >>> X, y, race = load_compas()
        >>> repair = BlindRepair(LogisticRegression(max_iter=1000), eta=10, random_state=0)
        >>> model = HistGradientBoostingRegressor(max_leaf_nodes=8)
        >>> distilled = repair.distill(model, X, y, sensitive_features=race)
        >>> abs(distilled.distilled.auc - distilled.repaired.auc) < 0.02
        True
        >>> distilled.model.predict(X).shape
        (5278,)
        """
        check_imitator(estimator)
        with all_or_nothing(self):
            data = self._check_rows(X, y, sample_weight, sensitive_features)
            if data.groups is None:
                raise MissingSensitiveFeatures("`sensitive_features` is required to measure gaps, got None")
            plane = self._plane(data)
            (model,) = fit_path(plane.rows, plane.basis, self._plane_model(), [float(self.eta)])
            self._store_fit(plane, model)
            seeded = with_seeds(estimator, self.random_state, check_random_state(self.random_state))

            def raw_scores(rows: np.ndarray) -> np.ndarray:
                some = plane.rows.take(rows)
                (model,) = fit_path(some, plane.basis, self._plane_model(), [float(self.eta)])
                return model.decision_function(plane.rows.features(plane.basis))

            X = data.drop_zero_weights().X
            return distill(seeded, X, plane.rows.data, raw_scores, self._parity, plane.how)

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
        return self.plane_model_.decision_function(self._basis(log_odds(self._models.places(X)), c))

    def places(self, X: Any) -> np.ndarray:
        """Return where each row is in the plane.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            The features, as in `fit`.

        Returns
        -------
        ndarray of shape (n, m)
            The risk (of a score column, the rank) and the probabilities of groups; ``place_names_`` says what
            each column is.
        """
        check_is_fitted(self)
        return self._models.places(rows_as_given(self, X, reset=False))

    def risk_at(self, places: Any) -> np.ndarray:
        """Return the repaired risk at places of the plane, for people with a coin of 0.5.

        Parameters
        ----------
        places : array-like of shape (n, m)
            As `places` returns them.

        Returns
        -------
        ndarray of shape (n,)
            The risk of a person there.
        """
        check_is_fitted(self)
        given = check_probabilities(np.asarray(places, dtype=np.float64), "places")
        if given.ndim != 2 or given.shape[1] != len(self.place_names_):
            raise ArgumentError("places", f"must have shape (n, {len(self.place_names_)}), got {given.shape}")
        c = None if self._coin is None else np.full(len(given), 0.5)
        return self.plane_model_.predict_proba(self._basis(log_odds(given), c))[:, 1]

    def surface(self, X: Any, *, coordinate: str | None = None, n_points: int = 120) -> RepairSurface:
        """Return the mean repaired risk of people near each point of a picture: risk and one probability.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            People.
        coordinate : str, default=None
            Which probability, one of ``place_names_[1:]``; None is the one that varies most among the people.
        n_points : int, default=120
            Points of the grid along each axis.

        Returns
        -------
        RepairSurface
            The grid, the mean risks on it, and the people.
        """
        check_is_fitted(self)
        n_points = int(check_number("n_points", n_points, low=2, whole=True))
        if len(self.place_names_) < 2:
            raise ValueError(
                "a BlindRepair must be fitted with `sensitive_features` to have a plane, got none"
            )
        names, places = self.place_names_, self.places(X)
        shown = names[1 + int(places[:, 1:].std(axis=0).argmax())]
        if coordinate is not None:
            shown = check_choice("coordinate", coordinate, tuple(names[1:]))
        people = places[:, [0, names.index(shown)]]
        x, y = (np.linspace(column.min(), column.max(), n_points) for column in people.T)
        risk = mean_nearby(people, self.predict_proba(X)[:, 1], x, y)
        return RepairSurface(x, y, risk, people, (names[0], shown))

    def __sklearn_clone__(self) -> Self:
        return clone_with_fitted_models(self)

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
        check_comparison(self.comparison)
        self._parity: Parity = check_member("parity", self.parity, PARITIES, Parity)
        self._distance: Distance = check_member("distance", self.distance, DISTANCES, Distance)
        _check_source("estimator", self.estimator, prefit=is_prefit(self.cv))
        if self.attribute_estimator is not None:
            for each in self._attribute_sources():
                _check_source("attribute_estimator", each, prefit=is_prefit(self.cv))
        elif not self._can_copy():
            why = "cv='prefit'" if is_prefit(self.cv) else f"a score column, {self.estimator!r}"
            if self.eta > 0:
                raise ValueError(
                    f"`attribute_estimator` must be given with {why}, got None: there is nothing to copy for "
                    "a model of the group"
                )

    def _can_copy(self) -> bool:
        """Whether a copy of the model of the label can be a model of the group."""
        return hasattr(self.estimator, "fit") and not is_prefit(self.cv)

    def _attribute_sources(self) -> list[Any]:
        given = self.attribute_estimator
        if not isinstance(given, dict):
            return [given]
        if not (is_prefit(self.cv) and self._parity.needs_label):
            raise ArgumentError(
                "attribute_estimator",
                "must be a dict only with cv='prefit' and a parity that compares people of the same label, "
                f"got one with cv={self.cv!r:.40} and {self._parity.name}",
            )
        for model in given.values():
            check_classifier("attribute_estimator", model, prefit=True)
        return list(given.values())

    def _why_groups(self) -> str:
        return f"when eta > 0, got None with eta={self.eta}" if self.eta > 0 else ""

    def _may_merge_rows(self) -> bool:
        return False

    def _check_X(self, X: Any) -> Any:
        return rows_as_given(self, X, reset=True)

    # ---------------------------------------------------------------- base models

    def _plane(self, data: TrainingData, how: CrossFitting | None = None) -> Plane:
        """Fit the base models and place every row by models that have not seen it."""
        given = checksum_of(data, {name: getattr(self, name) for name in PLANE_SETTINGS})
        kept = getattr(self, "_kept_plane", None)
        if self.warm_start and kept is not None and given is not None and kept.checksum == given:
            return kept
        rng = check_random_state(self.random_state)
        how = self._cross_fitting(data, rng) if how is None else how
        data = data.drop_zero_weights()
        risk = self._risk(data, how, rng)
        targets = [] if data.groups is None else GroupTarget.all_of(data)
        groups = self._group_models(data, targets, how, rng)
        # one model after the other has the labels of an attribute
        of_model = np.repeat(np.arange(len(targets)), len(groups) // max(len(targets), 1))
        models = BaseModels(
            risk.source, [each.source for each in groups], [targets[i].coordinates for i in of_model]
        )
        coin = None
        if self.coin and groups:
            coin = Coin(data.X, data.weight, int(rng.randint(2**31 - 1)))
        c = None if coin is None else coin(data.X)
        warn_of_crowd(models.place(risk.own, [each.own for each in groups]), c, data, self._parity)
        V = log_odds(models.place(risk.unseen, [each.unseen for each in groups]))
        one = weight_of_one_row(data.weight)
        rows = PlaneRows(replace(data, X=None), V, c, how.fold_of_row % 2, one)  # X may be large
        basis = choose_basis(rows, self._plane_model(), self._distance)
        without = None
        if how.in_pairs:
            without = [
                log_odds(models.place(risk.not_seeing(f), [each.not_seeing(f) for each in groups]))
                for f in range(len(how.folds))
            ]
        return Plane(rows, how, models, coin, basis, given, without)

    def _cross_fitting(self, data: TrainingData, rng: np.random.RandomState) -> CrossFitting:
        """Return the folds, or refuse a group that has too few rows for them."""
        if is_prefit(self.cv):
            return CrossFitting.plan(PREFIT_FOLDS, data, rng, self.n_jobs)
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

    def _risk(self, data: TrainingData, how: CrossFitting, rng: np.random.RandomState) -> FittedSource:
        if not hasattr(self.estimator, "fit"):
            column = ScoreColumn.fit(data.X, self.estimator, data.weight)
            return FittedSource.of_new_rows(column, data.X)
        if is_prefit(self.cv):
            fitted = Classifier(self.estimator, data.classes, "estimator")
            found = FittedSource.of_new_rows(fitted, data.X)
            warn_of_rows_it_has_seen(fitted, found.own, data)
            return found
        everybody = np.ones(len(data.y), dtype=bool)
        target = Target("estimator", data.classes[data.y], data.classes, everybody)
        return self._cross_fit(self.estimator, data, target, how, rng)

    def _group_models(
        self,
        data: TrainingData,
        targets: list[GroupTarget],
        how: CrossFitting,
        rng: np.random.RandomState,
    ) -> list[FittedSource]:
        """Return the models of each attribute: one, or one for each label compared."""
        if data.groups is None or (self.attribute_estimator is None and not self._can_copy()):
            return []  # the second at eta = 0 only
        given = self.estimator if self.attribute_estimator is None else self.attribute_estimator
        n_groups = len(targets[0].labels)
        fitted_here = hasattr(given, "fit") and not is_prefit(self.cv)
        if not fitted_here and (len(targets) > 1 or targets[0].coordinates.shape[1] < n_groups - 1):
            raise ArgumentError(
                "attribute_estimator",
                "must be a classifier that is fitted here where there are several attributes or an ordered "
                f"one, got {given!r:.60} with cv={self.cv!r:.20}",
            )
        if not (hasattr(given, "fit") or isinstance(given, dict)):
            names = given if isinstance(given, list) else [given]
            if len(names) != n_groups and (n_groups, len(names)) != (2, 1):
                raise ValueError(
                    f"`attribute_estimator` must name one column of X for each of {n_groups} groups, got "
                    f"{len(names)}"
                )
            return [FittedSource.of_new_rows(ProbabilityColumns(names, n_groups), data.X)]
        if is_prefit(self.cv):
            return self._prefit_group_models(given, data, targets[0])
        found = []
        for each, label in product(targets, self._labels()):
            rows = (each.code >= 0) & (True if label is None else data.y == label)
            target = Target("attribute_estimator", each.code, np.arange(len(each.labels)), rows)
            found.append(self._cross_fit(given, data, target, how, rng))
        return found

    def _prefit_group_models(self, given: Any, data: TrainingData, target: GroupTarget) -> list[FittedSource]:
        models = [given]
        if isinstance(given, dict):
            wanted = [data.classes[label] for label in self._labels() if label is not None]
            if set(given) != set(wanted):
                raise ValueError(
                    f"`attribute_estimator` must have a model for each label compared, {listed(wanted)}, got "
                    f"{listed(given)}"
                )
            models = [given[label] for label in wanted]
        crossed = isinstance(target.labels[0], tuple)
        classes = np.arange(len(target.labels)) if crossed else np.array(target.labels)
        fitted = [Classifier(model, classes, "attribute_estimator") for model in models]
        return [FittedSource.of_new_rows(each, data.X) for each in fitted]

    def _cross_fit(
        self,
        estimator: Any,
        data: TrainingData,
        target: Target,
        how: CrossFitting,
        rng: np.random.RandomState,
    ) -> FittedSource:
        estimator = with_seeds(estimator, self.random_state, rng)
        warn_of_weights_left_out(target.role, estimator, data.weight)
        fitted = cross_fit_classifier(estimator, data.X, target, data.weight, how)
        warn_of_useless_model(type(estimator).__name__, fitted, target, data.weight)
        return fitted

    def _plane_model(self) -> FairLogisticRegression:
        """Return the plane model, not fitted, with the settings that are this estimator's."""
        return FairLogisticRegression(
            self.parity,
            comparison=self.comparison,
            distance=self.distance,
            calibration=self.calibration,
            max_iter=self.max_iter,
            tol=self.tol,
            verbose=self.verbose,
        )

    def _place_names(self, plane: Plane) -> list[str]:
        risk, data = plane.models.risk, plane.rows.data
        named = (
            f"rank of {risk.name!r}" if isinstance(risk, ScoreColumn) else f"risk, P(y = {data.classes[1]})"
        )
        if data.groups is None or not plane.models.groups:
            return [named]
        among = [""]
        if self._parity.needs_label and all(hasattr(each, "fit") for each in self._label_models()):
            strata = np.asarray(self._parity.stratum(np.array([0, 1])))
            labels = [label for label in self._labels() if label is not None]
            among = [f" among {self._parity.strata[strata[label]]}" for label in labels]
        return [
            named,
            *(
                f"{name}{each}"
                for target in GroupTarget.all_of(data)
                for each in among
                for name in target.coordinate_names
            ),
        ]

    def _label_models(self) -> list[Any]:
        """Return what has a fit for each label compared; [None] where one fitted model serves all."""
        given = self.estimator if self.attribute_estimator is None else self.attribute_estimator
        if isinstance(given, dict):
            return list(given.values())
        return [None if is_prefit(self.cv) else given]

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
        self.place_names_ = self._place_names(plane)
        self.plane_model_, self.calibration_ = model, model.calibration_
        self.objective_, self.penalty_, self.n_iter_ = model.objective_, model.penalty_, model.n_iter_
        self._store_labels(plane.rows.data)


def _check_source(role: str, given: Any, *, prefit: bool) -> None:
    """Check that a base model is a classifier, or names columns of X."""
    names = (str, int, np.integer) if role == "estimator" else (str, int, np.integer, list)
    named = isinstance(given, names) and not isinstance(given, bool)
    if not (named or hasattr(given, "fit")):
        raise ArgumentError(role, f"must be a classifier or the name of a column of X, got {given!r:.80}")
    if not named:
        check_classifier(role, given, prefit=prefit)
