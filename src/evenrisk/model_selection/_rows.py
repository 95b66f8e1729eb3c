"""The door of the searches: rows, groups and labels for folds, and what is measured of held-out scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.utils.validation import _num_samples

from evenrisk._validation import check_alignment, check_binary, check_groups, check_length, check_weight
from evenrisk.metrics import ThresholdProfile, threshold_profile
from evenrisk.model_selection._folds import Data, Tunable, make_splits


@dataclass(frozen=True)
class Rows:
    """Clean rows: `data` is what the folds' fits get, their groups as whole numbers."""

    data: Data
    y: np.ndarray  # (n,) in {0, 1}
    code: np.ndarray  # (n,) group
    weight: np.ndarray | None
    parity: Any

    @classmethod
    def of(cls, data: Data, tunable: Tunable, parity: Any) -> Rows:
        """Open the door; `parity` None is the estimator's own."""
        given = {"sensitive_features": data.groups, "sample_weight": data.weight}
        check_alignment(3, X=data.X, y=data.y, **given)
        if data.y is None:
            raise ValueError("`y` must have one label per row, got None")
        n = _num_samples(data.X)
        y, _ = check_binary(data.y)
        check_length("y", len(y), n)
        code = check_groups(data.groups, n).code
        weight = None if data.weight is None else check_weight(data.weight, n, np.float64)
        if parity is None:
            parity = tunable.holder.get_params().get("parity", "demographic_parity")
        return cls(Data(data.X, data.y, code, weight), y, code, weight, parity)

    def splits(self, cv: Any, rng: np.random.RandomState) -> list[tuple[np.ndarray, np.ndarray]]:
        """Give (train, test) rows of each fold."""
        return make_splits(cv, self.data.X, self.y, self.code, rng)

    def profile(self, score: np.ndarray, rows: Any = slice(None)) -> ThresholdProfile:
        """Measure the gap of those rows that were held out, at every threshold."""
        y, score, code, weight = self._held(score, rows)
        return threshold_profile(y, score, sensitive_features=code, parity=self.parity, sample_weight=weight)

    def quality(self, score: np.ndarray, rows: Any = slice(None)) -> dict[str, float]:
        """AUC, and accuracy where the raw score changes its sign."""
        y, score, _, weight = self._held(score, rows)
        one_label = len(np.unique(y)) < 2
        return {
            "auc": np.nan if one_label else float(roc_auc_score(y, score, sample_weight=weight)),
            "accuracy": float(np.average((score > 0) == (y == 1), weights=weight)),
        }

    def _held(self, score: np.ndarray, rows: Any) -> tuple[Any, ...]:
        """Rows of positive weight that some fold held out."""
        present = np.zeros(len(score), dtype=bool)
        present[rows] = True
        present &= np.isfinite(score)
        if self.weight is not None:
            present &= self.weight > 0
        weight = None if self.weight is None else self.weight[present]
        return self.y[present], score[present], self.code[present], weight
