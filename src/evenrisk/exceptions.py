"""Exceptions and warnings that evenrisk raises."""

from sklearn.exceptions import ConvergenceWarning

from evenrisk._validation import (
    BudgetWarning,
    CollapseWarning,
    MajorityRateWarning,
    MisalignedIndexWarning,
    MissingSensitiveFeatures,
    RepairWarning,
    ReversedRankingWarning,
    SmallCellWarning,
)

__all__ = [
    "BudgetWarning",
    "CollapseWarning",
    "ConvergenceWarning",
    "MajorityRateWarning",
    "MisalignedIndexWarning",
    "MissingSensitiveFeatures",
    "RepairWarning",
    "ReversedRankingWarning",
    "SmallCellWarning",
]
