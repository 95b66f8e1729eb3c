"""evenrisk: risk scores that are fair at every threshold."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

# public name → the room it lives in; a room is opened when one of its names is asked for, so that
# `import evenrisk` and `evenrisk --help` cost nothing
_ROOMS = {
    "BudgetSearchCV": "model_selection",
    "FairKernelSVC": "svm",
    "FairLinearSVC": "svm",
    "FairLogisticRegression": "linear_model",
    "GapDistance": "distances",
    "GaussianDistance": "distances",
    "HistogramDistance": "distances",
    "Parity": "parity",
    "threshold_profile": "metrics",
}
_SUBMODULES = (
    *("baselines", "boosting", "datasets", "exceptions", "metrics", "model_selection"),
    *("neural_network", "nn", "plots", "report"),
)

__all__ = [
    "BudgetSearchCV",
    "FairKernelSVC",
    "FairLinearSVC",
    "FairLogisticRegression",
    "GapDistance",
    "GaussianDistance",
    "HistogramDistance",
    "Parity",
    "datasets",
    "metrics",
    "plots",
    "threshold_profile",
]

if TYPE_CHECKING:
    from evenrisk import datasets, metrics, plots
    from evenrisk.distances import GapDistance, GaussianDistance, HistogramDistance
    from evenrisk.linear_model import FairLogisticRegression
    from evenrisk.metrics import threshold_profile
    from evenrisk.model_selection import BudgetSearchCV
    from evenrisk.parity import Parity
    from evenrisk.svm import FairKernelSVC, FairLinearSVC


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return getattr(import_module(f"evenrisk.{_ROOMS[name]}"), name)
    if name in _SUBMODULES:
        return import_module(f"evenrisk.{name}")
    raise AttributeError(f"module 'evenrisk' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
