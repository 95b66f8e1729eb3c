"""Displays: they draw arrays that `metrics` computed, and compute nothing."""

from evenrisk.plots._draw import COLORS, DASHES, MARKERS
from evenrisk.plots.parity_curve import ParityCurveDisplay
from evenrisk.plots.risk_distribution import RiskDistributionDisplay
from evenrisk.plots.tradeoff import TradeoffDisplay

__all__ = ["COLORS", "DASHES", "MARKERS", "ParityCurveDisplay", "RiskDistributionDisplay", "TradeoffDisplay"]
