"""Displays: they draw what was measured elsewhere."""

from evenrisk.plots._draw import COLORS, DASHES, MARKERS
from evenrisk.plots.gap_by_cut import GapByCutDisplay
from evenrisk.plots.parity_curve import ParityCurveDisplay
from evenrisk.plots.price_of_blindness import PriceOfBlindnessDisplay
from evenrisk.plots.repair_plane import RepairPlaneDisplay
from evenrisk.plots.risk_distribution import RiskDistributionDisplay
from evenrisk.plots.tradeoff import TradeoffDisplay

__all__ = [
    "COLORS",
    "DASHES",
    "MARKERS",
    "GapByCutDisplay",
    "ParityCurveDisplay",
    "PriceOfBlindnessDisplay",
    "RepairPlaneDisplay",
    "RiskDistributionDisplay",
    "TradeoffDisplay",
]
