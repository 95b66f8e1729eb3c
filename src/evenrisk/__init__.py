"""evenrisk: risk scores that are fair at every threshold."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

# public name → the submodule it lives in, which is imported when the name is asked for, so that
# `import evenrisk` and `evenrisk --help` cost nothing
_SUBMODULE_OF = {
    "BlindRepair": "postprocessing",
    "BudgetSearchCV": "model_selection",
    "Comparison": "parity",
    "FairKernelSVC": "svm",
    "FairLinearSVC": "svm",
    "FairLogisticRegression": "linear_model",
    "GapDistance": "distances",
    "GaussianDistance": "distances",
    "HistogramDistance": "distances",
    "Parity": "parity",
    "audit": "report",
    "show_versions": "_show_versions",
    "threshold_profile": "metrics",
}
# these need an extra (torch, lightgbm, xgboost), so they are not in `__all__`: `import *` works without
_SUBMODULE_OF_OPTIONAL = {
    "FairLGBMClassifier": "boosting",
    "FairMLPClassifier": "neural_network",
    "FairXGBClassifier": "boosting",
    "ParityLoss": "nn",
}
_SUBMODULES = (
    *("baselines", "boosting", "datasets", "exceptions", "metrics", "model_selection"),
    *("neural_network", "nn", "plots", "postprocessing", "report"),
)

__all__ = [
    "BlindRepair",
    "BudgetSearchCV",
    "Comparison",
    "FairKernelSVC",
    "FairLinearSVC",
    "FairLogisticRegression",
    "GapDistance",
    "GaussianDistance",
    "HistogramDistance",
    "Parity",
    "audit",
    "datasets",
    "metrics",
    "plots",
    "show_versions",
    "threshold_profile",
]

if TYPE_CHECKING:
    from evenrisk import datasets, metrics, plots
    from evenrisk._show_versions import show_versions
    from evenrisk.boosting import FairLGBMClassifier as FairLGBMClassifier
    from evenrisk.boosting import FairXGBClassifier as FairXGBClassifier
    from evenrisk.distances import GapDistance, GaussianDistance, HistogramDistance
    from evenrisk.linear_model import FairLogisticRegression
    from evenrisk.metrics import threshold_profile
    from evenrisk.model_selection import BudgetSearchCV
    from evenrisk.neural_network import FairMLPClassifier as FairMLPClassifier
    from evenrisk.nn import ParityLoss as ParityLoss
    from evenrisk.parity import Comparison, Parity
    from evenrisk.postprocessing import BlindRepair
    from evenrisk.report import audit
    from evenrisk.svm import FairKernelSVC, FairLinearSVC


def __getattr__(name: str) -> Any:
    if (home := (_SUBMODULE_OF | _SUBMODULE_OF_OPTIONAL).get(name)) is not None:
        return getattr(import_module(f"evenrisk.{home}"), name)
    if name in _SUBMODULES:
        return import_module(f"evenrisk.{name}")
    raise AttributeError(f"module 'evenrisk' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *_SUBMODULE_OF_OPTIONAL, "__version__"]
