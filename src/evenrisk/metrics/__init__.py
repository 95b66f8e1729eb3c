"""Measure the gap between groups at every threshold, for any score."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from evenrisk.metrics.equal_gap import quality_at_gap
from evenrisk.metrics.groups import (
    Decisions,
    Discrimination,
    RiskDistribution,
    decisions,
    risk_distribution,
)
from evenrisk.metrics.groups import count_decisions as count_decisions
from evenrisk.metrics.groups import distribution_of as distribution_of
from evenrisk.metrics.groups import score_range as score_range
from evenrisk.metrics.inference import Band, Certificate, Interval, Intervals
from evenrisk.metrics.inference import Inference as Inference
from evenrisk.metrics.profile import ThresholdProfile, threshold_profile
from evenrisk.metrics.profile import profile_of as profile_of
from evenrisk.metrics.resampling import NoiseFloor, PermutationTest
from evenrisk.metrics.resampling import generator as generator
from evenrisk.metrics.rows import ScoredRows as ScoredRows
from evenrisk.metrics.rows import check_compared_rows as check_compared_rows
from evenrisk.metrics.rows import check_parity as check_parity
from evenrisk.metrics.rows import check_people as check_people
from evenrisk.metrics.scorers import SCORERS
from evenrisk.parity import STRATA as STRATA
from evenrisk.parity import check_compared_groups as check_compared_groups

# Names imported "as" themselves are for `report`, which measures many scores of the same checked rows.
# They are no part of the documented interface.

globals().update(SCORERS)

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
    "quality_at_gap",
    "risk_distribution",
    "threshold_profile",
    *SCORERS,
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Callable[..., float]:
        """Return the type of a scorer: scorers are made from the rules, and no type checker sees them."""
