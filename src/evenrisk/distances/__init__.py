"""Distances between two cells' score distributions: each is a feature map ψ and a residual, d = ‖r‖²."""

from evenrisk.distances._grid import Grid, GridDistance
from evenrisk.distances._protocol import Distance, Traits, cell_sum, cell_weights, evaluate, penalty, psi_sums
from evenrisk.distances.gap import GapDistance
from evenrisk.distances.gaussian import GaussianDistance
from evenrisk.distances.histogram import HistogramDistance

DISTANCES: dict[str, Distance] = {
    "gap": GapDistance(),
    "histogram": HistogramDistance(),
    "gaussian": GaussianDistance(),
}

__all__ = [
    "DISTANCES",
    "Distance",
    "GapDistance",
    "GaussianDistance",
    "Grid",
    "GridDistance",
    "HistogramDistance",
    "Traits",
    "cell_sum",
    "cell_weights",
    "evaluate",
    "penalty",
    "psi_sums",
]
