"""Repair of a score that exists, without the attribute at prediction."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from joblib import hash as checksum
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.utils import _safe_indexing, check_random_state, get_tags
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    _num_samples,
    check_is_fitted,
)

from evenrisk._estimator import FairClassifier, TrainingData, all_or_nothing, forget
from evenrisk._validation import (
    RepairWarning,
    SmallCellWarning,
    check_choice,
    check_features,
    check_flag,
    check_member,
    check_number,
    listed,
    warn_user,
)
from evenrisk.calibration import CALIBRATIONS
from evenrisk.curves import auc
from evenrisk.distances import DISTANCES, Distance
from evenrisk.linear_model import FairLogisticRegression
from evenrisk.losses import LOGISTIC
from evenrisk.objective import Penalty, ScoreObjective
from evenrisk.parity import PARITIES, Parity
from evenrisk.postprocessing._base_models import (
    BaseModels,
    Classifier,
    Fold,
    ProbabilityColumns,
    ScoreColumn,
    Source,
    Target,
    cross_fit,
    weight_argument,
)
from evenrisk.postprocessing._coin import Coin
from evenrisk.postprocessing._plane import PlaneBasis, Size, affordable

RIDGE = 0.3  # in the plane model, over the number of rows
SELECTION_ROWS = 20_000  # at most, on which sizes of the plane model are compared
MEMORISED = 0.15  # by which a base model's AUC on its own rows may be above that out of fold


@dataclass(frozen=True)
class Plane:
    """The training rows in the plane: all that the plane model is fitted to."""

    data: TrainingData  # rows of positive weight; X is the user's
    models: BaseModels
    V: np.ndarray  # (n, m) coordinates, out of fold
    coin: Coin | None
    c: np.ndarray | None  # (n,)
    half: np.ndarray  # (n,) 0 or 1, for comparing sizes
    checksum: str  # of what was given to fit
    basis: PlaneBasis | None = None

    def part(self, basis: PlaneBasis, rows: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return basis functions, labels and weights of some rows."""
        c = None if self.c is None else self.c[rows]
        return basis(self.V[rows], c), self.data.y[rows], self.data.weight[rows]


class BlindRepair(FairClassifier):
    """Any classifier, made fair at every threshold without retraining it; predictions need X alone.

    Two models, one of the label and one of the group, place every person in a plane: risk and probability of
    the group. A small fair logistic model of splines in that plane gives the repaired score. The best score
    that does not look at the attribute depends on these numbers only, so the small model does as well as one
    trained from scratch, in seconds, for as many eta as wanted.
    """

    _plain_setting: ClassVar[str] = "eta=0"

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
        """Fit the base models, out of fold and on all rows, and the fair model in their plane."""
        with all_or_nothing(self):
            data = self._check_rows(X, y, sample_weight, sensitive_features)
            plane = self._plane(data)
            self._store_fit(plane, self._plane_models(plane, [float(self.eta)])[0])
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
        """Repair at each of several eta; the base models are fitted once."""
        if np.ndim(etas) != 1 or not len(etas):
            raise ValueError(f"`etas` must be a sequence of at least 1 number, got {etas!r}")
        etas = [float(check_number("etas", eta, low=0)) for eta in etas]
        strictest = clone(self).set_params(eta=max(etas))
        data = strictest._check_rows(X, y, sample_weight, sensitive_features)
        plane = strictest._plane(data)
        repaired = []
        for eta, model in zip(etas, strictest._plane_models(plane, etas), strict=True):
            each = copy(strictest).set_params(eta=eta, warm_start=self.warm_start)
            each._store_fit(plane, model)
            repaired.append(each)
        return repaired

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the repaired raw score of each row."""
        check_is_fitted(self)
        X = self._features(X, reset=False)
        V = self._models.coordinates(X)
        c = None if self._coin is None else self._coin(X)
        return self.plane_model_.decision_function(self._basis_(V, c))

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
        _check_source("estimator", self.estimator, prefit=self._is_prefit)
        if self.attribute_estimator is not None:
            for each in self._attribute_sources():
                _check_source("attribute_estimator", each, prefit=self._is_prefit)
        elif not hasattr(self.estimator, "fit") or self._is_prefit:
            why = "cv='prefit'" if self._is_prefit else f"a score column, {self.estimator!r}"
            if self.eta > 0:
                raise ValueError(
                    f"`attribute_estimator` must be given with {why}, got None: there is nothing to copy for "
                    "a model of the group"
                )

    @property
    def _is_prefit(self) -> bool:
        return isinstance(self.cv, str) and self.cv == "prefit"

    def _attribute_sources(self) -> list[Any]:
        given = self.attribute_estimator
        return list(given.values()) if isinstance(given, dict) else [given]

    def _why_groups(self) -> str:
        return f"when eta > 0, got None with eta={self.eta}" if self.eta > 0 else ""

    def _may_merge_rows(self) -> bool:
        return False

    def _check_X(self, X: Any) -> Any:
        return self._features(X, reset=True)

    def _features(self, X: Any, *, reset: bool) -> Any:
        """Return X as the base models will see it: what is in it is theirs to check."""
        check_features(X)
        if hasattr(X, "to_pandas"):  # polars, pyarrow
            X = X.to_pandas()
        if not hasattr(X, "shape"):
            X = np.asarray(X)
        if hasattr(X, "tocsr"):
            X = X.tocsr()
        _check_feature_names(self, X, reset=reset)
        if len(X.shape) == 2:
            _check_n_features(self, X, reset=reset)
        return X

    # ---------------------------------------------------------------- base models

    def _plane(self, data: TrainingData) -> Plane:
        """Fit the base models and place every row by models that have not seen it."""
        given = checksum((data.X, data.y, data.weight, None if data.groups is None else data.groups.code))
        kept = getattr(self, "_kept_plane", None)
        if self.warm_start and kept is not None and kept.checksum == given:
            return kept
        rng = check_random_state(self.random_state)
        fold, folds = self._folds(data, rng)
        present = np.flatnonzero(data.weight > 0)
        place = np.full(len(data.y), -1)
        place[present] = np.arange(len(present))
        folds = [(place[train[data.weight[train] > 0]], place[test[data.weight[test] > 0]]) for train, test in folds]
        half, data = (fold % 2)[present], data.drop_zero_weights()
        risk, p = self._risk(data, folds, rng)
        groups, q = self._group_models(data, folds, rng)
        mass = np.zeros(1) if data.groups is None else np.bincount(data.groups.code, weights=data.weight)
        models = BaseModels(risk, groups, int(mass.argmax()))
        V = models.placed(p, q)
        coin = c = None
        if self.coin and len(q):
            coin = Coin(data.X, data.weight, int(rng.randint(2**31 - 1)))
            c = coin(data.X)
        plane = Plane(data, models, V, coin, c, half, given)
        return replace(plane, basis=self._basis(plane))

    def _folds(self, data: TrainingData, rng: np.random.RandomState) -> tuple[np.ndarray, list[Fold]]:
        """Return the fold of each row, and the folds; stratified by label and group."""
        n = len(data.y)
        stratum = data.y if data.groups is None else 2 * data.groups.code + data.y
        cv = 5 if self._is_prefit else self.cv
        if isinstance(cv, (int, np.integer)) and not isinstance(cv, bool):
            check_number("cv", cv, low=2, whole=True)
            self._check_rows_per_fold(data, int(cv))
            cv = StratifiedKFold(int(cv), shuffle=True, random_state=rng.randint(2**31 - 1))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # a label of a group may have fewer rows
                folds = list(cv.split(np.zeros(n), stratum))
        elif isinstance(cv, Iterable) and not isinstance(cv, str):
            folds = [(np.asarray(train), np.asarray(test)) for train, test in cv]
        else:
            folds = list(check_cv(cv, data.y, classifier=True).split(np.zeros(n), stratum))
        fold = np.full(n, -1)
        for number, (_, test) in enumerate(folds):
            fold[test] = number
        if (fold < 0).any() or sum(len(test) for _, test in folds) != n:
            raise ValueError("`cv` must hold out every row exactly once, got folds that do not")
        return fold, folds

    def _check_rows_per_fold(self, data: TrainingData, n_folds: int) -> None:
        """Refuse a label or a group with fewer rows than folds: a base model would never see it."""
        present = data.weight > 0
        counts = np.bincount(data.y[present], minlength=2)
        if self._is_prefit:
            return
        if counts.min() < n_folds:
            raise ValueError(
                f"`cv` must be at most the number of rows of each label, got {n_folds} folds and "
                f"{counts.min()} rows of {data.classes[counts.argmin()]!r}"
            )
        if data.groups is None:
            return
        for label in self._labels():
            rows = present if label is None else present & (data.y == label)
            counts = np.bincount(data.groups.code[rows], minlength=len(data.groups.labels))
            if counts.min() < n_folds:
                where = "" if label is None else f" among rows of {data.classes[label]!r}"
                raise ValueError(
                    f"`cv` must be at most the number of rows of each group{where}, got {n_folds} folds and "
                    f"{counts.min()} rows of {data.groups.names[int(counts.argmin())]!r}"
                )

    def _labels(self) -> list[int | None]:
        """Return the labels within which groups are compared; [None] where the rule does not look at them."""
        if not self._parity.needs_label:
            return [None]
        stratum = np.asarray(self._parity.stratum(np.array([0, 1])))
        return [label for label in (0, 1) if stratum[label] >= 0]

    def _risk(
        self, data: TrainingData, folds: list[Fold], rng: np.random.RandomState
    ) -> tuple[Source, np.ndarray]:
        if not hasattr(self.estimator, "fit"):
            column = ScoreColumn.fit(data.X, self.estimator, data.weight)
            return column, column.probabilities(data.X)
        if self._is_prefit:
            fitted = Classifier(self.estimator, data.classes, "estimator")
            return fitted, fitted.probabilities(data.X)
        everybody = np.ones(len(data.y), dtype=bool)
        target = Target("estimator", data.classes[data.y], data.classes, everybody)
        return self._cross_fit(self.estimator, data, target, folds, rng)

    def _group_models(
        self, data: TrainingData, folds: list[Fold], rng: np.random.RandomState
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
        if self._is_prefit:
            return self._prefit_group_models(given, data)
        found = []
        for label in self._labels():
            rows = np.ones(len(data.y), dtype=bool) if label is None else data.y == label
            target = Target("attribute_estimator", data.groups.code, np.arange(n_groups), rows)
            found.append(self._cross_fit(given, data, target, folds, rng))
        return [model for model, _ in found], [p for _, p in found]

    def _prefit_group_models(
        self, given: Any, data: TrainingData
    ) -> tuple[list[Source], list[np.ndarray]]:
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
        self, estimator: Any, data: TrainingData, target: Target, folds: list[Fold], rng: np.random.RandomState
    ) -> tuple[Source, np.ndarray]:
        estimator = clone(estimator)
        if self.random_state is not None:
            seeds = {
                name: int(rng.randint(2**31 - 1))
                for name, value in sorted(estimator.get_params(deep=True).items())
                if name.split("__")[-1] == "random_state" and value is None
            }
            estimator.set_params(**seeds)
        if (data.weight != 1).any() and not weight_argument(estimator, data.weight):
            warn_user(
                f"`{target.role}`, a {type(estimator).__name__}, takes no `sample_weight`: the weights count in "
                "the repair, not in this model",
                RepairWarning,
            )
        return cross_fit(estimator, data.X, target, data.weight, folds, self.n_jobs)

    # ---------------------------------------------------------------- the plane model

    def _basis(self, plane: Plane) -> PlaneBasis:
        """Choose how fine the basis is: by the number of rows, and by the objective on rows held out.

        The choice does not depend on eta. It is made where the penalty of the plain score is a quarter of
        its loss: a weaker penalty needs no fine basis, and a stronger one multiplies the noise of its value.
        """
        coin, data = plane.c is not None, plane.data
        sizes = affordable(len(plane.V), plane.V, coin=coin)
        if data.cells is not None and len(sizes) > 1:
            plain = self._objective(plane, slice(None), 1.0)
            value = plain(plane.V[:, 0])[0]
            penalty = plain.penalty.value(plane.V[:, 0]) if plain.penalty else 0.0
            eta = 0.25 * (value - penalty) / penalty if penalty > 0 else 0.0
            held_out = [self._held_out_objective(plane, eta, size) for size in sizes]
            sizes = [sizes[int(np.argmin(held_out))]]
        return PlaneBasis(plane.V, sizes[0], coin=coin)

    def _held_out_objective(self, plane: Plane, eta: float, size: Size) -> float:
        """Return the objective of either half of the rows at this η, fitted to the other half."""
        rows = np.arange(len(plane.V))
        if len(rows) > SELECTION_ROWS:
            rows = np.sort(np.random.default_rng(0).permutation(len(rows))[:SELECTION_ROWS])
        total = 0.0
        for held in (0, 1):
            train, test = rows[plane.half[rows] != held], rows[plane.half[rows] == held]
            if not (plane.data.is_complete(train) and plane.data.is_complete(test)):
                return np.inf
            basis = PlaneBasis(plane.V[train], size, coin=plane.c is not None)
            model = self._plane_model(eta, len(train)).set_params(calibration=None, verbose=0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # raised once, by the fit to all rows
                model.fit(*plane.part(basis, train), sensitive_features=plane.data.groups.code[train])
            g = model.decision_function(plane.part(basis, test)[0])
            total += float(self._objective(plane, test, eta)(g)[0])
        return total

    def _objective(self, plane: Plane, rows: Any, eta: float) -> ScoreObjective:
        """Return mean loss + η·E_f in the scores of some rows."""
        data = plane.data
        penalty = Penalty(self._distance, data.cells.rows(rows))
        return ScoreObjective(LOGISTIC, data.y[rows], data.weight[rows], penalty, eta)

    def _plane_model(self, eta: float, n_rows: float) -> FairLogisticRegression:
        return FairLogisticRegression(
            self._parity,
            distance=self._distance,
            eta=eta,
            alpha=RIDGE / n_rows,
            calibration=self.calibration,
            max_iter=self.max_iter,
            tol=self.tol,
            verbose=self.verbose,
        )

    def _plane_models(self, plane: Plane, etas: Sequence[float]) -> list[FairLogisticRegression]:
        """Fit the plane model at each η."""
        data = plane.data
        F, y, weight = plane.part(plane.basis, slice(None))
        groups = None if data.groups is None else data.groups.labels[data.groups.code]
        model = self._plane_model(max(etas), data.weight.sum())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SmallCellWarning)  # raised already, when the rows were checked
            return model.fit_path(F, data.classes[y], etas, weight, sensitive_features=groups)

    def _store_fit(self, plane: Plane, model: FairLogisticRegression) -> None:
        self._models, self._coin, self._basis_, self.plane_model_ = (
            plane.models,
            plane.coin,
            plane.basis,
            model,
        )
        forget(self, "estimator_", "attribute_estimators_", "_kept_plane")
        if isinstance(plane.models.risk, Classifier):
            self.estimator_ = plane.models.risk.model
        self.attribute_estimators_ = [
            each.model for each in plane.models.groups if isinstance(each, Classifier)
        ]
        if self.warm_start:
            self._kept_plane = plane
        self.calibration_ = model.calibration_
        self.objective_, self.penalty_, self.n_iter_ = model.objective_, model.penalty_, model.n_iter_
        self._store_labels(plane.data)


def _check_source(role: str, given: Any, *, prefit: bool) -> None:
    """Check that a base model is one."""
    if isinstance(given, type):
        raise ValueError(f"`{role}` must be an instance, got the class {given.__name__}")
    if not hasattr(given, "fit"):
        if isinstance(given, (str, int, np.integer, list)) and not isinstance(given, bool):
            return
        raise ValueError(f"`{role}` must be a classifier or the name of a column of X, got {given!r:.80}")
    if not hasattr(given, "predict_proba"):
        raise ValueError(
            f"`{role}` must be a classifier with predict_proba, got {type(given).__name__}, which has none"
        )
    if prefit:
        try:
            check_is_fitted(given)
        except NotFittedError as error:
            raise ValueError(
                f"`{role}` must be fitted with cv='prefit', got a {type(given).__name__} that is not"
            ) from error
