"""The door of the searches: rows, groups and labels for folds, and what is measured of held-out scores."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.metrics import roc_auc_score
from sklearn.utils.validation import _num_samples

from evenrisk._validation import (
    SmallCellWarning,
    check_alignment,
    check_binary,
    check_groups,
    check_length,
    check_weight,
    refuse_masked,
)
from evenrisk.metrics import ThresholdProfile, threshold_profile
from evenrisk.model_selection._folds import Data, Scores, Tunable, make_splits


@dataclass(frozen=True)
class Rows:
    """Clean rows; `data` is what the fits get."""

    data: Data
    y: np.ndarray  # (n,) in {0, 1}
    code: np.ndarray  # (n,) group
    present: np.ndarray  # (n,) whether a row has weight
    parity: Any

    @classmethod
    def of(cls, data: Data, tunable: Tunable, parity: Any) -> Rows:
        """Open the door; `parity` None is the estimator's own."""
        given = {"sensitive_features": data.groups, "sample_weight": data.weight}
        check_alignment(X=data.X, y=data.y, **given)
        if data.y is None:
            raise ValueError("`y` must have one label per row, got None")
        refuse_masked("X", data.X)
        X = data.X.tocsr() if issparse(data.X) else data.X
        n = _num_samples(X)
        y, classes = check_binary(data.y)
        check_length("y", len(y), n)
        groups = check_groups(data.groups, n)
        weight = None if data.weight is None else check_weight(data.weight, n, np.float64)
        if parity is None:
            parity = tunable.holder.get_params().get("parity", "demographic_parity")
        present = np.ones(n, dtype=bool) if weight is None else weight > 0
        names = np.asarray(groups.labels)[groups.code]
        rows = cls(Data(X, classes[y], names, weight), y, groups.code, present, parity)
        rows.profile(np.zeros(n))  # refuses an unknown rule and empty cells before anything is fitted
        return rows

    def splits(self, cv: Any, rng: np.random.RandomState) -> list[tuple[np.ndarray, np.ndarray]]:
        """Give (train, test) rows of each fold."""
        splits = make_splits(cv, self.data.X, self.y, self.code, self.present, rng)
        for fold, (train, test) in enumerate(splits, start=1):
            if lost := self._lost(train):
                raise ValueError(
                    f"`cv` must leave rows of every cell to each fold's fit, got fold {fold} of "
                    f"{len(splits)} without: {lost}"
                )
            if not self.present[test].any():
                raise ValueError(
                    "`cv` must hold out rows of positive weight in each fold, got none in fold "
                    f"{fold} of {len(splits)}"
                )
        if lost := self._lost(np.concatenate([test for _, test in splits])):
            raise ValueError(
                f"`cv` must hold out rows of every cell, got folds that hold out none of: {lost}"
            )
        return splits

    def _lost(self, rows: np.ndarray) -> str:
        """Name the cells that have none of these rows."""
        nothing = np.zeros(len(self.y))
        try:
            left = self.profile(nothing, rows).groups
        except ValueError as error:
            return str(error)
        return ", ".join(f"group {name!r}" for name in self.profile(nothing).groups if name not in left)

    def profile(self, place: np.ndarray, rows: Any = slice(None)) -> ThresholdProfile:
        """Measure the gap of those rows that were held out, at every threshold."""
        held = self._held(place, rows)
        weight = None if self.data.weight is None else self.data.weight[held]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SmallCellWarning)  # the last fit says it once
            return threshold_profile(
                self.y[held],
                place[held],
                sensitive_features=self.data.groups[held],
                parity=self.parity,
                sample_weight=weight,
            )

    def quality(self, scores: Scores, rows: Any = slice(None)) -> dict[str, float]:
        """AUC of the places, and accuracy where the raw score changes its sign."""
        held = self._held(scores.place, rows)
        y, weight = self.y[held], None if self.data.weight is None else self.data.weight[held]
        one_label = len(np.unique(y)) < 2
        right = (scores.raw[held] > 0) == (y == 1)
        return {
            "auc": np.nan if one_label else float(roc_auc_score(y, scores.place[held], sample_weight=weight)),
            "accuracy": float(np.average(right, weights=weight)),
        }

    def _held(self, place: np.ndarray, rows: Any) -> np.ndarray:
        """Which rows of positive weight some fold held out."""
        held = np.zeros(len(place), dtype=bool)
        held[rows] = True
        return held & np.isfinite(place) & self.present
