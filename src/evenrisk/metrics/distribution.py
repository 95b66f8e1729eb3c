"""Risk distributions: a histogram of the scores of every cell, on shared bins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenrisk._validation import check_number
from evenrisk.metrics._inputs import ScoredRows, scored_rows
from evenrisk.parity import Parity


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
        The group of each row; several columns are crossed.
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
    rows = scored_rows(y_true, y_score, sensitive_features, parity, sample_weight, pos_label)
    if rows.parity.needs_label:
        rows.tell_guess()
    low, high = score_range(rows.score)
    return distribution_of(rows, np.histogram_bin_edges(rows.score, n_bins, (low, high)))


def score_range(score: np.ndarray) -> tuple[float, float]:
    """[0, 1] where all scores are in there, else from the lowest to the highest."""
    low, high = float(score.min()), float(score.max())
    return (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)


def distribution_of(rows: ScoredRows, edges: np.ndarray) -> RiskDistribution:
    """Measure rows that have passed the door, on bins that cover all scores."""
    density = [
        np.histogram(rows.score[cell], edges, weights=rows.weight[cell], density=True)[0]
        if cell.any()
        else np.zeros(len(edges) - 1)
        for cell in (rows.code == code for code in range(rows.n_cells))
    ]
    shape = (len(rows.parity.strata), len(rows.groups), len(edges) - 1)
    return RiskDistribution(edges, np.reshape(density, shape), rows.groups, rows.parity)
