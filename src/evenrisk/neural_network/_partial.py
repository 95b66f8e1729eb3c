"""Rows that come piece by piece, some pieces without every label or group."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from evenrisk._estimator import TrainingData
from evenrisk._validation import (
    Groups,
    MissingSensitiveFeatures,
    check_alignment,
    check_binary,
    check_groups,
    check_length,
    check_weight,
    group_columns,
    listed,
)
from evenrisk.neural_network._machinery import NetworkClassifier
from evenrisk.neural_network._network import Layers, layer_sizes
from evenrisk.neural_network._parts import cells_of, without_weightless
from evenrisk.neural_network._training import Trainer

SOME = 1000  # rows whose scores are looked at when a piece is done


class PiecewiseClassifier(NetworkClassifier):
    """What is not public of `partial_fit`."""

    _adam: tuple[int, list[np.ndarray], list[np.ndarray]]  # what the next piece goes on with

    def _check_piece(
        self, X: Any, y: Any, classes: Any, sample_weight: Any, sensitive_features: Any, groups: Any
    ) -> TrainingData:
        """Open the door of `partial_fit`."""
        self._check_parameters()
        if self.calibration is not None or self.early_stopping:
            raise ValueError(
                "`partial_fit` must have calibration=None and early_stopping=False, for it holds no rows "
                f"out, got calibration={self.calibration!r} and early_stopping={self.early_stopping}"
            )
        first = not hasattr(self, "coefs_")
        check_alignment(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight)
        X = self._validated(X, reset=first)
        if not first:
            self._check_same_layers()
        n = X.shape[0]
        known = declared_classes(classes, y) if first else self.classes_
        if not (first or classes is None or np.array_equal(np.unique(np.asarray(classes)), known)):
            raise ValueError(
                f"`classes` must be {listed(known)} as with the first piece, got {listed(classes)}"
            )
        target = label_codes(y, known, n)
        weight = check_weight(sample_weight, n, X.dtype)
        coded = None
        if sensitive_features is not None and self.eta > 0:
            fixed = getattr(self, "groups_", None)
            if fixed is None:
                fixed = declared_groups(groups, sensitive_features)
            elif groups is not None:
                check_same_groups(groups, fixed)
            coded = group_codes(sensitive_features, fixed, n)
        elif self.eta > 0:
            raise MissingSensitiveFeatures(
                f"`sensitive_features` is required {self._constraint()}. Pass the group of each row to "
                "partial_fit (it is not needed to predict), or set eta=0 for a plain model"
            )
        data = TrainingData(X, target, weight, known, coded, cells_of(target, weight, coded, self._parity))
        return without_weightless(data, self._parity)

    def _check_same_layers(self) -> None:
        """Refuse to go on with another network than the one that is there."""
        here = tuple(W.shape[1] for W in self.coefs_[:-1])
        asked = layer_sizes(self.n_features_in_, self.hidden_layer_sizes)[1:-1]
        if asked != here:
            raise ValueError(
                f"`hidden_layer_sizes` must be {here} as with the first piece, got {asked}: clone the "
                "estimator to begin anew"
            )

    def _one_pass(self, data: TrainingData) -> None:
        sizes = layer_sizes(self.n_features_in_, self.hidden_layer_sizes)
        layers, first = self._fitted_layers(), not hasattr(self, "coefs_")
        rng = check_random_state(self.random_state)
        if layers is None:
            layers = Layers.initial(sizes, rng)
        n_before = 0 if first else self.n_iter_
        seed = (int(rng.randint(2**31 - 1)) + n_before) % 2**31  # another deal for every piece
        rows = self._rows(data, seed)
        trainer = Trainer(layers, self._parity_loss(data), self._training_settings(), rows.device, rows.dtype)
        if "_adam" in self.__dict__:
            trainer.resume(self._adam)
        value = trainer.epoch(rows, float(self.eta), float(self.learning_rate_init))
        trainer.check_finite(rows.first(SOME), float(self.eta))
        self.coefs_, self.intercepts_ = trainer.layers()
        self._adam = trainer.state()
        self.loss_curve_ = [*([] if first else self.loss_curve_), value]
        self.n_iter_, self.solver_, self.best_loss_, self.calibration_ = n_before + 1, "adam", None, None
        self.__dict__.pop("objective_", None)
        self.__dict__.pop("penalty_", None)
        self.classes_ = data.classes
        if data.groups is not None:
            self.groups_ = data.groups.labels


def declared_classes(classes: Any, y: Any) -> np.ndarray:
    """Give the two labels, sorted, as declared with the first piece or as they are in it."""
    if classes is None:
        try:
            return check_binary(y)[1]
        except ValueError as error:
            raise ValueError(f"{error}. Declare both labels with the first piece as `classes`") from error
    known = np.unique(np.asarray(classes))
    if len(known) != 2:
        raise ValueError(f"`classes` must be the 2 labels, got {len(known)} ({listed(known)})")
    return known


def label_codes(y: Any, classes: np.ndarray, n: int) -> np.ndarray:
    """Code labels as 0 and 1 (int8); there may be one of them only."""
    check_binary(y, at_least=1)
    labels = np.asarray(y).ravel()
    check_length("y", len(labels), n)
    unknown = np.setdiff1d(labels, classes)
    if len(unknown):
        raise ValueError(
            f"`y` must be {listed(classes)} as declared with the first piece, got {listed(unknown)}"
        )
    return (labels == classes[1]).astype(np.int8)


def declared_groups(groups: Any, sensitive_features: Any) -> np.ndarray:
    """Give the groups, sorted, as declared with the first piece or as they are in it."""
    if groups is not None:
        return check_groups(groups, len(groups)).labels
    values = as_rows(sensitive_features)
    try:
        return check_groups(values, len(values)).labels
    except ValueError as error:
        raise ValueError(f"{error}. Declare all groups with the first piece as `groups`") from error


def check_same_groups(groups: Any, labels: np.ndarray) -> None:
    """Refuse a later declaration that says otherwise than the first."""
    declared = check_groups(groups, len(groups)).labels
    if not np.array_equal(declared, labels):
        raise ValueError(f"`groups` must be {listed(labels)} as with the first piece, got {listed(declared)}")


def group_codes(sensitive_features: Any, labels: np.ndarray, n: int) -> Groups:
    """Code the groups of a piece by those declared; there may be one of them only."""
    import pandas as pd

    values = as_rows(sensitive_features)
    check_length("sensitive_features", len(values), n)
    missing = pd.isna(values).reshape(n, -1).any(axis=1)
    if missing.any():
        raise ValueError(
            f"`sensitive_features` must not have missing values, got {np.count_nonzero(missing)}"
        )
    known = as_rows(labels.tolist())
    if known.shape[1:] != values.shape[1:]:
        raise ValueError(
            f"`sensitive_features` must have the columns declared with the first piece, {known[0]!r}, got "
            f"shape {values.shape}"
        )
    coded = check_groups(np.concatenate([known, values]), len(known) + n)
    if len(coded.labels) > len(labels):
        unknown = np.setdiff1d(np.arange(len(coded.labels)), coded.code[: len(known)])
        raise ValueError(
            f"`sensitive_features` must be of the groups declared with the first piece, {listed(labels)}, "
            f"got {listed(coded.labels[unknown])}. Declare all groups there as `groups`"
        )
    place = np.empty(len(labels), dtype=np.int32)
    place[coded.code[: len(known)]] = np.arange(len(labels))
    return Groups(place[coded.code[len(known) :]], labels)


def as_rows(values: Any) -> np.ndarray:
    """One column (n,) or several (n, m), as objects."""
    import pandas as pd

    # by pandas, because NumPy makes nanoseconds of dates
    columns = [pd.Series(column).astype(object).to_numpy() for _, column in group_columns(values)]
    return columns[0] if len(columns) == 1 else np.column_stack(columns)
