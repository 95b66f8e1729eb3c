"""Exceptions and warnings that evenrisk raises."""

from sklearn.exceptions import ConvergenceWarning

from evenrisk._validation import (
    CollapseWarning,
    MajorityRateWarning,
    MisalignedIndexWarning,
    MissingSensitiveFeatures,
    ReversedRankingWarning,
    SmallCellWarning,
)

__all__ = [
    "CollapseWarning",
    "ConvergenceWarning",
    "MajorityRateWarning",
    "MisalignedIndexWarning",
    "MissingSensitiveFeatures",
    "ReversedRankingWarning",
    "SmallCellWarning",
]
