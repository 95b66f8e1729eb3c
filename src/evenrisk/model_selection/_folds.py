"""Held-out scores of any estimator with an η, pooled over folds.

A small validation set alone says little: 739 rows show a max gap of .065 for a perfect score. Every row is
held out once here, and the scores of all folds are measured together.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn import get_config
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from evenrisk._validation import (
    CollapseWarning,
    MajorityRateWarning,
    MisalignedIndexWarning,
    ReversedRankingWarning,
    SmallCellWarning,
    check_number,
)

WIDE = 4.0  # ratio of two η up to which the larger starts from the smaller's fit
# said once, of the fit that the user gets, and not of every fold and η
QUIET = (
    CollapseWarning,
    ConvergenceWarning,
    MajorityRateWarning,
    MisalignedIndexWarning,
    ReversedRankingWarning,
    SmallCellWarning,
)


@dataclass(frozen=True)
class Tunable:
    """An estimator with one parameter `eta`, its own or that of a step of a pipeline (`prefix`)."""

    estimator: Any
    prefix: str

    @classmethod
    def of(cls, estimator: Any) -> Tunable:
        """Find the parameter."""
        parameters = estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}
        found = [name for name in parameters if name == "eta" or name.endswith("__eta")]
        if len(found) != 1:
            came = "none" if not found else " and ".join(f"'{name}'" for name in found)
            raise ValueError(
                "`estimator` must have one parameter `eta`, its own or that of one step of a pipeline, got "
                f"{came} in {type(estimator).__name__}"
            )
        return cls(estimator, found[0].removesuffix("eta"))

    @property
    def holder(self) -> Any:
        """The estimator whose parameter it is."""
        step = self.prefix.removesuffix("__")
        return self.estimator.get_params(deep=True)[step] if step else self.estimator

    @property
    def warm(self) -> bool:
        """Whether a fit may begin at the end of another one; of ours alone it is known what that means."""
        return hasattr(self.holder, "fit_path") and "warm_start" in self.holder.get_params()

    def fit(self, data: Data, eta: float, start: Any = None, *, quiet: bool = False) -> Any:
        """Fit a copy at this η, from `start`, a model fitted to the same rows at a smaller one."""
        with warnings.catch_warnings():
            for category in QUIET if quiet else ():
                warnings.simplefilter("ignore", category)
            return self._fit(data, eta, start)

    def _fit(self, data: Data, eta: float, start: Any) -> Any:
        model = clone(self.estimator) if start is None else deepcopy(start)
        settings = {"eta": eta} | ({"warm_start": start is not None} if self.warm else {})
        model.set_params(**{self.prefix + name: value for name, value in settings.items()})
        routed = get_config()["enable_metadata_routing"]
        before = "" if routed else self.prefix
        given = {"sensitive_features": data.groups, "sample_weight": data.weight}
        return model.fit(data.X, data.y, **{before + k: v for k, v in given.items() if v is not None})


@dataclass(frozen=True)
class Data:
    """Rows to fit or to score."""

    X: Any
    y: Any
    groups: Any
    weight: Any

    def take(self, rows: np.ndarray) -> Data:
        """Keep some rows."""
        parts = (self.X, self.y, self.groups, self.weight)
        X, y, groups, weight = (None if part is None else _safe_indexing(part, rows) for part in parts)
        return Data(X, y, groups, weight)


@dataclass
class HeldOut:
    """Scores of every row from models that have not seen it, at any η; fits are kept to start others from."""

    tunable: Tunable
    data: Data
    splits: list[tuple[np.ndarray, np.ndarray]]
    n_jobs: int | None = None
    warm: bool = True
    models: dict[float, list[Any]] = field(default_factory=dict)
    begun_at: dict[float, float | None] = field(default_factory=dict)

    def scores(self, eta: float) -> np.ndarray:
        """Raw scores (n,); NaN where no fold holds a row out."""
        # the largest fitted η below, if it is near
        before = max((other for other in self.models if eta / WIDE <= other < eta), default=None)
        starts = [None] * len(self.splits) if before is None else self.models[before]
        jobs = (
            delayed(_fit_and_score)(self.tunable, self.data, split, eta, start)
            for split, start in zip(self.splits, starts, strict=True)
        )
        done = Parallel(n_jobs=self.n_jobs)(jobs)
        if self.warm and self.tunable.warm:
            self.models[eta] = [model for model, _ in done]
        self.begun_at[eta] = before
        out = np.full(_num_samples(self.data.X), np.nan)
        for (_, test), (_, score) in zip(self.splits, done, strict=True):
            out[test] = score
        return out

    def begin_afresh(self) -> None:
        """Forget the fits, and begin every other one from scratch."""
        self.models.clear()
        self.begun_at.clear()
        self.warm = False

    def lineage(self, eta: float) -> list[float]:
        """Give the η that the fits at this η came through, the first one fitted from scratch."""
        came = [eta]
        while (before := self.begun_at[came[0]]) is not None:
            came.insert(0, before)
        return came


def _fit_and_score(
    tunable: Tunable, data: Data, split: tuple[np.ndarray, np.ndarray], eta: float, start: Any
) -> tuple[Any, np.ndarray]:
    """Fit one fold's training rows and score the others."""
    train, test = split
    model = tunable.fit(data.take(train), eta, start, quiet=True)
    return (model if tunable.warm else None), raw_scores(model, _safe_indexing(data.X, test))


def raw_scores(model: Any, X: Any) -> np.ndarray:
    """The finest score a model gives, positive where it says yes: probabilities tie where they reach 1."""
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(X))
    return np.asarray(model.predict_proba(X))[:, 1] - 0.5


def make_splits(
    cv: Any, X: Any, y: np.ndarray, code: np.ndarray, rng: np.random.RandomState
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Give (train, test) rows: a number of folds, each with its share of every label in every group."""
    if isinstance(cv, (int, np.integer)) and not isinstance(cv, bool):
        return list(_even_folds(int(check_number("cv", cv, low=2, whole=True)), y, code, rng))
    return list(check_cv(cv, y, classifier=True).split(X, y, code))


def _even_folds(
    n_folds: int, y: np.ndarray, code: np.ndarray, rng: np.random.RandomState
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Deal the shuffled rows of each label and group out to the folds in turn."""
    order = rng.permutation(len(y))
    order = order[np.lexsort((y[order], code[order]))]
    fold = np.empty(len(y), dtype=np.intp)
    fold[order] = np.arange(len(y)) % n_folds
    for k in range(n_folds):
        yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)
