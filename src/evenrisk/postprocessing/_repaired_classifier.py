"""A classifier whose scores are repaired with the attribute known at prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import logit
from sklearn.base import clone
from sklearn.metrics import accuracy_score
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted

from evenrisk._estimator import FairClassifier, TrainingData, all_or_nothing, forget
from evenrisk._validation import ArgumentError, MissingSensitiveFeatures, check_flag
from evenrisk.parity import PARITIES
from evenrisk.postprocessing._aware import BarycenterRepair, HistogramMatcher
from evenrisk.postprocessing._base_models import (
    Classifier,
    CrossFitting,
    Target,
    check_classifier,
    check_rows_per_fold,
    checksum_of,
    clone_with_fitted_models,
    cross_fit_classifier,
    is_prefit,
    rows_as_given,
    warn_of_rows_it_has_seen,
    warn_of_weights_left_out,
    with_seeds,
)

SMALLEST = 1e-15  # risks nearer to 0 have its log-odds, which are finite


@dataclass(frozen=True)
class Risks:
    """What a map of risks is fitted to."""

    classifier: Classifier  # fitted to all rows
    risk: np.ndarray  # (n,) of people it has not seen
    groups: np.ndarray  # (n,)
    weight: np.ndarray  # (n,)
    checksum: str | None  # of what was given to fit


class RepairedClassifier(FairClassifier):
    """Any classifier with the risks of every group moved to one distribution; predicting needs the group.

    The risks of people that the classifier has not seen are moved by a map such as
    :class:`BarycenterRepair`, one for each group. Demographic parity only.

    Parameters
    ----------
    estimator : classifier
        Any classifier with `predict_proba`.
    repair : BarycenterRepair, HistogramMatcher or None, default=None
        The map of risks; None is ``BarycenterRepair()``.
    cv : int, splitter, iterable or "prefit", default=5
        As in :class:`BlindRepair`.
    warm_start : bool, default=False
        Keep the classifier and the risks that the map was fitted to, and use them again in the next `fit` if
        it is given the same rows: only the map is then fitted.
    n_jobs : int, default=None
        How many folds to fit at once; the result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Shuffles the rows into folds. A classifier whose own `random_state` is None gets one from it.

    Attributes
    ----------
    estimator_ : classifier
        Fitted to all rows.
    repair_ : BarycenterRepair or HistogramMatcher
        Fitted to risks out of fold.
    classes_ : ndarray of shape (2,)
        The labels; the second is the positive class.
    groups_ : ndarray of shape (k,)
        The groups seen; tuples where several columns were crossed.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (d,)
        Column names of X, where it had any.

    See Also
    --------
    BlindRepair : Needs the group at fitting only.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from evenrisk.datasets import load_compas
    >>> from evenrisk.metrics import max_demographic_parity_difference
    >>> from evenrisk.postprocessing import RepairedClassifier
    >>> X, y, race = load_compas()
    >>> repaired = RepairedClassifier(LogisticRegression(max_iter=1000), random_state=0)
    >>> repaired = repaired.fit(X, y, sensitive_features=race)
    >>> s = repaired.predict_proba(X, sensitive_features=race)[:, 1]
    >>> round(max_demographic_parity_difference(y, s, sensitive_features=race), 1)
    0.0
    """

    keeps_base_models: ClassVar[bool] = True  # from one fit to the next with warm_start; searches look at it
    needs_groups_to_predict: ClassVar[bool] = True
    # with metadata routing on, pipelines and searches pass the groups through without a request
    __metadata_request__predict: ClassVar = {"sensitive_features": True}
    __metadata_request__predict_proba: ClassVar = {"sensitive_features": True}
    __metadata_request__score: ClassVar = {"sensitive_features": True}
    __metadata_request__decision_function: ClassVar = {"sensitive_features": True}

    def __init__(
        self,
        estimator: Any,
        repair: Any = None,
        *,
        cv: Any = 5,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.repair = repair
        self.cv = cv
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any = None) -> Self:
        """Fit the classifier, and the map to its risks of people it has not seen.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            The features, as the classifier takes them.
        y : array-like of shape (n,)
            Two labels of any kind; the second in sorted order is the positive class.
        sample_weight : array-like of shape (n,), default=None
            Weight of each row.
        sensitive_features : array-like of shape (n,) or (n, m)
            The group of each row; several columns are crossed. Needed to predict too.

        Returns
        -------
        self
            The fitted estimator.
        """
        with all_or_nothing(self):
            data = self._check_rows(X, y, sample_weight, sensitive_features)
            risks = self._risks(data)
            repair = clone(self.with_map().repair)
            self.repair_ = repair.fit(risks.risk, sensitive_features=risks.groups, sample_weight=risks.weight)
            moved = self.repair_.transform(risks.risk, sensitive_features=risks.groups)
            if not (moved.min() >= 0 and moved.max() <= 1):
                raise ArgumentError(
                    "repair",
                    f"must move risks to [0, 1], got scores from {moved.min():g} to {moved.max():g}",
                )
            self._classifier, self.estimator_ = risks.classifier, risks.classifier.model
            forget(self, "_kept_risks")
            if self.warm_start:
                self._kept_risks = risks
            self._store_labels(data)
        return self

    def with_map(self) -> Self:
        """Return this estimator with the map that it would fit as its `repair`.

        Returns
        -------
        RepairedClassifier
            Itself, or a copy if `repair` is None.
        """
        return self if self.repair is not None else clone(self).set_params(repair=BarycenterRepair())

    def decision_function(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """Return the log-odds of the repaired risk of each row.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            The features.
        sensitive_features : array-like of shape (n,) or (n, m)
            The group of each row; one that `fit` has seen.

        Returns
        -------
        ndarray of shape (n,)
            Positive where the positive class is predicted.
        """
        s = self._repaired(X, sensitive_features)
        return logit(np.clip(s, SMALLEST, 1 - np.finfo(float).eps))

    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """Return 1 − s and the repaired risk s for each row.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            The features.
        sensitive_features : array-like of shape (n,) or (n, m)
            The group of each row; one that `fit` has seen.

        Returns
        -------
        ndarray of shape (n, 2)
            In the order of ``classes_``.
        """
        s = self._repaired(X, sensitive_features)
        return np.column_stack([1 - s, s])

    def predict(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """Return the label of each row: the positive class where the repaired risk is above 0.5.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            The features.
        sensitive_features : array-like of shape (n,) or (n, m)
            The group of each row; one that `fit` has seen.

        Returns
        -------
        ndarray of shape (n,)
            Labels, as they were given to `fit`.
        """
        positive = self._repaired(X, sensitive_features) > 0.5
        return self.classes_[positive.astype(np.intp)]

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any = None) -> float:
        """Return the accuracy of `predict`.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            The features.
        y : array-like of shape (n,)
            The labels.
        sample_weight : array-like of shape (n,), default=None
            Weight of each row.
        sensitive_features : array-like of shape (n,) or (n, m)
            The group of each row; one that `fit` has seen.

        Returns
        -------
        float
            The share of rows decided right.
        """
        decided = self.predict(X, sensitive_features=sensitive_features)
        return float(accuracy_score(y, decided, sample_weight=sample_weight))

    def __sklearn_clone__(self) -> Self:
        return clone_with_fitted_models(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags

    def _repaired(self, X: Any, sensitive_features: Any) -> np.ndarray:
        check_is_fitted(self)
        if sensitive_features is None:
            raise MissingSensitiveFeatures(
                "`sensitive_features` is required to predict, got None: this repair moves each group's "
                "scores in its own way. scikit-learn's scorers and cross_val_predict do not pass it on: use "
                "tradeoff_path, or call predict_proba yourself. BlindRepair predicts without it"
            )
        risk = self._classifier.probabilities(rows_as_given(self, X, reset=False))[:, 1]
        return self.repair_.transform(risk, sensitive_features=sensitive_features)

    def _risks(self, data: TrainingData) -> Risks:
        """Return the classifier, and the risks of rows of positive weight that it has not seen."""
        settings = {name: getattr(self, name) for name in ("estimator", "cv", "random_state")}
        given = checksum_of(data, settings)
        kept = getattr(self, "_kept_risks", None)
        if self.warm_start and kept is not None and given is not None and kept.checksum == given:
            return kept
        if is_prefit(self.cv):
            data = data.drop_zero_weights()
            classifier = Classifier(self.estimator, data.classes, "estimator")
            unseen = classifier.probabilities(data.X)
            warn_of_rows_it_has_seen(classifier, unseen, data)
        else:
            rng = check_random_state(self.random_state)
            how = CrossFitting.plan(self.cv, data, rng, self.n_jobs)
            check_rows_per_fold(len(how.folds), data, [None])
            data = data.drop_zero_weights()
            everybody = np.ones(len(data.y), dtype=bool)
            target = Target("estimator", data.classes[data.y], data.classes, everybody)
            estimator = with_seeds(self.estimator, self.random_state, rng)
            warn_of_weights_left_out("estimator", estimator, data.weight)
            fitted = cross_fit_classifier(estimator, data.X, target, data.weight, how)
            assert isinstance(fitted.source, Classifier)
            classifier, unseen = fitted.source, fitted.unseen
        groups = data.groups.labels[data.groups.code]  # type: ignore[union-attr]
        return Risks(classifier, unseen[:, 1], groups, data.weight, given)

    def _check_parameters(self) -> None:
        check_flag("warm_start", self.warm_start)
        if isinstance(self.estimator, str):
            raise ArgumentError(
                "estimator",
                f"must be a classifier, got {self.estimator!r:.80}: a score that exists is repaired by "
                "BarycenterRepair().fit(scores, sensitive_features=…)",
            )
        check_classifier("estimator", self.estimator, prefit=is_prefit(self.cv))
        if self.repair is not None and not isinstance(self.repair, (BarycenterRepair, HistogramMatcher)):
            raise ArgumentError(
                "repair", f"must be a BarycenterRepair, a HistogramMatcher or None, got {self.repair!r:.80}"
            )
        self._parity = PARITIES["demographic_parity"]

    def _why_groups(self) -> str:
        return "to repair scores group by group, got None"

    def _without_groups(self) -> str:
        return "and to predict, or fit the classifier itself for a plain model"

    def _may_merge_rows(self) -> bool:
        return False

    def _check_X(self, X: Any) -> Any:
        return rows_as_given(self, X, reset=True)
