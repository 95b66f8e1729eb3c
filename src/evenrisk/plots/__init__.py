"""Displays: they draw arrays that `metrics` computed, and compute nothing."""

from evenrisk.plots._draw import COLORS, DASHES
from evenrisk.plots.parity_curve import ParityCurveDisplay
from evenrisk.plots.risk_distribution import RiskDistributionDisplay

__all__ = ["COLORS", "DASHES", "ParityCurveDisplay", "RiskDistributionDisplay"]
