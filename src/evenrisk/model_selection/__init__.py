"""Choose η: to a budget for the gap, or by looking at the whole trade-off."""

from evenrisk.model_selection.budget import BudgetSearchCV
from evenrisk.model_selection.tradeoff import tradeoff_path

__all__ = ["BudgetSearchCV", "tradeoff_path"]
