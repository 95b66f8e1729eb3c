"""Repair with the attribute known at prediction: every group's scores are moved to one distribution.

Conventions
-----------
s a score; F_a the distribution function of group a's training scores and Q_a its inverse, both continuous:
straight lines between the points (s_i, u_i), where s_i are the distinct scores of the group and u_i the share
of its weight below s_i, with half of that at s_i. Then the repaired score of a person of group a is

    (1 − strength)·s + strength·Q(F_a(s)),

with Q the quantile function of the common distribution: for a barycentre Q = Σ_a p_a·Q_a, p_a the share of
group a; for a histogram match the quantile function of the reference.

Scores beyond those seen continue the line with slope 1. Where all training scores are in [0, 1] they are
taken to be risks, and the line goes to (0, 0) and (1, 1) instead: a repaired risk is a risk.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from evenrisk._validation import (
    ArgumentError,
    Groups,
    RepairWarning,
    check_alignment,
    check_groups,
    check_number,
    check_scores,
    check_weight,
    listed,
    warn_user,
)
from evenrisk.curves import cell_curves, gaps
from evenrisk.postprocessing._quantiles import Quantiles

LARGE_GAP = 0.1  # that ties may leave without a warning


def _distribution(score: np.ndarray, weight: np.ndarray, *, risk: bool) -> Quantiles:
    found = Quantiles.of(score, weight)
    return found.to_the_ends_of_risk() if risk else found


class _GroupwiseMap(BaseEstimator):
    """Base class of maps of scores, one increasing map for each group."""

    groups_: np.ndarray
    _of_group: list[Quantiles]

    def fit(self, scores: Any, y: Any = None, *, sensitive_features: Any, sample_weight: Any = None) -> Self:
        """Learn each group's distribution of scores.

        Parameters
        ----------
        scores : array-like of shape (n,)
            Scores of people on whom the model was not trained: scores of its training rows are overconfident.
        y : None
            Not used; scikit-learn passes it.
        sensitive_features : array-like of shape (n,) or (n, m)
            The group of each row; several columns are crossed.
        sample_weight : array-like of shape (n,), default=None
            Weight of each row.

        Returns
        -------
        self
            The fitted map.
        """
        self._check_parameters()
        check_alignment(scores=scores, sensitive_features=sensitive_features, sample_weight=sample_weight)
        score = check_scores(scores, name="scores")
        weight = check_weight(sample_weight, len(score))
        groups = check_groups(sensitive_features, len(score))
        present = weight > 0
        groups = groups.among(present).take(present)
        score, weight = score[present], weight[present]
        risk = bool(score.min() >= 0 and score.max() <= 1)
        self._of_group = [
            _distribution(score[groups.code == k], weight[groups.code == k], risk=risk)
            for k in range(len(groups.labels))
        ]
        self._fit_target(score, weight, groups, risk=risk)
        self.groups_ = groups.labels
        if self._moves_all_the_way and len(groups.labels) > 1:
            self._warn_of_ties(score, weight, groups)
        return self

    def _warn_of_ties(self, score: np.ndarray, weight: np.ndarray, groups: Groups) -> None:
        """Warn if so many people share a score that moving it, for all of them, leaves a gap."""
        named = groups.labels[groups.code]
        moved = self.transform(score, sensitive_features=named)
        curves = cell_curves(moved, groups.code, weight, len(groups.labels))
        left = float(gaps(curves.above).max())
        if left > max(LARGE_GAP, 2 / np.bincount(groups.code).min()):
            warn_user(
                f"a max gap of {left:.3f} is left on these rows: {len(score):,} people have only "
                f"{len(np.unique(score)):,} distinct scores, and equal scores stay equal",
                RepairWarning,
            )

    def transform(self, scores: Any, *, sensitive_features: Any) -> np.ndarray:
        """Move each score to its place in the common distribution.

        Parameters
        ----------
        scores : array-like of shape (n,)
            Scores, on the scale of those given to `fit`.
        sensitive_features : array-like of shape (n,) or (n, m)
            The group of each row; one that `fit` has seen.

        Returns
        -------
        ndarray of shape (n,)
            The repaired scores. Within a group their order is that of the scores; beyond the ends of its
            reference a HistogramMatcher may give several the same one.
        """
        check_is_fitted(self)
        self._check_parameters()
        check_alignment(scores=scores, sensitive_features=sensitive_features)
        score = check_scores(scores, name="scores")
        code = self._codes(sensitive_features, len(score))
        out = np.empty(len(score))
        for k, own in enumerate(self._of_group):
            rows = code == k
            s = score[rows]
            moved = self._target(own.share(s)) + own.beyond(s)
            out[rows] = self._blend(s, moved)
        return out

    def fit_transform(
        self, scores: Any, y: Any = None, *, sensitive_features: Any, sample_weight: Any = None
    ) -> np.ndarray:
        """Fit, and repair the same scores.

        Parameters
        ----------
        scores, y, sensitive_features, sample_weight
            As in `fit`.

        Returns
        -------
        ndarray of shape (n,)
            The repaired scores.
        """
        fitted = self.fit(scores, y, sensitive_features=sensitive_features, sample_weight=sample_weight)
        return fitted.transform(scores, sensitive_features=sensitive_features)

    def _codes(self, sensitive_features: Any, n: int) -> np.ndarray:
        """Return the group of each row as a number; refuse one that was not there at fitting."""
        groups = check_groups(sensitive_features, n, at_least=1)
        known = {label: code for code, label in enumerate(self.groups_.tolist())}
        unknown = [label for label in groups.labels.tolist() if label not in known]
        if unknown:
            raise ValueError(
                f"`sensitive_features` must have groups that fit has seen, {listed(self.groups_)}, got "
                f"{listed(unknown)} too"
            )
        return np.array([known[label] for label in groups.labels.tolist()])[groups.code]

    # hooks of the two kinds of maps

    @property
    def _moves_all_the_way(self) -> bool:
        """Whether the repaired scores should have one distribution."""
        return True

    def _check_parameters(self) -> None:
        """Check the constructor's arguments."""

    def _fit_target(self, score: np.ndarray, weight: np.ndarray, groups: Groups, *, risk: bool) -> None:
        """Learn the common distribution."""

    def _target(self, u: np.ndarray) -> np.ndarray:
        """Return Q(u) of the common distribution."""
        raise NotImplementedError

    def _blend(self, s: np.ndarray, moved: np.ndarray) -> np.ndarray:
        """Return scores between the given and the moved ones."""
        return moved


class BarycenterRepair(_GroupwiseMap):
    """Moves every group's scores to their Wasserstein barycentre, all the way or a part of it.

    Of all scores with the same distribution in every group the barycentre is nearest to the given ones, in
    mean squared distance. Needs the group of every person at prediction.

    Parameters
    ----------
    strength : float, default=1.0
        How far to move, from 0 (not at all) to 1 (all distributions agree).

    Attributes
    ----------
    groups_ : ndarray of shape (k,)
        The groups seen; tuples where several columns were crossed.
    shares_ : ndarray of shape (k,)
        Their shares of the training weight, which weight their distributions.

    See Also
    --------
    BlindRepair : Needs the group at fitting only.

    Examples
    --------
    >>> from evenrisk.postprocessing import BarycenterRepair
    >>> repair = BarycenterRepair()
    >>> repair.fit_transform([0.1, 0.3, 0.5, 0.3, 0.5, 0.7], sensitive_features=list("aaabbb"))
    array([0.2, 0.4, 0.6, 0.2, 0.4, 0.6])
    """

    def __init__(self, strength: float = 1.0) -> None:
        self.strength = strength

    @property
    def _moves_all_the_way(self) -> bool:
        return bool(self.strength == 1)

    def _check_parameters(self) -> None:
        if check_number("strength", self.strength, low=0) > 1:
            raise ArgumentError("strength", f"must be a number from 0 to 1, got {self.strength!r:.60}")

    def _fit_target(self, score: np.ndarray, weight: np.ndarray, groups: Groups, *, risk: bool) -> None:
        mass = np.bincount(groups.code, weights=weight)
        self.shares_ = mass / mass.sum()

    def _target(self, u: np.ndarray) -> np.ndarray:
        return sum(share * each.score(u) for share, each in zip(self.shares_, self._of_group, strict=True))

    def _blend(self, s: np.ndarray, moved: np.ndarray) -> np.ndarray:
        return (1 - self.strength) * s + self.strength * moved


class HistogramMatcher(_GroupwiseMap):
    """Moves every group's scores to the distribution of a reference: histogram matching.

    Needs the group of every person at prediction. The paper suggests it in its conclusion.

    Parameters
    ----------
    reference : "pooled", a group or array-like of shape (m,), default="pooled"
        "pooled" is the distribution of all training scores together, a group that of its training scores, and
        an array a sample of scores whose distribution is wanted.

    Attributes
    ----------
    groups_ : ndarray of shape (k,)
        The groups seen; tuples where several columns were crossed.

    See Also
    --------
    BarycenterRepair : Moves the scores as little as possible.

    Examples
    --------
    >>> from evenrisk.postprocessing import HistogramMatcher
    >>> matcher = HistogramMatcher(reference="b")
    >>> matcher.fit_transform([0.1, 0.3, 0.5, 0.3, 0.5, 0.7], sensitive_features=list("aaabbb"))
    array([0.3, 0.5, 0.7, 0.3, 0.5, 0.7])
    """

    def __init__(self, reference: Any = "pooled") -> None:
        self.reference = reference

    def _fit_target(self, score: np.ndarray, weight: np.ndarray, groups: Groups, *, risk: bool) -> None:
        labels = groups.labels.tolist()
        if (
            isinstance(self.reference, (str, tuple, int, float, bool, np.generic))
            and self.reference in labels
        ):
            self._reference = self._of_group[labels.index(self.reference)]
        elif isinstance(self.reference, str) and self.reference == "pooled":
            self._reference = _distribution(score, weight, risk=risk)
        elif np.ndim(self.reference) == 1 and not isinstance(self.reference, tuple):
            sample = check_scores(self.reference, name="reference")
            inside = risk and sample.min() >= 0 and sample.max() <= 1
            self._reference = _distribution(sample, np.ones(len(sample)), risk=bool(inside))
        else:
            raise ArgumentError(
                "reference",
                f"must be 'pooled', one of the groups {listed(groups.labels)} or a sample of scores, got "
                f"{self.reference!r:.80}",
            )

    def _target(self, u: np.ndarray) -> np.ndarray:
        return self._reference.score(u)
