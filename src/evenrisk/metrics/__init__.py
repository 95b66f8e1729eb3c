"""Measure the gap between groups at every threshold, for any score."""

from evenrisk.metrics._results import (
    Band,
    Certificate,
    Discrimination,
    Interval,
    Intervals,
    NoiseFloor,
    PermutationTest,
)
from evenrisk.metrics.decisions import Decisions, decisions
from evenrisk.metrics.distribution import RiskDistribution, risk_distribution
from evenrisk.metrics.profile import ThresholdProfile, threshold_profile
from evenrisk.metrics.scorers import (
    max_demographic_parity_difference,
    max_equal_opportunity_difference,
    max_equalized_odds_difference,
    max_predictive_equality_difference,
    mean_demographic_parity_difference,
    mean_equal_opportunity_difference,
    mean_equalized_odds_difference,
    mean_predictive_equality_difference,
    rank_demographic_parity_difference,
    rank_equal_opportunity_difference,
    rank_equalized_odds_difference,
    rank_predictive_equality_difference,
)

__all__ = [
    "Band",
    "Certificate",
    "Decisions",
    "Discrimination",
    "Interval",
    "Intervals",
    "NoiseFloor",
    "PermutationTest",
    "RiskDistribution",
    "ThresholdProfile",
    "decisions",
    "max_demographic_parity_difference",
    "max_equal_opportunity_difference",
    "max_equalized_odds_difference",
    "max_predictive_equality_difference",
    "mean_demographic_parity_difference",
    "mean_equal_opportunity_difference",
    "mean_equalized_odds_difference",
    "mean_predictive_equality_difference",
    "rank_demographic_parity_difference",
    "rank_equal_opportunity_difference",
    "rank_equalized_odds_difference",
    "rank_predictive_equality_difference",
    "risk_distribution",
    "threshold_profile",
]
