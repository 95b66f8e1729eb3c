"""The models under a repair: one of the risk, and one or more of the group.

A model is a classifier that is fitted here, a classifier that is fitted already, or columns of X that hold
what a model would predict. No row's coordinates come from a model that was fitted to the row: those of
training rows are out of fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import has_fit_parameter

from evenrisk._validation import listed
from evenrisk.postprocessing._plane import log_odds

TOLERANCE = 1e-6  # by which a probability may be outside [0, 1]
RANKS = 1024  # points of the distribution function of a score column

Fold = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Target:
    """What a classifier predicts."""

    role: str  # the argument that the classifier came as, for messages
    labels: np.ndarray  # (n,) as the classifier sees them
    classes: np.ndarray  # in the order of the columns of probabilities
    rows: np.ndarray  # (n,) a mask: rows to fit to; all are predicted


@dataclass(frozen=True)
class Classifier:
    """A fitted classifier."""

    model: Any
    classes: np.ndarray
    role: str

    def probabilities(self, X: Any) -> np.ndarray:
        """Return P(class|x) of each row (n, k)."""
        found = np.asarray(self.model.predict_proba(X), dtype=np.float64)
        known = list(self.model.classes_)
        missing = [each for each in self.classes.tolist() if each not in known]
        if missing or found.ndim != 2 or found.shape[1] != len(known):
            raise ValueError(
                f"`{self.role}` must predict a probability for each of {listed(self.classes)}, got an array "
                f"of shape {found.shape} for {listed(known)}"
            )
        order = [known.index(each) for each in self.classes.tolist()]
        return check_probabilities(found[:, order], self.role)


@dataclass(frozen=True)
class ScoreColumn:
    """A column of X that holds a score; any increasing function of the risk will do."""

    name: Any  # of a frame's column, or its number
    values: np.ndarray  # quantiles of the training scores
    ranks: np.ndarray

    @classmethod
    def fit(cls, X: Any, name: Any, weight: np.ndarray) -> ScoreColumn:
        """Return the column with the ranks of its training scores."""
        distinct, place = np.unique(numbers_of(X, [name], "estimator")[:, 0], return_inverse=True)
        mass = np.bincount(place.reshape(-1), weights=weight)
        share = (np.cumsum(mass) - mass / 2) / mass.sum()
        if len(distinct) <= RANKS:
            return cls(name, distinct, share)
        ranks = np.linspace(share[0], share[-1], RANKS)
        return cls(name, np.interp(ranks, share, distinct), ranks)

    def probabilities(self, X: Any) -> np.ndarray:
        """Return the rank of each row's score, as the second of two columns."""
        rank = np.interp(numbers_of(X, [self.name], "estimator")[:, 0], self.values, self.ranks)
        return np.column_stack([1 - rank, rank])


@dataclass(frozen=True)
class ProbabilityColumns:
    """Columns of X that hold the probability of each group; of two groups, that of the second may do."""

    names: list[Any]
    n_groups: int

    def probabilities(self, X: Any) -> np.ndarray:
        """Return P(group|x) of each row (n, k)."""
        found = check_probabilities(numbers_of(X, self.names, "attribute_estimator"), "attribute_estimator")
        return np.column_stack([1 - found, found]) if found.shape[1] < self.n_groups else found


Source = Classifier | ScoreColumn | ProbabilityColumns


@dataclass(frozen=True)
class BaseModels:
    """A model of the risk and models of the group, which place any rows in the plane."""

    risk: Source
    groups: list[Source]
    largest_group: int  # its log-odds follow from the others'

    def coordinates(self, X: Any) -> np.ndarray:
        """Return the coordinates of each row (n, m)."""
        return self.placed(self.risk.probabilities(X), [each.probabilities(X) for each in self.groups])

    def placed(self, risk: np.ndarray, groups: list[np.ndarray]) -> np.ndarray:
        """Return coordinates (n, m) from the probabilities of labels and of groups."""
        v = [log_odds(np.delete(each, self.largest_group, axis=1)) for each in groups]
        return np.hstack([log_odds(risk[:, 1:]), *v])


def cross_fit(
    estimator: Any, X: Any, target: Target, weight: np.ndarray, folds: Sequence[Fold], n_jobs: int | None
) -> tuple[Classifier, np.ndarray]:
    """Return the classifier fitted to all rows, and P(class|x) (n, k) of each row from one that has not seen it."""

    def fit(rows: np.ndarray) -> Classifier:
        rows = rows[target.rows[rows]]
        settings = {} if (weight == 1).all() else weight_argument(estimator, weight[rows])
        model = clone(estimator).fit(_safe_indexing(X, rows), target.labels[rows], **settings)
        return Classifier(model, target.classes, target.role)

    def score(train: np.ndarray, test: np.ndarray) -> np.ndarray:
        return fit(train).probabilities(_safe_indexing(X, test))

    everybody = np.arange(len(weight))
    parts = Parallel(n_jobs=n_jobs)(delayed(score)(train, test) for train, test in folds)
    unseen = np.full((len(weight), len(target.classes)), np.nan)
    for (_, test), part in zip(folds, parts, strict=True):
        unseen[test] = part
    return fit(everybody), unseen


def weight_argument(estimator: Any, weight: np.ndarray) -> dict[str, np.ndarray]:
    """Return the weights under the name by which this estimator's fit takes them, or nothing."""
    if has_fit_parameter(estimator, "sample_weight"):
        return {"sample_weight": weight}
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        return {f"{name}__{key}": value for key, value in weight_argument(last, weight).items()}
    return {}


def check_probabilities(p: np.ndarray, role: str) -> np.ndarray:
    """Refuse what is no probability."""
    bad = ~((p >= -TOLERANCE) & (p <= 1 + TOLERANCE))
    if bad.any():
        raise ValueError(f"`{role}` must give probabilities in [0, 1], got {p[bad][0]}")
    return np.clip(p, 0.0, 1.0)


def numbers_of(X: Any, names: list[Any], role: str) -> np.ndarray:
    """Return columns of X as finite numbers (n, m)."""
    try:
        chosen = _safe_indexing(X, names, axis=1)
        numbers = np.asarray(chosen.toarray() if hasattr(chosen, "toarray") else chosen, dtype=np.float64)
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise ValueError(
            f"`{role}` must be a classifier, or name columns of X that hold numbers, got {listed(names)}: "
            f"{error}"
        ) from error
    if not np.isfinite(numbers).all():
        raise ValueError(
            f"`{role}` must name columns of X that hold finite numbers, got NaN or infinity in "
            f"{listed(names)}"
        )
    return numbers
