"""One plain model that imitates a repaired score.

The target of a training row is its repaired score out of fold, so the imitation does not learn what the base
models know of their rows by heart. What is reported comes from the same folds: for each of them, the plane
model and the imitation are fitted to the other rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.base import is_classifier
from sklearn.utils import _safe_indexing
from sklearn.utils.parallel import Parallel, delayed

from evenrisk._estimator import TrainingData
from evenrisk._validation import ArgumentError
from evenrisk.curves import auc
from evenrisk.metrics import threshold_profile
from evenrisk.parity import Parity
from evenrisk.postprocessing._base_models import (
    CrossFitting,
    fit_with_weights,
    takes_weights,
    warn_of_weights_left_out,
)
from evenrisk.postprocessing._quantiles import Quantiles


class HeldOutQuality(NamedTuple):
    """What a score is worth on rows that its models have not seen."""

    auc: float
    max_gap: float  # over all thresholds, under the repair's rule


@dataclass(frozen=True)
class Distillation:
    """One plain model that imitates a repaired score, and how well it does.

    Attributes
    ----------
    model : estimator
        The fitted copy of what was given to :meth:`BlindRepair.distill`. It needs nothing of evenrisk. A
        regressor predicts the raw score, and 1/(1 + exp(−raw score)) is the risk; a classifier has
        `predict_proba`.
    repaired, distilled : HeldOutQuality
        `auc` and `max_gap` of the repaired score and of the imitation, on rows held out.
    """

    model: Any
    repaired: HeldOutQuality
    distilled: HeldOutQuality

    def __str__(self) -> str:
        lines = [f"{'held out':<12}{'AUC':>8}{'max gap':>9}"]
        for name, each in (("repaired", self.repaired), ("distilled", self.distilled)):
            lines.append(f"{name:<12}{each.auc:>8.4f}{each.max_gap:>9.4f}")
        return "\n".join(lines)


@dataclass(frozen=True)
class _Imitation:
    """How an estimator learns raw scores g: a regressor as they are, a classifier from soft labels."""

    estimator: Any
    X: Any
    weight: np.ndarray  # (n,)
    classes: np.ndarray  # (2,)

    @property
    def is_classifier(self) -> bool:
        """Whether the estimator learns risks instead of raw scores."""
        return is_classifier(self.estimator)

    def fit(self, rows: np.ndarray, g: np.ndarray) -> Any:
        """Return a copy of the estimator fitted to some of the scores g (n,)."""
        g, weight = g[rows], self.weight[rows]
        if not self.is_classifier:
            return fit_with_weights(self.estimator, _safe_indexing(self.X, rows), g, weight)
        # everybody twice, once with each label, weighted by the label's probability
        twice = np.concatenate([rows, rows])
        labels = np.repeat(self.classes, len(rows))
        soft = np.concatenate([weight * expit(-g), weight * expit(g)])
        return fit_with_weights(self.estimator, _safe_indexing(self.X, twice), labels, soft)

    def predict(self, model: Any, rows: np.ndarray) -> np.ndarray:
        """Return the scores of some rows, in the order of the raw scores."""
        X = _safe_indexing(self.X, rows)
        score = np.asarray(model.predict_proba(X)[:, 1] if self.is_classifier else model.predict(X), float)
        if score.shape != (len(rows),) or not np.isfinite(score).all():
            raise ArgumentError(
                "estimator",
                f"must predict one finite number for each of {len(rows)} rows, got shape {score.shape}"
                + ("" if np.isfinite(score).all() else " with NaN or infinity"),
            )
        return score


def check_imitator(estimator: Any) -> None:
    """Refuse what cannot learn a score."""
    if isinstance(estimator, type):
        raise ArgumentError("estimator", f"must be an instance, got the class {estimator.__name__}")
    if not hasattr(estimator, "fit"):
        raise ArgumentError("estimator", f"must be a regressor or a classifier, got {estimator!r:.80}")
    needed = "predict_proba" if is_classifier(estimator) else "predict"
    if not (hasattr(estimator, "fit") and hasattr(estimator, needed)):
        raise ArgumentError(
            "estimator", f"must be a regressor, or a classifier with predict_proba, got {estimator!r:.80}"
        )
    if is_classifier(estimator) and not takes_weights(estimator):
        raise ArgumentError(
            "estimator",
            "must be a regressor, or a classifier whose fit takes `sample_weight`, got "
            f"{type(estimator).__name__}, which takes none: it cannot learn probabilities",
        )


def distill(
    estimator: Any,
    X: Any,
    data: TrainingData,
    raw_scores: Callable[[np.ndarray], np.ndarray],
    parity: Parity,
    how: CrossFitting,
) -> Distillation:
    """Fit a copy of the estimator to raw scores of the rows of X, all of positive weight.

    `raw_scores` takes the numbers of the rows that the plane model is fitted to, and returns g (n,).
    """
    assert data.groups is not None
    warn_of_weights_left_out("estimator", estimator, data.weight)
    imitation = _Imitation(estimator, X, data.weight, data.classes)

    def hold_out(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        g = raw_scores(train)
        return g[test], imitation.predict(imitation.fit(train, g), test)

    parts = Parallel(n_jobs=how.n_jobs)(delayed(hold_out)(train, test) for train, test in how.folds)
    order = np.argsort(np.concatenate([test for _, test in how.folds]))

    def measure(parts: Sequence[np.ndarray]) -> HeldOutQuality:
        rank = _rank_within_folds(np.concatenate(parts)[order], data.weight, how)
        profile = threshold_profile(
            data.y, rank, sensitive_features=data.groups, parity=parity, sample_weight=data.weight
        )
        return HeldOutQuality(auc(rank, data.y, data.weight), profile.max_gap)

    everybody = np.arange(len(data.y))
    model = imitation.fit(everybody, raw_scores(everybody))
    return Distillation(model, *(measure(each) for each in zip(*parts, strict=True)))


def _rank_within_folds(score: np.ndarray, weight: np.ndarray, how: CrossFitting) -> np.ndarray:
    """Return each score's place among those of its fold, whose models have a scale of their own."""
    rank = np.empty(len(score))
    for _, test in how.folds:
        rank[test] = Quantiles.of(score[test], weight[test]).share(score[test])
    return rank
