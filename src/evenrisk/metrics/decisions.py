"""What a cut-off decides in each group: counts and rates at any thresholds.

Conventions
-----------
k groups, r thresholds; a person is selected iff score > t, with t read in the precision of the scores. Counts
are rows; rates use the weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenrisk._validation import check_fraction, check_thresholds
from evenrisk.metrics._inputs import ScoredRows, scored_rows
from evenrisk.metrics._results import Interval
from evenrisk.metrics.inference import wilson


@dataclass(frozen=True, eq=False)
class Decisions:
    """Counts and rates of each group at each threshold.

    Attributes
    ----------
    thresholds : ndarray of shape (r,)
        The cut-offs.
    groups : tuple of str
        Names of the k groups.
    rows, positives : ndarray of shape (k,)
        Rows of each group, and those with the positive label (None without labels).
    selected, true_positives : ndarray of shape (k, r)
        Rows above the cut-off, and those of them with the positive label (None without labels).
    weight, positives_weight, selected_weight, true_positives_weight : ndarray
        The same in weights.
    effective : float
        Kish's effective number of rows, all groups together: (Σw)² / Σw².
    """

    thresholds: np.ndarray
    groups: tuple[str, ...]
    rows: np.ndarray
    positives: np.ndarray | None
    selected: np.ndarray
    true_positives: np.ndarray | None
    weight: np.ndarray
    positives_weight: np.ndarray | None
    selected_weight: np.ndarray
    true_positives_weight: np.ndarray | None
    effective: float

    @property
    def selection_rate(self) -> np.ndarray:
        """P(selected) (k, r)."""
        return self.selected_weight / self.weight[:, None]

    @property
    def tpr(self) -> np.ndarray:
        """P(selected given a positive label) (k, r); NaN where there is none."""
        hits, positives = self._labelled()
        return _ratio(hits, positives[:, None])

    @property
    def fpr(self) -> np.ndarray:
        """P(selected given a negative label) (k, r); NaN where there is none."""
        hits, positives = self._labelled()
        return _ratio(self.selected_weight - hits, (self.weight - positives)[:, None])

    @property
    def ppv(self) -> np.ndarray:
        """P(positive label given selected) (k, r); NaN where nobody is selected."""
        return _ratio(self._labelled()[0], self.selected_weight)

    @property
    def accuracy(self) -> np.ndarray:
        """P(selected exactly where the label is positive) (k, r)."""
        hits, positives = self._labelled()
        wrong = self.selected_weight - hits + positives[:, None] - hits
        return 1 - wrong / self.weight[:, None]

    def overall_accuracy(self, level: float = 0.95) -> list[Interval]:
        """Give the accuracy over all groups at each threshold, with Wilson's interval.

        Parameters
        ----------
        level : float, default=0.95
            Probability, of each interval on its own.

        Returns
        -------
        list of Interval
            One per threshold.
        """
        check_fraction("level", level)
        right = (self.accuracy * self.weight[:, None]).sum(axis=0) / self.weight.sum()
        ends = wilson(right, np.asarray(self.effective), level)
        return [Interval(*map(float, each)) for each in zip(right, *ends, strict=True)]

    def _labelled(self) -> tuple[np.ndarray, np.ndarray]:
        if self.true_positives_weight is None or self.positives_weight is None:
            raise ValueError("`y_true` is required for rates by label, got None")
        return self.true_positives_weight, self.positives_weight


def decisions(
    y_true: Any,
    y_score: Any,
    *,
    sensitive_features: Any,
    thresholds: Any,
    sample_weight: Any = None,
    pos_label: Any = None,
) -> Decisions:
    """Count what each cut-off decides in every group.

    Parameters
    ----------
    y_true : array-like of shape (n,) or None
        Two labels of any kind.
    y_score : array-like of shape (n,)
        Scores, any finite numbers.
    sensitive_features : array-like of shape (n,) or (n, m)
        The group of each row; several columns are crossed.
    thresholds : float or array-like of shape (r,)
        The cut-offs, read in the precision of the scores. Infinite ones select everybody or nobody.
    sample_weight : array-like of shape (n,), default=None
        Weight of each row.
    pos_label : label, default=None
        The positive label; the second in sorted order if None, with a warning where labels are words. With
        more than two labels, it against the rest.

    Returns
    -------
    Decisions
        Counts and rates.

    Examples
    --------
    >>> from evenrisk.datasets import load_compas
    >>> from evenrisk.metrics import decisions
    >>> data = load_compas()
    >>> score = data.frame["decile_score"]
    >>> at = decisions(data.y, score, sensitive_features=data.sensitive_features, thresholds=4)
    >>> at.selection_rate.round(3)
    array([[0.576],
           [0.331]])
    """
    data = (y_true, y_score, sensitive_features)
    rows = scored_rows(*data, "demographic_parity", sample_weight, pos_label)
    t = np.atleast_1d(check_thresholds("thresholds", thresholds))
    if t.ndim != 1 or t.size == 0:
        raise ValueError(f"`thresholds` must be one number or several, shape (r,), got shape {t.shape}")
    rows.tell_guess()
    return count(rows, t)


def count(rows: ScoredRows, t: np.ndarray) -> Decisions:
    """Count rows and weights above each threshold, in every group and among its positives."""
    everybody = [np.flatnonzero(rows.group == i) for i in range(len(rows.groups))]
    parts = _above(rows, everybody, t)
    positive: tuple[Any, ...] = (None,) * 4
    if rows.label is not None:
        label = rows.label
        positive = _above(rows, [index[label[index] == 1] for index in everybody], t)
    return Decisions(
        thresholds=t,
        groups=rows.groups,
        rows=parts[0],
        positives=positive[0],
        selected=parts[1],
        true_positives=positive[1],
        weight=parts[2],
        positives_weight=positive[2],
        selected_weight=parts[3],
        true_positives_weight=positive[3],
        effective=float(rows.weight.sum() ** 2 / (rows.weight**2).sum()),
    )


def _above(
    rows: ScoredRows, members: list[np.ndarray], t: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows, rows above t, weight and weight above t of each set of rows."""
    n, above, total, heavy = [], [], [], []
    asked = rows.cut_offs(t)
    for index in members:
        order = index[np.argsort(rows.score[index], kind="stable")]
        at = np.searchsorted(rows.score[order], asked, side="right")
        below = np.concatenate([[0.0], np.cumsum(rows.weight[order])])
        n.append(len(order))
        above.append(len(order) - at)
        total.append(below[-1])
        heavy.append(below[-1] - below[at])
    return np.array(n), np.array(above), np.array(total), np.array(heavy)


def _ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a / b, NaN where b is 0."""
    b = np.broadcast_to(b, a.shape)
    return np.divide(a, b, out=np.full(a.shape, np.nan), where=b > 0)
