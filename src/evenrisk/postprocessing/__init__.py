"""Repair of scores that exist, without retraining: blind to the attribute at prediction, or aware of it."""

from evenrisk.postprocessing._aware import BarycenterRepair, HistogramMatcher
from evenrisk.postprocessing._blind import BlindRepair
from evenrisk.postprocessing._distill import Distillation, HeldOutQuality
from evenrisk.postprocessing._plane import RepairSurface
from evenrisk.postprocessing._price import price_of_blindness
from evenrisk.postprocessing._repaired_classifier import RepairedClassifier

__all__ = [
    "BarycenterRepair",
    "BlindRepair",
    "Distillation",
    "HeldOutQuality",
    "HistogramMatcher",
    "RepairSurface",
    "RepairedClassifier",
    "price_of_blindness",
]
