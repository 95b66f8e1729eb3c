"""Fair to a budget: "no gap above 0.05 anywhere" instead of an η."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from evenrisk._validation import (
    MissingSensitiveFeatures,
    check_fraction,
    check_number,
)
from evenrisk.model_selection._folds import Data, Tunable
from evenrisk.model_selection._search import Search

if TYPE_CHECKING:
    from evenrisk.parity import Parity

COLUMNS = ("eta", "max_gap", "bound", "auc", "accuracy")


def _has(method: str) -> Any:
    return available_if(lambda self: hasattr(getattr(self, "best_estimator_", self.estimator), method))


class BudgetSearchCV(ClassifierMixin, BaseEstimator):
    """Find the smallest eta that keeps the gap between groups within a budget at every threshold.

    The gap is measured on held-out scores, pooled over the folds of a cross-validation as places among the
    scores of their fold, since each fold's model has a scale of its own. The search climbs eta
    by factors of √10 until the budget is met and bisects from there, each fit beginning where that of a
    smaller eta ended. The model is then fitted to all rows with the eta found.

    Parameters
    ----------
    estimator : estimator
        Any classifier with a parameter `eta` whose `fit` takes `sensitive_features`, or a pipeline with one
        such step. Inside anything else (calibration, a moved threshold, another search) it needs metadata
        routing on: ``sklearn.set_config(enable_metadata_routing=True)``. Its own eta is not used.
    max_gap : float, default=0.05
        The budget, above 0 and at most 1: the largest gap allowed at any threshold, in the worst stratum. 1
        allows everything: eta = 0, and no ``sensitive_features`` needed.
    confidence : float, default=None
        None holds the measured gap against the budget; what is measured there is often a little below the
        true gap, since eta was chosen by it. A number such as 0.9 holds an upper bound against it, the end of
        a bootstrap band that covers the gap at all thresholds with this confidence.
    parity : str or Parity, default=None
        The rule whose gap is meant; None is the estimator's own.
    cv : int, splitter or iterable, default=5
        Number of folds, each with its share of every label in every group; or what scikit-learn takes. No
        row may be held out twice, nor fitted and held out by the same fold.
    eta_range : (float, float), default=(0.01, 1000)
        Where to look for eta, besides 0.
    n_jobs : int, default=None
        How many folds to fit at once; the result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Shuffles the rows into folds and draws the resamples of the bound.
    verbose : int, default=0
        1 writes one line per eta to standard error.

    Attributes
    ----------
    eta_ : float
        The eta found.
    budget_met_ : bool
        Whether the held-out gap (its bound, with `confidence`) at `eta_` is within the budget.
    max_gap_ : float
        The held-out max gap at `eta_`, of the scores' places within their folds; NaN where no groups were
        given.
    path_ : pandas.DataFrame
        What was tried, by eta: `max_gap`, `bound` (NaN without `confidence`, or where the measured gap is
        already above the budget), `auc` and `accuracy`, all of the pooled held-out scores. Gap, bound and AUC
        are of a score's place among those of its fold: a rank from 0 to 1, ties in the middle. The accuracy
        is of the raw score's sign.
    best_estimator_ : estimator
        Fitted to all rows with `eta_`.
    classes_ : ndarray of shape (2,)
        The labels; the second is the positive class.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (d,)
        Column names of X, where it had any.

    See Also
    --------
    evenrisk.model_selection.tradeoff_path : The whole trade-off, to choose by eye.

    Notes
    -----
    Where no eta in the range meets the budget, a :class:`~evenrisk.exceptions.BudgetWarning` says how close
    it came and what chance alone would show on as many rows, `budget_met_` is False, and the model is the one
    with the smallest eta whose gap is within 0.005 of the best. Where the measured gap meets it but these
    rows cannot verify that at the `confidence` asked for, `budget_met_` is False too, the model is the one
    that meets it as measured, and the warning says how many rows would be enough. Without `confidence` a
    budget below what chance alone shows on so many rows is met as measured, with a warning that says so.

    Examples
    --------
    >>> from evenrisk import BudgetSearchCV, FairLogisticRegression
    >>> from evenrisk.datasets import load_compas
    >>> X, y, race = load_compas()
    >>> X = (X - X.mean()) / X.std()
    >>> search = BudgetSearchCV(FairLogisticRegression(), max_gap=0.15, random_state=0)
    >>> search = search.fit(X, y, sensitive_features=race)
    >>> search.budget_met_, search.max_gap_ <= 0.15
    (True, True)
    """

    # with metadata routing on, pipelines and searches pass the groups through without being told
    __metadata_request__fit: ClassVar = {"sensitive_features": True}

    def __init__(
        self,
        estimator: Any,
        max_gap: float = 0.05,
        *,
        confidence: float | None = None,
        parity: str | Parity | None = None,
        cv: Any = 5,
        eta_range: tuple[float, float] = (0.01, 1000.0),
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.max_gap = max_gap
        self.confidence = confidence
        self.parity = parity
        self.cv = cv
        self.eta_range = eta_range
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any = None) -> Self:
        """Find eta and fit the model to all rows.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            The features. The protected attribute should not be among them.
        y : array-like of shape (n,)
            Two labels of any kind; the second in sorted order is the positive class.
        sample_weight : array-like of shape (n,), default=None
            Weight of each row, in the fits and in the gap.
        sensitive_features : array-like of shape (n,) or (n, m), default=None
            The group of each row; several columns are crossed. Required unless the budget is 1; never needed
            to predict.

        Returns
        -------
        self
            The fitted search.
        """
        tunable = Tunable.of(self.estimator)
        self._check_parameters()
        data = Data(X, y, None, sample_weight)
        if sensitive_features is None:
            if self.max_gap < 1:
                raise MissingSensitiveFeatures(
                    "`sensitive_features` is required for a budget below 1, got None with "
                    f"max_gap={self.max_gap}. Pass the group of each row to fit (it is not needed to predict)"
                )
            eta, lineage, path, met = 0.0, [0.0], {0.0: dict.fromkeys(COLUMNS[1:], np.nan)}, True
        else:
            search = Search(self, tunable, Data(X, y, sensitive_features, sample_weight))
            eta, met = search.result()
            lineage, path, data = search.held_out.lineage(eta), search.path, search.rows.data
        model = tunable.finish(data, lineage)
        self.eta_, self.budget_met_, self.max_gap_ = eta, met, path[eta]["max_gap"]
        self.path_ = _table(path)
        self._take_over(model)
        return self

    def _check_parameters(self) -> None:
        check_fraction("max_gap", self.max_gap, one=True)
        if self.confidence is not None:
            check_fraction("confidence", self.confidence)
        try:
            low, high = (check_number("eta_range", eta, low=0, strict=True) for eta in self.eta_range)
        except (TypeError, ValueError):
            low, high = 1.0, 0.0
        check_number("verbose", self.verbose, low=0)
        if not low < high:
            raise ValueError(f"`eta_range` must be (low, high) with 0 < low < high, got {self.eta_range!r}")

    def _take_over(self, model: Any) -> None:
        """Look like the model from the outside."""
        self.best_estimator_ = model
        self.classes_ = model.classes_
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))

    def predict(self, X: Any) -> np.ndarray:
        """Give the label of each row, by the model found.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            The features.

        Returns
        -------
        ndarray of shape (n,)
            Labels, as they were given to `fit`.
        """
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.predict(X))

    @_has("predict_proba")
    def predict_proba(self, X: Any) -> np.ndarray:
        """Give 1 − s and s, the risk, for each row, by the model found.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            The features.

        Returns
        -------
        ndarray of shape (n, 2)
            In the order of ``classes_``.
        """
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.predict_proba(X))

    @_has("decision_function")
    def decision_function(self, X: Any) -> np.ndarray:
        """Give the raw score of each row, by the model found.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            The features.

        Returns
        -------
        ndarray of shape (n,)
            Positive where the positive class is predicted.
        """
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.decision_function(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags


def _table(path: dict[float, dict[str, float]]) -> Any:
    """One row per η tried, the smallest first."""
    import pandas as pd

    rows = [{"eta": eta} | path[eta] for eta in sorted(path)]
    return pd.DataFrame(rows, columns=list(COLUMNS))
