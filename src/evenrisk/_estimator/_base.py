"""The contract every estimator shares: fit's door, prediction without groups."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import validate_data

from evenrisk._estimator._columns import Columns
from evenrisk._estimator._data import COLLAPSE_ENTRIES, TrainingData, collapse, summed_duplicates
from evenrisk._validation import (
    Groups,
    MissingSensitiveFeatures,
    check_alignment,
    check_binary,
    check_cells,
    check_features,
    check_groups,
    check_length,
    check_weight,
)
from evenrisk._xp import sigmoid
from evenrisk.calibration import weight_of_one_row
from evenrisk.parity import Parity, cell_codes, make_cells


class FairClassifier(ClassifierMixin, BaseEstimator):
    """Fit with groups, predict without them."""

    _parity: Parity
    _no_constraint: ClassVar[str]  # how to ask for the plain model

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
            wherever there is a penalty (``eta > 0``) or a bound; never needed to predict.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._all_or_nothing():
            data = self._check_fit(X, y, sample_weight, sensitive_features)
            self._fit(data)
        self._remember(data)
        return self

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Leave a model that was fitted before as it was if this fit fails, also on Ctrl-C."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

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

    def _stepped(self, g: np.ndarray) -> np.ndarray:
        """Map the raw scores of the fitted coefficients; only a calibration that is no line does."""
        return g

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags

    def _check_fit(self, X: Any, y: Any, sample_weight: Any, sensitive_features: Any) -> TrainingData:
        """Open the door: check everything once and give clean arrays."""
        self._check_parameters()
        check_alignment(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        X = self._check_X(X)
        n = X.shape[0]
        target, classes = check_binary(y)
        check_length("y", len(target), n)
        weight = check_weight(sample_weight, n, getattr(X, "dtype", np.float64))
        groups = None
        if sensitive_features is not None:
            groups = check_groups(sensitive_features, n)
        elif self._constraint():
            raise MissingSensitiveFeatures(
                f"`sensitive_features` is required {self._constraint()}. Pass the group of each row to fit "
                f"(it is not needed to predict), or set {self._no_constraint} for a plain model"
            )
        present = weight > 0
        if not present.all():
            if len(np.unique(target[present])) < 2:
                raise ValueError("`y` must have 2 classes among rows of positive weight, got 1 class")
            groups = None if groups is None else groups.among(present)
        if groups is not None:
            self._check_cell_sizes(target[present], groups.take(present))
        row = weight_of_one_row(weight)  # before equal rows are merged
        columns = self._columns(X, weight)
        X = X if columns is None else columns.into(X, weight)
        if self._merges() and X.shape[0] * X.shape[1] <= COLLAPSE_ENTRIES:
            X, target, weight, groups = collapse(X, target, weight, groups)
        cells = None
        if groups is not None:
            cells = make_cells(self._parity, target, groups.code, len(groups.labels), weight)
        return TrainingData(X, target, weight, classes, groups, cells, row, columns)

    def _remember(self, data: TrainingData) -> None:
        """Keep the labels of classes and groups."""
        self.classes_ = data.classes
        self.__dict__.pop("groups_", None)
        if data.groups is not None:
            self.groups_ = data.groups.labels

    def _check_X(self, X: Any) -> Any:
        """Check the features to fit, and remember their number and names."""
        sparse = "csr" if self.__sklearn_tags__().input_tags.sparse else False
        return self._validated(X, accept_sparse=sparse, reset=True)

    def _validated(self, X: Any, *, accept_sparse: Any = "csr", reset: bool, **settings: Any) -> Any:
        """Check X as scikit-learn does, here or in `predict`; `reset` remembers its columns."""
        check_features(X)
        common = {"dtype": self._dtypes(), "accept_sparse": accept_sparse, "reset": reset}
        return validate_data(self, summed_duplicates(X), **common, **settings)

    def _dtypes(self) -> Any:
        """Give the types of numbers that X may have; others are converted to the first."""
        return [np.float64, np.float32]

    def _columns(self, X: Any, weight: np.ndarray) -> Columns | None:
        """Say in which form the columns of X are fitted; None is as they are."""
        return None

    def _merges(self) -> bool:
        """Whether equal rows may be merged into one."""
        return True

    def _check_parameters(self) -> None:
        """Check the constructor's arguments, as scikit-learn wants it done in `fit`, and set `_parity`."""
        raise NotImplementedError

    def _constraint(self) -> str:
        """Say what makes the groups necessary ("when eta > 0, got None with eta=1.0"), or nothing."""
        raise NotImplementedError

    def _check_cell_sizes(self, y: np.ndarray, groups: Groups) -> None:
        """Refuse empty cells and name small ones."""
        code = cell_codes(self._parity, y, groups.code, len(groups.labels))
        names = self._parity.cell_names([repr(name) for name in groups.names])
        check_cells(code, names, warn=bool(self._constraint()), stacklevel=4)

    def _fit(self, data: TrainingData) -> None:
        """Set the fitted attributes; each kind of model does it its own way."""
        raise NotImplementedError
