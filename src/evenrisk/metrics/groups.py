"""Measures of each group by itself: what a cut-off decides, how the scores are distributed, AUC and ROC.

Conventions
-----------
k groups, r thresholds; a person is selected iff score > t, with t read in the precision of the scores. Counts
are rows; rates use the weights. An ROC curve runs from (0, 0) to (1, 1) through the rates at every distinct
score, descending; ties are its slanted parts. The interval of an AUC is Wilson's, with the number of rows
that a rate would need to be as uncertain (θ(1−θ) / variance): it stays in [0, 1], also at an AUC of 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenrisk._validation import (
    SMALL_CELL,
    ArgumentError,
    Comparison,
    check_fraction,
    check_number,
    check_thresholds,
)
from evenrisk.curves import auc, cell_curves
from evenrisk.metrics.inference import MANY_PAIRS, Interval, unseen, upper_quantile, wilson
from evenrisk.metrics.resampling import BinnedScores, generator
from evenrisk.metrics.rows import ScoredRows, scored_rows
from evenrisk.metrics.unions import BinnedUnions, binned_rows
from evenrisk.parity import Parity

GRID = 512  # false-positive rates at which resampled ROC curves are compared


@dataclass(frozen=True, eq=False)
class Decisions:
    """Counts and rates of each group at each threshold.

    Attributes
    ----------
    thresholds : ndarray of shape (r,)
        The cut-offs.
    groups : tuple of str
        Names of the k groups: those of every attribute.
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
        """Return the accuracy over all groups at each threshold, with Wilson's interval.

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
            raise ArgumentError("y_true", "is required for rates by label, got None")
        return self.true_positives_weight, self.positives_weight


def decisions(
    y_true: Any,
    y_score: Any,
    *,
    sensitive_features: Any,
    thresholds: Any,
    comparison: str | Comparison = "crossed",
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
        The group of each row, in one column or several.
    thresholds : float or array-like of shape (r,)
        The cut-offs, read in the precision of the scores. Infinite ones select everybody or nobody.
    comparison : str or Comparison, default="crossed"
        What the groups are, as in :func:`threshold_profile`: those of every attribute, between the cuts of an
        ordered one, and those that are too small to be compared.
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
    rows = scored_rows(*data, "demographic_parity", sample_weight, pos_label, comparison)
    t = np.atleast_1d(check_thresholds("thresholds", thresholds))
    if t.ndim != 1 or t.size == 0:
        raise ArgumentError("thresholds", f"must be one number or several, shape (r,), got shape {t.shape}")
    rows.warn_of_guess()
    return count_decisions(rows, t)


def count_decisions(rows: ScoredRows, t: np.ndarray) -> Decisions:
    """Return counts of rows and weights above each threshold, in every group and among its positives."""
    classes = [rows.of_class(j) for j in range(len(rows.groups))]
    parts = _above(classes, t)
    positive: tuple[Any, ...] = (None,) * 4
    if rows.label is not None:
        positive = _above([each.take(each.label == 1) for each in classes], t)
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


def _above(classes: list[ScoredRows], t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, rows above t, weight and weight above t of each class.

    Rows of a soft group count by their share of it.
    """
    n, above, total, heavy = [], [], [], []
    for rows in classes:
        order = np.argsort(rows.score, kind="stable")
        at = np.searchsorted(rows.score[order], rows.cut_offs(t), side="right")
        below = np.concatenate([[0.0], np.cumsum(rows.weight[order])])
        total.append(below[-1])
        heavy.append(below[-1] - below[at])
        if rows.part is None:
            n.append(len(order))
            above.append(len(order) - at)
        else:
            counted = np.concatenate([[0.0], np.cumsum(rows.part[order])])
            n.append(counted[-1])
            above.append(counted[-1] - counted[at])
    return np.array(n), np.array(above), np.array(total), np.array(heavy)


def _ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a / b, NaN where b is 0."""
    b = np.broadcast_to(b, a.shape)
    return np.divide(a, b, out=np.full(a.shape, np.nan), where=b > 0)


@dataclass(frozen=True, eq=False)
class RiskDistribution:
    """Density of the score in every group, by stratum.

    Attributes
    ----------
    edges : ndarray of shape (b + 1,)
        Bin edges, the same for all groups.
    density : ndarray of shape (h, k, b)
        Share of a group's weight in a bin, divided by the bin's width.
    groups : tuple of str
        Names of the k groups.
    parity : Parity
        The rule; ``parity.strata`` names the h strata.
    """

    edges: np.ndarray
    density: np.ndarray
    groups: tuple[str, ...]
    parity: Parity


def risk_distribution(
    y_true: Any,
    y_score: Any,
    *,
    sensitive_features: Any,
    parity: str | Parity = "demographic_parity",
    comparison: str | Comparison = "crossed",
    sample_weight: Any = None,
    n_bins: int = 40,
    pos_label: Any = None,
) -> RiskDistribution:
    """Measure the distribution of a score in every group.

    Parameters
    ----------
    y_true : array-like of shape (n,) or None
        Two labels of any kind. May be None under demographic parity.
    y_score : array-like of shape (n,)
        Scores. The bins cover [0, 1] where all scores are in there, else their range.
    sensitive_features : array-like of shape (n,) or (n, m)
        The group of each row, in one column or several.
    comparison : str or Comparison, default="crossed"
        What the groups are, as in :func:`decisions`.
    parity : str or Parity, default="demographic_parity"
        Under "equalized_odds" the distributions are split by label too.
    sample_weight : array-like of shape (n,), default=None
        Weight of each row.
    n_bins : int, default=40
        Number of bins.
    pos_label : label, default=None
        The positive label, as in :func:`threshold_profile`.

    Returns
    -------
    RiskDistribution
        Edges and densities.
    """
    n_bins = int(check_number("n_bins", n_bins, low=1, whole=True))
    rows = scored_rows(y_true, y_score, sensitive_features, parity, sample_weight, pos_label, comparison)
    if rows.parity.needs_label:
        rows.warn_of_guess()
    low, high = score_range(rows.score)
    return distribution_of(rows, np.histogram_bin_edges(rows.score, n_bins, (low, high)))


def score_range(score: np.ndarray) -> tuple[float, float]:
    """Return [0, 1] where all scores are in there, else from the lowest to the highest."""
    low, high = float(score.min()), float(score.max())
    return (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)


def distribution_of(rows: ScoredRows, edges: np.ndarray) -> RiskDistribution:
    """Measure checked rows, on bins that cover all scores."""
    classes = [rows.of_class(j) for j in range(len(rows.groups))]
    density = [
        np.histogram(each.score[here], edges, weights=each.weight[here], density=True)[0]
        if here.any()
        else np.zeros(len(edges) - 1)
        for stratum in range(len(rows.parity.strata))
        for each, here in ((each, each.stratum == stratum) for each in classes)
    ]
    shape = (len(rows.parity.strata), len(rows.groups), len(edges) - 1)
    return RiskDistribution(edges, np.reshape(density, shape), rows.groups, rows.parity)


@dataclass(frozen=True)
class Discrimination:
    """How well the score tells the two labels apart, by group.

    Attributes
    ----------
    overall : Interval
        AUC of all rows.
    auc : dict of str to Interval or None
        AUC of each group; None where the group has only one label.
    abroca : dict of (str, str) to Interval
        Area between the ROC curves of two groups, for all that are compared and have both labels.
    level : float
        Probability, of each interval on its own.
    """

    overall: Interval
    auc: dict[str, Interval | None]
    abroca: dict[tuple[str, str], Interval]
    level: float


def discrimination(rows: ScoredRows, level: float, n_resamples: int, random_state: Any) -> Discrimination:
    """Measure AUC and ABROCA with their intervals."""
    if not rows.has_both_labels or rows.label is None:
        came = "none" if rows.label is None else "one label only"
        raise ArgumentError("y_true", f"must hold two labels where AUC is asked for, got {came}")
    classes = [rows.of_class(j) for j in range(len(rows.groups))]
    areas = {each.groups[0]: _auc_interval(each, level) if each.has_both_labels else None for each in classes}
    return Discrimination(
        _auc_interval(rows, level), areas, _abroca(rows, level, n_resamples, random_state), level
    )


def _auc_interval(rows: ScoredRows, level: float) -> Interval:
    """Return the AUC with Wilson's interval at DeLong's variance, or at the largest one in small cells."""
    assert rows.label is not None
    value = auc(rows.score, rows.label, rows.weight)
    mine = [rows.label == label for label in (0, 1)]
    sizes = [rows.weight[m].sum() ** 2 / (rows.weight[m] ** 2).sum() for m in mine]
    n = min(sizes)  # Birnbaum: the variance is at most θ(1−θ) / min(n₀, n₁)
    if min(np.count_nonzero(m) for m in mine) >= SMALL_CELL:
        variance = _delong(rows)
        n = max(n, value * (1 - value) / variance) if variance > 0 else n
    low, high = wilson(np.asarray(value), np.asarray(n), level)
    return Interval(value, float(low), float(high))


def _delong(rows: ScoredRows) -> float:
    """Return the AUC's variance: Σ ŵ² (place − AUC)² over both labels, place: the share that a row beats."""
    curves = cell_curves(rows.score, rows.label, rows.weight, 2)
    at = np.searchsorted(curves.thresholds, rows.score)
    variance = 0.0
    for label, other in ((1, 0), (0, 1)):
        share = curves.mass[other] / curves.mass[other].sum()
        place = (1 - curves.above[other] - share / 2)[at]  # P(other < score) + ½P(other = score)
        mine = rows.label == label
        weight = rows.weight[mine] / rows.weight[mine].sum()
        centred = place[mine] - weight @ place[mine]
        squares = weight**2
        variance += float(squares @ centred**2 / (1 - squares.sum()))  # n / (n − 1), for any weights
    return variance


def _abroca(
    rows: ScoredRows, level: float, n_resamples: int, random_state: Any
) -> dict[tuple[str, str], Interval]:
    """Return ∫ |ROC_a − ROC_b| of every pair; its interval is as wide as that area of resampled moves."""
    rows = rows.under("equalized_odds")
    sizes = rows.union_sizes().reshape(2, -1).min(axis=0)
    possible = (sizes[rows.contrasts.pairs] > 0).all(axis=1)
    if not possible.any():
        return {}
    rows = rows.among(sizes > 0) if rows.compared is None else rows.where(possible)
    binned = binned_rows(rows)
    names, pairs = rows.contrasts.names, rows.contrasts.pairs
    curves = [roc(rows.of_union(u)) for u in range(len(names))]
    moved = _roc_moves(binned, n_resamples, random_state)  # (n_resamples, unions, GRID)
    fewest = binned.effective.reshape(2, -1).min(axis=0)  # of the rarer label
    alone = np.abs(moved).mean(axis=2)
    out = {}
    for a, b in pairs:
        if len(pairs) > MANY_PAIRS:
            areas = alone[:, a] + alone[:, b]
        else:
            areas = np.abs(moved[:, a] - moved[:, b]).mean(axis=1)
        width = max(upper_quantile(areas, level), float(unseen(min(fewest[a], fewest[b]), level)))
        value = area_between(curves[a], curves[b])
        out[names[a], names[b]] = Interval(value, max(value - width, 0.0), min(value + width, 1.0))
    return out


def _roc_moves(binned: BinnedScores | BinnedUnions, n_resamples: int, random_state: Any) -> np.ndarray:
    """Return ROC* − ROC of all that is compared on a grid of false-positive rates (n_resamples, u, GRID)."""
    below = binned.curves[0]
    x = (np.arange(GRID) + 0.5) / GRID
    start = _on_grid(below[:1], below[1:], x)
    parts = []
    for deviation in binned.deviations(n_resamples, generator(random_state)):
        moved = deviation[:, : binned.n_compared].reshape(len(deviation), *below.shape) + below
        parts.append(_on_grid(moved[:, 0], moved[:, 1], x) - start)
    return np.concatenate(parts)


def _on_grid(negatives: np.ndarray, positives: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return ROC curves at false-positive rates x, from distribution functions (b, k, m) → (b, k, GRID)."""
    out = np.empty((*negatives.shape[:2], len(x)))
    for i, j in np.ndindex(*negatives.shape[:2]):
        fpr = np.maximum.accumulate(1 - negatives[i, j, ::-1])
        out[i, j] = np.interp(x, np.append(fpr, 1.0), np.append(1 - positives[i, j, ::-1], 1.0))
    return out


def roc(rows: ScoredRows) -> tuple[np.ndarray, np.ndarray]:
    """Return the false- and true-positive rate at every distinct score, from (0, 0) to (1, 1)."""
    above = cell_curves(rows.score, rows.label, rows.weight, 2).above
    return tuple(np.append(above[label, ::-1], 1.0) for label in (0, 1))  # type: ignore[return-value]


def area_between(a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray]) -> float:
    """∫₀¹ |ROC_a(x) − ROC_b(x)| dx, exact: both are straight between the false-positive rates of either."""
    x = np.union1d(a[0], b[0])
    left, right = (_inside(a, x, side) - _inside(b, x, side) for side in ("left", "right"))
    size = np.abs(left) + np.abs(right)
    crossing = left * right < 0
    with np.errstate(invalid="ignore", divide="ignore"):
        area = np.where(crossing, (left**2 + right**2) / (2 * size), size / 2)
    return float(area @ np.diff(x))


def _inside(curve: tuple[np.ndarray, np.ndarray], x: np.ndarray, side: str) -> np.ndarray:
    """Return values at one end of every interval of x, from within it: a curve may jump at the end itself."""
    fpr, tpr = curve
    ends = x[:-1] if side == "left" else x[1:]
    piece = np.searchsorted(fpr, x[:-1], side="right") - 1  # last point at or before the interval's start
    share = (ends - fpr[piece]) / (fpr[piece + 1] - fpr[piece])
    return tpr[piece] + share * (tpr[piece + 1] - tpr[piece])
