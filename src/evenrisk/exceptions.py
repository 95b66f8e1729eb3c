"""Exceptions and warnings that evenrisk raises."""

from sklearn.exceptions import ConvergenceWarning

from evenrisk._validation import (
    CollapseWarning,
    MajorityRateWarning,
    MissingSensitiveFeatures,
    ReversedRankingWarning,
    SmallCellWarning,
)

__all__ = [
    "CollapseWarning",
    "ConvergenceWarning",
    "MajorityRateWarning",
    "MissingSensitiveFeatures",
    "ReversedRankingWarning",
    "SmallCellWarning",
]
