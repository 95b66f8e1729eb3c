"""Gradient-boosted trees with the penalty: LightGBM's and XGBoost's, as they are.

Conventions
-----------
g (n,) raw scores (margins) of the training rows; a *leaf* is a set of rows that one tree moves together.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from evenrisk.boosting._objective import ParityObjective

if TYPE_CHECKING:
    from evenrisk.boosting._lightgbm import FairLGBMClassifier
    from evenrisk.boosting._xgboost import FairXGBClassifier

__all__ = ["FairLGBMClassifier", "FairXGBClassifier", "ParityObjective"]

_MODULES = {"FairLGBMClassifier": "_lightgbm", "FairXGBClassifier": "_xgboost"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"evenrisk.boosting.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'evenrisk.boosting' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
