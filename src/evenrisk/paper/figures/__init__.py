"""The paper's figures, each as PNG and SVG with the arrays behind it as CSV."""

from evenrisk.paper.figures.curves import parity_curves
from evenrisk.paper.figures.distributions import risk_distributions
from evenrisk.paper.figures.tradeoff import tradeoff

__all__ = ["parity_curves", "risk_distributions", "tradeoff"]
