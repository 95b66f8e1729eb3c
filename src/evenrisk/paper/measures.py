"""What is measured on scores: the columns of the tables, the noise floor, and a score rescaled."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from evenrisk.metrics import threshold_profile

COLUMNS = ("accuracy", "gap", "interval", "std", "max_gap", "rank_gap", "auc", "score_sd")
OF_CHANCE = ("gap", "interval", "std", "max_gap", "rank_gap")  # the columns that chance alone makes positive
GRID = np.linspace(0, 1, 201)  # thresholds at which curves of several splits are averaged
PERMUTATIONS = 200  # per split
LARGEST_SLOPE = 1e3  # a score stretched this much is 0 or 1


def measure(y: np.ndarray, s: np.ndarray, group: np.ndarray, parity: str) -> dict[str, float]:
    """Give every column of the tables."""
    profile = threshold_profile(y, s, sensitive_features=group, parity=parity)
    return {
        "accuracy": float(((s > 0.5) == y).mean()),
        **_gaps(profile),
        "auc": float(roc_auc_score(y, s)),
        "score_sd": float(s.std()),
    }


def _gaps(profile: Any) -> dict[str, float]:
    return {
        "gap": profile.at(0.5),
        "interval": profile.interval(),
        "std": profile.std(),
        "max_gap": profile.max_gap,
        "rank_gap": profile.rank_gap,
    }


def by_chance(
    y: np.ndarray, s: np.ndarray, group: np.ndarray, parity: str, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Measure the gaps, and the curve, of a score under permuted groups: within labels for equalized odds."""
    labels = np.zeros(len(y)) if parity == "demographic_parity" else y
    strata = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    found: dict[str, list[Any]] = {name: [] for name in (*OF_CHANCE, "curve")}
    for _ in range(PERMUTATIONS):
        permuted = group.copy()
        for rows in strata:
            permuted[rows] = rng.permutation(group[rows])
        profile = threshold_profile(y, s, sensitive_features=permuted, parity=parity)
        for name, value in (_gaps(profile) | {"curve": profile.at(GRID)}).items():
            found[name].append(value)
    return {name: np.array(values) for name, values in found.items()}


def rescaled(s: np.ndarray, sd: float) -> np.ndarray:
    """Multiply the raw score by the constant that gives sigmoid(k·g) the standard deviation `sd`.

    Accuracy, the gap at 0.5 and the max gap stay as they were: nobody changes sides and the order is kept.
    """
    from scipy.optimize import brentq
    from scipy.special import expit, logit

    g = logit(s)

    def excess(log_k: float) -> float:
        return float(expit(np.exp(log_k) * g).std()) - sd

    low, high = -np.log(LARGEST_SLOPE), np.log(LARGEST_SLOPE)
    if excess(high) < 0:  # even as 0 and 1 it does not spread that far
        return np.asarray(expit(LARGEST_SLOPE * g))
    if excess(low) > 0:
        return np.asarray(expit(g / LARGEST_SLOPE))
    return np.asarray(expit(np.exp(brentq(excess, low, high, xtol=1e-12)) * g))
