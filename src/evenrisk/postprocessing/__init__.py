"""Repair of scores that exist, without retraining: blind to the attribute at prediction, or aware of it."""

from evenrisk.postprocessing._aware import BarycenterRepair, HistogramMatcher
from evenrisk.postprocessing._blind import BlindRepair

__all__ = ["BarycenterRepair", "BlindRepair", "HistogramMatcher"]
